/*
 * plan_bf16.c - the blocking of a gemm whose operands are packed as bf16
 *
 * By AMX a product costs so little that packing decides: B is packed once for
 * all rows, with all of its k if they are not very many, so sums of D2's blocks
 * need not wait for each other, and A once for as many columns as then fit in
 * the second cache.
 *
 * By vdpbf16ps a product costs half of what it costs in f32.  Tiles and blocks
 * are like those of f32 (gemm_plan.c): the rows of A of a tile stay in the
 * first cache, which bounds k, and A is packed once for all blocks of columns.
 */
#include "backend/gemm/bf16.h"

#include "backend/codegen/emit.h"

enum {
    AMX_MAX_TILES = 2,       /* of sums in a row or column */
    AMX_MAX_KC = 4096,       /* a multiple of D2's blocks */
    VECTORS = 2,             /* of sums in a row, of a tile of vdpbf16ps */
    MOST_MR = 12,            /* rows of it: three quarters of the registers */
    MAX_KC = 1024,           /* of it, a multiple of D2's blocks */
    AMX_C_BYTES = 256 << 10, /* of accumulators that are kept, for AMX */
    SLACK = 32 /* elements of a row beyond its k, see pack_bf16.c */
};

GemmUnit
be_bf16_unit(const BeTarget *t, const KNode *contract)
{
    IrPairOrder order = contract->contract.pairs;
    if (order == IR_TWO_CHAINS && t->bf16 == TARGET_BF16_AMX)
        return GEMM_AMX;
    return order == IR_ONE_CHAIN && t->bf16 == TARGET_BF16_AVX ? GEMM_VDPBF16PS
                                                               : GEMM_FMA;
}

static void
choose_tile(GemmPlan *plan, int64_t m, int64_t n)
{
    plan->vectors = n > BF16_LANES ? VECTORS : 1;
    int64_t tiles = (m + MOST_MR - 1) / MOST_MR;
    if (plan->unit == GEMM_AMX)
        plan->mr = m > BF16_LANES ? AMX_MAX_TILES * BF16_LANES : BF16_LANES;
    else
        plan->mr = tiles ? (int)((m + tiles - 1) / tiles) : 1;
}

/* Where the result has the accumulators, tiles that are not full are added to
 * it from elsewhere: one block of D2 at a time. */
static void
choose_k(const Gemm *g, GemmPlan *plan, int64_t k)
{
    int64_t most = plan->unit == GEMM_AMX ? AMX_MAX_KC : MAX_KC;
    plan->k_blocked = k > most;
    if (plan->k_blocked && g->direct)
        most = IR_K_BLOCK;
    plan->kc = plan->k_blocked ? most : be_gemm_round_up(k, BF16_GROUP);
}

/* Where lanes run along the rows of A, vdpbf16ps reads them so, and some tiles
 * are packed at once, so that whole lines of the cache are read. */
static void
lay_out_a(const Gemm *g, GemmPlan *plan, int64_t m)
{
    plan->m_tiles = 1;
    plan->a = (GemmLayout){
        .kind = GEMM_ALONG_K, .stride = plan->kc + SLACK, .k_stride = 1};
    plan->a.size = plan->mr * plan->a.stride;
    if (plan->unit == GEMM_AMX || be_bf16_a_is_along_k(g))
        return;
    int64_t tiles = (m + plan->mr - 1) / plan->mr;
    plan->m_tiles = tiles < BE_MAX_VECTORS ? (int)tiles : BE_MAX_VECTORS;
    plan->a =
        (GemmLayout){.kind = GEMM_TILES, .stride = 2, .k_stride = plan->mr};
    plan->a.size = plan->kc * plan->mr + SLACK;
}

/* 0: there is one block of columns, or accumulators have to be kept. */
static int64_t
choose_a_rows(const Gemm *g, const GemmPlan *plan, int64_t m, int64_t n)
{
    if (plan->unit == GEMM_AMX || plan->nc >= n || m == 0 ||
        be_gemm_keeps_c(g, plan))
        return 0;
    return be_gemm_a_rows(plan, m, BF16_BYTES);
}

GemmPlan
be_bf16_plan(const Emit *e, const Gemm *g, GemmUnit unit)
{
    int64_t m = be_space_bound(e->k, &g->m), k = be_space_bound(e->k, &g->k);
    int64_t n = be_dim_bound(e->k, g->n->extent);
    GemmPlan plan = {.unit = unit, .lanes = BF16_LANES};
    choose_tile(&plan, m, n);
    choose_k(g, &plan, k);
    plan.nc = be_gemm_block_columns(&plan, n, be_gemm_l2_bytes(e->target),
                                    BF16_BYTES);
    lay_out_a(g, &plan, m);
    be_gemm_limit_columns(g, &plan, n);
    int64_t nr = be_gemm_plan_nr(&plan), panels = plan.nc / nr;
    plan.n_panels = panels < BE_MAX_VECTORS / plan.vectors
                        ? (int)panels
                        : BE_MAX_VECTORS / plan.vectors;
    plan.b = (GemmLayout){.kind = GEMM_PANELS, .stride = 2, .k_stride = nr};
    plan.a_rows = choose_a_rows(g, &plan, m, n);
    plan.mc = be_gemm_kept_rows(g, &plan,
                                unit == GEMM_AMX ? AMX_C_BYTES : GEMM_C_BYTES);
    return plan;
}
