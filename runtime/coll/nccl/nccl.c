/*
 * nccl.c - collectives over NCCL, of GPUs of one process or several
 *
 * Each device is a rank.  Its program enqueues all of a collective when its
 * last replica starts: behind an event of the program, on the device's queue of
 * collectives, calls of NCCL and kernels of the plan.  No rank has to know
 * that the others have come: NCCL's kernels wait for each other on the devices.
 * So all ranks must start their collectives in one order, which is that of the
 * program.  done lets the program's queue wait for the event of the end.
 *
 * The exception are all_gathers: what others give is known to the host when
 * their sizes have come, for which done waits.
 */
#include <assert.h>
#include <string.h>
#include "runtime/coll/nccl/nccl_impl.h"
#include "runtime/coll/transport.h"

static NcclComm *
comm_of(RtColl *c)
{
    return (NcclComm *)c;
}

/* ---- instances ----------------------------------------------------------- */

static void
make_works(NcclComm *comm, RtCollInstance *s)
{
    Arena *a = comm->arena;
    size_t each = (size_t)comm->each;
    s->works = NEW_ARRAY(a, NcclWork, (size_t)comm->coll.num_devices);
    for (int i = 0; i < comm->coll.num_devices; i++) {
        NcclWork *w = &s->works[i];
        w->instance = s;
        w->rank = &comm->ranks[i];
        w->counts = NEW_ARRAY(a, int64_t, (size_t)s->num);
        w->gathers = NEW_ARRAY(a, RtAllGatherPart, each);
        w->reduces = NEW_ARRAY(a, RtAllReducePart *, each);
        for (int k = 0; k < comm->each; k++)
            w->reduces[k] = NEW_ARRAY(a, RtAllReducePart, (size_t)s->num);
    }
}

static RtCollInstance *
instance_new(NcclComm *comm, int num, size_t scratch)
{
    RtCollInstance *s = NEW(comm->arena, RtCollInstance);
    s->comm = comm;
    s->num = num;
    make_works(comm, s);
    s->next = comm->instances;
    comm->instances = s;
    if (scratch > comm->scratch)
        comm->scratch = scratch;
    return s;
}

static Status
check_operand(const NcclComm *comm, RtReduceOp how, RtAlgorithmChoice choice,
              const RtReduceOperand *operand)
{
    const char *name = dtype_info[operand->dtype].name;
    int num = comm->coll.num_replicas;
    if (choice.algorithm == COLL_LIBRARY && comm->each > 1)
        return status_new(STATUS_INPUT,
                          "nccl:allreduce combines one replica of each GPU, "
                          "and this run has %d replicas on %d: run it on as "
                          "many GPUs, or compile it with --cross-device-ops "
                          "nccl",
                          num, comm->config.num_participants);
    if (choice.algorithm == COLL_LIBRARY &&
        (operand->dtype == DT_i16 || operand->dtype == DT_bool))
        return status_new(STATUS_INPUT,
                          "NCCL does not combine values of %s: compile the "
                          "program with --cross-device-ops nccl",
                          name);
    if (choice.algorithm != COLL_LIBRARY && operand->kernel < 0 &&
        how != REDUCE_FIRST && num > 1)
        return status_new(STATUS_INPUT,
                          "the plan has no kernel that combines values of %s "
                          "of %d replicas, which NCCL's ranks need",
                          name, num);
    return OK;
}

/* The value of the root is the same in any order. */
static RtAlgorithmChoice
choose(RtAlgorithmChoice choice, RtReduceOp how)
{
    if (choice.algorithm == COLL_AUTO ||
        (choice.algorithm == COLL_LIBRARY && how == REDUCE_FIRST))
        choice.algorithm = COLL_TWO_PHASE;
    return choice;
}

static Status
nccl_all_reduce_new(RtColl *c, RtReduceOp how, RtAlgorithmChoice choice,
                    int num, const RtReduceOperand *operands,
                    RtCollInstance **out)
{
    NcclComm *comm = comm_of(c);
    choice = choose(choice, how);
    assert(choice.algorithm != COLL_REPLICATED);
    TRY(rt_reduce_check(choice.algorithm, c->num_replicas));
    for (int i = 0; i < num; i++)
        TRY(check_operand(comm, how, choice, &operands[i]));
    RtCollInstance *s = instance_new(
        comm, num, rt_nccl_reduce_scratch(comm, choice, num, operands));
    s->how = how;
    s->choice = choice;
    s->operands =
        arena_copy(comm->arena, operands, (size_t)num * sizeof *operands);
    *out = s;
    return OK;
}

static Status
nccl_all_gather_new(RtColl *c, RtAlgorithmChoice choice, int64_t most,
                    RtCollInstance **out)
{
    NcclComm *comm = comm_of(c);
    (void)choice; /* each sends its own blocks */
    *out = instance_new(comm, 1, rt_nccl_gather_scratch(comm, most));
    (*out)->gathers = true;
    return OK;
}

/* ---- start and done ------------------------------------------------------ */

static NcclWork *
work_of(const RtCollInstance *s, int replica, int *place)
{
    const NcclComm *comm = s->comm;
    int local = replica - comm->config.first_local;
    assert(local >= 0 && local < comm->config.num_local);
    *place = local % comm->each;
    return &s->works[local / comm->each];
}

static void
count_call(NcclWork *w)
{
    RtCollInstance *s = w->instance;
    atomic_fetch_add(&w->call, 1);
    if (w == s->works)
        s->calls[rt_nccl_algorithm(w)]++;
}

/* Whether it was the last replica of the device. */
static bool
announce(NcclWork *w)
{
    if (w->announced == 0)
        count_call(w);
    w->announced = (w->announced + 1) % w->instance->comm->each;
    return w->announced == 0;
}

static void
follow_program(NcclWork *w)
{
    RtDevice *d = w->rank->device;
    d->ops->wait_event(d->queues[QUEUE_COLL], d->ops->program->record(d));
}

static void
end(NcclWork *w)
{
    RtDevice *d = w->rank->device;
    w->end = d->ops->record(d->queues[QUEUE_COLL]);
}

static void
nccl_all_reduce_start(RtCollInstance *s, int replica,
                      const RtAllReducePart *parts)
{
    int place;
    NcclWork *w = work_of(s, replica, &place);
    memcpy(w->reduces[place], parts, (size_t)s->num * sizeof *parts);
    for (int i = 0; i < s->num; i++)
        w->counts[i] = parts[i].count;
    if (!announce(w))
        return;
    w->rank->timeout = s->choice.timeout;
    follow_program(w);
    rt_nccl_reduce(w);
    end(w);
}

static void
nccl_all_gather_start(RtCollInstance *s, int replica,
                      const RtAllGatherPart *part)
{
    int place;
    NcclWork *w = work_of(s, replica, &place);
    assert(s->gathers && part->outer >= 0 && part->own_bytes >= 0);
    w->gathers[place] = *part;
    if (!announce(w))
        return;
    follow_program(w);
}

static bool
nccl_arrived(const RtCollInstance *s, int replica)
{
    const NcclComm *comm = s->comm;
    int local = replica - comm->config.first_local;
    uint32_t most = 0;
    assert(local >= 0 && local < comm->config.num_local);
    for (int i = 0; i < comm->coll.num_devices; i++)
        if (atomic_load(&s->works[i].call) > most)
            most = atomic_load(&s->works[i].call);
    return atomic_load(&s->works[local / comm->each].call) == most;
}

static RtCollResult
nccl_done(RtCollInstance *s, int device, double timeout)
{
    NcclWork *w = &s->works[device];
    RtDevice *d = w->rank->device;
    assert(w->announced == 0);
    w->rank->timeout = timeout;
    bool works = !s->gathers || rt_nccl_gather(w);
    if (w->rank->is_late)
        return COLL_TIMEOUT;
    if (!works || atomic_load(&s->comm->stopped))
        return COLL_ABORTED;
    if (s->gathers)
        end(w);
    d->ops->program->wait_event(d, w->end);
    return COLL_OK;
}

static const int64_t *
nccl_calls(const RtCollInstance *s)
{
    return s->calls;
}

/* ---- opening and closing ------------------------------------------------- */

static void
nccl_close(RtColl *c)
{
    NcclComm *comm = comm_of(c);
    for (int i = 0; i < c->num_devices; i++)
        pthread_mutex_destroy(&comm->ranks[i].lock);
    arena_release(comm->arena);
}

static const RtCollOps nccl_ops = {
    .name = "nccl",
    .close = nccl_close,
    .all_reduce_new = nccl_all_reduce_new,
    .all_gather_new = nccl_all_gather_new,
    .connect = rt_nccl_connect,
    .disconnect = rt_nccl_disconnect,
    .all_reduce_start = nccl_all_reduce_start,
    .all_gather_start = nccl_all_gather_start,
    .done = nccl_done,
    .arrived = nccl_arrived,
    .calls = nccl_calls,
    .measure = rt_nccl_measure,
    .abort = rt_nccl_abort,
};

Status
rt_coll_nccl_open(const RtCommConfig *config, RtColl **out, Str *why)
{
    Arena *a = arena_new(NULL, "collectives");
    NcclComm *comm = arena_alloc_on_lines(a, sizeof *comm);
    size_t replicas = (size_t)config->num_replicas;
    (void)why;
    comm->coll = (RtColl){.ops = &nccl_ops,
                          .num_replicas = config->num_replicas,
                          .num_devices = config->num_devices};
    comm->arena = a;
    comm->config = *config;
    comm->each = config->num_local / config->num_devices;
    comm->ranks = NEW_ARRAY(a, NcclRank, (size_t)config->num_devices);
    for (int i = 0; i < config->num_devices; i++) {
        NcclRank *r = &comm->ranks[i];
        r->comm = comm;
        r->rank = config->first_local / comm->each + i;
        r->ptrs = NEW_ARRAY(a, void *, replicas + 1);
        r->sizes = NEW_ARRAY(a, int64_t, replicas);
        pthread_mutex_init(&r->lock, NULL);
    }
    *out = &comm->coll;
    return OK;
}
