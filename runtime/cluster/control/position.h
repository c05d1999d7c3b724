/*
 * position.h - where a process of a job is
 *
 * The threads that run the plan tell it with a few stores into a segment of
 * their process, which the control server maps where it is on the same machine:
 * so it knows to the last store where a process was that is dead or stopped,
 * and has its last calls.  Of processes on other machines it has heartbeats,
 * which are read from the same memory.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_POSITION_H
#define TFD_RUNTIME_CLUSTER_CONTROL_POSITION_H

#include "runtime/cluster/control/frame.h"
#include "runtime/hal/segment.h"
#include "runtime/hal/wait.h"

enum { RT_RING = 256 }; /* the last collective calls that are kept */

/* Of a collective call; times are of clock_seconds(), 0: not yet. */
typedef struct RtRingEntry {
    _Atomic int64_t call, step;
    _Atomic int32_t site;
    _Atomic double began, waited, done;
} RtRingEntry;

/* What one thread tells; read by other threads and processes.  turn is odd
 * while it changes. */
typedef struct RtPlace {
    _Alignas(CACHE_LINE) _Atomic uint32_t turn;
    _Atomic int64_t call, wait_call;
    _Atomic int32_t site, wait_site;
    _Atomic bool waits;
    _Atomic double waited, wait_began;
} RtPlace;

/* What the segment begins with; places, counts and the ring follow. */
typedef struct RtPositionsHeader {
    _Alignas(CACHE_LINE) _Atomic int64_t step;
    _Atomic int32_t state;   /* of RtJobState */
    _Atomic int32_t at_site; /* as RtHeartbeat; told by the member's thread */
    _Atomic int32_t num_places, num_sites; /* told once */
    _Atomic int32_t maker, read_site;      /* as RtHeartbeat */
} RtPositionsHeader;

/* A process's view of a segment. */
typedef struct RtPositions {
    RtSegment segment;
    RtPositionsHeader *header; /* NULL: none is mapped */
    RtPlace *places;
    _Atomic int64_t *calls;   /* of a place and site: how often */
    _Atomic int64_t *numbers; /* and the call it was last */
    RtRingEntry *ring;        /* of place 0 */
    int num_places, num_sites;
} RtPositions;

/* Of this process. */
Status rt_positions_open(RtPositions *p, int num_places,
                         int num_sites) MUST_USE;
/* Maps those of another process of this machine, for reading; false: they
 * cannot be mapped, or are not what the name says. */
bool rt_positions_map(RtPositions *p, const RtSegmentName *name);
/* Unmaps; one of zeros is allowed. */
void rt_positions_close(RtPositions *p);

/* Tells where the process works (RtHeartbeat.at_site). */
void rt_positions_tell_at(RtPositions *p, int32_t site);
/* The place that is furthest behind. */
void rt_positions_read(const RtPositions *p, RtHeartbeat *out);

/* Whose calls are written, and why. */
typedef struct RtDump {
    const char *folder;
    int rank;
    const char *host;
    const RtJobSite *sites;
    int num_sites;
    const char *reason; /* one line */
} RtDump;

/* Writes the last calls to FOLDER/rank-N.txt. */
Status rt_positions_dump(const RtPositions *p, const RtDump *dump) MUST_USE;

#endif
