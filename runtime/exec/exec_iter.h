/*
 * exec_iter.h - iterators of a run, and the compiled functions they call
 */
#ifndef TFD_RUNTIME_EXEC_EXEC_ITER_H
#define TFD_RUNTIME_EXEC_EXEC_ITER_H

#include "runtime/data/data.h"
#include "runtime/exec/exec_load.h"

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

/* The functions that datasets call; before any executor is made. */
Status rt_load_elements(RtRun *run) MUST_USE;
Status rt_open_iterators(RtRun *run) MUST_USE;
void rt_close_iterators(RtRun *run);

#endif
