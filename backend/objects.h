/*
 * objects.h - compiles units of code to relocatable objects, in parallel
 */
#ifndef TFD_BACKEND_OBJECTS_H
#define TFD_BACKEND_OBJECTS_H

#include "backend/cache.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

/* One module to compile: the function that builds it, its input, and the
 * results. */
typedef struct BeJob {
    const char *name; /* of the object, "k_12ab"; messages use it */
    const char *text; /* everything that the code depends on, for the cache */
    size_t text_len;
    Status (*emit)(BeUnit *u, const void *what, const BeTarget *t);
    const void *what;
    const BeTarget *target;
    int level;     /* of -O */
    int expensive; /* jobs for which this is greater are begun earlier */

    /* results */
    const void *object; /* for a GPU: PTX */
    size_t size;
    double seconds;
    bool cached;
    Status status;
} BeJob;

typedef struct BeObjectOptions {
    int num_threads;      /* 0: one a core */
    const BeCache *cache; /* may be NULL */
    bool by_module;       /* the text of jobs is not asked for */
    bool verify;          /* LLVM's verifier over each module */
} BeObjectOptions;

/* Compiles all jobs; their objects are in a.  If jobs fail, the status of the
 * first one, in order, is returned. */
Status be_objects_make(Arena *a, BeJob *jobs, int num,
                       const BeObjectOptions *options) MUST_USE;

/* The text of one job's module, or of its assembly, in a. */
Status be_job_llvm(Arena *a, const BeJob *job, const char **text) MUST_USE;
Status be_job_asm(Arena *a, const BeJob *job, const char **text) MUST_USE;

#endif
