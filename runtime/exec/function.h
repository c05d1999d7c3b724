/*
 * function.h - functions of the placed module, loaded
 *
 * A function has its code, and a row for each operation that the code leaves
 * to the runtime, in the order of ir/analysis/hooks.h.
 */
#ifndef TFD_RUNTIME_EXEC_FUNCTION_H
#define TFD_RUNTIME_EXEC_FUNCTION_H

#include "ir/analysis/hooks.h"
#include "runtime/exec/executor.h"

typedef struct RtLaunch RtLaunch;
typedef struct RtIterBinding RtIterBinding;

typedef int32_t RtOpRun(RtInvocation *inv, const RtHostOp *h);

/* Where dims have the rows of one replica, for all to see. */
typedef struct RtReplicaWord {
    int word, replica;
} RtReplicaWord;

typedef VEC(RtReplicaWord) RtReplicaRows;

struct RtHostOp {
    RtOpRun *run;
    const IrOp *op;
    RtValue *in, *out;
    union {
        RtCollInstance *instance; /* collectives */
        struct {
            RtIterBinding *iterator;
            int batch; /* its number in dims; -1: none */
            const RtReplicaRows *replica_rows; /* NULL where batch is -1 */
        };
        RtLaunch *launch;
        const char *param; /* its value, in its dtype */
        const IrVar *var;  /* fetch_var */
        bool each;         /* print: a line of each replica */
    };
};

struct RtFunction {
    IrFunc *ir;
    TfdFunction *code;
    RtHostOp *ops;
    int num_ops, num_safepoints;
    IrOps positions; /* what TfdCall.at counts */
    int num_in, num_out;
    VEC(const RtHostOp *) starts; /* collectives, in order */
};

/* Resolves what an operation needs at run time. */
typedef Status RtOpPrepare(RtRun *run, RtFunction *fn, RtHostOp *h);

/* A kind of operation that the runtime executes; prepare is NULL for others. */
typedef struct RtHostOpInfo {
    unsigned where; /* it may stand: a bit for each IrFuncKind */
    RtOpRun *run;
    RtOpPrepare *prepare;
} RtHostOpInfo;

/* Finds how large device arenas must be for what the module places. */
Status rt_measure_arena(RtRun *run) MUST_USE;
/* Arenas of at least so many bytes, beyond what the module places. */
Status rt_reserve_arena(RtRun *run, int64_t end) MUST_USE;
/* The function of that name and kind; prepared when first asked for. */
Status rt_load_function(RtRun *run, const char *name, IrFuncKind kind,
                        RtFunction **out) MUST_USE;

#endif
