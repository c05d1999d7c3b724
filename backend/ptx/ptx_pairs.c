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
 */
#include "backend/gemm/pairs.h"
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"
#include "ir/rules/pairs.h"

enum { LEAST_BITS = (127 - 55) << 23 }; /* of 2^-55 */

static int
num_sums(const PtxTile *t)
{
    return t->shape->rows * t->shape->columns;
}

/* ---- plain chains ------------------------------------------------------- */

/* The lesser of least and the bits of x's magnitude less 1, unsigned: 0 is the
 * greatest. */
static Val
least_of(BeUnit *u, Val least, Val x)
{
    Val bits = LLVMBuildBitCast(u->builder, x, u->i32, "");
    bits = be_and(u, bits, be_int(u->i32, 0x7fffffff));
    return be_intrinsic2(u, "llvm.umin", least,
                         be_sub(u, bits, be_int(u->i32, 1)));
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

/* Both chains of each sum, even ones first; whether an operand was small. */
static Val
add_all_plainly(PtxTile *t, Val buffer, Val *chains)
{
    BeUnit *u = t->p->e.u;
    Val least = be_int(u->i32, -1);
    for (int product = 0; product < t->step; product += t->vector) {
        PtxFragment x, y;
        be_ptx_fragment_load(t, PTX_ROWS, buffer, product, &x);
        be_ptx_fragment_load(t, PTX_COLUMNS, buffer, product, &y);
        for (int i = 0; i < t->vector; i++) {
            for (int j = 0; j < t->shape->rows; j++)
                least = least_of(u, least, x.x[i][j]);
            for (int j = 0; j < t->shape->columns; j++)
                least = least_of(u, least, y.x[i][j]);
            add_plainly(t, x.x[i], y.x[i], chains + i % 2 * num_sums(t));
        }
    }
    return be_icmp(u, LLVMIntULT, least, be_int(u->i32, LEAST_BITS - 1));
}

/* ---- exact chains ------------------------------------------------------- */

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
    be_ptx_fragment_load_one(t, PTX_ROWS, buffer, l.index, x);
    be_ptx_fragment_load_one(t, PTX_COLUMNS, buffer, l.index, y);
    for (int i = 0; i < t->shape->rows; i++)
        x[i] = be_flushed(u, x[i]);
    for (int i = 0; i < columns; i++)
        y[i] = be_flushed(u, y[i]);
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

void
be_ptx_pairs_add_step(PtxTile *t, Val buffer, Val *sums)
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
void
be_ptx_pairs_add_part(PtxTile *t, Val buffer, Val count, Val *sums)
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
