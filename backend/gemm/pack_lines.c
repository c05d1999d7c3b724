/*
 * pack_lines.c - A as im2col lines, whose places neighbouring rows share
 *
 * Lanes run along the places of a line: along m for the rows of a group, for
 * which the products' index extends beyond its range, along k the other way
 * round.
 */
#include "backend/gemm/pack.h"

/* ---- places -------------------------------------------------------------- */

/* The lanes' indices from element `at` of a line on. */
static void
set_places(Emit *e, Val at)
{
    if (e->tile.collapsed)
        be_emit_set_collapsed(e, at);
    else
        e->indices[e->tile.lane->id] = (EmitIndex){.base = at};
}

/* Emits what computes elements of a place or of some. */
typedef void EmitPlace(const Pack *p);

static void
emit_products_of_place(const Pack *p)
{
    be_gemm_emit_products(p, false);
    be_gemm_emit_products(p, true);
}

/* Where all else is computed already. */
static void
emit_inner_products(const Pack *p)
{
    be_gemm_emit_products(p, true);
}

static void
emit_slice_of_place(const Pack *p)
{
    Emit *e = p->t->e;
    const Gemm *g = p->t->gemm;
    be_emit_slice(e, &p->operand->slice, &e->k->body);
    be_emit_slice(e, &p->operand->slice, &g->loop->loop.body);
    be_emit_slice(e, &p->operand->slice, &g->contract->contract.body);
}

/* A line of places with `size` elements; it begins with that element of the
 * packed ones. */
static void
pack_line(Pack *p, Val size, EmitPlace *emit)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    BeLoop l;
    PackWords words;
    be_gemm_find_words(p, e->tile.collapsed ? NULL : e->tile.lane, &words);
    Val to = be_gemm_first_address(p, be_emit_word(e, 0));
    be_loop_begin(u, &l, be_emit_word(e, 0), size, be_emit_word(e, p->step),
                  "place");
    be_gemm_carry_address(p, &l, to);
    be_loop_body(u, &l);
    e->tile.mask[0] = be_emit_first_lanes(e, be_sub(u, size, l.index), p->step);
    set_places(e, l.index);
    be_gemm_begin_words(p, &words, l.index);
    emit(p);
    p->pack(p, l.index);
    be_gemm_end_words(p, &words);
    be_gemm_next_address(p, &l, 0);
    be_loop_end(u, &l);
}

/* Places of a line for that many values of the index that has a stride. */
static Val
num_places(Emit *e, const GemmLines *o, Val values)
{
    BeUnit *u = e->u;
    Val places = be_mul(u, be_sub(u, values, be_emit_word(e, 1)),
                        be_emit_word(e, o->stride));
    return be_add(u, places, be_emit_word(e, o->index->extent.c));
}

static Pack
pack_of_lines(GemmCode *t)
{
    Pack p = {.t = t, .operand = &t->gemm->a, .pack = be_gemm_pack_row};
    p.step = t->plan.lanes;
    p.stride = 1;
    p.memory = t->packed_a;
    return p;
}

/* ---- lines whose places are apart ---------------------------------------- */

static bool
has_load_apart(const Pack *p, const KBlock *b, const KVar *slow,
               const KVar *lane)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_LOAD || !be_slice_contains(&p->operand->slice, n))
            continue;
        Dim whole, own = be_index_coef(&n->load.at, lane);
        if (!ir_dim_mul(own, lane->extent, &whole) ||
            !ir_dim_equal(be_index_coef(&n->load.at, slow), whole))
            return true;
    }
    return false;
}

/* Whether the elements of a place are not followed by those of the next, as
 * where they are the channels of one of several groups: lanes then do not run
 * through places as if these were one line in memory, too. */
static bool
are_apart(const Pack *p, const KVar *slow, const KVar *lane)
{
    const Gemm *g = p->t->gemm;
    return slow && (has_load_apart(p, &p->t->e->k->body, slow, lane) ||
                    has_load_apart(p, &g->loop->loop.body, slow, lane) ||
                    has_load_apart(p, &g->contract->contract.body, slow, lane));
}

/* A vector of a place's elements, from number `at` on; what is stored beyond
 * the last one is overwritten by the next place. */
static void
pack_some(Pack *p, Val at, EmitPlace *emit)
{
    Emit *e = p->t->e;
    const KVar *lane = e->tile.lane;
    Val rest = be_sub(e->u, be_emit_dim(e, lane->extent), at);
    e->indices[lane->id] = (EmitIndex){.base = at};
    e->tile.mask[0] = be_emit_first_lanes(e, rest, p->step);
    emit(p);
    p->pack(p, at);
}

static void
pack_elements(Pack *p, EmitPlace *emit)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    const KVar *lane = e->tile.lane;
    Val none = be_emit_word(e, 0);
    if (lane->extent.c <= p->step) {
        pack_some(p, none, emit);
        return;
    }
    PackWords words;
    BeLoop l;
    be_gemm_find_words(p, lane, &words);
    be_loop_begin(u, &l, none, be_emit_dim(e, lane->extent),
                  be_emit_word(e, p->step), "element");
    be_gemm_carry_address(p, &l, p->to);
    be_loop_body(u, &l);
    be_gemm_begin_words(p, &words, l.index);
    pack_some(p, l.index, emit);
    be_gemm_end_words(p, &words);
    be_gemm_next_address(p, &l, 0);
    be_loop_end(u, &l);
}

/* So many places, one after the other. */
static void
pack_places(Pack *p, const KVar *slow, Val places, EmitPlace *emit)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    const KVar *lane = e->tile.lane;
    int64_t bytes = lane->extent.c * p->stride * p->t->bytes;
    PackWords words;
    BeLoop l;
    e->indices[lane->id] = (EmitIndex){.base = be_emit_word(e, 0)};
    be_gemm_find_words(p, slow, &words);
    Val to = be_gemm_first_address(p, be_emit_word(e, 0));
    be_loop_begin(u, &l, be_emit_word(e, 0), places, be_emit_word(e, 1),
                  "place");
    be_gemm_carry_address(p, &l, to);
    Val here = p->to;
    be_loop_body(u, &l);
    e->indices[slow->id] = (EmitIndex){.base = l.index};
    be_gemm_begin_words(p, &words, l.index);
    pack_elements(p, emit);
    be_gemm_end_words(p, &words);
    be_loop_next(&l, 0, be_offset_const(u, here, bytes));
    be_loop_end(u, &l);
}

/* ---- lines along m ------------------------------------------------------- */

/* Lanes along the places of all rows of a group, for which the products' index
 * extends beyond its range. */
void
be_gemm_pack_m_lines(GemmCode *t, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->a;
    const GemmLines *w = &t->gemm->m_lines;
    const KVar *last = be_gemm_last_product(t);
    const KVar *slow = last == w->index ? NULL : w->index;
    Pack p = pack_of_lines(t);
    bool apart = are_apart(&p, slow, last);
    be_emit_find_varying_collapsed(e, apart ? NULL : slow, last);
    e->tile = (EmitTile){.rows = 1, .vectors = 1, .lanes = t->plan.lanes};
    e->tile.lane = last;
    e->tile.collapsed = apart ? NULL : slow;
    be_space_delinearize(e, &t->gemm->m, first);
    be_emit_slice(e, &o->slice, &e->k->body);
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    EmitSpace lines = t->gemm->k;
    lines.count -= slow ? 2 : 1;
    Val group = be_emit_word(e, t->plan.a.group);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, w->lines),
                  be_emit_word(e, 1), "line");
    be_loop_body(u, &l);
    be_space_delinearize(e, &lines, l.index);
    p.first = be_mul(u, l.index, be_emit_word(e, t->plan.a.line_size));
    Val count = be_min(u, be_sub(u, end, first), group);
    Val places = num_places(e, w, count);
    if (apart) {
        pack_places(&p, slow, places, emit_products_of_place);
    } else {
        be_gemm_emit_products(&p, false);
        pack_line(&p, be_mul(u, places, be_emit_word(e, w->elements)),
                  emit_inner_products);
    }
    be_loop_end(u, &l);
}

/* ---- lines along k ------------------------------------------------------- */

/* The lines of all rows for `count` values of k, the first being number `from`
 * along the line of segment `piece`. */
static void
pack_piece(GemmCode *t, Val from, Val count, Val piece)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmLines *s = &t->gemm->k_lines;
    EmitSpace lines = t->gemm->m;
    const KVar *slow = e->tile.lane == s->index ? NULL : s->index;
    lines.count -= slow ? 2 : 1;
    Val runs = be_emit_word(e, s->lines), places = num_places(e, s, count);
    Pack p = pack_of_lines(t);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), runs, be_emit_word(e, 1),
                  "k_line");
    be_loop_body(u, &l);
    be_space_delinearize(e, &lines, l.index);
    Val line = be_add(u, be_mul(u, piece, runs), l.index);
    Val before = be_mul(u, line, be_emit_word(e, t->plan.a.line_size));
    p.first =
        be_add(u, before, be_mul(u, from, be_emit_word(e, t->plan.a.k_stride)));
    if (slow && !e->tile.collapsed)
        pack_places(&p, slow, places, emit_slice_of_place);
    else
        pack_line(&p, be_mul(u, places, be_emit_word(e, s->elements)),
                  emit_slice_of_place);
    be_loop_end(u, &l);
}

/* Lanes along the places, for which the rows' index extends beyond its range.
 */
void
be_gemm_pack_k_lines(GemmCode *t, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitSpace *rows = &t->gemm->m;
    const GemmLines *s = &t->gemm->k_lines;
    EmitTile outer = e->tile;
    EmitSpace lines = t->gemm->k;
    const KVar *product = lines.vars[--lines.count];
    e->tile = (EmitTile){.rows = 1, .vectors = 1, .lanes = t->plan.lanes};
    e->tile.lane = rows->vars[rows->count - 1];
    Pack p = pack_of_lines(t);
    const KVar *slow = e->tile.lane == s->index ? NULL : s->index;
    e->tile.collapsed = are_apart(&p, slow, e->tile.lane) ? NULL : slow;
    be_emit_find_varying_collapsed(e, e->tile.collapsed, e->tile.lane);
    Val length = be_emit_word(e, s->length);
    BeLoop l;
    be_loop_begin(u, &l, begin, stop, NULL, "line");
    Val piece = be_loop_carry(u, &l, be_emit_word(e, 0));
    be_loop_body(u, &l);
    be_space_delinearize(e, &lines,
                         LLVMBuildUDiv(u->builder, l.index, length, ""));
    Val from = LLVMBuildURem(u->builder, l.index, length, "");
    Val left = be_sub(u, stop, l.index);
    l.step = be_min(u, left, be_sub(u, length, from));
    e->indices[product->id] = (EmitIndex){.base = from};
    pack_piece(t, from, l.step, piece);
    be_loop_next(&l, 0, be_add(u, piece, be_emit_word(e, 1)));
    be_loop_end(u, &l);
    e->tile = outer;
}
