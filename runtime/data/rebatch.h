/*
 * rebatch.h - divides a dataset among the replicas
 */
#ifndef TFD_RUNTIME_DATA_REBATCH_H
#define TFD_RUNTIME_DATA_REBATCH_H

#include "runtime/data/node.h"

/* One step's data: a part for each replica of this worker. */
typedef struct RtStep {
    RtElement *parts; /* parts[r].rows are its rows */
    int64_t all_rows;
} RtStep;

typedef struct RtRebatch RtRebatch;

/* How the pipelines of an iterator are divided among the num_local replicas of
 * this worker (data.h); everything is in arena.  Opens the pipelines. */
Status rt_rebatch_new(Arena *arena, const IrModule *m, const IrIter *iter,
                      int num_local, const RtDataOptions *options,
                      RtRebatch **out) MUST_USE;

/* Memory for one step. */
RtStep rt_step_new(const RtRebatch *d);

/* To the beginning of a pass of the pipelines. */
Status rt_rebatch_rewind(RtRebatch *d, uint64_t pass) MUST_USE;

/* The next step's parts; *end when no replica has data, and when one has none
 * though all steps must be complete. */
Status rt_rebatch_next(RtRebatch *d, RtStep *step, bool *end) MUST_USE;

/* Archives the position of the rebatching and of its pipelines; and a step that
 * was made. */
void rt_rebatch_archive(RtRebatch *d, RtArchive *ar);
void rt_step_archive(const RtRebatch *d, RtStep *step, RtArchive *ar);

#endif
