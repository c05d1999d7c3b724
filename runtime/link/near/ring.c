/*
 * ring.c - a stream of bytes from one process to another in memory
 *
 * What is written is told part by part, so that the reader copies one while the
 * writer copies the next.
 */
#include "runtime/link/near/ring.h"

#include <string.h>
#include "ir/base/minmax.h"

enum { PART = 32 << 10 };

size_t
rt_ring_filled(const RtRing *r)
{
    return (size_t)(atomic_load(&r->written) - atomic_load(&r->read));
}

size_t
rt_ring_room(const RtRing *r)
{
    return RT_RING_BYTES - rt_ring_filled(r);
}

/* A part ends with the ring's memory, too. */
static size_t
part_at(uint64_t at, size_t n)
{
    return min_size(min_size(n, PART), RT_RING_BYTES - at % RT_RING_BYTES);
}

size_t
rt_ring_write(RtRing *r, const void *from, size_t n)
{
    size_t done = 0;
    for (size_t room; done < n && (room = rt_ring_room(r)) > 0;) {
        uint64_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
        size_t part = part_at(at, min_size(room, n - done));
        memcpy(r->bytes + at % RT_RING_BYTES, (const char *)from + done, part);
        atomic_store(&r->written, at + part);
        done += part;
    }
    return done;
}

size_t
rt_ring_read(RtRing *r, void *to, size_t n)
{
    size_t done = 0;
    for (size_t filled; done < n && (filled = rt_ring_filled(r)) > 0;) {
        uint64_t at = atomic_load_explicit(&r->read, memory_order_relaxed);
        size_t part = part_at(at, min_size(filled, n - done));
        if (to)
            memcpy((char *)to + done, r->bytes + at % RT_RING_BYTES, part);
        atomic_store(&r->read, at + part);
        done += part;
    }
    return done;
}
