/*
 * schedule.h - who sends what to whom in a gather of everybody's blocks
 */
#ifndef TFD_RUNTIME_LINK_SCHEDULE_H
#define TFD_RUNTIME_LINK_SCHEDULE_H

#include <stdbool.h>

/* Round k of Bruck's algorithm, by which ceil(log2 size) messages bring
 * everybody's block to all.  Blocks stand in turn from the own one on: place j
 * is that of rank (rank + j) mod size.  In a round the first `num` are sent,
 * and as many received behind the `have` that are there. */
typedef struct RtBruckRound {
    int to, from;
    int have, num;
} RtBruckRound;

/* false: there is no such round. */
bool rt_bruck_round(int rank, int size, int k, RtBruckRound *out);

#endif
