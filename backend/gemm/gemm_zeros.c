/*
 * gemm_zeros.c - products that a tile's rows of A leave out
 *
 * Weights that a mask hides are +0 in all rows of a tile at the first or last k
 * of a block: in half of causal attention.  Where B is finite, +0 times B is
 * +0 or -0.  Sums begin with +0, so products before the first other k add
 * nothing to them; those after the last k change no sum but -0, for which the
 * micro-kernel looks at their signs.
 *
 * The k between are found once for the rows of a tile and all columns of a
 * block, by a function of the runner: most kernels have the call in vain, and
 * its code would take a quarter of the time that LLVM needs for them.  Whether
 * B is finite is looked at when a tile first has zeros, once for a block: B of
 * which something is not is multiplied in full.
 */
#include "backend/gemm/gemm.h"

#include <stddef.h>
#include "ir/plan/abi.h"

enum { MIN_K = 128 };

/* Whether a look at A's elements costs little beside the products: those of a
 * group are vectors in memory, and there is a first and a last one. */
bool
be_gemm_can_skip_zeros(const Gemm *g, const GemmPlan *plan)
{
    for (int i = 0; i < g->k.count; i++)
        if (!ir_dim_is_const(g->k.vars[i]->extent))
            return false;
    switch (plan->a.kind) {
    case GEMM_IN_PLACE:
    case GEMM_ALONG_K:
    case GEMM_GROUPS:
    case GEMM_TILES:
        return !g->contract->contract.pairs && plan->kc >= MIN_K &&
               plan->mr > 1 && (plan->a.k_stride == 1 || plan->a.stride == 1);
    case GEMM_K_LINES:
    case GEMM_M_LINES:
    case GEMM_PANELS:
        return false;
    }
    UNREACHABLE("a layout");
}

/* ---- the layouts --------------------------------------------------------- */

/* A word of the TfdProducts in memory. */
static Val
word_at(const GemmCode *t, size_t offset)
{
    return be_offset_const(t->e->u, t->products, (int64_t)offset);
}

static void
set_word(const GemmCode *t, size_t offset, int64_t value)
{
    be_store(t->e->u, be_emit_word(t->e, value), word_at(t, offset), 8);
}

#define SET(t, field, value)                                                   \
    set_word(t, offsetof(TfdProducts, field), (int64_t)(value))

/* The runs of neighbours in memory that a group of k has in all rows. */
static void
set_runs(const GemmCode *t, int64_t num, int64_t length, int64_t stride)
{
    SET(t, num_runs, num);
    SET(t, run, length);
    SET(t, run_stride, stride);
}

static void
describe_a(const GemmCode *t)
{
    const GemmPlan *plan = &t->plan;
    SET(t, a_k_stride, plan->a.k_stride);
    if (plan->a.k_stride == 1)
        set_runs(t, plan->mr, TFD_K_GROUP, plan->a.stride);
    else
        set_runs(t, TFD_K_GROUP, plan->mr, plan->a.k_stride);
}

static void
describe_b(const GemmCode *t)
{
    const GemmPlan *plan = &t->plan;
    int64_t width = be_gemm_plan_nr(plan);
    SET(t, b_k_stride, plan->b.k_stride);
    SET(t, b_stride, plan->b.kind == GEMM_IN_PLACE ? width : width * plan->kc);
    SET(t, b_width, width);
}

void
be_gemm_begin_zeros(GemmCode *t)
{
    BeUnit *u = t->e->u;
    if (!t->plan.skips_zeros)
        return;
    t->products = be_alloca(u, u->i8, sizeof(TfdProducts), 8, "products");
    SET(t, bytes, t->bytes);
    describe_a(t);
    describe_b(t);
}

void
be_gemm_forget_b(const GemmCode *t)
{
    if (t->plan.skips_zeros)
        SET(t, b, TFD_UNKNOWN);
}

/* ---- the calls ----------------------------------------------------------- */

static Val
get_word(const GemmCode *t, size_t offset)
{
    return be_load(t->e->u, t->e->u->i64, word_at(t, offset), 8);
}

GemmProducts
be_gemm_find_products(const GemmCode *t, Val rows, const GemmBlock *block)
{
    BeUnit *u = t->e->u;
    Val args[] = {t->products, rows, block->b, block->k, block->n};
    be_call_outside(u, "rt_find_products", args, 5);
    GemmProducts found = {.first = get_word(t, offsetof(TfdProducts, first))};
    found.end = get_word(t, offsetof(TfdProducts, end));
    return found;
}
