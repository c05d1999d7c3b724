/*
 * allocate.h - the two halves of allocation before offsets are chosen
 */
#ifndef TFD_PASSES_MEMORY_ALLOCATE_H
#define TFD_PASSES_MEMORY_ALLOCATE_H

#include "ir/analysis/lifetime.h"
#include "passes/support/pass.h"

/* Inserts copies where bytes could not be shared otherwise: of values that a
 * loop or branch yields but does not own, and of operands of collectives that
 * are not in the arena.  Before ir_lifetimes_find. */
void pass_insert_copies(PassCx *cx, IrFunc *fn);

/* Merges the buffers of values that are the same (views, carried values), and
 * of values that may share bytes so that a copy disappears: a read and its
 * variable, a kernel's result and the variable it is written to, the carried
 * value, the returned result or the operand that dies in the kernel. */
void pass_coalesce_buffers(PassCx *cx, const IrLifetimes *l, IrFunc *fn);

/* The same for the handles that main carries (coalesce_handles.c). */
void pass_insert_handle_copies(PassCx *cx, IrBlock *b);
void pass_coalesce_handles(const IrLifetimes *l, const IrBlock *b);

#endif
