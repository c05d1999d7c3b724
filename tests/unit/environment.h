/*
 * environment.h - environments as lists, for tests
 */
#ifndef TFD_TESTS_UNIT_ENVIRONMENT_H
#define TFD_TESTS_UNIT_ENVIRONMENT_H

#include <string.h>
#include "runtime/cluster/resolve/resolve.h"

/* The value in a list of "NAME=value" that NULL ends. */
static inline const char *
environment_get(void *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *at = list; *at; at++)
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
            return *at + len + 1;
    return NULL;
}

/* The list has to last as long as the result. */
static inline RtEnvironment
environment_of(const char *const *list)
{
    return (RtEnvironment){environment_get, (void *)list};
}

#endif
