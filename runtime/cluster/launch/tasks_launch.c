/*
 * tasks_launch.c - tfd-run -n workers=3,ps=2: the parent of a job's tasks
 *
 * The coordinator listens at a free port and announces it; then the others are
 * started to join it there.  Which of them is alive is the coordinator's to
 * find out; the parent only starts and ends processes.  A worker is replaced,
 * for its closures go to others; what a server holds is lost with it, and what
 * main knows with the coordinator, so the job ends.  With --restarts it begins
 * again from the last checkpoint with new processes and a new key: nothing that
 * was said before can reach them, and what closures did since the checkpoint is
 * undone with the servers that had it.
 */
#include "runtime/cluster/launch/tasks_launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/control/open_files.h"
#include "runtime/cluster/launch/inquiry.h"
#include "runtime/cluster/launch/process.h"
#include "runtime/cluster/launch/restart.h"
#include "runtime/cluster/resolve/role.h"
#include "runtime/hal/wait.h"

/* Seconds. */
static const double grace = 2;           /* from an end of the job to SIGKILL */
static const double early = 1;           /* a death after so long is none at the
                                            start */
static const double one_interrupt = 0.5; /* two signals within it are one */

enum { EARLY_DEATHS = 5, TURN_MS = 100, FAILED = 3, INTERRUPTED = 130 };

typedef struct Task {
    RtRole role;
    int index;
    const char *name; /* "worker 1" */
    RtProcess process;
    uint32_t incarnation;
    int crash; /* the signal by which the process before it ended itself */
    double started;
    int early_deaths; /* in a row, before it had joined */
    bool joined;
} Task;

typedef struct Launch {
    Arena *arena;
    const RtTasksLaunchConfig *config;
    RtRestartPolicy policy;
    RtAttempt attempt;
    uint8_t key[RT_JOB_KEY];
    RtSignals signals;
    int inquiries; /* for --status PID */
    Task *tasks;   /* the coordinator, the servers, the workers, an evaluator */
    int num_tasks;
    char port[16]; /* of the coordinator, as it announces it */
    size_t port_len;
    bool listens;       /* the port is whole, and the others are started */
    bool ended;         /* the coordinator has */
    RtWaited watched;   /* the time of the next, and of deadline */
    double begun;       /* when it was started */
    double interrupted; /* when a signal came that ends the job; 0: none */
    double deadline;    /* when all processes are killed; 0: not yet */
    bool killed;        /* they were */
    char reason[256];   /* is said then; empty: it has been said */
    int exit_status;    /* the coordinator's, else what the job ends with */
} Launch;

/* ---- starting a task ----------------------------------------------------- */

static const char *
task_of(Arena *a, const Task *t)
{
    const char *kind = t->role == RT_ROLE_ps       ? "ps"
                       : t->role == RT_ROLE_worker ? "worker"
                                                   : "evaluator";
    return arena_printf(a, "%s:%d", kind, t->index);
}

/* What a task's command line has beside the parent's, before it.  Others than
 * the coordinator are called by their kinds and numbers. */
static int
add_options(const Launch *l, const Task *t, Arena *a, const char **out)
{
    const RtTaskCounts *c = &l->config->counts;
    int n = 0;
    if (t->role == RT_ROLE_coordinator) {
        out[n++] = "--coordinate";
        out[n++] = arena_printf(a, "workers=%d,ps=%d%s", c->workers, c->servers,
                                c->evaluators ? ",evaluator=1" : "");
    } else {
        out[n++] = "--serve";
        out[n++] = task_of(a, t);
        out[n++] = "--join";
        out[n++] = arena_printf(a, "127.0.0.1:%s", l->port);
    }
    if (t->role == RT_ROLE_coordinator || t->role == RT_ROLE_ps) {
        out[n++] = "--listen";
        out[n++] = "127.0.0.1:0";
    }
    return n;
}

static char **
command_line(const Launch *l, const Task *t, Arena *a)
{
    const RtTasksLaunchConfig *c = l->config;
    char **argv = l->attempt.number ? c->resume_argv : c->argv;
    int argc = c->argc + (argv != c->argv);
    const char *added[6];
    int n = add_options(l, t, a, added);
    char **out = NEW_ARRAY(a, char *, (size_t)(argc + n) + 1);
    out[0] = argv[0];
    memcpy(out + 1, added, (size_t)n * sizeof *added);
    memcpy(out + 1 + n, argv + 1, (size_t)argc * sizeof *out);
    return out;
}

static Status
start_task(Launch *l, Task *t)
{
    Arena *a = arena_new(NULL, "the command line of a task");
    bool prints = /* results */
        t->role == RT_ROLE_coordinator || t->role == RT_ROLE_evaluator;
    const char *variables[] = {
        arena_printf(a, "%s=%u", RT_INCARNATION_VARIABLE,
                     (unsigned)t->incarnation),
        arena_printf(a, "%s=%d", RT_CRASH_VARIABLE, t->crash), RT_DOES_NOT_SPIN,
        NULL};
    RtProcessConfig config = {
        .argv = command_line(l, t, a),
        .variables = variables,
        .key = l->key,
        .label = prints ? NULL : arena_printf(a, "%s: ", t->name),
        .announces =
            t->role == RT_ROLE_coordinator || t->role == RT_ROLE_worker,
        .mask = &l->signals.old_mask};
    t->joined = false;
    t->started = clock_seconds();
    Status st = rt_process_start(&config, &t->process);
    arena_release(a);
    return st;
}

static Status
start_others(Launch *l)
{
    for (int i = 1; i < l->num_tasks; i++)
        TRY(start_task(l, &l->tasks[i]));
    return OK;
}

/* ---- what is said, and the end ------------------------------------------- */

static void __attribute__((format(printf, 1, 2)))
say(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    message_said(format, line);
    message_shown(line);
    fprintf(stderr, "tfd-run: %s\n", line);
    fflush(stderr);
}

/* Goes on, but not while the job is stopped; never 0. */
static double
watched(Launch *l)
{
    return 1 + rt_waited(&l->watched, clock_seconds());
}

/* All processes are killed after so many seconds, unless that is decided
 * already. */
static void
end_within(Launch *l, double seconds)
{
    double at = watched(l) + seconds;
    if (l->deadline <= 0 || at < l->deadline)
        l->deadline = at;
}

/* The job ends with this status, unless the coordinator ends by itself within
 * the grace. */
static void
fail(Launch *l, int exit_status)
{
    l->exit_status = exit_status;
    end_within(l, grace);
}

/* Whether another attempt follows, if this one fails now. */
static bool
is_started_again(const Launch *l)
{
    return l->attempt.restarts < l->policy.restarts && l->interrupted <= 0;
}

static int
status_of(const RtProcessEnd *end)
{
    return end->killed ? FAILED : end->number;
}

/* A sentence about a task. */
typedef struct Sentence {
    char text[192];
} Sentence;

static Sentence __attribute__((format(printf, 1, 2)))
sentence(const char *format, ...)
{
    Sentence out;
    va_list args;
    va_start(args, format);
    vsnprintf(out.text, sizeof out.text, format, args);
    va_end(args);
    message_said(format, out.text);
    return out;
}

static Sentence
describe(const Task *t, const RtProcessEnd *end)
{
    return end->killed ? sentence("%s (pid %d) was killed by signal %d",
                                  t->name, (int)end->pid, end->number)
                       : sentence("%s (pid %d) ended with status %d", t->name,
                                  (int)end->pid, end->number);
}

/* Whether it ended because it was asked to. */
static bool
is_interrupt(const RtProcessEnd *end)
{
    int number = end->killed ? end->number : end->number - 128;
    return number == SIGINT || number == SIGTERM || number == SIGHUP ||
           number == SIGUSR1;
}

static void
coordinator_ended(Launch *l, const Task *t, const RtProcessEnd *end)
{
    bool asked = l->interrupted > 0 && is_interrupt(end);
    l->ended = true;
    *l->reason = '\0';
    l->exit_status = asked ? INTERRUPTED : status_of(end);
    if (end->killed && !asked)
        say("%s", describe(t, end).text);
    /* Nobody tells the others to end, or nobody waits for it. */
    bool at_once = end->killed || !l->listens ||
                   (l->exit_status >= FAILED && is_started_again(l));
    end_within(l, at_once ? 0 : grace);
}

/* What it held is lost; nobody need wait for what the coordinator says of it if
 * all begin again.  One that ended well was told to. */
static void
server_ended(Launch *l, const Task *t, const RtProcessEnd *end)
{
    if (!end->killed && end->number == 0)
        return;
    say("%s", describe(t, end).text);
    fail(l, status_of(end));
    if (is_started_again(l) && status_of(end) >= FAILED)
        end_within(l, 0);
}

/* What a process does to itself, which it would do again. */
static int
crash_of(const RtProcessEnd *end)
{
    int n = end->killed ? end->number : 0;
    bool is_own = n == SIGSEGV || n == SIGFPE || n == SIGILL || n == SIGBUS ||
                  n == SIGABRT;
    return is_own ? n : 0;
}

/* Who is killed did nothing wrong: it was somebody else, or memory was short.
 */
static bool
ends_early(Launch *l, Task *t, const RtProcessEnd *end)
{
    bool is_early = !t->joined && clock_seconds() - t->started < early &&
                    !(end->killed && end->number == SIGKILL);
    t->early_deaths = is_early ? t->early_deaths + 1 : 0;
    if (t->early_deaths < EARLY_DEATHS)
        return false;
    say("%s died %d times in a row at its start, before it had joined the "
        "job: %s",
        t->name, EARLY_DEATHS, describe(t, end).text);
    fail(l, status_of(end));
    end_within(l, 0);
    return true;
}

static Status
start_again(Launch *l, Task *t, const RtProcessEnd *end)
{
    if (!l->config->quiet)
        say("%s, and is started again", describe(t, end).text);
    rt_process_close(&t->process);
    return start_task(l, t);
}

/* Wrong input would be wrong again; the coordinator, which may have told it to
 * end for that, knows more. */
static Status
worker_ended(Launch *l, Task *t, const RtProcessEnd *end)
{
    bool dies = end->killed || end->number >= FAILED;
    if (!dies && end->number != 0) {
        snprintf(l->reason, sizeof l->reason, "%s", describe(t, end).text);
        fail(l, end->number);
    }
    if (!dies || (l->interrupted > 0 && is_interrupt(end)) ||
        ends_early(l, t, end))
        return OK;
    t->incarnation++;
    t->crash = crash_of(end);
    return start_again(l, t, end);
}

/* An evaluator evaluates the last checkpoint of a job that has ended well. */
static bool
is_waited_for(const Launch *l, const Task *t)
{
    return t->role == RT_ROLE_evaluator && l->ended && l->exit_status == 0;
}

/* A job does not fail with its evaluator, which has said itself why it ended
 * unless it was killed. */
static Status
evaluator_ended(Launch *l, Task *t, const RtProcessEnd *end)
{
    bool is_normal = !end->killed && end->number == 0;
    if (is_normal || l->killed || l->interrupted > 0)
        return OK;
    if (is_waited_for(l, t))
        say("%s", describe(t, end).text);
    if (l->deadline > 0)
        return OK;
    bool would_die_again =
        end->number != SIGKILL && clock_seconds() - t->started < early;
    if (!end->killed || would_die_again) {
        say("%s; the job goes on without it", describe(t, end).text);
        return OK;
    }
    return start_again(l, t, end);
}

static Status
reap(Launch *l, Task *t)
{
    RtProcessEnd end;
    if (!rt_process_reap(&t->process, &end))
        return OK;
    if (t->role == RT_ROLE_evaluator)
        return evaluator_ended(l, t, &end);
    if (l->killed)
        return OK;
    if (t->role == RT_ROLE_coordinator)
        coordinator_ended(l, t, &end);
    else if (l->ended || l->deadline > 0)
        return OK;
    else if (t->role == RT_ROLE_ps)
        server_ended(l, t, &end);
    else
        return worker_ended(l, t, &end);
    return OK;
}

/* ---- what tasks announce ------------------------------------------------- */

static bool
is_port(const char *text)
{
    return rt_is_number(text) && strlen(text) < 6;
}

/* The coordinator's port: "40112\n". */
static Status
take_port(Launch *l, const char *text, size_t n)
{
    for (size_t i = 0; i < n && !l->listens; i++) {
        l->listens = text[i] == '\n' && is_port(l->port);
        if (!l->listens && l->port_len + 1 < sizeof l->port)
            l->port[l->port_len++] = text[i];
    }
    return l->listens ? start_others(l) : OK;
}

/* A worker announces that it has joined. */
static Status
take_announcement(Launch *l, Task *t)
{
    char text[64];
    ssize_t n = read(t->process.announce, text, sizeof text);
    if (n < 0 && errno == EINTR)
        return OK;
    if (n <= 0) {
        close(t->process.announce);
        t->process.announce = -1;
        return OK;
    }
    if (t->role == RT_ROLE_worker)
        t->joined = l->attempt.joined = true;
    else if (!l->listens)
        return take_port(l, text, (size_t)n);
    return OK;
}

/* ---- signals ------------------------------------------------------------- */

static void
signal_all(const Launch *l, int signal_number)
{
    for (int i = 0; i < l->num_tasks; i++)
        rt_process_signal(&l->tasks[i].process, signal_number);
}

/* The coordinator ends the job; who asks twice does not wait for it. */
static void
pass_signal(Launch *l, int number)
{
    double now = clock_seconds();
    if (number == SIGUSR2) {
        signal_all(l, number);
        return;
    }
    if (l->ended)
        fail(l, INTERRUPTED);
    rt_process_signal(&l->tasks[0].process, number);
    if (l->interrupted <= 0)
        l->interrupted = now;
    else if (now - l->interrupted > one_interrupt)
        fail(l, INTERRUPTED);
}

static void
pass_signals(Launch *l)
{
    for (int number; (number = rt_signals_next(&l->signals));) {
        if (number != SIGTSTP) {
            pass_signal(l, number);
            continue;
        }
        signal_all(l, SIGSTOP);
        kill(getpid(), SIGSTOP);
        signal_all(l, SIGCONT);
    }
}

/* ---- while they run ------------------------------------------------------ */

static bool
some_run(const Launch *l)
{
    for (int i = 0; i < l->num_tasks; i++)
        if (l->tasks[i].process.pid > 0)
            return true;
    return false;
}

static void
look_at_clock(Launch *l)
{
    double now = watched(l);
    double patience =
        l->config->timeout > 0 ? l->config->timeout : RT_JOB_TIMEOUT;
    if (!l->listens && l->deadline <= 0 && now - l->begun > patience) {
        say("the coordinator (pid %d) does not listen after %g seconds "
            "(--timeout allows more)",
            (int)l->tasks[0].process.pid, patience);
        fail(l, FAILED);
        end_within(l, 0);
    }
    if (l->killed || l->deadline <= 0 || now < l->deadline)
        return;
    if (*l->reason)
        say("%s", l->reason);
    l->killed = true;
    for (int i = 0; i < l->num_tasks; i++)
        if (!is_waited_for(l, &l->tasks[i]))
            rt_process_signal(&l->tasks[i].process, SIGKILL);
}

enum {
    FIRST_EVENTS = 2, /* signals, and inquiries */
    EVENTS = 3        /* of each task: its end, its lines, its announcements */
};

static void
wait_for_events(const Launch *l, struct pollfd *items)
{
    int n = 0;
    items[n++] = (struct pollfd){l->signals.fd, POLLIN, 0};
    /* Who asks before the coordinator listens waits. */
    items[n++] = (struct pollfd){l->listens ? l->inquiries : -1, POLLIN, 0};
    for (int i = 0; i < l->num_tasks; i++) {
        const RtProcess *p = &l->tasks[i].process;
        items[n++] = (struct pollfd){p->pidfd, POLLIN, 0};
        items[n++] = (struct pollfd){p->lines.fd, POLLIN, 0};
        items[n++] = (struct pollfd){p->announce, POLLIN, 0};
    }
    poll(items, (nfds_t)n, TURN_MS);
}

static void
answer_inquiry(const Launch *l)
{
    RtInquiryAnswer answer = {.port = (uint16_t)strtoul(l->port, NULL, 10)};
    memcpy(answer.key, l->key, sizeof answer.key);
    rt_inquiry_answer(l->inquiries, &answer);
}

/* The coordinator's end comes first, for then no other one matters. */
static Status
turn(Launch *l, struct pollfd *items)
{
    wait_for_events(l, items);
    pass_signals(l);
    if (items[1].revents)
        answer_inquiry(l);
    for (int i = 0; i < l->num_tasks; i++) {
        Task *t = &l->tasks[i];
        const struct pollfd *of = &items[FIRST_EVENTS + EVENTS * i];
        if (of[1].revents)
            rt_lines_pass(&t->process.lines);
        if (of[2].revents)
            TRY(take_announcement(l, t));
        if (of[0].revents)
            TRY(reap(l, t));
    }
    look_at_clock(l);
    return OK;
}

static Status
watch(Launch *l)
{
    size_t n = FIRST_EVENTS + EVENTS * (size_t)l->num_tasks;
    struct pollfd *items = NEW_ARRAY(l->arena, struct pollfd, n);
    while (some_run(l))
        TRY(turn(l, items));
    return OK;
}

/* ---- the whole ----------------------------------------------------------- */

static void
list_tasks(Launch *l)
{
    int servers = l->config->counts.servers;
    int evaluator = 1 + servers + l->config->counts.workers;
    l->num_tasks = rt_num_tasks(&l->config->counts);
    l->tasks = NEW_ARRAY(l->arena, Task, (size_t)l->num_tasks);
    for (int i = 0; i < l->num_tasks; i++) {
        RtRole role = i == 0          ? RT_ROLE_coordinator
                      : i <= servers  ? RT_ROLE_ps
                      : i < evaluator ? RT_ROLE_worker
                                      : RT_ROLE_evaluator;
        int index = role == RT_ROLE_ps       ? i - 1
                    : role == RT_ROLE_worker ? i - 1 - servers
                                             : 0;
        l->tasks[i] = (Task){.role = role,
                             .index = index,
                             .name = rt_task_name(l->arena, role, index),
                             .process = rt_no_process()};
    }
}

/* Nothing is left of an attempt, also where not all could be started. */
static void
end_all(Launch *l)
{
    signal_all(l, SIGKILL);
    for (int i = 0; i < l->num_tasks; i++) {
        RtProcess *p = &l->tasks[i].process;
        RtProcessEnd end;
        struct pollfd over = {p->pidfd, POLLIN, 0};
        while (p->pid > 0 && !rt_process_reap(p, &end))
            poll(&over, 1, TURN_MS);
        rt_process_close(p);
    }
}

static Status
start_and_watch(Launch *l)
{
    TRY(rt_make_secret(l->key, sizeof l->key));
    l->begun = watched(l);
    TRY(start_task(l, &l->tasks[0]));
    return watch(l);
}

static Status
run_attempt(Launch *l)
{
    l->port_len = 0;
    memset(l->port, 0, sizeof l->port);
    l->listens = l->ended = l->killed = false;
    l->deadline = 0;
    *l->reason = '\0';
    for (int i = 0; i < l->num_tasks; i++) {
        l->tasks[i].incarnation = 0;
        l->tasks[i].crash = 0;
        l->tasks[i].early_deaths = 0;
    }
    Status st = start_and_watch(l);
    end_all(l);
    l->attempt.exit_status = l->exit_status;
    l->attempt.interrupted = l->interrupted > 0;
    return st;
}

static Status
run_attempts(Launch *l)
{
    RtAttempt next;
    l->attempt = rt_first_attempt(&l->policy);
    for (;; l->attempt = next) {
        TRY(run_attempt(l));
        if (rt_is_output_closed() ||
            !rt_next_attempt(&l->policy, &l->attempt, &next))
            return OK;
        say("restart %d of %d, from the newest checkpoint", next.restarts,
            l->policy.restarts);
        if (!rt_signals_wait(&l->signals, next.delay)) {
            l->exit_status = INTERRUPTED;
            return OK;
        }
    }
}

static Status
run_tasks(Launch *l)
{
    RtFileUse use = {.size = l->num_tasks, .is_parent = true};
    TRY(rt_provide_files(&use));
    TRY(rt_signals_take(&l->signals));
    l->inquiries = rt_inquiry_open();
    Status st = run_attempts(l);
    if (l->inquiries >= 0)
        close(l->inquiries);
    rt_signals_give_back(&l->signals);
    return st;
}

Status
rt_launch_tasks(const RtTasksLaunchConfig *config, int *exit_status)
{
    Arena *a = arena_new(NULL, "the launch");
    Launch *l = NEW(a, Launch);
    *l = (Launch){
        .arena = a, .config = config, .signals = {.fd = -1}, .inquiries = -1};
    list_tasks(l);
    l->policy =
        (RtRestartPolicy){.size = l->num_tasks, .restarts = config->restarts};
    Status st = run_tasks(l);
    *exit_status = l->exit_status;
    arena_release(a);
    return st;
}
