/*
 * watchdog.c - the thread that ends runs without progress
 *
 * Ten times a second it checks whether the user has interrupted, whether an
 * executor has failed, and, with --timeout, whether there is progress: whether
 * main or a replica has reached another operation.  An iteration of a loop that
 * may be endless is not progress.  To end the run it sets the stop word, which
 * compiled loops load in each iteration, hooks and pipelines check, and which
 * ends the waits for other replicas; so main returns.
 *
 * Kernels and threads that read a file do not check it.  The watchdog waits
 * GRACE seconds for them; then it ends the process, with the same message.
 */
#include "runtime/exec/watchdog.h"

#include <assert.h>
#include <math.h>
#include <unistd.h>
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "runtime/exec/end.h"
#include "runtime/exec/position.h"
#include "runtime/exec/run_state.h"

#define GRACE 0.5      /* seconds to return */
#define PRECEDENCE 1.0 /* of those who wait for others */
#define AGREEING 1.0   /* for processes to agree on a step that is the last */
#define PATIENCE 10.0  /* with a step, when an interrupt wants a checkpoint */
enum { USUAL_STEPS = 10 }; /* or as long as so many of the longest one */

/* ---- stopping ----------------------------------------------------------- */

bool
rt_is_stopped(const RtRun *run)
{
    return atomic_load_explicit(&run->watchdog.stop, memory_order_acquire) != 0;
}

void
rt_stop(RtRun *run)
{
    atomic_store(&run->watchdog.stop, EXEC_STOPPED);
    run->coll->ops->abort(run->coll);
    if (run->group)
        run->group->ops->abort(run->group);
}

void
rt_watchdog_suspend(RtRun *run)
{
    atomic_fetch_add(&run->watchdog.held, 1);
}

void
rt_watchdog_resume(RtRun *run)
{
    assert(atomic_load(&run->watchdog.held) > 0);
    atomic_fetch_sub(&run->watchdog.held, 1);
}

/* Main's operation; NULL: it has returned, wherever that was. */
static const IrOp *
position_of_main(const RtRun *run)
{
    int32_t at;
    bool runs = atomic_load(&run->watchdog.phase) == PHASE_RUNNING;
    return runs ? rt_position(&run->main, &at) : NULL;
}

/* Files take the time they take, and are complete or do not exist. */
static bool
is_held(const RtRun *run)
{
    const IrOp *op = position_of_main(run);
    if (atomic_load(&run->watchdog.held))
        return true;
    return op && (op->kind == OP_save || op->kind == OP_restore ||
                  op->kind == OP_summary);
}

/* A reader of what is printed takes the time it takes; who interrupts does not
 * wait for it. */
static bool
waits_for_reader(const RtRun *run)
{
    const IrOp *op = position_of_main(run);
    return !rt_is_interrupted(run) &&
           ((op && op->kind == OP_print) || atomic_load(&run->watchdog.prints));
}

/* ---- progress ------------------------------------------- */

/* Whether the executor has made progress since the last sample. */
static bool
update_sample(RtProgressSample *seen, const RtExecutor *executor)
{
    RtProgressSample now;
    const IrOp *op = rt_position(executor, &now.at);
    now.num_ops =
        atomic_load_explicit(&executor->num_ops, memory_order_relaxed);
    if (op && rt_unbounded_loop(op))
        now.at = -1;
    bool moved = now.at != seen->at || now.num_ops != seen->num_ops;
    *seen = now;
    return moved;
}

static void
note_moves(RtRun *run, double now)
{
    RtWatchdog *w = &run->watchdog;
    bool moved = update_sample(&w->seen[0], &run->main);
    for (int i = 0; i < run->num_local; i++)
        moved |= update_sample(&w->seen[1 + i], &run->locals[i]);
    if (moved || w->moved == 0)
        w->moved = now;
}

static void
note_steps(RtWatchdog *w, double now)
{
    int64_t steps = atomic_load_explicit(&w->steps, memory_order_relaxed);
    if (steps == w->seen_steps && w->stepped != 0)
        return;
    if (w->stepped != 0)
        w->longest = fmax(w->longest, now - w->stepped);
    w->stepped = now;
    w->seen_steps = steps;
}

/* A replica that waits for others has its own timeout, and knows better who is
 * late; unless its device does not let it look, because another one has the
 * only thread. */
static bool
waits_for_others(const RtRun *run)
{
    int32_t at;
    for (int i = 0; i < run->num_local; i++) {
        const IrOp *op = rt_position(&run->locals[i], &at);
        if (op && ir_op_is_done(op->kind))
            return true;
    }
    return false;
}

/* ---- ending a run ---------------------------------------------------- */

static const char *
late_text(Arena *a, const IrOp *op, double seconds)
{
    if (op->kind == OP_launch)
        return message_printf(a,
                              "this step has not ended after %g seconds "
                              "(--timeout allows more)",
                              seconds);
    if (rt_waits_for_data(op))
        return message_printf(a,
                              "no data have come after %g seconds (--timeout "
                              "allows more)",
                              seconds);
    return message_printf(a,
                          "main has not gone on for %g seconds (--timeout "
                          "allows more)",
                          seconds);
}

static void
give_up(RtRun *run, const IrOp *op)
{
    RtWatchdog *w = &run->watchdog;
    w->fault.kind = STATUS_INPUT;
    w->fault.late = true;
    w->fault.text = str_new(w->arena);
    str_add(&w->fault.text, late_text(w->arena, op, run->timeout));
    rt_add_stragglers(run, w->arena, &w->fault.notes);
    const IrOp *loop = rt_unbounded_loop(op);
    w->fault.op = loop && op->kind != OP_launch ? loop : op;
    rt_stop(run);
}

static void
check_time(RtRun *run, double now)
{
    int32_t at;
    const IrOp *op = rt_position(&run->main, &at);
    double idle = now - run->watchdog.moved;
    if (run->options->timeout <= 0 || !op || idle < run->timeout)
        return;
    if (op->kind != OP_launch || !waits_for_others(run) ||
        idle > 2 * run->timeout + PRECEDENCE)
        give_up(run, op);
}

/* With checkpoints the current step is finished (D19), and those of a job all
 * agree on a step, unless it takes so long that it may never end. */
static void
check_interrupt(RtRun *run, double now)
{
    int32_t at;
    RtWatchdog *w = &run->watchdog;
    if (w->interrupted == 0)
        w->interrupted = now;
    double least = run->resume.is_on ? PATIENCE : AGREEING;
    double patience = fmax(least, USUAL_STEPS * w->longest);
    if ((run->resume.is_on || run->group) &&
        now - w->interrupted < fmin(run->timeout, patience))
        return;
    const IrOp *op = rt_position(&run->main, &at);
    w->wants_data = op && rt_waits_for_data(op);
    if (run->resume.is_on)
        rt_add_stragglers(run, w->arena, &w->unfinished);
    rt_stop(run);
}

/* Replicas may wait for it in a collective, one of them on main's thread. */
static void
check_devices(RtRun *run)
{
    int32_t at;
    const IrOp *op = rt_position(&run->main, &at);
    if (op && op->kind == OP_launch && rt_has_lost_device(run))
        rt_stop(run);
}

/* Other executors return by themselves if they would also fail: the one that is
 * reported must not depend on which was faster. */
static void
check_faults(RtRun *run, double now)
{
    RtWatchdog *w = &run->watchdog;
    if (!atomic_load(&w->failed))
        return;
    if (w->faulted == 0)
        w->faulted = now;
    if (now - w->faulted > GRACE)
        rt_stop(run);
}

/* ---- ending the process ------------------------------------------------- */

/* A thread that returns now must not report a second time. */
static void
move_on(RtWatchdog *w, RtRunPhase from, RtRunPhase to)
{
    int phase = from;
    while (!atomic_compare_exchange_strong(&w->phase, &phase, to)) {
        if (phase == PHASE_ABANDONED)
            pause();
        phase = from;
    }
}

static void
abandon(RtRun *run, RtRunPhase from)
{
    RtWatchdog *w = &run->watchdog;
    int phase = from;
    if (!run->options->abandon ||
        !atomic_compare_exchange_strong(&w->phase, &phase, PHASE_ABANDONED))
        return;
    Status st = from == PHASE_CLOSING ? w->result : rt_status_of_abandoned(run);
    run->options->abandon(run->plan, rt_leave_job(run, st));
}

/* ---- the thread --------------------------------------------------------- */

static void
look_at_main(RtRun *run, double now)
{
    RtWatchdog *w = &run->watchdog;
    note_moves(run, now);
    note_steps(w, now);
    check_devices(run);
    if (rt_is_stopped(run)) {
        if (w->stopped == 0)
            w->stopped = now;
        if (now - w->stopped > GRACE)
            abandon(run, PHASE_RUNNING);
    } else if (atomic_load(&w->failed)) {
        check_faults(run, now);
    } else if (rt_is_interrupted(run)) {
        check_interrupt(run, now);
    } else {
        check_time(run, now);
    }
}

/* The time since the last look does not count. */
static void
leave_out(RtWatchdog *w, double now)
{
    w->moved = now;
    w->stopped = w->closed = 0;
    if (w->interrupted != 0)
        w->interrupted += now - w->looked;
}

static void
look(RtRun *run, double now)
{
    RtWatchdog *w = &run->watchdog;
    bool counts = !is_held(run) && !waits_for_reader(run);
    if (!counts)
        leave_out(w, now);
    w->looked = now;
    if (!counts)
        return;
    switch ((RtRunPhase)atomic_load(&w->phase)) {
    case PHASE_RUNNING:
        look_at_main(run, now);
        break;
    case PHASE_CLOSING:
        if (w->closed == 0)
            w->closed = now;
        if (now - w->closed > GRACE)
            abandon(run, PHASE_CLOSING);
        break;
    case PHASE_RETURNED:
    case PHASE_ABANDONED:
    case PHASE_ENDED:
        break;
    }
}

static void *
watch(void *data)
{
    RtRun *run = data;
    RtWatchdog *w = &run->watchdog;
    while (rt_wait_word_wait(&w->bell, 0, false) == 0) {
        atomic_store(&w->looks, true);
        look(run, rt_waited(&w->watched, run->clock()));
        atomic_store(&w->looks, false);
    }
    return NULL;
}

Status
rt_watchdog_start(RtRun *run)
{
    RtWatchdog *w = &run->watchdog;
    w->arena = arena_new(NULL, "the watchdog");
    w->seen = NEW_ARRAY(w->arena, RtProgressSample, (size_t)run->num_local + 1);
    TRY(thread_start(&w->thread, watch, run, "the watchdog"));
    w->has_thread = true;
    return OK;
}

void
rt_watchdog_main_returned(RtRun *run)
{
    move_on(&run->watchdog, PHASE_RUNNING, PHASE_RETURNED);
}

/* Threads that make data may be in an endless loop, too, and devices that did
 * not connect may never be closed.  A look at main that began before ends
 * first: devices are closed next. */
void
rt_watchdog_closing(RtRun *run, Status st)
{
    RtWatchdog *w = &run->watchdog;
    if (!w->has_thread && !run->devices)
        return;
    atomic_store(&w->stop, EXEC_STOPPED);
    w->result = st;
    int phase = atomic_load(&w->phase);
    move_on(w, (RtRunPhase)phase, PHASE_CLOSING);
    if (!w->has_thread)
        status_free(rt_watchdog_start(run));
    while (atomic_load(&w->looks))
        usleep(100);
}

void
rt_watchdog_join(RtRun *run)
{
    RtWatchdog *w = &run->watchdog;
    if (w->has_thread) {
        move_on(w, PHASE_CLOSING, PHASE_ENDED);
        rt_wait_word_add(&w->bell, 1);
        pthread_join(w->thread, NULL);
    }
    if (w->arena)
        arena_release(w->arena);
}
