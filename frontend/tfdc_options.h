/*
 * tfdc_options.h - the options of tfdc
 */
#ifndef TFD_FRONTEND_TFDC_OPTIONS_H
#define TFD_FRONTEND_TFDC_OPTIONS_H

#include "ir/base/io/options.h"

enum {
    OPT_OUT,
    OPT_STRATEGY,
    OPT_DEVICES,
    OPT_WORKERS,
    OPT_PARAMETERS,
    OPT_CROSS,
    OPT_COLLECTIVES,
    OPT_DEFINE,
    OPT_LIMIT,
    OPT_TO,
    OPT_FROM,
    OPT_PASSES,
    OPT_DUMP,
    OPT_PRINT_AFTER,
    OPT_VERIFY,
    OPT_TIME,
    OPT_EXPAND,
    OPT_EXPLAIN,
    OPT_TARGET,
    OPT_PRECISION,
    OPT_CHECK_NAN,
    OPT_WIDEN,
    OPT_LEVEL,
    NUM_OPTS
};

/* The words of --to. */
typedef enum Phase {
    TO_AST,
    TO_IR,
    TO_PLACED,
    TO_KERNELS,
    TO_LLVM,
    TO_ASM,
    TO_PTX,
    TO_PLAN
} Phase;

extern const OptionTable tfdc_options;

#endif
