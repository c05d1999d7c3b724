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

/* The words of dims with the rows of one replica, which all replicas know. */
typedef struct RtReplicaWord {
    int word, replica;
} RtReplicaWord;

typedef VEC(RtReplicaWord) RtReplicaRows;

struct RtHostOp {
    RtOpRun *run;
    bool only_enqueues;
    const IrOp *op;
    int32_t site;       /* of a job, where processes wait there */
    int32_t collective; /* of the run's collectives, starts and dones */
    RtValue *in, *out;
    const char *format; /* its text, with the values of params in it */
    union {
        struct { /* collectives */
            RtCollInstance *instance;
            double timeout; /* of its own, in seconds; 0: none */
        };
        struct {
            RtIterBinding *iterator;
            int batch; /* its number in dims; -1: none */
            const RtReplicaRows *replica_rows; /* NULL where batch is -1 */
        };
        RtLaunch *launch;
        const char *param;  /* its value, in its dtype */
        const IrVar *var;   /* fetch_var */
        bool each;          /* print: a line of each replica */
        RtFunction *update; /* push */
    };
};

struct RtFunction {
    IrFunc *ir;
    TfdFunction *code;
    int number; /* of a device program, in the plan */
    RtHostOp *ops;
    int num_ops, num_safepoints;
    IrOps positions;               /* what TfdCall.at counts */
    int first_slot;                /* of a profile: that of position 0 */
    struct RtCheckedSite *checked; /* of --check-nan: for each position */
    int num_in, num_out;
    bool prints_each;             /* lines of each replica */
    VEC(const RtHostOp *) starts; /* collectives, in order */
};

/* Resolves what an operation needs at run time. */
typedef Status RtOpPrepare(RtRun *run, RtFunction *fn, RtHostOp *h);

/* A kind of operation that the runtime executes; prepare is NULL for others. */
typedef struct RtHostOpInfo {
    unsigned where;     /* allowed contexts: a bit for each IrFuncKind */
    bool only_enqueues; /* in programs that are ahead of their devices */
    RtOpRun *run;
    RtOpPrepare *prepare;
} RtHostOpInfo;

/* Where v, a value of fn, is and how large; refuses places that it may not
 * have.
 */
Status rt_load_value(const RtRun *run, const RtFunction *fn,
                     const IrValue *from, RtValue *v) MUST_USE;
/* Computes the size of device arenas for the module's places. */
Status rt_measure_arena(RtRun *run) MUST_USE;
/* Requires arenas of at least that many bytes, beyond the module's places. */
Status rt_reserve_arena(RtRun *run, int64_t end) MUST_USE;
/* The function of that name and kind; prepared on the first call. */
Status rt_load_function(RtRun *run, const char *name, IrFuncKind kind,
                        RtFunction **out) MUST_USE;

#endif
