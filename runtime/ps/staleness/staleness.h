/*
 * staleness.h - which closures may be executed beside which
 *
 * A closure *begins* when a worker gets it, before it pulls, and ends when all
 * servers have applied its updates.  What others apply meanwhile are updates
 * that its values lack: of those that were open when it began, and of those
 * that have begun since.  With a bound N, a closure begins only if that makes
 * no open closure, itself included, lack more than N: so whatever servers,
 * workers and connections do, no push is more than N updates behind its pull.
 *
 * One that begins again, since its worker was lost, is open all the while: its
 * first attempt may still push.  Others have counted it, and it counts anew.
 */
#ifndef TFD_RUNTIME_PS_STALENESS_H
#define TFD_RUNTIME_PS_STALENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/base/arena.h"
#include "ir/base/vec.h"

enum { RT_PS_STALENESS_ROWS = 16 };

typedef struct RtPsBegun {
    int64_t id;
    int64_t lacks; /* other closures' updates, at most */
} RtPsBegun;

typedef struct RtPsStaleness {
    Arena *arena;
    int64_t bound;        /* negative: none, and nothing is counted */
    VEC(RtPsBegun) begun; /* closures that have not ended */
} RtPsStaleness;

bool rt_staleness_may_begin(const RtPsStaleness *s, int64_t id);
void rt_staleness_begin(RtPsStaleness *s, int64_t id);
void rt_staleness_end(RtPsStaleness *s, int64_t id);

/* The row of a histogram that counts this staleness: row 0 is 0, row i from
 * 2^(i-1) to 2^i - 1, and the last one all that is more. */
int rt_staleness_row(int64_t staleness);
/* The rows that count something, without a line's end. */
void rt_staleness_print(const int64_t *rows, FILE *to);

#endif
