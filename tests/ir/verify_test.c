/*
 * verify_test.c - faults of passes that no text can express
 *
 * Faults that text can express are in tests/ir/bad.
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/verify/verify.h"

typedef struct Fixture {
    Arena *arena;
    IrModule *m;
    IrFunc *fn; /* of a dataset: neg of its one f32 parameter */
    IrBlock *b;
    IrValue *x;
    IrOp *neg;
} Fixture;

static Fixture
begin(void)
{
    Fixture f = {.arena = arena_new(NULL, "test")};
    f.m = ir_module_new(f.arena, intern_new(f.arena), diag_new(f.arena));
    f.fn = ir_func_new(f.m, "f", FUNC_HOST, NO_LOC);
    f.b = f.fn->body;
    f.x = ir_block_arg(f.b, ir_type_scalar(DT_f32, LOCAL_HOST), "x");
    f.neg = ir_build1(f.b, OP_neg, f.x, NO_LOC)->def;
    ir_build_return(f.b, 1, f.neg->results, NO_LOC);
    assert_true(ir_verify(f.m, f.m->diag));
    return f;
}

static void
assert_refused(Fixture *f, const char *want)
{
    assert_false(ir_verify(f->m, f->m->diag));
    const char *said = diag_text(f->m->diag, f->arena);
    if (!strstr(said, want))
        fail_msg("wanted: %s\nsaid: %s", want, said);
    arena_release(f->arena);
}

static void
finds_operands_that_were_removed(void **state)
{
    (void)state;
    Fixture f = begin();
    f.neg->results[0]->id = 1; /* as a pass may leave it */
    ir_remove(f.neg);
    assert_refused(&f, "an operand is not visible here");
}

static void
finds_operands_of_other_functions(void **state)
{
    (void)state;
    Fixture f = begin();
    IrFunc *other = ir_func_new(f.m, "g", FUNC_HOST, NO_LOC);
    IrValue *y =
        ir_block_arg(other->body, ir_type_scalar(DT_f32, LOCAL_HOST), "y");
    y->id = 1;
    ir_build_return(other->body, 0, NULL, NO_LOC);
    f.neg->operands[0] = y;
    assert_refused(&f, "an operand is not visible here");
}

static void
finds_uses_before_definitions(void **state)
{
    (void)state;
    Fixture f = begin();
    IrOp *first = ir_op_new(f.fn, OP_exp, 1, f.neg->results, NO_LOC);
    assert_null(ir_op_infer(first, f.b));
    ir_insert_before(f.neg, first);
    assert_refused(&f, "an operand is not visible here");
}

static void
finds_types_that_were_not_inferred_again(void **state)
{
    (void)state;
    Fixture f = begin();
    f.x->type.rank = 1;
    f.x->type.dims[0] = ir_dim_const(7);
    assert_refused(&f, "the result is f32[7]");
}

static void
finds_types_that_cannot_be(void **state)
{
    (void)state;
    Fixture f = begin();
    f.neg->results[0]->type.rank = 1;
    f.neg->results[0]->type.dims[0] = (Dim){0, 1, 5};
    assert_refused(&f, "a value of neg has a type that cannot be");
    f = begin();
    f.neg->results[0]->type.rank = IR_MAX_RANK + 1;
    assert_refused(&f, "a value of neg has a type that cannot be");
    f = begin();
    f.x->type.dtype = NUM_DTYPES;
    assert_refused(&f, "a parameter of @f has a type that cannot be");
}

static void
finds_attributes_that_cannot_be(void **state)
{
    (void)state;
    Fixture f = begin();
    IrOp *op = ir_op_new(f.fn, OP_dim_size, 0, NULL, NO_LOC);
    ir_set_dims(op, A_dims, (Dim[]){{0, 1, 5}}, 1);
    ir_op_results(op, 1, (IrType[]){{.dtype = DT_i64}});
    ir_insert_before(f.neg, op);
    assert_refused(&f, "dim_size names a batch symbol that is none");
}

static void
finds_missing_regions(void **state)
{
    (void)state;
    Fixture f = begin();
    IrValue *yes = ir_const_bool(f.b, true, NO_LOC);
    IrOp *returns = ir_func_return(f.fn);
    assert_null(returns); /* the constant comes after it */
    IrOp *op = ir_op_new(f.fn, OP_if, 1, &yes, NO_LOC);
    ir_append(f.b, op);
    assert_refused(&f, "a region is missing");
}

static void
finds_wrong_numbers_of_results(void **state)
{
    (void)state;
    Fixture f = begin();
    f.neg->num_results = 0;
    assert_refused(&f, "another number of results than its kind has");
    f = begin();
    IrOp *op = ir_op_new(f.fn, OP_all_reduce, 1, &f.x, NO_LOC);
    ir_set_enum(op, A_op, AGG_sum);
    ir_op_results(op, 2, (IrType[]){f.x->type, f.x->type});
    ir_insert_before(f.neg, op);
    assert_refused(&f, "1 results, not 2");
}

static void
finds_modules_that_cannot_be(void **state)
{
    (void)state;
    Fixture f = begin();
    f.m->num_replicas = 0;
    assert_refused(&f, "there are no replicas");
    f = begin();
    ir_symbol_alone(f.m, 4);
    f.m->symbols.data[0].bound = -1;
    assert_refused(&f, "the batch symbol b is not sound");
    f = begin();
    IrIter *it = NEW(f.arena, IrIter);
    *it = (IrIter){.name = "it", .workers = WORKER_SHARD_DATA, .rows = -1};
    VEC_PUSH(f.arena, f.m->iters, it);
    assert_refused(&f, "\"it\" is shared by no workers");
}

static void
stops_after_twenty(void **state)
{
    (void)state;
    Fixture f = begin();
    for (uint32_t i = 1; i < 100; i++) {
        IrOp *op = ir_op_new(f.fn, OP_exp, 1, &f.x, (Loc){i, 1, 1, 0});
        ir_op_results(op, 1, (IrType[]){{.dtype = DT_f64}});
        ir_insert_before(f.neg, op);
    }
    diag_add_source(f.m->diag, "a", NULL, 0);
    assert_false(ir_verify(f.m, f.m->diag));
    assert_int_equal(diag_num_errors(f.m->diag), 20);
    arena_release(f.arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_operands_that_were_removed),
        cmocka_unit_test(finds_operands_of_other_functions),
        cmocka_unit_test(finds_uses_before_definitions),
        cmocka_unit_test(finds_types_that_were_not_inferred_again),
        cmocka_unit_test(finds_types_that_cannot_be),
        cmocka_unit_test(finds_attributes_that_cannot_be),
        cmocka_unit_test(finds_missing_regions),
        cmocka_unit_test(finds_wrong_numbers_of_results),
        cmocka_unit_test(finds_modules_that_cannot_be),
        cmocka_unit_test(stops_after_twenty),
    };
    return cmocka_run_group_tests_name("ir verifier", tests, NULL, NULL);
}
