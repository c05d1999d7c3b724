/*
 * bf16.h - products of bf16 by instructions that take bf16
 *
 * tdpbf16ps of AMX adds to a tile of 16 x 16 sums the products of 16 rows of A
 * with 32 k and of 16 columns of B; vdpbf16ps of AVX512-BF16 adds to a vector
 * of 16 sums those of one row with 2 k and of 16 columns.  Each has an order of
 * its own (ir/rules/pairs.h).  Both read two neighbouring k of a column side by
 * side, so operands are packed alike:
 *
 *   A  [rows][stride]            rows along k
 *      [m / mr][kc / 2][mr][2]   or, for vdpbf16ps, tiles of pairs of k
 *   B  [nc / nr][kc / 2][nr][2]  panels of pairs of k
 *
 * Both have zeros for the k beyond the last one, up to a multiple of 32 for
 * AMX, and of 2 for vdpbf16ps.
 */
#ifndef TFD_BACKEND_GEMM_BF16_H
#define TFD_BACKEND_GEMM_BF16_H

#include "backend/gemm/gemm.h"

enum {
    BF16_BYTES = 2,
    BF16_LANES = 16,        /* sums of a vector, or of a tile's row or column */
    BF16_VECTOR_BYTES = 64, /* of a vector, or of a tile's row */
    BF16_GROUP = 32         /* k of a tile; those of operands are a multiple */
};

/* What multiplies bf16 of that contraction on that machine; GEMM_FMA: nothing
 * does. */
GemmUnit be_bf16_unit(const BeTarget *t, const KNode *contract);
GemmPlan be_bf16_plan(const Emit *e, const Gemm *g, GemmUnit unit);

/* be_gemm_micro_kernel for such a plan. */
Val be_amx_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan);
Val be_vdpbf16ps_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan);

/* Around all calls of the micro-kernel of AMX: tiles have a shape, or none. */
void be_amx_begin(Emit *e);
void be_amx_end(Emit *e);

/* Whether A is packed row by row, with lanes along k. */
bool be_bf16_a_is_along_k(const Gemm *g);
/* be_gemm_pack_a and be_gemm_pack_b. */
void be_bf16_pack_a(GemmCode *t, Val first, Val end, Val begin, Val stop);
void be_bf16_pack_b(GemmCode *t, Val first, Val end, Val begin, Val stop);

#endif
