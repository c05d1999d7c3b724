/*
 * row_blocks.c - wide values between products exist for a block of rows at a
 * time
 *
 * softmax(mask(q k')) v has a row of scores for each row of q, as long as there
 * are keys: arrays far larger than q, k, v and the result.  What lies between
 * the products is computed row by row, so the same operations on 512 rows after
 * another give the same bits, and a block's memory is used again by the next.
 *
 * A region begins with products (dot) that are large beside their operands, and
 * has what is computed from them: elementwise operations, reductions of a row,
 * and the products that take wide values to narrow ones.  These end it: either
 * they keep the rows, and their blocks are concatenated, or they sum over the
 * rows, and the blocks' sums are added.  Rows may be used further on in the
 * region, row by row.  A block is a block of D2's order of contractions, whose
 * sums are added in just that order.
 *
 * What depends on a result of the region through operations outside of it, as
 * gradients do, belongs to a later phase.  Wide values of earlier phases are
 * computed again there; of narrow ones, as the greatest element and the sum of
 * a row, the rows are sliced.  A phase is made before the first use of what it
 * makes; what it needs from outside and stands behind that is moved before it.
 *
 * Invariants: operations of a region are pure and only work on rows; no wide
 * value that depends on its products is used outside; operations outside of it
 * that are moved have no effects.
 */
#include <assert.h>
#include <stdlib.h>
#include "ir/device/device.h"
#include "ir/ir.h"
#include "ir/axes.h"
#include "ir/rules/build.h"
#include "ir/rules/sums.h"
#include "ir/table.h"
#include "ir/type_bounds.h"
#include "passes/fusion/fuse.h"
#include "passes/support/op_index.h"
#include "passes/support/pass.h"

enum {
    BLOCK_ROWS = IR_K_BLOCK,
    MIN_BLOCKS = 2,
    MAX_BLOCKS = 64,
    MIN_BYTES = 1 << 22,        /* of a product */
    MIN_BYTES_AGAIN = 1 << 28,  /* of one that is computed in several phases */
    MIN_BYTES_OF_GPU = 1 << 30, /* whose blocks leave multiprocessors idle */
    MAX_MEMBERS = 1024,
    MIN_RATIO = 8, /* of a row's length to that of its products */
};

typedef enum Role {
    ROLE_outside,
    ROLE_part, /* of the region, computed for a block of rows */
    ROLE_rows, /* a narrow product that keeps the rows */
    ROLE_total /* a product that sums over rows */
} Role;

/* What the region knows of a value. */
typedef struct Known {
    Role role;
    bool core; /* depends on one of the region's products */
    int axis;  /* of its rows; unless it is outside or a total */
    int phase;
    IrValue *whole; /* all blocks of it together, where they are kept */
    int moves_to;   /* the phase before which it is moved, from 1; 0: none */
} Known;

typedef struct Region {
    PassCx *cx;
    IrBlock *block;
    const IrUsers *users;
    int64_t rows, columns;
    IR_TABLE(Known) known; /* of values, by number */
    VEC(IrValue *) members;
    int num_phases;
    bool ok;
} Region;

static Known *
known_of(Region *r, const IrValue *v)
{
    return IR_TABLE_SLOT(r->cx->arena, r->known, v->number);
}

/* ---- shapes -------------------------------------------------------------- */

static bool
has_extent(const IrValue *v, int axis, int64_t extent)
{
    return axis >= 0 && axis < v->type.rank &&
           ir_dim_equal(v->type.dims[axis], ir_dim_const(extent));
}

/* Whether a row of it, which axis counts, is as long as one of the region's
 * products. */
static bool
is_wide(const Region *r, const IrValue *v, int axis)
{
    return axis < v->type.rank - 1 &&
           has_extent(v, v->type.rank - 1, r->columns);
}

static bool
is_elementwise(const IrOp *op)
{
    return (ir_op_info[op->kind].traits & ELEMENTWISE) &&
           op->num_results == 1 && pass_fuse_is_computed(op);
}

/* The axis of a reduction's result that the operand's is, or -1. */
static int
reduced_axis(const IrOp *op, int axis)
{
    int n, before = 0;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    for (int i = 0; i < n; i++) {
        if (axes[i] == axis)
            return -1;
        before += axes[i] < axis;
    }
    return ir_has(op, A_keepdims) && ir_int(op, A_keepdims) ? axis
                                                            : axis - before;
}

/* The axis of a reshape's result along which the operand's rows run: the
 * dimensions before it are the same, but for those of 1. */
static int
reshaped_axis(const IrOp *op, int axis)
{
    const IrType *from = &op->operands[0]->type, *to = &op->results[0]->type;
    int i = 0, j = 0;
    Dim one = ir_dim_const(1);
    for (;; i++, j++) {
        while (i < axis && ir_dim_equal(from->dims[i], one))
            i++;
        while (j < to->rank && ir_dim_equal(to->dims[j], one))
            j++;
        if (j == to->rank || !ir_dim_equal(from->dims[i], to->dims[j]))
            return -1;
        if (i == axis)
            return j;
    }
}

/* The axis of dot's result that operand `side` has as a free one. */
static int
product_axis(const IrOp *dot, int side, int axis)
{
    IrAttrName batch = side ? A_batch_y : A_batch_x;
    IrAttrName contract = side ? A_contract_y : A_contract_x;
    int num_batch, num_contract, free_before = 0;
    ir_ints(dot, A_batch_x, &num_batch);
    ir_ints(dot, A_contract_x, &num_contract);
    for (int i = 0; i < axis; i++)
        free_before +=
            !ir_has_axis(dot, batch, i) && !ir_has_axis(dot, contract, i);
    int of_x = dot->operands[0]->type.rank - num_batch - num_contract;
    return num_batch + (side ? of_x : 0) + free_before;
}

/* ---- which operations ---------------------------------------------------- */

/* Whether dot makes matrices that are much larger than their operands, and
 * whose rows are many. */
static bool
is_seed(const IrOp *dot)
{
    int num_batch, num_contract;
    if (dot->kind != OP_dot)
        return false;
    ir_ints(dot, A_batch_x, &num_batch);
    const int64_t *along = ir_ints(dot, A_contract_x, &num_contract);
    const IrType *t = &dot->results[0]->type;
    if (num_contract != 1 || t->rank != num_batch + 2 ||
        dot->operands[0]->type.rank != t->rank ||
        dot->operands[1]->type.rank != t->rank)
        return false;
    Dim rows = t->dims[t->rank - 2], columns = t->dims[t->rank - 1];
    Dim k = dot->operands[0]->type.dims[along[0]];
    return ir_dim_is_const(rows) && ir_dim_is_const(columns) &&
           ir_dim_is_const(k) && rows.c >= (int64_t)MIN_BLOCKS * BLOCK_ROWS &&
           rows.c <= (int64_t)MAX_BLOCKS * BLOCK_ROWS &&
           k.c <= rows.c / MIN_RATIO && k.c <= columns.c / MIN_RATIO;
}

static bool
is_seed_here(const Region *r, const IrValue *v)
{
    return v->def && v->def->block == r->block && is_seed(v->def) &&
           has_extent(v, v->type.rank - 2, r->rows) &&
           has_extent(v, v->type.rank - 1, r->columns);
}

static void
add(Region *r, IrValue *v, Role role, int axis, bool core)
{
    Known *k = known_of(r, v);
    if (k->role == ROLE_outside)
        VEC_PUSH(r->cx->arena, r->members, v);
    else if (k->role != role || k->axis != axis)
        r->ok = false;
    if (role == ROLE_part && !has_extent(v, axis, r->rows))
        r->ok = false;
    k->role = role;
    k->axis = axis;
    k->core |= core;
}

/* The axis of operand o of an elementwise operation or a broadcast that runs
 * along the result's: -1 where o is the same for all rows. */
static int
operand_axis(const Region *r, const IrValue *o, const IrValue *result, int axis)
{
    int at = axis - (result->type.rank - o->type.rank);
    return has_extent(o, at, r->rows) ? at : -1;
}

/* Wide operands that can be made for a block of rows are parts, too. */
static void
add_operands(Region *r, const IrOp *op, int axis)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *o = op->operands[i];
        int at = operand_axis(r, o, op->results[0], axis);
        if (at < 0 || !is_wide(r, o, at) ||
            known_of(r, o)->role != ROLE_outside)
            continue;
        if (is_seed_here(r, o) && at == o->type.rank - 2)
            add(r, o, ROLE_part, at, true);
        else if (o->def && o->def->block == r->block &&
                 is_elementwise(o->def) && !pass_fuse_is_free(o->def))
            add(r, o, ROLE_part, at, false);
    }
}

static void
add_product(Region *r, IrOp *dot, const IrValue *v, int axis)
{
    int side = dot->operands[0] == v ? 0 : 1, n;
    IrValue *result = dot->results[0];
    ir_ints(dot, A_contract_x, &n);
    if (dot->operands[!side] == v || n != 1)
        r->ok = false;
    else if (ir_has_axis(dot, side ? A_contract_y : A_contract_x, axis))
        add(r, result, ROLE_total, -1, true);
    else if (ir_has_axis(dot, side ? A_batch_y : A_batch_x, axis))
        r->ok = false;
    else
        add(r, result, ROLE_rows, product_axis(dot, side, axis), true);
}

/* What user makes of v, whose rows run along an axis. */
static void
add_user(Region *r, IrOp *user, const IrValue *v, int axis)
{
    int at = -1;
    IrValue *result = user->num_results == 1 ? user->results[0] : NULL;
    if (user->block != r->block || !result || !pass_fuse_is_computed(user))
        return;
    if (user->kind == OP_dot) {
        if (is_wide(r, v, axis))
            add_product(r, user, v, axis);
        return;
    }
    if (is_elementwise(user) || user->kind == OP_broadcast)
        at = axis + result->type.rank - v->type.rank;
    else if (user->kind == OP_reshape)
        at = reshaped_axis(user, axis);
    else if (pass_fuse_is_reduction(user))
        at = reduced_axis(user, axis);
    if (at >= 0)
        add(r, result, ROLE_part, at, true);
}

static void
grow(Region *r)
{
    for (int i = 0; i < r->members.len && r->ok; i++) {
        IrValue *v = r->members.data[i];
        Known k = *known_of(r, v);
        if (k.role != ROLE_part)
            continue;
        const IrOpList *users = ir_users_of(r->users, v);
        for (int j = 0; k.core && j < users->len; j++)
            add_user(r, users->data[j], v, k.axis);
        if (is_elementwise(v->def))
            add_operands(r, v->def, k.axis);
    }
}

/* The axis of operand i of op, a member, along which its rows run, or -1. */
static int
rows_of_operand(Region *r, const IrOp *op, int i)
{
    const IrValue *o = op->operands[i], *result = op->results[0];
    const Known *k = known_of(r, result);
    if (op->kind == OP_dot && k->role == ROLE_total) {
        int n;
        return (int)ir_ints(op, i ? A_contract_y : A_contract_x, &n)[0];
    }
    if (op->kind == OP_dot) {
        IrAttrName batch = i ? A_batch_y : A_batch_x;
        IrAttrName along = i ? A_contract_y : A_contract_x;
        for (int j = 0; j < o->type.rank; j++)
            if (!ir_has_axis(op, batch, j) && !ir_has_axis(op, along, j) &&
                product_axis(op, i, j) == k->axis)
                return j;
        return -1;
    }
    if (is_elementwise(op) || op->kind == OP_broadcast)
        return operand_axis(r, o, result, k->axis);
    return known_of(r, o)->axis;
}

/* ---- phases -------------------------------------------------------------- */

typedef struct Uses {
    Region *r;
    int phase;
    bool member;
    bool core; /* one of them depends on the region's products */
} Uses;

/* Whether what op makes of operand i is made with it, row by row. */
static bool
stays(Region *r, const IrOp *op, int i)
{
    const Known *k = known_of(r, op->operands[i]);
    return k->role == ROLE_part ||
           (k->role == ROLE_rows && rows_of_operand(r, op, i) == k->axis);
}

static void
note_uses(IrOp *op, void *data)
{
    Uses *u = data;
    for (int i = 0; i < op->num_operands; i++) {
        const Known *k = known_of(u->r, op->operands[i]);
        bool leaves = k->core && !(u->member && stays(u->r, op, i));
        int phase = k->phase + leaves;
        u->core |= k->core;
        if (leaves && k->role == ROLE_part &&
            is_wide(u->r, op->operands[i], k->axis))
            u->r->ok = false;
        if (phase > u->phase)
            u->phase = phase;
    }
}

/* In the order of the text. */
static void
find_phases(Region *r)
{
    for (IrOp *op = r->block->first; op; op = op->next) {
        Uses u = {.r = r};
        u.member = op->num_results == 1 &&
                   known_of(r, op->results[0])->role != ROLE_outside;
        ir_walk_op(op, note_uses, &u);
        for (int i = 0; i < op->num_results; i++)
            known_of(r, op->results[i])->phase = u.phase;
        if (u.member && u.core)
            known_of(r, op->results[0])->core = true;
        if (u.member && u.phase >= r->num_phases)
            r->num_phases = u.phase + 1;
    }
}

/* ---- a block of rows ----------------------------------------------------- */

/* The rows that are made, of one phase. */
typedef struct Rows {
    Region *r;
    IrBlock *to;
    int64_t start, count;
    int phase;
    IrCloneMap *made; /* a copy of a value for these rows */
} Rows;

static IrValue *
slice_rows(Rows *b, IrValue *v, int axis, Loc loc)
{
    int64_t start[IR_MAX_RANK] = {0}, step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < v->type.rank; i++) {
        step[i] = 1;
        dims[i] = v->type.dims[i];
    }
    start[axis] = b->start;
    dims[axis] = ir_dim_const(b->count);
    return ir_build_slice(b->to, v, start, dims, step, loc);
}

static IrValue *make_rows(Rows *b, IrValue *v);

static IrValue *
operand_rows(Rows *b, const IrOp *op, int i)
{
    IrValue *o = op->operands[i];
    const Known *k = known_of(b->r, o);
    bool is_kept = k->whole && k->phase < b->phase;
    if ((k->role == ROLE_part || k->role == ROLE_rows) && !is_kept)
        return make_rows(b, o);
    int axis = rows_of_operand(b->r, op, i);
    IrValue *whole = ir_forwarded(is_kept ? k->whole : o);
    return axis < 0 ? whole : slice_rows(b, whole, axis, op->loc);
}

/* Sums of bf16 and f16 are rounded once (D4): so of all blocks together. */
static void
set_sum(IrOp *dot, DType of)
{
    if (dtype_compute(of) != of)
        ir_set_int(dot, A_dtype, dtype_compute(of));
}

/* v, a member, for these rows. */
static IrValue *
make_rows(Rows *b, IrValue *v)
{
    const IrOp *op = v->def;
    IrValue *made = ir_clone_get(b->made, v);
    if (made && made != v)
        return made;
    IrValue **operands = arena_array(
        b->r->cx->arena, (size_t)op->num_operands + 1, sizeof *operands);
    for (int i = 0; i < op->num_operands; i++)
        operands[i] = operand_rows(b, op, i);
    IrOp *copy =
        ir_build_op(b->to, op->kind, op->num_operands, operands, op->loc);
    ir_attrs_copy(copy, op);
    if (op->kind == OP_broadcast || op->kind == OP_reshape) {
        int n;
        Dim dims[IR_MAX_RANK];
        const Dim *of = ir_dims(op, A_dims, &n);
        for (int i = 0; i < n; i++)
            dims[i] = of[i];
        dims[known_of(b->r, v)->axis] = ir_dim_const(b->count);
        ir_set_dims(copy, A_dims, dims, n);
    }
    if (known_of(b->r, v)->role == ROLE_total)
        set_sum(copy, v->type.dtype);
    made = ir_build_infer(copy);
    copy->calls = op->calls;
    ir_clone_set(b->made, v, made);
    return made;
}

/* ---- all blocks ---------------------------------------------------------- */

/* The first operation of the block that has v as an operand and is outside of
 * the region, or NULL. */
static IrOp *
first_outside(Region *r, const IrValue *v)
{
    IrOp *first = NULL;
    const IrOpList *users = ir_users_of(r->users, v);
    for (int i = 0; i < users->len; i++) {
        IrOp *user = users->data[i];
        while (user->block != r->block)
            user = user->block->op;
        bool member = user->num_results == 1 &&
                      known_of(r, user->results[0])->role != ROLE_outside;
        if (!member && (!first || user->id < first->id))
            first = user;
    }
    return first;
}

/* Whether all blocks of v are kept: it is used outside, or is narrow and of use
 * to later phases. */
static bool
is_kept(Region *r, const IrValue *v, int phase)
{
    const Known *k = known_of(r, v);
    if (!k->core || k->phase != phase)
        return false;
    if (k->role != ROLE_part)
        return true;
    bool reduced = pass_fuse_is_reduction(v->def) && phase + 1 < r->num_phases;
    return !is_wide(r, v, k->axis) && (reduced || first_outside(r, v));
}

/* Where a phase is computed: before the first use of what it makes. */
static IrOp *
phase_place(Region *r, int phase)
{
    IrOp *place = NULL;
    for (int i = 0; i < r->members.len; i++) {
        IrValue *v = r->members.data[i];
        IrOp *user = is_kept(r, v, phase) ? first_outside(r, v) : NULL;
        if (user && (!place || user->id < place->id))
            place = user;
    }
    return place;
}

/* The first operation from a place on that has an effect, or NULL. */
static const IrOp *
first_effect(const IrOp *op)
{
    while (op && (ir_op_info[op->kind].effect == PURE ||
                  ir_op_info[op->kind].effect == READS))
        op = op->next;
    return op;
}

/* Whether op can be done at an earlier place: it has no effect, or reads a
 * variable before the first one from that place on. */
static bool
can_be_earlier(const IrOp *op, const IrOp *effect)
{
    bool is_before = !effect || op->id < effect->id;
    return pass_fuse_is_computed(op) || pass_fuse_is_free(op) ||
           (ir_op_info[op->kind].effect == READS && is_before);
}

/* Notes that v is moved before a phase if it is behind its place, and not moved
 * before an earlier one. */
static void
want_there(Region *r, const IrValue *v, int phase, const IrOp *place)
{
    const IrOp *def = v->def;
    Known *k = known_of(r, v);
    if (def && def->block == r->block && def->id >= place->id && !k->moves_to)
        k->moves_to = phase + 1;
}

static bool
moves_there(Region *r, const IrOp *op, int phase)
{
    for (int i = 0; i < op->num_results; i++)
        if (known_of(r, op->results[i])->moves_to == phase + 1)
            return true;
    return false;
}

/* Whether what the phase's operations take from outside is there by then, or
 * can be moved there, with what it needs: that may be members, too, but none
 * that depends on the region's products, since what follows from the phase's
 * results belongs to a later one. */
static bool
phase_is_ready(Region *r, int phase, const IrOp *place)
{
    for (int i = 0; i < r->members.len; i++) {
        const IrOp *op = r->members.data[i]->def;
        for (int j = 0; j < op->num_operands; j++)
            if (known_of(r, op->results[0])->phase <= phase &&
                known_of(r, op->operands[j])->role == ROLE_outside)
                want_there(r, op->operands[j], phase, place);
    }
    const IrOp *effect = first_effect(place);
    for (const IrOp *op = r->block->last; op != place; op = op->prev) {
        if (!moves_there(r, op, phase))
            continue;
        if (!can_be_earlier(op, effect))
            return false;
        for (int i = 0; i < op->num_operands; i++)
            if (!known_of(r, op->operands[i])->core)
                want_there(r, op->operands[i], phase, place);
    }
    return true;
}

/* Blocks so far: their sum, or one after the other. */
static void
keep_block(const Rows *b, Role role, IrValue *made, IrValues *blocks)
{
    if (role == ROLE_total && blocks->len)
        blocks->data[0] =
            ir_build2(b->to, OP_add, blocks->data[0], made, made->def->loc);
    else
        VEC_PUSH(b->r->cx->arena, *blocks, made);
}

static void
make_blocks(Region *r, int phase, IrBlock *to, const IrValues *kept,
            IrValues *blocks)
{
    for (int64_t start = 0; start < r->rows; start += BLOCK_ROWS) {
        int64_t left = r->rows - start;
        Rows b = {.r = r,
                  .to = to,
                  .start = start,
                  .count = left < BLOCK_ROWS ? left : BLOCK_ROWS,
                  .phase = phase,
                  .made = ir_clone_map(r->cx->arena)};
        for (int i = 0; i < kept->len; i++)
            keep_block(&b, known_of(r, kept->data[i])->role,
                       make_rows(&b, kept->data[i]), &blocks[i]);
    }
}

static void
move_wanted(Region *r, int phase, IrOp *place)
{
    for (IrOp *op = place->next, *next; op; op = next) {
        next = op->next;
        if (!moves_there(r, op, phase))
            continue;
        ir_remove(op);
        ir_insert_before(place, op);
    }
}

static void
make_phase(Region *r, int phase, IrOp *place)
{
    Arena *a = r->cx->arena;
    move_wanted(r, phase, place);
    IrBlock *to = ir_block_scratch(place);
    IrValues kept = {0};
    for (int i = 0; i < r->members.len; i++)
        if (is_kept(r, r->members.data[i], phase))
            VEC_PUSH(a, kept, r->members.data[i]);
    IrValues *blocks = arena_array(a, (size_t)kept.len + 1, sizeof *blocks);
    make_blocks(r, phase, to, &kept, blocks);
    for (int i = 0; i < kept.len; i++) {
        Known *k = known_of(r, kept.data[i]);
        k->whole = blocks[i].data[0];
        if (k->role != ROLE_total)
            k->whole = ir_build_concat(to, blocks[i].len, blocks[i].data,
                                       k->axis, kept.data[i]->def->loc);
        k->whole = ir_build_cast(to, k->whole, kept.data[i]->type.dtype,
                                 kept.data[i]->def->loc);
        ir_forward(kept.data[i], k->whole);
    }
    ir_stamp(to, ir_reason_for(place, "row_blocks.block", "%d rows at a time",
                               BLOCK_ROWS));
    ir_splice_before(place, to);
}

/* ---- a region ------------------------------------------------------------ */

/* Whether rows of all operands are found where their own are. */
static bool
is_aligned(Region *r)
{
    for (int i = 0; i < r->members.len; i++) {
        const IrOp *op = r->members.data[i]->def;
        for (int j = 0; j < op->num_operands; j++) {
            const Known *k = known_of(r, op->operands[j]);
            if (k->role == ROLE_part && rows_of_operand(r, op, j) != k->axis)
                return false;
        }
    }
    return true;
}

/* The places of all phases; false where one would need what is not there. */
static bool
find_places(Region *r, IrOp **places)
{
    for (int i = 0; i < r->num_phases; i++) {
        places[i] = phase_place(r, i);
        if (!places[i] || !phase_is_ready(r, i, places[i]) ||
            (i && places[i]->id < places[i - 1]->id))
            return false;
    }
    return true;
}

static int
by_position(const void *a, const void *b)
{
    const IrOp *x = (*(IrValue *const *)a)->def,
               *y = (*(IrValue *const *)b)->def;
    return (x->id < y->id) - (x->id > y->id);
}

/* Removes the members that nothing uses any more, the last ones first. */
static void
remove_members(Region *r)
{
    ir_apply_forwards(r->block->func);
    ir_count_uses(r->block->func);
    qsort(r->members.data, (size_t)r->members.len, sizeof *r->members.data,
          by_position);
    for (int i = 0; i < r->members.len; i++) {
        IrOp *op = r->members.data[i]->def;
        if (op->results[0]->num_uses)
            continue;
        for (int j = 0; j < op->num_operands; j++)
            op->operands[j]->num_uses--;
        ir_remove(op);
    }
}

/* Whether the memory is worth the time: products of several phases are computed
 * several times, and GPUs are slower with fewer rows at once. */
static bool
is_worth_it(const Region *r, const IrType *product)
{
    int64_t bytes, least = r->num_phases > 1 ? MIN_BYTES_AGAIN : MIN_BYTES;
    if (ir_devices_have(r->cx->m->devices, DEVICE_cuda))
        least = MIN_BYTES_OF_GPU;
    return !ir_type_bytes(r->cx->m, product, &bytes) || bytes >= least;
}

/* Whether the region that seed belongs to became blocks of rows. */
static bool
divide(PassCx *cx, const IrUsers *users, IrOp *seed)
{
    IrValue *v = seed->results[0];
    int axis = v->type.rank - 2;
    Region r = {.cx = cx,
                .block = seed->block,
                .users = users,
                .rows = v->type.dims[axis].c,
                .columns = v->type.dims[axis + 1].c,
                .ok = true};
    add(&r, v, ROLE_part, axis, true);
    grow(&r);
    if (!r.ok || r.members.len > MAX_MEMBERS || !is_aligned(&r))
        return false;
    find_phases(&r);
    IrOp **places =
        arena_array(cx->arena, (size_t)r.num_phases + 1, sizeof *places);
    if (!r.ok || !is_worth_it(&r, &v->type) || !find_places(&r, places))
        return false;
    for (int i = 0; i < r.num_phases; i++)
        make_phase(&r, i, places[i]);
    remove_members(&r);
    return true;
}

typedef IR_TABLE(bool) Tried; /* of operations, by number */

/* The next seed from op on that was not tried, or NULL. */
static IrOp *
next_seed(PassCx *cx, IrOp *op, Tried *tried)
{
    for (; op; op = op->next) {
        if (!is_seed(op) || *IR_TABLE_SLOT(cx->arena, *tried, op->number))
            continue;
        *IR_TABLE_SLOT(cx->arena, *tried, op->number) = true;
        return op;
    }
    return NULL;
}

/* The seeds of b in turn; what was found of its operations holds until a region
 * is divided. */
static void
divide_block(PassCx *cx, IrBlock *b, Tried *tried)
{
    IrOp *seed = next_seed(cx, b->first, tried);
    while (seed) {
        IrUsers users = ir_users_find(cx->arena, b);
        pass_index_ops(b);
        while (seed && !divide(cx, &users, seed))
            seed = next_seed(cx, seed->next, tried);
        if (seed)
            seed = next_seed(cx, b->first, tried);
    }
}

/* Those of b, and of the branches and loops in it. */
static void
divide_all(PassCx *cx, IrBlock *b, Tried *tried)
{
    divide_block(cx, b, tried);
    for (IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_regions; i++)
            divide_all(cx, op->regions[i], tried);
}

bool
pass_row_blocks(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    Tried tried = {0};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            divide_all(cx, fn->body, &tried);
    return true;
}
