/*
 * ptrmap.h - inside ir/: a table from pointers to pointers
 */
#ifndef TFD_IR_PTRMAP_H
#define TFD_IR_PTRMAP_H

#include "ir/base/arena.h"

typedef struct PtrEntry {
    const void *key; /* NULL: free */
    void *value;
} PtrEntry;

typedef struct PtrMap {
    Arena *arena;
    PtrEntry *entries;
    size_t count, cap; /* cap is 0 or a power of 2 */
} PtrMap;

/* NULL when the table does not have key. */
void *ir_ptrmap_get(const PtrMap *m, const void *key);
/* Adds or replaces; key is not NULL. */
void ir_ptrmap_set(PtrMap *m, const void *key, void *value);

#endif
