/*
 * forked_coll.h - a communicator over memory that processes of a test share
 */
#ifndef TFD_TESTS_CLUSTER_FORKED_COLL_H
#define TFD_TESTS_CLUSTER_FORKED_COLL_H

#include "runtime/coll/coll.h"
#include "tests/cluster/forked.h"

/* For RtOptions.open_coll, in each process after this one was called. */
void forked_coll_use(Forked *f);
Status forked_coll_open(const RtCommConfig *config, RtColl **out) MUST_USE;

#endif
