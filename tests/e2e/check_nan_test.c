/*
 * check_nan_test.c - --check-nan: what makes a number that is not finite
 *
 * Each program has its only fault on a known line; the message must lead with
 * that line, in a plan as it usually is and in one of tfdc --check-nan.
 */
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

#define DATA "dataset d = range(16).map(fn(i) = f32(i)).batch(4)\n"
#define LOOP "main { for x in distribute(d) { print(\"{run step(x)}\") } }\n"

typedef struct Fault {
    const char *text;
    const char *usual, *apart; /* the first line of the message */
    const char *note;
} Fault;

static const Fault faults[] = {
    /* the loss is finite, its gradient is not */
    {"var w: f32[3] = [0.0, 1.0, 2.0]\n" DATA "fn step(x) {\n"
     "  let loss = sum(sqrt(w)) + sum(x) * 0.0\n"
     "  w -= 0.1 * all_reduce(mean, grad(loss, w))\n"
     "  return loss\n"
     "}\n" LOOP,
     "p.tfd:4:18: error: the kernel that ends in this div, of the gradient of "
     "loss, makes inf of finite numbers in step 1: element [0] of 3\n",
     "p.tfd:4:18: error: this div, of the gradient of loss, makes inf of "
     "finite "
     "numbers in step 1: element [0] of 3\n",
     "p.tfd:4:18: note: it would go into the variable \"w\"\n"},
    /* an optimizer */
    {"var w: f32 = 1.0\nvar v: f32 = 0.0\n" DATA "fn step(x) {\n"
     "  let g = all_reduce(mean, grad(w * sum(x) * 0.0, w))\n"
     "  v = 0.9 * v + g * g\n"
     "  w -= 0.1 * g / sqrt(v)\n"
     "  return w\n"
     "}\n" LOOP,
     "p.tfd:7:8: error: the kernel that ends in this sub makes nan of finite "
     "numbers in step 1: its value\n",
     "p.tfd:7:8: error: this div makes nan of finite numbers in step 1: its "
     "value\n",
     "p.tfd:7:8: note: on replica 0, device "},
    /* it came in with the data, in the second step */
    {"var w: f32 = 1.0\n"
     "dataset d = range(16).map(fn(i) = log(9.5 - f32(i))).batch(8)\n"
     "fn step(x) {\n"
     "  let loss = sum(w * x)\n"
     "  w -= 0.1 * all_reduce(mean, grad(loss, w))\n"
     "  return w\n"
     "}\n" LOOP,
     "p.tfd:4:18: error: this sum, of the gradient of loss, computes with nan "
     "in step 2: nan came in with the batch; of what it makes, its value\n",
     "p.tfd:4:18: error: this sum, of the gradient of loss, computes with nan "
     "in step 2: nan came in with the batch; of what it makes, its value\n",
     "p.tfd:8:17: note: the batch is taken here\n"},
    /* a sum of replicas overflows */
    {"var w: f32 = 1.0\n" DATA "fn step(x) {\n"
     "  let s = all_reduce(sum, 3e38 + 0.0 * sum(x))\n"
     "  w = s * 0.5\n"
     "  return w\n"
     "}\n" LOOP,
     "p.tfd:4:11: error: this all_reduce makes inf of finite numbers in step "
     "1: "
     "its value\n",
     "p.tfd:4:11: error: this all_reduce makes inf of finite numbers in step "
     "1: "
     "its value\n",
     "note: it would go into the variable \"w\"\n"},
    /* in a round of a loop, whose value stays where it is */
    {"var w: f32 = 1.0\n" DATA "fn step(x) {\n"
     "  mut a = w\n"
     "  for i in 0..100 { a = a * 10.0 }\n"
     "  w = w + 0.0 * all_reduce(sum, a - sum(x))\n"
     "  return w\n"
     "}\n" LOOP,
     "p.tfd:5:25: error: this mul makes inf of finite numbers in step 1: its "
     "value\n",
     "p.tfd:5:25: error: this mul makes inf of finite numbers in step 1: its "
     "value\n",
     "note: it would go into the variable \"w\"\n"},
    /* main itself */
    {"var w: f32 = 3e38\nmain {\n  let a = w * 2.0\n  print(\"{a}\")\n}\n",
     "p.tfd:3:11: error: this mul makes inf of finite numbers in step 1: its "
     "value\n",
     "p.tfd:3:11: error: this mul makes inf of finite numbers in step 1: its "
     "value\n",
     "    3 |   let a = w * 2.0\n"},
    /* a variable that was not finite */
    {"var w: f32 = 1.0\nvar v: f32 = 0.0 / 0.0\n" DATA "fn step(x) {\n"
     "  w = w + v\n"
     "  return w\n"
     "}\n" LOOP,
     "p.tfd:2:14: error: this constant is nan, in step 1\n",
     "p.tfd:2:14: error: this constant is nan, in step 1\n",
     "    2 | var v: f32 = 0.0 / 0.0\n"},
};

/* Of the devices of this run. */
static const char *kind = "cpu";

static const char *
compile(const char *text, const char *options)
{
    write_text(in_dir("p.tfd"), text);
    run_ok(arena, "tfdc %s --devices %s:0-1 -o %s %s", in_dir("p.tfd"), kind,
           in_dir("p.tfp"), options);
    return in_dir("p.tfp");
}

static void
assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("\"%s\" does not begin: %s", with, text);
}

static void
assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void
check(const Fault *f, const char *options, const char *first, const char *how)
{
    Ran r =
        run(arena, "tfd-run %s --check-nan %s", compile(f->text, options), how);
    assert_int_equal(r.code, 1);
    assert_begins(r.err, first);
    assert_has(r.err, f->note);
}

static void
what_makes_it_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        check(&faults[i], "", faults[i].usual, "");
        check(&faults[i], "--check-nan", faults[i].apart, "");
        check(&faults[i], "--check-nan", faults[i].apart,
              arena_printf(arena, "--devices %s:0", kind));
    }
}

static void
each_process_of_a_job_checks(void **state)
{
    (void)state;
    check(&faults[1], "--check-nan", faults[1].apart, "-n 2");
}

/* -inf is a mask, the identity of max, and what a metric begins with. */
static const char masks[] =
    "use nn\n"
    "const LEAST = -1.0 / 0.0\n"
    "var w: f32[8, 8] = normal(stddev = 0.5, seed = 1)\n"
    "var best: f32 = LEAST\n"
    "dataset d = range(5).map(fn(i) = fill((4, 8), f32(i) * 0.1)).batch(4)\n"
    "fn step(x) {\n"
    "  let s = x @ w @ transpose(x, (0, 2, 1))\n"
    "  let mask = iota(4)[:, none] >= iota(4)[none, :]\n"
    "  let p = softmax(where(mask, s, LEAST))\n"
    "  w -= 0.01 * all_reduce(sum, grad(sum(p @ x), w))\n"
    "  best = max(best, all_reduce(max, max(concat([x[:, 0, 0], fill((1,), "
    "LEAST)]))))\n"
    "}\n"
    "main { for x in distribute(d) { run step(x) }; print(\"{best}\") }\n";

static void
masks_are_no_findings(void **state)
{
    (void)state;
    Ran r = run_ok(arena, "tfd-run %s --check-nan", compile(masks, ""));
    assert_string_equal(r.out, "0.4\n");
    r = run_ok(arena, "tfd-run %s --check-nan", compile(masks, "--check-nan"));
    assert_string_equal(r.out, "0.4\n");
}

/* In the second step replica 0 has a full batch, replica 1 has not, and they
 * run different variants of it. */
static void
an_infinity_that_a_replica_gives_is_no_finding(void **state)
{
    (void)state;
    const char *text =
        "dataset d = range(7).map(fn(i) = f32(i)).batch(4)\n"
        "fn step(x) {\n"
        "  let s = all_reduce(sum, where(len(x) < 2, 1.0 / 0.0, sum(x)))\n"
        "  return where(s > 1e30, 1.0, s)\n"
        "}\n" LOOP;
    Ran r = run_ok(arena, "tfd-run %s --check-nan", compile(text, ""));
    assert_string_equal(r.out, "6.0\n1.0\n");
}

/* Where a mask leaves nothing, the maximum is -inf, and -inf - -inf nan. */
static void
a_mask_of_all_is_one(void **state)
{
    (void)state;
    const char *text = substitute(arena, masks, ">= iota", "> iota");
    Ran r = run(arena, "tfd-run %s --check-nan", compile(text, "--check-nan"));
    assert_int_equal(r.code, 1);
    assert_has(r.err,
               "error: this sub makes nan of infinity in step 1: element "
               "[0, 0, 0] of ");
    assert_has(r.err, "; infinity is a constant of the program\n");
    assert_has(r.err, "p.tfd:9:19: note: the constant goes in here\n");
}

/* The plan in which operations are apart computes the same bits. */
static void
plans_with_operations_apart_are_equal(void **state)
{
    (void)state;
    Ran a = run_ok(arena, "tfd-run %s --checksum", compile(masks, ""));
    Ran b =
        run_ok(arena, "tfd-run %s --checksum", compile(masks, "--check-nan"));
    assert_string_equal(a.out, b.out);
}

/* No checkpoint is of the step with the fault, so the run resumes before it. */
static void
the_step_is_not_saved(void **state)
{
    (void)state;
    const char *plan = compile(faults[2].text, "");
    const char *how = arena_printf(arena, "--checkpoint %s --every 1 --resume",
                                   in_dir("run"));
    Ran r = run(arena, "tfd-run %s --check-nan %s", plan, how);
    assert_int_equal(r.code, 1);
    r = run(arena, "tfd-run %s --check-nan %s", plan, how);
    assert_int_equal(r.code, 1);
    assert_has(r.err, "resuming after step 1, from");
    assert_has(r.err, "in step 2: nan came in with the batch");
}

/* A run whose checkpoint has a nan already names the variable. */
static void
a_variable_that_had_it_is_named(void **state)
{
    (void)state;
    const char *how =
        arena_printf(arena, "--checkpoint %s --every 1", in_dir("bad"));
    const char *longer =
        substitute(arena, faults[2].text, "range(16)", "range(32)");
    const char *plan = compile(longer, "");
    run_ok(arena, "tfd-run %s --quiet %s", plan, how);
    run_ok(arena, "rm %s/step-4.ckpt", in_dir("bad"));
    Ran r = run(arena, "tfd-run %s --check-nan %s --resume", plan, how);
    assert_int_equal(r.code, 1);
    assert_has(r.err, " computes with nan in step 4: ");
}

/* Once, with the step; not when it is quiet. */
static void
a_loss_that_is_nan_is_said_once(void **state)
{
    (void)state;
    const char *loop = "print(\"{run step(x)}\")";
    const char *plan = compile(faults[2].text, "");
    Ran r = run_ok(arena, "tfd-run %s", plan);
    assert_begins(
        r.err,
        "p.tfd:8:41: warning: a value of step 2 is not finite, most often "
        "of a learning rate that is too high; "
        "tfd-run --check-nan names what made it\n");
    assert_null(strstr(r.err + 1, "p.tfd:8:41: warning"));
    r = run_ok(arena, "tfd-run %s --quiet", plan);
    assert_string_equal(r.err, "");
    const char *text =
        substitute(arena, faults[2].text, "  return w\n", "  print(\"{w}\")\n");
    text = substitute(arena, text, loop, "run step(x)");
    r = run_ok(arena, "tfd-run %s", compile(text, ""));
    assert_begins(r.err, "p.tfd:6:3: warning: a value of step 2 is not finite");
}

/* Not at a variable that is read before it, and is finite. */
static void
the_warning_is_at_what_uses_the_loss(void **state)
{
    (void)state;
    const char *text =
        "var w: f32 = 1.0\n"
        "var b: f32 = 0.0\n"
        "dataset d = range(4).batch(4)\n"
        "fn st(x) { b += 1.0; return sum(log(w * f32(x) - 5.0)) }\n"
        "main { for x in distribute(d) {\n"
        "  let l = reduce(sum, run st(x))\n"
        "  print(\"{l} {w} {b}\") } }\n";
    Ran r = run_ok(arena, "tfd-run %s", compile(text, ""));
    assert_begins(r.err, "p.tfd:7:3: warning: a value of step 1 is not finite");
}

static void
assert_refused(const char *plan, const char *options, const char *message)
{
    Ran r = run(arena, "tfd-run %s %s", plan, options);
    assert_int_equal(r.code, 2);
    assert_has(r.err, message);
}

static void
what_cannot_be_checked_is_refused(void **state)
{
    (void)state;
    const char *plan = compile(masks, "");
    assert_refused(plan, "--check-nan --profile",
                   "--check-nan and --profile contradict each other: both "
                   "follow each kernel");
    assert_refused(plan, "--check-nan --devices null:0",
                   "--check-nan: null:0 executes nothing that could be "
                   "checked");
    plan = compile(masks, "--target native,sm_80");
    assert_refused(plan, "--check-nan --devices sandbox:0",
                   "--check-nan looks at memory after each kernel, and "
                   "sandbox:0 shows it after each step: run the plan with "
                   "--devices cpu:0, to the same bits");
}

/* check_nan_test [KIND]: on the fake driver, cuda */
int
main(int argc, char **argv)
{
    if (argc > 1)
        kind = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_it_is_named),
        cmocka_unit_test(each_process_of_a_job_checks),
        cmocka_unit_test(masks_are_no_findings),
        cmocka_unit_test(an_infinity_that_a_replica_gives_is_no_finding),
        cmocka_unit_test(a_mask_of_all_is_one),
        cmocka_unit_test(plans_with_operations_apart_are_equal),
        cmocka_unit_test(the_step_is_not_saved),
        cmocka_unit_test(a_variable_that_had_it_is_named),
        cmocka_unit_test(a_loss_that_is_nan_is_said_once),
        cmocka_unit_test(the_warning_is_at_what_uses_the_loss),
        cmocka_unit_test(what_cannot_be_checked_is_refused),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
