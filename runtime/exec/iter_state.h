/*
 * iter_state.h - the iterators of a run, and the dataset functions in use
 */
#ifndef TFD_RUNTIME_EXEC_ITER_STATE_H
#define TFD_RUNTIME_EXEC_ITER_STATE_H

#include "runtime/data/data.h"
#include "runtime/exec/agreement.h"
#include "runtime/exec/executor.h"

/* A parameter of a program that is a component of the batch. */
typedef struct RtBatchParam {
    RtInvocation *inv;
    int number;
} RtBatchParam;

/* A component of the batch on a replica that programs read where the iterator
 * has it. */
typedef struct RtBatchPart {
    RtMemory memory; /* of the current step */
    VEC(RtBatchParam) params;
} RtBatchPart;

struct RtIterBinding {
    const IrIter *ir;
    bool is_evaluators; /* main evaluate has it, and nobody else */
    RtIter *iter;
    int64_t bound, all_bound; /* of the rows of a replica, and of all */
    RtNextStep agreed;        /* with the other processes */
    const RtHostOp *next;     /* one that takes its steps; NULL: none does */
    /* Of devices with memory of their own: steps are copied to slots in turn. */
    int num_slots;  /* 0: there is none */
    int64_t *slots; /* for each, and each component: where in a replica's
                       arena */
    int current;    /* the slot of the current step; 0 without slots */
    int first;      /* the slot of the next step */
    int num_ahead;  /* slots from there on that have steps */
    RtEvent *copied; /* for each slot and device: the step's data are read */
    RtEvent *taken;  /* and the slot is */
    /* Of devices whose memory is the host's. */
    bool *in_place;     /* for each component: programs read it in place */
    RtBatchPart *parts; /* for each replica of this process, and component */
};

/* A dataset function in use: one thread at a time calls it. */
typedef struct RtElementCall {
    RtElementFn fn; /* that pipelines call */
    RtInvocation inv;
    RtExecutor executor;
} RtElementCall;

#endif
