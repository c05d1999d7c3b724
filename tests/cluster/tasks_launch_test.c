/*
 * tasks_launch_test.c - the parent of a parameter-server job's tasks
 *
 * The parent starts the program that it is part of, which is this test: started
 * as a task it does what the play of the test says (TEST_PLAY).  A coordinator
 * listens, writes down who joins (TEST_LOG), and ends as the play wants; the
 * others join it and end when it closes their connection.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/launch/process.h"
#include "runtime/cluster/launch/tasks_launch.h"
#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

enum { WORKERS = 2, SERVERS = 2, OFTEN = 8, NEVER = 1 << 30 };

/* ---- plays --------------------------------------------------------------- */

/* What one of the tasks does in place of its work. */
typedef enum Deed { WORKS, DIES, FAILS, FAILS_BEFORE_JOINING, STAYS } Deed;

typedef struct Play {
    const char *name;
    const char *task;    /* of the deed: "worker 1" */
    Deed deed;           /* by what has a smaller incarnation than: */
    unsigned until;      /* that; NEVER: by each */
    const char *awaited; /* who has to have joined for the coordinator's end,
                            "worker 1 8", as the log has it; NULL: all */
    Deed end;            /* of the coordinator */
} Play;

static const Play plays[] = {
    {.name = "well"},
    {"replaced", "worker 1", DIES, 1, "worker 1 1", WORKS},
    {"often", "worker 0", DIES, OFTEN, "worker 0 8", WORKS},
    {"early", "worker 0", FAILS_BEFORE_JOINING, NEVER, NULL, STAYS},
    {"early_twice", "worker 0", FAILS_BEFORE_JOINING, 4, "worker 0 4", FAILS},
    {"server", "ps 1", DIES, NEVER, NULL, STAYS},
    {"server_is_missed", "ps 1", DIES, NEVER, "ps 1 0", FAILS},
    {"input", "worker 1", FAILS, NEVER, NULL, STAYS},
    {"deaf", "worker 0", STAYS, NEVER, NULL, WORKS},
    {.name = "stays", .end = STAYS},
    {.name = "killed", .end = DIES},
    {.name = "fails", .end = FAILS_BEFORE_JOINING},
    {.name = "silent", .awaited = "silent", .end = STAYS},
};

static const Play *
find_play(void)
{
    const char *name = getenv("TEST_PLAY");
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
        if (strcmp(plays[i].name, name) == 0)
            return &plays[i];
    _exit(99);
}

static void
write_down(const char *line)
{
    int fd = open(getenv("TEST_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, line, strlen(line)) < 0)
        _exit(98);
    close(fd);
}

static void
announce(const char *text)
{
    int fd = atoi(getenv(RT_ANNOUNCE_VARIABLE));
    if (write(fd, text, strlen(text)) < 0)
        _exit(97);
    close(fd);
}

/* Of a failure that no other attempt would mend. */
enum { WRONG_INPUT = 1, FAILURE = 4 };

static void
do_deed(Deed deed, int exit_status)
{
    if (deed == DIES)
        raise(SIGKILL);
    if (deed == FAILS || deed == FAILS_BEFORE_JOINING) {
        fputs("something is wrong\n", stderr);
        _exit(exit_status);
    }
    while (deed == STAYS)
        pause();
}

static void
read_key(char *hex)
{
    uint8_t key[RT_JOB_KEY];
    int fd = atoi(getenv(RT_KEY_VARIABLE));
    if (read(fd, key, sizeof key) != (ssize_t)sizeof key)
        _exit(96);
    for (int i = 0; i < RT_JOB_KEY; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
}

/* ---- the coordinator's part ---------------------------------------------- */

static int
open_port(const char *listens_at)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    char port[16];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (strcmp(listens_at, "127.0.0.1:0") != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 100) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        _exit(95);
    snprintf(port, sizeof port, "%d\n", ntohs(at.sin_port));
    announce(port);
    return fd;
}

/* "worker 1 0 PID KEY": writes it down without the key, which is the job's. */
static void
take_member(int fd, const char *key, char *line, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    char *last = strrchr(line, ' ');
    if (!last || strcmp(last + 1, key) != 0)
        _exit(94);
    strcpy(last, "\n");
    write_down(line);
}

static void
end_interrupted(int signal_number)
{
    (void)signal_number;
    _exit(130);
}

static int
coordinate(const Play *play, char **argv)
{
    char key[2 * RT_JOB_KEY + 1], line[200];
    int joined = 0;
    bool ends = false;
    signal(SIGTERM, end_interrupted);
    snprintf(line, sizeof line, "workers=%d,ps=%d", WORKERS, SERVERS);
    if (strcmp(argv[2], line) != 0 || strcmp(argv[3], "--listen") != 0)
        _exit(93);
    snprintf(line, sizeof line, "coordinator 0 %d\n", (int)getpid());
    write_down(line);
    read_key(key);
    if (play->end == FAILS_BEFORE_JOINING)
        do_deed(play->end, WRONG_INPUT);
    if (play->awaited && strcmp(play->awaited, "silent") == 0)
        do_deed(STAYS, 0);
    for (int fd = open_port(argv[4]); !ends;) {
        take_member(accept(fd, NULL, NULL), key, line, sizeof line);
        ends = play->awaited
                   ? strncmp(line, play->awaited, strlen(play->awaited)) == 0
                   : ++joined == WORKERS + SERVERS;
    }
    write_down("all\n");
    do_deed(play->end, FAILURE);
    puts("the job is done");
    fflush(stdout);
    return 0;
}

/* ---- the others' part ---------------------------------------------------- */

static int
connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    return connect(fd, (struct sockaddr *)&to, sizeof to) ? -1 : fd;
}

static int
serve(const Play *play, char **argv)
{
    char name[32], key[2 * RT_JOB_KEY + 1], line[200];
    unsigned incarnation = (unsigned)atoi(getenv(RT_INCARNATION_VARIABLE));
    snprintf(name, sizeof name, "%s", argv[2]);
    *strchr(name, ':') = ' ';
    bool acts = play->task && strcmp(play->task, name) == 0 &&
                incarnation < play->until;
    read_key(key);
    if (acts && play->deed == FAILS_BEFORE_JOINING)
        do_deed(play->deed, FAILURE);
    int fd = connect_to(argv[4]);
    snprintf(line, sizeof line, "%s %u %d %s\n", name, incarnation,
             (int)getpid(), key);
    if (write(fd, line, strlen(line)) < 0)
        _exit(92);
    if (*name == 'w')
        announce("joined\n");
    printf("here is\n%s", name); /* a line, and one without its end */
    fflush(stdout);
    if (acts)
        do_deed(play->deed, WRONG_INPUT);
    while (read(fd, line, sizeof line) > 0)
        continue;
    return 0;
}

/* ---- a job --------------------------------------------------------------- */

/* What a job has left. */
typedef struct Job {
    pid_t pid; /* of the parent of its tasks */
    const char *log, *err, *out;
} Job;

static Job
start_restarted(const char *play, double timeout, bool quiet, int restarts)
{
    static char *argv[] = {"tfd-run", "train.tfp", NULL};
    const char *dir = work_dir(arena);
    Job job = {.log = arena_printf(arena, "%s/log", dir),
               .err = arena_printf(arena, "%s/err", dir),
               .out = arena_printf(arena, "%s/out", dir)};
    fflush(NULL);
    job.pid = fork();
    if (job.pid)
        return job;
    const RtTasksLaunchConfig config = {
        {WORKERS, SERVERS, 0}, 2, argv, argv, restarts, timeout, quiet};
    int exit_status = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("TEST_PLAY", play, 1);
    setenv("TEST_LOG", job.log, 1);
    if (!freopen(job.err, "w", stderr) || !freopen(job.out, "w", stdout))
        _exit(91);
    Status st = rt_launch_tasks(&config, &exit_status);
    if (st)
        exit_status = status_report(st, "tfd-run", stderr);
    fflush(NULL);
    _exit(exit_status);
}

static Job
start(const char *play, double timeout, bool quiet)
{
    return start_restarted(play, timeout, quiet, 0);
}

/* The lines of a file; "" if there is none. */
static const char *
text_of(const char *path)
{
    Str s = str_new(arena);
    char part[1000];
    FILE *f = fopen(path, "r");
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        str_addn(&s, part, n);
    if (f)
        fclose(f);
    return str_text(&s);
}

static void
wait_for(const Job *job, const char *line)
{
    double end = clock_seconds() + 20;
    while (!strstr(text_of(job->log), line)) {
        assert_true(clock_seconds() < end);
        poll(NULL, 0, 5);
    }
}

/* Since the coordinator was about to end, however long all took to start. */
static double
seconds_after_all(const Job *job)
{
    struct stat written;
    struct timespec now;
    assert_int_equal(stat(job->log, &written), 0);
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)(now.tv_sec - written.st_mtim.tv_sec) +
           1e-9 * (double)(now.tv_nsec - written.st_mtim.tv_nsec);
}

/* No process that has written itself down runs any more. */
static void
expect_nobody(const Job *job)
{
    double end = clock_seconds() + 20;
    char name[32];
    int index_or_pid, incarnation, pid;
    for (const char *at = text_of(job->log); *at; at = strchr(at, '\n') + 1) {
        int n = sscanf(at, "%31s %d %d %d", name, &index_or_pid, &incarnation,
                       &pid);
        if (n < 3)
            continue;
        pid = n == 3 ? incarnation : pid;
        while (kill(pid, 0) == 0 && clock_seconds() < end)
            poll(NULL, 0, 5);
        assert_int_equal(kill(pid, 0), -1);
        assert_int_equal(errno, ESRCH);
    }
}

static const char *
finish(const Job *job, int exit_status)
{
    int status;
    assert_int_equal(waitpid(job->pid, &status, 0), job->pid);
    const char *err = text_of(job->err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != exit_status)
        fail_msg("status %#x instead of %d:\n%s%s", (unsigned)status,
                 exit_status, text_of(job->log), err);
    expect_nobody(job);
    return err;
}

/* A text with # for each number of a process. */
static const char *
without_pids(const char *text)
{
    Str s = str_new(arena);
    for (const char *at; (at = strstr(text, "(pid ")); text = at) {
        at += strlen("(pid ");
        str_addn(&s, text, (size_t)(at - text));
        str_addc(&s, '#');
        while (isdigit((unsigned char)*at))
            at++;
    }
    str_add(&s, text);
    return str_text(&s);
}

static void
expect_said(const char *err, const char *line)
{
    if (!strstr(without_pids(err), line))
        fail_msg("\"%s\" is not in:\n%s", line, err);
}

/* ---- tests --------------------------------------------------------------- */

static void
all_tasks_join_and_end(void **state)
{
    (void)state;
    Job job = start("well", 0, false);
    const char *err = finish(&job, 0);
    static const char *const names[] = {"worker 0", "worker 1", "ps 0", "ps 1"};
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(
            strstr(text_of(job.log), arena_printf(arena, "%s 0 ", names[i])));
        expect_said(err, arena_printf(arena, "%s: here is\n", names[i]));
        expect_said(err, arena_printf(arena, "%s: %s\n", names[i], names[i]));
    }
    assert_string_equal(text_of(job.out), "the job is done\n");
}

static void
a_worker_is_started_again(void **state)
{
    (void)state;
    Job job = start("replaced", 0, false);
    expect_said(finish(&job, 0), "tfd-run: worker 1 (pid #) was killed by "
                                 "signal 9, and is started again\n");
}

/* Of one that had joined, as often as it dies; quietly. */
static void
a_worker_is_started_again_and_again(void **state)
{
    (void)state;
    Job job = start("often", 0, true);
    const char *err = finish(&job, 0);
    assert_null(strstr(err, "tfd-run"));
}

static void
a_worker_that_never_joins_ends_the_job(void **state)
{
    (void)state;
    Job job = start("early", 0, false);
    expect_said(finish(&job, 4),
                "tfd-run: worker 0 died 5 times in a row at its start, before "
                "it had joined the job: worker 0 (pid #) ended with status "
                "4\n");
}

/* The worker had joined since. */
static void
each_attempt_counts_its_own_deaths(void **state)
{
    (void)state;
    Job job = start_restarted("early_twice", 0, false, 1);
    const char *err = finish(&job, 4);
    expect_said(err, "tfd-run: restart 1 of 1, from the newest checkpoint\n");
    assert_null(strstr(err, "in a row"));
}

static void
a_server_is_missed_by_the_coordinator(void **state)
{
    (void)state;
    Job job = start("server_is_missed", 0, false);
    const char *err = finish(&job, 4);
    expect_said(err, "something is wrong\n");
    assert_true(seconds_after_all(&job) < 2);
}

/* Of all whose processes get two seconds. */
static void
who_does_not_end_is_killed(void **state)
{
    (void)state;
    Job server = start("server", 0, false), input = start("input", 0, false),
        deaf = start("deaf", 0, false);
    expect_said(finish(&server, 3),
                "tfd-run: ps 1 (pid #) was killed by signal 9\n");
    const char *err = finish(&input, 1);
    expect_said(err, "something is wrong\n");
    expect_said(err, "tfd-run: worker 1 (pid #) ended with status 1\n");
    err = finish(&deaf, 0);
    assert_null(strstr(err, "tfd-run"));
    assert_true(seconds_after_all(&deaf) < 5);
}

static void
a_coordinator_that_is_killed_ends_the_job(void **state)
{
    (void)state;
    Job job = start("killed", 0, false);
    expect_said(finish(&job, 3),
                "tfd-run: coordinator (pid #) was killed by signal 9\n");
}

static void
a_coordinator_that_fails_is_the_job(void **state)
{
    (void)state;
    Job job = start("fails", 0, false);
    assert_string_equal(finish(&job, 1), "something is wrong\n");
}

static void
a_coordinator_that_does_not_listen(void **state)
{
    (void)state;
    Job job = start("silent", 0.2, false);
    assert_string_equal(without_pids(finish(&job, 3)),
                        "tfd-run: the coordinator (pid #) does not listen "
                        "after 0.2 seconds (--timeout allows more)\n");
}

static void
an_interrupt_is_the_coordinators(void **state)
{
    (void)state;
    Job job = start("stays", 0, false);
    wait_for(&job, "all\n");
    kill(job.pid, SIGTERM);
    assert_null(strstr(finish(&job, 130), "tfd-run"));
}

/* Two interrupts, of which this coordinator takes none. */
static void
who_asks_twice_does_not_wait(void **state)
{
    (void)state;
    Job job = start("stays", 0, false);
    wait_for(&job, "all\n");
    int coordinator = 0;
    sscanf(strstr(text_of(job.log), "coordinator 0 "), "coordinator 0 %d",
           &coordinator);
    kill(coordinator, SIGSTOP);
    kill(job.pid, SIGTERM);
    poll(NULL, 0, 700);
    kill(job.pid, SIGTERM);
    finish(&job, 130);
}

static void
nobody_outlives_the_parent(void **state)
{
    (void)state;
    Job job = start("stays", 0, false);
    int status;
    wait_for(&job, "all\n");
    kill(job.pid, SIGKILL);
    waitpid(job.pid, &status, 0);
    expect_nobody(&job);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_arena, release_arena)

int
main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "--coordinate") == 0)
        return coordinate(find_play(), argv);
    if (argc > 4 && strcmp(argv[1], "--serve") == 0)
        return serve(find_play(), argv);
    static const struct CMUnitTest tests[] = {
        TEST(all_tasks_join_and_end),
        TEST(a_worker_is_started_again),
        TEST(a_worker_is_started_again_and_again),
        TEST(a_worker_that_never_joins_ends_the_job),
        TEST(each_attempt_counts_its_own_deaths),
        TEST(a_server_is_missed_by_the_coordinator),
        TEST(who_does_not_end_is_killed),
        TEST(a_coordinator_that_is_killed_ends_the_job),
        TEST(a_coordinator_that_fails_is_the_job),
        TEST(a_coordinator_that_does_not_listen),
        TEST(an_interrupt_is_the_coordinators),
        TEST(who_asks_twice_does_not_wait),
        TEST(nobody_outlives_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
