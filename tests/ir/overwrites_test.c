/*
 * overwrites_test.c - which carried values a loop overwrites, and which
 * operands a kernel
 */
#include "tests/unit/unit.h"

#include "ir/rules/overwrites.h"
#include "ir/segments.h"
#include "ir/text/text.h"

/* A loop of so many rounds that sets a row of 8 in each; index and more are
 * operations of its body, which makes %at, and value is what it carries. */
static const struct {
    const char *rounds, *index, *more, *value;
    bool overwrites;
    const char *after; /* the row is set; NULL: nothing */
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
#define READS(of)                                                              \
    "%r: f32[8, 2] mirrored = kernel %" of " (%v: f32[8, 2] mirrored) {\n"     \
    "%w: f32[8, 2] mirrored = neg %v\nyield %w\n}\n"
    {"8", FORWARDS, "", "set", true, NULL},
    {"8", BACKWARDS("7"), "", "set", true, NULL},
    {"7", FORWARDS, "", "set", false, NULL},       /* a row is left */
    {"8", BACKWARDS("8"), "", "set", false, NULL}, /* the first one is */
    {"8", MORE("1"), "", "set", false, NULL},
    {"8", FORWARDS, "", "add", false, NULL}, /* to what was there */
    {"8", FORWARDS, READS("c"), "set", false, NULL},
    {"8", FORWARDS, "", "set", false, READS("next")}, /* with rows not set */
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
        "yield %%n\n}\n%syield %%next\n}\nreturn %%all\n}\n",
        loops[i].rounds, loops[i].index, loops[i].more, type, loops[i].value,
        loops[i].after ? loops[i].after : "");
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

/* Kernels of %x, that give the values named; whether the first may be made in
 * the bytes of %x. */
static const struct {
    const char *body, *yields, *types;
    bool may;
} kernels[] = {
#define SUM(of, axis, dims)                                                    \
    "%s: f32[" dims "] mirrored = sum %" of " {axes=[" axis "] "               \
    "keepdims=true}\n"
#define WIDE(name, op) "%" name ": f32[4, 8] mirrored = " op "\n"
/* a value %v for a part, number %i, of %t, which begins as %b or another */
#define PARTS(part, dims)                                                      \
    "%i: i64 mirrored = constant {dims=[] dtype=i64 data=[1]}\n"               \
    "%c: f32 mirrored = constant {dims=[] dtype=f32 data=[2.0]}\n"             \
    "%v: f32[" part "] mirrored = broadcast %c {dims=[" part "]}\n"            \
    "%b: f32[" dims "] mirrored = broadcast %c {dims=[" dims "]}\n"            \
    "%t: f32[" dims "] mirrored = "
#define ONE_ROW                                                                \
    "%i: i64[1] mirrored = constant {dims=[1] dtype=i64 data=[0]}\n"           \
    "%c: f32 mirrored = constant {dims=[] dtype=f32 data=[2.0]}\n"             \
    "%b: f32[1, 8] mirrored = broadcast %c {dims=[1, 8]}\n"                    \
    "%t: f32[1, 8] mirrored = scatter %b, %i, %x {mode=add}\n"
    {WIDE("y", "neg %x"), "%y", "f32[4, 8]", true},
    /* rows are reduced before they are stored */
    {SUM("x", "1", "4, 1") WIDE("y", "div %x, %s"), "%y", "f32[4, 8]", true},
    {WIDE("e", "exp %x") SUM("e", "1", "4, 1") WIDE("y", "div %e, %s"), "%y",
     "f32[4, 8]", true},
    {SUM("x", "1",
         "4, 1") "%n: f32[4, 1] mirrored = neg %s\n" WIDE("y", "add %x, %n"),
     "%y", "f32[4, 8]", true},
    /* columns are not, nor is all of it */
    {SUM("x", "0", "1, 8") WIDE("y", "div %x, %s"), "%y", "f32[4, 8]", false},
    {SUM("x", "0, 1", "1, 1") WIDE("y", "div %x, %s"), "%y", "f32[4, 8]",
     false},
    /* the sum is another result, or for another one: perhaps later */
    {SUM("x", "1", "4, 1") WIDE("y", "div %x, %s"), "%y, %s",
     "f32[4, 8], f32[4, 1]", false},
    {WIDE("y", "neg %x") SUM("x", "1", "4, 1") WIDE("z", "div %x, %s"),
     "%y, %z", "f32[4, 8], f32[4, 8]", false},
    {SUM("x", "1", "4, 1") WIDE("y", "div %x, %s") WIDE("z", "sub %x, %s"),
     "%y, %z", "f32[4, 8], f32[4, 8]", true},
    /* each element is stored elsewhere, too, when it is read */
    {PARTS("4, 8", "3, 4, 8") "scatter %b, %i, %x {mode=set}\n" WIDE("y",
                                                                     "neg %x"),
     "%y, %t", "f32[4, 8], f32[3, 4, 8]", true},
    {PARTS("4, 8", "3, 4, 8") "scatter %b, %i, %v {mode=set}\n" WIDE("y",
                                                                     "neg %x"),
     "%y, %t", "f32[4, 8], f32[3, 4, 8]", true},
    /* but not in the bytes of what it changes, which begins as %b */
    {ONE_ROW "%y: f32[1, 8] mirrored = neg %b\n", "%t, %y",
     "f32[1, 8], f32[1, 8]", false},
    {ONE_ROW "%y: f32[1, 8] mirrored = neg %x\n", "%y, %t",
     "f32[1, 8], f32[1, 8]", true},
    /* it begins as another result does, or its elements are no neighbours */
    {PARTS("8", "4, 8") "scatter %x, %i, %v {mode=set}\n" WIDE("y", "neg %x"),
     "%y, %t", "f32[4, 8], f32[4, 8]", false},
    {PARTS("4, 8", "4, 8, 3") "scatter %b, %i, %x {mode=set axis=2}\n" WIDE(
         "y", "neg %x"),
     "%y, %t", "f32[4, 8], f32[4, 8, 3]", false},
    {PARTS("4, 8, 1", "4, 8, 3, 1") "scatter %b, %i, %x {mode=set axis=2}\n"
                                    "%y: f32[4, 8, 1] mirrored = neg %x\n",
     "%y, %t", "f32[4, 8, 1], f32[4, 8, 3, 1]", false},
};

static bool
may_overwrite(Arena *a, int i, const char *device)
{
    Str s = str_new(a);
    const char *types = kernels[i].types;
    bool two = strchr(kernels[i].yields, ',');
    str_add(&s, "tfd-ir 1 phase replicated\n"
                "strategy one_device devices \"");
    str_add(&s, device);
    int first = (int)strcspn(types, "]") + 1; /* %x has it, too */
    str_addf(&s,
             "\" replicas 1\n"
             "func @f(%%a: %.*s mirrored) program {\n%%r: %.*s mirrored",
             first, types, first, types);
    const char *second = two ? strstr(types, ", f32") + 2 : NULL;
    if (two)
        str_addf(&s, ", %%q: %s mirrored", second);
    str_addf(&s,
             " = kernel %%a (%%x: %.*s mirrored) {\n%syield %s\n}\n"
             "return %%r\n}\n",
             first, types, kernels[i].body, kernels[i].yields);
    const char *text = str_text(&s);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "kernels", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (diag_num_errors(d))
        print_error("%s", diag_text(d, a));
    assert_int_equal(diag_num_errors(d), 0);
    IrOverwrites x = ir_overwrites(a, m);
    return ir_kernel_may_overwrite(&x, m->first->body->first, 0, 0);
}

static void
rows_may_be_reduced_before_they_are_overwritten(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "kernels");
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        bool is_map = strstr(kernels[i].body, "sum") == NULL;
        if (may_overwrite(a, (int)i, "cpu:0") != kernels[i].may)
            print_error("kernel %zu\n", i);
        assert_int_equal(may_overwrite(a, (int)i, "cpu:0"), kernels[i].may);
        assert_int_equal(may_overwrite(a, (int)i, "cuda:0"),
                         kernels[i].may && is_map);
    }
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_rounds_are_found),
        cmocka_unit_test(rows_may_be_reduced_before_they_are_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
