/*
 * coll_stats.h - --stats of collectives: what carries them, by which algorithm
 */
#ifndef TFD_RUNTIME_RUN_COLL_STATS_H
#define TFD_RUNTIME_RUN_COLL_STATS_H

#include <stdio.h>
#include "ir/base/status.h"

typedef struct RtRun RtRun;
typedef struct RtCollTotals RtCollTotals;

/* Of all processes, which call it, for the chief; lasts as long as the run. */
Status rt_coll_totals(RtRun *run, RtCollTotals **out) MUST_USE;
/* By the chief. */
void rt_print_collectives(const RtRun *run, const RtCollTotals *t, FILE *to);

#endif
