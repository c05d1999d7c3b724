/*
 * coll.h - what replicas do together
 *
 * A communicator joins the replicas of a run.  Every collective operation of
 * a plan is a site of it, made when the plan is loaded; then each replica's
 * thread calls start and done of the site, in the order of the program, any
 * number of times.  Nothing is allocated or looked up by then.
 *
 * Sums, and every other combination, follow D2's tree over the replicas, so a
 * result has the same bits whoever computed it.
 * Elements of f16 and bf16 are combined in f32 and rounded once.
 */
#ifndef TFD_RUNTIME_COLL_COLL_H
#define TFD_RUNTIME_COLL_COLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/dtype.h"
#include "ir/base/status.h"

typedef enum RtCombine {
    COMBINE_SUM,
    COMBINE_MAX, /* as the operation maximum: NaN if one is */
    COMBINE_MIN,
    COMBINE_FIRST, /* the value of replica 0 */
    NUM_COMBINES
} RtCombine;

/* Who combines what, and how it comes to all. */
typedef enum RtVia {
    VIA_ALL,    /* each replica a slice of the elements, for all */
    VIA_ONE,    /* replica 0 everything, for all */
    VIA_HALVES, /* pack k is combined by replica k mod n for its half of the
                   replicas, and copied by replica k + n/2 mod n to the other
                   half; an even number of replicas */
    NUM_VIAS
} RtVia;

typedef struct RtWay {
    RtVia via;
    int packs; /* VIA_HALVES: all elements in so many parts, the last with what
                  remains; 0: a pack for each operand */
} RtWay;

typedef struct RtColl RtColl;
typedef struct RtSite RtSite;

/* One operand of an all_reduce and its result, on one replica.  They may be
 * the same memory; else no result overlaps an operand. */
typedef struct RtReduce {
    const void *in;
    void *out;
    int64_t count; /* elements; equal on all replicas */
} RtReduce;

/* What one replica brings to an all_gather, and where the whole goes.  Both
 * are `outer` blocks in a row: this replica's of own_bytes each, the whole's
 * of the sum of all replicas' own_bytes. */
typedef struct RtGather {
    const void *in;
    void *out;
    int64_t outer;
    int64_t own_bytes; /* may differ among the replicas */
} RtGather;

typedef enum RtCollResult {
    COLL_OK,
    COLL_LATE,   /* the time is up; rt_site_arrived tells who is missing */
    COLL_STOPPED /* rt_coll_stop was called */
} RtCollResult;

/* How one kind of communicator does it. */
typedef struct RtCollOps {
    const char *name;
    void (*close)(RtColl *c);
    /* dtypes has num rows, one for each operand. */
    Status (*reduce_site)(RtColl *c, RtCombine how, RtWay way, int num,
                          const DType *dtypes, RtSite **out);
    /* via is VIA_ALL or VIA_ONE. */
    Status (*gather_site)(RtColl *c, RtVia via, RtSite **out);
    /* The replica's part is ready; what parts point to must stay so until
     * done returns.  parts itself is copied. */
    void (*reduce_start)(RtSite *s, int replica, const RtReduce *parts);
    void (*gather_start)(RtSite *s, int replica, const RtGather *part);
    /* Returns when this replica's results are whole. */
    RtCollResult (*done)(RtSite *s, int replica);
    /* Whether the replica has come to the call that others wait in. */
    bool (*arrived)(const RtSite *s, int replica);
    /* Every call that waits, now or later, returns COLL_STOPPED. */
    void (*stop)(RtColl *c);
} RtCollOps;

struct RtColl {
    const RtCollOps *ops;
    int num_replicas;
};

/* The replicas of one process, on shared memory.  timeout is in seconds. */
Status rt_coll_local(int num_replicas, double timeout, bool spin,
                     RtColl **out) MUST_USE;

#endif
