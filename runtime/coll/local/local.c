/*
 * local.c - what communicators have in common whose participants meet in memory
 */
#include "runtime/coll/local/local.h"

#include <assert.h>
#include <string.h>
#include "runtime/coll/transport.h"

/* ---- waiting ----------------------------------------------------------- */

void
rt_local_abort(RtColl *c)
{
    RtLocalComm *comm = (RtLocalComm *)c;
    atomic_store(&comm->is_stopped, 1);
    if (!atomic_load(&comm->is_placed))
        return; /* nobody waits; rt_local_place looks at it */
    atomic_store(comm->all_stopped, 1);
    for (RtCollInstance *s = comm->instances; s; s = s->next) {
        rt_wait_word_wake(&s->meeting->started);
        rt_wait_word_wake(&s->meeting->completed);
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
    RtLocalMeeting *m = w->instance->meeting;
    const RtCommConfig *c = &w->instance->comm->config;
    if (w->phase == 0)
        return (Gate){&m->started, w->call * (uint32_t)c->num_replicas};
    uint32_t phases = (uint32_t)w->phase * (uint32_t)c->num_participants;
    return (Gate){&m->completed, w->base + phases};
}

static bool
has_passed(Gate g, uint32_t value)
{
    return (int32_t)(value - g.target) >= 0;
}

RtCollResult
rt_local_wait(const RtLocalWork *w, bool has_timeout)
{
    RtLocalComm *comm = w->instance->comm;
    RtDevice *d = rt_local_device(w);
    Gate g = next_gate(w);
    RtWaited waited = {0};
    for (;;) {
        uint32_t value = rt_wait_word_load(g.word);
        if (has_passed(g, value))
            return COLL_OK;
        if (atomic_load(comm->all_stopped))
            return COLL_ABORTED;
        if (has_timeout && rt_coll_is_late(&comm->config, w->timeout, &waited))
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
    rt_wait_word_add(&w->instance->meeting->completed, 1);
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
    return s->comm->config.num_replicas / s->comm->config.num_participants;
}

RtAllReducePart *
rt_local_reduces(const RtCollInstance *s, int replica)
{
    return s->reduces +
           (ptrdiff_t)(replica - s->comm->config.first_local) * s->num;
}

int
rt_local_first_replica(const RtCollInstance *s, int participant)
{
    return participant * rt_local_replicas_each(s);
}

RtCollShape
rt_local_shape(const RtLocalWork *w)
{
    const RtCollInstance *s = w->instance;
    return (RtCollShape){.num_replicas = s->comm->config.num_replicas,
                         .num_participants = s->comm->config.num_participants,
                         .num_operands = s->num,
                         .counts = w->counts,
                         .packs = s->choice.packs,
                         .root = s->choice.root / rt_local_replicas_each(s)};
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
    return rt_local_row_offset(s, s->comm->config.num_replicas);
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
    const RtCommConfig *c = &w->instance->comm->config;
    w->base += (uint32_t)w->num_phases * (uint32_t)c->num_participants;
    w->call++;
    w->phase = 0;
    w->instance->comm->ops->begin(w);
    if (w->device == 0)
        w->instance->calls[w->algorithm->by]++;
}

static RtLocalWork *
work_of(RtCollInstance *s, int replica)
{
    const RtCommConfig *c = &s->comm->config;
    int local = replica - c->first_local;
    assert(local >= 0 && local < c->num_local);
    return &s->works[local / rt_local_replicas_each(s)];
}

RtLocalWork *
rt_local_reduce(RtCollInstance *s, int replica, const RtAllReducePart *parts)
{
    RtLocalWork *w = work_of(s, replica);
    assert(!s->gathers);
    memcpy(rt_local_reduces(s, replica), parts, (size_t)s->num * sizeof *parts);
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
    rt_wait_word_add(&s->meeting->started, 1);
    w->announced = is_last ? 0 : w->announced + 1;
    return is_last;
}

bool
rt_local_arrived(const RtCollInstance *s, int replica)
{
    uint32_t most = atomic_load(&s->parts[0].calls);
    for (int i = 1; i < s->comm->config.num_replicas; i++) {
        uint32_t calls = atomic_load(&s->parts[i].calls);
        if ((int32_t)(calls - most) > 0)
            most = calls;
    }
    return atomic_load(&s->parts[replica].calls) == most;
}

const int64_t *
rt_local_calls(const RtCollInstance *s)
{
    return s->calls;
}

/* ---- communicators and instances ----------------------------------------- */

static void
make_works(RtLocalComm *comm, RtCollInstance *s)
{
    size_t devices = (size_t)comm->coll.num_devices;
    s->works = arena_alloc_on_lines(comm->arena, devices * sizeof *s->works);
    for (size_t i = 0; i < devices; i++) {
        RtLocalWork *w = &s->works[i];
        w->instance = s;
        w->device = (int)i;
        w->participant = comm->first_participant + (int)i;
        w->counts = NEW_ARRAY(comm->arena, int64_t, (size_t)s->num);
    }
}

static size_t
parts_bytes(const RtCollInstance *s)
{
    return (size_t)s->comm->config.num_replicas * sizeof *s->parts;
}

static size_t
meeting_bytes(const RtCollInstance *s)
{
    return sizeof *s->meeting + parts_bytes(s) + on_lines(s->beside_bytes);
}

static void
place(RtCollInstance *s, char *at)
{
    s->meeting = (RtLocalMeeting *)(void *)at;
    s->parts = (RtLocalPart *)(void *)(at + sizeof *s->meeting);
    s->beside = at + sizeof *s->meeting + parts_bytes(s);
}

RtCollInstance *
rt_local_new(RtLocalComm *comm, const RtLocalNew *make)
{
    size_t num = (size_t)make->num, local = (size_t)comm->config.num_local;
    RtCollInstance *s = arena_alloc_on_lines(comm->arena, make->bytes);
    s->comm = comm;
    s->choice = make->choice;
    s->gathers = !make->operands;
    s->num = make->num;
    s->beside_bytes = make->beside_bytes;
    if (make->operands)
        s->operands = arena_copy(comm->arena, make->operands,
                                 num * sizeof *make->operands);
    s->reduces = NEW_ARRAY(comm->arena, RtAllReducePart, local * num);
    make_works(comm, s);
    if (comm->config.size == 1)
        place(s, arena_alloc_on_lines(comm->arena, meeting_bytes(s)));
    s->next = comm->instances;
    comm->instances = s;
    return s;
}

size_t
rt_local_meeting_bytes(const RtLocalComm *comm)
{
    size_t bytes = CACHE_LINE; /* all_stopped */
    for (const RtCollInstance *s = comm->instances; s; s = s->next)
        bytes += meeting_bytes(s);
    return bytes;
}

void
rt_local_place(RtLocalComm *comm, char *at)
{
    comm->all_stopped = (_Atomic uint32_t *)(void *)at;
    at += CACHE_LINE;
    for (RtCollInstance *s = comm->instances; s; s = s->next) {
        place(s, at);
        s->meeting->started.is_shared = true;
        s->meeting->completed.is_shared = true;
        at += meeting_bytes(s);
    }
    atomic_store(&comm->is_placed, true);
    if (atomic_load(&comm->is_stopped))
        atomic_store(comm->all_stopped, 1);
}

RtLocalComm *
rt_local_open(const RtCommConfig *config, const RtCollOps *ops,
              const RtLocalOps *local, size_t bytes)
{
    Arena *a = arena_new(NULL, "collectives");
    RtLocalComm *comm = arena_alloc_on_lines(a, bytes);
    comm->coll = (RtColl){.ops = ops,
                          .num_replicas = config->num_replicas,
                          .num_devices = config->num_devices};
    comm->ops = local;
    comm->arena = a;
    comm->config = *config;
    comm->all_stopped = &comm->is_stopped;
    atomic_init(&comm->is_placed, config->size == 1);
    comm->first_participant =
        config->num_devices * config->first_local / config->num_local;
    comm->pending = arena_alloc_on_lines(a, (size_t)config->num_devices *
                                                sizeof *comm->pending);
    return comm;
}

void
rt_local_close(RtColl *c)
{
    arena_release(((RtLocalComm *)c)->arena);
}
