/*
 * pods.c - the hosts of a cluster as Kubernetes and SageMaker list them
 */
#include "runtime/cluster/resolve/platforms.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"
#include "runtime/cluster/resolve/resolve_impl.h"

static Status
add_worker(Arena *a, RtTaskJob *job, const char *from, const char *host,
           int port)
{
    if (job->tasks.len >= limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, from);
    RtTask task = {job->tasks.len, rt_host_port(a, host, port)};
    VEC_PUSH(a, job->tasks, task);
    return OK;
}

/* ---- Kubernetes ---------------------------------------------------------- */

typedef struct Pod {
    const char *name, *host;
} Pod;

typedef VEC(Pod) Pods;

static int
by_name(const void *x, const void *y)
{
    const Pod *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static const char *
text_at(json_t *object, const char *outer, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(object, outer), key));
}

static Status
read_pod(Arena *a, const char *from, json_t *item, Pods *pods)
{
    const char *name = text_at(item, "metadata", "name");
    const char *phase = text_at(item, "status", "phase");
    const char *host = text_at(item, "status", "podIP");
    if (!name || !phase)
        return status_new(STATUS_INPUT,
                          "%s: item %d has no metadata.name and status.phase",
                          from, pods->len);
    if (strcmp(phase, "Running") != 0)
        return status_new(STATUS_INPUT,
                          "%s: the pod %s is not running: its phase is %s",
                          from, name, phase);
    if (!host)
        return status_new(STATUS_INPUT, "%s: the pod %s has no status.podIP",
                          from, name);
    VEC_PUSH(a, *pods, ((Pod){name, host}));
    return OK;
}

static Status
read_pods(Arena *a, const char *from, json_t *root, int port, const char *own,
          RtTasks *out)
{
    Pods pods = {0};
    RtTaskJob job = {.name = "worker"};
    size_t i;
    json_t *item, *items = json_object_get(root, "items");
    if (!json_is_array(items))
        return status_new(STATUS_INPUT,
                          "%s has no \"items\": it is no list of pods", from);
    json_array_foreach(items, i, item) TRY(read_pod(a, from, item, &pods));
    if (pods.len)
        qsort(pods.data, (size_t)pods.len, sizeof(Pod), by_name);
    for (int k = 0; k < pods.len; k++) {
        TRY(add_worker(a, &job, from, pods.data[k].host, port));
        if (own && strcmp(pods.data[k].name, own) == 0) {
            out->type = job.name;
            out->index = k;
        }
    }
    VEC_PUSH(a, out->jobs, job);
    return OK;
}

bool
rt_is_pods(const char *json, size_t len)
{
    json_t *root = json_loadb(json, len, 0, NULL);
    bool is = json_object_get(root, "items");
    json_decref(root);
    return is;
}

Status
rt_pods_tasks(Arena *a, const char *from, const char *json, size_t len,
              int port, const char *own, RtTasks *out)
{
    json_t *root;
    *out = (RtTasks){.index = -1};
    TRY(rt_read_json(from, json, len, &root));
    Status st = read_pods(a, from, root, port, own, out);
    json_decref(root);
    return st;
}

/* ---- SageMaker ----------------------------------------------------------- */

static Status
read_hosts(Arena *a, json_t *hosts, const char *own, int port, RtTasks *out)
{
    RtTaskJob job = {.name = "worker"};
    size_t i;
    json_t *item;
    out->type = "worker";
    if (!json_is_array(hosts))
        return status_new(STATUS_INPUT,
                          "SM_HOSTS is no list of names: [\"algo-1\", ...]");
    json_array_foreach(hosts, i, item)
    {
        const char *host = json_string_value(item);
        if (!host)
            return status_new(STATUS_INPUT, "SM_HOSTS: item %zu is no name", i);
        if (strcmp(host, own) == 0)
            out->index = (int)i;
        TRY(add_worker(a, &job, "SM_HOSTS", host, port));
    }
    if (out->index < 0)
        return status_new(STATUS_INPUT,
                          "SM_CURRENT_HOST=%s is none of SM_HOSTS", own);
    VEC_PUSH(a, out->jobs, job);
    return OK;
}

Status
rt_sagemaker_tasks(Arena *a, RtEnvironment env, int port, RtTasks *out)
{
    const char *hosts = env.get(env.data, "SM_HOSTS");
    const char *own = env.get(env.data, "SM_CURRENT_HOST");
    json_t *root;
    *out = (RtTasks){.index = -1};
    if (!hosts || !own)
        return status_new(STATUS_INPUT, "%s is not set: SageMaker sets it",
                          hosts ? "SM_CURRENT_HOST" : "SM_HOSTS");
    TRY(rt_read_json("SM_HOSTS", hosts, strlen(hosts), &root));
    Status st = read_hosts(a, root, own, port, out);
    json_decref(root);
    return st;
}
