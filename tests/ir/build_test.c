/*
 * build_test.c - making, moving, replacing and copying operations
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/text/text.h"
#include "ir/type_text.h"

typedef struct Fixture {
    Arena *arena;
    IrModule *m;
    IrFunc *fn; /* a device program with two f32[n, 3] parameters */
    IrBlock *b;
    IrValue *x, *y;
    int32_t n;
} Fixture;

static Fixture
begin(void)
{
    Fixture f = {.arena = arena_new(NULL, "test")};
    f.m = ir_module_new(f.arena, intern_new(f.arena), diag_new(f.arena));
    f.m->phase = PHASE_REPLICATED;
    f.m->num_replicas = 2;
    f.n = ir_symbol_pair(f.m, 4, 8);
    f.fn = ir_func_new(f.m, "f", FUNC_PROGRAM, NO_LOC);
    f.b = f.fn->body;
    IrType t = {.dtype = DT_f32,
                .locality = LOCAL_PER_REPLICA,
                .rank = 2,
                .dims = {ir_dim_linear(0, 1, f.n), ir_dim_const(3)}};
    f.x = ir_block_arg(f.b, t, "x");
    f.y = ir_block_arg(f.b, t, "y");
    return f;
}

/* The body of f.fn is that text, each line without its indentation. */
static void
assert_body(const Fixture *f, const char *want)
{
    Str s = str_new(f->arena), lines = str_new(f->arena);
    ir_print_func(&s, f->fn);
    const char *p = strchr(str_text(&s), '\n') + 1;
    while (*p != '}') {
        size_t n = strcspn(p, "\n");
        str_addn(&lines, p + 2, n - 1);
        p += n + 1;
    }
    assert_string_equal(str_text(&lines), want);
}

static void
builders_infer(void **state)
{
    (void)state;
    Fixture f = begin();
    const int64_t axes[] = {1}, perm[] = {1, 0};
    const int64_t start[] = {0, 1}, step[] = {1, 1};
    Dim half[] = {f.x->type.dims[0], ir_dim_const(2)};
    Dim flat[] = {ir_dim_linear(0, 3, f.n)};
    IrValue *s = ir_build2(f.b, OP_add, f.x, f.y, NO_LOC);
    ir_build_reduce(f.b, OP_sum, s, axes, 1, true, NO_LOC);
    ir_build_transpose(f.b, s, perm, NO_LOC);
    ir_build_slice(f.b, s, start, half, step, NO_LOC);
    ir_build_reshape(f.b, s, 1, flat, NO_LOC);
    ir_build_iota(f.b, DT_i32, 2, half, 1, NO_LOC);
    ir_build_dot(f.b, f.x, f.y,
                 &(IrDotAxes){.contract_x = axes,
                              .contract_y = axes,
                              .num_contract = 1,
                              .batch_x = start,
                              .batch_y = start,
                              .num_batch = 1},
                 NO_LOC);
    ir_build_dim_size(f.b, half[0], NO_LOC);
    assert_body(&f,
                "%0: f32[n, 3] per_replica = add %x, %y\n"
                "%1: f32[n, 1] per_replica = sum %0 {axes=[1] keepdims=true}\n"
                "%2: f32[3, n] per_replica = transpose %0 {perm=[1, 0]}\n"
                "%3: f32[n, 2] per_replica = slice %0 {start=[0, 1] dims=[n, "
                "2] step=[1, 1]}\n"
                "%4: f32[3*n] per_replica = reshape %0 {dims=[3*n]}\n"
                "%5: i32[n, 2] per_replica = iota {dims=[n, 2] dtype=i32 "
                "axis=1}\n"
                "%6: f32[n] per_replica = dot %x, %y {contract_x=[1] "
                "contract_y=[1] batch_x=[0] batch_y=[0]}\n"
                "%7: i64 per_replica = dim_size {dims=[n]}\n");
    arena_release(f.arena);
}

static void
builders_spare_what_is_there(void **state)
{
    (void)state;
    Fixture f = begin();
    const IrType *t = &f.x->type;
    assert_ptr_equal(ir_build_cast(f.b, f.x, DT_f32, NO_LOC), f.x);
    assert_ptr_equal(ir_build_reshape(f.b, f.x, 2, t->dims, NO_LOC), f.x);
    assert_ptr_equal(ir_build_broadcast(f.b, f.x, 2, t->dims, NO_LOC), f.x);
    assert_null(f.b->first);
    arena_release(f.arena);
}

static void
constants_are_known(void **state)
{
    (void)state;
    Fixture f = begin();
    Scalar s;
    Dim dims[] = {ir_dim_const(2)};
    const float equal[] = {7, 7}, other[] = {7, 8};
    assert_true(ir_const_known(ir_const_float(f.b, DT_bf16, 0.5, NO_LOC), &s));
    assert_true(s.dtype == DT_bf16 && s.f == 0.5);
    assert_true(ir_const_known(ir_const_int(f.b, DT_u8, 300, NO_LOC), &s));
    assert_int_equal(s.i, 44); /* wraps */
    assert_true(ir_const_known(ir_const_bool(f.b, true, NO_LOC), &s));
    assert_int_equal(s.i, 1);
    assert_true(ir_const_known(ir_const_zeros(f.b, &f.x->type, NO_LOC), &s));
    assert_true(s.f == 0);
    IrValue *v = ir_const_data(f.b, DT_f32, 1, dims, equal, NO_LOC);
    assert_true(ir_const_known(v, &s) && s.f == 7);
    v = ir_const_data(f.b, DT_f32, 1, dims, other, NO_LOC);
    assert_false(ir_const_known(v, &s));
    assert_false(ir_const_known(f.x, &s));
    arena_release(f.arena);
}

static void
errors_are_words(void **state)
{
    (void)state;
    Fixture f = begin();
    IrValue *i = ir_const_int(f.b, DT_i32, 1, NO_LOC);
    IrOp *op = ir_op_new(f.fn, OP_add, 2, (IrValue *[]){f.x, i}, NO_LOC);
    assert_string_equal(ir_op_infer(op, f.b),
                        "cannot add f32 and i32: there is no silent change of "
                        "dtype; cast one of them");
    op = ir_op_new(f.fn, OP_add, 1, &f.x, NO_LOC);
    assert_string_equal(ir_op_infer(op, f.b), "add takes 2 operands, not 1");
    op = ir_op_new(f.fn, OP_sum, 1, &f.x, NO_LOC);
    assert_string_equal(ir_op_infer(op, f.b), "sum needs the attribute axes");
    assert_int_equal(op->num_results, 0);
    arena_release(f.arena);
}

static void
infers_again_in_place(void **state)
{
    (void)state;
    Fixture f = begin();
    IrValue *s = ir_build2(f.b, OP_add, f.x, f.y, NO_LOC);
    IrValue *c = ir_const_zeros(
        f.b, &(IrType){.dtype = DT_f32, .rank = 1, .dims = {ir_dim_const(3)}},
        NO_LOC);
    s->def->operands[0] = s->def->operands[1] = c;
    assert_null(ir_op_infer(s->def, f.b));
    assert_ptr_equal(s->def->results[0], s);
    assert_string_equal(ir_type_text(f.m, &s->type), "f32[3] mirrored");
    arena_release(f.arena);
}

static void
attributes_come_back(void **state)
{
    (void)state;
    Fixture f = begin();
    IrOp *op = ir_op_new(f.fn, OP_sum, 1, &f.x, NO_LOC);
    int count;
    assert_false(ir_has(op, A_axes));
    assert_false(ir_has(op, A_var)); /* it has no such row */
    assert_null(ir_ints(op, A_axes, &count));
    assert_int_equal(count, 0);
    assert_int_equal(ir_int(op, A_keepdims), 0);
    ir_set_ints(op, A_axes, (int64_t[]){0, 1}, 2);
    ir_set_int(op, A_keepdims, 1);
    assert_int_equal(ir_ints(op, A_axes, &count)[1], 1);
    assert_int_equal(count, 2);
    assert_true(ir_int(op, A_keepdims));
    op = ir_op_new(f.fn, OP_write, 1, &f.x, NO_LOC);
    ir_set_text(op, A_var, "w");
    assert_ptr_equal(ir_text(op, A_var), intern(f.m->names, "w"));
    ir_set_text(op, A_var, NULL);
    assert_false(ir_has(op, A_var));
    ir_set_enum(op, A_mode, UPDATE_sub);
    assert_int_equal(ir_enum(op, A_mode), UPDATE_sub);
    assert_string_equal(ir_enum_word(op, A_mode), "sub");
    assert_false(ir_attr_allows(ir_attr_info(OP_write, A_mode), UPDATE_max));
    assert_false(ir_attr_allows(ir_attr_info(OP_write, A_mode), -1));
    arena_release(f.arena);
}

static void
attributes_compare_and_hash(void **state)
{
    (void)state;
    Fixture f = begin();
    Dim n = ir_dim_linear(0, 1, f.n), c = ir_dim_const(3);
    IrOp *a = ir_build_iota(f.b, DT_i32, 1, &n, 0, NO_LOC)->def;
    IrOp *b = ir_build_iota(f.b, DT_i32, 1, &n, 0, NO_LOC)->def;
    IrOp *d = ir_build_iota(f.b, DT_i32, 1, &c, 0, NO_LOC)->def;
    IrOp *e = ir_build_iota(f.b, DT_i64, 1, &n, 0, NO_LOC)->def;
    assert_true(ir_attrs_equal(a, b));
    assert_true(ir_attrs_hash(a) == ir_attrs_hash(b));
    assert_false(ir_attrs_equal(a, d));
    assert_false(ir_attrs_equal(a, e));
    assert_true(ir_attrs_hash(a) != ir_attrs_hash(d));
    IrOp *copy = ir_op_new(f.fn, OP_iota, 0, NULL, NO_LOC);
    ir_attrs_copy(copy, a);
    assert_true(ir_attrs_equal(copy, a));
    arena_release(f.arena);
}

static void
operations_move(void **state)
{
    (void)state;
    Fixture f = begin();
    IrOp *neg = ir_build1(f.b, OP_neg, f.x, NO_LOC)->def;
    IrOp *exp = ir_build1(f.b, OP_exp, f.x, NO_LOC)->def;
    IrBlock *scratch = ir_block_scratch(exp);
    ir_build1(scratch, OP_log, f.x, NO_LOC);
    ir_build1(scratch, OP_sin, f.x, NO_LOC);
    ir_stamp(scratch, ir_reason(f.m, "test.rule", (Loc){1, 2, 3, 0}, "%s %d",
                                "operand", 7));
    ir_splice_before(exp, scratch);
    assert_null(scratch->first);
    ir_build1(scratch, OP_cos, f.x, NO_LOC);
    ir_splice_after(exp, scratch);
    ir_splice_after(exp, scratch); /* nothing to move */
    ir_remove(neg);
    assert_null(neg->block);
    ir_insert_before(exp->next, neg);
    assert_body(&f, "%0: f32[n, 3] per_replica = log %x because test.rule "
                    "\"operand 7\" at 1:2+3\n"
                    "%1: f32[n, 3] per_replica = sin %x because test.rule "
                    "\"operand 7\" at 1:2+3\n"
                    "%2: f32[n, 3] per_replica = exp %x\n"
                    "%3: f32[n, 3] per_replica = neg %x\n"
                    "%4: f32[n, 3] per_replica = cos %x\n");
    arena_release(f.arena);
}

/* Regions that move to another function are that function's. */
static void
regions_are_adopted(void **state)
{
    (void)state;
    Fixture f = begin();
    IrFunc *other = ir_func_new(f.m, "g", FUNC_PROGRAM, NO_LOC);
    IrValue *yes = ir_const_bool(f.b, true, NO_LOC);
    IrOp *outer = ir_build_op(f.b, OP_if, 1, &yes, NO_LOC);
    IrOp *inner = ir_build_op(outer->regions[0], OP_if, 1, &yes, NO_LOC);
    ir_remove(outer);
    ir_append(other->body, outer);
    assert_ptr_equal(inner->regions[1]->func, other);
    ir_func_remove(f.fn);
    assert_ptr_equal(f.m->first, other);
    assert_null(ir_func_find(f.m, "f"));
    arena_release(f.arena);
}

static void
uses_are_counted_and_forwarded(void **state)
{
    (void)state;
    Fixture f = begin();
    IrValue *a = ir_build2(f.b, OP_add, f.x, f.x, NO_LOC);
    IrValue *b = ir_build1(f.b, OP_neg, a, NO_LOC);
    IrValue *c = ir_build1(f.b, OP_neg, b, NO_LOC);
    ir_build_return(f.b, 2, (IrValue *[]){c, a}, NO_LOC);
    ir_count_uses(f.fn);
    assert_int_equal(f.x->num_uses, 2);
    assert_int_equal(f.y->num_uses, 0);
    assert_int_equal(a->num_uses, 2);
    ir_forward(c, b); /* a chain */
    ir_forward(b, a);
    ir_apply_forwards(f.fn);
    assert_ptr_equal(ir_func_return(f.fn)->operands[0], a);
    assert_ptr_equal(c->def->operands[0], a);
    ir_count_uses(f.fn);
    assert_int_equal(a->num_uses, 4);
    assert_int_equal(c->num_uses, 0);
    arena_release(f.arena);
}

static void
remove_negs(IrOp *op, void *data)
{
    (*(int *)data)++;
    if (op->kind == OP_neg || op->kind == OP_if)
        ir_remove(op);
}

static void
walks_while_removing(void **state)
{
    (void)state;
    Fixture f = begin();
    int num_visited = 0;
    IrValue *yes = ir_const_bool(f.b, true, NO_LOC);
    ir_build1(f.b, OP_neg, f.x, NO_LOC);
    ir_build1(f.b, OP_neg, f.x, NO_LOC);
    IrOp *branch = ir_build_op(f.b, OP_if, 1, &yes, NO_LOC);
    ir_build1(branch->regions[0], OP_exp, f.x, NO_LOC); /* goes with it */
    ir_build1(f.b, OP_exp, f.x, NO_LOC);
    ir_walk(f.b, remove_negs, &num_visited);
    assert_int_equal(num_visited, 5);
    assert_ptr_equal(f.b->first->next, f.b->last);
    arena_release(f.arena);
}

static void
clones_map_values(void **state)
{
    (void)state;
    Fixture f = begin();
    IrFunc *other = ir_func_new(f.m, "g", FUNC_PROGRAM, NO_LOC);
    IrValue *p = ir_block_arg(other->body, f.x->type, "p");
    IrValue *count = ir_const_int(f.b, DT_i32, 3, NO_LOC);
    IrValue *init = ir_build1(f.b, OP_neg, f.x, NO_LOC);
    IrOp *loop =
        ir_build_op(f.b, OP_for, 2, (IrValue *[]){count, init}, NO_LOC);
    ir_block_arg(loop->regions[0], count->type, "i");
    IrValue *acc = ir_block_arg(loop->regions[0], init->type, "acc");
    IrValue *sum = ir_build2(loop->regions[0], OP_add, acc, f.y, NO_LOC);
    ir_build_yield(loop->regions[0], 1, &sum, NO_LOC);
    ir_op_close(loop);
    ir_build_return(f.b, 1, loop->results, NO_LOC);

    IrCloneMap *map = ir_clone_map(f.arena);
    ir_clone_set(map, f.x, p);
    ir_clone_body(map, f.b, other->body);
    assert_ptr_equal(ir_clone_get(map, f.y), f.y); /* unknown: as it is */
    ir_clone_set(map, f.y, p);
    assert_ptr_not_equal(ir_clone_get(map, sum), sum);
    f.fn = other;
    assert_body(&f, "%0: i32 mirrored = constant {dims=[] dtype=i32 data=[3]}\n"
                    "%1: f32[n, 3] per_replica = neg %p\n"
                    "%2: f32[n, 3] per_replica = for %0, %1 (%i: i32 mirrored, "
                    "%acc: f32[n, 3] per_replica) {\n"
                    "  %3: f32[n, 3] per_replica = add %acc, %?\n"
                    "  yield %3\n"
                    "}\n"
                    "return %2\n");
    arena_release(f.arena);
}

static void
lists_collectives_in_order(void **state)
{
    (void)state;
    Fixture f = begin();
    int count;
    IrValue *s = ir_build_sum_all(f.b, f.x, NO_LOC);
    IrValue *n = ir_const_int(f.b, DT_i32, 2, NO_LOC);
    IrOp *loop = ir_build_op(f.b, OP_for, 1, &n, NO_LOC);
    IrOp *first = ir_build_all_reduce(loop->regions[0], AGG_sum, 1, &s, NO_LOC);
    IrValue *second = ir_build_all_gather(f.b, f.x, 0, NO_LOC);
    IrOp **ops = ir_collectives(f.fn, f.arena, &count);
    assert_int_equal(count, 2);
    assert_ptr_equal(ops[0], first);
    assert_ptr_equal(ops[1], second->def);
    assert_string_equal(ir_type_text(f.m, &second->type), "f32[N, 3] mirrored");
    arena_release(f.arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builders_infer),
        cmocka_unit_test(builders_spare_what_is_there),
        cmocka_unit_test(constants_are_known),
        cmocka_unit_test(errors_are_words),
        cmocka_unit_test(infers_again_in_place),
        cmocka_unit_test(attributes_come_back),
        cmocka_unit_test(attributes_compare_and_hash),
        cmocka_unit_test(operations_move),
        cmocka_unit_test(regions_are_adopted),
        cmocka_unit_test(uses_are_counted_and_forwarded),
        cmocka_unit_test(walks_while_removing),
        cmocka_unit_test(clones_map_values),
        cmocka_unit_test(lists_collectives_in_order),
    };
    return cmocka_run_group_tests_name("ir building", tests, NULL, NULL);
}
