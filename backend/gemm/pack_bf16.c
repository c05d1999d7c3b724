/*
 * pack_bf16.c - A and B, packed as bf16
 *
 * A value of bf16 is an f32 whose lower half is 0, so a pair of neighbouring k
 * is the upper halves of two of them, the later one above.  Where memory runs
 * along k, pairs are neighbours in a vector; else lanes run along the rows or
 * columns: two k at once, or, where the extent of k may be odd, one after the
 * other: the first is stored as a pair with 0, the second added to it.  Rows of
 * A that come so stay tiles of pairs for vdpbf16ps; for AMX they, and for both
 * columns of B that run along k, are transposed as squares of pairs.
 *
 * What is stored beyond the last k of a run is overwritten by the next run; in
 * the end zeros are stored up to a multiple of 32, but for tiles of pairs,
 * which need the second of a last pair alone.
 */
#include "backend/gemm/bf16.h"
#include "backend/gemm/pack.h"

enum { PAIR_BYTES = 2 * BF16_BYTES, PAIRS = BF16_GROUP / 2 };

static Type
pairs_type(const GemmCode *t)
{
    return be_vector(t->e->u->i32, BF16_LANES);
}

static Val
bits_of(const GemmCode *t, Val x)
{
    Type words = be_retype(LLVMTypeOf(x), t->e->u->i32);
    return LLVMBuildBitCast(t->e->u->builder, x, words, "");
}

/* The upper halves of x, one after the other. */
static Val
halves_of(const GemmCode *t, Val x)
{
    LLVMBuilderRef b = t->e->u->builder;
    Val bits = bits_of(t, x);
    bits = LLVMBuildLShr(b, bits, be_int(LLVMTypeOf(bits), 16), "");
    return LLVMBuildTrunc(b, bits, be_retype(LLVMTypeOf(bits), t->e->u->i16),
                          "");
}

static Val
pair_at(const GemmCode *t, Val base, Val index)
{
    return LLVMBuildGEP2(t->e->u->builder, t->e->u->i32, base, &index, 1, "");
}

/* The next multiple of 32. */
static Val
rounded_up(Emit *e, Val k)
{
    Val up = be_add(e->u, k, be_emit_word(e, BF16_GROUP - 1));
    return be_and(e->u, up, be_emit_word(e, -BF16_GROUP));
}

/* ---- pairs side by side ------------------------------------------------- */

/* Whether the k of a pair are emitted at once. */
static bool
has_pairs(const GemmCode *t)
{
    return be_gemm_has_whole(t, 2);
}

/* The tile for lanes along an index, and a pair of k. */
static EmitTile
tile_of_pairs(const GemmCode *t, const KVar *lane)
{
    return (EmitTile){.rows = has_pairs(t) ? 2 : 1,
                      .vectors = 1,
                      .row = be_gemm_last_product(t),
                      .lane = lane};
}

/* Where the pair of product `at` is packed; first and stride count pairs. */
static Val
packed_pair(const Pack *p, Val at, Val base)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    Val pair = LLVMBuildLShr(u->builder, at, be_emit_word(e, 1), "");
    Val index = be_mul(u, pair, be_emit_word(e, p->stride));
    return pair_at(p->t, base, be_add(u, p->first, index));
}

/* Vectors of columns, or rows, for products `at` and at + 1. */
static void
pack_at_once(Pack *p, Val at, Val base, const int64_t *more)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Type type = pairs_type(p->t);
    Val to = packed_pair(p, at, base);
    const KNode *n = p->operand->value;
    for (int v = 0; v < e->tile.vectors; v++) {
        Val low = bits_of(p->t, be_emit_get_as(e, n, 0, v, true));
        Val high = bits_of(p->t, be_emit_get_as(e, n, 1, v, true));
        low = LLVMBuildLShr(b, low, be_int(type, 16), "");
        Val place = be_offset_const(u, to, more[v] * PAIR_BYTES);
        be_store(u, be_or(u, low, high), place, PAIR_BYTES);
    }
}

/* The same for product `at` alone. */
static void
pack_by_turns(Pack *p, Val at, Val base, const int64_t *more)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Type type = pairs_type(p->t);
    Val one = be_emit_word(e, 1);
    Val second = be_icmp(u, LLVMIntNE, be_and(u, at, one), be_emit_word(e, 0));
    Val to = packed_pair(p, at, base);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val bits =
            bits_of(p->t, be_emit_get_as(e, p->operand->value, 0, v, true));
        Val low = LLVMBuildLShr(b, bits, be_int(type, 16), "");
        Val where = be_offset_const(u, to, more[v] * PAIR_BYTES);
        Val both = be_or(u, bits, be_load(u, type, where, PAIR_BYTES));
        be_store(u, be_select(u, second, both, low), where, PAIR_BYTES);
    }
}

/* Zeros for the pairs beyond those of `count` products, each of so many
 * vectors.
 */
static void
clear_pairs(GemmCode *t, Val base, Val count, int64_t vectors)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val one = be_emit_word(e, 1);
    Val from = LLVMBuildLShr(u->builder, be_add(u, count, one), one, "");
    Val to = LLVMBuildLShr(u->builder, rounded_up(e, count), one, "");
    BeLoop l;
    be_loop_begin(u, &l, from, to, one, "zeros");
    be_loop_body(u, &l);
    Val at = be_mul(u, l.index, be_emit_word(e, vectors * BF16_LANES));
    for (int64_t v = 0; v < vectors; v++)
        be_store(
            u, be_zero(pairs_type(t)),
            be_offset_const(u, pair_at(t, base, at), v * BF16_VECTOR_BYTES),
            PAIR_BYTES);
    be_loop_end(u, &l);
}

/* ---- rows of A along k -------------------------------------------------- */

static void
pack_halves(Pack *p, Val at)
{
    GemmCode *t = p->t;
    BeUnit *u = t->e->u;
    Val x = be_emit_get_as(t->e, p->operand->value, 0, 0, true);
    Val index = be_add(u, p->first, at);
    Val to = LLVMBuildGEP2(u->builder, u->i16, t->packed_a, &index, 1, "");
    be_store(u, halves_of(t, x), to, BF16_BYTES);
}

static void
clear_end_of_row(Pack *p, Val count)
{
    BeUnit *u = p->t->e->u;
    Val index = be_add(u, p->first, count);
    Val to = LLVMBuildGEP2(u->builder, u->i16, p->t->packed_a, &index, 1, "");
    be_store(u, be_zero(be_vector(u->i16, BF16_GROUP)), to, BF16_BYTES);
}

/* ---- rows of A side by side --------------------------------------------- */

/* The rows of a tile as [pair][row]. */
typedef struct Beside {
    Pack pack; /* first */
    Val pairs;
} Beside;

static void
pack_rows_beside(Pack *p, Val at)
{
    const int64_t more = 0;
    if (has_pairs(p->t))
        pack_at_once(p, at, ((Beside *)p)->pairs, &more);
    else
        pack_by_turns(p, at, ((Beside *)p)->pairs, &more);
}

/* A square of pairs from `pairs` to the rows from `row` on. */
static void
turn_square(GemmCode *t, Val pairs, Val row, Val pair)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val square[BF16_LANES];
    Val from = pair_at(t, pairs, be_mul(u, pair, be_emit_word(e, BF16_LANES)));
    for (int i = 0; i < BF16_LANES; i++)
        square[i] =
            be_load(u, pairs_type(t),
                    be_offset_const(u, from, (int64_t)i * BF16_VECTOR_BYTES),
                    PAIR_BYTES);
    be_transpose(u, square, BF16_LANES);
    Val index = be_mul(u, row, be_emit_word(e, t->plan.a.stride / 2));
    Val to = pair_at(t, t->packed_a, be_add(u, index, pair));
    for (int i = 0; i < BF16_LANES; i++)
        be_store(u, square[i],
                 be_offset_const(u, to, i * t->plan.a.stride * BF16_BYTES),
                 PAIR_BYTES);
}

static void
turn_rows(GemmCode *t, Val pairs, Val row, Val count)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val half = be_emit_word(e, 1);
    Val end = LLVMBuildLShr(u->builder, rounded_up(e, count), half, "");
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), end, be_emit_word(e, PAIRS),
                  "square");
    be_loop_body(u, &l);
    turn_square(t, pairs, row, l.index);
    be_loop_end(u, &l);
}

/* Lanes along the rows, for one tile after the other. */
static void
pack_tiles_of_rows(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->a;
    const EmitSpace *rows = &t->gemm->m;
    const KVar *row = rows->vars[rows->count - 1];
    Val pairs = be_alloca(u, u->i32, (uint64_t)t->plan.kc / 2 * BF16_LANES,
                          BF16_VECTOR_BYTES, "pairs");
    Val count = be_sub(u, stop, begin);
    be_emit_find_varying_along(e, be_gemm_last_product(t), row);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0),
                  be_min(u, be_sub(u, end, first), be_emit_word(e, t->plan.mr)),
                  be_emit_word(e, BF16_LANES), "tile");
    be_loop_body(u, &l);
    Val at = be_add(u, first, l.index);
    e->tile = tile_of_pairs(t, row);
    e->tile.lanes = BF16_LANES;
    be_gemm_set_masks(e, be_sub(u, end, at));
    be_space_delinearize(e, rows, at);
    be_emit_slice(e, &o->slice, &e->k->body);
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    Beside b = {
        {.t = t, .operand = o, .pack = pack_rows_beside, .step = e->tile.rows},
        pairs};
    b.pack.first = be_emit_word(e, 0);
    b.pack.stride = BF16_LANES;
    be_gemm_pack_products(&b.pack, begin, stop);
    clear_pairs(t, pairs, count, 1);
    turn_rows(t, pairs, l.index, count);
    be_loop_end(u, &l);
}

/* ---- tiles of pairs of A ------------------------------------------------- */

static void
pack_rows_of_tiles(Pack *p, Val at)
{
    int64_t more[BE_MAX_VECTORS];
    for (int v = 0; v < BE_MAX_VECTORS; v++)
        more[v] = v * p->t->plan.a.size / 2;
    if (has_pairs(p->t))
        pack_at_once(p, at, p->t->packed_a, more);
    else
        pack_by_turns(p, at, p->t->packed_a, more);
}

/* A vector of rows for each tile.  Lanes beyond a tile's rows are overwritten
 * by the next pair. */
static void
pack_tiles_of_pairs(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    const GemmOperand *o = &t->gemm->a;
    const EmitSpace *rows = &t->gemm->m;
    const KVar *row = rows->vars[rows->count - 1];
    be_emit_find_varying_along(e, be_gemm_last_product(t), row);
    e->tile = tile_of_pairs(t, row);
    e->tile.lanes = t->plan.lanes;
    e->tile.vectors = t->plan.m_tiles;
    e->tile.vector_step = t->plan.mr;
    be_gemm_set_masks(e, be_sub(e->u, end, first));
    be_space_delinearize(e, rows, first);
    be_emit_slice(e, &o->slice, &e->k->body);
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    Pack p = {.t = t, .operand = o, .pack = pack_rows_of_tiles};
    p.step = e->tile.rows;
    p.first = be_emit_word(e, 0);
    p.stride = t->plan.mr;
    be_gemm_pack_products(&p, begin, stop);
}

bool
be_bf16_a_is_along_k(const Gemm *g)
{
    return g->a.along_k || g->m.count > 1;
}

void
be_bf16_pack_a(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    EmitTile outer = t->e->tile;
    if (be_bf16_a_is_along_k(t->gemm))
        be_gemm_pack_each_row(t, first, end, begin, stop, pack_halves,
                              clear_end_of_row);
    else if (t->plan.a.kind == GEMM_TILES)
        pack_tiles_of_pairs(t, first, end, begin, stop);
    else
        pack_tiles_of_rows(t, first, end, begin, stop);
    t->e->tile = outer;
}

/* ---- columns of B side by side ------------------------------------------ */

/* The pair in packed memory of column `at`, a multiple of lanes, and k 0. */
static Val
column_at(GemmCode *t, Val at)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int64_t width = be_gemm_nr(t);
    Val inside = LLVMBuildURem(u->builder, at, be_emit_word(e, width), "");
    Val before =
        be_mul(u, be_sub(u, at, inside), be_emit_word(e, t->plan.kc / 2));
    return be_add(u, before, inside);
}

static void
pack_columns_beside(Pack *p, Val at)
{
    const GemmPlan *plan = &p->t->plan;
    int64_t panel = plan->kc / 2 * plan->lanes * plan->vectors;
    int64_t more[BE_MAX_VECTORS];
    for (int v = 0; v < BE_MAX_VECTORS; v++)
        more[v] = v / plan->vectors * panel + v % plan->vectors * plan->lanes;
    if (has_pairs(p->t))
        pack_at_once(p, at, p->t->packed_b, more);
    else
        pack_by_turns(p, at, p->t->packed_b, more);
}

/* Columns from .. end, some vectors at once; they are counted from first. */
static void
pack_columns(GemmCode *t, Val first, Val from, Val end, int vectors, Val begin,
             Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->b;
    const KVar *column = t->gemm->n;
    be_emit_find_varying_along(e, be_gemm_last_product(t), column);
    e->tile = tile_of_pairs(t, column);
    be_emit_slice(e, &o->slice, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, from, end,
                  be_emit_word(e, (int64_t)vectors * t->plan.lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = t->plan.lanes;
    e->tile.vectors = vectors;
    be_gemm_set_masks(e, be_sub(u, end, l.index));
    e->indices[column->id] = (EmitIndex){.base = l.index};
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    Pack p = {.t = t, .operand = o, .pack = pack_columns_beside};
    p.step = e->tile.rows;
    p.stride = be_gemm_nr(t);
    p.first = column_at(t, be_sub(u, l.index, first));
    be_gemm_pack_products(&p, begin, stop);
    be_loop_end(u, &l);
}

/* ---- columns of B along k ----------------------------------------------- */

/* 16 columns, for 32 products. */
static void
pack_square(Pack *p, Val at)
{
    GemmCode *t = p->t;
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val square[BF16_LANES];
    for (int i = 0; i < BF16_LANES; i++) {
        Val x = be_emit_get_as(e, p->operand->value, i, 0, true);
        if (e->tile.mask[0])
            x = be_select(u, e->tile.mask[0], x, be_zero(LLVMTypeOf(x)));
        square[i] =
            LLVMBuildBitCast(u->builder, halves_of(t, x), pairs_type(t), "");
    }
    be_transpose(u, square, BF16_LANES);
    Val to = packed_pair(p, at, t->packed_b);
    for (int i = 0; i < BF16_LANES; i++)
        be_store(u, square[i],
                 be_offset_const(u, to, i * p->stride * PAIR_BYTES),
                 PAIR_BYTES);
}

/* ---- B ------------------------------------------------------------------ */

static void
clear_ends(GemmCode *t, Val first, Val end, Val count)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int64_t width = be_gemm_nr(t);
    BeLoop l;
    be_loop_begin(u, &l, first, end, be_emit_word(e, width), "panel");
    be_loop_body(u, &l);
    Val at = column_at(t, be_sub(u, l.index, first));
    clear_pairs(t, pair_at(t, t->packed_b, at), count, t->plan.vectors);
    be_loop_end(u, &l);
}

void
be_bf16_pack_b(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    bool single = t->gemm->k.count == 1;
    EmitTile outer = e->tile;
    if (t->gemm->b.along_k && (single || be_gemm_has_whole(t, 2))) {
        Val rest =
            be_and(u, be_sub(u, end, first), be_emit_word(e, BF16_LANES - 1));
        Val from = be_sub(u, end, rest);
        Pack squares = {.t = t, .pack = pack_square, .step = BF16_GROUP};
        be_gemm_pack_squares(&squares, column_at, first, from, begin, stop);
        pack_columns(t, first, from, end, 1, begin, stop);
    } else {
        pack_columns(t, first, first, end, t->plan.n_panels * t->plan.vectors,
                     begin, stop);
    }
    if (!single || !be_gemm_has_whole(t, BF16_GROUP))
        clear_ends(t, first, end, be_sub(u, stop, begin));
    e->tile = outer;
}
