/*
 * tile.c - kernels that hand large values to each other run tile by tile
 *
 *   s = kernel q, k       [4, 8, 1024, 1024]: 134 MB
 *   p = kernel s          softmax of its rows
 *   y = kernel p, v
 *
 * Each of them reads from memory what the one before it has just written there.
 * But all work on one matrix of the 4 * 8 after another.  Marked with `tiles`,
 * neighbours may be executed for one matrix at a time, which is still in a
 * cache when the next kernel reads it, and if nothing else needs s, only a few
 * of its matrices are ever in memory.
 *
 * A group is a sequence of kernels, a product the first, that make or read wide
 * values, of many matrices of one batch, and share these with each other.  What
 * stands between them and does not need them is moved before the first, what
 * needs them behind the last.  A place in memory that one of them uses is free
 * for others when the last has run (ir/analysis/lifetime.h, allocate).
 *
 * The mark is a permission and no promise.  Whether tiles really are made of
 * tiles is read off the kernels' addresses where they are called
 * (backend/host/host_tiles.c), and there they are executed one by one if not,
 * or if a device has too many threads for it.  GPUs, whose multiprocessors
 * would have too little to do, get no such groups.
 */
#include <assert.h>
#include "ir/analysis/per_replica.h"
#include "ir/device/device.h"
#include "ir/ir.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"
#include "passes/support/op_index.h"
#include "passes/support/pass.h"

enum {
    MIN_BYTES = 16 << 20,      /* of a value, which does not stay in a cache */
    MAX_TILE_BYTES = 32 << 20, /* so that some tiles stay in the last one */
    GOOD_TILE_BYTES = 1 << 20, /* that all do */
    MIN_TILES = 4,
    MANY_TILES = 32, /* enough for all threads */
    MAX_GROUP = 16,  /* kernels, */
    MAX_BETWEEN = 64 /* and so many operations between two of them */
};

typedef struct Group {
    const PassCx *cx;
    VEC(IrOp *) kernels;
    VEC(const IrOp *) refused; /* that share no wide value with the others */
    VEC(IrOp *) before, after; /* that stand between them */
    int num_after;             /* of `after`, in front of the last kernel */
    int num_before;
    int batch; /* leading axes that number tiles */
    int64_t tiles;
} Group;

/* ---- values -------------------------------------------------------------- */

/* The number of matrices that the first axes of t count, or 0. */
static int64_t
count_along(const IrType *t, int axes)
{
    int64_t count = 1;
    for (int i = 0; i < axes; i++)
        if (i >= t->rank || !ir_dim_is_const(t->dims[i]) ||
            __builtin_mul_overflow(count, t->dims[i].c, &count))
            return 0;
    return count;
}

/* 0 where it has no bound. */
static int64_t
bytes_of(const Group *g, const IrValue *v)
{
    int64_t bytes;
    return ir_type_bytes(g->cx->m, &v->type, &bytes) ? bytes : 0;
}

static bool
has_batch(const Group *g, const IrValue *v)
{
    const IrType *t = &g->kernels.data[0]->results[0]->type;
    if (v->type.rank < g->batch)
        return false;
    for (int i = 0; i < g->batch; i++)
        if (!ir_dim_equal(v->type.dims[i], t->dims[i]))
            return false;
    return true;
}

/* A value of the group's batch that is as large as what its first kernel makes,
 * or half as large (in bf16); few operands of products are. */
static bool
is_wide(const Group *g, const IrValue *v)
{
    const IrValue *first = g->kernels.data[0]->results[0];
    return bytes_of(g, v) >= bytes_of(g, first) / 2 && has_batch(g, v);
}

/* Several small matrices are one tile. */
static int64_t
merge_tiles(int64_t tiles, int64_t bytes)
{
    while (tiles % 2 == 0 && tiles / 2 >= MANY_TILES &&
           bytes / (tiles / 2) <= GOOD_TILE_BYTES)
        tiles /= 2;
    return tiles;
}

/* The leading axes of v that number tiles: the fewest whose tiles stay in all
 * caches, or all but the last two; false if there are too few tiles, or they
 * are too large. */
static bool
choose_batch(Group *g, const IrValue *v)
{
    int64_t bytes = bytes_of(g, v), tiles = 1;
    int batch = 0;
    while (batch < v->type.rank - 2 && bytes / tiles > GOOD_TILE_BYTES) {
        tiles = count_along(&v->type, ++batch);
        if (!tiles)
            return false;
    }
    g->batch = batch;
    g->tiles = merge_tiles(tiles, bytes);
    return tiles >= MIN_TILES && bytes / tiles <= MAX_TILE_BYTES;
}

/* ---- kernels ------------------------------------------------------------- */

static bool
contains(const IrOp *kernel, IrOpKind kind)
{
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next)
        if (op->kind == kind)
            return true;
    return false;
}

/* Whether each product in the kernel is one of matrices of the batch.  Where
 * all tiles are multiplied by the same matrix, each would pack it again. */
static bool
multiplies_batch(const Group *g, const IrOp *kernel)
{
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next) {
        int num = g->batch;
        if (op->kind == OP_dot)
            ir_ints(op, A_batch_x, &num);
        if (num < g->batch)
            return false;
    }
    return true;
}

/* Whether op makes or reads a wide value, and makes values of the batch. */
static bool
belongs(const Group *g, const IrOp *op)
{
    bool wide = false;
    for (int i = 0; i < g->refused.len; i++)
        if (g->refused.data[i] == op)
            return false;
    if (op->kind != OP_kernel || ir_has(op, A_segments) ||
        ir_op_is_per_replica(op) != ir_op_is_per_replica(g->kernels.data[0]))
        return false;
    for (int i = 0; i < op->num_operands; i++)
        wide |= is_wide(g, op->operands[i]);
    for (int i = 0; i < op->num_results; i++) {
        wide |= is_wide(g, op->results[i]);
        if (!has_batch(g, op->results[i]))
            return false;
    }
    return wide && multiplies_batch(g, op) && !contains(op, OP_scatter) &&
           !contains(op, OP_conv) && !contains(op, OP_conv_weights);
}

/* Whether op, which makes a value of one matrix for each of many, may begin a
 * group. */
static bool
begins(Group *g, IrOp *op)
{
    g->kernels.len = g->refused.len = 0;
    if (op->kind != OP_kernel || !op->num_results || !contains(op, OP_dot) ||
        bytes_of(g, op->results[0]) < MIN_BYTES ||
        !choose_batch(g, op->results[0]))
        return false;
    VEC_PUSH(g->cx->arena, g->kernels, op);
    return belongs(g, op);
}

/* ---- a group ------------------------------------------------------------- */

enum { FREE, NEEDS_GROUP, NEEDS_LATER }; /* IrOp.id while a group is found */

static int
id_of(const IrOp *first, const IrValue *v)
{
    bool is_here = v->def && v->def->block == first->block;
    return is_here ? v->def->id : FREE;
}

/* What op, which has no regions but those of kernels, needs. */
static int
needs_of(const IrOp *first, const IrOp *op)
{
    int needs = FREE;
    for (int i = 0; i < op->num_operands; i++) {
        int id = id_of(first, op->operands[i]);
        needs = id > needs ? id : needs;
    }
    return needs;
}

/* Whether op can be moved over others of its kind. */
static bool
is_movable(const IrOp *op)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    return (effect == PURE || effect == READS) &&
           (op->kind == OP_kernel || !op->num_regions);
}

/* Adds what belongs together from kernel `first` on; the ids of operations
 * before it are FREE. */
static void
grow(Group *g, IrOp *first)
{
    Arena *a = g->cx->arena;
    g->before.len = g->after.len = g->num_before = g->num_after = 0;
    first->id = NEEDS_GROUP;
    int between = 0;
    for (IrOp *op = first->next;
         op && is_movable(op) && between++ < MAX_BETWEEN; op = op->next) {
        int needs = needs_of(first, op);
        if (needs <= NEEDS_GROUP && g->kernels.len < MAX_GROUP &&
            belongs(g, op)) {
            op->id = NEEDS_GROUP;
            VEC_PUSH(a, g->kernels, op);
            g->num_before = g->before.len;
            g->num_after = g->after.len;
            between = 0;
        } else if (needs == FREE) {
            op->id = FREE;
            VEC_PUSH(a, g->before, op);
        } else {
            op->id = NEEDS_LATER;
            VEC_PUSH(a, g->after, op);
        }
    }
}

/* The wide value number i that op makes or reads, of all its values; or NULL.
 */
static const IrValue *
wide_value(const Group *g, const IrOp *op, int i)
{
    const IrValue *v = i < op->num_operands ? op->operands[i]
                                            : op->results[i - op->num_operands];
    return is_wide(g, v) ? v : NULL;
}

static bool
share_value(const Group *g, const IrOp *x, const IrOp *y)
{
    for (int i = 0; i < x->num_operands + x->num_results; i++) {
        const IrValue *v = wide_value(g, x, i);
        for (int j = 0; v && j < y->num_operands + y->num_results; j++)
            if (wide_value(g, y, j) == v)
                return true;
    }
    return false;
}

/* Refuses those that share no wide value with the first, directly or through
 * others, such as the kernels of another block of rows.  False if there were
 * any. */
static bool
are_connected(Group *g)
{
    bool in[MAX_GROUP] = {true}, found = true;
    int num = g->kernels.len, refused = g->refused.len;
    while (found) {
        found = false;
        for (int i = 1; i < num; i++)
            for (int j = 0; j < num && !in[i]; j++)
                if (in[j] &&
                    share_value(g, g->kernels.data[i], g->kernels.data[j]))
                    found = in[i] = true;
    }
    for (int i = 1; i < num; i++)
        if (!in[i])
            VEC_PUSH(g->cx->arena, g->refused, g->kernels.data[i]);
    return g->refused.len == refused;
}

/* Whether kernels belong together from `first` on. */
static bool
find_group(Group *g, IrOp *first)
{
    do {
        for (int i = 1; i < g->kernels.len; i++)
            g->kernels.data[i]->id = FREE;
        g->kernels.len = 1;
        grow(g, first);
    } while (!are_connected(g));
    return g->kernels.len > 1;
}

static void
make_neighbours(Group *g)
{
    IrOp *first = g->kernels.data[0];
    IrOp *end = g->kernels.data[g->kernels.len - 1]->next;
    for (int i = 0; i < g->num_before; i++) {
        ir_remove(g->before.data[i]);
        ir_insert_before(first, g->before.data[i]);
    }
    for (int i = 0; i < g->num_after; i++) {
        ir_remove(g->after.data[i]);
        ir_insert_before(end, g->after.data[i]);
    }
}

/* Neighbours of as many tiles would be one group. */
static void
mark(const Group *g)
{
    const IrOp *before = g->kernels.data[0]->prev;
    bool follows = before && ir_op_tiles(before) == g->tiles;
    int64_t number = follows && !ir_int(before, A_group);
    for (int i = 0; i < g->kernels.len; i++) {
        ir_set_int(g->kernels.data[i], A_tiles, g->tiles);
        if (number)
            ir_set_int(g->kernels.data[i], A_group, number);
    }
}

static void
tile_block(PassCx *cx, IrBlock *b)
{
    Group g = {.cx = cx};
    for (IrOp *op = b->first; op; op = op->next) {
        op->id = FREE;
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            tile_block(cx, op->regions[i]);
        if (!begins(&g, op))
            continue;
        if (find_group(&g, op)) {
            make_neighbours(&g);
            mark(&g);
            op = g.kernels.data[g.kernels.len - 1];
        }
        for (int i = 0; i < g.kernels.len; i++)
            g.kernels.data[i]->id = FREE;
    }
}

bool
pass_tile(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    if (ir_devices_have(cx->m->devices, DEVICE_cuda))
        return true;
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            tile_block(cx, fn->body);
    return true;
}
