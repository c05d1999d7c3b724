/*
 * parts_test.c - in how many parts, of how many rows, servers hold a variable
 *
 * The cases PSV of tests/conformance/cases.md, by their names:
 *~ PSV-11 otherwise: servers hold rows, so a variable is cut along its first
 *axis alone
 */
#include "tests/unit/unit.h"

#include "frontend/frontend.h"
#include "ir/base/str.h"

static const struct {
    const char *name, *type, *rule;
    int num; /* 0: whole */
    int64_t rows[8];
} cases[] = {
    {"PSV-03", "i64[5, 2]", "fixed(2)", 2, {3, 2}},
    {"PSV-04", "i64[10]", "fixed(4)", 4, {3, 3, 2, 2}},
    {"PSV-06", "i64[10]", "min_size(67108864, 2)", 0, {0}},
    {"PSV-08", "f32", "fixed(2)", 0, {0}},
    {"PSV-11", "f32[10, 3]", "fixed(2)", 2, {5, 5}},
    {"PSV-12", "f32[6, 1]", "min_size(4, max = 2)", 2, {3, 3}},
    {"PSV-12", "f32[6, 1]", "min_size(4, max = 10)", 6, {1, 1, 1, 1, 1, 1}},
    {"PSV-14", "f32[10, 3]", "min_size(50, 8)", 3, {4, 3, 3}},
    {"PSV-16", "f32[6, 1]", "max_size(4)", 6, {1, 1, 1, 1, 1, 1}},
    {"PSV-16", "f32[6, 1]", "max_size(4, 2)", 2, {3, 3}},
    {"PSV-16", "f32[6, 1]", "max_size(1024)", 0, {0}},
    {"PSV-18", "f32[10]", "fixed(4)", 4, {3, 3, 2, 2}},
    {"PSV-18", "f32[7]", "fixed(3)", 3, {3, 2, 2}},
    {"PSV-18", "f32[32]", "fixed(3)", 3, {11, 11, 10}},
    {"usual size", "f32[65537]", "min_size(max = 8)", 2, {32769, 32768}},
    {"rows", "f32[3]", "fixed(9)", 3, {1, 1, 1}},
    {"a row is more", "f32[3, 100]", "max_size(8)", 3, {1, 1, 1}},
    {"no elements", "f32[0, 4]", "fixed(2)", 0, {0}},
};

static IrModule *
compile(Arena *a, const char *text)
{
    Diag *d = diag_new(a);
    FeOptions options = {
        .path = "parts.tfd", .text = text, .len = strlen(text)};
    IrModule *m = fe_compile(a, intern_new(a), d, &options);
    if (!m)
        fail_msg("%s", diag_text(d, a));
    return m;
}

static void
expect_parts(const char *name, const IrVar *v, int num, const int64_t *rows)
{
    if ((v->parts > 1 ? v->parts : 0) != num)
        fail_msg("%s: %lld parts, not %d", name, (long long)v->parts, num);
    for (int i = 0; i < num; i++)
        assert_int_equal(ir_var_part_rows(v, i), rows[i]);
}

static void
follows_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new(NULL, "test");
        const IrModule *m =
            compile(a, arena_printf(a,
                                    "strategy parameter_server\n"
                                    "var v: %s = zeros partition(%s)\n"
                                    "main { }\n",
                                    cases[i].type, cases[i].rule));
        expect_parts(cases[i].name, ir_var_find(m, "v"), cases[i].num,
                     cases[i].rows);
        arena_release(a);
    }
}

static void
leaves_what_is_colocated_whole(void **state) /* PSV-09 */
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const IrModule *m =
        compile(a, "strategy parameter_server\n"
                   "var v: f32[4] = zeros partition(fixed(2))\n"
                   "var w: f32[2] = zeros colocate(v) partition(fixed(2))\n"
                   "main { }\n");
    assert_int_equal(ir_var_find(m, "v")->parts, 2);
    assert_true(ir_var_find(m, "w")->parts <= 1);
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_rules),
        cmocka_unit_test(leaves_what_is_colocated_whole),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
