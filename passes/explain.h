/*
 * explain.h - the parts of --explain that have files of their own
 */
#ifndef TFD_PASSES_EXPLAIN_H
#define TFD_PASSES_EXPLAIN_H

#include "ir/ir.h"

/* Appends every operation of m that carries a reason: how many there are of a
 * kind, the bytes that they move each time they run, and why. */
void pass_explain_inserted(Str *out, const IrModule *m);

#endif
