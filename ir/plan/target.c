/*
 * target.c - the table of targets, and which of them this CPU runs
 */
#include "ir/plan/target.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const TargetInfo target_info[NUM_TARGETS] = {
#define TARGET(device, name, level, base, bf16, registers, register_bytes,     \
               doc)                                                            \
    {name, DEVICE_##device, level, TARGET_BF16_##bf16, doc},
#include "ir/plan/targets.def"
#undef TARGET
};

const TargetFormat target_formats[NUM_DEVICE_KINDS] = {
#define CODE_FORMAT(device, extension, machine, hosts, doc)                    \
    [DEVICE_##device] = {extension, machine, hosts, doc},
#include "ir/plan/targets.def"
#undef CODE_FORMAT
};

const TargetInfo *
target_find(const char *name)
{
    for (int i = 0; i < NUM_TARGETS; i++)
        if (strcmp(target_info[i].name, name) == 0)
            return &target_info[i];
    return NULL;
}

const TargetInfo *
target_of_level(IrDeviceKind device, int level)
{
    const TargetInfo *best = NULL;
    for (int i = 0; i < NUM_TARGETS; i++) {
        const TargetInfo *t = &target_info[i];
        if (t->device == device && t->level <= level &&
            (!best || t->level > best->level))
            best = t;
    }
    return best;
}

const TargetInfo *
target_least(IrDeviceKind device)
{
    const TargetInfo *least = NULL;
    for (int i = 0; i < NUM_TARGETS; i++)
        if (target_info[i].device == device &&
            (!least || target_info[i].level < least->level))
            least = &target_info[i];
    assert(least);
    return least;
}

/* ---- this CPU ----------------------------------------------------------- */

/* arch_prctl for the state of AMX's tiles, which is so large that a process has
 * to ask for it (Linux 5.16). */
enum { GET_SUPPORTED = 0x1021, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static bool
amx_is_here(void)
{
    uint64_t states = 0;
    return __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, GET_SUPPORTED, &states) == 0 &&
           states >> TILE_DATA & 1;
}

bool
target_allow(const TargetInfo *t)
{
    return t->bf16 != TARGET_BF16_AMX ||
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* __builtin_cpu_supports takes literals only. */
#define HERE_cpu(base, bf16) (__builtin_cpu_supports(base) && HERE_##bf16)
#define HERE_cuda(base, bf16) false
#define HERE_NONE true
#define HERE_AVX __builtin_cpu_supports("avx512bf16")
#define HERE_AMX (HERE_AVX && amx_is_here())

int
target_level_here(void)
{
    int best = 0;
#define TARGET(device, name, level, base, bf16, registers, register_bytes,     \
               doc)                                                            \
    if (HERE_##device(base, bf16) && level > best)                             \
        best = level;
#include "ir/plan/targets.def"
#undef TARGET
    return best;
}

bool
target_runs_here(const char *name)
{
    const TargetInfo *t = target_find(name);
    return t && t->device == DEVICE_cpu && t->level <= target_level_here();
}

/* On Intel's CPUs vdpbf16ps, which adds two products to each sum, takes four
 * times as long as an fma: 0.75 ns beside 0.17 on a fifth-generation Xeon. */
static bool
has_fast_vdpbf16ps(void)
{
    return !__builtin_cpu_is("intel");
}

const TargetInfo *
target_best_here(void)
{
    const TargetInfo *t = target_of_level(DEVICE_cpu, target_level_here());
    if (t && t->bf16 == TARGET_BF16_AVX && !has_fast_vdpbf16ps())
        t = target_of_level(DEVICE_cpu, t->level - 1);
    return t;
}

const char *
target_here(void)
{
    const TargetInfo *t = target_best_here();
    return t ? t->name : NULL;
}
