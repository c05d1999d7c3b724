/*
 * tfd_run_options.h - the options of tfd-run
 */
#ifndef TFD_RUNTIME_TFD_RUN_OPTIONS_H
#define TFD_RUNTIME_TFD_RUN_OPTIONS_H

#include "ir/base/io/options.h"

enum {
    OPT_SET,
    OPT_LIMIT,
    OPT_DATA,
    OPT_LOG_DIR,
    OPT_DEVICES,
    OPT_SEED,
    OPT_THREADS,
    OPT_CHECKPOINT,
    OPT_EVERY,
    OPT_RESUME,
    OPT_TIMEOUT,
    OPT_QUIET,
    OPT_PROGRESS,
    OPT_STATS,
    OPT_PROFILE,
    OPT_COMPARE,
    OPT_COMPARE_STEPS,
    OPT_CHECK_NAN,
    OPT_CHECKSUM,
    OPT_INFO,
    OPT_LIST,
    OPT_PROCESSES,
    OPT_RESTARTS,
    OPT_MIN_PROCESSES,
    OPT_RANK,
    OPT_SIZE,
    OPT_JOIN,
    OPT_CLUSTER,
    OPT_TASK,
    OPT_SERVE,
    OPT_COORDINATE,
    OPT_TASKS,
    OPT_LISTEN,
    OPT_KEY,
    OPT_LINK,
    OPT_MPI,
    OPT_WIRE,
    OPT_SILENCE,
    OPT_STALENESS,
    OPT_ATOMIC,
    OPT_SYNC,
    OPT_DIAGNOSE,
    OPT_RESOLVE,
    OPT_PREFLIGHT,
    OPT_STATUS,
    OPT_METRICS,
    OPT_LOCAL_CLUSTER,
    OPT_PLACEMENT,
    NUM_OPTS
};

extern const OptionTable tfd_run_options;

#endif
