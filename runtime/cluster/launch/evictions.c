/*
 * evictions.c - processes that the control server judged, for who started them
 *
 * A rank is marked before the bell rings, and the bell is silenced before marks
 * are looked at: a mark that is missed then rings again.
 */
#include "runtime/cluster/launch/evictions.h"

#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "runtime/hal/system.h"

Status
rt_evictions_open(Arena *a, int size, RtEvictions *out)
{
    *out = (RtEvictions){.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                         .size = size,
                         .ranks = NEW_ARRAY(a, atomic_bool, (size_t)size)};
    return out->bell >= 0 ? OK : rt_system_error("eventfd");
}

void
rt_evictions_add(RtEvictions *e, int rank)
{
    assert(rank >= 0 && rank < e->size);
    atomic_store(&e->ranks[rank], true);
    eventfd_write(e->bell, 1);
}

int
rt_evictions_next(RtEvictions *e)
{
    eventfd_t count;
    eventfd_read(e->bell, &count);
    for (int i = 0; i < e->size; i++)
        if (atomic_exchange(&e->ranks[i], false))
            return i;
    return -1;
}

void
rt_evictions_close(RtEvictions *e)
{
    if (e->bell >= 0)
        close(e->bell);
    e->bell = -1;
}
