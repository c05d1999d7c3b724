/*
 * evaluation.h - what of main an evaluator executes
 */
#ifndef TFD_IR_EVALUATION_H
#define TFD_IR_EVALUATION_H

#include "ir/ir.h"

/* What `main evaluate` says; NULL: the program says nothing. */
IrBlock *ir_evaluation(const IrModule *m);
/* Whether an evaluator alone takes elements of the iterator. */
bool ir_is_evaluators_iter(const IrModule *m, const char *iter);
/* Whether an evaluator, or who executes the rest of main, has a summary, also
 * in a step. */
bool ir_has_summary(const IrModule *m, bool evaluates);

#endif
