/*
 * rules_test.c - what the emulator relies on, looked for in every PTX text
 *
 *   rules_test SOURCE_ROOT
 *
 * Of all kernels of the examples, at the sizes that they have, and of the texts
 * of kernels that other tests compile, for both targets.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "tests/cuda/programs.h"
#include "tests/cuda/rules.h"
#include "tests/unit/sweep.h"

static const char *source_root;
static int num_texts;

typedef struct Row {
    const char *line;
    bool keeps; /* the rules */
} Row;

static const Row rows[] = {
    {"\tadd.rn.f32 \t%f1, %f2, %f3;", true},
    {"@%p1 mul.rn.f64 %fd1, %fd2, %fd3;", true},
    {"fma.rn.f32 %f1, %f2, %f3, %f4;", true},
    {"mad.lo.s32 %r1, %r2, %r3, %r4;", true},
    {"add.s64 %rd1, %rd2, 4;", true},
    {"ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", true},
    {"cp.async.cg.shared.global [%r1], [%rd1], 16;", true},
    {"bar.sync 0;", true},
    {"mov.u32 %r1, %ctaid.x;", true},
    {"cvt.rn.f16.f32 %rs1, %f1;", true},
    {"// atom.add.f32", true},
    {".visible .entry k_atom.add(", true},
    {"add.f32 %f1, %f2, %f3;", false},
    {"sub.f64 %fd1, %fd2, %fd3;", false},
    {"mul.f32 %f1, %f2, %f3;", false},
    {"@!%p2 mul.f32 %f1, %f2, %f3;", false},
    {"mul.rz.f32 %f1, %f2, %f3;", false},
    {"mul.f16x2 %r1, %r2, %r3;", false},
    {"mad.f32 %f1, %f2, %f3, %f4;", false},
    {"add.rn.ftz.f32 %f1, %f2, %f3;", false},
    {"add.rn.sat.f32 %f1, %f2, %f3;", false},
    {"setp.lt.ftz.f32 %p1, %f1, %f2;", false},
    {"div.full.f32 %f1, %f2, %f3;", false},
    {"div.approx.f32 %f1, %f2, %f3;", false},
    {"rsqrt.approx.f32 %f1, %f2;", false},
    {"ex2.approx.f32 %f1, %f2;", false},
    {"atom.global.add.f32 %f1, [%rd1], %f2;", false},
    {"red.global.add.u32 [%rd1], %r1;", false},
    {"membar.gl;", false},
    {"fence.acq_rel.gpu;", false},
    {"ld.volatile.global.f32 %f1, [%rd1];", false},
    {"ld.acquire.gpu.global.u32 %r1, [%rd1];", false},
    {"st.relaxed.sys.global.u32 [%rd1], %r1;", false},
    {"barrier.cluster.arrive;", false},
    {"mbarrier.init.shared.b64 [%r1], 32;", false},
    {"griddepcontrol.wait;", false},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};", false},
    {"mov.u64 %rd1, %globaltimer;", false},
    {"mov.u32 %r1, %smid;", false},
    {"call.uni (%f1), __nv_expf, (%f2);", false},
};

static void
rules_tell_right_from_wrong(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "rules");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Row *row = &rows[i];
        const char *text =
            arena_printf(a, ".version 7.0\n%s\n\tret;\n", row->line);
        const char *broken = ptx_broken_rule(a, text, NULL);
        if (!broken != row->keeps)
            fail_msg("%s: %s", row->line, broken ? broken : "not refused");
    }
    arena_release(a);
}

static const char products_and_sums[] = "kernel k\n"
                                        "in in0: f32[64]\n"
                                        "in in1: f32[64]\n"
                                        "out out0: f32[64]\n"
                                        "grid vector i0 < 64 {\n"
                                        "  %0: f32 = load in0[i0]\n"
                                        "  %1: f32 = load in1[i0]\n"
                                        "  %2: f32 = mul %0, %1\n"
                                        "  %3: f32 = add %2, %1\n"
                                        "  store out0[i0], %3\n"
                                        "}\n";

/* x * y + y has no fused multiply-add: a text that has one is refused. */
static void
fused_operations_are_the_kernels_own(void **state)
{
    Arena *a = arena_new(NULL, "rules");
    BeKernels kernels = {0};
    Diag *d = diag_new(a);
    size_t len = sizeof products_and_sums - 1;
    (void)state;
    uint16_t file = diag_add_source(d, "text", products_and_sums, len);
    assert_true(be_kernel_parse(&kernels, a, d, file, products_and_sums, len));
    BeKernel *k = kernels.data[0];
    const char *ptx = program_ptx(a, k, "sm_80");
    assert_null(ptx_broken_rule(a, ptx, k));
    const char *fused =
        arena_printf(a, "%s\tfma.rn.f32 %%f1, %%f2, %%f3, %%f4;\n", ptx);
    assert_non_null(ptx_broken_rule(a, fused, k));
    assert_null(ptx_broken_rule(a, fused, NULL));
    arena_release(a);
}

static void
texts_keep_the_rules(void **state)
{
    static const char *const gpus[] = {"sm_80", "sm_90"};
    Arena *all = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(all, source_root, *state, true);
    assert_true(kernels.len > 0);
    for (int i = sweep_first(kernels.len); i < kernels.len; i = sweep_next(i)) {
        Arena *a = arena_new(all, "kernel");
        for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++, num_texts++) {
            const char *ptx = program_ptx(a, kernels.data[i], gpus[g]);
            const char *broken = ptx_broken_rule(a, ptx, kernels.data[i]);
            if (broken)
                fail_msg("%s", broken);
        }
        arena_release(a);
    }
    arena_release(all);
}

enum { MAX_TESTS = 64 };

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    source_root = argv[1];
    struct CMUnitTest tests[MAX_TESTS] = {
        cmocka_unit_test(rules_tell_right_from_wrong),
        cmocka_unit_test(fused_operations_are_the_kernels_own),
    };
    size_t num = 2;
    for (const Program *p = programs; p->path; p++)
        tests[num++] =
            (struct CMUnitTest){.name = p->path,
                                .test_func = texts_keep_the_rules,
                                .initial_state = (void *)(uintptr_t)p};
    int failed = _cmocka_run_group_tests("rules", tests, num, NULL, NULL);
    printf("# %d texts\n", num_texts);
    return failed;
}
