/*
 * layout.c - the operands of an all_reduce as one row of steps
 */
#include "runtime/coll/messages/layout.h"

#include "ir/base/minmax.h"

static int64_t
steps_of(int64_t count)
{
    return (count + COLL_SLICE_STEP - 1) / COLL_SLICE_STEP;
}

RtLayout
rt_layout_new(Arena *a, int num)
{
    return (RtLayout){.num = num,
                      .operands = NEW_ARRAY(a, RtLayoutOperand, (size_t)num)};
}

void
rt_layout_set(RtLayout *l, const int64_t *counts)
{
    size_t at[NUM_FORMS] = {0};
    l->steps = 0;
    for (int i = 0; i < l->num; i++) {
        RtLayoutOperand *o = &l->operands[i];
        o->count = counts[i];
        o->first = l->steps;
        l->steps += steps_of(counts[i]);
        for (int f = 0; f < NUM_FORMS; f++) {
            o->offset[f] = at[f];
            if (counts[i])
                l->bytes[f] = at[f] + (size_t)counts[i] * o->width[f];
            at[f] +=
                (size_t)(steps_of(counts[i]) * COLL_SLICE_STEP) * o->width[f];
        }
    }
}

/* The operand that has the step, which is not the end. */
static int
operand_at(const RtLayout *l, int64_t step)
{
    int low = 0, high = l->num - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (l->operands[middle].first <= step)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

size_t
rt_layout_offset(const RtLayout *l, RtForm form, int64_t step)
{
    if (step >= l->steps)
        return l->steps ? l->bytes[form] : 0;
    const RtLayoutOperand *o = &l->operands[operand_at(l, step)];
    return o->offset[form] +
           (size_t)((step - o->first) * COLL_SLICE_STEP) * o->width[form];
}

size_t
rt_layout_bytes(const RtLayout *l, RtForm form, RtSteps s)
{
    size_t begin = rt_layout_offset(l, form, s.begin);
    return rt_layout_offset(l, form, s.end) - begin;
}

bool
rt_layout_next(const RtLayout *l, RtSteps s, RtFragment *f)
{
    if (s.begin >= s.end)
        return false;
    int i = f->operand < 0 ? operand_at(l, s.begin) : f->operand + 1;
    while (i < l->num && l->operands[i].count == 0)
        i++;
    if (i == l->num || l->operands[i].first >= s.end)
        return false;
    const RtLayoutOperand *o = &l->operands[i];
    int64_t begin = s.begin > o->first ? s.begin - o->first : 0;
    *f = (RtFragment){i, begin * COLL_SLICE_STEP,
                      min_i64((s.end - o->first) * COLL_SLICE_STEP, o->count)};
    return true;
}

RtSteps
rt_steps_slice(RtSteps s, int n, int k)
{
    int64_t count = s.end - s.begin;
    return (RtSteps){s.begin + count * k / n, s.begin + count * (k + 1) / n};
}
