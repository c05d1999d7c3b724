/*
 * io_faults.c - calls that read and write files fail in turn
 *
 *   io_faults [--count N] [--seed S]
 *
 * Both programs are run with io_inject.c preloaded, which makes one call fail;
 * the call is drawn from all calls of an undisturbed run, and the fault from
 * all faults of that call.  A call that is interrupted, or transfers fewer
 * bytes than asked for, must have no effect on the result.  The outcome of any
 * other failure is one message and exit status 3, or the same result; and no
 * temporary file.
 *
 * Then a training that failed is resumed with intact files, and must end with
 * the bits of the undisturbed one; variables are restored once more; and tfdc
 * is run once more on the cache that the failure left.
 */
#include <dirent.h>
#include "ir/base/io/file.h"
#include "ir/base/number/philox.h"
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "tests/faults/io_inject.h"
#include "tests/unit/unit.h"

static struct {
    int count;
    uint32_t seed;
} options = {.count = 200, .seed = 1};

static const char *const class_names[NUM_IO_CLASSES] = {
#define X(name, faults) #name,
    IO_CLASSES(X)
#undef X
};
static const char *const class_faults[NUM_IO_CLASSES] = {
#define X(name, faults) faults,
    IO_CLASSES(X)
#undef X
};

static Arena *group;       /* shared by all trials */
static Arena *arena;       /* of a trial */
static const char *home;   /* the plan, the source, folders to begin with */
static const char *folder; /* of the trial */

static const char *
in(const char *parent, const char *name)
{
    return arena_printf(arena, "%s/%s", parent, name);
}

/* ---- faults -------------------------------------------------------------- */

typedef struct Fault {
    const char *text; /* of TFD_IO_FAULT */
    bool is_nothing;  /* that anybody notices */
} Fault;

static int
num_words(const char *text)
{
    int n = 1;
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

static const char *
nth_word(const char *text, int n)
{
    for (; n > 0; n--)
        text = strchr(text, ' ') + 1;
    return arena_strndup(arena, text, strcspn(text, " "));
}

typedef struct Counts {
    long of[NUM_IO_CLASSES];
} Counts;

/* Fault number i of this seed: any call, any of the faults of its class. */
static Fault
draw_fault(const Counts *counts, int i)
{
    uint32_t words[4];
    long all = 0;
    philox4x32((uint32_t[4]){(uint32_t)i}, (uint32_t[2]){options.seed}, words);
    for (int k = 0; k < NUM_IO_CLASSES; k++)
        all += counts->of[k] * num_words(class_faults[k]);
    long at = (long)(words[0] % (uint32_t)all);
    int k = 0;
    for (; at >= counts->of[k] * num_words(class_faults[k]); k++)
        at -= counts->of[k] * num_words(class_faults[k]);
    const char *what = nth_word(class_faults[k], (int)(at / counts->of[k]));
    return (Fault){.text = arena_printf(arena, "%s:%ld:%s", class_names[k],
                                        1 + at % counts->of[k], what),
                   .is_nothing =
                       !strcmp(what, "EINTR") || !strcmp(what, "short")};
}

static Counts
read_counts(const char *path)
{
    Counts counts;
    const char *text = NULL;
    size_t len;
    assert_null(file_read(arena, path, (char **)&text, &len));
    for (int i = 0; i < NUM_IO_CLASSES; i++)
        counts.of[i] = strtol(text, (char **)&text, 10);
    return counts;
}

/* ---- illegal outcomes --------------------------------------------------- */

static _Noreturn void
complain(const char *what, const char *fault, const char *text)
{
    fail_msg("%s with TFD_IO_FAULT=%s: %s", what, fault, text);
    abort();
}

static const char *fault_at_hand;

static int
expect_final_name(const char *path, const struct stat *st, int kind,
                  struct FTW *at)
{
    (void)st, (void)kind;
    const char *name = path + at->base;
    if (strstr(name, ".tmp") || !strncmp(name, "new.", 4))
        complain("a temporary file is left", fault_at_hand, path);
    return 0;
}

static void
expect_no_leavings(void)
{
    assert_int_equal(nftw(folder, expect_final_name, 8, FTW_PHYS), 0);
}

static int
num_messages(const char *err)
{
    int n = 0;
    for (; (err = strstr(err, "error: ")); err++)
        n++;
    return n;
}

/* Whether it came to its end. */
static bool
judge(const char *what, const Fault *f, const Ran *r)
{
    if (r->code != 0 && f->is_nothing)
        complain(arena_printf(arena, "%s noticed it", what), f->text, r->err);
    if (r->code != 0 && (r->code != 3 || num_messages(r->err) != 1))
        complain(arena_printf(arena, "%s ended with %d", what, r->code),
                 f->text, r->err);
    if (r->code == 0 && num_messages(r->err))
        complain(arena_printf(arena, "%s ended well", what), f->text, r->err);
    expect_no_leavings();
    return r->code == 0;
}

static void
expect_file(const char *what, const char *fault, const char *path,
            const char *want, size_t want_len)
{
    char *bytes;
    size_t len;
    Status st = file_read(arena, path, &bytes, &len);
    if (st)
        complain(what, fault, status_message(st));
    if (len != want_len || memcmp(bytes, want, len))
        complain(what, fault, "a file has other bytes");
}

/* ---- trials -------------------------------------------------------------- */

typedef struct Outcomes {
    int num, failed;
} Outcomes;

/* A command that is tried with many faults. */
typedef struct Trial {
    const char *name;
    const char *begins; /* the folder of home that it begins with */
    double quarters;    /* of all faults, so many are its own */
    Ran (*run)(const char *settings); /* of the environment */
    void (*check_failed)(const Fault *f);
    void (*check_end)(const Fault *f, const Ran *r);
} Trial;

static void
remove_folder(void)
{
    remove_dir((void *)(uintptr_t)folder);
}

/* A trial that failed left its own. */
static void
copy_folder(const char *from)
{
    remove_folder();
    run_ok(arena, "cp -r %s %s", from, folder);
}

static Counts
count_calls(const Trial *t)
{
    copy_folder(in(home, t->begins));
    Ran r = t->run(arena_printf(arena, "LD_PRELOAD=%s TFD_IO_COUNTS=%s/counts",
                                getenv("TFD_IO_INJECTOR"), home));
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
    remove_folder();
    return read_counts(in(home, "counts"));
}

static void
try_fault(const Trial *t, const Fault *f, Outcomes *all)
{
    fault_at_hand = f->text;
    copy_folder(in(home, t->begins));
    Ran r = t->run(arena_printf(arena, "LD_PRELOAD=%s TFD_IO_FAULT=%s",
                                getenv("TFD_IO_INJECTOR"), f->text));
    bool done = judge(t->name, f, &r);
    if (done)
        t->check_end(f, &r);
    else
        t->check_failed(f);
    all->num++;
    all->failed += !done;
    r = t->run("TFD_NOTHING=1");
    if (r.code)
        complain("it does not go on", f->text, r.err);
    t->check_end(f, &r);
    expect_no_leavings();
    remove_folder();
}

static void
try_faults(const Trial *t, int count)
{
    Outcomes all = {0};
    arena = arena_new(group, "counting");
    Counts counts = count_calls(t);
    arena_release(arena);
    for (int i = 0; i < count; i++) {
        arena = arena_new(group, "a trial");
        Fault f = draw_fault(&counts, i);
        try_fault(t, &f, &all);
        arena_release(arena);
    }
    printf("# %s: %d faults: %d messages and exit 3, %d that changed nothing; "
           "then %d times the same result\n",
           t->name, all.num, all.failed, all.num - all.failed, all.num);
    fflush(stdout);
}

static void
try_all(const Trial *trials, int num)
{
    folder = in(home, "trial");
    for (int i = 0; i < num; i++)
        try_faults(&trials[i], (int)(options.count * trials[i].quarters / 4));
}

/* ---- tfd-run ------------------------------------------------------------- */

#define SAVED "charlm-checkpoint/variables.safetensors"

static const char *checksum; /* of the undisturbed training */
static char *saved;
static size_t saved_len;

static Ran
train(const char *settings)
{
    return run(arena,
               "env -C %s %s TFD_SPIN=0 %s %s/charlm.tfp --data "
               "%s/docs/examples --set steps=20 --checkpoint run --every 3 "
               "--log-dir logs --checksum --resume --quiet",
               folder, settings, getenv("TFD_RUN"), home, getenv("TFD_ROOT"));
}

static const char *
checksum_in(const char *out)
{
    const char *at = strstr(out, "checksum ");
    return at ? arena_strndup(arena, at, strcspn(at, "\n")) : "";
}

/* What is left of a run that failed, judge() has looked at. */
static void
no_more_to_check(const Fault *f)
{
    (void)f;
}

static void
training_ended(const Fault *f, const Ran *r)
{
    if (strcmp(checksum_in(r->out), checksum) != 0)
        complain("other variables", f->text, r->out);
    expect_file("other saved variables", f->text, in(folder, SAVED), saved,
                saved_len);
}

/* Those of a training that a full disk ended when it had a few checkpoints. */
static void
begin_half_way(const char *half)
{
    folder = half;
    assert_null(file_make_folder(folder));
    Ran r =
        train(arena_printf(arena, "LD_PRELOAD=%s TFD_IO_FAULT=fsync:14:ENOSPC",
                           getenv("TFD_IO_INJECTOR")));
    assert_int_equal(r.code, 3);
}

/* Its own output may be any bytes, which are printed as numbers. */
static void
prepare_training(void)
{
    folder = in(home, "peace");
    assert_null(file_make_folder(folder));
    write_text(in(home, "charlm.tfd"),
               substitute(arena, source_text(arena, "docs/examples/charlm.tfd"),
                          "print(\"{text(u8(ids[0]))}\")",
                          "print(\"{ids[0]}\")"));
    run_ok(arena,
           "tfdc %s/charlm.tfd -D C=16 -D T=16 -D LAYERS=1 -D BATCH=8 -D "
           "HEADS=2 --devices cpu:0-1",
           home);
    Ran r = train("TFD_NOTHING=1");
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
    checksum = checksum_in(r.out);
    assert_string_not_equal(checksum, "");
    assert_null(file_read(arena, in(folder, SAVED), &saved, &saved_len));
    begin_half_way(in(home, "half"));
}

static const Trial trainings[] = {
    {"training", "empty", 3, train, no_more_to_check, training_ended},
    {"a resumed training", "half", 1, train, no_more_to_check,
     training_ended},
};

static void
no_fault_changes_a_training(void **state)
{
    (void)state;
    prepare_training();
    try_all(trainings, 2);
}

/* ---- restore ------------------------------------------------------------- */

static const char restoring[] = "param saves: i32 = 0\n"
                                "var w: f32[300, 40] = normal(seed = 1)\n"
                                "var h: bf16[7] = 1.0\n"
                                "fn change() {\n"
                                "  w += 1.0\n"
                                "  h += 1.0\n"
                                "}\n"
                                "main {\n"
                                "  if saves == 1 {\n"
                                "    run change()\n"
                                "    save(\"all\")\n"
                                "  } else { restore(\"all\") }\n"
                                "}\n";

static Ran
restore(const char *settings)
{
    return run(arena, "env -C %s %s TFD_SPIN=0 %s %s/restore.tfp --checksum",
               folder, settings, getenv("TFD_RUN"), home);
}

static const char *restored; /* the checksum of what was saved */

static void
restore_ended(const Fault *f, const Ran *r)
{
    if (strcmp(checksum_in(r->out), restored) != 0)
        complain("other variables", f->text, r->out);
}

/* Variables that no initial value is like, saved in a folder. */
static void
prepare_restore(void)
{
    folder = in(home, "saved");
    assert_null(file_make_folder(folder));
    write_text(in(home, "restore.tfd"), restoring);
    run_ok(arena, "tfdc %s/restore.tfd --devices cpu:0-1", home);
    Ran r = run(arena, "env -C %s %s %s/restore.tfp --checksum --set saves=1",
                folder, getenv("TFD_RUN"), home);
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
    restored = checksum_in(r.out);
    assert_string_not_equal(restored, "");
}

static const Trial restores[] = {
    {"restore", "saved", 1, restore, no_more_to_check, restore_ended},
};

static void
no_fault_changes_what_is_restored(void **state)
{
    (void)state;
    prepare_restore();
    try_all(restores, 1);
}

/* ---- tfdc ---------------------------------------------------------------- */

static char *plan;
static size_t plan_len;
static const char old_plan[] = "an older plan";

static Ran
compile(const char *settings)
{
    return run(arena, "env -C %s %s TFD_CACHE=cache %s linear.tfd", folder,
               settings, getenv("TFDC"));
}

static void
compiling_failed(const Fault *f)
{
    expect_file("the old plan is not there any more", f->text,
                in(folder, "linear.tfp"), old_plan, strlen(old_plan));
}

static void
compiling_ended(const Fault *f, const Ran *r)
{
    (void)r;
    expect_file("another plan", f->text, in(folder, "linear.tfp"), plan,
                plan_len);
}

/* A program with a file that it uses, so that more is read. */
static void
prepare_compiling(void)
{
    folder = in(home, "source");
    assert_null(file_make_folder(folder));
    const char *text = source_text(arena, "docs/examples/linear.tfd");
    write_text(in(folder, "linear.tfd"),
               arena_printf(arena, "use \"more.tfd\"\n%s", text));
    write_text(in(folder, "more.tfd"), "const UNUSED = 1\n");
    Ran r = compile("TFD_NOTHING=1");
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
    assert_null(file_read(arena, in(folder, "linear.tfp"), &plan, &plan_len));
    run_ok(arena, "cp -r %s %s/warm", folder, home);
    run_ok(arena, "rm -r %s/cache", folder);
    write_text(in(folder, "linear.tfp"), old_plan);
    write_text(in(home, "warm/linear.tfp"), old_plan);
}

static const Trial compilations[] = {
    {"tfdc, cold cache", "source", 1, compile, compiling_failed,
     compiling_ended},
    {"tfdc, warm cache", "warm", 0.5, compile, compiling_failed,
     compiling_ended},
};

static void
no_fault_changes_a_plan(void **state)
{
    (void)state;
    prepare_compiling();
    try_all(compilations, 2);
}

/* ---- all ----------------------------------------------------------------- */

static int
begin_group(void **state)
{
    (void)state;
    group = arena = arena_new(NULL, "group");
    home = work_dir(group);
    assert_null(file_make_folder(in(home, "empty")));
    return 0;
}

static int
begin_test(void **state)
{
    (void)state;
    arena = group;
    return 0;
}

static int
end_group(void **state)
{
    (void)state;
    arena_release(group);
    return 0;
}

static int
number(const char *text)
{
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || n < 0 || n > 1000000) {
        fprintf(stderr, "io_faults: --count and --seed need a number\n");
        exit(2);
    }
    return (int)n;
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--sanitized") == 0) {
            puts("1..0 # SKIP a sanitizer takes no preloaded library");
            return 0;
        }
        if (strcmp(argv[i], "--count") == 0)
            options.count = number(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = (uint32_t)number(argv[i + 1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_fault_changes_a_training, begin_test),
        cmocka_unit_test_setup(no_fault_changes_what_is_restored, begin_test),
        cmocka_unit_test_setup(no_fault_changes_a_plan, begin_test),
    };
    return cmocka_run_group_tests_name("io_faults", tests, begin_group,
                                       end_group);
}
