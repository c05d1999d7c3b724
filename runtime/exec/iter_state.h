/*
 * iter_state.h - the iterators of a run, and the dataset functions in use
 */
#ifndef TFD_RUNTIME_EXEC_ITER_STATE_H
#define TFD_RUNTIME_EXEC_ITER_STATE_H

#include "runtime/data/data.h"
#include "runtime/exec/executor.h"

struct RtIterBinding {
    const IrIter *ir;
    RtIter *iter;
    int64_t bound, all_bound; /* of the rows of a replica, and of all */
};

/* A dataset function in use: one thread at a time calls it. */
typedef struct RtElementCall {
    RtElementFn fn; /* that pipelines call */
    RtInvocation inv;
    RtExecutor executor;
} RtElementCall;

#endif
