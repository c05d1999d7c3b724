/*
 * map.c - the memory of devices of other processes
 *
 * When instances have been made and devices are open, each process knows how
 * much memory it has and how much all need to meet.  Rank 0 makes the latter;
 * then everybody maps the memory of everybody.
 */
#include "runtime/coll/shm/shm_impl.h"

#include <assert.h>
#include "ir/base/message.h"

/* ---- whether ------------------------------------------------------------- */

Status
rt_shm_probe(const RtCommConfig *config, bool *can, Str *why)
{
    RtSegment own;
    Arena *a = arena_new(why->arena, "probe");
    RtSegments *all = NEW_ARRAY(a, RtSegments, (size_t)config->size);
    Status st = rt_segment_new(1, false, &own);
    if (st) {
        arena_release(a);
        return st;
    }
    st = rt_segments_join(config->exchange, "shared memory: probe", &own, 1,
                          why->arena, all, can, why);
    if (!st && *can)
        rt_segments_leave(all, config->size);
    rt_segment_close(&own);
    arena_release(a);
    return st;
}

/* ---- mapping ------------------------------------------------------------- */

static const RtMemory *
memory_of(const RtCommConfig *config, int device, int number)
{
    RtDevice *d = config->devices[device];
    return d->ops->memory(d, number);
}

/* Devices need not have equally many. */
static int
most_memories(const RtCommConfig *config)
{
    int most = 0;
    for (int i = 0; i < config->num_devices; i++)
        while (memory_of(config, i, most))
            most++;
    return most;
}

/* Those of all devices of this process, in a row for each; a row that is short
 * ends with zeros. */
static RtSegment *
list_own(const ShmComm *c, int each)
{
    const RtCommConfig *config = &c->local.config;
    RtSegment *own = NEW_ARRAY(c->local.arena, RtSegment,
                               (size_t)(config->num_devices * each));
    for (int i = 0; i < config->num_devices; i++)
        for (int k = 0; k < each; k++) {
            const RtMemory *m = memory_of(config, i, k);
            assert(!m || m->segment); /* opened with shares_memory */
            if (m)
                own[i * each + k] = *m->segment;
        }
    return own;
}

static Status
join(ShmComm *c, const char *name, const RtSegment *own, int num,
     RtSegments **all)
{
    const RtCommConfig *config = &c->local.config;
    bool joined;
    Str why;
    *all = NEW_ARRAY(c->local.arena, RtSegments, (size_t)config->size);
    TRY(rt_segments_join(config->exchange, name, own, num, c->local.arena, *all,
                         &joined, &why));
    return joined
               ? OK
               : status_new(STATUS_MACHINE, "%s", message_part(str_text(&why)));
}

static Status
map_meeting(ShmComm *c)
{
    const RtExchange *x = c->local.config.exchange;
    RtSegment own = {.fd = -1};
    size_t bytes = rt_local_meeting_bytes(&c->local);
    if (x->rank == 0)
        TRY(rt_segment_new(bytes, false, &own));
    Status st =
        join(c, "shared memory: meeting", &own, x->rank == 0, &c->meeting);
    if (st) {
        rt_segment_close(&own);
        return st;
    }
    TRY(rt_segments_expect(c->meeting, 0, bytes)); /* the plans are equal */
    rt_local_place(&c->local, c->meeting[0].data[0].at);
    return OK;
}

static Status
map_arenas(ShmComm *c)
{
    const RtCommConfig *config = &c->local.config;
    int each = most_memories(config), devices = config->num_devices;
    TRY(join(c, "shared memory: devices", list_own(c, each), devices * each,
             &c->arenas));
    for (int r = 0; r < config->size; r++)
        if (c->arenas[r].num % devices)
            return rt_segments_unexpected(r);
    for (int r = 0; r < config->size; r++)
        if (c->arenas[r].num / devices > c->memories_each)
            c->memories_each = c->arenas[r].num / devices;
    c->begins =
        NEW_ARRAY(c->local.arena, uintptr_t,
                  (size_t)(config->num_participants * c->memories_each));
    for (int r = 0; r < config->size; r++) {
        int num = c->arenas[r].num;
        for (int i = 0; i < num; i++) {
            int row = r * devices + i / (num / devices);
            c->begins[row * c->memories_each + i % (num / devices)] =
                (uintptr_t)c->arenas[r].data[i].at;
        }
    }
    return OK;
}

Status
rt_shm_map(ShmComm *c)
{
    TRY(map_meeting(c));
    return map_arenas(c);
}

void
rt_shm_unmap(ShmComm *c)
{
    int size = c->local.config.size;
    if (c->arenas)
        rt_segments_leave(c->arenas, size);
    if (c->meeting) {
        rt_segments_leave(c->meeting, size);
        if (c->meeting[0].are_own)
            rt_segment_close(&c->meeting[0].data[0]);
    }
}
