/*
 * cpu_kernel.h - the functions of a kernel on a CPU
 */
#ifndef TFD_BACKEND_CPU_CPU_KERNEL_H
#define TFD_BACKEND_CPU_CPU_KERNEL_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

/* Adds the kernel's function, its name exported, to u. */
Status be_kernel_emit(BeUnit *u, const void *kernel, const BeTarget *t);

/* The fewest items that are worth a second thread, or 0 when one thread should
 * do all of them. */
int64_t be_cpu_kernel_grain(const BeKernel *k);

/* Whether a call for a range of its items does the work of these, and not
 * another part of the whole (abi.h). */
bool be_cpu_kernel_has_ranges(const BeKernel *k);

#endif
