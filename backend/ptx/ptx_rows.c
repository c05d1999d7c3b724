/*
 * ptx_rows.c - rows that stay in registers
 *
 * An item that consists of reductions and loops over the same elements (a
 * softmax, a norm) is a row.  A team of threads of one warp does it, each a
 * group of neighbours in every slot of the row:
 *
 *   element = (slot * team + lane) * width + number in the group
 *
 * Reductions and loops are the stages of the row.  What a stage loads, or
 * computes in many instructions, stays in registers for those after it.
 *
 * A slot has at most 64 elements, so that a thread folds the stripes of D2 that
 * it has in registers; the tree over them is shuffles (ptx_tree.c), without a
 * barrier or shared memory.
 *
 * In the last slot some threads may have no elements: they load another
 * thread's, and neither fold nor store them.
 */
#include <math.h>
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_EACH = 64,        /* elements of a row that a thread has */
    MAX_KEPT = 160,       /* registers for values that stages share */
    MAX_CODE = 2048,      /* operations of a thread */
    FULL_THREADS = 32768, /* that keep a machine's memory busy */
    FULL_BLOCKS = 264,    /* that keep its processors busy */
    MAX_THREADS = 256,    /* of a block */
    SECTOR = 32           /* bytes of memory that are read at once */
};

/* ---- stages ------------------------------------------------------------- */

/* The length of a row if n may be one of its stages, else 0. */
static int64_t
stage_length(const KNode *n)
{
    bool fits = n->kind == K_REDUCE ? n->reduce.vector : !n->loop.ordered;
    const KRanges *r = be_ptx_ranges_of(n);
    if (!fits || r->count != 1 || !ir_dim_is_const(r->vars[0]->extent) ||
        !be_ptx_is_plain(be_ptx_body_of(n)))
        return 0;
    return r->vars[0]->extent.c;
}

/* The elements of each row, or 0 where items are no rows. */
static int64_t
row_length(const BeKernel *k)
{
    int64_t length = 0;
    bool reduces = false;
    KRanges *ranges;
    for (KNode *n = k->body.first; n; n = n->next) {
        if (n->kind == K_REDUCE || n->kind == K_LOOP) {
            int64_t own = stage_length(n);
            if (!own || (length && own != length))
                return 0;
            length = own;
            reduces = reduces || n->kind == K_REDUCE;
        } else if (be_kernel_body(n, &ranges)) {
            return 0;
        }
    }
    return reduces && !k->grid_vector && !k->segments.len ? length : 0;
}

/* ---- the choice --------------------------------------------------------- */

static int
slots_of(int64_t length, int team, int width)
{
    int64_t slot = (int64_t)team * width;
    return (int)((length + slot - 1) / slot);
}

/* How good a team is: threads that have elements in the last slot, too; as many
 * threads as the machine wants (few of them wait for memory most of the time,
 * so twice as many are less than twice as fast); whole sectors of memory. */
static double
rate_team(const BeKernel *k, const PtxRows *r, int team)
{
    int each = slots_of(r->length, team, r->width) * r->width;
    if (each > MAX_EACH || each * be_ptx_reuse_kept(r->stages) > MAX_KEPT ||
        each * be_ptx_stage_cost(k) > MAX_CODE)
        return 0;
    double used = (double)r->length / ((double)each * team);
    double full = (double)be_items_bound(k) * team / FULL_THREADS;
    double sectors = (double)team * r->width * 4 / SECTOR;
    return used * used * sqrt(full < 1 ? full : 1) *
           (sectors < 1 ? sectors : 1);
}

static int
choose_team(const BeKernel *k, const PtxRows *r)
{
    int best = 0;
    double most = 0;
    for (int team = 1; team <= PTX_WARP; team *= 2) {
        int64_t slot = (int64_t)team * r->width;
        double rate = rate_team(k, r, team);
        if (slot <= IR_STRIPES && slot < 2 * r->length && rate >= most &&
            rate > 0) {
            best = team;
            most = rate;
        }
    }
    return best;
}

/* As many threads as leave a block for each processor. */
static int
choose_threads(int64_t items, int team)
{
    int threads = MAX_THREADS;
    while (threads > PTX_WARP &&
           (double)items * team / threads < (double)FULL_BLOCKS)
        threads /= 2;
    return threads;
}

bool
be_ptx_rows_find(Ptx *p, PtxShape *s)
{
    Emit *e = &p->e;
    PtxRows r = {.length = row_length(e->k)};
    int64_t items = be_items_bound(e->k);
    if (!r.length)
        return false;
    r.stages = be_ptx_reuse_all(e);
    r.width = be_ptx_stage_width(e, ir_dim_const(r.length));
    s->team = choose_team(e->k, &r);
    if (!s->team) {
        s->team = 1;
        return false;
    }
    r.slots = slots_of(r.length, s->team, r.width);
    r.kept = NEW_ARRAY(e->arena, PtxKept *, (size_t)r.slots);
    for (int i = 0; i < r.slots; i++)
        r.kept[i] = be_ptx_kept_new(e);
    s->rows = r;
    s->threads = choose_threads(items, s->team);
    s->items = s->threads / s->team;
    return true;
}

/* ---- a slot ------------------------------------------------------------- */

static bool
is_last_partial(const Ptx *p)
{
    const PtxRows *r = &p->shape.rows;
    return r->length % ((int64_t)p->shape.team * r->width) != 0;
}

/* Sets the stage's index for a slot; returns whether this thread has elements
 * there, or NULL: all have. */
static Val
begin_slot(Ptx *p, const KVar *var, int slot)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const PtxRows *r = &p->shape.rows;
    int64_t before = (int64_t)slot * p->shape.team * r->width;
    Val at = be_mul(u, p->lane, be_emit_word(e, r->width));
    at = be_add(u, at, be_emit_word(e, before));
    Val valid = NULL;
    if (slot == r->slots - 1 && is_last_partial(p)) {
        valid = be_icmp(u, LLVMIntSLT, at, be_emit_word(e, r->length));
        at = be_min(u, at, be_emit_word(e, r->length - r->width));
    }
    e->indices[var->id] = (EmitIndex){.base = at};
    return valid;
}

static void
emit_stage(Ptx *p, const KNode *stage, int slot)
{
    const PtxRows *r = &p->shape.rows;
    be_ptx_reuse_emit(&p->e, r->stages, stage, r->kept[slot]);
}

/* ---- reductions --------------------------------------------------------- */

static void
take(PtxTree *parts, int slot, int row, Val valid)
{
    Ptx *p = parts->p;
    Emit *e = &p->e;
    const KNode *n = parts->fold->node;
    EmitPartial x = {be_emit_get(e, n->reduce.element, row, 0), NULL};
    if (parts->fold->info->arg) {
        Val at = e->indices[be_ptx_stage_var(n)->id].base;
        at = be_add(e->u, at, be_emit_word(e, row));
        x.number = LLVMBuildIntCast2(e->u->builder, at, e->u->i64, 1, "");
    }
    EmitPartial *to = &parts->v[slot % parts->rounds * parts->width + row];
    bool first = slot < parts->rounds;
    EmitPartial old = first ? be_fold_neutral(parts->fold, 0) : *to;
    EmitPartial sum = first ? x : be_fold_combine(parts->fold, old, x);
    *to = valid ? be_fold_select(parts->fold, valid, sum, old) : sum;
}

static void
take_elements(PtxTree *parts)
{
    Ptx *p = parts->p;
    const KNode *n = parts->fold->node;
    be_ptx_begin_stage(p, n, p->shape.rows.width);
    for (int slot = 0; slot < p->shape.rows.slots; slot++) {
        Val valid = begin_slot(p, be_ptx_stage_var(n), slot);
        emit_stage(p, n, slot);
        for (int row = 0; row < parts->width; row++)
            take(parts, slot, row, valid);
    }
    be_ptx_end_stage(p);
}

void
be_ptx_row_reduce(Ptx *p, const KNode *n)
{
    const PtxShape *s = &p->shape;
    EmitFold fold = be_fold_of(&p->e, n);
    PtxTree parts = {p,
                     &fold,
                     .lane = p->lane,
                     .team = s->team,
                     .width = s->rows.width,
                     .have = s->rows.slots};
    parts.rounds = fold.stripes / (s->team * s->rows.width);
    take_elements(&parts);
    EmitPartial total = be_ptx_tree_fold(&parts);
    be_emit_set(&p->e, n, 0, 0, be_fold_result(&fold, total));
}

/* ---- loops -------------------------------------------------------------- */

void
be_ptx_row_loop(Ptx *p, const KNode *n)
{
    PtxIf active = be_ptx_if(p, p->active);
    be_ptx_begin_stage(p, n, p->shape.rows.width);
    for (int slot = 0; slot < p->shape.rows.slots; slot++) {
        Val valid = begin_slot(p, be_ptx_stage_var(n), slot);
        PtxIf i;
        if (valid)
            i = be_ptx_if(p, valid);
        emit_stage(p, n, slot);
        if (valid)
            be_ptx_end_if(p, &i, NULL, NULL);
    }
    be_ptx_end_stage(p);
    be_ptx_end_if(p, &active, NULL, NULL);
}

/* ---- the grid ----------------------------------------------------------- */

/* Warps take rows in turn, each as many as it has teams; a team without one
 * repeats the last row and stores nothing. */
void
be_ptx_emit_rows(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Val team = be_emit_word(e, p->shape.team);
    Val items = be_emit_word(e, p->shape.items);
    Val warp_items = be_emit_word(e, PTX_WARP / p->shape.team);
    be_emit_find_varying(e, NULL);
    p->together = true;
    p->lane = LLVMBuildURem(b, p->thread, team, "");
    Val own = LLVMBuildUDiv(b, p->thread, team, "");
    Val work = be_space_size(e, &p->shape.work);
    Val in_warp = LLVMBuildURem(b, own, warp_items, "");
    Val first = be_sub(u, own, in_warp);
    first = be_add(u, first, be_mul(u, p->block, items));
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, items), "row");
    be_loop_body(u, &l);
    Val item = be_add(u, l.index, in_warp);
    p->active = be_icmp(u, LLVMIntSLT, item, work);
    Val last = be_sub(u, work, be_emit_word(e, 1));
    be_space_delinearize(e, &p->shape.work, be_min(u, item, last));
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
}
