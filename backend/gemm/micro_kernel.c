/*
 * micro_kernel.c - a tile of a product in registers
 *
 * The adder is a function of its own: for each product, one vector or some of
 * columns and a number of each row.  It finds both packed and leaves sums in
 * memory.  A call adds a block of products at most (D2).
 *
 * Here, too, is chosen how large tiles are and how much is packed at once: rows
 * of a tile for a block stay in the first cache, columns in the second.
 */
#include "backend/gemm/gemm.h"

/* Bytes of columns, packed or where they stand, of rows where they stand, and
 * of sums that are kept; tiles whose rows are packed at once when they lie side
 * by side, so that whole lines are read. */
enum {
    B_BYTES = 16 << 10, /* for each byte of a register: a second cache has
                                some 1 MB where registers have 64 bytes */
    IN_PLACE_BYTES = 512 << 10,
    C_BYTES = 256 << 10,
    LINES_BYTES = 256 << 10,
    VERY_FEW_TILES = 2, /* that do not pay for packing columns, */
    FEW_TILES = 8,      /* nor if those of a product are near the next one's */
    FEW_PANELS = 16,    /* likewise, for rows that lie side by side */
    TILES_TOGETHER = BE_MAX_VECTORS,
    SHORT_RUN = 16, /* products that are emitted one by one */
    L1_BYTES = 32 << 10,
    AHEAD = 8,      /* products, */
    FAR_AHEAD = 32, /* and where they go by quickly */
    LINE = 64,
    PAGE = 4096,
};

/* ---- choices ------------------------------------------------------------- */

static int64_t
round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int
choose_lanes(const Emit *e, int64_t bytes, int64_t columns)
{
    int most = (int)(e->target->register_bytes / bytes), lanes = 2;
    while (lanes < most && lanes < columns)
        lanes *= 2;
    return lanes;
}

/* Two, unless one or three leave less of the last tile empty. */
static int
choose_vectors(int lanes, int64_t columns)
{
    int64_t vectors = (columns + lanes - 1) / lanes;
    if (vectors == 1)
        return 1;
    return vectors % 2 && vectors % 3 == 0 ? 3 : 2;
}

static bool
is_known(const EmitSpace *s)
{
    for (int i = 0; i < s->count; i++) {
        if (!ir_dim_is_const(s->vars[i]->extent))
            return false;
    }
    return true;
}

static bool
run_is_known(const Gemm *g)
{
    return ir_dim_is_const(g->m.vars[g->m.count - 1]->extent);
}

/* Rows that tiles can share among them. */
static int64_t
rows_of_run(const Emit *e, const Gemm *g)
{
    return g->in_runs ? be_dim_bound(e->k, g->m.vars[g->m.count - 1]->extent)
                      : be_space_bound(e->k, &g->m);
}

/* Up to `most`, or fewer when the last tile is fuller then. */
static int
fullest_mr(int64_t rows, int most)
{
    int best = most;
    double least = -1;
    for (int height = most; height > most / 2; height--) {
        double tiles = (double)((rows + height - 1) / height);
        double cost = tiles * (height + 0.5);
        if (least < 0 || cost < least) {
            least = cost;
            best = height;
        }
    }
    return best;
}

/* As many as registers allow. */
static int
choose_mr(const Emit *e, const Gemm *g, const GemmPlan *plan)
{
    int64_t rows = rows_of_run(e, g);
    int most = (e->target->num_registers - 2) / plan->vectors - 1;
    if (most > GEMM_MAX_MR)
        most = GEMM_MAX_MR;
    if (!g->a.along_k && !g->m_lines.index && most > plan->lanes)
        most = plan->lanes;
    if (rows <= most)
        return (int)rows;
    bool known = is_known(&g->m) || (g->in_runs && run_is_known(g));
    return known ? fullest_mr(rows, most) : most;
}

/* Whether neighbours so many elements apart fight for the same places of a
 * cache. */
static bool
conflicts_in_cache(int64_t step, int64_t bytes)
{
    return step * bytes % PAGE == 0;
}

/* Whether those of a product are near the next one's, so that it pays to read
 * them where they stand, time and again, if each is asked for before. */
static bool
is_near(const GemmOperand *o, int64_t bytes)
{
    return o->k_stride * bytes <= PAGE / 2;
}

/* Whether rows can be read where they stand: there are always as many as a tile
 * has, and a tile's part of them stays in the first cache. */
static bool
may_read_a_in_place(const Emit *e, const Gemm *g, const GemmPlan *plan,
                    int64_t bytes)
{
    const GemmOperand *o = &g->a;
    if (!o->plain || !is_known(&g->m) || (plan->k_blocked && !g->direct))
        return false;
    if (o->k_stride == 1)
        return !conflicts_in_cache(o->stride, bytes);
    int64_t rows = be_space_bound(e->k, &g->m);
    int64_t products = be_space_bound(e->k, &g->k);
    int64_t columns = be_dim_bound(e->k, g->n->extent);
    bool few = columns <= FEW_PANELS * plan->lanes * plan->vectors;
    return o->stride == 1 && (rows * products * bytes <= IN_PLACE_BYTES ||
                              (few && is_near(o, bytes)));
}

/* Bytes of columns that stay in the second cache. */
static int64_t
b_cache_bytes(const Emit *e)
{
    return (int64_t)B_BYTES * e->target->register_bytes;
}

static bool
may_read_b_in_place(const Emit *e, const Gemm *g, const GemmPlan *plan,
                    int64_t bytes)
{
    const GemmOperand *o = &g->b;
    Dim extent = g->n->extent;
    int64_t rows = be_space_bound(e->k, &g->m);
    int64_t products = be_space_bound(e->k, &g->k);
    return o->plain && o->stride == 1 && ir_dim_is_const(extent) &&
           extent.c % (plan->lanes * plan->vectors) == 0 &&
           (extent.c * products * bytes <= b_cache_bytes(e) ||
            rows <= VERY_FEW_TILES * plan->mr ||
            (rows <= FEW_TILES * plan->mr && is_near(o, bytes)));
}

static void
choose_strides(const Gemm *g, GemmPlan *plan, int64_t bytes)
{
    int64_t along = round_up(plan->kc, plan->lanes) + plan->lanes;
    if (plan->k_segments) {
        plan->a_m_stride = 1;
        plan->a_k_stride = g->k_lines.stride * g->k_lines.elements;
    } else if (plan->line_size) {
        plan->a_m_stride = g->m_lines.stride * g->m_lines.elements;
        plan->a_k_stride = 1;
    } else if (plan->a_in_place) {
        plan->a_m_stride = g->a.stride;
        plan->a_k_stride = g->a.k_stride;
    } else if (g->a.along_k) {
        plan->a_m_stride =
            along + conflicts_in_cache(along, bytes) * plan->lanes;
        plan->a_k_stride = 1;
    } else {
        plan->a_m_stride = 1;
        plan->a_k_stride = plan->group ? plan->group : plan->mr;
    }
    plan->b_k_stride =
        plan->b_in_place ? g->b.k_stride : plan->lanes * plan->vectors;
}

/* Columns of a piece, all pieces being about as large. */
static int64_t
choose_nc(const Emit *e, const GemmPlan *plan, int64_t columns, int64_t bytes)
{
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    int64_t fit = b_cache_bytes(e) / (plan->kc * bytes) / width * width;
    int64_t pieces = fit ? (columns + fit - 1) / fit : 1;
    return round_up((columns + pieces - 1) / pieces, width);
}

static int
choose_n_panels(const GemmPlan *plan)
{
    int most = BE_MAX_VECTORS / plan->vectors;
    int64_t all = plan->nc / ((int64_t)plan->lanes * plan->vectors);
    return all < most ? (int)all : most;
}

static int64_t
choose_group(const GemmPlan *plan, int64_t rows)
{
    int64_t all = round_up(rows, plan->lanes);
    int64_t most = (int64_t)plan->lanes * BE_MAX_VECTORS;
    return all < most ? all : most;
}

/* Elements of a line of windows of so many rows. */
static int64_t
line_of(const Gemm *g, const GemmPlan *plan, int64_t rows)
{
    rows = round_up(rows, plan->mr);
    return round_up(be_gemm_line_size(&g->m_lines, rows), plan->lanes);
}

/* Rows whose windows stay in the first cache, of pieces of a run that are
 * about as long. */
static int64_t
choose_m_lines(const Gemm *g, const GemmPlan *plan, int64_t bytes)
{
    int64_t all = g->m_lines.length, rows = all;
    for (int64_t pieces = 2;
         rows > plan->mr &&
         g->m_lines.lines * line_of(g, plan, rows) * bytes > L1_BYTES / 2;
         pieces++)
        rows = round_up((all + pieces - 1) / pieces, plan->mr);
    return rows;
}

static int
choose_m_tiles(const GemmPlan *plan, int64_t rows)
{
    int64_t all = (rows + plan->mr - 1) / plan->mr;
    return all < TILES_TOGETHER ? (int)all : TILES_TOGETHER;
}

/* Rows of a tile, of a part of a strip or some whole ones. */
static int
choose_k_lines_mr(const GemmLines *s, int most)
{
    int64_t strips = s->lines;
    if (s->run > most)
        return fullest_mr(s->run, most);
    while (strips * s->run > most || s->lines % strips)
        strips--;
    return (int)(strips * s->run);
}

/* Strips, if those of a block are not too many. */
static void
choose_k_lines(const Emit *e, const Gemm *g, GemmPlan *plan, int64_t bytes)
{
    const GemmLines *s = &g->k_lines;
    int most = (e->target->num_registers - 2) / plan->vectors - 1;
    if (!s->index)
        return;
    int64_t line = round_up(be_gemm_line_size(s, s->length), plan->lanes), all;
    int64_t pieces = (plan->kc + s->length - 2) / s->length + 1;
    if (__builtin_mul_overflow(pieces * s->lines, line, &all) ||
        all > LINES_BYTES / bytes)
        return;
    plan->line_size = line;
    plan->k_segments = pieces;
    plan->mr = choose_k_lines_mr(s, most < GEMM_MAX_MR ? most : GEMM_MAX_MR);
    plan->group = plan->mr > s->run ? plan->mr : s->run;
}

GemmPlan
be_gemm_plan_choose(const Emit *e, const Gemm *g)
{
    int64_t bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    int64_t columns = be_dim_bound(e->k, g->n->extent);
    int64_t products = be_space_bound(e->k, &g->k);
    GemmPlan plan = {.lanes = choose_lanes(e, bytes, columns)};
    plan.vectors = choose_vectors(plan.lanes, columns);
    plan.mr = choose_mr(e, g, &plan);
    plan.kc = products > BE_K_BLOCK ? BE_K_BLOCK : products;
    plan.k_blocked = products > BE_K_BLOCK;
    choose_k_lines(e, g, &plan, bytes);
    plan.a_in_place = may_read_a_in_place(e, g, &plan, bytes);
    plan.b_in_place = may_read_b_in_place(e, g, &plan, bytes);
    plan.nc = plan.b_in_place ? columns : choose_nc(e, &plan, columns, bytes);
    plan.n_panels = choose_n_panels(&plan);
    bool singly = plan.a_in_place || plan.k_segments || g->a.along_k;
    if (g->m_lines.index) {
        plan.group = choose_m_lines(g, &plan, bytes);
        plan.line_size = line_of(g, &plan, plan.group);
    } else if (g->in_runs && !singly) {
        plan.group = choose_group(&plan, rows_of_run(e, g));
    }
    plan.m_tiles = singly ? 1 : choose_m_tiles(&plan, rows_of_run(e, g));
    plan.mc = (int64_t)plan.m_tiles * plan.mr;
    if (plan.mc < plan.group)
        plan.mc = round_up(plan.group, plan.mr);
    int64_t kept = C_BYTES / (plan.nc * bytes);
    if (plan.k_blocked && !g->direct && kept > plan.mc)
        plan.mc = kept / plan.mc * plan.mc;
    choose_strides(g, &plan, bytes);
    return plan;
}

/* ---- the adder ----------------------------------------------------------- */

typedef struct MicroKernel {
    Emit *e;
    const GemmPlan *plan;
    const GemmLines *m_lines, *k_lines;
    Type type, vector;
    int64_t bytes;
    bool reads_far; /* rows stand dense, beyond the second cache */
    Val params[UKERNEL_NUM_PARAMS];
} MicroKernel;

static Val
element_at(const MicroKernel *a, Val base, Val index, int64_t more)
{
    BeUnit *u = a->e->u;
    Val p = LLVMBuildGEP2(u->builder, a->type, base, &index, 1, "");
    return be_offset_const(u, p, more * a->bytes);
}

/* Elements from a tile's first row to another. */
static int64_t
row_offset(const MicroKernel *a, int row)
{
    int64_t run = a->plan->k_segments ? a->k_lines->run : a->plan->mr;
    return row / run * a->plan->line_size + row % run * a->plan->a_m_stride;
}

/* The number of a row for a product that is so many elements behind the first.
 */
static Val
broadcast_a(const MicroKernel *a, int row, Val at)
{
    Emit *e = a->e;
    Val p = element_at(a, a->params[UKERNEL_A], at, row_offset(a, row));
    return be_splat(e->u, be_load(e->u, a->type, p, (unsigned)a->bytes),
                    a->plan->lanes);
}

/* Whether what the adder goes through is not in the first cache. */
static bool
streams(const GemmPlan *plan, int64_t bytes)
{
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    return plan->kc * width * bytes > L1_BYTES;
}

/* Those of some products further on, of the next panel in the end. */
static void
prefetch_b(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    int ahead = plan->k_segments ? FAR_AHEAD : AHEAD;
    Val later = be_add(e->u, k, be_emit_word(e, ahead));
    Val at = be_mul(e->u, later, be_emit_word(e, plan->b_k_stride));
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    for (int64_t i = 0; i < width; i += LINE / a->bytes)
        be_prefetch(e->u, element_at(a, a->params[UKERNEL_B], at, i), false);
}

/* Rows side by side of such a product. */
static void
prefetch_a(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    Val later = be_add(e->u, k, be_emit_word(e, AHEAD));
    Val at = be_mul(e->u, later, be_emit_word(e, plan->a_k_stride));
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, 0), false);
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, plan->mr - 1),
                false);
}

/* Rows that stand one behind the other: for each product as much of the next
 * tile's as a product has on average. */
static void
prefetch_next_a(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    Val at = be_mul(e->u, k, be_emit_word(e, plan->mr));
    int64_t more = plan->mr * plan->a_m_stride;
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, more), false);
}

/* Product k, whose rows are `before` elements behind those of the first. */
static void
rank1_update(const MicroKernel *a, Val k, Val before, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    int vectors = plan->vectors, lanes = plan->lanes;
    Val at = be_mul(u, k, be_emit_word(e, plan->b_k_stride));
    for (int v = 0; v < vectors; v++)
        columns[v] = be_load(u, a->vector,
                             element_at(a, a->params[UKERNEL_B], at, v * lanes),
                             (unsigned)a->bytes);
    if (streams(plan, a->bytes)) {
        prefetch_b(a, k);
        if (plan->a_in_place && plan->a_m_stride == 1)
            prefetch_a(a, k);
    }
    if (a->reads_far)
        prefetch_next_a(a, k);
    for (int row = 0; row < plan->mr; row++) {
        Val x = broadcast_a(a, row, before);
        for (int v = 0; v < vectors; v++) {
            Val *sum = &acc[row * vectors + v];
            *sum = be_intrinsic3(u, "llvm.fma", x, columns[v], *sum);
        }
    }
}

/* A loop that carries the tile's sums. */
static void
begin_k_loop(const MicroKernel *a, BeLoop *l, Val end, Val *acc,
             const char *name)
{
    Emit *e = a->e;
    be_loop_begin(e->u, l, be_emit_word(e, 0), end, be_emit_word(e, 1), name);
    for (int i = 0; i < a->plan->mr * a->plan->vectors; i++)
        acc[i] = be_loop_carry(e->u, l, acc[i]);
    be_loop_body(e->u, l);
}

static void
end_k_loop(const MicroKernel *a, BeLoop *l, Val *acc)
{
    int num = a->plan->mr * a->plan->vectors;
    for (int i = 0; i < num; i++)
        be_loop_next(l, i, acc[i]);
    be_loop_end(a->e->u, l);
    for (int i = 0; i < num; i++)
        acc[i] = be_loop_result(l, i);
}

static void
accumulate_k(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeLoop l;
    begin_k_loop(a, &l, a->params[UKERNEL_K], acc, "k");
    Val step = be_emit_word(e, a->plan->a_k_stride);
    rank1_update(a, l.index, be_mul(e->u, l.index, step), acc);
    end_k_loop(a, &l, acc);
}

/* Those of a line; the first has number k and is `before` elements behind. */
static void
accumulate_run(const MicroKernel *a, Val k, Val before, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t run = a->m_lines->run;
    BeLoop l;
    if (run <= SHORT_RUN) {
        for (int64_t i = 0; i < run; i++) {
            Val number = be_add(u, k, be_emit_word(e, i));
            rank1_update(a, number, be_add(u, before, be_emit_word(e, i)), acc);
        }
        return;
    }
    begin_k_loop(a, &l, be_emit_word(e, run), acc, "k");
    Val number = be_add(u, k, l.index);
    rank1_update(a, number, be_add(u, before, l.index), acc);
    end_k_loop(a, &l, acc);
}

/* All products of windows. */
static void
accumulate_m_lines(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    BeLoop l;
    begin_k_loop(a, &l, be_emit_word(e, a->m_lines->lines), acc, "run");
    Val k = be_mul(u, l.index, be_emit_word(e, a->m_lines->run));
    Val before = be_mul(u, l.index, be_emit_word(e, a->plan->line_size));
    accumulate_run(a, k, before, acc);
    end_k_loop(a, &l, acc);
}

/* Products k .. k + count along a strip, the first of them being number
 * `first` there. */
static void
accumulate_along_line(const MicroKernel *a, Val k, Val count, Val first,
                      Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val step = be_emit_word(e, a->plan->a_k_stride);
    BeLoop l;
    begin_k_loop(a, &l, count, acc, "k");
    Val before = be_mul(u, be_add(u, first, l.index), step);
    rank1_update(a, be_add(u, k, l.index), before, acc);
    end_k_loop(a, &l, acc);
}

/* Products of one strip after the other, which begin where the lines do but for
 * the first. */
static void
accumulate_k_lines(MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val count = a->params[UKERNEL_K], begin = a->params[UKERNEL_A];
    int64_t step = a->k_lines->lines * a->plan->line_size * a->bytes;
    int num = a->plan->mr * a->plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, NULL, "strip");
    for (int i = 0; i < num; i++)
        acc[i] = be_loop_carry(u, &l, acc[i]);
    Val first = be_loop_carry(u, &l, a->params[UKERNEL_LINE_K]);
    a->params[UKERNEL_A] = be_loop_carry(u, &l, begin);
    be_loop_body(u, &l);
    Val left = be_sub(u, be_emit_word(e, a->k_lines->length), first);
    l.step = be_min(u, left, be_sub(u, count, l.index));
    accumulate_along_line(a, l.index, l.step, first, acc);
    be_loop_next(&l, num, be_emit_word(e, 0));
    be_loop_next(&l, num + 1, be_offset_const(u, a->params[UKERNEL_A], step));
    end_k_loop(a, &l, acc);
}

/* Where the sum of a row and vector is. */
static Val
accumulator_at(const MicroKernel *a, int i)
{
    BeUnit *u = a->e->u;
    int row = i / a->plan->vectors, v = i % a->plan->vectors;
    Val before =
        be_mul(u, a->params[UKERNEL_C_STRIDE], be_emit_word(a->e, row));
    Val p = be_offset(u, a->params[UKERNEL_C], before);
    return be_offset_const(u, p, v * a->plan->lanes * a->bytes);
}

/* What the sums will be added to, or where those of the rows behind will be. */
static void
prefetch_c(const MicroKernel *a, int first_row)
{
    int vectors = a->plan->vectors, num = a->plan->mr * vectors;
    for (int i = 0; i < num; i++)
        be_prefetch(a->e->u, accumulator_at(a, first_row * vectors + i), true);
}

/* Those of the first `across` columns: sums or, if there is more, those of the
 * blocks before and sums. */
static void
store_accumulators(const MicroKernel *a, const Val *acc, Val across, bool more)
{
    BeUnit *u = a->e->u;
    int vectors = a->plan->vectors, lanes = a->plan->lanes;
    unsigned align = (unsigned)a->bytes;
    Val masks[BE_MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        Val left = be_sub(u, across, be_emit_word(a->e, v * lanes));
        masks[v] = be_emit_first_lanes(a->e, left, lanes);
    }
    for (int i = 0; i < a->plan->mr * vectors; i++) {
        Val p = accumulator_at(a, i), mask = masks[i % vectors], sum = acc[i];
        if (more) {
            Val old = mask ? be_load_masked(u, a->vector, p, align, mask)
                           : be_load(u, a->vector, p, align);
            sum = LLVMBuildFAdd(u->builder, old, sum, "");
        }
        if (mask)
            be_store_masked(u, sum, p, align, mask);
        else
            be_store(u, sum, p, align);
    }
}

static void
store_tile_columns(const MicroKernel *a, const Val *acc, Val across)
{
    BeUnit *u = a->e->u;
    Block more = be_block(u, "more"), first = be_block(u, "first");
    Block end = be_block(u, "end");
    be_cond_br(u, a->params[UKERNEL_ACCUMULATE], more, first);
    be_position_at_end(u, more);
    store_accumulators(a, acc, across, true);
    be_br(u, end);
    be_position_at_end(u, first);
    store_accumulators(a, acc, across, false);
    be_br(u, end);
    be_position_at_end(u, end);
}

/* All columns of a tile, or those of a result that ends within it. */
static void
store_tile(const MicroKernel *a, const Gemm *g, const Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t width = (int64_t)a->plan->lanes * a->plan->vectors;
    Val all = be_emit_word(e, width), across = a->params[UKERNEL_N];
    Dim extent = g->n->extent;
    bool known = ir_dim_is_const(extent);
    if (!g->direct || (known && (extent.c % width == 0 || extent.c < width))) {
        store_tile_columns(a, acc, g->direct ? be_emit_dim(e, extent) : all);
        return;
    }
    Block whole = be_block(u, "whole"), some = be_block(u, "some");
    Block end = be_block(u, "stored");
    be_cond_br(u, be_icmp(u, LLVMIntSGE, across, all), whole, some);
    be_position_at_end(u, whole);
    store_tile_columns(a, acc, all);
    be_br(u, end);
    be_position_at_end(u, some);
    store_tile_columns(a, acc, across);
    be_br(u, end);
    be_position_at_end(u, end);
}

static bool
is_far(const Emit *e, const KArray *array)
{
    return be_dim_bound(e->k, array->size) *
               (int64_t)dtype_info[array->dtype].bytes >
           b_cache_bytes(e);
}

static bool
reads_far(const Emit *e, const Gemm *g, const GemmPlan *plan)
{
    return plan->a_in_place && plan->a_k_stride == 1 &&
           plan->a_m_stride == plan->kc && !plan->k_blocked &&
           is_far(e, g->a.plain->load.array);
}

/* Whether few products go into a result that is not in the second cache: then
 * that is what takes time. */
static bool
writes_far(const Emit *e, const Gemm *g, const GemmPlan *plan)
{
    enum { FEW_PRODUCTS = 16 };
    return g->direct && plan->kc <= FEW_PRODUCTS &&
           is_far(e, g->direct->store.array);
}

Val
be_gemm_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    Type params[] = {u->ptr, u->ptr, u->ptr, u->i64,
                     u->i64, u->i1,  u->i64, u->i64};
    MicroKernel a = {.e = e, .plan = plan};
    a.m_lines = &g->m_lines;
    a.k_lines = &g->k_lines;
    a.type = be_emit_type(e, g->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    a.reads_far = reads_far(e, g, plan);
    Val fn = be_func_begin(u, "micro_kernel", u->nothing, params,
                           UKERNEL_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    be_emit_use_registers(e);
    for (int i = 0; i < UKERNEL_NUM_PARAMS; i++)
        a.params[i] = LLVMGetParam(fn, (unsigned)i);
    Val acc[BE_MAX_CARRIED];
    int num = plan->mr * plan->vectors;
    for (int i = 0; i < num; i++)
        acc[i] = be_zero(a.vector);
    if (plan->k_blocked)
        prefetch_c(&a, 0);
    else if (writes_far(e, g, plan))
        prefetch_c(&a, plan->mr);
    if (plan->k_segments)
        accumulate_k_lines(&a, acc);
    else if (plan->line_size)
        accumulate_m_lines(&a, acc);
    else
        accumulate_k(&a, acc);
    store_tile(&a, g, acc);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
