/*
 * task_counts.h - how many tasks of each kind a parameter-server job has
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_TASK_COUNTS_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_TASK_COUNTS_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

/* Beside the coordinator, of which there is one. */
typedef struct RtTaskCounts {
    int workers, servers; /* at least one of each */
    int evaluators;       /* 0 or 1 */
} RtTaskCounts;

/* Reads "workers=3,ps=2,evaluator=1", or "1 coordinator, 2 ps, 3 workers";
 * option: what messages call it.  STATUS_USAGE: it is neither. */
Status rt_task_counts_parse(Arena *a, const char *option, const char *text,
                            RtTaskCounts *out) MUST_USE;

/* Whether a text is a number alone: of processes, which are not tasks. */
bool rt_is_number(const char *text);

/* With the coordinator. */
int rt_num_tasks(const RtTaskCounts *counts);

#endif
