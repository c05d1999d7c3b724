/*
 * lifetime.c - when values are live
 */
#include "ir/analysis/lifetime.h"

#include <assert.h>
#include "ir/analysis/per_replica.h"
#include "ir/analysis/users.h"
#include "ir/base/cache_line.h"
#include "ir/base/status.h"
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"

Buffer *
ir_buffer_of(const IrLifetimes *l, const IrValue *v)
{
    Buffer *b = ir_lifetime_of(l, v)->buffer;
    while (b->into)
        b = b->into;
    return b;
}

void
ir_buffers_merge(Buffer *a, Buffer *b)
{
    while (a->into)
        a = a->into;
    while (b->into)
        b = b->into;
    if (a == b)
        return;
    if (b->fixed) {
        Buffer *swap = a;
        a = b;
        b = swap;
    }
    assert(!b->fixed);
    b->into = a;
    a->begin = a->begin < b->begin ? a->begin : b->begin;
    a->end = a->end > b->end ? a->end : b->end;
    a->bytes = a->bytes > b->bytes ? a->bytes : b->bytes;
    a->align = a->align > b->align ? a->align : b->align;
    a->sent |= b->sent;
    a->num_values += b->num_values;
}

/* ---- positions ---------------------------------------------------------- */

typedef struct Numbering {
    IrLifetimes *l;
    const IrModule *m;
    int next;
} Numbering;

static void
begin_lifetime(const Numbering *n, const IrValue *v, int made)
{
    int64_t bytes;
    if (!ir_type_bytes(n->m, &v->type, &bytes))
        UNREACHABLE("a value of no finite size");
    Buffer *b = NEW(n->l->arena, Buffer);
    *b = (Buffer){.begin = made - 1,
                  .end = made,
                  .bytes = bytes,
                  .align = CACHE_LINE,
                  .num_values = 1};
    *IR_TABLE_SLOT(n->l->arena, n->l->values, v->number) =
        (Lifetime){b, made, made};
}

static void
number_block(Numbering *n, const IrBlock *b, int args_made)
{
    for (int i = 0; i < b->args.len; i++)
        begin_lifetime(n, b->args.data[i], args_made);
    for (const IrOp *op = b->first; op; op = op->next) {
        OpSpan *span = IR_TABLE_SLOT(n->l->arena, n->l->spans, op->number);
        span->begin = span->end = 2 * n->next++;
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                number_block(n, op->regions[i], span->begin);
        span->end = 2 * (n->next - 1);
        int made = op->num_regions && op->kind != OP_kernel ? span->end + 1
                                                            : span->begin + 1;
        for (int i = 0; i < op->num_results; i++)
            begin_lifetime(n, op->results[i], made);
    }
}

/* ---- uses --------------------------------------------------------------- */

/* The position where op is done with its operands: a collective that was
 * started reads them until its done, which alone uses its results. */
static int
reads_until(const IrLifetimes *l, const IrUsers *users, const IrOp *op)
{
    const IrOpList *done = NULL;
    if (ir_op_is_start(op->kind))
        done = ir_users_of(users, op->results[0]);
    return ir_span_of(l, done && done->len ? done->data[0] : op)->begin;
}

static bool
run_together(const IrOp *x, const IrOp *y)
{
    return x->block == y->block && ir_op_tiles(x) && ir_op_tiles(y) &&
           ir_tiles_last(x) == ir_tiles_last(y);
}

/* The position where op is done with v: kernels that run together are done with
 * what comes from elsewhere at the last one. */
static int
reads_value_until(const IrLifetimes *l, const IrOp *op, const IrValue *v,
                  int end)
{
    if (!ir_op_tiles(op) || (v->def && run_together(v->def, op)))
        return end;
    return ir_span_of(l, ir_tiles_last(op))->begin;
}

/* The position where a use of v by op, which reads until `end`, ends: there, or
 * at the end of the outermost loop between op and v's own block. */
static int
use_end(const IrLifetimes *l, const IrOp *op, const IrValue *v, int end)
{
    const IrBlock *home = ir_value_block(v);
    for (const IrBlock *b = op->block; b != home && b->op; b = b->op->block)
        if (ir_is_loop(b->op) && ir_span_of(l, b->op)->end > end)
            end = ir_span_of(l, b->op)->end + 1;
    return end;
}

static void
note_use(const IrLifetimes *l, const IrValue *v, int end)
{
    Lifetime *life = ir_lifetime_of(l, v);
    if (end > life->last_use)
        life->last_use = end;
    if (end > life->buffer->end)
        life->buffer->end = end;
}

/* until: the end of the replica loop that b is in, 0 if b is in none. */
static void
note_uses(const IrLifetimes *l, const IrUsers *users, const IrBlock *b,
          int until)
{
    const IrOp *last = NULL; /* of the replica loop that op is in */
    bool may_begin_loop = !until && ir_func_repeats_replica_loops(b->func);
    for (IrOp *op = b->first; op; op = op->next) {
        if (may_begin_loop && !last && ir_op_is_per_replica(op))
            last = ir_replica_loop_last(op);
        int end = last ? ir_span_of(l, last)->end + 1 : until;
        int read_end = reads_until(l, users, op);
        for (int i = 0; i < op->num_operands; i++) {
            const IrValue *v = op->operands[i];
            int until_here = reads_value_until(l, op, v, read_end);
            note_use(l, v, use_end(l, op, v, until_here));
            if (end && ir_value_is_shared(v))
                note_use(l, v, end);
        }
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                note_uses(l, users, op->regions[i], end);
        if (op == last)
            last = NULL;
    }
}

/* A value that is read through a view is used.  Last to first, for views of
 * views. */
static void
extend_to_views(const IrLifetimes *l, const IrBlock *b)
{
    for (IrOp *op = b->last; op; op = op->prev) {
        bool view = (ir_op_info[op->kind].traits & VIEW) != 0;
        for (int i = 0; view && i < op->num_results; i++) {
            Lifetime *of = ir_lifetime_of(l, op->operands[i]);
            const Lifetime *seen = ir_lifetime_of(l, op->results[i]);
            if (seen->last_use > of->last_use)
                of->last_use = seen->last_use;
        }
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                extend_to_views(l, op->regions[i]);
    }
}

void
ir_lifetimes_find(IrLifetimes *l, const IrFunc *fn)
{
    Numbering n = {l, fn->module, 1};
    number_block(&n, fn->body, 0);
    IrUsers users = ir_users_find(l->arena, fn->body);
    note_uses(l, &users, fn->body, 0);
    extend_to_views(l, fn->body);
}
