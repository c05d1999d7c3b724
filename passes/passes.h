/*
 * passes.h - IR to IR, one idea each
 *
 * passes.def lists the passes in the order of the pipeline.  A pass changes a
 * module in place.  Every operation it inserts says why (ir_reason).
 */
#ifndef TFD_PASSES_PASSES_H
#define TFD_PASSES_PASSES_H

#include "passes/pass.h"

typedef struct Pass {
    const char *name;
    bool (*run)(PassCx *cx); /* false: errors are in cx->diag */
    const char *doc;
} Pass;

extern const Pass pass_table[];
extern const int num_passes;

/* The named pass, or NULL. */
const Pass *pass_find(const char *name);

/* Runs the passes of list (names separated by commas; NULL: the pipeline) on
 * m.  False when one found an error in the program, or verification failed;
 * messages are in d then. */
bool passes_run(IrModule *m, Diag *d, const PassOptions *options,
                const char *list);

/* A copy of m in a with one program for each device instead of one for all of
 * a group: for reading (--expand), not for running. */
IrModule *passes_expand(const IrModule *m, Arena *a);

/* A placed module in words (--explain): variables and their devices, the
 * division of batches, what was inserted and why, memory. */
void passes_explain(Str *out, const IrModule *m);

#endif
