/*
 * memory.c - ending a program that gets no memory
 *
 * If the address space is limited (ulimit -v), the message compares with that
 * limit; otherwise it tells how much memory is in use.
 */
#include "ir/base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include "ir/base/status.h"
#include "ir/base/usage.h"

static _Thread_local const char *purpose;

const char *
memory_purpose(const char *what)
{
    const char *before = purpose;
    purpose = what;
    return before;
}

static double
megabytes(double bytes)
{
    return bytes / (1 << 20);
}

void
memory_exhausted(size_t n)
{
    struct rlimit limit;
    const char *what = purpose ? purpose : "a library";
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        fatal_error(STATUS_MACHINE,
                    "out of memory: %zu bytes for %s; %.0f MB of the %.0f MB "
                    "of addresses that it may have (ulimit -v) are in use",
                    n, what, megabytes((double)usage_addresses()),
                    megabytes((double)limit.rlim_cur));
    fatal_error(STATUS_MACHINE,
                "out of memory: %zu bytes for %s; %.0f MB are in use", n, what,
                megabytes((double)usage_now()));
}

size_t
formatted_length(int returned)
{
    if (returned < 0 && errno == ENOMEM)
        memory_exhausted(0);
    if (returned < 0)
        UNREACHABLE("a text cannot be formatted: %s", strerror(errno));
    return (size_t)returned;
}
