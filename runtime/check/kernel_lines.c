/*
 * kernel_lines.c - the operations of a kernel, in messages
 */
#include "runtime/check/kernel_lines.h"

#include "ir/base/message.h"

enum { MAX_NOTES = 8 }; /* places of a kernel that a message names */

const char *
rt_operation_name(const IrOp *op)
{
    const IrSplit *split = ir_op_split(op->kind);
    return ir_op_info[split ? split->op : op->kind].name;
}

bool
rt_is_computed(const IrOp *op)
{
    return op->kind != OP_constant &&
           !(ir_op_info[op->kind].traits & (VIEW | MOVES | TERMINATOR));
}

const IrOp *
rt_maker_of(const IrOp *kernel, int result)
{
    const IrOp *yield = ir_block_yield(kernel->regions[0]);
    const IrOp *maker = yield->operands[result]->def;
    return maker ? maker : kernel;
}

static bool
is_same_line(Loc x, Loc y)
{
    return x.file == y.file && x.line == y.line;
}

void
rt_note_kernel_lines(const IrOp *kernel, const IrOp *first, RtFault *fault,
                     Arena *a)
{
    const IrOp *op = kernel->regions[0]->first;
    for (; op && fault->notes.len < MAX_NOTES; op = op->next) {
        bool is_known = !op->loc.line || is_same_line(op->loc, first->loc);
        for (int i = 0; i < fault->notes.len && !is_known; i++)
            is_known = is_same_line(op->loc, fault->notes.data[i].loc);
        if (is_known || !rt_is_computed(op))
            continue;
        RtNote note = {op->loc, message_printf(a, "the kernel also has this %s",
                                               rt_operation_name(op))};
        VEC_PUSH(a, fault->notes, note);
    }
}
