/*
 * live_test.c - the values that main may still read after a round of a loop
 *
 * A row is the text of main and, for its loop with safepoints, the names of the
 * values that a checkpoint there must have.
 */
#include "tests/ir/module.h"

#include "ir/analysis/hooks.h"
#include "ir/analysis/live.h"
#include "ir/base/str.h"

#define HAS_NEXT "  %more: bool = iter_has_next {iter=@it}\n  yield %more\n"
#define NUMBER(name, value)                                                    \
    "%" name ": i32 = constant {dims=[] dtype=i32 data=[" value "]}\n"

static Arena *arena;

typedef struct Row {
    const char *name, *text, *live;
} Row;

static const Row rows[] = {
    {"what_is_carried",
     NUMBER("a", "1") NUMBER(
         "b", "2") "%r: i32 = while %a (%t: i32) {\n" HAS_NEXT "} (%u: i32) {\n"
                   "  %x: i32 = add %u, %u\n  yield %x\n}\n"
                   "print %r {format=\"{}\"}\n",
     "t"},
    {"what_comes_after_reads",
     NUMBER("a", "1") NUMBER("b", "2")
         NUMBER("c", "3") "print %a {format=\"{}\"}\n"
                          "while {\n" HAS_NEXT "} {\n  yield\n}\n"
                          "print %b {format=\"{}\"}\n",
     "b"},
    {"what_the_next_round_reads",
     NUMBER("a", "1") NUMBER("b", "2") NUMBER(
         "c", "3") "while {\n  print %b {format=\"{}\"}\n" HAS_NEXT "} {\n"
                   "  print %a {format=\"{}\"}\n  yield\n}\n",
     "a b"},
    {"what_a_loop_around_reads_again",
     NUMBER("a", "1") NUMBER("b", "2")
         NUMBER("n", "3") "for %n (%i: i32) {\n"
                          "  print %a {format=\"{}\"}\n"
                          "  %early: i32 = add %a, %a\n"
                          "  %late: i32 = add %a, %a\n"
                          "  print %early {format=\"{}\"}\n"
                          "  while {\n" HAS_NEXT "  } {\n    yield\n  }\n"
                          "  print %late, %i {format=\"{} {}\"}\n"
                          "  yield\n}\n",
     "a early i late"},
    {"what_a_branch_reads",
     NUMBER("a", "1")
         NUMBER("b", "2") "%yes: bool = eq %a, %b\n"
                          "%one: i32 = if %yes {\n"
                          "  %x: i32 = add %a, %b\n"
                          "  while {\n" HAS_NEXT "  } {\n    yield\n  }\n"
                          "  yield %x\n"
                          "} {\n  yield %b\n}\n"
                          "if %yes {\n  print %one {format=\"{}\"}\n  yield\n} "
                          "{\n  yield\n}\n",
     "x yes"},
    {"what_a_loop_that_joins_reads",
     NUMBER("a", "1") NUMBER("b", "2")
         NUMBER("n", "3") "%r: i32 = for %n, %a (%i: i32, %t: i32) {\n"
                          "  %x: i32 = add %t, %b\n"
                          "  join\n  yield %x\n}\n"
                          "print %r {format=\"{}\"}\n",
     "b i t"},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *
names_of(const IrValues *values)
{
    Str s = str_new(arena);
    const char **names = NEW_ARRAY(arena, const char *, (size_t)values->len);
    for (int i = 0; i < values->len; i++)
        names[i] = values->data[i]->name;
    if (values->len)
        qsort(names, (size_t)values->len, sizeof *names, by_name);
    for (int i = 0; i < values->len; i++)
        str_addf(&s, "%s%s", i ? " " : "", names[i]);
    return str_text(&s);
}

static void
expect_live(void **state)
{
    const Row *row = *state;
    arena = arena_new(NULL, "test");
    IrModule *m =
        module_of_text(arena, arena_printf(arena,
                           "tfd-ir 1 phase ir\n"
                           "strategy mirrored devices \"cpu:0\" replicas 1\n"
                           "dataset @d {\n  range start=0 stop=9 : i64\n"
                           "  batch size=4 drop_remainder=1 : i64[4]\n}\n"
                           "iter @it of @d shard auto\n"
                           "func @main() main {\n%sreturn\n}\n",
                           row->text));
    IrHooks hooks = ir_hooks(arena, m->first);
    assert_int_equal(hooks.safepoints.len, 1);
    IrValues live = ir_live_at_safepoint(arena, hooks.safepoints.data[0]);
    assert_string_equal(names_of(&live), row->live);
    arena_release(arena);
}

int
main(void)
{
    struct CMUnitTest tests[NUM_ROWS];
    for (int i = 0; i < NUM_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, expect_live, NULL, NULL,
                                       (void *)(uintptr_t)&rows[i]};
    return _cmocka_run_group_tests("ir_live", tests, NUM_ROWS, NULL, NULL);
}
