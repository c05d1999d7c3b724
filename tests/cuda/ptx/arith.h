/*
 * arith.h - the instructions of instructions.def
 */
#ifndef TFD_TESTS_CUDA_PTX_ARITH_H
#define TFD_TESTS_CUDA_PTX_ARITH_H

#include "tests/cuda/ptx/program.h"

typedef enum Type {
#define TYPE(name, bytes, class) TYPE_##name,
#include "tests/cuda/ptx/types.def"
#undef TYPE
    NUM_TYPES
} Type;

typedef struct ArithRow {
    const char *name;
    Execute *execute;
    uint8_t num_src;
    Type dst, src[4];
} ArithRow;

/* The last one has no name. */
extern const ArithRow ptx_arith[];

#endif
