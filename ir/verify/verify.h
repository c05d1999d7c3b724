/*
 * verify.h - the invariants that passes and the runner rely on
 */
#ifndef TFD_IR_VERIFY_VERIFY_H
#define TFD_IR_VERIFY_VERIFY_H

#include "ir/ir.h"

/* Checks every invariant that passes and the runner rely on, as far as the
 * module's phase promises them.  Errors go to d with the op in their text.
 * True when there are none.  Uses the ids. */
bool ir_verify(const IrModule *m, Diag *d);

/* Whether main uses the elements of an iterator only until it takes the next
 * ones; messages are for a user.  For modules made by the front end. */
bool ir_check_batches(const IrModule *m, Diag *d);

#endif
