/*
 * segments.c - kernels that compute the same for values of several lengths
 *
 * A kernel with `segments` has the operands, operations and results of each
 * segment side by side.  All segments compute each element from the elements of
 * the same number, and from values of one element: so their loops differ in
 * length alone, whatever the shapes are.
 */
#include "ir/segments.h"

#include <assert.h>
#include <string.h>
#include "ir/device/device.h"

int
ir_kernel_num_segments(const IrOp *kernel)
{
    return ir_has(kernel, A_segments) ? (int)ir_int(kernel, A_segments) : 1;
}

static int
count_ops(const IrBlock *b)
{
    int n = 0;
    for (const IrOp *op = b->first; op && op->kind != OP_yield; op = op->next)
        n++;
    return n;
}

IrSegment
ir_kernel_segment(const IrOp *kernel, int number)
{
    assert(kernel->kind == OP_kernel);
    assert(number >= 0 && number < ir_kernel_num_segments(kernel));
    const IrBlock *b = kernel->regions[0];
    const IrOp *yield = ir_block_yield(b);
    int segments = ir_kernel_num_segments(kernel);
    IrSegment p = {.first = b->first,
                   .num_ops = count_ops(b) / segments,
                   .num_args = b->args.len / segments,
                   .num_results = yield->num_operands / segments};
    if (p.num_args)
        p.args = b->args.data + (ptrdiff_t)number * p.num_args;
    if (p.num_results)
        p.results = yield->operands + (ptrdiff_t)number * p.num_results;
    for (int i = number * p.num_ops; i > 0; i--)
        p.first = p.first->next;
    return p;
}

/* ---- lengths ------------------------------------------------------------ */

/* The elements of a value whose shape is known, else -1. */
static int64_t
elements_of(const IrValue *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->type.rank; i++) {
        Dim d = v->type.dims[i];
        if (!ir_dim_is_const(d) || __builtin_mul_overflow(n, d.c, &n))
            return -1;
    }
    return n;
}

static bool
fits_length(const IrValue *v, int64_t length)
{
    int64_t n = elements_of(v);
    return n == 1 || n == length;
}

/* Whether element i of op's result depends only on elements i of its operands,
 * or on their single element. */
static bool
op_fits_length(const IrOp *op, int64_t length)
{
    bool elementwise =
        (ir_op_info[op->kind].traits & ELEMENTWISE) || op->kind == OP_copy;
    if (op->num_results != 1 || !fits_length(op->results[0], length))
        return false;
    for (int i = 0; i < op->num_operands; i++)
        if (!fits_length(op->operands[i], length))
            return false;
    if (op->kind == OP_constant)
        return elements_of(op->results[0]) == 1;
    if (op->kind == OP_broadcast)
        return elements_of(op->operands[0]) == 1;
    return elementwise;
}

int64_t
ir_segment_length(const IrSegment *p)
{
    int64_t length = p->num_results ? elements_of(p->results[0]) : -1;
    if (length < 2)
        return -1;
    for (int i = 0; i < p->num_results; i++)
        if (elements_of(p->results[i]) != length)
            return -1;
    for (int i = 0; i < p->num_args; i++)
        if (!fits_length(p->args[i], length))
            return -1;
    const IrOp *op = p->first;
    for (int i = 0; i < p->num_ops; i++, op = op->next)
        if (!op_fits_length(op, length))
            return -1;
    return length;
}

/* ---- likeness ----------------------------------------------------------- */

/* The position among the segment's parameters and then its operations; -1: not
 * in it. */
static int
number_of(const IrSegment *p, const IrValue *v)
{
    for (int i = 0; i < p->num_args; i++)
        if (p->args[i] == v)
            return i;
    const IrOp *op = p->first;
    for (int i = 0; i < p->num_ops; i++, op = op->next)
        if (op == v->def)
            return p->num_args + i;
    return -1;
}

static bool
is_same_value(const IrSegment *p, const IrValue *v, const IrSegment *q,
              const IrValue *w)
{
    int number = number_of(p, v);
    return number >= 0 && number == number_of(q, w);
}

static bool
values_alike(const IrValue *v, const IrValue *w)
{
    return v->type.dtype == w->type.dtype &&
           (elements_of(v) == 1) == (elements_of(w) == 1);
}

static bool
ops_alike(const IrSegment *p, const IrOp *a, const IrSegment *q, const IrOp *b)
{
    if (a->kind != b->kind || a->num_operands != b->num_operands ||
        !values_alike(a->results[0], b->results[0]) ||
        (a->kind != OP_broadcast && !ir_attrs_equal(a, b)))
        return false;
    for (int i = 0; i < a->num_operands; i++)
        if (!is_same_value(p, a->operands[i], q, b->operands[i]))
            return false;
    return true;
}

bool
ir_segments_match(const IrSegment *p, const IrSegment *q)
{
    if (p->num_args != q->num_args || p->num_ops != q->num_ops ||
        p->num_results != q->num_results)
        return false;
    for (int i = 0; i < p->num_args; i++)
        if (!values_alike(p->args[i], q->args[i]))
            return false;
    const IrOp *a = p->first, *b = q->first;
    for (int i = 0; i < p->num_ops; i++, a = a->next, b = b->next)
        if (!ops_alike(p, a, q, b))
            return false;
    for (int i = 0; i < p->num_results; i++)
        if (!is_same_value(p, p->results[i], q, q->results[i]))
            return false;
    return true;
}

/* ---- kernels that work in place ----------------------------------------- */

IrOverwrites
ir_overwrites(Arena *a, const IrModule *m)
{
    return (IrOverwrites){.arena = a,
                          .rows = !ir_devices_have(m->devices, DEVICE_cuda)};
}

/* One question: whether `made`, which has the shape of the operand, may take
 * its bytes. */
typedef struct Follow {
    IrOverwrites *x;
    const IrValue *made;
    const IrType *shape;
    int kept; /* leading axes that the kernel's reductions keep; 0: none yet */
} Follow;

/* Notes that v is in the set, for the current call. */
static void
mark(IrOverwrites *x, IrCalls *set, const IrValue *v)
{
    *IR_TABLE_SLOT(x->arena, *set, v->number) = x->call;
}

static bool
is_marked(const IrOverwrites *x, const IrCalls *set, const IrValue *v)
{
    const int *call = IR_TABLE_FIND(*set, v->number);
    return call && *call == x->call;
}

/* Marks what made is computed from: that is done before it is stored. */
static void
mark_needed(IrOverwrites *x, const IrValue *made)
{
    mark(x, &x->needed, made);
    for (const IrOp *op = made->def; op; op = op->prev)
        if (is_marked(x, &x->needed, op->results[0]))
            for (int i = 0; i < op->num_operands; i++)
                mark(x, &x->needed, op->operands[i]);
}

/* Whether t has an element for each row: the leading axes of shape that are
 * kept, and 1 for the others. */
static bool
is_of_rows(const Follow *f, const IrType *t)
{
    const Dim one = ir_dim_const(1);
    if (!f->kept || t->rank != f->shape->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (!ir_dim_equal(t->dims[i], i < f->kept ? f->shape->dims[i] : one))
            return false;
    return true;
}

/* Whether op reduces rows of the operand, all of which are read before those of
 * f->made are stored. */
static bool
reduces_rows(Follow *f, const IrOp *op)
{
    int num_axes;
    const IrValue *from = op->operands[0];
    const int64_t *axes = ir_ints(op, A_axes, &num_axes);
    int kept = from->type.rank - num_axes;
    for (int i = 0; i < num_axes; i++)
        if (axes[i] < kept)
            return false;
    if (!f->x->rows || kept < 1 || (f->kept && kept != f->kept) ||
        !ir_type_same_shape(&from->type, f->shape))
        return false;
    if (!f->kept)
        mark_needed(f->x, f->made);
    f->kept = kept;
    return is_marked(f->x, &f->x->needed, op->results[0]) &&
           is_of_rows(f, &op->results[0]->type);
}

static bool
is_follower(const Follow *f, const IrValue *v)
{
    return is_marked(f->x, &f->x->followers, v);
}

/* Whether op stores elements of a follower elsewhere, each when it is read: not
 * in its bytes, which begin as another value. */
static bool
stores_in_step(const Follow *f, const IrOp *op)
{
    return ir_updates_part(op) && op->results[0] != f->made &&
           !is_follower(f, op->operands[0]) &&
           !is_follower(f, op->operands[1]) &&
           ir_type_same_shape(&op->operands[2]->type, f->shape);
}

/* Followers are the operand asked about and what is made of it.  False if op
 * sees one, but makes an element of its result from others than that element of
 * it, or its row; else its result becomes one, too. */
static bool
follow(Follow *f, const IrOp *op)
{
    bool sees = false;
    for (int i = 0; i < op->num_operands; i++)
        sees |= is_follower(f, op->operands[i]);
    if (!sees)
        return true;
    unsigned traits = ir_op_info[op->kind].traits;
    const IrType *type = &op->results[0]->type;
    bool good = false;
    if (traits & REDUCES)
        good = reduces_rows(f, op);
    else if ((traits & ELEMENTWISE) || op->kind == OP_copy)
        good = ir_type_same_shape(type, f->shape) || is_of_rows(f, type);
    else
        good = stores_in_step(f, op);
    if (good)
        mark(f->x, &f->x->followers, op->results[0]);
    return good;
}

/* Whether axes of these extents have one element together. */
static bool
is_one_element(const Dim *extents, int num)
{
    for (int i = 0; i < num; i++)
        if (!ir_dim_equal(extents[i], ir_dim_const(1)))
            return false;
    return true;
}

bool
ir_updates_part(const IrOp *op)
{
    if (op->kind != OP_scatter)
        return false;
    const IrType *place = &op->operands[1]->type;
    const IrType *whole = &op->results[0]->type;
    int after = (int)ir_int(op, A_axis) + 1;
    return is_one_element(place->dims, place->rank) &&
           !is_one_element(whole->dims + after, whole->rank - after);
}

/* Whether the only use of parameter o in the kernel is the scatter that changes
 * its rows. */
static bool
is_scattered_into(const IrOp *scatter, int o)
{
    int uses = 0;
    const IrBlock *b = scatter->block;
    const IrValue *arg = b->args.data[o];
    for (const IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_operands; i++)
            uses += op->operands[i] == arg;
    return uses == 1 && scatter->operands[0] == arg;
}

/* Whether a parameter and a result are of the same segment. */
static bool
are_of_one_segment(const IrOp *kernel, int o, int r)
{
    int segments = ir_kernel_num_segments(kernel);
    return o * segments / kernel->num_operands ==
           r * segments / kernel->num_results;
}

/* The type whose elements the loops of a kernel's result go through. */
static const IrType *
stored_type(const IrValue *result)
{
    const IrOp *made = result->def;
    return made && ir_updates_part(made) ? &made->operands[2]->type
                                         : &result->type;
}

/* Whether all results are made in the same loops: they have one shape, or
 * belong to one segment. */
static bool
has_one_shape(const IrOp *kernel)
{
    if (ir_kernel_num_segments(kernel) > 1)
        return true;
    const IrOp *yield = ir_block_yield(kernel->regions[0]);
    for (int i = 1; i < yield->num_operands; i++) {
        if (!ir_type_same_shape(stored_type(yield->operands[0]),
                                stored_type(yield->operands[i])))
            return false;
    }
    return true;
}

bool
ir_kernel_may_overwrite(IrOverwrites *x, const IrOp *kernel, int o, int r)
{
    assert(kernel->kind == OP_kernel);
    assert(o >= 0 && o < kernel->num_operands && r >= 0 &&
           r < kernel->num_results);
    const IrBlock *b = kernel->regions[0];
    const IrOp *yield = ir_block_yield(b);
    const IrType *from = &kernel->operands[o]->type;
    const IrType *to = &kernel->results[r]->type;
    bool may = ir_type_same_shape(from, to) &&
               dtype_info[from->dtype].bytes == dtype_info[to->dtype].bytes &&
               are_of_one_segment(kernel, o, r);
    const IrOp *made = yield->operands[r]->def;
    if (made && made->kind == OP_scatter && is_scattered_into(made, o))
        return true;
    x->call++;
    mark(x, &x->followers, b->args.data[o]);
    Follow f = {x, yield->operands[r], from, 0};
    for (const IrOp *op = b->first; may && op != yield; op = op->next)
        may = follow(&f, op);
    /* Another result made from o may be made in later loops. */
    for (int i = 0; may && i < yield->num_operands; i++)
        may = i == r || !is_marked(x, &x->followers, yield->operands[i]) ||
              has_one_shape(kernel);
    return may;
}

bool
ir_is_in_kernel(const IrOp *op)
{
    for (op = op->block->op; op; op = op->block->op)
        if (op->kind == OP_kernel)
            return true;
    return false;
}

/* ---- kernels that run together ------------------------------------------- */

int64_t
ir_op_tiles(const IrOp *op)
{
    return op->kind == OP_kernel ? ir_int(op, A_tiles) : 0;
}

const IrOp *
ir_tiles_last(const IrOp *op)
{
    while (op->next && ir_op_tiles(op->next) == ir_op_tiles(op) &&
           ir_int(op->next, A_group) == ir_int(op, A_group))
        op = op->next;
    return op;
}
