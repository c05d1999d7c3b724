/*
 * text_test.c - the kernels of each module here, and what is wrong with others
 *
 *   kernels/NAME.tir     its kernel operations become NAME.kernels, which reads
 *                        back to the same text
 *
 *   text_test SOURCE_ROOT
 *
 * With TFD_BLESS=1 what is expected is written.
 */
#include "tests/unit/golden.h"

#include "backend/kernel.h"

static Arena *arena; /* of the whole run */
static const char *source_root;

/* ---- kernels as text ---------------------------------------------------- */

static void
check_messages(const Diag *d)
{
    if (diag_num_errors(d))
        print_error("%s", diag_text(d, arena));
    assert_int_equal(diag_num_errors(d), 0);
}

static void
print_kernel(IrOp *op, void *data)
{
    if (op->kind != OP_kernel)
        return;
    Diag *d = diag_new(arena);
    const BeKernel *k = be_kernel_build(arena, op, d);
    check_messages(d);
    be_kernel_verify(k, d, op->loc);
    check_messages(d);
    be_kernel_print(data, k);
}

static const char *
kernels_of(const char *path)
{
    size_t len;
    const char *text = golden_read(arena, path, &len);
    Diag *d = diag_new(arena);
    uint16_t file = diag_add_source(d, path, text, len);
    IrModule *m = ir_parse(arena, intern_new(arena), d, file, text, len);
    check_messages(d);
    Str s = str_new(arena);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, print_kernel, &s);
    return str_text(&s);
}

static const char *
read_and_print(const char *text)
{
    BeKernels kernels = {0};
    Diag *d = diag_new(arena);
    uint16_t file = diag_add_source(d, "kernels", text, strlen(text));
    be_kernel_parse(&kernels, arena, d, file, text, strlen(text));
    check_messages(d);
    Str s = str_new(arena);
    for (int i = 0; i < kernels.len; i++)
        be_kernel_print(&s, kernels.data[i]);
    return str_text(&s);
}

static void
expect_kernels(void **state)
{
    const char *stem =
        arena_printf(arena, "%s/tests/kernels/%s", source_root, (char *)*state);
    const char *have = kernels_of(arena_printf(arena, "%s.tir", stem));
    golden_expect(arena, arena_printf(arena, "%s.kernels", stem), have);
    assert_string_equal(read_and_print(have), have);
}

/* ---- the reader --------------------------------------------------------- */

static void
names_and_layout_are_free(void **state)
{
    (void)state;
    assert_string_equal(
        read_and_print("kernel k_any\n"
                       "symbols rows <= 4 all <= 8, b <= 3 # two batches\n"
                       "in x: f16[2*rows + 1] in y: bool[b]\n"
                       "out z: i8[3*all - 2]\n"
                       "table t: f16[2] = [-0.0, 65504.0]\n"
                       "grid q < all, p < 3 { j < 3 = mod q + 2*p - 1, 3\n"
                       "%a: i8 = const -3 store z[q + 3 - 2 + 0*p], %a }"),
        "kernel k_2584f1f1193ebadbec25bfe95898d7ab\n"
        "symbols n0 <= 4 N0 <= 8, n1 <= 3\n"
        "in in0: f16[2*n0 + 1]\n"
        "in in1: bool[n1]\n"
        "out out0: i8[3*N0 - 2]\n"
        "table table0: f16[2] = [-0.0, 65504.0]\n"
        "grid i0 < N0, i1 < 3 {\n"
        "  i2 < 3 = mod i0 + 2*i1 - 1, 3\n"
        "  %0: i8 = const -3\n"
        "  store out0[i0 + 1], %0\n"
        "}\n");
}

/* The message about a kernel that does not read or verify, or "". */
static const char *
message_about(const char *text)
{
    BeKernels kernels = {0};
    Diag *d = diag_new(arena);
    uint16_t file = diag_add_source(d, "k", NULL, 0);
    bool ok = be_kernel_parse(&kernels, arena, d, file, text, strlen(text));
    assert_int_equal(ok, diag_num_errors(d) == 0);
    const char *message = diag_text(d, arena), *end;
    const char *at = strstr(message, "error: ");
    if (!at)
        return "";
    if (strncmp(at, "error: kernel k_", 16) == 0)
        at = strstr(at + 16, ": ") - 5;
    end = strchr(at, '\n');
    return arena_strndup(arena, at + 7, (size_t)(end - at - 7));
}

/* Of one with one output that has this body. */
static const char *
error_of(const char *grid, const char *body)
{
    return message_about(
        arena_printf(arena,
                     "kernel\nsymbols n0 <= 4 N0 <= 8, n1 <= 3\n"
                     "in in0: f32[8]\nin in1: bool[8]\nout out0: f32[8]\n"
                     "%s {\n%s\n}\n",
                     grid, body));
}

#define LOAD "%0: f32 = load in0[i0]\n"
#define BOOL "%1: bool = load in1[i0]\n"
#define STORE "store out0[i0], %0"

static const struct {
    const char *grid, *body, *message;
} wrong[] = {
    {"grid i0 < 8", LOAD STORE, ""},
    {"grid i0 < 8", LOAD, "out0 is never stored"},
    {"grid i0 < 8", LOAD LOAD STORE, "%0 is defined already"},
    {"grid i0 < 8, i0 < 2", LOAD STORE, "i0 is defined already"},
    {"grid i0 < 8", "loop i1 < 2 {" LOAD "}" STORE, "%0 is not defined here"},
    {"grid i0 < 8", "loop i1 < 2 { " LOAD STORE, "expected }, not the end"},
    {"grid i0 < 8", "%0: f32 = load in0[i1]\n" STORE,
     "i1 is no index or batch symbol"},
    {"grid i0 < 8", "%0: f32 = load out0[i0]\n" STORE,
     "out0 is no array that can be used here"},
    {"grid i0 < 8", "%0: f32 = load in0[n0 + N0]\n" STORE,
     "this sum is not linear in one batch symbol"},
    {"grid i0 < 8", "%0: f32 = load in0[n0*N0*i0]\n" STORE,
     "a coefficient does not fit 64 bits"},
    {"grid i0 < i0", "", "i0 is no index or batch symbol"},
    {"grid i0 < N1", "", "N1 is no index or batch symbol"},
    {"grid i0 < 9", LOAD STORE, "an index is out of the range of its array"},
    {"grid i0 < N0", LOAD STORE, ""},
    {"grid i0 < 2*n0 + 1", LOAD STORE,
     "an index is out of the range of its array"},
    {"grid i0 < 8", "%0: f32 = load in0[7 - i0]\n" STORE, ""},
    {"grid i0 < 8", "%0: f32 = load in0[6 - i0]\n" STORE,
     "an index is out of the range of its array"},
    {"grid i0 < 8", BOOL "%0: f32 = load in0[6 - i0] if %1\n" STORE, ""},
    {"grid i0 < 8", BOOL LOAD "store out0[9*i0], %0 if %1", ""},
    {"grid i0 < 8", LOAD STORE " if %0", "the guard of a store is no bool"},
    {"grid i0 < 8", BOOL "%0: f32 = add %1, %1\n" STORE,
     "%1 has operands of wrong dtypes"},
    {"grid i0 < 8", BOOL "store out0[i0], %1",
     "out0 gets values of another dtype"},
    {"grid i0 < 8", "%0: f32 = sum in0\n" STORE,
     "nothing in a kernel is called sum"},
    {"grid i0 < 8", LOAD "%2: f32 = where %0, %0, %0\n" STORE,
     "%1 has operands of wrong dtypes"},
    {"grid i0 < 8", LOAD "%2: f16 = cast f16 %0\n" STORE,
     "%1 has not the dtype of its cast"},
    {"grid i0 < 8", LOAD "%2: f32 = reduce or i1 < 3 { yield %0 }\n" STORE,
     "%1 reduces elements of the wrong dtype"},
    {"grid i0 < 8", LOAD "%2: f32 = reduce argmax i1 < 3 { yield %0 }\n" STORE,
     "%1 reduces elements of the wrong dtype"},
    {"grid i0 < 8", LOAD "%2: f32 = reduce add { yield %0 }\n" STORE,
     "%1 reduces no index"},
    {"grid i0 < 8",
     LOAD "%2: f32 = reduce add i1 < 3 { " STORE " yield %0 }\n" STORE,
     "a store is not to an output, or in a reduction"},
    {"grid i0 < 8",
     LOAD "%2: f32 = reduce add i1 < 3 { loop i2 < 2 { } yield %0 }\n" STORE,
     "a loop stands in the body of a reduction"},
    {"grid i0 < 8", LOAD "%2: f64 = contract i1 < 3 { yield %0, %0 }\n" STORE,
     "%1 multiplies elements of the wrong dtype"},
    {"grid vector i0 < 8",
     LOAD "%2: f32 = reduce add vector i1 < 3 { yield %0 }\n" STORE,
     "a vector is inside of another one"},
    {"grid vector i0 < 4", LOAD "store out0[2*i0], %0",
     "a vector over i0 does not store along memory"},
    {"grid vector i0 < 4, i1 < 2", LOAD "store out0[2*i0 + i1], %0",
     "a vector loop has 2 indices"},
    {"grid i0 < n0, i1 < N0", LOAD STORE,
     "the number of items is no dimension"},
    {"grid i0 < 8", "i1 < 4 = div i0, 0\n" LOAD STORE,
     "i1 is divided by less than 1"},
    {"grid i0 < 8", "i1 < -4 = div i0, 2\n" LOAD STORE,
     "i1 has a negative range"},
    {"grid i0 < 8", "i1 < 4 = times i0, 0\n" LOAD STORE,
     "expected div, not times"},
    {"grid i0 < 8", "%1: i64 = row_start N0\n" LOAD STORE,
     "expected the n of a batch"},
    {"grid i0 < 8", "%1: i32 = row_start n0\n" LOAD STORE, "%0 is no i64"},
    {"grid i0 < 8", "%1: f16 = const 1.0\n" LOAD STORE, "%0 is no f32"},
    {"grid i0 < 8, %", "", "a name is missing"},
};

static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *message = error_of(wrong[i].grid, wrong[i].body);
        if (strcmp(message, wrong[i].message) != 0)
            print_error("%s {\n%s\n}\n", wrong[i].grid, wrong[i].body);
        assert_string_equal(message, wrong[i].message);
    }
}

static void
outputs_begin_as_inputs_of_their_kind(void **state)
{
    static const struct {
        const char *from, *load, *message;
    } begins[] = {
        {"in0", "out0", ""},
        {"in1", "out0", "out0 cannot begin as an array of another kind"},
        {"in2", "out0", "out0 cannot begin as an array of another kind"},
        {"in0", "in0", "in0 is loaded though an output begins as it"},
        {"in3", "out0", "in3 is no array that can be used here"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const char *text =
            arena_printf(arena,
                         "kernel\nin in0: f32[8]\nin in1: f32[9]\n"
                         "in in2: i32[8]\nout out0: f32[8] from %s\n"
                         "grid i0 < 8 {\n%%0: f32 = load %s[i0]\n"
                         "store out0[i0], %%0\n}\n",
                         begins[i].from, begins[i].load);
        assert_string_equal(message_about(text), begins[i].message);
    }
}

/* Wherever a text ends, there is a message. */
static const char *
error_of_parts(const char *sizes, const char *parts, const char *body)
{
    return message_about(
        arena_printf(arena,
                     "kernel\nin in0: f32[8]\nin in1: f32[1]\nin in2: f32[%s]\n"
                     "in in3: f32[1]\nout out0: f32[8]\nout out1: f32[4]\n"
                     "parts %s\ngrid vector i0 < 8 {\n%s\n}\n",
                     sizes, parts, body));
}

static void
parts_are_alike(void **state)
{
    (void)state;
    static const struct {
        const char *sizes, *parts, *body, *message;
    } cases[] = {
        {"4", "8, 4", LOAD STORE, ""},
        {"4", "8, 4", "%0: f32 = load in1[0]\n" STORE, ""},
        {"5", "8, 4", LOAD STORE, "the parts' arrays are not alike"},
        {"1", "8, 4", LOAD STORE, "the parts' arrays are not alike"},
        {"4", "4, 8", LOAD STORE, "parts are for kernels along one index"},
        {"4", "8", LOAD STORE, "the parts' arrays are not alike"},
        {"4", "8, 4, 2", LOAD STORE, "parts are for kernels along one index"},
        {"4", "8, 1", LOAD STORE,
         "this is no whole number from 2 to 17592186044416"},
        {"4", "8, 4", "%0: f32 = load in2[0]\n" STORE,
         "a part's body has elements of the first part alone"},
        {"4", "8, 4", "%0: f32 = load in0[7 - i0]\n" STORE,
         "a part's body has elements of the first part alone"},
        {"4", "8, 4", "%1: i64 = index i0\n%0: f32 = cast f32 %1\n" STORE,
         "a part's body computes elements from elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(
            error_of_parts(cases[i].sizes, cases[i].parts, cases[i].body),
            cases[i].message);
}

static void
what_is_cut_off_is_an_error(void **state)
{
    (void)state;
    size_t len;
    const char *path =
        arena_printf(arena, "%s/tests/kernels/rows.kernels", source_root);
    const char *text = golden_read(arena, path, &len);
    for (size_t n = 1; n + 1 < len && n < 1000; n++) {
        BeKernels kernels = {0};
        Arena *a = arena_new(arena, "cut");
        Diag *d = diag_new(a);
        uint16_t file = diag_add_source(d, "k", NULL, 0);
        bool ok = be_kernel_parse(&kernels, a, d, file, text, n);
        assert_int_equal(ok, diag_num_errors(d) == 0);
        if (strncmp(text + n - 2, "}\n}\n", 4) != 0)
            assert_true(!ok || kernels.len > 0);
        arena_release(a);
    }
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    source_root = argv[1];
    arena = arena_new(NULL, "test");
    const struct CMUnitTest tests[] = {
        {"maps", expect_kernels, NULL, NULL, "maps"},
        {"moves", expect_kernels, NULL, NULL, "moves"},
        {"takes", expect_kernels, NULL, NULL, "takes"},
        {"scatters", expect_kernels, NULL, NULL, "scatters"},
        {"ordered", expect_kernels, NULL, NULL, "ordered"},
        {"reductions", expect_kernels, NULL, NULL, "reductions"},
        {"dots", expect_kernels, NULL, NULL, "dots"},
        {"rows", expect_kernels, NULL, NULL, "rows"},
        {"parts", expect_kernels, NULL, NULL, "parts"},
        cmocka_unit_test(names_and_layout_are_free),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(outputs_begin_as_inputs_of_their_kind),
        cmocka_unit_test(parts_are_alike),
        cmocka_unit_test(what_is_cut_off_is_an_error),
    };
    int failed = cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
    arena_release(arena);
    return failed;
}
