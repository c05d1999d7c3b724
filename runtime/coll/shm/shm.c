/*
 * shm.c - collectives of replicas that share memory
 *
 * Every replica announces its part; that is start, which never waits.  done
 * waits until all parts are there.  Then
 *
 *   - for a few bytes every device reduces all parts for itself, from copies
 *     that start made, so that no device waits a second time;
 *   - for more, each device reduces one slice of the elements and writes it
 *     to all devices' results, then waits until all have done so: every byte
 *     is read once and written once by each.  At the same occasion it does its
 *     slices of those behind that all replicas have started, so that devices
 *     meet once for a step's packs, not once for each.
 *
 * The results of a device are those of its first replica, which the others
 * share.
 *
 * That is unless the plan names another way (RtCollAlgorithm).  Whoever
 * reduces takes all replicas' elements, in their order, so that bits do not
 * depend on it.
 *
 * The copies are in two sets, used in turn: a replica that is one call ahead
 * must not overwrite what a slower one still reads.  It cannot be two ahead,
 * for it has waited for the slower one in between.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/arena.h"
#include "runtime/coll/coll.h"
#include "runtime/coll/reduce.h"
#include "runtime/hal/wait.h"

enum {
    SMALL_BYTES = 512, /* of all parts of a replica: staged */
    SLICE_STEP = 64    /* elements, so that slices share no cache line */
};

typedef struct ShmComm {
    RtColl coll;
    Arena *arena;
    RtCollInstance *instances; /* newest first */
    RtShmConfig config;
    atomic_bool stopped;
    struct Pending *pending; /* for each device */
} ShmComm;

/* What a device has started and not yet reduced its slices of, in that order;
 * its thread alone looks at it. */
typedef struct Pending {
    _Alignas(CACHE_LINE) RtCollInstance *first;
} Pending;

/* One replica's operands and results of an instance. */
typedef struct Part {
    _Alignas(CACHE_LINE) _Atomic uint32_t calls; /* of start */
    bool small;                                  /* this call is staged */
    RtAllReducePart *reduces;                    /* one for each operand */
    RtAllGatherPart gather;
    const void **in; /* scratch: a pointer for each replica */
    void **out;      /* and for each device */
    RtCollInstance *next_pending;
} Part;

struct RtCollInstance {
    ShmComm *comm;
    RtCollInstance *next;
    int num; /* operands of an all_reduce; 0: an all_gather */
    DType *dtypes;
    RtReduceKernel **reduce; /* for each operand */
    Part *parts;             /* for each replica */
    char *staged[2];         /* SMALL_BYTES for each replica */
    RtCollConfig config;
    RtWaitWord started; /* replicas, over all calls */
    /* devices, over all calls; reduced: COLL_HIERARCHICAL, before the copies */
    RtWaitWord reduced, finished;
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
    ShmComm *l = shm_of(c);
    atomic_store(&l->stopped, true);
    for (RtCollInstance *s = l->instances; s; s = s->next) {
        rt_wait_word_wake(&s->started);
        rt_wait_word_wake(&s->reduced);
        rt_wait_word_wake(&s->finished);
    }
}

/* Waits until the word, which counts up and wraps around, has reached target.
 */
static RtCollResult
wait_for(ShmComm *l, RtWaitWord *w, uint32_t target)
{
    double deadline = 0.0;
    for (;;) {
        uint32_t value = rt_wait_word_load(w);
        if ((int32_t)(value - target) >= 0)
            return COLL_OK;
        if (atomic_load(&l->stopped))
            return COLL_ABORTED;
        if (deadline == 0.0)
            deadline = l->config.clock() + l->config.timeout;
        else if (l->config.clock() > deadline)
            return COLL_TIMEOUT;
        rt_wait_word_wait(w, value, l->config.spin);
    }
}

/* The value of a word when all devices have done their part of a call. */
static uint32_t
target_of(const RtCollInstance *s, uint32_t call)
{
    return call * (uint32_t)s->comm->coll.num_devices;
}

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

/* ---- start ------------------------------------------------------------- */

static size_t
part_bytes(const RtCollInstance *s, const RtAllReducePart *parts, int i)
{
    size_t bytes = dtype_info[s->dtypes[i]].bytes;
    return ((size_t)parts[i].count * bytes + 15) & ~(size_t)15;
}

static size_t
all_bytes(const RtCollInstance *s, const RtAllReducePart *parts)
{
    size_t sum = 0;
    for (int i = 0; i < s->num && sum <= SMALL_BYTES; i++)
        sum += part_bytes(s, parts, i);
    return sum;
}

static char *
staging(const RtCollInstance *s, uint32_t call, int replica)
{
    return s->staged[call % 2] + (ptrdiff_t)replica * SMALL_BYTES;
}

static void
stage(const RtCollInstance *s, char *to, const RtAllReducePart *parts)
{
    for (int i = 0; i < s->num; i++) {
        size_t bytes = dtype_info[s->dtypes[i]].bytes;
        memcpy(to, parts[i].in, (size_t)parts[i].count * bytes);
        to += part_bytes(s, parts, i);
    }
}

static uint32_t
next_call(Part *p)
{
    return atomic_load_explicit(&p->calls, memory_order_relaxed) + 1;
}

static void
announce(RtCollInstance *s, Part *p, uint32_t call)
{
    atomic_store_explicit(&p->calls, call, memory_order_relaxed);
    rt_wait_word_add(&s->started, 1);
}

/* Whether each device reduces a slice of the call that p began. */
static bool
is_sliced(const RtCollInstance *s, const Part *p)
{
    return s->num && s->config.algorithm == COLL_TWO_PHASE && !p->small;
}

static void
add_pending(RtCollInstance *s, int device)
{
    RtCollInstance **end = &s->comm->pending[device].first;
    while (*end)
        end = &device_part(*end, device)->next_pending;
    device_part(s, device)->next_pending = NULL;
    *end = s;
}

static void
shm_all_reduce_start(RtCollInstance *s, int replica,
                     const RtAllReducePart *parts)
{
    assert(replica >= 0 && replica < s->comm->coll.num_replicas);
    Part *p = &s->parts[replica];
    uint32_t call = next_call(p);
    memcpy(p->reduces, parts, (size_t)s->num * sizeof *parts);
    p->small = s->config.algorithm == COLL_TWO_PHASE &&
               all_bytes(s, parts) <= SMALL_BYTES;
    if (p->small)
        stage(s, staging(s, call, replica), parts);
    if (replica % replicas_each(s) == 0 && is_sliced(s, p))
        add_pending(s, replica / replicas_each(s));
    announce(s, p, call);
}

static void
shm_all_gather_start(RtCollInstance *s, int replica,
                     const RtAllGatherPart *part)
{
    assert(replica >= 0 && replica < s->comm->coll.num_replicas);
    assert(!s->num && part->outer >= 0 && part->own_bytes >= 0);
    Part *p = &s->parts[replica];
    p->gather = *part;
    p->small = false;
    announce(s, p, next_call(p));
}

/* ---- done -------------------------------------------------------------- */

static void
reduce_staged(RtCollInstance *s, int device, uint32_t call)
{
    int n = s->comm->coll.num_replicas;
    Part *p = device_part(s, device);
    size_t at = 0;
    for (int i = 0; i < s->num; i++) {
        for (int k = 0; k < n; k++)
            p->in[k] = staging(s, call, k) + at;
        s->reduce[i](n, p->in, 1, &p->reduces[i].out, 0, p->reduces[i].count);
        at += part_bytes(s, p->reduces, i);
    }
}

/* Where the slice of a device begins among count elements. */
static int64_t
slice_begin(int64_t count, int n, int device)
{
    int64_t steps = (count + SLICE_STEP - 1) / SLICE_STEP;
    int64_t at = steps * device / n * SLICE_STEP;
    return at < count ? at : count;
}

/* Reduces elements begin .. end of operand i for devices first .. first + num -
 * 1, with the scratch of the device that executes it. */
static void
reduce_range(RtCollInstance *s, Part *p, int i, int first, int num,
             int64_t begin, int64_t end)
{
    int n = s->comm->coll.num_replicas;
    for (int k = 0; k < n; k++)
        p->in[k] = s->parts[k].reduces[i].in;
    for (int k = 0; k < num; k++)
        p->out[k] = device_part(s, first + k)->reduces[i].out;
    s->reduce[i](n, p->in, num, p->out, begin, end);
}

static void
reduce_slice(RtCollInstance *s, int device)
{
    int n = s->comm->coll.num_devices;
    Part *p = device_part(s, device);
    for (int i = 0; i < s->num; i++) {
        int64_t count = p->reduces[i].count;
        reduce_range(s, p, i, 0, n, slice_begin(count, n, device),
                     slice_begin(count, n, device + 1));
    }
}

/* Whether all replicas have started the call that a device is in. */
static bool
all_started(RtCollInstance *s, int device)
{
    uint32_t call = atomic_load_explicit(&device_part(s, device)->calls,
                                         memory_order_relaxed);
    uint32_t all = call * (uint32_t)s->comm->coll.num_replicas;
    return (int32_t)(rt_wait_word_load(&s->started) - all) >= 0;
}

/* The device's slices of all that all replicas have started. */
static void
reduce_pending(ShmComm *l, int device)
{
    RtCollInstance **at = &l->pending[device].first;
    while (*at) {
        RtCollInstance *s = *at;
        if (!all_started(s, device)) {
            at = &device_part(s, device)->next_pending;
            continue;
        }
        *at = device_part(s, device)->next_pending;
        reduce_slice(s, device);
        rt_wait_word_add(&s->finished, 1);
    }
}

static void
reduce_to_one(RtCollInstance *s, int device)
{
    Part *p = device_part(s, device);
    for (int i = 0; i < s->num && device == 0; i++)
        reduce_range(s, p, i, 0, s->comm->coll.num_devices, 0,
                     p->reduces[i].count);
}

/* ---- in two halves ------------------------------------------------------ */

/* A function on elements begin .. end of operand i of a pack. */
typedef void RangeWork(RtCollInstance *s, int device, int pack, int i,
                       int64_t begin, int64_t end);

static int
num_packs(const RtCollInstance *s)
{
    return s->config.packs ? s->config.packs : s->num;
}

static int64_t
clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* The ranges of operands in pack number `pack`: packs have equally many
 * elements, except the last, which has the remainder. */
static void
walk_pack(RtCollInstance *s, int device, int pack, RangeWork *work)
{
    const RtAllReducePart *r = device_part(s, device)->reduces;
    int64_t total = 0, before = 0;
    if (s->config.packs == 0) {
        work(s, device, pack, pack, 0, r[pack].count);
        return;
    }
    for (int i = 0; i < s->num; i++)
        total += r[i].count;
    int64_t size = total / s->config.packs, from = size * pack;
    int64_t to = pack + 1 < s->config.packs ? from + size : total;
    for (int i = 0; i < s->num; before += r[i++].count)
        work(s, device, pack, i, clamp(from - before, r[i].count),
             clamp(to - before, r[i].count));
}

/* The first device of the half that a device is in. */
static int
half_of(const RtCollInstance *s, int device)
{
    int half = s->comm->coll.num_devices / 2;
    return device < half ? 0 : half;
}

static void
reduce_for_half(RtCollInstance *s, int device, int pack, int i, int64_t begin,
                int64_t end)
{
    (void)pack;
    reduce_range(s, device_part(s, device), i, half_of(s, device),
                 s->comm->coll.num_devices / 2, begin, end);
}

static void
copy_to_half(RtCollInstance *s, int device, int pack, int i, int64_t begin,
             int64_t end)
{
    int n = s->comm->coll.num_devices, first = half_of(s, device);
    size_t bytes = dtype_info[s->dtypes[i]].bytes;
    const char *from = device_part(s, pack % n)->reduces[i].out;
    for (int k = first; k < first + n / 2; k++)
        memcpy((char *)device_part(s, k)->reduces[i].out +
                   (size_t)begin * bytes,
               from + (size_t)begin * bytes, (size_t)(end - begin) * bytes);
}

static RtCollResult
reduce_hierarchical(RtCollInstance *s, int device, uint32_t call)
{
    int n = s->comm->coll.num_devices;
    for (int k = device; k < num_packs(s); k += n)
        walk_pack(s, device, k, reduce_for_half);
    rt_wait_word_add(&s->reduced, 1);
    RtCollResult r = wait_for(s->comm, &s->reduced, target_of(s, call));
    for (int k = (device + n / 2) % n; r == COLL_OK && k < num_packs(s); k += n)
        walk_pack(s, device, k, copy_to_half);
    return r;
}

/* ---- gathering ---------------------------------------------------------- */

/* Copies a replica's blocks to their place in every device's result. */
static void
gather_blocks(RtCollInstance *s, int replica)
{
    int n = s->comm->coll.num_replicas;
    const RtAllGatherPart *own = &s->parts[replica].gather;
    int64_t before = 0, row = 0;
    for (int k = 0; k < n; k++) {
        int64_t bytes = s->parts[k].gather.own_bytes;
        before += k < replica ? bytes : 0;
        row += bytes;
    }
    for (int k = 0; k < s->comm->coll.num_devices; k++) {
        char *to = (char *)device_part(s, k)->gather.out + before;
        const char *from = own->in;
        for (int64_t i = 0; i < own->outer; i++) {
            memcpy(to, from, (size_t)own->own_bytes);
            to += row;
            from += own->own_bytes;
        }
    }
}

static void
gather(RtCollInstance *s, int device)
{
    int each = replicas_each(s);
    int first = device * each, end = first + each;
    if (s->config.algorithm == COLL_REDUCE_TO_ONE)
        end = device == 0 ? s->comm->coll.num_replicas : first;
    for (int k = first; k < end; k++)
        gather_blocks(s, k);
}

static RtCollResult
wait_finished(RtCollInstance *s, uint32_t call)
{
    return wait_for(s->comm, &s->finished, target_of(s, call));
}

static RtCollResult
shm_done(RtCollInstance *s, int device)
{
    ShmComm *l = s->comm;
    Part *p = device_part(s, device);
    uint32_t call = atomic_load_explicit(&p->calls, memory_order_relaxed);
    assert(call > 0); /* done comes after start */
    uint32_t all = call * (uint32_t)l->coll.num_replicas;
    RtCollResult r = wait_for(l, &s->started, all);
    if (r != COLL_OK)
        return r;
    if (is_sliced(s, p)) {
        reduce_pending(l, device);
        return wait_finished(s, call);
    }
    if (p->small)
        reduce_staged(s, device, call);
    else if (!s->num)
        gather(s, device);
    else if (s->config.algorithm == COLL_HIERARCHICAL)
        r = reduce_hierarchical(s, device, call);
    else
        reduce_to_one(s, device);
    if (r != COLL_OK)
        return r;
    rt_wait_word_add(&s->finished, 1);
    return p->small ? COLL_OK : wait_finished(s, call);
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

static RtCollInstance *
instance_new(ShmComm *l, int num)
{
    size_t n = (size_t)l->coll.num_replicas;
    RtCollInstance *s = on_lines(l->arena, sizeof *s);
    s->comm = l;
    s->num = num;
    s->parts = on_lines(l->arena, n * sizeof *s->parts);
    for (size_t i = 0; i < n; i++) {
        s->parts[i].reduces = NEW_ARRAY(l->arena, RtAllReducePart, (size_t)num);
        s->parts[i].in = NEW_ARRAY(l->arena, const void *, n);
        s->parts[i].out = NEW_ARRAY(l->arena, void *, n);
    }
    s->next = l->instances;
    l->instances = s;
    return s;
}

static Status
shm_all_reduce_new(RtColl *c, RtReduceOp how, RtCollConfig config, int num,
                   const DType *dtypes, RtCollInstance **out)
{
    ShmComm *l = shm_of(c);
    if (config.algorithm == COLL_HIERARCHICAL && c->num_replicas % 2)
        return status_new(STATUS_INPUT, "%d replicas have no two halves",
                          c->num_replicas);
    RtCollInstance *s = instance_new(l, num);
    s->config = config;
    if (config.algorithm == COLL_HIERARCHICAL && c->num_devices % 2)
        s->config.algorithm = COLL_TWO_PHASE;
    s->dtypes = arena_copy(l->arena, dtypes, (size_t)num * sizeof *dtypes);
    s->reduce = NEW_ARRAY(l->arena, RtReduceKernel *, (size_t)num);
    for (int i = 0; i < num; i++) {
        s->reduce[i] = rt_reduce_kernel(how, dtypes[i]);
        if (!s->reduce[i])
            return status_new(STATUS_INPUT, "cannot combine values of %s so",
                              dtype_info[dtypes[i]].name);
    }
    for (int i = 0; i < 2; i++)
        s->staged[i] =
            on_lines(l->arena, (size_t)c->num_replicas * SMALL_BYTES);
    *out = s;
    return OK;
}

static Status
shm_all_gather_new(RtColl *c, RtCollAlgorithm algorithm, RtCollInstance **out)
{
    *out = instance_new(shm_of(c), 0);
    (*out)->config.algorithm = algorithm;
    return OK;
}

static void
shm_close(RtColl *c)
{
    arena_release(shm_of(c)->arena);
}

static const RtCollOps shm_ops = {
    .name = "local",
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
rt_coll_shm_open(const RtShmConfig *config, RtColl **out)
{
    assert(config->num_devices > 0 && config->timeout > 0 &&
           config->num_replicas % config->num_devices == 0);
    Arena *a = arena_new(NULL, "collectives");
    ShmComm *l = NEW(a, ShmComm);
    l->coll = (RtColl){&shm_ops, config->num_replicas, config->num_devices};
    l->arena = a;
    l->config = *config;
    l->pending = on_lines(a, (size_t)config->num_devices * sizeof *l->pending);
    *out = &l->coll;
    return OK;
}
