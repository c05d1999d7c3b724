/*
 * tiles_test.c - kernels that run together have the bits of those that do not
 *
 * On few threads a group of kernels runs tile by tile, on many of them, and
 * where each result is looked at, they run one by one (host_tiles.c).  A mark
 * is a permission: on kernels that no pass would mark it changes nothing.
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

/* Attention of 8 heads, whose scores have 18.9 MB in f32, and its gradients. */
static const char attention[] =
    "use nn, optim\n"
    "const T = 768\n"
    "param steps: i32 = 2\n"
    "var q: f32[4, 16] = normal(stddev = 0.5, seed = 1)\n"
    "var k: f32[4, 16] = normal(stddev = 0.5, seed = 2)\n"
    "var v: f32[4, 16] = normal(stddev = 0.5, seed = 3)\n"
    "fn heads(x: f32[B, S, H, N], w) = transpose(x * w, (0, 2, 1, 3))\n"
    "fn attend(x: f32[B, S, H, N]) {\n"
    "  let score = heads(x, q) @ transpose(heads(x, k), (0, 1, 3, 2)) / 4.0\n"
    "  let seen = where(tril(ones((S, S), bool)), score, -1e9)\n"
    "  return softmax(seen, axis = -1) @ heads(x, v)\n"
    "}\n"
    "let sgd = Sgd(0.1)\n"
    "fn step() {\n"
    "  let x = normal((2, T, 4, 16), seed = 4)\n"
    "  let loss = mean(attend(x) ** 2)\n"
    "  sgd.apply([q, k, v], grad(loss, [q, k, v]))\n"
    "  return loss\n"
    "}\n"
    "main {\n"
    "  for i in 0..steps {\n"
    "    let loss = reduce(mean, run step())\n"
    "    print(\"{loss}\")\n"
    "  }\n"
    "}\n";

static void
compile(const char *text, const char *options)
{
    write_text(in_dir("p.tfd"), text);
    run_ok(arena, "tfdc %s %s -o %s", in_dir("p.tfd"), options,
           in_dir("p.tfp"));
}

static const char *
output(const char *plan, const char *options)
{
    return run_ok(arena, "tfd-run %s --checksum %s", plan, options).out;
}

static int
count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* Functions of groups in the code for this file of placed text. */
static int
num_groups(const char *placed)
{
    const char *code =
        run_ok(arena, "tfdc --from placed %s --to llvm", placed).out;
    return count(code, "define internal void @t_");
}

/* ---- the pass's own groups ----------------------------------------------- */

static void
expect_same_bits(const char *text)
{
    compile(text, "");
    const char *plan = in_dir("p.tfp"), *one = output(plan, "--threads 1");
    assert_string_equal(output(plan, "--threads 2"), one);
    assert_string_equal(output(plan, "--threads 3"), one);
    assert_string_equal(output(plan, "--threads 9"), one); /* one by one */
    assert_string_equal(output(plan, "--threads 1 --check-nan"), one);
}

static void
attention_has_the_same_bits(void **state)
{
    (void)state;
    expect_same_bits(attention);
    const char *placed = in_dir("p.tir");
    run_ok(arena, "tfdc %s --to placed -o %s", in_dir("p.tfd"), placed);
    assert_int_equal(num_groups(placed), 2); /* forward, and back */
}

static void
heads_that_read_other_heads_have_the_same_bits(void **state)
{
    (void)state;
    const char *text = substitute(
        arena, attention, "softmax(seen, axis = -1) @ heads(x, v)",
        "softmax(seen + reverse(seen, (0,)), axis = -1) @ heads(x, v)");
    expect_same_bits(text);
}

static void
replicas_of_a_device_have_the_same_bits(void **state)
{
    (void)state;
    compile(attention, "--devices cpu:0-1");
    const char *plan = in_dir("p.tfp");
    const char *two = output(plan, "--threads 2");
    assert_string_equal(output(plan, "--devices cpu:0 --threads 1"), two);
    assert_string_equal(output(plan, "--devices cpu:0 --threads 9"), two);
}

/* Each kernel of a group is one call, with a time of its own. */
static void
a_profile_has_each_kernel(void **state)
{
    (void)state;
    compile(attention, "");
    const char *listing =
        run_ok(arena, "tfd-run %s --threads 1 --profile --set steps=6",
               in_dir("p.tfp"))
            .err;
    const char *kernels = strstr(listing, "\n  kernel ");
    assert_non_null(kernels);
    const char *softmax = strstr(kernels, "softmax_of");
    assert_true(strstr(kernels, "matmul") && softmax);
    assert_null(strstr(kernels, " 0.000 ms         1.0    "));
}

/* ---- marks anywhere ------------------------------------------------------ */

/* The end of the operands behind " = kernel", if a mark can be put there. */
static const char *
end_of_operands(const char *line, const char *end)
{
    const char *p = strstr(line, " = kernel");
    if (!p || p >= end)
        return NULL;
    p += strlen(" = kernel");
    while (strncmp(p, " %", 2) == 0)
        p += 1 + strcspn(p + 1, " ");
    return strncmp(p, " (", 2) == 0 || strncmp(p, " {\n", 3) == 0 ? p : NULL;
}

/* The text with marks on its kernels, chosen by chance: runs of some neighbours
 * have the same number of tiles. */
static const char *
with_marks(const char *text, unsigned seed)
{
    static const int tiles[] = {0, 2, 4, 8, 16, 32, 64};
    int left = 0, now = 0;
    Str s = str_new(arena);
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n");
        const char *at = end_of_operands(line, end);
        end += *end == '\n';
        if (at && left-- == 0) {
            left = rand_r(&seed) % 5;
            now = tiles[rand_r(&seed) % 7];
        }
        if (at && now)
            str_addf(&s, "%.*s {tiles=%d}%.*s", (int)(at - line), line, now,
                     (int)(end - at), at);
        else
            str_addf(&s, "%.*s", (int)(end - line), line);
        line = end;
    }
    return str_text(&s);
}

/* Returns how many groups of marked kernels became functions. */
static int
expect_marks_change_nothing(const char *program, const char *options)
{
    enum { SEEDS = 3 };
    int groups = 0;
    const char *plan = in_dir("p.tfp"), *placed = in_dir("p.tir");
    run_ok(arena, "tfdc %s -o %s", program, plan);
    const char *expected = output(plan, options);
    const char *text = run_ok(arena, "tfdc %s --to placed", program).out;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        write_text(placed, with_marks(text, seed));
        groups += num_groups(placed);
        run_ok(arena, "tfdc --from placed %s -o %s", placed, plan);
        assert_string_equal(output(plan, options), expected);
    }
    return groups;
}

static void
marks_on_an_example_change_nothing(void **state)
{
    (void)state;
    const char *root = getenv("TFD_ROOT");
    const char *examples = arena_printf(arena, "%s/docs/examples", root);
    const char *program = arena_printf(arena, "%s/charlm.tfd", examples);
    const char *options =
        arena_printf(arena, "--data %s --set steps=2 --threads 2", examples);
    assert_true(expect_marks_change_nothing(program, options) > 10);
}

static void
marks_on_attention_change_nothing(void **state)
{
    (void)state;
    const char *text =
        substitute(arena, attention, "const T = 768", "const T = 96");
    write_text(in_dir("p.tfd"), text);
    assert_true(expect_marks_change_nothing(in_dir("p.tfd"), "--threads 2") >
                0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_has_the_same_bits, new_dir,
                                        release_arena),
        cmocka_unit_test_setup_teardown(
            heads_that_read_other_heads_have_the_same_bits, new_dir,
            release_arena),
        cmocka_unit_test_setup_teardown(replicas_of_a_device_have_the_same_bits,
                                        new_dir, release_arena),
        cmocka_unit_test_setup_teardown(a_profile_has_each_kernel, new_dir,
                                        release_arena),
        cmocka_unit_test_setup_teardown(marks_on_an_example_change_nothing,
                                        new_dir, release_arena),
        cmocka_unit_test_setup_teardown(marks_on_attention_change_nothing,
                                        new_dir, release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
