/*
 * groups_test.c - convolutions of narrow groups, whose channels are lanes
 *                 beside each other
 *
 * Against the evaluator, bit for bit: groups that are a part of a register, all
 * of it and more, registers that are not full, windows further apart, in one
 * axis and two, blocks of products that end within a row, values before and
 * after.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "backend/cpu/cpu_kernel.h"
#include "backend/depthwise/depthwise.h"
#include "tests/codegen/cases.h"

static const CodegenCase cases[] = {
    /* windows side by side and those that are left */
    {"T[n, 6, 9, 24]",
     {"T[n, 6, 9, 24]", "T[3, 3, 8, 24]", "T[24]"},
     "%x: T[n, 6, 9, 24] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[6, 9] step=[1, 1] groups=3}\n"
     "%r: T[n, 6, 9, 24] per_replica = add %x, %c"},
    {"T[n, 5, 6, 20]",
     {"T[n, 9, 11, 20]", "T[3, 3, 4, 20]", "T[n, 5, 6, 20]"},
     "%x: T[n, 5, 6, 20] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[5, 6] step=[2, 2] groups=5}\n"
     "%r: T[n, 5, 6, 20] per_replica = sub %c, %x"},
    {"T[n, 40, 34]",
     {"T[n, 42, 34]", "T[3, 2, 34]"},
     "%r: T[n, 40, 34] per_replica = conv %a, %b {low=[0] "
     "dims=[40] step=[1] groups=17}"},
    {"T[n, 7, 7, 16]",
     {"T[n, 7, 7, 16]", "T[1, 3, 8, 16]"},
     "%r: T[n, 7, 7, 16] per_replica = conv %a, %b {low=[0, 1] "
     "dims=[7, 7] step=[1, 1] groups=2}"},
    {"T[n, 5, 6, 12]",
     {"T[n, 5, 6, 12]", "T[5, 5, 4, 12]"},
     "%x: T[n, 5, 6, 12] per_replica = conv %a, %b {low=[2, 2] "
     "dims=[5, 6] step=[1, 1] groups=3}\n"
     "%r: T[n, 5, 6, 12] per_replica = neg %x"},
    /* bands of an image, and x that is computed of its channel */
    {"T[1, 5, 130, 16]",
     {"T[1, 5, 130, 16]", "T[3, 3, 8, 16]", "T[16]"},
     "%s: T[1, 5, 130, 16] per_replica = mul %a, %c\n"
     "%r: T[1, 5, 130, 16] per_replica = conv %s, %b {low=[1, 1] "
     "dims=[5, 130] step=[1, 1] groups=2}"},
    /* x of two values, of other channels */
    {"T[n, 9, 24]",
     {"T[n, 9, 30]", "T[n, 9, 10]", "T[3, 4, 24]"},
     "%s: T[n, 9, 14] per_replica = slice %a {start=[0, 0, 5] "
     "dims=[n, 9, 14] step=[1, 1, 1]}\n"
     "%u: T[n, 9, 24] per_replica = concat %s, %b {axis=2}\n"
     "%r: T[n, 9, 24] per_replica = conv %u, %c {low=[1] "
     "dims=[9] step=[1] groups=6}"},
    /* the sums of all products */
    {"T[3, 3, 8, 24]",
     {"T[n, 9, 10, 24]", "T[n, 9, 10, 24]", "T[3, 3, 8, 24]"},
     "%x: T[3, 3, 8, 24] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=3}\n"
     "%r: T[3, 3, 8, 24] per_replica = sub %c, %x"},
    {"T[3, 3, 4, 20]",
     {"T[n, 9, 11, 20]", "T[n, 5, 6, 20]"},
     "%r: T[3, 3, 4, 20] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[2, 2] groups=5}"},
    {"T[3, 3, 2, 16]",
     {"T[1, 5, 130, 16]", "T[1, 5, 130, 16]"},
     "%r: T[3, 3, 2, 16] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=8}"},
    {"T[5, 8, 40]",
     {"T[n, 37, 40]", "T[n, 33, 40]"},
     "%x: T[5, 8, 40] per_replica = conv_weights %a, %b {low=[0] "
     "dims=[5] step=[1] groups=5}\n"
     "%r: T[5, 8, 40] per_replica = abs %x"},
};

enum { NUM_CASES = sizeof cases / sizeof cases[0] };

static void
groups_have_the_bits_of_the_interpreter(void **state)
{
    cases_run(cases, NUM_CASES, *state);
}

static bool
has_groups_in_lanes(const BeKernel *k)
{
    Depthwise d;
    Arena *a = arena_new(NULL, "match");
    Emit e = be_emit_for_analysis(a, k);
    bool has = be_depthwise_match(&e, &d) && d.group;
    arena_release(a);
    return has;
}

static bool
is_in_lanes(Arena *a, const CodegenCase *c, const char *dtype)
{
    return has_groups_in_lanes(cases_kernels(a, c, 1, dtype, 600).data[0]);
}

/* What the kernel's builder leaves to lanes is found there. */
static void
narrow_groups_are_lanes(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "groups");
    for (int i = 0; i < NUM_CASES; i++) {
        assert_true(is_in_lanes(a, &cases[i], "f32"));
        assert_true(is_in_lanes(a, &cases[i], "f64"));
        assert_true(is_in_lanes(a, &cases[i], "f16"));
    }
    arena_release(a);
}

/* As large as they may be: sums, and rows of windows. */
static void
large_ones_are_lanes(void **state)
{
    (void)state;
    static const CodegenCase large[] = {
        {"T[4, 4, 8, 1024]",
         {"T[n, 9, 9, 1024]", "T[n, 6, 6, 1024]"},
         "%r: T[4, 4, 8, 1024] per_replica = conv_weights %a, %b {low=[0, 0] "
         "dims=[4, 4] step=[1, 1] groups=128}"},
        {"T[1, 2, 2730, 16]",
         {"T[1, 4, 2732, 16]", "T[3, 3, 8, 16]"},
         "%r: T[1, 2, 2730, 16] per_replica = conv %a, %b {low=[0, 0] "
         "dims=[2, 2730] step=[1, 1] groups=2}"},
        {"T[1, 4096, 16]",
         {"T[1, 8194, 16]", "T[3, 8, 16]"},
         "%r: T[1, 4096, 16] per_replica = conv %a, %b {low=[0] "
         "dims=[4096] step=[2] groups=2}"}};
    Arena *a = arena_new(NULL, "groups");
    for (int i = 0; i < 3; i++)
        assert_true(is_in_lanes(a, &large[i], "f64"));
    arena_release(a);
}

/* Other groups: larger, of other new channels, dilated, of one place, of few
 * windows or places along a row. */
static void
other_groups_are_not(void **state)
{
    (void)state;
    static const CodegenCase others[] = {
        {"T[n, 9, 32]",
         {"T[n, 9, 32]", "T[3, 16, 32]"},
         "%r: T[n, 9, 32] per_replica = conv %a, %b {low=[1] "
         "dims=[9] step=[1] groups=2}"},
        {"T[n, 9, 32]",
         {"T[n, 9, 16]", "T[3, 4, 32]"},
         "%r: T[n, 9, 32] per_replica = conv %a, %b {low=[1] "
         "dims=[9] step=[1] groups=4}"},
        {"T[n, 9, 32]",
         {"T[n, 9, 32]", "T[3, 8, 32]"},
         "%r: T[n, 9, 32] per_replica = conv %a, %b {low=[2] "
         "dims=[9] step=[1] dilation=[2] groups=4}"},
        {"T[n, 9, 32]",
         {"T[n, 9, 32]", "T[1, 8, 32]"},
         "%r: T[n, 9, 32] per_replica = conv %a, %b {low=[0] "
         "dims=[9] step=[1] groups=4}"},
        {"T[n, 3, 32]",
         {"T[n, 5, 32]", "T[3, 8, 32]"},
         "%r: T[n, 3, 32] per_replica = conv %a, %b {low=[0] "
         "dims=[3] step=[1] groups=4}"},
        {"T[n, 1, 9, 32]",
         {"T[n, 3, 9, 32]", "T[3, 1, 8, 32]"},
         "%r: T[n, 1, 9, 32] per_replica = conv %a, %b {low=[0, 0] "
         "dims=[1, 9] step=[1, 1] groups=4}"}};
    Arena *a = arena_new(NULL, "groups");
    for (int i = 0; i < 6; i++) {
        BeKernels k = cases_kernels(a, &others[i], 1, "f32", 600);
        assert_false(has_groups_in_lanes(k.data[0]));
        assert_null(strstr(k.data[0]->text, " div "));
    }
    assert_false(is_in_lanes(a, &cases[0], "bf16"));
    assert_false(is_in_lanes(a, &cases[0], CASES_ONE_CHAIN));
    arena_release(a);
}

/* Threads divide the products of a gradient. */
static void
pieces_are_the_whole(void **state)
{
    (void)state;
    enum { ITEMS = 3 * 3 * 8, CHANNELS = 24, ROWS = 5, PLACES = 9 * 10 };
    static float x[ROWS * PLACES * CHANNELS], y[ROWS * PLACES * CHANNELS],
        old[ITEMS * CHANNELS], whole[ITEMS * CHANNELS],
        pieces[ITEMS * CHANNELS];
    static const int ends[] = {0, 5, 29, 41, ITEMS};
    Arena *a = arena_new(NULL, "groups");
    BeKernels kernels = cases_kernels(a, &cases[7], 1, "f32", 600);
    assert_true(be_cpu_kernel_grain(kernels.data[0]) > 0);
    for (int i = 0; i < ROWS * PLACES * CHANNELS; i++) {
        x[i] = (float)(i % 71) * 0.37F;
        y[i] = (float)(i % 113) * 0.11F - 5;
    }
    RtCode *code = run_compile(&kernels, "native", 2);
    TfdKernel *kernel = run_find_kernel(code, kernels.data[0]->name);
    int64_t words[] = {ROWS, ROWS};
    void *ptrs[] = {x, y, old, whole};
    kernel(ptrs, words, 0, ITEMS);
    ptrs[3] = pieces;
    for (int i = 0; i < 4; i++)
        kernel(ptrs, words, ends[i], ends[i + 1]);
    assert_true(whole[0] != 0);
    assert_memory_equal(whole, pieces, sizeof whole);
    rt_code_close(code);
    arena_release(a);
}

#define OF(dtype)                                                              \
    {                                                                          \
        "groups of " dtype, groups_have_the_bits_of_the_interpreter, NULL,     \
            NULL, dtype                                                        \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        OF("f32"),
        OF("f64"),
        OF("f16"),
        cmocka_unit_test(narrow_groups_are_lanes),
        cmocka_unit_test(large_ones_are_lanes),
        cmocka_unit_test(other_groups_are_not),
        cmocka_unit_test(pieces_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
