/*
 * mix.h - which instructions a kernel has, or executes
 */
#ifndef TFD_TESTS_CUDA_PTX_MIX_H
#define TFD_TESTS_CUDA_PTX_MIX_H

#include "tests/cuda/ptx/ptx.h"

/* In warp instructions; bytes are those of all 32 lanes. */
typedef struct PtxMix {
    uint64_t all, fma_f32, float_arithmetic, loads_shared, stores_shared;
    uint64_t loads_global, stores_global, copies_async, barriers, branches;
    uint64_t mma, warp_ops, double_arithmetic, divisions; /* and square roots */
    uint64_t global_bytes,
        global_bytes_128; /* by accesses of 16 bytes a lane */
    uint64_t shared_bytes, shared_bytes_128;
} PtxMix;

/* How often warps wait for global memory, if each waits only at the end of
 * straight-line code: groups of loads between branches, labels and barriers. */
uint64_t ptx_kernel_load_groups(const PtxKernel *k, const uint64_t *executed);

/* executed has a count for each instruction (PtxLaunch.executed); NULL: each is
 * counted once.  float_arithmetic includes fma_f32. */
PtxMix ptx_kernel_mix(const PtxKernel *k, const uint64_t *executed);

#endif
