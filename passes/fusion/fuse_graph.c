/*
 * fuse_graph.c - dependences in a block; clusters, their merging and order
 *
 * An operation comes after those that define its operands, and effects keep
 * their order: a read stays between the writes of its variable around it;
 * operations that communicate with the host or other replicas, and control flow
 * with such operations, form one chain.  In a device program everything else
 * may move.  In main and in other functions of the host the rows of a batch
 * depend on the position, too: operations keep their side of every effect.
 */
#include <assert.h>
#include <string.h>
#include "passes/fusion/fuse.h"
#include "passes/support/op_index.h"

/* ---- edges -------------------------------------------------------------- */

/* Inserts by position; most insertions are at the end. */
static void
add_once(Arena *a, IrOpList *list, IrOp *op)
{
    if (list->len && VEC_LAST(*list) == op)
        return;
    VEC_PUSH(a, *list, op);
}

static void
add_edge(Fuse *f, IrOp *before, IrOp *after)
{
    if (!before || before == after)
        return;
    add_once(f->arena, &pass_fuse_node(f, before)->later, after);
    add_once(f->arena, &pass_fuse_node(f, after)->needs, before);
}

/* Of the arguments of a block that operations use: by which ones, in order. */
typedef IR_TABLE(IrOpList) ArgUsers;

typedef struct Uses {
    Fuse *f;
    ArgUsers *args;
    IrOp *user; /* in the block */
} Uses;

static void
note_uses(IrOp *op, void *data)
{
    Uses *u = data;
    for (int i = 0; i < op->num_operands; i++) {
        IrOp *def = op->operands[i]->def;
        if (!def && op->operands[i]->block == u->user->block)
            add_once(
                u->f->arena,
                IR_TABLE_SLOT(u->f->arena, *u->args, op->operands[i]->number),
                u->user);
        if (!def || def->block != u->user->block)
            continue;
        FuseNode *n = pass_fuse_node(u->f, def);
        add_once(u->f->arena, &n->users, u->user);
        n->num_uses += op == u->user;
        add_edge(u->f, def, u->user);
    }
}

static void
note_all_uses(Fuse *f, ArgUsers *args, IrOp *user)
{
    Uses u = {f, args, user};
    ir_walk_op(user, note_uses, &u);
}

/* The operations so far that use v, a value of their block. */
static const IrOpList *
users_of(const Fuse *f, const ArgUsers *args, const IrValue *v)
{
    static const IrOpList none = {0};
    const IrOpList *of_arg = IR_TABLE_FIND(*args, v->number);
    if (of_arg)
        return of_arg;
    return v->def && !pass_fuse_is_free(v->def)
               ? &pass_fuse_node(f, v->def)->users
               : &none;
}

/* What stands before a scatter stays before it, if it uses the value whose rows
 * are changed: else that could not be done in place. */
static void
note_last_use(Fuse *f, const ArgUsers *args, IrOp *scatter)
{
    const IrValue *x = scatter->operands[0];
    if (ir_value_block(x) != scatter->block)
        return;
    const IrOpList *users = users_of(f, args, x);
    for (int i = 0; i < users->len; i++) {
        const IrOpList *later = &pass_fuse_node(f, users->data[i])->later;
        if (!later->len || VEC_LAST(*later) != scatter)
            add_edge(f, users->data[i], scatter);
    }
}

/* ---- effects ------------------------------------------------------------ */

/* The accesses of a variable that later ones must follow. */
typedef struct VarAccess {
    IrOp *write;
    IrOpList reads; /* since that write */
} VarAccess;

typedef struct Effects {
    Fuse *f;
    IrOp *user;  /* the current operation of the block */
    IrOp *chain; /* the last that communicates */
    Map *vars;   /* name -> VarAccess */
} Effects;

static VarAccess *
access_of(Effects *e, const char *name)
{
    VarAccess *v = map_get(e->vars, name);
    if (v)
        return v;
    v = NEW(e->f->arena, VarAccess);
    map_set(e->vars, name, v);
    return v;
}

static void
note_effect(IrOp *op, void *data)
{
    Effects *e = data;
    VarAccess *v;
    switch (ir_op_info[op->kind].effect) {
    case PURE:
    case CONTROL:
        return;
    case READS:
        v = access_of(e, ir_text(op, A_var));
        add_edge(e->f, v->write, e->user);
        VEC_PUSH(e->f->arena, v->reads, e->user);
        return;
    case WRITES:
        v = access_of(e, ir_text(op, A_var));
        add_edge(e->f, v->write, e->user);
        for (int i = 0; i < v->reads.len; i++)
            add_edge(e->f, v->reads.data[i], e->user);
        v->reads.len = 0;
        v->write = e->user;
        return;
    case COLLECTIVE:
    case HOST:
        add_edge(e->f, e->chain, e->user);
        e->chain = e->user;
        return;
    }
}

static void
note_all_effects(Effects *e, IrOp *op)
{
    e->user = op;
    ir_walk_op(op, note_effect, e);
}

/* Outside of device programs. */
static void
note_epochs(const Fuse *f, const IrBlock *b)
{
    int epoch = 0;
    for (const IrOp *op = b->first; op; op = op->next) {
        epoch += ir_op_info[op->kind].effect != PURE;
        pass_fuse_node(f, op)->epoch = epoch;
    }
}

/* ---- the graph ---------------------------------------------------------- */

static void
make_node(Fuse *f, IrOp *op)
{
    FuseNode *n = NEW(f->arena, FuseNode);
    Cluster *c = NEW(f->arena, Cluster);
    VEC_PUSH(f->arena, c->ops, op);
    c->computed = pass_fuse_is_computed(op) && !pass_fuse_is_free(op) &&
                  !(ir_op_info[op->kind].traits & VIEW);
    c->contracts = pass_fuse_is_contraction(op);
    n->cluster = c;
    *IR_TABLE_SLOT(f->arena, f->nodes, op->number) = n;
}

void
pass_fuse_graph_build(Fuse *f, IrBlock *b)
{
    assert(b->last);
    Effects effects = {.f = f, .vars = map_new(f->arena)};
    ArgUsers args = {0};
    pass_index_ops(b);
    f->reach = NEW_ARRAY(f->arena, int, (size_t)b->last->id + 1);
    f->back = NEW_ARRAY(f->arena, int, (size_t)b->last->id + 1);
    for (int i = 0; i <= b->last->id; i++)
        f->reach[i] = f->back[i] = i;
    for (IrOp *op = b->first; op; op = op->next)
        make_node(f, op);
    pass_fuse_order_begin(f, b);
    for (IrOp *op = b->first; op; op = op->next) {
        note_all_uses(f, &args, op);
        if (op->kind == OP_scatter)
            note_last_use(f, &args, op);
        note_all_effects(&effects, op);
    }
    if (f->fn->kind != FUNC_PROGRAM)
        note_epochs(f, b);
}

Cluster *
pass_fuse_cluster(const Fuse *f, const IrOp *op)
{
    FuseNode *n = pass_fuse_node(f, op);
    while (n->cluster->into)
        n->cluster = n->cluster->into;
    return n->cluster;
}

/* ---- transitive closure ------------------------------------------------- */

/* The position after which no path leads back before `end`: a merged cluster is
 * a path from its last operation to its first. */
static int
last_reached(const Fuse *f, int end)
{
    while (f->reach[end] > end)
        end = f->reach[end];
    return end;
}

/* The position before which no path leads forward to after `start`. */
static int
first_that_reaches(const Fuse *f, int start)
{
    while (f->back[start] < start)
        start = f->back[start];
    return start;
}

TransitiveClosure
pass_fuse_closure(Fuse *f, const IrOp *first, const IrOp *last)
{
    assert(first->block == last->block && first->id <= last->id);
    return (TransitiveClosure){f, ++f->search, first_that_reaches(f, first->id),
                               last_reached(f, last->id)};
}

bool
pass_fuse_closure_has(const TransitiveClosure *r, const Cluster *c)
{
    assert(r->search == r->f->search);
    return c->visited == r->search;
}

/* Adds the new clusters among the neighbours of c's operations on one side to
 * the closure; they are followed later. */
static void
visit_neighbours(TransitiveClosure *r, const Cluster *c, bool later)
{
    for (int i = 0; i < c->ops.len; i++) {
        const FuseNode *n = pass_fuse_node(r->f, c->ops.data[i]);
        const IrOpList *list = later ? &n->later : &n->needs;
        for (int j = 0; j < list->len; j++) {
            Cluster *next = pass_fuse_cluster(r->f, list->data[j]);
            if (next == c || next->visited == r->search ||
                next->ops.data[0]->id > r->last ||
                VEC_LAST(next->ops)->id < r->first)
                continue;
            next->visited = r->search;
            VEC_PUSH(r->f->arena, r->f->work, next->ops.data[0]);
        }
    }
}

void
pass_fuse_closure_add(TransitiveClosure *r, Cluster *c)
{
    assert(r->search == r->f->search);
    for (int later = 0; later <= 1; later++) {
        r->f->work.len = 0;
        visit_neighbours(r, c, later);
        while (r->f->work.len)
            visit_neighbours(r, pass_fuse_cluster(r->f, VEC_POP(r->f->work)),
                             later);
    }
}

/* ---- merging ------------------------------------------------------------ */

void
pass_fuse_merge(Fuse *f, Cluster *a, Cluster *b)
{
    assert(a != b && !a->into && !b->into);
    assert(a->ops.len > 0 && b->ops.len > 0);
    IrOpList ops = {0};
    int i = 0, j = 0;
    while (i < a->ops.len || j < b->ops.len) {
        bool first =
            j == b->ops.len ||
            (i < a->ops.len && a->ops.data[i]->id < b->ops.data[j]->id);
        IrOp *op = first ? a->ops.data[i++] : b->ops.data[j++];
        VEC_PUSH(f->arena, ops, op);
    }
    a->ops = ops;
    a->contracts |= b->contracts;
    b->into = a;
    int first = ops.data[0]->id, last = VEC_LAST(ops)->id;
    for (int at = first; f->reach[at] < last; at++)
        f->reach[at] = last;
    for (int at = last; f->back[at] > first; at--)
        f->back[at] = first;
}

void
pass_fuse_split(Fuse *f, Cluster *c)
{
    assert(!c->into);
    for (int i = 0; i < c->ops.len; i++) {
        Cluster *own = NEW(f->arena, Cluster);
        VEC_PUSH(f->arena, own->ops, c->ops.data[i]);
        pass_fuse_node(f, c->ops.data[i])->cluster = own;
    }
}

/* ---- order -------------------------------------------------------------- */

/* A cluster that must come before c and is not yet ordered, or NULL. */
static Cluster *
next_need(const Fuse *f, Cluster *c)
{
    for (; c->next_op < c->ops.len; c->next_op++, c->next_need = 0) {
        const IrOpList *needs =
            &pass_fuse_node(f, c->ops.data[c->next_op])->needs;
        while (c->next_need < needs->len) {
            Cluster *need = pass_fuse_cluster(f, needs->data[c->next_need++]);
            if (need != c && !need->placed)
                return need;
        }
    }
    return NULL;
}

static void
place_cluster(Fuse *f, Cluster *c, ClusterList *order)
{
    ClusterList stack = {0};
    VEC_PUSH(f->arena, stack, c);
    while (stack.len) {
        Cluster *top = VEC_LAST(stack);
        Cluster *need = top->placed ? NULL : next_need(f, top);
        if (need) {
            VEC_PUSH(f->arena, stack, need);
            continue;
        }
        if (!top->placed)
            VEC_PUSH(f->arena, *order, top);
        top->placed = true;
        stack.len--;
    }
}

/* ---- updates ------------------------------------------------------------ */

static IrOp *
reader_of_widest(const Fuse *f, const Cluster *c, int64_t *bytes)
{
    IrOp *reader = NULL;
    *bytes = -1;
    for (int i = 0; i < c->ops.len; i++)
        for (int j = 0; j < c->ops.data[i]->num_operands; j++) {
            int64_t n = pass_fuse_bytes(f, c->ops.data[i]->operands[j]);
            if (n <= *bytes)
                continue;
            *bytes = n;
            reader = c->ops.data[i];
        }
    return reader;
}

/* The bytes of c's results; -1: they are for others than writes of variables.
 */
static int64_t
written_bytes(const Fuse *f, const Cluster *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->ops.len; i++) {
        const IrOpList *users = &pass_fuse_node(f, c->ops.data[i])->users;
        for (int j = 0; j < users->len; j++) {
            if (pass_fuse_cluster(f, users->data[j]) == c)
                continue;
            if (users->data[j]->kind != OP_write)
                return -1;
            bytes += pass_fuse_bytes(f, c->ops.data[i]->results[0]);
        }
    }
    return bytes;
}

/* The operation from which on c may come, before its last one, or NULL.  A step
 * has its updates at the end: there the wide values that a gradient is summed
 * from are in no cache any more, and until then they take memory. */
static IrOp *
find_begin(const Fuse *f, const Cluster *c)
{
    enum { WIDER = 2 };
    if (!c->computed || f->fn->kind != FUNC_PROGRAM)
        return NULL;
    int64_t widest, written = written_bytes(f, c);
    IrOp *begin = reader_of_widest(f, c, &widest);
    return written >= 0 && written <= widest / WIDER ? begin : NULL;
}

static void
come_after(const Fuse *f, Cluster *c, const IrOpList *ops)
{
    for (int i = 0; i < ops->len; i++) {
        Cluster *d = pass_fuse_cluster(f, ops->data[i]);
        if (d != c && !pass_fuse_is_free(ops->data[i]))
            VEC_PUSH(f->arena, c->blockers, d);
    }
}

/* Those that use op's value, perhaps by views, come before c. */
static void
come_after_users(const Fuse *f, Cluster *c, const IrOp *op)
{
    const IrOpList *users = &pass_fuse_node(f, op)->users;
    come_after(f, c, users);
    for (int i = 0; i < users->len; i++)
        if (ir_op_info[users->data[i]->kind].traits & VIEW)
            come_after_users(f, c, users->data[i]);
}

/* So that the value that write takes, c's, is made in the variable's bytes, all
 * others that read these come before c. */
static void
come_after_reads(const Fuse *f, Cluster *c, const IrOp *write)
{
    const IrOpList *before = &pass_fuse_node(f, write)->needs;
    come_after(f, c, before);
    for (int i = 0; i < before->len; i++)
        if (before->data[i]->kind == OP_read)
            come_after_users(f, c, before->data[i]);
}

static void
find_blockers(const Fuse *f, Cluster *c)
{
    for (int i = 0; i < c->ops.len; i++) {
        const FuseNode *n = pass_fuse_node(f, c->ops.data[i]);
        come_after(f, c, &n->needs);
        for (int j = 0; j < n->users.len; j++)
            if (n->users.data[j]->kind == OP_write)
                come_after_reads(f, c, n->users.data[j]);
    }
}

/* Reads, and what is computed of scalars: the rate of a step, say. */
static bool
is_of_scalars(const Cluster *c)
{
    for (int i = 0; i < c->ops.len; i++) {
        const IrOp *op = c->ops.data[i];
        unsigned traits = ir_op_info[op->kind].traits;
        if (op->kind == OP_read || (traits & VIEW))
            continue;
        if (!(traits & ELEMENTWISE) || !pass_fuse_is_computed(op) ||
            !pass_fuse_is_scalar(&op->results[0]->type))
            return false;
    }
    return true;
}

static void
add_needs(Fuse *f, const Cluster *c, ClusterList *list)
{
    for (int i = 0; i < c->ops.len; i++) {
        const IrOpList *needs = &pass_fuse_node(f, c->ops.data[i])->needs;
        for (int j = 0; j < needs->len; j++) {
            Cluster *d = pass_fuse_cluster(f, needs->data[j]);
            if (!d->placed && d != c && !pass_fuse_is_free(needs->data[j]))
                VEC_PUSH(f->arena, *list, d);
        }
    }
}

/* Whether c, and what it needs that has no place yet, is of scalars: a little
 * of it, which may come at any time. */
static bool
is_ready(Fuse *f, Cluster *c)
{
    enum { MOST = 64 };
    ClusterList list = {0};
    VEC_PUSH(f->arena, list, c);
    for (int i = 0; i < list.len; i++) {
        if (list.len > MOST || !is_of_scalars(list.data[i]))
            return false;
        add_needs(f, list.data[i], &list);
    }
    return true;
}

static void
place_ready_blockers(Fuse *f, const Cluster *c, ClusterList *order)
{
    for (int i = 0; i < c->blockers.len; i++)
        if (!c->blockers.data[i]->placed && is_ready(f, c->blockers.data[i]))
            place_cluster(f, c->blockers.data[i], order);
}

/* One that has to come before c and has no place yet, or NULL. */
static Cluster *
find_blocker(Cluster *c)
{
    while (c->next_blocker < c->blockers.len &&
           c->blockers.data[c->next_blocker]->placed)
        c->next_blocker++;
    return c->next_blocker < c->blockers.len ? c->blockers.data[c->next_blocker]
                                             : NULL;
}

/* Places c, or lets it wait for one that has to come before. */
static void
place_or_wait(Fuse *f, Cluster *c, ClusterList *order)
{
    Cluster *blocker = find_blocker(c);
    if (blocker)
        VEC_PUSH(f->arena, blocker->waiting, c);
    else
        place_cluster(f, c, order);
}

static void
place_waiting(Fuse *f, const Cluster *placed, ClusterList *order)
{
    for (int i = 0; i < placed->waiting.len; i++)
        if (!placed->waiting.data[i]->placed)
            place_or_wait(f, placed->waiting.data[i], order);
}

void
pass_fuse_order(Fuse *f, IrBlock *b, ClusterList *order)
{
    int seen = order->len;
    for (IrOp *op = b->first; op; op = op->next) {
        Cluster *c = pass_fuse_cluster(f, op);
        c->placed = false;
        c->next_op = c->next_need = c->next_blocker = 0;
        c->waiting.len = c->blockers.len = 0;
    }
    for (IrOp *op = b->first; op; op = op->next) {
        Cluster *c = pass_fuse_cluster(f, op);
        if (!c->placed && VEC_LAST(c->ops) == op) {
            place_cluster(f, c, order);
        } else if (!c->placed && find_begin(f, c) == op) {
            find_blockers(f, c);
            place_ready_blockers(f, c, order);
            place_or_wait(f, c, order);
        }
        for (; seen < order->len; seen++)
            place_waiting(f, order->data[seen], order);
    }
}
