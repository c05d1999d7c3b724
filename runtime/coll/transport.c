/*
 * transport.c - the transports that communicators can be opened on
 */
#include "runtime/coll/transport.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const RtTransport transports[] = {
    {"shm", 0, .needs_tasks = true, .shares_memory = true,
     .open = rt_coll_shm_open},
    {"peers", 1, .needs_engine = true, .open = rt_coll_peers_open},
    {"nccl", 0, .caps = &rt_cuda_caps, .open = rt_coll_nccl_open},
    {"messages", 0, .caps = &rt_cpu_caps, .needs_carrier = true,
     .open = rt_coll_messages_open},
};

static bool
joins(const RtTransport *t, const RtCommConfig *config)
{
    if (config->transport && strcmp(config->transport, t->name) != 0)
        return false;
    if ((t->needs_tasks && !config->caps->runs_tasks) ||
        (t->needs_engine && !config->caps->has_coll_engine))
        return false;
    if (t->caps && t->caps != config->caps)
        return false;
    if (t->shares_memory && config->size > 1 &&
        !(config->caps->shares_memory && config->exchange))
        return false;
    if (t->needs_carrier && !config->carrier)
        return false;
    return t->max_processes == 0 || config->size <= t->max_processes;
}

/* None of those that could join such devices joins these processes. */
static Status
refuse(const RtCommConfig *config, const char *why)
{
    const char *asked = config->transport ? config->transport : "";
    return status_new(STATUS_INPUT,
                      "this version has no transport%s%s that joins %d "
                      "process%s with such devices%s%s",
                      asked[0] ? " " : "", asked, config->size,
                      config->size == 1 ? "" : "es", why[0] ? ": " : "", why);
}

static void
check(const RtCommConfig *config)
{
    assert(config->rank >= 0 && config->rank < config->size);
    assert(config->num_devices > 0 && config->timeout > 0 &&
           config->num_local % config->num_devices == 0 &&
           config->first_local + config->num_local <= config->num_replicas);
    (void)config;
}

Status
rt_coll_open(const RtCommConfig *config, RtColl **out)
{
    Arena *a = arena_new(NULL, "transports");
    Str why = str_new(a);
    Status st = OK;
    check(config);
    *out = NULL;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (!st && !*out && joins(&transports[i], config))
            st = transports[i].open(config, out, &why);
    if (!st && !*out)
        st = refuse(config, str_text(&why));
    if (!st && !(*out)->over)
        (*out)->over = (*out)->ops->name;
    if (!st)
        snprintf((*out)->why, sizeof(*out)->why, "%s", str_text(&why));
    arena_release(a);
    return st;
}
