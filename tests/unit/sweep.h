/*
 * sweep.h - sweeps of values: whole, or a part of them
 *
 * A test that goes through many like rows (kernels, dtypes, numbers of devices)
 * does so whole in a plain build.  A build with AddressSanitizer, which is ten
 * times as slow and sees nothing of compiled kernels, takes a tenth of each
 * sweep, at least one row.  Which rows they are a seed decides.
 *
 *   for (int i = sweep_first(n); i < n; i = sweep_next(i))
 *       check(&rows[i]);
 *
 * TFD_SWEEP=PART or PART:SEED in the environment takes another part, and other
 * rows: TFD_SWEEP=1 is the whole of it, anywhere.
 */
#ifndef TFD_TESTS_UNIT_SWEEP_H
#define TFD_TESTS_UNIT_SWEEP_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int
sweep_part_of_build(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 10;
#elif defined(__has_feature)
    return __has_feature(address_sanitizer) ? 10 : 1;
#else
    return 1;
#endif
}

/* One row of so many is taken. */
static inline int
sweep_part(void)
{
    const char *told = getenv("TFD_SWEEP");
    int part = told ? atoi(told) : sweep_part_of_build();
    return part > 1 ? part : 1;
}

/* The next of the numbers that the seed makes (splitmix64). */
static inline uint64_t
sweep_random(void)
{
    static uint64_t state;
    if (!state) {
        const char *told = getenv("TFD_SWEEP");
        const char *seed = told ? strchr(told, ':') : NULL;
        state = seed ? strtoull(seed + 1, NULL, 10) : 1;
    }
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The first row taken of n; n if there is none. */
static inline int
sweep_first(int n)
{
    int most = sweep_part() < n ? sweep_part() : n;
    return most > 1 ? (int)(sweep_random() % (uint64_t)most) : 0;
}

/* The one after row i. */
static inline int
sweep_next(int i)
{
    uint64_t gaps = 2 * (uint64_t)sweep_part() - 1; /* PART on average */
    return i + 1 + (gaps > 1 ? (int)(sweep_random() % gaps) : 0);
}

#endif
