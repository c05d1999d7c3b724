/*
 * text_test.c - the kernels of each module here, and the errors of wrong ones
 *
 *   kernels/NAME.tir     its kernel operations become NAME.kernels, which reads
 *                        back to the same text
 *
 *   text_test SOURCE_ROOT modules|texts
 *
 * With TFD_BLESS=1 what is expected is written.
 */
#include "ir/text/text.h"
#include "tests/unit/golden.h"

#include "backend/kernel/kernel.h"

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
    const char *have = kernels_of(*state);
    golden_expect(arena, golden_sibling(arena, *state, ".kernels"), have);
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
    {"grid i0 < 8",
     LOAD "%2: f32 = contract pairs i1 < 3 { yield %0, %0 }\n" STORE,
     "%1 adds pairs of elements that may not be bf16"},
    {"grid i0 < 8",
     LOAD "%2: f32 = contract one_chain i1 < 3 { yield %0, %0 }\n" STORE,
     "%1 adds pairs of elements that may not be bf16"},
    {"grid i0 < 8",
     LOAD "%2: f64 = cast f64 %0\n"
          "%3: f64 = contract tf32 i1 < 3 { yield %2, %2 }\n" STORE,
     "%2 rounds elements to TF32 that are not f32"},
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
    {"grid i0 < 8", "%0: f32 = load in0[i0] if 3\n" STORE,
     "expected a value, like %0"},
    {"grid i0 < 8", "i1 < 2*i0 = div i0, 2\n" LOAD STORE,
     "a dimension does not hang on indices"},
    {"grid a < 2, b < 2, c < 2, d < 2, e < 2, f < 2, g < 2, h < 2, i < 2", "",
     "more than 8 indices"},
    {"grid i0 < 8", LOAD STORE "}\nkernel\ntable t0: f32[3] = [1.0, 2.0]\n{",
     "a table has as many elements as it says"},
    {"grid i0 < 8",
     LOAD "%2: f32 = reduce add i1 < 3 { scan i2 < 3 { } yield %0 }\n" STORE,
     "a scan stands in the body of a reduction"},
    {"grid i0 < 2",
     "scan i1 < 2, i2 < 2 {\n" LOAD
     "%1: f32 = running %0 along i1\n store out0[i1], %1 }",
     "a scan has 2 indices"},
    {"grid i0 < 2", "scan i1 < 2 {\n" LOAD STORE "}",
     "a scan has 0 running sums"},
    {"grid i0 < 2",
     "scan i1 < 2 {\n" LOAD
     "%1: f32 = running %0 along i0\n store out0[i1], %1 }",
     "%1 does not run along the scan it stands in"},
    {"grid i0 < 2",
     "scan i1 < 2 {\n" BOOL
     "%2: f32 = running %1 along i1\n store out0[i1], %2 }",
     "%1 adds elements of the wrong dtype"},
    {"grid vector i0 < 8", "sort out0[0] i1 < 8 {\n" LOAD "yield %0 }",
     "a sort stands in a vector or in the body of a reduction"},
    {"grid i0 < 1", "sort out0[0] i1 < 2, i2 < 4 {\n" LOAD "yield %0 }",
     "a sort has 2 indices"},
    {"grid i0 < 1", "sort out0[0] i1 < 8 {\n" LOAD "yield %0 }",
     "a sort is not to an output of i64"},
    {"grid i0 < 8", "%0: f16 = load in0[i0]\n" STORE,
     "%0 does not load what it says"},
    {"grid i0 < 8", LOAD "%1: f32 = load in0[i0] if %0\n" STORE,
     "the guard of %1 is no bool"},
    {"grid i0 < 8", LOAD "i1 < 8 = pick %0\n" STORE,
     "i1 is picked by what is no i64"},
    {"grid i0 < 8", "%0: i64 = const 1\ni1 < 0 = pick %0\n",
     "i1 has nothing to pick"},
};

static void
mistakes_are_named(void **state)
{
    int num_others = 0;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *message = error_of(wrong[i].grid, wrong[i].body);
        if (strcmp(message, wrong[i].message) == 0)
            continue;
        print_error("%s {\n%s\n}\nwanted: %s\nsaid: %s\n", wrong[i].grid,
                    wrong[i].body, wrong[i].message, message);
        num_others++;
    }
    assert_int_equal(num_others, 0);
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

/* ---- what no text says -------------------------------------------------- */

static KNode *
nth_node(BeKernel *k, int n)
{
    KNode *at = k->body.first;
    while (n-- > 0)
        at = at->next;
    return at;
}

static void
name_no_symbol(BeKernel *k)
{
    k->arrays[K_IN].data[0]->size = (Dim){.c = 0, .k = 1, .sym = 98};
}

static void
load_by_no_index(BeKernel *k)
{
    KNode *load = nth_node(k, 0);
    KVar *var = NEW(arena, KVar);
    *var = (KVar){k->num_vars - 1, ir_dim_const(8)};
    load->load.at.terms[0].var = var;
    k->grid.count = 0;
}

static void
load_by_twice(BeKernel *k)
{
    KIndex *at = &nth_node(k, 0)->load.at;
    KTerm *terms = NEW_ARRAY(arena, KTerm, 2);
    terms[0] = terms[1] = at->terms[0];
    at->terms = terms;
    at->num_terms = 2;
}

static void
add_by_sum(BeKernel *k)
{
    nth_node(k, 1)->map.op = OP_sum;
}

static void
use_what_comes(BeKernel *k)
{
    nth_node(k, 1)->map.args[0] = nth_node(k, 2);
}

static void
damaged_kernels_are_refused(void **state)
{
    static const struct {
        void (*damage)(BeKernel *k);
        const char *message;
    } cases[] = {
        {name_no_symbol, "a dimension has no batch symbol"},
        {load_by_no_index, "i0 is not known there"},
        {load_by_twice, "i0 is in an index twice"},
        {add_by_sum, "%1 is no elementwise operation"},
        {use_what_comes, "%1 uses a value that is not known there"},
    };
    static const char text[] = "kernel\nin in0: f32[8]\nout out0: f32[8]\n"
                               "grid i0 < 8 {\n%0: f32 = load in0[i0]\n"
                               "%1: f32 = exp %0\n%2: f32 = exp %1\n"
                               "store out0[i0], %2\n}\n";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BeKernels kernels = {0};
        Diag *d = diag_new(arena);
        uint16_t file = diag_add_source(d, "k", NULL, 0);
        assert_true(
            be_kernel_parse(&kernels, arena, d, file, text, strlen(text)));
        cases[i].damage(kernels.data[0]);
        assert_false(be_kernel_verify(kernels.data[0], d, NO_LOC));
        if (!strstr(diag_text(d, arena), cases[i].message))
            fail_msg("not said: %s\nbut: %s", cases[i].message,
                     diag_text(d, arena));
    }
}

static void
a_sort_stays_in_its_array(void **state)
{
    static const char text[] = "kernel\nin in0: f32[8]\nout out0: i64[8]\n"
                               "grid i0 < 2 {\n"
                               "sort out0[%s] i1 < %s {\n"
                               "%%0: f32 = load in0[i1]\nyield %%0\n}\n}\n";
    static const char most[] = "kernel\nin in0: f32[8]\nout out0: i64[8]\n"
                               "grid i0 < 2 {\n"
                               "sort first %d out0[%s] i1 < %s {\n"
                               "%%0: f32 = load in0[i1]\nyield %%0\n}\n}\n";
    (void)state;
    assert_string_equal(message_about(arena_printf(arena, text, "4*i0", "4")),
                        "");
    assert_string_equal(message_about(arena_printf(arena, text, "7*i0", "4")),
                        "an index is out of the range of its array");
    assert_string_equal(message_about(arena_printf(
                            arena, text, "9223372036854775807 - i0", "8")),
                        "an index is out of the range of its array");
    assert_string_equal(
        message_about(arena_printf(arena, most, 4, "4*i0", "8")), "");
    assert_string_equal(
        message_about(arena_printf(arena, most, 4, "5*i0", "8")),
        "an index is out of the range of its array");
    assert_string_equal(
        message_about(arena_printf(arena, most, 4, "4*i0", "3")),
        "a sort stores more numbers than it has elements");
    assert_string_equal(message_about(arena_printf(arena, text, "0", "0 - 5")),
                        "i1 has a negative range");
    assert_string_equal(
        message_about("kernel\nsymbols n0 <= 4 N0 <= 8, n1 <= 3\n"
                      "in in0: f32[8]\nout out0: i64[8]\ngrid i0 < 1 {\n"
                      "sort out0[n0] i1 < n1 {\n%0: f32 = load in0[i1]\n"
                      "yield %0\n}\n}\n"),
        "a sort goes out of the range of its array");
}

static void
blocks_nest_so_deep(void **state)
{
    Str s = str_new(arena);
    (void)state;
    str_add(&s, "kernel\nout out0: f32[8]\ngrid i < 8 {\n");
    for (int i = 0; i < 70; i++)
        str_addf(&s, "loop i%d < 2 {\n", i);
    assert_string_equal(message_about(str_text(&s)),
                        "blocks nest deeper than 64");
    assert_string_equal(
        message_about("kernel\nout out0: f32[0 - 8]\ngrid i < 8 { }\n"),
        "an array has a negative size");
}

/* The message about a region of %a: f32[n, 4], %b: i64[n, 4] and %c: f32[4]
 * that gives %z of that type. */
static const char *
error_of_region(const char *type, const char *body)
{
    Diag *d = diag_new(arena);
    const char *text = arena_printf(
        arena,
        "tfd-ir 1 phase replicated\n"
        "strategy mirrored devices \"cpu:0-1\" replicas 2\n"
        "symbols n <= 4, N <= 8\n"
        "func @f(%%x: f32[n, 4] per_replica, %%y: i64[n, 4] per_replica, "
        "%%v: f32[4] mirrored) program {\n"
        "  %%u: f32[4] mirrored = exp %%v\n"
        "  %%w: %s = kernel %%x, %%y, %%v (%%a: f32[n, 4] per_replica, %%b: "
        "i64[n, 4] per_replica, %%c: f32[4] mirrored) {\n"
        "    %s\n"
        "    yield %%z\n"
        "  }\n"
        "  return\n"
        "}\n",
        type, body);
    uint16_t file = diag_add_source(d, "region", NULL, 0);
    IrModule *m =
        ir_parse(arena, intern_new(arena), d, file, text, strlen(text));
    check_messages(d);
    for (IrOp *op = m->first->body->first; op; op = op->next)
        if (op->kind == OP_kernel && be_kernel_build(arena, op, d))
            return "";
    return strstr(diag_text(d, arena), "error: ") + strlen("error: ");
}

static void
some_regions_are_no_kernels(void **state)
{
    static const struct {
        const char *type, *body, *message;
    } cases[] = {
        {"f32[n, 4] per_replica",
         "%s: f32[n, 4] per_replica = cumsum %a {axis=1}\n"
         "%z: f32[n, 4] per_replica = reverse %s {axes=[1]}",
         "the running sum of a kernel is not what it gives\n"},
        {"i64[n, 4] per_replica",
         "%s: i64[n, 4] per_replica = argsort %a\n"
         "%z: i64[n, 4] per_replica = neg %s",
         "the order of a kernel's argsort is not what it gives\n"},
        {"f32[n, n, n] per_replica",
         "%s: f32[n] per_replica = sum %a {axes=[1]}\n"
         "%z: f32[n, n, n] per_replica = broadcast %s {dims=[n, n, n]}",
         "an index of the kernel multiplies lengths of the batch, or does not "
         "fit 64 bits\n"},
        {"f32[n, 4] per_replica", "%z: f32[n, 4] per_replica = add %a, %u",
         "a kernel uses a value from around it\n"},
        {"f64", "%z: f64 = now", "now cannot stand in a kernel\n"},
        {"f32[n, 4] per_replica",
         "%e: f32[n, 4] per_replica = cumsum %a {axis=1}\n"
         "%z: f32[n, 4] per_replica = cumsum %e {axis=0}",
         "a kernel with a running sum or a sort does more\n"},
        {"f32[n, 4] per_replica",
         "%e: f32[n, 4] per_replica = exp %a\n"
         "%i: i64[n] per_replica = sum %b {axes=[1]}\n"
         "%z: f32[n, 4] per_replica = scatter %e, %i, %a {mode=add}",
         "a scatter is not alone with the rows it changes\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(error_of_region(cases[i].type, cases[i].body),
                            cases[i].message);
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

static int
test_texts(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_layout_are_free),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(outputs_begin_as_inputs_of_their_kind),
        cmocka_unit_test(damaged_kernels_are_refused),
        cmocka_unit_test(a_sort_stays_in_its_array),
        cmocka_unit_test(blocks_nest_so_deep),
        cmocka_unit_test(some_regions_are_no_kernels),
        cmocka_unit_test(parts_are_alike),
        cmocka_unit_test(what_is_cut_off_is_an_error),
    };
    return cmocka_run_group_tests_name("texts", tests, NULL, NULL);
}

int
main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    source_root = argv[1];
    arena = arena_new(NULL, "test");
    const char *folder = arena_printf(arena, "%s/tests/kernels", source_root);
    int failed =
        strcmp(argv[2], "texts") == 0
            ? test_texts()
            : golden_run(arena, "modules", folder, ".tir", expect_kernels);
    arena_release(arena);
    return failed;
}
