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
compile_program(Arena *a, Diag *d, const FeOptions *options)
{
    BeKernels kernels = {0};
    PassOptions how = {.level = 2};
    IrModule *m = fe_compile(a, intern_new(a), d, options);
    must(m != NULL, d);
    must(pass_run_pipeline(m, d, &how, NULL), d);
    must(be_kernels_build(a, m, NULL, &kernels), d);
    return kernels;
}

BeKernels
kernels_read(Arena *a, const char *source_root, const FeOptions *options)
{
    char *text;
    size_t len;
    BeKernels kernels = {0};
    Diag *d = diag_new(a);
    const char *path = arena_printf(a, "%s/%s", source_root, options->path);
    Status st = file_read(a, path, &text, &len);
    if (st)
        exit(status_report(st, options->path, stderr));
    if (options->devices) {
        FeOptions all = *options;
        all.path = path;
        all.text = text;
        all.len = len;
        return compile_program(a, d, &all);
    }
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
