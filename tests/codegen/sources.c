/*
 * sources.c - the kernels that the tests of code for GPUs use
 */
#include "tests/codegen/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include "ir/base/io/file.h"
#include "passes/passes.h"

const KernelSource kernel_sources[] = {
    {"docs/examples/linear.tfd", "cuda:0-1", false},
    {"docs/examples/bigram.tfd", "cuda:0-1", false},
    {"docs/examples/spiral.tfd", "cuda:0-1", false},
    {"docs/examples/charlm.tfd", "cuda:0-1", true},
    {"docs/examples/convnet.tfd", "cuda:0-1", true},
    {"docs/examples/contexts.tfd", "cuda:0-1", false},
    {"docs/examples/ragged.tfd", "cuda:0-2", false},
    {"tests/e2e/programs/dtypes.tfd", "cuda:0-2", false},
    {"tests/kernels/dots.kernels", NULL, false},
    {"tests/kernels/maps.kernels", NULL, false},
    {"tests/kernels/moves.kernels", NULL, false},
    {"tests/kernels/ordered.kernels", NULL, false},
    {"tests/kernels/segments.kernels", NULL, false},
    {"tests/kernels/reductions.kernels", NULL, false},
    {"tests/kernels/rows.kernels", NULL, false},
    {"tests/kernels/scatters.kernels", NULL, false},
    {"tests/kernels/takes.kernels", NULL, false},
    {"tests/codegen/gpu.kernels", NULL, false},
    {NULL, NULL, false},
};

static void
must(bool ok, const Diag *d)
{
    if (!ok) {
        diag_print(d, stderr);
        exit(1);
    }
}

static BeKernels
compile_program(Arena *a, Diag *d, const FeOptions *options,
                const PassOptions *how, IrModule **module)
{
    BeKernels kernels = {0};
    IrModule *m = fe_compile(a, intern_new(a), d, options);
    must(m != NULL, d);
    must(pass_run_pipeline(m, d, how, NULL), d);
    must(be_kernels_build(a, m, NULL, &kernels), d);
    *module = m;
    return kernels;
}

/* The text of a file below the source root; its path in *path. */
static char *
read_source(Arena *a, const char *source_root, const char *name,
            const char **path, size_t *len)
{
    char *text;
    *path = arena_printf(a, "%s/%s", source_root, name);
    Status st = file_read(a, *path, &text, len);
    if (st)
        exit(status_report(st, name, stderr));
    return text;
}

BeKernels
program_read(Arena *a, const char *source_root, const FeOptions *options,
             const PassOptions *how, IrModule **module)
{
    FeOptions all = *options;
    all.text = read_source(a, source_root, options->path, &all.path, &all.len);
    return compile_program(a, diag_new(a), &all, how, module);
}

BeKernels
kernels_read(Arena *a, const char *source_root, const FeOptions *options)
{
    IrModule *unused;
    PassOptions how = {.level = 2};
    const char *path;
    size_t len;
    BeKernels kernels = {0};
    if (options->devices)
        return program_read(a, source_root, options, &how, &unused);
    char *text = read_source(a, source_root, options->path, &path, &len);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, path, text, len);
    must(be_kernel_parse(&kernels, a, d, file, text, len), d);
    return kernels;
}

BeKernels
kernel_source_read(Arena *a, const char *source_root,
                   const KernelSource *source)
{
    FeOptions options = {.path = source->path, .devices = source->devices};
    return kernels_read(a, source_root, &options);
}
