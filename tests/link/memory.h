/*
 * memory.h - a link between threads of one process, for tests
 *
 * Each rank is opened by itself, and has a carrier of its own.  Messages of a
 * pair keep their order and are delayed by a number of looks that follows from
 * a seed, so messages of different pairs overtake each other.
 */
#ifndef TFD_TESTS_LINK_MEMORY_H
#define TFD_TESTS_LINK_MEMORY_H

#include "runtime/link/link.h"

typedef struct MemoryNet MemoryNet;

/* What a rank has sent. */
typedef struct MemoryCount {
    uint64_t messages, bytes;
} MemoryCount;

/* Messages are delayed by less than so many looks; 0: not at all. */
MemoryNet *memory_net_new(int size, uint32_t seed, uint32_t delay);
/* After all carriers are closed. */
void memory_net_free(MemoryNet *net);
RtLink *memory_link(MemoryNet *net, int rank);
/* Nothing that a rank sends arrives any more. */
void memory_net_silence(MemoryNet *net, int rank);
/* What a rank sends from now on arrives, but its sends do not end. */
void memory_net_hold_sends(MemoryNet *net, int rank);
/* Progress of a rank fails. */
void memory_net_break(MemoryNet *net, int rank);
/* Since the last call; no carrier may be at work. */
MemoryCount memory_net_count(MemoryNet *net, int rank);
/* Whether a rank's link was closed as one that has failed. */
bool memory_net_has_failed(MemoryNet *net, int rank);

#endif
