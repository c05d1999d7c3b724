/*
 * states.h - what the workers of a job are asked for when it is saved
 *
 * A worker has a state that nobody else has: the positions of its datasets.
 * The coordinator keeps the one that each had at the last checkpoint, as bytes,
 * for whichever process has the worker's number next.
 */
#ifndef TFD_RUNTIME_PS_INPUT_STATES_H
#define TFD_RUNTIME_PS_INPUT_STATES_H

#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "runtime/checkpoint/archive.h"

/* Of one worker. */
typedef struct RtPsSavedState {
    int64_t number; /* of the saving that it is of; 0: of none in this job */
    Str bytes;      /* none: it has none, and begins anew */
} RtPsSavedState;

typedef struct RtPsStates {
    Arena *arena;
    VEC(RtPsSavedState) list; /* by the workers' numbers */
} RtPsStates;

/* That of a worker, with no bytes if it never had one. */
RtPsSavedState *rt_ps_state_of(RtPsStates *s, uint32_t worker);
/* A worker has been saved. */
void rt_ps_state_set(RtPsStates *s, uint32_t worker, int64_t number,
                     const char *bytes, size_t n);
/* All of them. */
void rt_ps_states_archive(RtPsStates *s, RtArchive *ar);

#endif
