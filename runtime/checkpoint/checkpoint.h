/*
 * checkpoint.h - a folder of files from which a run goes on
 *
 * A file holds the state of a run after a number of steps
 * (docs/checkpoints.md). It is there as a whole or not at all, and whoever
 * reads it knows: it has the hash of its content, and that of the plan.  The
 * last few are kept.
 */
#ifndef TFD_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define TFD_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include <stdio.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "runtime/checkpoint/events.h"
#include "runtime/checkpoint/archive.h"

enum { CHECKPOINTS_KEPT = 3 };

typedef struct RtCheckpoints RtCheckpoints;

/* Whose checkpoints they are. */
typedef struct RtOwner {
    const char *plan; /* its hash */
    uint32_t num_replicas;
    size_t most; /* bytes of a state, at most; not in files */
} RtOwner;

typedef struct RtCheckpoint {
    const char *path;
    RtOwner owner;
    int64_t step;
    const char *state; /* NULL: there is none */
    size_t len;
} RtCheckpoint;

/* The bytes of a file called path, of whomever, where the state stays; what
 * they are not is told. */
Status rt_checkpoint_parse(Arena *a, const char *path, const char *bytes,
                           size_t len, RtCheckpoint *out) MUST_USE;

/* Opens a folder, which is made, for this process alone, and removes what a
 * process that died has left half written. */
Status rt_checkpoints_open(const char *folder, const RtOwner *owner,
                           RtCheckpoints **out) MUST_USE;

/* The newest one, in a.  One that is damaged is told to notes, and the one
 * before it is taken; it is an error when all are, or when it is another
 * plan's, unless that is before the first step. */
Status rt_checkpoints_newest(RtCheckpoints *c, Arena *a, FILE *notes,
                             RtCheckpoint *out) MUST_USE;

/* An error if there are any after a step: they are another run's. */
Status rt_checkpoints_expect_none(const RtCheckpoints *c) MUST_USE;

/* Begins to write one, in a thread if there is one to be had; the state must
 * not change until rt_checkpoints_wait, nor may another one begin.  events,
 * which may be NULL, reach the disk before.  Older ones are removed once it is
 * there. */
void rt_checkpoints_write(RtCheckpoints *c, int64_t step,
                          const RtArchive *state, RtEvents *events);

/* Until the last one is on the disk; what became of it. */
Status rt_checkpoints_wait(RtCheckpoints *c) MUST_USE;

/* After how many steps the newest one was made that is known to be on the disk;
 * -1: none is.  Any thread may ask. */
int64_t rt_checkpoints_last(const RtCheckpoints *c);

/* Waits, too.  NULL is fine. */
void rt_checkpoints_close(RtCheckpoints *c);

#endif
