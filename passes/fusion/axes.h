/*
 * axes.h - along which loops values lie
 *
 * Operations that belong together share loops: the elements of x + y are made
 * in one nest from those of x and of y.  An axis is such a loop; each dimension
 * of a value, those of 1 aside, lies along one.  Elementwise operations,
 * reductions and transposes say which dimensions of operands and results are
 * one axis; where an operation reads other elements than it makes (a slice, a
 * contraction) the operand has axes of its own.
 *
 *   s = sum(x, axis 1)     x: f32[8, 4] along a, b; s: f32[8] along a
 *   y = x - reshape(s)     y: f32[8, 4] along a, b
 */
#ifndef TFD_PASSES_FUSION_AXES_H
#define TFD_PASSES_FUSION_AXES_H

#include "ir/ir.h"

typedef uint64_t AxisSet;

typedef struct Axes Axes;

/* Without operations; in a, like all it knows. */
Axes *axes_new(Arena *a);
void axes_clear(Axes *x);

/* Takes in what op says of its operands and its result.  Uses the values' ids
 * until axes_clear. */
void axes_add(Axes *x, const IrOp *op);

/* Gives the axes numbers.  False: a value lies along one axis twice, as x does
 * in x + transpose(x), or there are more than 64. */
bool axes_settle(Axes *x);

/* Of a value of an operation that was added, after axes_settle: all, and one
 * for each dimension that is not 1, slowest first. */
AxisSet axes_of(const Axes *x, const IrValue *v);
typedef struct AxisList {
    int count, axes[IR_MAX_RANK];
} AxisList;
AxisList axes_list(const Axes *x, const IrValue *v);
bool axes_list_equal(const AxisList *x, const AxisList *y);

/* Whether x and y have the same shape but for dimensions of 1. */
bool axes_differ_by_ones(const IrType *x, const IrType *y);

#endif
