/*
 * table_test.c - side tables by number, and analyses that keep to their own
 */
#include "tests/unit/unit.h"

#include "ir/analysis/lifetime.h"
#include "ir/analysis/live_range.h"
#include "ir/base/diag.h"
#include "ir/rules/build.h"
#include "ir/table.h"

static Arena *arena;

static int
set_up(void **state)
{
    (void)state;
    arena = arena_new(NULL, "table test");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    arena_release(arena);
    return 0;
}

typedef IR_TABLE(int) Ints;

static void
an_empty_table_has_no_slot(void **state)
{
    Ints t = {0};
    (void)state;
    assert_null(IR_TABLE_FIND(t, 0));
    assert_null(IR_TABLE_FIND(t, 1 << 30));
}

/* In an order in which the directory grows at both ends. */
static void
slots_keep_their_place(void **state)
{
    static const int numbers[] = {5000, 4999, 5031, 9000, 0, 100000, 31, 32};
    enum { N = sizeof numbers / sizeof *numbers };
    Ints t = {0};
    int *slots[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        assert_null(IR_TABLE_FIND(t, 123456));
        slots[i] = IR_TABLE_SLOT(arena, t, numbers[i]);
        assert_int_equal(*slots[i], 0);
        *slots[i] = numbers[i] + 1;
    }
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(IR_TABLE_FIND(t, numbers[i]), slots[i]);
        assert_ptr_equal(IR_TABLE_SLOT(arena, t, numbers[i]), slots[i]);
        assert_int_equal(*slots[i], numbers[i] + 1);
    }
}

/* A table of few numbers is small, however large they are. */
static void
a_table_is_as_small_as_what_it_holds(void **state)
{
    Ints t = {0};
    (void)state;
    size_t before = arena_bytes(arena);
    for (int i = 0; i < 64; i++)
        *IR_TABLE_SLOT(arena, t, 100000000 + i) = i;
    assert_true(arena_bytes(arena) - before < 2048);
}

/* main: a = 1; b = a + a; return. */
static IrFunc *
small_main(IrModule *m)
{
    IrFunc *fn = ir_func_new(m, "main", FUNC_MAIN, NO_LOC);
    IrValue *a = ir_const_float(fn->body, DT_f32, 1, NO_LOC);
    ir_build2(fn->body, OP_add, a, a, NO_LOC);
    ir_build_return(fn->body, 0, NULL, NO_LOC);
    return fn;
}

static void
numbers_are_given_once(void **state)
{
    (void)state;
    IrModule *m = ir_module_new(arena, intern_new(arena), diag_new(arena));
    const IrFunc *fn = small_main(m);
    IrOp *add = fn->body->first->next;
    int number = add->number, num_ops = m->num_ops;
    assert_int_equal(num_ops, 3);
    assert_int_equal(m->num_values, 2);
    assert_int_not_equal(fn->body->first->results[0]->number,
                         add->results[0]->number);
    ir_remove(add);
    ir_insert_before(fn->body->last, add);
    assert_int_equal(add->number, number);
    ir_remove(add);
    IrValue *x = fn->body->first->results[0];
    IrOp *later = ir_build2(fn->body, OP_mul, x, x, NO_LOC)->def;
    assert_int_equal(later->number, num_ops);
}

/* Another analysis of the same function, in the middle, changes nothing. */
static void
analyses_keep_to_their_own(void **state)
{
    (void)state;
    IrModule *m = ir_module_new(arena, intern_new(arena), diag_new(arena));
    const IrFunc *fn = small_main(m);
    const IrOp *add = fn->body->first->next;
    IrLifetimes l = {.arena = arena}, other = {.arena = arena};
    ir_lifetimes_find(&l, fn);
    Lifetime *life = ir_lifetime_of(&l, add->operands[0]);
    Buffer *merged = ir_buffer_of(&l, add->operands[0]);
    ir_buffers_merge(merged, ir_buffer_of(&l, add->results[0]));
    ir_lifetimes_find(&other, fn);
    ir_live_ranges(&other, fn, SPACE_FRAME, 0);
    assert_ptr_equal(ir_lifetime_of(&l, add->operands[0]), life);
    assert_int_equal(life->last_use, ir_span_of(&l, add)->begin);
    assert_ptr_equal(ir_buffer_of(&l, add->results[0]), merged);
    assert_ptr_not_equal(ir_buffer_of(&other, add->operands[0]),
                         ir_buffer_of(&other, add->results[0]));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_no_slot),
        cmocka_unit_test(slots_keep_their_place),
        cmocka_unit_test(a_table_is_as_small_as_what_it_holds),
        cmocka_unit_test(numbers_are_given_once),
        cmocka_unit_test(analyses_keep_to_their_own),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
