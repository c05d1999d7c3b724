/*
 * forked_coll.c - a communicator over memory that processes of a test share
 *
 * The simplest that keeps its promises: every replica copies its operands to
 * shared memory, and every device combines those of all for itself.  There are
 * two places for them, used in turn: who starts the next call but one has seen
 * all replicas start the next, and so end this one.
 */
#include "tests/cluster/forked_coll.h"

#include <assert.h>
#include <string.h>
#include "runtime/coll/algorithm/reduce.h"

enum { MOST_REPLICAS = 32 };

typedef struct Shared {
    _Atomic uint32_t starts[MOST_REPLICAS]; /* calls */
    _Atomic uint32_t all;                   /* of all replicas */
    int64_t own_bytes[2][MOST_REPLICAS];    /* of an all_gather */
} Shared;

typedef struct Comm {
    RtColl coll;
    RtCommConfig config;
    Forked *forked;
    Arena *arena;
    _Atomic uint32_t *aborted; /* by any process */
} Comm;

typedef struct Operand {
    RtReduceKernel *reduce;
    size_t bytes, most; /* of an element, of all */
    char *staged[2];    /* most bytes for each replica */
} Operand;

struct RtCollInstance {
    Comm *comm;
    Shared *shared;
    int num;
    Operand *operands;
    RtAllReducePart *parts; /* of each local replica, each operand */
    RtAllGatherPart *gathers;
    uint32_t *calls; /* of each device */
};

static Forked *used;

/* ---- instances ------------------------------------------------------------
 */

static RtCollInstance *
instance_new(Comm *c, int num)
{
    size_t local = (size_t)c->config.num_local;
    RtCollInstance *s = NEW(c->arena, RtCollInstance);
    *s = (RtCollInstance){.comm = c, .num = num};
    s->shared = forked_alloc(c->forked, sizeof(Shared));
    s->operands = NEW_ARRAY(c->arena, Operand, (size_t)num);
    s->parts = NEW_ARRAY(c->arena, RtAllReducePart, (size_t)num * local);
    s->gathers = NEW_ARRAY(c->arena, RtAllGatherPart, local);
    s->calls = NEW_ARRAY(c->arena, uint32_t, (size_t)c->config.num_devices);
    return s;
}

static void
stage(Comm *c, Operand *o, size_t most)
{
    o->most = (most + 63) / 64 * 64;
    for (int set = 0; set < 2; set++)
        o->staged[set] =
            forked_alloc(c->forked, o->most * (size_t)c->config.num_replicas);
}

static Status
all_reduce_new(RtColl *coll, RtReduceOp how, RtCollConfig config, int num,
               const RtReduceOperand *operands, RtCollInstance **out)
{
    Comm *c = (Comm *)coll;
    RtCollInstance *s = instance_new(c, num);
    (void)config;
    for (int i = 0; i < num; i++) {
        Operand *o = &s->operands[i];
        o->reduce = rt_reduce_kernel(how, operands[i].dtype);
        o->bytes = dtype_info[operands[i].dtype].bytes;
        stage(c, o, (size_t)operands[i].most * o->bytes);
    }
    *out = s;
    return OK;
}

static Status
all_gather_new(RtColl *coll, RtCollAlgorithm algorithm, int64_t most,
               RtCollInstance **out)
{
    Comm *c = (Comm *)coll;
    RtCollInstance *s = instance_new(c, 1);
    (void)algorithm;
    stage(c, &s->operands[0], (size_t)most);
    *out = s;
    return OK;
}

/* ---- starts ----------------------------------------------------------------
 */

static uint32_t
calls_of(const RtCollInstance *s, int replica)
{
    return atomic_load(&s->shared->starts[replica]);
}

static void
arrive(RtCollInstance *s, int replica)
{
    atomic_fetch_add(&s->shared->starts[replica], 1);
    forked_add(&s->shared->all, 1);
}

static void
all_reduce_start(RtCollInstance *s, int replica, const RtAllReducePart *parts)
{
    int local = replica - s->comm->config.first_local;
    int set = calls_of(s, replica) % 2;
    memcpy(s->parts + local * s->num, parts, (size_t)s->num * sizeof *parts);
    for (int i = 0; i < s->num; i++) {
        Operand *o = &s->operands[i];
        memcpy(o->staged[set] + o->most * (size_t)replica,
               rt_ptr_host(parts[i].in), (size_t)parts[i].count * o->bytes);
    }
    arrive(s, replica);
}

static void
all_gather_start(RtCollInstance *s, int replica, const RtAllGatherPart *part)
{
    int set = calls_of(s, replica) % 2;
    Operand *o = &s->operands[0];
    s->gathers[replica - s->comm->config.first_local] = *part;
    s->shared->own_bytes[set][replica] = part->own_bytes;
    memcpy(o->staged[set] + o->most * (size_t)replica, rt_ptr_host(part->in),
           (size_t)(part->outer * part->own_bytes));
    arrive(s, replica);
}

/* ---- done ------------------------------------------------------------------
 */

static RtCollResult
wait_for_all(const RtCollInstance *s, uint32_t call)
{
    const RtCommConfig *config = &s->comm->config;
    double begin = config->clock();
    uint32_t all = atomic_load(&s->shared->all);
    for (int r = 0; r < config->num_replicas; r++)
        while ((int32_t)(calls_of(s, r) - call) < 0) {
            if (atomic_load(s->comm->aborted))
                return COLL_ABORTED;
            if (config->clock() - begin > config->timeout)
                return COLL_TIMEOUT;
            all = forked_wait(&s->shared->all, all);
        }
    return COLL_OK;
}

static void
reduce(RtCollInstance *s, int local, int set)
{
    const void *in[MOST_REPLICAS];
    for (int i = 0; i < s->num; i++) {
        Operand *o = &s->operands[i];
        const RtAllReducePart *p = &s->parts[local * s->num + i];
        void *out = rt_ptr_host(p->out);
        for (int r = 0; r < s->comm->config.num_replicas; r++)
            in[r] = o->staged[set] + o->most * (size_t)r;
        for (int64_t at = 0; at < p->count; at += 1 << 16)
            o->reduce(s->comm->config.num_replicas, in, 1, &out, at,
                      at + (1 << 16) < p->count ? at + (1 << 16) : p->count);
    }
}

static void
gather(RtCollInstance *s, int local, int set)
{
    Operand *o = &s->operands[0];
    const RtAllGatherPart *p = &s->gathers[local];
    char *to = rt_ptr_host(p->out);
    for (int64_t block = 0; block < p->outer; block++)
        for (int r = 0; r < s->comm->config.num_replicas; r++) {
            size_t n = (size_t)s->shared->own_bytes[set][r];
            memcpy(to, o->staged[set] + o->most * (size_t)r + (size_t)block * n,
                   n);
            to += n;
        }
}

static RtCollResult
done(RtCollInstance *s, int device)
{
    const RtCommConfig *config = &s->comm->config;
    int first = device * (config->num_local / config->num_devices);
    uint32_t call = ++s->calls[device];
    RtCollResult r = wait_for_all(s, call);
    if (r != COLL_OK)
        return r;
    if (s->operands[0].reduce)
        reduce(s, first, (call - 1) % 2);
    else
        gather(s, first, (call - 1) % 2);
    return COLL_OK;
}

static bool
arrived(const RtCollInstance *s, int replica)
{
    uint32_t most = 0;
    for (int r = 0; r < s->comm->config.num_replicas; r++)
        most = calls_of(s, r) > most ? calls_of(s, r) : most;
    return calls_of(s, replica) == most;
}

/* ---- communicators ----------------------------------------------------------
 */

static Status
connect_coll(RtColl *c)
{
    (void)c;
    return OK;
}

static void
abort_coll(RtColl *c)
{
    atomic_store(((Comm *)c)->aborted, 1);
}

static void
close_coll(RtColl *c)
{
    arena_release(((Comm *)c)->arena);
}

static const RtCollOps ops = {
    .name = "forked",
    .close = close_coll,
    .all_reduce_new = all_reduce_new,
    .all_gather_new = all_gather_new,
    .connect = connect_coll,
    .all_reduce_start = all_reduce_start,
    .all_gather_start = all_gather_start,
    .done = done,
    .arrived = arrived,
    .abort = abort_coll,
};

void
forked_coll_use(Forked *f)
{
    used = f;
}

Status
forked_coll_open(const RtCommConfig *config, RtColl **out)
{
    Arena *a = arena_new(NULL, "a communicator of a test");
    Comm *c = NEW(a, Comm);
    assert(config->num_replicas <= MOST_REPLICAS);
    *c = (Comm){.coll = {&ops, config->num_replicas, config->num_devices},
                .config = *config,
                .forked = used,
                .arena = a};
    c->aborted = forked_alloc(used, sizeof *c->aborted);
    *out = &c->coll;
    return OK;
}
