/*
 * host_code.h - placed functions as machine code
 */
#ifndef TFD_BACKEND_HOST_HOST_CODE_H
#define TFD_BACKEND_HOST_HOST_CODE_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

/* A placed module, and the kernels that be_kernels_build made of it. */
typedef struct BeHostModule {
    IrModule *module;
    const BeKernels *kernels;
    bool enqueues; /* device programs also as q_NAME */
} BeHostModule;

/* Adds p_NAME for every function of a placed module, and tfd_main, to u.  what
 * is a BeHostModule (a BeJob's). */
Status be_host_emit(BeUnit *u, const void *what, const BeTarget *t) MUST_USE;

#endif
