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
 * Sums with few results are made in two launches (ptx_split.c).  Then there are
 * two functions with the same parameters, k_HASH and k_HASH_rest, which have the
 * address of scratch memory after those of the arrays; a comment of the text
 * says how many blocks of both have work, and the bytes of that memory:
 *
 *   // launches of k_HASH: 216 blocks, then 8 of the rest, 1048576 bytes
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

/* The launches of a kernel, whatever its batch. */
typedef struct BePtxLaunches {
    int64_t blocks;      /* that have work, at most */
    int64_t rest_blocks; /* the same of the second launch; 0: there is none */
    int64_t scratch;     /* bytes that the first leaves for it, at most */
} BePtxLaunches;
BePtxLaunches be_ptx_launches(const BeKernel *k, const BeTarget *t);

/* Whether a kernel's output may be given the memory of an input, by how both
 * are indexed: each element is loaded only where it is stored. */
bool be_ptx_may_share(const BeKernel *k, const KArray *in, const KArray *out);

/* Appends a module of PTX to others for the same target, so that they are one
 * module: its header is kept if out is empty. */
void be_ptx_join(Str *out, const char *ptx, size_t len);

#endif
