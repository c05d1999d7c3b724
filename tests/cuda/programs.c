/*
 * programs.c - the kernels of the examples, and their PTX
 */
#include "tests/cuda/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include "tests/codegen/code_cache.h"
#include "tests/codegen/sources.h"

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
    {"tests/e2e/programs/rearranged.tfd", "gpu:0", {0}},
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
    {"tests/cuda/halves.kernels", NULL, {0}},
    {NULL, NULL, {0}},
};

BeKernels
program_kernels(Arena *a, const char *source_root, const Program *p, bool full)
{
    FeOptions options = {
        .path = p->path, .devices = p->devices, .defines = p->small};
    while (!full && options.num_defines < MAX_DEFINES &&
           p->small[options.num_defines])
        options.num_defines++;
    return kernels_read(a, source_root, &options);
}

const char *
program_ptx(Arena *a, BeKernel *k, const char *gpu)
{
    Str text = str_new(a);
    BeKernels one = {.data = &k, .len = 1, .cap = 1};
    BeOptions options = {
        .targets = gpu, .level = 2, .cache = code_cache(), .by_module = true};
    Status st = be_print_ptx(&text, &one, &options);
    if (st)
        exit(status_report(st, k->name, stderr));
    return str_text(&text);
}
