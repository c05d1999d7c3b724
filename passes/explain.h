/*
 * explain.h - the part of --explain in explain_inserted.c
 */
#ifndef TFD_PASSES_EXPLAIN_H
#define TFD_PASSES_EXPLAIN_H

#include "ir/ir.h"

/* Appends every operation of m that has a reason: the number of each kind, the
 * bytes that they move each time they run, and why. */
void pass_explain_inserted(Str *out, const IrModule *m);

#endif
