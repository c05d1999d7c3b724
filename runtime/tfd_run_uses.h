/*
 * tfd_run_uses.h - in which runs an option of tfd-run has an effect
 */
#ifndef TFD_RUNTIME_TFD_RUN_USES_H
#define TFD_RUNTIME_TFD_RUN_USES_H

#include "ir/base/io/options.h"
#include "ir/device/strategy.h"

/* What a command line starts. */
typedef enum RunKind {
    RUN_ALONE,         /* one process, of which nothing says that it is one of
                          a job */
    RUN_EQUAL,         /* one of a job's equal processes */
    RUN_TASK,          /* a task of a parameter-server job */
    RUN_N_EQUAL,       /* -n N */
    RUN_N_TASKS,       /* -n workers=3,ps=2 */
    RUN_LOCAL_CLUSTER, /* --local-cluster */
} RunKind;

/* STATUS_USAGE: an option or an operand is given that has no effect beside
 * `answer`, which prints something instead of a run. */
Status tfd_run_check_answer(const Options *o, int answer) MUST_USE;

/* STATUS_USAGE: an option is given that has no effect in such a run. */
Status tfd_run_check_uses(const Options *o, RunKind kind,
                          const IrStrategyInfo *strategy) MUST_USE;

#endif
