/*
 * loop.c - one view of the two kinds of loops
 */
#include "ir/loop.h"

#include <assert.h>

bool
ir_is_loop(const IrOp *op)
{
    return op->kind == OP_for || op->kind == OP_while;
}

bool
ir_is_loop_test(const IrBlock *b)
{
    return b->op && b->op->kind == OP_while && b == b->op->regions[0];
}

IrLoop
ir_loop(const IrOp *op)
{
    assert(ir_is_loop(op));
    bool counts = op->kind == OP_for;
    IrBlock *entry = op->regions[0], *body = op->regions[!counts];
    IrOp *yield = ir_block_yield(body);
    IrLoop loop = {.op = op,
                   .test = counts ? NULL : entry,
                   .body = body,
                   .index = counts ? body->args.data[0] : NULL,
                   .yield = yield,
                   .num_carried = op->num_results,
                   .first_init = counts,
                   .init = op->operands + counts,
                   .next = yield->operands,
                   .result = op->results};
    assert(op->num_operands == loop.num_carried + counts);
    assert(body->args.len == loop.num_carried + counts);
    assert(yield->num_operands == loop.num_carried);
    if (loop.num_carried) {
        loop.body_arg = body->args.data + counts;
        loop.entry_arg = entry->args.data + counts;
    }
    return loop;
}
