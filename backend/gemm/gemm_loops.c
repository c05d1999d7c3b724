/*
 * gemm_loops.c - the loops around the micro-kernel and the epilogue
 *
 * The micro-kernel computes a tile of C from packed A and B (gemm_pack.c), and
 * leaves its accumulators in memory for the epilogue (gemm_epilogue.c).
 *
 *   for each block of nc columns
 *     for each block of kc products
 *       pack B
 *       for the rows of some tiles
 *         pack A; for each tile: the micro-kernel
 *         the epilogue
 *
 * Where A is packed and there are several blocks of columns, A is packed once
 * for all of them:
 *
 *   for many rows
 *     for each block of kc products
 *       pack A
 *       for each block of nc columns
 *         pack B
 *         for the rows of some tiles
 *           for each tile: the micro-kernel
 *           the epilogue
 *
 * By D2 products are added in blocks of 512, and then the sums of blocks to
 * each other.  With several blocks, accumulators are kept: in the result if
 * there is no epilogue, else for mc rows at a time, so that the loop over rows
 * is around that over blocks.
 */
#include "backend/gemm/bf16.h"

#include <assert.h>

/* ---- memory -------------------------------------------------------------- */

static Val
scratch(const GemmCode *t, int64_t bytes, const char *name)
{
    return be_alloca(t->e->u, t->e->u->i8, (uint64_t)bytes, CACHE_LINE, name);
}

/* Whether some tiles cannot be stored completely: memory beyond their last row
 * or column belongs to other values, or products would be added twice to rows
 * that an earlier tile has. */
static bool
has_edge_tiles(const GemmCode *t)
{
    bool overlap = t->plan.a.group || t->plan.a.kind == GEMM_IN_PLACE;
    return t->gemm->direct || (overlap && t->plan.k_blocked);
}

/* Elements of packed A. */
static int64_t
packed_a_size(const GemmPlan *p)
{
    if (p->a_rows)
        return p->a_rows / p->mr * p->a.size;
    return p->a.kind == GEMM_TILES ? p->m_tiles * p->a.size : p->a.size;
}

/* Stores of a vector, or a square of vectors, may extend beyond the end of
 * packed operands, and loads of a tile beyond the last line along k. */
static void
make_scratch(GemmCode *t)
{
    const GemmPlan *p = &t->plan;
    int64_t width = be_gemm_nr(t), group = p->n_panels * width;
    int64_t columns = (p->nc + group - 1) / group * group;
    if (p->a.kind != GEMM_IN_PLACE)
        t->packed_a =
            scratch(t, packed_a_size(p) * t->packed_bytes, "packed_a");
    int64_t beyond = p->unit == GEMM_FMA ? p->lanes : BF16_GROUP; /* of k */
    if (p->b.kind != GEMM_IN_PLACE)
        t->packed_b =
            scratch(t, (p->kc * columns + beyond * width) * t->packed_bytes,
                    "packed_b");
    if (has_edge_tiles(t))
        t->c_tile = scratch(t, p->mr * width * t->bytes, "tile");
    if (!t->gemm->direct) {
        Val all =
            scratch(t, (p->mc + p->mr) * p->nc * t->bytes, "accumulators");
        t->c = be_offset_const(t->e->u, all, p->mr * p->nc * t->bytes);
    }
}

static Val
packed_at(const GemmCode *t, Val base, Val index)
{
    return LLVMBuildGEP2(t->e->u->builder, t->packed_type, base, &index, 1, "");
}

/* The address of a plain operand's element for a row, column and product (those
 * that it does not depend on are arbitrary). */
static Val
plain_at(GemmCode *t, const GemmOperand *o, Val row, Val column, Val product)
{
    Emit *e = t->e;
    be_space_delinearize(e, &t->gemm->m, row);
    be_space_delinearize(e, &t->gemm->k, product);
    e->indices[t->gemm->n->id] = (EmitIndex){.base = column};
    return be_gemm_plain_here(t, o);
}

/* ---- accumulators that are kept ------------------------------------------ */

/* The accumulators that are kept, which may be in the result: bytes from row to
 * row, and the address of an element. */
static Val
c_stride(const GemmCode *t)
{
    if (!t->gemm->direct)
        return be_emit_word(t->e, t->plan.nc * t->bytes);
    const EmitSpace *rows = &t->gemm->m;
    const KIndex *at = &t->gemm->direct->store.at;
    Dim step = be_index_coef(at, rows->vars[rows->count - 1]);
    return be_emit_word(t->e, step.c * t->bytes);
}

static Val
result_at(const GemmCode *t, Val row, Val column)
{
    Emit *e = t->e;
    const KNode *store = t->gemm->direct;
    const KArray *array = store->store.array;
    be_space_delinearize(e, &t->gemm->m, row);
    e->indices[t->gemm->n->id] = (EmitIndex){.base = column};
    EmitAddress a = be_address_of(e, &store->store.at);
    return be_gemm_scratch_at(t, e->arrays[array->role][array->index], a.base);
}

/* Adds `rows` rows, from number `first` on, and at most `columns` columns of
 * c_tile to the accumulators at `to`. */
static void
add_c_tile(GemmCode *t, Val to, Val first, Val rows, Val columns, Val more)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int lanes = t->plan.lanes;
    unsigned align = (unsigned)t->bytes;
    Type vector = be_vector(t->type, lanes);
    Val step = c_stride(t), own = be_emit_word(e, be_gemm_nr(t) * t->bytes);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), rows, be_emit_word(e, 1), "row");
    be_loop_body(u, &l);
    for (int v = 0; v < t->plan.vectors; v++) {
        Val left = be_sub(u, columns, be_emit_word(e, v * lanes));
        Val mask = be_emit_first_lanes(e, left, lanes);
        Val from = be_mul(u, be_add(u, first, l.index), own);
        Val p = be_offset(u, t->c_tile, from);
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

/* A block of the products of some rows and columns: from .. to of each. */
typedef struct GemmRange {
    Val m, m_end, n, n_end, k, k_end;
    Val line_k; /* number of the first k along a line */
    Val packed; /* first row of the plan's a_rows; NULL: there are none */
} GemmRange;

/* The rows of a tile: the first one, and how many rows come before the first
 * requested one.  A tile whose rows are read in place does not extend beyond
 * the last row, but begins earlier.  Those to prefetch are at `ahead`, and
 * the products that count are ks, as a call has them. */
typedef struct Rows {
    Val at, before, ahead;
    GemmProducts ks;
} Rows;

static Rows
a_in_place(GemmCode *t, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val last = be_sub(u, t->m, be_emit_word(e, t->plan.mr));
    Val row = be_min(u, p->m, last);
    Val at = plain_at(t, &t->gemm->a, row, p->n, p->k);
    return (Rows){.at = at, .before = be_sub(u, p->m, row)};
}

/* Where the micro-kernel reads B for p's columns, packed from `first` on. */
static Val
b_at(GemmCode *t, const GemmRange *p, Val first)
{
    BeUnit *u = t->e->u;
    if (t->plan.b.kind == GEMM_IN_PLACE)
        return plain_at(t, &t->gemm->b, p->m, p->n, p->k);
    Val before = be_sub(u, p->n, first);
    before = be_mul(u, before, be_emit_word(t->e, t->plan.kc));
    return packed_at(t, t->packed_b, before);
}

/* In the result only existing columns may be stored; in scratch memory all
 * columns of the tile may. */
static void
call_micro_kernel(GemmCode *t, const Rows *rows, Val columns, Val sums,
                  Val step, const GemmRange *p)
{
    BeUnit *u = t->e->u;
    Type type = LLVMGlobalGetValueType(t->micro_kernel);
    Val count = be_sub(u, p->k_end, p->k);
    Val more = be_icmp(u, LLVMIntNE, p->k, be_emit_word(t->e, 0));
    Val across = sums == t->c_tile || !t->gemm->direct
                     ? be_emit_word(t->e, be_gemm_nr(t))
                     : be_sub(u, p->n_end, p->n);
    Val args[] = {rows->at,    columns,        sums,        step,
                  count,       more,           across,      p->line_k,
                  rows->ahead, rows->ks.first, rows->ks.end};
    LLVMBuildCall2(u->builder, type, t->micro_kernel, args, UKERNEL_NUM_PARAMS,
                   "");
}

/* A tile in scratch memory, whose requested part is then added to C. */
static void
add_partial_tile(GemmCode *t, const Rows *rows, Val columns, Val to,
                 const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    GemmRange alone = *p;
    alone.k_end = be_sub(u, p->k_end, p->k);
    alone.k = be_emit_word(e, 0);
    call_micro_kernel(t, rows, columns, t->c_tile,
                      be_emit_word(e, be_gemm_nr(t) * t->bytes), &alone);
    Val more = be_icmp(u, LLVMIntNE, p->k, be_emit_word(e, 0));
    Val down = be_sub(u, p->m_end, p->m);
    down = be_min(u, down, be_emit_word(e, t->plan.mr));
    add_c_tile(t, to, rows->before, down, be_sub(u, p->n_end, p->n), more);
}

/* A tile whose first element is that of p and at `to`, or the requested part of
 * it. */
static void
add_edge_tile(GemmCode *t, const Rows *rows, Val columns, Val to,
              const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val down = be_sub(u, p->m_end, p->m);
    Val high = be_icmp(u, LLVMIntSGE, down, be_emit_word(e, t->plan.mr));
    Block all = be_block(u, "all"), some = be_block(u, "some");
    Block after = be_block(u, "after");
    be_cond_br(u, high, all, some);
    be_position_at_end(u, all);
    call_micro_kernel(t, rows, columns, to, c_stride(t), p);
    be_br(u, after);
    be_position_at_end(u, some);
    add_partial_tile(t, rows, columns, to, p);
    be_br(u, after);
    be_position_at_end(u, after);
}

static void
add_seen_tile(GemmCode *t, const Rows *rows, Val columns, Val to,
              const GemmRange *p)
{
    if (has_edge_tiles(t))
        add_edge_tile(t, rows, columns, to, p);
    else
        call_micro_kernel(t, rows, columns, to, c_stride(t), p);
}

/* A tile whose first element is that of p and at `to`, if the epilogue looks at
 * it. */
static void
add_tile(GemmCode *t, const Rows *rows, Val columns, Val to, const GemmRange *p)
{
    BeUnit *u = t->e->u;
    if (!t->gemm->shown.condition) {
        add_seen_tile(t, rows, columns, to, p);
        return;
    }
    Val down =
        be_min(u, be_sub(u, p->m_end, p->m), be_emit_word(t->e, t->plan.mr));
    Val shown = be_gemm_is_shown(t, p->m, down, p->n, p->n_end);
    Block seen = be_block(u, "seen"), after = be_block(u, "after");
    be_cond_br(u, shown, seen, after);
    be_position_at_end(u, seen);
    add_seen_tile(t, rows, columns, to, p);
    be_br(u, after);
    be_position_at_end(u, after);
}

/* The rows that the call for column number `column` of a block prefetches. */
static Val
rows_ahead(const GemmCode *t, const Rows *rows, Val column)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    if (t->plan.a.kind != GEMM_IN_PLACE)
        return rows->at; /* not used */
    Val panel = LLVMBuildUDiv(b, column, be_emit_word(e, be_gemm_nr(t)), "");
    Val row = be_mul(u, panel, be_emit_word(e, be_gemm_rows_ahead(&t->plan)));
    row = LLVMBuildURem(b, row, be_emit_word(e, t->plan.mr), "");
    row = be_add(u, row, be_emit_word(e, t->plan.mr));
    return be_gemm_scratch_at(
        t, rows->at, be_mul(u, row, be_emit_word(e, t->plan.a.stride)));
}

/* The k of p that count for a tile's rows. */
static GemmProducts
products_of(GemmCode *t, const Rows *rows, const GemmRange *p)
{
    BeUnit *u = t->e->u;
    GemmBlock block = {.k = be_sub(u, p->k_end, p->k)};
    if (!t->plan.skips_zeros)
        return (GemmProducts){be_emit_word(t->e, 0), block.k};
    block.n = be_sub(u, p->n_end, p->n);
    block.b = b_at(t, p, p->n);
    return be_gemm_find_products(t, rows->at, &block);
}

/* A tile's rows times all columns of p; `sum` is the number of the first
 * requested row among the accumulators that are kept.  If tiles cannot be
 * partial, the rows before also have accumulators. */
static void
add_tiles(GemmCode *t, const Rows *rows, Val sum, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val from = has_edge_tiles(t) ? sum : be_sub(u, sum, rows->before);
    Val first = be_mul(u, from, be_emit_word(e, t->plan.nc));
    GemmProducts ks = products_of(t, rows, p);
    BeLoop l;
    be_loop_begin(u, &l, p->n, p->n_end, be_emit_word(e, be_gemm_nr(t)),
                  "column");
    be_loop_body(u, &l);
    GemmRange tile = *p;
    tile.n = l.index;
    Val columns = b_at(t, &tile, p->n);
    Val number = be_sub(u, l.index, p->n);
    Rows own = {rows->at, rows->before, rows_ahead(t, rows, number), ks};
    Val at = be_add(u, first, number);
    Val to = t->gemm->direct ? result_at(t, p->m, l.index)
                             : be_gemm_scratch_at(t, t->c, at);
    add_tile(t, &own, columns, to, &tile);
    be_loop_end(u, &l);
}

/* Where groups of rows begin and end. */
typedef struct Group {
    Val begin, end, run_end;
} Group;

static Group
group_of(GemmCode *t, Val row)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const EmitSpace *rows = &t->gemm->m;
    Val extent = be_emit_dim(e, rows->vars[rows->count - 1]->extent);
    if (t->plan.a.segments)
        extent = be_emit_word(e, t->plan.a.group);
    Val size = be_emit_word(e, t->plan.a.group);
    Val in_run = LLVMBuildURem(u->builder, row, extent, "");
    Val in_group = LLVMBuildURem(u->builder, in_run, size, "");
    Group g = {.begin = be_sub(u, row, in_group)};
    g.run_end = be_add(u, row, be_sub(u, extent, in_run));
    g.end = be_min(u, be_add(u, g.begin, size), g.run_end);
    return g;
}

static Val
tiles_of(const GemmCode *t, Val rows)
{
    BeUnit *u = t->e->u;
    return LLVMBuildUDiv(u->builder, rows, be_emit_word(t->e, t->plan.mr), "");
}

/* p's tiles, of rows that were packed from `begin` on. */
static void
add_packed_tiles(GemmCode *t, Val sum, Val begin, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val before = tiles_of(t, be_sub(u, p->m, begin));
    BeLoop l;
    be_loop_begin(u, &l, p->m, p->m_end, be_emit_word(e, t->plan.mr), "tile");
    Val number = be_loop_carry(u, &l, before);
    be_loop_body(u, &l);
    GemmRange tile = *p;
    tile.m = l.index;
    Val at = t->plan.a.group
                 ? be_mul(u, be_sub(u, l.index, begin),
                          be_emit_word(e, t->plan.a.stride))
                 : be_mul(u, number, be_emit_word(e, t->plan.a.size));
    Rows rows = {.at = packed_at(t, t->packed_a, at),
                 .before = be_emit_word(e, 0)};
    Val done = be_sub(u, l.index, p->m);
    add_tiles(t, &rows, be_add(u, sum, done), &tile);
    be_loop_next(&l, 0, be_add(u, number, be_emit_word(e, 1)));
    be_loop_end(u, &l);
}

/* The rows of a tile in its line; a tile of full lines begins with the first.
 */
static Rows
k_line_rows(GemmCode *t, Val row)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const GemmLines *s = &t->gemm->k_lines;
    Val run = be_emit_word(e, s->run), before = be_emit_word(e, 0);
    if (t->plan.mr > s->run) {
        Val height = be_emit_word(e, t->plan.mr);
        before = LLVMBuildURem(u->builder, row, height, "");
        row = be_sub(u, row, before);
    }
    Val line = LLVMBuildUDiv(u->builder, row, run, "");
    Val at = be_mul(u, line, be_emit_word(e, t->plan.a.line_size));
    at = be_add(u, at, LLVMBuildURem(u->builder, row, run, ""));
    return (Rows){.at = packed_at(t, t->packed_a, at), .before = before};
}

static void
add_tiles_of_k_lines(GemmCode *t, Val sum, const GemmRange *p)
{
    BeUnit *u = t->e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->m, p->m_end, be_emit_word(t->e, t->plan.mr),
                  "tile");
    be_loop_body(u, &l);
    GemmRange tile = *p;
    tile.m = l.index;
    Rows rows = k_line_rows(t, l.index);
    add_tiles(t, &rows, be_add(u, sum, be_sub(u, l.index, p->m)), &tile);
    be_loop_end(u, &l);
}

static void
pack_a(GemmCode *t, Val first, Val end, const GemmRange *p)
{
    if (t->plan.unit != GEMM_FMA)
        be_bf16_pack_a(t, first, end, p->k, p->k_end);
    else
        be_gemm_pack_a(t, first, end, p->k, p->k_end);
}

static void
pack_b(GemmCode *t, const GemmRange *p)
{
    if (t->plan.unit != GEMM_FMA)
        be_bf16_pack_b(t, p->n, p->n_end, p->k, p->k_end);
    else
        be_gemm_pack_b(t, p->n, p->n_end, p->k, p->k_end);
}

/* The products of p, whose rows are those of some tiles; `sum` as above. */
static void
add_rows(GemmCode *t, Val sum, const GemmRange *p)
{
    if (t->plan.a.segments) {
        add_tiles_of_k_lines(t, sum, p);
        return;
    }
    if (t->plan.a.kind == GEMM_IN_PLACE) {
        Rows rows = a_in_place(t, p);
        add_tiles(t, &rows, sum, p);
        return;
    }
    if (t->plan.a_rows) {
        add_packed_tiles(t, sum, p->packed, p);
        return;
    }
    Group g = {p->m, p->m_end, p->m_end};
    if (t->plan.a.group)
        g = group_of(t, p->m);
    pack_a(t, g.begin, g.run_end, p);
    if (t->plan.m_tiles == 1 && !t->plan.a.group) {
        Rows rows = {.at = t->packed_a, .before = be_emit_word(t->e, 0)};
        add_tiles(t, &rows, sum, p);
    } else {
        add_packed_tiles(t, sum, g.begin, p);
    }
}

static Val
end_of(Emit *e, Val begin, int64_t size, Val limit)
{
    BeUnit *u = e->u;
    return be_min(u, be_add(u, begin, be_emit_word(e, size)), limit);
}

/* Where the tile with p's rows from that one on begins.  If rows are read in
 * place and stored only once, it may begin with rows of an earlier tile rather
 * than extend beyond the last row. */
static Val
whole_tile_from(const GemmCode *t, const GemmRange *p, Val row)
{
    BeUnit *u = t->e->u;
    if (t->plan.a.kind != GEMM_IN_PLACE || !t->gemm->direct ||
        t->plan.k_blocked)
        return row;
    Val last = be_sub(u, p->m_end, be_emit_word(t->e, t->plan.mr));
    return be_max(u, p->m, be_min(u, row, last));
}

/* All rows of p, some tiles at a time; with the epilogue if requested. */
static void
multiply_m(GemmCode *t, const GemmRange *p, bool finish)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int64_t size = (int64_t)t->plan.m_tiles * t->plan.mr;
    BeLoop l;
    be_loop_begin(u, &l, p->m, p->m_end,
                  t->plan.a.group ? NULL : be_emit_word(e, size), "rows");
    be_loop_body(u, &l);
    GemmRange some = *p;
    some.m = whole_tile_from(t, p, l.index);
    some.m_end = end_of(e, l.index, size, p->m_end);
    if (t->plan.a.group) {
        some.m_end = be_min(u, group_of(t, l.index).end, p->m_end);
        l.step = be_sub(u, some.m_end, l.index);
    }
    Val kept = finish ? be_emit_word(e, 0) : be_sub(u, l.index, p->m);
    add_rows(t, kept, &some);
    if (finish)
        be_gemm_epilogue_rows(t, some.m, some.m_end, p->n, p->n_end);
    be_loop_end(u, &l);
}

/* Whether few tiles of rows, that stay in L2, share columns of B that do not:
 * each of these is then read once if its loop is the outer one. */
static bool
goes_by_columns(const GemmCode *t)
{
    enum { FEW_TILES = 8 };
    const GemmPlan *plan = &t->plan;
    const BeKernel *k = t->e->k;
    int64_t rows = be_space_bound(k, &t->gemm->m);
    int64_t l2 = be_gemm_l2_bytes(t->e->target);
    return plan->a.kind == GEMM_IN_PLACE && plan->b.kind == GEMM_IN_PLACE &&
           t->gemm->direct && rows <= (int64_t)FEW_TILES * plan->mr &&
           rows * plan->kc * t->bytes <= l2 / 2 &&
           plan->nc * plan->kc * t->bytes > l2 / 2;
}

/* All rows of p for a tile's columns, and then for the next. */
static void
multiply_by_columns(GemmCode *t, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->n, p->n_end, be_emit_word(e, be_gemm_nr(t)),
                  "panel");
    be_loop_body(u, &l);
    GemmRange panel = *p;
    panel.n = l.index;
    panel.n_end = end_of(e, l.index, be_gemm_nr(t), p->n_end);
    be_gemm_forget_b(t);
    multiply_m(t, &panel, false);
    be_loop_end(u, &l);
}

/* Begins the loop over the blocks of p's products, and gives the current one;
 * with none there is one empty block. */
static GemmRange
begin_k_blocks(GemmCode *t, BeLoop *l, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val one = be_emit_word(e, 1), stop = p->k_end;
    Val end = be_select(u, be_icmp(u, LLVMIntSLT, stop, one), one, stop);
    be_loop_begin(u, l, be_emit_word(e, 0), end, be_emit_word(e, t->plan.kc),
                  "block");
    be_loop_body(u, l);
    GemmRange block = *p;
    block.k = l->index;
    block.k_end = end_of(e, l->index, t->plan.kc, stop);
    block.line_k = be_emit_word(e, 0);
    return block;
}

/* The products of p, block by block. */
static void
multiply_k_blocks(GemmCode *t, const GemmRange *p, bool finish)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    GemmRange block = begin_k_blocks(t, &l, p);
    if (t->plan.a.segments) {
        Val length = be_emit_word(e, t->gemm->k_lines.length);
        block.line_k = LLVMBuildURem(u->builder, l.index, length, "");
        be_gemm_pack_k_lines(t, block.k, block.k_end);
    }
    if (t->plan.b.kind != GEMM_IN_PLACE)
        pack_b(t, &block);
    be_gemm_forget_b(t);
    if (goes_by_columns(t))
        multiply_by_columns(t, &block);
    else
        multiply_m(t, &block, finish);
    be_loop_end(u, &l);
}

/* Accumulators of some rows are kept until the last product. */
static void
multiply_and_finish(GemmCode *t, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, p->m, p->m_end, be_emit_word(e, t->plan.mc), "kept");
    be_loop_body(u, &l);
    GemmRange some = *p;
    some.m = l.index;
    some.m_end = end_of(e, l.index, t->plan.mc, p->m_end);
    multiply_k_blocks(t, &some, false);
    be_gemm_epilogue_rows(t, some.m, some.m_end, p->n, p->n_end);
    be_loop_end(u, &l);
}

/* Begins the loop over the blocks of p's columns, and sets p to the current
 * one. */
static void
begin_n_blocks(GemmCode *t, BeLoop *l, GemmRange *p)
{
    Emit *e = t->e;
    Val end = p->n_end;
    be_loop_begin(e->u, l, p->n, end, be_emit_word(e, t->plan.nc), "columns");
    be_loop_body(e->u, l);
    p->n = l->index;
    p->n_end = end_of(e, l->index, t->plan.nc, end);
}

/* All rows of p. */
static void
pack_a_rows(GemmCode *t, const GemmRange *p)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    int64_t size = (int64_t)t->plan.m_tiles * t->plan.mr;
    Val all = t->packed_a;
    BeLoop l;
    be_loop_begin(u, &l, p->m, p->m_end, be_emit_word(e, size), "rows");
    be_loop_body(u, &l);
    Val tile = tiles_of(t, be_sub(u, l.index, p->m));
    t->packed_a =
        packed_at(t, all, be_mul(u, tile, be_emit_word(e, t->plan.a.size)));
    pack_a(t, l.index, end_of(e, l.index, size, p->m_end), p);
    t->packed_a = all;
    be_loop_end(u, &l);
}

/* Rows and columns of one matrix, where A is packed for all columns. */
static void
multiply_all_columns(GemmCode *t, const GemmRange *all)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop rows, blocks, columns;
    be_loop_begin(u, &rows, all->m, all->m_end, be_emit_word(e, t->plan.a_rows),
                  "many");
    be_loop_body(u, &rows);
    GemmRange p = *all;
    p.m = rows.index;
    p.m_end = end_of(e, rows.index, t->plan.a_rows, all->m_end);
    GemmRange block = begin_k_blocks(t, &blocks, &p);
    pack_a_rows(t, &block);
    block.packed = block.m;
    begin_n_blocks(t, &columns, &block);
    if (t->plan.b.kind != GEMM_IN_PLACE)
        pack_b(t, &block);
    be_gemm_forget_b(t);
    multiply_m(t, &block, !t->gemm->direct);
    be_loop_end(u, &columns);
    be_loop_end(u, &blocks);
    be_loop_end(u, &rows);
}

void
be_gemm_multiply(GemmCode *t, Val m, Val m_end, Val n, Val n_end)
{
    GemmRange p = {
        .m = m, .m_end = m_end, .n = n, .n_end = n_end, .k_end = t->k};
    if (t->plan.a_rows) {
        multiply_all_columns(t, &p);
        return;
    }
    BeLoop l;
    begin_n_blocks(t, &l, &p);
    if (t->plan.k_blocked && !t->gemm->direct)
        multiply_and_finish(t, &p);
    else
        multiply_k_blocks(t, &p, !t->gemm->direct);
    be_loop_end(t->e->u, &l);
}

GemmCode
be_gemm_begin(Emit *e, const Gemm *p, const GemmPlan *plan, Val micro_kernel)
{
    GemmCode t = {
        .e = e, .gemm = p, .plan = *plan, .micro_kernel = micro_kernel};
    t.type = be_emit_type(e, p->contract->dtype);
    t.bytes = (int64_t)dtype_info[p->contract->dtype].bytes;
    bool is_bf16 = plan->unit != GEMM_FMA;
    t.packed_type = is_bf16 ? e->u->i16 : t.type;
    t.packed_bytes = is_bf16 ? BF16_BYTES : t.bytes;
    assert(plan->mr > 0 && plan->kc > 0 && plan->nc > 0 && plan->mc > 0);
    make_scratch(&t);
    be_gemm_begin_zeros(&t);
    t.m = be_space_size(e, &p->m);
    t.n = be_emit_extent(e, p->n->extent);
    t.k = be_space_size(e, &p->k);
    return t;
}
