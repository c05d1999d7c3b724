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

/* The free dimensions of dot's operands. */
typedef struct Sides {
    int batch, of_x, of_y;
} Sides;

static Sides
sides_of(const IrOp *dot)
{
    int batch = count_of(dot, A_batch_x);
    int both = batch + count_of(dot, A_contract_x);
    return (Sides){batch, dot->operands[0]->type.rank - both,
                   dot->operands[1]->type.rank - both};
}

/* Whether the last dimension of op, a transpose of dot, is one of x: y times x
 * has it at the end of its rows, too. */
static bool
ends_with_x(const IrOp *op, const IrOp *dot)
{
    int n;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    Sides s = sides_of(dot);
    return n > 0 && s.of_y && perm[n - 1] >= s.batch &&
           perm[n - 1] < s.batch + s.of_x;
}

/* y times x. */
static IrValue *
build_turned(IrBlock *b, const IrOp *dot, Loc loc)
{
    IrDotAxes axes;
    axes.contract_x = ir_ints(dot, A_contract_y, &axes.num_contract);
    axes.contract_y = ir_ints(dot, A_contract_x, &axes.num_contract);
    axes.batch_x = ir_ints(dot, A_batch_y, &axes.num_batch);
    axes.batch_y = ir_ints(dot, A_batch_x, &axes.num_batch);
    return ir_build_dot(b, ir_forwarded(dot->operands[1]),
                        ir_forwarded(dot->operands[0]), &axes, loc);
}

/* What op, a transpose of dot, still has to move of y times x; whether that is
 * anything. */
static bool
left_to_move(const IrOp *op, const IrOp *dot, int64_t *left)
{
    int n;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    Sides s = sides_of(dot);
    bool moves = false;
    for (int i = 0; i < n; i++) {
        left[i] = perm[i] < s.batch            ? perm[i]
                  : perm[i] < s.batch + s.of_x ? perm[i] + s.of_y
                                               : perm[i] - s.of_x;
        moves |= left[i] != i;
    }
    return moves;
}

IrValue *
pass_simplify_transposed_product(IrOp *op)
{
    const IrOp *dot = op->kind == OP_transpose ? op->operands[0]->def : NULL;
    if (!dot || dot->kind != OP_dot || dot->results[0]->num_uses != 1 ||
        ir_has(dot, A_dtype) || !ends_with_x(op, dot))
        return NULL;
    int64_t left[IR_MAX_RANK];
    IrBlock *b = ir_block_scratch(op);
    IrValue *v = build_turned(b, dot, op->loc);
    if (left_to_move(op, dot, left))
        v = ir_build_transpose(b, v, left, op->loc);
    const IrReason *reason =
        ir_reason_for(op, "simplify.turn", "the transpose of a product");
    ir_inherit_calls(b, dot);
    ir_stamp(b, dot->reason ? dot->reason : reason);
    ir_splice_before(op, b);
    return v;
}
