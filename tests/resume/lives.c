/*
 * lives.c - runs that are killed and resumed, beside an undisturbed run
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "runtime/run/run.h"
#include "tests/resume/lives.h"

enum { MAX_ARGS = 32 };

/* ---- programs ----------------------------------------------------------- */

const char *
lives_compile(Arena *a, const Subject *s, const char *dir)
{
    const char *text = source_text(a, s->program);
    const char *path = arena_printf(a, "%s/%s.tfd", dir, s->name);
    const char *plan = arena_printf(a, "%s/%s.tfp", dir, s->name);
    size_t len = strlen(text);
    while (len && text[len - 1] != '}')
        len--;
    assert_true(len > 0);
    if (s->last)
        text = arena_printf(a, "%.*s  %s\n}\n", (int)len - 1, text, s->last);
    write_text(path, text);
    run_ok(a, "tfdc %s %s -o %s", path, s->compiler, plan);
    return plan;
}

/* ---- lives -------------------------------------------------------------- */

static void
redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(98);
}

/* In the child: no more tests there. */
static void
become(const Subject *s, const char *plan, const char *dir, int every)
{
    Arena *a = arena_new(NULL, "a life");
    const char *argv[MAX_ARGS];
    int n = 0;
    Str command = str_new(a);
    str_addf(&command,
             "%s %s --data %s/docs/examples --checksum --log-dir logs %s",
             getenv("TFD_RUN"), plan, getenv("TFD_ROOT"), s->runner);
    if (every)
        str_addf(&command, " --checkpoint checkpoints --every %d --resume",
                 every);
    char *text = arena_strdup(a, str_text(&command));
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[n++] = word;
    argv[n] = NULL;
    if (chdir(dir) < 0)
        _exit(98);
    redirect("out", 1);
    redirect("err", 2);
    signal(SIGHUP, SIG_DFL); /* nohup ignores it, and tfd-run respects that */
    execv(argv[0], (char *const *)argv);
    _exit(98);
}

pid_t
lives_begin(const Subject *s, const char *plan, const char *dir, int every)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(s, plan, dir, every);
    return pid;
}

static void
die_at(void *data, int64_t step)
{
    const int *last = data;
    if (step == *last)
        raise(SIGKILL);
}

/* In a process of its own, in whose folder all is written. */
_Noreturn static void
live_until(const char *plan, const char *devices, int step, int every)
{
    Arena *a = arena_new(NULL, "a life");
    Plan *p;
    FILE *out = fopen("out", "a"), *err = fopen("err", "a");
    setvbuf(err, NULL, _IONBF, 0);
    RtOptions options = {
        .data_dir = arena_printf(a, "%s/docs/examples", getenv("TFD_ROOT")),
        .checkpoint_dir = "checkpoints",
        .every = every,
        .resume = true,
        .log_dir = "logs",
        .pipeline_threads = true,
        .checksum = true,
        .out = out,
        .err = err,
        .devices = devices,
        .on_step = die_at,
        .on_step_data = &step};
    Status st = plan_read(a, plan, &p);
    if (!st)
        st = rt_run(p, &options);
    if (st)
        fprintf(stderr, "%s\n", status_message(st));
    fclose(out);
    fclose(err);
    arena_release(a);
    _exit(st ? 1 : 0);
}

bool
lives_until(const char *plan, const char *dir, const char *devices, int step,
            int every)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (chdir(dir) < 0)
            _exit(98);
        live_until(plan, devices, step, every);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

static const char *
text_of(Arena *a, const char *dir, const char *name, size_t *len)
{
    char *text;
    Status st = file_read(a, arena_printf(a, "%s/%s", dir, name), &text, len);
    if (st)
        fail_msg("%s", status_message(st));
    return text;
}

bool
lives_wait(Arena *a, pid_t pid, const char *dir)
{
    int status;
    size_t len;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status %x:\n%s", (unsigned)status,
                 text_of(a, dir, "err", &len));
    return false;
}

int
lives_resumed(Arena *a, const char *dir)
{
    int n = 0;
    size_t len;
    const char *err = text_of(a, dir, "err", &len);
    for (; (err = strstr(err, "resuming after step ")); err++)
        n++;
    return n;
}

/* ---- results ------------------------------------------------------------ */

/* Each line of a text that ends, once, in the order of their first time. */
static const char *
distinct_lines(Arena *a, const char *text)
{
    Str s = str_new(a);
    Map *seen = map_new(a);
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        const char *line = arena_strndup(a, text, (size_t)(end - text) + 1);
        if (map_get(seen, line))
            continue;
        map_set(seen, line, seen);
        str_add(&s, line);
    }
    return str_text(&s);
}

/* The events of a file but the first, which tells the version; without the
 * times at their beginning, in hex.  A file that is cut short fails the test.
 */
static void
add_events(Str *s, const char *file, size_t len)
{
    enum { HEAD = 12, TIME = 9, TAIL = 4 };
    uint32_t n;
    for (size_t at = 0; at < len; at += HEAD + n + TAIL) {
        assert_true(len - at > HEAD);
        memcpy(&n, file + at, sizeof n);
        assert_true(n >= TIME && len - at >= HEAD + n + TAIL);
        for (size_t i = TIME; at && i < n; i++)
            str_addf(s, "%02x", (unsigned char)file[at + HEAD + i]);
        str_add(s, at ? "\n" : "");
    }
}

/* Of all files of a folder, of which only one may have any: a life that ends
 * before it has begun leaves one without. */
static const char *
events_text(Arena *a, const char *dir)
{
    Str s = str_new(a);
    FileNames names;
    const char *logs = arena_printf(a, "%s/logs", dir);
    if (access(logs, F_OK) < 0)
        return "";
    assert_null(file_list(a, logs, &names));
    for (int i = 0; i < names.len; i++) {
        size_t len, before = s.len;
        if (names.data[i][0] == '.')
            continue;
        const char *file = text_of(a, logs, names.data[i], &len);
        add_events(&s, file, len);
        assert_true(before == 0 || s.len == before);
    }
    return str_text(&s);
}

static int
expect_final_name(const char *path, const struct stat *st, int kind,
                  struct FTW *at)
{
    (void)st, (void)kind;
    if (strstr(path + at->base, ".tmp"))
        fail_msg("a temporary file is left: %s", path);
    return 0;
}

void
lives_compare(Arena *a, const Subject *s, const char *whole, const char *dir)
{
    size_t len, want_len;
    const char *want = text_of(a, whole, "out", &want_len);
    const char *have = text_of(a, dir, "out", &len);
    assert_string_equal(distinct_lines(a, have), distinct_lines(a, want));
    assert_string_equal(events_text(a, dir), events_text(a, whole));
    assert_int_equal(nftw(dir, expect_final_name, 8, FTW_PHYS), 0);
    for (int i = 0; i < MAX_FILES && s->files[i]; i++) {
        want = text_of(a, whole, s->files[i], &want_len);
        have = text_of(a, dir, s->files[i], &len);
        assert_int_equal(len, want_len);
        assert_memory_equal(have, want, len);
    }
}
