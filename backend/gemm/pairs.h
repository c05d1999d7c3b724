/*
 * pairs.h - sums of products of bf16, in an order of ir/rules/pairs.h
 *
 * Where a value is "flushed", subnormal operands count as zeros of their sign,
 * and so do subnormal results.  x86 has a mode for that, in which the loops
 * over products run on CPUs; elsewhere it is done by other instructions.
 */
#ifndef TFD_BACKEND_GEMM_PAIRS_H
#define TFD_BACKEND_GEMM_PAIRS_H

#include "backend/gemm/gemm.h"

/* x, or the zero of its sign. */
Val be_flushed(BeUnit *u, Val x);
/* The flushed x * y + sum, where x, y and sum are flushed, x and y bf16. */
Val be_flushed_fma(BeUnit *u, Val x, Val y, Val sum);
/* ... and x + y. */
Val be_flushed_add(BeUnit *u, Val x, Val y);

/* From the first of these calls to the second the CPU flushes what it computes.
 * Both begin basic blocks, so that nothing moves past them.  The first returns
 * what the second needs. */
Val be_flush_begin(BeUnit *u);
void be_flush_end(BeUnit *u, Val before);

/* The micro-kernel of a gemm whose operands are packed as f32: on CPUs without
 * an instruction for the order. */
Val be_gemm_pairs_kernel(Emit *e, const Gemm *g, const GemmPlan *plan);
/* Ends one whose accumulators [mr][lanes * vectors] are at sums: they go, or
 * are added, to those that the parameters name. */
void be_gemm_store_sums(Emit *e, const GemmPlan *plan, const Val *params,
                        Val sums);

/* A contraction in loops. */
void be_emit_pairs(Emit *e, const KNode *n);

#endif
