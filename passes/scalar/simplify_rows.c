/*
 * simplify_rows.c - rows that the iterations of a loop change, each once
 *
 * The gradient of x, where a loop takes x[:, t] in iteration t, begins as
 * zeros, to row t of which the reverse loop adds what it gets in its iteration.
 * Nobody looks at the rows before: so it sets them to 0 + dy, and needs no
 * zeros in memory. (Not to dy: 0 + -0 is +0.)
 */
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/rules/overwrites.h"
#include "passes/scalar/simplify.h"
#include "passes/support/pass.h"

/* set puts `old` combined with its values, in place of combining the rows. */
static void
set_combined(IrOp *set, Scalar old)
{
    IrBlock *b = ir_block_scratch(set);
    IrOpKind fold =
        ir_update_op((IrUpdate)ir_enum(set, A_mode), dtype_is_float(old.dtype));
    IrValue *before = ir_const_scalar(b, old, set->loc);
    IrValue *sum = ir_build2(b, fold, before, set->operands[2], set->loc);
    ir_stamp(b,
             ir_reason_for(set, "simplify.collect", "every row changes once"));
    ir_splice_before(set, b);
    set->operands[2] = sum;
    ir_set_enum(set, A_mode, UPDATE_set);
}

bool
pass_simplify_collected_rows(IrOp *op)
{
    bool changed = false;
    for (int i = 0; op->kind == OP_for && i < op->num_results; i++) {
        Scalar old;
        IrOp *set = (IrOp *)ir_for_collects(op, i);
        if (!set || ir_enum(set, A_mode) == UPDATE_set ||
            !ir_const_known(ir_loop(op).init[i], &old))
            continue;
        set_combined(set, old);
        changed = true;
    }
    return changed;
}
