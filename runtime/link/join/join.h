/*
 * join.h - joins the processes of a job by a link
 */
#ifndef TFD_RUNTIME_LINK_JOIN_JOIN_H
#define TFD_RUNTIME_LINK_JOIN_JOIN_H

#include "runtime/cluster/group/group.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/link/carrier.h"

typedef struct RtLinkOptions {
    const char *name;      /* zmq, mpi or ucx; NULL: mpi where it was started
                              by its launcher, else zmq */
    const char *mpi;       /* the library's path; NULL: that of the launcher */
    const char *interface; /* an address to listen at; NULL: all */
    const uint8_t *key;    /* 32 bytes of the job, so that messages of zmq are
                              encrypted; NULL: they are not */
    const int *machine_of; /* of each rank, a number that those of one machine
                              have; NULL: nothing is known */
    double timeout;        /* of joining, in seconds */
} RtLinkOptions;

/* The name of the link that a process opens with such options. */
const char *rt_link_choose(const char *name, const char *mpi);

/* A call of all processes: opens a link, makes sure that all pairs reach each
 * other, and measures it. */
Status rt_link_join(const RtLinkOptions *options, const RtExchange *exchange,
                    RtCarrier **out) MUST_USE;

/* A group over a carrier, which must outlive it.  timeout is of calls that
 * wait, in seconds. */
RtGroup *rt_link_group_open(RtCarrier *c, double timeout);

#endif
