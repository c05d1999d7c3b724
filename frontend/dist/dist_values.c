/*
 * dist_values.c - combining the replicas' values, and taking them apart
 *
 * All of these want values that differ among the replicas.  A value known to be
 * the same on all is one value already: a sum of it is refused, since it is not
 * clear whether it counts once or once a replica; a mean, max or min is the
 * value itself.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/dist/communication.h"
#include "frontend/dist/same.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/slices.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"

#include <string.h>
#include "ir/device/device.h"
#include "ir/type_text.h"
#include "ir/words.h"

/* A call on a nest, leaf by leaf. */
typedef struct Combine {
    Lower *cx;
    const FeArgs *in;
    IrAgg op;         /* sum, mean, max or min; none for gathering */
    const char *text; /* the value as it was written */
    Loc loc;          /* of the value */
    const char *dest; /* a variable, or NULL: all replicas */
    FeCommunication options;
} Combine;

/* ---- values that are the same on all replicas --------------------------- */

static bool
is_same(Lower *cx, FeValue *v)
{
    return fe_locality_of(cx, v) != LOCAL_PER_REPLICA;
}

static FeValue *
refuse_same_gather(const Combine *c)
{
    return fe_error(c->cx, c->loc,
                    "%s is the same on every replica: it is one value already, "
                    "which %s would repeat",
                    c->text, c->in->name);
}

/* mean, max or min of a value that is the same on all: itself. */
static bool
check_same(const Combine *c, FeValue *leaf)
{
    if (c->op != AGG_sum)
        return true;
    fe_refuse_same_sum(c->cx, c->in, leaf);
    return false;
}

/* A mean of integers is a float, which has to be asked for. */
static bool
check_dtype(const Combine *c, FeValue *leaf)
{
    IrType t;
    FeValue *number = fe_is_slices(leaf) ? fe_slices_values(leaf) : leaf;
    if (c->op != AGG_mean || !fe_type_of(c->cx, number, &t) ||
        dtype_is_float(t.dtype))
        return true;
    fe_error_note(c->cx, c->loc,
                  is_same(c->cx, leaf) || !fe_is_cross(c->cx)
                      ? fe_format(c->cx, "cast it: f32(%s)", c->text)
                      : "cast it in the step: f32(...)",
                  "mean of integers asks for a cast");
    return false;
}

/* ---- arguments ---------------------------------------------------------- */

/* The one that is meant by a word, or NULL. */
static const char *
op_note(Lower *cx, const char *word)
{
    static const char *const ops[] = {"sum", "mean", "max", "min"};
    const char *ours = word ? fe_hint_foreign(word) : NULL;
    const char *near = word ? nearest_name(ours ? ours : word, ops, 4) : NULL;
    return near ? fe_format(cx, "write %s", near) : NULL;
}

/* The call with its operation first, or with the one that a word means. */
static const char *
repaired_op_note(Lower *cx, const FeArgs *in, const char *word)
{
    const FeValue *second = fe_arg(in, 1);
    if (!second || second->kind != FE_BUILTIN)
        return op_note(cx, word);
    const char *x = fe_arg_text(cx, in, 0), *op = fe_arg_text(cx, in, 1);
    return fe_format(cx, "write %s(%s, %s)", in->name, op, x);
}

static bool
read_op(Lower *cx, const FeArgs *in, IrAgg *op)
{
    const FeValue *v = fe_arg(in, 0);
    const IrAttrInfo *attr = ir_attr_info(OP_reduce, A_op);
    const char *name =
        v->kind == FE_BUILTIN ? fe_builtin_name(v->builtin) : NULL;
    int i = name ? ir_word_index(ir_words[WORDS_AGG], name, strlen(name)) : -1;
    *op = i < 0 ? AGG_none : (IrAgg)i;
    if (ir_attr_allows(attr, i))
        return true;
    const AstNode *node = in->args[0]->node;
    bool is_word =
        v->kind == FE_STRING && v->text.text && node && node->kind == AST_NAME;
    const char *word = name ? name : is_word ? v->text.text : NULL;
    fe_error_note(
        cx, fe_arg_loc(in, 0),
        repaired_op_note(cx, in, v->kind == FE_STRING ? v->text.text : word),
        "%s combines by sum, mean, max or min, not "
        "by %s",
        in->name, word ? word : fe_describe(cx, v));
    return false;
}

/* Argument number i. */
static bool
read_options(Lower *cx, const FeArgs *in, int i, FeCommunication *out)
{
    return fe_communication_read(cx, fe_arg(in, i), fe_arg_loc(in, i), out);
}

/* The same for all that have an op and a value; argument number `options` is
 * those. */
static bool
read_combine(Lower *cx, const FeArgs *in, int options, Combine *c)
{
    *c = (Combine){.cx = cx,
                   .in = in,
                   .text = fe_arg_text(cx, in, 1),
                   .loc = fe_arg_loc(in, 1)};
    return read_op(cx, in, &c->op) &&
           read_options(cx, in, options, &c->options);
}

static bool
is_device(Lower *cx, const FeValue *v, IrDevice *out)
{
    IrDevices devices = {0};
    if (v->kind != FE_STRING || !v->text.text ||
        ir_devices_parse(cx->arena, v->text.text, &devices) || devices.len != 1)
        return false;
    *out = devices.data[0];
    return true;
}

/* One device of the strategy: every replica gets the result, so that device
 * too. */
static bool
check_device(Lower *cx, const IrDevice *device, Loc loc)
{
    IrDevices devices = {0};
    const char *wrong =
        ir_devices_parse(cx->arena, cx->module->devices, &devices);
    for (int i = 0; !wrong && i < devices.len; i++)
        if (devices.data[i].index == device->index &&
            devices.data[i].kind == device->kind)
            return true;
    fe_error_note(cx, loc, fe_format(cx, "they are %s", cx->module->devices),
                  "%s is none of the strategy's devices",
                  ir_device_name(cx->arena, *device));
    return false;
}

static bool
read_dest(Lower *cx, FeValue *v, Loc loc, const char **dest)
{
    *dest = NULL;
    if (!v || v->kind == FE_NONE)
        return true;
    IrDevice device;
    if (is_device(cx, v, &device))
        return check_device(cx, &device, loc);
    if (v->kind == FE_VAR) {
        *dest = v->var->name;
        return true;
    }
    if (v->kind == FE_TENSOR) /* a distributed value is on all devices */
        return true;
    fe_error(cx, loc, "the destination is a variable or a device, not %s",
             fe_describe(cx, v));
    return false;
}

/* ---- values that differ ------------------------------------------------- */

/* The value of v in a run of its own: the components of a sync-on-read
 * variable, the lengths of the replicas' shares. */
static FeValue *
in_run(const Combine *c, FeValue *v)
{
    FeRegion saved;
    Lower *cx = c->cx;
    IrOp *run = fe_region_open(cx, OP_run, FE_REPLICA, c->loc, &saved);
    if (!run)
        return &fe_poison;
    FeValue *own = fe_value_tensor(cx->arena, fe_operand(cx, v, c->loc));
    return fe_region_close(cx, run, &saved, own, c->loc);
}

/* The operand of an operation that combines a per-replica leaf. */
static IrValue *
handle(const Combine *c, FeValue *leaf)
{
    if (leaf->kind == FE_DIM && c->cx->context == FE_CROSS)
        return fe_tensor(in_run(c, leaf));
    return fe_handle(c->cx, leaf, c->loc);
}

/* ---- slices ------------------------------------------------------------- */

static FeValue *gather_axis(const Combine *c, FeValue *leaf, int64_t axis);
static FeValue *emit_to(const Combine *c, IrOpKind kind, IrValue *x);

static bool
check_slices_op(const Combine *c)
{
    if (c->op == AGG_sum || c->op == AGG_mean)
        return true;
    fe_error_note(c->cx, c->loc,
                  fe_format(c->cx, "dense(%s) makes a tensor of them", c->text),
                  "%s combines slices by sum or mean, not by %s", c->in->name,
                  ir_words[WORDS_AGG][c->op]);
    return false;
}

/* A field of all replicas, equal or not: concatenated, since slices of one row
 * add up; at the destination, if it is asked for. */
static FeValue *
slices_field(const Combine *c, FeValue *field, bool to)
{
    FeValue *all = gather_axis(c, field, 0);
    return to && !fe_is_poison(all) ? emit_to(c, OP_broadcast_to, all->tensor)
                                    : all;
}

/* Slices combined over the replicas; a mean divides the sum. */
static FeValue *
combine_slices(const Combine *c, FeValue *slices, bool to)
{
    Lower *cx = c->cx;
    if (!check_slices_op(c) || !check_dtype(c, slices))
        return &fe_poison;
    if (is_same(cx, slices))
        return check_same(c, slices) ? slices : &fe_poison;
    FeValue *indices = slices_field(c, fe_slices_indices(slices), to);
    FeValue *values = slices_field(c, fe_slices_values(slices), to);
    if (!fe_is_poison(values) && c->op == AGG_mean) {
        FeValue *n = fe_value_float(cx->arena, cx->module->num_replicas);
        values = fe_binary(cx, AST_OP_DIV, values, n, c->in->loc);
    }
    return fe_slices_with(cx, slices, values, indices);
}

/* ---- reduce ------------------------------------------------------------- */

/* The axis argument of reduce for a leaf; len -1 when there is none. */
static bool
read_axes(const Combine *c, int rank, FeAxes *axes)
{
    axes->len = -1;
    return !fe_arg(c->in, 2) || fe_arg_axes(c->cx, c->in, 2, rank, axes);
}

static FeValue *
reduce_same(const Combine *c, FeValue *leaf)
{
    FeAxes axes;
    Lower *cx = c->cx;
    if (!check_same(c, leaf))
        return &fe_poison;
    IrValue *x = fe_operand(cx, leaf, c->loc);
    if (!x || !read_axes(c, x->type.rank, &axes))
        return &fe_poison;
    if (axes.len < 0)
        return leaf;
    if (c->op == AGG_mean)
        return fe_mean(cx, x, &axes, false, c->text, c->in->loc);
    bool is_max = c->op == AGG_max;
    return fe_reduce_axes(cx, is_max ? OP_reduce_max : OP_reduce_min, x, &axes,
                          false, c->in->loc);
}

static FeValue *
reduce_leaf(FeValue *leaf, void *data)
{
    FeAxes axes;
    const Combine *c = data;
    if (fe_is_slices(leaf) && fe_arg(c->in, 2))
        return fe_error(c->cx, c->loc, "slices are not reduced over an axis");
    if (fe_is_slices(leaf))
        return combine_slices(c, leaf, false);
    if (!check_dtype(c, leaf))
        return &fe_poison;
    if (is_same(c->cx, leaf))
        return reduce_same(c, leaf);
    IrValue *x = handle(c, leaf);
    if (!x || !read_axes(c, x->type.rank, &axes))
        return &fe_poison;
    IrOp *op = fe_op(c->cx, OP_reduce, 1, &x, c->in->loc);
    ir_set_enum(op, A_op, c->op);
    fe_communication_set(op, &c->options);
    if (axes.len >= 0)
        ir_set_ints(op, A_axes, axes.axes, axes.len);
    return fe_emit(c->cx, op);
}

FeValue *
fe_builtin_reduce(Lower *cx, const FeArgs *in)
{
    Combine c;
    if (!read_combine(cx, in, 3, &c))
        return &fe_poison;
    return fe_value_map_parts(cx->arena, fe_arg(in, 1), reduce_leaf, &c);
}

/* ---- to a destination --------------------------------------------------- */

static FeValue *
emit_to(const Combine *c, IrOpKind kind, IrValue *x)
{
    IrOp *op = fe_op(c->cx, kind, 1, &x, c->in->loc);
    if (kind == OP_reduce_to) {
        ir_set_enum(op, A_op, c->op);
        fe_communication_set(op, &c->options);
    }
    if (c->dest)
        ir_set_text(op, A_var, c->dest);
    return fe_emit(c->cx, op);
}

static FeValue *
reduce_to_leaf(FeValue *leaf, void *data)
{
    const Combine *c = data;
    if (fe_is_slices(leaf))
        return combine_slices(c, leaf, true);
    if (!check_dtype(c, leaf))
        return &fe_poison;
    if (!is_same(c->cx, leaf))
        return emit_to(c, OP_reduce_to, handle(c, leaf));
    if (!check_same(c, leaf))
        return &fe_poison;
    return emit_to(c, OP_broadcast_to, fe_operand(c->cx, leaf, c->loc));
}

FeValue *
fe_builtin_reduce_to(Lower *cx, const FeArgs *in)
{
    Combine c;
    if (!read_combine(cx, in, 3, &c) ||
        !read_dest(cx, fe_arg(in, 2), fe_arg_loc(in, 2), &c.dest))
        return &fe_poison;
    return fe_value_map_parts(cx->arena, fe_arg(in, 1), reduce_to_leaf, &c);
}

FeValue *
fe_builtin_batch_reduce_to(Lower *cx, const FeArgs *in)
{
    Combine c;
    FeValues out = {0};
    FeValue *pairs = fe_arg(in, 1);
    if (!read_combine(cx, in, 2, &c))
        return &fe_poison;
    if (pairs->kind != FE_NEST)
        return fe_error(cx, c.loc,
                        "%s takes a list of (value, dest) pairs, "
                        "not %s",
                        in->name, fe_describe(cx, pairs));
    for (int i = 0; i < pairs->nest.len; i++) {
        const FeValue *pair = pairs->nest.items[i];
        if (pair->kind != FE_NEST || pair->nest.len != 2)
            return fe_error(cx, c.loc,
                            "%s takes pairs (value, dest), and "
                            "item %d is %s",
                            in->name, i, fe_describe(cx, pair));
        if (!read_dest(cx, pair->nest.items[1], c.loc, &c.dest))
            return &fe_poison;
        VEC_PUSH(cx->arena, out,
                 fe_value_map_parts(cx->arena, pair->nest.items[0],
                                    reduce_to_leaf, &c));
    }
    return fe_value_list(cx->arena, out.len, out.data);
}

static FeValue *
broadcast_leaf(FeValue *leaf, void *data)
{
    const Combine *c = data;
    if (leaf->kind == FE_CONST) /* known everywhere */
        return leaf;
    if (is_same(c->cx, leaf))
        return emit_to(c, OP_broadcast_to, fe_operand(c->cx, leaf, c->loc));
    return fe_error_note(c->cx, c->loc,
                         fe_format(c->cx,
                                   "reduce_to(mean, %s, ...) makes one "
                                   "value of it",
                                   c->text),
                         "%s differs among the replicas: there is no one value "
                         "to broadcast",
                         c->text);
}

FeValue *
fe_builtin_broadcast_to(Lower *cx, const FeArgs *in)
{
    Combine c = {.cx = cx,
                 .in = in,
                 .text = fe_arg_text(cx, in, 0),
                 .loc = fe_arg_loc(in, 0)};
    if (!read_dest(cx, fe_arg(in, 1), fe_arg_loc(in, 1), &c.dest))
        return &fe_poison;
    return fe_value_map(cx->arena, fe_arg(in, 0), broadcast_leaf, &c);
}

/* ---- gathering ---------------------------------------------------------- */

/* gather and all_gather, as the context has it. */
static FeValue *
gather_axis(const Combine *c, FeValue *leaf, int64_t axis)
{
    IrOpKind kind = fe_is_cross(c->cx) ? OP_gather : OP_all_gather;
    IrValue *x = handle(c, leaf);
    IrOp *op = fe_op(c->cx, kind, 1, &x, c->in->loc);
    ir_set_int(op, A_axis, axis);
    fe_communication_set(op, &c->options);
    return fe_emit(c->cx, op);
}

/* How scalars are gathered; main cannot reshape what differs. */
static const char *
scalar_note(const Combine *c)
{
    if (!fe_is_cross(c->cx))
        return fe_format(c->cx, "reshape(%s, (1,)) makes a row of one of it",
                         c->text);
    return fe_format(c->cx,
                     "local_results(%s) has those of all replicas; or let the "
                     "step return a row of one, by reshape(..., (1,))",
                     c->text);
}

static FeValue *
gather_leaf(FeValue *leaf, void *data)
{
    int64_t axis;
    const Combine *c = data;
    if (fe_is_slices(leaf))
        return fe_error_note(c->cx, c->loc,
                             "reduce and all_reduce put slices together",
                             "%s does not go into slices", c->in->name);
    if (is_same(c->cx, leaf))
        return refuse_same_gather(c);
    IrValue *x = handle(c, leaf);
    if (x && x->type.rank == 0)
        return fe_error_note(c->cx, c->loc, scalar_note(c),
                             "%s needs values with an axis, and this is a "
                             "scalar",
                             c->in->name);
    if (!x || !fe_require_axis(c->cx, fe_arg(c->in, 1), x->type.rank,
                               fe_arg_loc(c->in, 1), &axis))
        return &fe_poison;
    return gather_axis(c, leaf, axis);
}

FeValue *
fe_builtin_gather(Lower *cx, const FeArgs *in)
{
    Combine c = {.cx = cx,
                 .in = in,
                 .text = fe_arg_text(cx, in, 0),
                 .loc = fe_arg_loc(in, 0)};
    if (!read_options(cx, in, 2, &c.options))
        return &fe_poison;
    return fe_value_map_parts(cx->arena, fe_arg(in, 0), gather_leaf, &c);
}

FeValue *
fe_builtin_all_gather(Lower *cx, const FeArgs *in)
{
    if (!fe_check_together(cx, in->name, in->loc))
        return &fe_poison;
    return fe_builtin_gather(cx, in);
}

/* ---- in replica context ------------------------------------------------- */

/* Checks the leaves of an all_reduce and takes those that differ among the
 * replicas; wanted says which they are.  Slices are combined at once. */
static bool
all_reduce_operands(const Combine *c, FeValues *leaves, IrValues *operands,
                    bool *wanted)
{
    bool ok = true;
    for (int i = 0; i < leaves->len; i++) {
        FeValue *leaf = leaves->data[i];
        wanted[i] = false;
        if (fe_is_slices(leaf)) {
            leaves->data[i] = combine_slices(c, leaf, false);
            ok = ok && !fe_is_poison(leaves->data[i]);
            continue;
        }
        wanted[i] = !is_same(c->cx, leaf);
        ok = check_dtype(c, leaf) && ok;
        if (!wanted[i]) {
            ok = ok && check_same(c, leaf);
            continue;
        }
        IrValue *x = ok ? fe_operand(c->cx, leaf, c->loc) : NULL;
        VEC_PUSH(c->cx->arena, *operands, x);
        ok = ok && x;
    }
    return ok;
}

FeValue *
fe_builtin_all_reduce(Lower *cx, const FeArgs *in)
{
    Combine c;
    FeValues leaves = {0};
    IrValues operands = {0};
    if (!read_combine(cx, in, 2, &c) ||
        !fe_check_together(cx, in->name, in->loc))
        return &fe_poison;
    FeValue *value = fe_arg(in, 1);
    fe_value_parts(cx->arena, value, &leaves);
    bool *wanted = NEW_ARRAY(cx->arena, bool, (size_t)leaves.len);
    if (!all_reduce_operands(&c, &leaves, &operands, wanted))
        return &fe_poison;
    if (operands.len == 0) {
        FeValue *const *parts = leaves.data;
        return fe_value_rebuild_parts(cx->arena, value, &parts);
    }
    IrOp *op = fe_op(cx, OP_all_reduce, operands.len, operands.data, in->loc);
    ir_set_enum(op, A_op, c.op);
    fe_communication_set(op, &c.options);
    if (fe_is_poison(fe_emit(cx, op)))
        return &fe_poison;
    for (int i = 0, k = 0; i < leaves.len; i++)
        if (wanted[i])
            leaves.data[i] = fe_value_tensor(cx->arena, op->results[k++]);
    FeValue *const *next = leaves.data;
    return fe_value_rebuild_parts(cx->arena, value, &next);
}

FeValue *
fe_builtin_global_mean(Lower *cx, const FeArgs *in)
{
    if (!fe_check_together(cx, in->name, in->loc))
        return &fe_poison;
    return fe_op1(cx, OP_global_mean, fe_arg(in, 0), in->loc);
}

/* ---- each replica's own ------------------------------------------------- */

static FeValue *
handle_leaf(FeValue *leaf, void *data)
{
    const Combine *c = data;
    Arena *a = c->cx->arena;
    bool is_var = leaf->kind == FE_VAR;
    if (is_var && leaf->var->sync == SYNC_ON_READ)
        return in_run(c, leaf);
    if (is_var)
        return fe_value_tensor(a, fe_operand(c->cx, leaf, c->loc));
    return is_same(c->cx, leaf) ? leaf : fe_value_tensor(a, handle(c, leaf));
}

typedef struct Pick {
    const Combine *call;
    int replica;
} Pick;

/* Main knows the rows of each replica: symbols for those that t names. */
static void
name_rows_of_replicas(IrModule *m, const IrType *t)
{
    for (int i = 0; i < t->rank; i++) {
        Dim d = t->dims[i];
        if (!ir_dim_is_const(d) && ir_symbol_is_share(&m->symbols.data[d.sym]))
            ir_symbol_of_replica(m, d.sym, 0);
    }
}

/* How many axes are as long as a share of a batch. */
static int
count_shares(const IrModule *m, const IrType *t)
{
    int count = 0;
    for (int i = 0; i < t->rank; i++) {
        Dim d = t->dims[i];
        count +=
            !ir_dim_is_const(d) && ir_symbol_is_share(&m->symbols.data[d.sym]);
    }
    return count;
}

static FeValue *
pick_leaf(FeValue *leaf, void *data)
{
    const Pick *pick = data;
    const Combine *c = pick->call;
    if (fe_is_poison(leaf) || is_same(c->cx, leaf))
        return leaf;
    const IrType *t = &leaf->tensor->type;
    if (c->cx->context == FE_MERGE && count_shares(c->cx->module, t) > 1)
        return fe_error(c->cx, c->in->loc,
                        "a value of shape %s has other rows on each replica "
                        "in two axes, which no merge takes apart",
                        ir_dims_text(c->cx->module, t->rank, t->dims));
    name_rows_of_replicas(c->cx->module, t);
    IrOp *op = fe_op(c->cx, OP_local_result, 1, &leaf->tensor, c->in->loc);
    ir_set_int(op, A_replica, pick->replica);
    return fe_emit(c->cx, op);
}

FeValue *
fe_builtin_local_results(Lower *cx, const FeArgs *in)
{
    Combine c = {.cx = cx, .in = in, .loc = fe_arg_loc(in, 0)};
    FeValues out = {0};
    FeValue *value = fe_value_map(cx->arena, fe_arg(in, 0), handle_leaf, &c);
    for (int i = 0; i < cx->module->num_replicas; i++) {
        Pick pick = {&c, i};
        VEC_PUSH(cx->arena, out,
                 fe_value_map(cx->arena, value, pick_leaf, &pick));
    }
    return fe_value_tuple(cx->arena, out.len, out.data);
}

/* leaf as a per-replica value: it is made to depend on the replica's number. */
static FeValue *
own_leaf(FeValue *leaf, void *data)
{
    const Combine *c = data;
    Lower *cx = c->cx;
    FeValue *x = fe_value_tensor(cx->arena, fe_operand(cx, leaf, c->loc));
    if (fe_is_poison(x) || !is_same(cx, x))
        return x;
    FeValue *id = fe_builtin_value(cx, "replica_id", c->loc);
    FeValue *is_any = fe_op2(cx, OP_ge, id, fe_value_int(cx->arena, 0), c->loc);
    return fe_op3(cx, OP_where, is_any, x, x, c->loc);
}

FeValue *
fe_builtin_values_from(Lower *cx, const FeArgs *in)
{
    FeRegion saved;
    Combine c = {.cx = cx, .in = in, .loc = fe_arg_loc(in, 0)};
    const char *const names[] = {intern(cx->names, "replica_id"),
                                 intern(cx->names, "num_replicas")};
    IrOp *run = fe_region_open(cx, OP_run, FE_REPLICA, in->loc, &saved);
    if (!run)
        return &fe_poison;
    FeValue *fields[2];
    for (int i = 0; i < 2; i++)
        fields[i] = fe_builtin_value(cx, names[i], in->loc);
    FeValue *ctx = fe_value_named(cx->arena, 2, names, fields);
    FeValue *value =
        fe_call_with(cx, fe_arg(in, 0), 1, &ctx, false, "called", in->loc);
    value = fe_value_map(cx->arena, value, own_leaf, &c);
    return fe_region_close(cx, run, &saved, value, in->loc);
}

/* ---- asking ------------------------------------------------------------- */

/* Components have no names of their own: a name is the variable already. */
FeValue *
fe_builtin_value_container(Lower *cx, const FeArgs *in)
{
    (void)cx;
    return fe_arg(in, 0);
}

/* The devices of the plan that have a copy of a variable; false with a message
 * where it has none, or that is not known. */
static bool
find_devices(Lower *cx, const FeArgs *in, IrDevices *out)
{
    const FeValue *v = fe_arg(in, 0);
    const IrStrategyInfo *info = &ir_strategy_info[cx->module->strategy];
    if (v->kind != FE_VAR) {
        fe_error(cx, fe_arg_loc(in, 0),
                 "only variables stay on devices, and this is %s",
                 fe_describe(cx, v));
        return false;
    }
    if (info->servers) {
        fe_error(cx, fe_arg_loc(in, 0),
                 "parameter servers have \"%s\", and which they are is known "
                 "only when a job runs",
                 v->var->name);
        return false;
    }
    bool ok = !ir_devices_parse(cx->arena, cx->module->devices, out);
    if (ok && info->central)
        *out = (IrDevices){.data = out->data + cx->module->home, .len = 1};
    return ok;
}

FeValue *
fe_builtin_devices(Lower *cx, const FeArgs *in)
{
    IrDevices devices = {0};
    FeValues names = {0};
    if (!find_devices(cx, in, &devices))
        return &fe_poison;
    for (int i = 0; i < devices.len; i++)
        VEC_PUSH(cx->arena, names,
                 fe_value_text(cx->arena,
                               ir_device_name(cx->arena, devices.data[i])));
    return fe_value_tuple(cx->arena, names.len, names.data);
}

/* Where main reads it: the first copy. */
FeValue *
fe_builtin_device(Lower *cx, const FeArgs *in)
{
    IrDevices devices = {0};
    if (!find_devices(cx, in, &devices))
        return &fe_poison;
    if (!fe_is_cross(cx) && cx->context != FE_TOP &&
        !ir_strategy_info[cx->module->strategy].central)
        return fe_error_note(
            cx, in->loc,
            fe_format(cx, "%s.devices has all of them", fe_arg_text(cx, in, 0)),
            "each replica has its copy of \"%s\" on a device "
            "of its own, and this is the code of all",
            fe_arg(in, 0)->var->name);
    return fe_value_text(cx->arena, ir_device_name(cx->arena, devices.data[0]));
}

FeValue *
fe_builtin_in_cross_replica_context(Lower *cx, const FeArgs *in)
{
    (void)in;
    return fe_value_bool(cx->arena,
                         fe_is_cross(cx) || cx->context == FE_UPDATE);
}

FeValue *
fe_builtin_has_strategy(Lower *cx, const FeArgs *in)
{
    (void)in;
    return fe_value_bool(cx->arena, cx->module->strategy != STRATEGY_default);
}
