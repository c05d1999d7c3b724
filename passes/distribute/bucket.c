/*
 * bucket.c - one collective for many small ones
 *
 * A collective costs a meeting of all replicas, whatever its size.  All
 * all_reduces of a block that combine by the same operation and do not need
 * each other's results become one, where the last of their operands is known.
 *
 *   by cost (pack_cost.h)  a list of gradients is cut into its values, and all
 *       values are taken in the order in which they are ready.  So packs close
 *       in the order in which the backward pass makes gradients, and stand in
 *       that order: each begins while the next one's gradients are computed.
 *   by bytes, if bytes_per_pack is given  TensorFlow's rule (group_by_size): a
 *       pack is closed when it is already larger, 0 being no limit; so it
 *       overshoots by up to one value.  A list is cut by the same rule before.
 *
 * bytes_per_pack is the collective's own option, else the module's.  Only those
 * with the same options share a pack.
 *
 * A later all_reduce joins an earlier one by moving up to where its operands
 * are known, and the earlier ones down to there; so it may only join while
 * nothing before that point uses an earlier result.  None passes an assert, as
 * no start does (schedule.c): a replica whose assertion fails takes part in no
 * collective after it, and in all before.
 *
 * Programs get their variants for full batches afterwards, so all variants have
 * the same packs in the same order, as devices that run different ones must.
 */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/minmax.h"
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/distribute/pack_cost.h"
#include "passes/support/op_index.h"
#include "passes/support/pass.h"

typedef VEC(IrOp *) OpList;

typedef struct Pack {
    OpList ops;
    PackLoad load;
    const char *why; /* it is closed, or NULL */
    bool closed;
} Pack;

typedef VEC(Pack *) PackList;

typedef struct Bucket {
    PassCx *cx;
    PackList packs; /* of the block at hand */
    OpList asserts; /* of it, and what has one in its regions */
    IrUsers users;  /* of the function */
} Bucket;

/* ---- where a collective may stand ---------------------------------------- */

static void
note_assert(IrOp *op, void *data)
{
    bool *found = data;
    *found |= op->kind == OP_assert;
}

static void
find_asserts(Bucket *bk, const IrBlock *b)
{
    bk->asserts.len = 0;
    for (IrOp *op = b->first; op; op = op->next) {
        bool found = false;
        ir_walk_op(op, note_assert, &found);
        if (found)
            VEC_PUSH(bk->cx->arena, bk->asserts, op);
    }
}

/* The position of the last assert before op, or -1. */
static int
assert_before(const Bucket *bk, const IrOp *op)
{
    int position = -1;
    for (int i = 0; i < bk->asserts.len && bk->asserts.data[i]->id < op->id;
         i++)
        position = bk->asserts.data[i]->id;
    return position;
}

/* The position of the first assert after op, or INT_MAX. */
static int
assert_after(const Bucket *bk, const IrOp *op)
{
    for (int i = 0; i < bk->asserts.len; i++)
        if (bk->asserts.data[i]->id > op->id)
            return bk->asserts.data[i]->id;
    return INT_MAX;
}

/* The position after which op may stand: where its operands are known, and the
 * assert before it. */
static int
known_after(const Bucket *bk, const IrOp *op)
{
    int last = assert_before(bk, op);
    for (int i = 0; i < op->num_operands; i++) {
        IrOp *def = op->operands[i]->def;
        if (def && def->block == op->block && def->id > last)
            last = def->id;
    }
    return last;
}

/* ---- sizes --------------------------------------------------------------- */

static int64_t
value_bytes(const IrModule *m, const IrValue *v)
{
    int64_t n;
    return ir_type_bytes(m, &v->type, &n) ? n : 0;
}

static int64_t
bytes_of(const IrModule *m, const IrOp *op)
{
    int64_t sum = 0;
    for (int i = 0; i < op->num_operands; i++)
        sum += value_bytes(m, op->operands[i]);
    return sum;
}

/* The bytes_per_pack of the packs that op goes to; below 0: they close by cost.
 */
static int64_t
limit_of(const Bucket *bk, const IrOp *op)
{
    return ir_has(op, A_bytes_per_pack) ? ir_int(op, A_bytes_per_pack)
                                        : bk->cx->m->bytes_per_pack;
}

static bool
is_by_cost(const Bucket *bk, const IrOp *op)
{
    return limit_of(bk, op) < 0;
}

static bool
is_full(const Bucket *bk, const IrOp *op, int64_t bytes)
{
    int64_t limit = limit_of(bk, op);
    return limit > 0 && bytes > limit;
}

/* Whether op combines what another all_reduce of its block gave.  Such a one
 * stays where it is: it could not move up before it is known where the other
 * moves down to. */
static bool
follows_another(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = ir_forwarded(op->operands[i])->def;
        if (def && def->block == op->block && def->kind == OP_all_reduce)
            return true;
    }
    return false;
}

static PackLoad
load_of(const Bucket *bk, const IrOp *op)
{
    int used = pass_first_user(&bk->users, op)->id;
    int asserted = assert_after(bk, op);
    return (PackLoad){.known = known_after(bk, op),
                      .needed = min_int(used, asserted),
                      .by_assert = asserted <= used,
                      .bytes = bytes_of(bk->cx->m, op)};
}

static bool
may_join(const Pack *p, const IrOp *op, const PackLoad *load)
{
    const IrOp *first = p->ops.data[0];
    return !p->closed && ir_enum(first, A_op) == ir_enum(op, A_op) &&
           ir_attrs_equal_options(first, op) &&
           max_int(p->load.known, load->known) <
               min_int(p->load.needed, load->needed);
}

/* What was cut to a full pack is one already. */
static bool
is_pack(const Bucket *bk, const IrOp *op)
{
    return op->num_operands > 1 && is_full(bk, op, bytes_of(bk->cx->m, op));
}

static Pack *
new_pack(Bucket *bk, const PackLoad *load)
{
    Pack *p = NEW(bk->cx->arena, Pack);
    p->load = *load;
    p->load.bytes = 0;
    VEC_PUSH(bk->cx->arena, bk->packs, p);
    return p;
}

static void
add_to_pack(Bucket *bk, Pack *p, IrOp *op, const PackLoad *load)
{
    VEC_PUSH(bk->cx->arena, p->ops, op);
    p->load.known = max_int(p->load.known, load->known);
    if (load->needed < p->load.needed) {
        p->load.needed = load->needed;
        p->load.by_assert = load->by_assert;
    }
    p->load.bytes += load->bytes;
}

/* ---- by bytes ----------------------------------------------------------- */

static Pack *
find_pack(Bucket *bk, const IrOp *op, const PackLoad *load)
{
    for (int i = 0; i < bk->packs.len && !is_pack(bk, op); i++)
        if (may_join(bk->packs.data[i], op, load))
            return bk->packs.data[i];
    return new_pack(bk, load);
}

static void
pack_by_bytes(Bucket *bk, const OpList *ops)
{
    for (int i = 0; i < ops->len; i++) {
        PackLoad load = load_of(bk, ops->data[i]);
        Pack *p = find_pack(bk, ops->data[i], &load);
        add_to_pack(bk, p, ops->data[i], &load);
        p->closed = is_full(bk, ops->data[i], p->load.bytes);
        if (p->closed)
            p->why = arena_printf(bk->cx->m->arena,
                                  "larger than bytes_per_pack, %lld",
                                  (long long)limit_of(bk, ops->data[i]));
    }
}

/* ---- by cost ------------------------------------------------------------ */

typedef struct Ready {
    IrOp *op;
    PackLoad load;
} Ready;

static int
compare_readiness(const void *a, const void *b)
{
    const Ready *x = a, *y = b;
    if (x->load.known != y->load.known)
        return x->load.known < y->load.known ? -1 : 1;
    return x->op->id < y->op->id ? -1 : x->op->id > y->op->id;
}

/* The ops and their loads, in the order in which they are ready. */
static Ready *
by_readiness(const Bucket *bk, const OpList *ops)
{
    Ready *all = NEW_ARRAY(bk->cx->arena, Ready, (size_t)ops->len);
    for (int i = 0; i < ops->len; i++)
        all[i] = (Ready){ops->data[i], load_of(bk, ops->data[i])};
    qsort(all, (size_t)ops->len, sizeof(Ready), compare_readiness);
    return all;
}

/* Closes what does not wait for the next value, and forgets it; *open are the
 * packs that more may join. */
static void
close_packs(PackCost *cost, PackList *open, int next)
{
    int kept = 0;
    for (int i = 0; i < open->len; i++) {
        Pack *p = open->data[i];
        p->why = pass_pack_closes(cost, &p->load, next);
        p->closed = p->why != NULL;
        if (!p->closed)
            open->data[kept++] = p;
    }
    open->len = kept;
}

static Pack *
find_open(Bucket *bk, const PackCost *cost, PackList *open, const IrOp *op,
          const PackLoad *load)
{
    for (int i = 0; i < open->len; i++) {
        Pack *p = open->data[i];
        if (may_join(p, op, load) && pass_pack_shares(cost, &p->load, load))
            return p;
    }
    VEC_PUSH(bk->cx->arena, *open, new_pack(bk, load));
    return VEC_LAST(*open);
}

static void
pack_by_cost(Bucket *bk, const IrBlock *b, const OpList *ops)
{
    if (!ops->len)
        return;
    Ready *all = by_readiness(bk, ops);
    PackCost cost = pass_pack_cost(bk->cx, b, all[ops->len - 1].load.known);
    PackList open = {0};
    for (int i = 0; i < ops->len; i++) {
        const PackLoad *load = &all[i].load;
        close_packs(&cost, &open, load->known);
        add_to_pack(bk, find_open(bk, &cost, &open, all[i].op, load), all[i].op,
                    load);
    }
    for (int i = 0; i < open.len; i++)
        open.data[i]->why = pass_pack_ends(&cost, &open.data[i]->load);
}

/* ---- joining ------------------------------------------------------------ */

static IrOp *
op_at(IrBlock *b, int position)
{
    for (IrOp *op = b->first; op; op = op->next)
        if (op->id == position)
            return op;
    return NULL;
}

static void
collect_operands(Bucket *bk, const Pack *p, IrValues *all)
{
    for (int i = 0; i < p->ops.len; i++)
        for (int j = 0; j < p->ops.data[i]->num_operands; j++)
            VEC_PUSH(bk->cx->arena, *all, p->ops.data[i]->operands[j]);
}

static void
forward_to(const Pack *p, const IrOp *joined)
{
    int k = 0;
    for (int i = 0; i < p->ops.len; i++)
        for (int j = 0; j < p->ops.data[i]->num_results; j++, k++) {
            joined->results[k]->name = p->ops.data[i]->results[j]->name;
            ir_forward(p->ops.data[i]->results[j], joined->results[k]);
        }
}

static bool
is_loc_before(const Pack *p, int i)
{
    Loc loc = ir_op_loc(p->ops.data[i]);
    for (int k = 0; k < i; k++) {
        Loc other = ir_op_loc(p->ops.data[k]);
        if (other.file == loc.file && other.line == loc.line &&
            other.col == loc.col)
            return true;
    }
    return false;
}

/* The source lines of what is packed, each once. */
static const char *
lines_of(const Bucket *bk, const Pack *p)
{
    Str s = str_new(bk->cx->arena);
    for (int i = 0; i < p->ops.len; i++) {
        Loc loc = ir_op_loc(p->ops.data[i]);
        if (!is_loc_before(p, i))
            str_addf(&s, "%s%s:%u:%u", i ? ", " : "",
                     diag_source_name(bk->cx->m->diag, loc.file), loc.line,
                     loc.col);
    }
    return str_text(&s);
}

static const IrReason *
reason_of(const Bucket *bk, const Pack *p)
{
    int n = p->ops.len;
    return ir_reason_for(p->ops.data[0], "bucket.pack",
                         "%d all_reduce%s of %lld bytes%s, of %s%s%s", n,
                         n > 1 ? "s" : "", (long long)p->load.bytes,
                         n > 1 ? " together" : "", lines_of(bk, p),
                         p->why ? "; closed: " : "", p->why ? p->why : "");
}

static int
compare_ids(const void *a, const void *b)
{
    const IrOp *x = *(IrOp *const *)a, *y = *(IrOp *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The packed ops, in the order of the text, become one, after the last of their
 * operands. */
static void
join_pack(Bucket *bk, Pack *p)
{
    qsort(p->ops.data, (size_t)p->ops.len, sizeof(IrOp *), compare_ids);
    IrOp *first = p->ops.data[0];
    IrValues operands = {0};
    collect_operands(bk, p, &operands);
    IrBlock *b = ir_block_scratch(first);
    IrOp *joined = ir_build_all_reduce(b, (IrAgg)ir_enum(first, A_op),
                                       operands.len, operands.data, first->loc);
    ir_attrs_copy_options(joined, first);
    ir_stamp(b, reason_of(bk, p));
    joined->id = p->load.known;
    IrOp *after = op_at(first->block, p->load.known);
    forward_to(p, joined);
    if (after)
        ir_splice_after(after, b);
    else
        ir_splice_before(first->block->first, b);
    for (int i = 0; i < p->ops.len; i++)
        ir_remove(p->ops.data[i]);
}

/* ---- cutting ------------------------------------------------------------ */

/* Behind the last value of the pack that begins with value i. */
static int
pack_end(const Bucket *bk, const IrOp *op, int i)
{
    int64_t bytes = 0;
    if (is_by_cost(bk, op))
        return i + 1;
    while (i < op->num_operands && !is_full(bk, op, bytes))
        bytes += value_bytes(bk->cx->m, op->operands[i++]);
    return i;
}

static void
cut_pack(Bucket *bk, IrOp *op, int begin, int end)
{
    IrBlock *b = ir_block_scratch(op);
    IrOp *pack = ir_build_all_reduce(b, (IrAgg)ir_enum(op, A_op), end - begin,
                                     op->operands + begin, op->loc);
    ir_attrs_copy_options(pack, op);
    ir_stamp(b, ir_reason_for(op, "bucket.cut", "%d of %d values, %lld bytes",
                              end - begin, op->num_operands,
                              (long long)bytes_of(bk->cx->m, pack)));
    for (int i = begin; i < end; i++) {
        pack->results[i - begin]->name = op->results[i]->name;
        ir_forward(op->results[i], pack->results[i - begin]);
    }
    ir_splice_before(op, b);
}

static void
cut_op(Bucket *bk, IrOp *op)
{
    int n = op->num_operands;
    if (pack_end(bk, op, 0) == n || (is_by_cost(bk, op) && follows_another(op)))
        return;
    for (int begin = 0, end; begin < n; begin = end) {
        end = pack_end(bk, op, begin);
        cut_pack(bk, op, begin, end);
    }
    ir_remove(op);
}

static void
cut_block(Bucket *bk, IrBlock *b)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->num_regions; i++)
            cut_block(bk, op->regions[i]);
        if (op->kind == OP_all_reduce)
            cut_op(bk, op);
    }
}

/* ---- the pass ----------------------------------------------------------- */

static bool
is_cut(const IrOp *op)
{
    return op->reason && !strcmp(op->reason->rule, "bucket.cut");
}

/* An all_reduce that the program wrote, which no pack that is ready later comes
 * to stand before. */
static bool
stays(const Bucket *bk, const Pack *p)
{
    const IrOp *op = p->ops.data[0];
    bool by_cost = is_by_cost(bk, op);
    if (p->ops.len > 1 || (by_cost && is_cut(op)))
        return false;
    for (int i = 0; i < bk->packs.len && by_cost; i++) {
        const Pack *other = bk->packs.data[i];
        if (other != p && other->load.known >= p->load.known &&
            other->load.known < op->id)
            return false;
    }
    return true;
}

/* Outer blocks first: what is packed uses values of those around it. */
static void
bucket_block(Bucket *bk, IrBlock *b)
{
    pass_index_ops(b);
    find_asserts(bk, b);
    bk->packs.len = 0;
    OpList by_cost = {0}, by_bytes = {0};
    for (IrOp *op = b->first; op; op = op->next) {
        if (op->kind != OP_all_reduce || follows_another(op))
            continue;
        OpList *ops = is_by_cost(bk, op) ? &by_cost : &by_bytes;
        VEC_PUSH(bk->cx->arena, *ops, op);
    }
    pack_by_cost(bk, b, &by_cost);
    pack_by_bytes(bk, &by_bytes);
    for (int i = 0; i < bk->packs.len; i++)
        if (!stays(bk, bk->packs.data[i]))
            join_pack(bk, bk->packs.data[i]);
    for (IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_regions; i++)
            bucket_block(bk, op->regions[i]);
}

bool
pass_bucket(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    Bucket bk = {.cx = cx};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        cut_block(&bk, fn->body);
        ir_apply_forwards(fn);
        bk.users = ir_users_find(cx->arena, fn->body);
        bucket_block(&bk, fn->body);
        ir_apply_forwards(fn);
    }
    return true;
}
