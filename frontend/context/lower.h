/*
 * lower.h - the state of lowering, from the tree to the IR
 *
 * Lowering is one walk over the tree as a partial evaluator.  An expression
 * evaluates to an FeValue (value.h); values that are not known at compile time
 * are operations, which are appended to cx->block.  Functions are inlined where
 * they are called.  Where an operation stands is always known: cx->context.
 *
 * Errors go through fe_error, which adds the chain of calls, and evaluate to
 * POISON (an IrValue: NULL).  Every function here takes poisoned values and
 * NULLs and then gives POISON, NULL or false without another message.
 *
 * Lowering may be undone: a loop is first tried as a loop of the IR, and
 * unrolled when its index turns out to be needed as a constant.  Whatever
 * lowering adds to the module is therefore either emitted to a block, or
 * appended to iters, symbols, datasets or the functions (all cut back), or made
 * once for a key and found again (slots, counters of random numbers).
 */
#ifndef TFD_FRONTEND_CONTEXT_LOWER_H
#define TFD_FRONTEND_CONTEXT_LOWER_H

#include "frontend/frontend.h"
#include "frontend/value/value.h"
#include "ir/base/io/limit.h"
#include "ir/ir.h"

typedef struct Lower Lower;
typedef struct FeBinding FeBinding; /* scope.h */
typedef struct FeLoop FeLoop;       /* lower/lower_impl.h */
typedef struct FeExits FeExits;     /* lower_control.c */
typedef struct FeVars FeVars;       /* vars/vars.h */
typedef struct FeData FeData;       /* data/data.h */

/* Where the code being lowered is executed. */
typedef enum FeContext {
    FE_TOP,     /* declarations, in no function; only constants are possible */
    FE_CROSS,   /* main */
    FE_CLOSURE, /* schedule: cross-replica, of the worker that executes it */
    FE_REPLICA, /* run */
    FE_MERGE,   /* merge: cross-replica for a moment */
    FE_UPDATE,  /* update v { } */
    FE_DATA,    /* a function of a dataset, on the host */
    FE_INIT     /* the initial value of a variable */
} FeContext;

/* Control flow whose condition may differ among the replicas, around the code
 * being lowered in this replica context. */
typedef struct FeDivergence FeDivergence;
struct FeDivergence {
    FeDivergence *outer;
    const char *what;    /* "if", "while", "for" */
    Loc loc;             /* the condition */
    const AstNode *cond; /* the same; NULL where none is written */
    FeScope *scope;      /* the names in cond */
    bool is_else;        /* where it does not hold */
    IrOp *op;            /* its regions are what is lowered */
    VEC(int64_t) sites;  /* of random numbers in it that count its turns */
};

/* An assignment that may have to be undone. */
typedef struct FeWrite {
    FeBinding *binding;
    FeValue *before;
} FeWrite;

/* A source file that is used. */
typedef struct FeFile {
    const char *path;
    FeScope *scope;
} FeFile;

/* An index that names something of an axis, from its block on. */
typedef struct FeCheckedIndex {
    const IrValue *index;
    Dim size;
    const IrBlock *block;
} FeCheckedIndex;

/* A gradient of a loss that all replicas have summed already; a mistake where
 * the gradients are summed, too. */
typedef struct FeSummedLoss {
    const IrOp *grad, *sum;
    Loc written; /* the loss */
    const IrCall *calls;
} FeSummedLoss;

struct Lower {
    Arena *arena; /* of the module: everything lives there */
    IrModule *module;
    Intern *names;
    Diag *diag;
    const FeOptions *options;

    IrBlock *block;   /* where operations are appended; NULL in FE_TOP */
    IrFunc *detached; /* of no module: has the operations of FE_TOP */
    FeContext context;
    FeScope *scope;
    FeLoop *loop;             /* innermost of this function, or NULL */
    FeExits *exits;           /* that early exits are noted in, or NULL */
    FeDivergence *divergence; /* innermost, or NULL; use fe_divergence */
    IrVar *updated;           /* FE_UPDATE: its variable, NULL for non_slot */
    const IrType *init_type;  /* FE_INIT: of the variable */

    /* What contractions of f32 are computed in; NULL outside of precision(). */
    const DType *precision;

    bool strategy_is_implied;    /* the number of devices chose it */
    FeScope *builtins, *file;    /* outermost names; those of the main file */
    VEC(FeWrite) writes;         /* assignments to muts, oldest first */
    VEC(FeCheckedIndex) checked; /* oldest first */
    VEC(FeSummedLoss) summed;    /* oldest first */
    Map *instances;              /* their paths: see fe_unique_name */
    VEC(FeFile) files;           /* that are used */

    /* The condition of the if that is being lowered, for messages. */
    const AstNode *condition;

    /* The assignment that is being lowered, for messages; or NULL. */
    const AstNode *assigned;

    /* The operator that is applied, of which messages show the operands; NULL
     * where none is written: see fe_side_text. */
    const AstNode *applied;

    /* The call of a builtin that is being lowered, or NULL: see
     * fe_written_argument. */
    const struct FeCall *builtin_call;

    /* The name of an instance made by the expression being evaluated; NULL
     * where none can be made. */
    const char *path;

    int64_t num_values, num_steps, num_errors, num_bindings;
    int num_calls, depth;
    int64_t num_sites;   /* calls that make random numbers */
    bool needs_constant; /* an error was that a value is no constant */
    int num_unrollable;  /* loops around that are unrolled if need be */
    bool stopped;        /* a limit is exceeded: evaluate nothing more */
    size_t first_bytes;  /* of the arena, when lowering began */
    size_t source_bytes; /* of all files */

    FeVars *vars; /* the state of vars/, NULL before it is first needed */
    FeData *data; /* that of data/ */
};

/* "main", "replica context", ... */
const char *fe_context_name(FeContext c);
static inline bool
fe_is_cross(const Lower *cx)
{
    return cx->context == FE_CROSS || cx->context == FE_CLOSURE ||
           cx->context == FE_MERGE;
}

#endif
