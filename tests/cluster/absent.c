/*
 * absent.c - a library for LD_PRELOAD: a rank that never starts
 *
 * TEST_ABSENT="3 of 4" kills rank 3 of a job of 4 before its main.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(void) __attribute__((constructor));

static void
begin(void)
{
    const char *absent = getenv("TEST_ABSENT"), *rank = getenv("TFD_RANK");
    const char *size = getenv("TFD_SIZE");
    char own[64];
    if (!absent || !rank || !size)
        return;
    snprintf(own, sizeof own, "%s of %s", rank, size);
    if (strcmp(own, absent) == 0)
        raise(SIGKILL);
}
