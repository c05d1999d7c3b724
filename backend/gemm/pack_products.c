/*
 * pack_products.c - the products of a row or column in turn
 *
 * What an operand's elements depend on besides the last index of the products
 * is computed before the loop over that index: values, and the terms of
 * addresses, since nothing is hoisted out of loops later.
 */
#include "backend/gemm/pack.h"

/* ---- products ------------------------------------------------------------ */

const KVar *
be_gemm_last_product(const GemmCode *t)
{
    const EmitSpace *s = &t->gemm->k;
    return s->vars[s->count - 1];
}

bool
be_gemm_has_whole(const GemmCode *t, int n)
{
    Dim extent = be_gemm_last_product(t)->extent;
    return ir_dim_is_const(extent) && extent.c % n == 0;
}

/* Whether n differs along the last index of the products. */
static bool
is_inner(const Pack *p, const KNode *n)
{
    const Emit *e = p->t->e;
    const KVar *index = be_kernel_new_index(n);
    EmitVarying d =
        index ? e->index_varying[index->id] : e->value_varying[n->id];
    return e->tile.lane == be_gemm_last_product(p->t) ? d.lane : d.row;
}

/* The nodes of the contraction that vary along k (or do not). */
void
be_gemm_emit_products(const Pack *p, bool inner)
{
    Emit *e = p->t->e;
    const KBlock *body = &p->t->gemm->contract->contract.body;
    for (const KNode *n = body->first; n; n = n->next) {
        if (be_slice_contains(&p->operand->slice, n) && is_inner(p, n) == inner)
            be_emit_node(e, n);
    }
}

/* Where product number `at` is packed; NULL: p's pack knows. */
Val
be_gemm_first_address(const Pack *p, Val at)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    if (!p->memory)
        return NULL;
    Val index = be_add(u, p->first, be_mul(u, at, be_emit_word(e, p->stride)));
    return LLVMBuildGEP2(u->builder, p->t->type, p->memory, &index, 1, "");
}

/* Lets a loop over products carry it. */
void
be_gemm_carry_address(Pack *p, BeLoop *l, Val to)
{
    p->to = to ? be_loop_carry(p->t->e->u, l, to) : NULL;
}

/* The same for the next round; `number` is that of the carried value. */
void
be_gemm_next_address(const Pack *p, BeLoop *l, int number)
{
    int64_t step = p->step * p->stride * p->t->bytes;
    if (p->to)
        be_loop_next(l, number, be_offset_const(p->t->e->u, p->to, step));
}

void
be_gemm_pack_row(Pack *p, Val at)
{
    (void)at;
    Emit *e = p->t->e;
    Val x = be_emit_get_as(e, p->operand->value, 0, 0, true);
    be_store(e->u, x, p->to, (unsigned)p->t->bytes);
}

/* ---- addresses ----------------------------------------------------------- */

/* Whether a node among those that the loop emits defines an index of x. */
static bool
is_defined_in_loop(const Pack *p, const KIndex *x)
{
    const Gemm *g = p->t->gemm;
    return be_block_defines_index(&p->t->e->k->body, x) ||
           be_block_defines_index(&g->loop->loop.body, x) ||
           be_block_defines_index(&g->contract->contract.body, x);
}

/* The words; the index along which the loop goes is set. */
static void
add_words(const Pack *p, const KBlock *b, PackWords *w)
{
    enum { MOST = sizeof w->of / sizeof w->of[0] };
    for (const KNode *n = b->first; n && w->num < MOST; n = n->next) {
        if (n->kind != K_LOAD || !be_slice_contains(&p->operand->slice, n) ||
            is_defined_in_loop(p, &n->load.at))
            continue;
        w->of[w->num] = &n->load.at;
        w->words[w->num++] = be_address_of(p->t->e, &n->load.at).base;
    }
}

/* Before a loop over the products or places of p. */
void
be_gemm_find_words(const Pack *p, const KVar *along, PackWords *w)
{
    Emit *e = p->t->e;
    *w = (PackWords){.along = along};
    if (along)
        e->indices[along->id] = (EmitIndex){.base = be_emit_word(e, 0)};
    else
        be_emit_set_collapsed(e, be_emit_word(e, 0));
    add_words(p, &p->t->gemm->contract->contract.body, w);
}

/* In a round. */
void
be_gemm_begin_words(const Pack *p, const PackWords *w, Val index)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    for (int i = 0; i < w->num; i++) {
        EmitCarried here = {w->of[i], w->words[i]};
        if (w->along) {
            Val step = be_emit_dim(e, be_index_coef(w->of[i], w->along));
            here.word = be_add(u, here.word, be_mul(u, step, index));
        }
        VEC_PUSH(e->arena, e->carried, here);
    }
}

void
be_gemm_end_words(const Pack *p, const PackWords *w)
{
    p->t->e->carried.len -= w->num;
}

/* ---- runs of products ---------------------------------------------------- */

/* Products whose last index is begin .. end, the first having number `at`. */
static void
pack_run(Pack *p, Val begin, Val end, Val at)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    const KVar *last = be_gemm_last_product(p->t);
    BeLoop l;
    PackWords words;
    be_gemm_emit_products(p, false);
    be_gemm_find_words(p, last, &words);
    Val to = be_gemm_first_address(p, at);
    be_loop_begin(u, &l, begin, end, be_emit_word(e, p->step), "k");
    Val number = be_loop_carry(u, &l, at);
    be_gemm_carry_address(p, &l, to);
    be_loop_body(u, &l);
    e->indices[last->id] = (EmitIndex){.base = l.index};
    be_gemm_begin_words(p, &words, l.index);
    if (p->step > 1 && !be_gemm_has_whole(p->t, p->step))
        e->tile.mask[0] =
            be_emit_first_lanes(e, be_sub(u, end, l.index), p->step);
    be_gemm_emit_products(p, true);
    p->pack(p, number);
    be_gemm_end_words(p, &words);
    be_loop_next(&l, 0, be_add(u, number, be_emit_word(e, p->step)));
    be_gemm_next_address(p, &l, 1);
    be_loop_end(u, &l);
}

/* Whether no block of k ends within a run of the last index. */
static bool
has_whole_runs(const GemmCode *t)
{
    Dim extent = be_gemm_last_product(t)->extent;
    return ir_dim_is_const(extent) && extent.c > 0 &&
           (!t->plan.k_blocked || IR_K_BLOCK % extent.c == 0);
}

void
be_gemm_pack_products(Pack *p, Val begin, Val end)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    EmitSpace outer = p->t->gemm->k;
    Val extent = be_emit_dim(e, be_gemm_last_product(p->t)->extent);
    bool whole = has_whole_runs(p->t);
    if (--outer.count == 0) {
        pack_run(p, begin, end, be_emit_word(e, 0));
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, begin, end, whole ? extent : NULL, "run");
    be_loop_body(u, &l);
    be_space_delinearize(e, &outer, LLVMBuildUDiv(b, l.index, extent, ""));
    Val at = be_sub(u, l.index, begin);
    if (whole) {
        pack_run(p, be_emit_word(e, 0), extent, at);
    } else {
        Val from = LLVMBuildURem(b, l.index, extent, "");
        Val left = be_sub(u, end, l.index);
        l.step = be_min(u, left, be_sub(u, extent, from));
        pack_run(p, from, be_add(u, from, l.step), at);
    }
    be_loop_end(u, &l);
}
