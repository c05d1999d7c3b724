/*
 * fuse_legal.c - which operations make a good kernel together
 *
 * docs/kernels.md says which forms of kernels are good.  In terms of axes: the
 * space S has the axes of the widest values; the rows R have the axes of
 * narrower ones, which are those that all reductions keep.
 *
 *   maps               everything is as wide as S
 *   chains over rows   R comes first in S: results of a row's reductions are
 *                      used along the row again (softmax, layer norm).
 *                      Results lie along S or R.
 *   sums over columns  any other R: results lie along R only, since elements of
 *                      a column are far from each other in memory.  It is so
 *                      with R empty, unless S is small: there is nothing to do
 *                      for a second thread.
 *
 * A value along S or R is computed once there; a value along other axes (such
 * as a slice's operand) is allowed only with a single use, or if it is a part
 * of what is in memory, from which all load it.  A contraction may have maps of
 * the shape of its result after it, and no reduction; a scatter may have maps
 * before it.  Scatters that change a part each, at one place, are among the
 * results of maps: they store what is computed along S.
 *
 * Results are all shared by the replicas of a device, or all each replica's
 * own: a kernel is executed once a device or once a replica.
 *
 * A stage of a chain recomputes values of another one.  That is cheaper than
 * memory unless it is an elementary function, which may be computed twice.
 */
#include <assert.h>
#include "ir/analysis/per_replica.h"
#include "ir/ir.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"
#include "passes/fusion/fuse.h"

enum {
    FEW_BYTES = 16384, /* of a space that one thread may do */
    COSTLY = 20,       /* the cost of its code */
    MAX_COSTLY = 2     /* how often such an operation is computed an element */
};

typedef struct Check {
    Fuse *f;
    const Cluster *a, *b;
    const IrOp *also; /* a result whoever uses it, or NULL */
    AxisSet space, rows;
    AxisList space_list;
    const IrValue *widest;
    bool reduces, has_rows, has_wide_result;
    bool has_shared_result, has_own_result;
    int num_arrays, num_scatters;
} Check;

static bool
is_member(const Check *k, const IrOp *op)
{
    const Cluster *c = pass_fuse_cluster(k->f, op);
    return c == k->a || c == k->b;
}

static bool
is_result(const Check *k, const IrOp *op)
{
    const IrOpList *users = &pass_fuse_node(k->f, op)->users;
    for (int i = 0; i < users->len; i++)
        if (!is_member(k, users->data[i]))
            return true;
    return op == k->also;
}

/* The value whose elements op stores if it is a result: what it makes, or what
 * it puts into another value. */
static const IrValue *
stored_by(const IrOp *op)
{
    return ir_updates_part(op) ? op->operands[2] : op->results[0];
}

static int
num_ops(const Check *k)
{
    return k->a->ops.len + k->b->ops.len;
}

/* Operation number i of both clusters. */
static const IrOp *
op_at(const Check *k, int i)
{
    return i < k->a->ops.len ? k->a->ops.data[i]
                             : k->b->ops.data[i - k->a->ops.len];
}

typedef bool Test(Check *k, const IrOp *op);

static bool
all_ops(Check *k, Test *test)
{
    for (int i = 0; i < num_ops(k); i++)
        if (!test(k, op_at(k, i)))
            return false;
    return true;
}

/* ---- the space ---------------------------------------------------------- */

static bool
note_op(Check *k, const IrOp *op)
{
    k->num_arrays += is_result(k, op);
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        k->num_arrays +=
            !def || (!pass_fuse_is_free(def) &&
                     !(def->block == op->block && is_member(k, def)));
    }
    pass_axes_add(k->f->axes, op);
    return true;
}

static const IrOp *
find_op(const Check *k, bool (*is)(const IrOp *op))
{
    for (int i = 0; i < num_ops(k); i++)
        if (is(op_at(k, i)))
            return op_at(k, i);
    return NULL;
}

/* A result along the most axes. */
static const IrOp *
find_result(const Check *k)
{
    const IrOp *widest = NULL;
    int most = -1;
    for (int i = 0; i < num_ops(k); i++) {
        const IrOp *op = op_at(k, i);
        int count = pass_axes_list(k->f->axes, stored_by(op)).count;
        if (!is_result(k, op) || count <= most)
            continue;
        widest = op;
        most = count;
    }
    return widest ? widest : VEC_LAST(k->a->ops);
}

/* Without reductions, values narrower than the space determine the rows. */
static bool
note_rows(Check *k, const IrOp *op)
{
    AxisSet along = pass_axes_of(k->f->axes, op->results[0]);
    if (k->has_rows || !along || along == k->space || along & ~k->space)
        return true;
    k->rows = along;
    k->has_rows = true;
    return true;
}

static void
find_space(Check *k)
{
    const Axes *axes = k->f->axes;
    const IrOp *contraction = find_op(k, pass_fuse_is_contraction);
    const IrOp *reduction = find_op(k, pass_fuse_is_reduction);
    k->widest = contraction ? contraction->results[0]
                : reduction ? reduction->operands[0]
                            : stored_by(find_result(k));
    k->space = pass_axes_of(axes, k->widest);
    k->space_list = pass_axes_list(axes, k->widest);
    k->rows = reduction ? pass_axes_of(axes, reduction->results[0]) : k->space;
    k->reduces = k->has_rows = reduction != NULL;
    if (!contraction)
        all_ops(k, note_rows);
}

/* ---- where values are computed ------------------------------------------- */

static bool
lies_along_space(const Check *k, const IrValue *v)
{
    AxisList list = pass_axes_list(k->f->axes, v);
    return pass_axes_list_equal(&list, &k->space_list);
}

/* Whether v lies along the rows, in the order they have in the space. */
static bool
lies_along_rows(const Check *k, const IrValue *v)
{
    AxisList list = pass_axes_list(k->f->axes, v);
    int next = 0;
    if (pass_axes_of(k->f->axes, v) != k->rows)
        return false;
    for (int i = 0; i < k->space_list.count && next < list.count; i++)
        next += k->space_list.axes[i] == list.axes[next];
    return next == list.count;
}

static bool
result_fits(Check *k, const IrOp *op)
{
    const IrValue *v = stored_by(op);
    if (lies_along_space(k, v)) {
        k->has_wide_result = true;
        return true;
    }
    return k->has_rows && lies_along_rows(k, v);
}

/* Whether op is a part of what is in memory, which is loaded wherever it is
 * used. */
static bool
is_loaded(const Check *k, const IrOp *op)
{
    const IrOp *def = op->operands[0]->def;
    return pass_fuse_is_part(op) &&
           !(def && def->block == op->block && is_member(k, def));
}

static bool
op_fits(Check *k, const IrOp *op)
{
    const IrValue *v = op->results[0];
    AxisSet along = pass_axes_of(k->f->axes, v);
    if (is_result(k, op) && !result_fits(k, op))
        return false;
    if (ir_updates_part(op))
        return lies_along_space(k, stored_by(op));
    if (pass_fuse_is_reduction(op))
        return along == k->rows && lies_along_space(k, op->operands[0]);
    if (pass_fuse_is_contraction(op))
        return !k->reduces;
    if (along == k->space || (k->has_rows && along == k->rows))
        return true;
    return (along & ~k->space) &&
           (pass_fuse_node(k->f, op)->num_uses == 1 || is_loaded(k, op));
}

static bool
rows_come_first(const Check *k)
{
    AxisSet first = 0;
    int64_t bytes;
    for (int i = 0; i < k->space_list.count && first != k->rows; i++)
        first |= (AxisSet)1 << k->space_list.axes[i];
    if (first == 0)
        return ir_type_bytes(k->f->m, &k->widest->type, &bytes) &&
               bytes <= FEW_BYTES;
    return first == k->rows;
}

static bool
form_fits(const Check *k)
{
    return !k->has_rows || (k->reduces && !k->has_wide_result) ||
           rows_come_first(k);
}

/* ---- recomputation --------------------------------------------- */

/* Whether a stage that needs op can recompute it: then no operation that op
 * depends on, along the space, is computed too often. */
static bool
stage_fits(Check *k, const IrOp *op)
{
    FuseNode *n = pass_fuse_node(k->f, op);
    if (!is_member(k, op) || n->visited == k->f->search ||
        (k->has_rows && pass_axes_of(k->f->axes, op->results[0]) == k->rows))
        return true;
    n->visited = k->f->search;
    if (ir_op_code(op->kind)->cost >= COSTLY && ++n->evaluated > MAX_COSTLY)
        return false;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (def && def->block == op->block && !stage_fits(k, def))
            return false;
    }
    return true;
}

static bool
forget_stages(Check *k, const IrOp *op)
{
    pass_fuse_node(k->f, op)->evaluated = 0;
    return true;
}

static bool
reduction_fits(Check *k, const IrOp *op)
{
    const IrOp *def = pass_fuse_is_reduction(op) ? op->operands[0]->def : NULL;
    k->f->search++;
    return !def || def->block != op->block || stage_fits(k, def);
}

static bool
stored_fits(Check *k, const IrOp *op)
{
    return !is_result(k, op) || stage_fits(k, op);
}

static bool
stages_fit(Check *k)
{
    all_ops(k, forget_stages);
    if (!all_ops(k, reduction_fits))
        return false;
    k->f->search++;
    return all_ops(k, stored_fits);
}

/* ---- the whole ---------------------------------------------------------- */

static bool
feeds_contraction(Check *k, const IrOp *op)
{
    for (int i = 0; pass_fuse_is_contraction(op) && i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (def && def->block == op->block && is_member(k, def))
            return false;
    }
    return true;
}

static bool
is_scatter(const IrOp *op)
{
    return op->kind == OP_scatter;
}

/* Whether op is a map for a scatter's indices or values, which computes each
 * element once. */
static bool
feeds_scatter(Check *k, const IrOp *op)
{
    const IrOpList *users = &pass_fuse_node(k->f, op)->users;
    if (is_scatter(op))
        return is_result(k, op) && k->num_scatters++ == 0;
    if (!(ir_op_info[op->kind].traits & ELEMENTWISE) || is_result(k, op))
        return false;
    for (int i = 0; i < users->len; i++) {
        const IrOp *user = users->data[i];
        if (is_scatter(user) ? user->operands[0]->def == op
                             : !ir_type_same_shape(&op->results[0]->type,
                                                   &user->results[0]->type))
            return false;
    }
    return true;
}

/* How often operations of the kernel use v. */
static int
count_uses(const Check *k, const IrValue *v)
{
    int uses = 0;
    for (int i = 0; i < num_ops(k); i++) {
        const IrOp *op = op_at(k, i);
        for (int j = 0; j < op->num_operands; j++)
            uses += op->operands[j] == v;
    }
    return uses;
}

/* Whether op is a map, or changes a part of a value that nothing else in the
 * kernel uses, nor what it becomes. */
static bool
fits_part_updates(Check *k, const IrOp *op)
{
    if (!is_scatter(op))
        return !pass_fuse_is_reduction(op) && !pass_fuse_is_contraction(op);
    const IrOp *def = op->operands[0]->def;
    return ir_updates_part(op) && count_uses(k, op->operands[0]) == 1 &&
           count_uses(k, op->results[0]) == 0 &&
           !(def && def->block == op->block && is_member(k, def));
}

static bool
note_sharing(Check *k, const IrOp *op)
{
    if (is_result(k, op) && ir_value_is_shared(op->results[0]))
        k->has_shared_result = true;
    else if (is_result(k, op))
        k->has_own_result = true;
    return !k->has_shared_result || !k->has_own_result;
}

static bool
is_fusible(Check *k, const IrOp *op)
{
    (void)k;
    return pass_fuse_is_fusible(op);
}

/* Whether the operations can be in a kernel together, in a form that is good;
 * k->space is then known. */
static bool
has_good_form(Check *k)
{
    if (!all_ops(k, is_fusible) || !all_ops(k, feeds_contraction) ||
        !all_ops(k, note_sharing))
        return false;
    if (find_op(k, is_scatter)) {
        if (all_ops(k, feeds_scatter))
            return true;
        if (!all_ops(k, fits_part_updates))
            return false;
    }
    pass_axes_clear(k->f->axes);
    all_ops(k, note_op);
    if (k->num_arrays > FUSE_MAX_ARRAYS || !pass_axes_number(k->f->axes))
        return false;
    find_space(k);
    return all_ops(k, op_fits) && form_fits(k) && stages_fit(k);
}

bool
pass_fuse_is_legal(Fuse *f, const Cluster *a, const Cluster *b, AxisSet *space)
{
    assert(a != b && !a->into && !b->into);
    Check k = {.f = f, .a = a, .b = b};
    bool good = a->ops.len + b->ops.len <= FUSE_MAX_OPS &&
                !(a->contracts && b->contracts) &&
                pass_fuse_node(f, a->ops.data[0])->epoch ==
                    pass_fuse_node(f, b->ops.data[0])->epoch &&
                has_good_form(&k);
    *space = k.space;
    return good;
}

bool
pass_fuse_may_store(Fuse *f, const Cluster *c, const IrOp *op)
{
    static const Cluster none;
    Check k = {.f = f, .a = c, .b = &none, .also = op};
    return has_good_form(&k);
}
