/*
 * run.c - helpers of tests that run the two programs as users do
 */
#include "tests/e2e/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "tests/unit/unit.h"

extern char **environ;

enum { MAX_ARGS = 64, TIMEOUT_SECONDS = 120 };

static const char *
need_env(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run this through meson test", name);
    return value;
}

static const char *
program(const char *word)
{
    if (!strcmp(word, "tfdc"))
        return need_env("TFDC");
    if (!strcmp(word, "tfd-run"))
        return need_env("TFD_RUN");
    return word;
}

static void
split(char *command, const char **argv)
{
    int n = 0;
    for (char *word = strtok(command, " "); word; word = strtok(NULL, " ")) {
        assert_true(n < MAX_ARGS - 1);
        argv[n] = n == 0 ? program(word) : word;
        n++;
    }
    argv[n] = NULL;
}

static char *
read_back(Arena *a, int fd, size_t *len)
{
    off_t end = lseek(fd, 0, SEEK_END);
    assert_true(end >= 0);
    char *text = arena_alloc(a, (size_t)end + 1);
    assert_int_equal(pread(fd, text, (size_t)end, 0), end);
    close(fd);
    *len = (size_t)end;
    return text;
}

static int
wait_for(pid_t pid)
{
    int status;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0),
                         .events = POLLIN};
    assert_true(end.fd >= 0);
    bool ended = poll(&end, 1, 1000 * TIMEOUT_SECONDS) == 1;
    close(end.fd);
    if (!ended)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!ended)
        fail_msg("not done after %d seconds", TIMEOUT_SECONDS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static Ran
run_command(Arena *a, char *command)
{
    const char *argv[MAX_ARGS];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int out = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    int err = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    assert_true(out >= 0 && err >= 0);
    split(command, argv);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv,
                             environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        fail_msg("cannot start %s: %s", argv[0], strerror(error));
    int code = wait_for(pid);
    Ran r = {.code = code};
    r.out = read_back(a, out, &r.out_len);
    r.err = read_back(a, err, &r.err_len);
    return r;
}

Ran
run(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Ran r = run_command(a, arena_vprintf(a, format, args));
    va_end(args);
    return r;
}

Ran
run_ok(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *command = arena_vprintf(a, format, args);
    Ran r = run_command(a, arena_strdup(a, command));
    va_end(args);
    if (r.code)
        fail_msg("%s: exit status %d\n%s%s", command, r.code, r.out, r.err);
    return r;
}

const char *
source_text(Arena *a, const char *path)
{
    char *text;
    size_t len;
    Status st = file_read(
        a, arena_printf(a, "%s/%s", need_env("TFD_ROOT"), path), &text, &len);
    if (st)
        fail_msg("%s", status_message(st));
    return text;
}

void
write_text(const char *path, const char *text)
{
    Status st = file_write(path, text, strlen(text));
    if (st)
        fail_msg("%s", status_message(st));
}

const char *
substitute(Arena *a, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from))
        fail_msg("\"%s\" is not there just once", from);
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to,
                        at + strlen(from));
}
