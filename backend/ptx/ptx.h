/*
 * ptx.h - kernels as programs for NVIDIA's GPUs
 *
 * A kernel becomes one function of PTX with the kernel calling convention:
 *
 *   .visible .entry k_HASH(in0, in1, ..., out0, ..., word0, word1, ...)
 *
 * Its parameters are the addresses of inputs and outputs in global memory, each
 * a multiple of 16, then the i64 words that docs/abi.md lists for `dims`.  Any
 * number of blocks executes the whole work; .reqntid gives the threads of a
 * block.
 *
 * The bits are those of the kernel on a CPU.
 */
#ifndef TFD_BACKEND_PTX_PTX_H
#define TFD_BACKEND_PTX_PTX_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

/* Adds the kernel's function to u; t is a target that is a GPU. */
Status be_ptx_emit(BeUnit *u, const void *kernel, const BeTarget *t);

/* The most blocks of a launch that have work, whatever its batch. */
int64_t be_ptx_blocks(const BeKernel *k, const BeTarget *t);

/* Whether a kernel's output may be given the memory of an input, by how both
 * are indexed: each element is loaded only where it is stored. */
bool be_ptx_may_share(const BeKernel *k, const KArray *in, const KArray *out);

/* Appends a module of PTX to others for the same target, so that they are one
 * module: its header is kept if out is empty. */
void be_ptx_join(Str *out, const char *ptx, size_t len);

#endif
