/*
 * memory_test.c - what a plan takes of a GPU's memory
 *
 * A run that does not fit is refused before its first step, and tfdc says so
 * before; what both advise is tried: it fits.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- programs ------------------------------------------------------------ */

/* Three layers, and a step that the replicas take without collectives. */
static const char *
write_program(Arena *a, int width, long long batch)
{
    const char *path = arena_printf(a, "%s/layers.tfd", dir);
    write_text(
        path,
        arena_printf(
            a,
            "var w: f32[%d, %d] = 0.01\n"
            "dataset train = range(4000000).map(fn(i) = f32(i) * 0.001 + "
            "zeros([%d])).take(%lld).batch(%lld)\n"
            "fn step(x) {\n"
            "  let a = tanh(x @ w)\n"
            "  let b = tanh(a @ w)\n"
            "  let c = tanh(b @ w)\n"
            "  let dw = grad(sum(c * c), w)\n"
            "  return sum(dw)\n"
            "}\n"
            "main {\n"
            "  for x in distribute(train) { for p in local_results(run step(x))"
            " { print(\"{p}\") } }\n"
            "}\n",
            width, width, width, batch, batch));
    return path;
}

static const char *
compile(Arena *a, long long batch, const char *devices)
{
    const char *plan = arena_printf(a, "%s/layers.tfp", dir);
    run_ok(a, "tfdc %s --devices %s -o %s", write_program(a, 64, batch),
           devices, plan);
    return plan;
}

/* The number after such words. */
static double
number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    if (!at)
        fail_msg("no \"%s\" in\n%s", words, text);
    return strtod(at + strlen(words), NULL);
}

/* ---- runs ---------------------------------------------------------------- */

static void
what_does_not_fit_is_refused(void **state)
{
    Arena *a = *state;
    const char *plan = compile(a, 1024, "cuda:0");
    set_fake("memory:2000000");
    Ran ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_string_equal(ran.out, "");
    const char *says = "layers.tfp\": it needs ";
    double need = number_after(ran.err, says);
    assert_true(need > 2.0 && need < 4.0);
    assert_non_null(strstr(ran.err, " MB of cuda:0, and 2.000 of its 2.000 MB "
                                    "are free; "));
    assert_non_null(strstr(ran.err, " MB are for 1 replica, 0.262 for the next "
                                    "batch, at most "));
    assert_non_null(strstr(ran.err, "(TFD_MEMORY=0 runs it all the same)\n"));
    assert_non_null(strstr(ran.err, " note: 0.262 MB of each device are "));
}

/* The batch that is advised runs where the other did not. */
static void
smaller_batches_fit(void **state)
{
    Arena *a = *state;
    set_fake("memory:2000000");
    const char *plan = compile(a, 1024, "cuda:0");
    Ran ran = run(a, "tfd-run %s", plan);
    int batch = (int)number_after(ran.err, "with batches of ");
    double bytes = number_after(
        ran.err, arena_printf(a, "with batches of %d it has ", batch));
    assert_in_range(batch, 300, 1023);
    assert_true(bytes > 1.9 && bytes <= 2.0);
    run_ok(a, "tfd-run %s", compile(a, batch, "cuda:0"));
}

static void
more_devices_fit(void **state)
{
    Arena *a = *state;
    const char *plan = compile(a, 1024, "cuda:0-1");
    set_fake("memory:2000000,devices:2");
    Ran ran = run(a, "tfd-run %s --devices cuda:0", plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, " MB are for 2 replicas, "));
    assert_int_equal((int)number_after(ran.err, "; on "), 2);
    assert_true(number_after(ran.err, " devices each has ") < 2.0);
    run_ok(a, "tfd-run %s", plan);
    plan = compile(a, 1024, "cuda:0");
    ran = run(a, "tfd-run %s", plan);
    assert_int_equal((int)number_after(ran.err, "compiled for "), 2);
}

static void
nothing_may_help(void **state)
{
    Arena *a = *state;
    const char *plan = compile(a, 1024, "cuda:0");
    set_fake("memory:100");
    Ran ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "neither smaller batches nor more devices "
                                    "help (TFD_MEMORY=0"));
}

/* Estimates may be too high; then the driver says what does not fit. */
static void
a_run_may_be_tried_all_the_same(void **state)
{
    Arena *a = *state;
    const char *plan = compile(a, 1024, "cuda:0");
    setenv("TFD_MEMORY", "0", 1);
    set_fake("memory:2000000");
    run_ok(a, "tfd-run %s", plan);
    set_fake("memory:100");
    Ran ran = run(a, "tfd-run %s", plan);
    unsetenv("TFD_MEMORY");
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "of cuda:0: 100 of its 100 are free\n"));
}

/* Three replicas on one GPU, with 4 MB of variables once. */
static void
shared_variables_are_there_once(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/layers.tfp", dir);
    run_ok(a, "tfdc %s --devices cuda:0-2 -o %s", write_program(a, 1024, 12),
           plan);
    set_fake("memory:35000000");
    run_ok(a, "tfd-run %s --devices cuda:0", plan);
    set_fake("memory:28000000");
    Ran ran = run(a, "tfd-run %s --devices cuda:0", plan);
    assert_int_equal(ran.code, 3);
    double replicas = number_after(ran.err, "MB are free; ");
    double one = number_after(run_ok(a, "tfdc %s --devices cuda:0-2 --explain",
                                     write_program(a, 1024, 12))
                                  .out,
                              "\n  arena ") /
                 1e6;
    assert_true(replicas < 3 * one - 2 * 4.1);
}

/* ---- tfdc ---------------------------------------------------------------- */

static const char *
explain(Arena *a, const char *devices, long long batch)
{
    return run_ok(a, "tfdc %s --devices %s --explain",
                  write_program(a, 4096, batch), devices)
        .out;
}

static void
compiling_says_what_fits(void **state)
{
    static const double most = 80e9;
    Arena *a = *state;
    const char *small = explain(a, "cuda:0", 1000);
    assert_true(number_after(small, "\n  in all ") < most);
    assert_true(number_after(small, "\n  context ") > 0);
    assert_null(strstr(small, "which is too much"));
    const char *large = explain(a, "cuda:0", 4000000);
    assert_true(number_after(large, "\n  in all ") > most);
    double batch = number_after(large, "which is too much: with batches of ");
    int devices = (int)number_after(large, "compiled for ");
    double all =
        number_after(explain(a, "cuda:0", (long long)batch), "\n  in all ");
    assert_true(all > 0.98 * most && all <= 1.001 * most);
    const char *more =
        explain(a, arena_printf(a, "cuda:0-%d", devices - 1), 4000000);
    assert_true(number_after(more, "\n  in all ") <= 1.001 * most);
}

/* A sum of a whole tensor is two launches, which need scratch memory. */
static void
scratch_is_counted(void **state)
{
    Arena *a = *state;
    double bytes = number_after(explain(a, "cuda:0", 16), "\n  scratch ");
    assert_true(bytes >= 16 && bytes < 1e8);
}

/* Before the first step, and only over NCCL: connections with the other GPU. */
static void
nccl_is_counted(void **state)
{
    Arena *a = *state;
    const char *source = write_program(a, 64, 1024);
    const char *plan = arena_printf(a, "%s/layers.tfp", dir);
    assert_null(strstr(explain(a, "cuda:0-1", 16), "\n  nccl "));
    Ran ran = run_ok(a,
                     "tfdc %s --devices cuda:0-1 --cross-device-ops nccl "
                     "--explain -o %s",
                     source, plan);
    double bytes = number_after(ran.out, "\n  nccl ");
    assert_true(bytes > 32 * 9e6 && bytes < 32 * 11e6);
    set_fake("memory:200000000,devices:2");
    ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_string_equal(ran.out, "");
    assert_non_null(strstr(ran.err, " for kernels and 308.281 for NCCL: "));
}

/* Many layers: their activations are most of it. */
static void
recomputing_would_save(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/convnet.tfp", dir);
    run_ok(a, "tfdc %s/docs/examples/convnet.tfd --devices cuda:0 -o %s",
           getenv("TFD_ROOT"), plan);
    set_fake("memory:2000000");
    Ran ran = run(a, "tfd-run %s", plan);
    assert_int_equal(ran.code, 3);
    assert_non_null(strstr(ran.err, "(fn() = ...) it has up to about "));
    const char *text =
        run_ok(a,
               "tfdc %s/docs/examples/convnet.tfd --devices cuda:0 "
               "-D BATCH=200000 --explain",
               getenv("TFD_ROOT"))
            .out;
    double all = number_after(text, "\n  in all ") / 1e6;
    double saved = number_after(text, "(fn() = ...) it has up to about ");
    assert_true(saved > 0.3 * all && saved < all);
}

/* ---- blocks of rows ------------------------------------------------------ */

/* Causal attention with its gradients. */
static const char *
write_attention(Arena *a, int heads, int places, int width)
{
    const char *path = arena_printf(a, "%s/attention.tfd", dir);
    write_text(path,
               arena_printf(
                   a,
                   "use nn\n"
                   "const T = %d\n"
                   "var q: f32[%d, T, %d] = normal(seed = 1)\n"
                   "fn step() {\n"
                   "  let score = q @ transpose(q, (0, 2, 1))\n"
                   "  let seen = where(tril(ones((T, T), bool)), score, -1e9)\n"
                   "  let o = dropout(softmax(seen, axis = -1), 0.1) @ q\n"
                   "  q -= 0.01 * all_reduce(sum, grad(sum(o), q))\n"
                   "  return sum(o)\n"
                   "}\n"
                   "main { print(\"{reduce(sum, run step())}\") }\n",
                   places, heads, width));
    return path;
}

static double
arena_of_attention(Arena *a, int places)
{
    const char *path = write_attention(a, 16, places, 8);
    return number_after(
        run_ok(a, "tfdc %s --devices cuda:0 --explain", path).out,
        "\n  arena ");
}

/* From 1 GB of scores on: twice as many places take twice the memory. */
static void
long_attention_is_linear_in_its_length(void **state)
{
    Arena *a = *state;
    double of_4096 = arena_of_attention(a, 4096);
    assert_true(of_4096 < 4.0 * 16 * 512 * 4096 * 4);
    assert_true(arena_of_attention(a, 8192) < 2.2 * of_4096);
}

/* The blocks of a plan for the CPU, which has them from fewer scores on. */
static void
blocks_of_rows_have_the_bits_of_the_cpu(void **state)
{
    Arena *a = *state;
    const char *path = write_attention(a, 1, 1030, 2);
    const char *placed =
        run_ok(a,
               "tfdc %s --devices cpu:0 --passes static_batches,partial_sort,"
               "differentiate,simplify,place_variables,replicate,serve,"
               "communicate,forward_stores,cleanup,bucket,specialize,"
               "row_blocks,fuse",
               path)
            .out;
    assert_non_null(strstr(placed, "row_blocks.block"));
    const char *ir = arena_printf(a, "%s/blocks.tir", dir);
    write_text(ir, substitute(a, placed, "\"cpu:0\"", "\"cuda:0\""));
    run_ok(a, "tfdc --from ir %s -o %s/blocks.tfp", ir, dir);
    run_ok(a, "tfdc %s --devices cpu:0 -o %s/cpu.tfp", path, dir);
    set_fake("devices:1");
    assert_string_equal(run_ok(a, "tfd-run %s/blocks.tfp --checksum", dir).out,
                        run_ok(a, "tfd-run %s/cpu.tfp --checksum", dir).out);
}

/* ---- the suite ----------------------------------------------------------- */

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(smaller_batches_fit),
        cmocka_unit_test(more_devices_fit),
        cmocka_unit_test(nothing_may_help),
        cmocka_unit_test(shared_variables_are_there_once),
        cmocka_unit_test(a_run_may_be_tried_all_the_same),
        cmocka_unit_test(compiling_says_what_fits),
        cmocka_unit_test(scratch_is_counted),
        cmocka_unit_test(nccl_is_counted),
        cmocka_unit_test(recomputing_would_save),
        cmocka_unit_test(long_attention_is_linear_in_its_length),
        cmocka_unit_test(blocks_of_rows_have_the_bits_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
