/*
 * locality_test.c - contexts, and localities through control flow
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/type_text.h"
#include "ir/verify/verify.h"

typedef struct Fixture {
    Arena *arena;
    IrModule *m;
    IrBlock *main;
} Fixture;

static Fixture
begin(void)
{
    Fixture f = {.arena = arena_new(NULL, "test")};
    f.m = ir_module_new(f.arena, intern_new(f.arena), diag_new(f.arena));
    f.m->num_replicas = 2;
    f.main = ir_func_new(f.m, "main", FUNC_MAIN, NO_LOC)->body;
    return f;
}

static void
add_var(Fixture *f, const char *name, VarSync sync)
{
    IrVar *var = NEW(f->arena, IrVar);
    var->name = intern(f->m->names, name);
    var->type = ir_type_scalar(DT_f32, LOCAL_HOST);
    var->sync = sync;
    ir_var_add(f->m, var);
}

static IrBlock *
region(IrBlock *b, IrOpKind kind)
{
    return ir_build_op(b, kind, 0, NULL, NO_LOC)->regions[0];
}

static Locality
constant_in(IrBlock *b)
{
    return ir_const_int(b, DT_i32, 1, NO_LOC)->type.locality;
}

static void
contexts_are_structure(void **state)
{
    (void)state;
    Fixture f = begin();
    IrBlock *run = region(f.main, OP_run);
    IrBlock *merge = region(run, OP_merge);
    IrBlock *update = region(merge, OP_update);
    IrValue *yes = ir_const_bool(run, true, NO_LOC);
    IrBlock *branch = ir_build_op(run, OP_if, 1, &yes, NO_LOC)->regions[1];
    assert_int_equal(ir_context(f.main), CX_CROSS);
    assert_int_equal(ir_context(run), CX_REPLICA);
    assert_int_equal(ir_context(branch), CX_REPLICA);
    assert_int_equal(ir_context(merge), CX_MERGE);
    assert_int_equal(ir_context(update), CX_UPDATE);
    assert_null(ir_context_op(f.main));
    assert_ptr_equal(ir_context_op(branch), run->op);
    assert_int_equal(constant_in(f.main), LOCAL_HOST);
    assert_int_equal(constant_in(run), LOCAL_MIRRORED);
    assert_int_equal(constant_in(merge), LOCAL_MIRRORED);
    arena_release(f.arena);
}

/* A device program is a piece of main until communicate has lowered it. */
static void
programs_become_replica_context(void **state)
{
    (void)state;
    Fixture f = begin();
    IrBlock *b = ir_func_new(f.m, "p", FUNC_PROGRAM, NO_LOC)->body;
    IrBlock *host = ir_func_new(f.m, "h", FUNC_HOST, NO_LOC)->body;
    assert_int_equal(ir_context(b), CX_CROSS);
    assert_int_equal(constant_in(b), LOCAL_MIRRORED);
    f.m->phase = PHASE_REPLICATED;
    assert_int_equal(ir_context(b), CX_REPLICA);
    assert_int_equal(ir_context(host), CX_CROSS);
    assert_int_equal(constant_in(host), LOCAL_HOST);
    arena_release(f.arena);
}

static void
reads_depend_on_context(void **state)
{
    (void)state;
    Fixture f = begin();
    add_var(&f, "w", SYNC_ON_WRITE);
    add_var(&f, "seen", SYNC_ON_READ);
    IrBlock *run = region(f.main, OP_run);
    IrBlock *merge = region(run, OP_merge);
    IrBlock *update = region(merge, OP_update);
    static const Locality w[] = {LOCAL_HOST, LOCAL_MIRRORED, LOCAL_MIRRORED,
                                 LOCAL_MIRRORED};
    static const Locality seen[] = {LOCAL_HOST, LOCAL_PER_REPLICA,
                                    LOCAL_MIRRORED, LOCAL_PER_REPLICA};
    IrBlock *const blocks[] = {f.main, run, merge, update};
    for (int i = 0; i < 4; i++) {
        IrValue *v = ir_build_read(blocks[i], "w", NO_LOC);
        assert_int_equal(v->type.locality, w[i]);
        v = ir_build_read(blocks[i], "seen", NO_LOC);
        assert_int_equal(v->type.locality, seen[i]);
    }
    arena_release(f.arena);
}

static IrValue *
broadcast_to(IrBlock *b, IrValue *x, const char *var)
{
    IrOp *op = ir_build_op(b, OP_broadcast_to, 1, &x, NO_LOC);
    if (var)
        ir_set_text(op, A_var, var);
    return ir_build_infer(op);
}

static void
values_join(void **state)
{
    (void)state;
    Fixture f = begin();
    add_var(&f, "v", SYNC_ON_WRITE);
    add_var(&f, "w", SYNC_ON_WRITE);
    IrValue *host = ir_const_float(f.main, DT_f32, 1, NO_LOC);
    IrValue *all = broadcast_to(f.main, host, NULL);
    IrValue *on_v = broadcast_to(f.main, host, "v");
    IrValue *on_w = broadcast_to(f.main, host, "w");
    const struct {
        IrValue *x, *y;
        const char *want;
    } rows[] = {
        {host, host, "f32"},          {host, all, "f32 mirrored"},
        {all, on_v, "f32 on(@v)"},    {on_v, on_v, "f32 on(@v)"},
        {on_v, on_w, "f32 mirrored"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        IrValue *z = ir_build2(f.main, OP_add, rows[i].x, rows[i].y, NO_LOC);
        assert_string_equal(ir_type_text(f.m, &z->type), rows[i].want);
    }
    IrValue *xs[] = {on_v, on_w, on_v}; /* whatever the order */
    for (int i = 0; i < 3; i++)
        xs[i] = ir_build_reshape(f.main, xs[i], 1, (Dim[]){ir_dim_const(1)},
                                 NO_LOC);
    IrValue *c = ir_build_concat(f.main, 3, xs, 0, NO_LOC);
    assert_string_equal(ir_type_text(f.m, &c->type), "f32[3] mirrored");
    arena_release(f.arena);
}

/* if (per-replica) { yield 1 } else { yield 1 } */
static void
branches_diverge(void **state)
{
    (void)state;
    Fixture f = begin();
    IrBlock *run = region(f.main, OP_run);
    IrValue *id = ir_build0(run, OP_replica_id, NO_LOC);
    IrValue *one = ir_const_int(run, DT_i32, 1, NO_LOC);
    IrValue *conditions[] = {ir_build2(run, OP_eq, id, one, NO_LOC),
                             ir_build2(run, OP_eq, one, one, NO_LOC)};
    for (int i = 0; i < 2; i++) {
        IrOp *op = ir_build_op(run, OP_if, 1, &conditions[i], NO_LOC);
        ir_build_yield(op->regions[0], 1, &one, NO_LOC);
        ir_build_yield(op->regions[1], 1, &one, NO_LOC);
        ir_op_close(op);
        assert_int_equal(op->results[0]->type.locality,
                         i ? LOCAL_MIRRORED : LOCAL_PER_REPLICA);
        assert_ptr_equal(ir_divergence(op->regions[1]), i ? NULL : op);
        /* The condition around a merge is checked at the merge. */
        assert_null(ir_divergence(region(op->regions[0], OP_merge)));
    }
    assert_null(ir_divergence(run));
    arena_release(f.arena);
}

/* for 3 (i, a = 1, b = 1, c = 1) yield a, a + b, id: one round passes the
 * locality of c to no other, that of b to none, that of c to c; `rotate` shifts
 * them. */
static void
loops_settle(void **state)
{
    (void)state;
    Fixture f = begin();
    IrBlock *run = region(f.main, OP_run);
    IrValue *id = ir_build0(run, OP_replica_id, NO_LOC);
    IrValue *one = ir_const_int(run, DT_i32, 1, NO_LOC);
    IrOp *loop =
        ir_build_op(run, OP_for, 4, (IrValue *[]){one, one, one, one}, NO_LOC);
    IrBlock *body = loop->regions[0];
    IrValue *i = ir_block_arg(body, one->type, "i");
    IrValue *a = ir_block_arg(body, id->type, "a"); /* too great */
    IrValue *b = ir_block_arg(body, one->type, "b");
    IrValue *c = ir_block_arg(body, one->type, "c");
    IrValue *sum = ir_build2(body, OP_add, a, i, NO_LOC);
    IrOp *yield = ir_build_yield(body, 3, (IrValue *[]){sum, c, id}, NO_LOC);
    ir_op_close(loop);
    ir_build_yield(run, 3, loop->results, NO_LOC);
    ir_op_close(run->op);
    ir_build_return(f.main, 0, NULL, NO_LOC);
    ir_infer_localities(f.main->func);
    assert_int_equal(i->type.locality, LOCAL_MIRRORED);
    assert_int_equal(a->type.locality, LOCAL_MIRRORED);
    assert_int_equal(b->type.locality, LOCAL_PER_REPLICA);
    assert_int_equal(c->type.locality, LOCAL_PER_REPLICA);
    assert_int_equal(sum->type.locality, LOCAL_MIRRORED);
    assert_int_equal(loop->results[0]->type.locality, LOCAL_MIRRORED);
    assert_int_equal(loop->results[1]->type.locality, LOCAL_PER_REPLICA);
    assert_int_equal(run->op->results[0]->type.locality, LOCAL_MIRRORED);
    assert_true(ir_verify(f.m, f.m->diag));

    yield->operands[2] = a; /* everything can be mirrored now */
    ir_infer_localities(f.main->func);
    assert_int_equal(b->type.locality, LOCAL_MIRRORED);
    assert_int_equal(run->op->results[2]->type.locality, LOCAL_MIRRORED);
    assert_true(ir_verify(f.m, f.m->diag));
    arena_release(f.arena);
}

/* while (per-replica test): the carried value is the same in each round, but
 * the replicas stop in different rounds. */
static void
tests_make_results_differ(void **state)
{
    (void)state;
    Fixture f = begin();
    IrBlock *run = region(f.main, OP_run);
    IrValue *id = ir_build0(run, OP_replica_id, NO_LOC);
    IrValue *one = ir_const_int(run, DT_i32, 1, NO_LOC);
    IrOp *loop = ir_build_op(run, OP_while, 1, &one, NO_LOC);
    IrValue *a = ir_block_arg(loop->regions[0], one->type, NULL);
    IrValue *test = ir_build2(loop->regions[0], OP_lt, a, id, NO_LOC);
    ir_build_yield(loop->regions[0], 1, &test, NO_LOC);
    IrValue *b = ir_block_arg(loop->regions[1], one->type, NULL);
    IrValue *next = ir_build2(loop->regions[1], OP_add, b, one, NO_LOC);
    ir_build_yield(loop->regions[1], 1, &next, NO_LOC);
    ir_op_close(loop);
    assert_int_equal(loop->results[0]->type.locality, LOCAL_PER_REPLICA);
    assert_int_equal(next->type.locality, LOCAL_MIRRORED);
    assert_ptr_equal(ir_divergence(loop->regions[0]), loop);
    arena_release(f.arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_structure),
        cmocka_unit_test(programs_become_replica_context),
        cmocka_unit_test(reads_depend_on_context),
        cmocka_unit_test(values_join),
        cmocka_unit_test(branches_diverge),
        cmocka_unit_test(loops_settle),
        cmocka_unit_test(tests_make_results_differ),
    };
    return cmocka_run_group_tests_name("ir localities", tests, NULL, NULL);
}
