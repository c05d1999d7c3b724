/*
 * local.c - what communicators of one process have in common
 */
#include "runtime/coll/local/local.h"

#include <assert.h>
#include <string.h>

/* ---- waiting ----------------------------------------------------------- */

void
rt_local_abort(RtColl *c)
{
    RtLocalComm *comm = (RtLocalComm *)c;
    atomic_store(&comm->stopped, true);
    for (RtCollInstance *s = comm->instances; s; s = s->next) {
        rt_wait_word_wake(&s->started);
        rt_wait_word_wake(&s->completed);
    }
}

/* A word that counts up and wraps around, and the value that opens the gate. */
typedef struct Gate {
    RtWaitWord *word;
    uint32_t target;
} Gate;

/* Before the next phase of a device, or after its last one. */
static Gate
next_gate(const RtLocalWork *w)
{
    RtCollInstance *s = w->instance;
    const RtColl *c = &s->comm->coll;
    if (w->phase == 0)
        return (Gate){&s->started, w->call * (uint32_t)c->num_replicas};
    uint32_t phases = (uint32_t)w->phase * (uint32_t)c->num_devices;
    return (Gate){&s->completed, w->base + phases};
}

static bool
has_passed(Gate g, uint32_t value)
{
    return (int32_t)(value - g.target) >= 0;
}

bool
rt_local_is_late(const RtLocalComm *comm, double *deadline)
{
    double now = comm->config.clock();
    if (*deadline == 0.0)
        *deadline = now + comm->config.timeout;
    return now > *deadline;
}

RtCollResult
rt_local_wait(const RtLocalWork *w, bool has_timeout)
{
    RtLocalComm *comm = w->instance->comm;
    RtDevice *d = rt_local_device(w);
    Gate g = next_gate(w);
    double deadline = 0.0;
    for (;;) {
        uint32_t value = rt_wait_word_load(g.word);
        if (has_passed(g, value))
            return COLL_OK;
        if (atomic_load(&comm->stopped))
            return COLL_ABORTED;
        if (has_timeout && rt_local_is_late(comm, &deadline))
            return COLL_TIMEOUT;
        d->ops->program->wait_word(d, g.word, value);
    }
}

/* Whether the next phase of a device can begin. */
static bool
is_open(const RtLocalWork *w)
{
    Gate g = next_gate(w);
    return has_passed(g, rt_wait_word_load(g.word));
}

void
rt_local_end_phase(RtLocalWork *w)
{
    w->phase++;
    rt_wait_word_add(&w->instance->completed, 1);
}

/* ---- operands and results ------------------------------------------------ */

RtDevice *
rt_local_device(const RtLocalWork *w)
{
    return w->instance->comm->config.devices[w->device];
}

int
rt_local_replicas_each(const RtCollInstance *s)
{
    return s->comm->coll.num_replicas / s->comm->coll.num_devices;
}

RtLocalPart *
rt_local_device_part(const RtCollInstance *s, int device)
{
    return &s->parts[device * rt_local_replicas_each(s)];
}

RtCollShape
rt_local_shape(const RtLocalWork *w)
{
    const RtCollInstance *s = w->instance;
    return (RtCollShape){.num_replicas = s->comm->coll.num_replicas,
                         .num_participants = s->comm->coll.num_devices,
                         .num_operands = s->num,
                         .counts = w->counts,
                         .packs = s->config.packs};
}

size_t
rt_local_width(const RtCollInstance *s, int i)
{
    return dtype_info[s->operands[i].dtype].bytes;
}

int64_t
rt_local_row_offset(const RtCollInstance *s, int replica)
{
    int64_t sum = 0;
    for (int k = 0; k < replica; k++)
        sum += s->parts[k].gather.own_bytes;
    return sum;
}

int64_t
rt_local_row_bytes(const RtCollInstance *s)
{
    return rt_local_row_offset(s, s->comm->coll.num_replicas);
}

/* ---- phases -------------------------------------------------------------- */

/* The phases of an instance for which a device need not wait.  Whether that
 * was all. */
static bool
take_open_phases(RtLocalWork *w)
{
    while (w->phase < w->num_phases && is_open(w)) {
        if (!w->instance->comm->ops->take_phase(w))
            return false;
        rt_local_end_phase(w);
    }
    return w->phase == w->num_phases;
}

/* All that a device has started and need not wait for. */
static void
progress(RtLocalComm *comm, int device)
{
    RtCollInstance **at = &comm->pending[device].first;
    while (*at) {
        RtLocalWork *w = &(*at)->works[device];
        if (take_open_phases(w))
            *at = w->next_pending;
        else
            at = &w->next_pending;
    }
}

static void
add_pending(RtCollInstance *s, int device)
{
    RtCollInstance **end = &s->comm->pending[device].first;
    while (*end && *end != s) /* it is in the list after an abort */
        end = &(*end)->works[device].next_pending;
    if (!*end)
        s->works[device].next_pending = NULL;
    *end = s;
}

void
rt_local_start(RtLocalWork *w)
{
    add_pending(w->instance, w->device);
    progress(w->instance->comm, w->device);
}

RtCollResult
rt_local_finish(RtLocalWork *w)
{
    RtLocalComm *comm = w->instance->comm;
    for (progress(comm, w->device); w->phase < w->num_phases;
         progress(comm, w->device)) {
        RtCollResult r = rt_local_wait(w, true);
        if (r != COLL_OK)
            return r;
        if (rt_device_has_failed(rt_local_device(w)))
            return COLL_ABORTED;
    }
    return COLL_OK;
}

/* ---- announcing ---------------------------------------------------------- */

/* The next call of a device's first replica that starts. */
static void
begin_call(RtLocalWork *w)
{
    const RtColl *c = &w->instance->comm->coll;
    w->base += (uint32_t)w->num_phases * (uint32_t)c->num_devices;
    w->call++;
    w->phase = 0;
    w->instance->comm->ops->begin(w);
}

static RtLocalWork *
work_of(RtCollInstance *s, int replica)
{
    assert(replica >= 0 && replica < s->comm->coll.num_replicas);
    return &s->works[replica / rt_local_replicas_each(s)];
}

RtLocalWork *
rt_local_reduce(RtCollInstance *s, int replica, const RtAllReducePart *parts)
{
    RtLocalWork *w = work_of(s, replica);
    assert(!s->gathers);
    memcpy(s->parts[replica].reduces, parts, (size_t)s->num * sizeof *parts);
    for (int i = 0; i < s->num; i++)
        w->counts[i] = parts[i].count;
    if (w->announced == 0)
        begin_call(w);
    return w;
}

RtLocalWork *
rt_local_gather(RtCollInstance *s, int replica, const RtAllGatherPart *part)
{
    RtLocalWork *w = work_of(s, replica);
    assert(s->gathers && part->outer >= 0 && part->own_bytes >= 0);
    s->parts[replica].gather = *part;
    w->counts[0] = part->outer;
    if (w->announced == 0)
        begin_call(w);
    return w;
}

bool
rt_local_is_last(const RtLocalWork *w)
{
    return w->announced + 1 == rt_local_replicas_each(w->instance);
}

bool
rt_local_announce(RtLocalWork *w, int replica)
{
    RtCollInstance *s = w->instance;
    bool is_last = rt_local_is_last(w);
    atomic_store_explicit(&s->parts[replica].calls, w->call,
                          memory_order_relaxed);
    rt_wait_word_add(&s->started, 1);
    w->announced = is_last ? 0 : w->announced + 1;
    return is_last;
}

bool
rt_local_arrived(const RtCollInstance *s, int replica)
{
    uint32_t most = atomic_load(&s->parts[0].calls);
    for (int i = 1; i < s->comm->coll.num_replicas; i++) {
        uint32_t calls = atomic_load(&s->parts[i].calls);
        if ((int32_t)(calls - most) > 0)
            most = calls;
    }
    return atomic_load(&s->parts[replica].calls) == most;
}

/* ---- communicators and instances ------------------------------------------
 */

static void
make_works(RtLocalComm *comm, RtCollInstance *s)
{
    size_t devices = (size_t)comm->coll.num_devices;
    s->works = rt_alloc_on_lines(comm->arena, devices * sizeof *s->works);
    for (size_t i = 0; i < devices; i++) {
        RtLocalWork *w = &s->works[i];
        w->instance = s;
        w->device = (int)i;
        w->counts = NEW_ARRAY(comm->arena, int64_t, (size_t)s->num);
    }
}

RtCollInstance *
rt_local_new(RtLocalComm *comm, RtCollConfig config, int num,
             const RtReduceOperand *operands, size_t bytes)
{
    size_t n = (size_t)comm->coll.num_replicas;
    RtCollInstance *s = rt_alloc_on_lines(comm->arena, bytes);
    s->comm = comm;
    s->config = config;
    s->gathers = !operands;
    s->num = num;
    if (operands)
        s->operands =
            arena_copy(comm->arena, operands, (size_t)num * sizeof *operands);
    s->parts = rt_alloc_on_lines(comm->arena, n * sizeof *s->parts);
    for (size_t i = 0; i < n; i++)
        s->parts[i].reduces =
            NEW_ARRAY(comm->arena, RtAllReducePart, (size_t)num);
    make_works(comm, s);
    s->next = comm->instances;
    comm->instances = s;
    return s;
}

RtLocalComm *
rt_local_open(const RtCommConfig *config, const RtCollOps *ops,
              const RtLocalOps *local, size_t bytes)
{
    Arena *a = arena_new(NULL, "collectives");
    RtLocalComm *comm = rt_alloc_on_lines(a, bytes);
    comm->coll = (RtColl){ops, config->num_replicas, config->num_devices};
    comm->ops = local;
    comm->arena = a;
    comm->config = *config;
    comm->pending = rt_alloc_on_lines(a, (size_t)config->num_devices *
                                             sizeof *comm->pending);
    return comm;
}

void
rt_local_close(RtColl *c)
{
    arena_release(((RtLocalComm *)c)->arena);
}
