/*
 * windows.h - where the windows of a convolution lie, and its builders
 *
 * x is [rows, axes..., channels].  Along each axis, place a of window i is the
 * element step i + dilation a - low of x; outside of x elements are 0.  The
 * channels are equal parts, groups; each part of the new channels is made of
 * its own part of the channels.  The weights are [places..., channels of a
 * group, new channels].
 */
#ifndef TFD_IR_RULES_WINDOWS_H
#define TFD_IR_RULES_WINDOWS_H

#include "ir/ir.h"

enum { IR_MAX_WINDOW_AXES = 3 };

typedef struct IrWindows {
    int num_axes;
    int64_t low[IR_MAX_WINDOW_AXES];
    int64_t step[IR_MAX_WINDOW_AXES];
    int64_t dilation[IR_MAX_WINDOW_AXES];
    int64_t groups;
} IrWindows;

/* Those of a conv or conv_weights; attributes that are absent are 1. */
IrWindows ir_windows_of(const IrOp *op);

/* Writes the attributes of a conv or conv_weights, except those that may be
 * absent.  dims: windows, or places of a window. */
void ir_windows_set(IrOp *op, const IrWindows *w, const Dim *dims);

/* A conv or conv_weights. */
IrValue *ir_build_conv(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y,
                       const IrWindows *w, const Dim *dims, Loc loc);

/*
 * The transposed convolution: each window adds its values y [rows, windows...,
 * new channels] times the weights to its places of a value of that shape.  It
 * is the gradient of x, of that shape, in conv(x, weights), when y is that of
 * the result.  NULL: no element has a window, all are 0.
 */
IrValue *ir_build_conv_transpose(IrBlock *b, IrValue *y, IrValue *weights,
                                 const IrWindows *w, const Dim *shape, Loc loc);

#endif
