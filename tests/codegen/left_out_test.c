/*
 * left_out_test.c - which products of a tile count (rt_find_products)
 *
 * A has 3 rows of 64 k, B two tiles of columns of which the second one is cut
 * off.  What is behind its columns is NaN, which nobody may look at.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include "ir/plan/abi.h"

enum { ROWS = 3, K = 64, WIDTH = 4, COLUMNS = 6, TILES = 2 };

typedef struct Operands {
    bool is_f64, by_k; /* the rows of a k are neighbours, else the k of a row */
    double a[ROWS][K], b[TILES][K][WIDTH];
    char in_a[ROWS * K * sizeof(double)];
    char in_b[TILES * K * WIDTH * sizeof(double)];
} Operands;

static int64_t
bytes_of(const Operands *o)
{
    return o->is_f64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
}

static void
put(const Operands *o, char *to, int64_t i, double x)
{
    float single = (float)x;
    if (o->is_f64)
        memcpy(to + i * bytes_of(o), &x, sizeof x);
    else
        memcpy(to + i * bytes_of(o), &single, sizeof single);
}

/* All is 1, but for A before k `begin` and from `end` on, where it is `zero`.
 */
static void
fill(Operands *o, int begin, int end, double zero)
{
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < K; k++)
            o->a[r][k] = k < begin || k >= end ? zero : 1.0;
    for (int t = 0; t < TILES; t++)
        for (int k = 0; k < K; k++)
            for (int c = 0; c < WIDTH; c++)
                o->b[t][k][c] = t * WIDTH + c < COLUMNS ? 1.0 : (double)NAN;
}

static TfdProducts
layout(const Operands *o)
{
    TfdProducts p = {.bytes = bytes_of(o),
                     .a_k_stride = o->by_k ? ROWS : 1,
                     .num_runs = o->by_k ? TFD_K_GROUP : ROWS,
                     .run = o->by_k ? ROWS : TFD_K_GROUP,
                     .run_stride = o->by_k ? ROWS : K,
                     .b_k_stride = WIDTH,
                     .b_stride = K * WIDTH,
                     .b_width = WIDTH};
    return p;
}

static TfdProducts
find(Operands *o, int k)
{
    TfdProducts p = layout(o);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < K; i++)
            put(o, o->in_a, o->by_k ? i * ROWS + r : r * K + i, o->a[r][i]);
    for (int t = 0; t < TILES; t++)
        for (int i = 0; i < K; i++)
            for (int c = 0; c < WIDTH; c++)
                put(o, o->in_b, (t * K + i) * WIDTH + c, o->b[t][i][c]);
    rt_find_products(&p, o->in_a, o->in_b, k, COLUMNS);
    return p;
}

static void
check(Operands *o, int k, int first, int end)
{
    TfdProducts p = find(o, k);
    assert_int_equal(p.first, first);
    assert_int_equal(p.end, end);
}

static void
whole_groups_are_left_out(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        Operands o = {.is_f64 = kind & 1, .by_k = kind & 2};
        fill(&o, 0, K, 0.0);
        check(&o, K, 0, K);
        fill(&o, 15, K - 15, 0.0);
        check(&o, K, 0, K);
        fill(&o, 16, K - 33, 0.0);
        check(&o, K, 16, 32);
        fill(&o, K, K, 0.0);
        check(&o, K, K, K);
        check(&o, 10, 0, 10);
        check(&o, 40, 32, 40);
        fill(&o, 32, K, -0.0);
        check(&o, K, 0, K);
        fill(&o, 32, K, 0.0);
        o.a[ROWS - 1][5] = 1e-30;
        check(&o, K, 0, K);
    }
}

static void
b_is_looked_at_once_and_must_be_finite(void **state)
{
    (void)state;
    static const double others[] = {INFINITY, -INFINITY, NAN};
    for (int kind = 0; kind < 4; kind++) {
        Operands o = {.is_f64 = kind & 1, .by_k = kind & 2};
        for (int i = 0; i < 3; i++) {
            fill(&o, 32, 48, 0.0);
            assert_int_equal(find(&o, K).b, TFD_FINITE);
            o.b[TILES - 1][40][COLUMNS - WIDTH - 1] = others[i];
            check(&o, K, 0, K);
            assert_int_equal(find(&o, K).b, TFD_NOT_FINITE);
            assert_int_equal(find(&o, 40).b, TFD_FINITE);
        }
        fill(&o, 0, K, 0.0);
        assert_int_equal(find(&o, K).b, TFD_UNKNOWN);
        TfdProducts p = layout(&o);
        p.b = TFD_FINITE;
        fill(&o, 32, K, 0.0);
        find(&o, K);
        rt_find_products(&p, o.in_a, NULL, K, COLUMNS);
        assert_int_equal(p.first, 32);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_groups_are_left_out),
        cmocka_unit_test(b_is_looked_at_once_and_must_be_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
