/*
 * kernel_expr.h - values at indices, before they are in loops
 *
 * A kernel is built in two steps.  The first asks for the outputs at indices
 * that stand for all their elements and follows the operations upwards
 * (kernel_value.c), which gives a graph of Exprs.  The second transforms the
 * indices (kernel_space.c) and puts every Expr into a loop where its indices
 * are known (kernel_nest.c), perhaps several times.
 */
#ifndef TFD_BACKEND_KERNEL_KERNEL_EXPR_H
#define TFD_BACKEND_KERNEL_KERNEL_EXPR_H

#include "backend/kernel/kernel_impl.h"

typedef struct Expr Expr;
typedef struct ExprVar ExprVar;
typedef VEC(ExprVar *) ExprVars;

/* A node whose arguments are the nodes of Exprs, and whose indices are those
 * of ExprVars; bodies are empty. */
struct Expr {
    KNode node; /* first, see expr_of */
    Expr *next; /* of its bucket */
    /* the rest is known when the indices are chosen (kernel_space.c) */
    bool seen;
    ExprVars vars;        /* of loops, that it depends on */
    const ExprVar *voter; /* the last reduction's index that counted it */
    KNode *placed;        /* where loops are open that have it, else NULL */
};

/* How the loop over an index goes. */
typedef enum LoopOrder {
    FREE_ORDER,
    FORWARDS,
    BACKWARDS, /* with running sums */
    SORTED,    /* it is the body of a sort */
} LoopOrder;

struct ExprVar {
    KVar var;     /* first, see var_of */
    Expr *divide; /* its defining DIV, MOD or PICK; NULL: a loop */
    bool is_root; /* an index of an output, not of a reduction */
    bool is_row;
    LoopOrder order;
    int depth; /* of the open scope that has it, or -1 */
    KVar *placed;
};

typedef struct Shape {
    int rank;
    Dim dims[IR_MAX_RANK];
} Shape;

/* One element of a value: in its own shape, or in another one with the same
 * number of elements in the same order. */
typedef struct View {
    Shape shape;
    KIndex at[IR_MAX_RANK];
} View;

/* An output of the kernel and the indices of its loops, slowest first:
 * dimensions of 1 have none. */
typedef struct Output {
    const IrValue *of; /* what is stored */
    const IrOp *part;  /* stores it as a part of the result; NULL: it is that */
    KArray *array;
    ExprVars vars;
    KIndex at; /* where it is stored */
    Expr *value;
    /* of a scatter: stored if guard holds, combined with the old value */
    Expr *guard;     /* else NULL */
    IrOpKind fold;   /* OP_copy: not combined */
    KRanges ordered; /* indices of the loop around the store */
    bool descending; /* its last index is SORTED, and value what is sorted */
    int64_t first;   /* of that many numbers only the first; 0: all */
} Output;

typedef struct Memo Memo; /* an element that was requested before */
typedef struct Build Build;

/* The rule of an operation: its result, of view's shape, at that element. */
typedef Expr *ValueRule(Build *b, const IrOp *op, const View *view,
                        Expr *guard);

enum { EXPR_BUCKETS = 4096 };

struct Build {
    BeKernel *k;
    Arena *scratch;
    const IrModule *m;
    const char *error; /* the first error, or NULL */
    /* be_rule_of: rules are in a layer above the functions that ask for values,
     * so they are reached through this pointer alone; NULL for an operation
     * without a rule. */
    ValueRule *(*rule_of)(const IrOp *op);
    int num_exprs, num_vars;
    Expr **exprs;                /* EXPR_BUCKETS chains */
    Memo **memos;                /* likewise */
    VEC(const IrValue *) values; /* of the region, by their ids */
    VEC(Shape) shapes;           /* likewise */
    VEC(Output) outputs;
    const IrOp *grouped; /* among the operations, a convolution each of whose
                            groups is a matrix, or NULL */
    int widest;          /* the output whose shape gives the index space */
};

static inline Expr *
expr_of(KNode *n)
{
    return (Expr *)n;
}

static inline ExprVar *
var_of(KVar *v)
{
    return (ExprVar *)v;
}

/* ---- kernel_expr.c ------------------------------------------------------ */

/* After an error building continues with values that do not matter. */
void be_expr_fail(Build *b, const char *what);
void be_expr_fail_index(Build *b);

static inline bool
dim_is_one(Dim d)
{
    return ir_dim_equal(d, ir_dim_const(1));
}

/* The Expr that is node: an equal one when there is one. */
Expr *be_expr_make(Build *b, const KNode *node);
/* In value's compute dtype. */
Expr *be_expr_const(Build *b, Scalar value);
Expr *be_expr_map(Build *b, IrOpKind op, DType dtype, int num,
                  Expr *const *args);
Expr *be_expr_cast(Build *b, Expr *x, DType to);
Expr *be_expr_inside(Build *b, KIndex index, Dim size);
Expr *be_expr_and(Build *b, Expr *x, Expr *y); /* either may be NULL: true */
/* e, as a value of dtype (D4). */
Expr *be_expr_rounded(Build *b, Expr *e, DType dtype);
/* x where guard holds, else y. */
Expr *be_expr_where(Build *b, Expr *guard, Expr *x, Expr *y, DType dtype);
Expr *be_expr_zero(Build *b, DType dtype);

ExprVar *be_expr_loop_var(Build *b, Dim extent);

/* Adds the fields of x to hash h. */
uint64_t be_lin_hash(uint64_t h, const KIndex *x);
KIndex be_lin_const(Dim c);
KIndex be_lin_var(Build *b, ExprVar *v);
KIndex be_lin_add(Build *b, KIndex x, KIndex y);
KIndex be_lin_scale(Build *b, KIndex x, Dim by);
/* x / by and x % by, with the terms that by divides taken out of them.
 * extent is an upper bound of the quotient. */
void be_lin_divide(Build *b, KIndex x, Dim by, Dim extent, KIndex *quotient,
                   KIndex *remainder);

/* The value of x, an i64, clamped to 0 .. extent - 1, as an index. */
KIndex be_lin_pick(Build *b, Expr *x, Dim extent);

Dim be_dim_times(Build *b, Dim x, Dim y);

/* ---- kernel_view.c ------------------------------------------------------ */

/* d with the symbols of the kernel. */
Dim be_kernel_dim(Build *b, Dim d);
/* Declares v, of the region. */
void be_value_declare(Build *b, IrValue *v);
const Shape *be_value_shape(const Build *b, const IrValue *v);
bool be_shape_equal(const Shape *x, const Shape *y);
/* Whether there is exactly one element. */
bool be_shape_is_single(const Shape *s);
/* The number of elements. */
Dim be_shape_size(Build *b, const Shape *s);
/* The first element of v; its linear index. */
View be_view_of(const Build *b, const IrValue *v);
KIndex be_view_linear(Build *b, const View *view);
/* The element of view in v's own shape. */
View be_view_own(Build *b, const IrValue *v, const View *view);
/* The element of an operand that broadcasts to the element of the result. */
View be_view_broadcast(const Build *b, const IrValue *operand,
                       const View *view);

/* ---- kernel_value.c ----------------------------------------------------- */

/* v at the element of view.  Loads happen only where guard (NULL: always) is
 * true; elsewhere the value is arbitrary. */
Expr *be_value_at(Build *b, const IrValue *v, const View *view, Expr *guard);
/* x at a view where inside (NULL: always) holds, else 0; both is inside and the
 * other conditions of a load. */
Expr *be_value_masked(Build *b, const IrValue *x, const View *at, Expr *inside,
                      Expr *both);

/* An element of an array, loaded where guard (NULL: always) is true. */
Expr *be_value_load(Build *b, KArray *array, const View *view, Expr *guard);

/* ---- rules (kernel_rules.c, kernel_move.c, kernel_reduce.c) ------------- */

/* NULL if the operation cannot be in a kernel. */
ValueRule *be_rule_of(const IrOp *op);

/* kernel_move.c; the first is for operations that keep the order of elements */
ValueRule be_at_same, be_at_broadcast, be_at_transpose, be_at_slice, be_at_pad,
    be_at_reverse, be_at_concat, be_at_take;
/* kernel_reduce.c; the first is for all operations that reduce */
ValueRule be_at_reduce, be_at_dot, be_at_conv, be_at_conv_weights;

/* ---- kernel_scatter.c --------------------------------------------------- */

/* The scatter that makes a result of the region, or NULL. */
const IrOp *be_scatter_of(const IrValue *result);
/* o begins as the operand whose rows op changes; false: it cannot. */
bool be_scatter_begins(Build *b, const IrOp *op, Output *o);
/* Fills o, the only output. */
void be_scatter_bind(Build *b, const IrOp *op, Output *o);
/* Fills o, whose value is that of the part at that element. */
void be_scatter_part(Build *b, const IrOp *op, const View *part, Output *o);

/* ---- kernel_space.c ----------------------------------------------------- */

/* The indices around an item's work, slowest first. */
typedef struct RowSpace {
    ExprVars rows;
    ExprVar *lanes; /* the last row, if it runs along the lanes; else NULL */
} RowSpace;

/* Merges indices, marks rows (is_row) and fills s, unless the build has failed.
 */
void be_space_choose(Build *b, RowSpace *s);

/* ---- kernel_nest.c ------------------------------------------------------ */

/* Fills grid and body from the outputs. */
void be_nest_build(Build *b);

#endif
