/*
 * transport.c - the transports that communicators can be opened on
 */
#include "runtime/coll/transport.h"

#include <assert.h>
#include <string.h>

static const RtTransport transports[] = {
    {"shm", 1, .needs_tasks = true, .open = rt_coll_shm_open},
    {"peers", 1, .needs_engine = true, .open = rt_coll_peers_open},
    {"nccl", 0, .caps = &rt_cuda_caps, .open = rt_coll_nccl_open},
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
    return t->max_processes == 0 || config->size <= t->max_processes;
}

Status
rt_coll_open(const RtCommConfig *config, RtColl **out)
{
    assert(config->rank >= 0 && config->rank < config->size);
    assert(config->num_devices > 0 && config->timeout > 0 &&
           config->num_local % config->num_devices == 0 &&
           config->first_local + config->num_local <= config->num_replicas);
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (joins(&transports[i], config))
            return transports[i].open(config, out);
    return status_new(STATUS_INPUT,
                      "this version has no transport%s%s that joins %d "
                      "process%s with such devices",
                      config->transport ? " " : "",
                      config->transport ? config->transport : "", config->size,
                      config->size == 1 ? "" : "es");
}
