/*
 * launch.c - tfd-run -n: the parent of a job's processes
 *
 * Standard output is rank 0's, and so is standard input; what others write gets
 * their number before each line, on standard error.  A job that is started
 * again has a new control server, key and name, so that nothing of an earlier
 * attempt can join it.  The failure that it follows is printed with it, once.
 *
 * A signal is passed on once all have joined, for then each has a handler, and
 * a checkpoint to make.  Before, some may not have been started, and others
 * would die of it as of a failure; so the parent gives the attempt up.
 */
#include "runtime/cluster/launch/launch.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/control/open_files.h"
#include "runtime/cluster/control/printing.h"
#include "runtime/cluster/control/server.h"
#include "runtime/cluster/launch/evictions.h"
#include "runtime/cluster/launch/process.h"
#include "runtime/cluster/launch/restart.h"
#include "runtime/hal/wait.h"

static const double patience = 10; /* seconds from the stop to SIGKILL */
/* seconds in which processes that come back have to join */
static const double replacement_patience = 20;

enum { TURN_MS = 100 };

typedef struct Launch {
    Arena *arena;
    const RtLaunchConfig *config;
    RtAttempt *attempt;
    uint8_t key[RT_JOB_KEY];
    char id[17];
    RtServer *server;
    RtBound bound;       /* of its calls of libzmq */
    RtProcess *children; /* by rank; main's alone */
    RtEvictions evictions;
    RtSignals signals;
    bool begun;           /* all have joined */
    atomic_bool given_up; /* for a signal came before that */
    bool stopped;         /* it was seen */
    RtWaited ending;      /* since then */
    bool killed;
    Arena *said;               /* what the server's thread says: */
    const char *error, *notes; /* of it; NULL: nothing has failed */
    int64_t newest;            /* step of the checkpoint that was seen last */
    int checkpoints;           /* that a smaller attempt has made */
} Launch;

bool
rt_is_launched(void)
{
    return getenv(RT_KEY_VARIABLE) != NULL;
}

/* ---- before ------------------------------------------------------------- */

static Status
make_key(Launch *l)
{
    uint8_t id[8];
    TRY(rt_make_secret(l->key, sizeof l->key));
    TRY(rt_make_secret(id, sizeof id));
    for (int i = 0; i < 8; i++)
        snprintf(l->id + 2 * i, 3, "%02x", id[i]);
    return OK;
}

/* The server's thread, under its lock. */
static void
evict(void *data, int rank)
{
    Launch *l = data;
    rt_evictions_add(&l->evictions, rank);
}

/* The server's thread.  An error is printed when it is known what follows, and
 * never that processes die which are given up. */
static void
say(void *data, RtSay kind, const char *line, const char *lines)
{
    Launch *l = data;
    if (atomic_load(&l->given_up))
        return;
    if (kind != RT_SAY_ERROR || l->config->policy.restarts == 0) {
        rt_server_print(NULL, kind, line, lines);
        return;
    }
    l->error = arena_strdup(l->said, line);
    l->notes = arena_strdup(l->said, lines);
}

static void pass_signals(Launch *l);

static bool
is_interrupted(void *data)
{
    Launch *l = data;
    pass_signals(l);
    return l->attempt->interrupted;
}

static Status
not_returned(const Launch *l)
{
    return rt_not_returned("the control server", "libzmq.so.5", &l->bound);
}

typedef struct Opening {
    RtServerConfig config;
    RtServer *server;
    Status st;
} Opening;

static void
open_it(void *data)
{
    Opening *o = data;
    o->st = rt_server_open(&o->config, &o->server);
}

/* Those who come back have less time than --timeout, where others can go on
 * without them. */
static double
time_to_join(const Launch *l)
{
    return rt_attempt_may_shrink(&l->config->policy, l->attempt)
               ? replacement_patience
               : 0;
}

static Status
open_server(Launch *l)
{
    double timeout = l->config->timeout;
    Opening *o = NEW(l->arena, Opening);
    l->bound =
        (RtBound){timeout > 0 ? timeout : RT_JOB_TIMEOUT, is_interrupted, l};
    o->config = (RtServerConfig){.id = l->id,
                                 .size = l->attempt->size,
                                 .attempt = (uint32_t)l->attempt->number,
                                 .rank = -1,
                                 .silence = l->config->silence,
                                 .joining = time_to_join(l),
                                 .diagnose = l->config->diagnose,
                                 .key = l->key,
                                 .address = "127.0.0.1:*",
                                 .data = l,
                                 .say = say,
                                 .evict = evict,
                                 .bound = &l->bound};
    if (!rt_call_bounded(open_it, o, &l->bound))
        return not_returned(l);
    if (!o->st)
        l->server = o->server;
    return o->st;
}

/* ---- starting a process ------------------------------------------------- */

static Status
start_child(Launch *l, int rank)
{
    Arena *a = arena_new(NULL, "variables of a process");
    int size = l->attempt->size;
    const char *variables[] = {
        arena_printf(a, "TFD_RANK=%d", rank),
        arena_printf(a, "TFD_SIZE=%d", size),
        arena_printf(a, "TFD_LOCAL_RANK=%d", rank),
        arena_printf(a, "TFD_LOCAL_SIZE=%d", size),
        arena_printf(a, "TFD_CONTROL=127.0.0.1:%d", rt_server_port(l->server)),
        arena_printf(a, "TFD_JOB=%s", l->id),
        arena_printf(a, "TFD_ATTEMPT=%d", l->attempt->number),
        NULL};
    RtProcessConfig config = {
        .argv = l->attempt->number ? l->config->resume_argv : l->config->argv,
        .variables = variables,
        .key = l->key,
        .label = rank > 0 ? arena_printf(a, "[%d] ", rank) : NULL,
        .mask = &l->signals.old_mask};
    Status st = rt_process_start(&config, &l->children[rank]);
    arena_release(a);
    return st;
}

/* ---- while they run ----------------------------------------------------- */

static void
signal_all(Launch *l, int signal_number)
{
    for (int i = 0; i < l->attempt->size; i++)
        rt_process_signal(&l->children[i], signal_number);
}

/* Control-Z stops all of the job, and it goes on with its parent. */
static void
stop_with_children(Launch *l)
{
    signal_all(l, SIGSTOP);
    kill(getpid(), SIGSTOP);
    signal_all(l, SIGCONT);
}

/* Processes that stop already get no second interrupt, which would end them
 * without a checkpoint. */
static void
pass_signal(Launch *l, int number)
{
    bool ends = number != SIGUSR2;
    bool is_known = ends && l->attempt->stopped && !l->attempt->interrupted;
    l->attempt->interrupted |= ends;
    if (!l->begun)
        atomic_store(&l->given_up, ends || atomic_load(&l->given_up));
    else if (!is_known)
        signal_all(l, number);
}

static void
pass_signals(Launch *l)
{
    for (int number; (number = rt_signals_next(&l->signals));) {
        if (number == SIGTSTP)
            stop_with_children(l);
        else
            pass_signal(l, number);
    }
}

/* The thread of an earlier server that was left may judge ranks of a larger
 * attempt. */
static void
kill_evicted(Launch *l)
{
    for (int rank; (rank = rt_evictions_next(&l->evictions)) >= 0;)
        if (rank < l->attempt->size)
            rt_process_signal(&l->children[rank], SIGKILL);
}

static void
reap(Launch *l, int rank)
{
    RtProcessEnd end;
    char how[64];
    if (!rt_process_reap(&l->children[rank], &end))
        return;
    if (end.killed)
        snprintf(how, sizeof how, "killed by signal %d, %s", end.number,
                 strsignal(end.number));
    else
        snprintf(how, sizeof how, "it ended with status %d", end.number);
    rt_server_lost(l->server, rank, how, end.killed ? 3 : end.number);
}

static bool
some_run(const Launch *l)
{
    for (int i = 0; i < l->attempt->size; i++)
        if (l->children[i].pid > 0)
            return true;
    return false;
}

static void
look_at_stop(Launch *l)
{
    l->stopped = l->stopped || rt_server_is_stopped(l->server);
    if (l->stopped && !l->killed &&
        rt_waited(&l->ending, clock_seconds()) > patience) {
        l->killed = true;
        signal_all(l, SIGKILL);
    }
}

/* A smaller attempt stops after some checkpoints, to ask for replacements. */
static void
look_at_checkpoints(Launch *l)
{
    if (l->attempt->size == l->config->policy.size || l->attempt->stopped)
        return;
    int64_t newest = rt_checkpoints_newest_step(l->config->checkpoint);
    l->checkpoints += newest > l->newest;
    l->newest = newest;
    if (!rt_attempt_asks(&l->config->policy, l->attempt, l->checkpoints))
        return;
    l->attempt->stopped = true;
    signal_all(l, SIGTERM);
}

enum {
    FIRST_EVENTS = 2, /* signals, and evictions */
    EVENTS = 2        /* of each process: its end, its lines */
};

static void
wait_for_events(const Launch *l, struct pollfd *items)
{
    int n = 0;
    items[n++] = (struct pollfd){l->signals.fd, POLLIN, 0};
    items[n++] = (struct pollfd){l->evictions.bell, POLLIN, 0};
    for (int i = 0; i < l->attempt->size; i++) {
        const RtProcess *c = &l->children[i];
        items[n++] = (struct pollfd){c->pidfd, POLLIN, 0};
        items[n++] = (struct pollfd){c->lines.fd, POLLIN, 0};
    }
    poll(items, (nfds_t)n, TURN_MS);
}

static void
turn(Launch *l, struct pollfd *items)
{
    wait_for_events(l, items);
    l->begun = l->begun || rt_server_has_begun(l->server);
    pass_signals(l);
    kill_evicted(l);
    for (int i = 0; i < l->attempt->size; i++) {
        const struct pollfd *of = &items[FIRST_EVENTS + EVENTS * i];
        if (of[1].revents)
            rt_lines_pass(&l->children[i].lines);
        if (of[0].revents)
            reap(l, i);
    }
    look_at_stop(l);
    look_at_checkpoints(l);
}

/* Until all have ended; unless they end for sure, also until they are given up
 * or the server is stuck. */
static void
watch(Launch *l, bool all_end)
{
    size_t n = FIRST_EVENTS + EVENTS * (size_t)l->attempt->size;
    struct pollfd *items = NEW_ARRAY(l->arena, struct pollfd, n);
    while (some_run(l) && (all_end || (!atomic_load(&l->given_up) &&
                                       !rt_server_is_stuck(l->server))))
        turn(l, items);
}

/* ---- the whole ---------------------------------------------------------- */

static bool
knows_result(Launch *l)
{
    int exit_status;
    if (!rt_server_has_ended(l->server, &exit_status) &&
        !rt_server_is_stopped(l->server))
        return false;
    l->attempt->exit_status = exit_status;
    return true;
}

/* All processes have ended; the server may need another moment to say why. */
static Status
take_result(Launch *l)
{
    enum { ENDING = 5 }; /* seconds: nobody waits for it any more */
    struct pollfd over = {rt_server_fd(l->server), POLLIN, 0};
    double end = clock_seconds() + 2 * ENDING;
    if (l->bound.seconds > ENDING)
        l->bound.seconds = ENDING;
    poll(&over, 1, 2000);
    l->attempt->exit_status = 3;
    while (!knows_result(l) && clock_seconds() < end) {
        if (rt_server_is_stuck(l->server))
            return not_returned(l);
        poll(NULL, 0, TURN_MS);
    }
    return OK;
}

/* Those of the attempt before, whose processes have ended. */
static void
forget_evicted(Launch *l)
{
    while (rt_evictions_next(&l->evictions) >= 0)
        ;
}

static Status
start_all(Launch *l)
{
    l->stopped = l->killed = l->begun = false;
    l->ending = (RtWaited){0};
    l->error = l->notes = NULL;
    l->checkpoints = 0;
    if (l->attempt->size < l->config->policy.size)
        l->newest = rt_checkpoints_newest_step(l->config->checkpoint);
    l->children = NEW_ARRAY(l->arena, RtProcess, (size_t)l->attempt->size);
    for (int i = 0; i < l->attempt->size; i++)
        l->children[i] = rt_no_process();
    forget_evicted(l);
    TRY(make_key(l));
    TRY(open_server(l));
    for (int i = 0; i < l->attempt->size && !atomic_load(&l->given_up); i++)
        TRY(start_child(l, i));
    return OK;
}

/* Nothing of an attempt is left after it. */
static void
end_attempt(Launch *l)
{
    if (!l->server)
        return;
    signal_all(l, SIGKILL);
    watch(l, true);
    for (int i = 0; i < l->attempt->size; i++)
        rt_process_close(&l->children[i]);
    l->attempt->joined = rt_server_has_begun(l->server);
    rt_server_leave(l->server);
    l->server = NULL;
}

/* A failure is that of starting it. */
static Status
run_attempt(Launch *l)
{
    Status st = start_all(l);
    if (!st) {
        watch(l, false);
        st = atomic_load(&l->given_up) ? rt_job_interrupted()
             : some_run(l)             ? not_returned(l)
                                       : take_result(l);
    }
    end_attempt(l);
    return st;
}

/* ---- restarts ----------------------------------------------------------- */

/* Why the last one ended, for the next one's line. */
static void
set_reason(const Launch *l, RtAttempt *last)
{
    if (l->error)
        snprintf(last->reason, sizeof last->reason, "%s", l->error);
    else if (!*last->reason)
        snprintf(last->reason, sizeof last->reason,
                 "a process ended with status %d", last->exit_status);
}

static void
tell_next(const Launch *l, const RtAttempt *last, const RtAttempt *next)
{
    const char *es = next->size > 1 ? "es" : "";
    const char *notes = l->notes ? l->notes : "";
    fflush(stdout);
    message_shown(last->reason);
    message_shown(notes);
    if (next->kind == RT_ATTEMPT_GROWS)
        fprintf(stderr, "tfd-run: goes on with %d process%s instead of %d\n",
                next->size, es, last->size);
    else if (next->kind == RT_ATTEMPT_SHRINKS)
        fprintf(stderr, "tfd-run: goes on with %d process%s again: %s\n%s",
                next->size, es, last->reason, notes);
    else
        fprintf(stderr, "tfd-run: restart %d of %d, with %d process%s: %s\n%s",
                next->restarts, l->config->policy.restarts, next->size, es,
                last->reason, notes);
    fflush(stderr);
}

/* What could not be started may be possible later. */
static void
note_failure(RtAttempt *attempt, Status st)
{
    attempt->exit_status = 3;
    snprintf(attempt->reason, sizeof attempt->reason, "%s", status_message(st));
}

/* The failure of the last attempt, unless st is. */
static Status
end_attempts(const Launch *l, const RtAttempt *last, Status st,
             int *exit_status)
{
    if (l->error)
        rt_server_print(NULL, RT_SAY_ERROR, l->error, l->notes);
    rt_server_printed();
    *exit_status = last->exit_status;
    return st;
}

static Status
run_attempts(Launch *l, int *exit_status)
{
    const RtRestartPolicy *policy = &l->config->policy;
    RtAttempt next, attempt = rt_first_attempt(policy);
    for (;; attempt = next) {
        l->attempt = &attempt;
        Status st = run_attempt(l);
        if (st)
            note_failure(&attempt, st);
        if (rt_is_output_closed() || !rt_next_attempt(policy, &attempt, &next))
            return end_attempts(l, &attempt, st, exit_status);
        status_free(st);
        set_reason(l, &attempt);
        tell_next(l, &attempt, &next);
        if (!rt_signals_wait(&l->signals, next.delay)) {
            *exit_status = 130;
            return OK;
        }
    }
}

static void
finish(Launch *l)
{
    rt_signals_give_back(&l->signals);
    if (rt_has_left_threads()) /* which may still use these */
        return;
    rt_evictions_close(&l->evictions);
    arena_release(l->arena);
}

/* Of this process, and of those that it starts with the same limit. */
static Status
provide_files(const RtLaunchConfig *config)
{
    RtFileUse use = {.size = config->policy.size,
                     .is_parent = true,
                     .is_member = true,
                     .has_messages = config->has_messages};
    return rt_provide_files(&use);
}

Status
rt_launch(const RtLaunchConfig *config, int *exit_status)
{
    Arena *a = arena_new(NULL, "the launch");
    Launch *l = NEW(a, Launch);
    l->arena = a;
    l->said = arena_new(a, "what the server says");
    l->config = config;
    l->signals.fd = l->evictions.bell = -1;
    Status st = provide_files(config);
    if (!st)
        st = rt_evictions_open(a, config->policy.size, &l->evictions);
    if (!st)
        st = rt_signals_take(&l->signals);
    if (!st)
        st = run_attempts(l, exit_status);
    finish(l);
    return st;
}
