/*
 * latest.h - what was last done to each variable, on the way through a block
 *
 * Whoever walks a block notes reads or writes, and after each operation has
 * forgotten what it writes: so what is noted still holds.
 */
#ifndef TFD_PASSES_SCALAR_LATEST_H
#define TFD_PASSES_SCALAR_LATEST_H

#include "ir/ir.h"

typedef struct Latest {
    Map *ops; /* of variables by name; NULL: forgotten */
} Latest;

Latest latest_new(Arena *a);

/* What was noted of the variable of access, a read or write; or NULL. */
IrOp *latest_of(const Latest *l, const IrOp *access);
void latest_note(Latest *l, IrOp *access);

/* Forgets the variables that op writes, itself or inside of it. */
void latest_forget_written(Latest *l, IrOp *op);

#endif
