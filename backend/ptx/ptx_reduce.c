/*
 * ptx_reduce.c - reductions of a team
 *
 * A thread of the team is a stripe of D2: it folds elements i, i + 64, ... of a
 * chunk in a register.  A team of several slices takes as many chunks at a
 * time; all its threads then fold the slices' results in order, and so each has
 * the total.
 *
 * The stripes of a slice meet in shared memory, from which part of a warp takes
 * them to fold the tree by shuffles, and where it leaves the result.
 *
 * A reduction inside a loop, or in the body of another one, is executed by one
 * thread, with its stripes in local memory: correct, but slow.
 */
#include "backend/ptx/ptx_emit.h"

typedef struct Team {
    Ptx *p;
    EmitFold fold;
    EmitSpace space;
    PtxParts results;  /* of slices, in shared memory */
    PtxParts parts;    /* of threads, after these */
    Val size;          /* elements */
    Val stripe, slice; /* this thread's, words */
    Val item;          /* of the block's */
} Team;

/* ---- shared memory ------------------------------------------------------ */

static int64_t
num_results(const PtxShape *s)
{
    return (int64_t)s->slices * s->items;
}

/* Results are at the same place whatever their type is: they are read while the
 * next reduction's partial results are written. */
static int64_t
result_bytes(const PtxShape *s)
{
    return num_results(s) * PTX_ALIGN;
}

int64_t
be_ptx_reduce_bytes(Emit *e, const KNode *n, const PtxShape *s)
{
    EmitFold f = be_fold_of(e, n);
    return result_bytes(s) + be_ptx_part_bytes(&f) * s->threads;
}

/* The partial result of a stripe. */
static Val
slot_of(const Team *t, Val item, Val slice, Val stripe)
{
    const PtxShape *s = &t->p->shape;
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val lane = be_mul(u, slice, be_emit_word(e, IR_STRIPES));
    lane = be_add(u, lane, stripe);
    int lanes = s->strided ? s->items : 1, items = s->strided ? 1 : s->team;
    Val slot = be_mul(u, lane, be_emit_word(e, lanes));
    return be_add(u, slot, be_mul(u, item, be_emit_word(e, items)));
}

static Val
result_slot(const Team *t, Val item, Val slice)
{
    const PtxShape *s = &t->p->shape;
    Emit *e = &t->p->e;
    Val slot = be_mul(e->u, slice, be_emit_word(e, s->items));
    return be_add(e->u, slot, item);
}

/* ---- a chunk ------------------------------------------------------------ */

static EmitPartial
element(const Team *t, Val number)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    be_space_delinearize(&p->e, &t->space, number);
    p->together = false;
    be_emit_block(e, &t->fold.node->reduce.body);
    p->together = true;
    EmitPartial part = {be_emit_get(e, t->fold.node->reduce.element, 0, 0),
                        NULL};
    if (t->fold.info->arg)
        part.number =
            LLVMBuildIntCast2(e->u->builder, number, e->u->i64, 1, "");
    return part;
}

/* The partial result of this thread's stripe for elements begin to end. */
static EmitPartial
fold_stripe(const Team *t, Val begin, Val end)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    EmitPartial part = be_fold_neutral(&t->fold, 0);
    BeLoop l;
    be_loop_begin(u, &l, be_add(u, begin, t->stripe), end,
                  be_emit_word(e, IR_STRIPES), "element");
    EmitPartial sum = {be_loop_carry(u, &l, part.value), NULL};
    if (part.number)
        sum.number = be_loop_carry(u, &l, part.number);
    be_loop_body(u, &l);
    EmitPartial next = be_fold_combine(&t->fold, sum, element(t, l.index));
    be_loop_next(&l, 0, next.value);
    if (part.number)
        be_loop_next(&l, 1, next.number);
    be_loop_end(u, &l);
    return sum;
}

/* The tree over the stripes of a slice, by the threads of part of a warp. */
static void
fold_slice(const Team *t, Val number, int threads)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    const PtxShape *s = &p->shape;
    Val by = be_emit_word(e, threads), items = be_emit_word(e, s->items);
    Val lane = LLVMBuildURem(b, number, by, "");
    Val all = LLVMBuildUDiv(b, number, by, "");
    Val most = be_emit_word(e, num_results(s) - 1);
    Val own = be_min(u, all, most);
    Val item = LLVMBuildURem(b, own, items, "");
    Val slice = LLVMBuildUDiv(b, own, items, "");
    PtxTree tree = {p, &t->fold, .lane = lane, .team = threads, .width = 1};
    tree.rounds = tree.have = t->fold.stripes / threads;
    for (int i = 0; i < tree.rounds; i++) {
        Val stripe = be_emit_word(e, (int64_t)i * threads);
        stripe = be_add(u, stripe, lane);
        Val slot = slot_of(t, item, slice, stripe);
        tree.v[i] = be_ptx_part_get(p, &t->fold, &t->parts, slot);
    }
    EmitPartial result = be_ptx_tree_fold(&tree);
    Val first = be_icmp(u, LLVMIntEQ, lane, be_emit_word(e, 0));
    first = be_and(u, first, be_icmp(u, LLVMIntEQ, all, own));
    PtxIf i = be_ptx_if(p, first);
    be_ptx_part_put(p, &t->fold, &t->results, result_slot(t, item, slice),
                    result);
    be_ptx_end_if(p, &i, NULL, NULL);
}

/* The results of all slices, from the threads' partial results.  Whole warps
 * take part. */
static void
fold_stripes(const Team *t, EmitPartial part)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int threads = t->fold.stripes < PTX_WARP ? t->fold.stripes : PTX_WARP;
    int64_t all = num_results(&p->shape) * threads;
    be_ptx_part_put(p, &t->fold, &t->parts, p->thread, part);
    be_ptx_barrier(p);
    BeLoop l;
    be_loop_begin(u, &l, p->thread,
                  be_emit_word(e, all < PTX_WARP ? PTX_WARP : all),
                  be_emit_word(e, p->shape.threads), "slice");
    be_loop_body(u, &l);
    fold_slice(t, l.index, threads);
    be_loop_end(u, &l);
    be_ptx_barrier(p);
}

/* ---- chunks ------------------------------------------------------------- */

static EmitPartial
slice_result(const Team *t, int slice)
{
    Val number = be_emit_word(&t->p->e, slice);
    return be_ptx_part_get(t->p, &t->fold, &t->results,
                           result_slot(t, t->item, number));
}

static EmitPartial
fold_slices(const Team *t, EmitPartial total)
{
    for (int i = 0; i < t->p->shape.slices; i++)
        total = be_fold_combine(&t->fold, total, slice_result(t, i));
    return total;
}

/* As many chunks at a time as there are slices. */
static EmitPartial
fold_chunks(const Team *t)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitPartial part = be_fold_neutral(&t->fold, 0);
    Val chunk = be_emit_word(e, IR_CHUNK);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), t->size,
                  be_emit_word(e, (int64_t)IR_CHUNK * p->shape.slices),
                  "chunk");
    EmitPartial total = {be_loop_carry(u, &l, part.value), NULL};
    if (part.number)
        total.number = be_loop_carry(u, &l, part.number);
    be_loop_body(u, &l);
    Val begin = be_add(u, l.index, be_mul(u, t->slice, chunk));
    Val end = be_min(u, be_add(u, begin, chunk), t->size);
    fold_stripes(t, fold_stripe(t, begin, end));
    EmitPartial next = fold_slices(t, total);
    be_loop_next(&l, 0, next.value);
    if (part.number)
        be_loop_next(&l, 1, next.number);
    be_loop_end(u, &l);
    return total;
}

/* Threads beyond the stripes and slices in use have no elements. */
static EmitPartial
fold_one_chunk(const Team *t)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val first = be_icmp(u, LLVMIntEQ, t->slice, be_emit_word(e, 0));
    Val end = be_select(u, first, t->size, be_emit_word(e, 0));
    fold_stripes(t, fold_stripe(t, be_emit_word(e, 0), end));
    return slice_result(t, 0);
}

static Val
reduce_together(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Team t = {.p = p, .fold = be_fold_of(e, n)};
    t.space = be_space_of(&n->reduce.ranges);
    t.size = be_space_size(&p->e, &t.space);
    Val stripes = be_emit_word(e, IR_STRIPES);
    t.stripe = LLVMBuildURem(u->builder, p->lane, stripes, "");
    t.slice = LLVMBuildUDiv(u->builder, p->lane, stripes, "");
    t.item = p->team;
    t.results = be_ptx_parts_at(&t.fold, 0, num_results(&p->shape));
    t.parts =
        be_ptx_parts_at(&t.fold, result_bytes(&p->shape), p->shape.threads);
    EmitPartial all =
        t.fold.bound > IR_CHUNK ? fold_chunks(&t) : fold_one_chunk(&t);
    return be_fold_result(&t.fold, all);
}

void
be_ptx_reduce(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (p->is_rest && !p->shape.tiles.contract)
        be_ptx_rest_reduce(p, n);
    else if (p->shape.rows.length)
        be_ptx_row_reduce(p, n);
    else if (p->shape.panels.is_used)
        be_ptx_panel_reduce(p, n);
    else if (p->together)
        be_emit_set(e, n, 0, 0, reduce_together(p, n));
    else
        be_emit_reduce(e, n);
}
