/*
 * evaluator.c - a run as the evaluator of a job
 *
 * Checkpoints are whole or absent, and one that is replaced or removed is read
 * to its end all the same.  Which is the newest is looked up again and again:
 * those that came while another one was evaluated are left out, but the last
 * one is not.
 */
#include "runtime/evaluator/evaluator.h"

#include <string.h>
#include "ir/base/clock.h"
#include "ir/evaluation.h"
#include "ir/analysis/footprint.h"
#include "runtime/exec/end.h"
#include "runtime/exec/output.h"
#include "runtime/exec/watchdog.h"
#include "runtime/ps/member.h"

enum { LOOK_MS = 100 };

struct RtEvaluator {
    RtRun *run;
    RtPsNet net;
    RtPsMember member;
    int64_t step;               /* that was evaluated last; 0: none */
    const RtCheckpoint *newest; /* that is evaluated now */
    bool is_late;               /* the job had ended before it came */
    bool has_ended;
    Status lost; /* why it will not hear of the job's end */
};

/* ---- the job ------------------------------------------------------------- */

/* An evaluation that is interrupted is not gone on with. */
static bool
is_stopped(void *data)
{
    return rt_is_stopped(data) || rt_is_interrupted(data);
}

Status
rt_evaluator_check(const IrModule *m, const char *checkpoint_dir)
{
    if (!ir_evaluation(m))
        return status_new(STATUS_USAGE,
                          "an evaluator executes main evaluate { ... }, and "
                          "the program has none");
    if (!checkpoint_dir)
        return status_new(STATUS_USAGE,
                          "an evaluator needs --checkpoint DIR, the folder of "
                          "the coordinator's checkpoints");
    return OK;
}

static bool
is_over(void *data)
{
    const RtRun *run = data;
    return rt_checkpoints_have_ended(run->options->checkpoint_dir);
}

/* Of a job that has ended, what it left is evaluated all the same. */
static Status
join(RtEvaluator *e, const RtMemberConfig *config)
{
    RtPsWelcome welcome;
    RtRun *run = e->run;
    Status st = rt_ps_member_join(&e->net, config, &e->member, &welcome);
    e->is_late = st && status_kind(st) != STATUS_USAGE && is_over(run) &&
                 !is_stopped(run);
    if (e->is_late) {
        status_free(st);
        e->has_ended = true;
        return OK;
    }
    if (!st)
        run->told_params = rt_archive_reader(run->arena, welcome.params,
                                             (size_t)welcome.params_len);
    return st;
}

Status
rt_evaluator_open(RtRun *run)
{
    const RtTaskOptions *task = run->options->task;
    if (!task || task->role != RT_ROLE_evaluator)
        return OK;
    TRY(rt_evaluator_check(run->module, run->options->checkpoint_dir));
    RtEvaluator *e = run->evaluator = NEW(run->arena, RtEvaluator);
    e->run = run;
    RtMemberConfig config = {.task = task,
                             .plan = run->plan->hash,
                             .address = "",
                             .timeout = run->timeout,
                             .is_stopped = is_stopped,
                             .is_over = is_over,
                             .data = run};
    TRY(rt_ps_net_open(&e->net, task->key));
    return join(e, &config);
}

void
rt_evaluator_close(RtRun *run)
{
    RtEvaluator *e = run->evaluator;
    if (!e)
        return;
    rt_ps_member_leave(&e->member);
    rt_ps_net_close(&e->net);
    run->evaluator = NULL;
}

static void
take(RtEvaluator *e, zmq_msg_t *m)
{
    RtArchive in;
    const RtZmq *z = e->net.zmq;
    Arena *scratch = arena_new(NULL, "a message");
    RtPsType type =
        rt_ps_read(&in, scratch, z->zmq_msg_data(m), z->zmq_msg_size(m));
    e->member.heard = clock_seconds();
    e->has_ended |= type == RT_PS_END;
    if (type == RT_PS_REFUSED && !e->lost)
        e->lost = rt_ps_member_refused(&e->member, &in);
    else if (type != RT_PS_END && type != RT_PS_WAIT && type != RT_PS_WELCOME)
        rt_ps_reject(&in, "it is for somebody else");
    if (in.wrong)
        rt_ps_blame(&e->net, RT_ROLE_coordinator, 0, type);
    arena_release(scratch);
}

/* Whether the job goes on, for what waits in the meantime. */
static void
listen_to_coordinator(RtEvaluator *e)
{
    zmq_msg_t m;
    RtPsSocket *socket = &e->member.socket;
    rt_ps_poll(&e->net, &socket, 1, LOOK_MS);
    e->net.zmq->zmq_msg_init(&m);
    while (rt_ps_next(&e->net, socket, &m))
        take(e, &m);
    e->net.zmq->zmq_msg_close(&m);
    rt_ps_member_greet(&e->member);
}

/* ---- a checkpoint -------------------------------------------------------- */

static Status
call_main(RtRun *run, RtInvocation *main)
{
    char *frame = main->call.base;
    memset(frame, 0, ir_frame_bytes(main->fn->ir));
    rt_invocation_init(main, main->fn, &run->main, frame);
    atomic_store(&run->main.running, main);
    int32_t end = main->fn->code(&main->call);
    atomic_store(&run->main.running, NULL);
    TRY(rt_flush(run));
    TRY(rt_status_of_fault(run));
    TRY(rt_devices_status(run));
    return end == EXEC_OK ? OK : rt_status_of_stop(run);
}

Status
rt_evaluator_restore(RtRun *run)
{
    return rt_restore_variables(run, run->evaluator->newest);
}

static Status
evaluate(RtEvaluator *e, RtInvocation *main, const RtCheckpoint *c)
{
    char prefix[64];
    RtRun *run = e->run;
    e->newest = c;
    snprintf(prefix, sizeof prefix,
             "evaluator, step %lld: ", (long long)c->step);
    run->prefix = prefix;
    rt_watchdog_resume(run);
    Status st = call_main(run, main);
    rt_watchdog_suspend(run);
    run->prefix = NULL;
    /* What came meanwhile is not read yet: its patience begins anew. */
    e->member.heard = clock_seconds();
    return status_note(st, "evaluating the checkpoint of step %lld",
                       (long long)c->step);
}

/* The newest one, if it was not evaluated yet.  One that is not there any more
 * by now, or is damaged, may have a successor soon. */
static Status
evaluate_newest(RtEvaluator *e, RtInvocation *main)
{
    RtCheckpoint c = {.state = NULL};
    const char *dir = e->run->options->checkpoint_dir;
    int64_t newest = rt_checkpoints_newest_step(dir);
    if (newest == 0 || newest == e->step)
        return OK;
    Arena *a = arena_new(NULL, "a checkpoint");
    Status st = rt_checkpoints_newest(e->run->resume.folder, a, NULL, &c);
    if (!st && c.state && c.step > 0 && c.step != e->step) {
        e->step = c.step;
        st = evaluate(e, main, &c);
    } else if (!e->has_ended) {
        status_free(st);
        st = OK;
    }
    arena_release(a);
    return st;
}

/* It has nobody to ask. */
static Status
evaluate_last(RtEvaluator *e, RtInvocation *main)
{
    TRY(evaluate_newest(e, main));
    if (e->step > 0)
        return OK;
    return status_new(STATUS_MACHINE,
                      "the job has ended, and has left no checkpoint in \"%s\"",
                      e->run->options->checkpoint_dir);
}

/* A job of which nothing is heard any more may have had a last checkpoint. */
static Status
follow(RtEvaluator *e, RtInvocation *main)
{
    Status st = OK;
    if (e->is_late)
        return evaluate_last(e, main);
    while (!e->has_ended && !st) {
        listen_to_coordinator(e);
        if (is_stopped(e->run))
            return rt_data_stopped();
        if (!e->lost)
            e->lost = rt_ps_member_check(&e->member);
        e->has_ended |= e->lost != OK;
        st = evaluate_newest(e, main);
    }
    if (st)
        status_free(e->lost);
    return st ? st : e->lost;
}

/* While it waits nothing goes on, however long. */
Status
rt_evaluator_follow(RtRun *run, RtInvocation *main)
{
    rt_watchdog_suspend(run);
    Status st = follow(run->evaluator, main);
    rt_watchdog_resume(run);
    return st;
}
