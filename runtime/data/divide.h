/*
 * divide.h - a global batch among the replicas
 */
#ifndef TFD_RUNTIME_DATA_DIVIDE_H
#define TFD_RUNTIME_DATA_DIVIDE_H

#include "runtime/data/node.h"

/* One step's data: a part for each replica. */
typedef struct RtStep {
    RtElement *parts; /* one a replica; parts[r].rows are its rows */
    int64_t all_rows;
} RtStep;

typedef struct RtDivision RtDivision;

/* How the elements of the pipeline that ends in `last` are divided (data.h);
 * in last's arena.  An error when they cannot be. */
Status rt_division_new(RtNode *last, const IrIter *iter,
                       const IrDataset *dataset, int num_replicas,
                       RtDivision **out) MUST_USE;

/* Room for one step. */
RtStep rt_step_new(const RtDivision *d);

/* To the beginning of a pass of the pipeline. */
Status rt_division_rewind(RtDivision *d, uint64_t pass) MUST_USE;

/* The next step's parts; *end when no replica has data. */
Status rt_division_next(RtDivision *d, RtStep *step, bool *end) MUST_USE;

/* Where the division and its pipeline stand; and a step that was made. */
void rt_division_carry(RtDivision *d, RtState *s);
void rt_step_carry(const RtDivision *d, RtStep *step, RtState *s);

const char *rt_division_name(const RtDivision *d);

#endif
