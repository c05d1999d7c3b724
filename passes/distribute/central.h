/*
 * central.h - variables that live on one device
 *
 * Under central_storage every variable has one copy, with the first replica:
 * its home.  All others get its value by a collective when they read it; who
 * writes it is the home alone.  Nothing tells the home from the others but its
 * number, so that they share one program.
 */
#ifndef TFD_PASSES_DISTRIBUTE_CENTRAL_H
#define TFD_PASSES_DISTRIBUTE_CENTRAL_H

#include "ir/ir.h"

/* Whether v is kept so by the strategy of m: not what each replica has for
 * itself, and not when there is one replica only. */
bool pass_central_has(const IrModule *m, const IrVar *v);
bool pass_central_has_any(const IrModule *m);

/* Appends what only the home does: an if, whose first region is returned to be
 * filled.  pass_central_end closes it, and yields n values of the home, which
 * it replaces by what all have by a collective after it. */
IrBlock *pass_central_begin(IrBlock *b, Loc loc);
void pass_central_end(IrBlock *home, int n, IrValue **values, Loc loc);

/* Appends a read of the variable by its home, and the collective that gives
 * its value to all. */
IrValue *pass_central_read(IrBlock *b, const IrVar *v, Loc loc);

/* The operation before which a collective may stand in place of one where op
 * is: op itself, or the outermost around it that replicas may go through in
 * different ways. */
IrOp *pass_central_convergence_point(IrOp *op);

/* From now on reads and writes are what each replica does for itself. */
void pass_central_assign_localities(IrModule *m);

#endif
