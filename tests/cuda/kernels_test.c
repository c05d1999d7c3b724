/*
 * kernels_test.c - each kernel of all examples on the emulator
 *
 *   kernels_test SOURCE_ROOT           at sizes for tests
 *   kernels_test SOURCE_ROOT --full    as the examples have them: minutes
 *
 * One launch of each kernel, for sm_80 and sm_90, with all checks on: no
 * violation, and the bits of its object for this CPU; at sizes for tests
 * another launch, of inputs with infinities, NaNs and extremes.  Where outputs
 * may have the memory of inputs, one more launch gives it to them. Contractions
 * are compared once more on tensor cores, near the CPU's.  large.kernels has
 * some that need more work for the shapes of large products.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "backend/kernel/kernel_impl.h"
#include "tests/codegen/run.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/programs.h"
#include "tests/cuda/rules.h"
#include "tests/unit/sweep.h"

static const char *source_root;
static bool full;

static struct {
    PtxMachine *machine;
    int kernels, in_place, split;
    int tf32, tf32_split; /* kernels on tensor cores; in two launches */
    int halves;           /* ... that multiply bf16 or f16 */
    int one_chain;        /* with products of bf16 in that order */
} all;

static const LaunchShape tame = {.rows = 5, .blocks = 3};
static const LaunchShape wild = {.rows = 70, .blocks = 2, .wild = true};
static const LaunchShape in_place = {.rows = 6, .blocks = 2, .in_place = true};
/* Sums of whole numbers, of infinities and of NaNs are the same in every order.
 */
static const LaunchShape whole = {.rows = 71, .blocks = 3, .whole = true};
static const LaunchShape whole_or_none = {
    .rows = 37, .blocks = 2, .whole = true, .wild = true};

/* ---- bits --------------------------------------------------------------- */

static void
close_module(void *m)
{
    ptx_module_close(m);
}

static void
check_ptx(Arena *a, const char *ptx, Comparison *c)
{
    PtxError error;
    const char *why;
    PtxModule *m = ptx_module_open(ptx, strlen(ptx), 0, &error);
    if (!m)
        fail_msg("line %d: %s", error.line, error.text);
    arena_on_release(a, close_module, m);
    assert_in_range(ptx_module_num_kernels(m), 1, 2);
    all.split += ptx_module_num_kernels(m) == 2;
    if (comparison_run(c, all.machine, m, PTX_CHECK_ALL, &why) != OUTCOME_SAME)
        fail_msg("%s", why);
}

/* What follows the header, which names the target. */
static const char *
body_of(const char *ptx)
{
    const char *at = strstr(ptx, ".address_size");
    return at ? at : ptx;
}

/* A kernel as PTX for an old GPU and a new one. */
typedef struct Texts {
    const char *old, *new; /* NULL: it is the same */
} Texts;

static Texts
texts_of(Arena *a, BeKernel *k)
{
    Texts t = {program_ptx(a, k, "sm_80"), program_ptx(a, k, "sm_90")};
    if (!strcmp(body_of(t.old), body_of(t.new)))
        t.new = NULL;
    return t;
}

static void
check_texts(Arena *a, const Texts *texts, Comparison *c)
{
    check_ptx(a, texts->old, c);
    if (texts->new)
        check_ptx(a, texts->new, c);
}

static void
check_shape(BeKernel *k, const Texts *texts, const RtCode *cpu,
            LaunchShape shape)
{
    Arena *a = arena_new(NULL, "shape");
    Comparison *c = comparison_new(a, k, cpu, shape);
    if (comparison_is_in_place(c) == shape.in_place)
        check_texts(a, texts, c);
    all.in_place += comparison_is_in_place(c);
    arena_release(a);
}

static void
check_kernel(BeKernel *k, const RtCode *cpu)
{
    Arena *a = arena_new(NULL, "kernel");
    Texts texts = texts_of(a, k);
    check_shape(k, &texts, cpu, tame);
    if (!full)
        check_shape(k, &texts, cpu, wild);
    check_shape(k, &texts, cpu, in_place);
    all.kernels++;
    arena_release(a);
}

static void
bits_are_those_of_the_cpu(void **state)
{
    Arena *a = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(a, source_root, *state, full);
    RtCode *cpu = run_compile(&kernels, "native", 2);
    assert_true(kernels.len > 0);
    for (int i = sweep_first(kernels.len); i < kernels.len; i = sweep_next(i))
        check_kernel(kernels.data[i], cpu);
    rt_code_close(cpu);
    arena_release(a);
}

/* All dtypes; the programs have few. */
static void
all_reduces_have_the_bits_of_the_cpu(void **state)
{
    static const IrAgg ways[] = {AGG_sum, AGG_max, AGG_min};
    Arena *a = arena_new(NULL, "kernels");
    BeKernels kernels = {0};
    (void)state;
    for (int t = 0; t < NUM_DTYPES; t++)
        for (int i = 0; i < 3; i++)
            for (int num = 3; num <= 8; num += 5) {
                BeKernel *k = be_kernel_combine(a, ways[i], (DType)t, num);
                if (k)
                    VEC_PUSH(a, kernels, k);
            }
    VEC_PUSH(a, kernels, be_kernel_combine(a, AGG_sum, DT_f32, 64));
    RtCode *cpu = run_compile(&kernels, "native", 2);
    for (int i = sweep_first(kernels.len); i < kernels.len; i = sweep_next(i))
        check_kernel(kernels.data[i], cpu);
    rt_code_close(cpu);
    arena_release(a);
}

/* ---- products of bf16 in one chain --------------------------------------- */

/* The kernels of which `change` changes something; it says so in its second
 * argument. */
static BeKernels
changed_kernels(Arena *a, const BeKernels *kernels,
                void (*change)(KNode *n, void *changed))
{
    BeKernels chosen = {0};
    for (int i = 0; i < kernels->len; i++) {
        bool any = false;
        KBlock body = kernels->data[i]->body;
        be_kernel_walk(&body, change, &any);
        if (any)
            VEC_PUSH(a, chosen, kernels->data[i]);
    }
    return chosen;
}

static void
set_one_chain(KNode *n, void *changed)
{
    if (n->kind == K_CONTRACT && n->contract.pairs) {
        n->contract.pairs = IR_ONE_CHAIN;
        *(bool *)changed = true;
    }
}

static void
one_chain_has_the_bits_of_the_cpu(void **state)
{
    Arena *a = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(a, source_root, *state, full);
    BeKernels chosen = changed_kernels(a, &kernels, set_one_chain);
    RtCode *cpu = run_compile(&chosen, "native", 2);
    for (int i = sweep_first(chosen.len); i < chosen.len; i = sweep_next(i)) {
        check_kernel(chosen.data[i], cpu);
        all.one_chain++;
    }
    rt_code_close(cpu);
    arena_release(a);
}

/* ---- tensor cores -------------------------------------------------------- */

static void
allow_tf32(KNode *n, void *changed)
{
    if (n->kind == K_CONTRACT && n->dtype == DT_f32)
        n->contract.tf32 = *(bool *)changed = true;
}

static void
check_tf32(BeKernel *k, const RtCode *cpu)
{
    Arena *a = arena_new(NULL, "kernel");
    Texts texts = texts_of(a, k);
    if (strstr(texts.old, "mma.sync")) {
        const char *broken = ptx_broken_rule(a, texts.old, k);
        if (broken)
            fail_msg("%s", broken);
        check_texts(a, &texts, comparison_new(a, k, cpu, whole));
        check_texts(a, &texts, comparison_new(a, k, cpu, whole_or_none));
        all.tf32++;
        all.tf32_split += strstr(texts.old, "_rest(") != NULL;
        all.halves += strstr(texts.old, "m16n8k16") != NULL;
    }
    arena_release(a);
}

static void
tensor_cores_have_the_bits_of_the_cpu(void **state)
{
    Arena *a = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(a, source_root, *state, full);
    BeKernels chosen = changed_kernels(a, &kernels, allow_tf32);
    RtCode *cpu = run_compile(&chosen, "native", 2);
    for (int i = sweep_first(chosen.len); i < chosen.len; i = sweep_next(i))
        check_tf32(chosen.data[i], cpu);
    rt_code_close(cpu);
    arena_release(a);
}

/* ---- large products ------------------------------------------------------ */

static const Program large = {"tests/cuda/large.kernels", NULL, {0}};

/* One launch of each: they are large. */
static void
large_products_have_the_bits_of_the_cpu(void **state)
{
    Arena *a = arena_new(NULL, "program");
    BeKernels kernels = program_kernels(a, source_root, &large, true);
    RtCode *cpu = run_compile(&kernels, "native", 2);
    (void)state;
    for (int i = sweep_first(kernels.len); i < kernels.len; i = sweep_next(i)) {
        BeKernel *k = kernels.data[i];
        const char *ptx = program_ptx(a, k, "sm_80");
        assert_non_null(strstr(ptx, "minnctapersm 2"));
        check_ptx(a, ptx, comparison_new(a, k, cpu, tame));
        bool any = false;
        be_kernel_walk(&k->body, allow_tf32, &any);
        check_tf32(k, cpu);
        all.kernels++;
    }
    rt_code_close(cpu);
    arena_release(a);
}

/* The last of the tests; a part of the kernels may have none in two launches.
 */
static void
tensor_cores_were_used(void **state)
{
    (void)state;
    assert_true(all.tf32 > (sweep_part() > 1 ? 0 : 10));
    assert_true(all.tf32_split > 0 || sweep_part() > 1);
    assert_true(all.halves > (sweep_part() > 1 ? 0 : 20));
    assert_true(all.one_chain > (sweep_part() > 1 ? 0 : 4));
}

enum { MAX_TESTS = 96 };

int
main(int argc, char **argv)
{
    full = argc == 3 && !strcmp(argv[2], "--full");
    if (argc != 2 && !full)
        return 2;
    source_root = argv[1];
    all.machine = ptx_machine_new();
    struct CMUnitTest tests[MAX_TESTS];
    char names[MAX_TESTS][80];
    size_t num = 0;
    tests[num++] = (struct CMUnitTest)cmocka_unit_test(
        all_reduces_have_the_bits_of_the_cpu);
    tests[num++] = (struct CMUnitTest)cmocka_unit_test(
        large_products_have_the_bits_of_the_cpu);
    for (const Program *p = programs; p->path; p++) {
        void *state = (void *)(uintptr_t)p;
        tests[num++] =
            (struct CMUnitTest){.name = p->path,
                                .test_func = bits_are_those_of_the_cpu,
                                .initial_state = state};
        snprintf(names[num], sizeof names[num], "%s, in TF32", p->path);
        tests[num] = (struct CMUnitTest){
            .name = names[num],
            .test_func = tensor_cores_have_the_bits_of_the_cpu,
            .initial_state = state};
        num++;
        snprintf(names[num], sizeof names[num], "%s, in one chain", p->path);
        tests[num] =
            (struct CMUnitTest){.name = names[num],
                                .test_func = one_chain_has_the_bits_of_the_cpu,
                                .initial_state = state};
        num++;
    }
    tests[num++] = (struct CMUnitTest)cmocka_unit_test(tensor_cores_were_used);
    int failed = _cmocka_run_group_tests("kernels", tests, num, NULL, NULL);
    const PtxCounts *n = ptx_machine_counts(all.machine);
    printf("# %d kernels, %d of them in place too, %llu launches, of %d texts "
           "two, %.1f M warp instructions, %.2f G lane instructions; %d on "
           "tensor cores, of which %d in two launches; %d in one chain\n",
           all.kernels, all.in_place, (unsigned long long)n->launches,
           all.split, (double)n->warp_instructions / 1e6,
           (double)n->lane_instructions / 1e9, all.tf32, all.tf32_split,
           all.one_chain);
    ptx_machine_free(all.machine);
    return failed;
}
