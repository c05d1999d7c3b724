/*
 * static_batches.c - shares of constant length
 *
 * In the checked IR a replica's share of a batch has n rows, whatever the
 * number of replicas, so that a program is right or wrong for all numbers
 * alike.  Where every batch is full and the replicas divide it evenly, n and N
 * have one value each and are replaced by constants; the rows before those of a
 * replica are its number times its share.
 *
 * Keeps localities: a constant length stays per_replica.
 */
#include <assert.h>
#include <string.h>
#include "ir/dataset/sharding.h"
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/support/pass.h"

typedef struct StaticBatches {
    PassCx *cx;
    bool *even;     /* a symbol: whether it is always at its bound */
    bool *uneven;   /* whether the rows of an iterator with this symbol vary */
    int32_t *moved; /* its number afterwards */
} StaticBatches;

/* ---- which symbols ------------------------------------------------------ */

static bool
has_even_shares(const IrModule *m, const IrIter *it)
{
    if (it->whole || it->rows < 0)
        return false;
    const IrDataset *d = ir_dataset_find(m, it->datasets.data[0]);
    Dim rows = VEC_LAST(d->stages).types.data[0].dims[0];
    return ir_dim_is_const(rows) && rows.c % m->num_replicas == 0 &&
           ir_iter_ends_together(m, it);
}

static void
note_symbol(StaticBatches *e, int32_t n, bool even)
{
    int32_t all = e->cx->m->symbols.data[n].partner;
    bool *which = even ? e->even : e->uneven;
    which[n] = which[all] = true;
}

static void
note_rows(IrOp *op, void *data)
{
    StaticBatches *e = data;
    int32_t rows = op->kind == OP_iter_next ? ir_next_rows(op) : -1;
    if (rows < 0)
        return;
    const IrIter *it = ir_iter_find(e->cx->m, ir_text(op, A_iter));
    note_symbol(e, rows, has_even_shares(e->cx->m, it));
}

/* False if there is nothing to do, also if iterators share a symbol and one of
 * them has uneven batches, as in text that was edited. */
static bool
find_symbols(StaticBatches *e)
{
    bool some = false, shared = false;
    const IrModule *m = e->cx->m;
    for (int i = 0; i < m->iters.len; i++)
        if (m->iters.data[i]->rows >= 0)
            note_symbol(e, m->iters.data[i]->rows,
                        has_even_shares(m, m->iters.data[i]));
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, note_rows, e);
    for (int i = 0; i < m->symbols.len; i++) {
        int32_t of = m->symbols.data[i].of; /* the rows of one replica */
        if (of >= 0 && e->even[of])
            e->even[i] = true;
        some |= e->even[i];
        shared |= e->even[i] && e->uneven[i];
    }
    return some && !shared;
}

/* ---- dimensions --------------------------------------------------------- */

static Dim
fix_dim(const StaticBatches *e, Dim d)
{
    if (ir_dim_is_const(d))
        return d;
    if (e->even[d.sym])
        return ir_dim_full(e->cx->m, d);
    d.sym = e->moved[d.sym];
    return d;
}

static void
fix_type(const StaticBatches *e, IrType *t)
{
    for (int i = 0; i < t->rank; i++)
        t->dims[i] = fix_dim(e, t->dims[i]);
}

static void
fix_args(const StaticBatches *e, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        fix_type(e, &b->args.data[i]->type);
}

static void
fix_dims(const StaticBatches *e, IrOp *op)
{
    int n;
    Dim even[IR_MAX_RANK];
    if (ir_attr_index(op->kind, A_dims) < 0 || !ir_has(op, A_dims))
        return;
    const Dim *dims = ir_dims(op, A_dims, &n);
    for (int i = 0; i < n; i++)
        even[i] = fix_dim(e, dims[i]);
    ir_set_dims(op, A_dims, even, n);
}

/* ---- operations --------------------------------------------------------- */

/* The constant that replaces op, an operation that asks for a length. */
static IrValue *
answer(const IrOp *op, IrBlock *b, Dim d)
{
    IrValue *size = ir_const_int(b, DT_i64, d.c, op->loc);
    if (op->kind == OP_dim_size)
        return size;
    IrValue *id = ir_build0(b, OP_replica_id, op->loc);
    id = ir_build_cast(b, id, DT_i64, op->loc);
    return ir_build2(b, OP_mul, id, size, op->loc);
}

static void
replace_question(IrOp *op, Dim d)
{
    IrBlock *b = ir_block_scratch(op);
    ir_forward(op->results[0], answer(op, b, d));
    ir_stamp(b, ir_reason_for(op, "static_batches.rows",
                              "each replica has %lld rows of every batch",
                              (long long)d.c));
    ir_splice_before(op, b);
    ir_remove(op);
}

static void
fix_op(IrOp *op, void *data)
{
    int n;
    const StaticBatches *e = data;
    fix_dims(e, op);
    for (int i = 0; i < op->num_results; i++)
        fix_type(e, &op->results[i]->type);
    for (int r = 0; r < op->num_regions; r++)
        fix_args(e, op->regions[r]);
    if (op->kind != OP_dim_size && op->kind != OP_row_start)
        return;
    Dim d = *ir_dims(op, A_dims, &n);
    if (ir_dim_is_const(d))
        replace_question(op, d);
}

/* ---- the module --------------------------------------------------------- */

static void
fix_functions(const StaticBatches *e)
{
    for (IrFunc *fn = e->cx->m->first; fn; fn = fn->next) {
        fix_args(e, fn->body);
        ir_walk(fn->body, fix_op, (void *)e);
        ir_apply_forwards(fn);
    }
}

/* Stages of several datasets may share type arrays. */
static void
fix_stage(const StaticBatches *e, IrStage *s)
{
    int n = s->types.len;
    IrType *types = NEW_ARRAY(e->cx->m->arena, IrType, (size_t)n);
    for (int i = 0; i < n; i++) {
        types[i] = s->types.data[i];
        fix_type(e, &types[i]);
    }
    s->types.data = types;
    s->types.cap = n;
}

static void
fix_data(const StaticBatches *e)
{
    const IrModule *m = e->cx->m;
    for (int i = 0; i < m->iters.len; i++) {
        IrIter *it = m->iters.data[i];
        if (it->rows >= 0)
            it->rows = e->even[it->rows] ? -1 : e->moved[it->rows];
    }
    for (int i = 0; i < m->datasets.len; i++) {
        const IrDataset *d = m->datasets.data[i];
        for (int k = 0; k < d->stages.len; k++)
            fix_stage(e, &d->stages.data[k]);
    }
}

static void
number_symbols(StaticBatches *e)
{
    const IrModule *m = e->cx->m;
    for (int32_t i = 0, next = 0; i < m->symbols.len; i++)
        e->moved[i] = e->even[i] ? -1 : next++;
}

static void
move_symbols(const StaticBatches *e)
{
    IrModule *m = e->cx->m;
    int len = 0;
    for (int i = 0; i < m->symbols.len; i++) {
        IrSymbol s = m->symbols.data[i];
        if (e->even[i])
            continue;
        if (s.partner >= 0)
            s.partner = e->moved[s.partner];
        if (s.of >= 0)
            s.of = e->moved[s.of];
        m->symbols.data[len++] = s;
    }
    ir_symbols_cut(m, len);
}

bool
pass_static_batches(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_step);
    size_t n = (size_t)cx->m->symbols.len;
    StaticBatches e = {.cx = cx,
                       .even = NEW_ARRAY(cx->arena, bool, n),
                       .uneven = NEW_ARRAY(cx->arena, bool, n),
                       .moved = NEW_ARRAY(cx->arena, int32_t, n)};
    if (!find_symbols(&e))
        return true;
    number_symbols(&e);
    fix_functions(&e);
    fix_data(&e);
    move_symbols(&e);
    return true;
}
