/*
 * rows_test.c - reductions of rows, and loops that use them
 *
 *   rows_test [TEST]       (only that one, as "rows of f64")
 *
 * Rows of whole registers, of some and a rest, and of less than one; values
 * that a reduction computes and a later loop computes once more, which are
 * kept, and values that only look like these.
 */
#include "tests/unit/unit.h"

#include "tests/codegen/cases.h"

#define SOFTMAX(rows, columns)                                                 \
    {                                                                          \
        "T[" rows ", " columns "]", {"T[" rows ", " columns "]"},              \
            "%m: T[" rows ", 1] per_replica = reduce_max %a {axes=[1] "        \
            "keepdims=true}\n"                                                 \
            "%d: T[" rows ", " columns "] per_replica = sub %a, %m\n"          \
            "%e: T[" rows ", " columns "] per_replica = exp %d\n"              \
            "%s: T[" rows ", 1] per_replica = sum %e {axes=[1] "               \
            "keepdims=true}\n"                                                 \
            "%r: T[" rows ", " columns "] per_replica = div %e, %s"            \
    }

static const CodegenCase cases[] = {
    SOFTMAX("n", "64"),
    SOFTMAX("n", "61"),
    SOFTMAX("n", "3"),
    SOFTMAX("5", "492"),
    /* a row that no buffer holds */
    SOFTMAX("2", "17000"),
    /* two values that are kept, one within the other */
    {"T[n, 61]",
     {"T[n, 61]"},
     "%t: T[n, 61] per_replica = tanh %a\n"
     "%e: T[n, 61] per_replica = exp %t\n"
     "%s: T[n, 1] per_replica = sum %t {axes=[1] keepdims=true}\n"
     "%q: T[n, 1] per_replica = reduce_max %e {axes=[1] keepdims=true}\n"
     "%x: T[n, 61] per_replica = mul %t, %s\n"
     "%y: T[n, 61] per_replica = sub %e, %q\n"
     "%r: T[n, 61] per_replica = mul %x, %y"},
    /* a reduction that loads what one before it stored */
    {"T[n, 40]",
     {"T[n, 40]", "T[40]"},
     "%e: T[n, 40] per_replica = exp %a\n"
     "%s: T[n, 1] per_replica = sum %e {axes=[1] keepdims=true}\n"
     "%d: T[n, 40] per_replica = sub %e, %s\n"
     "%q: T[n, 40] per_replica = mul %d, %d\n"
     "%v: T[n, 1] per_replica = sum %q {axes=[1] keepdims=true}\n"
     "%x: T[n, 40] per_replica = mul %d, %v\n"
     "%r: T[n, 40] per_replica = add %x, %b"},
    /* of other elements, of another array, of other columns, after another
     * constant */
    {"T[n, 40]",
     {"T[n, 41]", "T[n, 40]"},
     "%x: T[n, 40] per_replica = slice %a {start=[0, 0] dims=[n, 40] "
     "step=[1, 1]}\n"
     "%y: T[n, 40] per_replica = slice %a {start=[0, 1] dims=[n, 40] "
     "step=[1, 1]}\n"
     "%e: T[n, 40] per_replica = exp %x\n"
     "%f: T[n, 40] per_replica = exp %y\n"
     "%g: T[n, 40] per_replica = exp %b\n"
     "%s: T[n, 1] per_replica = sum %e {axes=[1] keepdims=true}\n"
     "%u: T[n, 40] per_replica = mul %f, %g\n"
     "%r: T[n, 40] per_replica = mul %u, %s"},
    {"T[n, 40]",
     {"T[n, 40]"},
     "%c: T mirrored = constant {dims=[] dtype=T data=[0.5]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[0.25]}\n"
     "%x: T[n, 40] per_replica = mul %a, %c\n"
     "%y: T[n, 40] per_replica = mul %a, %h\n"
     "%e: T[n, 40] per_replica = exp %x\n"
     "%f: T[n, 40] per_replica = exp %y\n"
     "%s: T[n, 1] per_replica = sum %e {axes=[1] keepdims=true}\n"
     "%r: T[n, 40] per_replica = mul %f, %s"},
    /* that do not change along the row */
    {"T[n, 40]",
     {"T[n, 40]", "T[n, 1]"},
     "%e: T[n, 1] per_replica = exp %b\n"
     "%x: T[n, 40] per_replica = mul %a, %e\n"
     "%s: T[n, 1] per_replica = sum %x {axes=[1] keepdims=true}\n"
     "%y: T[n, 40] per_replica = add %x, %e\n"
     "%r: T[n, 40] per_replica = mul %y, %s"},
    /* in loops of other lanes */
    {"f64[n, 45]",
     {"f32[n, 45]", "f64[n, 45]"},
     "%e: f32[n, 45] per_replica = exp %a\n"
     "%s: f32[n, 1] per_replica = sum %e {axes=[1] keepdims=true}\n"
     "%x: f32[n, 45] per_replica = div %e, %s\n"
     "%y: f64[n, 45] per_replica = cast %x {dtype=f64}\n"
     "%r: f64[n, 45] per_replica = mul %y, %b"},
    {"f32[n, 45]",
     {"f32[n, 45]"},
     "%e: f32[n, 45] per_replica = exp %a\n"
     "%w: f64[n, 45] per_replica = cast %e {dtype=f64}\n"
     "%s: f64[n, 1] per_replica = sum %w {axes=[1] keepdims=true}\n"
     "%u: f32[n, 1] per_replica = cast %s {dtype=f32}\n"
     "%r: f32[n, 45] per_replica = div %e, %u"},
    /* rows that vary */
    {"T[3, n]",
     {"T[3, n]"},
     "%e: T[3, n] per_replica = exp %a\n"
     "%s: T[3, 1] per_replica = sum %e {axes=[1] keepdims=true}\n"
     "%r: T[3, n] per_replica = div %e, %s"},
    /* numbers of elements, in registers that end within the row */
    {"T[n, 45]",
     {"T[n, 45]"},
     "%i: i64[n, 1] per_replica = argmax %a {axes=[1] keepdims=true}\n"
     "%j: T[n, 1] per_replica = cast %i {dtype=T }\n"
     "%r: T[n, 45] per_replica = mul %a, %j"},
};

static void
rows_have_the_bits_of_the_interpreter(void **state)
{
    cases_run(cases, (int)(sizeof cases / sizeof cases[0]), *state);
}

#define OF(dtype)                                                              \
    {                                                                          \
        "rows of " dtype, rows_have_the_bits_of_the_interpreter, NULL, NULL,   \
            dtype                                                              \
    }

int
main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        OF("f32"),
        OF("f64"),
        OF("bf16"),
        OF("f16"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
