/*
 * dataset.c - datasets as a whole, from their stages
 */
#include "ir/dataset/stage.h"

/* The second dataset that a stage reads; NULL if none. */
static const IrDataset *
other_of(const IrModule *m, const IrStage *s)
{
    return s->other ? ir_dataset_find(m, s->other) : NULL;
}

StageKind
ir_source_reading_less(StageKind a, StageKind b)
{
    return ir_stage_info[b].reads < ir_stage_info[a].reads ? b : a;
}

StageKind
ir_dataset_source(const IrModule *m, const IrDataset *d)
{
    StageKind least = (StageKind)d->stages.data[0].kind;
    for (int i = 1; i < d->stages.len; i++) {
        const IrDataset *other = other_of(m, &d->stages.data[i]);
        if (other)
            least = ir_source_reading_less(least, ir_dataset_source(m, other));
    }
    return least;
}

bool
ir_stage_is_endless(const IrModule *m, const IrDataset *d, int i)
{
    const IrStage *s = &d->stages.data[i];
    const IrDataset *other = other_of(m, s);
    bool beside = other && ir_stage_is_endless(m, other, other->stages.len - 1);
    if (i == 0 || s->kind == STAGE_take)
        return false;
    bool before = ir_stage_is_endless(m, d, i - 1);
    if (s->kind == STAGE_zip)
        return before && beside;
    return before || beside || (s->kind == STAGE_repeat && s->ints[0] < 0);
}
