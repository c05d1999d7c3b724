/*
 * ptx_test.c - kernels for GPUs, assembled
 *
 *   ptx_test SOURCE_ROOT
 *
 * NVIDIA's assembler assembles the PTX of each source as one file, for each
 * GPU, and no kernel spills a register; elementwise kernels use no stack at
 * all. Skipped where there is no ptxas.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "backend/codegen/emit.h"
#include "ir/base/io/file.h"
#include "tests/codegen/code_cache.h"
#include "tests/codegen/sources.h"

static const char *source_root, *assembler;

static const char *const gpus[] = {"sm_80", "sm_90"};
enum { NUM_GPUS = sizeof gpus / sizeof gpus[0] };

/* ---- the assembler ------------------------------------------------------ */

static const char *
find_assembler(void)
{
    static const char *const places[] = {
        "ptxas",
        "/usr/local/cuda/bin/ptxas",
        "/usr/lib/nvidia-cuda-toolkit/bin/ptxas",
    };
    Arena *a = arena_new(NULL, "ptxas");
    const char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !found; i++) {
        const char *ask =
            arena_printf(a, "%s --version >/dev/null 2>&1", places[i]);
        if (system(ask) == 0)
            found = places[i];
    }
    arena_release(a);
    return found;
}

/* The assembler's output for a file; it must succeed. */
static const char *
assemble(Arena *a, const char *path, const char *gpu)
{
    Str said = str_new(a);
    char part[4096];
    FILE *f = popen(arena_printf(a, "%s -v -arch=%s -o /dev/null %s 2>&1",
                                 assembler, gpu, path),
                    "r");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        str_addn(&said, part, n);
    if (pclose(f) != 0)
        fail_msg("%s", str_text(&said));
    return str_text(&said);
}

/* ---- kernels ------------------------------------------------------------ */

typedef struct Usage {
    int stack, stores, loads; /* bytes of a thread */
} Usage;

static Usage
usage_of(Arena *a, const char *said, const char *kernel)
{
    Usage u = {0, 0, 0};
    const char *at =
        strstr(said, arena_printf(a, "Function properties for %s\n", kernel));
    assert_non_null(at);
    at = strchr(at, '\n');
    assert_int_equal(sscanf(at,
                            " %d bytes stack frame, %d bytes spill stores, "
                            "%d bytes spill loads",
                            &u.stack, &u.stores, &u.loads),
                     3);
    return u;
}

static void
check_usage(Arena *a, const BeKernel *k, const char *said)
{
    Usage u = usage_of(a, said, k->name);
    bool elementwise = !be_kernel_contains(&k->body, K_REDUCE) &&
                       !be_kernel_contains(&k->body, K_CONTRACT);
    if (u.stores || u.loads)
        fail_msg("%s spills %d bytes", k->name, u.stores);
    if (elementwise && u.stack)
        fail_msg("%s has a stack of %d bytes", k->name, u.stack);
}

static void
assemble_for(Arena *a, const BeKernels *kernels, const char *gpu)
{
    Str text = str_new(a);
    BeOptions options = {
        .targets = gpu, .level = 2, .cache = code_cache(), .by_module = true};
    Status st = be_print_ptx(&text, kernels, &options);
    assert_null(st);
    char path[] = "/tmp/tfd-ptx-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_null(file_write(path, str_text(&text), text.len));
    const char *said = assemble(a, path, gpu);
    unlink(path);
    for (int i = 0; i < kernels->len; i++)
        check_usage(a, kernels->data[i], said);
}

static void
kernels_assemble_without_spills(void **state)
{
    Arena *a = arena_new(NULL, "assemble");
    BeKernels kernels = kernel_source_read(a, source_root, *state);
    assert_true(kernels.len > 0);
    for (int i = 0; i < NUM_GPUS; i++)
        assemble_for(a, &kernels, gpus[i]);
    arena_release(a);
}

/* ---- plans -------------------------------------------------------------- */

/* A plan's entries are assembled one by one. */
static void
entries_of_a_plan_assemble(void **state)
{
    Arena *a = arena_new(NULL, "assemble");
    const KernelSource *source = kernel_sources;
    (void)state;
    while (!strstr(source->path, "linear.tfd"))
        source++;
    BeKernels kernels = kernel_source_read(a, source_root, source);
    BeOptions options = {.targets = "sm_80,sm_90",
                         .level = 2,
                         .cache = code_cache(),
                         .by_module = true};
    BeCode code;
    assert_null(be_compile_kernels(a, &kernels, &options, &code));
    assert_int_equal(code.objects.len, kernels.len * NUM_GPUS);
    for (int i = 0; i < code.objects.len; i++) {
        const BeObject *o = &code.objects.data[i];
        char path[] = "/tmp/tfd-ptx-XXXXXX";
        close(mkstemp(path));
        assert_null(file_write(path, o->bytes, o->size));
        Usage u = usage_of(a, assemble(a, path, o->target), o->name);
        unlink(path);
        assert_int_equal(u.stores, 0);
    }
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
    assembler = find_assembler();
    if (!assembler) {
        puts("1..0 # SKIP no ptxas, which comes with CUDA");
        return 0;
    }
    struct CMUnitTest tests[MAX_TESTS];
    int num = 0;
    tests[num++] = (struct CMUnitTest){.name = "entries_of_a_plan_assemble",
                                       .test_func = entries_of_a_plan_assemble};
    for (const KernelSource *s = kernel_sources; s->path; s++)
        tests[num++] =
            (struct CMUnitTest){.name = s->path,
                                .test_func = kernels_assemble_without_spills,
                                .initial_state = (void *)(uintptr_t)s};
    return _cmocka_run_group_tests("ptx", tests, (size_t)num, NULL, NULL);
}
