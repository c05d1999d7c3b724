/*
 * wait.c - threads that wait for each other
 *
 * A sleeper announces itself before it asks the kernel to sleep while the value
 * is old; a thread that changes the value checks for sleepers after the
 * change.  Both in one total order (seq_cst), so one of them sees the other.
 */
#include "runtime/hal/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ir/base/thread.h"

enum { SPINS = 2000, SLEEP_NS = 100 * 1000 * 1000 };

/* The kernel finds sleepers of one process by the address, those of several by
 * the page. */
static int
operation(const RtWaitWord *w, int op)
{
    return w->is_shared ? op : op | FUTEX_PRIVATE_FLAG;
}

static void
futex_wait(RtWaitWord *w, uint32_t old)
{
    struct timespec limit = {0, SLEEP_NS};
    syscall(SYS_futex, &w->value, operation(w, FUTEX_WAIT), old, &limit, NULL,
            0);
}

/* A process that was killed in its sleep is counted for ever, which costs the
 * others a call of the kernel. */
static void
wake_sleepers(RtWaitWord *w)
{
    if (atomic_load(&w->sleepers))
        syscall(SYS_futex, &w->value, operation(w, FUTEX_WAKE), INT_MAX, NULL,
                NULL, 0);
}

void
rt_wait_word_store(RtWaitWord *w, uint32_t value)
{
    atomic_store(&w->value, value);
    wake_sleepers(w);
}

uint32_t
rt_wait_word_add(RtWaitWord *w, uint32_t n)
{
    uint32_t value = atomic_fetch_add(&w->value, n) + n;
    wake_sleepers(w);
    return value;
}

void
rt_wait_word_add_quietly(RtWaitWord *w, uint32_t n)
{
    atomic_fetch_add(&w->value, n);
}

void
rt_wait_word_wake(RtWaitWord *w)
{
    wake_sleepers(w);
}

uint32_t
rt_wait_word_wait(RtWaitWord *w, uint32_t old, bool spin)
{
    for (int i = spin ? SPINS : 0; i > 0; i--) {
        uint32_t value = rt_wait_word_load(w);
        if (value != old)
            return value;
        __builtin_ia32_pause();
    }
    atomic_fetch_add(&w->sleepers, 1);
    if (atomic_load(&w->value) == old)
        futex_wait(w, old);
    atomic_fetch_sub(&w->sleepers, 1);
    return rt_wait_word_load(w);
}

bool
rt_may_spin(int num_threads)
{
    const char *setting = getenv("TFD_SPIN");
    if (setting && strcmp(setting, "0") == 0)
        return false;
    return num_threads <= num_cores();
}

double
rt_waited(RtWaited *w, double now)
{
    const double longest = 0.5;
    if (w->has_begun)
        w->seconds += fmin(now - w->looked, longest);
    w->has_begun = true;
    w->looked = now;
    return w->seconds;
}

struct timespec
rt_time_after(double seconds)
{
    struct timespec t;
    double whole = floor(seconds);
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
