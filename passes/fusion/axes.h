/*
 * axes.h - the loops along which values lie
 *
 * Operations that belong together share loops: the elements of x + y are
 * computed in the same loop nest as those of x and y.  An axis is such a loop;
 * each dimension of a value other than 1 lies along one.  Elementwise
 * operations, reductions and transposes determine which dimensions of operands
 * and results are one axis; where an operation reads other elements than it
 * makes (a slice, a contraction) the operand has axes of its own.
 *
 *   s = sum(x, axis 1)     x: f32[8, 4] along a, b; s: f32[8] along a
 *   y = x - reshape(s)     y: f32[8, 4] along a, b
 */
#ifndef TFD_PASSES_FUSION_AXES_H
#define TFD_PASSES_FUSION_AXES_H

#include "ir/ir.h"

typedef uint64_t AxisSet;

typedef struct Axes Axes;

/* An empty set, in a, as are all its data. */
Axes *pass_axes_new(Arena *a);
void pass_axes_clear(Axes *x);

/* Adds the relations between op's operands and its result.  Uses the values'
 * ids until pass_axes_clear. */
void pass_axes_add(Axes *x, const IrOp *op);

/* Numbers the axes.  False if a value lies along one axis twice, as x does in x
 * + transpose(x), or if there are more than 64. */
bool pass_axes_number(Axes *x);

/* The axes of a value of an operation that was added, after pass_axes_number:
 * as a set, and as a list with one for each dimension that is not 1, slowest
 * first. */
AxisSet pass_axes_of(const Axes *x, const IrValue *v);
typedef struct AxisList {
    int count, axes[IR_MAX_RANK];
} AxisList;
AxisList pass_axes_list(const Axes *x, const IrValue *v);
bool pass_axes_list_equal(const AxisList *x, const AxisList *y);

/* Whether x and y have the same shape but for dimensions of 1. */
bool pass_axes_differ_by_ones(const IrType *x, const IrType *y);

#endif
