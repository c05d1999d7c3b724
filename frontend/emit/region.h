/*
 * region.h - where operations are appended: regions, functions, going back
 */
#ifndef TFD_FRONTEND_EMIT_REGION_H
#define TFD_FRONTEND_EMIT_REGION_H

#include "frontend/context/scope.h"

/* A place to come back to. */
typedef struct FeRegion {
    IrBlock *block;
    FeContext context;
    FeDivergence *divergence;
    IrVar *updated;
    FeScope *scope;
    const IrCall *calls;
    const char *path;
} FeRegion;

/* Goes to another place, and back. */
FeRegion fe_region_enter(Lower *cx, IrBlock *block, FeContext context);
void fe_region_leave(Lower *cx, const FeRegion *saved);

/* Appends operation kind (run, schedule, merge, update) to the current block
 * and lowers into its region from now on, in that context.  NULL (with a
 * message, or in FE_TOP) when it cannot stand here for a limit's sake. */
IrOp *fe_region_open(Lower *cx, IrOpKind kind, FeContext context, Loc loc,
                     FeRegion *saved);
/* Yields the leaves of result that the region computed, goes back to where it
 * was, and gives the operation its results: result with these in their places.
 * Leaves that are known when compiling, and variables, stay as they are. */
FeValue *fe_region_close(Lower *cx, IrOp *op, const FeRegion *saved,
                         FeValue *result, Loc loc);
/* A new function of the module, and back: its arguments are those of
 * cx->block.  Ends it in a return of the leaves of
 * result as tensors; false when there were errors. */
IrFunc *fe_func_open(Lower *cx, const char *name, IrFuncKind kind,
                     FeContext context, Loc loc, FeRegion *saved);
bool fe_func_close(Lower *cx, IrFunc *fn, const FeRegion *saved,
                   FeValue *result, Loc loc);

/* Appends an operation with empty regions; NULL with a message at a limit, or
 * where nothing can be appended. */
IrOp *fe_nested_op(Lower *cx, IrOpKind kind, int n, IrValue *const *operands,
                   Loc loc);

/* ---- divergence --------------------------------------------------------- */

/* The per-replica control flow around this place, or NULL.  Collectives are
 * refused there, with its name in the message. */
const FeDivergence *fe_divergence(const Lower *cx);
/* Whether n, evaluated here, differs among the replicas.  It leaves nothing. */
bool fe_differs(Lower *cx, const AstNode *n);
/* Checks that all replicas reach this place: that no condition around differs
 * among them. what names the collective ("all_reduce"). */
bool fe_check_together(Lower *cx, const char *what, Loc loc);

/* ---- going back --------------------------------------------------------- */

/* A point that lowering can return to, everything since forgotten. */
typedef struct FeMark {
    DiagMark diag;
    IrBlock *block;
    IrOp *last;
    IrFunc *last_func;
    int num_writes, num_checked, num_summed;
    int num_iters, num_symbols, num_datasets;
    int64_t num_errors, num_sites;
    bool needs_constant;
} FeMark;
FeMark fe_mark(Lower *cx);
void fe_rewind(Lower *cx, const FeMark *mark);

#endif
