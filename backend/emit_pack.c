/*
 * emit_pack.c - operands of a product, put where it finds them side by side
 *
 * Packing computes an operand by whatever code makes it and stores it in memory
 * of the stack. Rows lie as they are read: along the products where memory
 * does, else side by side. Columns lie in panels as wide as a tile, side by
 * side for each product; where memory runs along the products, squares of
 * registers are transposed.
 *
 * Lanes beyond the last product may be written: what comes next is written
 * later, or is nobody's. Rows beyond the last are the last one again, columns
 * are zeros; nobody looks at their sums.
 */
#include "backend/emit_product.h"

/* What is done for a product, or for `lanes` from it on: it has number `at`
 * among those that are packed. */
typedef struct Pack Pack;
typedef void PackProduct(Pack *p, Val at);

struct Pack {
    EmitTiles *t;
    const EmitOperand *operand;
    PackProduct *pack;
    int step;       /* products that pack does at once */
    Val first;      /* element of the packed memory for the first product */
    int64_t stride; /* elements from product to product */
};

/* ---- products ------------------------------------------------------------ */

static const KVar *
last_product(const EmitTiles *t)
{
    const EmitSpace *s = &t->product->products;
    return s->vars[s->count - 1];
}

/* Whether the last index has no rest of less than n products. */
static bool
is_whole(const EmitTiles *t, int n)
{
    Dim extent = last_product(t)->extent;
    return dim_is_const(extent) && extent.c % n == 0;
}

/* Products whose last index is begin .. end, the first having number `at`. */
static void
pack_run(Pack *p, Val begin, Val end, Val at)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    const KVar *last = last_product(p->t);
    BeLoop l;
    be_loop_begin(u, &l, begin, end, emit_word(e, p->step), "k");
    Val number = be_loop_carry(u, &l, at);
    be_loop_body(u, &l);
    e->indices[last->id] = (EmitIndex){.base = l.index};
    if (p->step > 1 && !is_whole(p->t, p->step))
        e->tile.mask[0] = emit_first_lanes(e, be_sub(u, end, l.index), p->step);
    emit_needed(e, &p->operand->needs, &p->t->product->contract->contract.body);
    p->pack(p, number);
    be_loop_next(&l, 0, be_add(u, number, emit_word(e, p->step)));
    be_loop_end(u, &l);
}

/* Products begin .. end, in runs of the last index. */
static void
pack_products(Pack *p, Val begin, Val end)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    EmitSpace outer = p->t->product->products;
    Val extent = emit_dim(e, last_product(p->t)->extent);
    if (--outer.count == 0) {
        pack_run(p, begin, end, emit_word(e, 0));
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, begin, end, NULL, "run");
    be_loop_body(u, &l);
    emit_space_split(e, &outer, LLVMBuildUDiv(u->builder, l.index, extent, ""));
    Val from = LLVMBuildURem(u->builder, l.index, extent, "");
    Val left = be_sub(u, end, l.index), at = be_sub(u, l.index, begin);
    l.step = be_min(u, left, be_sub(u, extent, from));
    pack_run(p, from, be_add(u, from, l.step), at);
    be_loop_end(u, &l);
}

/* Where the product of number `at` is, and `more` elements further on. */
static Val
packed_at(const Pack *p, Val base, Val at, int64_t more)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    Val index = be_add(u, p->first, be_mul(u, at, emit_word(e, p->stride)));
    Val to = LLVMBuildGEP2(u->builder, p->t->type, base, &index, 1, "");
    return be_offset_const(u, to, more * p->t->bytes);
}

/* ---- rows ---------------------------------------------------------------- */

/* The vectors of the tile, side by side. */
static void
store_vectors(Pack *p, Val base, Val at)
{
    Emit *e = p->t->e;
    for (int v = 0; v < e->tile.vectors; v++) {
        Val x = emit_get_as(e, p->operand->value, 0, v, true);
        be_store(e->u, x, packed_at(p, base, at, (int64_t)v * e->tile.lanes),
                 (unsigned)p->t->bytes);
    }
}

static void
pack_row_vectors(Pack *p, Val at)
{
    store_vectors(p, p->t->packed_rows, at);
}

/* One after the other, lanes along the products. */
static void
pack_each_row(EmitTiles *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitOperand *o = &t->product->of_rows;
    BeLoop l;
    emit_find_depends_along(e, NULL, last_product(t));
    be_loop_begin(u, &l, emit_word(e, 0), emit_word(e, t->plan.height),
                  emit_word(e, 1), "row");
    be_loop_body(u, &l);
    Val last = be_sub(u, end, emit_word(e, 1));
    Val row = be_min(u, be_add(u, first, l.index), last);
    emit_space_split(e, &t->product->rows, row);
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    emit_needed(e, &o->needs, &e->k->body);
    emit_needed(e, &o->needs, &t->product->loop->loop.body);
    e->tile.lanes = t->plan.lanes;
    e->tile.lane = last_product(t);
    Pack p = {t, o, pack_row_vectors, t->plan.lanes, NULL, 1};
    p.first = be_mul(u, l.index, emit_word(e, t->plan.step));
    pack_products(&p, begin, stop);
    be_loop_end(u, &l);
}

/* A mask for each vector of the tile that goes beyond `count` lanes. */
static void
set_masks(Emit *e, Val count)
{
    BeUnit *u = e->u;
    for (int v = 0; v < e->tile.vectors; v++) {
        Val before = be_word(u, v * emit_vector_step(e));
        e->tile.mask[v] =
            emit_first_lanes(e, be_sub(u, count, before), e->tile.lanes);
    }
}

/* The vectors are tiles. */
static void
pack_tiles_of_rows(Pack *p, Val at)
{
    Emit *e = p->t->e;
    int64_t size = p->t->plan.depth * p->t->plan.step;
    for (int v = 0; v < e->tile.vectors; v++) {
        Val x = emit_get_as(e, p->operand->value, 0, v, true);
        be_store(e->u, x, packed_at(p, p->t->packed_rows, at, v * size),
                 (unsigned)p->t->bytes);
    }
}

/* Lanes along the rows, some tiles side by side. */
static void
pack_rows_together(EmitTiles *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    const EmitOperand *o = &t->product->of_rows;
    const KVar *row = t->product->rows.vars[0];
    emit_find_depends_along(e, NULL, row);
    e->tile = (EmitTile){.rows = 1, .lanes = t->plan.lanes, .lane = row};
    e->tile.vectors = t->plan.tiles;
    e->tile.vector_step = t->plan.height;
    set_masks(e, be_sub(e->u, end, first));
    e->indices[row->id] = (EmitIndex){.base = first};
    emit_needed(e, &o->needs, &e->k->body);
    emit_needed(e, &o->needs, &t->product->loop->loop.body);
    Pack p = {t, o, pack_tiles_of_rows, 1, emit_word(e, 0), t->plan.step};
    pack_products(&p, begin, stop);
}

void
emit_pack_rows(EmitTiles *t, Val first, Val end, Val begin, Val stop)
{
    EmitTile outer = t->e->tile;
    if (t->product->of_rows.along_products)
        pack_each_row(t, first, end, begin, stop);
    else
        pack_rows_together(t, first, end, begin, stop);
    t->e->tile = outer;
}

/* ---- columns ------------------------------------------------------------- */

/* The first element of column `at` of those that are packed, `at` being a
 * multiple of lanes: in a panel of its own if the whole panel is meant. */
static Val
column_at(EmitTiles *t, Val at)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val width = emit_word(e, emit_width(t));
    Val inside = LLVMBuildURem(u->builder, at, width, "");
    Val before = be_sub(u, at, inside);
    return be_add(u, be_mul(u, before, emit_word(e, t->plan.depth)), inside);
}

static void
pack_column_vectors(Pack *p, Val at)
{
    store_vectors(p, p->t->packed_columns, at);
}

/* The end of the panel that ends at `end` or later; columns are counted from
 * first. */
static Val
panel_end(EmitTiles *t, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val width = emit_word(e, emit_width(t));
    Val size =
        be_add(u, be_sub(u, end, first), emit_word(e, emit_width(t) - 1));
    Val rest = LLVMBuildURem(u->builder, size, width, "");
    return be_add(u, first, be_sub(u, size, rest));
}

/* Lanes along the columns, which are from .. end and as many zeros as make
 * whole panels; some vectors at once. */
static void
pack_columns_together(EmitTiles *t, Val first, Val from, Val end, int vectors,
                      Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitOperand *o = &t->product->of_columns;
    const KVar *column = t->product->column;
    emit_find_depends_along(e, NULL, column);
    e->tile = (EmitTile){.rows = 1, .lane = column};
    emit_needed(e, &o->needs, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, from, panel_end(t, first, end),
                  emit_word(e, (int64_t)vectors * t->plan.lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = t->plan.lanes;
    e->tile.vectors = vectors;
    if (!dim_is_const(column->extent) || column->extent.c % emit_width(t))
        set_masks(e, be_sub(u, end, l.index));
    e->indices[column->id] = (EmitIndex){.base = l.index};
    emit_needed(e, &o->needs, &t->product->loop->loop.body);
    Pack p = {t, o, pack_column_vectors, 1, NULL, emit_width(t)};
    p.first = column_at(t, be_sub(u, l.index, first));
    pack_products(&p, begin, stop);
    be_loop_end(u, &l);
}

/* As many columns as there are lanes, for as many products. */
static void
pack_square(Pack *p, Val at)
{
    Emit *e = p->t->e;
    BeUnit *u = e->u;
    Val square[BE_MAX_TILE];
    int lanes = e->tile.lanes;
    for (int i = 0; i < lanes; i++)
        square[i] = emit_get_as(e, p->operand->value, i, 0, true);
    be_transpose(u, square, lanes);
    for (int i = 0; i < lanes; i++)
        be_store(u, square[i],
                 packed_at(p, p->t->packed_columns, at, i * p->stride),
                 (unsigned)p->t->bytes);
}

/* Columns first .. end, a multiple of lanes, lanes along the products. */
static void
pack_squares(EmitTiles *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitOperand *o = &t->product->of_columns;
    const KVar *column = t->product->column;
    int lanes = t->plan.lanes;
    emit_find_depends_along(e, column, last_product(t));
    e->tile = (EmitTile){.rows = lanes, .vectors = 1, .row = column};
    emit_needed(e, &o->needs, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, first, end, emit_word(e, lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = 0;
    e->indices[column->id] = (EmitIndex){.base = l.index};
    emit_needed(e, &o->needs, &t->product->loop->loop.body);
    e->tile.lanes = lanes;
    e->tile.lane = last_product(t);
    Pack p = {t, o, pack_square, lanes, NULL, emit_width(t)};
    p.first = column_at(t, be_sub(u, l.index, first));
    pack_products(&p, begin, stop);
    be_loop_end(u, &l);
    e->tile.mask[0] = NULL;
}

void
emit_pack_columns(EmitTiles *t, Val first, Val end, Val begin, Val stop)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    EmitTile outer = e->tile;
    if (t->product->of_columns.along_products) {
        Val count = be_sub(u, end, first), lanes = emit_word(e, t->plan.lanes);
        Val rest = LLVMBuildURem(u->builder, count, lanes, "");
        Val from = be_sub(u, end, rest);
        pack_squares(t, first, from, begin, stop);
        Dim all = t->product->column->extent;
        if (!dim_is_const(all) || all.c % emit_width(t))
            pack_columns_together(t, first, from, end, 1, begin, stop);
    } else {
        pack_columns_together(t, first, first, end, t->plan.vectors, begin,
                              stop);
    }
    e->tile = outer;
}
