/*
 * gpu_test.c - kernels for GPUs, without one
 *
 *   gpu_test SOURCE_ROOT
 *
 * Of each source: the bits of its kernels, executed by sim.c, and that their
 * PTX has no instruction that rounds otherwise than IEEE 754 says or that the
 * assembler may fuse.  Of large contractions: how memory is accessed.
 */
#include "tests/codegen/run.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/file.h"
#include "tests/codegen/code_cache.h"
#include "tests/codegen/sim.h"
#include "tests/codegen/sources.h"
#include "tests/unit/unit.h"

static const char *source_root;

static const char *const gpus[] = {"sm_80", "sm_90"};
enum { NUM_GPUS = sizeof gpus / sizeof gpus[0] };

/* ---- bits --------------------------------------------------------------- */

static const int64_t batches[] = {0, 1, 7, 65, 1300};
enum { NUM_BATCHES = sizeof batches / sizeof batches[0] };

static void
check_bits(const BeKernel *k, RtCode *code)
{
    int num = (k->pairs.len ? NUM_BATCHES : 1) * RUN_NUM_VALUES;
    for (int i = 0; i < num; i++) {
        int64_t dims[RUN_MAX_DIMS];
        int64_t rows = batches[i / RUN_NUM_VALUES];
        RunCase c = {k, dims, i, (RunValues)(i % RUN_NUM_VALUES)};
        run_dims(k, rows, dims);
        Arena *a = arena_new(NULL, "run");
        const char *wrong = run_compare(a, &code, 1, &c);
        if (wrong)
            fail_msg("values %d, batch %d: %s", (int)c.values, (int)rows,
                     wrong);
        arena_release(a);
    }
}

static void
bits_are_those_of_the_evaluator(void **state)
{
    Arena *a = arena_new(NULL, "bits");
    BeKernels kernels = kernel_source_read(a, source_root, *state);
    run_sample(&kernels);
    RtCode *code = sim_compile(&kernels, "sm_80");
    for (int i = 0; i < kernels.len; i++)
        check_bits(kernels.data[i], code);
    rt_code_close(code);
    arena_release(a);
}

/* ---- instructions ------------------------------------------------------- */

static const char *
ptx_of_kernels(Arena *a, const BeKernels *kernels, const char *gpu)
{
    Str text = str_new(a);
    BeOptions options = {.targets = gpu,
                         .level = 2,
                         .cache = code_cache(),
                         .by_module = true,
                         .verify = true};
    Status st = be_print_ptx(&text, kernels, &options);
    if (st)
        fail_msg("%s", status_message(st));
    return str_text(&text);
}

static bool
begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether an instruction's name says how it rounds, if it does. */
static bool
rounds_exactly(const char *name, size_t len)
{
    static const char *const kinds[] = {
        "add.", "sub.", "mul.", "fma.", "div.", "sqrt.", "rcp.", "mad.",
    };
    const char *type = len > 4 ? name + len - 4 : "";
    if (memmem(name, len, ".ftz", 4) || memmem(name, len, ".approx", 7) ||
        memmem(name, len, ".full", 5))
        return false;
    if (!begins_with(type, ".f32") && !begins_with(type, ".f64"))
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (begins_with(name, kinds[i]))
            return memmem(name, len, ".rn.", 4) != NULL;
    }
    return true;
}

static void
check_instructions(const char *ptx)
{
    for (const char *line = ptx; *line;) {
        const char *name = line + strspn(line, "\t ");
        size_t len = strcspn(name, " \t;\n");
        if (!rounds_exactly(name, len))
            fail_msg("not exact: %.*s", (int)len, name);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static void
instructions_round_exactly(void **state)
{
    Arena *a = arena_new(NULL, "instructions");
    BeKernels kernels = kernel_source_read(a, source_root, *state);
    run_sample(&kernels);
    for (int i = 0; i < NUM_GPUS; i++)
        check_instructions(ptx_of_kernels(a, &kernels, gpus[i]));
    arena_release(a);
}

/* ---- contractions ------------------------------------------------------- */

/* A product of matrices, of which each operand may be transposed, plus a row.
 */
static BeKernels
product_of(Arena *a, bool x_transposed, bool y_transposed)
{
    BeKernels kernels = {0};
    Diag *d = diag_new(a);
    const char *text = arena_printf(
        a,
        "kernel\nin in0: f32[4194304]\nin in1: f32[4194304]\n"
        "in in2: f32[4096]\nout out0: f32[16777216]\n"
        "grid i0 < 4096 {\n  vector i1 < 4096 {\n"
        "    %%0: f32 = contract i2 < 1024 {\n"
        "      %%1: f32 = load in0[%s]\n      %%2: f32 = load in1[%s]\n"
        "      yield %%1, %%2\n    }\n    %%3: f32 = load in2[i1]\n"
        "    %%4: f32 = add %%0, %%3\n    store out0[4096*i0 + i1], %%4\n"
        "  }\n}\n",
        x_transposed ? "i0 + 4096*i2" : "1024*i0 + i2",
        y_transposed ? "1024*i1 + i2" : "i1 + 4096*i2");
    uint16_t file = diag_add_source(d, "product", text, strlen(text));
    if (!be_kernel_parse(&kernels, a, d, file, text, strlen(text)))
        diag_print(d, stderr);
    assert_int_equal(kernels.len, 1);
    return kernels;
}

static int
count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

/* All global memory by 16 bytes, operands by cp.async; 8 x 8 results a thread,
 * and so 64 multiply-adds for four loads of 16 bytes. */
static void
contractions_access_16_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        Arena *a = arena_new(NULL, "contraction");
        BeKernels kernels = product_of(a, i % 2, i / 2);
        const char *ptx = ptx_of_kernels(a, &kernels, "sm_80");
        int loads = count(ptx, "ld.global."), stores = count(ptx, "st.global.");
        assert_int_equal(count(ptx, "fma.rn.f32"), 8 * 64);
        assert_true(count(ptx, "cp.async.cg.shared.global") > 0);
        assert_int_equal(count(ptx, "cp.async.ca"), 0);
        assert_int_equal(count(ptx, "ld.global.nc.v4.f32"), loads);
        assert_int_equal(count(ptx, "st.global.v4.f32"), stores);
        /* Those of the main loop, and one of results. */
        assert_int_equal(count(ptx, "ld.shared."), 8 * 4 + 1);
        assert_int_equal(count(ptx, "ld.shared.v4.f32"), 8 * 4 + 1);
        arena_release(a);
    }
}

/* ---- the text of several ------------------------------------------------ */

static void
several_kernels_are_one_module(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "module");
    BeKernels kernels = kernel_source_read(a, source_root, &kernel_sources[0]);
    const char *ptx = ptx_of_kernels(a, &kernels, "sm_90");
    const char *header = strstr(ptx, ".version");
    assert_non_null(header);
    assert_null(strstr(header + 1, ".version"));
    assert_non_null(strstr(ptx, ".target sm_90"));
    for (int i = 0; i < kernels.len; i++)
        assert_non_null(
            strstr(ptx, arena_printf(a, ".entry %s(", kernels.data[i]->name)));
    arena_release(a);
}

static const char *
refusal(Arena *a, const char *targets)
{
    Str text = str_new(a);
    BeKernels none = {0};
    BeOptions options = {.targets = targets, .cache = ""};
    Status st = be_print_ptx(&text, &none, &options);
    assert_non_null(st);
    const char *message = arena_strdup(a, status_message(st));
    status_free(st);
    return message;
}

static void
ptx_is_for_one_gpu(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "refusal");
    assert_string_equal(
        refusal(a, "x86-64-v3"),
        "--to ptx prints the code for one GPU, as --target sm_80, not for "
        "x86-64-v3");
    assert_string_equal(
        refusal(a, "sm_80,sm_90"),
        "--to ptx prints the code for one GPU, as --target sm_80, not for "
        "sm_80,sm_90");
    assert_string_equal(refusal(a, "sm_89"),
                        "unknown target \"sm_89\"; did you mean sm_80?");
    arena_release(a);
}

static const char *
refusal_of_plan(Arena *a, const char *devices, const char *targets)
{
    IrModule *m = ir_module_new(a, intern_new(a), diag_new(a));
    m->devices = devices;
    BeKernels none = {0};
    BeOptions options = {.targets = targets, .cache = ""};
    BeCode code;
    Status st = be_compile(a, m, &none, &options, &code);
    assert_non_null(st);
    const char *message = arena_strdup(a, status_message(st));
    status_free(st);
    return message;
}

static void
plans_need_code_of_the_host_and_the_devices(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "refusal");
    assert_string_equal(refusal_of_plan(a, "gpu:0-1", "sm_90"),
                        "--target sm_90 has no code for main, which runs on "
                        "the host: --target native,sm_90 has");
    assert_string_equal(refusal_of_plan(a, "gpu:0-1", "x86-64-v3"),
                        "--target x86-64-v3 has no code for gpu:0-1: --target "
                        "x86-64-v3,sm_80 has");
    assert_string_equal(refusal_of_plan(a, "cpu:0,gpu:0", NULL),
                        "no run has both kinds of devices of cpu:0,gpu:0, "
                        "since replicas execute collectives together");
    arena_release(a);
}

/* ---- all ---------------------------------------------------------------- */

enum { MAX_TESTS = 64 };

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    source_root = argv[1];
    Arena *a = arena_new(NULL, "tests");
    struct CMUnitTest tests[MAX_TESTS] = {
        cmocka_unit_test(several_kernels_are_one_module),
        cmocka_unit_test(ptx_is_for_one_gpu),
        cmocka_unit_test(plans_need_code_of_the_host_and_the_devices),
        cmocka_unit_test(contractions_access_16_bytes),
    };
    int num = 4;
    for (const KernelSource *s = kernel_sources; s->path; s++) {
        void *source = (void *)(uintptr_t)s;
        if (!s->is_large)
            tests[num++] = (struct CMUnitTest){
                .name = arena_printf(a, "bits of %s", s->path),
                .test_func = bits_are_those_of_the_evaluator,
                .initial_state = source};
        tests[num++] = (struct CMUnitTest){
            .name = arena_printf(a, "instructions of %s", s->path),
            .test_func = instructions_round_exactly,
            .initial_state = source};
    }
    int failed = _cmocka_run_group_tests("gpu", tests, (size_t)num, NULL, NULL);
    arena_release(a);
    return failed;
}
