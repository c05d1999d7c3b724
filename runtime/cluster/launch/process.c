/*
 * process.c - a process that tfd-run -n starts, and the signals of its parent
 */
#include "runtime/cluster/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "runtime/cluster/control/job.h"
#include "runtime/hal/system.h"

/* ---- its environment ----------------------------------------------------- */

/* The parent's environment with `added` variables, which replace its own. */
typedef struct Environment {
    Arena *arena;
    char **added, **all;
    int num_added;
} Environment;

static void
add(Environment *e, const char *variable)
{
    e->added[e->num_added++] = arena_strdup(e->arena, variable);
}

static bool
replaces(const Environment *e, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;
    for (int i = 0; i < e->num_added; i++)
        if (strncmp(e->added[i], variable, n) == 0)
            return true;
    return false;
}

static void
join_environment(Environment *e)
{
    int n = 0, at = 0;
    while (environ[n])
        n++;
    e->all = NEW_ARRAY(e->arena, char *, (size_t)n + (size_t)e->num_added + 1);
    for (int i = 0; i < n; i++)
        if (!replaces(e, environ[i]))
            e->all[at++] = environ[i];
    for (int i = 0; i < e->num_added; i++)
        e->all[at++] = e->added[i];
}

/* ---- its pipes ----------------------------------------------------------- */

/* The descriptors that it gets. */
typedef struct Pipes {
    int key[2], output[2], announce[2];
} Pipes;

static void
close_pipes(const Pipes *p)
{
    const int all[] = {p->key[0],    p->key[1],      p->output[0],
                       p->output[1], p->announce[0], p->announce[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

static Status
cannot_start(void)
{
    return rt_system_error("another process and pipes to it");
}

static Status
open_pipes(const RtProcessConfig *config, Pipes *p)
{
    *p = (Pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(p->key, O_CLOEXEC) ||
        (config->label && pipe2(p->output, O_CLOEXEC)) ||
        (config->announces && pipe2(p->announce, O_CLOEXEC)) ||
        write(p->key[1], config->key, RT_JOB_KEY) != RT_JOB_KEY) {
        Status st = cannot_start();
        close_pipes(p);
        return st;
    }
    return OK;
}

static Environment
make_environment(Arena *a, const RtProcessConfig *config, const Pipes *p)
{
    int n = 0;
    while (config->variables[n])
        n++;
    Environment e = {.arena = a, .added = NEW_ARRAY(a, char *, (size_t)n + 2)};
    for (int i = 0; i < n; i++)
        add(&e, config->variables[i]);
    add(&e, arena_printf(a, "%s=%d", RT_KEY_VARIABLE, p->key[0]));
    if (config->announces)
        add(&e, arena_printf(a, "%s=%d", RT_ANNOUNCE_VARIABLE, p->announce[1]));
    join_environment(&e);
    return e;
}

/* ---- its start ----------------------------------------------------------- */

/* In the child, where other threads of the parent may have held locks: only
 * system calls. */
static _Noreturn void
become(const RtProcessConfig *config, const char *path, const Pipes *p,
       char **environment, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    setpgid(0, 0);
    if (p->output[1] >= 0) {
        int null = open("/dev/null", O_RDONLY);
        if (null > STDIN_FILENO) {
            dup2(null, STDIN_FILENO);
            close(null);
        }
        dup2(p->output[1], STDOUT_FILENO);
        dup2(p->output[1], STDERR_FILENO);
    }
    fcntl(p->key[0], F_SETFD, 0);
    if (p->announce[1] >= 0)
        fcntl(p->announce[1], F_SETFD, 0);
    sigprocmask(SIG_SETMASK, config->mask, NULL);
    execve(path, config->argv, environment);
    _exit(127);
}

/* Nobody can be told of its end. */
static void
abandon(RtProcess *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    rt_process_close(p);
    *p = rt_no_process();
}

/* The parent's side of it; takes over its ends of the pipes. */
static Status
keep(const RtProcessConfig *config, pid_t pid, Pipes *pipes, RtProcess *out)
{
    *out = (RtProcess){.pid = pid,
                       .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
                       .lines = {.fd = pipes->output[0]},
                       .announce = pipes->announce[0]};
    snprintf(out->lines.label, sizeof out->lines.label, "%s",
             config->label ? config->label : "");
    pipes->output[0] = pipes->announce[0] = -1;
    Status st = out->pidfd >= 0 ? OK : rt_system_error("pidfd_open");
    if (st)
        abandon(out);
    return st;
}

static Status
find_program(Arena *a, const char **out)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || (size_t)n == sizeof path)
        return rt_system_error("/proc/self/exe");
    *out = arena_printf(a, "%.*s", (int)n, path);
    return OK;
}

static Status
start(Arena *a, const RtProcessConfig *config, Pipes *pipes, RtProcess *out)
{
    const char *path;
    TRY(find_program(a, &path));
    Environment e = make_environment(a, config, pipes);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(config, path, pipes, e.all, parent);
    return pid > 0 ? keep(config, pid, pipes, out) : cannot_start();
}

Status
rt_process_start(const RtProcessConfig *config, RtProcess *out)
{
    Pipes pipes;
    TRY(open_pipes(config, &pipes));
    Arena *a = arena_new(NULL, "a process of the job");
    Status st = start(a, config, &pipes, out);
    close_pipes(&pipes);
    arena_release(a);
    return st;
}

/* ---- its end ------------------------------------------------------------- */

RtProcess
rt_no_process(void)
{
    return (RtProcess){.pidfd = -1, .lines = {.fd = -1}, .announce = -1};
}

bool
rt_process_reap(RtProcess *p, RtProcessEnd *end)
{
    int status;
    if (p->pid <= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
        return false;
    bool killed = WIFSIGNALED(status);
    *end = (RtProcessEnd){p->pid, killed,
                          killed ? WTERMSIG(status) : WEXITSTATUS(status)};
    close(p->pidfd);
    p->pid = 0;
    p->pidfd = -1;
    return true;
}

void
rt_process_signal(const RtProcess *p, int signal_number)
{
    if (p->pid > 0)
        kill(p->pid, signal_number);
}

void
rt_process_close(RtProcess *p)
{
    rt_lines_close(&p->lines);
    if (p->announce >= 0)
        close(p->announce);
    p->announce = -1;
}

Status
rt_make_secret(void *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes
               ? OK
               : rt_system_error("getrandom");
}

/* ---- signals ------------------------------------------------------------- */

static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* SIGHUP stays ignored, as nohup asks for.  The others do not: a script's
 * background process has SIGINT ignored, so that control-C is not for it, and
 * who sends it to that process means it.  (A signal that is ignored comes to no
 * signalfd.) */
static bool
is_left_ignored(int signal_number)
{
    if (signal_number == SIGHUP)
        return rt_signal_is_ignored(SIGHUP);
    if (rt_signal_is_ignored(signal_number))
        signal(signal_number, SIG_DFL);
    return false;
}

Status
rt_signals_take(RtSignals *s)
{
    sigemptyset(&s->passed);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (!is_left_ignored(passed[i]))
            sigaddset(&s->passed, passed[i]);
    sigaddset(&s->passed, SIGTSTP);
    sigprocmask(SIG_BLOCK, &s->passed, &s->old_mask);
    s->fd = signalfd(-1, &s->passed, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd >= 0)
        return OK;
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    return rt_system_error("signalfd");
}

int
rt_signals_next(const RtSignals *s)
{
    struct signalfd_siginfo got;
    bool came = read(s->fd, &got, sizeof got) == (ssize_t)sizeof got;
    return came ? (int)got.ssi_signo : 0;
}

void
rt_signals_give_back(RtSignals *s)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    s->fd = -1;
}

bool
rt_signals_wait(const RtSignals *s, double seconds)
{
    double end = clock_seconds() + seconds;
    for (double left; (left = end - clock_seconds()) > 0;) {
        struct timespec most = {(time_t)left,
                                (long)(1e9 * (left - (double)(time_t)left))};
        int got = sigtimedwait(&s->passed, NULL, &most);
        if (got == SIGTSTP)
            kill(getpid(), SIGSTOP);
        else if (got > 0 && got != SIGUSR2)
            return false;
    }
    return true;
}

bool
rt_is_output_closed(void)
{
    struct pollfd item = {.fd = STDOUT_FILENO, .events = 0};
    return poll(&item, 1, 0) > 0 && (item.revents & POLLERR);
}
