/*
 * text_params_test.c - params of str: texts and paths that tfd-run --set gives
 */
#include <unistd.h>
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

static const char program[] = "param run_name: str = \"run {{a}}\"\n"
                              "param data: str = \"few\"\n"
                              "param scale: f32 = 1.0\n"
                              "var w: f32 = 1.0\n"
                              "dataset d = lines(\"{data}.txt\", u8[2])\n"
                              "  .map(fn(b) { assert(b[0] < 120, \"{data}: "
                              "{b[0]}\"); return f32(b[0]) })\n"
                              "  .batch(2)\n"
                              "fn step(x) {\n"
                              "  print(\"of {run_name}: {replica_id}\")\n"
                              "  w += scale * all_reduce(sum, sum(x))\n"
                              "}\n"
                              "main {\n"
                              "  let folder = \"{run_name}/sub\"\n"
                              "  print(\"{{to}} {folder}\")\n"
                              "  for x in distribute(d) { run step(x) }\n"
                              "  save(folder)\n"
                              "  print(\"{w}\")\n"
                              "}\n";

static const char *
compile(void)
{
    write_text(in_dir("few.txt"), "a\nb\n");
    write_text(in_dir("{x}.txt"), "c\nd\n");
    write_text(in_dir("bad.txt"), "z\n");
    write_text(in_dir("p.tfd"), program);
    run_ok(arena, "tfdc %s --strategy mirrored --devices cpu:0-1 -o %s",
           in_dir("p.tfd"), in_dir("p.tfp"));
    return in_dir("p.tfp");
}

static Ran
run_there(const char *plan, const char *options)
{
    return run(arena, "env -C %s %s %s %s", dir, getenv("TFD_RUN"), plan,
               options);
}

static void
assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void
they_are_in_texts_and_paths(void **state)
{
    (void)state;
    const char *plan = compile();
    Ran r = run_there(plan, "");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "{to} run {a}/sub\nof run {a}: 0\n"
                               "of run {a}: 1\n196.0\n");
    r = run_there(plan, "--set data={x} --set run_name=b --set run_name=a}b");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "{to} a}b/sub\nof a}b: 0\nof a}b: 1\n200.0\n");
    assert_int_equal(access(in_dir("a}b/sub/variables.safetensors"), F_OK), 0);
    assert_int_not_equal(access(in_dir("b"), F_OK), 0);
    r = run_there(plan, "--set run_name=job -n 2");
    assert_string_equal(r.out, "{to} job/sub\nof job: 0\nof job: 1\n196.0\n");
    r = run_there(plan, "--set data=bad");
    assert_int_equal(r.code, 1);
    assert_has(r.err, " bad: 122\n");
}

/* Of a dump of the placed module the same plan is made. */
static void
dumps_have_them(void **state)
{
    (void)state;
    compile();
    Ran r =
        run_ok(arena, "tfdc %s --devices cpu:0-1 --to placed", in_dir("p.tfd"));
    assert_has(r.out, "param @run_name: str = \"run {a}\" at ");
    assert_has(r.out, "lines cut=0 \"{$}{$data}.txt\" : ");
    write_text(in_dir("p.tir"), r.out);
    run_ok(arena, "tfdc --from placed %s -o %s", in_dir("p.tir"),
           in_dir("q.tfp"));
    r = run_there(in_dir("q.tfp"), "--set run_name=c");
    assert_string_equal(r.out, "{to} c/sub\nof c: 0\nof c: 1\n196.0\n");
}

static void
what_is_wrong_is_told(void **state)
{
    (void)state;
    const char *plan = compile();
    Ran r = run_there(plan, "--set data=none");
    assert_int_equal(r.code, 1);
    assert_has(r.err, "while opening lines(\"none.txt\") at p.tfd:5:13");
    r = run_there(plan, "--set datum=x");
    assert_int_equal(r.code, 2);
    assert_has(r.err, "the program has no param \"datum\"; did you mean data?");
    write_text(in_dir("p.tfd"), "param path: str = \"\"\n"
                                "dataset d = lines(path, u8[2]).batch(2)\n"
                                "main { for x in distribute(d) { } }\n");
    run_ok(arena, "tfdc %s -o %s", in_dir("p.tfd"), plan);
    r = run_there(plan, "");
    assert_int_equal(r.code, 1);
    assert_has(r.err, "p.tfd:2:13: a param gives it no path");
}

/* They are part of a run, as other params. */
static void
a_resumed_run_has_them(void **state)
{
    (void)state;
    const char *plan = compile();
    const char *how = "--checkpoint kept --every 1 --resume";
    Ran r = run_there(plan, arena_printf(arena, "%s --set run_name=e", how));
    assert_int_equal(r.code, 0);
    r = run_there(plan, arena_printf(arena, "%s --set run_name=f", how));
    assert_int_equal(r.code, 2);
    assert_has(r.err, "--set run_name=f: the run in \"kept\" was begun with "
                      "another value");
    r = run_there(plan, how);
    assert_int_equal(r.code, 0);
    r = run_there(plan, arena_printf(arena, "%s --set run_name=e", how));
    assert_int_equal(r.code, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_in_texts_and_paths),
        cmocka_unit_test(dumps_have_them),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(a_resumed_run_has_them),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
