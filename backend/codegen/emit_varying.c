/*
 * emit_varying.c - values that vary along rows and lanes, and costs
 *
 * An index varies along the rows of a tile if it is the one that the rows
 * count, or the quotient or remainder of one that varies; along lanes if it is
 * that of a vector construct.  A value varies where one of its operands does.
 * This is computed before code is emitted, so that a reduction can get its
 * registers before its body is emitted.
 */
#include "backend/codegen/emit.h"
#include "backend/kernel/kernel_impl.h"
#include "ir/base/status.h"

typedef struct Walk {
    Emit *e;
    const KVar *row;
    const KVar *lane; /* NULL: those of vector constructs */
    const KVar *slow; /* lanes vary along it, too; may be NULL */
} Walk;

static EmitVarying
either(EmitVarying x, EmitVarying y)
{
    return (EmitVarying){x.row || y.row, x.lane || y.lane};
}

static EmitVarying
of_index(const Emit *e, const KIndex *x)
{
    EmitVarying d = {false, false};
    for (int i = 0; i < x->num_terms; i++)
        d = either(d, e->index_varying[x->terms[i].var->id]);
    return d;
}

static EmitVarying
of_value(const Emit *e, const KNode *n)
{
    return n ? e->value_varying[n->id] : (EmitVarying){false, false};
}

static void
note_vars(Walk *w, const KRanges *r, bool vector)
{
    for (int i = 0; i < r->count; i++) {
        KVar *var = r->vars[i];
        w->e->index_varying[var->id] = (EmitVarying){
            .row = var == w->row,
            .lane = var == w->lane || var == w->slow ||
                    (vector && i == r->count - 1),
        };
    }
}

static void walk_block(Walk *w, const KBlock *b);

static EmitVarying
of_reduce(Walk *w, const KNode *n)
{
    note_vars(w, &n->reduce.ranges, n->reduce.vector);
    walk_block(w, &n->reduce.body);
    EmitVarying d = of_value(w->e, n->reduce.element);
    d.lane = d.lane && !n->reduce.vector; /* its lanes become one */
    return d;
}

static EmitVarying
of_contract(Walk *w, const KNode *n)
{
    note_vars(w, &n->contract.ranges, false);
    walk_block(w, &n->contract.body);
    return either(of_value(w->e, n->contract.x), of_value(w->e, n->contract.y));
}

static EmitVarying
of_map(const Emit *e, const KNode *n)
{
    EmitVarying d = {false, false};
    for (int i = 0; i < n->map.num_args; i++)
        d = either(d, of_value(e, n->map.args[i]));
    return d;
}

static EmitVarying
of_node(Walk *w, const KNode *n)
{
    const Emit *e = w->e;
    switch (n->kind) {
    case K_INDEX:
        return of_index(e, &n->index);
    case K_INSIDE:
        return of_index(e, &n->inside.index);
    case K_LOAD:
        return either(of_index(e, &n->load.at), of_value(e, n->load.guard));
    case K_MAP:
        return of_map(e, n);
    case K_RUNNING:
        return of_value(e, n->running.value);
    case K_REDUCE:
        return of_reduce(w, n);
    case K_CONTRACT:
        return of_contract(w, n);
    case K_CONST:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_DIV:
    case K_MOD:
    case K_PICK:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
    case K_STORE:
        return (EmitVarying){false, false};
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

static void
walk_block(Walk *w, const KBlock *b)
{
    Emit *e = w->e;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind == K_LOOP) {
            note_vars(w, &n->loop.ranges, n->loop.vector && !w->lane);
            walk_block(w, &n->loop.body);
        } else if (n->kind == K_SCAN) {
            note_vars(w, &n->scan.ranges, false);
            walk_block(w, &n->scan.body);
        } else if (n->kind == K_SORT) {
            note_vars(w, &n->sort.ranges, false);
            walk_block(w, &n->sort.body);
        } else if (n->kind == K_DIV || n->kind == K_MOD) {
            e->index_varying[n->divide.var->id] = of_index(e, &n->divide.of);
        } else if (n->kind == K_PICK) {
            e->index_varying[n->pick.var->id] = of_value(e, n->pick.value);
        } else if (be_kernel_kinds[n->kind].has_value) {
            EmitVarying d = of_node(w, n);
            e->value_varying[n->id] = d;
        }
    }
}

static void
find_varying(Walk w)
{
    const BeKernel *k = w.e->k;
    note_vars(&w, &k->grid, k->grid_vector && !w.lane);
    walk_block(&w, &k->body);
}

void
be_emit_find_varying_along(Emit *e, const KVar *row, const KVar *lane)
{
    find_varying((Walk){.e = e, .row = row, .lane = lane});
}

void
be_emit_find_varying_collapsed(Emit *e, const KVar *slow, const KVar *lane)
{
    find_varying((Walk){.e = e, .lane = lane, .slow = slow});
}

void
be_emit_find_varying(Emit *e, const KVar *row)
{
    be_emit_find_varying_along(e, row, NULL);
}

static EmitSpace
part_of_grid(const KRanges *grid, int first, int count)
{
    EmitSpace s = {.count = count};
    for (int i = 0; i < count; i++)
        s.vars[i] = grid->vars[first + i];
    return s;
}

void
be_emit_split_grid(Emit *e, const KNode *b, EmitSpace *outer, EmitSpace *rows)
{
    const KRanges *grid = &e->k->grid;
    int first = grid->count;
    for (; first > 0; first--) {
        be_emit_find_varying(e, grid->vars[first - 1]);
        if (e->value_varying[b->id].row)
            break;
    }
    *outer = part_of_grid(grid, 0, first);
    *rows = part_of_grid(grid, first, grid->count - first);
}

Emit
be_emit_for_analysis(Arena *a, const BeKernel *k)
{
    Emit e = {.k = k, .arena = a};
    e.value_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_values + 1);
    e.index_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_vars + 1);
    return e;
}

bool
be_kernel_contains(const KBlock *b, KKind kind)
{
    for (KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        const KBlock *body = be_kernel_body(n, &ranges);
        if (n->kind == kind || (body && be_kernel_contains(body, kind)))
            return true;
    }
    return false;
}

/* ---- costs -------------------------------------------------------------- */

double
be_kernel_cost(const BeKernel *k, const KBlock *b)
{
    double sum = 0;
    for (KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        const KBlock *body = be_kernel_body(n, &ranges);
        if (body)
            sum += (double)be_ranges_bound(k, ranges) *
                   (1 + be_kernel_cost(k, body));
        else if (n->kind != K_CONST)
            sum += n->kind == K_MAP ? ir_op_code(n->map.op)->cost : 1;
    }
    return sum;
}

double
be_kernel_code_size(const KBlock *b)
{
    double sum = 0;
    for (KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        const KBlock *body = be_kernel_body(n, &ranges);
        if (body)
            sum += n->kind == K_CONTRACT ? 1 : be_kernel_code_size(body);
        else if (n->kind != K_CONST)
            sum += n->kind == K_MAP ? ir_op_code(n->map.op)->cost : 1;
    }
    return sum;
}

/* Work in the lanes of a register takes the same time if some of the lanes are
 * another thread's. */
enum { GRAIN_LANES = 16 };

int64_t
be_kernel_grain(const BeKernel *k)
{
    if (!k->grid.count)
        return 0;
    double item = 1 + be_kernel_cost(k, &k->body);
    double items = (double)be_items_bound(k);
    if (items < 2 || item * items < 2.0 * EMIT_GRAIN_OPERATIONS)
        return 0;
    double grain = EMIT_GRAIN_OPERATIONS / item, half = items / 2;
    if (be_kernel_contains(&k->body, K_CONTRACT) && grain < EMIT_GRAIN_ROWS)
        grain = half < EMIT_GRAIN_ROWS ? half : EMIT_GRAIN_ROWS;
    if (k->grid_vector && grain < GRAIN_LANES)
        return half < GRAIN_LANES ? 0 : GRAIN_LANES;
    return grain < 1 ? 1 : (int64_t)grain;
}
