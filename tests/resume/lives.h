/*
 * lives.h - runs that are killed and resumed, beside an undisturbed run
 *
 * A life is a process: tfd-run --resume in a folder, or, where it is killed at
 * a given step, one that runs the plan itself.  Whatever happened to the
 * lives before it, the results of the last one must equal those of an
 * undisturbed run: every printed line (lines may be repeated), summaries with
 * none lost and none twice, saved files.
 */
#ifndef TFD_TESTS_RESUME_LIVES_H
#define TFD_TESTS_RESUME_LIVES_H

#include <stdbool.h>
#include <sys/types.h>
#include "ir/base/arena.h"

enum { MAX_FILES = 4 };

typedef struct Subject {
    const char *name;
    const char *program;          /* in the source tree */
    const char *compiler;         /* options of tfdc */
    const char *runner;           /* and of tfd-run */
    int every;                    /* steps from checkpoint to checkpoint */
    const char *last;             /* a line for the end of main; NULL: none */
    const char *files[MAX_FILES]; /* that the program writes */
} Subject;

/* Compiles it in dir; gives the plan's path. */
const char *lives_compile(Arena *a, const Subject *s, const char *dir);

/* Begins a life: prints to DIR/out, messages to DIR/err, checkpoints in
 * DIR/checkpoints every n steps, or none if that is 0. */
pid_t lives_begin(const Subject *s, const char *plan, const char *dir,
                  int every);

/* A life on these devices (NULL: those of the plan), without the subject's
 * options of tfd-run, which kills itself (-9) when that step is done: whether
 * it did, or came to its end before. */
bool lives_until(const char *plan, const char *dir, const char *devices,
                 int step, int every);

/* Waits for its end: true when it was killed, false when it came to the end of
 * the program; anything else fails the test. */
bool lives_wait(Arena *a, pid_t pid, const char *dir);

/* Fails the test if `dir` has something else than `whole`. */
void lives_compare(Arena *a, const Subject *s, const char *whole,
                   const char *dir);

/* How many of the lives in dir went on from a checkpoint. */
int lives_resumed(Arena *a, const char *dir);

#endif
