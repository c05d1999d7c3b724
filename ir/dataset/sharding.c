/*
 * sharding.c - how the elements of an iterator get to the replicas
 */
#include "ir/dataset/sharding.h"

#include <assert.h>
#include <string.h>
#include "ir/dataset/stage.h"

/* Whether every source of d reads files that sharding by file may take:
 * tfrecord, lines and bytes do. */
static bool
reads_files(const IrModule *m, const IrDataset *d)
{
    return ir_stage_info[ir_dataset_source(m, d)].reads == READS_STREAM;
}

/* Whether the files of a source may be as many as there are workers: they are
 * named, or there is a wildcard, whose matches only a run knows. */
static bool
has_files(const IrStage *source, int num_workers)
{
    for (int i = 0; i < source->paths.len; i++)
        if (strpbrk(source->paths.data[i], "*?["))
            return true;
    return source->paths.len >= num_workers;
}

static bool
sources_have_files(const IrModule *m, const IrDataset *d)
{
    if (!has_files(&d->stages.data[0], m->num_workers))
        return false;
    for (int i = 1; i < d->stages.len; i++) {
        const char *other = d->stages.data[i].other;
        if (other && !sources_have_files(m, ir_dataset_find(m, other)))
            return false;
    }
    return true;
}

ShardPolicy
ir_iter_shard_policy(const IrModule *m, const IrIter *it)
{
    if (it->shard != SHARD_AUTO)
        return it->shard;
    const IrDataset *d = ir_dataset_find(m, it->datasets.data[0]);
    return reads_files(m, d) && sources_have_files(m, d) ? SHARD_FILE
                                                         : SHARD_DATA;
}

/* ---- the size of a batch ------------------------------------------------ */

/* Whether the elements before s have as many rows as those after it. */
static bool
keeps_batches(const IrStage *s)
{
    switch ((StageKind)s->kind) {
    case STAGE_shuffle:
    case STAGE_repeat:
    case STAGE_take:
    case STAGE_skip:
    case STAGE_shard:
    case STAGE_filter:
    case STAGE_cache:
    case STAGE_prefetch:
        return true;
    case STAGE_range:
    case STAGE_tensors:
    case STAGE_npy:
    case STAGE_npz:
    case STAGE_idx:
    case STAGE_csv:
    case STAGE_bytes:
    case STAGE_lines:
    case STAGE_tfrecord:
    case STAGE_map:
    case STAGE_batch:
    case STAGE_unbatch:
    case STAGE_window:
    case STAGE_lanes:
    case STAGE_zip:
    case STAGE_concat:
    case NUM_STAGES:
        break;
    }
    return false;
}

/* Whether all components of an element have a first dimension that is known. */
static bool
is_whole(const IrStage *s)
{
    for (int i = 0; i < s->types.len; i++)
        if (s->types.data[i].rank == 0 ||
            !ir_dim_is_const(s->types.data[i].dims[0]))
            return false;
    return true;
}

/* The same for the elements of stage i.  Two datasets that are concatenated
 * have batches of one size, or their types would differ. */
static bool
knows_batch(const IrModule *m, const IrDataset *d, int i)
{
    const IrStage *s = &d->stages.data[i];
    if (s->kind == STAGE_batch || is_whole(s))
        return true;
    if (keeps_batches(s))
        return knows_batch(m, d, i - 1);
    if (!s->other)
        return false;
    const IrDataset *other = ir_dataset_find(m, s->other);
    return knows_batch(m, d, i - 1) &&
           knows_batch(m, other, other->stages.len - 1);
}

IrRebatch
ir_iter_rebatch(const IrModule *m, const IrIter *it)
{
    if (it->whole)
        return REBATCH_NONE;
    const IrDataset *d = ir_dataset_find(m, it->datasets.data[0]);
    if (ir_iter_shard_policy(m, it) == SHARD_DATA ||
        !knows_batch(m, d, d->stages.len - 1))
        return REBATCH_LEGACY;
    return REBATCH_V2;
}

bool
ir_iter_is_in_step(const IrModule *m, const IrIter *it)
{
    return m->num_workers == 1 || ir_iter_rebatch(m, it) == REBATCH_V2 ||
           ir_iter_shard_policy(m, it) == SHARD_DATA;
}

bool
ir_iter_ends_together(const IrModule *m, const IrIter *it)
{
    return m->num_workers == 1 || ir_iter_shard_policy(m, it) != SHARD_FILE;
}

int64_t
ir_rebatch_rows(int64_t batch, int num_replicas, int64_t k)
{
    assert(batch >= 0 && num_replicas > 0 && k >= 0);
    return batch / num_replicas + (k % num_replicas < batch % num_replicas);
}
