/*
 * pass.h - the context of a pass
 */
#ifndef TFD_PASSES_SUPPORT_PASS_H
#define TFD_PASSES_SUPPORT_PASS_H

#include "ir/ir.h"

/* --precision: how products of matrices and convolutions are added */
typedef enum PassPrecision {
    PASS_EXACT,    /* by D2 and D4 */
    PASS_TF32,     /* on GPUs by tensor cores (D36) */
    PASS_VDPBF16PS /* of bf16 in one chain (D37) */
} PassPrecision;

typedef struct PassOptions {
    int level;       /* -O0 .. -O3 */
    bool keep_apart; /* each operation in a kernel of its own */
    PassPrecision precision;
    bool verify_each; /* verify after every pass, not only the last */
    bool time;        /* print the time of each pass to standard error */
    /* called after each pass (--print-after, --dump-phases); may be NULL */
    void (*after)(const char *pass, int number, const IrModule *m, void *data);
    void *after_data;
} PassOptions;

typedef struct PassCx {
    Arena *arena; /* scratch, released after the pass */
    IrModule *m;
    Diag *diag; /* errors and warnings for the user */
    const PassOptions *options;
    int64_t num_unrolled; /* operations, of loops that gradients go through */
} PassCx;

/* The stages of a module, for passes. */
typedef enum PassStage {
    STAGE_step,
    STAGE_programs,
    STAGE_replicated,
    STAGE_placed
} PassStage;

PassStage pass_stage(const IrModule *m);

/* Operations: op and those below it; those of a block and below it. */
int64_t pass_num_ops(const IrOp *op);
int64_t pass_num_ops_of(const IrBlock *b);

/* The passes: each changes cx->m in place, or reports an error in the program
 * and returns false. */
#define PASS(name, first, last, doc) bool pass_##name(PassCx *cx);
#include "passes/support/passes.def"
#undef PASS

#endif
