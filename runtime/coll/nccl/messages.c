/*
 * messages.c - collectives as messages between ranks
 *
 * A rank knows the schedules of all (algorithm.h).  A phase is three passes
 * over them: each sends what the steps of others need of it and receives what
 * its own need; each takes its steps, by kernels of the plan, which combine in
 * the order of D2; each sends its results to their receivers.  Messages of a
 * pass are one group of calls, so none waits for another; both ends go through
 * the steps in one order, so the messages of two ranks are in one, too.
 *
 * What is received to be combined is in the rank's scratch memory, which every
 * phase uses from its beginning: all is on one stream.
 */
#include <assert.h>
#include <string.h>
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/coll/transport.h"

/* ---- memory -------------------------------------------------------------- */

static size_t
align(size_t bytes)
{
    return (bytes + NCCL_ALIGN - 1) / NCCL_ALIGN * NCCL_ALIGN;
}

static RtDevicePtr
take_scratch(NcclRank *r, size_t bytes)
{
    RtDevicePtr p = {r->scratch, r->used};
    r->used += align(bytes);
    assert(r->used <= r->scratch->bytes);
    return p;
}

static size_t
width(const NcclWork *w, int i)
{
    return dtype_info[w->instance->operands[i].dtype].bytes;
}

static RtDevicePtr
result(const NcclWork *w, const RtCollStep *step)
{
    return rt_ptr_add(w->reduces[0][step->operand].out,
                      (size_t)step->begin * width(w, step->operand));
}

static size_t
step_bytes(const NcclWork *w, const RtCollStep *step)
{
    return (size_t)(step->end - step->begin) * width(w, step->operand);
}

static RtQueue *
queue_of(const NcclRank *r)
{
    return r->device->queues[QUEUE_COLL];
}

/* ---- walking schedules --------------------------------------------------- */

typedef struct Walk Walk;
typedef void Visit(Walk *walk, const RtCollStep *step);

struct Walk {
    NcclWork *work;
    Visit *visit;
    int executor; /* whose step it is */
    CUstream stream;
    bool works;
};

static RtCollShape
shape_of(const NcclWork *w)
{
    const NcclComm *comm = w->instance->comm;
    return (RtCollShape){.num_replicas = comm->coll.num_replicas,
                         .num_participants = comm->config.num_participants,
                         .num_operands = w->instance->num,
                         .counts = w->counts,
                         .packs = w->instance->choice.packs,
                         .root = w->instance->choice.root / comm->each};
}

static void
visit_step(void *data, const RtCollStep *step)
{
    Walk *walk = data;
    walk->visit(walk, step);
}

/* The steps of all ranks in a phase, or only the rank's own. */
static void
walk_phase(Walk *walk, int phase, bool own)
{
    RtCollShape shape = shape_of(walk->work);
    for (int k = 0; k < shape.num_participants; k++) {
        walk->executor = k;
        if (!own || k == walk->work->rank->rank)
            walk->work->algorithm->all_reduce(&shape, k, phase, visit_step,
                                              walk);
    }
}

/* ---- messages ------------------------------------------------------------ */

static void
send_bytes(Walk *walk, int to, RtDevicePtr from, size_t n)
{
    NcclRank *r = walk->work->rank;
    if (walk->works && n)
        walk->works = rt_nccl_check(
            r,
            r->comm->nccl->ncclSend(rt_ptr_address(from), n, ncclUint8, to,
                                    r->handle, walk->stream),
            "ncclSend");
}

static void
receive_bytes(Walk *walk, int from, RtDevicePtr to, size_t n)
{
    NcclRank *r = walk->work->rank;
    if (walk->works && n)
        walk->works = rt_nccl_check(
            r,
            r->comm->nccl->ncclRecv(rt_ptr_address(to), n, ncclUint8, from,
                                    r->handle, walk->stream),
            "ncclRecv");
}

/* A pass of messages.  false: the device has failed. */
static bool
exchange(Walk *walk, Visit *visit, int phase)
{
    NcclRank *r = walk->work->rank;
    walk->visit = visit;
    walk->stream = rt_nccl_begin(r);
    walk->works = true;
    if (!walk->stream)
        return false;
    r->used = 0;
    walk_phase(walk, phase, false);
    return rt_nccl_end(r, walk->works);
}

/* ---- the three passes ---------------------------------------------------- */

/* What is copied from the root needs no other one. */
static bool
is_needed(const NcclWork *w, const RtCollStep *step, int replica)
{
    return w->instance->operands[step->operand].kernel >= 0 ||
           replica == w->instance->choice.root;
}

static void
move_operands(Walk *walk, const RtCollStep *step)
{
    NcclWork *w = walk->work;
    const NcclComm *comm = w->instance->comm;
    int own = w->rank->rank;
    size_t n = step_bytes(w, step);
    size_t at = (size_t)step->begin * width(w, step->operand);
    for (int k = 0; k < comm->coll.num_replicas; k++) {
        int rank = k / comm->each;
        if (!is_needed(w, step, k) || rank == walk->executor)
            continue;
        if (rank == own)
            send_bytes(
                walk, walk->executor,
                rt_ptr_add(w->reduces[k % comm->each][step->operand].in, at),
                n);
        else if (walk->executor == own)
            receive_bytes(walk, rank, take_scratch(w->rank, n), n);
    }
}

/* Whoever takes a step is one of its receivers, so a result needs no place but
 * its own. */
static bool
is_receiver(const RtCollStep *step, int rank)
{
    return rank >= step->first_receiver &&
           rank < step->first_receiver + step->num_receivers;
}

static void
send_needed(Walk *walk, const RtCollStep *step)
{
    NcclWork *w = walk->work;
    int own = w->rank->rank;
    assert(is_receiver(step, walk->executor));
    if (step->kind == STEP_COMBINE)
        move_operands(walk, step);
    else if (step->from == own)
        send_bytes(walk, walk->executor, result(w, step), step_bytes(w, step));
    else if (walk->executor == own)
        receive_bytes(walk, step->from, result(w, step), step_bytes(w, step));
}

/* Where the elements of a replica are, when all have come. */
static RtDevicePtr
operand_at(NcclWork *w, const RtCollStep *step, int replica)
{
    const NcclComm *comm = w->instance->comm;
    size_t at = (size_t)step->begin * width(w, step->operand);
    if (replica / comm->each == w->rank->rank)
        return rt_ptr_add(w->reduces[replica % comm->each][step->operand].in,
                          at);
    return take_scratch(w->rank, step_bytes(w, step));
}

static void
launch(NcclWork *w, const RtCollStep *step)
{
    NcclRank *r = w->rank;
    int n = w->instance->comm->coll.num_replicas;
    int64_t count = step->end - step->begin, dims[] = {count, count, 0};
    for (int k = 0; k < n; k++)
        r->ptrs[k] = rt_ptr_address(operand_at(w, step, k));
    r->ptrs[n] = rt_ptr_address(result(w, step));
    RtKernelLaunch l = {.kernel = w->instance->operands[step->operand].kernel,
                        .ptrs = r->ptrs,
                        .dims = dims,
                        .count = count,
                        .grain = NCCL_GRAIN,
                        .num_ptrs = n + 1};
    r->device->ops->launch_kernel(queue_of(r), &l);
}

static void
combine(Walk *walk, const RtCollStep *step)
{
    NcclWork *w = walk->work;
    if (step->kind != STEP_COMBINE)
        return;
    if (w->instance->operands[step->operand].kernel >= 0) {
        launch(w, step);
        return;
    }
    RtDevicePtr from = operand_at(w, step, w->instance->choice.root);
    RtDevicePtr to = result(w, step);
    if (from.memory != to.memory || from.offset != to.offset)
        w->rank->device->ops->copy(queue_of(w->rank), to, from,
                                   step_bytes(w, step));
}

/* Whether the slices of an operand are of one size, one for each rank. */
static bool
is_even(const NcclWork *w, int i)
{
    int64_t n = w->instance->comm->config.num_participants;
    return w->algorithm == rt_reduce_algorithm(COLL_TWO_PHASE, NULL, 0) &&
           w->counts[i] > 0 && w->counts[i] % (n * COLL_SLICE_STEP) == 0;
}

static void
send_results(Walk *walk, const RtCollStep *step)
{
    NcclWork *w = walk->work;
    int own = w->rank->rank;
    size_t n = step_bytes(w, step);
    if (is_even(w, step->operand))
        return;
    if (walk->executor != own) {
        if (is_receiver(step, own))
            receive_bytes(walk, walk->executor, result(w, step), n);
        return;
    }
    for (int k = 0; k < step->num_receivers; k++)
        if (step->first_receiver + k != own)
            send_bytes(walk, step->first_receiver + k, result(w, step), n);
}

static bool
gather_slices(NcclWork *w)
{
    NcclRank *r = w->rank;
    CUstream stream = rt_nccl_begin(r);
    bool works = stream != NULL;
    if (!stream)
        return false;
    for (int i = 0; works && i < w->instance->num; i++) {
        size_t n = (size_t)w->counts[i] * width(w, i) /
                   (size_t)r->comm->config.num_participants;
        char *to = rt_ptr_address(w->reduces[0][i].out);
        if (is_even(w, i))
            works = rt_nccl_check(
                r,
                r->comm->nccl->ncclAllGather(to + (size_t)r->rank * n, to, n,
                                             ncclUint8, r->handle, stream),
                "ncclAllGather");
    }
    return rt_nccl_end(r, works);
}

/* ---- all_reduce ---------------------------------------------------------- */

static void
reduce_in_order(NcclWork *w)
{
    Walk walk = {.work = w};
    RtCollShape shape = shape_of(w);
    int phases = rt_algorithm_phases(w->algorithm, &shape);
    bool alone = shape.num_participants == 1; /* nothing has to move */
    for (int phase = 0; phase < phases; phase++) {
        if (!alone && !exchange(&walk, send_needed, phase))
            return;
        w->rank->used = 0;
        walk.visit = combine;
        walk_phase(&walk, phase, true);
        if (!alone &&
            (!gather_slices(w) || !exchange(&walk, send_results, phase)))
            return;
    }
}

static const ncclDataType_t types[NUM_DTYPES] = {
    [DT_f64] = ncclFloat64,   [DT_f32] = ncclFloat32, [DT_f16] = ncclFloat16,
    [DT_bf16] = ncclBfloat16, [DT_i64] = ncclInt64,   [DT_i32] = ncclInt32,
    [DT_i8] = ncclInt8,       [DT_u8] = ncclUint8,
};

static const ncclRedOp_t reductions[NUM_REDUCE_OPS] = {
    [REDUCE_SUM] = ncclSum, [REDUCE_MAX] = ncclMax, [REDUCE_MIN] = ncclMin};

/* In the order that NCCL chooses. */
static void
reduce_by_library(NcclWork *w)
{
    NcclRank *r = w->rank;
    CUstream stream = rt_nccl_begin(r);
    bool works = stream != NULL;
    if (!stream)
        return;
    for (int i = 0; works && i < w->instance->num; i++) {
        const RtAllReducePart *p = &w->reduces[0][i];
        if (p->count)
            works = rt_nccl_check(
                r,
                r->comm->nccl->ncclAllReduce(
                    rt_ptr_address(p->in), rt_ptr_address(p->out),
                    (size_t)p->count, types[w->instance->operands[i].dtype],
                    reductions[w->instance->how], r->handle, stream),
                "ncclAllReduce");
    }
    rt_nccl_end(r, works);
}

IrCollAlgorithm
rt_nccl_algorithm(const NcclWork *w)
{
    RtCollAlgorithm asked = w->instance->choice.algorithm;
    RtCollShape shape = shape_of(w);
    if (w->instance->gathers)
        return IR_COLL_TWO_PHASE;
    return asked == COLL_LIBRARY ? IR_COLL_LIBRARY
                                 : rt_reduce_algorithm(asked, &shape, 0)->by;
}

void
rt_nccl_reduce(NcclWork *w)
{
    RtCollAlgorithm asked = w->instance->choice.algorithm;
    RtCollShape shape = shape_of(w);
    w->algorithm = rt_reduce_algorithm(asked, &shape, 0);
    if (asked == COLL_LIBRARY)
        reduce_by_library(w);
    else
        reduce_in_order(w);
}

/* Of each operand the slice that a rank combines, of all other ranks; a rank
 * that combines packs may combine all. */
size_t
rt_nccl_reduce_scratch(const NcclComm *comm, RtAlgorithmChoice choice, int num,
                       const RtReduceOperand *operands)
{
    int64_t n = comm->config.num_participants, all = COLL_SLICE_STEP;
    size_t others = (size_t)(comm->coll.num_replicas - comm->each), bytes = 0;
    bool whole = choice.algorithm == COLL_HIERARCHICAL ||
                 choice.algorithm == COLL_REDUCE_TO_ONE;
    for (int i = 0; i < num; i++) {
        int64_t steps = (operands[i].most + all - 1) / all;
        int64_t slice = whole ? steps : (steps + n - 1) / n;
        size_t width_of = dtype_info[operands[i].dtype].bytes;
        bytes += others * align((size_t)(slice * all) * width_of);
    }
    return bytes + others * (size_t)choice.packs * NCCL_ALIGN;
}

/* ---- all_gather ---------------------------------------------------------- */

/* Blocks are of any size, which only their replica knows. */
static RtDevicePtr
sizes_at(const NcclRank *r, int replica)
{
    size_t bytes = (size_t)r->comm->coll.num_replicas * sizeof(int64_t);
    RtDevicePtr all = {r->scratch, (r->scratch->bytes - bytes) / 8 * 8};
    return rt_ptr_add(all, (size_t)replica * sizeof(int64_t));
}

static bool
gather_sizes(NcclWork *w)
{
    NcclRank *r = w->rank;
    const RtDeviceOps *ops = r->device->ops;
    int each = r->comm->each, first = r->rank * each;
    size_t n = (size_t)each * sizeof *r->sizes;
    for (int k = 0; k < each; k++)
        r->sizes[first + k] = w->gathers[k].own_bytes;
    ops->copy_in(queue_of(r), sizes_at(r, first), &r->sizes[first], n);
    if (r->comm->config.num_participants == 1)
        return true;
    CUstream stream = rt_nccl_begin(r);
    if (!stream)
        return false;
    bool works = rt_nccl_check(
        r,
        r->comm->nccl->ncclAllGather(rt_ptr_address(sizes_at(r, first)),
                                     rt_ptr_address(sizes_at(r, 0)), n,
                                     ncclUint8, r->handle, stream),
        "ncclAllGather");
    return rt_nccl_end(r, works);
}

static bool
fetch_sizes(NcclWork *w)
{
    NcclRank *r = w->rank;
    RtWaited waited = {0};
    size_t n = (size_t)r->comm->coll.num_replicas * sizeof *r->sizes;
    r->device->ops->copy_out(queue_of(r), r->sizes, sizes_at(r, 0), n);
    RtEvent end = r->device->ops->record(queue_of(r));
    while (!r->device->ops->wait(end)) {
        r->is_late = rt_coll_is_late(&r->comm->config, r->timeout, &waited);
        if (r->is_late || atomic_load(&r->comm->stopped))
            return false;
    }
    return !atomic_load(&r->comm->stopped);
}

static size_t
sum_of(const int64_t *sizes, int num)
{
    size_t sum = 0;
    for (int i = 0; i < num; i++)
        sum += (size_t)sizes[i];
    return sum;
}

/* The blocks of a replica to their places in the whole. */
static void
place_blocks(NcclWork *w, int replica, RtDevicePtr from)
{
    NcclRank *r = w->rank;
    int num = r->comm->coll.num_replicas;
    size_t own = (size_t)r->sizes[replica], row = sum_of(r->sizes, num);
    RtRowsCopy rows = {
        .to = rt_ptr_add(w->gathers[0].out, sum_of(r->sizes, replica)),
        .from = from,
        .to_pitch = row,
        .from_pitch = own,
        .row_bytes = own,
        .num_rows = (size_t)w->gathers[0].outer};
    if (rows.num_rows == 1 || own == row) { /* nothing is between them */
        rows.row_bytes = own * rows.num_rows;
        rows.to_pitch = rows.from_pitch = rows.row_bytes;
        rows.num_rows = 1;
    }
    if (rows.row_bytes && rows.num_rows)
        r->device->ops->copy_rows(queue_of(r), &rows);
}

static void
move_blocks(Walk *walk)
{
    NcclRank *r = walk->work->rank;
    const NcclComm *comm = r->comm;
    size_t outer = (size_t)walk->work->gathers[0].outer;
    for (int k = 0; k < comm->coll.num_replicas; k++) {
        size_t n = outer * (size_t)r->sizes[k];
        if (k / comm->each != r->rank) {
            receive_bytes(walk, k / comm->each, take_scratch(r, n), n);
            continue;
        }
        for (int to = 0; to < comm->config.num_participants; to++)
            if (to != r->rank)
                send_bytes(walk, to, walk->work->gathers[k % comm->each].in, n);
    }
}

static void
place_all(NcclWork *w)
{
    NcclRank *r = w->rank;
    size_t outer = (size_t)w->gathers[0].outer;
    r->used = 0;
    for (int k = 0; k < r->comm->coll.num_replicas; k++) {
        bool is_own = k / r->comm->each == r->rank;
        size_t n = outer * (size_t)r->sizes[k];
        place_blocks(w, k,
                     is_own ? w->gathers[k % r->comm->each].in
                            : take_scratch(r, n));
    }
}

bool
rt_nccl_gather(NcclWork *w)
{
    NcclRank *r = w->rank;
    Walk walk = {.work = w, .works = true};
    if (!gather_sizes(w) || !fetch_sizes(w))
        return false;
    if (r->comm->config.num_participants > 1) {
        walk.stream = rt_nccl_begin(r);
        if (!walk.stream)
            return false;
        r->used = 0;
        move_blocks(&walk);
        if (!rt_nccl_end(r, walk.works))
            return false;
    }
    place_all(w);
    return true;
}

size_t
rt_nccl_gather_scratch(const NcclComm *comm, int64_t most)
{
    return (size_t)most + (size_t)comm->coll.num_replicas * NCCL_ALIGN;
}
