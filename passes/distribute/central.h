/*
 * central.h - variables that live on one device
 *
 * Under central_storage every variable has one copy, with the first replica:
 * its home.  When others read it, a collective gives them its value; only the
 * home writes it.  The home differs from the others only in its number, so all
 * share one program.
 */
#ifndef TFD_PASSES_DISTRIBUTE_CENTRAL_H
#define TFD_PASSES_DISTRIBUTE_CENTRAL_H

#include "ir/ir.h"

/* Whether the strategy of m keeps v on one device: not a variable of which each
 * replica has a component, and not with one replica only. */
bool pass_central_has(const IrModule *m, const IrVar *v);
bool pass_central_has_any(const IrModule *m);

/* Appends an if for operations of the home only, and returns its first region
 * to be filled. pass_central_end closes it, yields n values of the home, and
 * replaces them by the results of a collective after it. */
IrBlock *pass_central_begin(IrBlock *b, Loc loc);
void pass_central_end(IrBlock *home, int n, IrValue **values, Loc loc);

/* Appends a read of the variable by its home, and the collective that gives all
 * replicas its value. */
IrValue *pass_central_read(IrBlock *b, const IrVar *v, Loc loc);

/* The operation before which a collective may be inserted for op: op itself, or
 * the outermost operation around it that replicas may execute in different
 * ways. */
IrOp *pass_central_convergence_point(IrOp *op);

/* From now on reads and writes are done by each replica for itself. */
void pass_central_assign_localities(IrModule *m);

#endif
