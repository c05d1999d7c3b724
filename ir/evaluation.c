/*
 * evaluation.c - what of main an evaluator executes
 *
 * Main begins with a choice: if this process evaluates, the first region of an
 * `if` is executed, else the second.
 */
#include "ir/evaluation.h"

#include <string.h>

IrBlock *
ir_evaluation(const IrModule *m)
{
    const IrFunc *main = ir_main(m);
    if (!main)
        return NULL;
    for (const IrOp *op = main->body->first; op; op = op->next) {
        const IrOp *condition = op->kind == OP_if ? op->operands[0]->def : NULL;
        if (condition && condition->kind == OP_evaluates)
            return op->regions[0];
    }
    return NULL;
}

typedef struct Search {
    const char *iter;
    bool found;
} Search;

static void
look_at(IrOp *op, void *data)
{
    Search *s = data;
    s->found |=
        op->kind == OP_iter_open && strcmp(ir_text(op, A_iter), s->iter) == 0;
}

bool
ir_is_evaluators_iter(const IrModule *m, const char *iter)
{
    Search s = {.iter = iter};
    IrBlock *evaluation = ir_evaluation(m);
    if (evaluation)
        ir_walk(evaluation, look_at, &s);
    return s.found;
}
