/*
 * ring.h - a stream of bytes from one process to another in memory
 *
 * Both map the ring: one writes, the other reads, and neither waits.  A writer
 * that finds no room says so, and the reader learns of it when it has read.
 */
#ifndef TFD_RUNTIME_LINK_NEAR_RING_H
#define TFD_RUNTIME_LINK_NEAR_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/hal/wait.h"

enum { RT_RING_BYTES = 256 << 10 };

/* All zeros is an empty one. */
typedef struct RtRing {
    _Alignas(CACHE_LINE) _Atomic uint64_t written; /* over the whole run */
    atomic_bool needs_room;                        /* so says the writer */
    _Alignas(CACHE_LINE) _Atomic uint64_t read;
    _Alignas(CACHE_LINE) char bytes[RT_RING_BYTES];
} RtRing;

/* What may be read, and what may be written. */
size_t rt_ring_filled(const RtRing *r);
size_t rt_ring_room(const RtRing *r);
/* As many of n bytes as there is room for, or have been written.  `to` may be
 * NULL: they go nowhere. */
size_t rt_ring_write(RtRing *r, const void *from, size_t n);
size_t rt_ring_read(RtRing *r, void *to, size_t n);

#endif
