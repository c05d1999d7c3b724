/*
 * target.h - targets as LLVM's machines
 */
#ifndef TFD_BACKEND_LLVM_TARGET_H
#define TFD_BACKEND_LLVM_TARGET_H

#include <stdbool.h>
#include <llvm-c/TargetMachine.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/device/device.h"
#include "ir/plan/target.h"

typedef struct BeTarget {
    const char *name; /* of targets.def, as the rest */
    IrDeviceKind device;
    bool gpu;
    const char *triple, *base; /* LLVM's names */
    TargetBf16 bf16;
    int register_bytes; /* of a vector register; a GPU's has no lanes */
    int num_registers;
} BeTarget;

/* The targets of a list such as "x86-64-v3,sm_80", each once, in the order of
 * targets.def; "native" is this machine's CPU (the least target if it runs
 * none).  In a, at *out. */
Status be_targets_parse(Arena *a, const char *list, const BeTarget **out,
                        int *num) MUST_USE;

/* Sets the options that LLVM has once for a process, for the code of targets
 * such as t.  No thread may be generating code. */
void be_target_configure(const BeTarget *t);

enum { BE_NUM_LEVELS = 4 }; /* of -O */

/* LLVM's machine, for use by one thread, and any number of modules. */
LLVMTargetMachineRef be_target_open(const BeTarget *t, int level);
void be_target_close(LLVMTargetMachineRef machine);

#endif
