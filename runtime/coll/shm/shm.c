/*
 * shm.c - collectives on memory that all devices of a process reach
 *
 * Every replica announces its part.  Each device then takes its steps of the
 * instance's algorithm (algorithm/algorithm.h), on the memory of all devices:
 * those of the first phase as soon as all replicas have announced their parts,
 * those of the next one when all devices have ended the phase before.
 *
 * A device with an engine for collectives has them done on its queue: start
 * enqueues a task that takes all steps and waits in between, done waits for its
 * event.
 *
 * Any other device has a list of what it has started and not ended.  Whenever
 * its last replica starts anything, and in done, its program takes the steps of
 * all in the list that need not wait, so that operands are combined soon after
 * they were made, and devices that have several packs in flight meet once for
 * all of them.  In done it also waits for the others.
 *
 * Whoever combines elements takes those of all replicas, in their order, so
 * that bits do not depend on it.  The results of a device are those of its
 * first replica, which the others share.
 *
 * Operands of a staged algorithm are copied when they are announced.  The
 * copies are in two sets, used in turn: a replica that is one call ahead must
 * not overwrite what a slower one still reads.  It cannot be two ahead, for it
 * has waited for the slower one in between.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/arena.h"
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/coll.h"
#include "runtime/coll/transport.h"
#include "runtime/hal/wait.h"

typedef struct ShmComm {
    RtColl coll;
    Arena *arena;
    RtCollInstance *instances; /* newest first */
    RtCommConfig config;
    atomic_bool stopped;
    struct Pending *pending; /* for each device */
} ShmComm;

/* What a device has started and not ended, in that order; its thread alone
 * looks at it. */
typedef struct Pending {
    _Alignas(CACHE_LINE) RtCollInstance *first;
} Pending;

/* One replica's operands and results of an instance. */
typedef struct Part {
    _Alignas(CACHE_LINE) _Atomic uint32_t calls; /* of start */
    RtAllReducePart *reduces;                    /* one for each operand */
    RtAllGatherPart gather;
} Part;

/* A device's work for an instance; its program alone looks at it, and between
 * start and done its queue of collectives. */
typedef struct Work {
    _Alignas(CACHE_LINE) RtCollInstance *instance;
    int device;
    const RtAlgorithm *algorithm; /* of this call */
    uint32_t call;
    int announced;  /* replicas of the device, in this call */
    int phase;      /* the next */
    int num_phases; /* of this call */
    uint32_t base;  /* `completed` when this call began */
    int64_t *counts;
    size_t *staged_at; /* where each operand begins in a copy */
    const void **in;   /* scratch: a pointer for each replica */
    void **out;        /* and for each device */
    RtCollInstance *next_pending;
    RtEvent end; /* of the task of an engine */
    RtCollResult result;
} Work;

struct RtCollInstance {
    ShmComm *comm;
    RtCollInstance *next;
    bool gathers;
    int num; /* operands */
    DType *dtypes;
    RtReduceKernel **reduce; /* for each operand */
    Part *parts;             /* for each replica */
    Work *works;             /* for each device */
    char *staged[2];         /* COLL_SMALL_BYTES for each replica */
    RtCollConfig config;
    RtWaitWord started;   /* replicas, over all calls */
    RtWaitWord completed; /* phases, by all devices, over all calls */
};

static ShmComm *
shm_of(RtColl *c)
{
    return (ShmComm *)c;
}

/* ---- waiting ----------------------------------------------------------- */

static void
shm_abort(RtColl *c)
{
    ShmComm *comm = shm_of(c);
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
next_gate(const Work *w)
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

static RtDevice *
device_of(const Work *w)
{
    return w->instance->comm->config.devices[w->device];
}

/* Whether a wait takes too long; *deadline is 0 when it begins. */
static bool
is_late(const ShmComm *comm, double *deadline)
{
    double now = comm->config.clock();
    if (*deadline == 0.0)
        *deadline = now + comm->config.timeout;
    return now > *deadline;
}

/* At the next gate; without a timeout for as long as it takes. */
static RtCollResult
wait_at_gate(const Work *w, bool has_timeout)
{
    ShmComm *comm = w->instance->comm;
    RtDevice *d = device_of(w);
    Gate g = next_gate(w);
    double deadline = 0.0;
    for (;;) {
        uint32_t value = rt_wait_word_load(g.word);
        if (has_passed(g, value))
            return COLL_OK;
        if (atomic_load(&comm->stopped))
            return COLL_ABORTED;
        if (has_timeout && is_late(comm, &deadline))
            return COLL_TIMEOUT;
        d->ops->program->wait_word(d, g.word, value);
    }
}

/* Whether the next phase of a device can begin. */
static bool
is_open(const Work *w)
{
    Gate g = next_gate(w);
    return has_passed(g, rt_wait_word_load(g.word));
}

/* ---- operands and results ------------------------------------------------ */

static int
replicas_each(const RtCollInstance *s)
{
    return s->comm->coll.num_replicas / s->comm->coll.num_devices;
}

/* The operands and results of a device's first replica. */
static Part *
device_part(const RtCollInstance *s, int device)
{
    return &s->parts[device * replicas_each(s)];
}

static char *
staging(const RtCollInstance *s, uint32_t call, int replica)
{
    return s->staged[call % 2] + (ptrdiff_t)replica * COLL_SMALL_BYTES;
}

static const void *
operand(const Work *w, int i, int replica)
{
    const RtCollInstance *s = w->instance;
    if (w->algorithm->is_staged)
        return staging(s, w->call, replica) + w->staged_at[i];
    return rt_ptr_address(s->parts[replica].reduces[i].in);
}

static char *
result(const RtCollInstance *s, int i, int device)
{
    return rt_ptr_address(device_part(s, device)->reduces[i].out);
}

/* ---- steps --------------------------------------------------------------- */

static void
combine(const Work *w, const RtCollStep *step)
{
    const RtCollInstance *s = w->instance;
    int n = s->comm->coll.num_replicas, i = step->operand;
    for (int k = 0; k < n; k++)
        w->in[k] = operand(w, i, k);
    for (int k = 0; k < step->num_receivers; k++)
        w->out[k] = result(s, i, step->first_receiver + k);
    s->reduce[i](n, w->in, step->num_receivers, w->out, step->begin, step->end);
}

static void
copy(const RtCollInstance *s, const RtCollStep *step)
{
    size_t bytes = dtype_info[s->dtypes[step->operand]].bytes;
    size_t at = (size_t)step->begin * bytes;
    size_t n = (size_t)(step->end - step->begin) * bytes;
    const char *from = result(s, step->operand, step->from);
    for (int k = 0; k < step->num_receivers; k++)
        memcpy(result(s, step->operand, step->first_receiver + k) + at,
               from + at, n);
}

/* Copies a replica's blocks to their place in the receivers' results. */
static void
gather(const RtCollInstance *s, const RtCollStep *step)
{
    const RtAllGatherPart *own = &s->parts[step->from].gather;
    const char *from = rt_ptr_address(own->in);
    int64_t before = 0, row = 0;
    for (int k = 0; k < s->comm->coll.num_replicas; k++) {
        int64_t bytes = s->parts[k].gather.own_bytes;
        before += k < step->from ? bytes : 0;
        row += bytes;
    }
    for (int k = 0; k < step->num_receivers; k++) {
        const Part *to = device_part(s, step->first_receiver + k);
        char *out = rt_ptr_address(to->gather.out);
        for (int64_t i = step->begin; i < step->end; i++)
            memcpy(out + i * row + before, from + i * own->own_bytes,
                   (size_t)own->own_bytes);
    }
}

static void
take_step(void *data, const RtCollStep *step)
{
    const Work *w = data;
    switch (step->kind) {
    case STEP_COMBINE:
        combine(w, step);
        return;
    case STEP_COPY:
        copy(w->instance, step);
        return;
    case STEP_GATHER:
        gather(w->instance, step);
        return;
    }
    UNREACHABLE("a step of kind %d", step->kind);
}

static RtCollShape
shape_of(const Work *w)
{
    const RtCollInstance *s = w->instance;
    return (RtCollShape){.num_replicas = s->comm->coll.num_replicas,
                         .num_participants = s->comm->coll.num_devices,
                         .num_operands = s->num,
                         .counts = w->counts,
                         .packs = s->config.packs};
}

static RtCollPhase *
phase_of(const Work *w)
{
    return w->instance->gathers ? w->algorithm->all_gather
                                : w->algorithm->all_reduce;
}

/* A task of the device: it may touch the memory of all devices. */
static void
take_phase(void *data)
{
    Work *w = data;
    RtCollShape shape = shape_of(w);
    phase_of(w)(&shape, w->device, w->phase, take_step, w);
}

static void
end_phase(Work *w)
{
    w->phase++;
    rt_wait_word_add(&w->instance->completed, 1);
}

/* ---- by the device's program --------------------------------------------- */

/* The phases of an instance for which a device need not wait.  Whether that
 * was all. */
static bool
take_open_phases(Work *w)
{
    RtDevice *d = device_of(w);
    while (w->phase < w->num_phases && is_open(w)) {
        d->ops->program->run(d, take_phase, w);
        end_phase(w);
    }
    return w->phase == w->num_phases;
}

/* All that a device has started and need not wait for. */
static void
progress(ShmComm *comm, int device)
{
    RtCollInstance **at = &comm->pending[device].first;
    while (*at) {
        Work *w = &(*at)->works[device];
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

static RtCollResult
finish(Work *w)
{
    ShmComm *comm = w->instance->comm;
    for (progress(comm, w->device); w->phase < w->num_phases;
         progress(comm, w->device)) {
        RtCollResult r = wait_at_gate(w, true);
        if (r != COLL_OK)
            return r;
    }
    return w->algorithm->is_staged ? COLL_OK : wait_at_gate(w, true);
}

/* ---- by the device's engine ---------------------------------------------- */

/* All of the work.  done has the timeout: it may be called long after start. */
static void
take_all_phases(void *data)
{
    Work *w = data;
    w->result = COLL_OK;
    while (w->result == COLL_OK && w->phase < w->num_phases) {
        w->result = wait_at_gate(w, false);
        if (w->result == COLL_OK) {
            take_phase(w);
            end_phase(w);
        }
    }
    if (w->result == COLL_OK && !w->algorithm->is_staged)
        w->result = wait_at_gate(w, false);
}

/* The bytes of all of it that move from device to device. */
typedef struct Moves {
    const Work *work;
    RtCollShape shape;
    size_t bytes;
} Moves;

/* Blocks of other replicas, which may not have started, count as its own. */
static void
add_moves(void *data, const RtCollStep *step)
{
    Moves *m = data;
    const Work *w = m->work;
    const RtCollInstance *s = w->instance;
    size_t bytes = s->gathers
                       ? (size_t)device_part(s, w->device)->gather.own_bytes
                       : dtype_info[s->dtypes[step->operand]].bytes;
    m->bytes += (size_t)(step->end - step->begin) * bytes *
                (size_t)rt_step_moves(&m->shape, w->device, step);
}

static size_t
link_bytes(const Work *w)
{
    Moves m = {w, shape_of(w), 0};
    RtCollPhase *phase = phase_of(w);
    for (int i = 0; i < w->num_phases; i++)
        phase(&m.shape, w->device, i, add_moves, &m);
    return m.bytes;
}

static void
enqueue(Work *w)
{
    RtDevice *d = device_of(w);
    RtQueue *q = d->queues[QUEUE_COLL];
    w->result = COLL_ABORTED; /* unless it is done: a device may fail before */
    d->ops->run(q, take_all_phases, w, link_bytes(w));
    w->end = d->ops->record(q);
}

static RtCollResult
wait_for_engine(const Work *w)
{
    double deadline = 0.0;
    while (!device_of(w)->ops->wait(w->end))
        if (is_late(w->instance->comm, &deadline))
            return COLL_TIMEOUT;
    return w->result;
}

/* ---- start ------------------------------------------------------------- */

/* Where the next operand begins in a copy. */
static size_t
after_operand(const RtCollInstance *s, size_t at, int i, int64_t count)
{
    size_t bytes = dtype_info[s->dtypes[i]].bytes;
    return (at + (size_t)count * bytes + 15) & ~(size_t)15;
}

/* The numbers of an all_reduce, which are equal on all replicas. */
static void
begin_reduce(RtCollInstance *s, Work *w, const RtAllReducePart *parts)
{
    size_t bytes = 0;
    for (int i = 0; i < s->num; i++) {
        w->counts[i] = parts[i].count;
        w->staged_at[i] = bytes;
        bytes = after_operand(s, bytes, i, parts[i].count);
    }
    RtCollShape shape = shape_of(w);
    w->algorithm = rt_reduce_algorithm(s->config.algorithm, &shape, bytes);
    w->num_phases = rt_algorithm_phases(w->algorithm, &shape);
}

static void
begin_gather(RtCollInstance *s, Work *w, const RtAllGatherPart *part)
{
    w->counts[0] = part->outer;
    w->algorithm = rt_gather_algorithm(s->config.algorithm);
    w->num_phases = 1;
}

static void
stage(const Work *w, int replica)
{
    const RtCollInstance *s = w->instance;
    RtDevice *d = device_of(w);
    char *to = staging(s, w->call, replica);
    for (int i = 0; i < s->num; i++)
        d->ops->program->copy_out(
            d, to + w->staged_at[i], s->parts[replica].reduces[i].in,
            (size_t)w->counts[i] * dtype_info[s->dtypes[i]].bytes);
}

/* The next call of a device's first replica that starts. */
static void
begin_call(const RtCollInstance *s, Work *w)
{
    w->base += (uint32_t)w->num_phases * (uint32_t)s->comm->coll.num_devices;
    w->call++;
    w->phase = 0;
}

/* With the last replica of a device its work begins. */
static void
announce(Work *w, int replica)
{
    RtCollInstance *s = w->instance;
    atomic_store_explicit(&s->parts[replica].calls, w->call,
                          memory_order_relaxed);
    rt_wait_word_add(&s->started, 1);
    if (++w->announced < replicas_each(s))
        return;
    w->announced = 0;
    if (device_of(w)->caps->has_coll_engine) {
        enqueue(w);
    } else {
        add_pending(s, w->device);
        progress(s->comm, w->device);
    }
}

static void
shm_all_reduce_start(RtCollInstance *s, int replica,
                     const RtAllReducePart *parts)
{
    assert(replica >= 0 && replica < s->comm->coll.num_replicas);
    Work *w = &s->works[replica / replicas_each(s)];
    memcpy(s->parts[replica].reduces, parts, (size_t)s->num * sizeof *parts);
    if (w->announced == 0) {
        begin_call(s, w);
        begin_reduce(s, w, parts);
    }
    if (w->algorithm->is_staged)
        stage(w, replica);
    announce(w, replica);
}

static void
shm_all_gather_start(RtCollInstance *s, int replica,
                     const RtAllGatherPart *part)
{
    assert(replica >= 0 && replica < s->comm->coll.num_replicas);
    assert(s->gathers && part->outer >= 0 && part->own_bytes >= 0);
    Work *w = &s->works[replica / replicas_each(s)];
    s->parts[replica].gather = *part;
    if (w->announced == 0) {
        begin_call(s, w);
        begin_gather(s, w, part);
    }
    announce(w, replica);
}

/* ---- done -------------------------------------------------------------- */

static RtCollResult
shm_done(RtCollInstance *s, int device)
{
    Work *w = &s->works[device];
    assert(w->call > 0 && w->announced == 0); /* done comes after start */
    return device_of(w)->caps->has_coll_engine ? wait_for_engine(w) : finish(w);
}

static bool
shm_arrived(const RtCollInstance *s, int replica)
{
    uint32_t most = atomic_load(&s->parts[0].calls);
    for (int i = 1; i < s->comm->coll.num_replicas; i++) {
        uint32_t calls = atomic_load(&s->parts[i].calls);
        if ((int32_t)(calls - most) > 0)
            most = calls;
    }
    return atomic_load(&s->parts[replica].calls) == most;
}

/* ---- instances ---------------------------------------------------------- */

/* Zeroed memory on cache lines of its own. */
static void *
on_lines(Arena *a, size_t n)
{
    uintptr_t at = (uintptr_t)arena_alloc(a, n + CACHE_LINE);
    return (void *)((at + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
}

static void
make_works(ShmComm *comm, RtCollInstance *s)
{
    size_t devices = (size_t)comm->coll.num_devices;
    s->works = on_lines(comm->arena, devices * sizeof *s->works);
    for (size_t i = 0; i < devices; i++) {
        Work *w = &s->works[i];
        w->instance = s;
        w->device = (int)i;
        w->counts = NEW_ARRAY(comm->arena, int64_t, (size_t)s->num);
        w->staged_at = NEW_ARRAY(comm->arena, size_t, (size_t)s->num);
        w->in = NEW_ARRAY(comm->arena, const void *,
                          (size_t)comm->coll.num_replicas);
        w->out = NEW_ARRAY(comm->arena, void *, devices);
    }
}

static RtCollInstance *
instance_new(ShmComm *comm, int num)
{
    size_t n = (size_t)comm->coll.num_replicas;
    RtCollInstance *s = on_lines(comm->arena, sizeof *s);
    s->comm = comm;
    s->num = num;
    s->parts = on_lines(comm->arena, n * sizeof *s->parts);
    for (size_t i = 0; i < n; i++)
        s->parts[i].reduces =
            NEW_ARRAY(comm->arena, RtAllReducePart, (size_t)num);
    make_works(comm, s);
    s->next = comm->instances;
    comm->instances = s;
    return s;
}

static Status
shm_all_reduce_new(RtColl *c, RtReduceOp how, RtCollConfig config, int num,
                   const DType *dtypes, const int *kernels,
                   RtCollInstance **out)
{
    ShmComm *comm = shm_of(c);
    (void)kernels; /* devices that execute host code need none */
    assert(config.algorithm != COLL_REPLICATED);
    TRY(rt_reduce_check(config.algorithm, c->num_replicas));
    RtCollInstance *s = instance_new(comm, num);
    s->config = config;
    s->dtypes = arena_copy(comm->arena, dtypes, (size_t)num * sizeof *dtypes);
    s->reduce = NEW_ARRAY(comm->arena, RtReduceKernel *, (size_t)num);
    for (int i = 0; i < num; i++) {
        s->reduce[i] = rt_reduce_kernel(how, dtypes[i]);
        if (!s->reduce[i])
            return status_new(STATUS_INPUT, "cannot combine values of %s so",
                              dtype_info[dtypes[i]].name);
    }
    for (int i = 0; i < 2; i++)
        s->staged[i] =
            on_lines(comm->arena, (size_t)c->num_replicas * COLL_SMALL_BYTES);
    *out = s;
    return OK;
}

static Status
shm_all_gather_new(RtColl *c, RtCollAlgorithm algorithm, RtCollInstance **out)
{
    *out = instance_new(shm_of(c), 1);
    (*out)->gathers = true;
    (*out)->config.algorithm = algorithm;
    return OK;
}

static void
shm_close(RtColl *c)
{
    arena_release(shm_of(c)->arena);
}

static const RtCollOps shm_ops = {
    .name = "shm",
    .close = shm_close,
    .all_reduce_new = shm_all_reduce_new,
    .all_gather_new = shm_all_gather_new,
    .all_reduce_start = shm_all_reduce_start,
    .all_gather_start = shm_all_gather_start,
    .done = shm_done,
    .arrived = shm_arrived,
    .abort = shm_abort,
};

Status
rt_coll_shm_open(const RtCommConfig *config, RtColl **out)
{
    Arena *a = arena_new(NULL, "collectives");
    ShmComm *comm = NEW(a, ShmComm);
    comm->coll = (RtColl){&shm_ops, config->num_replicas, config->num_devices};
    comm->arena = a;
    comm->config = *config;
    comm->pending =
        on_lines(a, (size_t)config->num_devices * sizeof *comm->pending);
    *out = &comm->coll;
    return OK;
}
