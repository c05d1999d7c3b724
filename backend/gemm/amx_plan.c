/*
 * amx_plan.c - the blocking of a gemm for the tiles of AMX
 *
 * A product costs so little that packing decides: B is packed once for all
 * rows, with all of its k if they are not very many, so sums of D2's blocks
 * need not wait for each other, and A once for as many columns as then fit in
 * the second cache.
 */
#include "backend/gemm/amx.h"

#include "backend/codegen/emit.h"

enum {
    MAX_KC = 4096,       /* a multiple of D2's blocks */
    C_BYTES = 256 << 10, /* of accumulators that are kept */
    SLACK = 32           /* elements of a row beyond its k, see amx_pack.c */
};

static int64_t
round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Columns of a block of B, with all blocks about equally large. */
static int64_t
choose_nc(const Emit *e, const GemmPlan *plan, int64_t n)
{
    int64_t nr = (int64_t)plan->lanes * plan->vectors;
    int64_t fit =
        be_gemm_l2_bytes(e->target) / (plan->kc * AMX_BYTES) / nr * nr;
    int64_t blocks = fit ? (n + fit - 1) / fit : 1;
    return round_up((n + blocks - 1) / blocks, nr);
}

GemmPlan
be_amx_plan(const Emit *e, const Gemm *g)
{
    int64_t m = be_space_bound(e->k, &g->m), k = be_space_bound(e->k, &g->k);
    int64_t n = be_dim_bound(e->k, g->n->extent);
    GemmPlan plan = {.amx = true, .lanes = AMX_ROWS, .m_tiles = 1};
    plan.vectors = n > AMX_ROWS ? AMX_MAX_TILES : 1;
    plan.mr = m > AMX_ROWS ? AMX_MAX_TILES * AMX_ROWS : AMX_ROWS;
    plan.k_blocked = k > MAX_KC;
    plan.kc = plan.k_blocked ? MAX_KC : round_up(k, AMX_K);
    plan.nc = choose_nc(e, &plan, n);
    int64_t nr = (int64_t)plan.lanes * plan.vectors, panels = plan.nc / nr;
    plan.n_panels = panels < BE_MAX_VECTORS / plan.vectors
                        ? (int)panels
                        : BE_MAX_VECTORS / plan.vectors;
    plan.a = (GemmLayout){
        .kind = GEMM_ALONG_K, .stride = plan.kc + SLACK, .k_stride = 1};
    plan.a.size = plan.mr * plan.a.stride;
    plan.b = (GemmLayout){.kind = GEMM_PANELS, .stride = 2, .k_stride = nr};
    int64_t fit = C_BYTES / (plan.nc * (int64_t)sizeof(float));
    bool waits = plan.k_blocked && !g->direct;
    plan.mc = waits && fit > plan.mr ? fit / plan.mr * plan.mr : plan.mr;
    return plan;
}
