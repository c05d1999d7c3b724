/*
 * micro_kernel.c - a tile of C in registers
 *
 * The micro-kernel is a function of its own.  For each k it makes a rank-1
 * update: nr elements of B, a vector or some, times an element of A for each of
 * mr rows, added to accumulators in registers.  It reads A and B by the plan's
 * layouts and leaves the accumulators in memory.  A call adds at most one block
 * of k (D2).
 */
#include "backend/gemm/gemm.h"

enum {
    SHORT_RUN = 16, /* k that are emitted one by one */
    L1_BYTES = 32 << 10,
    AHEAD = 8,      /* k that are prefetched, */
    FAR_AHEAD = 32, /* and where they go by quickly */
    LINE = 64,
};

typedef struct MicroKernel {
    Emit *e;
    const GemmPlan *plan;
    const GemmLines *m_lines, *k_lines;
    Type type, vector;
    int64_t bytes;
    bool reads_far; /* rows are dense, beyond the second cache */
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
    int64_t run = a->plan->a.segments ? a->k_lines->run : a->plan->mr;
    return row / run * a->plan->a.line_size + row % run * a->plan->a.stride;
}

/* The number of a row for a product that many elements after the first. */
static Val
broadcast_a(const MicroKernel *a, int row, Val at)
{
    Emit *e = a->e;
    Val p = element_at(a, a->params[UKERNEL_A], at, row_offset(a, row));
    return be_splat(e->u, be_load(e->u, a->type, p, (unsigned)a->bytes),
                    a->plan->lanes);
}

/* Whether B of a block is larger than L1. */
static bool
streams(const GemmPlan *plan, int64_t bytes)
{
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    return plan->kc * width * bytes > L1_BYTES;
}

/* Prefetches those of some products further on; at the end, of the next panel.
 */
static void
prefetch_b(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    int ahead = plan->a.segments ? FAR_AHEAD : AHEAD;
    Val later = be_add(e->u, k, be_emit_word(e, ahead));
    Val at = be_mul(e->u, later, be_emit_word(e, plan->b.k_stride));
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    for (int64_t i = 0; i < width; i += LINE / a->bytes)
        be_prefetch(e->u, element_at(a, a->params[UKERNEL_B], at, i), false);
}

/* The rows of such a product, side by side. */
static void
prefetch_a(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    Val later = be_add(e->u, k, be_emit_word(e, AHEAD));
    Val at = be_mul(e->u, later, be_emit_word(e, plan->a.k_stride));
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, 0), false);
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, plan->mr - 1),
                false);
}

/* Rows that are one after the other: for each product it prefetches as much of
 * the next tile's as a product has on average. */
static void
prefetch_next_a(const MicroKernel *a, Val k)
{
    Emit *e = a->e;
    const GemmPlan *plan = a->plan;
    Val at = be_mul(e->u, k, be_emit_word(e, plan->mr));
    int64_t more = plan->mr * plan->a.stride;
    be_prefetch(e->u, element_at(a, a->params[UKERNEL_A], at, more), false);
}

/* Product k, whose rows are `before` elements after those of the first. */
static void
rank1_update(const MicroKernel *a, Val k, Val before, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    int vectors = plan->vectors, lanes = plan->lanes;
    Val at = be_mul(u, k, be_emit_word(e, plan->b.k_stride));
    for (int v = 0; v < vectors; v++)
        columns[v] = be_load(u, a->vector,
                             element_at(a, a->params[UKERNEL_B], at, v * lanes),
                             (unsigned)a->bytes);
    if (streams(plan, a->bytes)) {
        prefetch_b(a, k);
        if (plan->a.kind == GEMM_IN_PLACE && plan->a.stride == 1)
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

/* A loop that carries the tile's accumulators. */
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
    Val step = be_emit_word(e, a->plan->a.k_stride);
    rank1_update(a, l.index, be_mul(e->u, l.index, step), acc);
    end_k_loop(a, &l, acc);
}

/* Those of a line; the first has number k and is `before` elements after it. */
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

/* All k, along im2col lines along m. */
static void
accumulate_m_lines(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    BeLoop l;
    begin_k_loop(a, &l, be_emit_word(e, a->m_lines->lines), acc, "run");
    Val k = be_mul(u, l.index, be_emit_word(e, a->m_lines->run));
    Val before = be_mul(u, l.index, be_emit_word(e, a->plan->a.line_size));
    accumulate_run(a, k, before, acc);
    end_k_loop(a, &l, acc);
}

/* k .. k + count along a line; the first has number `first` there. */
static void
accumulate_along_line(const MicroKernel *a, Val k, Val count, Val first,
                      Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val step = be_emit_word(e, a->plan->a.k_stride);
    BeLoop l;
    begin_k_loop(a, &l, count, acc, "k");
    Val before = be_mul(u, be_add(u, first, l.index), step);
    rank1_update(a, be_add(u, k, l.index), before, acc);
    end_k_loop(a, &l, acc);
}

/* One line after the other, each from its beginning, except the first. */
static void
accumulate_k_lines(MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val count = a->params[UKERNEL_K], begin = a->params[UKERNEL_A];
    int64_t step = a->k_lines->lines * a->plan->a.line_size * a->bytes;
    int num = a->plan->mr * a->plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, NULL, "line");
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

/* The address of the accumulator of a row and vector. */
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

/* The initial value of accumulators: the earlier sums, or the address of those
 * of the next rows. */
static void
prefetch_c(const MicroKernel *a, int first_row)
{
    int vectors = a->plan->vectors, num = a->plan->mr * vectors;
    for (int i = 0; i < num; i++)
        be_prefetch(a->e->u, accumulator_at(a, first_row * vectors + i), true);
}

/* Stores those of the first `across` columns: the sums, added to the sums of
 * earlier blocks if there are any. */
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
           be_gemm_l2_bytes(e->target);
}

static bool
reads_far(const Emit *e, const Gemm *g, const GemmPlan *plan)
{
    return plan->a.kind == GEMM_IN_PLACE && plan->a.k_stride == 1 &&
           plan->a.stride == plan->kc && !plan->k_blocked &&
           is_far(e, g->a.plain->load.array);
}

/* Whether few products go into a result that is not in the second cache: then
 * its memory traffic dominates. */
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
    switch (plan->a.kind) {
    case GEMM_K_LINES:
        accumulate_k_lines(&a, acc);
        break;
    case GEMM_M_LINES:
        accumulate_m_lines(&a, acc);
        break;
    case GEMM_IN_PLACE:
    case GEMM_ALONG_K:
    case GEMM_GROUPS:
    case GEMM_TILES:
        accumulate_k(&a, acc);
        break;
    case GEMM_PANELS:
        UNREACHABLE("A in panels");
    }
    store_tile(&a, g, acc);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
