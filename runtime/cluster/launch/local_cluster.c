/*
 * local_cluster.c - tfd-run --local-cluster workers=3,ps=2
 */
#include "runtime/cluster/launch/local_cluster.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/launch/process.h"
#include "runtime/cluster/launch/start.h"
#include "runtime/hal/system.h"

enum { TURN_MS = 200, ADDED = 6 };

static const double least_life = 1; /* seconds from one start to the next */
static const char for_ever[] = "1000000000";

typedef struct Task {
    const char *name; /* "ps:1" */
    RtProcess process;
    double started;
    uint64_t incarnation;
} Task;

typedef struct Cluster {
    Arena *arena;
    const RtLocalCluster *config;
    const char *join, *key_file;
    int port_fd; /* keeps the port that is found; -1: one is given */
    uint8_t key[RT_JOB_KEY];
    int key_fd; /* of the key that is made; -1: one is given */
    RtSignals signals;
    Task *tasks;
    int num_tasks;
} Cluster;

/* ---- address and key ----------------------------------------------------- */

/* A port stays bound, so that it is given to nobody else.  It does not listen,
 * and coordinators, which have SO_REUSEADDR as well, may. */
static Status
find_port(Cluster *c)
{
    int yes = 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    if (c->config->join) {
        c->join = c->config->join;
        return OK;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->port_fd = fd;
    bool found =
        fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, (struct sockaddr *)&at, n) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &n) == 0;
    c->join = arena_printf(c->arena, "127.0.0.1:%d", ntohs(at.sin_port));
    return found ? OK : rt_system_error("a free port");
}

/* A file of this user alone, which is nowhere on a disk and goes with this
 * process, however that ends. */
static Status
make_key(Cluster *c)
{
    TRY(rt_make_secret(c->key, sizeof c->key));
    c->key_fd = memfd_create("tfd-key", MFD_CLOEXEC);
    bool good =
        c->key_fd >= 0 && fchmod(c->key_fd, S_IRUSR | S_IWUSR) == 0 &&
        write(c->key_fd, c->key, sizeof c->key) == (ssize_t)sizeof c->key;
    if (!good)
        return rt_system_error("a file for the key");
    c->key_file =
        arena_printf(c->arena, "/proc/%d/fd/%d", (int)getpid(), c->key_fd);
    return OK;
}

static Status
find_key(Cluster *c)
{
    const uint8_t *key;
    if (!c->config->key_file)
        return make_key(c);
    c->key_file = c->config->key_file;
    TRY(rt_read_key(c->arena, c->key_file, &key));
    memcpy(c->key, key, sizeof c->key);
    return OK;
}

/* ---- tasks --------------------------------------------------------------- */

static char **
command_line(const Cluster *c, const Task *t, Arena *a)
{
    int n = 0, argc = c->config->argc;
    char **out = NEW_ARRAY(a, char *, (size_t)(argc + ADDED) + 1);
    out[n++] = c->config->argv[0];
    out[n++] = "--serve";
    out[n++] = (char *)t->name;
    if (!c->config->join) {
        out[n++] = "--join";
        out[n++] = (char *)c->join;
    }
    if (!c->config->has_timeout) {
        out[n++] = "--timeout";
        out[n++] = (char *)for_ever;
    }
    memcpy(out + n, c->config->argv + 1, (size_t)argc * sizeof *out);
    return out;
}

static Status
start_task(Cluster *c, Task *t)
{
    Arena *a = arena_new(NULL, "the command line of a task");
    const char *variables[] = {
        arena_printf(a, "%s=%llu", RT_INCARNATION_VARIABLE,
                     (unsigned long long)t->incarnation++),
        RT_DOES_NOT_SPIN, NULL};
    RtProcessConfig config = {.argv = command_line(c, t, a),
                              .variables = variables,
                              .key = c->key,
                              .label = arena_printf(a, "%s: ", t->name),
                              .mask = &c->signals.old_mask};
    t->started = clock_seconds();
    Status st = rt_process_start(&config, &t->process);
    arena_release(a);
    return st;
}

/* Its job has ended, or it did: the next one needs another process. */
static Status
look_after(Cluster *c, Task *t)
{
    RtProcessEnd end;
    if (t->process.pid && rt_process_reap(&t->process, &end))
        rt_process_close(&t->process);
    if (t->process.pid || clock_seconds() - t->started < least_life)
        return OK;
    return start_task(c, t);
}

static void
list_tasks(Cluster *c)
{
    const RtTaskCounts *counts = &c->config->counts;
    c->num_tasks = counts->servers + counts->workers;
    c->tasks = NEW_ARRAY(c->arena, Task, (size_t)c->num_tasks);
    for (int i = 0; i < c->num_tasks; i++) {
        bool serves = i < counts->servers;
        c->tasks[i] = (Task){
            .name = arena_printf(c->arena, "%s:%d", serves ? "ps" : "worker",
                                 serves ? i : i - counts->servers),
            .process = rt_no_process()};
    }
}

/* ---- signals ------------------------------------------------------------- */

static void
signal_all(const Cluster *c, int signal_number)
{
    for (int i = 0; i < c->num_tasks; i++)
        rt_process_signal(&c->tasks[i].process, signal_number);
}

/* Control-Z stops the tasks, too.  SIGUSR2 asks for collectives, and tasks have
 * none. */
static bool
is_interrupted(const Cluster *c)
{
    for (int number; (number = rt_signals_next(&c->signals));) {
        if (number != SIGTSTP && number != SIGUSR2)
            return true;
        if (number == SIGUSR2)
            continue;
        signal_all(c, SIGSTOP);
        kill(getpid(), SIGSTOP);
        signal_all(c, SIGCONT);
    }
    return false;
}

/* ---- the whole ----------------------------------------------------------- */

static void
wait_for_events(const Cluster *c, struct pollfd *items)
{
    int n = 0;
    items[n++] = (struct pollfd){c->signals.fd, POLLIN, 0};
    for (int i = 0; i < c->num_tasks; i++) {
        items[n++] = (struct pollfd){c->tasks[i].process.pidfd, POLLIN, 0};
        items[n++] = (struct pollfd){c->tasks[i].process.lines.fd, POLLIN, 0};
    }
    poll(items, (nfds_t)n, TURN_MS);
}

static Status
watch(Cluster *c)
{
    struct pollfd *items =
        NEW_ARRAY(c->arena, struct pollfd, 1 + 2 * (size_t)c->num_tasks);
    while (!is_interrupted(c)) {
        for (int i = 0; i < c->num_tasks; i++)
            TRY(look_after(c, &c->tasks[i]));
        wait_for_events(c, items);
        for (int i = 0; i < c->num_tasks; i++)
            if (items[2 + 2 * i].revents)
                rt_lines_pass(&c->tasks[i].process.lines);
    }
    return OK;
}

static void
end_all(Cluster *c)
{
    RtProcessEnd end;
    signal_all(c, SIGKILL);
    for (int i = 0; i < c->num_tasks; i++) {
        RtProcess *p = &c->tasks[i].process;
        struct pollfd over = {p->pidfd, POLLIN, 0};
        while (p->pid > 0 && !rt_process_reap(p, &end))
            poll(&over, 1, TURN_MS);
        rt_process_close(p);
    }
}

static Status
announce(const Cluster *c)
{
    const RtLocalCluster *o = c->config;
    printf("target %s\nkey %s\n"
           "tfd-run %s --coordinate workers=%d,ps=%d --listen %s --key %s\n",
           c->join, c->key_file, o->plan, o->counts.workers, o->counts.servers,
           c->join, c->key_file);
    return file_finish_output();
}

static Status
run(Cluster *c)
{
    TRY(find_port(c));
    TRY(find_key(c));
    TRY(announce(c));
    TRY(rt_signals_take(&c->signals));
    list_tasks(c);
    Status st = watch(c);
    end_all(c);
    rt_signals_give_back(&c->signals);
    return st;
}

Status
rt_run_local_cluster(Arena *a, const RtLocalCluster *config)
{
    Cluster c = {.arena = a,
                 .config = config,
                 .key_fd = -1,
                 .port_fd = -1,
                 .signals = {.fd = -1}};
    Status st = run(&c);
    if (c.key_fd >= 0)
        close(c.key_fd);
    if (c.port_fd >= 0)
        close(c.port_fd);
    return st;
}
