/*
 * loop.h - loops of the IR
 *
 * lower_loop.c has the kinds of loops; loop_carried.c the values that go from
 * one iteration to the next.
 */
#ifndef TFD_FRONTEND_LOWER_LOOP_H
#define TFD_FRONTEND_LOWER_LOOP_H

#include "frontend/lower/lower_impl.h"

/* The muts that a loop's body assigns to, as the operands, arguments and yields
 * of the loop: one each for every number in them.  Other values (a function, a
 * string) are not carried and must stay as they are. */
typedef struct FeCarried {
    FeBindings muts;
    FeValues start;    /* their values before the loop */
    IrValues operands; /* the numbers in these */
    VEC(IrType)
    types; /* of the numbers in an iteration: as the operands, but for
              localities, which may be greater */
} FeCarried;

/* Makes operands of the muts' values. */
bool fe_carried_begin(Lower *cx, FeCarried *c, Loc loc);
/* Arguments of a region for the loop-carried values; the muts become these. */
void fe_carried_bind(Lower *cx, FeCarried *c, IrBlock *region);
/* The values of the muts at the end of the body, for the yield.  False with a
 * message when a shape changed. *grew: a locality is greater than that in
 * types, which is now so, and the body is to be lowered again. */
bool fe_carried_end(Lower *cx, FeCarried *c, const AstNode *loop,
                    IrValues *yields, bool *grew);
/* The muts become the results of the loop. */
void fe_carried_leave(Lower *cx, const FeCarried *c, const IrOp *op);

/* ---- kinds of loops (lower_loop.c) -------------------------------------- */

/* One iteration: the pattern (or NULL) bound to the element, the body executed.
 * */
void fe_loop_iteration(Lower *cx, FeLoop *loop, const AstNode *pattern,
                       FeValue *element, const AstNode *body);
/* In the IR: for over from..to, for over a distributed dataset, while (max 0:
 * without a limit). */
void fe_loop_counted(Lower *cx, const AstNode *n, FeValue *from, FeValue *to);
void fe_loop_dataset(Lower *cx, const AstNode *n, FeValue *dist);
void fe_loop_while(Lower *cx, const AstNode *n, int64_t max);

#endif
