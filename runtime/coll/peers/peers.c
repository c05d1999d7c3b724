/*
 * peers.c - collectives by kernels and copies that devices enqueue
 *
 * Nothing is executed by the host, and nothing waits for a device but another
 * device.  With the last of its replicas a device's program records an event
 * and announces it; taking a phase is to enqueue it on the device's queue of
 * collectives, behind waits for the events of all devices, and to announce the
 * event of its end.  The host's part of meeting is local/local.h: a device can
 * enqueue a phase when the others have announced what it has to wait for, so
 * nobody waits for an event that has yet to be recorded.  done lets the
 * program's queue wait for the events of all devices' last phases.
 *
 * Elements are combined by kernels of the plan, which take those of all
 * replicas, in the order of D2, and store one result; it is copied to the other
 * receivers.
 *
 * Where some devices do not reach each other's memory, whatever the algorithm
 * is, there are three phases.  Each device copies to memory of the host, which
 * all reach, those slices of its operands that a device will combine which does
 * not reach them; each combines its slice, of what it reaches and of that, and
 * hands it to those that it reaches, and to the others through memory of the
 * host, from where they copy it in the third phase.
 */
#include "runtime/coll/peers/peers.h"

#include <assert.h>
#include "runtime/coll/algorithm/algorithm.h"

/* ---- communicators and instances ----------------------------------------- */

static PeersInstance *
instance_of(const RtLocalWork *w)
{
    return (PeersInstance *)w->instance;
}

/* Whether something of a call is staged, by any device. */
static bool
is_staged(const RtLocalWork *w)
{
    return ((const PeersComm *)w->instance->comm)->hosts != NULL;
}

/* ---- memory -------------------------------------------------------------- */

/* Whether w's device reaches the operands of a replica. */
static bool
reaches_replica(const RtLocalWork *w, int replica)
{
    int of = replica / rt_local_replicas_each(w->instance);
    return rt_peers_reach(w->instance, w->device, of);
}

static RtDevicePtr
operand(const RtLocalWork *w, int i, int replica)
{
    if (!reaches_replica(w, replica))
        return rt_peers_staged_operand(w->instance, i, replica);
    return rt_local_reduces(w->instance, replica)[i].in;
}

static RtDevicePtr
result(const RtLocalWork *w, int i, int device)
{
    int first = rt_local_first_replica(w->instance, device);
    return rt_local_reduces(w->instance, first)[i].out;
}

/* Of a replica, one after another. */
static RtDevicePtr
blocks(const RtLocalWork *w, int replica)
{
    if (!reaches_replica(w, replica))
        return rt_peers_staged_blocks(w->instance, replica);
    return w->instance->parts[replica].gather.in;
}

static RtQueue *
queue_of(const RtLocalWork *w)
{
    return rt_local_device(w)->queues[QUEUE_COLL];
}

/* Where the memory is the same, there is nothing to copy. */
static void
enqueue_copy(const RtLocalWork *w, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    RtDevice *d = rt_local_device(w);
    if (to.memory != from.memory || to.offset != from.offset)
        d->ops->copy(queue_of(w), to, from, n);
}

/* ---- steps --------------------------------------------------------------- */

/* The bytes of a step's range, and where they begin in the operand. */
static size_t
range_bytes(const RtLocalWork *w, const RtCollStep *step)
{
    return (size_t)(step->end - step->begin) *
           rt_local_width(w->instance, step->operand);
}

static size_t
range_at(const RtLocalWork *w, const RtCollStep *step)
{
    return (size_t)step->begin * rt_local_width(w->instance, step->operand);
}

/* The receiver that takes what others get copies of: the device itself, if it
 * is one. */
static int
first_of(const RtLocalWork *w, const RtCollStep *step)
{
    int first = step->first_receiver, end = first + step->num_receivers;
    return w->device >= first && w->device < end ? w->device : first;
}

static void
launch(const RtLocalWork *w, const RtCollStep *step, RtDevicePtr to)
{
    const PeersInstance *s = instance_of(w);
    PeersWork *own = w->own;
    int n = s->base.comm->coll.num_replicas, i = step->operand;
    size_t at = range_at(w, step);
    PeersLaunch *l = &own->launches[own->num_launches++];
    assert(own->num_launches <= s->num_launches);
    for (int k = 0; k < n; k++)
        l->ptrs[k] = rt_ptr_address(rt_ptr_add(operand(w, i, k), at));
    l->ptrs[n] = rt_ptr_address(to);
    l->dims[0] = l->dims[1] = step->end - step->begin;
    l->launch = (RtKernelLaunch){.kernel = s->base.operands[i].kernel,
                                 .ptrs = l->ptrs,
                                 .dims = l->dims,
                                 .count = step->end - step->begin,
                                 .grain = PEERS_GRAIN,
                                 .num_ptrs = n + 1};
    rt_local_device(w)->ops->launch_kernel(queue_of(w), &l->launch);
}

/* The range in the result that is in memory of the host. */
static RtDevicePtr
staged_range(const RtLocalWork *w, const RtCollStep *step)
{
    return rt_ptr_add(rt_peers_staged_result(w->instance, step->operand),
                      range_at(w, step));
}

/* All receivers get the range of an operand that is at `from` in one of them;
 * those out of reach from memory of the host, in the next phase. */
static void
spread(const RtLocalWork *w, const RtCollStep *step, RtDevicePtr from)
{
    size_t n = range_bytes(w, step);
    bool reaches_all = true;
    for (int k = 0; k < step->num_receivers; k++) {
        int receiver = step->first_receiver + k;
        RtDevicePtr to = result(w, step->operand, receiver);
        if (rt_peers_reach(w->instance, w->device, receiver))
            enqueue_copy(w, rt_ptr_add(to, range_at(w, step)), from, n);
        else
            reaches_all = false;
    }
    if (!reaches_all)
        enqueue_copy(w, staged_range(w, step), from, n);
}

static void
combine(const RtLocalWork *w, const RtCollStep *step)
{
    int i = step->operand;
    size_t at = range_at(w, step);
    if (w->instance->operands[i].kernel < 0) {
        spread(w, step,
               rt_ptr_add(operand(w, i, w->instance->choice.root), at));
        return;
    }
    RtDevicePtr to = rt_ptr_add(result(w, i, first_of(w, step)), at);
    launch(w, step, to);
    spread(w, step, to);
}

static void
copy(const RtLocalWork *w, const RtCollStep *step)
{
    int i = step->operand;
    size_t at = range_at(w, step);
    spread(w, step, rt_ptr_add(result(w, i, step->from), at));
}

/* A replica's blocks, or some of them, to their places in the result of a
 * device. */
static void
gather(const RtLocalWork *w, const RtCollStep *step)
{
    const RtCollInstance *s = w->instance;
    size_t row = (size_t)rt_local_row_bytes(s);
    size_t own = (size_t)s->parts[step->from].gather.own_bytes;
    size_t before = (size_t)rt_local_row_offset(s, step->from);
    size_t begin = (size_t)step->begin;
    RtRowsCopy rows = {
        .from = rt_ptr_add(blocks(w, step->from), begin * own),
        .to_pitch = row,
        .from_pitch = own,
        .row_bytes = own,
        .num_rows = (size_t)step->end - begin,
    };
    if (own == row) { /* one replica has all: what is one after another */
        rows.row_bytes = own * rows.num_rows;
        rows.to_pitch = rows.from_pitch = rows.row_bytes;
        rows.num_rows = 1;
    }
    for (int k = 0; rows.row_bytes && k < step->num_receivers; k++) {
        int to = rt_local_first_replica(s, step->first_receiver + k);
        rows.to = rt_ptr_add(s->parts[to].gather.out, begin * row + before);
        rt_local_device(w)->ops->copy_rows(queue_of(w), &rows);
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
        copy(w, step);
        return;
    case STEP_GATHER:
        gather(w, step);
        return;
    }
    UNREACHABLE("a step of kind %d", step->kind);
}

static void
take_steps(RtLocalWork *w, int phase)
{
    RtCollShape shape = rt_local_shape(w);
    RtCollPhase *f = w->instance->gathers ? w->algorithm->all_gather
                                          : w->algorithm->all_reduce;
    f(&shape, w->device, phase, take_step, w);
}

/* ---- through memory of the host ------------------------------------------ */

/* The range of all operands of the device that another one combines. */
static void
stage_range(void *data, const RtCollStep *step)
{
    const RtLocalWork *w = data;
    const RtCollInstance *s = w->instance;
    int each = rt_local_replicas_each(s), first = w->device * each;
    for (int r = first; r < first + each; r++) {
        RtDevicePtr from = rt_local_reduces(s, r)[step->operand].in;
        RtDevicePtr to = rt_peers_staged_operand(s, step->operand, r);
        enqueue_copy(w, rt_ptr_add(to, range_at(w, step)),
                     rt_ptr_add(from, range_at(w, step)), range_bytes(w, step));
    }
}

static void
stage_blocks(const RtLocalWork *w)
{
    const RtCollInstance *s = w->instance;
    int each = rt_local_replicas_each(s), first = w->device * each;
    for (int r = first; r < first + each && rt_peers_is_staged(s, w->device);
         r++) {
        const RtAllGatherPart *from = &s->parts[r].gather;
        enqueue_copy(w, rt_peers_staged_blocks(s, r), from->in,
                     (size_t)(from->outer * from->own_bytes));
    }
}

/* A range that another device has combined. */
static void
fetch_range(void *data, const RtCollStep *step)
{
    const RtLocalWork *w = data;
    RtDevicePtr to = result(w, step->operand, w->device);
    enqueue_copy(w, rt_ptr_add(to, range_at(w, step)), staged_range(w, step),
                 range_bytes(w, step));
}

/* Takes the steps of those that do not reach the device's memory. */
static void
for_the_far(RtLocalWork *w, RtCollStepFunction *f)
{
    RtCollShape shape = rt_local_shape(w);
    for (int i = 0; i < shape.num_participants; i++)
        if (!rt_peers_reach(w->instance, i, w->device))
            w->algorithm->all_reduce(&shape, i, 0, f, w);
}

enum { STAGE, COMBINE, FETCH };

/* Gathered blocks are fetched from where they were staged. */
static void
take_staged(RtLocalWork *w)
{
    switch (w->phase) {
    case STAGE:
        if (w->instance->gathers)
            stage_blocks(w);
        else
            for_the_far(w, stage_range);
        break;
    case COMBINE:
        take_steps(w, 0);
        break;
    case FETCH:
        for_the_far(w, fetch_range);
        break;
    }
}

/* ---- phases -------------------------------------------------------------- */

/* What devices have announced before the next phase of w, or after its last
 * one. */
static RtEvent
event_before(const RtLocalWork *w, int device)
{
    const PeersWork *of = w->instance->works[device].own;
    return w->phase == 0 ? of->ready : of->ends[w->phase - 1];
}

/* What a device that has failed was told is not executed, and its events have
 * not happened: others must not follow them. */
static bool
take_phase(RtLocalWork *w)
{
    PeersWork *own = w->own;
    RtDevice *d = rt_local_device(w);
    RtQueue *q = queue_of(w);
    for (int i = 0; i < w->instance->comm->coll.num_devices; i++)
        d->ops->wait_event(q, event_before(w, i));
    if (is_staged(w))
        take_staged(w);
    else
        take_steps(w, w->phase);
    own->ends[w->phase] = d->ops->record(q);
    return !rt_device_has_failed(d);
}

/* What gathers writes to itself only, as blocks of several replicas may share
 * words of memory. */
static void
begin_gather(RtLocalWork *w, RtCollAlgorithm asked)
{
    bool by_one = asked == COLL_REDUCE_TO_ONE && !is_staged(w);
    w->algorithm = rt_gather_algorithm(by_one ? asked : COLL_REPLICATED);
    w->num_phases = is_staged(w) ? FETCH : 1;
}

/* Few elements are no exception: a copy of operands for each device is more to
 * enqueue than a copy of the result. */
static void
begin_reduce(RtLocalWork *w, RtCollAlgorithm asked)
{
    RtCollShape shape = rt_local_shape(w);
    if (asked == COLL_AUTO || is_staged(w))
        asked = COLL_TWO_PHASE;
    w->algorithm = rt_reduce_algorithm(asked, &shape, 0);
    w->num_phases =
        is_staged(w) ? PEERS_STAGED : rt_algorithm_phases(w->algorithm, &shape);
}

static void
begin(RtLocalWork *w)
{
    RtCollAlgorithm asked = w->instance->choice.algorithm;
    ((PeersWork *)w->own)->num_launches = 0;
    if (w->instance->gathers)
        begin_gather(w, asked);
    else
        begin_reduce(w, asked);
}

/* ---- start and done ------------------------------------------------------ */

static void
announce(RtLocalWork *w, int replica)
{
    RtDevice *d = rt_local_device(w);
    if (rt_local_is_last(w))
        ((PeersWork *)w->own)->ready = d->ops->program->record(d);
    if (rt_device_has_failed(d))
        return; /* as in take_phase */
    if (rt_local_announce(w, replica))
        rt_local_start(w);
}

static void
peers_all_reduce_start(RtCollInstance *s, int replica,
                       const RtAllReducePart *parts)
{
    announce(rt_local_reduce(s, replica, parts), replica);
}

static void
peers_all_gather_start(RtCollInstance *s, int replica,
                       const RtAllGatherPart *part)
{
    announce(rt_local_gather(s, replica, part), replica);
}

static RtCollResult
peers_done(RtCollInstance *s, int device, double timeout)
{
    RtLocalWork *w = &s->works[device];
    w->timeout = timeout;
    RtDevice *d = rt_local_device(w);
    assert(w->call > 0 && w->announced == 0); /* done comes after start */
    RtCollResult r = rt_local_finish(w);
    if (r == COLL_OK)
        r = rt_local_wait(w, true);
    for (int i = 0; r == COLL_OK && i < s->comm->coll.num_devices; i++)
        d->ops->program->wait_event(d, event_before(w, i));
    return r;
}

static const RtCollOps peers_ops = {
    .name = "peers",
    .close = rt_local_close,
    .all_reduce_new = rt_peers_all_reduce_new,
    .all_gather_new = rt_peers_all_gather_new,
    .connect = rt_peers_connect,
    .all_reduce_start = peers_all_reduce_start,
    .all_gather_start = peers_all_gather_start,
    .done = peers_done,
    .arrived = rt_local_arrived,
    .sees_all = true,
    .calls = rt_local_calls,
    .abort = rt_local_abort,
};

static const RtLocalOps phase_ops = {begin, take_phase};

Status
rt_coll_peers_open(const RtCommConfig *config, RtColl **out, Str *why)
{
    (void)why;
    *out =
        &rt_local_open(config, &peers_ops, &phase_ops, sizeof(PeersComm))->coll;
    return OK;
}
