/*
 * kernel_reduce_test.c - kernels of reductions, of contractions and of chains
 *
 * The one order of sums (D2) is written out here.
 */
#include "ir/rules/build.h"
#include "tests/kernels/kernel_region.h"

#include <math.h>
#include "ir/rules/eval.h"
#include "ir/rules/windows.h"

/* ---- reductions --------------------------------------------------------- */

static const IrOpKind reductions[] = {OP_sum, OP_prod, OP_reduce_max,
                                      OP_reduce_min};

/* All elements of a x[outer, mid, inner] in one result, one after the other. */
static Scalar
fold_in_order(const Region *r, IrOpKind kind, int64_t o, int64_t i,
              const int64_t *dims)
{
    static const IrOpKind folds[] = {OP_add, OP_mul, OP_maximum, OP_minimum};
    int which = 0;
    while (reductions[which] != kind)
        which++;
    DType t = r->b->args.data[0]->type.dtype;
    Scalar both[2] = {ir_eval_neutral(kind, t)};
    for (int64_t j = 0; j < dims[1]; j++) {
        both[1] = in(r, 0, (o * dims[1] + j) * dims[2] + i);
        both[0] = ir_eval(folds[which], t, both);
    }
    return both[0];
}

static void
reduce_middle(IrOpKind kind, DType t, const int64_t *dims)
{
    Region r = region_new();
    int64_t axis = 1;
    IrValue *x = ARG(&r, t, C(dims[0]), C(dims[1]), C(dims[2]));
    region_make(&r, ir_build_reduce(r.b, kind, x, &axis, 1, false, NO_LOC), 7);
    for (int64_t o = 0; o < dims[0]; o++)
        for (int64_t i = 0; i < dims[2]; i++)
            assert_same(&r, out(&r, 0, o * dims[2] + i),
                        fold_in_order(&r, kind, o, i, dims), o);
    region_free(&r);
}

/* Rows, columns, the axis between; f64 sums of quarters are exact. */
static void
reductions_of_every_size(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(reductions); k++) {
        for (int s = 0; s < 3 * REGION_SIZES; s++) {
            int64_t dims[] = {3, 5, 2};
            dims[s % 3] = region_sizes[s / 3];
            reduce_middle(reductions[k], DT_f64, dims);
            reduce_middle(reductions[k], DT_u8, dims);
        }
        reduce_middle(reductions[k], DT_i32, (int64_t[]){1, 65, 1});
        reduce_middle(reductions[k], DT_i64, (int64_t[]){1, 7, 65});
        reduce_middle(reductions[k], DT_i8, (int64_t[]){65, 7, 1});
    }
}

static void
both_ends(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_bool, C(4), r.n, C(5));
        int64_t axes[] = {0, 2};
        IrValue *outs[] = {
            ir_build_reduce(r.b, OP_any, x, axes, 2, true, NO_LOC),
            ir_build_reduce(r.b, OP_all, x, axes, 2, false, NO_LOC)};
        region_close(&r, 2, outs);
        region_run(&r, n);
        for (int64_t i = 0; i < n; i++) {
            bool any = false, all = true;
            for (int64_t j = 0; j < 20; j++) {
                bool b = in(&r, 0, (j / 5 * n + i) * 5 + j % 5).i;
                any |= b;
                all &= b;
            }
            assert_int(&r, 0, i, any);
            assert_int(&r, 1, i, all);
        }
        region_free(&r);
    }
}

static void
places_of_extrema(void **state)
{
    (void)state;
    for (int s = 0; s < 3 * REGION_SIZES; s++) {
        int64_t n = region_sizes[s / 3], axis = 1;
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(3), r.n);
        if (s % 3 == 1) /* ties: 1 and 0 */
            x = ir_build_cast(r.b,
                              ir_build2(r.b, OP_gt, x,
                                        ir_const_float(r.b, DT_f32, 3, NO_LOC),
                                        NO_LOC),
                              DT_f32, NO_LOC);
        if (s % 3 == 2) /* some NaNs */
            x = ir_build1(r.b, OP_sqrt, x, NO_LOC);
        IrValue *outs[] = {
            ir_build_reduce(r.b, OP_argmax, x, &axis, 1, false, NO_LOC),
            ir_build_reduce(r.b, OP_argmin, x, &axis, 1, true, NO_LOC), x};
        region_close(&r, 3, outs);
        region_run(&r, n);
        for (int64_t i = 0; i < 3; i++) {
            int64_t most = 0, least = 0;
            for (int64_t j = 1; j < n; j++) {
                double y = out(&r, 2, i * n + j).f;
                double high = out(&r, 2, i * n + most).f;
                double low = out(&r, 2, i * n + least).f;
                if (!isnan(high) && (isnan(y) || y > high))
                    most = j;
                if (!isnan(low) && (isnan(y) || y < low))
                    least = j;
            }
            assert_int(&r, 0, i, most);
            assert_int(&r, 1, i, least);
        }
        region_free(&r);
    }
}

/* Lane by lane, the lanes' tree, chunk by chunk (D2). */
static float
striped_sum(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += 65536) {
        float lanes[64];
        int64_t end = n - start < 65536 ? n : start + 65536;
        int used = end - start < 64 ? (int)(end - start) : 64;
        for (int lane = 0; lane < used; lane++) {
            lanes[lane] = x[start + lane];
            for (int64_t i = start + lane + 64; i < end; i += 64)
                lanes[lane] += x[i];
        }
        for (int w = 32; w; w /= 2)
            for (int i = 0; i + w < used && i < w; i++)
                lanes[i] += lanes[i + w];
        total = start ? total + lanes[0] : lanes[0];
    }
    return total;
}

static void
sums_have_one_order(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 33, 64, 65, 97, 127, 1000, 140001};
    for (int s = 0; s < COUNT(lengths); s++) {
        Region r = region_new();
        int64_t n = lengths[s];
        IrValue *x = ARG(&r, DT_f32, C(n));
        IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
        IrValue *outs[] = {ir_build_sum_all(r.b, e, NO_LOC), e};
        region_close(&r, 2, outs);
        region_run(&r, 7);
        const float *values = r.ptrs[2];
        assert_float(&r, 0, 0, (double)striped_sum(values, n));
        region_free(&r);
    }
}

static void
half_sums_round_once(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f16, C(1000));
    IrValue *y = ir_build1(r.b, OP_exp, x, NO_LOC);
    IrValue *outs[] = {ir_build_sum_all(r.b, y, NO_LOC), y};
    region_close(&r, 2, outs);
    region_run(&r, 7);
    float values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (float)out(&r, 1, i).f;
    assert_float(&r, 0, 0, (double)striped_sum(values, 1000));
    region_free(&r);
}

/* ---- contractions ------------------------------------------------------- */

static void
multiply_matrices(DType t, int64_t m, int64_t k, int64_t n)
{
    Region r = region_new();
    IrValue *x = ARG(&r, t, C(m), C(k)), *y = ARG(&r, t, C(k), C(n));
    int64_t one = 1, zero = 0;
    IrDotAxes axes = {
        .contract_x = &one, .contract_y = &zero, .num_contract = 1};
    region_make(&r, ir_build_dot(r.b, x, y, &axes, NO_LOC), 7);
    for (int64_t i = 0; i < m * n; i++) {
        Scalar sum = scalar_cast(scalar_int(DT_i64, 0), t);
        for (int64_t j = 0; j < k; j++) {
            Scalar both[] = {in(&r, 0, i / n * k + j),
                             in(&r, 1, j * n + i % n)};
            Scalar add[] = {sum, ir_eval(OP_mul, t, both)};
            sum = ir_eval(OP_add, t, add);
        }
        assert_same(&r, out(&r, 0, i), sum, i);
    }
    region_free(&r);
}

static void
products_of_matrices(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        multiply_matrices(DT_f64, region_sizes[s], 3, 5);
        multiply_matrices(DT_f32, 3, region_sizes[s], 5);
        multiply_matrices(DT_i16, 5, 3, region_sizes[s]);
    }
    multiply_matrices(DT_i8, 7, 65, 7);
}

/* x[b, i, k] y[k, j, b] with everything in odd places. */
static void
products_in_batches(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, C(2), r.n, C(5), C(3));
        IrValue *y = ARG(&r, DT_f64, C(3), C(4), C(2), C(5));
        int64_t cx[] = {2, 3}, cy[] = {3, 0}, bx = 0, by = 2;
        IrDotAxes axes = {cx, cy, 2, &bx, &by, 1};
        region_make(&r, ir_build_dot(r.b, x, y, &axes, NO_LOC), n);
        for (int64_t at = 0; at < 2 * n * 4; at++) {
            int64_t b = at / (n * 4), i = at / 4 % n, j = at % 4;
            double sum = 0;
            for (int64_t k = 0; k < 15; k++)
                sum += in_float(&r, 0, (b * n + i) * 15 + k) *
                       in_float(&r, 1, ((k % 3 * 4 + j) * 2 + b) * 5 + k / 3);
            assert_float(&r, 0, at, sum);
        }
        region_free(&r);
    }
}

static void
contractions_have_one_order(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 511, 512, 513, 1025, 3000};
    for (int s = 0; s < COUNT(lengths); s++) {
        Region r = region_new();
        int64_t n = lengths[s], zero = 0;
        IrValue *x = ARG(&r, DT_f32, C(n));
        IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
        IrDotAxes axes = {
            .contract_x = &zero, .contract_y = &zero, .num_contract = 1};
        IrValue *outs[] = {ir_build_dot(r.b, e, x, &axes, NO_LOC), e};
        region_close(&r, 2, outs);
        region_run(&r, 7);
        float total = 0;
        for (int64_t start = 0; start < n; start += 512) {
            float acc = 0;
            for (int64_t i = start; i < n && i < start + 512; i++)
                acc = fmaf((float)out(&r, 1, i).f, (float)in_float(&r, 0, i),
                           acc);
            total = start ? total + acc : acc;
        }
        assert_float(&r, 0, 0, (double)total);
        region_free(&r);
    }
}

/* ---- chains ------------------------------------------------------------- */

/* exp(x - max) / sum over an axis, and the place of the greatest element. */
static void
softmax_over(int axis_number, int64_t rows, int64_t columns)
{
    Region r = region_new();
    int64_t axis = axis_number;
    IrValue *x = ARG(&r, DT_f32, r.n, C(columns));
    IrValue *m = ir_build_reduce(r.b, OP_reduce_max, x, &axis, 1, true, NO_LOC);
    IrValue *e =
        ir_build1(r.b, OP_exp, ir_build2(r.b, OP_sub, x, m, NO_LOC), NO_LOC);
    IrValue *s = ir_build_reduce(r.b, OP_sum, e, &axis, 1, true, NO_LOC);
    IrValue *p = ir_build2(r.b, OP_div, e, s, NO_LOC);
    IrValue *outs[] = {
        ir_build_reduce(r.b, OP_argmax, p, &axis, 1, false, NO_LOC), p, m};
    region_close(&r, 3, outs);
    region_run(&r, rows);
    int64_t lines = axis ? rows : columns, n = axis ? columns : rows;
    int64_t stride = axis ? 1 : columns, next = axis ? columns : 1;
    for (int64_t i = 0; i < lines; i++) {
        float values[65], most = -INFINITY;
        int64_t where = 0;
        for (int64_t j = 0; j < n; j++) {
            float y = (float)in_float(&r, 0, i * next + j * stride);
            where = y > most ? j : where;
            most = y > most ? y : most;
        }
        for (int64_t j = 0; j < n; j++) {
            double d = in_float(&r, 0, i * next + j * stride) - (double)most;
            Scalar y = scalar_float(DT_f32, d);
            values[j] = (float)ir_eval(OP_exp, DT_f32, &y).f;
        }
        float sum = striped_sum(values, n);
        for (int64_t j = 0; j < n; j++)
            assert_float(&r, 1, i * next + j * stride,
                         (double)(values[j] / sum));
        assert_int(&r, 0, i, where);
        assert_float(&r, 2, i, (double)most);
    }
    region_free(&r);
}

static void
softmax_of_rows_and_columns(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        softmax_over(1, region_sizes[s], 33);
        softmax_over(0, region_sizes[s], 3);
        softmax_over(1, 5, region_sizes[s]);
    }
}

/* Everything by the sum of everything, and that sum. */
static void
one_item(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, r.n, C(3));
        IrValue *sum = ir_build_sum_all(r.b, x, NO_LOC);
        IrValue *outs[] = {ir_build2(r.b, OP_sub, x, sum, NO_LOC), sum};
        region_close(&r, 2, outs);
        region_run(&r, n);
        double total = 0;
        for (int64_t i = 0; i < 3 * n; i++)
            total += in_float(&r, 0, i);
        for (int64_t i = 0; i < 3 * n; i++)
            assert_float(&r, 0, i, in_float(&r, 0, i) - total);
        assert_float(&r, 1, 0, total);
        region_free(&r);
    }
}

enum {
    ROWS = 3,
    WIDTH = 5,
    WINDOWS = WIDTH - 1, /* of 2 places */
    GROUPS = 3,
    OWN = 2, /* channels of a group, and new ones */
    NEW = 4,
    CHANNELS = GROUPS * NEW
};

/* The convolution of x [ROWS, WIDTH, GROUPS * OWN] with windows of 2. */
static double
grouped_conv_at(const Region *r, int64_t row, int64_t window, int64_t channel)
{
    double sum = 0;
    for (int64_t place = 0; place < 2; place++)
        for (int64_t i = 0; i < OWN; i++) {
            int64_t own = channel / NEW * OWN + i;
            int64_t at = (row * WIDTH + window + place) * GROUPS * OWN + own;
            int64_t w = (place * OWN + i) * GROUPS * NEW + channel;
            sum += in_float(r, 0, at) * in_float(r, 1, w);
        }
    return sum;
}

/* What follows the convolution and, if there are 3 outputs, sums of it. */
static Region
region_of_groups(int num_outs)
{
    static const IrWindows w = {
        .num_axes = 1, .step = {1}, .dilation = {1}, .groups = GROUPS};
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f64, C(ROWS), C(WIDTH), C(GROUPS * OWN));
    IrValue *weights = ARG(&r, DT_f64, C(2), C(OWN), C(CHANNELS));
    IrValue *old = ARG(&r, DT_f64, C(ROWS), C(WINDOWS), C(CHANNELS));
    Dim dims[] = {C(WINDOWS)};
    int64_t axes[] = {0, 1}, last = 2;
    IrValue *y = ir_build_conv(r.b, OP_conv, x, weights, &w, dims, NO_LOC);
    IrValue *outs[] = {
        ir_build2(r.b, OP_sub, old, y, NO_LOC),
        ir_build_reduce(r.b, OP_sum, y, axes, 2, false, NO_LOC),
        ir_build_reduce(r.b, OP_sum, y, &last, 1, false, NO_LOC)};
    region_close(&r, num_outs, outs);
    region_run(&r, 7);
    return r;
}

/* The group is an index of the grid and its channels are the lanes, whichever
 * operand of what follows the convolution is; sums beside it are right. */
static void
convolutions_of_groups(void **state)
{
    (void)state;
    double columns[CHANNELS] = {0}, rows[ROWS * WINDOWS] = {0};
    Region alone = region_of_groups(1), r = region_of_groups(3);
    assert_non_null(strstr(alone.kernel->text, "vector i3 < 4 {"));
    assert_null(strstr(alone.kernel->text, " div "));
    for (int64_t i = 0; i < ROWS * WINDOWS * CHANNELS; i++) {
        int64_t window = i / CHANNELS, c = i % CHANNELS;
        double one = grouped_conv_at(&r, window / WINDOWS, window % WINDOWS, c);
        assert_float(&alone, 0, i, in_float(&r, 2, i) - one);
        assert_float(&r, 0, i, in_float(&r, 2, i) - one);
        columns[c] += one;
        rows[window] += one;
    }
    for (int64_t i = 0; i < CHANNELS; i++)
        assert_float(&r, 1, i, columns[i]);
    for (int64_t i = 0; i < ROWS * WINDOWS; i++)
        assert_float(&r, 2, i, rows[i]);
    region_free(&alone);
    region_free(&r);
}

/* Clusters that fuse would not make are right all the same. */
static void
odd_clusters_are_right(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f64, C(6), C(5)), *y = ARG(&r, DT_f64, C(7));
    int64_t one = 1, zero = 0;
    IrValue *rows = ir_build_reduce(r.b, OP_sum, x, &one, 1, true, NO_LOC);
    IrValue *cols = ir_build_reduce(r.b, OP_sum, x, &zero, 1, false, NO_LOC);
    IrValue *both = ir_build2(r.b, OP_add, rows, cols, NO_LOC);
    IrValue *outs[] = {both, cols, ir_build_sum_all(r.b, both, NO_LOC),
                       ir_build1(r.b, OP_neg, y, NO_LOC)};
    region_close(&r, 4, outs);
    region_run(&r, 7);
    double total = 0, row[6] = {0}, col[5] = {0};
    for (int64_t i = 0; i < 30; i++) {
        row[i / 5] += in_float(&r, 0, i);
        col[i % 5] += in_float(&r, 0, i);
    }
    for (int64_t i = 0; i < 30; i++) {
        assert_float(&r, 0, i, row[i / 5] + col[i % 5]);
        total += row[i / 5] + col[i % 5];
    }
    for (int64_t i = 0; i < 5; i++)
        assert_float(&r, 1, i, col[i]);
    assert_float(&r, 2, 0, total);
    for (int64_t i = 0; i < 7; i++)
        assert_float(&r, 3, i, -in_float(&r, 1, i));
    region_free(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_of_every_size),
        cmocka_unit_test(both_ends),
        cmocka_unit_test(places_of_extrema),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(half_sums_round_once),
        cmocka_unit_test(products_of_matrices),
        cmocka_unit_test(products_in_batches),
        cmocka_unit_test(contractions_have_one_order),
        cmocka_unit_test(softmax_of_rows_and_columns),
        cmocka_unit_test(one_item),
        cmocka_unit_test(convolutions_of_groups),
        cmocka_unit_test(odd_clusters_are_right),
    };
    return cmocka_run_group_tests_name("kernel_reduce", tests, NULL, NULL);
}
