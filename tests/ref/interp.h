/*
 * interp.h - the reference interpreter
 *
 * Executes the IR in every phase, on all replicas, as simply as possible and
 * slowly: it defines the IR where docs/ir.md is not precise enough (D17).  A
 * pass is correct when the module after it computes what the module before it
 * computed; code generation is correct when compiled code computes what the
 * interpreter computes, bit for bit.
 *
 * In a placed module every value is in the bytes that allocate gave it, so that
 * values that share bytes by mistake clobber each other here, too.
 */
#ifndef TFD_TESTS_REF_INTERP_H
#define TFD_TESTS_REF_INTERP_H

#include "ir/base/status.h"
#include "ir/ir.h"
#include "tests/ref/tensor.h"

/* A param's value in place of its default. */
typedef struct InterpParam {
    const char *name;
    Scalar value;
} InterpParam;

typedef struct InterpOptions {
    uint64_t seed;        /* as tfd-run --seed */
    const char *data_dir; /* where paths of datasets start; NULL: here */
    const InterpParam *params;
    int num_params;
    int64_t max_steps; /* an iterator ends after n elements; 0: at the end of
                        * its data */
    /* Called after each line of print; may be NULL. */
    void (*printed)(void *data, const char *line);
    void *data;
} InterpOptions;

typedef struct Interp Interp;

/* An interpreter of m, whose variables are zeros until interp_run.  It uses
 * the marks of m's values until interp_release; m must be right (ir_verify). */
Interp *interp_new(IrModule *m, const InterpOptions *options);
void interp_release(Interp *in);

/* Gives the variables their initial values and runs main.  Its output is
 * appended to output.  A failure is an error of the program (an assert, missing
 * data), or says how replicas drifted apart or missed each other. */
Status interp_run(Interp *in, Str *output) MUST_USE;

/* ---- single functions --------------------------------------------------- */

/* The rows that each replica has of batch symbol n, which also gives N. */
void interp_set_rows(Interp *in, int32_t n, const int64_t *rows);

/* Runs device programs, programs[r] on replica r (variants of one another, or
 * all the same): args[i][r] is argument i of replica r.  results[i][r] gets the
 * result's shape and, in arena a, its memory.  Their output goes to
 * options->printed. */
Status interp_call(Interp *in, const char *const *programs,
                   const RefTensor *const *args, Arena *a,
                   RefTensor *const *results) MUST_USE;

/* ---- what came of it ---------------------------------------------------- */

/* A replica's copy of a variable. */
const RefTensor *interp_var(const Interp *in, const char *name, int replica);

#endif
