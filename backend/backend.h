/*
 * backend.h - from a placed program to the code of its plan
 *
 *   be_kernels_build   kernel operations become kernels, equal ones one
 *   be_compile         kernels and functions become objects
 *   be_plan            placed text, objects and sources become a plan
 *
 * All results belong to the arena that the caller passes.  They depend on the
 * program, the options' targets and level, and this compiler; not on the number
 * of threads or the contents of a cache (D14).
 */
#ifndef TFD_BACKEND_BACKEND_H
#define TFD_BACKEND_BACKEND_H

#include "backend/kernel/kernel.h"
#include "ir/base/status.h"
#include "ir/ir.h"
#include "ir/plan/plan.h"

typedef struct BeOptions {
    const char *targets; /* "x86-64-v3,sm_90"; NULL: this machine's, and of
                            a plan those of its devices */
    int level;           /* of -O, 0 .. 3 */
    int num_threads;     /* that compile in parallel; 0: one for each core */
    const char *cache;   /* a folder; NULL: the user's, "": none */
    bool by_module;      /* the cache is asked for LLVM's modules alone, not by
                            the kernels' text: tests change kernels */
    bool verify;         /* verify the modules given to LLVM */
} BeOptions;

/* One entry of code: a kernel, or the functions of the program ("host"); for a
 * GPU it is PTX. */
typedef struct BeObject {
    const char *target, *name;
    const void *bytes;
    size_t size;
    double seconds; /* it took */
    bool cached;
} BeObject;

typedef struct BeCode {
    VEC(BeObject) objects;
    const char *ir; /* the placed module's text */
    size_t ir_len;
    const char *calls; /* of its operations (ir/text/calls.h) */
    size_t calls_len;
    const char *warning; /* a message, or NULL */
} BeCode;

/* The kernels of all kernel operations of m, each once, in the order of the
 * text; out has them by the operations, too, and the operations get their
 * symbols.  targets, as in BeOptions: where devices of one have code of their
 * own, also the kernels that combine the operands of all_reduces.  False after
 * messages to m's diag. */
bool be_kernels_build(Arena *a, IrModule *m, const char *targets,
                      BeKernels *out);
void be_kernels_print(Str *out, const BeKernels *kernels);

/* Compiles the kernels that be_kernels_build made from m for all targets, and
 * m's functions for those of the host, of which there must be one. */
Status be_compile(Arena *a, IrModule *m, const BeKernels *kernels,
                  const BeOptions *options, BeCode *out) MUST_USE;

/* STATUS_USAGE: a list of targets, as in BeOptions, names one that there is
 * not.
 */
Status be_check_targets(Arena *a, const char *list) MUST_USE;

/* The targets that be_compile compiles a plan for m for, without objects; or of
 * code, with the number of objects and their bytes.  In a. */
typedef VEC(PlanCode) BeTargetCodes;
Status be_plan_targets(Arena *a, const IrModule *m, const BeOptions *options,
                       BeTargetCodes *out) MUST_USE;
BeTargetCodes be_code_sizes(Arena *a, const BeCode *code);

/* The LLVM IR and the assembly of the kernels and, if m is not NULL, of its
 * functions.  Does not use the cache. */
Status be_print_llvm(Str *out, IrModule *m, const BeKernels *kernels,
                     const BeOptions *options) MUST_USE;
Status be_print_asm(Str *out, IrModule *m, const BeKernels *kernels,
                    const BeOptions *options) MUST_USE;

/* The kernels as one module of PTX for one GPU; without targets, for the least.
 */
Status be_print_ptx(Str *out, const BeKernels *kernels,
                    const BeOptions *options) MUST_USE;

/* Compiles kernels alone (read from text, or for a test). */
Status be_compile_kernels(Arena *a, const BeKernels *kernels,
                          const BeOptions *options, BeCode *out) MUST_USE;

/* A plan of the code and of the sources in m's diag, to be written by
 * plan_write while m and code exist. */
PlanWriter *be_plan(Arena *a, const IrModule *m, const BeCode *code);

#endif
