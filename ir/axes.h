/*
 * axes.h - lists of axes, as attributes have them
 */
#ifndef TFD_IR_AXES_H
#define TFD_IR_AXES_H

#include "ir/ir.h"

static inline bool
ir_axes_have(const int64_t *axes, int num, int64_t axis)
{
    for (int i = 0; i < num; i++)
        if (axes[i] == axis)
            return true;
    return false;
}

/* Whether the attribute, which op has, lists the axis. */
static inline bool
ir_has_axis(const IrOp *op, IrAttrName a, int64_t axis)
{
    int num;
    const int64_t *axes = ir_ints(op, a, &num);
    return ir_axes_have(axes, num, axis);
}

#endif
