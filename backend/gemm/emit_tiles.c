/*
 * emit_tiles.c - products of matrices on CPUs
 *
 * A tile of the result is added up by the adder (emit_adder.c), which finds
 * both operands packed (emit_pack.c) and leaves sums in memory, from where the
 * rest of the kernel takes them, a row at a time.  So all that differs from
 * kernel to kernel is emitted once, however many sums a tile has, and tiles
 * that reach beyond the last row or column cost no code.
 *
 *   for some columns
 *     for each block of products
 *       pack the columns
 *       for a tile's rows
 *         pack them; for each tile: the adder
 *         the rest of the kernel
 *
 * By D2 products are added in blocks of 512, and the sums of blocks then to
 * each other.  Where there are several, the sums are kept: in the result, if it
 * is nothing else, or else those of some rows at a time, so that the loop over
 * rows is around that over blocks.
 */
#include "backend/gemm/emit_product.h"

enum { ALIGN = 64 };

/* ---- memory -------------------------------------------------------------- */

static Val
scratch(const EmitTiles *t, int64_t elements, const char *name)
{
    return be_alloca(t->e->u, t->e->u->i8, (uint64_t)(elements * t->bytes),
                     ALIGN, name);
}

int64_t
emit_rows_size(const EmitTiles *t)
{
    const EmitPlan *p = &t->plan;
    if (p->pieces)
        return p->pieces * t->product->strip.runs * p->line + p->height +
               p->lanes;
    if (p->line)
        return t->product->window.runs * p->line;
    if (p->group)
        return p->depth * p->group + p->height;
    return t->product->of_rows.along_products
               ? p->height * p->row_step
               : p->depth * p->row_product_step + p->lanes;
}

/* Whether there are tiles that may not be added as a whole to what there is:
 * what is beyond their last row or column is another's. */
static bool
may_break(const EmitTiles *t)
{
    return t->product->direct || (t->plan.group && t->plan.in_parts);
}

/* Packed operands have room for a vector, or a square of them, behind them, and
 * strips for what a tile has beyond the last. */
static void
make_scratch(EmitTiles *t)
{
    const EmitPlan *p = &t->plan;
    int64_t width = emit_width(t), group = p->panels * width;
    int64_t columns = (p->columns + group - 1) / group * group;
    if (!p->rows_stand)
        t->packed_rows =
            scratch(t, (p->group ? 1 : p->tiles) * emit_rows_size(t), "rows");
    if (!p->columns_stand)
        t->packed_columns =
            scratch(t, p->depth * columns + p->lanes * width, "columns");
    if (may_break(t))
        t->alone = scratch(t, p->height * width, "tile");
    if (!t->product->direct) {
        Val all = scratch(t, (p->rows + p->height) * p->columns, "sums");
        t->sums =
            be_offset_const(t->e->u, all, p->height * p->columns * t->bytes);
    }
}

static Val
scratch_at(const EmitTiles *t, Val base, Val index)
{
    return LLVMBuildGEP2(t->e->u->builder, t->type, base, &index, 1, "");
}

/* Where a plain operand has the element of a row, column and product (any that
 * it does not have). */
static Val
plain_at(EmitTiles *t, const EmitOperand *o, Val row, Val column, Val product)
{
    Emit *e = t->e;
    const KNode *n = o->plain;
    emit_space_split(e, &t->product->rows, row);
    emit_space_split(e, &t->product->products, product);
    e->indices[t->product->column->id] = (EmitIndex){.base = column};
    EmitAddress a = emit_address(e, &n->load.at);
    return scratch_at(t, e->arrays[n->load.array->role][n->load.array->index],
                      a.base);
}

/* ---- what is done with the sums ------------------------------------------ */

/* One row, whose sums are at `sums`. */
static void
finish_row(EmitTiles *t, Val row, Val sums, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitProduct *p = t->product;
    Dim extent = p->column->extent;
    int lanes = t->plan.lanes;
    emit_space_split(e, &p->rows, row);
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    emit_needed(e, &p->rest, &e->k->body);
    BeLoop l;
    be_loop_begin(u, &l, first, end, emit_word(e, lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = lanes;
    e->tile.lane = p->column;
    if (!ir_dim_is_const(extent) || extent.c % lanes)
        e->tile.mask[0] = emit_first_lanes(e, be_sub(u, end, l.index), lanes);
    e->indices[p->column->id] = (EmitIndex){.base = l.index};
    e->sums = scratch_at(t, sums, be_sub(u, l.index, first));
    emit_needed(e, &p->rest, &p->loop->loop.body);
    be_loop_end(u, &l);
}

/* Rows from .. to, columns first .. end. */
static void
finish_rows(EmitTiles *t, Val from, Val to, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    EmitTile outer = e->tile;
    BeLoop l;
    emit_find_depends(e, NULL);
    be_loop_begin(u, &l, from, to, emit_word(e, 1), "row");
    be_loop_body(u, &l);
    Val before =
        be_mul(u, be_sub(u, l.index, from), emit_word(e, t->plan.columns));
    finish_row(t, l.index, scratch_at(t, t->sums, before), first, end);
    be_loop_end(u, &l);
    e->tile = outer;
}

/* ---- sums that are kept -------------------------------------------------- */

/* Where sums are kept, which is where the result is stored if they are it: its
 * bytes from row to row, and the address of an element. */
static Val
kept_step(const EmitTiles *t)
{
    if (!t->product->direct)
        return emit_word(t->e, t->plan.columns * t->bytes);
    const EmitSpace *rows = &t->product->rows;
    const KIndex *at = &t->product->direct->store.at;
    Dim step = be_index_coef(at, rows->vars[rows->count - 1]);
    return emit_word(t->e, step.c * t->bytes);
}

static Val
result_at(const EmitTiles *t, Val row, Val column)
{
    Emit *e = t->e;
    const KNode *store = t->product->direct;
    const KArray *array = store->store.array;
    emit_space_split(e, &t->product->rows, row);
    e->indices[t->product->column->id] = (EmitIndex){.base = column};
    EmitAddress a = emit_address(e, &store->store.at);
    return scratch_at(t, e->arrays[array->role][array->index], a.base);
}

/* Adds `rows` rows of at most `columns` columns of the sums of a tile that
 * reaches beyond what is kept to it; their first row is number `first`. */
static void
add_rest(EmitTiles *t, Val to, Val first, Val rows, Val columns, Val more)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int lanes = t->plan.lanes;
    unsigned align = (unsigned)t->bytes;
    Type vector = be_vector(t->type, lanes);
    Val step = kept_step(t), own = emit_word(e, emit_width(t) * t->bytes);
    BeLoop l;
    be_loop_begin(u, &l, emit_word(e, 0), rows, emit_word(e, 1), "row");
    be_loop_body(u, &l);
    for (int v = 0; v < t->plan.vectors; v++) {
        Val left = be_sub(u, columns, emit_word(e, v * lanes));
        Val mask = emit_first_lanes(e, left, lanes);
        Val from = be_mul(u, be_add(u, first, l.index), own);
        Val p = be_offset(u, t->alone, from);
        Val x = be_load(u, vector, be_offset_const(u, p, v * lanes * t->bytes),
                        align);
        p = be_offset(u, to, be_mul(u, l.index, step));
        p = be_offset_const(u, p, v * lanes * t->bytes);
        Val old = be_load_masked(u, vector, p, align, mask);
        Val sum = LLVMBuildFAdd(u->builder, old, x, "");
        be_store_masked(u, be_select(u, more, sum, x), p, align, mask);
    }
    be_loop_end(u, &l);
}

/* ---- loops --------------------------------------------------------------- */

/* Some of the products of some rows and columns: from .. to of each. */
typedef struct Part {
    Val row, row_end, column, column_end, product, product_end;
    Val along; /* where the first product is along a strip */
} Part;

/* The rows of a tile: where they are, and how many of them come before the
 * first one that is wanted.  For rows that are read where they stand a tile
 * does not reach beyond the last, but begins earlier. */
typedef struct Rows {
    Val at, before;
} Rows;

static Rows
standing_rows(EmitTiles *t, const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val last = be_sub(u, t->num_rows, emit_word(e, t->plan.height));
    Val row = be_min(u, p->row, last);
    Val at = plain_at(t, &t->product->of_rows, row, p->column, p->product);
    return (Rows){at, be_sub(u, p->row, row)};
}

/* What the adder is given of p's columns, which are packed from `first` on. */
static Val
columns_at(EmitTiles *t, const Part *p, Val first)
{
    BeUnit *u = t->e->u;
    if (t->plan.columns_stand)
        return plain_at(t, &t->product->of_columns, p->row, p->column,
                        p->product);
    Val before = be_sub(u, p->column, first);
    before = be_mul(u, before, emit_word(t->e, t->plan.depth));
    return scratch_at(t, t->packed_columns, before);
}

/* What the adder leaves in the result are sums of columns that there are;
 * elsewhere there is room for others. */
static void
call_adder(EmitTiles *t, Val rows, Val columns, Val sums, Val step,
           const Part *p)
{
    BeUnit *u = t->e->u;
    Type type = LLVMGlobalGetValueType(t->adder);
    Val count = be_sub(u, p->product_end, p->product);
    Val more = be_icmp(u, LLVMIntNE, p->product, emit_word(t->e, 0));
    Val across = sums == t->alone || !t->product->direct
                     ? emit_word(t->e, emit_width(t))
                     : be_sub(u, p->column_end, p->column);
    Val args[] = {rows, columns, sums, step, count, more, across, p->along};
    LLVMBuildCall2(u->builder, type, t->adder, args, EMIT_NUM_PARAMS, "");
}

/* The sums of a tile by themselves, and then what is wanted of them. */
static void
add_broken_tile(EmitTiles *t, const Rows *rows, Val columns, Val to,
                const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Part alone = *p;
    alone.product_end = be_sub(u, p->product_end, p->product);
    alone.product = emit_word(e, 0);
    call_adder(t, rows->at, columns, t->alone,
               emit_word(e, emit_width(t) * t->bytes), &alone);
    Val more = be_icmp(u, LLVMIntNE, p->product, emit_word(e, 0));
    Val down = be_sub(u, p->row_end, p->row);
    down = be_min(u, down, emit_word(e, t->plan.height));
    add_rest(t, to, rows->before, down, be_sub(u, p->column_end, p->column),
             more);
}

/* A tile whose first element is that of p and at `to`, or the part of it that
 * is wanted. */
static void
add_breakable_tile(EmitTiles *t, const Rows *rows, Val columns, Val to,
                   const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val down = be_sub(u, p->row_end, p->row);
    Val high = be_icmp(u, LLVMIntSGE, down, emit_word(e, t->plan.height));
    Block all = be_block(u, "all"), some = be_block(u, "some");
    Block after = be_block(u, "after");
    be_branch(u, high, all, some);
    be_at(u, all);
    call_adder(t, rows->at, columns, to, kept_step(t), p);
    be_goto(u, after);
    be_at(u, some);
    add_broken_tile(t, rows, columns, to, p);
    be_goto(u, after);
    be_at(u, after);
}

/* A tile's rows times all columns of p; `sum` is the number of the first wanted
 * row's sums among those that are kept.  Where tiles cannot be broken those of
 * the rows before have room, too. */
static void
add_tiles(EmitTiles *t, const Rows *rows, Val sum, const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val from = may_break(t) ? sum : be_sub(u, sum, rows->before);
    Val first = be_mul(u, from, emit_word(e, t->plan.columns));
    BeLoop l;
    be_loop_begin(u, &l, p->column, p->column_end, emit_word(e, emit_width(t)),
                  "column");
    be_loop_body(u, &l);
    Part tile = *p;
    tile.column = l.index;
    Val columns = columns_at(t, &tile, p->column);
    Val at = be_add(u, first, be_sub(u, l.index, p->column));
    Val to = t->product->direct ? result_at(t, p->row, l.index)
                                : scratch_at(t, t->sums, at);
    if (may_break(t))
        add_breakable_tile(t, rows, columns, to, &tile);
    else
        call_adder(t, rows->at, columns, to, kept_step(t), &tile);
    be_loop_end(u, &l);
}

/* Where groups of rows begin and end. */
typedef struct Group {
    Val begin, end, run_end;
} Group;

static Group
group_of(EmitTiles *t, Val row)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitSpace *rows = &t->product->rows;
    Val extent = emit_dim(e, rows->vars[rows->count - 1]->extent);
    if (t->plan.pieces)
        extent = emit_word(e, t->plan.group);
    Val size = emit_word(e, t->plan.group);
    Val in_run = LLVMBuildURem(u->builder, row, extent, "");
    Val in_group = LLVMBuildURem(u->builder, in_run, size, "");
    Group g = {.begin = be_sub(u, row, in_group)};
    g.run_end = be_add(u, row, be_sub(u, extent, in_run));
    g.end = be_min(u, be_add(u, g.begin, size), g.run_end);
    return g;
}

/* The tiles of rows that were packed together; `begin` is the first of them. */
static void
add_packed_tiles(EmitTiles *t, Val sum, Val begin, const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->row, p->row_end, emit_word(e, t->plan.height),
                  "tile");
    Val number = be_loop_carry(u, &l, emit_word(e, 0));
    be_loop_body(u, &l);
    Part tile = *p;
    tile.row = l.index;
    Val at = t->plan.group ? be_mul(u, be_sub(u, l.index, begin),
                                    emit_word(e, t->plan.row_step))
                           : be_mul(u, number, emit_word(e, emit_rows_size(t)));
    Rows rows = {scratch_at(t, t->packed_rows, at), emit_word(e, 0)};
    Val done = be_sub(u, l.index, p->row);
    add_tiles(t, &rows, be_add(u, sum, done), &tile);
    be_loop_next(&l, 0, be_add(u, number, emit_word(e, 1)));
    be_loop_end(u, &l);
}

/* The rows of a tile in its strip; one of whole strips begins with the first.
 */
static Rows
strip_rows(EmitTiles *t, Val row)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitOverlap *s = &t->product->strip;
    Val run = emit_word(e, s->run), before = emit_word(e, 0);
    if (t->plan.height > s->run) {
        Val height = emit_word(e, t->plan.height);
        before = LLVMBuildURem(u->builder, row, height, "");
        row = be_sub(u, row, before);
    }
    Val line = LLVMBuildUDiv(u->builder, row, run, "");
    Val at = be_mul(u, line, emit_word(e, t->plan.line));
    at = be_add(u, at, LLVMBuildURem(u->builder, row, run, ""));
    return (Rows){scratch_at(t, t->packed_rows, at), before};
}

static void
add_tiles_of_strips(EmitTiles *t, Val sum, const Part *p)
{
    BeUnit *u = t->e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->row, p->row_end, emit_word(t->e, t->plan.height),
                  "tile");
    be_loop_body(u, &l);
    Part tile = *p;
    tile.row = l.index;
    Rows rows = strip_rows(t, l.index);
    add_tiles(t, &rows, be_add(u, sum, be_sub(u, l.index, p->row)), &tile);
    be_loop_end(u, &l);
}

/* The products of p, whose rows are those of some tiles; `sum` as above. */
static void
add_rows(EmitTiles *t, Val sum, const Part *p)
{
    if (t->plan.pieces) {
        add_tiles_of_strips(t, sum, p);
        return;
    }
    if (t->plan.rows_stand) {
        Rows rows = standing_rows(t, p);
        add_tiles(t, &rows, sum, p);
        return;
    }
    Group g = {p->row, p->row_end, p->row_end};
    if (t->plan.group)
        g = group_of(t, p->row);
    emit_pack_rows(t, g.begin, g.run_end, p->product, p->product_end);
    if (t->plan.tiles == 1 && !t->plan.group) {
        Rows rows = {t->packed_rows, emit_word(t->e, 0)};
        add_tiles(t, &rows, sum, p);
    } else {
        add_packed_tiles(t, sum, g.begin, p);
    }
}

static Val
end_of(Emit *e, Val begin, int64_t size, Val limit)
{
    BeUnit *u = e->u;
    return be_min(u, be_add(u, begin, emit_word(e, size)), limit);
}

/* Where a tile begins that has those of p's rows from that one on: where rows
 * stand and sums are stored but once, rather with some that another had than
 * beyond the last. */
static Val
whole_tile_from(const EmitTiles *t, const Part *p, Val row)
{
    BeUnit *u = t->e->u;
    if (!t->plan.rows_stand || !t->product->direct || t->plan.in_parts)
        return row;
    Val last = be_sub(u, p->row_end, emit_word(t->e, t->plan.height));
    return be_max(u, p->row, be_min(u, row, last));
}

/* All rows of p, some tiles' at a time; finished if that is wanted. */
static void
add_all_rows(EmitTiles *t, const Part *p, bool finish)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int64_t size = (int64_t)t->plan.tiles * t->plan.height;
    BeLoop l;
    be_loop_begin(u, &l, p->row, p->row_end,
                  t->plan.group ? NULL : emit_word(e, size), "rows");
    be_loop_body(u, &l);
    Part some = *p;
    some.row = whole_tile_from(t, p, l.index);
    some.row_end = end_of(e, l.index, size, p->row_end);
    if (t->plan.group) {
        some.row_end = be_min(u, group_of(t, l.index).end, p->row_end);
        l.step = be_sub(u, some.row_end, l.index);
    }
    Val kept = finish ? emit_word(e, 0) : be_sub(u, l.index, p->row);
    add_rows(t, kept, &some);
    if (finish)
        finish_rows(t, some.row, some.row_end, p->column, p->column_end);
    be_loop_end(u, &l);
}

/* The products of p, a block at a time; with none there is a block of none. */
static void
add_parts(EmitTiles *t, const Part *p, bool finish)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val one = emit_word(e, 1), stop = p->product_end;
    Val end = be_select(u, be_icmp(u, LLVMIntSLT, stop, one), one, stop);
    BeLoop l;
    be_loop_begin(u, &l, emit_word(e, 0), end, emit_word(e, t->plan.depth),
                  "block");
    be_loop_body(u, &l);
    Part block = *p;
    block.product = l.index;
    block.product_end = end_of(e, l.index, t->plan.depth, stop);
    block.along = emit_word(e, 0);
    if (t->plan.pieces) {
        Val length = emit_word(e, t->product->strip.length);
        block.along = LLVMBuildURem(u->builder, l.index, length, "");
        emit_pack_strips(t, block.product, block.product_end);
    }
    if (!t->plan.columns_stand)
        emit_pack_columns(t, p->column, p->column_end, block.product,
                          block.product_end);
    add_all_rows(t, &block, finish);
    be_loop_end(u, &l);
}

/* Sums of some rows are kept until there are no more products. */
static void
add_and_finish(EmitTiles *t, const Part *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->row, p->row_end, emit_word(e, t->plan.rows),
                  "kept");
    be_loop_body(u, &l);
    Part some = *p;
    some.row = l.index;
    some.row_end = end_of(e, l.index, t->plan.rows, p->row_end);
    add_parts(t, &some, false);
    finish_rows(t, some.row, some.row_end, p->column, p->column_end);
    be_loop_end(u, &l);
}

/* Rows from .. to of one matrix. */
static void
multiply(EmitTiles *t, Val from, Val to)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, emit_word(e, 0), t->num_columns,
                  emit_word(e, t->plan.columns), "columns");
    be_loop_body(u, &l);
    Part p = {.row = from, .row_end = to, .column = l.index};
    p.column_end = end_of(e, l.index, t->plan.columns, t->num_columns);
    p.product = emit_word(e, 0);
    p.product_end = t->num_products;
    if (t->plan.in_parts && !t->product->direct)
        add_and_finish(t, &p);
    else
        add_parts(t, &p, !t->product->direct);
    be_loop_end(u, &l);
}

/* Items, a matrix (or what is wanted of it) at a time. */
static void
multiply_items(EmitTiles *t)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    BeLoop l;
    be_loop_begin(u, &l, e->begin, e->end, NULL, "item");
    be_loop_body(u, &l);
    emit_space_split(e, &t->product->outer,
                     LLVMBuildUDiv(b, l.index, t->num_rows, ""));
    Val from = LLVMBuildURem(b, l.index, t->num_rows, "");
    Val left = be_sub(u, e->end, l.index);
    l.step = be_min(u, left, be_sub(u, t->num_rows, from));
    multiply(t, from, be_add(u, from, l.step));
    be_loop_end(u, &l);
}

void
emit_tiles(Emit *e, const EmitProduct *p, const EmitPlan *plan, Val adder)
{
    EmitTiles t = {.e = e, .product = p, .plan = *plan, .adder = adder};
    t.type = emit_type(e, p->contract->dtype);
    t.bytes = (int64_t)dtype_info[p->contract->dtype].bytes;
    make_scratch(&t);
    t.num_rows = emit_space_size(e, &p->rows);
    t.num_columns = emit_dim(e, p->column->extent);
    t.num_products = emit_space_size(e, &p->products);
    e->tiles = &t;
    if (p->outer.count)
        multiply_items(&t);
    else
        multiply(&t, e->begin, e->end);
    e->tiles = NULL;
}

bool
emit_is_tiled(const Emit *e, const KNode *n)
{
    return e->tiles && e->tiles->product->contract == n;
}

void
emit_take_sums(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const EmitTiles *t = e->tiles;
    Type vector = be_vector(t->type, e->tile.lanes);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val p = be_offset_const(u, e->sums, v * e->tile.lanes * t->bytes);
        emit_set(e, n, 0, v, be_load(u, vector, p, (unsigned)t->bytes));
    }
}
