/*
 * speed.c - how fast two processes are that map each other's memory
 */
#include "runtime/cluster/segments/speed.h"

#include <string.h>
#include "ir/base/clock.h"
#include "runtime/hal/wait.h"

enum { BLOCK = 1 << 20, LATENCY_TIMES = 20, RATE_TIMES = 4 };

/* What the others map; words follow, one of each process. */
typedef struct Block {
    _Alignas(CACHE_LINE) char bytes[BLOCK];
    RtWaitWord words[];
} Block;

struct RtMemoryTest {
    Arena *arena;
    int rank, size;
    bool spin;
    RtSegments *all;
    char *copy;
    uint32_t *heard; /* of each: how often it has raised its word */
};

/* A pair that measures. */
typedef struct Pair {
    const RtMemoryTest *test;
    int peer;
    double timeout;
    const _Atomic int32_t *stopped;
} Pair;

static Block *
block_of(const RtMemoryTest *t, int rank)
{
    return (Block *)(void *)t->all[rank].data[0].at;
}

static void
tell(const Pair *p)
{
    const RtMemoryTest *t = p->test;
    rt_wait_word_add(&block_of(t, p->peer)->words[t->rank], 1);
}

static Status
hear(const Pair *p)
{
    const RtMemoryTest *t = p->test;
    RtWaitWord *word = &block_of(t, t->rank)->words[p->peer];
    uint32_t had = t->heard[p->peer];
    double end = 0.0;
    while (rt_wait_word_load(word) == had) {
        double now = clock_seconds();
        end = end > 0.0 ? end : now + p->timeout;
        if (now > end || atomic_load(p->stopped))
            return status_new(STATUS_MACHINE,
                              "rank %d gets no answer of rank %d over shared "
                              "memory in %g seconds (--timeout allows more)",
                              t->rank, p->peer, p->timeout);
        rt_wait_word_wait(word, had, t->spin);
    }
    t->heard[p->peer]++;
    return OK;
}

/* To and fro.  The one that begins measures: the other one may find the word
 * raised when it gets a core. */
static Status
measure_latency(const Pair *p, double *out)
{
    bool begins = p->test->rank < p->peer;
    double best = p->timeout;
    for (int i = 0; i < LATENCY_TIMES; i++) {
        double begin = clock_seconds();
        if (begins)
            tell(p);
        TRY(hear(p));
        if (!begins)
            tell(p);
        double seconds = (clock_seconds() - begin) / 2;
        best = seconds < best ? seconds : best;
    }
    *out = begins ? best : 0;
    return OK;
}

/* What each copies the other has written just before, as in a collective. */
static Status
measure_rate(const Pair *p, double *out)
{
    const RtMemoryTest *t = p->test;
    double best = p->timeout;
    for (int i = 0; i < RATE_TIMES; i++) {
        memset(block_of(t, t->rank)->bytes, i + 1, BLOCK);
        tell(p);
        TRY(hear(p));
        double begin = clock_seconds();
        memcpy(t->copy, block_of(t, p->peer)->bytes, BLOCK);
        double seconds = clock_seconds() - begin;
        best = seconds < best ? seconds : best;
        tell(p);
        TRY(hear(p));
    }
    *out = BLOCK / best;
    return OK;
}

Status
rt_memory_test_pair(RtMemoryTest *t, int peer, double timeout,
                    const _Atomic int32_t *stopped, RtMemorySpeed *out)
{
    Pair p = {t, peer, timeout, stopped};
    TRY(measure_latency(&p, &out->latency));
    return measure_rate(&p, &out->rate);
}

/* Those of all have one size. */
static Status
check_all(const RtMemoryTest *t, size_t bytes)
{
    for (int r = 0; r < t->size; r++)
        TRY(rt_segments_expect(t->all, r, bytes));
    return OK;
}

static Status
join(RtMemoryTest *t, const RtExchange *x, bool *joined, Str *why)
{
    size_t size = (size_t)t->size;
    RtSegment own;
    TRY(rt_segment_new(sizeof(Block) + size * sizeof(RtWaitWord), false, &own));
    Block *block = (Block *)(void *)own.at;
    for (size_t i = 0; i < size; i++)
        block->words[i].is_shared = true;
    Status st = rt_segments_join(x, "shared memory: speed", &own, 1, t->arena,
                                 t->all, joined, why);
    if (!st && *joined && (st = check_all(t, own.bytes)))
        rt_segments_leave(t->all, t->size);
    if (st || !*joined)
        rt_segment_close(&own);
    return st;
}

Status
rt_memory_test_open(const RtExchange *x, bool spin, RtMemoryTest **out,
                    Str *why)
{
    Arena *a = arena_new(NULL, "speed of shared memory");
    RtMemoryTest *t = NEW(a, RtMemoryTest);
    size_t size = (size_t)x->size;
    bool joined = false;
    Str reason = str_new(a);
    *t = (RtMemoryTest){.arena = a,
                        .rank = x->rank,
                        .size = x->size,
                        .spin = spin,
                        .all = NEW_ARRAY(a, RtSegments, size),
                        .copy = arena_alloc(a, BLOCK),
                        .heard = NEW_ARRAY(a, uint32_t, size)};
    *out = NULL;
    memset(t->copy, 1, BLOCK);
    Status st = join(t, x, &joined, &reason);
    str_add(why, str_text(&reason));
    if (st || !joined)
        arena_release(a);
    else
        *out = t;
    return st;
}

void
rt_memory_test_close(RtMemoryTest *t)
{
    rt_segments_leave(t->all, t->size);
    rt_segment_close(&t->all[t->rank].data[0]);
    arena_release(t->arena);
}
