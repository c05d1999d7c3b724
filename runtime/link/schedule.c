/*
 * schedule.c - who sends what to whom in a gather of everybody's blocks
 */
#include "runtime/link/schedule.h"

bool
rt_bruck_round(int rank, int size, int k, RtBruckRound *out)
{
    int have = 1 << k;
    if (have >= size)
        return false;
    *out = (RtBruckRound){.to = (rank - have + size) % size,
                          .from = (rank + have) % size,
                          .have = have,
                          .num = have < size - have ? have : size - have};
    return true;
}
