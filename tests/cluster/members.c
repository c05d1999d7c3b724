/*
 * members.c - a control server in the test's process, and members that it forks
 */
#include "tests/cluster/members.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/clock.h"

const uint8_t members_key[RT_JOB_KEY] = "thirty-two bytes that all have!";

enum { SHARED_BYTES = 4096, SAID_BYTES = 1 << 16 };

static const RtJobSite sites[] = {{"train.tfd:12:5", "all_reduce"},
                                  {"train.tfd:15:9", "all_reduce"},
                                  {"train.tfd:20:3", "all_gather"}};

static void
say(void *data, RtSay kind, const char *line, const char *lines)
{
    Members *m = data;
    size_t n = strlen(m->said);
    snprintf(m->said + n, SAID_BYTES - n, "%s: %s\n%s",
             kind == RT_SAY_ERROR ? "error" : "note", line, lines);
}

/* In the place of the last word of shared memory. */
static _Atomic int *
num_joined(const Members *m)
{
    return (_Atomic int *)((char *)m->shared + SHARED_BYTES - sizeof(int));
}

static int
exit_status_of_failure(Status st)
{
    if (rt_job_speaks())
        fprintf(stderr, "# %s\n", status_message(st));
    int exit_status = (int)status_kind(st);
    status_free(st);
    return exit_status;
}

static int
be_member(Members *m, int rank)
{
    const char *addresses[] = {m->address};
    RtJobOptions options = {.rank = rank,
                            .size = m->size,
                            .id = "test",
                            .addresses = addresses,
                            .num_addresses = 1,
                            .key = members_key};
    RtJobConfig config = {.identity = {[RT_IDENTITY_PLAN] = "1f3a"},
                          .sites = sites,
                          .num_sites = 3,
                          .num_places = 1};
    RtJob *job;
    int exit_status;
    if (m->setup)
        m->setup(rank, &options, &config);
    Status st = rt_job_open(&options, &config, &job);
    if (st)
        return exit_status_of_failure(st);
    atomic_fetch_add(num_joined(m), 1);
    st = m->body(job, m->shared);
    bool speaks = rt_job_close(job, st, &exit_status);
    if (st && speaks)
        fprintf(stderr, "# rank %d: %s\n", rank, status_message(st));
    status_free(st);
    return exit_status;
}

static void
open_server(Members *m)
{
    RtServerConfig config = {.id = "test",
                             .size = m->size,
                             .rank = -1,
                             .silence = 2.5,
                             .key = members_key,
                             .address = "127.0.0.1:*",
                             .data = m,
                             .say = say};
    Status st = rt_server_open(&config, &m->server);
    if (st) {
        fprintf(stderr, "# %s\n", status_message(st));
        abort();
    }
    snprintf(m->address, sizeof m->address, "127.0.0.1:%d",
             rt_server_port(m->server));
}

void
members_start(Members *m, int size, MemberBody *body, MemberSetup *setup)
{
    *m = (Members){.size = size, .body = body, .setup = setup};
    m->shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    m->said = calloc(1, SAID_BYTES);
    double began = clock_seconds();
    open_server(m);
    for (int i = 0; i < size; i++) {
        m->pids[i] = fork();
        if (m->pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(be_member(m, i));
        }
    }
    if (!setup) {
        members_await(num_joined(m), size);
        m->joined = clock_seconds() - began;
    }
}

void
members_await(const _Atomic int *word, int value)
{
    double end = clock_seconds() + 30;
    while (atomic_load(word) < value && clock_seconds() < end)
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

/* Those that are stopped, or hang, are killed. */
static void
reap(Members *m)
{
    double end = clock_seconds() + 20;
    for (int i = 0; i < m->size; i++) {
        int status;
        pid_t pid;
        while ((pid = waitpid(m->pids[i], &status, WNOHANG | WUNTRACED)) == 0 &&
               clock_seconds() < end)
            nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        if (pid == 0 || WIFSTOPPED(status)) {
            kill(m->pids[i], SIGKILL);
            waitpid(m->pids[i], &status, 0);
        }
        m->statuses[i] =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

void
members_wait(Members *m)
{
    struct pollfd over = {.fd = rt_server_fd(m->server), .events = POLLIN};
    poll(&over, 1, 30 * 1000);
    if (!rt_server_has_ended(m->server, &m->exit_status))
        m->exit_status = -1;
    reap(m);
    rt_server_close(m->server);
}

void
members_free(Members *m)
{
    munmap(m->shared, SHARED_BYTES);
    free(m->said);
}
