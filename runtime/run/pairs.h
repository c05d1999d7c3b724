/*
 * pairs.h - who measures with whom
 *
 * In a round each member has one partner at most, so that pairs do not wait for
 * each other.  Of few members all pairs have a round, of many each with the
 * next one alone: more than a page of pairs nobody reads.
 */
#ifndef TFD_RUNTIME_RUN_PAIRS_H
#define TFD_RUNTIME_RUN_PAIRS_H

#include <stdbool.h>

bool rt_takes_all_pairs(int size);
int rt_num_rounds(int size);
/* Of a member in a round; -1: it has none. */
int rt_partner(int member, int size, int round);

#endif
