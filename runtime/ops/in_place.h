/*
 * in_place.h - which components of a batch programs may read where the iterator
 * has them
 *
 * A batch is the iterator's until its next step is taken.  A component that
 * nobody reads but programs that main runs before then need not be copied to
 * the devices if these reach the iterator's memory.  Checkpoints, which are
 * written between iterations of loops, find batches in their rows.
 */
#ifndef TFD_RUNTIME_OPS_IN_PLACE_H
#define TFD_RUNTIME_OPS_IN_PLACE_H

#include "ir/analysis/users.h"

/* Whether result i of next, an iter_next of main with places, is read by
 * launches alone, before another operation moves the iterator and before main
 * comes to a loop, at whose iterations it may be saved.  users: those of main.
 */
bool rt_is_read_in_place(const IrUsers *users, const IrOp *next, int i);

#endif
