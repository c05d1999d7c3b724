/*
 * bounded.c - calls of a library that may never return
 */
#include "runtime/hal/bounded.h"

#include "ir/base/arena.h"
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "runtime/hal/wait.h"

static const double least = 1;             /* seconds, of a turn */
static const double longest_turn = 3;      /* after an interrupt */
static const double after_interrupt = 2;   /* a call may end by itself */
static const double stopped_process = 0.5; /* a gap between two looks */

static atomic_bool has_left;

bool
rt_has_left_threads(void)
{
    return atomic_load(&has_left);
}

static bool
is_interrupted(const RtBound *b)
{
    return b->interrupted && b->interrupted(b->data);
}

/* ---- one call ----------------------------------------------------------- */

typedef struct Call {
    Arena *arena;
    void (*call)(void *data);
    void *data;
    RtWaitWord *ended;
} Call;

static void *
run(void *data)
{
    Call *c = data;
    c->call(c->data);
    rt_wait_word_store(c->ended, 1);
    return NULL;
}

static bool
wait_for(const Call *c, const RtBound *bound)
{
    double waited = 0, interrupted = 0, last = clock_seconds();
    while (rt_wait_word_wait(c->ended, 0, false) == 0) {
        double now = clock_seconds(), gap = now - last;
        last = now;
        if (gap > stopped_process)
            continue;
        waited += gap;
        if (is_interrupted(bound))
            interrupted += gap;
        if ((bound->seconds > 0 && waited >= bound->seconds) ||
            interrupted >= after_interrupt)
            return false;
    }
    return true;
}

bool
rt_call_bounded(void (*call)(void *data), void *data, const RtBound *bound)
{
    Arena *a = arena_new(NULL, "a call of a library");
    Call *c = NEW(a, Call);
    pthread_t thread;
    *c = (Call){a, call, data, arena_alloc_on_lines(a, sizeof *c->ended)};
    Status st = thread_start(&thread, run, c, "a call of a library");
    if (st) { /* then it has no bound */
        status_free(st);
        run(c);
    } else if (wait_for(c, bound)) {
        pthread_join(thread, NULL);
    } else {
        atomic_store(&has_left, true);
        pthread_detach(thread);
        return false;
    }
    arena_release(a);
    return true;
}

/* ---- turns -------------------------------------------------------------- */

bool
rt_is_stuck(RtLiveness *w, const RtBound *bound)
{
    double now = clock_seconds(), gap = now - w->looked;
    uint32_t turns = atomic_load_explicit(&w->turns, memory_order_relaxed);
    if (turns != w->seen || w->looked == 0)
        w->since = now;
    else if (gap > stopped_process)
        w->since += gap;
    w->seen = turns;
    w->looked = now;
    double seconds = bound->seconds < least ? least : bound->seconds;
    double idle = now - w->since;
    return (bound->seconds > 0 && idle >= seconds) ||
           (idle >= longest_turn && is_interrupted(bound));
}

Status
rt_not_returned(const char *who, const char *calls, const RtBound *bound)
{
    if (is_interrupted(bound))
        return status_new(STATUS_STOPPED,
                          "interrupted while %s waited for a call of %s that "
                          "does not return",
                          who, calls);
    return status_new(STATUS_MACHINE,
                      "%s waits for a call of %s that has not returned after "
                      "%g seconds (--timeout allows more; ldd and ldconfig -p "
                      "tell which library it is)",
                      who, calls, bound->seconds);
}
