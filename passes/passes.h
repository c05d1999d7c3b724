/*
 * passes.h - IR to IR, one idea each
 *
 * passes.def lists the passes in the order of the pipeline.  A pass changes a
 * module in place.  Every operation it inserts says why (ir_reason).
 */
#ifndef TFD_PASSES_PASSES_H
#define TFD_PASSES_PASSES_H

#include "passes/support/pass.h"

typedef struct Pass {
    const char *name;
    bool (*run)(PassCx *cx); /* false: errors are in cx->diag */
    PassStage first, last;   /* the stages of modules it can be run on */
    const char *doc;
} Pass;

extern const Pass pass_table[];
extern const int num_passes;

/* The named pass, or NULL. */
const Pass *pass_find(const char *name);
/* Whether the stage that m is at is one that the pass can be run on. */
bool pass_fits(const Pass *pass, const IrModule *m);

/* The first name of a list that no pass has, in a; NULL: all are passes'. */
const char *pass_first_unknown(const char *list, Arena *a);

/* Runs the passes of list (names separated by commas, of passes that there
 * are; NULL: the pipeline, from the pass on that m says it has been through).
 * A list may be in any order: a pass that m has not come far enough for, or too
 * far, is refused, and what each leaves is verified.  False when one found an
 * error in the program, or verification failed; messages are in d then. */
bool pass_run_pipeline(IrModule *m, Diag *d, const PassOptions *options,
                       const char *list);

/* A copy of m in a with one program for each device instead of one for all of
 * a group: for reading (--expand), not for running. */
IrModule *pass_expand_devices(const IrModule *m, Arena *a);

/* A placed module in words (--explain): variables and their devices, the
 * division of batches, what was inserted and why, memory. */
void pass_explain(Str *out, const IrModule *m);

#endif
