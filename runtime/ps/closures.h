/*
 * closures.h - launches of main as closures: arguments there, results back
 *
 * What a closure needs travels as bytes: values of main's frame, and rows that
 * main has on its devices.  Elements of a dataset that each worker has are
 * taken where the closure is executed; the coordinator says only which pass of
 * it is meant.  Results come back as the rows that the worker's replicas have;
 * sizes of batches come with them.
 */
#ifndef TFD_RUNTIME_PS_CLOSURES_H
#define TFD_RUNTIME_PS_CLOSURES_H

#include "runtime/exec/run_state.h"
#include "runtime/ps/parts/rows.h"
#include "runtime/ps/queue.h"

/* How an operand of a launch comes to the worker. */
typedef enum RtArgument {
    RT_ARGUMENT_host,   /* the bytes of main's value */
    RT_ARGUMENT_row,    /* those of each replica */
    RT_ARGUMENT_element /* a feed makes it */
} RtArgument;

typedef VEC(int) RtVarList;

/* A launch of main. */
typedef struct RtClosureOp {
    const RtHostOp *h; /* NULL: main's operation is no launch */
    int number;        /* in RtClosures.list */
    bool is_scheduled;
    RtArgument *arguments;       /* for each operand */
    VEC(const RtHostOp *) feeds; /* iter_next of per-worker iterators */
    /* Variables that the program which is executed reads, all of them or rows
     * that its operands name, and writes. */
    RtVarList reads, writes;
    VEC(RtLookup) lookups;
    /* The coordinator's: what the closure that was scheduled last will give,
     * and which of it main's rows have.  NULL: nothing. */
    RtFuture *future;
    bool *is_set;
    int64_t cancelled; /* its id, if it has no results; else 0 */
} RtClosureOp;

typedef struct RtClosures {
    RtRun *run;
    const RtFunction *main;
    RtClosureOp *of_main; /* for each of main's operations */
    VEC(RtClosureOp *) list;
    uint64_t *passes;  /* of each iterator: how often main opened it, */
    uint64_t *numbers; /* and which pass over its dataset that was */
} RtClosures;

/* The launches of main, in run's arena. */
void rt_closures_init(RtClosures *c, RtRun *run, const RtFunction *main);
/* Main opens an iterator whose elements workers take.  All iterators of a
 * dataset share the numbers of its passes. */
void rt_closures_open(RtClosures *c, int iter);
/* That of an operation of main. */
RtClosureOp *rt_closure_of(const RtClosures *c, const RtHostOp *h);
/* The closure whose result a value of main is; NULL: it is none. */
RtClosureOp *rt_closure_of_value(const RtClosures *c, const IrValue *v);
/* Whether workers, and not main, take the elements of this iterator. */
bool rt_is_workers_iterator(const RtIterBinding *it);

/* One function for both directions: main is the invocation whose values are
 * sent, or set.  A size that does not fit is wrong. */
void rt_closure_arguments(RtClosures *c, const RtClosureOp *op,
                          RtInvocation *main, RtArchive *ar);
/* The elements that it takes, of the passes that main is in now. */
void rt_closure_feeds(const RtClosures *c, const RtClosureOp *op, RtFeeds *out);
/* The worker: writes all results, of all replicas. */
void rt_closure_results(RtClosures *c, const RtClosureOp *op, RtArchive *ar);
/* The coordinator: sets one of them from what the worker wrote. */
void rt_closure_result(RtClosures *c, const RtClosureOp *op, int index,
                       RtArchive *ar);

#endif
