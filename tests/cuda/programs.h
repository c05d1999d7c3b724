/*
 * programs.h - the kernels of the examples, and their PTX
 */
#ifndef TFD_TESTS_CUDA_PROGRAMS_H
#define TFD_TESTS_CUDA_PROGRAMS_H

#include "backend/backend.h"

enum { MAX_DEFINES = 8 };

typedef struct Program {
    const char *path;    /* from the source root: a program, or kernels */
    const char *devices; /* NULL: kernels */
    const char *small[MAX_DEFINES]; /* "NAME=VALUE": sizes for tests */
} Program;

/* All examples of docs/examples, and texts of kernels.  The last one has no
 * path. */
extern const Program programs[];

/* Its kernels at the sizes for tests, or as the program has them; anything that
 * fails ends the test program. */
BeKernels program_kernels(Arena *a, const char *source_root, const Program *p,
                          bool full);

/* The PTX of one kernel, for a GPU ("sm_80"). */
const char *program_ptx(Arena *a, BeKernel *k, const char *gpu);

#endif
