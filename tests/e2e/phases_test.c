/*
 * phases_test.c - the text of every phase reads back to the same text
 */
#include "ir/base/io/file.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/sweep.h"
#include "tests/unit/arena.h"

/* Programs of the tests that compile, with the devices they are for. */
static const struct {
    const char *path, *devices;
} programs[] = {
    {"docs/examples/linear.tfd", "cpu:0-1"},
    {"docs/examples/bigram.tfd", "cpu:0-1"},
    {"docs/examples/contexts.tfd", "cpu:0-1"},
    {"docs/examples/ragged.tfd", "cpu:0-2"},
    {"tests/e2e/programs/accumulate.tfd", "cpu:0-1"},
    {"tests/e2e/programs/dtypes.tfd", "cpu:0-2"},
    {"tests/lower/branches.tfd", "cpu:0-1"},
    {"tests/lower/consts.tfd", "cpu:0"},
    {"tests/lower/indices.tfd", "cpu:0-1"},
    {"tests/lower/loops.tfd", "cpu:0-1"},
    {"tests/lower/modules.tfd", "cpu:0-1"},
    {"tests/lower/nests.tfd", "cpu:0-1"},
};
enum { NUM_PROGRAMS = sizeof programs / sizeof *programs };

static const char *
program_path(Arena *a, int i)
{
    return arena_printf(a, "%s/%s", getenv("TFD_ROOT"), programs[i].path);
}

/* Prints a phase of each program, reads it, and prints it again. */
static void
check_phase(Arena *a, const char *phase)
{
    const char *file = arena_printf(a, "%s/text", work_dir(a));
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS;
         i = sweep_next(i)) {
        Ran first = run_ok(a, "tfdc %s --devices %s --to %s",
                           program_path(a, i), programs[i].devices, phase);
        write_text(file, first.out);
        Ran again = run_ok(a, "tfdc %s --from %s --to %s", file, phase, phase);
        assert_string_equal(again.out, first.out);
    }
}

static void
ast_reads_back(void **state)
{
    Arena *a = *state;
    const char *file = arena_printf(a, "%s/program.tfd", work_dir(a));
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS;
         i = sweep_next(i)) {
        Ran first = run_ok(a, "tfdc %s --to ast", program_path(a, i));
        write_text(file, first.out);
        assert_string_equal(run_ok(a, "tfdc %s --to ast", file).out, first.out);
    }
}

static void
ir_reads_back(void **state)
{
    check_phase(*state, "ir");
}

static void
placed_reads_back(void **state)
{
    check_phase(*state, "placed");
}

static void
kernels_read_back(void **state)
{
    check_phase(*state, "kernels");
}

/* The phases after a phase are the same from its text as from the program. */
static void
compiling_goes_on_from_any_phase(void **state)
{
    Arena *a = *state;
    const char *file = arena_printf(a, "%s/text", work_dir(a));
    static const char *const from[] = {"ir", "placed"};
    for (int i = sweep_first(NUM_PROGRAMS); i < NUM_PROGRAMS; i = sweep_next(i))
        for (int f = 0; f < 2; f++) {
            const char *common = arena_printf(
                a, "%s --devices %s", program_path(a, i), programs[i].devices);
            write_text(file, run_ok(a, "tfdc %s --to %s", common, from[f]).out);
            Ran whole = run_ok(a, "tfdc %s --to kernels", common);
            Ran rest =
                run_ok(a, "tfdc %s --from %s --to kernels", file, from[f]);
            assert_string_equal(rest.out, whole.out);
        }
}

/* "08-replicate.tir", from which the manual continues. */
static const char *
dump_in_manual(Arena *a)
{
    static const char begin[] = "--from ir phases/";
    const char *at = strstr(source_text(a, "docs/cli.md"), begin);
    assert_non_null(at);
    at += sizeof begin - 1;
    return arena_strndup(a, at, strcspn(at, " "));
}

static void
dumps_are_numbered(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    run_ok(a, "tfdc %s --to kernels --dump-phases %s -o %s/out",
           program_path(a, 0), dir, dir);
    const char *names = run_ok(a, "ls %s", dir).out;
    assert_non_null(
        strstr(names, "01-ast.txt\n02-ir.tir\n03-static_batches.tir\n"));
    assert_non_null(strstr(names, "-allocate.tir\n"));
    assert_non_null(strstr(names, "-kernels.txt\n"));
    assert_non_null(strstr(names, dump_in_manual(a)));
}

/* Two plans of dir are equal but for calls.txt, which no dump has, and its hash
 * in the manifest. */
static void
assert_equal_but_calls(Arena *a, const char *dir, const char *x, const char *y)
{
    run_ok(a, "python3 -m zipfile -e %s/%s %s/x", dir, x, dir);
    run_ok(a, "python3 -m zipfile -e %s/%s %s/y", dir, y, dir);
    run_ok(a, "diff -r -x calls.txt -x manifest.json %s/x %s/y", dir, dir);
}

/* Each of a program's dumps, or each of some: those of large programs take as
 * long as all others. */
static void
check_dumps(Arena *a, const char *program, const char *devices, int step)
{
    FileNames names = {0};
    VEC(const char *) dumps = {0};
    const char *dir = work_dir(a), *placed = NULL;
    run_ok(a,
           "tfdc %s/docs/examples/%s.tfd --devices %s --dump-phases %s/d "
           "-o %s/whole",
           getenv("TFD_ROOT"), program, devices, dir, dir);
    assert_null(file_list(a, arena_printf(a, "%s/d", dir), &names));
    for (int i = 0; i < names.len; i++) {
        if (strstr(names.data[i], "-allocate.tir"))
            placed = names.data[i];
        if (strstr(names.data[i], ".tir") && atoi(names.data[i]) % step == 0)
            VEC_PUSH(a, dumps, names.data[i]);
    }
    assert_true(dumps.len >= 15 / step);
    run_ok(a, "tfdc --from ir %s/d/%s -o %s/first", dir, dumps.data[0], dir);
    assert_equal_but_calls(a, dir, "whole", "first");
    for (int i = sweep_first(dumps.len); i < dumps.len; i = sweep_next(i)) {
        run_ok(a, "tfdc --from ir %s/d/%s -o %s/resumed", dir, dumps.data[i],
               dir);
        run_ok(a, "cmp %s/resumed %s/first", dir, dir);
    }
    Ran code = run_ok(a, "tfdc --from placed %s/d/%s --to llvm", dir, placed);
    assert_non_null(strstr(code.out, "define"));
}

/* The plan is the same, whether made from the program or from the text after
 * any pass. */
static void
every_dump_can_be_resumed(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *program, *devices;
        int step;
    } examples[] = {
        {"accumulation", "cpu:0-1", 1}, {"batchnorm", "cpu:0-1", 1},
        {"bigram", "cpu:0-1", 1},       {"charlm", "cpu:0-1", 5},
        {"contexts", "cpu:0-1", 1},     {"convnet", "cpu:0-1", 7},
        {"linear", "cpu:0-3", 1},       {"metric", "cpu:0-1", 1},
        {"ragged", "cpu:0-2", 1},       {"schedule", "cpu:0-1", 1},
        {"spiral", "cpu:0-1", 4},       {"write", "cpu:0", 4},
    };
    setenv("TFD_CACHE", work_dir(a), 1);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_dumps(a, examples[i].program, examples[i].devices,
                    examples[i].step);
    unsetenv("TFD_CACHE");
}

/* An unpacked plan makes the plan again. */
static void
a_plan_can_be_unpacked_and_made_again(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    run_ok(a, "tfdc %s --devices cpu:0-1 -o %s/plan.tfp", program_path(a, 0),
           dir);
    run_ok(a, "python3 -m zipfile -e %s/plan.tfp %s/d", dir, dir);
    run_ok(a, "tfdc --from placed %s/d/placed.tir -o %s/again.tfp", dir, dir);
    assert_equal_but_calls(a, dir, "plan.tfp", "again.tfp");
}

/* Its entry in the plan is listed in the manifest, which is JSON. */
static void
a_program_may_have_any_name(void **state)
{
    Arena *a = *state;
    static const char *const names[] = {"say\"it\"",   "\xc3\xbc\xff",
                                        "back\\slash", "line\nbreak",
                                        "..",          "{1}%d"};
    const char *dir = work_dir(a);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_text(arena_printf(a, "%s/%s.tfd", dir, names[i]),
                   "main { print(7) }\n");
        run_ok(a, "tfdc %s/%s.tfd", dir, names[i]);
        Ran r = run_ok(a, "tfd-run %s/%s.tfp", dir, names[i]);
        assert_string_equal(r.out, "7\n");
    }
}

static void
single_passes_run(void **state)
{
    Arena *a = *state;
    const char *path = program_path(a, 0);
    Ran r = run_ok(a, "tfdc %s --passes differentiate,simplify", path);
    assert_non_null(strstr(r.out, "because differentiate.reverse"));
    r = run_ok(a, "tfdc %s --to placed --print-after communicate", path);
    assert_non_null(strstr(r.out, "# after communicate\n"));
    assert_int_equal(run(a, "tfdc %s --passes nonsense", path).code, 2);
}

static void
code_prints_as_llvm_and_assembly(void **state)
{
    Arena *a = *state;
    const char *path = program_path(a, 0);
    assert_non_null(strstr(run_ok(a, "tfdc %s --to llvm", path).out, "define"));
    assert_non_null(
        strstr(run_ok(a, "tfdc %s --to asm", path).out, "tfd_main"));
}

static void
every_device_can_be_seen(void **state)
{
    Arena *a = *state;
    Ran r = run_ok(a, "tfdc %s --devices cpu:0-2 --to placed --expand",
                   program_path(a, 0));
    assert_non_null(strstr(r.out, ".device0("));
    assert_non_null(strstr(r.out, ".device2("));
}

/* The messages about devices are true. */
static void
ways_are_explained_by_the_devices(void **state)
{
    static const struct {
        const char *options, *says;
    } ways[] = {
        {"cpu:0-1", "two_phase: all devices share memory"},
        {"cuda:0-1", "two_phase: all devices are GPUs"},
        {"cpu:0,cuda:0",
         "reduction_to_one on cpu:0: some devices are CPUs and some are GPUs"},
        {"cpu:0-1 --cross-device-ops nccl",
         "reduction_to_one on cpu:0: NCCL does not reach devices of the CPU"},
        {"cuda:0-1 --cross-device-ops nccl", "nccl: NCCL is asked for"},
        {"cuda:0-1 --cross-device-ops NCCL:allreduce",
         "nccl_allreduce: it is asked for; the order of sums is NCCL's, not "
         "that of a run on other devices"},
        {"cpu:0-1 --cross-device-ops two_phase", "two_phase: it is asked for"},
        {"cpu:0-1 --cross-device-ops Ring", "ring: it is asked for"},
        {"cuda:0-1 --cross-device-ops ring", "ring: it is asked for"},
        {"cuda:0-1 --cross-device-ops two_phase", "two_phase: it is asked for"},
        {"cpu:0,cuda:0 --cross-device-ops nccl",
         "reduction_to_one on cpu:0: NCCL does not reach devices of the CPU"},
        {"cuda:0-1 --cross-device-ops hierarchical_copy",
         "hierarchical_copy: it is asked for"},
        {"sandbox:0-1", "two_phase: all devices share memory"},
        {"cuda:0-1 --strategy central_storage",
         "reduction_to_one on cuda:0: central_storage combines where its "
         "variables are"},
    };
    Arena *a = *state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        Ran r = run_ok(a, "tfdc %s --devices %s --explain", program_path(a, 0),
                       ways[i].options);
        const char *line =
            arena_printf(a, "cross-device operation %s\n", ways[i].says);
        assert_non_null(strstr(r.out, line));
    }
}

static void
a_program_is_explained(void **state)
{
    Arena *a = *state;
    Ran r =
        run_ok(a, "tfdc %s --devices cpu:0-1 --explain", program_path(a, 0));
    assert_non_null(strstr(r.out, "at most 4 rows a replica, 8 in all"));
    assert_non_null(strstr(r.out,
                           "  linear.tfd:15:14  2 all_reduce_start, 2 "
                           "all_reduce_done (2 for full batches), 12 bytes in "
                           "@main.2, by bucket.pack: 3 all_reduces of 12 bytes "
                           "together, of linear.tfd:15:14, linear.tfd:16:14, "
                           "linear.tfd:25:16; closed: no value is ready "
                           "later\n"));
}

/* Kernels of the program before its line that begins with text, or has it. */
static int
kernels_before(const char *program, const char *text)
{
    int num = 0;
    const char *end = strstr(program, text);
    assert_non_null(end);
    for (const char *at = program;
         (at = strstr(at, " = kernel ")) != NULL && at < end; at++)
        num++;
    return num;
}

static const char *
last_of(const char *program, const char *text)
{
    const char *last = NULL, *end = strstr(program, "\n}\n");
    for (const char *at = program; (at = strstr(at, text)) && at < end; at++)
        last = at;
    assert_non_null(last);
    return last;
}

/* The backward pass is from the loss to the last gradient. */
static void
sums_begin_in_the_first_half_of_the_backward_pass(void **state)
{
    Arena *a = *state;
    Ran r = run_ok(a,
                   "tfdc %s/docs/examples/charlm.tfd --devices cpu:0-1 "
                   "--to placed",
                   getenv("TFD_ROOT"));
    const char *step = strstr(r.out, "\nfunc @main.2(");
    assert_non_null(step);
    int loss = kernels_before(step, "  %loss: ");
    int first = kernels_before(step, " = all_reduce_start ");
    int last = kernels_before(step, last_of(step, " = all_reduce_start "));
    assert_true(loss < first && 2 * (first - loss) < last - loss);
}

/* The words are the same with a plan and without one, and the plan is the same
 * with the words and without. */
/* The last part of --explain. */
static const char *
code_part(const char *text)
{
    const char *part = strstr(text, "\ncode");
    assert_non_null(part);
    return part;
}

/* Both programs say the same of a plan's code: its targets and their bytes. */
static void
a_plan_says_what_it_is_for(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    const char *targets[] = {"x86-64-v4", "x86-64-v3", "sm_90"};
    const char *rest =
        arena_printf(a,
                     "%s/docs/examples/linear.tfd --explain --target "
                     "x86-64-v3,sm_90,x86-64-v4",
                     getenv("TFD_ROOT"));
    const char *without = code_part(run_ok(a, "tfdc %s", rest).out);
    const char *with =
        code_part(run_ok(a, "tfdc %s -o %s/x.tfp", rest, dir).out);
    const char *info = code_part(run_ok(a, "tfd-run %s/x.tfp --info", dir).out);
    assert_memory_equal(with, info, strlen(with));
    assert_non_null(strstr(info + strlen(with), "this machine's CPU"));
    for (int i = 0; i < 3; i++) {
        char name[32];
        long bytes;
        without = strchr(without + 1, '\n') + 1;
        assert_int_equal(sscanf(without, " %31s %ld", name, &bytes), 1);
        assert_string_equal(name, targets[i]);
        with = strchr(with + 1, '\n') + 1;
        assert_int_equal(sscanf(with, " %31s %ld", name, &bytes), 2);
        assert_string_equal(name, targets[i]);
        assert_true(bytes > 1000);
        without--, with--;
    }
}

static void
a_plan_is_made_beside_its_explanation(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    const char *program = arena_printf(a, "%s/program.tfd", dir);
    write_text(program, "main { print(\"hi\") }\n");
    Ran words = run_ok(a, "tfdc %s --explain", program);
    assert_string_equal(run_ok(a, "ls %s", dir).out, "program.tfd\n");
    Ran both = run_ok(a, "tfdc %s --explain -o %s/both.tfp", program, dir);
    size_t len = (size_t)(code_part(words.out) - words.out);
    assert_int_equal(code_part(both.out) - both.out, len);
    assert_memory_equal(both.out, words.out, len);
    run_ok(a, "tfdc %s -o %s/plan.tfp", program, dir);
    run_ok(a, "cmp %s/both.tfp %s/plan.tfp", dir, dir);
    assert_string_equal(run_ok(a, "tfd-run %s/both.tfp", dir).out, "hi\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ast_reads_back),
        cmocka_unit_test(ir_reads_back),
        cmocka_unit_test(placed_reads_back),
        cmocka_unit_test(kernels_read_back),
        cmocka_unit_test(compiling_goes_on_from_any_phase),
        cmocka_unit_test(dumps_are_numbered),
        cmocka_unit_test(every_dump_can_be_resumed),
        cmocka_unit_test(a_plan_can_be_unpacked_and_made_again),
        cmocka_unit_test(a_program_may_have_any_name),
        cmocka_unit_test(single_passes_run),
        cmocka_unit_test(code_prints_as_llvm_and_assembly),
        cmocka_unit_test(every_device_can_be_seen),
        cmocka_unit_test(ways_are_explained_by_the_devices),
        cmocka_unit_test(a_program_is_explained),
        cmocka_unit_test(sums_begin_in_the_first_half_of_the_backward_pass),
        cmocka_unit_test(a_plan_says_what_it_is_for),
        cmocka_unit_test(a_plan_is_made_beside_its_explanation),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
