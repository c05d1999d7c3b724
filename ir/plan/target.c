/*
 * target.c - levels of the x86-64 ABI as targets
 */
#include "ir/plan/target.h"

#include <stddef.h>
#include <string.h>

/* Best first. */
#define TARGETS(TARGET) TARGET("x86-64-v4") TARGET("x86-64-v3")

#define TARGET_NAME(name) name,
const char *const target_names[] = {TARGETS(TARGET_NAME) NULL};

/* __builtin_cpu_supports takes literals only. */
bool
target_runs_here(const char *name)
{
#define TARGET_RUNS(level)                                                     \
    if (strcmp(name, level) == 0)                                              \
        return __builtin_cpu_supports(level);
    TARGETS(TARGET_RUNS)
    return false;
}

const char *
target_here(void)
{
    for (int i = 0; target_names[i]; i++) {
        if (target_runs_here(target_names[i]))
            return target_names[i];
    }
    return NULL;
}
