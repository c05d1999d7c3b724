/*
 * sharding.h - how the elements of an iterator get to the replicas
 *
 * TensorFlow's rules (docs/tensorflow.md 7.1 to 7.3), of the module alone: the
 * compiler explains what the runner does.
 */
#ifndef TFD_IR_DATASET_SHARDING_H
#define TFD_IR_DATASET_SHARDING_H

#include "ir/ir.h"

/* Params that the program does not declare: which of a coordinator's workers
 * reads a dataset, and of how many. */
#define IR_PIPELINE_ID "worker.pipeline_id"
#define IR_NUM_PIPELINES "worker.num_pipelines"

typedef enum IrRebatch {
    REBATCH_LEGACY, /* each batch by itself, in equal parts: legacy */
    REBATCH_V2,     /* the stream of rows, in turn: V2 */
    REBATCH_NONE    /* whole elements, in turn */
} IrRebatch;

/* file, data or off: auto is file if the dataset reads files that may be as many
 * as there are workers, else data. */
ShardPolicy ir_iter_shard_policy(const IrModule *m, const IrIter *it);

/* The stream is cut when the policy is not data and the size of a full batch is
 * known: from the type of an element, or from a batch stage after which no
 * stage makes new elements. */
IrRebatch ir_iter_rebatch(const IrModule *m, const IrIter *it);

/* Whether the parts of a step are those of one batch, or have its size: not where
 * workers cut batches of their own, each by itself. */
bool ir_iter_is_in_step(const IrModule *m, const IrIter *it);

/* Whether all workers end in the same step: not where they read files of their
 * own. */
bool ir_iter_ends_together(const IrModule *m, const IrIter *it);

/* V2's sizes: how many rows part number k of the stream has, when batches of
 * `batch` rows are for num_replicas replicas.  A worker of num_local replicas
 * begins at k = (its number) * num_local. */
int64_t ir_rebatch_rows(int64_t batch, int num_replicas, int64_t k);

#endif
