/*
 * gemm_pack.c - A and B, packed for the micro-kernel
 *
 * Packing emits the slice of the kernel that computes an operand and stores the
 * operand on the stack.  A is laid out as the micro-kernel reads it: along k
 * where memory runs along k, else the rows of a tile side by side.  B is laid
 * out in panels of nr columns, side by side for each k; where memory runs along
 * k, squares of registers are transposed.
 *
 * Lanes beyond the last k may be stored: that memory is overwritten later, or
 * unused.  Rows beyond the last repeat it, columns beyond the last are zeros;
 * their accumulators are never read.
 */
#include "backend/gemm/pack.h"

/* The address `more` elements after the present product's. */
static Val
packed_at(const Pack *p, int64_t more)
{
    return be_offset_const(p->t->e->u, p->to, more * p->t->bytes);
}

/* ---- operands in memory -------------------------------------------------- */

Val
be_gemm_plain_here(const GemmCode *t, const GemmOperand *o)
{
    Emit *e = t->e;
    const KNode *n = o->plain;
    EmitAddress a = be_address_of(e, &n->load.at);
    Val array = e->arrays[n->load.array->role][n->load.array->index];
    return LLVMBuildGEP2(e->u->builder, t->type, array, &a.base, 1, "");
}

/* Prefetches the tile's vectors of a product further on, where those of one
 * product are so far from those of the next that the hardware does not. */
static void
prefetch_vectors(const Pack *p)
{
    enum { AHEAD = 8, FAR = 1024 };
    const Emit *e = p->t->e;
    int64_t step = p->operand->k_stride * p->t->bytes;
    if (!p->operand->plain || step < FAR)
        return;
    int64_t last = (e->tile.vectors - 1) * be_emit_vector_step(e);
    int64_t bytes = (last + e->tile.lanes) * p->t->bytes;
    Val here = be_gemm_plain_here(p->t, p->operand);
    for (int64_t i = 0; i < bytes; i += CACHE_LINE)
        be_prefetch(e->u, be_offset_const(e->u, here, AHEAD * step + i), false);
}

/* ---- rows ---------------------------------------------------------------- */

void
be_gemm_pack_each_row(GemmCode *t, Val first, Val end, Val begin, Val stop,
                      PackProduct *pack, EndRow *end_row)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->a;
    BeLoop l;
    be_emit_find_varying_along(e, NULL, be_gemm_last_product(t));
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, t->plan.mr),
                  be_emit_word(e, 1), "row");
    be_loop_body(u, &l);
    Val last = be_sub(u, end, be_emit_word(e, 1));
    Val row = be_min(u, be_add(u, first, l.index), last);
    be_space_delinearize(e, &t->gemm->m, row);
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    be_emit_slice(e, &o->slice, &e->k->body);
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    e->tile.lanes = t->plan.lanes;
    e->tile.lane = be_gemm_last_product(t);
    Pack p = {.t = t, .operand = o, .pack = pack, .step = t->plan.lanes};
    p.stride = 1;
    p.memory = pack == be_gemm_pack_row ? t->packed_a : NULL;
    p.first = be_mul(u, l.index, be_emit_word(e, t->plan.a.stride));
    be_gemm_pack_products(&p, begin, stop);
    if (end_row)
        end_row(&p, be_sub(u, stop, begin));
    be_loop_end(u, &l);
}

void
be_gemm_set_masks(Emit *e, Val count)
{
    BeUnit *u = e->u;
    int64_t step = be_emit_vector_step(e), last = (e->tile.vectors - 1) * step;
    Type type = be_vector(u->i32, e->tile.lanes);
    Val few = be_min(u, count, be_word(u, last + e->tile.lanes));
    few = LLVMBuildTrunc(u->builder, few, u->i32, "");
    few = be_splat(u, few, e->tile.lanes);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val lanes = LLVMConstAdd(be_lane_numbers(type), be_int(type, v * step));
        e->tile.mask[v] = be_icmp(u, LLVMIntSLT, lanes, few);
    }
}

/* The vectors are those of tiles, or of a group.  Lanes of a tile's vector
 * beyond its rows are overwritten by the next product. */
static void
pack_vectors_of_rows(Pack *p, Val at)
{
    (void)at;
    Emit *e = p->t->e;
    const GemmPlan *plan = &p->t->plan;
    int64_t size = plan->a.group ? plan->lanes : plan->a.size;
    prefetch_vectors(p);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val x = be_emit_get_as(e, p->operand->value, 0, v, true);
        be_store(e->u, x, packed_at(p, v * size), (unsigned)p->t->bytes);
    }
}

/* Whether the length of a run is a multiple of a group. */
static bool
has_whole_groups(const GemmCode *t)
{
    const EmitSpace *rows = &t->gemm->m;
    Dim run = rows->vars[rows->count - 1]->extent;
    return t->plan.a.group && ir_dim_is_const(run) &&
           run.c % t->plan.a.group == 0;
}

/* Lanes along the rows, some vectors side by side. */
static void
pack_rows_together(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    const GemmPlan *plan = &t->plan;
    const GemmOperand *o = &t->gemm->a;
    const EmitSpace *rows = &t->gemm->m;
    const KVar *row = rows->vars[rows->count - 1];
    be_emit_find_varying_along(e, be_gemm_last_product(t), row);
    e->tile = (EmitTile){.rows = 1, .lanes = plan->lanes, .lane = row};
    e->tile.vectors =
        plan->a.group ? (int)(plan->a.group / plan->lanes) : plan->m_tiles;
    e->tile.vector_step = plan->a.group ? 0 : plan->mr;
    if (!has_whole_groups(t))
        be_gemm_set_masks(e, be_sub(e->u, end, first));
    be_space_delinearize(e, rows, first);
    be_emit_slice(e, &o->slice, &e->k->body);
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    Pack p = {.t = t, .operand = o, .pack = pack_vectors_of_rows, .step = 1};
    p.first = be_emit_word(e, 0);
    p.stride = plan->a.k_stride;
    p.memory = t->packed_a;
    be_gemm_pack_products(&p, begin, stop);
}

void
be_gemm_pack_a(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    EmitTile outer = t->e->tile;
    switch (t->plan.a.kind) {
    case GEMM_M_LINES:
        be_gemm_pack_m_lines(t, first, end);
        break;
    case GEMM_ALONG_K:
        be_gemm_pack_each_row(t, first, end, begin, stop, be_gemm_pack_row,
                              NULL);
        break;
    case GEMM_GROUPS:
    case GEMM_TILES:
        pack_rows_together(t, first, end, begin, stop);
        break;
    case GEMM_IN_PLACE:
    case GEMM_K_LINES:
    case GEMM_PANELS:
        UNREACHABLE("A is not packed by rows");
    }
    t->e->tile = outer;
}

/* ---- columns ------------------------------------------------------------- */

/* The first element of packed column `at`, which is a multiple of lanes: that
 * of its panel if the whole panel is meant. */
static Val
column_at(GemmCode *t, Val at)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val width = be_emit_word(e, be_gemm_nr(t));
    Val inside = LLVMBuildURem(u->builder, at, width, "");
    Val before = be_sub(u, at, inside);
    return be_add(u, be_mul(u, before, be_emit_word(e, t->plan.kc)), inside);
}

/* The vectors of some panels, or one of a panel. */
static void
pack_column_vectors(Pack *p, Val at)
{
    (void)at;
    Emit *e = p->t->e;
    const GemmPlan *plan = &p->t->plan;
    int64_t panel = plan->kc * be_gemm_nr(p->t);
    prefetch_vectors(p);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val x = be_emit_get_as(e, p->operand->value, 0, v, true);
        int64_t more =
            v / plan->vectors * panel + v % plan->vectors * plan->lanes;
        be_store(e->u, x, packed_at(p, more), (unsigned)p->t->bytes);
    }
}

/* The end of the panel that contains column end - 1 or later; columns are
 * counted from first. */
static Val
panel_end(GemmCode *t, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val width = be_emit_word(e, be_gemm_nr(t));
    Val size =
        be_add(u, be_sub(u, end, first), be_emit_word(e, be_gemm_nr(t) - 1));
    Val rest = LLVMBuildURem(u->builder, size, width, "");
    return be_add(u, first, be_sub(u, size, rest));
}

/* Lanes along the columns from .. end, with zeros up to full panels; several
 * vectors at once, so that full cache lines are read. */
static void
pack_columns_together(GemmCode *t, Val first, Val from, Val end,
                      int64_t vectors, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->b;
    const KVar *column = t->gemm->n;
    be_emit_find_varying_along(e, be_gemm_last_product(t), column);
    e->tile = (EmitTile){.rows = 1, .vectors = 1, .lane = column};
    be_emit_slice(e, &o->slice, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, from, panel_end(t, first, end),
                  be_emit_word(e, vectors * t->plan.lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = t->plan.lanes;
    e->tile.vectors = (int)vectors;
    int64_t group = vectors * t->plan.lanes;
    if (vectors == 1 || !ir_dim_is_const(column->extent) ||
        column->extent.c % group || t->plan.nc % group)
        be_gemm_set_masks(e, be_sub(u, end, l.index));
    e->indices[column->id] = (EmitIndex){.base = l.index};
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    Pack p = {.t = t, .operand = o, .pack = pack_column_vectors, .step = 1};
    p.stride = be_gemm_nr(t);
    p.memory = t->packed_b;
    p.first = column_at(t, be_sub(u, l.index, first));
    be_gemm_pack_products(&p, begin, stop);
    be_loop_end(u, &l);
}

enum { PIECE_BYTES = 16 };

/* Pieces of a number of rows, `apart` elements from one to the next, as one
 * vector; the first is at p. */
static Val
read_pieces(const Pack *p, Val at, int size, int64_t apart)
{
    BeUnit *u = p->t->e->u;
    int lanes = p->t->e->tile.lanes;
    Type types[] = {be_vector(p->t->type, lanes), be_vector(p->t->type, size)};
    Val all = LLVMGetUndef(types[0]);
    for (int i = 0; i < lanes; i += size) {
        Val from = be_offset_const(u, at, i / size * apart * p->t->bytes);
        Val piece = be_load(u, types[1], from, (unsigned)p->t->bytes);
        Val args[] = {all, piece, be_word(u, i)};
        all = be_intrinsic(u, "llvm.vector.insert", types, 2, args, 3);
    }
    return all;
}

/* The transposed square of a matrix in memory.  Pieces are put in their places
 * while they are loaded, which is cheaper than between registers: only the
 * inside of the pieces remains to be transposed. */
static void
read_square(const Pack *p, Val *square)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    int lanes = e->tile.lanes, size = (int)(PIECE_BYTES / p->t->bytes);
    int64_t step = p->operand->stride;
    Val at = be_gemm_plain_here(p->t, p->operand);
    for (int i = 0; i < lanes; i += size) {
        for (int j = 0; j < size; j++) {
            int64_t before = (j * step + i) * p->t->bytes;
            Val from = be_offset_const(u, at, before);
            square[i + j] = read_pieces(p, from, size, size * step);
        }
        be_transpose(u, square + i, size);
    }
}

/* As many columns as lanes, for as many products. */
static void
pack_square(Pack *p, Val at)
{
    (void)at;
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    Val square[BE_MAX_TILE];
    int lanes = e->tile.lanes;
    bool plain = p->operand->plain && p->operand->k_stride == 1;
    if (plain && !e->tile.mask[0] && lanes * p->t->bytes > PIECE_BYTES) {
        read_square(p, square);
    } else {
        for (int i = 0; i < lanes; i++)
            square[i] = be_emit_get_as(e, p->operand->value, i, 0, true);
        be_transpose(u, square, lanes);
    }
    for (int i = 0; i < lanes; i++)
        be_store(u, square[i], packed_at(p, i * p->stride),
                 (unsigned)p->t->bytes);
}

void
be_gemm_pack_squares(Pack *p, ColumnAt *at, Val first, Val end, Val begin,
                     Val stop)
{
    GemmCode *t = p->t;
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmOperand *o = &t->gemm->b;
    const KVar *column = t->gemm->n;
    int lanes = t->plan.lanes;
    be_emit_find_varying_along(e, column, be_gemm_last_product(t));
    e->tile = (EmitTile){.rows = lanes, .vectors = 1, .row = column};
    be_emit_slice(e, &o->slice, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, first, end, be_emit_word(e, lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = 0;
    e->indices[column->id] = (EmitIndex){.base = l.index};
    be_emit_slice(e, &o->slice, &t->gemm->loop->loop.body);
    e->tile.lanes = p->step;
    e->tile.lane = be_gemm_last_product(t);
    p->operand = o;
    p->stride = be_gemm_nr(t);
    p->first = at(t, be_sub(u, l.index, first));
    be_gemm_pack_products(p, begin, stop);
    be_loop_end(u, &l);
    e->tile.mask[0] = NULL;
}

void
be_gemm_pack_b(GemmCode *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    EmitTile outer = e->tile;
    if (t->gemm->b.along_k) {
        Val count = be_sub(u, end, first),
            lanes = be_emit_word(e, t->plan.lanes);
        Val rest = LLVMBuildURem(u->builder, count, lanes, "");
        Val from = be_sub(u, end, rest);
        Pack squares = {.t = t, .pack = pack_square, .step = t->plan.lanes};
        squares.memory = t->packed_b;
        be_gemm_pack_squares(&squares, column_at, first, from, begin, stop);
        Dim all = t->gemm->n->extent;
        if (!ir_dim_is_const(all) || all.c % be_gemm_nr(t))
            pack_columns_together(t, first, from, end, 1, begin, stop);
    } else {
        pack_columns_together(t, first, first, end,
                              t->plan.n_panels * t->plan.vectors, begin, stop);
    }
    e->tile = outer;
}
