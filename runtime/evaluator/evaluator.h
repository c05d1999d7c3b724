/*
 * evaluator.h - a run as the evaluator of a job
 *
 * It executes `main evaluate` for checkpoints of the job, the newest one each
 * time, with the variables that are in it, alone: nothing of the job waits for
 * it, and it only reads the folder.  It ends once the job has ended and the
 * last checkpoint is evaluated.
 */
#ifndef TFD_RUNTIME_EVALUATOR_EVALUATOR_H
#define TFD_RUNTIME_EVALUATOR_EVALUATOR_H

#include "runtime/exec/run_state.h"

typedef struct RtEvaluator RtEvaluator;

/* Whether a job of this program with this folder, or NULL, may have one. */
Status rt_evaluator_check(const IrModule *m,
                          const char *checkpoint_dir) MUST_USE;
/* Waits for the coordinator, and has the job's params then (told_params); those
 * of one that has ended are in its checkpoints.  Nothing where the run is none.
 */
Status rt_evaluator_open(RtRun *run) MUST_USE;
/* Instead of main, until the job has ended. */
Status rt_evaluator_follow(RtRun *run, RtInvocation *main) MUST_USE;
/* When main has given its variables their initial values and is to evaluate:
 * they become those of the checkpoint. */
Status rt_evaluator_restore(RtRun *run) MUST_USE;
/* Also for a run that is none. */
void rt_evaluator_close(RtRun *run);

#endif
