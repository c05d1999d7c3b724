/*
 * interp_impl.h - private to the reference interpreter
 *
 *   interp.c    values, control flow, and how replicas meet
 *   replicas.c  operations of all replicas together; variables
 *   world.c     main's operations on the outside world: data, print, assert,
 *               checkpoints, which are kept in memory
 *   memory.c    start and end, and the bytes of a placed module
 */
#ifndef TFD_TESTS_REF_INTERP_IMPL_H
#define TFD_TESTS_REF_INTERP_IMPL_H

#include "ir/table.h"
#include "runtime/data/data.h"
#include "tests/ref/compute.h"
#include "tests/ref/interp.h"

/* A line that a step has printed: the number-th of its replica. */
typedef struct Line {
    int replica, number;
    const char *text;
} Line;

/* A function of a dataset that the interpreter executes. */
typedef struct ElementFn {
    RtElementFn base;
    Interp *in;
    IrFunc *fn;
} ElementFn;

/* An iterator at work. */
typedef struct Feed {
    RtIter *it;    /* NULL: not opened yet */
    int64_t steps; /* taken since it was opened */
} Feed;

struct Interp {
    Arena *arena;
    IrModule *m;
    const InterpOptions *options;
    int num_replicas;
    IR_TABLE(RefTensor *) values; /* of each, those of the replicas */
    RefTensor *vars; /* variable v of replica r: v * num_replicas + r */
    int64_t *rows;   /* the same for batch symbols: their values */
    int64_t *starts; /* and the rows that replicas before r hold */
    Feed *feeds;     /* as the module's iters */
    Map *saved;      /* of checkpoints: "folder/variable" -> RefTensor */
    Str *output;
    VEC(Line) lines;  /* of the current step */
    int *num_printed; /* by each replica in this step */

    /* A placed module: the bytes that places are in. */
    char **arenas;   /* a replica's device arena */
    char **frames;   /* main's frame, once a replica */
    char **scratch;  /* of functions of datasets and variables */
    char ***inputs;  /* a replica's pointers of the function it is in */
    char ***outputs; /* the same */
};

/* ---- interp.c ----------------------------------------------------------- */

/* The value v of replica r, which has been computed. */
RefTensor *interp_value(Interp *in, int r, const IrValue *v);
/* The same, with the dtype and shape that v has on replica r now, and room. */
RefTensor *interp_shaped(Interp *in, int r, IrValue *v);
/* v of replica r becomes from, which has as many elements. */
void interp_bind(Interp *in, int r, IrValue *v, const RefTensor *from);
/* Executes a function of a dataset or variable on replica 0 alone. */
Status interp_alone(Interp *in, IrFunc *fn) MUST_USE;

/* ---- replicas.c --------------------------------------------------------- */

/* Whether the write op needs the values of all replicas. */
bool replicas_aggregate_write(const Interp *in, const IrOp *op);
/* Whether the read op does. */
bool replicas_aggregate_read(const Interp *in, const IrOp *op);

RefTensor *replicas_var(const Interp *in, int r, const char *name);
/* A read or write that concerns replica r alone. */
void replicas_read_own(Interp *in, int r, IrOp *op);
void replicas_write_own(Interp *in, int r, const IrOp *op);

/* Executes an operation on all replicas together; at[r] is that of replica r.
 * False when it is none that replicas.c knows. */
bool replicas_together(Interp *in, IrOp *const *at);

/* NULL, or the name of a variable whose copies are not equal as they should
 * be. */
const char *replicas_drifted(const Interp *in);

/* ---- world.c ------------------------------------------------------------ */

/* Executes an operation of main with effect HOST. */
Status world_do(Interp *in, IrOp *op) MUST_USE;
/* print and assert of replica r in a step. */
Status world_do_in_step(Interp *in, int r, const IrOp *op) MUST_USE;
/* Prints the output of the step. */
void world_end_step(Interp *in);
/* The value of a param. */
Scalar world_param(const Interp *in, const char *name);

#endif
