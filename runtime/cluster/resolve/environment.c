/*
 * environment.c - variables, and JSON in them
 */
#include "runtime/cluster/resolve/resolve_impl.h"

#include <stdlib.h>

static const char *
get_own(void *data, const char *name)
{
    (void)data;
    return getenv(name);
}

RtEnvironment
rt_environment(void)
{
    return (RtEnvironment){get_own, NULL};
}

const char *
rt_variable(RtEnvironment env, const char *name)
{
    const char *value = env.get(env.data, name);
    return value && *value ? value : NULL;
}

Status
rt_read_json(const char *from, const char *json, size_t len, json_t **out)
{
    json_error_t error;
    *out = json_loadb(json, len, JSON_REJECT_DUPLICATES, &error);
    return *out ? OK
                : status_new(STATUS_INPUT,
                             "%s is no JSON: line %d, column %d: %s", from,
                             error.line, error.column, error.text);
}
