/*
 * agreement.h - the processes of a job agree on each step
 *
 * Main runs in every process with the same values, so that all mains take the
 * same branches.  What a step's data are is known only where they are made: an
 * agreement makes it known everywhere, and at the same time whether somebody
 * has asked the job to stop, and that all mains have come the same way.
 *
 * There is one agreement for each step of an iterator.  It begins as soon as
 * this process has the step's data, if that is before main asks for them, and
 * ends when main does.
 */
#ifndef TFD_RUNTIME_EXEC_AGREEMENT_H
#define TFD_RUNTIME_EXEC_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/exec/executor.h"

typedef struct RtIterBinding RtIterBinding;

enum { MOST_LOCAL = 2000 }; /* replicas of a process of a job */

typedef struct RtAgreement {
    uint64_t fingerprint; /* hash of the operations that main has executed */
    bool stops;           /* all processes do, at the next safepoint */
    bool has_failed;      /* this process, in its last launch */
    bool have_ended;      /* all processes: whether one has_failed is known */
    bool one_has_failed;
    size_t bytes; /* of a process's part */
    char *own, *all;
} RtAgreement;

/* What the processes agree on about an iterator's next step. */
typedef struct RtNextStep {
    int slot; /* of the group */
    bool can_be_ahead;
    bool has_moved; /* a step was taken since it was opened */
    bool has_begun, is_known;
    int64_t number;       /* of the step */
    uint64_t fingerprint; /* of main when it took the one before */
    int64_t *rows; /* is_known: of each replica of the job, -1: no data */
} RtNextStep;

/* Once the iterators are listed. */
Status rt_prepare_agreement(RtRun *run) MUST_USE;

/* Main executes its operation number index. */
static inline uint64_t
rt_fingerprint_after(uint64_t fingerprint, int32_t index)
{
    return (fingerprint ^ (uint64_t)(uint32_t)index) * 0x100000001b3U;
}

/* Whether there is a step in any process, whose data this one then has, or has
 * none.  Waits for this process's data and for the others.  Of a run that is
 * alone, the iterator's own answer.  The failure of another process's data is
 * STATUS_STOPPED. */
Status rt_agree_on_next(RtRun *run, RtIterBinding *it, bool *has_data) MUST_USE;
/* Main has taken the step, or opens the iterator anew. */
void rt_agreed_step_is_taken(RtRun *run, RtIterBinding *it);
Status rt_agree_on_open(RtRun *run, RtIterBinding *it) MUST_USE;
/* While programs run: begins the agreements whose data are there. */
Status rt_agree_ahead(RtRun *run) MUST_USE;

/* Of all processes of the job; nothing is sent by a run that is alone. */
Status rt_broadcast(RtRun *run, int root, void *bytes, size_t n) MUST_USE;
/* Every process's bytes to the chief, as RtGroupOps.gather; any number from
 * each. */
Status rt_gather(RtRun *run, const void *own, size_t n,
                 void (*take)(void *data, int rank, const void *part, size_t n),
                 void *data) MUST_USE;
/* The same of parts that are as long as own: a failure if one is not. */
Status rt_gather_equal(RtRun *run, const void *own, size_t n,
                       void (*take)(void *data, int rank, const void *part,
                                    size_t n),
                       void *data) MUST_USE;
/* Until all processes have come here. */
Status rt_wait_for_others(RtRun *run) MUST_USE;
/* Main's launch has ended in this process, and may not have in others. */
void rt_launch_has_ended(RtRun *run, bool has_failed);
/* Until the last launch has ended in all processes. */
Status rt_wait_for_launch(RtRun *run) MUST_USE;
/* The same before main does what is seen outside: a launch that failed in
 * another process is STATUS_STOPPED. */
Status rt_settle(RtRun *run) MUST_USE;
/* Everybody's words to all, by rank: size × num. */
Status rt_exchange(RtRun *run, const int64_t *own, int num,
                   int64_t *all) MUST_USE;

#endif
