/*
 * step_ring.h - a worker's steps, made by one process for others of its machine
 *
 * The ring lies in memory that all of them map.  The maker writes the parts of
 * the others' replicas, each of which takes its own.  Steps have the number of
 * the pass, as counted by opens, and of the step in it: processes look ahead,
 * so a pass that was left may have more steps in the ring than some want, or
 * fewer.
 */
#ifndef TFD_RUNTIME_DATA_STEP_RING_H
#define TFD_RUNTIME_DATA_STEP_RING_H

#include "runtime/data/rebatch.h"

typedef struct RtStepRing RtStepRing;

/* How a process shares a worker's steps; lasts as long as the ring. */
typedef struct RtStepSharing {
    const RtRebatch *rebatch;
    int64_t num_slots;
    int first,
        num; /* parts: that others take of the maker, or that this takes */
    int num_takers;
    int taker; /* its number among them; -1: the maker */
} RtStepSharing;

typedef enum RtStepTaking {
    STEP_TAKEN,
    STEP_NOT_YET,
    STEP_NEVER /* the maker is in a later pass */
} RtStepTaking;

size_t rt_step_ring_bytes(const RtStepSharing *sharing);
/* memory: on a cache line, zeros before the maker's call, which comes first. */
RtStepRing *rt_step_ring_new(Arena *a, const RtStepSharing *sharing,
                             char *memory);

/* The maker: when all takers have taken enough; waits a tenth of a second at
 * most. */
bool rt_step_ring_has_room(const RtStepRing *r);
void rt_step_ring_wait_for_room(RtStepRing *r);
void rt_step_ring_put(RtStepRing *r, uint32_t pass, uint64_t index,
                      const RtStep *step);

/* A taker. */
RtStepTaking rt_step_ring_take(RtStepRing *r, uint32_t pass, uint64_t index,
                               RtStep *step);
void rt_step_ring_wait_for_step(RtStepRing *r);

#endif
