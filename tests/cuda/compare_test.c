/*
 * compare_test.c - tfd-run --compare cpu
 *
 * Equal bits on the fake GPU and on devices that execute the host's code piece
 * by piece; a kernel that computes something else is named, with its line, the
 * element and both values.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
plan_of(Arena *a, const char *name, const char *devices)
{
    const char *plan = arena_printf(a, "%s/%s.tfp", dir, name);
    run_ok(a, "tfdc %s/docs/examples/%s.tfd --devices %s -o %s",
           getenv("TFD_ROOT"), name, devices, plan);
    return plan;
}

/* The number before such a word in the line that the run ends with. */
static int
compared(const char *out, const char *what)
{
    const char *line = strstr(out, "compared ");
    const char *at = line ? strstr(line, what) : NULL;
    assert_non_null(at);
    assert_non_null(strstr(line, "with the CPU: equal bits\n"));
    while (at[-2] != ' ')
        at--;
    return atoi(at - 1);
}

/* ---- equal bits ---------------------------------------------------------- */

static const struct {
    const char *name, *planned, *devices, *options;
    bool reduces;
} rows[] = {
    {"linear", "gpu:0", "cuda:0", "", false},
    {"schedule", "gpu:0", "cuda:0", "", false},
    {"metric", "gpu:0", "cuda:0", "", false},
    {"linear", "gpu:0-3", "cuda:0-1", "--compare-steps 4", true},
    {"batchnorm", "gpu:0-1", "cuda:0-1", "", true},
    {"linear", "gpu:0-3", "cpu:0-3", "--compare-steps 200", true},
    {"linear", "gpu:0-3", "sandbox:0-1", "--compare-steps 20", true},
    {"ragged", "gpu:0-2", "sandbox:0-2", "", true},
    {"contexts", "gpu:0-1", "sandbox:0-1", "", true},
    {"accumulation", "gpu:0-1", "cpu:0", "", true},
};

static void
sound_kernels_have_equal_bits(void **state)
{
    Arena *a = *state;
    set_fake("seed:1,devices:2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *plan = plan_of(a, rows[i].name, rows[i].planned);
        Ran ran = run_ok(a, "tfd-run %s --devices %s --compare cpu %s", plan,
                         rows[i].devices, rows[i].options);
        assert_true(compared(ran.out, " launches") > 0);
        assert_int_equal(compared(ran.out, " all_reduces") > 0,
                         rows[i].reduces);
        assert_string_equal(ran.err, "");
    }
}

/* What a run prints is the same, and so is its checksum. */
static void
results_stay(void **state)
{
    Arena *a = *state;
    set_fake("");
    const char *plan = plan_of(a, "linear", "gpu:0");
    Ran plain = run_ok(a, "tfd-run %s --checksum", plan);
    Ran ran = run_ok(a, "tfd-run %s --checksum --compare cpu", plan);
    const char *line = strstr(ran.out, "compared ");
    assert_int_equal(strncmp(ran.out, plain.out, (size_t)(line - ran.out)), 0);
    assert_non_null(strstr(plain.out, strstr(ran.out, "checksum ")));
}

/* Also where the program itself prints nothing. */
static void
what_was_compared_is_not_lost(void **state)
{
    Arena *a = *state;
    set_fake("");
    const char *script = arena_printf(a, "%s/full.sh", dir);
    const char *source = arena_printf(a, "%s/silent.tfd", dir);
    const char *plan = arena_printf(a, "%s/silent.tfp", dir);
    write_text(script, "\"$TFD_RUN\" $1 --compare cpu > /dev/full\n");
    write_text(source, "var w: f32 = 0.0\n"
                       "fn step(x) { w += all_reduce(sum, sum(x)) }\n"
                       "dataset d = range(8).map(fn(i) = f32(i)).batch(4)\n"
                       "main { for x in distribute(d) { run step(x) } }\n");
    run_ok(a, "tfdc %s --devices gpu:0 -o %s", source, plan);
    Ran ran = run(a, "sh %s %s", script, plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "cannot write what the program prints"));
}

static void
steps_may_be_fewer(void **state)
{
    Arena *a = *state;
    set_fake("");
    const char *plan = plan_of(a, "linear", "gpu:0");
    const char *command = "tfd-run %s --compare cpu --compare-steps %d";
    int one = compared(run_ok(a, command, plan, 1).out, " launches");
    int two = compared(run_ok(a, command, plan, 2).out, " launches");
    int three = compared(run_ok(a, command, plan, 3).out, " launches");
    assert_true(one > 0 && two > one);
    assert_int_equal(three - two, two - one);
}

/* ---- differences --------------------------------------------------------- */

static const char tf32_program[] =
    "var w: f32[16, 16] = normal(stddev = 1.0)\n"
    "dataset train = range(64).map(fn(i) = f32(i + iota(16)) / 7.0).batch(16)\n"
    "fn step(x) {\n"
    "  let y = (x @ w) * 3.0\n"
    "  w += all_reduce(sum, sum(y, axis = 0)) * 0.125\n"
    "  return sum(w)\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) { run step(x) }\n"
    "}\n";

static const char *
tf32_plan(Arena *a)
{
    const char *source = arena_printf(a, "%s/tf32.tfd", dir);
    const char *plan = arena_printf(a, "%s/tf32.tfp", dir);
    write_text(source, tf32_program);
    run_ok(a, "tfdc %s --devices gpu:0 --precision tf32 -o %s", source, plan);
    return plan;
}

/* On a device without tensor cores all bits are equal. */
static void
products_in_tf32_are_near(void **state)
{
    Arena *a = *state;
    const char *plan = tf32_plan(a);
    set_fake("");
    Ran ran = run_ok(a, "tfd-run %s --compare cpu", plan);
    assert_non_null(strstr(ran.out, "equal bits, but for 4 launches with "
                                    "products in TF32, within 1/64 of the "
                                    "greatest element\n"));
    Ran cpu = run_ok(a, "tfd-run %s --devices sandbox:0 --compare cpu", plan);
    assert_non_null(strstr(cpu.out, "equal bits\n"));
}

static const char program[] = "var w: f32[2, 3] = 1.0\n"
                              "dataset train = range(8).map(fn(i) = f32(i))"
                              ".batch(4)\n"
                              "fn step(x) {\n"
                              "  let y = w * 3.0\n"
                              "  w = y + 0.5\n"
                              "  return sum(w)\n"
                              "}\n"
                              "main {\n"
                              "  for x in distribute(train) { run step(x) }\n"
                              "}\n";

typedef struct File {
    char *bytes;
    size_t len;
} File;

static File
read_plan(Arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    File file = {.len = (size_t)ftell(f)};
    rewind(f);
    file.bytes = arena_alloc(a, file.len + 1);
    assert_int_equal(fread(file.bytes, 1, file.len, f), file.len);
    fclose(f);
    return file;
}

static const char entry[] = ".visible .entry ";

static void
write_plan(const char *path, const File *file)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file->bytes, 1, file->len, f), file->len);
    assert_int_equal(fclose(f), 0);
}

/* The kernel in whose PTX `at` is. */
static const char *
kernel_before(Arena *a, const File *file, const char *at)
{
    const char *found = NULL;
    for (const char *from = file->bytes;;) {
        from = memmem(from, (size_t)(at - from), entry, strlen(entry));
        if (!from)
            break;
        found = from += strlen(entry);
    }
    assert_non_null(found);
    return arena_strndup(a, found, strcspn(found, "("));
}

/* A plan in which a GPU adds 3 to the first element, instead of multiplying. */
static const char *
plan_with_a_difference(Arena *a, const char **kernel)
{
    static const char from[] = "mul.rn.f32", to[] = "add.rn.f32";
    const char *source = arena_printf(a, "%s/wrong.tfd", dir);
    const char *plan = arena_printf(a, "%s/wrong.tfp", dir);
    write_text(source, program);
    run_ok(a, "tfdc %s --devices gpu:0 -o %s", source, plan);
    File file = read_plan(a, plan);
    char *at = memmem(file.bytes, file.len, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    *kernel = kernel_before(a, &file, at);
    write_plan(plan, &file);
    return plan;
}

static void
the_first_difference_is_named(void **state)
{
    Arena *a = *state;
    const char *kernel;
    const char *plan = plan_with_a_difference(a, &kernel);
    set_fake("");
    setenv("TFD_CHECKSUMS", "0", 1);
    Ran ran = run(a, "tfd-run %s --compare cpu", plan);
    Ran later = run(a, "tfd-run %s", plan);
    unsetenv("TFD_CHECKSUMS");
    const char *says = arena_printf(
        a,
        "wrong.tfd:5:7: error: kernel %s has other bits on cuda:0 than on the "
        "CPU: in step 1, of this add, result 0 of the kernel, element [0, 0] "
        "is 0x40900000 (4.5), on the CPU 0x40600000 (3.5); ",
        kernel);
    assert_int_equal(ran.code, 1);
    if (!strstr(ran.err, says))
        fail_msg("not said: %s\nbut: %s", says, ran.err);
    assert_non_null(strstr(ran.err, "wrong.tfd:4:11: note: the kernel also has "
                                    "this mul\n"));
    assert_null(strstr(ran.out, "compared "));
    assert_int_equal(later.code, 0); /* nothing else notices */
}

/* A GPU multiplies by 5 instead of 3. */
static void
wrong_products_in_tf32_are_named(void **state)
{
    static const char from[] = "0f40400000", to[] = "0f40A00000";
    Arena *a = *state;
    const char *plan = tf32_plan(a);
    File file = read_plan(a, plan);
    char *end = file.bytes + file.len, *at = file.bytes;
    while ((at = memmem(at, (size_t)(end - at), from, strlen(from))))
        memcpy(at, to, strlen(to));
    write_plan(plan, &file);
    set_fake("");
    setenv("TFD_CHECKSUMS", "0", 1);
    Ran ran = run(a, "tfd-run %s --compare cpu", plan);
    unsetenv("TFD_CHECKSUMS");
    assert_int_equal(ran.code, 1);
    if (!strstr(ran.err, "has other values (TF32 explains 1/64 of the "
                         "greatest) on cuda:0 than on the CPU: in step 1, of "
                         "this "))
        fail_msg("%s", ran.err);
}

/* The kernel that combines operands; the first that an all_reduce names. */
static const char *
combining_kernel(Arena *a, const File *file)
{
    static const char names[] = "kernels=[@";
    const char *at = memmem(file->bytes, file->len, names, strlen(names));
    assert_non_null(at);
    at += strlen(names);
    return arena_strndup(a, at, strcspn(at, ",]"));
}

/* All its additions are subtractions. */
static const char *
plan_with_a_wrong_sum(Arena *a, const char **kernel)
{
    static const char from[] = "add.rn.f32", to[] = "sub.rn.f32";
    const char *plan = plan_of(a, "linear", "gpu:0-1");
    File file = read_plan(a, plan);
    *kernel = combining_kernel(a, &file);
    const char *head = arena_printf(a, "%s%s(", entry, *kernel);
    char *at = memmem(file.bytes, file.len, head, strlen(head));
    assert_non_null(at);
    char *end = memmem(at, file.len - (size_t)(at - file.bytes), "\n}", 2);
    assert_non_null(end);
    while ((at = memmem(at, (size_t)(end - at), from, strlen(from))))
        memcpy(at, to, strlen(to));
    write_plan(plan, &file);
    return plan;
}

static void
all_reduces_are_named(void **state)
{
    Arena *a = *state;
    const char *kernel;
    const char *plan = plan_with_a_wrong_sum(a, &kernel);
    set_fake("devices:2");
    setenv("TFD_CHECKSUMS", "0", 1);
    Ran ran = run(a, "tfd-run %s --compare cpu", plan);
    unsetenv("TFD_CHECKSUMS");
    const char *says =
        arena_printf(a,
                     "linear.tfd:15:14: error: this all_reduce, by kernel %s, "
                     "has other bits on cuda:",
                     kernel);
    assert_int_equal(ran.code, 1);
    if (!strstr(ran.err, says))
        fail_msg("not said: %s\nbut: %s", says, ran.err);
    assert_non_null(strstr(ran.err, "in step 1, of its result 0, its value is "
                                    "0x"));
    assert_non_null(strstr(ran.err, "note: on replica "));
}

/* ---- command lines ------------------------------------------------------- */

static void
what_cannot_be_compared_is_refused(void **state)
{
    static const struct {
        const char *options, *says;
        int code;
    } refused[] = {
        {"--devices null:0 --compare cpu",
         "--compare: null:0 executes nothing that could be compared", 2},
        {"--devices cpu:0 --compare gpu",
         "unknown DEVICE \"gpu\" for --compare", 2},
        {"--devices cpu:0 --compare-steps 3",
         "--compare-steps needs --compare cpu", 2},
    };
    Arena *a = *state;
    const char *plan = plan_of(a, "linear", "gpu:0");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Ran ran = run(a, "tfd-run %s %s", plan, refused[i].options);
        assert_int_equal(ran.code, refused[i].code);
        assert_non_null(strstr(ran.err, refused[i].says));
    }
    const char *cpu = plan_of(a, "linear", "cpu:0");
    Ran ran = run(a, "tfd-run %s --compare cpu", cpu);
    assert_int_equal(ran.code, 2);
    assert_non_null(strstr(
        ran.err, "--compare cpu compares what a GPU computes with the CPU, and "
                 "this plan has code for CPUs alone: leave it out, or tfdc "
                 "--target native,sm_80 makes a plan for both\n"));
}

/* ---- the suite ----------------------------------------------------------- */

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_kernels_have_equal_bits),
        cmocka_unit_test(results_stay),
        cmocka_unit_test(what_was_compared_is_not_lost),
        cmocka_unit_test(steps_may_be_fewer),
        cmocka_unit_test(the_first_difference_is_named),
        cmocka_unit_test(products_in_tf32_are_near),
        cmocka_unit_test(wrong_products_in_tf32_are_named),
        cmocka_unit_test(all_reduces_are_named),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
