/*
 * simplify_moves.c - successive moves, and transposes of products
 *
 * Gradients of products are full of transposes: dw = (dy' x)' of y = x w.  Two
 * in a row become one, and the transpose of a product is the product of its
 * operands in the other order: each of its elements is made of the same
 * products in the same order, so the bits are the same.
 */
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "passes/scalar/simplify.h"
#include "passes/support/pass.h"

/* ---- two moves ---------------------------------------------------------- */

/* Element i of the result's index is that of inner's result at perm[i]. */
static void
compose(IrOp *op, const IrOp *inner)
{
    int n;
    int64_t perm[IR_MAX_RANK];
    const int64_t *outer_perm = ir_ints(op, A_perm, &n);
    const int64_t *inner_perm = ir_ints(inner, A_perm, &n);
    for (int i = 0; i < n; i++)
        perm[i] = inner_perm[outer_perm[i]];
    ir_set_ints(op, A_perm, perm, n);
}

bool
pass_simplify_skip_inner_move(IrOp *op)
{
    if (op->kind != OP_reshape && op->kind != OP_transpose)
        return false;
    const IrOp *inner = op->operands[0]->def;
    if (!inner || inner->kind != op->kind)
        return false;
    if (op->kind == OP_transpose)
        compose(op, inner);
    op->operands[0] = ir_forwarded(inner->operands[0]);
    return true;
}

/* ---- transposed products ------------------------------------------------ */

static int
count_of(const IrOp *op, IrAttrName a)
{
    int n;
    ir_ints(op, a, &n);
    return n;
}

/* Whether op takes the free dimensions of y before those of x. */
static bool
swaps_sides(const IrOp *op, const IrOp *dot)
{
    int n, batch = count_of(dot, A_batch_x), both = batch;
    both += count_of(dot, A_contract_x);
    int of_x = dot->operands[0]->type.rank - both;
    int of_y = dot->operands[1]->type.rank - both;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    for (int i = 0; i < n; i++) {
        int from = i < batch ? i : i < batch + of_y ? i + of_x : i - of_y;
        if (perm[i] != from)
            return false;
    }
    return true;
}

IrValue *
pass_simplify_transposed_product(IrOp *op)
{
    const IrOp *dot = op->kind == OP_transpose ? op->operands[0]->def : NULL;
    if (!dot || dot->kind != OP_dot || dot->results[0]->num_uses != 1 ||
        !swaps_sides(op, dot))
        return NULL;
    IrDotAxes axes;
    axes.contract_x = ir_ints(dot, A_contract_y, &axes.num_contract);
    axes.contract_y = ir_ints(dot, A_contract_x, &axes.num_contract);
    axes.batch_x = ir_ints(dot, A_batch_y, &axes.num_batch);
    axes.batch_y = ir_ints(dot, A_batch_x, &axes.num_batch);
    IrBlock *b = ir_block_scratch(op);
    IrValue *v = ir_build_dot(b, ir_forwarded(dot->operands[1]),
                              ir_forwarded(dot->operands[0]), &axes, op->loc);
    const IrReason *reason =
        ir_reason(op->module, "simplify.turn", pass_loc(op),
                  "the transpose of a product");
    ir_stamp(b, dot->reason ? dot->reason : reason);
    ir_inherit_calls(b, dot);
    ir_splice_before(op, b);
    return v;
}
