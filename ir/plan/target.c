/*
 * target.c - the table of targets, and which of them this CPU runs
 */
#include "ir/plan/target.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

const TargetInfo target_info[NUM_TARGETS] = {
#define TARGET(device, name, level, registers, register_bytes, doc)            \
    {name, DEVICE_##device, level, doc},
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

/* __builtin_cpu_supports takes literals only. */
#define HERE_cpu(name) (__builtin_cpu_supports(name) != 0)
#define HERE_cuda(name) false

int
target_level_here(void)
{
    int best = 0;
#define TARGET(device, name, level, registers, register_bytes, doc)            \
    if (HERE_##device(name) && level > best)                                   \
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

const char *
target_here(void)
{
    const TargetInfo *t = target_of_level(DEVICE_cpu, target_level_here());
    return t ? t->name : NULL;
}
