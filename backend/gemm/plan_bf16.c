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
    A_BYTES = 2 << 20,       /* of A that is packed once */
    C_BYTES = 2 << 20,       /* of accumulators that are kept, */
    AMX_C_BYTES = 256 << 10, /* and for AMX */
    SLACK = 32 /* elements of a row beyond its k, see pack_bf16.c */
};

GemmUnit
be_bf16_unit(const BeTarget *t, const KNode *contract)
{
    IrPairOrder order = contract->contract.pairs;
    if (order == IR_TWO_CHAINS && t->bf16 == TARGET_BF16_AMX)
        return GEMM_AMX;
    return order == IR_ONE_CHAIN && t->bf16 != TARGET_BF16_NONE ? GEMM_VDPBF16PS
                                                                : GEMM_FMA;
}

/* Columns of a block of B, with all blocks about equally large. */
static int64_t
choose_nc(const Emit *e, const GemmPlan *plan, int64_t n)
{
    int64_t nr = be_gemm_plan_nr(plan);
    int64_t fit =
        be_gemm_l2_bytes(e->target) / (plan->kc * BF16_BYTES) / nr * nr;
    return be_gemm_even_piece(n, fit, nr);
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
        most = BE_K_BLOCK;
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

/* Rows of A that are packed at once for all blocks of columns, in pieces of
 * about equal length, unless accumulators have to be kept; or 0. */
static int64_t
choose_a_rows(const Gemm *g, const GemmPlan *plan, int64_t m, int64_t n)
{
    bool keeps_c = plan->k_blocked && !g->direct;
    if (plan->unit == GEMM_AMX || plan->nc >= n || keeps_c || m == 0)
        return 0;
    int64_t together = (int64_t)plan->m_tiles * plan->mr;
    int64_t most = A_BYTES / (plan->a.size * BF16_BYTES) * plan->mr;
    return be_gemm_even_piece(m, most, together);
}

/* Rows whose accumulators are kept. */
static int64_t
choose_mc(const Gemm *g, const GemmPlan *plan)
{
    int64_t bytes = plan->unit == GEMM_AMX ? AMX_C_BYTES : C_BYTES;
    int64_t fit = bytes / (plan->nc * (int64_t)sizeof(float));
    int64_t together = (int64_t)plan->m_tiles * plan->mr;
    bool keeps_c = plan->k_blocked && !g->direct;
    return keeps_c && fit > together ? fit / together * together : together;
}

GemmPlan
be_bf16_plan(const Emit *e, const Gemm *g, GemmUnit unit)
{
    int64_t m = be_space_bound(e->k, &g->m), k = be_space_bound(e->k, &g->k);
    int64_t n = be_dim_bound(e->k, g->n->extent);
    GemmPlan plan = {.unit = unit, .lanes = BF16_LANES};
    choose_tile(&plan, m, n);
    choose_k(g, &plan, k);
    plan.nc = choose_nc(e, &plan, n);
    int64_t nr = be_gemm_plan_nr(&plan), panels = plan.nc / nr;
    plan.n_panels = panels < BE_MAX_VECTORS / plan.vectors
                        ? (int)panels
                        : BE_MAX_VECTORS / plan.vectors;
    lay_out_a(g, &plan, m);
    plan.b = (GemmLayout){.kind = GEMM_PANELS, .stride = 2, .k_stride = nr};
    plan.a_rows = choose_a_rows(g, &plan, m, n);
    plan.mc = choose_mc(g, &plan);
    return plan;
}
