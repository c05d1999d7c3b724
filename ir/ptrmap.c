/*
 * ptrmap.c - a hash table from pointers to pointers: open addressing, at most
 * half full
 */
#include "ir/ptrmap.h"

#include <assert.h>
#include <stdint.h>

/* The entry of key, or the free one where it belongs. */
static PtrEntry *
find(const PtrMap *m, const void *key)
{
    size_t mask = m->cap - 1;
    assert(key && (m->cap & mask) == 0 && m->count * 2 <= m->cap);
    size_t i = (size_t)(((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 20);
    while (m->entries[i & mask].key && m->entries[i & mask].key != key)
        i++;
    return &m->entries[i & mask];
}

void *
ir_ptrmap_get(const PtrMap *m, const void *key)
{
    return m->cap ? find(m, key)->value : NULL;
}

static void
grow(PtrMap *m)
{
    PtrMap wide = *m;
    wide.cap = m->cap ? m->cap * 2 : 32;
    wide.entries = NEW_ARRAY(m->arena, PtrEntry, wide.cap);
    for (size_t i = 0; i < m->cap; i++) {
        if (m->entries[i].key)
            *find(&wide, m->entries[i].key) = m->entries[i];
    }
    *m = wide;
}

void
ir_ptrmap_set(PtrMap *m, const void *key, void *value)
{
    if (m->count * 2 >= m->cap)
        grow(m);
    PtrEntry *e = find(m, key);
    m->count += !e->key;
    *e = (PtrEntry){key, value};
}
