/*
 * absent.c - a library for LD_PRELOAD: a rank that does not start
 *
 * TEST_ABSENT="3 of 4" kills rank 3 of a job of 4 before its main;
 * TEST_ABSENT_UNTIL=N only in attempts before number N; in attempt number
 * TEST_ABSENT_HANGS=N it waits for ever instead.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void begin(void) __attribute__((constructor));

static void
begin(void)
{
    const char *absent = getenv("TEST_ABSENT"), *rank = getenv("TFD_RANK");
    const char *size = getenv("TFD_SIZE"), *attempt = getenv("TFD_ATTEMPT");
    const char *until = getenv("TEST_ABSENT_UNTIL");
    const char *hangs = getenv("TEST_ABSENT_HANGS");
    char own[64];
    if (!absent || !rank || !size)
        return;
    if (until && attempt && atoi(attempt) >= atoi(until))
        return;
    snprintf(own, sizeof own, "%s of %s", rank, size);
    if (strcmp(own, absent) != 0)
        return;
    while (hangs && attempt && atoi(attempt) == atoi(hangs))
        pause();
    raise(SIGKILL);
}
