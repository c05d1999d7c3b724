/*
 * start.c - how this process finds its job
 *
 * Its numbers and the control server's addresses are the resolver's; the key
 * comes through a pipe of the launcher's, or from a file that nobody else can
 * read.  Where MPI's launcher says no address, both come from rank 0 over MPI.
 */
#include "runtime/cluster/launch/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "runtime/cluster/launch/launch.h"
#include "runtime/cluster/launch/own_host.h"
#include "runtime/cluster/launch/process.h"
#include "runtime/cluster/mpi/rendezvous.h"
#include "runtime/cluster/resolve/addresses.h"
#include "runtime/cluster/resolve/role.h"
#include "runtime/cluster/resolve/task_counts.h"

/* ---- what a parent says -------------------------------------------------- */

/* A variable of a process that tfd-run -n starts; *out stays where it is not
 * set. */
static Status
read_variable(const char *name, uint64_t most, uint64_t *out)
{
    const char *text = getenv(name);
    if (!text)
        return OK;
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    if (!rt_is_number(text) || errno || number > most)
        return status_new(STATUS_INPUT,
                          "%s=%s is no number from 0 to %llu; tfd-run -n sets "
                          "it for the processes that it starts, so unset it",
                          name, text, (unsigned long long)most);
    *out = number;
    return OK;
}

/* ---- the key ------------------------------------------------------------ */

static Status
read_all(int fd, uint8_t key[RT_JOB_KEY], const char *from)
{
    size_t n = 0;
    while (n < RT_JOB_KEY) {
        ssize_t got = read(fd, key + n, RT_JOB_KEY - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return status_new(STATUS_INPUT,
                              "%s has no key: %d bytes, such as head -c %d "
                              "/dev/urandom writes",
                              from, RT_JOB_KEY, RT_JOB_KEY);
        n += (size_t)got;
    }
    return OK;
}

/* Nobody else may read it, or it is no secret. */
static Status
read_key_file(const char *path, uint8_t key[RT_JOB_KEY])
{
    int fd;
    int64_t size;
    struct stat found;
    TRY(file_open(path, &fd, &size));
    Status st = OK;
    if (fstat(fd, &found) == 0 && (found.st_mode & (S_IRWXG | S_IRWXO)) &&
        found.st_uid == geteuid())
        st = status_new(STATUS_INPUT,
                        "others can read the key in %s: chmod 600 %s", path,
                        path);
    if (!st)
        st = read_all(fd, key, path);
    close(fd);
    return st;
}

/* The launcher's pipe is read once. */
static Status
read_key_pipe(uint8_t key[RT_JOB_KEY])
{
    uint64_t fd = 0;
    TRY(read_variable(RT_KEY_VARIABLE, INT_MAX, &fd));
    Status st = read_all((int)fd, key, "the pipe of TFD_KEY_FD");
    close((int)fd);
    unsetenv(RT_KEY_VARIABLE);
    return st;
}

Status
rt_read_key(Arena *a, const char *path, const uint8_t **out)
{
    *out = NULL;
    if (!path && !getenv(RT_KEY_VARIABLE))
        return OK;
    uint8_t *key = arena_alloc(a, RT_JOB_KEY);
    TRY(path ? read_key_file(path, key) : read_key_pipe(key));
    *out = key;
    return OK;
}

/* ---- the control server's place ------------------------------------------ */

static Status
no_parent(const char *missing)
{
    return status_new(STATUS_INPUT, "TFD_KEY_FD is set, and %s is not",
                      missing);
}

/* A job of one is a process alone, unless a parent waits for it to join. */
static Status
find_parent(Arena *a, RtJobOptions *job)
{
    const char **addresses = NEW_ARRAY(a, const char *, 1);
    addresses[0] = getenv("TFD_CONTROL");
    if (!addresses[0])
        return no_parent("TFD_CONTROL");
    job->addresses = addresses;
    job->num_addresses = 1;
    return OK;
}

Status
rt_find_job(Arena *a, const RtStartConfig *config, RtClusterSpec *spec,
            const RtJobOptions **out)
{
    RtJobOptions *job = NEW(a, RtJobOptions);
    *out = NULL;
    TRY(rt_resolve(a, rt_environment(), &config->resolve, spec));
    bool launched = getenv(RT_KEY_VARIABLE) != NULL;
    if (!launched && (spec->launcher == RT_LAUNCHER_alone || spec->size == 1))
        return OK;
    *job = (RtJobOptions){.rank = spec->rank,
                          .size = spec->size,
                          .id = spec->job,
                          .attempt = (uint32_t)spec->attempt,
                          .addresses = spec->addresses,
                          .num_addresses = spec->num_addresses,
                          .diagnose = config->diagnose,
                          .dump = config->dump,
                          .silence = config->silence};
    if (launched)
        TRY(find_parent(a, job));
    TRY(rt_read_key(a, config->key_file, &job->key));
    if (spec->over_mpi && !launched)
        job->rendezvous = rt_mpi_rendezvous(a, job, config->mpi);
    else if (spec->rank == 0 && !launched)
        job->listen =
            rt_listen_address(a, spec->addresses[0], job->key != NULL);
    *out = job;
    return OK;
}

/* ---- tasks of a parameter-server job ------------------------------------- */

static bool
has_key(const RtStartConfig *config)
{
    return config->key_file || getenv(RT_KEY_VARIABLE);
}

/* What a parent says of a task that it has started again; of others, whoever
 * started it again did so later, and the nanosecond is a larger number. */
static Status
find_incarnation(uint64_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return read_variable(RT_INCARNATION_VARIABLE, UINT64_MAX, out);
}

/* The number of a signal. */
static Status
find_crash(int *out)
{
    uint64_t number = 0;
    TRY(read_variable(RT_CRASH_VARIABLE, NSIG, &number));
    *out = (int)number;
    return OK;
}

/* The launcher's pipe, which processes that this one starts do not get. */
static Status
find_announce(int *out)
{
    uint64_t fd = INT_MAX; /* none has this number */
    *out = -1;
    TRY(read_variable(RT_ANNOUNCE_VARIABLE, INT_MAX, &fd));
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
        *out = (int)fd;
    unsetenv(RT_ANNOUNCE_VARIABLE);
    return OK;
}

/* A server that listens on all interfaces tells the address of one of them, so
 * it listens there. */
static Status
find_interface(Arena *a, RtTaskOptions *task)
{
    const char *host;
    if (task->role != RT_ROLE_ps || strncmp(task->listen, "*:", 2) != 0)
        return OK;
    TRY(rt_own_host(a, task->join, task->num_join, &host));
    task->listen = arena_printf(a, "%s%s", host, task->listen + 1);
    return OK;
}

Status
rt_find_task(Arena *a, const RtStartConfig *config, RtClusterSpec *spec,
             const RtTaskOptions **out)
{
    RtTaskOptions *task = NEW(a, RtTaskOptions);
    *out = NULL;
    TRY(rt_resolve_role(a, rt_environment(), &config->resolve, has_key(config),
                        task, spec));
    if (task->role == RT_ROLE_alone)
        return rt_is_launched() ? no_parent("--serve") : OK;
    TRY(find_interface(a, task));
    TRY(find_incarnation(&task->incarnation));
    if (task->role == RT_ROLE_worker)
        TRY(find_crash(&task->crash));
    TRY(find_announce(&task->announce_fd));
    task->silence = config->silence;
    task->staleness = config->staleness;
    task->by_bytes = config->by_bytes;
    task->atomic = config->atomic;
    task->sync_need = config->sync_need;
    task->sync_of = config->sync_of;
    TRY(rt_read_key(a, config->key_file, &task->key));
    *out = task;
    return OK;
}

Status
rt_print_task(Arena *a, const RtStartConfig *config, FILE *to)
{
    RtTaskOptions task;
    RtClusterSpec spec;
    TRY(rt_resolve_role(a, rt_environment(), &config->resolve, has_key(config),
                        &task, &spec));
    rt_resolve_print(&spec, to);
    return OK;
}
