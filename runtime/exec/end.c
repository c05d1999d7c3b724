/*
 * end.c - why main returned before its end, or did not return
 */
#include "runtime/exec/end.h"

#include <pthread.h>
#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/exec/position.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/wait.h"

#define REASON 10.0 /* seconds for the process that failed to say so */

/* ---- devices ------------------------------------------------------------ */

static const RtDevice *
lost_device(const RtRun *run)
{
    for (int i = 0; run->devices && i < run->num_devices; i++)
        if (run->devices[i] && rt_device_has_failed(run->devices[i]))
            return run->devices[i];
    return NULL;
}

bool
rt_has_lost_device(const RtRun *run)
{
    return lost_device(run) != NULL;
}

Status
rt_devices_status(const RtRun *run)
{
    const RtDevice *lost = lost_device(run);
    return lost ? rt_device_status(lost) : OK;
}

/* ---- faults ------------------------------------------------------------- */

static void
add_notes(Diag *d, const RtNotes *notes)
{
    for (int i = 0; i < notes->len; i++)
        diag_note(d, notes->data[i].loc, "%s", notes->data[i].text);
}

/* Where a run whose step was not finished resumes. */
static void
note_resume(const RtRun *run, Loc loc)
{
    if (run->resume.folder)
        diag_note(run->plan->diag, loc, "--resume goes on after step %lld",
                  (long long)rt_checkpoints_last(run->resume.folder));
}

static void
note_replica(const RtRun *run, const RtExecutor *replica, Loc loc)
{
    long long steps = atomic_load(&run->watchdog.steps);
    Arena *scratch = arena_new(NULL, "a fault");
    Str s = str_new(scratch);
    str_addf(&s, "on replica %d, device %s", replica->replica,
             replica->device->name);
    if (run->size > 1)
        str_addf(&s, " of rank %d", run->rank);
    if (steps)
        str_addf(&s, ", after %lld step%s", steps, steps == 1 ? "" : "s");
    diag_note(run->plan->diag, loc, "%s", str_text(&s));
    arena_release(scratch);
}

/* A run that works needs no calls, so the plan's are read only here; by several
 * threads, as functions of datasets fail beside main. */
static void
load_calls(RtRun *run)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!run->has_calls)
        status_free(plan_load_calls(run->plan));
    run->has_calls = true;
    pthread_mutex_unlock(&lock);
}

/* Leads with the program's own line.  Returns its place. */
static Loc
report(RtRun *run, Diag *d, const RtFault *f)
{
    load_calls(run);
    Loc loc = f->op->loc, own = ir_own_loc(d, loc, f->op->calls);
    diag_error(d, own, "%s", str_text(&f->text));
    ir_note_library(d, loc, f->op->calls, own);
    add_notes(d, &f->notes);
    ir_note_calls(d, f->op->calls, own);
    return own;
}

/* A fault from below, which has its own place; of a dataset also where main
 * asked for the element. */
static Status
take_cause(const RtRun *run, RtFault *f)
{
    Status cause = f->cause;
    f->cause = OK;
    if (!rt_waits_for_data(f->op) || !*status_lines(cause))
        return cause;
    Arena *scratch = arena_new(NULL, "a fault");
    Str lines = str_new(scratch);
    Diag *d = diag_beside(scratch, run->plan->diag);
    str_add(&lines, status_lines(cause));
    diag_note(d, f->op->loc, "an element is taken from here");
    str_add(&lines, diag_text(d, scratch));
    cause = status_show(cause, str_text(&lines));
    arena_release(scratch);
    return cause;
}

/* The fault of an executor, which may be NULL. */
static Status
status_of_fault(RtRun *run, RtFault *f, const RtExecutor *executor)
{
    if (f->cause)
        return take_cause(run, f);
    Loc own = report(run, run->plan->diag, f);
    if (f->late)
        note_resume(run, own);
    else if (executor && executor->replica >= 0)
        note_replica(run, executor, own);
    return status_new(f->kind, "%s", str_text(&f->text));
}

Status
rt_fault_in_words(RtRun *run, RtFault *f)
{
    if (f->cause)
        return take_cause(run, f);
    if (!f->op)
        UNREACHABLE("an executor without a fault");
    Arena *scratch = arena_new(NULL, "a fault");
    Str lines = str_new(scratch);
    load_calls(run);
    Diag *d = diag_beside(scratch, run->plan->diag);
    Loc loc = report(run, d, f);
    diag_add_below(&lines, d);
    Status st =
        status_new(f->kind, "%s:%u:%u: %s", diag_source_name(d, loc.file),
                   loc.line, loc.col, str_text(&f->text));
    st = status_show(st, str_text(&lines));
    arena_release(scratch);
    return st;
}

/* ---- interrupts --------------------------------------------------------- */

/* There may be no checkpoint of the current step: it did not end, or its data
 * did not arrive. */
static Status
status_of_interrupt(const RtRun *run)
{
    const RtWatchdog *w = &run->watchdog;
    const RtCheckpoints *folder = run->resume.folder;
    long long steps = atomic_load(&w->steps);
    long long last = folder ? rt_checkpoints_last(folder) : steps;
    Status st;
    bool unfinished = last < steps || w->unfinished.len;
    if (unfinished && w->wants_data)
        st = status_new(STATUS_STOPPED,
                        "interrupted after %lld steps, waiting for data; "
                        "--resume goes on after step %lld",
                        steps, last);
    else if (unfinished)
        st = status_new(STATUS_STOPPED,
                        "interrupted after %lld steps, in the midst of "
                        "another; --resume goes on after step %lld",
                        steps, last);
    else
        st = status_new(STATUS_STOPPED, "interrupted after %lld steps%s", steps,
                        run->resume.is_on ? "; --resume goes on from there"
                                          : "");
    return rt_show_notes(run, &w->unfinished, st);
}

/* ---- ends --------------------------------------------------------------- */

Status
rt_status_of_fault(RtRun *run)
{
    if (run->main.fault.op)
        return status_of_fault(run, &run->main.fault, &run->main);
    for (int i = 0; i < run->num_local; i++) {
        RtExecutor *executor = &run->locals[i];
        if (executor->fault.op)
            return status_of_fault(run, &executor->fault, executor);
    }
    return OK;
}

/* What the watchdog has written is visible to who acquires the stop word; loops
 * load it relaxed. */
Status
rt_status_of_stop(RtRun *run)
{
    RtFault *late = &run->watchdog.fault;
    if (atomic_load(&run->watchdog.stop) && late->op)
        return status_of_fault(run, late, NULL);
    if (run->group && !rt_stops_here(run) && !rt_is_interrupted(run))
        return status_new(STATUS_STOPPED,
                          "stopped after %lld steps with the other processes "
                          "of the job",
                          (long long)atomic_load(&run->watchdog.steps));
    return status_of_interrupt(run);
}

/* No thread waits any more, and only the first fault is sure to be complete. */
Status
rt_status_of_abandoned(RtRun *run)
{
    RtWatchdog *w = &run->watchdog;
    RtExecutor *failed = atomic_load(&w->failed);
    if (rt_has_lost_device(run))
        return rt_devices_status(run);
    if (failed)
        return status_of_fault(run, &failed->fault, failed);
    return rt_status_of_stop(run);
}

/* ---- jobs --------------------------------------------------------------- */

/* Who was stopped by the communicator or the group learns the reason a little
 * later: the process that failed first ends its own work. */
static Status
wait_for_reason(RtRun *run)
{
    double begin = clock_seconds();
    for (;;) {
        uint32_t bell = rt_wait_word_load(&run->job_bell);
        Status why = rt_job_stopped(run->job);
        if (why || clock_seconds() - begin > REASON)
            return why;
        rt_wait_word_wait(&run->job_bell, bell, false);
    }
}

/* Of a process that was stopped, why the job was. */
static Status
status_in_job(RtRun *run, Status st)
{
    bool is_stopped = st && status_kind(st) == STATUS_STOPPED;
    bool is_own = rt_stops_here(run) || rt_is_interrupted(run);
    if (st && (!is_stopped || is_own))
        return st;
    Status why = st ? wait_for_reason(run) : rt_job_stopped(run->job);
    if (!why)
        return st;
    status_free(st);
    return why;
}

Status
rt_leave_job(RtRun *run, Status st)
{
    RtJobEnd *end = run->options->end;
    RtJob *job = run->job;
    if (!job)
        return st;
    st = status_in_job(run, st);
    run->job = NULL;
    end->is_silent = !rt_job_close(job, st, &end->exit_status);
    end->is_set = true;
    return st;
}
