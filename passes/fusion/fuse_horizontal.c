/*
 * fuse_horizontal.c - kernels that compute the same for other values become one
 *
 * An optimizer updates all variables alike: many small kernels that differ only
 * in the lengths of their values, each with a launch of its own.  Such kernels
 * become one with `segments`, whose items are the items of all; so threads
 * divide all elements evenly, and there is one copy of the code.
 *
 * Kernels become one that
 *
 *   - are alike (ir_segments_match);
 *   - do not depend on each other, depend on the same collectives, and are
 *     depended on by the same ones: so the same operations overlap as before
 *     (D13);
 *   - need no more memory together: the operands of one now live until all
 *     have run, and the peak of live bytes must not grow.
 *
 * The block gets the order that fusion gives clusters (pass_fuse_order); a
 * group of merged kernels is a cluster.
 */
#include <assert.h>
#include "ir/analysis/per_replica.h"
#include "ir/ir.h"
#include "ir/segments.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/type_bounds.h"
#include "passes/fusion/fuse.h"

/* A call passes an address for each array of a kernel; a GPU has 4 KB for
 * parameters. */
enum { MAX_ADDRESSES = 480 };

typedef struct HorizontalFusion {
    Fuse f;
    IrBlock *block;
    /* by position: of the last collective that an operation depends on, and of
     */
    int *after, *before;
    int64_t *bytes; /* by position: the values that its results keep live */
    int64_t most;   /* bytes live at a time in the current order */
    VEC(IrOpList) groups;
    ClusterList rows; /* of kernels that could be one */
    ClusterList order;
} HorizontalFusion;

/* ---- collectives -------------------------------------------------------- */

static bool
is_collective(const IrOp *op)
{
    return ir_op_info[op->kind].effect == COLLECTIVE;
}

static void
find_collectives(HorizontalFusion *u)
{
    int num = u->block->last->id + 1;
    u->after = NEW_ARRAY(u->f.arena, int, (size_t)num);
    u->before = NEW_ARRAY(u->f.arena, int, (size_t)num);
    for (int i = 0; i < num; i++) {
        u->after[i] = -1;
        u->before[i] = num;
    }
    for (IrOp *op = u->block->first; op; op = op->next) {
        const IrOpList *later = &pass_fuse_node(&u->f, op)->later;
        int after = is_collective(op) ? op->id : u->after[op->id];
        for (int i = 0; i < later->len; i++)
            if (u->after[later->data[i]->id] < after)
                u->after[later->data[i]->id] = after;
    }
    for (IrOp *op = u->block->last; op; op = op->prev) {
        const IrOpList *needs = &pass_fuse_node(&u->f, op)->needs;
        int before = is_collective(op) ? op->id : u->before[op->id];
        for (int i = 0; i < needs->len; i++)
            if (u->before[needs->data[i]->id] > before)
                u->before[needs->data[i]->id] = before;
    }
}

/* ---- memory ------------------------------------------------------------- */

/* A value that is written to a variable is made in its bytes; a view has its
 * operand's bytes. */
static bool
needs_bytes(const Fuse *f, const IrValue *v)
{
    if (v->def->kind == OP_read || ir_op_info[v->def->kind].traits & VIEW)
        return false;
    const IrOpList *users = &pass_fuse_node(f, v->def)->users;
    for (int i = 0; i < users->len; i++)
        if (users->data[i]->kind == OP_write &&
            users->data[i]->operands[0] == v)
            return false;
    return true;
}

static void
find_bytes(HorizontalFusion *u)
{
    u->bytes = NEW_ARRAY(u->f.arena, int64_t, (size_t)u->block->last->id + 1);
    for (IrOp *op = u->block->first; op; op = op->next)
        for (int i = 0; i < op->num_results; i++) {
            int64_t n;
            if (needs_bytes(&u->f, op->results[i]) &&
                ir_type_bytes(u->f.m, &op->results[i]->type, &n))
                u->bytes[op->id] += n;
        }
}

/* The last place in the order where op's results are used, also through views.
 */
static int
last_use(const Fuse *f, const IrOp *op, const int *places)
{
    const IrOpList *users = &pass_fuse_node(f, op)->users;
    int last = places[op->id];
    for (int i = 0; i < users->len; i++) {
        const IrOp *user = users->data[i];
        bool view = ir_op_info[user->kind].traits & VIEW;
        int at = view ? last_use(f, user, places) : places[user->id];
        last = at > last ? at : last;
    }
    return last;
}

/* The peak of live bytes in the order. */
static int64_t
peak_bytes(const HorizontalFusion *u)
{
    const ClusterList *order = &u->order;
    Arena *scratch = arena_new(u->f.arena, "order");
    int *places = NEW_ARRAY(scratch, int, (size_t)u->block->last->id + 1);
    int64_t *delta = NEW_ARRAY(scratch, int64_t, (size_t)order->len + 1);
    int64_t now = 0, most = 0;
    for (int i = 0; i < order->len; i++)
        for (int j = 0; j < order->data[i]->ops.len; j++)
            places[order->data[i]->ops.data[j]->id] = i;
    for (const IrOp *op = u->block->first; op; op = op->next) {
        delta[places[op->id]] += u->bytes[op->id];
        delta[last_use(&u->f, op, places) + 1] -= u->bytes[op->id];
    }
    for (int i = 0; i < order->len; i++) {
        now += delta[i];
        most = now > most ? now : most;
    }
    arena_release(scratch);
    return most;
}

/* ---- which -------------------------------------------------------------- */

static bool
may_be_segment(const IrOp *op)
{
    if (op->kind != OP_kernel || ir_has(op, A_segments) || !op->num_results)
        return false;
    IrSegment p = ir_kernel_segment(op, 0);
    return ir_segment_length(&p) > 0;
}

static bool
are_alike(const HorizontalFusion *u, const IrOp *a, const IrOp *b)
{
    IrSegment p = ir_kernel_segment(a, 0), q = ir_kernel_segment(b, 0);
    return u->after[a->id] == u->after[b->id] &&
           u->before[a->id] == u->before[b->id] &&
           ir_op_is_per_replica(a) == ir_op_is_per_replica(b) &&
           ir_segments_match(&p, &q);
}

static bool
has_addresses(const IrOpList *g, const IrOp *op)
{
    return (g->len + 1) * (op->num_operands + op->num_results) <= MAX_ADDRESSES;
}

/* Adds op to the first group of kernels like it that has room. */
static void
group(HorizontalFusion *u, IrOp *op)
{
    for (int i = 0; i < u->groups.len; i++) {
        IrOpList *g = &u->groups.data[i];
        if (are_alike(u, g->data[0], op) && has_addresses(g, op)) {
            VEC_PUSH(u->f.arena, *g, op);
            return;
        }
    }
    IrOpList alone = {0};
    VEC_PUSH(u->f.arena, alone, op);
    VEC_PUSH(u->f.arena, u->groups, alone);
}

/* Merges the first of g with the others that neither depend on it or on one
 * merged with it, nor the reverse; g keeps the rest. */
static Cluster *
merge_first(HorizontalFusion *u, IrOpList *g)
{
    Cluster *c = pass_fuse_cluster(&u->f, g->data[0]);
    int left = 0;
    TransitiveClosure closure =
        pass_fuse_closure(&u->f, g->data[0], VEC_LAST(*g));
    pass_fuse_closure_add(&closure, c);
    for (int i = 1; i < g->len; i++) {
        Cluster *other = pass_fuse_cluster(&u->f, g->data[i]);
        if (pass_fuse_closure_has(&closure, other)) {
            g->data[left++] = g->data[i];
        } else {
            pass_fuse_closure_add(&closure, other);
            pass_fuse_merge(&u->f, c, other);
        }
    }
    g->len = left;
    return c;
}

/* Kernels that depend on each other are tried in a few groups. */
enum { MAX_ROWS = 8 };

static void
merge_group(HorizontalFusion *u, IrOpList *g)
{
    for (int i = 0; i < MAX_ROWS && g->len > 1; i++) {
        Cluster *row = merge_first(u, g);
        if (row->ops.len > 1)
            VEC_PUSH(u->f.arena, u->rows, row);
    }
}

/* ---- which need no more memory ------------------------------------------ */

/* Orders the block by the current clusters; returns whether the peak of live
 * bytes is no higher than before any merging. */
static bool
reorder_within_peak(HorizontalFusion *u)
{
    u->order.len = 0;
    pass_fuse_order(&u->f, u->block, &u->order);
    return peak_bytes(u) <= u->most;
}

static void
merge_row(HorizontalFusion *u, const Cluster *row)
{
    Cluster *c = pass_fuse_cluster(&u->f, row->ops.data[0]);
    for (int i = 1; i < row->ops.len; i++)
        pass_fuse_merge(&u->f, c, pass_fuse_cluster(&u->f, row->ops.data[i]));
}

/* Of the groups from first to end, all merged, keeps those whose merging does
 * not raise the peak with the others merged; by bisection, since most do not.
 */
static void
keep_within_peak(HorizontalFusion *u, int first, int end)
{
    if (first == end || reorder_within_peak(u))
        return;
    int mid = (first + end) / 2;
    for (int i = mid; i < end; i++)
        pass_fuse_split(&u->f, u->rows.data[i]);
    if (end - first == 1)
        return;
    keep_within_peak(u, first, mid);
    for (int i = mid; i < end; i++)
        merge_row(u, u->rows.data[i]);
    keep_within_peak(u, mid, end);
}

/* ---- one kernel --------------------------------------------------------- */

static const char *
why(const IrOp *kernel)
{
    return kernel->reason ? kernel->reason->cause : "kernels as they were";
}

static IrOp *
build_kernel(HorizontalFusion *u, const Cluster *c)
{
    IrValues operands = {0};
    IrOp *first = c->ops.data[0];
    for (int i = 0; i < c->ops.len; i++)
        for (int j = 0; j < c->ops.data[i]->num_operands; j++)
            VEC_PUSH(u->f.arena, operands, c->ops.data[i]->operands[j]);
    IrOp *kernel = ir_build_op(u->block, OP_kernel, operands.len, operands.data,
                               first->loc);
    ir_set_int(kernel, A_segments, c->ops.len);
    ir_set_reason(
        kernel, ir_reason_for(first, "fuse_horizontal.segments",
                              "%d kernels that do the same to other values: %s",
                              c->ops.len, why(first)));
    return kernel;
}

/* Appends the body of `from` to b, except its yield, whose values are added to
 * results. */
static void
add_segment(HorizontalFusion *u, const IrOp *from, IrBlock *b,
            IrValues *results)
{
    IrCloneMap *map = ir_clone_map(u->f.arena);
    const IrBlock *body = from->regions[0];
    for (int i = 0; i < body->args.len; i++) {
        const IrValue *v = body->args.data[i];
        ir_clone_set(map, v, ir_block_arg(b, v->type, v->name));
    }
    const IrOp *yield = ir_block_yield(body);
    for (const IrOp *op = body->first; op != yield; op = op->next)
        ir_clone_op(map, op, b);
    for (int i = 0; i < yield->num_operands; i++)
        VEC_PUSH(u->f.arena, *results, ir_clone_get(map, yield->operands[i]));
}

static void
forward_results(const Cluster *c, const IrOp *kernel)
{
    for (int i = 0, r = 0; i < c->ops.len; i++)
        for (int j = 0; j < c->ops.data[i]->num_results; j++, r++) {
            IrValue *old = c->ops.data[i]->results[j];
            kernel->results[r]->name = old->name;
            ir_forward(old, kernel->results[r]);
        }
}

static void
make_kernel(HorizontalFusion *u, const Cluster *c)
{
    IrOp *kernel = build_kernel(u, c);
    IrValues results = {0};
    for (int i = 0; i < c->ops.len; i++)
        add_segment(u, c->ops.data[i], kernel->regions[0], &results);
    ir_build_yield(kernel->regions[0], results.len, results.data, kernel->loc);
    ir_op_close(kernel);
    forward_results(c, kernel);
}

static void
rebuild(HorizontalFusion *u)
{
    u->order.len = 0;
    pass_fuse_order(&u->f, u->block, &u->order);
    u->block->first = u->block->last = NULL;
    for (int i = 0; i < u->order.len; i++) {
        const Cluster *c = u->order.data[i];
        if (c->ops.len > 1)
            make_kernel(u, c);
        else
            ir_append(u->block, c->ops.data[0]);
    }
}

/* ---- the pass ----------------------------------------------------------- */

static void
fuse_block_horizontally(HorizontalFusion *outer, IrBlock *b)
{
    HorizontalFusion u = {.f = outer->f, .block = b};
    for (IrOp *op = b->first; op; op = op->next)
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                fuse_block_horizontally(outer, op->regions[i]);
    pass_fuse_graph_build(&u.f, b);
    find_collectives(&u);
    find_bytes(&u);
    for (IrOp *op = b->first; op; op = op->next)
        if (may_be_segment(op))
            group(&u, op);
    pass_fuse_order(&u.f, b, &u.order);
    u.most = peak_bytes(&u);
    for (int i = 0; i < u.groups.len; i++)
        merge_group(&u, &u.groups.data[i]);
    keep_within_peak(&u, 0, u.rows.len);
    rebuild(&u);
}

bool
pass_fuse_horizontal(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    HorizontalFusion u = {.f = {.arena = cx->arena, .m = cx->m}};
    if (cx->options->level == 0 || cx->options->keep_apart)
        return true;
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        u.f.fn = fn;
        fuse_block_horizontally(&u, fn->body);
        ir_apply_forwards(fn);
    }
    return true;
}
