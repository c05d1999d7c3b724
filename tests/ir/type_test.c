/*
 * type_test.c - dimensions and types
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

static const Dim n = {0, 1, 0}, m = {0, 1, 1};

static Dim
dim(int64_t c, int64_t k)
{
    return ir_dim_linear(c, k, 0);
}

static void
assert_dim(Dim have, int64_t c, int64_t k)
{
    assert_true(ir_dim_equal(have, dim(c, k)));
}

static void
makes_constants_of_no_rows(void **state)
{
    (void)state;
    assert_true(ir_dim_is_const(ir_dim_linear(7, 0, 0)));
    assert_true(ir_dim_is_const(ir_dim_linear(7, 3, -1)));
    assert_false(ir_dim_is_const(n));
    assert_int_equal(ir_dim_value(dim(3, 2), 5), 13);
    assert_int_equal(ir_dim_value(ir_dim_const(3), 5), 3);
    assert_true(ir_dim_equal(n, n));
    assert_false(ir_dim_equal(n, m));
}

static void
adds_and_subtracts(void **state)
{
    (void)state;
    Dim d;
    assert_true(ir_dim_add(ir_dim_const(7), ir_dim_const(0), &d));
    assert_dim(d, 7, 0);
    assert_true(ir_dim_add(n, dim(3, 2), &d));
    assert_dim(d, 3, 3);
    assert_true(ir_dim_add(ir_dim_const(1), n, &d));
    assert_dim(d, 1, 1);
    assert_true(ir_dim_sub(dim(3, 2), dim(1, 2), &d));
    assert_dim(d, 2, 0);
    assert_true(ir_dim_is_const(d));
    assert_false(ir_dim_add(n, m, &d));
    assert_false(ir_dim_sub(n, m, &d));
    assert_false(ir_dim_add(ir_dim_const(INT64_MAX), ir_dim_const(1), &d));
    assert_false(ir_dim_sub(dim(0, INT64_MIN), dim(0, 1), &d));
}

static void
multiplies(void **state)
{
    (void)state;
    Dim d;
    assert_true(ir_dim_mul(dim(3, 2), ir_dim_const(7), &d));
    assert_dim(d, 21, 14);
    assert_true(ir_dim_mul(ir_dim_const(0), n, &d));
    assert_true(ir_dim_is_const(d));
    assert_false(ir_dim_mul(n, n, &d));
    assert_false(ir_dim_mul(n, m, &d));
    assert_false(ir_dim_mul(ir_dim_const(INT64_MAX), ir_dim_const(2), &d));
    assert_false(ir_dim_mul(dim(0, INT64_MAX), ir_dim_const(2), &d));
}

static void
divides_exactly_or_not_at_all(void **state)
{
    (void)state;
    Dim d;
    assert_true(ir_dim_div(dim(6, 4), ir_dim_const(2), &d));
    assert_dim(d, 3, 2);
    assert_true(ir_dim_div(dim(6, 4), dim(3, 2), &d));
    assert_dim(d, 2, 0);
    assert_true(ir_dim_div(ir_dim_const(0), n, &d));
    assert_dim(d, 0, 0);
    assert_false(ir_dim_div(dim(6, 3), ir_dim_const(2), &d));
    assert_false(ir_dim_div(dim(1, 2), n, &d));
    assert_false(ir_dim_div(ir_dim_const(7), n, &d));
    assert_false(ir_dim_div(n, m, &d));
    assert_false(ir_dim_div(n, ir_dim_const(0), &d));
    assert_false(ir_dim_div(ir_dim_const(INT64_MIN), ir_dim_const(-1), &d));
}

static void
counts_elements(void **state)
{
    (void)state;
    Dim d;
    IrType t = {.dtype = DT_f32,
                .rank = 3,
                .dims = {n, ir_dim_const(3), ir_dim_const(7)}};
    assert_true(ir_type_elements(&t, &d));
    assert_dim(d, 0, 21);
    assert_false(ir_type_is_static(&t));
    t.dims[1] = ir_dim_const(0);
    assert_true(ir_type_elements(&t, &d));
    assert_dim(d, 0, 0);
    t.dims[1] = n;
    assert_false(ir_type_elements(&t, &d));
    t.rank = 0;
    assert_true(ir_type_elements(&t, &d));
    assert_dim(d, 1, 0);
    assert_true(ir_type_is_static(&t));
}

static void
compares_types(void **state)
{
    (void)state;
    IrType a = {.dtype = DT_f32, .rank = 1, .dims = {n}}, b = a;
    assert_true(ir_type_equal(&a, &b));
    b.dims[1] = m; /* beyond the rank */
    assert_true(ir_type_equal(&a, &b));
    b.locality = LOCAL_PER_REPLICA;
    assert_false(ir_type_equal(&a, &b));
    assert_true(ir_type_same_shape(&a, &b));
    b = a;
    b.dtype = DT_f64;
    assert_false(ir_type_equal(&a, &b));
    a.locality = b.locality = LOCAL_ON;
    b.dtype = DT_f32;
    a.on = "v";
    b.on = "w";
    assert_false(ir_type_equal(&a, &b));
}

/* n <= 4, N <= 8, b <= 3 alone */
static IrModule *
new_module(Arena *a)
{
    IrModule *module = ir_module_new(a, intern_new(a), diag_new(a));
    assert_int_equal(ir_symbol_pair(module, 4, 8), 0);
    assert_int_equal(ir_symbol_alone(module, 3), 2);
    return module;
}

static void
names_symbols(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    IrModule *module = new_module(a);
    assert_int_equal(ir_symbol_pair(module, 1, 2), 3);
    assert_string_equal(module->symbols.data[0].name, "n");
    assert_string_equal(module->symbols.data[1].name, "N");
    assert_string_equal(module->symbols.data[2].name, "b");
    assert_string_equal(module->symbols.data[3].name, "n1");
    assert_string_equal(module->symbols.data[4].name, "N1");
    assert_int_equal(module->symbols.data[4].partner, 3);
    assert_true(module->symbols.data[4].global);
    arena_release(a);
}

static void
names_what_each_replica_has(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    IrModule *module = new_module(a);
    module->num_replicas = 3;
    assert_int_equal(ir_symbol_find_replica(module, 0, 1), -1);
    assert_int_equal(ir_symbol_of_replica(module, 0, 1), 4);
    assert_int_equal(ir_symbol_of_replica(module, 0, 2), 5);
    assert_int_equal(ir_symbol_find_replica(module, 0, 0), 3);
    assert_int_equal(ir_symbol_find_replica(module, 1, 0), -1);
    assert_int_equal(module->symbols.len, 6);
    const IrSymbol *s = &module->symbols.data[4];
    assert_string_equal(s->name, "n_1");
    assert_int_equal(s->bound, 4);
    assert_false(ir_symbol_is_share(s) || ir_symbol_is_alone(s));
    IrType t = {.dtype = DT_f32, .rank = 1, .dims = {ir_dim_linear(0, 1, 4)}};
    assert_false(ir_type_is_local(module, &t)); /* all know it */
    arena_release(a);
}

static void
knows_bytes_at_the_bounds(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    IrModule *module = new_module(a);
    int64_t bytes;
    IrType t = {
        .dtype = DT_f32, .rank = 2, .dims = {dim(3, 2), ir_dim_const(7)}};
    assert_true(ir_type_bytes(module, &t, &bytes));
    assert_int_equal(bytes, 4 * 11 * 7);
    t.dims[1] = ir_dim_const(0);
    assert_true(ir_type_bytes(module, &t, &bytes));
    assert_int_equal(bytes, 0);
    t.dims[0] = dim(5, -1); /* 5 - n: from 1 to 5 */
    t.dims[1] = ir_dim_const(1);
    assert_true(ir_type_bytes(module, &t, &bytes));
    assert_int_equal(bytes, 20);
    t.dims[0] = dim(-1, 1); /* n - 1 may be -1 */
    assert_false(ir_type_bytes(module, &t, &bytes));
    t.dims[0] = dim(3, -1);
    assert_false(ir_type_bytes(module, &t, &bytes));
    t.dims[0] = ir_dim_const(IR_MAX_BYTES);
    assert_false(ir_type_bytes(module, &t, &bytes));
    t.dims[1] = ir_dim_const(0); /* nothing, but strides overflow */
    assert_false(ir_type_bytes(module, &t, &bytes));
    arena_release(a);
}

static void
fills_symbols_with_bounds(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    IrModule *module = new_module(a);
    IrType t = {.dtype = DT_f32,
                .rank = 3,
                .dims = {dim(1, 2), m, ir_dim_linear(0, 1, 2)}};
    assert_true(ir_type_is_local(module, &t));
    IrType full = ir_type_full(module, &t);
    assert_dim(full.dims[0], 9, 0);
    assert_dim(full.dims[1], 8, 0);
    assert_dim(full.dims[2], 3, 0);
    assert_false(ir_type_is_local(module, &full));
    t.dims[0] = ir_dim_const(1); /* N and b are not one replica's */
    assert_false(ir_type_is_local(module, &t));
    assert_string_equal(ir_type_text(module, &t), "f32[1, N, b]");
    t.dims[0] = dim(-3, -2);
    assert_string_equal(ir_dims_text(module, 1, t.dims), "[-2*n-3]");
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_constants_of_no_rows),
        cmocka_unit_test(adds_and_subtracts),
        cmocka_unit_test(multiplies),
        cmocka_unit_test(divides_exactly_or_not_at_all),
        cmocka_unit_test(counts_elements),
        cmocka_unit_test(compares_types),
        cmocka_unit_test(names_symbols),
        cmocka_unit_test(names_what_each_replica_has),
        cmocka_unit_test(knows_bytes_at_the_bounds),
        cmocka_unit_test(fills_symbols_with_bounds),
    };
    return cmocka_run_group_tests_name("ir types", tests, NULL, NULL);
}
