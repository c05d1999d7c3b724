/*
 * recompute_test.c - recompute(f) takes less memory, to the same bits
 */
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const char model[] =
    "use nn\n"
    "use optim\n"
    "const again = true\n"
    "const depth = 4\n"
    "module Block(n) {\n"
    "  let up = Dense(n, 8 * n)\n"
    "  let down = Dense(8 * n, n)\n"
    "  fn call(x) = x + down(dropout(gelu(up(x)), 0.1, seed = 1))\n"
    "}\n"
    "let blocks = [Block(16) for i in 0..depth]\n"
    "let optimizer = Adam(0.01)\n"
    "dataset train = range(512)\n"
    "  .map(fn(i) = sin(f32(i) * iota((16,), dtype = f32))).batch(256)\n"
    "fn step(x) {\n"
    "  mut h = x\n"
    "  for b in blocks {\n"
    "    if again { h = recompute(fn() = b(h)) } else { h = b(h) }\n"
    "  }\n"
    "  let loss = sum((h - x) ** 2) / 256.0\n"
    "  optimizer.apply(trainable(), grad(loss, trainable()))\n"
    "  return loss\n"
    "}\n"
    "main {\n"
    "  for e in 0..3 {\n"
    "    for x in distribute(train) { let loss = run step(x)\n"
    "      print(\"{local_results(loss)}\") }\n"
    "  }\n"
    "}\n";

/* The bytes of a device beside its variables, as --explain tells them. */
static long
bytes_of_steps(const char *options)
{
    const char *page = run_ok(arena, "tfdc %s -o %s --explain %s",
                              in_dir("p.tfd"), in_dir("p.tfp"), options)
                           .out;
    const char *variables = strstr(page, "\n  variables ");
    const char *device = strstr(page, "\n  the device ");
    if (!variables || !device)
        fail_msg("no memory is told: %s", page);
    return atol(device + strlen("\n  the device ")) -
           atol(variables + strlen("\n  variables "));
}

/* Without it each layer takes two values of 256 x 128 or more, which are kept
 * for its gradient. */
static void
a_layer_keeps_what_it_takes(void **state)
{
    const long wide = 256 * 128 * 4, narrow = 256 * 16 * 4;
    (void)state;
    long few = bytes_of_steps("-D again=false -D depth=4");
    long many = bytes_of_steps("-D again=false -D depth=12");
    assert_true(many - few > 8 * 2 * wide);
    few = bytes_of_steps("-D depth=4");
    many = bytes_of_steps("-D depth=12");
    const long gradients = 2 * 16 * 128 * 4 + (128 + 16) * 4;
    if (many - few > 8 * (narrow + gradients + 1024))
        fail_msg("a layer takes %ld bytes", (many - few) / 8);
}

static const char *
results(const char *options, const char *define)
{
    run_ok(arena, "tfdc %s -o %s %s %s", in_dir("p.tfd"), in_dir("p.tfp"),
           options, define);
    return run_ok(arena, "tfd-run %s --checksum", in_dir("p.tfp")).out;
}

static void
results_are_the_same(void **state)
{
    static const char *const options[] = {"", "--devices cpu:0-1", "-O0",
                                          "--check-nan"};
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *kept = results(options[i], "-D again=false");
        assert_string_equal(kept, results(options[i], ""));
    }
}

static void
explain_names_it(void **state)
{
    (void)state;
    const char *ir = run_ok(arena, "tfdc %s --to placed", in_dir("p.tfd")).out;
    assert_non_null(strstr(ir, "because differentiate.recompute \"values that "
                               "are not kept for the gradient\" at 17:20+"));
    assert_null(strstr(ir, "optimization_barrier"));
}

static int
new_model(void **state)
{
    new_dir(state);
    write_text(in_dir("p.tfd"), model);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_keeps_what_it_takes),
        cmocka_unit_test(results_are_the_same),
        cmocka_unit_test(explain_names_it),
    };
    return cmocka_run_group_tests(tests, new_model, release_arena);
}
