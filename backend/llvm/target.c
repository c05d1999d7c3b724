/*
 * target.c - targets as LLVM's machines
 *
 * A kind of devices has a triple here; the rest is in ir/plan/targets.def.
 * Only LLVM's X86 and NVPTX are initialised.  Code for CPUs is position
 * independent and small, so that objects have the few relocations the runner's
 * loader knows.  By default LLVM uses half of v4's vectors because of old Intel
 * cores; emit.c asks for all of them.
 *
 * The code generator's loop strength reduction is a third of its time, and on
 * CPUs of no use: addresses are a pointer, an index and constants, which an
 * instruction of x86 adds up by itself.
 */
#include "backend/llvm/target.h"

#include <pthread.h>
#include <string.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/plan/target.h"

static const BeTarget machines[NUM_TARGETS] = {
#define TRIPLE_cpu false, "x86_64-unknown-linux-gnu"
#define TRIPLE_cuda true, "nvptx64-nvidia-cuda"
#define TARGET(device, name, level, base, bf16, registers, register_bytes,     \
               doc)                                                            \
    {                                                                          \
        name,     DEVICE_##device,    TRIPLE_##device,                         \
        base,     TARGET_BF16_##bf16, register_bytes,                          \
        registers},
#include "ir/plan/targets.def"
#undef TARGET
};

static Status
unknown_target(Arena *a, const char *name)
{
    const char *names[NUM_TARGETS + 1] = {"native"};
    Str list = str_new(a);
    for (int i = 0; i < NUM_TARGETS; i++) {
        names[i + 1] = target_info[i].name;
        str_addf(&list, "%s%s", i == NUM_TARGETS - 1 ? " and " : ", ",
                 target_info[i].name);
    }
    const char *near = nearest_name(name, names, NUM_TARGETS + 1);
    if (near)
        return status_new(STATUS_USAGE,
                          "unknown target \"%s\"; did you mean %s?", name,
                          near);
    return status_new(STATUS_USAGE, "unknown target \"%s\"; there are native%s",
                      name, str_text(&list));
}

Status
be_targets_parse(Arena *a, const char *list, const BeTarget **out, int *num)
{
    bool asked[NUM_TARGETS] = {false};
    char *rest = arena_strdup(a, list);
    for (char *name; (name = strsep(&rest, ","));) {
        const TargetInfo *t = target_find(name);
        if (strcmp(name, "native") == 0) {
            t = target_best_here();
            t = t ? t : target_least(DEVICE_cpu);
        }
        if (!t)
            return unknown_target(a, name);
        asked[t - target_info] = true;
    }
    VEC(BeTarget) found = {0};
    for (int i = 0; i < NUM_TARGETS; i++)
        if (asked[i])
            VEC_PUSH(a, found, machines[i]);
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

void
be_target_configure(const BeTarget *t)
{
    const char *args[] = {"tfd", t->gpu ? "--disable-lsr=false"
                                        : "--disable-lsr=true"};
    LLVMParseCommandLineOptions(2, args, NULL);
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
    static const LLVMCodeGenOptLevel levels[BE_NUM_LEVELS] = {
        LLVMCodeGenLevelNone,
        LLVMCodeGenLevelLess,
        LLVMCodeGenLevelLess,
        LLVMCodeGenLevelDefault,
    };
    static const char *const features[] = {
        [TARGET_BF16_NONE] = "",
        [TARGET_BF16_AVX] = "+avx512bf16",
        [TARGET_BF16_AMX] = "+avx512bf16,+amx-tile,+amx-bf16"};
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, t->triple, t->base, features[t->bf16], levels[level],
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
