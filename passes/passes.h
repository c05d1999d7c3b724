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
    PassStage first, last;   /* the stages of modules it can run on */
    const char *doc;
} Pass;

extern const Pass pass_table[];
extern const int num_passes;

/* The named pass, or NULL. */
const Pass *pass_find(const char *name);
/* Whether the pass can run on m at its current stage. */
bool pass_fits(const Pass *pass, const IrModule *m);

/* The first name of a list that is not a pass, in a; NULL: all are passes. */
const char *pass_first_unknown(const char *list, Arena *a);

/* The names of all passes in their order, with commas, in a. */
const char *pass_names(Arena *a);

/* Runs the passes of list (names separated by commas, all of existing passes;
 * NULL: the pipeline, continued after the last pass that m went through).  A
 * list may be in any order: a pass that cannot run at m's current stage is
 * refused, and the module is verified after each.  False when one found an
 * error in the program, or verification failed; messages are in d then. */
bool pass_run_pipeline(IrModule *m, Diag *d, const PassOptions *options,
                       const char *list);

/* A copy of m in a with one program for each device instead of a shared one:
 * for reading (--expand), not for running. */
IrModule *pass_expand_devices(const IrModule *m, Arena *a);

/* A description of a placed module (--explain): variables and their devices,
 * the sharding of batches, inserted operations and why, memory. */
void pass_explain(Str *out, const IrModule *m);

#endif
