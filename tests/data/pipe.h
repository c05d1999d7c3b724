/*
 * pipe.h - runs pipelines for tests, and prints their elements
 *
 * A test states the lines of a dataset as in a .tir file.  Their types may use
 * b1, b2, b3, b4, b5 and b8, batches of at most that many rows; those of an
 * iterator n. These functions are there for map and filter:
 *
 *   @twice  i64 to 2 x             @pair   i64 to (x, x + 1)
 *   @sum_of_pair (i64, i64) to its sum
 *   @sums   i64[2] to its sum      @halves i64[b4] to f32[b4], x / 2
 *   @no5    i64 to itself, but fails on 5
 *   @odd    i64 to whether it is odd, but fails on 99
 *   @whole  i64[b4] to whether it has 4 rows
 *   @counted i64 to itself; counts in pipe_counted, and sets pipe_thread to
 *           the calling thread; pauses on pipe_slow, if that is not 0
 *
 * Steps are written as in the cases of tf.distribute: rows in brackets,
 * replicas separated by "/", components by "+", steps by "; ".
 */
#ifndef TFD_TESTS_DATA_PIPE_H
#define TFD_TESTS_DATA_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "runtime/data/data.h"

typedef struct Pipe {
    const char *stages;
    const char *second; /* stages of a dataset before, @second; or NULL */
    const char *shard;  /* NULL: auto */
    const char *iter;   /* "from @data, @second"; NULL: of @data, by shard */
    int replicas;       /* of a worker; 0: one */
    int workers;        /* 0: one */
    int first, local;   /* RtDataOptions' first_local and num_local */
    const char *dir;
    uint64_t seed;
    bool threads;
} Pipe;

/* A pipeline at work; it ends with the arena it was asked for with. */
typedef struct PipeRun {
    RtIter *it;
    const IrStage *last;
    int replicas; /* of all workers */
    bool equal;   /* elements have as many rows as their type says */
} PipeRun;

typedef VEC(int64_t) Numbers;

/* How often @counted was called. */
extern _Atomic int pipe_counted;
extern _Atomic pid_t pipe_thread;

/* The element on which @counted pauses for more than a second. */
extern _Atomic int64_t pipe_slow;

/* What pipelines hear when they ask whether to stop. */
extern atomic_bool pipe_stopped;

/* Fails the test when the pipeline is no IR. */
Status pipe_open(Arena *a, const Pipe *pipe, PipeRun *out) MUST_USE;

/* The same, fails the test on errors. */
PipeRun pipe_run(Arena *a, const Pipe *pipe);

/* A replica's part of the current step, as text. */
void pipe_add_part(Str *s, const PipeRun *run, int replica);

/* A pass from its beginning, as text.  An error ends it: "error: ...". */
const char *pipe_pass(Arena *a, const PipeRun *run);

/* The rest of a pass that has begun. */
const char *pipe_rest(Arena *a, const PipeRun *run);

/* The same pass, but after every step another pipeline continues from the state
 * of the one before (rt_iter_archive). */
const char *pipe_pass_in_turns(Arena *a, const Pipe *pipe);

/* A new pipeline at the position of another one, which may continue, too. */
PipeRun pipe_archive(Arena *a, const Pipe *pipe, const PipeRun *from);

/* Goes on from a state as far as it goes, for some steps, and writes those that
 * come after it: errors are fine. */
void pipe_go_on_from(const Pipe *pipe, const RtArchive *state);

/* From the state after the first step, in which each eight bytes are in turn
 * the greatest number, and the greatest position that is read. */
void pipe_go_on_from_far(Arena *a, const Pipe *pipe);

/* The first pass of a pipeline, or the error that it begins with. */
const char *pipe_steps(Arena *a, const Pipe *pipe);

/* The i64 elements of a pass in order: of component 0, of all replicas. */
Numbers pipe_numbers(Arena *a, const PipeRun *run);

#endif
