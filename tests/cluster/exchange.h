/*
 * exchange.h - set-up exchanges of a test's processes, over their group
 */
#ifndef TFD_TESTS_CLUSTER_EXCHANGE_H
#define TFD_TESTS_CLUSTER_EXCHANGE_H

#include "runtime/cluster/group/group.h"
#include "runtime/cluster/segments/exchange.h"

/* Everybody's bytes by a gather and a broadcast; group lasts as long. */
RtExchange exchange_over(RtGroup *group);

#endif
