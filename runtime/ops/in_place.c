/*
 * in_place.c - which components of a batch programs may read where the iterator
 * has them
 */
#include "runtime/ops/in_place.h"

#include <string.h>
#include "ir/loop.h"

/* A walk over the operations after an iter_next, up to the last user. */
typedef struct Search {
    const IrOp *next;
    const IrValue *component;
    int users_left;
    bool fails;
} Search;

static bool
moves_iterator(const IrOp *op, const IrOp *next)
{
    return (op->kind == OP_iter_next || op->kind == OP_iter_open) &&
           strcmp(ir_text(op, A_iter), ir_text(next, A_iter)) == 0;
}

static void
search_op(Search *s, const IrOp *op)
{
    if (ir_is_loop(op) || moves_iterator(op, s->next))
        s->fails = true;
    if (ir_is_operand(op, s->component)) {
        s->users_left--;
        if (op->kind != OP_launch)
            s->fails = true;
    }
    for (int r = 0; r < op->num_regions && !s->fails; r++)
        for (const IrOp *in = op->regions[r]->first; in; in = in->next)
            search_op(s, in);
}

bool
rt_is_read_in_place(const IrUsers *users, const IrOp *next, int i)
{
    const IrValue *v = next->results[i];
    Search s = {next, v, ir_users_of(users, v)->len, false};
    for (const IrOp *op = next->next; op && s.users_left && !s.fails;
         op = op->next)
        search_op(&s, op);
    return !s.users_left && !s.fails;
}
