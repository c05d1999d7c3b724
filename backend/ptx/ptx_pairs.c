/*
 * ptx_pairs.c - the products of bf16 of a step, added to a thread's sums
 *
 * A step is a group of 32 products (ir/rules/pairs.h): two chains of fused
 * multiply-adds for each sum.  Where all operands are 0 or at least 2^-55, all
 * products, and so all sums of a chain, are multiples of 2^-124, and nothing
 * can be subnormal.  So a thread looks at its operands while it computes the
 * chains by plain fused multiply-adds, and computes them again, exactly, if one
 * was smaller.  (PTX's .ftz does not say on which side of rounding it looks for
 * subnormal results.)
 *
 * One chain goes through all steps.  So a thread looks at the sums, too: 0 or
 * at least 2^-100, they are multiples of 2^-123.
 */
#include "backend/gemm/pairs.h"

#include <assert.h>
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"
#include "ir/rules/pairs.h"

/* The bits of 2^-55 and 2^-100. */
enum { LEAST_BITS = (127 - 55) << 23, LEAST_SUM = (127 - 100) << 23 };

static int
num_sums(const PtxTile *t)
{
    return t->shape->rows * t->shape->columns;
}

static bool
has_one_chain(const PtxTile *t)
{
    return t->t->contract->contract.pairs == IR_ONE_CHAIN;
}

/* ---- plain chains ------------------------------------------------------- */

/* A minimum of many numbers is one of vectors of one lane: LLVM's scalar
 * evolution, which would sort all of them for each (two thirds of the time of a
 * module), does not look at vectors, and the code is the same. */
static Val
as_one_lane(BeUnit *u, Val x)
{
    return LLVMBuildBitCast(u->builder, x, LLVMVectorType(u->i32, 1), "");
}

static Val
greatest(BeUnit *u)
{
    return as_one_lane(u, be_int(u->i32, -1));
}

/* The lesser of least and the bits of x's magnitude less 1, unsigned: 0 is the
 * greatest. */
static Val
least_of(BeUnit *u, Val least, Val x)
{
    Val bits = LLVMBuildBitCast(u->builder, x, u->i32, "");
    bits = be_and(u, bits, be_int(u->i32, 0x7fffffff));
    bits = be_sub(u, bits, be_int(u->i32, 1));
    return be_intrinsic2(u, "llvm.umin", least, as_one_lane(u, bits));
}

static void
add_plainly(const PtxTile *t, const Val *x, const Val *y, Val *chains)
{
    BeUnit *u = t->p->e.u;
    int columns = t->shape->columns;
    for (int i = 0; i < num_sums(t); i++)
        chains[i] = be_intrinsic3(u, "llvm.fma", x[i / columns], y[i % columns],
                                  chains[i]);
}

/* Whether one was small of those whose least_of that is. */
static Val
is_below(BeUnit *u, Val least, int bits)
{
    least = LLVMBuildBitCast(u->builder, least, u->i32, "");
    return be_icmp(u, LLVMIntULT, least, be_int(u->i32, bits - 1));
}

/* Both chains of each sum, even ones first, or the one; whether an operand was
 * small. */
static Val
add_all_plainly(PtxTile *t, Val buffer, Val *chains)
{
    BeUnit *u = t->p->e.u;
    bool one = has_one_chain(t);
    Val least = greatest(u);
    assert(t->vector % 2 == 0);
    for (int product = 0; product < t->step; product += t->vector) {
        PtxFragment x, y;
        be_ptx_fragment_load(t, PTX_ROWS, buffer, product, &x);
        be_ptx_fragment_load(t, PTX_COLUMNS, buffer, product, &y);
        for (int i = 0; i < t->vector; i++) {
            for (int j = 0; j < t->shape->rows; j++)
                least = least_of(u, least, x.x[i][j]);
            for (int j = 0; j < t->shape->columns; j++)
                least = least_of(u, least, y.x[i][j]);
            if (one) /* the second of two first */
                add_plainly(t, x.x[i ^ 1], y.x[i ^ 1], chains);
            else
                add_plainly(t, x.x[i], y.x[i], chains + i % 2 * num_sums(t));
        }
    }
    return is_below(u, least, LEAST_BITS);
}

/* ---- exact chains ------------------------------------------------------- */

/* The thread's operands of a product, flushed. */
static void
load_flushed(PtxTile *t, Val buffer, Val product, Val *x, Val *y)
{
    BeUnit *u = t->p->e.u;
    be_ptx_fragment_load_one(t, PTX_ROWS, buffer, product, x);
    be_ptx_fragment_load_one(t, PTX_COLUMNS, buffer, product, y);
    for (int i = 0; i < t->shape->rows; i++)
        x[i] = be_flushed(u, x[i]);
    for (int i = 0; i < t->shape->columns; i++)
        y[i] = be_flushed(u, y[i]);
}

/* The first `count` products, to chains that take turns: that of the next
 * product comes first. */
static void
add_exactly(PtxTile *t, Val buffer, Val count, Val *chains)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val x[PTX_MAX_EACH], y[PTX_MAX_EACH];
    int num = num_sums(t), columns = t->shape->columns;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, be_emit_word(e, 1),
                  "exact");
    for (int i = 0; i < 2 * num; i++)
        chains[i] = be_loop_carry(u, &l, chains[i]);
    be_loop_body(u, &l);
    load_flushed(t, buffer, l.index, x, y);
    for (int i = 0; i < num; i++) {
        be_loop_next(&l, i, chains[num + i]);
        be_loop_next(
            &l, num + i,
            be_flushed_fma(u, x[i / columns], y[i % columns], chains[i]));
    }
    be_loop_end(u, &l);
    for (int i = 0; i < 2 * num; i++)
        chains[i] = be_loop_result(&l, i);
}

/* ---- one chain ---------------------------------------------------------- */

/* Adds a product to the sums; where that is said, one of zeros. */
static void
add_one_exactly(PtxTile *t, Val buffer, Val product, Val exists, Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val x[PTX_MAX_EACH], y[PTX_MAX_EACH], zero = be_zero(t->type);
    int columns = t->shape->columns;
    load_flushed(t, buffer, product, x, y);
    for (int i = 0; i < t->shape->rows && exists; i++)
        x[i] = be_select(u, exists, x[i], zero);
    for (int i = 0; i < columns && exists; i++)
        y[i] = be_select(u, exists, y[i], zero);
    for (int i = 0; i < num_sums(t); i++)
        sums[i] = be_flushed_fma(u, x[i / columns], y[i % columns], sums[i]);
}

/* The first `count` products, of each two the second first. */
static void
add_chain_exactly(PtxTile *t, Val buffer, Val count, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val last = be_sub(u, count, be_emit_word(e, 1));
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, be_emit_word(e, 2),
                  "exact");
    for (int i = 0; i < num_sums(t); i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    be_loop_body(u, &l);
    Val second = be_add(u, l.index, be_emit_word(e, 1));
    Val exists = be_icmp(u, LLVMIntSLT, second, count);
    add_one_exactly(t, buffer, be_min(u, second, last), exists, sums);
    add_one_exactly(t, buffer, l.index, NULL, sums);
    for (int i = 0; i < num_sums(t); i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < num_sums(t); i++)
        sums[i] = be_loop_result(&l, i);
}

static void
add_step_to_chain(PtxTile *t, Val buffer, Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val plain[PTX_MAX_SUMS], least = greatest(u);
    int num = num_sums(t);
    for (int i = 0; i < num; i++) {
        plain[i] = sums[i];
        least = least_of(u, least, sums[i]);
    }
    Val small = add_all_plainly(t, buffer, plain);
    small = be_or(u, small, is_below(u, least, LEAST_SUM));
    PtxIf i = be_ptx_if(t->p, small);
    add_chain_exactly(t, buffer, be_emit_word(&t->p->e, t->step), sums);
    be_ptx_end_if_all(t->p, &i, sums, plain, num);
}

/* ---- groups ------------------------------------------------------------- */

static void
clear(const PtxTile *t, Val *chains)
{
    for (int i = 0; i < 2 * num_sums(t); i++)
        chains[i] = be_zero(t->type);
}

static Val
with_group(const PtxTile *t, const Val *chains, int i, Val sum)
{
    BeUnit *u = t->p->e.u;
    Val both = be_flushed_add(u, chains[i], chains[num_sums(t) + i]);
    return be_flushed_add(u, sum, both);
}

/* ... to two chains, which are then added to the sums. */
static void
add_step_to_chains(PtxTile *t, Val buffer, Val *sums)
{
    Val chains[PTX_MAX_SUMS], exact[PTX_MAX_SUMS];
    int num = num_sums(t);
    clear(t, chains);
    clear(t, exact);
    PtxIf i = be_ptx_if(t->p, add_all_plainly(t, buffer, chains));
    add_exactly(t, buffer, be_emit_word(&t->p->e, t->step), exact);
    be_ptx_end_if_all(t->p, &i, exact, chains, 2 * num);
    for (int n = 0; n < num; n++)
        sums[n] = with_group(t, exact, n, sums[n]);
}

/* The group is filled up with products of zeros. */
static void
add_part_to_chains(PtxTile *t, Val buffer, Val count, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val chains[PTX_MAX_SUMS], zero = be_zero(t->type);
    int num = num_sums(t);
    clear(t, chains);
    add_exactly(t, buffer, count, chains);
    Val some = be_icmp(u, LLVMIntSGT, count, be_emit_word(e, 0));
    for (int i = 0; i < 2 * num; i++)
        chains[i] = be_flushed_add(u, chains[i], zero);
    for (int i = 0; i < num; i++)
        sums[i] =
            be_select(u, some, with_group(t, chains, i, sums[i]), sums[i]);
}

void
be_ptx_pairs_add_step(PtxTile *t, Val buffer, Val *sums)
{
    if (has_one_chain(t))
        add_step_to_chain(t, buffer, sums);
    else
        add_step_to_chains(t, buffer, sums);
}

void
be_ptx_pairs_add_part(PtxTile *t, Val buffer, Val count, Val *sums)
{
    if (has_one_chain(t))
        add_chain_exactly(t, buffer, count, sums);
    else
        add_part_to_chains(t, buffer, count, sums);
}
