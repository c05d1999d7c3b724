/*
 * shared.c - a group of processes that map one segment
 *
 * An exchange is a *slot*: a word that counts arrivals, over all exchanges, and
 * for each process a box with two places for its bytes, used in turn.  Who
 * begins exchange k + 1 of a slot has finished k, so all have begun k, and have
 * finished k - 1: nobody reads the place that is written.
 *
 * Longer bytes go through *channels*, one of each process, a ring of two blocks
 * which it fills and others empty: all of them in a broadcast, the root in a
 * gather.  Broadcasts and gathers are counted, by everybody alike, and a
 * channel says for which of them it is filled, from which block on, and how
 * many bytes there are.  A process fills it for the next one when the last has
 * been emptied; so that nobody misses one, each has a block at least.  Each of
 * the two places counts who has emptied it: one count for both would let a
 * fast reader of the second pass for a slow one of the first.
 *
 * Words are raised after what they announce was written, and read before that
 * is read; a process that is killed leaves words that do not rise any more.
 */
#include "runtime/cluster/group/shared.h"

#include <assert.h>
#include <string.h>
#include "runtime/cluster/segments/segments.h"

enum { BLOCK_BYTES = 128 << 10, NUM_BLOCKS = 2 };

typedef struct Box {
    _Alignas(CACHE_LINE) _Atomic uint32_t begun; /* exchanges */
    _Alignas(CACHE_LINE) char bytes[2][RT_GROUP_MOST_BYTES];
} Box;

typedef struct Channel {
    RtWaitWord call;   /* for which it is filled; the next two are its */
    uint64_t bytes;    /* that go through */
    uint32_t first;    /* block */
    RtWaitWord filled; /* blocks, over all calls */
    RtWaitWord emptied[NUM_BLOCKS]; /* times, by all readers */
    _Alignas(CACHE_LINE) char blocks[NUM_BLOCKS][BLOCK_BYTES];
} Channel;

/* The segment; after it, the boxes of each slot, by rank, and the channels. */
typedef struct Shared {
    RtWaitWord arrived[RT_GROUP_SLOTS];
    _Alignas(CACHE_LINE) _Atomic uint32_t is_aborted;
} Shared;

typedef struct SharedGroup {
    RtGroup group;
    Arena *arena;
    RtSharedGroupConfig config;
    RtSegments *segments; /* one, of rank 0 */
    Shared *shared;
    Box *boxes;
    Channel *channels;
    uint32_t begun[RT_GROUP_SLOTS]; /* by this process */
    size_t bytes[RT_GROUP_SLOTS];   /* of the exchange in flight; 0: none */
    uint32_t calls;                 /* broadcasts and gathers */
    uint32_t to_empty[NUM_BLOCKS];  /* of this process's channel, when what it
                                       was filled with has been read */
} SharedGroup;

static SharedGroup *
shared_of(RtGroup *g)
{
    return (SharedGroup *)g;
}

/* ---- waiting ------------------------------------------------------------- */

static bool
has_reached(uint32_t value, uint32_t target)
{
    return (int32_t)(value - target) >= 0;
}

/* Why a wait ends before the word has risen; late: the rank that is waited for,
 * by now. */
static Status
ended(const SharedGroup *g, RtWaited *waited, int late)
{
    if (atomic_load(&g->shared->is_aborted))
        return status_new(STATUS_STOPPED, "the run has been stopped");
    return rt_waited(waited, g->config.clock()) > g->config.timeout
               ? status_new(STATUS_INPUT,
                            "rank %d has not come to an exchange of all "
                            "processes in %g seconds",
                            late, g->config.timeout)
               : OK;
}

/* Until the word, of a channel of `rank`, has risen to the target. */
static Status
wait_for(const SharedGroup *g, RtWaitWord *word, uint32_t target, int rank)
{
    RtWaited waited = {0};
    for (;;) {
        uint32_t value = rt_wait_word_load(word);
        if (has_reached(value, target))
            return OK;
        TRY(ended(g, &waited, rank));
        rt_wait_word_wait(word, value, g->config.spin);
    }
}

/* ---- exchanges ----------------------------------------------------------- */

static Box *
box_of(const SharedGroup *g, int slot, int rank)
{
    return &g->boxes[slot * g->group.size + rank];
}

static Status
start(RtGroup *group, int slot, const void *own, size_t bytes)
{
    SharedGroup *g = shared_of(group);
    Box *box = box_of(g, slot, group->rank);
    assert(bytes > 0 && bytes <= RT_GROUP_MOST_BYTES && !g->bytes[slot]);
    memcpy(box->bytes[g->begun[slot] % 2], own, bytes);
    g->begun[slot]++;
    g->bytes[slot] = bytes;
    atomic_store_explicit(&box->begun, g->begun[slot], memory_order_relaxed);
    rt_wait_word_add(&g->shared->arrived[slot], 1);
    return OK;
}

/* The first rank that has not begun the exchange. */
static int
first_late(const SharedGroup *g, int slot)
{
    int rank = 0;
    while (
        rank + 1 < g->group.size &&
        has_reached(atomic_load(&box_of(g, slot, rank)->begun), g->begun[slot]))
        rank++;
    return rank;
}

static Status
wait_for_all(const SharedGroup *g, int slot)
{
    RtWaitWord *word = &g->shared->arrived[slot];
    uint32_t target = g->begun[slot] * (uint32_t)g->group.size;
    RtWaited waited = {0};
    for (;;) {
        uint32_t value = rt_wait_word_load(word);
        if (has_reached(value, target))
            return OK;
        TRY(ended(g, &waited, first_late(g, slot)));
        rt_wait_word_wait(word, value, g->config.spin);
    }
}

static Status
finish(RtGroup *group, int slot, void *all)
{
    SharedGroup *g = shared_of(group);
    size_t bytes = g->bytes[slot];
    assert(bytes);
    TRY(wait_for_all(g, slot));
    g->bytes[slot] = 0;
    for (int r = 0; r < group->size; r++) {
        const Box *box = box_of(g, slot, r);
        memcpy((char *)all + (size_t)r * bytes,
               box->bytes[(g->begun[slot] - 1) % 2], bytes);
    }
    return OK;
}

/* ---- channels ------------------------------------------------------------ */

static uint32_t
num_blocks(size_t bytes)
{
    return bytes ? (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES) : 1;
}

static size_t
block_length(size_t bytes, uint32_t i)
{
    size_t rest = bytes - (size_t)i * BLOCK_BYTES;
    return rest < BLOCK_BYTES ? rest : BLOCK_BYTES;
}

/* Until everybody has read what this process's channel has in a place. */
static Status
wait_for_place(const SharedGroup *g, uint32_t place, int reader)
{
    Channel *c = &g->channels[g->group.rank];
    return wait_for(g, &c->emptied[place], g->to_empty[place], reader);
}

static Status
fill_block(SharedGroup *g, const char *block, size_t bytes, int num_readers,
           int reader)
{
    Channel *c = &g->channels[g->group.rank];
    uint32_t place = rt_wait_word_load(&c->filled) % NUM_BLOCKS;
    TRY(wait_for_place(g, place, reader));
    if (bytes)
        memcpy(c->blocks[place], block, bytes);
    g->to_empty[place] += (uint32_t)num_readers;
    rt_wait_word_add(&c->filled, 1);
    return OK;
}

/* Fills this process's channel for so many others, the first of whom is rank
 * `reader`. */
static Status
fill_channel(SharedGroup *g, const char *own, size_t bytes, int num_readers,
             int reader)
{
    Channel *c = &g->channels[g->group.rank];
    for (uint32_t place = 0; place < NUM_BLOCKS; place++)
        TRY(wait_for_place(g, place, reader));
    c->bytes = bytes;
    c->first = rt_wait_word_load(&c->filled);
    rt_wait_word_store(&c->call, g->calls);
    for (uint32_t i = 0; i < num_blocks(bytes); i++)
        TRY(fill_block(g, own + (size_t)i * BLOCK_BYTES, block_length(bytes, i),
                       num_readers, reader));
    return OK;
}

/* How many bytes come through the channel of a rank. */
static Status
await_channel(const SharedGroup *g, int rank, size_t *bytes)
{
    Channel *c = &g->channels[rank];
    TRY(wait_for(g, &c->call, g->calls, rank));
    *bytes = c->bytes;
    return OK;
}

/* Block i of this call. */
static Status
await_block(const SharedGroup *g, int rank, uint32_t i, const char **out)
{
    Channel *c = &g->channels[rank];
    TRY(wait_for(g, &c->filled, c->first + i + 1, rank));
    *out = c->blocks[(c->first + i) % NUM_BLOCKS];
    return OK;
}

static void
end_block(const SharedGroup *g, int rank, uint32_t i)
{
    Channel *c = &g->channels[rank];
    rt_wait_word_add(&c->emptied[(c->first + i) % NUM_BLOCKS], 1);
}

static Status
empty_channel(const SharedGroup *g, int rank, char *to, size_t bytes)
{
    for (uint32_t i = 0; i < num_blocks(bytes); i++) {
        const char *block;
        TRY(await_block(g, rank, i, &block));
        if (bytes)
            memcpy(to + (size_t)i * BLOCK_BYTES, block, block_length(bytes, i));
        end_block(g, rank, i);
    }
    return OK;
}

static Status
broadcast(RtGroup *group, int root, void *bytes, size_t n)
{
    SharedGroup *g = shared_of(group);
    size_t length;
    g->calls++;
    if (group->size == 1)
        return OK;
    if (group->rank == root)
        return fill_channel(g, bytes, n, group->size - 1, root == 0);
    TRY(await_channel(g, root, &length));
    assert(length == n);
    return empty_channel(g, root, bytes, n);
}

/* ---- gathering ----------------------------------------------------------- */

typedef void TakePart(void *data, int rank, const void *part, size_t n);

/* Of several blocks. */
static Status
take_long(SharedGroup *g, int rank, size_t n, TakePart *take, void *data)
{
    Arena *a = arena_new(NULL, "a part");
    char *part = arena_alloc(a, n);
    Status st = empty_channel(g, rank, part, n);
    if (!st)
        take(data, rank, part, n);
    arena_release(a);
    return st;
}

static Status
take_from(SharedGroup *g, int rank, TakePart *take, void *data)
{
    const char *block;
    size_t n;
    TRY(await_channel(g, rank, &n));
    TRY(rt_group_check_part(rank, n));
    if (n > BLOCK_BYTES)
        return take_long(g, rank, n, take, data);
    TRY(await_block(g, rank, 0, &block));
    take(data, rank, block, n);
    end_block(g, rank, 0);
    return OK;
}

static Status
gather(RtGroup *group, int root, const void *own, size_t n, TakePart *take,
       void *data)
{
    SharedGroup *g = shared_of(group);
    g->calls++;
    if (group->rank != root)
        return fill_channel(g, own, n, 1, root);
    for (int r = 0; r < group->size; r++) {
        if (r == root)
            take(data, r, own, n);
        else
            TRY(take_from(g, r, take, data));
    }
    return OK;
}

/* ---- opening and closing ------------------------------------------------- */

static void
abort_all(RtGroup *group)
{
    SharedGroup *g = shared_of(group);
    atomic_store(&g->shared->is_aborted, 1);
    for (int i = 0; i < RT_GROUP_SLOTS; i++)
        rt_wait_word_wake(&g->shared->arrived[i]);
    for (int r = 0; r < group->size; r++) {
        Channel *c = &g->channels[r];
        rt_wait_word_wake(&c->call);
        rt_wait_word_wake(&c->filled);
        for (int i = 0; i < NUM_BLOCKS; i++)
            rt_wait_word_wake(&c->emptied[i]);
    }
}

static void
close_group(RtGroup *group)
{
    SharedGroup *g = shared_of(group);
    rt_segments_leave(g->segments, group->size);
    if (group->rank == 0)
        rt_segment_close(&g->segments[0].data[0]);
    arena_release(g->arena);
}

static const RtGroupOps ops = {
    .name = "shared memory",
    .start = start,
    .finish = finish,
    .broadcast = broadcast,
    .gather = gather,
    .abort = abort_all,
    .close = close_group,
};

static size_t
boxes_bytes(int size)
{
    return sizeof(Box) * RT_GROUP_SLOTS * (size_t)size;
}

/* All processes store the same, before any of them waits. */
static void
place(SharedGroup *g, char *at)
{
    g->shared = (Shared *)(void *)at;
    g->boxes = (Box *)(void *)(at + sizeof *g->shared);
    g->channels = (Channel *)(void *)(at + sizeof *g->shared +
                                      boxes_bytes(g->group.size));
    for (int i = 0; i < RT_GROUP_SLOTS; i++)
        g->shared->arrived[i].is_shared = true;
    for (int r = 0; r < g->group.size; r++) {
        Channel *c = &g->channels[r];
        c->call.is_shared = c->filled.is_shared = true;
        for (int i = 0; i < NUM_BLOCKS; i++)
            c->emptied[i].is_shared = true;
    }
}

static Status
join(SharedGroup *g, bool *joined, Str *why)
{
    const RtExchange *x = g->config.exchange;
    size_t size = (size_t)x->size;
    size_t bytes =
        sizeof(Shared) + boxes_bytes(x->size) + size * sizeof(Channel);
    RtSegment own = {.fd = -1};
    if (x->rank == 0)
        TRY(rt_segment_new(bytes, false, &own));
    g->segments = NEW_ARRAY(g->arena, RtSegments, size);
    Status st = rt_segments_join(x, "shared memory: group", &own, x->rank == 0,
                                 g->arena, g->segments, joined, why);
    if (!st && *joined && (st = rt_segments_expect(g->segments, 0, bytes)))
        rt_segments_leave(g->segments, x->size);
    if (st || !*joined)
        rt_segment_close(&own);
    else
        place(g, g->segments[0].data[0].at);
    return st;
}

Status
rt_shared_group_open(const RtSharedGroupConfig *config, RtGroup **out, Str *why)
{
    Arena *a = arena_new(NULL, "group");
    SharedGroup *g = NEW(a, SharedGroup);
    const RtExchange *x = config->exchange;
    Str reason = str_new(a);
    bool joined = false;
    *g = (SharedGroup){
        .group = {&ops, x->rank, x->size}, .arena = a, .config = *config};
    *out = NULL;
    Status st = join(g, &joined, &reason);
    str_add(why, str_text(&reason));
    if (st || !joined)
        arena_release(a);
    else
        *out = &g->group;
    return st;
}
