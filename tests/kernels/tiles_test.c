/*
 * tiles_test.c - which part of an array a part of the grid works on
 */
#include "backend/kernel/kernel_tiles.h"

#include <string.h>
#include "tests/unit/unit.h"

static Arena *arena;

static const BeKernel *
parse(const char *text)
{
    BeKernels kernels = {0};
    Diag *d = diag_new(arena);
    uint16_t file = diag_add_source(d, "kernel", text, strlen(text));
    bool ok = be_kernel_parse(&kernels, arena, d, file, text, strlen(text));
    if (!ok)
        print_error("%s", diag_text(d, arena));
    assert_true(ok && kernels.len == 1);
    return kernels.data[0];
}

/* A kernel of 256 items that loads in0, of that many elements, at an index and
 * stores it at another one. */
static const BeKernel *
kernel_of(const char *grid, int64_t elements, const char *from, const char *to)
{
    return parse(
        arena_printf(arena,
                     "kernel k\nin in0: f32[%lld]\nout out0: f32[256]\n"
                     "grid %s {\n  %%0: f32 = load in0[%s]\n"
                     "  store out0[%s], %%0\n}\n",
                     (long long)elements, grid, from, to));
}

static bool
keeps(const BeKernel *k, KRole role, int64_t tiles)
{
    return be_kernel_keeps_tiles(k, k->arrays[role].data[0], tiles);
}

/* Whether 32 tiles of 8 items load only their own part of in0. */
static bool
loads_own(int64_t elements, const char *from)
{
    const BeKernel *k =
        kernel_of("i0 < 32, i1 < 8", elements, from, "8*i0 + i1");
    assert_true(keeps(k, K_OUT, 32));
    return keeps(k, K_IN, 32);
}

static void
items_are_divided_along_one_index(void **state)
{
    (void)state;
    const BeKernel *k =
        kernel_of("i0 < 32, i1 < 8", 256, "8*i0 + i1", "8*i0 + i1");
    for (int64_t tiles = 1; tiles <= 256; tiles++)
        assert_int_equal(be_kernel_has_tiles(k, tiles), 256 % tiles == 0);
    k = kernel_of("i0 < 2, i1 < 3, i2 < 5", 256, "i0 + i1 + i2",
                  "15*i0 + 5*i1 + i2");
    assert_true(be_kernel_has_tiles(k, 2));
    assert_true(be_kernel_has_tiles(k, 6));
    assert_true(be_kernel_has_tiles(k, 30));
    /* 10, 6, 3 and 2 items */
    assert_false(be_kernel_has_tiles(k, 3));
    assert_false(be_kernel_has_tiles(k, 5));
    assert_false(be_kernel_has_tiles(k, 10));
    assert_false(be_kernel_has_tiles(k, 15));
}

static void
kernels_without_items_of_a_known_number_have_none(void **state)
{
    (void)state;
    const BeKernel *k = parse("kernel k\nin in0: f32[8]\nout out0: f32[1]\n"
                              "grid {\n  %0: f32 = load in0[0]\n"
                              "  store out0[0], %0\n}\n");
    assert_false(be_kernel_has_tiles(k, 2));
    k = parse("kernel k\nsymbols n0 <= 8 N0 <= 8\nin in0: f32[4*n0]\n"
              "out out0: f32[4*n0]\ngrid i0 < 4, i1 < n0 {\n"
              "  %0: f32 = load in0[4*i1 + i0]\n"
              "  store out0[4*i1 + i0], %0\n}\n");
    assert_false(be_kernel_has_tiles(k, 4));
}

static void
tiles_load_their_own_elements(void **state)
{
    (void)state;
    assert_true(loads_own(256, "8*i0 + i1"));
    assert_true(loads_own(256, "8*i0 - i1 + 7"));
    assert_true(loads_own(512, "16*i0 + i1 + 8"));
    assert_true(loads_own(512, "16*i0 + 2*i1 + 1"));
    assert_true(loads_own(32, "i0"));
}

static void
tiles_load_elements_of_others(void **state)
{
    (void)state;
    assert_false(loads_own(256, "32*i1 + i0"));       /* a transpose */
    assert_false(loads_own(256, "i1"));               /* one for all */
    assert_false(loads_own(256, "-8*i0 + i1 + 248")); /* the last first */
    assert_false(loads_own(512, "8*i0 + i1"));        /* half of it */
    assert_false(loads_own(264, "8*i0 + i1"));        /* no equal parts */
}

static void
a_tile_is_a_piece_of_an_index(void **state)
{
    (void)state;
    const BeKernel *k = kernel_of("i0 < 256", 256, "i0", "i0");
    assert_true(keeps(k, K_IN, 16) && keeps(k, K_OUT, 16));
    k = kernel_of("i0 < 32, i1 < 8", 256, "8*i0 + i1", "8*i0 + i1");
    assert_true(keeps(k, K_IN, 64) && keeps(k, K_OUT, 4));
    k = kernel_of("i0 < 32, i1 < 8", 512, "16*i0 + i1", "8*i0 + i1");
    assert_true(keeps(k, K_IN, 32));
    assert_false(keeps(k, K_IN, 64)); /* the second halves are not loaded */
}

static void
all_accesses_count(void **state)
{
    (void)state;
    const BeKernel *k =
        parse("kernel k\nin in0: f32[4096]\nin in1: f32[256]\n"
              "out out0: f32[256]\ngrid i0 < 32, i1 < 8 {\n"
              "  %0: f32 = reduce add vector i2 < 16 {\n"
              "    %1: f32 = load in0[128*i0 + 16*i1 + i2]\n    yield %1\n  }\n"
              "  %2: f32 = load in1[8*i0 + i1]\n  %3: f32 = load in1[i1]\n"
              "  %4: f32 = add %2, %3\n  %5: f32 = add %0, %4\n"
              "  store out0[8*i0 + i1], %5\n}\n");
    assert_true(keeps(k, K_IN, 32));
    assert_false(be_kernel_keeps_tiles(k, k->arrays[K_IN].data[1], 32));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_divided_along_one_index),
        cmocka_unit_test(kernels_without_items_of_a_known_number_have_none),
        cmocka_unit_test(tiles_load_their_own_elements),
        cmocka_unit_test(tiles_load_elements_of_others),
        cmocka_unit_test(a_tile_is_a_piece_of_an_index),
        cmocka_unit_test(all_accesses_count),
    };
    arena = arena_new(NULL, "test");
    int failed = cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
    arena_release(arena);
    return failed;
}
