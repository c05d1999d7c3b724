/*
 * overwrites.h - carried values of which a loop keeps nothing
 */
#ifndef TFD_IR_RULES_OVERWRITES_H
#define TFD_IR_RULES_OVERWRITES_H

#include "ir/ir.h"

/* The scatter by which a for changes row t, or the last one but t, of carried
 * value i in iteration t, if it uses the value, and what it becomes, for
 * nothing else and has as many iterations as there are rows; else NULL.  It may
 * be in a kernel. */
const IrOp *ir_for_collects(const IrOp *loop, int i);

/* Whether a for of a placed program replaces each element of carried value i,
 * and reads none of it before: then its initial bytes do not matter. */
bool ir_for_overwrites(const IrOp *loop, int i);

#endif
