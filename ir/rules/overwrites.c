/*
 * overwrites.c - carried values of which a loop keeps nothing
 *
 * A loop that collects the rows of its iterations, as those do that keep values
 * for their gradients, carries an array that begins as zeros and gets row t, or
 * the last row but t, in iteration t.  When the iterations are as many as the
 * rows, all are replaced, and nobody sees the zeros: so they need not be
 * copied.  What an iteration makes of the array must be for the next one alone:
 * it has the zeros of the rows that are not yet replaced.
 */
#include "ir/rules/overwrites.h"

#include "ir/loop.h"
#include "ir/ops/op.h"
#include "ir/rules/build.h"
#include "ir/segments.h"

/* What v is inside of the kernels that hand it on. */
static const IrValue *
source_of(const IrValue *v)
{
    for (;;) {
        const IrOp *of = v->block ? v->block->op : NULL;
        if (v->def && v->def->kind == OP_kernel)
            v = ir_block_yield(v->def->regions[0])->operands[v->index];
        else if (of && of->kind == OP_kernel)
            v = of->operands[v->index];
        else
            return v;
    }
}

static bool
is_known(const IrValue *v, int64_t *x)
{
    Scalar s;
    if (!ir_const_known(source_of(v), &s) || dtype_is_float(s.dtype))
        return false;
    *x = s.i;
    return true;
}

/* Whether v counts the iterations of a loop from 0 to last, or back. */
static bool
counts_iterations(const IrValue *v, const IrValue *index, int64_t last)
{
    int64_t from;
    v = source_of(v);
    if (v == index)
        return true;
    const IrOp *op = v->def;
    if (!op || (v->type.dtype != DT_i32 && v->type.dtype != DT_i64))
        return false;
    if (op->kind == OP_cast)
        return counts_iterations(op->operands[0], index, last);
    return op->kind == OP_sub && is_known(op->operands[0], &from) &&
           from == last && counts_iterations(op->operands[1], index, last);
}

typedef struct Uses {
    const IrValue *of;
    int num;
} Uses;

static void
count_uses(IrOp *op, void *data)
{
    Uses *u = data;
    for (int i = 0; i < op->num_operands; i++)
        u->num += op->operands[i] == u->of;
}

static bool
is_used_once(const IrValue *v)
{
    Uses u = {.of = v};
    ir_walk(ir_value_block(v), count_uses, &u);
    return u.num == 1;
}

/* The axis along which op replaces rows. */
static int
axis_of(const IrOp *op)
{
    return ir_has(op, A_axis) ? (int)ir_int(op, A_axis) : 0;
}

/* The operation of the loop's body that makes v: itself, or a kernel that
 * contains it. */
static bool
is_made_in(const IrOp *made, const IrBlock *body)
{
    const IrOp *outer = made->block->op;
    return made->block == body ||
           (outer && outer->kind == OP_kernel && outer->block == body);
}

const IrOp *
ir_for_collects(const IrOp *op, int i)
{
    int64_t iterations;
    IrLoop loop = ir_loop(op);
    const IrValue *made = source_of(loop.next[i]), *arg = loop.body_arg[i];
    const IrOp *set = made->def;
    if (op->kind != OP_for || !set || set->kind != OP_scatter ||
        !is_made_in(set, loop.body) || source_of(set->operands[0]) != arg ||
        !is_used_once(arg) || !is_used_once(set->operands[0]) ||
        !is_used_once(made) || !is_used_once(loop.next[i]) ||
        set->operands[1]->type.rank != 0)
        return NULL;
    Dim rows = made->type.dims[axis_of(set)];
    return is_known(op->operands[0], &iterations) && ir_dim_is_const(rows) &&
                   rows.c == iterations &&
                   counts_iterations(set->operands[1], loop.index,
                                     iterations - 1)
               ? set
               : NULL;
}

bool
ir_for_overwrites(const IrOp *op, int i)
{
    const IrOp *set = ir_for_collects(op, i);
    return set && ir_is_in_kernel(set) && ir_enum(set, A_mode) == UPDATE_set;
}
