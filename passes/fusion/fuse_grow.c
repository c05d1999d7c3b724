/*
 * fuse_grow.c - which of the legal clusters are wanted
 *
 * Four sweeps, each of which merges clusters where that is legal and makes no
 * cycle.
 *
 *   behind contractions   a tree of maps whose only result is its root joins
 *                         the contraction in it: the sums are in registers.
 *                         First the maps that need no later contraction, so
 *                         that of a sum of products only the sum so far is
 *                         kept; then the others
 *   upwards               an operation joins those that use its value; with
 *                         others left its value is one of the kernel's results
 *   sideways              kernels that read the same value read it once, and
 *                         those of single elements have one launch
 */
#include "ir/segments.h"
#include "ir/table.h"
#include "passes/fusion/fuse.h"

static bool
try_merge(Fuse *f, Cluster *a, Cluster *b)
{
    AxisSet space;
    if (a == b || !a->computed || !b->computed ||
        !pass_fuse_is_legal(f, a, b, &space))
        return false;
    return pass_fuse_merge_acyclic(f, a, b);
}

/* ---- behind contractions ------------------------------------------------ */

static bool
is_map_of(const IrOp *op, const IrType *shape)
{
    return (ir_op_info[op->kind].traits & ELEMENTWISE) &&
           ir_type_same_shape(&op->results[0]->type, shape);
}

/* The latest contraction of those that each operation is made from by maps, by
 * its id: an operation of the block, or NULL. */
static IrOp **
find_latest(Fuse *f, const IrBlock *b)
{
    IrOp **latest = NEW_ARRAY(f->arena, IrOp *, (size_t)b->last->id + 1);
    for (IrOp *op = b->first; op; op = op->next) {
        IrOp *own = pass_fuse_is_contraction(op) ? op : NULL;
        bool map = ir_op_info[op->kind].traits & ELEMENTWISE;
        for (int i = 0; map && i < op->num_operands; i++) {
            const IrOp *def = op->operands[i]->def;
            IrOp *of = def && def->block == b ? latest[def->id] : NULL;
            if (of && (!own || of->id > own->id))
                own = of;
        }
        latest[op->id] = own;
    }
    return latest;
}

/* Whether user waits for another contraction than op, or makes more bytes of a
 * contraction's value. */
static bool
waits(const IrOp *op, const IrOp *user, IrOp *const *latest)
{
    const IrOp *own = latest[op->id];
    return own && (latest[user->id] != own ||
                   dtype_info[user->results[0]->type.dtype].bytes >
                       dtype_info[own->results[0]->type.dtype].bytes);
}

/* The last of the maps that exist only for op: all paths from its value end in
 * it, and no value on them is used elsewhere.  With latest, none of them waits.
 */
static IrOp *
root_of(const Fuse *f, IrOp *op, IrOp *const *roots, IrOp *const *latest)
{
    const IrOpList *users = &pass_fuse_node(f, op)->users;
    for (int i = 0; i < users->len; i++) {
        const IrOp *user = users->data[i];
        if (!is_map_of(user, &op->results[0]->type) ||
            roots[user->id] != roots[users->data[0]->id] ||
            (latest && waits(op, user, latest)))
            return op;
    }
    return users->len ? roots[users->data[0]->id] : op;
}

/* For each operation, by its id, its root, and the other operations whose root
 * it is, last first. */
typedef struct Trees {
    IrOp **roots;
    IrOpList *of;
} Trees;

static Trees
find_trees(Fuse *f, const IrBlock *b, IrOp *const *latest)
{
    size_t num = (size_t)b->last->id + 1;
    Trees t = {NEW_ARRAY(f->arena, IrOp *, num),
               NEW_ARRAY(f->arena, IrOpList, num)};
    for (IrOp *op = b->last; op; op = op->prev) {
        IrOp *root =
            op->num_results == 1 ? root_of(f, op, t.roots, latest) : op;
        t.roots[op->id] = root;
        if (root != op)
            VEC_PUSH(f->arena, t.of[root->id], op);
    }
    return t;
}

static void
grow_tree(Fuse *f, IrOp *contraction, const Trees *trees)
{
    IrOp *root = trees->roots[contraction->id];
    const IrOpList *tree = &trees->of[root->id];
    const Cluster *of_root = pass_fuse_cluster(f, root);
    if (of_root->contracts && of_root != pass_fuse_cluster(f, contraction))
        return;
    for (int i = 0; i < tree->len; i++)
        if (tree->data[i] == contraction ||
            !pass_fuse_is_contraction(tree->data[i]))
            try_merge(f, pass_fuse_cluster(f, root),
                      pass_fuse_cluster(f, tree->data[i]));
}

/* Maps of several contractions' values join the latest of these.  Those that
 * need only an earlier one come behind that one, if that leaves it one result:
 * so of a sum of products, only the sum so far has to be kept. */
static void
grow_behind_contractions(Fuse *f, const IrBlock *b)
{
    Trees own = find_trees(f, b, find_latest(f, b));
    Trees all = find_trees(f, b, NULL);
    for (IrOp *op = b->last; op; op = op->prev)
        if (pass_fuse_is_contraction(op))
            grow_tree(f, op, &own);
    for (IrOp *op = b->last; op; op = op->prev)
        if (pass_fuse_is_contraction(op))
            grow_tree(f, op, &all);
}

/* ---- upwards ------------------------------------------------------------ */

/* A view costs nothing where it is, unless it is between operations that could
 * be one kernel. */
static bool
stands_between(const Fuse *f, const IrOp *view)
{
    const IrOp *def = view->operands[0]->def;
    const IrOpList *users = &pass_fuse_node(f, view)->users;
    if (!def || def->block != view->block || !pass_fuse_is_fusible(def) ||
        pass_fuse_is_contraction(def))
        return false;
    for (int i = 1; i < users->len; i++)
        if (pass_fuse_cluster(f, users->data[i]) !=
            pass_fuse_cluster(f, users->data[0]))
            return false;
    return pass_axes_differ_by_ones(&view->operands[0]->type,
                                    &view->results[0]->type) ||
           (pass_fuse_node(f, view)->num_uses == 1 &&
            pass_fuse_node(f, def)->num_uses == 1);
}

static void
grow_upwards(Fuse *f, const IrBlock *b)
{
    for (IrOp *op = b->last; op; op = op->prev) {
        bool view =
            (ir_op_info[op->kind].traits & VIEW) && pass_fuse_is_fusible(op);
        const IrOpList *users = &pass_fuse_node(f, op)->users;
        if (view)
            pass_fuse_cluster(f, op)->computed = stands_between(f, op);
        for (int i = 0; i < users->len; i++) {
            Cluster *user = pass_fuse_cluster(f, users->data[i]);
            if (!user->contracts && !pass_fuse_cluster(f, op)->contracts)
                try_merge(f, user, pass_fuse_cluster(f, op));
        }
        if (view && pass_fuse_cluster(f, op)->ops.len == 1)
            pass_fuse_cluster(f, op)->computed = false;
    }
}

/* ---- sideways ----------------------------------------------------------- */

/* A reader may join this many before it. */
enum { MAX_READERS = 16 };

static bool
try_merge_readers(Fuse *f, const IrValue *v, Cluster *a, Cluster *b)
{
    AxisSet space;
    if (a == b || !a->computed || !b->computed || a->contracts ||
        b->contracts || !pass_fuse_is_legal(f, a, b, &space) ||
        pass_axes_of(f->axes, v) != space)
        return false;
    return pass_fuse_merge_acyclic(f, a, b);
}

/* Merges the reader at i with the first of those before it that it may join. */
static void
merge_reader(Fuse *f, const IrValue *v, const IrOpList *readers, int i)
{
    Cluster *own = pass_fuse_cluster(f, readers->data[i]), *tried = NULL;
    for (int j = i > MAX_READERS ? i - MAX_READERS : 0; j < i; j++) {
        Cluster *c = pass_fuse_cluster(f, readers->data[j]);
        if (c != tried && try_merge_readers(f, v, c, own))
            return;
        tried = c;
    }
}

static void
merge_readers(Fuse *f, const IrValue *v, const IrOpList *readers)
{
    for (int i = 1; i < readers->len; i++)
        merge_reader(f, v, readers, i);
}

/* Of values that operations of a block read: which ones, in order. */
typedef IR_TABLE(IrOpList) Readers;

/* Whether op reads operand i as a map does, and could be a kernel with others.
 */
static bool
is_reader(const IrOp *op, int i)
{
    bool stores = op->kind == OP_scatter;
    return pass_fuse_is_fusible(op) &&
           (!stores || (ir_updates_part(op) && i == 2));
}

static void
note_reader(const Fuse *f, Readers *readers, IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        if (!is_reader(op, i) || (v->def && pass_fuse_is_free(v->def)))
            continue;
        IrOpList *list = IR_TABLE_SLOT(f->arena, *readers, v->number);
        VEC_PUSH(f->arena, *list, op);
    }
}

static void
grow_sideways(Fuse *f, const IrBlock *b)
{
    Readers readers = {0};
    for (IrOp *op = b->first; op; op = op->next)
        note_reader(f, &readers, op);
    for (const IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_operands; i++) {
            const IrValue *v = op->operands[i];
            IrOpList *list = IR_TABLE_FIND(readers, v->number);
            if (!list)
                continue;
            merge_readers(f, v, list);
            list->len = 0;
        }
}

void
pass_fuse_grow(Fuse *f, IrBlock *b)
{
    grow_behind_contractions(f, b);
    grow_upwards(f, b);
    grow_sideways(f, b);
}
