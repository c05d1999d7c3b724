/*
 * host_code.h - placed functions as machine code
 */
#ifndef TFD_BACKEND_HOST_HOST_CODE_H
#define TFD_BACKEND_HOST_HOST_CODE_H

#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

/* Adds p_NAME for every function of a placed module, and tfd_main, to u.  Each
 * kernel operation's mark is its BeKernel; marks of others are not looked at.
 */
Status be_host_emit(BeUnit *u, const void *module, const BeTarget *t) MUST_USE;

#endif
