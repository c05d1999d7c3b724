/*
 * ptx_tree.c - the tree over stripes in registers and by shuffles
 *
 * A thread of a team has the stripes
 *
 *   (round * team + lane) * width + number in the group
 *
 * of D2.  The levels between rounds are a thread's own; those between threads
 * are shuffles; the last are those in a group.  While a thread has several
 * partial results, it gives away half of them at each shuffle and gets its
 * partner's share of the other half; the levels of the group are then shuffles
 * between the same partners.  In the end each thread has the total.
 */
#include "backend/ptx/ptx_emit.h"

#include "ir/base/minmax.h"

static EmitPartial
shuffle(const PtxTree *t, EmitPartial x, int distance)
{
    EmitPartial y = {be_ptx_shuffle(t->p, x.value, distance), NULL};
    if (x.number)
        y.number = be_ptx_shuffle(t->p, x.number, distance);
    return y;
}

/* Stripes that do not exist are those of the last rounds. */
static void
fold_rounds(PtxTree *t)
{
    int have = min_int(t->have, t->rounds);
    for (int half = t->rounds / 2; half; half /= 2) {
        for (int i = 0; i < half && i + half < have; i++)
            for (int row = 0; row < t->width; row++) {
                EmitPartial *x = &t->v[i * t->width + row];
                *x = be_fold_combine(t->fold, *x, x[half * t->width]);
            }
        have = min_int(have, half);
    }
}

/* A level between threads at this distance, of num partial results; returns how
 * many are left. */
static int
fold_threads(PtxTree *t, int num, int distance)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    if (num == 1) {
        EmitPartial y = shuffle(t, t->v[0], distance);
        t->v[0] = be_fold_combine(t->fold, t->v[0], y);
        return 1;
    }
    Val bit = be_and(u, t->lane, be_emit_word(e, distance));
    Val upper = be_icmp(u, LLVMIntNE, bit, be_emit_word(e, 0));
    for (int i = 0; i < num / 2; i++) {
        EmitPartial low = t->v[i], high = t->v[i + num / 2];
        EmitPartial own = be_fold_select(t->fold, upper, high, low);
        EmitPartial given = be_fold_select(t->fold, upper, low, high);
        EmitPartial got = shuffle(t, given, distance);
        t->v[i] = be_fold_combine(t->fold, own, got);
    }
    return num / 2;
}

EmitPartial
be_ptx_tree_fold(PtxTree *t)
{
    int num = t->width, given[IR_STRIPES], levels = 0;
    fold_rounds(t);
    for (int distance = t->team / 2; distance; distance /= 2) {
        if (num > 1)
            given[levels++] = distance;
        num = fold_threads(t, num, distance);
    }
    for (int level = 0; level < levels; level++)
        for (int i = 0; i < num; i++) {
            EmitPartial y = shuffle(t, t->v[i], given[level]);
            t->v[i] = be_fold_combine(t->fold, t->v[i], y);
        }
    for (int half = num / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            t->v[i] = be_fold_combine(t->fold, t->v[i], t->v[i + half]);
    return t->v[0];
}

/* ---- partial results in shared memory ------------------------------------ */

int64_t
be_ptx_part_bytes(const EmitFold *f)
{
    DType t = dtype_compute(f->dtype);
    int64_t value = t == DT_bool ? 1 : (int64_t)dtype_info[t].bytes;
    return value + (f->info->arg ? 8 : 0);
}

static int64_t
value_bytes(const EmitFold *f)
{
    return be_ptx_part_bytes(f) - (f->info->arg ? 8 : 0);
}

void
be_ptx_part_put(Ptx *p, const EmitFold *f, const PtxParts *at, Val slot,
                EmitPartial x)
{
    BeUnit *u = p->e.u;
    int64_t bytes = value_bytes(f);
    Val to = be_ptx_shared_at(p, at->values, slot, bytes);
    be_store(u, be_emit_to_memory(u, dtype_compute(f->dtype), x.value), to,
             (unsigned)bytes);
    if (x.number)
        be_store(u, x.number, be_ptx_shared_at(p, at->numbers, slot, 8), 8);
}

EmitPartial
be_ptx_part_get(Ptx *p, const EmitFold *f, const PtxParts *at, Val slot)
{
    BeUnit *u = p->e.u;
    DType t = dtype_compute(f->dtype);
    int64_t bytes = value_bytes(f);
    Val from = be_ptx_shared_at(p, at->values, slot, bytes);
    Val x = be_load(u, be_emit_memory_type(&p->e, t), from, (unsigned)bytes);
    EmitPartial part = {be_emit_from_memory(u, t, x), NULL};
    if (f->info->arg)
        part.number =
            be_load(u, u->i64, be_ptx_shared_at(p, at->numbers, slot, 8), 8);
    return part;
}

/* Numbers are aligned: they come first. */
PtxParts
be_ptx_parts_at(const EmitFold *f, int64_t offset, int64_t num)
{
    PtxParts at = {.numbers = offset, .values = offset};
    if (f->info->arg)
        at.values += 8 * num;
    return at;
}
