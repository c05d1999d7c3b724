/*
 * amx.h - products of bf16 by the tiles of AMX
 *
 * tdpbf16ps adds to a tile of 16 x 16 sums the products of 16 rows of A with
 * 32 k and of 16 columns of B, in the order of ir/rules/pairs.h.  In a tile of
 * B a row has two neighbouring k of each column, side by side.  The
 * micro-kernel has up to 2 x 2 tiles of sums:
 *
 *   A  [mr][stride]           rows along k
 *   B  [nc / nr][kc / 2][nr][2]  panels of pairs of k
 *
 * Both have zeros for the k that the last tile has beyond the last one.
 */
#ifndef TFD_BACKEND_GEMM_AMX_H
#define TFD_BACKEND_GEMM_AMX_H

#include "backend/gemm/gemm.h"

enum {
    AMX_BYTES = 2,      /* of a packed element */
    AMX_ROWS = 16,      /* of a tile */
    AMX_ROW_BYTES = 64, /* of a tile's row */
    AMX_K = 32,         /* of a tile */
    AMX_MAX_TILES = 2   /* of sums in a row or column */
};

GemmPlan be_amx_plan(const Emit *e, const Gemm *g);
/* be_gemm_micro_kernel for such a plan. */
Val be_amx_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan);
/* Around all calls of the micro-kernel: tiles have a shape, or none. */
void be_amx_begin(Emit *e);
void be_amx_end(Emit *e);

/* be_gemm_pack_a and be_gemm_pack_b. */
void be_amx_pack_a(GemmCode *t, Val first, Val end, Val begin, Val stop);
void be_amx_pack_b(GemmCode *t, Val first, Val end, Val begin, Val stop);

#endif
