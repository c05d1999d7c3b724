/*
 * exec_test.c - runs plans: their results and their errors
 */
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/devices/runs.h"

#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "ir/plan/plan_impl.h"

static PlanObject stuck; /* objects/stuck.c, named on the command line */

/* ---- printing ------------------------------------------------------------ */

static const char hello[] =
    "func @main() main {\n"
    "  %0: f32[2] = constant {dims=[2] dtype=f32 data=[0.5, 1.0]}\n"
    "  print %0 {format=\"hello {}\"}\n"
    "  return\n"
    "}\n";

static void
main_prints(void **state)
{
    (void)state;
    assert_prints(program(1, hello), (RtOptions){0}, "hello [0.5 1. ]\n");
    assert_prints(program(3, hello), (RtOptions){0}, "hello [0.5 1. ]\n");
}

static const char in_steps[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %same: i32 mirrored = constant {dims=[] dtype=i32 data=[7]}\n"
    "    print %same {format=\"same {}\"}\n"
    "    print %id {format=\"mine {}\" each=true}\n"
    "    print {format=\"text\"}\n"
    "    %one: bool per_replica = eq %id, %same\n"
    "    %not: bool per_replica = not %one\n"
    "    if %not {\n"
    "      print %same {format=\"branch {}\" each=true}\n"
    "      yield\n"
    "    } {\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  print {format=\"end\"}\n"
    "  return\n"
    "}\n";

static void
steps_print_at_their_end(void **state)
{
    (void)state;
    assert_prints(program(1, in_steps), (RtOptions){0},
                  "same 7\nmine 0\ntext\nbranch 7\nend\n");
    assert_prints(program(3, in_steps), (RtOptions){0},
                  "same 7\nmine 0\nmine 1\nmine 2\ntext\n"
                  "branch 7\nbranch 7\nbranch 7\nend\n");
}

/* ---- params -------------------------------------------------------------- */

static const char with_params[] =
    "param @lr: f32 = 0.5\n"
    "param @steps: i8 = 3\n"
    "param @on: bool = false\n"
    "func @main() main {\n"
    "  %lr: f32 = param {param=@lr}\n"
    "  %steps: i8 = param {param=@steps}\n"
    "  %on: bool = param {param=@on}\n"
    "  print %lr, %steps, %on {format=\"{} {} {}\"}\n"
    "  return\n"
    "}\n";

static RtOptions
set(const char *name, const char *value)
{
    RtSet *s = NEW(arena, RtSet);
    *s = (RtSet){name, value};
    return (RtOptions){.sets = s, .num_sets = 1};
}

#define TEN "0123456789"

static void
params_have_defaults_and_values(void **state)
{
    const char *text = program(2, with_params);
    (void)state;
    assert_prints(text, (RtOptions){0}, "0.5 3 False\n");
    assert_prints(text, set("lr", "1e-3"), "0.001 3 False\n");
    assert_prints(text, set("steps", "-128"), "0.5 -128 False\n");
    assert_prints(text, set("steps", "010"), "0.5 10 False\n");
    assert_prints(text, set("steps", "-089"), "0.5 -89 False\n");
    assert_prints(text, set("on", "true"), "0.5 3 True\n");
    assert_fails(text, set("steps", "128"), STATUS_USAGE,
                 "--set steps=128 is out of the range of i8, -128 to 127");
    assert_fails(text, set("steps", "-99999999999999999999"), STATUS_USAGE,
                 "--set steps=-99999999999999999999 is out of the range of i8");
    assert_fails(text, set("steps", "1.5"), STATUS_USAGE, "the param is i8");
    assert_fails(text, set("steps", "0x"), STATUS_USAGE, "the param is i8");
    assert_fails(text, set("steps", "-0x1f"), STATUS_USAGE, "the param is i8");
    assert_fails(text, set("lr", "0x10"), STATUS_USAGE,
                 "--set lr=0x10: the param is f32, which \"0x10\" is not, and "
                 "--set lr=0.5 would be");
    assert_fails(text, set("on", "yes"), STATUS_USAGE, "the param is bool");
    assert_prints(text, set("lr", "inf"), "inf 3 False\n");
    assert_fails(text, set("lr", "1e39"), STATUS_USAGE,
                 "--set lr=1e39 is too large for f32; inf is infinity");
    assert_fails(text, set("lr", "-1e999"), STATUS_USAGE,
                 "--set lr=-1e999 is too large for f32");
    assert_prints(text, set("lr", "0e-400"), "0.0 3 False\n");
    assert_prints(text, set("lr", "1e-45"), "1e-45 3 False\n");
    assert_fails(text, set("lr", "1e-400"), STATUS_USAGE,
                 "--set lr=1e-400 is too small for f32, which would make it 0; "
                 "if it may be, give 0");
    assert_fails(text, set("lr", "-1e-60"), STATUS_USAGE,
                 "--set lr=-1e-60 is too small for f32");
    assert_fails(text, set("lr", TEN TEN TEN TEN TEN TEN TEN "x"), STATUS_USAGE,
                 "--set lr=" TEN TEN TEN "01... (71 characters): the param is "
                 "f32, which \"" TEN TEN TEN "01... (71 characters)\" is not");
    assert_fails(text, set("step", "1"), STATUS_USAGE, "did you mean steps?");
    assert_fails(text, set("zzzzzzz", "1"), STATUS_USAGE,
                 "the program has no param \"zzzzzzz\" (a const is given "
                 "when compiling: tfdc -D zzzzzzz=...)");
}

/* ---- datasets and collectives -------------------------------------------- */

/* Rows in batches of six: each replica's rows, and all together. */
static const char batches[] =
    "symbols b <= 6 alone, n <= %d, N <= 6\n"
    "var @seen: i64 sync(on_read) aggregate(sum) init @seen.init at 1:1+4\n"
    "dataset @d {\n"
    "  range start=0 stop=%d : i64\n"
    "  map @d.twice : i64\n"
    "  batch size=6 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @seen.init() init {\n"
    "  %%0: i64 = constant {dims=[] dtype=i64 data=[0]}\n"
    "  return %%0\n"
    "}\n"
    "func @d.twice(%%i: i64) host {\n"
    "  %%0: i64 = add %%i, %%i\n"
    "  return %%0\n"
    "}\n"
    "func @main() main {\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %%0: bool = iter_has_next {iter=@it}\n"
    "    yield %%0\n"
    "  } {\n"
    "    %%x: i64[n] per_replica = iter_next {iter=@it}\n"
    "    run {\n"
    "      %%1: i64 per_replica = dim_size {dims=[n]}\n"
    "      %%2: i64 mirrored = dim_size {dims=[N]}\n"
    "      %%3: i64 per_replica = row_start {dims=[n]}\n"
    "      %%4: i64 per_replica = sum %%x {axes=[0]}\n"
    "      %%5: i64 mirrored = all_reduce %%4 {op=sum}\n"
    "      %%6: i64[N] mirrored = all_gather %%x {axis=0}\n"
    "      write %%1 {var=@seen mode=add}\n"
    "      print %%1, %%2, %%3, %%x {format=\"{} of {} from {}: {}\" "
    "each=true}\n"
    "      print %%5, %%6 {format=\"sum {} of {}\"}\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  %%7: i64 = read {var=@seen}\n"
    "  print %%7 {format=\"seen {}\"}\n"
    "  return\n"
    "}\n";

static const char *
batch_program(int n, int stop)
{
    return program(n, arena_printf(arena, batches, (6 + n - 1) / n, stop));
}

static void
batches_are_divided(void **state)
{
    (void)state;
    assert_prints(batch_program(1, 8), (RtOptions){0},
                  "6 of 6 from 0: [ 0  2  4  6  8 10]\n"
                  "sum 30 of [ 0  2  4  6  8 10]\n"
                  "2 of 2 from 0: [12 14]\nsum 26 of [12 14]\nseen 8\n");
    assert_prints(batch_program(3, 9), (RtOptions){.pipeline_threads = true},
                  "2 of 6 from 0: [0 2]\n2 of 6 from 2: [4 6]\n"
                  "2 of 6 from 4: [ 8 10]\nsum 30 of [ 0  2  4  6  8 10]\n"
                  "1 of 3 from 0: [12]\n1 of 3 from 1: [14]\n"
                  "1 of 3 from 2: [16]\nsum 42 of [12 14 16]\nseen 9\n");
}

/* Names n, and not N: replicas 0 and 1 have full shares of the second batch and
 * run the variant for them, replica 2 does not. */
static const char sums[] =
    "symbols b <= 6 alone, n <= 2, N <= 6\n"
    "dataset @d {\n"
    "  range start=0 stop=11 : i64\n"
    "  batch size=6 drop_remainder=0 : i64[b]\n"
    "}\n" EACH_STEP("      %3: i64 mirrored = all_reduce %1 {op=max}\n"
                    "      print %2, %3 {format=\"{} {}\"}\n");

static void
full_and_ragged_replicas_meet(void **state)
{
    (void)state;
    assert_prints(program(3, sums), (RtOptions){0}, "15 9\n40 17\n");
}

static void
threads_do_not_matter(void **state)
{
    const char *text = batch_program(2, 23);
    const char *one = run_with(text, (RtOptions){.num_threads = 1}).out;
    (void)state;
    for (int threads = 2; threads <= 5; threads++)
        assert_prints(text, (RtOptions){.num_threads = threads}, one);
}

static void
devices_may_be_others(void **state)
{
    const char *text = program(2, hello);
    (void)state;
    assert_prints(text, (RtOptions){.devices = "cpu:4,cpu:2"},
                  "hello [0.5 1. ]\n");
    assert_prints(text, (RtOptions){.devices = "cpu:1"}, "hello [0.5 1. ]\n");
    assert_fails(text, (RtOptions){.devices = "cpu:0-2"}, STATUS_USAGE,
                 "--devices cpu:0-2 are 3, and the plan's 2 replicas cannot be "
                 "divided among them evenly: take 1 or 2, or compile it for "
                 "them with tfdc --devices cpu:0-2");
    assert_fails(text, (RtOptions){.devices = "cpu:1,cpu:1"}, STATUS_USAGE,
                 "--devices cpu:1,cpu:1: cpu:1 is there twice");
}

/* ---- errors ------------------------------------------------------------- */

static const char failing_main[] =
    "func @main() main {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[5]}\n"
    "  %1: bool = eq %0, %0\n"
    "  %2: bool = not %1\n"
    "  print {format=\"before\"}\n"
    "  assert %2, %0 {format=\"lost {}\"} at 2:6+3\n"
    "  print {format=\"after\"}\n"
    "  return\n"
    "}\n";

static void
a_failed_assert_ends_the_run(void **state)
{
    Plan *p = build_plan(arena, program(1, failing_main));
    Result r = build_run(arena, p, (RtOptions){0});
    char *text;
    size_t len;
    (void)state;
    assert_string_equal(r.out, "before\n");
    assert_int_equal(status_kind(r.st), STATUS_INPUT);
    assert_string_equal(status_message(r.st), "lost 5");
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(rt_report(p, r.st, "tfd-run", to), 1);
    fclose(to);
    assert_string_equal(text, "t.tfd:2:6: error: lost 5\n"
                              "    2 | line two is longer\n"
                              "      |      ^~~\n");
    free(text);
    status_free(r.st);
}

/* Replica 1 alone fails, while the others wait for it in a collective. */
static const char failing_replica[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %one: i32 mirrored = constant {dims=[] dtype=i32 data=[1]}\n"
    "    print %id {format=\"replica {}\" each=true}\n"
    "    %ok: bool per_replica = ne %id, %one\n"
    "    assert %ok, %id {format=\"not me, {}\"} at 1:1+4\n"
    "    %sum: i32 mirrored = all_reduce %id {op=sum}\n"
    "    print %sum {format=\"sum {}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static void
a_failing_replica_wakes_the_others(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        Plan *p = build_plan(arena, program(n, failing_replica));
        Result r = build_run(arena, p, (RtOptions){0});
        assert_non_null(r.st);
        assert_string_equal(status_message(r.st), "not me, 1");
        assert_non_null(strstr(r.out, "replica 1\n"));
        assert_non_null(strstr(diag_text(p->diag, arena),
                               "note: on replica 1, device cpu:1"));
        status_free(r.st);
    }
}

static const char missing_file[] = "dataset @d at 2:1+4 {\n"
                                   "  bytes \"no-such-file\" : u8 at 2:6+3\n"
                                   "  batch size=2 drop_remainder=1 : u8[2]\n"
                                   "}\n"
                                   "iter @it of @d shard auto\n"
                                   "func @main() main {\n"
                                   "  iter_open {iter=@it}\n"
                                   "  return\n"
                                   "}\n";

static void
missing_files_are_named(void **state)
{
    (void)state;
    assert_fails(program(1, missing_file), (RtOptions){0}, STATUS_INPUT,
                 "dir/no-such-file");
    assert_fails(program(1, missing_file), (RtOptions){.data_dir = "/other"},
                 STATUS_INPUT, "/other/no-such-file");
}

/* ---- code that does not match the program ------------------------------- */

static const char one_sum[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %sum: i32 mirrored = all_reduce %id {op=sum} at 2:6+3\n"
    "    print %sum {format=\"sum {}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

/* Its object leaves the collective out on replica 1. */
static void
a_replica_that_does_not_come_is_named(void **state)
{
    if (getenv("TFD_PROGRAMS"))
        return; /* the object has other programs */
    const char *text = program(3, one_sum);
    Plan *p = build_plan_with(arena, text, stuck.bytes, stuck.size);
    double begin = clock_seconds();
    Result r = build_run(arena, p, (RtOptions){.timeout = 0.1});
    (void)state;
    assert_non_null(r.st);
    assert_int_equal(status_kind(r.st), STATUS_INPUT);
    assert_string_equal(
        status_message(r.st),
        "the replicas do not meet in this all_reduce: after 0.1 seconds "
        "replicas 0, 2 have arrived, replica 1 has not (--timeout allows "
        "more)");
    assert_non_null(
        strstr(diag_text(p->diag, arena), "t.tfd:2:6: error: the replicas"));
    assert_true(clock_seconds() - begin < 20.0);
    status_free(r.st);
}

static void
code_must_be_complete(void **state)
{
    if (getenv("TFD_PROGRAMS"))
        return; /* the object has other programs */
    Plan *p = build_plan_with(arena, program(2, failing_replica), stuck.bytes,
                              stuck.size);
    Plan *other = build_plan_with(arena, program(1, in_steps), "none", 4);
    Plan *short_one = build_plan_with(arena, program(1, failing_main),
                                      stuck.bytes, stuck.size);
    (void)state;
    PlanCode none = {.target = p->codes[0].target};
    p->codes = short_one->codes = &none;
    Result r = build_run(arena, p, (RtOptions){0});
    assert_non_null(
        strstr(status_message(r.st), "it has no code for program @"));
    status_free(r.st);
    r = build_run(arena, short_one, (RtOptions){0});
    assert_non_null(strstr(status_message(r.st), "it has no code for @main"));
    status_free(r.st);
    r = build_run(arena, other, (RtOptions){0});
    assert_non_null(strstr(status_message(r.st), "it is no object file"));
    status_free(r.st);
}

/* A number from a seed, below n. */
static size_t
pick(uint32_t *seed, size_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* Changes a byte, or puts a piece of the text somewhere else in it. */
static void
mutate(char *text, size_t len, uint32_t *seed)
{
    static const char bytes[] = "0123456789 []{}()%@+-=,:\naefimnrstx";
    size_t at = pick(seed, len), from = pick(seed, len);
    size_t n = pick(seed, 20);
    if (pick(seed, 3))
        text[at] = bytes[pick(seed, sizeof bytes - 1)];
    else if (at + n < len && from + n < len)
        memmove(text + at, text + from, n);
}

/* A damaged module that still verifies is loaded: no place, index or name in it
 * may be out of range. */
static void
damaged_programs_are_survived(void **state)
{
    const RtOptions load = {.load_only = true, .num_threads = 1};
    uint32_t seed = 1;
    int num_loaded = 0;
    (void)state;
    const char *good =
        ir_module_text(arena, build_placed(arena, batch_program(2, 7)));
    size_t len = strlen(good);
    Plan *p = build_plan(arena, batch_program(2, 7));
    for (int i = 0; i < 3000; i++) {
        Arena *a = arena_new(NULL, "mutation");
        char *text = arena_strdup(a, good);
        for (size_t k = pick(&seed, 3) + 1; k > 0; k--)
            mutate(text, len, &seed);
        Diag *d = diag_new(a);
        uint16_t file = diag_add_source(d, "t.tir", text, len);
        IrModule *m = ir_parse(a, intern_new(a), d, file, text, len);
        if (m && m->phase == PHASE_PLACED && ir_verify(m, d)) {
            Plan damaged = *p;
            plan_set_module(a, &damaged, m);
            damaged.diag = d;
            Status st = rt_run(&damaged, &load);
            num_loaded += !st;
            status_free(st);
        }
        arena_release(a);
    }
    assert_true(num_loaded > 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(main_prints),
        cmocka_unit_test(steps_print_at_their_end),
        cmocka_unit_test(params_have_defaults_and_values),
        cmocka_unit_test(batches_are_divided),
        cmocka_unit_test(full_and_ragged_replicas_meet),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(devices_may_be_others),
        cmocka_unit_test(a_failed_assert_ends_the_run),
        cmocka_unit_test(a_failing_replica_wakes_the_others),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(a_replica_that_does_not_come_is_named),
        cmocka_unit_test(code_must_be_complete),
        cmocka_unit_test(damaged_programs_are_survived),
    };
    char *bytes;
    Arena *a = arena_new(NULL, "object");
    if (argc != 2 || file_read(a, argv[1], &bytes, &stuck.size) != OK)
        return 1;
    stuck.bytes = bytes;
    int failed = cmocka_run_group_tests(tests, new_arena, release_arena);
    arena_release(a);
    return failed;
}
