/*
 * in_place_test.c - batches that programs read where the iterator has them
 *
 * A row is what main does with a batch %x, and whether it needs no copy of it.
 */
#include "tests/ir/module.h"

#include "runtime/ops/in_place.h"
#include "ir/base/str.h"

#define STEP(y, x, at)                                                         \
    "%" y ": i64 per_replica [row+" at "] = launch %" x " {program=@step}\n"
#define CHOICE                                                                 \
    "%yes: bool [frame+0] = kernel {\n  %t: bool = constant {dims=[] "         \
    "dtype=bool data=[true]}\n  yield %t\n}\n"
#define COUNT                                                                  \
    "%count: i32 [frame+64] = kernel {\n  %t2: i32 = constant {dims=[] "       \
    "dtype=i32 data=[2]}\n  yield %t2\n}\n"
#define NEXT(x, at, it)                                                        \
    "%" x ": i64[4] per_replica [row+" at "] = iter_next {iter=@" it "}\n"

typedef struct Row {
    const char *name, *text;
    bool is_in_place;
} Row;

static const Row rows[] = {
    {"nobody_reads_it", "", true},
    {"a_program_reads_it", STEP("y", "x", "128"), true},
    {"two_programs_read_it", STEP("y", "x", "128") STEP("z", "x", "192"), true},
    {"a_program_in_a_branch_reads_it",
     CHOICE "if %yes {\n" STEP("y", "x", "128") "  yield\n} {\n  yield\n}\n",
     true},
    {"main_reads_it_too",
     STEP("y", "x", "128") "%f: i64[4] [frame+0] = fetch %x {replica=0}\n",
     false},
    {"a_branch_hands_it_on",
     CHOICE "%r: i64[4] per_replica [row+256] = if %yes {\n  yield %x\n} {\n"
            "  yield %x\n}\n" STEP("y", "r", "128"),
     false},
    {"the_iterator_moves_before",
     NEXT("o", "64", "it") STEP("y", "x", "128"), false},
    {"the_iterator_moves_in_a_branch",
     CHOICE "if %yes {\n" NEXT("o", "64", "it") "  yield\n} {\n  yield\n}\n"
         STEP("y", "x", "128"),
     false},
    {"the_iterator_moves_after",
     STEP("y", "x", "128") NEXT("o", "64", "it"), true},
    {"it_is_opened_before", "iter_open {iter=@it}\n" STEP("y", "x", "128"),
     false},
    {"another_iterator_moves",
     NEXT("o", "64", "other") STEP("y", "x", "128"), true},
    {"a_loop_is_before",
     COUNT "for %count (%i: i32 [frame+128]) {\n  yield\n}\n"
         STEP("y", "x", "128"),
     false},
    {"a_loop_reads_it",
     COUNT "for %count (%i: i32 [frame+128]) {\n" STEP("y", "x", "128")
         "  yield\n}\n",
     false},
    {"a_loop_is_after",
     STEP("y", "x", "128") COUNT
     "for %count (%i: i32 [frame+128]) {\n  yield\n}\n",
     true},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

static const char before[] =
    "tfd-ir 1 phase placed\n"
    "strategy mirrored devices \"cpu:0\" replicas 1\n"
    "dataset @d {\n  range start=0 stop=9 : i64\n"
    "  batch size=4 drop_remainder=1 : i64[4]\n}\n"
    "iter @it of @d shard auto\n"
    "iter @other of @d shard auto\n"
    "func @main() main bytes 512 {\n"
    "iter_open {iter=@it}\niter_open {iter=@other}\n" NEXT("x", "0", "it");

static const char after[] =
    "return\n}\n"
    "func @step(%x: i64[4] per_replica [in 0]) program bytes 512 {\n"
    "  %y: i64 per_replica [out 0] = kernel %x (%a: i64[4] per_replica) {\n"
    "    %s: i64 per_replica = sum %a {axes=[0]}\n    yield %s\n  }\n"
    "  return %y\n}\n";

static void
expect_place(void **state)
{
    const Row *row = *state;
    Arena *a = arena_new(NULL, "test");
    Str text = str_new(a);
    str_add(&text, before);
    str_add(&text, row->text);
    str_add(&text, after);
    const IrModule *m = module_of_text(a, str_text(&text));
    IrUsers users = ir_users_find(a, m->first->body);
    const IrOp *next = m->first->body->first;
    while (next->kind != OP_iter_next)
        next = next->next;
    assert_int_equal(rt_is_read_in_place(&users, next, 0), row->is_in_place);
    arena_release(a);
}

int
main(void)
{
    struct CMUnitTest tests[NUM_ROWS];
    for (int i = 0; i < NUM_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, expect_place, NULL, NULL,
                                       (void *)(uintptr_t)&rows[i]};
    return _cmocka_run_group_tests("in_place", tests, NUM_ROWS, NULL, NULL);
}
