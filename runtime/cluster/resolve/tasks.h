/*
 * tasks.h - the tasks of a cluster: jobs ("worker", "ps") of numbered tasks
 *
 * What TensorFlow calls a ClusterSpec, with this process's place in it.  It is
 * read from JSON as TF_CONFIG has it:
 *
 *   {"cluster": {"chief": ["h0:2222"], "worker": ["h1:2222", "h2:2222"]},
 *    "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}
 *
 * A job's tasks are a list, or, where a process knows only some of them, an
 * object whose keys are their indices.
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_TASKS_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_TASKS_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"

typedef struct RtTask {
    int index;
    const char *address; /* HOST:PORT */
} RtTask;

typedef struct RtTaskJob {
    const char *name;
    VEC(RtTask) tasks; /* by index */
    bool sparse;       /* the indices were given; else they are 0, 1, ... */
} RtTaskJob;

typedef struct RtTasks {
    VEC(RtTaskJob) jobs;
    const char *type;      /* of this process; NULL: not said */
    int index;             /* -1: not said */
    const char *rpc_layer; /* NULL: none */
} RtTasks;

/* HOST:PORT; an address of IPv6 gets its brackets. */
const char *rt_host_port(Arena *a, const char *host, int port);
/* Why a text is no HOST:PORT or [HOST]:PORT; NULL: it is one. */
const char *rt_wrong_address(Arena *a, const char *text);

/* The same of an address to listen at: its host may be "*", and its port, where
 * any_port, 0. */
const char *rt_wrong_listen(Arena *a, const char *text, bool any_port);

/* Reads JSON of len bytes; `from` is what messages call it. */
Status rt_tasks_parse(Arena *a, const char *from, const char *json, size_t len,
                      RtTasks *out) MUST_USE;

/* NULL: there is none. */
const RtTaskJob *rt_tasks_job(const RtTasks *t, const char *name);
/* The address of a task, with "rpc_layer://" before it if there is one; NULL:
 * it has none. */
const char *rt_task_address(Arena *a, const RtTasks *t, const char *type,
                            int index);
/* That of this process; "" where it is alone. */
const char *rt_own_address(Arena *a, const RtTasks *t);

/* Adds the jobs of another cluster; lists of one job are appended, and tasks
 * whose indices are given keep them: an error if both have one. */
Status rt_tasks_add(Arena *a, RtTasks *to, const RtTasks *more) MUST_USE;

/* Whether a task is the one with side effects: the chief, worker 0 of a cluster
 * without one, an evaluator. */
Status rt_task_is_chief(const RtTasks *t, const char *type, int index,
                        bool *out) MUST_USE;
/* The tasks that train together with one of this type: the chief and the
 * workers; the evaluators for an evaluator. */
Status rt_worker_count(const RtTasks *t, const char *type, int *out) MUST_USE;
/* The number of a task among them: the chief's is 0. */
Status rt_task_rank(const RtTasks *t, const char *type, int index,
                    int *out) MUST_USE;

#endif
