/*
 * fuse_extract.c - clusters become kernels, and the block gets a new order
 *
 * 1. They get an order (pass_fuse_order).
 * 2. From the last cluster to the first the results needed from each are known.
 *    A value of another kernel is recomputed rather than read if that is cheap
 *    and takes no more reads but of values much smaller (rematerialize), as
 *    sums of bf16 that are f32 from then on, which stay bf16 in memory, what a
 * normalisation and an activation make of the value before them, again in the
 * gradient, or the differences of all pairs of rows; if it only moves or
 * converts elements of operands of contractions, which are packed in any case;
 * or if it is a step's part of a value from outside of the loop.
 * 3. Kernels are made and the block is put together anew.
 *
 * Constants and their like are copied into every kernel that needs them.
 */
#include <stdlib.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/segments.h"
#include "passes/fusion/fuse.h"

enum {
    CHEAP = 3,        /* the cost of its code, */
    MOST_COST = 12,   /* and of all that a value is made of */
    MAX_PROLOGUES = 4 /* of a contraction's operand, one after the other */
};

typedef struct Extract {
    Fuse *f;
    IrBlock *block;
    ClusterList order;
    IrValues reads; /* of the current cluster */
} Extract;

/* ---- results that are needed --------------------------------------------- */

static void
need(const Extract *x, const IrValue *v)
{
    if (v->def && v->def->block == x->block)
        pass_fuse_node(x->f, v->def)->needed = true;
}

static void
need_operands(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_operands; i++)
        need(data, op->operands[i]);
}

/* The values that c changes in place, in the order of the operations. */
static void
list_changed(const Extract *x, const Cluster *c, IrValues *list)
{
    for (int i = 0; i < c->ops.len; i++)
        if (pass_fuse_updates_in_place(c->ops.data[i], 0))
            VEC_PUSH(x->f->arena, *list, c->ops.data[i]->operands[0]);
}

static bool
is_made_in(const Extract *x, const IrValue *v, const Cluster *c)
{
    return v->def && v->def->block == c->ops.data[0]->block &&
           pass_fuse_cluster(x->f, v->def) == c;
}

static bool
is_rematerialized(const IrValue *v, const Cluster *c)
{
    for (int i = 0; i < c->rematerialized.len; i++)
        if (c->rematerialized.data[i] == v->def)
            return true;
    return false;
}

static bool
is_free_value(const IrValue *v)
{
    return v->def && pass_fuse_is_free(v->def);
}

static bool
is_read(const Extract *x, const IrValue *v)
{
    for (int i = 0; i < x->reads.len; i++)
        if (x->reads.data[i] == v)
            return true;
    return false;
}

static void
read_operands(Extract *x, const Cluster *c, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *v = op->operands[i];
        if (!pass_fuse_updates_in_place(op, i) && !is_made_in(x, v, c) &&
            !is_rematerialized(v, c) && !is_free_value(v) && !is_read(x, v))
            VEC_PUSH(x->f->arena, x->reads, v);
    }
}

/* Keeps only the operations of c that its needed results depend on. */
static void
drop_unneeded(Extract *x, Cluster *c)
{
    IrOpList live = {0};
    int search = ++x->f->search;
    for (int i = c->ops.len - 1; i >= 0; i--) {
        IrOp *op = c->ops.data[i];
        FuseNode *n = pass_fuse_node(x->f, op);
        if (!n->needed && n->visited != search)
            continue;
        VEC_PUSH(x->f->arena, live, op);
        for (int j = 0; j < op->num_operands; j++)
            if (is_made_in(x, op->operands[j], c))
                pass_fuse_node(x->f, op->operands[j]->def)->visited = search;
    }
    for (int i = 0, j = live.len - 1; i < j; i++, j--) {
        IrOp *swap = live.data[i];
        live.data[i] = live.data[j];
        live.data[j] = swap;
    }
    c->ops = live;
}

/* Whether v is in memory before c in any case: it is not computed by a kernel,
 * or it is a kernel's result anyway. */
static bool
is_given(const Extract *x, const IrValue *v)
{
    const IrOp *op = v->def;
    if (!op || op->block != x->block || !pass_fuse_cluster(x->f, op)->computed)
        return true;
    const IrOpList *users = &pass_fuse_node(x->f, op)->users;
    for (int i = 0; i < users->len; i++)
        if (pass_fuse_cluster(x->f, users->data[i]) !=
            pass_fuse_cluster(x->f, op))
            return true;
    return false;
}

/* ---- prologues of contractions ------------------------------------------ */

/* Whether op only moves or rounds elements: code that packs an operand, or
 * reads it in place, does that on the way. */
static bool
is_prologue(const IrOp *op)
{
    switch (op->kind) {
    case OP_cast:
    case OP_slice:
    case OP_transpose:
    case OP_reverse:
    case OP_broadcast:
        return true;
    default:
        return ir_op_info[op->kind].code == CODE_reshape;
    }
}

/* A convolution packs an element once for each window that contains it. */
static bool
packs_once(const Extract *x, const IrOp *op)
{
    return op->kind == OP_dot && pass_fuse_cluster(x->f, op)->computed;
}

/* Whether only contractions use op's value, perhaps through other prologues:
 * then each of them rematerializes it, and it is not needed in memory. */
static bool
is_for_contractions(const Extract *x, const IrOp *op, int depth)
{
    const IrOpList *users = &pass_fuse_node(x->f, op)->users;
    for (int i = 0; i < users->len; i++) {
        const IrOp *user = users->data[i];
        if (!packs_once(x, user) &&
            (!is_prologue(user) || depth == MAX_PROLOGUES ||
             !is_for_contractions(x, user, depth + 1)))
            return false;
    }
    return users->len > 0;
}

/* ---- recipes of maps ---------------------------------------------------- */

/* Whether user takes each element of v once: to make its own there, or to add
 * it up. */
static bool
is_in_step(const IrOp *user, const IrValue *v)
{
    return pass_fuse_is_reduction(user) ||
           ((ir_op_info[user->kind].traits & ELEMENTWISE) &&
            ir_type_same_shape(&v->type, &user->results[0]->type));
}

/* Whether the kernel that computes y may store it, too. */
static bool
may_be_stored(const Extract *x, const IrValue *y)
{
    const Cluster *c = pass_fuse_cluster(x->f, y->def);
    return y->def->num_results == 1 && pass_fuse_may_store(x->f, c, y->def);
}

/* Whether v, of the cluster of a contraction, is a wider form of its value y,
 * which takes fewer bytes in memory. */
static bool
is_narrower_sum(const Extract *x, const IrValue *y, const IrValue *v)
{
    return v->def->kind == OP_cast && y->def && y->def->block == x->block &&
           pass_fuse_is_contraction(y->def) &&
           pass_fuse_cluster(x->f, y->def)->computed &&
           dtype_info[y->type.dtype].bytes < dtype_info[v->type.dtype].bytes &&
           may_be_stored(x, y);
}

/* Whether all users of op's value, a wider form of a contraction's, can widen
 * that themselves. */
static bool
is_widened_by_users(const Extract *x, const IrOp *op)
{
    const IrValue *v = op->results[0];
    const IrOpList *users = &pass_fuse_node(x->f, op)->users;
    if (pass_fuse_node(x->f, op)->needed ||
        !is_narrower_sum(x, op->operands[0], v))
        return false;
    for (int i = 0; i < users->len; i++) {
        const IrOp *user = users->data[i];
        bool in_step = pass_fuse_cluster(x->f, user)->computed &&
                       !pass_fuse_is_contraction(user) && is_in_step(user, v);
        if (!in_step && !packs_once(x, user) &&
            !(is_prologue(user) && is_for_contractions(x, user, 1)))
            return false;
    }
    return true;
}

/* Whether other users of op's value need it in memory. */
static bool
is_needed_anyway(const Extract *x, const IrOp *op)
{
    const Cluster *own = pass_fuse_cluster(x->f, op);
    const IrOpList *users = &pass_fuse_node(x->f, op)->users;
    if (pass_fuse_node(x->f, op)->needed)
        return true;
    if (is_widened_by_users(x, op))
        return false;
    for (int i = 0; i < users->len; i++) {
        const Cluster *c = pass_fuse_cluster(x->f, users->data[i]);
        if (!c->computed || pass_fuse_is_contraction(users->data[i]) ||
            (c != own && !is_in_step(users->data[i], op->results[0])))
            return true;
    }
    return false;
}

/* Whether c reads the elements of v that it makes, each once. */
static bool
is_read_in_step(const Extract *x, const IrValue *v, const Cluster *c)
{
    const IrOpList *users = &pass_fuse_node(x->f, v->def)->users;
    for (int i = 0; i < users->len; i++)
        if (pass_fuse_cluster(x->f, users->data[i]) == c &&
            !is_in_step(users->data[i], v))
            return false;
    return true;
}

/* Whether y is what a variable has at some point, after which it may be written
 * in place if nobody reads y any more. */
static bool
is_of_variable(const IrValue *y)
{
    const IrOp *op = y->def;
    while (op && (ir_op_info[op->kind].traits & VIEW))
        op = op->operands[0]->def;
    return op && op->kind == OP_read;
}

/* How a kernel would compute a value: the maps, and what it would read for them
 * beside what it reads already: one source at most, and narrow values, which
 * other kernels store for it if they only compute them. */
typedef struct Recipe {
    const Extract *x;
    const Cluster *cluster;
    const IrType *shape;
    const IrValue *source; /* of that shape, or NULL */
    IrOpList maps;         /* each once */
    int cost, num_reads;
    bool stores; /* narrow values that no kernel stores otherwise */
} Recipe;

/* So small that reading it again costs nothing beside a value of the shape. */
static bool
is_narrow(const Recipe *r, const IrValue *y)
{
    enum { MUCH_SMALLER = 16 };
    const IrModule *m = r->x->f->m;
    int64_t bytes, all;
    return ir_type_bytes(m, &y->type, &bytes) &&
           ir_type_bytes(m, r->shape, &all) && bytes <= all / MUCH_SMALLER;
}

/* Whether a kernel may compute v itself, element by element. */
static bool
is_cheap_map(const Recipe *r, const IrValue *v)
{
    const Fuse *f = r->x->f;
    const IrOp *op = v->def;
    return op && op->block == r->x->block && !pass_fuse_is_scalar(&v->type) &&
           pass_fuse_cluster(f, op)->computed && op->num_results == 1 &&
           ((ir_op_info[op->kind].traits & ELEMENTWISE) ||
            op->kind == OP_broadcast) &&
           ir_op_code(op->kind)->cost <= CHEAP &&
           pass_fuse_node(f, op)->epoch ==
               pass_fuse_node(f, r->cluster->ops.data[0])->epoch;
}

static bool
is_in_recipe(const Recipe *r, const IrOp *op)
{
    for (int i = 0; i < r->maps.len; i++)
        if (r->maps.data[i] == op)
            return true;
    return false;
}

/* Whether one of the maps takes another value where a mask says so: products
 * leave out what a mask hides, if they have it. */
static bool
has_mask(const Recipe *r)
{
    for (int i = 0; i < r->maps.len; i++)
        if (r->maps.data[i]->kind == OP_where)
            return true;
    return false;
}

static bool add_operand(Recipe *r, const IrValue *y, const IrValue *v);

/* Adds the map that makes v; false if that is none, or one too many. */
static bool
add_map(Recipe *r, const IrValue *v)
{
    if (!is_cheap_map(r, v))
        return false;
    if (is_in_recipe(r, v->def))
        return true;
    r->cost += ir_op_code(v->def->kind)->cost;
    VEC_PUSH(r->x->f->arena, r->maps, v->def);
    for (int i = 0; i < v->def->num_operands; i++)
        if (r->cost > MOST_COST || !add_operand(r, v->def->operands[i], v))
            return false;
    return true;
}

/* y, of which v is made, is at hand, or narrow, or the source, or maps make it.
 */
static bool
add_operand(Recipe *r, const IrValue *y, const IrValue *v)
{
    const Extract *x = r->x;
    if (is_free_value(y) || is_made_in(x, y, r->cluster) || is_read(x, y) ||
        is_rematerialized(y, r->cluster) || y == r->source)
        return true;
    bool given = is_given(x, y);
    if (ir_type_same_shape(&y->type, r->shape)) {
        if (!given && (has_mask(r) || !is_narrower_sum(x, y, v)))
            return add_map(r, y);
        if (r->source || is_of_variable(y))
            return false;
        r->source = y;
    } else if (!is_narrow(r, y) || (!given && !may_be_stored(x, y))) {
        return false;
    }
    r->stores |= !given;
    r->num_reads++;
    return true;
}

/* Whether c may compute v, by *r. */
static bool
find_recipe(const Extract *x, const IrValue *v, const Cluster *c, Recipe *r)
{
    *r = (Recipe){.x = x, .cluster = c, .shape = &v->type};
    return is_cheap_map(r, v) && is_read_in_step(x, v, c) && add_map(r, v) &&
           c->ops.len + c->rematerialized.len + r->maps.len <= FUSE_MAX_OPS &&
           x->reads.len + r->num_reads <= FUSE_MAX_ARRAYS &&
           (!(r->source || r->stores) || !is_needed_anyway(x, v->def));
}

/* ---- operands that are packed ------------------------------------------- */

/* Whether extending y's lifetime takes no more memory than the values that
 * prologues compute from it: it is live anyway, or as small as all of them. */
static bool
may_live_on(const Extract *x, const IrValue *y)
{
    if (!y->def || y->def->block != x->block || y->def->kind == OP_read)
        return true;
    const IrOpList *users = &pass_fuse_node(x->f, y->def)->users;
    int64_t instead = 0;
    for (int i = 0; i < users->len; i++)
        if (is_prologue(users->data[i]) &&
            is_for_contractions(x, users->data[i], 0))
            instead += pass_fuse_bytes(x->f, users->data[i]->results[0]);
    return pass_fuse_bytes(x->f, y) <= instead;
}

/* Whether contractions may rematerialize op, and its operands in turn, from
 * values in memory. */
static bool
starts_from_memory(const Extract *x, const IrOp *op)
{
    if (!is_prologue(op))
        return false;
    if (is_widened_by_users(x, op))
        return true;
    const IrValue *y = op->operands[0];
    bool is_own = y->def && y->def->block == x->block;
    return is_for_contractions(x, op, 0) &&
           ((is_given(x, y) && may_live_on(x, y)) ||
            (is_own && starts_from_memory(x, y->def)));
}

static bool
may_be_packed(const Extract *x, const IrValue *v, const Cluster *c)
{
    const IrOp *op = v->def;
    return c->contracts && op && op->block == x->block &&
           pass_fuse_node(x->f, op)->epoch ==
               pass_fuse_node(x->f, c->ops.data[0])->epoch &&
           starts_from_memory(x, op);
}

/* ---- rematerialization -------------------------------------------------- */

/* Whether c computes element by element, and does not change whole. */
static bool
is_beside(const Cluster *c, const IrValue *whole)
{
    for (int i = 0; i < c->ops.len; i++) {
        const IrOp *op = c->ops.data[i];
        if (pass_fuse_updates_in_place(op, 0) &&
            (op->operands[0] == whole || !ir_updates_part(op)))
            return false;
    }
    return !c->contracts && pass_fuse_is_fusible(c->ops.data[0]);
}

/* Whether c may load v from the value that it is a part of: that is made
 * outside of the block, where it lives on. */
static bool
may_be_taken(const Extract *x, const IrValue *v, const Cluster *c)
{
    const IrOp *op = v->def, *first = c->ops.data[0];
    return op && op->block == x->block && pass_fuse_is_part(op) &&
           ir_value_block(op->operands[0]) != x->block &&
           !pass_fuse_node(x->f, op)->needed &&
           pass_fuse_cluster(x->f, op)->computed &&
           is_beside(c, op->operands[0]) &&
           c->ops.len + c->rematerialized.len < FUSE_MAX_OPS &&
           x->reads.len < FUSE_MAX_ARRAYS &&
           pass_fuse_node(x->f, op)->epoch ==
               pass_fuse_node(x->f, first)->epoch;
}

/* c computes maps in place of reading value number i, which they make. */
static void
compute_here(Extract *x, Cluster *c, const IrOpList *maps, int i)
{
    x->reads.data[i] = VEC_LAST(x->reads);
    x->reads.len--;
    for (int k = 0; k < maps->len; k++)
        VEC_PUSH(x->f->arena, c->rematerialized, maps->data[k]);
    for (int k = 0; k < maps->len; k++)
        read_operands(x, c, maps->data[k]);
}

static void
rematerialize(Extract *x, Cluster *c)
{
    for (int i = 0; i < x->reads.len;) {
        const IrValue *v = x->reads.data[i];
        Recipe r;
        if (find_recipe(x, v, c, &r)) {
            compute_here(x, c, &r.maps, i);
        } else if (may_be_packed(x, v, c) || may_be_taken(x, v, c)) {
            IrOpList one = {0};
            VEC_PUSH(x->f->arena, one, v->def);
            compute_here(x, c, &one, i);
        } else {
            i++;
            continue;
        }
        i = 0;
    }
}

static void
find_needs(Extract *x, Cluster *c)
{
    if (!c->computed) {
        IrOp *op = c->ops.data[0];
        if (pass_fuse_is_free(op)) /* its operands are copied with it */
            return;
        if (is_prologue(op) && !pass_fuse_node(x->f, op)->needed) {
            c->ops.len = 0; /* a view that all its users rematerialize */
            return;
        }
        ir_walk_op(op, need_operands, x);
        return;
    }
    drop_unneeded(x, c);
    x->reads.len = 0;
    for (int i = 0; i < c->ops.len; i++)
        read_operands(x, c, c->ops.data[i]);
    if (x->f->level > 0)
        rematerialize(x, c);
    for (int i = 0; i < x->reads.len; i++)
        need(x, x->reads.data[i]);
    IrValues changed = {0};
    list_changed(x, c, &changed);
    for (int i = 0; i < changed.len; i++)
        need(x, changed.data[i]);
}

/* ---- kernels ------------------------------------------------------------ */

typedef struct Kernel {
    Extract *x;
    const Cluster *cluster;
    IrOpList ops; /* of the cluster and rematerialized ones, by position */
    IrBlock *body;
    IrCloneMap *map;
    IrValues results;
    int num_changed; /* of the operands: the first ones */
} Kernel;

static int
by_position(const void *x, const void *y)
{
    const IrOp *a = *(IrOp *const *)x, *b = *(IrOp *const *)y;
    return (a->id > b->id) - (a->id < b->id);
}

static void
collect_ops(Kernel *k)
{
    Arena *a = k->x->f->arena;
    for (int i = 0; i < k->cluster->ops.len; i++)
        VEC_PUSH(a, k->ops, k->cluster->ops.data[i]);
    for (int i = 0; i < k->cluster->rematerialized.len; i++)
        VEC_PUSH(a, k->ops, k->cluster->rematerialized.data[i]);
    qsort(k->ops.data, (size_t)k->ops.len, sizeof(IrOp *), by_position);
}

/* The operands of a free value are free, too. */
static void
copy_free(Kernel *k, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *v = op->operands[i];
        if (pass_fuse_updates_in_place(op, i) || !is_free_value(v) ||
            ir_clone_get(k->map, v) != v)
            continue;
        copy_free(k, v->def);
        ir_clone_op(k->map, v->def, k->body);
    }
}

static void
copy_into_kernel(Kernel *k, const IrOp *op)
{
    copy_free(k, op);
    ir_clone_op(k->map, op, k->body);
}

static const IrReason *
why(const Kernel *k)
{
    const IrOp *last = VEC_LAST(k->cluster->ops);
    const char *what = ir_op_info[last->kind].name;
    if (k->ops.len == 1)
        return ir_reason_for(last, "fuse.single", "%s", what);
    return ir_reason_for(last, "fuse.cluster", "%s and %d more in its loops",
                         what, k->ops.len - 1);
}

static void
find_results(Kernel *k)
{
    for (int i = 0; i < k->cluster->ops.len; i++) {
        const IrOp *op = k->cluster->ops.data[i];
        for (int j = 0;
             pass_fuse_node(k->x->f, op)->needed && j < op->num_results; j++)
            VEC_PUSH(k->x->f->arena, k->results, op->results[j]);
    }
}

static void
yield_results(Kernel *k, IrOp *kernel, Loc loc)
{
    IrValues inner = {0};
    for (int i = 0; i < k->results.len; i++)
        VEC_PUSH(k->x->f->arena, inner,
                 ir_clone_get(k->map, k->results.data[i]));
    ir_build_yield(k->body, inner.len, inner.data, loc);
    ir_op_close(kernel);
    for (int i = 0; i < k->results.len; i++) {
        kernel->results[i]->name = k->results.data[i]->name;
        ir_forward(k->results.data[i], kernel->results[i]);
    }
}

/* The operands of the kernel.  Those that it changes are first, and once more
 * if they are also read. */
static IrValues
find_operands(Kernel *k)
{
    Extract *x = k->x;
    IrValues operands = {0};
    list_changed(x, k->cluster, &operands);
    k->num_changed = operands.len;
    x->reads.len = 0;
    for (int i = 0; i < k->ops.len; i++)
        read_operands(x, k->cluster, k->ops.data[i]);
    for (int i = 0; i < x->reads.len; i++)
        VEC_PUSH(x->f->arena, operands, x->reads.data[i]);
    return operands;
}

static void
make_body(Kernel *k, const IrValues *operands)
{
    int changed = 0;
    for (int i = 0; i < operands->len; i++) {
        IrValue *v = operands->data[i];
        IrValue *arg = ir_block_arg(k->body, v->type, v->name);
        if (i >= k->num_changed)
            ir_clone_set(k->map, v, arg);
    }
    for (int i = 0; i < k->ops.len; i++) {
        copy_into_kernel(k, k->ops.data[i]);
        if (pass_fuse_updates_in_place(k->ops.data[i], 0))
            k->body->last->operands[0] = k->body->args.data[changed++];
    }
}

/* Appended to the block. */
static void
make_kernel(Extract *x, Cluster *c)
{
    Kernel k = {.x = x, .cluster = c, .map = ir_clone_map(x->f->arena)};
    Loc loc = VEC_LAST(c->ops)->loc;
    collect_ops(&k);
    find_results(&k);
    const IrReason *reason = why(&k);
    IrValues operands = find_operands(&k);
    IrOp *kernel =
        ir_build_op(x->block, OP_kernel, operands.len, operands.data, loc);
    ir_set_reason(kernel, reason);
    k.body = kernel->regions[0];
    make_body(&k, &operands);
    yield_results(&k, kernel, loc);
}

/* A free value gets a kernel if a use outside of kernels needs it. */
static void
rebuild_from(Extract *x, Cluster *c)
{
    if (c->ops.len == 0) /* it has no uses */
        return;
    IrOp *op = c->ops.data[0];
    bool is_free = pass_fuse_is_free(op);
    if (c->computed || (is_free && pass_fuse_node(x->f, op)->needed))
        make_kernel(x, c);
    else if (!is_free)
        ir_append(x->block, op);
}

void
pass_fuse_extract(Fuse *f, IrBlock *b)
{
    Extract x = {.f = f, .block = b};
    pass_fuse_order(f, b, &x.order);
    for (int i = x.order.len - 1; i >= 0; i--)
        find_needs(&x, x.order.data[i]);
    b->first = b->last = NULL;
    for (int i = 0; i < x.order.len; i++)
        rebuild_from(&x, x.order.data[i]);
}
