/*
 * control_test.c - processes that join a job, and how it ends
 *
 * The server is in the test's process, the members are forked.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include "ir/base/clock.h"
#include "runtime/cluster/launch/start.h"
#include "tests/cluster/members.h"

static void
wait_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

static void
expect_said(const Members *m, const char *part)
{
    if (!strstr(m->said, part))
        fail_msg("\"%s\" is not in:\n%s", part, m->said);
}

/* ---- joining and ending ------------------------------------------------- */

static Status
exchange(RtJob *job, void *shared)
{
    (void)shared;
    for (int round = 0; round < 3; round++) {
        Arena *a = arena_new(NULL, "an exchange");
        RtBytes *all;
        char own[16];
        int n = snprintf(own, sizeof own, "%d of %d", job->rank, job->size);
        TRY(rt_job_exchange(job, "names", own, (size_t)n - job->rank, a, &all));
        for (int i = 0; i < job->size; i++) {
            char other[16];
            n = snprintf(other, sizeof other, "%d of %d", i, job->size) - i;
            if ((int)all[i].len != n || memcmp(all[i].data, other, (size_t)n))
                return status_new(STATUS_MACHINE, "wrong bytes");
        }
        arena_release(a);
    }
    if (job->local_rank != job->rank || job->local_size != job->size ||
        strcmp(job->peers[0].machine, job->peers[job->rank].machine) != 0)
        return status_new(STATUS_MACHINE, "wrong peers");
    return OK;
}

static void
four_join_exchange_and_end(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 4, exchange, NULL);
    members_wait(&m);
    printf("# four joined in %.3f s\n", m.joined);
    assert_string_equal(m.said, "");
    assert_int_equal(m.exit_status, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(m.statuses[i], 0);
    members_free(&m);
}

static Status
large_exchange(RtJob *job, void *shared)
{
    (void)shared;
    Arena *a = arena_new(NULL, "an exchange");
    RtBytes *all;
    char *own = arena_alloc(a, RT_JOB_EXCHANGE);
    memset(own, 'a' + job->rank, RT_JOB_EXCHANGE);
    TRY(rt_job_exchange(job, "large", own, RT_JOB_EXCHANGE, a, &all));
    bool right = all[1].len == RT_JOB_EXCHANGE &&
                 ((const char *)all[1].data)[RT_JOB_EXCHANGE - 1] == 'b';
    arena_release(a);
    return right ? OK : status_new(STATUS_MACHINE, "wrong bytes");
}

static void
exchanges_of_a_megabyte(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 2, large_exchange, NULL);
    members_wait(&m);
    assert_int_equal(m.exit_status, 0);
    members_free(&m);
}

/* ---- failures ----------------------------------------------------------- */

static Status
wait_for_stop(RtJob *job)
{
    Status st;
    while (!(st = rt_job_stopped(job)))
        wait_a_moment();
    return st;
}

static Status
rank_1_fails(RtJob *job, void *shared)
{
    (void)shared;
    if (job->rank == 1)
        return status_new(STATUS_INPUT, "row 7 is odd");
    return wait_for_stop(job);
}

/* The status of the first cause is the job's; nobody else prints. */
static void
a_run_that_fails_ends_the_job(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 3, rank_1_fails, NULL);
    members_wait(&m);
    assert_string_equal(m.said, ""); /* rank 1 prints it */
    assert_int_equal(m.exit_status, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(m.statuses[i], 1);
    members_free(&m);
}

static Status
different_exchanges(RtJob *job, void *shared)
{
    (void)shared;
    RtBytes *all;
    Arena *a = arena_new(NULL, "an exchange");
    Status st =
        rt_job_exchange(job, job->rank == 1 ? "b" : "a", "", 0, a, &all);
    arena_release(a);
    return st;
}

static void
processes_that_diverge_are_named(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 2, different_exchanges, NULL);
    members_wait(&m);
    expect_said(&m, "the processes have diverged");
    assert_int_equal(m.exit_status, 3);
    assert_int_equal(m.statuses[0], 3);
    members_free(&m);
}

static Status
rank_1_stays_away(RtJob *job, void *shared)
{
    return job->rank == 1 ? wait_for_stop(job)
                          : different_exchanges(job, shared);
}

static void
be_patient(int rank, RtJobOptions *options, RtJobConfig *config)
{
    (void)rank;
    (void)options;
    config->timeout = 1;
    config->patience = 2;
}

static void
who_is_patient_in_collectives_is_so_elsewhere(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 2, rank_1_stays_away, be_patient);
    members_wait(&m);
    expect_said(&m, "has not come to the exchange \"a\" after 2 seconds");
    assert_int_equal(m.exit_status, 3);
    members_free(&m);
}

/* ---- members without a server -------------------------------------------- */

/* The message with which a member of that address and key does not join. */
static void
expect_not_joined(const char *address, const uint8_t *key, double timeout,
                  const char *part)
{
    const char *addresses[] = {address};
    RtJobOptions options = {.rank = 1,
                            .size = 2,
                            .addresses = addresses,
                            .num_addresses = 1,
                            .key = key};
    RtJobConfig config = {.timeout = timeout};
    RtJob *job;
    Status st = rt_job_open(&options, &config, &job);
    assert_non_null(st);
    if (!strstr(status_message(st), part))
        fail_msg("\"%s\" is not in: %s", part, status_message(st));
    assert_true(rt_job_speaks());
    status_free(st);
}

static void
members_find_no_server(void **state)
{
    (void)state;
    RtServer *server;
    char address[32];
    uint8_t other[RT_JOB_KEY] = "another";
    RtServerConfig config = {
        .size = 2, .key = members_key, .address = "127.0.0.1:*"};
    assert_null(rt_server_open(&config, &server));
    snprintf(address, sizeof address, "127.0.0.1:%d", rt_server_port(server));
    expect_not_joined(address, other, 20,
                      "does not accept this process: it has another key");
    expect_not_joined(address, NULL, 20,
                      "does not accept this process: it has another key");
    rt_server_close(server);
    expect_not_joined(address, members_key, 0.3,
                      "rank 1: the control server at 127.0.0.1:");
    expect_not_joined("10.0.0.1:80", NULL, 20,
                      "a job that uses tcp://10.0.0.1:80 needs a key");
    config.address = "192.0.2.1:1";
    Status st = rt_server_open(&config, &server);
    assert_non_null(strstr(status_message(st), "the control server cannot "
                                               "listen on 192.0.2.1:1: "));
    status_free(st);
}

static Status
lose_server(RtJob *job, void *shared)
{
    rt_job_at(job, 7, RT_JOB_RUNS);
    rt_job_calls(job, 0, 2);
    rt_job_waits(job, 0, 2);
    atomic_fetch_add((_Atomic int *)shared, 1);
    Status st = wait_for_stop(job);
    if (!strstr(status_message(st), "has lost the control server (127.0.0.1:"))
        _exit(77);
    return st;
}

static void
members_lose_their_server(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 1, lose_server, NULL);
    rt_server_close(m.server);
    int status;
    assert_int_equal(waitpid(m.pids[0], &status, 0), m.pids[0]);
    assert_int_equal(WEXITSTATUS(status), 3);
    members_free(&m);
}

static char own_address[32];

/* A port that was free a moment ago. */
static void
choose_address(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    snprintf(own_address, sizeof own_address, "127.0.0.1:%d",
             (int)ntohs(at.sin_port));
}

static void
rank_0_serves(int rank, RtJobOptions *options, RtJobConfig *config)
{
    static const char *addresses[] = {own_address};
    (void)config;
    options->addresses = addresses;
    options->listen = rank == 0 ? own_address : NULL;
    options->silence = 2.3;
}

static Status
rank_0_is_stopped(RtJob *job, void *shared)
{
    (void)shared;
    rt_job_at(job, 7, RT_JOB_RUNS);
    rt_job_calls(job, 0, 2);
    rt_job_waits(job, 0, 2);
    if (job->rank == 0)
        raise(SIGSTOP);
    Status st = wait_for_stop(job);
    if (!strstr(status_message(st), " of rank 0 ("))
        _exit(77);
    return st;
}

static void
members_name_the_rank_that_serves(void **state)
{
    (void)state;
    Members m;
    int status;
    choose_address();
    members_start(&m, 2, rank_0_is_stopped, rank_0_serves);
    assert_int_equal(waitpid(m.pids[1], &status, 0), m.pids[1]);
    assert_int_equal(WEXITSTATUS(status), 3);
    kill(m.pids[0], SIGKILL);
    assert_int_equal(waitpid(m.pids[0], &status, 0), m.pids[0]);
    rt_server_close(m.server);
    members_free(&m);
}

/* ---- a clock that is set back ------------------------------------------- */

static bool is_set_back;

/* In place of the C library's: whoever asks what time it is, is told one that
 * comes an hour after, as if the clock was set back just then. */
int
clock_gettime(clockid_t clock, struct timespec *t)
{
    int done = (int)syscall(SYS_clock_gettime, clock, t);
    if (is_set_back && clock == CLOCK_REALTIME)
        t->tv_sec += 3600;
    return done;
}

static atomic_bool interrupted;

static void
interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupted, true);
}

/* Rank 1 does not come, and rank 0 is interrupted while it waits. */
static void
interrupt_rank_0(int rank, RtJobOptions *options, RtJobConfig *config)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 300 * 1000}};
    (void)options;
    while (rank == 1)
        pause();
    is_set_back = true;
    config->interrupted = &interrupted;
    signal(SIGALRM, interrupt);
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void
waits_end_though_the_clock_is_set_back(void **state)
{
    (void)state;
    Members m;
    int status;
    pid_t ended = 0;
    double begun = clock_seconds();
    members_start(&m, 2, exchange, interrupt_rank_0);
    while (!ended && clock_seconds() - begun < 20) {
        wait_a_moment();
        ended = waitpid(m.pids[0], &status, WNOHANG);
    }
    for (int i = ended ? 1 : 0; i < 2; i++) {
        kill(m.pids[i], SIGKILL);
        waitpid(m.pids[i], NULL, 0);
    }
    assert_int_equal(ended, m.pids[0]);
    assert_int_equal(WEXITSTATUS(status), STATUS_STOPPED);
    rt_server_close(m.server);
    members_free(&m);
}

/* ---- keys ---------------------------------------------------------------- */

static void
expect_no_job(const char *key_file, const char *part)
{
    Arena *a = arena_new(NULL, "a job");
    RtStartConfig config = {
        .resolve = {.rank = 0, .size = 2, .join = "127.0.0.1:1"},
        .key_file = key_file};
    RtClusterSpec spec;
    const RtJobOptions *job;
    Status st = rt_find_job(a, &config, &spec, &job);
    assert_non_null(st);
    if (!strstr(status_message(st), part))
        fail_msg("\"%s\" is not in: %s", part, status_message(st));
    status_free(st);
    arena_release(a);
}

static void
keys_are_secret_and_whole(void **state)
{
    (void)state;
    char folder[] = "/tmp/tfd-XXXXXX", path[sizeof folder + 4];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    expect_no_job(path, " has no key: 32 bytes, such as head -c 32 ");
    assert_int_equal(fchmod(fd, 0644), 0);
    expect_no_job(path, "others can read the key in /tmp/tfd-");
    close(fd);
    unlink(path);
    rmdir(folder);
    setenv("TFD_KEY_FD", "99", 1);
    expect_no_job(NULL, "TFD_KEY_FD is set, and TFD_CONTROL is not");
    unsetenv("TFD_KEY_FD");
}

/* Of a process that no parent has started, or whose variables were changed:
 * else it would run the plan alone, whatever its command line says. */
static void
a_parent_says_all_or_nothing(void **state)
{
    Arena *a = arena_new(NULL, "a job");
    RtStartConfig config = {.resolve = {.rank = -1}};
    RtClusterSpec spec;
    const RtJobOptions *job;
    const RtTaskOptions *task;
    (void)state;
    setenv("TFD_KEY_FD", "99", 1);
    Status st = rt_find_job(a, &config, &spec, &job);
    assert_string_equal(status_message(st),
                        "TFD_KEY_FD is set, and TFD_CONTROL is not");
    status_free(st);
    st = rt_find_task(a, &config, &spec, &task);
    assert_string_equal(status_message(st),
                        "TFD_KEY_FD is set, and --serve is not");
    status_free(st);
    setenv("TFD_CONTROL", "127.0.0.1:1", 1);
    for (int i = 0; i < 4; i++) {
        static const char *const numbers[] = {"", "3x", "-1", "2147483648"};
        setenv("TFD_KEY_FD", numbers[i], 1);
        expect_no_job(NULL, arena_printf(a,
                                         "TFD_KEY_FD=%s is no number from 0 to "
                                         "2147483647; tfd-run -n sets it",
                                         numbers[i]));
    }
    unsetenv("TFD_CONTROL");
    unsetenv("TFD_KEY_FD");
    arena_release(a);
}

/* ---- verdicts ----------------------------------------------------------- */

typedef struct Steps {
    _Atomic int arrived[MOST_MEMBERS];
    _Atomic int loops; /* the rank that loops for ever, and 1 */
} Steps;

/* Collectives of three sites in turn, which all processes wait in. */
static Status
step_for_ever(RtJob *job, void *shared)
{
    Steps *s = shared;
    Status st = OK;
    rt_job_at(job, 0, RT_JOB_RUNS);
    for (int call = 1; !(st = rt_job_stopped(job)); call++) {
        while (atomic_load(&s->loops) == job->rank + 1 &&
               !(st = rt_job_stopped(job)))
            wait_a_moment();
        if (st)
            return st;
        int site = call % 3;
        rt_job_at(job, call, RT_JOB_RUNS);
        rt_job_calls(job, 0, site);
        atomic_store(&s->arrived[job->rank], call);
        rt_job_waits(job, 0, site);
        for (int i = 0; i < job->size; i++)
            while (atomic_load(&s->arrived[i]) < call && !st) {
                wait_a_moment();
                st = rt_job_stopped(job);
            }
        rt_job_goes_on(job, 0);
        if (st)
            return st;
    }
    return st;
}

static void
killed_processes_are_named(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 4, step_for_ever, NULL);
    const Steps *s = m.shared;
    members_await(&s->arrived[2], 300);
    double killed = clock_seconds();
    kill(m.pids[2], SIGKILL);
    members_wait(&m);
    printf("# over %.3f s after the kill\n", clock_seconds() - killed);
    expect_said(&m, "error: rank 2 (");
    expect_said(&m, " is dead; it was last seen in call ");
    expect_said(&m, "note: ranks 0, 1, 3 wait here for it (all_");
    assert_int_equal(m.exit_status, 3);
    assert_int_equal(m.statuses[0], 3);
    assert_true(clock_seconds() - killed < 3);
    members_free(&m);
}

static void
stopped_processes_are_named(void **state)
{
    (void)state;
    Members m;
    members_start(&m, 2, step_for_ever, NULL);
    const Steps *s = m.shared;
    members_await(&s->arrived[1], 100);
    double stopped = clock_seconds();
    kill(m.pids[1], SIGSTOP);
    members_wait(&m);
    printf("# over %.3f s after the stop\n", clock_seconds() - stopped);
    expect_said(&m, "note: rank 1 (");
    expect_said(&m, "error: rank 1 (");
    expect_said(&m, " is silent: no sign of it for ");
    assert_int_equal(m.exit_status, 3);
    members_free(&m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_join_exchange_and_end),
        cmocka_unit_test(exchanges_of_a_megabyte),
        cmocka_unit_test(a_run_that_fails_ends_the_job),
        cmocka_unit_test(processes_that_diverge_are_named),
        cmocka_unit_test(who_is_patient_in_collectives_is_so_elsewhere),
        cmocka_unit_test(members_find_no_server),
        cmocka_unit_test(waits_end_though_the_clock_is_set_back),
        cmocka_unit_test(keys_are_secret_and_whole),
        cmocka_unit_test(a_parent_says_all_or_nothing),
        cmocka_unit_test(members_lose_their_server),
        cmocka_unit_test(members_name_the_rank_that_serves),
        cmocka_unit_test(killed_processes_are_named),
        cmocka_unit_test(stopped_processes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
