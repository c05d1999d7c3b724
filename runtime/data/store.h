/*
 * store.h - elements kept in memory, by number
 *
 * A store grows block by block, so that a large capacity costs nothing.  It
 * stores the rows of each element with it.
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
    const int64_t *offsets; /* of the components in a slot */
    bool is_on_lines;       /* all of them are on cache lines */
    int64_t block_slots;
    VEC(char *) blocks;
} RtStore;

/* An empty store of elements as n gives them; in n's arena. */
RtStore rt_store_new(const RtNode *n);
/* Appends a copy of e. */
void rt_store_add(RtStore *s, const RtElement *e);
/* Copies element i to e. */
void rt_store_get(const RtStore *s, int64_t i, RtElement *e);
/* Sets e's data to those of element i, which stay there until it is dropped;
 * only of a store that is on lines. */
void rt_store_lend(const RtStore *s, int64_t i, RtElement *e);
/* A component of element i. */
const char *rt_store_component(const RtStore *s, int64_t i, int component);
/* Drops element i; the last one gets its number. */
void rt_store_drop(RtStore *s, int64_t i);
/* Archives the elements, at most that many (RtNodeOps.archive). */
void rt_store_archive(RtStore *s, int64_t most, RtArchive *to);

#endif
