/*
 * ptx_mma.c - the products of a step by tensor cores
 *
 * mma.sync.m16n8k8: a warp multiplies 16 x 8 by 8 x 8 numbers of TF32 and adds
 * the result to 16 x 8 sums of f32, in an order of its own (D36).  The PTX ISA
 * ("Matrix Fragments for mma.m16n8k8") says which element is whose.  With
 * r = lane / 4 and q = lane % 4:
 *
 *   a0 .. a3  rows r, r + 8, r, r + 8 and products q, q, q + 4, q + 4
 *   b0, b1    column r, products q and q + 4
 *   c0 .. c3  rows r, r, r + 8, r + 8 and columns 2 q, 2 q + 1, 2 q, 2 q + 1
 *
 * A warp's threads are eight down and four across, with every eighth row and
 * every fourth pair of columns (ptx_stage.c).  Which rows of the tile the
 * sixteen are is free: they are two of each thread's rows.  Operands were
 * rounded to TF32 when they were staged: once, while several warps load them.
 */
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"

enum { NUM_A = 4, NUM_B = 2, NUM_C = 4 };

/* A lane's elements of an operand for its two products. */
typedef struct Lanes {
    Val x[2][PTX_MAX_EACH];
} Lanes;

/* Of the group of 8 products that begins with number `product` of a step. */
static void
load_lanes(PtxTile *t, PtxSide side, Val buffer, int product, Lanes *out)
{
    be_ptx_lanes_load(t, side, buffer, product, out->x[0]);
    be_ptx_lanes_load(t, side, buffer, product + PTX_MMA_PRODUCTS / 2,
                      out->x[1]);
}

/* Sum number i of 4 of the thread's rows 2 m and 2 m + 1 and columns 2 n and
 * 2 n + 1. */
static Val *
sum_of(const PtxTile *t, Val *sums, int m, int n, int i)
{
    return &sums[(2 * m + i / 2) * t->shape->columns + 2 * n + i % 2];
}

static void
multiply(PtxTile *t, const Lanes *a, const Lanes *b, int m, int n, Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val args[NUM_A + NUM_B + NUM_C] = {
        a->x[0][2 * m],     a->x[0][2 * m + 1], a->x[1][2 * m],
        a->x[1][2 * m + 1], b->x[0][n],         b->x[1][n],
    };
    for (int i = 0; i < NUM_C; i++)
        args[NUM_A + NUM_B + i] = *sum_of(t, sums, m, n, i);
    Val all = be_intrinsic(u, "llvm.nvvm.mma.m16n8k8.row.col.tf32", NULL, 0,
                           args, NUM_A + NUM_B + NUM_C);
    for (int i = 0; i < NUM_C; i++)
        *sum_of(t, sums, m, n, i) =
            LLVMBuildExtractValue(u->builder, all, (unsigned)i, "");
}

void
be_ptx_mma_add_step(PtxTile *t, Val buffer, Val *sums)
{
    for (int product = 0; product < t->step; product += PTX_MMA_PRODUCTS) {
        Lanes a, b;
        load_lanes(t, PTX_ROWS, buffer, product, &a);
        load_lanes(t, PTX_COLUMNS, buffer, product, &b);
        for (int m = 0; m < t->shape->rows / 2; m++)
            for (int n = 0; n < t->shape->columns / 2; n++)
                multiply(t, &a, &b, m, n, sums);
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
