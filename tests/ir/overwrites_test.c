/*
 * overwrites_test.c - which carried values a loop overwrites
 */
#include "tests/unit/unit.h"

#include "ir/rules/overwrites.h"
#include "ir/text/text.h"

/* A loop of so many rounds that sets a row of 8 in each; index and more are
 * operations of its body, which makes %at, and value is what it carries. */
static const struct {
    const char *rounds, *index, *more, *value;
    bool overwrites;
} loops[] = {
#define FORWARDS                                                               \
    "%at: i64 mirrored = kernel %t (%x: i32 mirrored) {\n"                     \
    "%y: i64 mirrored = cast %x {dtype=i64}\nyield %y\n}\n"
#define BACKWARDS(last)                                                        \
    "%at: i32 mirrored = kernel %t (%x: i32 mirrored) {\n"                     \
    "%l: i32 mirrored = constant {dims=[] dtype=i32 data=[" last "]}\n"        \
    "%y: i32 mirrored = sub %l, %x\nyield %y\n}\n"
#define MORE(n)                                                                \
    "%at: i32 mirrored = kernel %t (%x: i32 mirrored) {\n"                     \
    "%l: i32 mirrored = constant {dims=[] dtype=i32 data=[" n "]}\n"           \
    "%y: i32 mirrored = add %l, %x\nyield %y\n}\n"
#define READS                                                                  \
    "%r: f32[8, 2] mirrored = kernel %c (%v: f32[8, 2] mirrored) {\n"          \
    "%w: f32[8, 2] mirrored = neg %v\nyield %w\n}\n"
    {"8", FORWARDS, "", "set", true},
    {"8", BACKWARDS("7"), "", "set", true},
    {"7", FORWARDS, "", "set", false},       /* a row is left */
    {"8", BACKWARDS("8"), "", "set", false}, /* the first one is */
    {"8", MORE("1"), "", "set", false},
    {"8", FORWARDS, "", "add", false}, /* to what was there */
    {"8", FORWARDS, READS, "set", false},
};

static bool
overwrites(Arena *a, int i)
{
    const char *type =
        strstr(loops[i].index, "i64 mirrored = cast") ? "i64" : "i32";
    const char *text = arena_printf(
        a,
        "tfd-ir 1 phase replicated\n"
        "strategy one_device devices \"cpu:0\" replicas 1\n"
        "func @f(%%row: f32[2] mirrored, %%init: f32[8, 2] mirrored) program "
        "{\n"
        "%%count: i32 mirrored = kernel {\n"
        "%%k: i32 mirrored = constant {dims=[] dtype=i32 data=[%s]}\n"
        "yield %%k\n}\n"
        "%%all: f32[8, 2] mirrored = for %%count, %%init (%%t: i32 mirrored, "
        "%%c: f32[8, 2] mirrored) {\n%s%s"
        "%%next: f32[8, 2] mirrored = kernel %%c, %%at, %%row (%%a: f32[8, 2] "
        "mirrored, %%p: %s mirrored, %%q: f32[2] mirrored) {\n"
        "%%n: f32[8, 2] mirrored = scatter %%a, %%p, %%q {mode=%s}\n"
        "yield %%n\n}\nyield %%next\n}\nreturn %%all\n}\n",
        loops[i].rounds, loops[i].index, loops[i].more, type, loops[i].value);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "loops", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (diag_num_errors(d))
        print_error("%s", diag_text(d, a));
    assert_int_equal(diag_num_errors(d), 0);
    IrOp *op = m->first->body->first;
    while (op->kind != OP_for)
        op = op->next;
    return ir_for_overwrites(op, 0);
}

static void
rows_of_all_rounds_are_found(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "loops");
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        if (overwrites(a, (int)i) != loops[i].overwrites)
            print_error("loop %zu\n", i);
        assert_int_equal(overwrites(a, (int)i), loops[i].overwrites);
    }
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_rounds_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
