/*
 * group.h - small exchanges between the mains of a job's processes
 *
 * A group joins all processes of a job, rank 0 to size - 1.  All call the same
 * functions in the same order, from main's thread; abort alone is called from
 * any.  Every wait has a bound, which is the group's own.
 *
 * A call that fails has no result, and so has every later one.  Its status is
 * STATUS_STOPPED after an abort, and else says which rank did not come.
 */
#ifndef TFD_RUNTIME_CLUSTER_GROUP_GROUP_H
#define TFD_RUNTIME_CLUSTER_GROUP_GROUP_H

#include <stddef.h>
#include <stdint.h>
#include "ir/base/status.h"

/* Exchanges that can be in flight at the same time, one in each slot. */
enum {
    RT_GROUP_NUM_AHEAD = 6, /* the first ones: begun ahead of their use */
    RT_GROUP_NOW = RT_GROUP_NUM_AHEAD, /* ended where they are begun */
    RT_GROUP_SLOTS
};

/* Of one process, in an exchange. */
enum { RT_GROUP_MOST_BYTES = 16 << 10 };

typedef struct RtGroup RtGroup;

typedef struct RtGroupOps {
    const char *name;
    /* Begins an exchange of as many bytes by every process, at most
     * RT_GROUP_MOST_BYTES; own is copied.  Never waits, and allocates nothing.
     * The slot must be free: its last exchange was finished. */
    Status (*start)(RtGroup *g, int slot, const void *own, size_t bytes);
    /* Waits for all; `all` has size parts of so many bytes, by rank. */
    Status (*finish)(RtGroup *g, int slot, void *all);
    /* The root's bytes, as many everywhere, to all. */
    Status (*broadcast)(RtGroup *g, int root, void *bytes, size_t n);
    /* Everybody's bytes, whose numbers may differ, to the root, which takes
     * them by rank: take is called once for each, itself included, with a part
     * that lasts as long as the call.  Elsewhere it is not called. */
    Status (*gather)(RtGroup *g, int root, const void *own, size_t n,
                     void (*take)(void *data, int rank, const void *part,
                                  size_t n),
                     void *data);
    /* Waiting calls, now or later, end with STATUS_STOPPED: at once in this
     * process, in others when they learn of it. */
    void (*abort)(RtGroup *g);
    void (*close)(RtGroup *g);
} RtGroupOps;

struct RtGroup {
    const RtGroupOps *ops;
    int rank, size;
};

/* A failure if rank says that its part of a gather has more bytes than there
 * can be. */
Status rt_group_check_part(int rank, uint64_t bytes) MUST_USE;

#endif
