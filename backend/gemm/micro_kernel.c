/*
 * micro_kernel.c - a tile of C in registers
 *
 * The micro-kernel is a function of its own.  For each k it makes a rank-1
 * update: nr elements of B, a vector or some, times an element of A for each of
 * mr rows, added to accumulators in registers.  It reads A and B by the plan's
 * layouts and leaves the accumulators in memory.  A call adds at most one block
 * of k (D2), but along im2col lines all of them, one after the other.
 *
 * The loop over k is unrolled: what it does beside the multiplications takes
 * slots of the front end, of which a core has half where a neighbour runs on
 * its other hardware thread.
 */
#include "backend/gemm/gemm.h"

#include <string.h>

enum {
    SHORT_RUN = 16, /* k that are emitted one by one */
    UNROLLED = 4,   /* k in a round, */
    MANY_SUMS = 16, /* and fewer where each has more multiplications */
    AHEAD = 8,      /* k that are prefetched, */
    FAR_AHEAD = 32, /* and where they go by quickly */
};

typedef struct MicroKernel {
    Emit *e;
    const GemmPlan *plan;
    const GemmLines *m_lines, *k_lines;
    Type type, vector;
    int64_t bytes;
    bool reads_far; /* rows along k, beyond the second cache */
    bool adds;      /* to sums of earlier blocks of k */
    bool in_full;   /* the number of products is a multiple of the unroll factor
                       in every block of k */
    Val params[UKERNEL_NUM_PARAMS];
} MicroKernel;

/* The address `count` elements after p. */
static Val
further(const MicroKernel *a, Val p, int64_t count)
{
    return be_offset_const(a->e->u, p, count * a->bytes);
}

/* The same for a number that is not constant. */
static Val
element_at(const MicroKernel *a, Val p, Val index)
{
    return LLVMBuildGEP2(a->e->u->builder, a->type, p, &index, 1, "");
}

/* Elements from a tile's first row to another. */
static int64_t
row_offset(const MicroKernel *a, int row)
{
    int64_t run = a->plan->a.segments ? a->k_lines->run : a->plan->mr;
    return row / run * a->plan->a.line_size + row % run * a->plan->a.stride;
}

/* The number of a row for the product whose first row is at p. */
static Val
broadcast_a(const MicroKernel *a, int row, Val p)
{
    Emit *e = a->e;
    p = further(a, p, row_offset(a, row));
    return be_splat(e->u, be_load(e->u, a->type, p, (unsigned)a->bytes),
                    a->plan->lanes);
}

/* Prefetches those of some products after the one at p; at the end, of the next
 * panel. */
static void
prefetch_b(const MicroKernel *a, Val p)
{
    const GemmPlan *plan = a->plan;
    int ahead = plan->a.segments ? FAR_AHEAD : AHEAD;
    int64_t width = be_gemm_plan_nr(plan);
    p = further(a, p, ahead * plan->b.k_stride);
    for (int64_t i = 0; i < width; i += CACHE_LINE / a->bytes)
        be_prefetch(a->e->u, further(a, p, i), false);
}

/* The rows of such a product, side by side. */
static void
prefetch_a(const MicroKernel *a, Val p)
{
    const GemmPlan *plan = a->plan;
    p = further(a, p, AHEAD * plan->a.k_stride);
    be_prefetch(a->e->u, p, false);
    be_prefetch(a->e->u, further(a, p, plan->mr - 1), false);
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
    Val p = element_at(a, a->params[UKERNEL_AHEAD], k);
    for (int row = 0; row < be_gemm_rows_ahead(a->plan); row++)
        be_prefetch(a->e->u, further(a, p, row * a->plan->a.stride), false);
}

/* The product whose rows begin at x, and columns at y. */
static void
rank1_update(const MicroKernel *a, Val x, Val y, Val *acc)
{
    BeUnit *u = a->e->u;
    const GemmPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    int vectors = plan->vectors, lanes = plan->lanes;
    for (int v = 0; v < vectors; v++)
        columns[v] =
            be_load(u, a->vector, further(a, y, v * lanes), (unsigned)a->bytes);
    if (be_gemm_streams_b(plan, a->bytes)) {
        prefetch_b(a, y);
        if (plan->a.kind == GEMM_IN_PLACE && plan->a.stride == 1)
            prefetch_a(a, x);
    }
    for (int row = 0; row < plan->mr; row++) {
        Val element = broadcast_a(a, row, x);
        for (int v = 0; v < vectors; v++) {
            Val *sum = &acc[row * vectors + v];
            *sum = be_intrinsic3(u, "llvm.fma", element, columns[v], *sum);
        }
    }
}

/* Lets a loop carry the tile's accumulators, before anything else. */
static void
carry_sums(const MicroKernel *a, BeLoop *l, Val *acc)
{
    for (int i = 0; i < a->plan->mr * a->plan->vectors; i++)
        acc[i] = be_loop_carry(a->e->u, l, acc[i]);
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

/* Successive products: where rows and columns of the first are, and how many
 * elements after it the rows of the next are. */
typedef struct Products {
    Val rows, columns;
    int64_t step;
} Products;

/* `count` products, the first of them p's. */
static void
add_each(const MicroKernel *a, const Products *p, int64_t count, Val *acc)
{
    for (int64_t i = 0; i < count; i++) {
        Val rows = further(a, p->rows, i * p->step);
        Val columns = further(a, p->columns, i * a->plan->b.k_stride);
        rank1_update(a, rows, columns, acc);
    }
}

/* Products from number `begin` to `end`, in rounds of so many; p becomes those
 * that follow. */
static void
add_rounds(const MicroKernel *a, Products *p, Val begin, Val end, int round,
           Val *acc)
{
    BeUnit *u = a->e->u;
    int num = a->plan->mr * a->plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(a->e, round), "k");
    carry_sums(a, &l, acc);
    p->rows = be_loop_carry(u, &l, p->rows);
    p->columns = be_loop_carry(u, &l, p->columns);
    be_loop_body(u, &l);
    if (a->reads_far && round > 1)
        prefetch_rows(a, l.index);
    add_each(a, p, round, acc);
    be_loop_next(&l, num, further(a, p->rows, round * p->step));
    be_loop_next(&l, num + 1,
                 further(a, p->columns, round * a->plan->b.k_stride));
    end_k_loop(a, &l, acc);
    p->rows = be_loop_result(&l, num);
    p->columns = be_loop_result(&l, num + 1);
}

/* Products from number `begin` to `end`; a number of them that is known to be a
 * multiple of the unroll factor leaves no rest. */
static void
add_products(const MicroKernel *a, Products p, Val begin, Val end, bool in_full,
             Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int round = unroll_factor(a->plan);
    if (in_full) {
        add_rounds(a, &p, begin, end, round, acc);
        return;
    }
    Val rest = LLVMBuildURem(u->builder, be_sub(u, end, begin),
                             be_emit_word(e, round), "");
    Val middle = be_sub(u, end, rest);
    add_rounds(a, &p, begin, middle, round, acc);
    add_rounds(a, &p, middle, end, 1, acc);
}

/* ---- zeros of A ---------------------------------------------------------- */

/* Where the rows for a k are. */
static Val
rows_at(const MicroKernel *a, Val k)
{
    Val before = be_mul(a->e->u, k, be_emit_word(a->e, a->plan->a.k_stride));
    return element_at(a, a->params[UKERNEL_A], before);
}

static Val
columns_at(const MicroKernel *a, Val k)
{
    Val before = be_mul(a->e->u, k, be_emit_word(a->e, a->plan->b.k_stride));
    return element_at(a, a->params[UKERNEL_B], before);
}

enum { ZEROS = 4 }; /* zero products of a round */

/* Zero times the vectors of B for some k, the first at p: in two chains, since
 * they may be added in any order. */
static Val
zero_products(const MicroKernel *a, Val p)
{
    BeUnit *u = a->e->u;
    Val zero = be_zero(a->vector), sums[2];
    sums[0] = sums[1] = be_float(a->vector, -0.0);
    for (int i = 0; i < ZEROS; i++) {
        Val from = further(a, p, i * a->plan->b.k_stride);
        Val b = be_load(u, a->vector, from, (unsigned)a->bytes);
        sums[i % 2] = be_intrinsic3(u, "llvm.fma", zero, b, sums[i % 2]);
    }
    return LLVMBuildFAdd(u->builder, sums[0], sums[1], "");
}

/* Whether one of the sums, all of them zeros, is -0. */
static Val
has_negative_zero(const MicroKernel *a, const Val *sums)
{
    BeUnit *u = a->e->u;
    Type bits = be_retype(a->vector, a->bytes == 8 ? u->i64 : u->i32);
    Val all = be_zero(bits);
    for (int v = 0; v < a->plan->vectors; v++)
        all = be_or(u, all, LLVMBuildBitCast(u->builder, sums[v], bits, ""));
    Val negative = be_icmp(u, LLVMIntSLT, all, be_zero(bits));
    return be_intrinsic1(u, "llvm.vector.reduce.or", negative);
}

/* Adds zero times B, which is finite, for the k from begin to end, a multiple
 * of ZEROS: what is +0 in all columns stays so, and leaves only -0. */
static void
add_zero_products(const MicroKernel *a, Val begin, Val end, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int vectors = a->plan->vectors, num = a->plan->mr * vectors;
    Val sums[BE_MAX_VECTORS], next[BE_MAX_VECTORS];
    BeLoop l;
    be_loop_begin(u, &l, begin, end, NULL, "zero");
    for (int v = 0; v < vectors; v++)
        sums[v] = be_loop_carry(u, &l, be_float(a->vector, -0.0));
    be_loop_body(u, &l);
    Val first = columns_at(a, l.index);
    for (int v = 0; v < vectors; v++) {
        Val sum = zero_products(a, further(a, first, v * a->plan->lanes));
        next[v] = LLVMBuildFAdd(u->builder, sums[v], sum, "");
        be_loop_next(&l, v, next[v]);
    }
    Val more = has_negative_zero(a, next), rest = be_sub(u, end, l.index);
    l.step = be_select(u, more, be_emit_word(e, ZEROS), rest);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        acc[i] = LLVMBuildFAdd(u->builder, acc[i],
                               be_loop_result(&l, i % vectors), "");
}

/* The products from number `begin` to `end`. */
static void
accumulate_from_to(const MicroKernel *a, Val begin, Val end, Val *acc)
{
    Products all = {.step = a->plan->a.k_stride};
    all.rows = rows_at(a, begin);
    all.columns = columns_at(a, begin);
    add_products(a, all, begin, end, a->in_full, acc);
}

/* ---- layouts of A -------------------------------------------------------- */

static void
accumulate_k(const MicroKernel *a, Val *acc)
{
    Val end = a->params[UKERNEL_END];
    accumulate_from_to(a, a->params[UKERNEL_FIRST], end, acc);
    if (a->plan->skips_zeros)
        add_zero_products(a, end, a->params[UKERNEL_K], acc);
}

/* Those of a line. */
static void
accumulate_run(const MicroKernel *a, const Products *line, Val *acc)
{
    Emit *e = a->e;
    int64_t run = a->m_lines->run;
    bool in_full = run % unroll_factor(a->plan) == 0;
    if (run > SHORT_RUN)
        add_products(a, *line, be_emit_word(e, 0), be_emit_word(e, run),
                     in_full, acc);
    else
        add_each(a, line, run, acc);
}

/* All k, along im2col lines along m. */
static void
accumulate_m_lines(const MicroKernel *a, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = a->plan;
    int num = plan->mr * plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, a->m_lines->lines),
                  be_emit_word(e, 1), "run");
    carry_sums(a, &l, acc);
    Products line = {.step = 1};
    line.rows = be_loop_carry(u, &l, a->params[UKERNEL_A]);
    line.columns = be_loop_carry(u, &l, a->params[UKERNEL_B]);
    be_loop_body(u, &l);
    accumulate_run(a, &line, acc);
    be_loop_next(&l, num, further(a, line.rows, plan->a.line_size));
    be_loop_next(&l, num + 1,
                 further(a, line.columns, a->m_lines->run * plan->b.k_stride));
    end_k_loop(a, &l, acc);
}

/* The k from begin to end, which need not be those of whole lines. */
static void
accumulate_m_block(const MicroKernel *a, Val begin, Val end, Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    const GemmPlan *plan = a->plan;
    Val run = be_emit_word(e, a->m_lines->run);
    bool in_full = a->m_lines->run % unroll_factor(plan) == 0;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, NULL, "run");
    carry_sums(a, &l, acc);
    be_loop_body(u, &l);
    Val line = LLVMBuildUDiv(b, l.index, run, "");
    Val first = LLVMBuildURem(b, l.index, run, "");
    Val before = be_mul(u, line, be_emit_word(e, plan->a.line_size));
    Products some = {.step = 1};
    some.rows = element_at(a, a->params[UKERNEL_A], be_add(u, before, first));
    some.columns = columns_at(a, l.index);
    Val in_line = be_sub(u, run, first);
    l.step = be_min(u, in_line, be_sub(u, end, l.index));
    add_products(a, some, be_emit_word(e, 0), l.step, in_full, acc);
    end_k_loop(a, &l, acc);
}

/* k .. k + count along a line; the first has number `first` there. */
static void
accumulate_along_line(const MicroKernel *a, Val k, Val count, Val first,
                      Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = a->plan;
    Val before = be_mul(u, k, be_emit_word(e, plan->b.k_stride));
    Products some = {.step = plan->a.k_stride};
    some.rows = rows_at(a, first);
    some.columns = element_at(a, a->params[UKERNEL_B], before);
    bool in_full = a->k_lines->length % unroll_factor(plan) == 0;
    add_products(a, some, be_emit_word(e, 0), count, in_full, acc);
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
    carry_sums(a, &l, acc);
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

/* The addresses of a tile's accumulators, the first at p. */
static void
find_accumulators(const MicroKernel *a, Val p, Val *at)
{
    BeUnit *u = a->e->u;
    int vectors = a->plan->vectors, num = a->plan->mr * vectors;
    for (int i = 0; i < num; i++) {
        if (i && i % vectors == 0)
            p = be_offset(u, p, a->params[UKERNEL_C_STRIDE]);
        at[i] = further(a, p, i % vectors * a->plan->lanes);
    }
}

/* Prefetches the accumulators: those of the earlier sums, or of the next rows.
 */
static void
prefetch_c(const MicroKernel *a, int first_row)
{
    BeUnit *u = a->e->u;
    Val at[BE_MAX_CARRIED], p = a->params[UKERNEL_C];
    if (first_row)
        p = be_offset(u, p,
                      be_mul(u, a->params[UKERNEL_C_STRIDE],
                             be_emit_word(a->e, first_row)));
    find_accumulators(a, p, at);
    for (int i = 0; i < a->plan->mr * a->plan->vectors; i++)
        be_prefetch(u, at[i], true);
}

/* Adds the sums of earlier blocks if there are any. */
static void
add_earlier(const MicroKernel *a, const Val *at, const Val *masks, Val *acc)
{
    BeUnit *u = a->e->u;
    unsigned align = (unsigned)a->bytes;
    int vectors = a->plan->vectors, num = a->plan->mr * vectors;
    Block more = be_block(u, "more"), end = be_block(u, "end");
    Block from[] = {be_insert_block(u), more};
    Val sums[BE_MAX_CARRIED];
    be_cond_br(u, a->params[UKERNEL_ACCUMULATE], more, end);
    be_position_at_end(u, more);
    for (int i = 0; i < num; i++) {
        Val mask = masks[i % vectors];
        Val old = mask ? be_load_masked(u, a->vector, at[i], align, mask)
                       : be_load(u, a->vector, at[i], align);
        sums[i] = LLVMBuildFAdd(u->builder, old, acc[i], "");
    }
    be_br(u, end);
    be_position_at_end(u, end);
    for (int i = 0; i < num; i++) {
        Val values[] = {acc[i], sums[i]};
        acc[i] = LLVMBuildPhi(u->builder, a->vector, "");
        LLVMAddIncoming(acc[i], values, from, 2);
    }
}

/* Stores the sums of the first `across` columns. */
static void
store_tile_columns(const MicroKernel *a, const Val *sums, Val across)
{
    BeUnit *u = a->e->u;
    int vectors = a->plan->vectors, lanes = a->plan->lanes;
    int num = a->plan->mr * vectors;
    unsigned align = (unsigned)a->bytes;
    Val masks[BE_MAX_VECTORS], at[BE_MAX_CARRIED], acc[BE_MAX_CARRIED];
    for (int v = 0; v < vectors; v++) {
        Val left = be_sub(u, across, be_emit_word(a->e, v * lanes));
        masks[v] = be_emit_first_lanes(a->e, left, lanes);
    }
    memcpy(acc, sums, (size_t)num * sizeof *acc);
    find_accumulators(a, a->params[UKERNEL_C], at);
    if (a->adds)
        add_earlier(a, at, masks, acc);
    for (int i = 0; i < num; i++) {
        if (masks[i % vectors])
            be_store_masked(u, acc[i], at[i], align, masks[i % vectors]);
        else
            be_store(u, acc[i], at[i], align);
    }
}

/* All columns of a tile, or those of a result that ends within it. */
static void
store_tile(const MicroKernel *a, const Gemm *g, const Val *acc)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t width = be_gemm_plan_nr(a->plan);
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
    MicroKernel a = {.e = e, .plan = plan, .adds = plan->kc > IR_K_BLOCK};
    a.adds |= plan->k_blocked;
    a.type = be_emit_type(e, g->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    memcpy(a.params, params, sizeof a.params);
    store_tile(&a, g, sums);
}

/* Block after block of k along im2col lines along m, each added to the sums of
 * those before. */
static void
multiply_m_blocks(MicroKernel *a, const Gemm *g)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val acc[BE_MAX_CARRIED], all = a->params[UKERNEL_K];
    Val size = be_emit_word(e, IR_K_BLOCK);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), all, size, "block");
    be_loop_body(u, &l);
    for (int i = 0; i < a->plan->mr * a->plan->vectors; i++)
        acc[i] = be_zero(a->vector);
    Val end = be_min(u, be_add(u, l.index, size), all);
    accumulate_m_block(a, l.index, end, acc);
    a->params[UKERNEL_ACCUMULATE] =
        be_icmp(u, LLVMIntNE, l.index, be_emit_word(e, 0));
    store_tile(a, g, acc);
    be_loop_end(u, &l);
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

bool
be_gemm_k_is_multiple(const Gemm *g, int n)
{
    for (int i = 0; i < g->k.count; i++) {
        Dim extent = g->k.vars[i]->extent;
        if (ir_dim_is_const(extent) && extent.c % n == 0)
            return true;
    }
    return false;
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
    Type types[] = {u->ptr, u->ptr, u->ptr, u->i64, u->i64, u->i1,
                    u->i64, u->i64, u->ptr, u->i64, u->i64};
    Val fn = be_func_begin(u, "micro_kernel", u->nothing, types,
                           UKERNEL_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    be_emit_use_registers(e);
    for (int i = 0; i < UKERNEL_NUM_PARAMS; i++)
        params[i] = LLVMGetParam(fn, (unsigned)i);
    return fn;
}

/* The sums of one block of k. */
static void
accumulate(MicroKernel *a, Val *acc)
{
    int num = a->plan->mr * a->plan->vectors;
    for (int i = 0; i < num; i++)
        acc[i] = be_zero(a->vector);
    switch (a->plan->a.kind) {
    case GEMM_K_LINES:
        accumulate_k_lines(a, acc);
        break;
    case GEMM_M_LINES:
        accumulate_m_lines(a, acc);
        break;
    case GEMM_IN_PLACE:
    case GEMM_ALONG_K:
    case GEMM_GROUPS:
    case GEMM_TILES:
        accumulate_k(a, acc);
        break;
    case GEMM_PANELS:
        UNREACHABLE("A in panels");
    }
}

Val
be_gemm_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    MicroKernel a = {.e = e, .plan = plan};
    bool has_blocks = plan->kc > IR_K_BLOCK; /* of its own */
    a.adds = plan->k_blocked || has_blocks;
    a.m_lines = &g->m_lines;
    a.k_lines = &g->k_lines;
    a.type = be_emit_type(e, g->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    a.reads_far = reads_far(e, g, plan);
    a.in_full = be_gemm_k_is_multiple(g, unroll_factor(plan));
    Val fn = be_gemm_micro_kernel_begin(e, a.params);
    Val acc[BE_MAX_CARRIED];
    if (plan->k_blocked)
        prefetch_c(&a, 0);
    else if (writes_far(e, g, plan))
        prefetch_c(&a, plan->mr);
    if (has_blocks) {
        multiply_m_blocks(&a, g);
    } else {
        accumulate(&a, acc);
        store_tile(&a, g, acc);
    }
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
