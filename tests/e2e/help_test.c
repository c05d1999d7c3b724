/*
 * help_test.c - help pages, and wrong command lines
 */
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

/* docs/cli.md has the page of --help word for word. */
static void
the_pages_are_in_the_docs(void **state)
{
    Arena *a = *state;
    const char *docs = source_text(a, "docs/cli.md");
    assert_non_null(strstr(docs, run_ok(a, "tfdc --help").out));
    assert_non_null(strstr(docs, run_ok(a, "tfd-run --help").out));
}

static void
wrong_commands_exit_with_2(void **state)
{
    Arena *a = *state;
    static const char *const commands[] = {
        "tfdc",
        "tfdc a.tfd --devises cpu:0",
        "tfdc a.tfd --to nowhere",
        "tfdc a.tfd --strategy mirored",
        "tfdc a.tfd -O9",
        "tfdc -",
        "tfdc a.tfd --limit steps",
        "tfdc a.tfd --limit stesp=3",
        "tfdc a.tfd --limit money=3",
        "tfdc a.tfd --limit calls=300",
        "tfdc a.tfd --limit steps=3T",
        "tfdc a.tfd --collectives bytes_per_pack=-1",
        "tfdc a.tfd --print-after fusion",
        "tfd-run",
        "tfd-run a.tfp --thread 2",
        "tfd-run a.tfp --threads none",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        Ran r = run(a, "%s", commands[i]);
        if (r.code != 2 || !*r.err)
            fail_msg("%s: exit status %d\n%s", commands[i], r.code, r.err);
    }
}

/* Every option with a value that it cannot have, for a program and a plan that
 * are right. */
static void
wrong_values_exit_with_2(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    static const char *const wrong[] = {
        "tfdc x.tfd --strategy round",
        "tfdc x.tfd --strategy one_device --devices cpu:0-1",
        "tfdc x.tfd --devices cpu:3-1",
        "tfdc x.tfd --workers 2",
        "tfdc x.tfd --strategy multi_worker_mirrored --workers 0",
        "tfdc x.tfd --strategy multi_worker_mirrored --workers 1025",
        ("tfdc x.tfd --strategy multi_worker_mirrored --workers 1024 --devices "
         "cpu:0-1"),
        "tfdc x.tfd --devices disk:0",
        "tfdc x.tfd --cross-device-ops pigeons",
        "tfdc x.tfd --devices cpu:0-2 --cross-device-ops hierarchical_copy",
        "tfdc x.tfd --collectives bytes_per_pack=few",
        "tfdc x.tfd --collectives colour=1",
        "tfdc x.tfd -D NOPE",
        "tfdc x.tfd -D NOPE=1",
        "tfdc x.tfd -D N=1+",
        "tfdc x.tfd -D N=nothing",
        "tfdc x.tfd -D k=1",
        "tfdc x.tfd --to nowhere",
        "tfdc x.tfd --from nowhere",
        "tfdc x.tfd --from ir --to ast",
        "tfdc x.tfd --passes wrong",
        "tfdc x.tfd --passes simplify,wrong",
        "tfdc x.tfd --print-after wrong",
        "tfdc x.tfd --explain --to ir",
        "tfdc x.tfd --explain -o -",
        "tfdc x.tfd --target z80",
        "tfdc x.tfd -O 9",
        "tfdc x.tfd -o x.tfd",
        "tfdc x.tfd y.tfd",
        "tfd-run x.tfp --set NOPE",
        "tfd-run x.tfp --set nope=1",
        "tfd-run x.tfp --set k=much",
        "tfd-run x.tfp --devices cpu:0-2",
        "tfd-run x.tfp --devices cpu:2-1",
        "tfd-run x.tfp --seed today",
        "tfd-run x.tfp --threads 0",
        "tfd-run x.tfp --timeout never",
        "tfd-run x.tfp --progress often",
        "tfd-run x.tfp --every 10",
        "tfd-run x.tfp --every 0 --checkpoint y",
        "tfd-run x.tfp --resume",
    };
    char *here = getcwd(NULL, 0);
    assert_int_equal(chdir(dir), 0);
    write_text("x.tfd", "const N = 1\nparam k: i64 = N\nmain { print(k) }\n");
    run_ok(a, "tfdc x.tfd");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Ran r = run(a, "%s", wrong[i]);
        if (r.code != 2 || !*r.err)
            fail_msg("%s: exit status %d, %s", wrong[i], r.code, r.err);
    }
    assert_int_equal(chdir(here), 0);
    free(here);
}

/* Output that cannot be written is a failure of the machine. */
static void
a_full_disk_exits_with_3(void **state)
{
    Arena *a = *state;
    static const char *const printing[] = {
        "$TFDC --help",
        "$TFDC --version",
        "$TFDC x.tfd --explain",
        "$TFDC x.tfd --to ast",
        "$TFDC x.tfd --to placed",
        "$TFDC x.tfd --to llvm",
        "$TFDC x.tfd --passes simplify",
        "$TFDC x.tfd --print-after simplify",
        "$TFDC x.tfd -o -",
        "$TFD_RUN --help",
        "$TFD_RUN --version",
        "$TFD_RUN x.tfp",
        "$TFD_RUN none.tfp --checksum",
        "$TFD_RUN x.tfp --info",
        "$TFD_RUN --list-devices",
        "$TFD_RUN --resolve",
        "$TFD_RUN x.tfp --resolve",
        "$TFD_RUN --serve ps:0 --join 127.0.0.1:9 --resolve",
    };
    const char *dir = work_dir(a);
    write_text(arena_printf(a, "%s/x.tfd", dir), "main { print(1) }\n");
    write_text(arena_printf(a, "%s/none.tfd", dir),
               "var w: f32 = 1.0\nfn f() { w += 1.0 }\nmain { run f() }\n");
    run_ok(a, "tfdc %s/x.tfd", dir);
    run_ok(a, "tfdc %s/none.tfd", dir);
    for (size_t i = 0; i < sizeof printing / sizeof *printing; i++) {
        const char *script = arena_printf(a, "%s/script", dir);
        write_text(script,
                   arena_printf(a, "cd %s\n%s >/dev/full\n", dir, printing[i]));
        Ran r = run(a, "sh %s", script);
        if (r.code != 3 || !strstr(r.err, "No space left on device"))
            fail_msg("%s: exit status %d, %s", printing[i], r.code, r.err);
    }
}

static void
near_misses_get_a_suggestion(void **state)
{
    Arena *a = *state;
    assert_non_null(
        strstr(run(a, "tfdc a.tfd --devises cpu:0").err, "--devices"));
    assert_non_null(
        strstr(run(a, "tfdc a.tfd --strategy mirored").err, "mirrored"));
    assert_non_null(
        strstr(run(a, "tfd-run a.tfp --thread 2").err, "--threads"));
}

static void
wrong_input_exits_with_1(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    const char *file = arena_printf(a, "%s/a.tfd", dir);
    write_text(file, "main { print(\"{x}\") }\n");
    Ran r = run(a, "tfdc %s", file);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "a.tfd:1:16: error: "));
    assert_int_equal(run(a, "tfdc %s/none.tfd", dir).code, 1);
    assert_int_equal(run(a, "tfd-run %s", file).code, 1);
}

/* tfd-run --resolve as a launcher starts it, with these variables alone. */
static Ran
resolve(Arena *a, const char *variables, const char *options)
{
    return run(a, "env -i %s %s --resolve %s", variables, getenv("TFD_RUN"),
               options);
}

static void
resolve_exits_by_what_is_wrong(void **state)
{
    Arena *a = *state;
    Ran r =
        resolve(a, "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29500", "");
    assert_int_equal(r.code, 0);
    assert_string_equal(
        r.out, "started by      torchrun  RANK=1\n"
               "rank            1         RANK=1\n"
               "size            2         WORLD_SIZE=2\n"
               "chief           no        rank 0 is\n"
               "control server  h0:29501  MASTER_ADDR, and the port after "
               "MASTER_PORT\n");
    r = resolve(a, "RANK=1 WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2", "");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "RANK=1 and PMI_RANK=0 contradict"));
    assert_int_equal(resolve(a, "", "--rank 2 --size 2").code, 2);
    r = resolve(a, "", "");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out,
                        "started by  no launcher  nothing says otherwise\n"
                        "rank        0            nothing says otherwise\n"
                        "size        1            nothing says otherwise\n"
                        "chief       yes          rank 0 is\n");
}

/* The launchers that are here set what the table says. */
static void
launchers_are_recognised(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *command, *name;
    } launchers[] = {
        {"mpirun --allow-run-as-root --oversubscribe -n 2", "Open MPI"},
        {"mpiexec.hydra -n 2", "MPICH"},
    };
    int found = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *command = launchers[i].command;
        int len = (int)strcspn(command, " ");
        if (run(a, "which %.*s", len, command).code != 0)
            continue;
        Ran r = run_ok(a, "%s %s --resolve", command, getenv("TFD_RUN"));
        if (!strstr(r.out, launchers[i].name) || !strstr(r.out, "_RANK=0\n") ||
            !strstr(r.out, "_RANK=1\n") || !strstr(r.out, "over MPI"))
            fail_msg("%s: %s", command, r.out);
        found++;
    }
    if (!found)
        skip();
}

/* What prints an answer instead of a run refuses what it would ignore. */
static void
answers_stand_alone(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    static const char *const wrong[][2] = {
        {"x.tfp --info --checkpoint c",
         "--checkpoint has no effect beside --info, which runs nothing: leave "
         "one of them out"},
        {"x.tfp --info --list-devices", "--info has no effect beside --list-"},
        {"x.tfp --info --resolve", "--resolve has no effect beside --info"},
        {"x.tfp --list-devices", "x.tfp has no effect beside --list-devices"},
        {"--status 1 --key k --quiet", "--quiet has no effect beside --status"},
    };
    char *here = getcwd(NULL, 0);
    assert_int_equal(chdir(dir), 0);
    write_text("x.tfd", "main { print(1) }\n");
    run_ok(a, "tfdc x.tfd");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Ran r = run(a, "tfd-run %s", wrong[i][0]);
        if (r.code != 2 || !strstr(r.err, wrong[i][1]))
            fail_msg("%s: exit status %d\n%s", wrong[i][0], r.code, r.err);
    }
    run_ok(a, "tfd-run x.tfp --info --limit plan=9M");
    assert_int_equal(chdir(here), 0);
    free(here);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pages_are_in_the_docs),
        cmocka_unit_test(wrong_commands_exit_with_2),
        cmocka_unit_test(wrong_values_exit_with_2),
        cmocka_unit_test(a_full_disk_exits_with_3),
        cmocka_unit_test(near_misses_get_a_suggestion),
        cmocka_unit_test(wrong_input_exits_with_1),
        cmocka_unit_test(resolve_exits_by_what_is_wrong),
        cmocka_unit_test(launchers_are_recognised),
        cmocka_unit_test(answers_stand_alone),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
