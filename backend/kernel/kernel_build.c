/*
 * kernel_build.c - from a kernel operation to a kernel
 *
 * The operation's region defines the computation.  Here its outputs get the
 * indices of their loops; kernel_rules.c follows the operations from there to
 * the inputs, and kernel_nest.c puts the resulting values into loops.
 *
 * Outputs share indices where they can, since only values with the same indices
 * can be in the same loop.  The widest one has an index for each dimension; a
 * narrower one, say a sum over some of these dimensions, takes the indices of
 * the others.
 */
#include "backend/kernel/kernel_expr.h"
#include "ir/ir.h"

#include "ir/base/status.h"
#include "ir/rules/pairs.h"
#include "ir/rules/windows.h"
#include "ir/segments.h"

enum {
    MAX_OPS = 1024,
    FEW_CHANNELS = 4, /* of a group, whose matrix would be mostly empty */
    FEW_WINDOWS = 4,
    MAX_PRODUCTS = 128, /* of a window */
    MAX_SUMS = 128 << 10,
    MAX_ROW = 8 << 10 /* places of windows side by side */
};

/* Dimensions of a shape that are not 1. */
typedef struct Wide {
    int count;
    int axes[IR_MAX_RANK];
} Wide;

static Wide
wide_of(const Shape *s)
{
    Wide w = {0};
    for (int i = 0; i < s->rank; i++) {
        if (!dim_is_one(s->dims[i]))
            w.axes[w.count++] = i;
    }
    return w;
}

/* Whether s and t begin with the same dimensions, 1 aside, for count of them.
 */
static bool
agree(const Shape *s, const Shape *t, int count)
{
    Wide x = wide_of(s), y = wide_of(t);
    if (x.count < count || y.count < count)
        return false;
    for (int i = 0; i < count; i++) {
        if (!ir_dim_equal(s->dims[x.axes[i]], t->dims[y.axes[i]]))
            return false;
    }
    return true;
}

static bool
equal_but_ones(const Shape *s, const Shape *t)
{
    int count = wide_of(s).count;
    return wide_of(t).count == count && agree(s, t, count);
}

/* ---- which indices an output has ---------------------------------------- */

/* The value with the same elements as v, one for one and in order, through
 * elementwise operations: the remaining one is of another kind. */
static const IrValue *
look_through(const Build *b, const IrValue *v)
{
    for (const IrOp *op = v->def; op; op = v->def) {
        unsigned traits = ir_op_info[op->kind].traits;
        if (!(traits & (ELEMENTWISE | VIEW | MOVES)))
            return v;
        const IrValue *next = NULL;
        for (int i = 0; i < op->num_operands && !next; i++) {
            const IrValue *x = op->operands[i];
            if (equal_but_ones(be_value_shape(b, x), be_value_shape(b, v)))
                next = x;
        }
        if (!next)
            return v;
        v = next;
    }
    return v;
}

static bool
is_sort(const Output *o)
{
    return o->of->def && o->of->def->kind == OP_argsort;
}

/* The shape that a convolution's windows have, and those of its weights. */
typedef struct ConvShapes {
    const IrType *windows, *weights;
} ConvShapes;

static ConvShapes
shapes_of(const IrOp *op)
{
    const IrType *y = &op->operands[1]->type, *result = &op->results[0]->type;
    return op->kind == OP_conv ? (ConvShapes){result, y}
                               : (ConvShapes){y, result};
}

static int64_t
channels_of(const IrOp *op)
{
    const IrType *t = &op->results[0]->type;
    return t->dims[t->rank - 1].c;
}

/* Whether registers have several groups of channels, or parts of one, beside
 * each other (backend/depthwise, which finds all of these kernels): as matrices
 * they would be mostly empty. */
static bool
is_narrow(const IrOp *op)
{
    IrWindows w = ir_windows_of(op);
    ConvShapes s = shapes_of(op);
    const Dim *sizes = s.weights->dims, *windows = s.windows->dims;
    int last = w.num_axes - 1;
    int64_t own = sizes[w.num_axes].c, new = channels_of(op) / w.groups;
    int64_t products = own, row = windows[w.num_axes].c * w.step[last];
    for (int i = 0; i <= last; i++) {
        products *= sizes[i].c;
        row *= i < last ? sizes[i].c : 1;
        if (w.dilation[i] != 1 || (sizes[i].c > 1 && windows[i + 1].c == 1))
            return false;
    }
    return own == new && (own == 2 || own == 4 || own == 8) && last < 2 &&
           sizes[last].c > 1 &&
           products <= MAX_PRODUCTS &&products *channels_of(op) <=
               MAX_SUMS &&row <= MAX_ROW &&windows[w.num_axes].c >=
               FEW_WINDOWS &&
           !ir_pair_order(op);
}

/* Whether the channels of each group of a convolution are a matrix. */
static bool
has_matrices(const IrOp *op)
{
    if (op->kind != OP_conv && op->kind != OP_conv_weights)
        return false;
    int64_t groups = ir_windows_of(op).groups;
    return groups > 1 && channels_of(op) / groups >= FEW_CHANNELS &&
           !is_narrow(op);
}

/* Whether the elements along the last axis of s are the new channels of the
 * convolution of groups that are matrices. */
static bool
has_groups(const Build *b, const Shape *s)
{
    if (!b->grouped || s->rank == 0 || s->rank == IR_MAX_RANK)
        return false;
    const IrType *t = &b->grouped->results[0]->type;
    return ir_dim_equal(s->dims[s->rank - 1], t->dims[t->rank - 1]);
}

/* s with two dimensions in place of those channels, one for the group and one
 * for its channels: so the channels of each group are a matrix. */
static Shape
by_groups(const Build *b, const Shape *s)
{
    Shape out = *s;
    if (!has_groups(b, s))
        return out;
    int64_t groups = ir_windows_of(b->grouped).groups;
    Dim *last = &out.dims[out.rank++ - 1];
    last[1] = ir_dim_const(last->c / groups);
    *last = ir_dim_const(groups);
    return out;
}

/* The shape whose dimensions have an index each: o's own, by groups, but of a
 * sort what is sorted. */
static Shape
index_shape(const Build *b, const Output *o)
{
    if (is_sort(o))
        return *be_value_shape(b, o->of->def->operands[0]);
    return by_groups(b, be_value_shape(b, o->of));
}

/* Whether an operation reduces an axis of its operand's shape by groups. */
static bool
reduces_axis(const IrOp *op, int axis)
{
    int count, rank = op->operands[0]->type.rank;
    const int64_t *axes = ir_ints(op, A_axes, &count);
    int own = axis < rank ? axis : rank - 1;
    for (int i = 0; i < count; i++) {
        if (axes[i] == own)
            return true;
    }
    return false;
}

/* If o reduces a value of the shape of the widest output: takes the indices
 * of the axes that are kept. */
static bool
bind_to_kept_axes(Build *b, Output *o, const Output *widest)
{
    const IrOp *op = look_through(b, o->of)->def;
    if (!op || !(ir_op_info[op->kind].traits & REDUCES))
        return false;
    Shape s = by_groups(b, be_value_shape(b, op->operands[0]));
    Shape t = index_shape(b, widest);
    if (!be_shape_equal(&s, &t))
        return false;
    Wide w = wide_of(&s);
    for (int i = 0; i < w.count; i++) {
        if (!reduces_axis(op, w.axes[i]))
            VEC_PUSH(b->scratch, o->vars, widest->vars.data[i]);
    }
    return true;
}

static void
bind_new(Build *b, Output *o)
{
    Shape s = index_shape(b, o);
    Wide w = wide_of(&s);
    for (int i = 0; i < w.count; i++) {
        ExprVar *v = be_expr_loop_var(b, s.dims[w.axes[i]]);
        v->is_root = true;
        VEC_PUSH(b->scratch, o->vars, v);
    }
}

static void
bind_output(Build *b, Output *o, const Output *widest)
{
    Shape s = index_shape(b, o), t = index_shape(b, widest);
    int count = wide_of(&s).count;
    if (count < wide_of(&t).count && bind_to_kept_axes(b, o, widest))
        return;
    if (!agree(&s, &t, count)) {
        bind_new(b, o);
        return;
    }
    for (int i = 0; i < count; i++)
        VEC_PUSH(b->scratch, o->vars, widest->vars.data[i]);
}

static void
bind_outputs(Build *b)
{
    int most = -1;
    for (int i = 0; i < b->outputs.len; i++) {
        Shape s = index_shape(b, &b->outputs.data[i]);
        int count = wide_of(&s).count;
        if (count > most) {
            most = count;
            b->widest = i;
        }
    }
    Output *widest = &b->outputs.data[b->widest];
    bind_new(b, widest);
    for (int i = 0; i < b->outputs.len; i++) {
        if (i != b->widest)
            bind_output(b, &b->outputs.data[i], widest);
    }
}

/* The order of the rounds of the last index. */
static void
compute_sort(Build *b, Output *o, const View *view, ExprVar *last)
{
    const IrOp *op = o->of->def;
    last->order = SORTED;
    o->descending = ir_int(op, A_descending);
    o->first = ir_int(op, A_first);
    o->value = be_value_at(b, op->operands[0], view, NULL);
}

static bool
is_one_long(const Shape *s)
{
    return dim_is_one(s->dims[s->rank - 1]);
}

static void
compute_output(Build *b, Output *o)
{
    View view = {.shape = index_shape(b, o)};
    for (int i = 0; i < view.shape.rank; i++)
        view.at[i] = be_lin_const(ir_dim_const(0));
    Wide w = wide_of(&view.shape);
    for (int i = 0; i < w.count; i++)
        view.at[w.axes[i]] = be_lin_var(b, o->vars.data[i]);
    if (is_sort(o) && is_one_long(&view.shape))
        o->value = be_expr_const(b, scalar_int(DT_i64, 0));
    else if (is_sort(o))
        compute_sort(b, o, &view, o->vars.data[w.count - 1]);
    else
        o->value = be_value_at(b, o->of, &view, NULL);
    if (is_sort(o))
        view.shape = *be_value_shape(b, o->of);
    if (o->part)
        be_scatter_part(b, o->part, &view, o);
    else
        o->at = be_view_linear(b, &view);
}

/* ---- the region --------------------------------------------------------- */

static void
declare_values(Build *b, const IrSegment *part)
{
    const IrOp *op = part->first;
    for (int i = 0; i < part->num_args; i++)
        be_value_declare(b, part->args[i]);
    for (int i = 0; i < part->num_ops; i++, op = op->next) {
        for (int j = 0; j < op->num_results; j++)
            be_value_declare(b, op->results[j]);
        if (has_matrices(op))
            b->grouped = op;
    }
    if (part->num_ops >= MAX_OPS)
        be_expr_fail(b, "a kernel has more than 1,024 operations");
}

static void
declare_arrays(Build *b, const IrSegment *part)
{
    for (int i = 0; i < part->num_args; i++) {
        const IrValue *v = part->args[i];
        be_kernel_array(b->k, K_IN, v->type.dtype,
                        be_shape_size(b, be_value_shape(b, v)));
    }
    for (int i = 0; i < part->num_results; i++) {
        const IrValue *v = part->results[i];
        Output o = {.of = v};
        o.array = be_kernel_array(b->k, K_OUT, v->type.dtype,
                                  be_shape_size(b, be_value_shape(b, v)));
        VEC_PUSH(b->scratch, b->outputs, o);
    }
}

/* The first segment is built; the arrays of the others are like its own. */
static void
add_parts(Build *b, const IrOp *op)
{
    BeKernel *k = b->k;
    IrSegment first = ir_kernel_segment(op, 0);
    const int own[] = {first.num_args, first.num_results};
    for (int i = 0; i < ir_kernel_num_segments(op); i++) {
        IrSegment part = ir_kernel_segment(op, i);
        Dim length = ir_dim_const(ir_segment_length(&part));
        VEC_PUSH(k->arena, k->segments, length.c);
        for (int role = K_IN; i && role <= K_OUT; role++)
            for (int j = 0; j < own[role]; j++) {
                const KArray *like = k->arrays[role].data[j];
                be_kernel_array(k, (KRole)role, like->dtype,
                                like->size.c == 1 ? like->size : length);
            }
    }
}

static void
build_outputs(Build *b)
{
    for (int i = 0; i < b->outputs.len; i++) {
        Output *o = &b->outputs.data[i];
        const IrOp *scatter = be_scatter_of(o->of);
        if (!scatter)
            continue;
        if (!be_scatter_begins(b, scatter, o))
            return;
        if (b->outputs.len == 1) {
            be_scatter_bind(b, scatter, o);
            return;
        }
        o->part = scatter;
        o->of = scatter->operands[2];
    }
    bind_outputs(b);
    for (int i = 0; i < b->outputs.len; i++)
        compute_output(b, &b->outputs.data[i]);
}

static void
build(Build *b, const IrOp *op)
{
    IrSegment part = ir_kernel_segment(op, 0);
    declare_values(b, &part);
    declare_arrays(b, &part);
    if (b->outputs.len == 0)
        be_expr_fail(b, "a kernel has no results");
    if (b->error)
        return;
    build_outputs(b);
    if (!b->error)
        be_nest_build(b);
    if (!b->error && ir_kernel_num_segments(op) > 1)
        add_parts(b, op);
}

BeKernel *
be_kernel_build(Arena *a, const IrOp *op, Diag *d)
{
    Build b = {.k = be_kernel_new(a),
               .scratch = arena_new(a, "kernel build"),
               .m = op->module,
               .rule_of = be_rule_of};
    b.exprs = NEW_ARRAY(b.scratch, Expr *, EXPR_BUCKETS);
    b.memos = NEW_ARRAY(b.scratch, Memo *, EXPR_BUCKETS);
    build(&b, op);
    if (b.error)
        diag_error(d, op->loc, "%s", b.error);
    arena_release(b.scratch);
    if (b.error)
        return NULL;
    be_kernel_finish(b.k);
    return b.k;
}
