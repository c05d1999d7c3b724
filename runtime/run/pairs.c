/*
 * pairs.c - who measures with whom: the circle method, or neighbours in a ring
 */
#include "runtime/run/pairs.h"

enum { ALL_PAIRS = 16 };

bool
rt_takes_all_pairs(int size)
{
    return size <= ALL_PAIRS;
}

int
rt_num_rounds(int size)
{
    if (!rt_takes_all_pairs(size))
        return 2 + size % 2;
    return size % 2 ? size : size - 1;
}

/* The circle method: the last of an even number stands, the others go around,
 * and of an odd number one has no partner. */
static int
partner_of_all(int rank, int size, int round)
{
    int around = size % 2 ? size : size - 1;
    if (rank == around)
        return round * (around + 1) / 2 % around;
    int other = ((round - rank) % around + around) % around;
    if (other != rank)
        return other;
    return around < size ? around : -1;
}

/* Of ranks in a ring: first the pairs of an even rank and its next, then the
 * others; an odd number's last pair has a round of its own. */
static int
partner_of_next(int rank, int size, int round)
{
    bool is_last = size % 2 && (rank == size - 1 || rank == 0);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (round == 2)
        return !is_last ? -1 : rank == 0 ? before : next;
    bool forward = rank % 2 == round;
    if (size % 2 && ((rank == size - 1 && forward) || (rank == 0 && !forward)))
        return -1;
    return forward ? next : before;
}

int
rt_partner(int rank, int size, int round)
{
    return rt_takes_all_pairs(size) ? partner_of_all(rank, size, round)
                                    : partner_of_next(rank, size, round);
}
