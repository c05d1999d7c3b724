/*
 * bucket.c - one collective for many small ones
 *
 * A collective costs a meeting of all replicas, whatever its size.  All
 * all_reduces of a block that combine by the same operation and do not need
 * each other's results become one, where the last of their operands is known.
 * A pack is closed by TensorFlow's rule (group_by_size): when it is already
 * larger than bytes_per_pack, 0 being no limit; so a pack overshoots by up to
 * one value.  An all_reduce of several values (a list of gradients) is cut by
 * the same rule before.
 *
 * A later all_reduce joins an earlier one by moving up to where its operands
 * are known, and the earlier ones down to there; so it may only join while
 * nothing before that point uses an earlier result.
 */
#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/support/op_index.h"
#include "passes/support/pass.h"

typedef struct Pack {
    VEC(IrOp *) ops;
    int known;  /* position after which all operands are known */
    int needed; /* position of the first use of a result */
    int64_t bytes;
    bool closed;
} Pack;

typedef struct Bucket {
    PassCx *cx;
    VEC(Pack *) packs;  /* of the block at hand */
    IrOp **first_users; /* of its operations, by their ids */
} Bucket;

static int
known_after(const IrOp *op)
{
    int last = -1;
    for (int i = 0; i < op->num_operands; i++) {
        IrOp *def = op->operands[i]->def;
        if (def && def->block == op->block && def->id > last)
            last = def->id;
    }
    return last;
}

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

static bool
is_full(const Bucket *bk, int64_t bytes)
{
    int64_t limit = bk->cx->options->bytes_per_pack;
    return limit > 0 && bytes > limit;
}

static int
max_int(int a, int b)
{
    return a > b ? a : b;
}

static int
min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Whether op combines what another all_reduce of its block gave.  Such a one
 * stays where it is: it could not move up before it is known where the other
 * moves down to. */
static bool
follows_another(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (def && def->block == op->block && def->kind == OP_all_reduce)
            return true;
    }
    return false;
}

static bool
may_join(const Pack *p, const IrOp *op, int known, int needed)
{
    return !p->closed && ir_enum(p->ops.data[0], A_op) == ir_enum(op, A_op) &&
           max_int(p->known, known) < min_int(p->needed, needed);
}

/* What was cut to a full pack is one already. */
static bool
is_pack(const Bucket *bk, const IrOp *op)
{
    return op->num_operands > 1 && is_full(bk, bytes_of(bk->cx->m, op));
}

static Pack *
find_pack(Bucket *bk, const IrOp *op, int known, int needed)
{
    for (int i = 0; i < bk->packs.len && !is_pack(bk, op); i++)
        if (may_join(bk->packs.data[i], op, known, needed))
            return bk->packs.data[i];
    Pack *p = NEW(bk->cx->arena, Pack);
    p->known = known;
    p->needed = needed;
    VEC_PUSH(bk->cx->arena, bk->packs, p);
    return p;
}

static void
pack_op(Bucket *bk, IrOp *op)
{
    int known = known_after(op), needed = bk->first_users[op->id]->id;
    Pack *p = find_pack(bk, op, known, needed);
    VEC_PUSH(bk->cx->arena, p->ops, op);
    p->known = max_int(p->known, known);
    p->needed = min_int(p->needed, needed);
    p->bytes += bytes_of(bk->cx->m, op);
    p->closed = is_full(bk, p->bytes);
}

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
    Loc loc = pass_loc(p->ops.data[i]);
    for (int k = 0; k < i; k++) {
        Loc other = pass_loc(p->ops.data[k]);
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
        Loc loc = pass_loc(p->ops.data[i]);
        if (!is_loc_before(p, i))
            str_addf(&s, "%s%s:%u:%u", i ? ", " : "",
                     diag_source_name(bk->cx->m->diag, loc.file), loc.line,
                     loc.col);
    }
    return str_text(&s);
}

/* The packed ops become one, after the last of their operands. */
static void
join_pack(Bucket *bk, const Pack *p)
{
    IrOp *first = p->ops.data[0];
    IrValues operands = {0};
    collect_operands(bk, p, &operands);
    IrBlock *b = ir_block_scratch(first);
    IrOp *joined = ir_build_all_reduce(b, (IrAgg)ir_enum(first, A_op),
                                       operands.len, operands.data, first->loc);
    ir_stamp(b, ir_reason(bk->cx->m, "bucket.pack", pass_loc(first),
                          "%d all_reduces of %lld bytes together, of %s",
                          p->ops.len, (long long)p->bytes, lines_of(bk, p)));
    joined->id = p->known;
    IrOp *after = op_at(first->block, p->known);
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
    while (i < op->num_operands && !is_full(bk, bytes))
        bytes += value_bytes(bk->cx->m, op->operands[i++]);
    return i;
}

static void
cut_pack(Bucket *bk, IrOp *op, int begin, int end)
{
    IrBlock *b = ir_block_scratch(op);
    IrOp *pack = ir_build_all_reduce(b, (IrAgg)ir_enum(op, A_op), end - begin,
                                     op->operands + begin, op->loc);
    ir_stamp(b,
             ir_reason(bk->cx->m, "bucket.cut", pass_loc(op),
                       "%d of %d values, %lld bytes", end - begin,
                       op->num_operands, (long long)bytes_of(bk->cx->m, pack)));
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
    if (pack_end(bk, op, 0) == n)
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

static void
bucket_block(Bucket *bk, IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_regions; i++)
            bucket_block(bk, op->regions[i]);
    pass_index_ops(b);
    bk->first_users = pass_first_users(bk->cx->arena, b);
    bk->packs.len = 0;
    for (IrOp *op = b->first; op; op = op->next)
        if (op->kind == OP_all_reduce && !follows_another(op))
            pack_op(bk, op);
    for (int i = 0; i < bk->packs.len; i++)
        if (bk->packs.data[i]->ops.len > 1)
            join_pack(bk, bk->packs.data[i]);
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
        bucket_block(&bk, fn->body);
        ir_apply_forwards(fn);
    }
    return true;
}
