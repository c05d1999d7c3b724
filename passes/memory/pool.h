/*
 * pool.h - buffers that share one stretch of memory
 */
#ifndef TFD_PASSES_MEMORY_POOL_H
#define TFD_PASSES_MEMORY_POOL_H

#include "ir/analysis/lifetime.h"

typedef struct Pool {
    Arena *arena;
    IrSpace space;
    int64_t base;          /* first offset: a whole line */
    VEC(Buffer *) buffers; /* each with its index here as its number */
} Pool;

/* Gives every buffer an offset such that no two that are live at the same time
 * overlap.  Returns the end of the last one; base if there is none. */
int64_t pass_pool_assign_offsets(Pool *p);

#endif
