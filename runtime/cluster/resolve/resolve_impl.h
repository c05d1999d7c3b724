/*
 * resolve_impl.h - what the readers of this folder share
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_IMPL_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_IMPL_H

#include <jansson.h>
#include "runtime/cluster/resolve/resolve.h"

/* NULL: it is not set, or to nothing. */
const char *rt_variable(RtEnvironment env, const char *name);

/* Adds what was found, and where it comes from. */
void rt_add_fact(Arena *a, RtClusterSpec *spec, const char *name,
                 const char *from, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reads JSON without names that occur twice; from: what messages call it. */
Status rt_read_json(const char *from, const char *json, size_t len,
                    json_t **out) MUST_USE;

/* "worker:1"; option: what messages call it. */
Status rt_read_task(Arena *a, const char *option, const char *text,
                    const char **type, int *index) MUST_USE;

/* That --task has a cluster whose task it is. */
Status rt_check_task_option(RtEnvironment env,
                            const RtResolveOptions *options) MUST_USE;
/* The cluster of --cluster or TF_CONFIG, with --task, and which of them it is;
 * *out stays where there is none. */
Status rt_find_tasks(Arena *a, RtEnvironment env,
                     const RtResolveOptions *options, const char **from,
                     RtTasks **out) MUST_USE;
/* Whether this process's task is one that parameter servers alone have. */
bool rt_has_no_replicas(const RtTasks *t);
/* That a cluster says which task this process is. */
Status rt_check_own_task(const char *from, const RtTasks *t) MUST_USE;
/* That no task of a job (or NULL) is missing. */
Status rt_check_complete(const char *from, const RtTaskJob *job) MUST_USE;

#endif
