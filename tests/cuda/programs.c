/*
 * programs.c - the kernels of the examples, and their PTX
 */
#include "tests/cuda/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include "frontend/frontend.h"
#include "ir/base/io/file.h"
#include "passes/passes.h"

const Program programs[] = {
    {"docs/examples/accumulation.tfd", "gpu:0-1", {0}},
    {"docs/examples/batchnorm.tfd", "gpu:0-1", {0}},
    {"docs/examples/bigram.tfd", "gpu:0-1", {0}},
    {"docs/examples/charlm.tfd",
     "gpu:0-1",
     {"BATCH=4", "T=16", "C=32", "HEADS=2", "LAYERS=1"}},
    {"docs/examples/contexts.tfd", "gpu:0-1", {0}},
    {"docs/examples/convnet.tfd",
     "gpu:0-1",
     {"SIZE=8", "CHANNELS=8", "BLOCKS=1", "BATCH=4"}},
    {"docs/examples/linear.tfd", "gpu:0-3", {0}},
    {"docs/examples/metric.tfd", "gpu:0-1", {0}},
    {"docs/examples/ragged.tfd", "gpu:0-2", {0}},
    {"docs/examples/schedule.tfd", "gpu:0-1", {0}},
    {"docs/examples/spiral.tfd", "gpu:0-1", {0}},
    {"docs/examples/write.tfd", "gpu:0", {"C=8", "LENGTH=40"}},
    {"tests/e2e/programs/dtypes.tfd", "gpu:0-2", {0}},
    {"tests/kernels/dots.kernels", NULL, {0}},
    {"tests/kernels/maps.kernels", NULL, {0}},
    {"tests/kernels/moves.kernels", NULL, {0}},
    {"tests/kernels/ordered.kernels", NULL, {0}},
    {"tests/kernels/segments.kernels", NULL, {0}},
    {"tests/kernels/reductions.kernels", NULL, {0}},
    {"tests/kernels/rows.kernels", NULL, {0}},
    {"tests/kernels/scatters.kernels", NULL, {0}},
    {"tests/kernels/takes.kernels", NULL, {0}},
    {"tests/codegen/gpu.kernels", NULL, {0}},
    {NULL, NULL, {0}},
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
compile(Arena *a, Diag *d, const FeOptions *options)
{
    BeKernels kernels = {0};
    PassOptions how = {.level = 2};
    IrModule *m = fe_compile(a, intern_new(a), d, options);
    must(m != NULL, d);
    must(pass_run_pipeline(m, d, &how, NULL), d);
    must(be_kernels_build(a, m, &kernels), d);
    return kernels;
}

static BeKernels
parse(Arena *a, Diag *d, const char *path, const char *text, size_t len)
{
    BeKernels kernels = {0};
    uint16_t file = diag_add_source(d, path, text, len);
    must(be_kernel_parse(&kernels, a, d, file, text, len), d);
    return kernels;
}

BeKernels
program_kernels(Arena *a, const char *source_root, const Program *p, bool full)
{
    char *text;
    size_t len;
    Diag *d = diag_new(a);
    const char *path = arena_printf(a, "%s/%s", source_root, p->path);
    Status st = file_read(a, path, &text, &len);
    if (st)
        exit(status_report(st, p->path, stderr));
    if (!p->devices)
        return parse(a, d, path, text, len);
    FeOptions options = {.path = path, .text = text, .len = len};
    options.devices = p->devices;
    options.defines = p->small;
    while (!full && options.num_defines < MAX_DEFINES &&
           p->small[options.num_defines])
        options.num_defines++;
    return compile(a, d, &options);
}

const char *
program_ptx(Arena *a, BeKernel *k, const char *gpu)
{
    Str text = str_new(a);
    BeKernels one = {.data = &k, .len = 1, .cap = 1};
    BeOptions options = {.targets = gpu, .level = 2, .cache = ""};
    Status st = be_print_ptx(&text, &one, &options);
    if (st)
        exit(status_report(st, k->name, stderr));
    return str_text(&text);
}
