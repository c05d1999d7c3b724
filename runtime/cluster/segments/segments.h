/*
 * segments.h - memory that all processes of a job map
 */
#ifndef TFD_RUNTIME_CLUSTER_SEGMENTS_SEGMENTS_H
#define TFD_RUNTIME_CLUSTER_SEGMENTS_SEGMENTS_H

#include "ir/base/str.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/hal/segment.h"

/* The segments of one process. */
typedef struct RtSegments {
    RtSegment *data;
    int num;
    bool are_own; /* this process made them */
} RtSegments;

/* A call of all processes: each maps the segments that the others have made,
 * any number.  all: by rank, in a; this process's are copies of own.  *joined:
 * whether everybody could; if not, nothing stays mapped, and why is the first
 * process's reason, in all of them ("rank 0 cannot map memory of rank 2: it is
 * on another machine"). */
Status rt_segments_join(const RtExchange *x, const char *name,
                        const RtSegment *own, int num_own, Arena *a,
                        RtSegments *all, bool *joined, Str *why) MUST_USE;
/* After all have joined, where a rank has made one segment of a size that is
 * known: a failure if it has not. */
Status rt_segments_expect(const RtSegments *all, int rank,
                          size_t bytes) MUST_USE;
/* That a rank has made segments of other numbers or sizes than it should. */
Status rt_segments_unexpected(int rank) MUST_USE;
/* Unmaps the segments of others. */
void rt_segments_leave(RtSegments *all, int size);

#endif
