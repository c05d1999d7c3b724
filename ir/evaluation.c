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

typedef struct Summaries {
    const IrModule *module;
    int num;
} Summaries;

static void
count_summary(IrOp *op, void *data)
{
    Summaries *s = data;
    s->num += op->kind == OP_summary;
    if (op->kind == OP_launch)
        ir_walk(ir_func_find(s->module, ir_text(op, A_program))->body,
                count_summary, s);
}

bool
ir_has_summary(const IrModule *m, bool evaluates)
{
    Summaries all = {.module = m}, evaluators = {.module = m};
    IrBlock *evaluation = ir_evaluation(m);
    if (evaluation)
        ir_walk(evaluation, count_summary, &evaluators);
    ir_walk(ir_main(m)->body, count_summary, &all);
    return evaluates ? evaluators.num > 0 : all.num > evaluators.num;
}
