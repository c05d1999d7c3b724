/*
 * sources.h - the kernels that the tests of code for GPUs use
 */
#ifndef TFD_TESTS_CODEGEN_SOURCES_H
#define TFD_TESTS_CODEGEN_SOURCES_H

#include "backend/backend.h"
#include "frontend/frontend.h"
#include "passes/support/pass.h"

typedef struct KernelSource {
    const char *path;    /* from the source root: a program, or kernels */
    const char *devices; /* of a program; else NULL */
    bool is_large;       /* executing all of it would take minutes */
} KernelSource;

/* The last one has no path. */
extern const KernelSource kernel_sources[];

/* The kernels of the file options->path, from the source root: of a program,
 * compiled with these options, or, without devices, of a text of kernels.
 * Anything that fails ends the program. */
BeKernels kernels_read(Arena *a, const char *source_root,
                       const FeOptions *options);

/* The same of a program, through passes with the options `how`; its placed
 * module goes to *module. */
BeKernels program_read(Arena *a, const char *source_root,
                       const FeOptions *options, const PassOptions *how,
                       IrModule **module);

/* Its kernels; anything that fails ends the program. */
BeKernels kernel_source_read(Arena *a, const char *source_root,
                             const KernelSource *source);

#endif
