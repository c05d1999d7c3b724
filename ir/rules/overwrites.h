/*
 * overwrites.h - carried values of which a loop keeps nothing
 */
#ifndef TFD_IR_RULES_OVERWRITES_H
#define TFD_IR_RULES_OVERWRITES_H

#include "ir/ir.h"

/* Whether a for of a placed program replaces each element of carried value i,
 * and reads none of it before: then its initial bytes do not matter. */
bool ir_for_overwrites(const IrOp *loop, int i);

#endif
