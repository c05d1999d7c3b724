/*
 * sim.h - executes kernels that were compiled for GPUs on the CPU
 *
 * The LLVM IR that be_ptx_emit makes is compiled for this CPU: the threads of a
 * block take turns from barrier to barrier, each with its own stack.  This does
 * not test what NVPTX and the assembler make of that IR.
 */
#ifndef TFD_TESTS_CODEGEN_SIM_H
#define TFD_TESTS_CODEGEN_SIM_H

#include "backend/backend.h"
#include "runtime/load/loader.h"

/* Code for run_compare: a call from item 0 on does the kernel's whole work, in
 * several blocks, of which each finds rubbish in shared memory; any other call
 * does nothing.  A barrier that only some threads of a block reach, like any
 * other failure, ends the program. */
RtCode *sim_compile(const BeKernels *kernels, const char *gpu);

#endif
