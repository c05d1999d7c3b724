/*
 * fail.c - failures on request, for tests
 *
 * The environment is read once, by the first thread that asks.  A request that
 * cannot be read ends the program: a test that asks for nothing would pass.
 */
#include "ir/base/fail.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/status.h"

static const char *const point_names[NUM_FAIL_POINTS] = {
    [FAIL_ALLOC] = "alloc:",
    [FAIL_IO] = "io:",
    [FAIL_THREAD] = "thread:",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static long fail_at[NUM_FAIL_POINTS]; /* 0: never */
static atomic_long num_done[NUM_FAIL_POINTS];

static bool
read_request(const char *request)
{
    for (int p = 0; p < NUM_FAIL_POINTS; p++) {
        size_t len = strlen(point_names[p]);
        char *end;
        if (strncmp(request, point_names[p], len) != 0)
            continue;
        fail_at[p] = strtol(request + len, &end, 10);
        return fail_at[p] > 0 && *end == 0;
    }
    return false;
}

static void
read_environment(void)
{
    const char *request = getenv("TFD_FAIL");
    if (!request || read_request(request))
        return;
    fatal_error(STATUS_USAGE,
                "TFD_FAIL is alloc:N, io:N or thread:N with N from 1, not "
                "\"%s\"",
                request);
}

bool
fail_here(FailPoint point)
{
    pthread_once(&once, read_environment);
    if (!fail_at[point])
        return false;
    return atomic_fetch_add(&num_done[point], 1) + 1 == fail_at[point];
}
