/*
 * tables.h - a plan's kernels and device programs by number
 *
 * A device is asked to launch kernel 17 or program 2 of the plan: the numbers
 * of Plan.kernels and Plan.programs, which are the same for devices of all
 * kinds.  Here they become what a kind of device executes.
 */
#ifndef TFD_RUNTIME_LOAD_TABLES_H
#define TFD_RUNTIME_LOAD_TABLES_H

#include "runtime/load/loader.h"

/* Code of the host, which is valid as long as it is open. */
typedef struct RtCodeTables {
    TfdKernel *const *kernels;    /* num_kernels of the plan */
    TfdFunction *const *programs; /* num_programs of the plan */
} RtCodeTables;

/* Finds all of them in code, which was opened from p; the tables are in a.
 * enqueues: the programs are those that enqueue their work.  A kernel or
 * program without code is an error of the plan. */
Status rt_code_tables(Arena *a, const Plan *p, const RtCode *code,
                      bool enqueues, RtCodeTables *out) MUST_USE;

/* The PTX of the plan's kernels, num_kernels texts: code is for GPUs.  Checks
 * that each is a text for that target that has its kernel. */
Status rt_kernel_texts(const Plan *p, const PlanCode *code,
                       const PlanObject **out) MUST_USE;

#endif
