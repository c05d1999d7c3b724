/*
 * role.h - which task of a parameter-server job this process is
 *
 * As rt_resolve for jobs of ranks.  The command line says it (--serve,
 * --coordinate), or a cluster with jobs of tasks does (TF_CONFIG, --cluster),
 * or a launcher's rank and --tasks: rank 0 is the coordinator, then come the
 * servers, then the workers.
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_ROLE_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_ROLE_H

#include "runtime/cluster/resolve/resolve.h"
#include "runtime/cluster/resolve/roles.h"

/* "coordinator", "ps 1", "worker 0", as the options and messages name it. */
const char *rt_task_name(Arena *a, RtRole role, int index);

/* Whether the options speak of tasks; *option gets the first one that does. */
bool rt_options_have_role(const RtResolveOptions *options, const char **option);

/* Whether TF_CONFIG, or the file of --cluster, makes this process a server or
 * an evaluator, which no other job has.  False of what cannot be read. */
bool rt_cluster_has_role(Arena *a, RtEnvironment env,
                         const RtResolveOptions *options);

/* Role, index, numbers and addresses of *task are set, the rest of it is zero;
 * spec has the facts.  has_key: the job has one, so that it need not be on
 * loopback.  Failures as of rt_resolve. */
Status rt_resolve_role(Arena *a, RtEnvironment env,
                       const RtResolveOptions *options, bool has_key,
                       RtTaskOptions *task, RtClusterSpec *spec) MUST_USE;

#endif
