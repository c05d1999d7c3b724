/*
 * store.h - elements kept in memory, by number
 *
 * A store grows block by block, so that room for more elements than there are
 * costs nothing.  It notes the rows of each element beside it.
 */
#ifndef TFD_RUNTIME_DATA_STORE_H
#define TFD_RUNTIME_DATA_STORE_H

#include "ir/base/vec.h"
#include "runtime/data/node.h"

typedef struct RtStore {
    const RtNode *of;            /* whose elements it keeps */
    int64_t len;                 /* elements 0 .. len - 1 */
    int64_t most;                /* that there were at a time */
    _Atomic int64_t *kept_bytes; /* theirs are added; NULL: nobody asks */
    size_t slot_bytes;
    int64_t block_slots;
    VEC(char *) blocks;
} RtStore;

/* An empty store of elements as n gives them; in n's arena. */
RtStore rt_store_new(const RtNode *n);
/* Keeps a copy of e behind the others. */
void rt_store_add(RtStore *s, const RtElement *e);
/* A copy of element i to e. */
void rt_store_get(const RtStore *s, int64_t i, RtElement *e);
/* A component of element i. */
const char *rt_store_component(const RtStore *s, int64_t i, int component);
/* Drops element i; the last one gets its number. */
void rt_store_drop(RtStore *s, int64_t i);
/* All of it, at most so many elements (RtNodeOps.archive). */
void rt_store_archive(RtStore *s, int64_t most, RtArchive *to);

#endif
