/*
 * ps.h - a run as a task of a parameter-server job
 *
 * The coordinator calls main; where main launches a closure it is scheduled,
 * and what main executes itself is a closure of its own.  Servers and workers
 * do their work instead of calling main.
 */
#ifndef TFD_RUNTIME_PS_PS_H
#define TFD_RUNTIME_PS_PS_H

#include <stdio.h>
#include "runtime/exec/run_state.h"
#include "runtime/ps/wire/wire.h"

/* ---- the run ------------------------------------------------------------- */

/* Joins the job, before anything is loaded: waits for its servers.  Nothing
 * where the run is no task, or an evaluator. */
Status rt_ps_open(RtRun *run) MUST_USE;
/* Once a coordinator has the values of params: others get them. */
void rt_ps_tell_params(RtRun *run);
/* Once main's functions are loaded and before arenas are made. */
Status rt_ps_load(RtRun *run, const RtFunction *main) MUST_USE;
/* Once there are executors. */
Status rt_ps_connect_all(RtRun *run) MUST_USE;
/* Once a coordinator's main is about to begin or to go on. */
void rt_ps_begin_main(RtRun *run);
/* Whether this process calls main: it is the coordinator, or no task. */
bool rt_ps_has_main(const RtRun *run);
/* What the others do instead, until the job ends. */
Status rt_ps_take_part(RtRun *run, RtInvocation *main) MUST_USE;
/* When main has returned: waits for its closures, and has all variables. */
Status rt_ps_finish(RtRun *run) MUST_USE;
/* How a coordinator's job is, while show looks at it; any thread. */
void rt_ps_show_status(RtRun *run,
                       void (*show)(void *data, const RtPsStatus *s),
                       void *data);
/* --stats: who executed closures, and which server has which variable. */
void rt_ps_print(RtRun *run, FILE *to);
/* The job ends, if this is its coordinator. */
void rt_ps_close(RtRun *run);

/* Whether this process takes elements of an iterator from the beginning on:
 * workers take those of their own once a closure needs one, and an evaluator
 * alone those of main evaluate. */
bool rt_ps_has_elements(const RtRun *run, const RtIterBinding *it);
/* Once a process has its params: a worker's are its number and how many there
 * are (IR_PIPELINE_ID). */
void rt_ps_set_context(RtRun *run);
/* What a worker has of a dataset. */
void rt_ps_share_data(RtRun *run, const RtIterBinding *it,
                      RtDataOptions *options);
/* The pass over its dataset that begins: a worker's is main's, else `here`. */
uint64_t rt_ps_pass_of(const RtRun *run, const RtIterBinding *it,
                       uint64_t here);
/* The seed of shuffles that state none: each worker has another order. */
uint64_t rt_ps_data_seed(const RtRun *run);

/* ---- operations of main -------------------------------------------------- */

/* Whether operations have to ask the functions below: in a coordinator. */
bool rt_ps_coordinates(const RtRun *run);

/* A launch: schedules it, or executes it here by `here`. */
int32_t rt_ps_launch(RtInvocation *inv, const RtHostOp *h, RtOpRun *here);
/* Waits for operand i, if a closure gives it, and puts it into its row. */
int32_t rt_ps_settle(RtInvocation *inv, const RtHostOp *h, int i);
/* The variable's current value. */
int32_t rt_ps_pull_variable(RtInvocation *inv, const RtHostOp *h,
                            const IrVar *var);
/* An iterator whose elements workers take begins again; false: it is main's. */
bool rt_ps_opens_iterator(RtRun *run, const RtIterBinding *it);
int32_t rt_ps_wait(RtInvocation *inv, const RtHostOp *h);
/* Drops closures that no worker has begun. */
void rt_ps_cancel(RtRun *run);
int32_t rt_ps_are_done(RtInvocation *inv, const RtHostOp *h, bool *out);

#endif
