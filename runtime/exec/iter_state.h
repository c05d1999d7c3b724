/*
 * iter_state.h - the iterators of a run, and the dataset functions in use
 */
#ifndef TFD_RUNTIME_EXEC_ITER_STATE_H
#define TFD_RUNTIME_EXEC_ITER_STATE_H

#include "runtime/data/data.h"
#include "runtime/exec/agreement.h"
#include "runtime/exec/executor.h"

struct RtIterBinding {
    const IrIter *ir;
    RtIter *iter;
    int64_t bound, all_bound; /* of the rows of a replica, and of all */
    RtNextStep agreed;        /* with the other processes */
    const RtHostOp *next;     /* one that takes its steps; NULL: none does */
    int64_t *slots;  /* of devices with memory of their own: where in each
                        replica's arena a step is copied, for each component */
    bool is_ahead;   /* the slots have the next step */
    RtEvent *copied; /* for each device: the current step's data are read, */
    RtEvent *ahead;  /* and the next one's */
    RtEvent *taken;  /* the slots are read */
};

/* A dataset function in use: one thread at a time calls it. */
typedef struct RtElementCall {
    RtElementFn fn; /* that pipelines call */
    RtInvocation inv;
    RtExecutor executor;
} RtElementCall;

#endif
