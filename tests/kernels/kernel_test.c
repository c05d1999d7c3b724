/*
 * kernel_test.c - kernels compute what their operations mean
 *
 * The expected values come from a formula for each element, or from ir_eval for
 * elementwise operations.  (Results of many elements: kernel_reduce_test.)
 */
#include "ir/rules/build.h"
#include "tests/kernels/kernel_region.h"

#include "ir/rules/eval.h"

/* ---- elementwise -------------------------------------------------------- */

/* One operation on arguments of these dtypes; false if it does not accept
 * them. */
static bool
try_elementwise(IrOpKind kind, const DType *types, DType to, Dim size)
{
    Region r = region_new();
    IrValue *args[3];
    int num = ir_op_info[kind].num_in;
    for (int i = 0; i < num; i++)
        args[i] = ARG(&r, types[i], size);
    IrOp *op = ir_build_op(r.b, kind, num, args, NO_LOC);
    if (kind == OP_cast)
        ir_set_int(op, A_dtype, to);
    bool allowed = ir_op_infer(op, r.b) == NULL;
    if (allowed) {
        region_make(&r, op->results[0], ir_dim_is_const(size) ? 7 : 65);
        int64_t n = region_elements(&r, &op->results[0]->type);
        for (int64_t i = 0; i < n; i++) {
            Scalar x[3];
            for (int j = 0; j < num; j++)
                x[j] = in(&r, j, i);
            DType t = op->results[0]->type.dtype;
            assert_same(&r, out(&r, 0, i), ir_eval(kind, t, x), i);
        }
    }
    region_free(&r);
    return allowed;
}

static void
every_elementwise_operation(void **state)
{
    (void)state;
    Dim n = ir_dim_linear(0, 1, 0);
    for (int kind = 0; kind < NUM_OPS; kind++) {
        int allowed = 0;
        if (!(ir_op_info[kind].traits & ELEMENTWISE) || kind == OP_cast)
            continue;
        for (int t = 0; t < NUM_DTYPES; t++) {
            DType types[] = {t, t, t};
            if (kind == OP_where)
                types[0] = DT_bool;
            for (int s = 0; s <= REGION_SIZES; s++)
                allowed +=
                    try_elementwise((IrOpKind)kind, types, DT_f32,
                                    s < REGION_SIZES ? C(region_sizes[s]) : n);
        }
        assert_true(allowed > 0);
    }
}

static void
every_cast(void **state)
{
    (void)state;
    for (int from = 0; from < NUM_DTYPES; from++) {
        for (int to = 0; to < NUM_DTYPES; to++) {
            DType type = (DType)from;
            assert_true(try_elementwise(OP_cast, &type, (DType)to, C(65)));
        }
    }
}

static void
operands_broadcast(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t rows = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(3), r.n, C(1));
        IrValue *y = ARG(&r, DT_f32, r.n, C(5));
        IrValue *z = region_arg(&r, DT_f32, 0, NULL);
        IrValue *xy = ir_build2(r.b, OP_sub, x, y, NO_LOC);
        region_make(&r, ir_build2(r.b, OP_mul, z, xy, NO_LOC), rows);
        for (int64_t i = 0; i < 3 * rows * 5; i++)
            assert_float(
                &r, 0, i,
                in_float(&r, 2, 0) *
                    (in_float(&r, 0, i / 5) - in_float(&r, 1, i % (rows * 5))));
        region_free(&r);
    }
}

/* Half floats round after every operation, fused or not. */
static void
halves_round_at_each_operation(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_bf16, C(65));
    IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
    IrValue *s = ir_build2(r.b, OP_add, e, x, NO_LOC);
    region_make(&r, ir_build2(r.b, OP_div, s, e, NO_LOC), 7);
    for (int64_t i = 0; i < 65; i++) {
        Scalar a[2] = {in(&r, 0, i)};
        a[1] = a[0];
        a[0] = ir_eval(OP_exp, DT_bf16, a);
        Scalar b[2] = {ir_eval(OP_add, DT_bf16, a), a[0]};
        assert_same(&r, out(&r, 0, i), ir_eval(OP_div, DT_bf16, b), i);
    }
    region_free(&r);
}

static void
numbers_that_need_no_memory(void **state)
{
    (void)state;
    Region r = region_new();
    Dim dims[] = {r.n, C(3)};
    float table[] = {1.5, -2, 8};
    IrValue *outs[] = {
        ir_build_iota(r.b, DT_i64, 2, dims, 0, NO_LOC),
        ir_build_iota(r.b, DT_f32, 2, dims, 1, NO_LOC),
        ir_build_dim_size(r.b, r.all, NO_LOC),
        ir_build0(r.b, OP_replica_id, NO_LOC),
        ir_const_data(r.b, DT_f32, 1, &dims[1], table, NO_LOC),
        ir_const_fill(r.b, DT_i8, 1, &dims[1], scalar_int(DT_i8, -5), NO_LOC),
    };
    region_close(&r, COUNT(outs), outs);
    region_run(&r, 7);
    for (int64_t i = 0; i < 21; i++) {
        assert_int(&r, 0, i, i / 3);
        assert_float(&r, 1, i, (double)(i % 3));
    }
    assert_int(&r, 2, 0, 14);
    assert_int(&r, 3, 0, REPLICA);
    for (int i = 0; i < 3; i++) {
        assert_float(&r, 4, i, (double)table[i]);
        assert_int(&r, 5, i, -5);
    }
    region_free(&r);

    r = region_new();
    IrOp *op = ir_build_op(r.b, OP_row_start, 0, NULL, NO_LOC);
    ir_set_dims(op, A_dims, &r.n, 1);
    region_make(&r, ir_build_infer(op), 7);
    assert_int(&r, 0, 0, ROW_START);
    region_free(&r);
}

/* ---- moves -------------------------------------------------------------- */

static void
transpose(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_i16, C(2), r.n, C(5));
        region_make(
            &r, ir_build_transpose(r.b, x, (int64_t[]){1, 2, 0}, NO_LOC), n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < 10; j++)
                assert_int(&r, 0, i * 10 + j,
                           in(&r, 0, j % 2 * n * 5 + i * 5 + j / 2).i);
        region_free(&r);
    }
}

static void
slice_and_reverse(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, r.n, C(10));
        Dim dims[] = {r.n, C(3)};
        int64_t axis = 0;
        IrValue *rev = ir_build_reverse(r.b, x, &axis, 1, NO_LOC);
        IrValue *part = ir_build_slice(r.b, rev, (int64_t[]){0, 8}, dims,
                                       (int64_t[]){1, -3}, NO_LOC);
        region_make(&r, part, n);
        for (int64_t i = 0; i < 3 * n; i++)
            assert_float(&r, 0, i,
                         in_float(&r, 0, (n - 1 - i / 3) * 10 + 8 - i % 3 * 3));
        region_free(&r);
    }
}

/* With an operation between the pad and memory, and without one. */
static void
pad(void **state)
{
    (void)state;
    for (int s = 0; s < 2 * REGION_SIZES; s++) {
        int64_t n = region_sizes[s / 2];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(n), C(4));
        if (s % 2)
            x = ir_build1(r.b, OP_cos, x, NO_LOC);
        int64_t gap = n ? 3 * (n - 1) + 1 : 0;
        Dim dims[] = {C(2 + gap), C(4 + 1 + 2)};
        region_make(&r,
                    ir_build_pad(r.b, x, (int64_t[]){2, 1}, dims,
                                 (int64_t[]){3, 1}, NO_LOC),
                    7);
        for (int64_t i = 0; i < (2 + gap) * 7; i++) {
            int64_t row = i / 7 - 2, column = i % 7 - 1;
            bool inside = row >= 0 && row % 3 == 0 && column >= 0 && column < 4;
            Scalar have = inside ? in(&r, 0, row / 3 * 4 + column)
                                 : scalar_float(DT_f32, 0);
            if (inside && s % 2)
                have = ir_eval(OP_cos, DT_f32, &have);
            assert_same(&r, out(&r, 0, i), have, i);
        }
        region_free(&r);
    }
}

static void
concat(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        IrValue *xs[] = {ARG(&r, DT_i32, C(2), r.n),
                         ARG(&r, DT_i32, C(2), C(0)),
                         ARG(&r, DT_i32, C(2), C(1))};
        xs[2] = ir_build1(r.b, OP_neg, xs[2], NO_LOC);
        region_make(&r, ir_build_concat(r.b, 3, xs, 1, NO_LOC), n);
        for (int64_t i = 0; i < 2 * (n + 1); i++) {
            int64_t row = i / (n + 1), column = i % (n + 1);
            assert_int(&r, 0, i,
                       column < n ? in(&r, 0, row * n + column).i
                                  : -in(&r, 2, row).i);
        }
        region_free(&r);
    }
}

/* A pad of a concat: loads have the conditions of both. */
static void
conditions_join(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *xs[] = {ARG(&r, DT_i32, C(3)), ARG(&r, DT_i32, C(4))};
    Dim wide = C(20);
    int64_t low = 1, step = 3;
    IrValue *all = ir_build_concat(r.b, 2, xs, 0, NO_LOC);
    region_make(&r, ir_build_pad(r.b, all, &low, &wide, &step, NO_LOC), 7);
    for (int64_t i = 0; i < 20; i++) {
        int64_t at = (i - 1) / 3;
        int64_t want = at < 3 ? in(&r, 0, at).i : in(&r, 1, at - 3).i;
        assert_int(&r, 0, i, i >= 1 && (i - 1) % 3 == 0 ? want : 0);
    }
    region_free(&r);
}

/* reshape of x * column number, to shapes that cut rows in every way. */
static void
reshape(void **state)
{
    (void)state;
    for (int s = 0; s < 5 * REGION_SIZES; s++) {
        int64_t n = region_sizes[s % REGION_SIZES];
        Region r = region_new();
        Dim from[] = {r.n, C(12)}, n12;
        ir_dim_mul(r.n, C(12), &n12);
        Dim n3 = ir_dim_linear(0, 3, r.n.sym),
            n6 = ir_dim_linear(0, 6, r.n.sym);
        const Dim to[5][4] = {{n3, C(4), C(1), C(1)},
                              {C(1), n12, C(1), C(1)},
                              {r.n, C(2), C(3), C(2)},
                              {C(4), n3, C(1), C(1)},
                              {C(1), C(2), n6, C(1)}};
        IrValue *x = region_arg(&r, DT_i64, 2, from);
        IrValue *col = ir_build_iota(r.b, DT_i64, 2, from, 1, NO_LOC);
        IrValue *y = ir_build2(r.b, OP_mul, x, col, NO_LOC);
        y = ir_build_reshape(r.b, y, 4, to[s / REGION_SIZES], NO_LOC);
        region_make(&r, ir_build1(r.b, OP_neg, y, NO_LOC), n);
        for (int64_t i = 0; i < 12 * n; i++)
            assert_int(&r, 0, i, -in(&r, 0, i).i * (i % 12));
        region_free(&r);
    }
}

/* Rows of a batch that may be empty, after a first one: its length divides
 * indices under a guard. */
static void
divisors_may_be_0(void **state)
{
    (void)state;
    for (int s = 0; s < REGION_SIZES; s++) {
        int64_t n = region_sizes[s];
        Region r = region_new();
        Dim from[] = {C(4), r.n}, to[] = {r.n, C(4)};
        Dim wide[] = {ir_dim_linear(1, 1, r.n.sym), C(4)};
        IrValue *x = region_arg(&r, DT_i64, 2, from);
        IrValue *row = ir_build_iota(r.b, DT_i64, 2, from, 0, NO_LOC);
        x = ir_build2(r.b, OP_mul, x, row, NO_LOC);
        x = ir_build_reshape(r.b, x, 2, to, NO_LOC);
        x = ir_build_pad(r.b, x, (int64_t[]){1, 0}, wide, (int64_t[]){1, 1},
                         NO_LOC);
        region_make(&r, x, n);
        for (int64_t i = 0; i < 4 * (n + 1); i++)
            assert_int(&r, 0, i,
                       i < 4 ? 0 : in(&r, 0, i - 4).i * ((i - 4) / n));
        region_free(&r);
    }
}

static void
broadcast_of_a_reshape(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f32, r.n);
    Dim column[] = {r.n, C(1)}, wide[] = {C(2), r.n, C(3)};
    IrValue *y = ir_build_reshape(r.b, x, 2, column, NO_LOC);
    region_make(&r, ir_build_broadcast(r.b, y, 3, wide, NO_LOC), 65);
    for (int64_t i = 0; i < 2 * 65 * 3; i++)
        assert_float(&r, 0, i, in_float(&r, 0, i / 3 % 65));
    region_free(&r);
}

/* ---- names and limits --------------------------------------------------- */

static const char *
name_of_sum(DType t, Dim rows, int64_t columns)
{
    static char name[64];
    Region r = region_new();
    IrValue *x = ARG(&r, t, rows, C(columns));
    IrValue *y = ir_build2(r.b, OP_add, x, x, NO_LOC);
    region_close(&r, 1, &y);
    snprintf(name, sizeof name, "%s", r.kernel->name);
    region_free(&r);
    return name;
}

static void
equal_kernels_have_equal_names(void **state)
{
    (void)state;
    char first[64];
    snprintf(first, sizeof first, "%s", name_of_sum(DT_f32, C(4), 30));
    assert_int_equal(strlen(first), 2 + 32);
    assert_string_equal(name_of_sum(DT_f32, C(12), 10), first);
    assert_string_not_equal(name_of_sum(DT_f32, C(12), 11), first);
    assert_string_not_equal(name_of_sum(DT_i32, C(12), 10), first);
}

/* The message about a region with these results. */
static const char *
message_of(Region *r, int num, IrValue *const *results)
{
    ir_build_yield(r->b, num, results, NO_LOC);
    assert_null(be_kernel_build(r->arena, r->op, r->m->diag));
    return diag_text(r->m->diag, r->arena);
}

static void
huge_and_useless_kernels_are_refused(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f32, C(4));
    for (int i = 0; i < 1100; i++)
        x = ir_build1(r.b, OP_neg, x, NO_LOC);
    assert_non_null(
        strstr(message_of(&r, 1, &x), "more than 1,024 operations"));
    region_free(&r);

    r = region_new();
    x = ARG(&r, DT_f32, C(4));
    for (int i = 0; i < 1001; i++)
        x = ir_build1(r.b, OP_neg, x, NO_LOC);
    region_make(&r, x, 7);
    assert_float(&r, 0, 3, -in_float(&r, 0, 3));
    region_free(&r);

    r = region_new();
    assert_non_null(strstr(message_of(&r, 0, NULL), "no results"));
    region_free(&r);

    r = region_new();
    x = ARG(&r, DT_f32, C(2));
    for (int i = 0; i < 40; i++) { /* x beside 0 and 0 beside x */
        Dim more = C(i + 3);
        int64_t low = 0, step = 1;
        IrValue *y = ir_build_pad(r.b, x, &low, &more, &step, NO_LOC);
        low = 1;
        IrValue *z = ir_build_pad(r.b, x, &low, &more, &step, NO_LOC);
        x = ir_build2(r.b, OP_add, y, z, NO_LOC);
    }
    assert_non_null(strstr(message_of(&r, 1, &x), "more than 65,536 nodes"));
    region_free(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_elementwise_operation),
        cmocka_unit_test(every_cast),
        cmocka_unit_test(operands_broadcast),
        cmocka_unit_test(halves_round_at_each_operation),
        cmocka_unit_test(numbers_that_need_no_memory),
        cmocka_unit_test(transpose),
        cmocka_unit_test(slice_and_reverse),
        cmocka_unit_test(pad),
        cmocka_unit_test(concat),
        cmocka_unit_test(conditions_join),
        cmocka_unit_test(reshape),
        cmocka_unit_test(divisors_may_be_0),
        cmocka_unit_test(broadcast_of_a_reshape),
        cmocka_unit_test(equal_kernels_have_equal_names),
        cmocka_unit_test(huge_and_useless_kernels_are_refused),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
