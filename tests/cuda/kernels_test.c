/*
 * kernels_test.c - each kernel of all examples on the emulator
 *
 *   kernels_test SOURCE_ROOT           at sizes for tests
 *   kernels_test SOURCE_ROOT --full    as the examples have them: minutes
 *
 * One launch of each kernel, for sm_80 and sm_90, with all checks on: no
 * violation, and the bits of its object for this CPU; at sizes for tests
 * another launch, of inputs with infinities, NaNs and extremes.  The emulator
 * and the code have one author: so what it relies on is also looked for in the
 * text.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "tests/codegen/run.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/programs.h"
#include "tests/unit/sweep.h"

static const char *source_root;
static bool full;

static struct {
    PtxMachine *machine;
    int kernels;
} all;

static const LaunchShape tame = {5, 3, false}, wild = {70, 2, true};

/* ---- what the emulator relies on ---------------------------------------- */

static bool
has(const char *name, size_t len, const char *word)
{
    return memmem(name, len, word, strlen(word)) != NULL;
}

static bool
begins_with(const char *name, const char *word)
{
    return !strncmp(name, word, strlen(word));
}

/* Rounding that differs from IEEE 754's, and what could carry a message from
 * one block to another: atomics, fences, orders other than weak. */
static bool
is_forbidden(const char *name, size_t len)
{
    static const char *const words[] = {
        ".ftz",     ".approx",  ".full", ".sat", ".volatile", ".acquire",
        ".release", ".relaxed", ".mmio", ".sys", ".gpu",      ".cluster"};
    static const char *const kinds[] = {"atom.", "red.",     "membar", "fence",
                                        "call",  "mbarrier", "griddep"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(name, len, words[i]))
            return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins_with(name, kinds[i]))
            return true;
    return false;
}

/* Of these the assembler may fuse or approximate those that do not say .rn. */
static bool
rounds_as_stated(const char *name, size_t len)
{
    static const char *const kinds[] = {"add.", "sub.", "mul.", "fma.",
                                        "mad.", "div.", "rcp.", "sqrt."};
    bool is_float = has(name, len, ".f16") || has(name, len, ".bf16") ||
                    has(name, len, ".f32") || has(name, len, ".f64");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_float && begins_with(name, kinds[i]))
            return has(name, len, ".rn.");
    return true;
}

/* The name of a line's instruction, after its guard; the length is 0 of
 * directives, labels and comments. */
static const char *
instruction_of(const char *line, size_t *len)
{
    const char *name = line + strspn(line, " \t");
    if (*name == '@')
        name += strcspn(name, " \t\n");
    name += strspn(name, " \t");
    *len = strcspn(name, " \t;\n");
    if (strchr("./$}{)(", *name))
        *len = 0;
    return name;
}

static void
check_text(const char *ptx)
{
    for (const char *line = ptx; *line;) {
        size_t len;
        const char *name = instruction_of(line, &len);
        if (len && (is_forbidden(name, len) || !rounds_as_stated(name, len)))
            fail_msg("unexpected instruction: %.*s", (int)len, name);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

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
    assert_int_equal(ptx_module_num_kernels(m), 1);
    if (comparison_run(c, all.machine, ptx_module_kernel(m, 0), PTX_CHECK_ALL,
                       &why) != OUTCOME_SAME)
        fail_msg("%s", why);
}

/* What follows the header, which names the target. */
static const char *
body_of(const char *ptx)
{
    const char *at = strstr(ptx, ".address_size");
    return at ? at : ptx;
}

static void
check_shape(BeKernel *k, const RtCode *cpu, LaunchShape shape)
{
    Arena *a = arena_new(NULL, "kernel");
    Comparison *c = comparison_new(a, k, cpu, shape);
    const char *old = program_ptx(a, k, "sm_80");
    const char *new = program_ptx(a, k, "sm_90");
    check_text(old);
    check_text(new);
    check_ptx(a, old, c);
    if (strcmp(body_of(old), body_of(new)))
        check_ptx(a, new, c);
    arena_release(a);
}

static void
check_kernel(BeKernel *k, const RtCode *cpu)
{
    check_shape(k, cpu, tame);
    if (!full)
        check_shape(k, cpu, wild);
    all.kernels++;
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

enum { MAX_TESTS = 64 };

int
main(int argc, char **argv)
{
    full = argc == 3 && !strcmp(argv[2], "--full");
    if (argc != 2 && !full)
        return 2;
    source_root = argv[1];
    all.machine = ptx_machine_new();
    struct CMUnitTest tests[MAX_TESTS];
    size_t num = 0;
    for (const Program *p = programs; p->path; p++)
        tests[num++] =
            (struct CMUnitTest){.name = p->path,
                                .test_func = bits_are_those_of_the_cpu,
                                .initial_state = (void *)(uintptr_t)p};
    int failed = _cmocka_run_group_tests("kernels", tests, num, NULL, NULL);
    const PtxCounts *n = ptx_machine_counts(all.machine);
    printf("# %d kernels, %llu launches, %.1f M warp instructions, %.2f G lane "
           "instructions\n",
           all.kernels, (unsigned long long)n->launches,
           (double)n->warp_instructions / 1e6,
           (double)n->lane_instructions / 1e9);
    ptx_machine_free(all.machine);
    return failed;
}
