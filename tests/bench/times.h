/*
 * times.h - the clock, and statistics of several times
 */
#ifndef TFD_TESTS_BENCH_TIMES_H
#define TFD_TESTS_BENCH_TIMES_H

#include <stdlib.h>
#include <time.h>

static inline double
nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int
compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static inline double
median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    return times[n / 2];
}

#endif
