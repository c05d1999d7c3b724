/*
 * loader.h - links relocatable objects into executable memory
 *
 * All objects of a plan are laid out in one mapping and linked with each other
 * and with the few functions of TFD_ABI_CALLS.  Nothing in an object is
 * trusted: a section, symbol or relocation that reaches outside, or of a kind
 * that the compiler does not make, is refused with a message.
 */
#ifndef TFD_RUNTIME_LOAD_LOADER_H
#define TFD_RUNTIME_LOAD_LOADER_H

#include "ir/base/status.h"
#include "ir/plan/abi.h"
#include "ir/plan/plan.h"

typedef struct RtCode RtCode;

/* Links the objects; their bytes are needed only until it returns.  With
 * TFD_PERF=1 functions are listed for perf in /tmp/perf-PID.map. */
Status rt_code_open(const PlanObject *objects, int num, RtCode **out) MUST_USE;

/* The function, or kernel, that an object defines under this name, or NULL. */
TfdFunction *rt_code_function(const RtCode *code, const char *name);
TfdKernel *rt_code_kernel(const RtCode *code, const char *name);

/* Unmaps the code.  NULL is allowed. */
void rt_code_close(RtCode *code);

#endif
