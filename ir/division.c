/*
 * division.c - how the elements of an iterator get to the replicas
 */
#include "ir/division.h"

#include "ir/build.h"
#include "ir/stage.h"

static bool
is_file(const IrStage *s)
{
    return s->kind == STAGE_bytes;
}

bool
ir_dataset_reads_files(const IrModule *m, const IrDataset *d)
{
    (void)m;
    return is_file(&d->stages.data[0]);
}

ShardPolicy
ir_iter_policy(const IrModule *m, const IrIter *it)
{
    if (it->shard != SHARD_AUTO)
        return it->shard;
    const IrDataset *d = ir_dataset_find(m, it->datasets.data[0]);
    return ir_dataset_reads_files(m, d) ? SHARD_FILE : SHARD_DATA;
}

/* ---- the size of a batch ------------------------------------------------ */

/* Whether the elements before s are as many rows as those after it. */
static bool
keeps_batches(const IrStage *s)
{
    switch ((StageKind)s->kind) {
    case STAGE_shuffle:
    case STAGE_repeat:
    case STAGE_take:
    case STAGE_skip:
    case STAGE_shard:
    case STAGE_prefetch:
        return true;
    default:
        return false;
    }
}

/* Whether all components of an element have a first dimension that is known. */
static bool
is_whole(const IrStage *s)
{
    for (int i = 0; i < s->types.len; i++)
        if (s->types.data[i].rank == 0 ||
            !dim_is_const(s->types.data[i].dims[0]))
            return false;
    return true;
}

static bool
knows_batch(const IrDataset *d)
{
    int last = d->stages.len - 1;
    if (is_whole(&d->stages.data[last]))
        return true;
    while (keeps_batches(&d->stages.data[last]))
        last--;
    return d->stages.data[last].kind == STAGE_batch;
}

IrDivision
ir_iter_division(const IrModule *m, const IrIter *it)
{
    if (it->whole)
        return DIVIDE_NOT;
    const IrDataset *d = ir_dataset_find(m, it->datasets.data[0]);
    if (ir_iter_policy(m, it) == SHARD_DATA || !knows_batch(d))
        return DIVIDE_BATCHES;
    return DIVIDE_ROWS;
}

int64_t
ir_part_size(int64_t batch, int num_replicas, int64_t k)
{
    return batch / num_replicas + (k % num_replicas < batch % num_replicas);
}
