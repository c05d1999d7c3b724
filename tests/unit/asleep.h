/*
 * asleep.h - to wait until another thread waits
 *
 * A test that needs a thread to be asleep reads the thread's state from the
 * kernel, instead of waiting for some time.
 */
#ifndef TFD_TESTS_UNIT_ASLEEP_H
#define TFD_TESTS_UNIT_ASLEEP_H

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Whether thread tid of this process sleeps in the kernel. */
static inline bool
is_asleep(pid_t tid)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return true; /* it has ended */
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const char *name_end = n > 0 ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] && name_end[2] == 'S';
}

/* Waits until the thread that stores its number in *tid, or has done so, is
 * asleep. */
static inline void
wait_until_asleep(const _Atomic pid_t *tid)
{
    while (!atomic_load(tid) || !is_asleep(atomic_load(tid)))
        sched_yield();
}

#endif
