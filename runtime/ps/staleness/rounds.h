/*
 * rounds.h - synchronous training: which closures of a round count
 *
 * With --sync N/M closures are executed in rounds of M, in the order in which
 * they were scheduled.  All of a round compute with the same values; the
 * updates of the first N that end are applied together, in the order of their
 * ids, and then the next round begins.  Those of the others are dropped.  A
 * round is smaller where main waits or asks for its closures; then as many
 * count, N at most.
 */
#ifndef TFD_RUNTIME_PS_STALENESS_ROUNDS_H
#define TFD_RUNTIME_PS_STALENESS_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct RtPsRounds {
    int64_t need, of; /* N and M; 0: there are no rounds */
    int64_t number;   /* of the round that is open, or was last; from 1 */
    bool is_open;
    int64_t size;                     /* its closures */
    int64_t counted;                  /* so many of them have ended first */
    int64_t sum_counted, sum_dropped; /* closures of all rounds */
} RtPsRounds;

void rt_rounds_open(RtPsRounds *r, int64_t size);
/* A closure of a round has ended: whether its updates count. */
bool rt_rounds_count(RtPsRounds *r, int64_t round);
/* One of the round is cancelled. */
void rt_rounds_leave(RtPsRounds *r, int64_t round);
/* Whether all have ended that count. */
bool rt_rounds_are_complete(const RtPsRounds *r);
void rt_rounds_close(RtPsRounds *r);

#endif
