/*
 * shm.c - collectives on memory that tasks of all devices reach
 *
 * The devices are those of one process, or of several on one machine, which
 * then map each other's memory (map.c).
 *
 * A device takes its steps (algorithm/algorithm.h) on the memory of all
 * devices, in tasks.  One without an engine for collectives does so from its
 * program (local/local.h), so that operands are combined soon after they were
 * made.  One with such an engine has them done on its queue: start enqueues a
 * task that takes all steps and waits in between, done waits for its event.
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
#include <string.h>
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/coll/shm/shm_impl.h"
#include "runtime/coll/transport.h"

/* Beside the meeting of its participants it has, for each replica, where its
 * operands and results are, and the copies of operands that are staged. */
typedef struct ShmInstance {
    RtCollInstance base;
    RtReduceKernel **reduce; /* for each operand */
    size_t places_bytes;     /* of a replica: whole cache lines */
    bool takes_root;         /* whose value all get */
} ShmInstance;

/* Of an operand and its result, on one replica. */
typedef struct ShmPart {
    ShmPlace in, out;
} ShmPart;

/* Of RtLocalWork; its program alone looks at it, and between start and done its
 * queue of collectives. */
typedef struct ShmWork {
    size_t *staged_at; /* where each operand begins in a copy */
    const void **in;   /* scratch: a pointer for each replica */
    void **out;        /* and for each device */
    RtEvent end;       /* of the task of an engine */
    RtCollResult result;
} ShmWork;

static ShmWork *
own_of(const RtLocalWork *w)
{
    return w->own;
}

/* ---- operands and results ------------------------------------------------ */

static const ShmInstance *
instance_of(const RtCollInstance *s)
{
    return (const ShmInstance *)s;
}

/* Of a replica of any process, one for each operand. */
static ShmPart *
places(const RtCollInstance *s, int replica)
{
    size_t at = (size_t)replica * instance_of(s)->places_bytes;
    return (ShmPart *)(void *)(s->beside + at);
}

static ShmPlace
place_of(const RtCollInstance *s, RtDevicePtr p)
{
    if (s->comm->config.size == 1)
        return (ShmPlace){(uintptr_t)rt_ptr_address(p), 0};
    return (ShmPlace){p.offset, (uint64_t)p.memory->number};
}

static char *
address(const RtCollInstance *s, int participant, ShmPlace p)
{
    const ShmComm *c = (const ShmComm *)s->comm;
    uint64_t row = (uint64_t)(participant * c->memories_each);
    return (char *)(c->begins[row + p.memory] + p.offset);
}

static char *
staging(const RtLocalWork *w, int replica)
{
    const RtCollInstance *s = w->instance;
    size_t replicas = (size_t)s->comm->config.num_replicas;
    char *copies = s->beside + replicas * instance_of(s)->places_bytes;
    size_t at = w->call % 2 * replicas + (size_t)replica;
    return copies + at * IR_COLL_REPLICATED_BYTES;
}

static const void *
operand(const RtLocalWork *w, int i, int replica)
{
    const RtCollInstance *s = w->instance;
    if (w->algorithm->is_staged)
        return staging(w, replica) + own_of(w)->staged_at[i];
    return address(s, replica / rt_local_replicas_each(s),
                   places(s, replica)[i].in);
}

static char *
result(const RtCollInstance *s, int i, int participant)
{
    int first = rt_local_first_replica(s, participant);
    return address(s, participant, places(s, first)[i].out);
}

/* ---- steps --------------------------------------------------------------- */

static void
combine(const RtLocalWork *w, const RtCollStep *step)
{
    const RtCollInstance *s = w->instance;
    const ShmWork *own = own_of(w);
    int n = s->comm->coll.num_replicas, i = step->operand;
    for (int k = 0; k < n; k++)
        own->in[k] =
            operand(w, i, instance_of(s)->takes_root ? s->choice.root : k);
    for (int k = 0; k < step->num_receivers; k++)
        own->out[k] = result(s, i, step->first_receiver + k);
    ((const ShmInstance *)s)
        ->reduce[i](n, own->in, step->num_receivers, own->out, step->begin,
                    step->end);
}

static void
copy(const RtCollInstance *s, const RtCollStep *step)
{
    size_t bytes = rt_local_width(s, step->operand);
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
    const char *from = address(s, step->from / rt_local_replicas_each(s),
                               places(s, step->from)->in);
    int64_t before = rt_local_row_offset(s, step->from);
    int64_t row = rt_local_row_bytes(s);
    for (int k = 0; k < step->num_receivers; k++) {
        char *out = result(s, 0, step->first_receiver + k);
        for (int64_t i = step->begin; i < step->end; i++)
            memcpy(out + i * row + before, from + i * own->own_bytes,
                   (size_t)own->own_bytes);
    }
}

static void
take_step(void *data, const RtCollStep *step)
{
    const RtLocalWork *w = data;
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

static RtCollPhase *
phase_of(const RtLocalWork *w)
{
    return w->instance->gathers ? w->algorithm->all_gather
                                : w->algorithm->all_reduce;
}

/* A task of the device: it may touch the memory of all devices. */
static void
take_steps(void *data)
{
    RtLocalWork *w = data;
    RtCollShape shape = rt_local_shape(w);
    phase_of(w)(&shape, w->participant, w->phase, take_step, w);
}

static bool
take_phase(RtLocalWork *w)
{
    RtDevice *d = rt_local_device(w);
    d->ops->program->run(d, take_steps, w);
    return true;
}

/* ---- by the device's engine ---------------------------------------------- */

/* All of the work.  done has the timeout: it may be called long after start. */
static void
take_all_phases(void *data)
{
    RtLocalWork *w = data;
    RtCollResult r = COLL_OK;
    while (r == COLL_OK && w->phase < w->num_phases) {
        r = rt_local_wait(w, false);
        if (r == COLL_OK) {
            take_steps(w);
            rt_local_end_phase(w);
        }
    }
    if (r == COLL_OK && !w->algorithm->is_staged)
        r = rt_local_wait(w, false);
    own_of(w)->result = r;
}

/* The bytes of all of it that move from device to device. */
typedef struct Moves {
    const RtLocalWork *work;
    RtCollShape shape;
    size_t bytes;
} Moves;

/* Blocks of other replicas, which may not have started, count as its own. */
static void
add_moves(void *data, const RtCollStep *step)
{
    Moves *m = data;
    const RtLocalWork *w = m->work;
    const RtCollInstance *s = w->instance;
    size_t bytes =
        s->gathers ? (size_t)s->parts[rt_local_first_replica(s, w->participant)]
                         .gather.own_bytes
                   : rt_local_width(s, step->operand);
    m->bytes += (size_t)(step->end - step->begin) * bytes *
                (size_t)rt_step_moves(&m->shape, w->participant, step);
}

static size_t
link_bytes(const RtLocalWork *w)
{
    Moves m = {w, rt_local_shape(w), 0};
    RtCollPhase *phase = phase_of(w);
    for (int i = 0; i < w->num_phases; i++)
        phase(&m.shape, w->participant, i, add_moves, &m);
    return m.bytes;
}

static void
enqueue(RtLocalWork *w)
{
    RtDevice *d = rt_local_device(w);
    RtQueue *q = d->queues[QUEUE_COLL];
    /* unless it is done: a device may fail before */
    own_of(w)->result = COLL_ABORTED;
    d->ops->run(q, take_all_phases, w, link_bytes(w));
    own_of(w)->end = d->ops->record(q);
}

static RtCollResult
wait_for_engine(const RtLocalWork *w)
{
    const RtCommConfig *config = &w->instance->comm->config;
    RtWaited waited = {0};
    while (!rt_local_device(w)->ops->wait(own_of(w)->end))
        if (rt_coll_is_late(config, w->timeout, &waited))
            return COLL_TIMEOUT;
    return own_of(w)->result;
}

/* ---- start ------------------------------------------------------------- */

/* Where the next operand begins in a copy. */
static size_t
after_operand(const RtLocalWork *w, size_t at, int i)
{
    size_t bytes = (size_t)w->counts[i] * rt_local_width(w->instance, i);
    return (at + bytes + 15) & ~(size_t)15;
}

static void
begin(RtLocalWork *w)
{
    const RtCollInstance *s = w->instance;
    size_t bytes = 0;
    w->num_phases = 1;
    if (s->gathers) {
        w->algorithm = rt_gather_algorithm(s->choice.algorithm);
        return;
    }
    for (int i = 0; i < s->num; i++) {
        own_of(w)->staged_at[i] = bytes;
        bytes = after_operand(w, bytes, i);
    }
    RtCollShape shape = rt_local_shape(w);
    w->algorithm = rt_reduce_algorithm(s->choice.algorithm, &shape, bytes);
    w->num_phases = rt_algorithm_phases(w->algorithm, &shape);
}

static void
stage(const RtLocalWork *w, int replica)
{
    const RtCollInstance *s = w->instance;
    RtDevice *d = rt_local_device(w);
    char *to = staging(w, replica);
    for (int i = 0; i < s->num; i++)
        d->ops->program->copy_out(d, to + own_of(w)->staged_at[i],
                                  rt_local_reduces(s, replica)[i].in,
                                  (size_t)w->counts[i] * rt_local_width(s, i));
}

/* With the last replica of a device its work begins. */
static void
announce(RtLocalWork *w, int replica)
{
    if (!rt_local_announce(w, replica))
        return;
    if (rt_local_device(w)->caps->has_coll_engine)
        enqueue(w);
    else
        rt_local_start(w);
}

static void
shm_all_reduce_start(RtCollInstance *s, int replica,
                     const RtAllReducePart *parts)
{
    RtLocalWork *w = rt_local_reduce(s, replica, parts);
    ShmPart *own = places(s, replica);
    for (int i = 0; i < s->num; i++)
        own[i] = (ShmPart){place_of(s, parts[i].in), place_of(s, parts[i].out)};
    if (w->algorithm->is_staged)
        stage(w, replica);
    announce(w, replica);
}

static void
shm_all_gather_start(RtCollInstance *s, int replica,
                     const RtAllGatherPart *part)
{
    *places(s, replica) =
        (ShmPart){place_of(s, part->in), place_of(s, part->out)};
    announce(rt_local_gather(s, replica, part), replica);
}

/* ---- done -------------------------------------------------------------- */

static RtCollResult
shm_done(RtCollInstance *s, int device, double timeout)
{
    RtLocalWork *w = &s->works[device];
    w->timeout = timeout;
    assert(w->call > 0 && w->announced == 0); /* done comes after start */
    if (rt_local_device(w)->caps->has_coll_engine)
        return wait_for_engine(w);
    RtCollResult r = rt_local_finish(w);
    return r != COLL_OK || w->algorithm->is_staged ? r : rt_local_wait(w, true);
}

/* ---- instances ---------------------------------------------------------- */

static ShmInstance *
instance_new(RtLocalComm *comm, RtAlgorithmChoice choice, int num,
             const RtReduceOperand *operands)
{
    size_t replicas = (size_t)comm->config.num_replicas;
    size_t each = on_lines((size_t)num * sizeof(ShmPart));
    size_t staged = operands ? 2 * IR_COLL_REPLICATED_BYTES : 0;
    RtLocalNew make = {.choice = choice,
                       .num = num,
                       .operands = operands,
                       .bytes = sizeof(ShmInstance),
                       .beside_bytes = replicas * (each + staged)};
    RtCollInstance *s = rt_local_new(comm, &make);
    ((ShmInstance *)s)->places_bytes = each;
    for (int i = 0; i < comm->coll.num_devices; i++) {
        ShmWork *own = arena_alloc_on_lines(comm->arena, sizeof *own);
        own->staged_at = NEW_ARRAY(comm->arena, size_t, (size_t)num);
        own->in = NEW_ARRAY(comm->arena, const void *, replicas);
        own->out = NEW_ARRAY(comm->arena, void *,
                             (size_t)comm->config.num_participants);
        s->works[i].own = own;
    }
    return (ShmInstance *)s;
}

static Status
shm_all_reduce_new(RtColl *c, RtReduceOp how, RtAlgorithmChoice choice, int num,
                   const RtReduceOperand *operands, RtCollInstance **out)
{
    RtLocalComm *comm = (RtLocalComm *)c;
    assert(choice.algorithm != COLL_REPLICATED);
    TRY(rt_reduce_check(choice.algorithm, c->num_replicas));
    ShmInstance *s = instance_new(comm, choice, num, operands);
    s->takes_root = how == REDUCE_FIRST;
    s->reduce = NEW_ARRAY(comm->arena, RtReduceKernel *, (size_t)num);
    for (int i = 0; i < num; i++) {
        s->reduce[i] = rt_reduce_kernel(how, operands[i].dtype);
        if (!s->reduce[i])
            return status_new(STATUS_INPUT, "cannot combine values of %s so",
                              dtype_info[operands[i].dtype].name);
    }
    *out = &s->base;
    return OK;
}

static Status
shm_all_gather_new(RtColl *c, RtAlgorithmChoice choice, int64_t most,
                   RtCollInstance **out)
{
    (void)most;
    *out = &instance_new((RtLocalComm *)c, choice, 1, NULL)->base;
    return OK;
}

/* ---- the communicator ---------------------------------------------------- */

static Status
shm_connect(RtColl *c)
{
    ShmComm *comm = (ShmComm *)c;
    return comm->local.config.size == 1 ? OK : rt_shm_map(comm);
}

static void
shm_close(RtColl *c)
{
    rt_shm_unmap((ShmComm *)c);
    rt_local_close(c);
}

static const RtCollOps shm_ops = {
    .name = "shm",
    .close = shm_close,
    .all_reduce_new = shm_all_reduce_new,
    .all_gather_new = shm_all_gather_new,
    .connect = shm_connect,
    .all_reduce_start = shm_all_reduce_start,
    .all_gather_start = shm_all_gather_start,
    .done = shm_done,
    .arrived = rt_local_arrived,
    .sees_all = true,
    .calls = rt_local_calls,
    .abort = rt_local_abort,
};

static const RtLocalOps phase_ops = {begin, take_phase};

static void
open_comm(const RtCommConfig *config, RtColl **out)
{
    ShmComm *c =
        (ShmComm *)rt_local_open(config, &shm_ops, &phase_ops, sizeof(ShmComm));
    size_t participants = (size_t)config->num_participants;
    c->memories_each = 1;
    c->begins = NEW_ARRAY(c->local.arena, uintptr_t, participants);
    c->local.coll.shares_memory = config->size > 1;
    *out = &c->local.coll;
}

Status
rt_coll_shm_open(const RtCommConfig *config, RtColl **out, Str *why)
{
    bool can = true;
    if (config->size > 1)
        TRY(rt_shm_probe(config, &can, why));
    if (can)
        open_comm(config, out);
    return OK;
}
