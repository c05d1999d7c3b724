/*
 * checkpoint.h - a folder of files from which a run resumes
 *
 * A file holds the state of a run after a number of steps
 * (docs/checkpoints.md). It exists completely or not at all, and a reader can
 * check that: it has the hash of its content, and that of the plan.  The last
 * few are kept.
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

/* The plan to which checkpoints belong. */
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

/* The state in the bytes of a file called path, from any source; an error
 * describes their defect. */
Status rt_checkpoint_parse(Arena *a, const char *path, const char *bytes,
                           size_t len, RtCheckpoint *out) MUST_USE;

/* Opens a folder, creating it, for this process alone, and removes incomplete
 * files of a process that died. */
Status rt_checkpoints_open(const char *folder, const RtOwner *owner,
                           RtCheckpoints **out) MUST_USE;

/* Opens one that another process has open, or that there will be, to read. */
RtCheckpoints *rt_checkpoints_follow(const char *folder, const RtOwner *owner);

/* The newest one, in a.  A damaged one is reported to notes, if any, and the
 * one before it is taken; it is an error when all are damaged, or when it
 * belongs to another plan, unless it was made before the first step. */
Status rt_checkpoints_newest(RtCheckpoints *c, Arena *a, FILE *notes,
                             RtCheckpoint *out) MUST_USE;

/* An error if there are checkpoints of a step: they belong to another run. */
Status rt_checkpoints_expect_none(const RtCheckpoints *c) MUST_USE;

/* Begins to write one, in a thread if one can be started; the state must not
 * change until rt_checkpoints_wait, nor may another one begin. events, which
 * may be NULL, reach the disk before.  Older checkpoints are removed once it is
 * on the disk. */
void rt_checkpoints_write(RtCheckpoints *c, int64_t step,
                          const RtArchive *state, RtEvents *events);

/* Waits until the last one is on the disk; returns its status. */
Status rt_checkpoints_wait(RtCheckpoints *c) MUST_USE;

/* The number of steps after which the newest complete checkpoint on the disk
 * was made; -1: none.  Any thread. */
int64_t rt_checkpoints_last(const RtCheckpoints *c);

/* The same of a folder that another process has open, or that there is not: 0
 * where there is none after a step. */
int64_t rt_checkpoints_newest_step(const char *folder);

/* That the run has ended well, for who comes later: until the folder is opened
 * again. */
Status rt_checkpoints_mark_ended(const RtCheckpoints *c) MUST_USE;
bool rt_checkpoints_have_ended(const char *folder);

/* Also waits.  NULL is allowed. */
void rt_checkpoints_close(RtCheckpoints *c);

#endif
