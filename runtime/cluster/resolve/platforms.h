/*
 * platforms.h - the tasks of a cluster, as platforms list them
 *
 * For clusters whose jobs are not workers alone: parameter servers beside
 * workers in a step of Slurm, pods of Kubernetes, hosts of SageMaker.  As
 * TensorFlow's resolvers of these names.
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_PLATFORMS_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_PLATFORMS_H

#include "runtime/cluster/resolve/resolve.h"

/* ---- Slurm --------------------------------------------------------------- */

/* How many tasks of a step are of which job, in the order of their ranks. */
typedef struct RtJobShare {
    const char *name; /* "ps" */
    int num;
} RtJobShare;

typedef struct RtSlurmLayout {
    const RtJobShare *shares;
    int num_shares;                   /* 0: all are workers */
    int first_port;                   /* of the first task of a node; 0: 8888 */
    int gpus_per_node, gpus_per_task; /* 0: none are divided */
} RtSlurmLayout;

/* The tasks of the step in env; *gpus: the GPUs of this process, as
 * CUDA_VISIBLE_DEVICES has them, or NULL where none are divided. */
Status rt_slurm_tasks(Arena *a, RtEnvironment env, const RtSlurmLayout *layout,
                      RtTasks *out, const char **gpus) MUST_USE;

/* ---- Kubernetes ---------------------------------------------------------- */

/* Whether JSON is a list, as `kubectl get pods -o json` prints it. */
bool rt_is_pods(const char *json, size_t len);
/* The worker tasks of a list of pods: by name, on one port.  own: the name of
 * the pod that is this process's, or NULL.  STATUS_INPUT: one is not running.
 */
Status rt_pods_tasks(Arena *a, const char *from, const char *json, size_t len,
                     int port, const char *own, RtTasks *out) MUST_USE;

/* ---- SageMaker ----------------------------------------------------------- */

/* The workers of SM_HOSTS, of which SM_CURRENT_HOST is this process. */
Status rt_sagemaker_tasks(Arena *a, RtEnvironment env, int port,
                          RtTasks *out) MUST_USE;

#endif
