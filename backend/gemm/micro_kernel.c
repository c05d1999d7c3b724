/*
 * micro_kernel.c - a tile of C in registers
 *
 * The micro-kernel is a function of its own.  For each k it makes a rank-1
 * update: nr elements of B, a vector or some, times an element of A for each of
 * mr rows, added to accumulators in registers.  It reads A and B by the plan's
 * layouts and leaves the accumulators in memory.  A call adds at most one block
 * of k (D2).
 *
 * The loop over k is unrolled: what it does beside the multiplications takes
 * slots of the front end, of which a core has half where a neighbour runs on
 * its other hardware thread.
 *
 * Weights that a mask hides are zeros at the first or last k of a tile, in half
 * of causal attention.  Products of such k are one row instead of mr: zero
 * times B, which is +0, -0 or, where B is not finite, NaN, as in each of the
 * rows.
 */
#include "backend/gemm/gemm.h"

#include <string.h>

enum {
    SHORT_RUN = 16, /* k that are emitted one by one */
    L1_BYTES = 32 << 10,
    ZERO_GROUP = 16, /* k whose elements of A are compared with 0 together */
    MIN_K_FOR_ZEROS = 128,
    UNROLLED = 4,   /* k in a round, */
    MANY_SUMS = 16, /* and fewer where each has more multiplications */
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
    bool reads_far; /* rows along k, beyond the second cache */
    bool looks_for_zeros;
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

/* The unroll factor of the loop over k. */
static int
unroll_factor(const GemmPlan *plan)
{
    return plan->mr * plan->vectors > MANY_SUMS ? UNROLLED / 2 : UNROLLED;
}

/* Rows along k, further on: their elements for the same k. */
static void
prefetch_rows(const MicroKernel *a, Val k)
{
    for (int row = 0; row < be_gemm_rows_ahead(a->plan); row++)
        be_prefetch(
            a->e->u,
            element_at(a, a->params[UKERNEL_AHEAD], k, row * a->plan->a.stride),
            false);
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
begin_k_loop(const MicroKernel *a, BeLoop *l, Val begin, Val end, int step,
             Val *acc, const char *name)
{
    Emit *e = a->e;
    be_loop_begin(e->u, l, begin, end, be_emit_word(e, step), name);
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

/* Successive products: the number of the first, the place of its rows, and how
 * many elements after it those of the next are. */
typedef struct Products {
    Val k, before;
    int64_t step;
} Products;

/* Those from number `begin` to `end`, in rounds of so many. */
static void
add_rounds(const MicroKernel *a, const Products *p, Val begin, Val end,
           int round, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    BeLoop l;
    begin_k_loop(a, &l, begin, end, round, acc, "k");
    if (a->reads_far && round > 1)
        prefetch_rows(a, be_add(u, p->k, l.index));
    for (int i = 0; i < round; i++) {
        Val number = be_add(u, l.index, be_emit_word(e, i));
        Val further = be_mul(u, number, be_emit_word(e, p->step));
        Val rows = be_add(u, p->before, further);
        rank1_update(a, be_add(u, p->k, number), rows, acc);
    }
    end_k_loop(a, &l, acc);
}

static void
add_products(const MicroKernel *a, const Products *p, Val begin, Val end,
             Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int round = unroll_factor(a->plan);
    Val rest = LLVMBuildURem(u->builder, be_sub(u, end, begin),
                             be_emit_word(e, round), "");
    Val middle = be_sub(u, end, rest);
    add_rounds(a, p, begin, middle, round, acc);
    add_rounds(a, p, middle, end, 1, acc);
}

/* ---- zeros of A ---------------------------------------------------------- */

/* Whether these bits of elements of A are those of +0. */
static Val
is_zero(const MicroKernel *a, Val bits)
{
    BeUnit *u = a->e->u;
    if (be_lanes(LLVMTypeOf(bits)))
        bits = be_intrinsic1(u, "llvm.vector.reduce.or", bits);
    return be_icmp(u, LLVMIntEQ, bits, be_zero(LLVMTypeOf(bits)));
}

static Val
bits_at(const MicroKernel *a, int lanes, Val at, int64_t more)
{
    BeUnit *u = a->e->u;
    Type bits = a->bytes == 8 ? u->i64 : u->i32;
    Val p = element_at(a, a->params[UKERNEL_A], at, more);
    return be_load(u, lanes ? be_vector(bits, lanes) : bits, p,
                   (unsigned)a->bytes);
}

static Val
elements_before(const MicroKernel *a, Val k)
{
    return be_mul(a->e->u, k, be_emit_word(a->e, a->plan->a.k_stride));
}

/* Whether A is 0 in all rows for the group of k that begins there. */
static Val
is_zero_group(const MicroKernel *a, Val k)
{
    const GemmPlan *plan = a->plan;
    bool along_k = plan->a.k_stride == 1;
    int loads = along_k ? plan->mr : ZERO_GROUP;
    int lanes = along_k ? ZERO_GROUP : plan->mr;
    Val at = elements_before(a, k), all = NULL;
    for (int i = 0; i < loads; i++) {
        int64_t more = along_k ? row_offset(a, i) : i * plan->a.k_stride;
        Val bits = bits_at(a, lanes, at, more);
        all = all ? be_or(a->e->u, all, bits) : bits;
    }
    return is_zero(a, all);
}

/* The length of the groups that are 0 at the beginning of the first `count` k,
 * or at the end: with few other k there can be none, and most A have none: so
 * one element is looked at before. */
static Val
zeros_at(const MicroKernel *a, Val count, bool at_end)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val none = be_emit_word(e, 0), group = be_emit_word(e, ZERO_GROUP);
    Val last = be_sub(u, a->params[UKERNEL_K], be_emit_word(e, 1));
    Val sample = at_end ? elements_before(a, be_max(u, last, none)) : none;
    Val end = be_sub(u, count, be_emit_word(e, ZERO_GROUP - 1));
    BeLoop l;
    end = be_select(u, is_zero(a, bits_at(a, 0, sample, 0)), end, none);
    be_loop_begin(u, &l, none, end, NULL, "zeros");
    Val length = be_loop_carry(u, &l, none);
    be_loop_body(u, &l);
    Val more = be_add(u, l.index, group), first = l.index;
    if (at_end)
        first = be_sub(u, a->params[UKERNEL_K], more);
    Val zero = is_zero_group(a, first);
    l.step = be_select(u, zero, group, be_max(u, end, group));
    be_loop_next(&l, 0, be_select(u, zero, more, length));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* Adds zero times B for the k of groups, in any order: a sum of zeros is -0
 * where all of them are. */
static void
add_zero_products(const MicroKernel *a, Val begin, Val end, Val *sums)
{
    enum { PARTS = 4 }; /* whose latencies overlap */
    Emit *e = a->e;
    BeUnit *u = e->u;
    int vectors = a->plan->vectors, lanes = a->plan->lanes;
    Val zero = be_zero(a->vector), parts[PARTS];
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, ZERO_GROUP), "zero");
    for (int v = 0; v < vectors; v++)
        sums[v] = be_loop_carry(u, &l, sums[v]);
    be_loop_body(u, &l);
    Val at = be_mul(u, l.index, be_emit_word(e, a->plan->b.k_stride));
    for (int v = 0; v < vectors; v++) {
        for (int i = 0; i < PARTS; i++)
            parts[i] = be_float(a->vector, -0.0);
        for (int i = 0; i < ZERO_GROUP; i++) {
            int64_t more = i * a->plan->b.k_stride + v * lanes;
            Val p = element_at(a, a->params[UKERNEL_B], at, more);
            Val b = be_load(u, a->vector, p, (unsigned)a->bytes);
            parts[i % PARTS] =
                be_intrinsic3(u, "llvm.fma", zero, b, parts[i % PARTS]);
        }
        for (int i = 0; i < PARTS; i++)
            sums[v] = LLVMBuildFAdd(u->builder, sums[v], parts[i], "");
        be_loop_next(&l, v, sums[v]);
    }
    be_loop_end(u, &l);
    for (int v = 0; v < vectors; v++)
        sums[v] = be_loop_result(&l, v);
}

static void
accumulate_from_to(const MicroKernel *a, Val begin, Val end, Val *acc)
{
    Val none = be_emit_word(a->e, 0);
    Products all = {none, none, a->plan->a.k_stride};
    add_products(a, &all, begin, end, acc);
}

/* Accumulators begin with +0, to which the first zeros add nothing but NaN. */
static void
accumulate_around_zeros(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int num = a->plan->mr * a->plan->vectors, vectors = a->plan->vectors;
    Val sums[BE_MAX_VECTORS], all = a->params[UKERNEL_K];
    Val begin = zeros_at(a, all, false);
    Val end = be_sub(u, all, zeros_at(a, be_sub(u, all, begin), true));
    for (int v = 0; v < vectors; v++)
        sums[v] = be_zero(a->vector);
    add_zero_products(a, be_emit_word(e, 0), begin, sums);
    for (int i = 0; i < num; i++)
        acc[i] = sums[i % vectors];
    accumulate_from_to(a, begin, end, acc);
    for (int v = 0; v < vectors; v++)
        sums[v] = be_float(a->vector, -0.0);
    add_zero_products(a, end, all, sums);
    for (int i = 0; i < num; i++)
        acc[i] = LLVMBuildFAdd(u->builder, acc[i], sums[i % vectors], "");
}

/* ---- layouts of A -------------------------------------------------------- */

static void
accumulate_k(const MicroKernel *a, Val *acc)
{
    if (a->looks_for_zeros)
        accumulate_around_zeros(a, acc);
    else
        accumulate_from_to(a, be_emit_word(a->e, 0), a->params[UKERNEL_K], acc);
}

/* Those of a line; the first has number k and is `before` elements after it. */
static void
accumulate_run(const MicroKernel *a, Val k, Val before, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t run = a->m_lines->run;
    Products line = {k, before, 1};
    if (run > SHORT_RUN) {
        add_products(a, &line, be_emit_word(e, 0), be_emit_word(e, run), acc);
        return;
    }
    for (int64_t i = 0; i < run; i++) {
        Val number = be_add(u, k, be_emit_word(e, i));
        rank1_update(a, number, be_add(u, before, be_emit_word(e, i)), acc);
    }
}

/* All k, along im2col lines along m. */
static void
accumulate_m_lines(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    BeLoop l;
    begin_k_loop(a, &l, be_emit_word(e, 0), be_emit_word(e, a->m_lines->lines),
                 1, acc, "run");
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
    int64_t step = a->plan->a.k_stride;
    Products some = {k, be_mul(e->u, first, be_emit_word(e, step)), step};
    add_products(a, &some, be_emit_word(e, 0), count, acc);
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

void
be_gemm_store_tile(Emit *e, const Gemm *g, const GemmPlan *plan,
                   const Val *params, const Val *sums)
{
    MicroKernel a = {.e = e, .plan = plan};
    a.type = be_emit_type(e, g->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    memcpy(a.params, params, sizeof a.params);
    store_tile(&a, g, sums);
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
           is_far(e, g->a.plain->load.array);
}

/* Whether a look at A's elements costs little beside the products: those of a
 * group are vectors in memory, and there is a first and a last one. */
static bool
looks_for_zeros(const Gemm *g, const GemmPlan *plan)
{
    for (int i = 0; i < g->k.count; i++)
        if (!ir_dim_is_const(g->k.vars[i]->extent))
            return false;
    return plan->kc >= MIN_K_FOR_ZEROS && plan->mr > 1 &&
           (plan->a.k_stride == 1 || plan->a.stride == 1);
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
be_gemm_micro_kernel_begin(Emit *e, Val *params)
{
    BeUnit *u = e->u;
    Type types[] = {u->ptr, u->ptr, u->ptr, u->i64, u->i64,
                    u->i1,  u->i64, u->i64, u->ptr};
    Val fn = be_func_begin(u, "micro_kernel", u->nothing, types,
                           UKERNEL_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    be_emit_use_registers(e);
    for (int i = 0; i < UKERNEL_NUM_PARAMS; i++)
        params[i] = LLVMGetParam(fn, (unsigned)i);
    return fn;
}

Val
be_gemm_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    MicroKernel a = {.e = e, .plan = plan};
    a.m_lines = &g->m_lines;
    a.k_lines = &g->k_lines;
    a.type = be_emit_type(e, g->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    a.reads_far = reads_far(e, g, plan);
    a.looks_for_zeros = looks_for_zeros(g, plan);
    Val fn = be_gemm_micro_kernel_begin(e, a.params);
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
