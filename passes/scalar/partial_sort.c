/*
 * partial_sort.c - no more of the rows is put in order than is used
 *
 * top_k(x, k), argsort(x)[:k] and sort(x)[:, :k] are slices of an order of
 * whole rows.  Where slices alone read an order, and what it gives to values
 * (reorder), it needs only the elements up to the last of them, which for a
 * small part of a long row is much less work than a sort.
 *
 * Comes before differentiate: the gradient of a reorder by the whole order
 * would read all of it.  The elements and their order stay the same.
 */
#include "ir/device/device.h"
#include "ir/ir.h"
#include "passes/support/pass.h"

/* An argsort, and how many of a row's elements its slices reach; 0 where it
 * stays whole. */
typedef struct Sort {
    IrOp *op;
    int64_t used;
} Sort;

/* The id of an operation is the number of the sort whose order it gives or
 * takes values by, or NOT_SORTED. */
enum { NOT_SORTED = -1 };

typedef struct PartialSort {
    PassCx *cx;
    VEC(Sort) sorts;
} PartialSort;

static Dim *
row_of(IrOp *op)
{
    IrType *t = &op->results[0]->type;
    return &t->dims[t->rank - 1];
}

/* ---- how much is used --------------------------------------------------- */

/* Whether op is an order of all of long rows of which elements are counted, as
 * the gradient of a part wants. */
static bool
can_be_partial(const IrOp *op)
{
    enum { SHORT_ROW = 64 };
    Dim count;
    if (op->kind != OP_argsort || ir_has(op, A_first))
        return false;
    const IrType *t = &op->operands[0]->type;
    Dim row = t->dims[t->rank - 1];
    return ir_dim_is_const(row) && row.c > SHORT_ROW &&
           ir_type_elements(t, &count);
}

/* How many elements of each row a slice reaches. */
static int64_t
reach_of(const IrOp *slice)
{
    int n;
    int64_t start = ir_ints(slice, A_start, &n)[n - 1];
    int64_t step = ir_ints(slice, A_step, &n)[n - 1];
    Dim taken = ir_dims(slice, A_dims, &n)[n - 1];
    if (!ir_dim_is_const(taken))
        return INT64_MAX;
    if (taken.c == 0)
        return 0;
    return start + (step > 0 ? (taken.c - 1) * step : 0) + 1;
}

/* Operand i of op has to do with a sort: op puts values in its order, slices
 * it, or uses all of it. */
static void
note_use(Sort *s, int number, IrOp *op, int i)
{
    bool is_order = op->operands[i]->def == s->op;
    if (op->kind == OP_reorder && i == 1 && is_order) {
        op->id = number;
        return;
    }
    int64_t used = op->kind == OP_slice ? reach_of(op) : INT64_MAX;
    if (used > s->used)
        s->used = used;
}

static void
note_op(IrOp *op, void *data)
{
    PartialSort *p = data;
    op->id = NOT_SORTED;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *of = op->operands[i]->def;
        if (of && of->id != NOT_SORTED)
            note_use(&p->sorts.data[of->id], of->id, op, i);
    }
    if (!can_be_partial(op))
        return;
    op->id = p->sorts.len;
    VEC_PUSH(p->cx->arena, p->sorts, ((Sort){op, 0}));
}

/* ---- shorter rows ------------------------------------------------------- */

/* From an eighth of the row on, a sort of all is as fast. */
static bool
is_small_part(const Sort *s)
{
    enum { PART = 8 };
    return s->used > 0 && s->used <= row_of(s->op)->c / PART;
}

static void
shorten(IrOp *op, void *data)
{
    const PartialSort *p = data;
    int64_t used = op->id == NOT_SORTED ? 0 : p->sorts.data[op->id].used;
    if (used == 0)
        return;
    if (op->kind == OP_argsort)
        ir_set_int(op, A_first, used);
    *row_of(op) = ir_dim_const(used);
}

/* On a GPU one thread of a team would find the first elements: the team sorts
 * all of the row sooner. */
bool
pass_partial_sort(PassCx *cx)
{
    PartialSort p = {.cx = cx};
    if (cx->options->level == 0 || ir_devices_have(cx->m->devices, DEVICE_cuda))
        return true;
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        ir_walk(fn->body, note_op, &p);
    for (int i = 0; i < p.sorts.len; i++)
        if (!is_small_part(&p.sorts.data[i]))
            p.sorts.data[i].used = 0;
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        ir_walk(fn->body, shorten, &p);
    return true;
}
