/*
 * build.h - makes plans inside a test
 *
 * Programs are step IR as text, which the passes and the backend compile.
 */
#ifndef TFD_TESTS_DEVICES_BUILD_H
#define TFD_TESTS_DEVICES_BUILD_H

#include "ir/plan/plan.h"
#include "runtime/run/run.h"

/* The program's source, for messages: two lines. */
extern const char build_source[];

/* Step IR of these declarations and functions for n CPU devices.  Operations
 * without a source location get one. */
const char *build_program(Arena *a, int n, const char *body);
/* The same for so many input workers, each with n devices. */
const char *build_worker_program(Arena *a, int workers, int n,
                                 const char *body);

/* The placed module of step IR; an error in it ends the test. */
IrModule *build_placed(Arena *a, const char *text);

/* The plan of step IR, which calls itself dir/t.tfp; under TFD_PROGRAMS=enqueue
 * with programs that do. */
Plan *build_plan(Arena *a, const char *text);

/* The same with code for these targets. */
Plan *build_plan_for(Arena *a, const char *text, const char *targets);

/* The same with these bytes as its only object. */
Plan *build_plan_with(Arena *a, const char *text, const void *object,
                      size_t size);

/* A plan that was run. */
typedef struct Result {
    const char *out; /* the program's output, in a */
    Status st;       /* to be freed */
} Result;

/* Runs p; out and err of options are set here. */
Result build_run(Arena *a, const Plan *p, RtOptions options);

#endif
