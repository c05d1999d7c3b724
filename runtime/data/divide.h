/*
 * divide.h - a dataset among the replicas
 */
#ifndef TFD_RUNTIME_DATA_DIVIDE_H
#define TFD_RUNTIME_DATA_DIVIDE_H

#include "runtime/data/node.h"

/* One step's data: a part for each replica of this worker. */
typedef struct RtStep {
    RtElement *parts; /* parts[r].rows are its rows */
    int64_t all_rows;
} RtStep;

typedef struct RtDivision RtDivision;

/* How the pipelines of an iterator are divided among the num_local replicas of
 * this worker (data.h); everything is in arena.  Opens the pipelines. */
Status rt_division_new(Arena *arena, const IrModule *m, const IrIter *iter,
                       int num_local, const RtDataOptions *options,
                       RtDivision **out) MUST_USE;

/* Room for one step. */
RtStep rt_step_new(const RtDivision *d);

/* To the beginning of a pass of the pipelines. */
Status rt_division_rewind(RtDivision *d, uint64_t pass) MUST_USE;

/* The next step's parts; *end when no replica has data, and when one has none
 * though all steps must be complete. */
Status rt_division_next(RtDivision *d, RtStep *step, bool *end) MUST_USE;

/* Where the division and its pipelines stand; and a step that was made. */
void rt_division_carry(RtDivision *d, RtState *s);
void rt_step_carry(const RtDivision *d, RtStep *step, RtState *s);

#endif
