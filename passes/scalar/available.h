/*
 * available.h - the reads and writes of variables whose value is available
 *
 * Whoever walks a block notes reads or writes, and after each operation has
 * forgotten what it writes: so what is noted still holds.
 */
#ifndef TFD_PASSES_SCALAR_AVAILABLE_H
#define TFD_PASSES_SCALAR_AVAILABLE_H

#include "ir/ir.h"

typedef struct AvailableAccesses {
    Map *ops; /* of variables by name; NULL: forgotten */
} AvailableAccesses;

AvailableAccesses pass_available_new(Arena *a);

/* What was noted of the variable of access, a read or write; or NULL. */
IrOp *pass_available_access(const AvailableAccesses *l, const IrOp *access);
void pass_available_note(AvailableAccesses *l, IrOp *access);

/* Forgets the variables that op writes, itself or inside of it. */
void pass_available_kill_written(AvailableAccesses *l, IrOp *op);

#endif
