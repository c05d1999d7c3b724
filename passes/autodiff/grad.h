/*
 * grad.h - the interface of gradient rules
 *
 * A rule pass_grad_rule_<x>() is named by ops.def.  It gets an operation and,
 * from the gradients of its results, adds to the gradients of its operands:
 *
 *   void pass_grad_rule_exp(Grad *g, const IrOp *op)       d exp(x) = exp(x) dx
 *   {
 *       pass_grad_add(g, op->operands[0], mul(g, pass_grad_out(g, op),
 * op->results[0]));
 *   }
 */
#ifndef TFD_PASSES_AUTODIFF_GRAD_H
#define TFD_PASSES_AUTODIFF_GRAD_H

#include "ir/ir.h"
#include "ir/table.h"
#include "passes/support/pass.h"

/* What the sweep knows of a value. */
typedef struct Adjoint {
    bool active;       /* a gradient of it is wanted */
    bool needed;       /* the loss is made of it */
    bool carried;      /* a loop's argument around the grad */
    bool cut;          /* made of what is wanted, without a rule */
    int num_slices;    /* of it that are active */
    IrValue *gradient; /* so far; NULL: none has arrived */
} Adjoint;

typedef IR_TABLE(Adjoint) Adjoints;

typedef struct LoopGrad LoopGrad;

/* A recompute that gradients arrived at, in a block of the sweep. */
typedef struct Recompute {
    IrOp *op;
    IrValue *arrived; /* a gradient of one of its results */
    IrBlock *b;
    IrOp *last; /* of b, then; NULL: there was none */
} Recompute;

typedef struct Grad {
    PassCx *cx;
    Adjoints adjoints; /* of values that matter to this grad */
    const IrOp *grad;  /* that is being expanded */
    IrBlock *b;        /* where the reverse sweep is being built */
    Loc loc;           /* of the operation whose rule runs */
    LoopGrad *loop;    /* whose body is being swept, or NULL */
    VEC(Recompute) recomputes; /* of the sweeps that have not ended */
} Grad;

/* The gradient that has arrived at op's first result. */
IrValue *pass_grad_out(Grad *g, const IrOp *op);
/* That of any value, or NULL when none has arrived. */
IrValue *pass_grad_of(const Grad *g, const IrValue *v);
/* Whether a gradient of v is wanted at all. */
bool pass_grad_wanted(const Grad *g, const IrValue *v);
/* Adds dx to the gradient of x, summed to x's shape first where x was
 * broadcast.  Nothing happens when it is not wanted. */
void pass_grad_add(Grad *g, IrValue *x, IrValue *dx);
/* Adds values to the rows of the gradient of x along axis that `rows` has the
 * numbers of, one after the other; all of them are there. */
void pass_grad_add_rows(Grad *g, const IrValue *x, IrValue *rows,
                        IrValue *values, int axis);

/* The gradient of `to`, one side of a product: that of the result, dy, times
 * the other side, over its free axes; perm puts the axes in their places. */
typedef struct GradProduct {
    IrValue *to, *dy, *other;
    int64_t contract_x[IR_MAX_RANK], contract_y[IR_MAX_RANK]; /* of dy, other */
    int64_t batch_x[IR_MAX_RANK], batch_y[IR_MAX_RANK];
    int num_contract, num_batch;
    int64_t perm[IR_MAX_RANK];
} GradProduct;
void pass_grad_add_product(Grad *g, const GradProduct *p);

/* Whether op, a scatter that sets a row of what a loop carries, is the only one
 * to look at that row, in all iterations: then what arrives at its old value,
 * which is 0, has no effect. */
bool pass_grad_sets_own_row(const Grad *g, const IrOp *op);

/* An error at op; the notes are the repair (or NULL) and the calls that op is
 * inlined for. */
void pass_grad_error(PassCx *cx, const IrOp *op, const char *repair,
                     const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Shorthands that build into g->b at g->loc. */
IrValue *pass_grad1(Grad *g, IrOpKind kind, IrValue *x);
IrValue *pass_grad2(Grad *g, IrOpKind kind, IrValue *x, IrValue *y);
IrValue *pass_grad3(Grad *g, IrOpKind kind, IrValue *x, IrValue *y, IrValue *z);
IrValue *pass_grad_constant(Grad *g, const IrValue *like, double x);

/* x of all replicas, combined by `how`, for the gradient of op.  An error if
 * not all replicas may reach the grad. */
IrValue *pass_grad_all_reduce(Grad *g, const IrOp *op, IrAgg how, IrValue *x);

/* ---- between the files of the sweep -------------------------------------- */

/* The adjoint of v, or NULL: it does not matter to the grad. */
static inline Adjoint *
pass_adjoint_of(const Grad *g, const IrValue *v)
{
    return IR_TABLE_FIND(g->adjoints, v->number);
}

/* The same, or a new one. */
static inline Adjoint *
pass_adjoint_add(Grad *g, const IrValue *v)
{
    return IR_TABLE_SLOT(g->cx->arena, g->adjoints, v->number);
}

/* Visits op and those before it in its block, in reverse. */
void pass_grad_sweep(Grad *g, IrOp *op);

/* Replaces what the sweep uses of the recomputes that it noted, but for the
 * first num_before, by copies. */
void pass_grad_compute_again(Grad *g, int num_before);

bool pass_values_have(const IrValues *list, const IrValue *v);

/* The results of old are the first ones of op. */
void pass_grad_replace_results(Grad *g, IrOp *old, IrOp *op);

/* Moves what does not depend on the step in front of a loop. */
void pass_grad_hoist(IrOp *loop);
/* The same of transposes that its products would make, of gradients, too. */
void pass_grad_hoist_transposes(IrOp *loop);

/* Whether the gradient of a loop is a loop: of a for with a constant count that
 * would be many operations. */
bool pass_grad_stays_loop(const IrOp *loop);

/* Leaves a product to the end of the loop whose body is swept; false if it does
 * not sum over the steps. */
bool pass_grad_defer_product(Grad *g, const GradProduct *p);

/* Replaces a loop by its iterations, one after the other: for with a constant
 * count, while with a max; or a while that is long by a for, which stays a loop.
 * False, with an error, for other loops. */
bool pass_grad_replace_loop(PassCx *cx, IrOp *loop);

#define OP(name, in, out, regions, shape, dtype, locality, effect, traits,     \
           index, grad, code, doc)                                             \
    void pass_grad_rule_##grad(Grad *g, const IrOp *op);
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR

#endif
