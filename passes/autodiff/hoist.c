/*
 * hoist.c - what loops need not do in each iteration moves in front of them
 *
 *   invariants   pure operations whose operands are made outside, and reads of
 *                variables that the loop does not write
 *   products     of a part x[t] and an invariant w, in a loop that takes as
 *                many parts as x has: part t of the product of all of x and w,
 *                whose elements are the same sums in the same order
 *   transposes   of a matrix from outside whose rows lie along the sums of a
 *                product, as in the gradient of x w: code would have to
 *                transpose it in each iteration
 *
 * Gradients of a hoisted product are products of the whole, too.
 */
#include <string.h>
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/autodiff/grad.h"

static bool
is_from_outside(const IrValue *v, const IrOp *loop)
{
    return !ir_is_inside(v, loop);
}

/* ---- invariants --------------------------------------------------------- */

typedef struct Written {
    const char *var;
    bool found;
} Written;

static void
note_write(IrOp *op, void *data)
{
    Written *w = data;
    w->found |= op->kind == OP_write && !strcmp(ir_text(op, A_var), w->var);
}

static bool
is_written_in(const IrBlock *b, const char *var)
{
    Written w = {.var = var};
    ir_walk((IrBlock *)b, note_write, &w);
    return w.found;
}

static bool
is_invariant(const IrOp *op, const IrOp *loop)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    if (op->num_regions || op->num_results != 1 || op->kind == OP_grad)
        return false;
    for (int i = 0; i < op->num_operands; i++)
        if (!is_from_outside(op->operands[i], loop))
            return false;
    return effect == PURE ||
           (op->kind == OP_read &&
            !is_written_in(loop->regions[0], ir_text(op, A_var)));
}

/* ---- products ----------------------------------------------------------- */

/* A product of a part and an invariant. */
typedef struct PartProduct {
    const IrOp *dot, *take;
    int side; /* operand of dot that is the part */
    int axis; /* of the whole */
} PartProduct;

static bool
takes_all_parts(const IrOp *take, const IrOp *loop)
{
    Scalar count;
    Dim size = take->operands[0]->type.dims[ir_int(take, A_axis)];
    return ir_const_known(loop->operands[0], &count) && ir_dim_is_const(size) &&
           count.i >= size.c;
}

static bool
find_product(const IrOp *op, const IrOp *loop, PartProduct *p)
{
    bool is_plain = op->kind == OP_dot && !ir_has(op, A_dtype);
    for (int side = 0; is_plain && side < 2; side++) {
        const IrOp *take = op->operands[side]->def;
        if (!take || take->kind != OP_take || take->block != op->block ||
            take->operands[1]->type.rank != 0 ||
            !is_from_outside(take->operands[0], loop) ||
            !is_from_outside(op->operands[1 - side], loop) ||
            !takes_all_parts(take, loop))
            continue;
        *p = (PartProduct){op, take, side, (int)ir_int(take, A_axis)};
        return true;
    }
    return false;
}

/* Axes of the part as those of the whole. */
static void
axes_of_whole(const PartProduct *p, IrAttrName a, int64_t *axes)
{
    int n;
    const int64_t *from = ir_ints(p->dot, a, &n);
    for (int i = 0; i < n; i++)
        axes[i] = from[i] + (from[i] >= p->axis);
}

/* The axis of the product of the whole along which the parts lie: among the
 * free ones of its side. */
static int
axis_of_product(const PartProduct *p, const IrDotAxes *axes)
{
    const int64_t *contract = p->side ? axes->contract_y : axes->contract_x;
    const int64_t *batch = p->side ? axes->batch_y : axes->batch_x;
    int at = p->axis;
    for (int i = 0; i < axes->num_contract; i++)
        at -= contract[i] < p->axis;
    for (int i = 0; i < axes->num_batch; i++)
        at -= batch[i] < p->axis;
    int of_x = p->dot->operands[0]->type.rank - axes->num_contract;
    return p->side ? of_x + at : axes->num_batch + at;
}

static void
hoist_product(IrOp *op, const PartProduct *p, IrOp *loop)
{
    int64_t contract[IR_MAX_RANK], batch[IR_MAX_RANK];
    IrDotAxes axes = {0};
    axes.contract_x = ir_ints(op, A_contract_x, &axes.num_contract);
    axes.contract_y = ir_ints(op, A_contract_y, &axes.num_contract);
    if (ir_has(op, A_batch_x)) {
        axes.batch_x = ir_ints(op, A_batch_x, &axes.num_batch);
        axes.batch_y = ir_ints(op, A_batch_y, &axes.num_batch);
        axes_of_whole(p, p->side ? A_batch_y : A_batch_x, batch);
        *(p->side ? &axes.batch_y : &axes.batch_x) = batch;
    }
    axes_of_whole(p, p->side ? A_contract_y : A_contract_x, contract);
    *(p->side ? &axes.contract_y : &axes.contract_x) = contract;
    IrValue *sides[2] = {op->operands[0], op->operands[1]};
    sides[p->side] = p->take->operands[0];
    IrBlock *before = ir_block_scratch(loop), *inside = ir_block_scratch(op);
    IrValue *all = ir_build_dot(before, sides[0], sides[1], &axes, op->loc);
    IrValue *operands[] = {all, p->take->operands[1]};
    IrOp *part = ir_build_op(inside, OP_take, 2, operands, op->loc);
    ir_set_int(part, A_axis, axis_of_product(p, &axes));
    ir_forward(op->results[0], ir_build_infer(part));
    const IrReason *reason = ir_reason_for(
        op, "differentiate.hoist", "one product for all iterations of a loop");
    ir_stamp(before, reason);
    ir_stamp(inside, reason);
    ir_splice_before(loop, before);
    ir_splice_before(op, inside);
    ir_remove(op);
}

/* ---- transposes --------------------------------------------------------- */

enum { MIN_ITERATIONS = 4, MAX_TURNED_BYTES = 1 << 24 };

/* Whether operand y of a product is a matrix whose transpose should be made in
 * front of the loop, since it is used in many iterations. */
static bool
has_rows_along_sums(const IrOp *op, const IrOp *loop)
{
    int n, batch = 0;
    int64_t bytes;
    Scalar count;
    if (op->kind != OP_dot || op->operands[1]->type.rank != 2 ||
        !is_from_outside(op->operands[1], loop) ||
        is_from_outside(op->operands[0], loop))
        return false;
    const int64_t *along = ir_ints(op, A_contract_y, &n);
    if (ir_has(op, A_batch_y))
        ir_ints(op, A_batch_y, &batch);
    return n == 1 && along[0] == 1 && batch == 0 &&
           ir_const_known(loop->operands[0], &count) &&
           count.i >= MIN_ITERATIONS &&
           ir_type_bytes(op->module, &op->operands[1]->type, &bytes) &&
           bytes <= MAX_TURNED_BYTES;
}

static void
hoist_transpose(IrOp *op, IrOp *loop)
{
    static const int64_t perm[] = {1, 0}, along[] = {0};
    IrBlock *before = ir_block_scratch(loop);
    IrValue *turned =
        ir_build_transpose(before, op->operands[1], perm, op->loc);
    ir_stamp(before,
             ir_reason_for(op, "differentiate.hoist",
                           "one transpose for all iterations of a loop"));
    ir_splice_before(loop, before);
    op->operands[1] = turned;
    ir_set_ints(op, A_contract_y, along, 1);
}

/* ---- a loop ------------------------------------------------------------- */

/* The result of a product has a rank more than that of its part. */
static bool
has_room(const IrOp *op)
{
    return op->results[0]->type.rank < IR_MAX_RANK;
}

void
pass_grad_hoist(IrOp *loop)
{
    if (loop->kind != OP_for || ir_context(loop->block) != CX_REPLICA)
        return;
    for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
        PartProduct p;
        next = op->next;
        ir_follow_forwards(op);
        if (is_invariant(op, loop)) {
            ir_remove(op);
            ir_insert_before(loop, op);
        } else if (find_product(op, loop, &p) && has_room(op)) {
            hoist_product(op, &p, loop);
        }
    }
}

void
pass_grad_hoist_transposes(IrOp *loop)
{
    if (loop->kind != OP_for || ir_context(loop->block) != CX_REPLICA)
        return;
    for (IrOp *op = loop->regions[0]->first; op; op = op->next)
        if (has_rows_along_sums(op, loop))
            hoist_transpose(op, loop);
}
