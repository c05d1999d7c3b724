/*
 * guard.c - a thread that ends a task whose calls of libzmq do not return
 */
#include "runtime/ps/wire/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "runtime/hal/wait.h"

struct RtPsGuard {
    Arena *arena;
    double seconds;
    RtPsGiveUp give_up;
    void *data;
    _Atomic uint64_t turns;
    atomic_int pauses;
    pthread_t thread;
    RtWaitWord closing;
};

static void *
watch(void *data)
{
    RtPsGuard *g = data;
    uint64_t seen = 0;
    RtWaited idle = {0};
    while (!rt_wait_word_load(&g->closing)) {
        rt_wait_word_wait(&g->closing, 0, false); /* a tenth of a second */
        uint64_t turns = atomic_load(&g->turns);
        if (turns != seen || atomic_load(&g->pauses))
            idle = (RtWaited){0};
        seen = turns;
        if (rt_waited(&idle, clock_seconds()) > g->seconds)
            g->give_up(g->data);
    }
    return NULL;
}

Status
rt_guard_start(double seconds, RtPsGiveUp give_up, void *data, RtPsGuard **out)
{
    Arena *a = arena_new(NULL, "a guard");
    RtPsGuard *g = arena_alloc_on_lines(a, sizeof *g);
    g->arena = a;
    g->seconds = seconds;
    g->give_up = give_up;
    g->data = data;
    Status st = thread_start(&g->thread, watch, g, "a guard");
    if (st)
        arena_release(a);
    else
        *out = g;
    return st;
}

void
rt_guard_stop(RtPsGuard *g)
{
    if (!g)
        return;
    rt_wait_word_store(&g->closing, 1);
    pthread_join(g->thread, NULL);
    arena_release(g->arena);
}

void
rt_guard_turn(RtPsGuard *g)
{
    if (g)
        atomic_fetch_add_explicit(&g->turns, 1, memory_order_relaxed);
}

void
rt_guard_pause(RtPsGuard *g)
{
    if (g)
        atomic_fetch_add(&g->pauses, 1);
}

void
rt_guard_resume(RtPsGuard *g)
{
    rt_guard_turn(g);
    if (g)
        atomic_fetch_sub(&g->pauses, 1);
}
