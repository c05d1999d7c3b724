/*
 * pairs_kernel.c - a tile of C in registers, of products of bf16
 *
 * A and B are packed as f32.  For each group of 32 products a tile has two
 * accumulators for each element, of the even products and of the odd ones; the
 * sums of groups are in memory, where they are read and written once for 32
 * products.  In the order of one chain it has one accumulator for each element.
 */
#include "backend/gemm/pairs.h"

#include "ir/rules/pairs.h"

typedef struct PairsKernel {
    Emit *e;
    const GemmPlan *plan;
    Type type, vector;
    int64_t bytes;
    Val params[UKERNEL_NUM_PARAMS];
    Val sums; /* of groups [mr][lanes * vectors] */
} PairsKernel;

static int
num_vectors(const PairsKernel *a)
{
    return a->plan->mr * a->plan->vectors;
}

static Val
element_at(const PairsKernel *a, Val base, Val index, int64_t more)
{
    BeUnit *u = a->e->u;
    Val p = LLVMBuildGEP2(u->builder, a->type, base, &index, 1, "");
    return be_offset_const(u, p, more * a->bytes);
}

/* ---- products ----------------------------------------------------------- */

/* Adds product k to the chains of the tile. */
static void
add_product(const PairsKernel *a, Val k, Val *chains)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    Val at = be_mul(u, k, be_emit_word(e, plan->b.k_stride));
    for (int v = 0; v < plan->vectors; v++)
        columns[v] = be_load(
            u, a->vector,
            element_at(a, a->params[UKERNEL_B], at, (int64_t)v * plan->lanes),
            (unsigned)a->bytes);
    at = be_mul(u, k, be_emit_word(e, plan->a.k_stride));
    for (int row = 0; row < plan->mr; row++) {
        Val p = element_at(a, a->params[UKERNEL_A], at, row * plan->a.stride);
        Val x = be_splat(u, be_load(u, a->type, p, (unsigned)a->bytes),
                         plan->lanes);
        for (int v = 0; v < plan->vectors; v++) {
            Val *sum = &chains[row * plan->vectors + v];
            *sum = be_intrinsic3(u, "llvm.fma", x, columns[v], *sum);
        }
    }
}

/* Products begin to end, a multiple of `step`, in turns to as many sets of
 * chains, one behind the other. */
static void
add_products(const PairsKernel *a, Val begin, Val end, int step, Val *chains)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int num = step * num_vectors(a);
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, step), "products");
    for (int i = 0; i < num; i++)
        chains[i] = be_loop_carry(u, &l, chains[i]);
    be_loop_body(u, &l);
    for (int i = 0; i < step; i++)
        add_product(a, be_add(u, l.index, be_emit_word(e, i)),
                    chains + i * num_vectors(a));
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, chains[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        chains[i] = be_loop_result(&l, i);
}

/* ---- groups ------------------------------------------------------------- */

/* Adds both chains to the sums.  A group that is not full has zeros, which make
 * -0 of its odd chain +0; those of the even chain change nothing then. */
static void
add_group(const PairsKernel *a, Val count, const Val *chains)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    int num = num_vectors(a);
    Val full = be_icmp(u, LLVMIntEQ, count, be_emit_word(e, IR_PAIRS_GROUP));
    Val nothing = be_select(u, full, be_float(a->type, -0.0), be_zero(a->type));
    nothing = be_splat(u, nothing, a->plan->lanes);
    for (int i = 0; i < num; i++) {
        Val p = be_offset_const(u, a->sums, i * a->plan->lanes * a->bytes);
        Val odd = LLVMBuildFAdd(b, chains[num + i], nothing, "");
        Val both = LLVMBuildFAdd(b, chains[i], odd, "");
        Val sum = be_load(u, a->vector, p, (unsigned)a->bytes);
        be_store(u, LLVMBuildFAdd(b, sum, both, ""), p, (unsigned)a->bytes);
    }
}

static void
add_groups(const PairsKernel *a)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val chains[2 * BE_MAX_CARRIED], none = be_emit_word(e, 0);
    Val size = be_emit_word(e, IR_PAIRS_GROUP);
    BeLoop l;
    be_loop_begin(u, &l, none, a->params[UKERNEL_K], size, "group");
    be_loop_body(u, &l);
    Val count = be_min(u, be_sub(u, a->params[UKERNEL_K], l.index), size);
    Val end = be_add(u, l.index, count);
    Val odd = be_and(u, count, be_emit_word(e, 1));
    Val pairs_end = be_sub(u, end, odd);
    for (int i = 0; i < 2 * num_vectors(a); i++)
        chains[i] = be_zero(a->vector);
    add_products(a, l.index, pairs_end, 2, chains);
    add_products(a, pairs_end, end, 1, chains); /* to the even ones */
    add_group(a, count, chains);
    be_loop_end(u, &l);
}

/* ---- one chain ---------------------------------------------------------- */

/* Products begin to end, a multiple of two: of each two the second first. */
static void
add_pairs(const PairsKernel *a, Val begin, Val end, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int num = num_vectors(a);
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 2), "pair");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    be_loop_body(u, &l);
    add_product(a, be_add(u, l.index, be_emit_word(e, 1)), sums);
    add_product(a, l.index, sums);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_result(&l, i);
}

/* All products.  A last one alone comes after zeros, which make -0 of a sum +0.
 */
static void
add_chain(const PairsKernel *a)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val sums[BE_MAX_CARRIED], all = a->params[UKERNEL_K];
    Val odd = be_and(u, all, be_emit_word(e, 1)), end = be_sub(u, all, odd);
    Val alone = be_icmp(u, LLVMIntNE, odd, be_emit_word(e, 0));
    Val nothing =
        be_select(u, alone, be_zero(a->type), be_float(a->type, -0.0));
    nothing = be_splat(u, nothing, a->plan->lanes);
    for (int i = 0; i < num_vectors(a); i++)
        sums[i] = be_zero(a->vector);
    add_pairs(a, be_emit_word(e, 0), end, sums);
    for (int i = 0; i < num_vectors(a); i++)
        sums[i] = LLVMBuildFAdd(u->builder, sums[i], nothing, "");
    add_products(a, end, all, 1, sums);
    for (int i = 0; i < num_vectors(a); i++)
        be_store(u, sums[i],
                 be_offset_const(u, a->sums, i * a->plan->lanes * a->bytes),
                 (unsigned)a->bytes);
}

/* ---- results ------------------------------------------------------------ */

/* A row, of which `across` columns have accumulators. */
static void
store_row(Emit *e, const GemmPlan *plan, Val from, Val to, Val across, Val more)
{
    BeUnit *u = e->u;
    int lanes = plan->lanes, bytes = 4;
    Type vector = be_vector(u->f32, lanes);
    for (int v = 0; v < plan->vectors; v++) {
        Val left = be_sub(u, across, be_emit_word(e, (int64_t)v * lanes));
        Val mask = be_emit_first_lanes(e, left, lanes);
        Val sum =
            be_load(u, vector, be_offset_const(u, from, v * lanes * bytes),
                    (unsigned)bytes);
        Val p = be_offset_const(u, to, v * lanes * bytes);
        Val old = be_load_masked(u, vector, p, (unsigned)bytes, mask);
        old = be_select(u, more, old, be_float(vector, -0.0));
        sum = LLVMBuildFAdd(u->builder, old, sum, "");
        be_store_masked(u, sum, p, (unsigned)bytes, mask);
    }
}

void
be_gemm_store_sums(Emit *e, const GemmPlan *plan, const Val *params, Val sums)
{
    BeUnit *u = e->u;
    int64_t width = be_gemm_plan_nr(plan);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, plan->mr),
                  be_emit_word(e, 1), "row");
    be_loop_body(u, &l);
    Val from =
        be_offset(u, sums, be_mul(u, l.index, be_emit_word(e, width * 4)));
    Val before = be_mul(u, l.index, params[UKERNEL_C_STRIDE]);
    store_row(e, plan, from, be_offset(u, params[UKERNEL_C], before),
              params[UKERNEL_N], params[UKERNEL_ACCUMULATE]);
    be_loop_end(u, &l);
}

/* ---- the function ------------------------------------------------------- */

static void
clear_sums(const PairsKernel *a)
{
    BeUnit *u = a->e->u;
    for (int i = 0; i < num_vectors(a); i++)
        be_store(u, be_zero(a->vector),
                 be_offset_const(u, a->sums, i * a->plan->lanes * a->bytes),
                 (unsigned)a->bytes);
}

Val
be_gemm_pairs_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    PairsKernel a = {.e = e, .plan = plan, .type = u->f32, .bytes = 4};
    a.vector = be_vector(a.type, plan->lanes);
    Val fn = be_gemm_micro_kernel_begin(e, a.params);
    a.sums = be_alloca(u, a.vector, (uint64_t)num_vectors(&a), 64, "sums");
    bool one_chain = g->contract->contract.pairs == IR_ONE_CHAIN;
    if (!one_chain)
        clear_sums(&a);
    Val before = be_flush_begin(u);
    if (one_chain)
        add_chain(&a);
    else
        add_groups(&a);
    be_flush_end(u, before);
    be_gemm_store_sums(e, plan, a.params, a.sums);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
