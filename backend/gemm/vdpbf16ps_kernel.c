/*
 * vdpbf16ps_kernel.c - the micro-kernel by vdpbf16ps of AVX512-BF16
 *
 * For each pair of k, a vector or two of B are multiplied by a pair of A for
 * each row, and added to the sums in registers.  The instruction adds the
 * product of the second k, then that of the first, and flushes what is
 * subnormal, whatever the mode of the CPU: the order of one chain.
 */
#include "backend/gemm/bf16.h"
#include "backend/gemm/pairs.h"

enum { PAIR = 2, PAIR_BYTES = PAIR * BF16_BYTES, UNROLLED = 2 /* pairs */ };

typedef struct DotKernel {
    Emit *e;
    const GemmPlan *plan;
    Val params[UKERNEL_NUM_PARAMS];
} DotKernel;

static int
num_sums(const DotKernel *a)
{
    return a->plan->mr * a->plan->vectors;
}

static Val
pairs_of(const DotKernel *a, Val x)
{
    BeUnit *u = a->e->u;
    Type type =
        be_vector(LLVMBFloatTypeInContext(u->context), PAIR * BF16_LANES);
    return LLVMBuildBitCast(u->builder, x, type, "");
}

/* Bytes from a pair of A, or of B, to the next. */
static int64_t
pair_of_a(const DotKernel *a)
{
    return PAIR * a->plan->a.k_stride * BF16_BYTES;
}

static int64_t
pair_of_b(const DotKernel *a)
{
    return (int64_t)a->plan->vectors * BF16_VECTOR_BYTES;
}

/* The pair whose rows begin at p, and columns at q. */
static void
add_pair(const DotKernel *a, Val p, Val q, Val *sums)
{
    BeUnit *u = a->e->u;
    const GemmPlan *plan = a->plan;
    Type vector = be_vector(u->i32, BF16_LANES);
    Val y[BE_MAX_VECTORS];
    for (int v = 0; v < plan->vectors; v++) {
        Val from = be_offset_const(u, q, (int64_t)v * BF16_VECTOR_BYTES);
        y[v] = pairs_of(a, be_load(u, vector, from, PAIR_BYTES));
    }
    for (int row = 0; row < plan->mr; row++) {
        int64_t before = row * plan->a.stride * BF16_BYTES;
        Val x = be_load(u, u->i32, be_offset_const(u, p, before), PAIR_BYTES);
        x = pairs_of(a, be_splat(u, x, BF16_LANES));
        for (int v = 0; v < plan->vectors; v++) {
            Val *sum = &sums[row * plan->vectors + v];
            Val args[] = {*sum, x, y[v]};
            *sum = be_intrinsic(u, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0,
                                args, 3);
        }
    }
}

/* Products begin to end, in rounds of so many pairs; the first ones' rows and
 * columns are at *p and *q, which become those of the next ones. */
static void
add_pairs(const DotKernel *a, Val begin, Val end, int pairs, Val *p, Val *q,
          Val *sums)
{
    BeUnit *u = a->e->u;
    int num = num_sums(a);
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_word(u, (int64_t)pairs * PAIR),
                  "pairs");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    *p = be_loop_carry(u, &l, *p);
    *q = be_loop_carry(u, &l, *q);
    be_loop_body(u, &l);
    for (int i = 0; i < pairs; i++) {
        Val rows = be_offset_const(u, *p, i * pair_of_a(a));
        Val columns = be_offset_const(u, *q, i * pair_of_b(a));
        add_pair(a, rows, columns, sums);
    }
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_next(&l, num, be_offset_const(u, *p, pairs * pair_of_a(a)));
    be_loop_next(&l, num + 1, be_offset_const(u, *q, pairs * pair_of_b(a)));
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_result(&l, i);
    *p = be_loop_result(&l, num);
    *q = be_loop_result(&l, num + 1);
}

/* Those of a block of D2.  A last k alone has zeros beside it. */
static void
add_block(const DotKernel *a, const Gemm *g, Val begin, Val end, Val *p, Val *q,
          Val *sums)
{
    BeUnit *u = a->e->u;
    for (int i = 0; i < num_sums(a); i++)
        sums[i] = be_zero(be_vector(u->f32, BF16_LANES));
    if (be_gemm_k_is_multiple(g, UNROLLED * PAIR)) {
        add_pairs(a, begin, end, UNROLLED, p, q, sums);
        return;
    }
    end = be_add(u, end, be_and(u, end, be_word(u, 1)));
    Val rest =
        be_and(u, be_sub(u, end, begin), be_word(u, UNROLLED * PAIR - 1));
    Val middle = be_sub(u, end, rest);
    add_pairs(a, begin, middle, UNROLLED, p, q, sums);
    add_pairs(a, middle, end, 1, p, q, sums);
}

/* The blocks of D2, at least one. */
static void
add_blocks(DotKernel *a, const Gemm *g)
{
    BeUnit *u = a->e->u;
    Val sums[BE_MAX_CARRIED], none = be_word(u, 0);
    Val k = a->params[UKERNEL_K], block = be_word(u, IR_K_BLOCK);
    Val again = a->params[UKERNEL_ACCUMULATE];
    BeLoop l;
    be_loop_begin(u, &l, none, be_max(u, k, be_word(u, 1)), block, "block");
    Val p = be_loop_carry(u, &l, a->params[UKERNEL_A]);
    Val q = be_loop_carry(u, &l, a->params[UKERNEL_B]);
    be_loop_body(u, &l);
    Val end = be_min(u, be_add(u, l.index, block), k);
    add_block(a, g, l.index, end, &p, &q, sums);
    be_loop_next(&l, 0, p);
    be_loop_next(&l, 1, q);
    Val later = be_icmp(u, LLVMIntNE, l.index, none);
    a->params[UKERNEL_ACCUMULATE] = be_or(u, again, later);
    be_gemm_store_tile(a->e, g, a->plan, a->params, sums);
    be_loop_end(u, &l);
}

Val
be_vdpbf16ps_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    DotKernel a = {.e = e, .plan = plan};
    Val fn = be_gemm_micro_kernel_begin(e, a.params);
    add_blocks(&a, g);
    LLVMBuildRetVoid(e->u->builder);
    be_func_end(e->u);
    return fn;
}
