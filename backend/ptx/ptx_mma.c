/*
 * ptx_mma.c - the products of a step by tensor cores
 *
 * mma.sync: a warp multiplies 16 rows by 8 columns and adds the products to
 * 16 x 8 sums of f32, in an order of its own (D36): of 8 products of TF32
 * (m16n8k8), or of 16 of bf16 or f16 (m16n8k16), if all elements of both
 * operands are.  The PTX ISA ("Matrix Fragments for mma.m16n8k8" and "... for
 * mma.m16n8k16") says which element is whose.  With r = lane / 4 and
 * q = lane % 4:
 *
 *   a0 .. a3  rows r, r + 8, r, r + 8 and products q, q, q + 4, q + 4
 *   b0, b1    column r, products q and q + 4
 *   c0 .. c3  rows r, r, r + 8, r + 8 and columns 2 q, 2 q + 1, 2 q, 2 q + 1
 *
 * With halves, a word has two products: q is those number 2 q and 2 q + 1.
 *
 * A warp's threads are eight down and four across, with every eighth row and
 * every fourth pair of columns (ptx_stage.c).  Which rows of the tile the
 * sixteen are is free: they are two of each thread's rows.  Operands get their
 * type when they are staged: once, while several warps load them.
 */
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"

enum { NUM_A = 4, NUM_B = 2, NUM_C = 4, NUM_ARGS = NUM_A + NUM_B + NUM_C };

/* A lane's words of the operands, for each 16 rows and each 8 columns of its
 * warp. */
typedef struct Lanes {
    Val a[PTX_MAX_EACH / 2][NUM_A], b[PTX_MAX_EACH / 2][NUM_B];
} Lanes;

/* ---- operands ------------------------------------------------------------ */

/* Of the group of 8 products that begins with number `product` of a step. */
static void
load_tf32(const PtxTile *t, Val buffer, int product, Lanes *out)
{
    enum { HALF = 4 };
    for (int m = 0; m < t->shape->rows / 2; m++)
        for (int i = 0; i < NUM_A; i++)
            out->a[m][i] = be_ptx_lane_load(t, PTX_ROWS, buffer, 2 * m + i % 2,
                                            product + i / 2 * HALF);
    for (int n = 0; n < t->shape->columns / 2; n++)
        for (int i = 0; i < NUM_B; i++)
            out->b[n][i] =
                be_ptx_lane_load(t, PTX_COLUMNS, buffer, n, product + i * HALF);
}

/* Of 16 products.  Threads have 4 or 8 columns, and so an even number of
 * fragments of them. */
static void
load_halves(const PtxTile *t, Val buffer, int product, Lanes *out)
{
    for (int m = 0; m < t->shape->rows / 2; m++)
        be_ptx_matrices_load(t, PTX_ROWS, buffer, 2 * m, product, out->a[m]);
    for (int n = 0; n < t->shape->columns / 2; n += 2) {
        Val x[PTX_MATRICES];
        be_ptx_matrices_load(t, PTX_COLUMNS, buffer, n, product, x);
        for (int i = 0; i < PTX_MATRICES; i++)
            out->b[n + i / NUM_B][i % NUM_B] = x[i];
    }
}

/* ---- products ------------------------------------------------------------ */

/* Sum number i of 4 of the thread's rows 2 m and 2 m + 1 and columns 2 n and
 * 2 n + 1. */
static Val *
sum_of(const PtxTile *t, Val *sums, int m, int n, int i)
{
    return &sums[(2 * m + i / 2) * t->shape->columns + 2 * n + i % 2];
}

/* LLVM has words of bf16 as integers, those of f16 as vectors. */
static Val
as_operand(const PtxTile *t, Val word)
{
    BeUnit *u = t->p->e.u;
    if (t->t->mma != PTX_MMA_F16)
        return word;
    Type half = LLVMHalfTypeInContext(u->context);
    return LLVMBuildBitCast(u->builder, word, be_vector(half, 2), "");
}

static void
multiply(PtxTile *t, const Val *a, const Val *b, int m, int n, Val *sums)
{
    static const char *const names[] = {
        [PTX_MMA_TF32] = "llvm.nvvm.mma.m16n8k8.row.col.tf32",
        [PTX_MMA_BF16] = "llvm.nvvm.mma.m16n8k16.row.col.bf16",
        [PTX_MMA_F16] = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"};
    BeUnit *u = t->p->e.u;
    Val args[NUM_ARGS], *arg = args;
    for (int i = 0; i < NUM_A; i++)
        *arg++ = as_operand(t, a[i]);
    for (int i = 0; i < NUM_B; i++)
        *arg++ = as_operand(t, b[i]);
    for (int i = 0; i < NUM_C; i++)
        *arg++ = *sum_of(t, sums, m, n, i);
    Val all = be_intrinsic(u, names[t->t->mma], NULL, 0, args, NUM_ARGS);
    for (int i = 0; i < NUM_C; i++)
        *sum_of(t, sums, m, n, i) =
            LLVMBuildExtractValue(u->builder, all, (unsigned)i, "");
}

void
be_ptx_mma_add_step(PtxTile *t, Val buffer, Val *sums)
{
    int products = be_ptx_mma_products(t->t);
    for (int product = 0; product < t->step; product += products) {
        Lanes x;
        if (be_ptx_has_halves(t->t))
            load_halves(t, buffer, product, &x);
        else
            load_tf32(t, buffer, product, &x);
        for (int m = 0; m < t->shape->rows / 2; m++)
            for (int n = 0; n < t->shape->columns / 2; n++)
                multiply(t, x.a[m], x.b[n], m, n, sums);
    }
}

/* What a step lacks was staged as zeros. */
void
be_ptx_mma_add_part(PtxTile *t, Val buffer, Val count, Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val before[PTX_MAX_SUMS];
    int num = t->shape->rows * t->shape->columns;
    for (int i = 0; i < num; i++)
        before[i] = sums[i];
    PtxIf some = be_ptx_if(
        t->p, be_icmp(u, LLVMIntSGT, count, be_emit_word(&t->p->e, 0)));
    be_ptx_mma_add_step(t, buffer, sums);
    be_ptx_end_if_all(t->p, &some, sums, before, num);
}
