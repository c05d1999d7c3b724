/*
 * rebatch.h - divides a dataset among the replicas of a worker
 */
#ifndef TFD_RUNTIME_DATA_REBATCH_H
#define TFD_RUNTIME_DATA_REBATCH_H

#include "runtime/data/node.h"

/* A worker's data of one step: a part for each of its replicas. */
typedef struct RtStep {
    RtElement *parts; /* parts[r].rows are its rows */
    bool *given;      /* given[r]: it has data, perhaps of no rows */
} RtStep;

typedef struct RtRebatch RtRebatch;

/* How the pipelines of an iterator are divided among the replicas of a worker,
 * whose number is from 0; everything is in arena.  Opens the pipelines. */
Status rt_rebatch_new(Arena *arena, const IrModule *m, const IrIter *iter,
                      int worker, const RtDataOptions *options,
                      RtRebatch **out) MUST_USE;

/* As rt_pipeline_files, of all of its pipelines. */
void rt_rebatch_files(const RtRebatch *d, RtTakeFile *take, void *data);

/* Of its steps: parts, and components of a part; the bytes of a component of
 * the largest part, and of one with so many rows. */
int rt_rebatch_num_parts(const RtRebatch *d);
int rt_rebatch_num_components(const RtRebatch *d);
int64_t rt_rebatch_most_bytes(const RtRebatch *d, int component);
int64_t rt_rebatch_part_bytes(const RtRebatch *d, int component, int64_t rows);

/* Memory for one step. */
RtStep rt_step_new(const RtRebatch *d);

/* To the beginning of a pass of the pipelines. */
Status rt_rebatch_rewind(RtRebatch *d, uint64_t pass) MUST_USE;

/* The next step's parts.  After the last ones no replica is given any. */
Status rt_rebatch_next(RtRebatch *d, RtStep *step) MUST_USE;

/* Whether there is a step in which num_given of num replicas have data: one is
 * enough, unless every step of the iterator has to be complete. */
bool rt_step_exists(const IrModule *m, const IrIter *iter, int num_given,
                    int num);

/* Archives the position of the rebatching and of its pipelines; and a step that
 * was made. */
void rt_rebatch_archive(RtRebatch *d, RtArchive *ar);
void rt_step_archive(const RtRebatch *d, RtStep *step, RtArchive *ar);

#endif
