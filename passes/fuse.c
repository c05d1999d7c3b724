/*
 * fuse.c - clusters of operations become kernels
 *
 * Every pure operation that is computed (code other than host) ends up in a
 * kernel.  A cluster grows from its root, the operation whose value others
 * need, upwards: an operation joins the cluster that has all of its uses, if
 * its elements are then computed once each, or cost next to nothing:
 *
 *   elementwise and moving ops   into whatever reads each element once
 *   one reduction or contraction into elementwise ops of its own shape
 *   constants, iota, dim_size    into every kernel that needs them (copies)
 *
 * Nothing is fused into a contraction: its operands are read many times over.
 * Bits do not depend on what is fused (D3, D4), so this is about speed alone.
 *
 * Reshapes that only add or drop dimensions of one fuse like any move; others
 * stay outside kernels, where they cost nothing: they are views.
 */
#include <string.h>
#include "ir/build.h"
#include "passes/passes.h"

typedef struct Cluster {
    IrOp *root;
    bool reduces;    /* has a reduction or a contraction */
    VEC(IrOp *) ops; /* last first */
} Cluster;

/* What is known of an operation of the function: its mark. */
typedef struct Node {
    VEC(IrOp *) users; /* with repetition */
    Cluster *cluster;  /* NULL: stays outside kernels */
} Node;

typedef struct Fuse {
    Arena *arena;
    IrModule *m;
    int level;
} Fuse;

enum { MAX_CLUSTER = 64 };

static Node *
node_of(const IrOp *op)
{
    return op->mark;
}

/* ---- what an operation is to fusion ------------------------------------- */

static bool
is_computed(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    return info->effect == PURE && strcmp(info->code, "host") != 0 &&
           op->kind != OP_kernel;
}

/* Costs nothing to compute again wherever it is used. */
static bool
is_free(const IrOp *op)
{
    switch (op->kind) {
    case OP_constant:
    case OP_iota:
    case OP_dim_size:
    case OP_replica_id:
    case OP_row_start:
        return true;
    default:
        return false;
    }
}

static bool
is_contraction(const IrOp *op)
{
    return op->kind == OP_dot || op->kind == OP_conv2d;
}

static bool
is_reduction(const IrOp *op)
{
    return (ir_op_info[op->kind].traits & REDUCES) != 0;
}

/* Goes along a row as a whole: what it gives is its kernel's result. */
static bool
is_ordered(const IrOp *op)
{
    return op->kind == OP_cumsum || op->kind == OP_argsort;
}

/* Whether x and y have the same shape but for dimensions of one. */
static bool
differs_by_ones(const IrType *x, const IrType *y)
{
    int i = 0, j = 0;
    for (;;) {
        while (i < x->rank && dim_equal(x->dims[i], dim_const(1)))
            i++;
        while (j < y->rank && dim_equal(y->dims[j], dim_const(1)))
            j++;
        if (i == x->rank || j == y->rank)
            return i == x->rank && j == y->rank;
        if (!dim_equal(x->dims[i++], y->dims[j++]))
            return false;
    }
}

static bool
is_view(const IrOp *op)
{
    return (ir_op_info[op->kind].traits & VIEW) &&
           !differs_by_ones(&op->operands[0]->type, &op->results[0]->type);
}

/* Whether consumer reads each element of operand x at most once. */
static bool
reads_once(const IrOp *consumer, const IrValue *x)
{
    if (is_contraction(consumer) || consumer->kind == OP_broadcast)
        return false;
    if (consumer->kind == OP_take)
        return false; /* indices repeat, and serve for a whole part each */
    if (consumer->kind == OP_scatter) /* may read the rows that it changes */
        return x != consumer->operands[0] &&
               (ir_op_info[x->def->kind].traits & ELEMENTWISE);
    if (consumer->kind == OP_argsort)
        return dtype_info[x->type.dtype].bytes <=
               4; /* else whenever compared */
    if (ir_op_info[consumer->kind].traits & ELEMENTWISE)
        return type_same_shape(&x->type, &consumer->results[0]->type);
    return true;
}

/* ---- who uses what ------------------------------------------------------ */

static void
make_node(IrOp *op, void *data)
{
    Fuse *f = data;
    op->mark = NEW(f->arena, Node);
}

static void
note_users(IrOp *op, void *data)
{
    Fuse *f = data;
    for (int i = 0; i < op->num_operands; i++)
        if (op->operands[i]->def)
            VEC_PUSH(f->arena, node_of(op->operands[i]->def)->users, op);
}

/* ---- growing clusters --------------------------------------------------- */

/* Whether user reads each element of all its operands made by op once. */
static bool
reads_all_once(const IrOp *user, const IrOp *op)
{
    for (int i = 0; i < user->num_operands; i++)
        if (user->operands[i]->def == op &&
            !reads_once(user, user->operands[i]))
            return false;
    return true;
}

static bool
may_join(const Cluster *c, const IrOp *op)
{
    if (c->ops.len >= MAX_CLUSTER || op->kind == OP_scatter || is_ordered(op))
        return false;
    if (!is_reduction(op) && !is_contraction(op))
        return true;
    return !c->reduces &&
           type_same_shape(&op->results[0]->type, &c->root->results[0]->type);
}

/* The cluster that has all uses of op and may take it, or NULL. */
static Cluster *
find_cluster(const IrOp *op)
{
    const Node *n = node_of(op);
    Cluster *c = n->users.len ? node_of(n->users.data[0])->cluster : NULL;
    for (int i = 0; c && i < n->users.len; i++) {
        IrOp *user = n->users.data[i];
        if (user->block != op->block || node_of(user)->cluster != c ||
            !reads_all_once(user, op))
            return NULL;
    }
    return c && may_join(c, op) ? c : NULL;
}

static void
assign_cluster(Fuse *f, IrOp *op)
{
    if (!is_computed(op) || is_free(op) || is_view(op))
        return;
    Cluster *c = f->level > 0 ? find_cluster(op) : NULL;
    if (!c) {
        c = NEW(f->arena, Cluster);
        c->root = op;
    }
    node_of(op)->cluster = c;
    VEC_PUSH(f->arena, c->ops, op);
    c->reduces |= is_reduction(op) || is_contraction(op) || is_ordered(op);
}

/* Whether user is a scatter into what op makes: it wants it in memory. */
static bool
changes_rows_of(const IrOp *user, const IrOp *op)
{
    return user->kind == OP_scatter && user->operands[0]->def == op;
}

/* A free value that something outside kernels needs (a return, a collective, a
 * loop) is computed by a kernel of its own. */
static void
assign_free(Fuse *f, IrOp *op)
{
    const Node *n = node_of(op);
    for (int i = 0; i < n->users.len; i++) {
        const IrOp *user = n->users.data[i];
        if (node_of(user)->cluster && !changes_rows_of(user, op))
            continue;
        Cluster *c = NEW(f->arena, Cluster);
        c->root = op;
        VEC_PUSH(f->arena, c->ops, op);
        node_of(op)->cluster = c;
        return;
    }
}

/* ---- making kernels ----------------------------------------------------- */

typedef struct Kernel {
    Fuse *f;
    Cluster *cluster;
    IrBlock *body;
    IrCloneMap *map;
    IrValues operands;
} Kernel;

static bool
is_inside(const Kernel *k, const IrValue *v)
{
    return v->def && node_of(v->def) && node_of(v->def)->cluster == k->cluster;
}

/* Whether op has its operand v computed beside it. */
static bool
is_brought_along(const IrOp *op, const IrValue *v)
{
    return v->def && is_free(v->def) && !changes_rows_of(op, v->def);
}

/* The rows that a scatter changes are the kernel's first operand and nothing
 * else: what reads them too has them as another one. */
static bool
changes_rows(const Kernel *k)
{
    return k->cluster->root->kind == OP_scatter;
}

static void
add_operand(Kernel *k, IrValue *v)
{
    for (int i = changes_rows(k); i < k->operands.len; i++)
        if (k->operands.data[i] == v)
            return;
    VEC_PUSH(k->f->arena, k->operands, v);
}

static void
find_operands(Kernel *k, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (!(i == 0 && op->kind == OP_scatter) &&
            !is_inside(k, op->operands[i]) &&
            !is_brought_along(op, op->operands[i]))
            add_operand(k, op->operands[i]);
}

static void
copy_into_kernel(Kernel *k, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *v = op->operands[i];
        if (is_brought_along(op, v) && ir_clone_get(k->map, v) == v)
            ir_clone_op(k->map, v->def, k->body);
    }
    ir_clone_op(k->map, op, k->body);
}

static const IrReason *
why(const Fuse *f, const Cluster *c)
{
    const char *what = ir_op_info[c->root->kind].name;
    if (c->ops.len == 1)
        return ir_reason(f->m, "fuse.single", pass_loc(c->root), "%s", what);
    return ir_reason(f->m, "fuse.cluster", pass_loc(c->root),
                     "%s and %d more that only it needs", what, c->ops.len - 1);
}

static void
make_kernel(Fuse *f, Cluster *c)
{
    Kernel k = {.f = f, .cluster = c, .map = ir_clone_map(f->arena)};
    if (changes_rows(&k))
        VEC_PUSH(f->arena, k.operands, c->root->operands[0]);
    for (int i = c->ops.len - 1; i >= 0; i--)
        find_operands(&k, c->ops.data[i]);
    IrBlock *scratch = ir_block_scratch(c->root);
    IrOp *kernel = ir_build_op(scratch, OP_kernel, k.operands.len,
                               k.operands.data, c->root->loc);
    kernel->reason = why(f, c);
    k.body = kernel->regions[0];
    for (int i = 0; i < k.operands.len; i++) {
        IrValue *v = k.operands.data[i];
        IrValue *arg = ir_block_arg(k.body, v->type, v->name);
        if (i >= changes_rows(&k))
            ir_clone_set(k.map, v, arg);
    }
    for (int i = c->ops.len - 1; i >= 0; i--)
        copy_into_kernel(&k, c->ops.data[i]);
    if (changes_rows(&k))
        k.body->last->operands[0] = k.body->args.data[0];
    IrValue *old = c->root->results[0], *result = ir_clone_get(k.map, old);
    ir_build_yield(k.body, 1, &result, c->root->loc);
    ir_op_close(kernel);
    kernel->results[0]->name = old->name;
    ir_splice_before(c->root, scratch);
    ir_forward(old, kernel->results[0]);
}

/* ---- a function --------------------------------------------------------- */

static void
find_clusters(Fuse *f, IrBlock *b)
{
    for (IrOp *op = b->last; op; op = op->prev) {
        for (int i = 0; i < op->num_regions; i++)
            find_clusters(f, op->regions[i]);
        assign_cluster(f, op);
    }
}

static void
find_needed_constants(Fuse *f, IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_regions; i++)
            find_needed_constants(f, op->regions[i]);
        if (is_free(op))
            assign_free(f, op);
    }
}

static void
make_kernels(Fuse *f, IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_kernel)
            continue;
        for (int i = 0; i < op->num_regions; i++)
            make_kernels(f, op->regions[i]);
        Cluster *c = node_of(op)->cluster;
        if (c && c->root == op)
            make_kernel(f, c);
    }
}

/* What kernels compute now, and constants that nothing else needs. */
static void
remove_fused(IrBlock *b)
{
    for (IrOp *op = b->last, *prev; op; op = prev) {
        prev = op->prev;
        if (op->kind == OP_kernel)
            continue;
        for (int i = 0; i < op->num_regions; i++)
            remove_fused(op->regions[i]);
        if (node_of(op)->cluster || is_free(op))
            ir_remove(op);
    }
}

static void
fuse_func(Fuse *f, IrFunc *fn)
{
    ir_walk(fn->body, make_node, f);
    ir_walk(fn->body, note_users, f);
    find_clusters(f, fn->body);
    find_needed_constants(f, fn->body);
    make_kernels(f, fn->body);
    ir_apply_forwards(fn);
    remove_fused(fn->body);
}

bool
pass_fuse(PassCx *cx)
{
    Fuse f = {cx->arena, cx->m, cx->options->level};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        fuse_func(&f, fn);
    return true;
}
