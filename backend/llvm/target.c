/*
 * target.c - targets as LLVM's machines
 *
 * Only LLVM's X86 and NVPTX are initialised.  Code for CPUs is position
 * independent and small, so that objects have the few relocations the runner's
 * loader knows.  By default LLVM uses half of v4's vectors because of old Intel
 * cores; emit.c asks for all of them.
 */
#include "backend/llvm/target.h"

#include <pthread.h>
#include <string.h>
#include <llvm-c/Target.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/plan/target.h"

#define CPU "x86_64-unknown-linux-gnu"
#define GPU "nvptx64-nvidia-cuda"

static const BeTarget targets[] = {
    {"x86-64-v4", false, CPU, 64, 32},
    {"x86-64-v3", false, CPU, 32, 16},
    {"sm_80", true, GPU, 4, 255},
    {"sm_90", true, GPU, 4, 255},
};

enum { NUM_TARGETS = sizeof targets / sizeof targets[0] };

static const BeTarget *
find(const char *name)
{
    for (int i = 0; i < NUM_TARGETS; i++) {
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    }
    return NULL;
}

static Status
unknown_target(const char *name)
{
    const char *names[NUM_TARGETS + 1] = {"native"};
    for (int i = 0; i < NUM_TARGETS; i++)
        names[i + 1] = targets[i].name;
    const char *near = nearest_name(name, names, NUM_TARGETS + 1);
    if (near)
        return status_new(STATUS_USAGE,
                          "unknown target \"%s\"; did you mean %s?", name,
                          near);
    return status_new(STATUS_USAGE,
                      "unknown target \"%s\"; there are native, x86-64-v3, "
                      "x86-64-v4, sm_80 and sm_90",
                      name);
}

Status
be_targets_parse(Arena *a, const char *list, const BeTarget **out, int *num)
{
    VEC(BeTarget) found = {0};
    char *rest = arena_strdup(a, list ? list : "native");
    for (char *name; (name = strsep(&rest, ","));) {
        if (strcmp(name, "native") == 0) {
            const char *here = target_here();
            name = (char *)(uintptr_t)(here ? here : "x86-64-v3");
        }
        const BeTarget *t = find(name);
        if (!t)
            return unknown_target(name);
        bool twice = false;
        for (int i = 0; i < found.len; i++)
            twice |= found.data[i].name == t->name;
        if (!twice)
            VEC_PUSH(a, found, *t);
    }
    *out = found.data;
    *num = found.len;
    return OK;
}

static void
initialise(void)
{
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

LLVMTargetMachineRef
be_target_open(const BeTarget *t, int level)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    LLVMTargetRef target;
    char *message;
    if (LLVMGetTargetFromTriple(t->triple, &target, &message))
        UNREACHABLE("LLVM has no %s: %s", t->triple, message);
    static const LLVMCodeGenOptLevel levels[] = {
        LLVMCodeGenLevelNone,
        LLVMCodeGenLevelLess,
        LLVMCodeGenLevelLess,
        LLVMCodeGenLevelDefault,
    };
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(target, t->triple, t->name, "", levels[level],
                                LLVMRelocPIC, LLVMCodeModelSmall);
    if (!machine)
        UNREACHABLE("LLVM has no machine %s", t->name);
    return machine;
}

void
be_target_close(LLVMTargetMachineRef machine)
{
    LLVMDisposeTargetMachine(machine);
}
