/*
 * available.h - the reads and writes of variables whose value is available
 *
 * During a walk through a block the caller notes reads or writes, and after
 * each operation removes the variables that it writes: so the remaining ones
 * are still valid.  Closures that main scheduled write while it goes on, and
 * main is to see what they wrote where it waits for them or asks whether they
 * have ended.
 */
#ifndef TFD_PASSES_SCALAR_AVAILABLE_H
#define TFD_PASSES_SCALAR_AVAILABLE_H

#include "ir/ir.h"

typedef struct AvailableAccesses {
    Arena *arena;
    Map *ops; /* of variables by name; NULL: removed */
} AvailableAccesses;

AvailableAccesses pass_available_new(Arena *a);

/* The access noted for the variable of `access`, a read or write; or NULL. */
IrOp *pass_available_access(const AvailableAccesses *l, const IrOp *access);
void pass_available_note(AvailableAccesses *l, IrOp *access);

/* Removes the variables that op or operations in its regions write; all, where
 * one of these is a join or done. */
void pass_available_kill_written(AvailableAccesses *l, IrOp *op);

#endif
