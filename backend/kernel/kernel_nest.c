/*
 * kernel_nest.c - loops for the values of a kernel
 *
 * The row space (kernel_space.c) is the grid, except for its last index when
 * that one runs along the lanes.  Every value is placed in the outermost loop
 * that has the indices it depends on.  So the values of a row are computed once
 * a row, before the loops that use them, and a chain of reductions becomes
 * stages by itself.
 */
#include "backend/kernel/kernel_expr.h"

#include <string.h>

typedef struct Scope {
    struct Scope *outer;
    int depth;
    bool in_vector;
    KBlock *block;
    VEC(Expr *) exprs;   /* placed here, */
    VEC(ExprVar *) vars; /* or bound; forgotten when it closes */
} Scope;

/* ---- placing ------------------------------------------------------------ */

static Scope
scope_open(Scope *outer, KBlock *block, bool vector)
{
    return (Scope){.outer = outer,
                   .depth = outer ? outer->depth + 1 : 0,
                   .in_vector = vector || (outer && outer->in_vector),
                   .block = block};
}

static void
scope_close(Scope *s)
{
    for (int i = 0; i < s->exprs.len; i++)
        s->exprs.data[i]->placed = NULL;
    for (int i = 0; i < s->vars.len; i++) {
        s->vars.data[i]->placed = NULL;
        s->vars.data[i]->depth = -1;
    }
}

/* The kernel's own index for v, known while s is open. */
static KVar *
bind_var(Build *b, Scope *s, ExprVar *v)
{
    v->placed = arena_copy(b->k->arena, &v->var, sizeof v->var);
    v->depth = s->depth;
    VEC_PUSH(b->scratch, s->vars, v);
    return v->placed;
}

/* The outermost scope that has all indices that e depends on. */
static Scope *
scope_of(const Expr *e, Scope *s)
{
    int depth = 0;
    for (int i = 0; i < e->vars.len; i++) {
        if (e->vars.data[i]->depth > depth)
            depth = e->vars.data[i]->depth;
    }
    while (s->depth > depth)
        s = s->outer;
    return s;
}

static KNode *place(Build *b, Scope *s, Expr *e);

static KIndex
place_index(Build *b, Scope *s, const KIndex *x)
{
    KIndex placed = *x;
    placed.terms = NEW_ARRAY(b->k->arena, KTerm, x->num_terms);
    for (int i = 0; i < x->num_terms; i++) {
        ExprVar *v = var_of(x->terms[i].var);
        if (v->divide)
            place(b, s, v->divide);
        placed.terms[i] = (KTerm){x->terms[i].coef, v->placed};
    }
    return placed;
}

/* New indices for ranges in the scope of their body. */
static void
bind_ranges(Build *b, Scope *s, KRanges *r)
{
    for (int i = 0; i < r->count; i++)
        r->vars[i] = bind_var(b, s, var_of(r->vars[i]));
}

static void
place_reduce(Build *b, Scope *s, KNode *n)
{
    n->reduce.vector = !s->in_vector;
    Scope body = scope_open(s, &n->reduce.body, true);
    bind_ranges(b, &body, &n->reduce.ranges);
    n->reduce.element = place(b, &body, expr_of(n->reduce.element));
    scope_close(&body);
}

static void
place_contract(Build *b, Scope *s, KNode *n)
{
    Scope body = scope_open(s, &n->contract.body, true);
    bind_ranges(b, &body, &n->contract.ranges);
    n->contract.x = place(b, &body, expr_of(n->contract.x));
    n->contract.y = place(b, &body, expr_of(n->contract.y));
    scope_close(&body);
}

static void
place_map(Build *b, Scope *s, KNode *n)
{
    for (int i = 0; i < n->map.num_args; i++)
        n->map.args[i] = place(b, s, expr_of(n->map.args[i]));
}

/* Replaces the Exprs and ExprVars in n, a copy of an Expr's node, by nodes and
 * indices of blocks. */
static void
place_parts(Build *b, Scope *s, KNode *n)
{
    KIndex *index = be_kernel_index(n);
    if (index)
        *index = place_index(b, s, index);
    switch (n->kind) {
    case K_LOAD:
        if (n->load.guard)
            n->load.guard = place(b, s, expr_of(n->load.guard));
        return;
    case K_MAP:
        place_map(b, s, n);
        return;
    case K_RUNNING:
        n->running.value = place(b, s, expr_of(n->running.value));
        return;
    case K_REDUCE:
        place_reduce(b, s, n);
        return;
    case K_CONTRACT:
        place_contract(b, s, n);
        return;
    case K_DIV:
    case K_MOD:
        n->divide.var = bind_var(b, s, var_of(n->divide.var));
        return;
    case K_PICK:
        n->pick.value = place(b, s, expr_of(n->pick.value));
        n->pick.var = bind_var(b, s, var_of(n->pick.var));
        return;
    case K_CONST:
    case K_INDEX:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_INSIDE:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
    case K_STORE:
    case K_NUM_KINDS:
        return;
    }
}

/* The node that e is in s or around it. */
static KNode *
place(Build *b, Scope *s, Expr *e)
{
    if (e->placed)
        return e->placed;
    s = scope_of(e, s);
    KNode n = e->node;
    place_parts(b, s, &n);
    e->placed = be_kernel_append(b->k->arena, s->block, &n);
    VEC_PUSH(b->scratch, s->exprs, e);
    return e->placed;
}

/* ---- loops -------------------------------------------------------------- */

/* An empty loop over v, appended to the block of s when it is closed. */
typedef struct OpenLoop {
    KNode node;
    Scope scope;
} OpenLoop;

static void
loop_open(Build *b, OpenLoop *l, Scope *outer, ExprVar *v, bool vector)
{
    *l = (OpenLoop){.node = {.kind = K_LOOP}};
    l->scope = scope_open(outer, &l->node.loop.body, vector);
    l->node.loop.vector = vector;
    l->node.loop.ranges.count = 1;
    l->node.loop.ranges.vars[0] = bind_var(b, &l->scope, v);
}

static void
loop_close(Build *b, OpenLoop *l, Scope *outer)
{
    scope_close(&l->scope);
    be_kernel_append(b->k->arena, outer->block, &l->node);
}

/* The indices of an output that are not rows. */
static ExprVars
inner_vars(Build *b, const Output *o)
{
    ExprVars inner = {0};
    for (int i = 0; i < o->vars.len; i++) {
        if (!o->vars.data[i]->is_row)
            VEC_PUSH(b->scratch, inner, o->vars.data[i]);
    }
    return inner;
}

static bool
is_in_group(Build *b, const Output *o, const ExprVars *inner)
{
    ExprVars own = inner_vars(b, o);
    return own.len == inner->len &&
           (own.len == 0 || memcmp(own.data, inner->data,
                                   (size_t)own.len * sizeof *own.data) == 0);
}

/* The old value combined with the value of a scatter, rounded as in memory
 * (D4). */
static KNode *
be_fold_of(Build *b, KBlock *to, const Output *o, const KNode *load,
           KNode *value)
{
    DType t = o->array->dtype;
    if (o->fold == OP_copy)
        return value;
    KNode *old = be_kernel_append(b->k->arena, to, load);
    KNode fold = {.kind = K_MAP, .dtype = load->dtype};
    fold.map.op = o->fold;
    fold.map.num_args = 2;
    fold.map.args[0] = old;
    fold.map.args[1] = value;
    KNode *sum = be_kernel_append(b->k->arena, to, &fold);
    if (t == dtype_compute(t) || o->fold == OP_minimum || o->fold == OP_maximum)
        return sum;
    KNode cast = {.kind = K_MAP, .dtype = load->dtype};
    cast.map.op = OP_cast;
    cast.map.to = t;
    cast.map.num_args = 1;
    cast.map.args[0] = sum;
    return be_kernel_append(b->k->arena, to, &cast);
}

/* The store of o, whose value is computed before it. */
static KNode
place_store(Build *b, Scope *s, const Output *o)
{
    KNode store = {.kind = K_STORE, .id = -1};
    store.store.array = o->array;
    store.store.value = place(b, s, o->value);
    store.store.guard = o->guard ? place(b, s, o->guard) : NULL;
    store.store.at = place_index(b, s, &o->at);
    return store;
}

/* A row that is combined is loaded just before it is stored: never as an Expr,
 * which could be placed outside of the loop. */
static void
append_store(Build *b, Scope *s, const Output *o, KNode *store)
{
    if (o->guard) {
        KNode load = {.kind = K_LOAD, .dtype = dtype_compute(o->array->dtype)};
        load.load.array = o->array;
        load.load.at = store->store.at;
        load.load.guard = store->store.guard;
        store->store.value =
            be_fold_of(b, s->block, o, &load, store->store.value);
    }
    be_kernel_append(b->k->arena, s->block, store);
}

/* Values first, then stores: an output may be an input that is read at the
 * same element. */
static void
emit_outputs(Build *b, Scope *s, const ExprVars *inner)
{
    VEC(KNode) stores = {0};
    VEC(const Output *) outputs = {0};
    for (int i = 0; i < b->outputs.len; i++) {
        const Output *o = &b->outputs.data[i];
        if (!is_in_group(b, o, inner))
            continue;
        KNode store = place_store(b, s, o);
        VEC_PUSH(b->scratch, stores, store);
        VEC_PUSH(b->scratch, outputs, o);
    }
    for (int i = 0; i < stores.len; i++)
        append_store(b, s, outputs.data[i], &stores.data[i]);
}

/* The loop over v, in its order, around the outputs. */
static void
be_emit_scan(Build *b, Scope *s, const ExprVars *inner, ExprVar *v)
{
    KNode n = {.kind = K_SCAN, .id = -1};
    n.scan.reverse = v->order == BACKWARDS;
    Scope body = scope_open(s, &n.scan.body, false);
    n.scan.ranges.count = 1;
    n.scan.ranges.vars[0] = bind_var(b, &body, v);
    emit_outputs(b, &body, inner);
    scope_close(&body);
    be_kernel_append(b->k->arena, s->block, &n);
}

/* o without the last index, which has the coefficient 1 there. */
static KIndex
first_of_row(Build *b, const Output *o, ExprVar *last)
{
    KIndex minus = be_lin_scale(b, be_lin_var(b, last), ir_dim_const(-1));
    return be_lin_add(b, o->at, minus);
}

static void
be_emit_sort(Build *b, Scope *s, const Output *o, ExprVar *v)
{
    KNode n = {.kind = K_SORT, .id = -1};
    KIndex first = first_of_row(b, o, v);
    n.sort.array = o->array;
    n.sort.descending = o->descending;
    n.sort.first = o->first;
    n.sort.at = place_index(b, s, &first);
    Scope body = scope_open(s, &n.sort.body, true);
    n.sort.ranges.count = 1;
    n.sort.ranges.vars[0] = bind_var(b, &body, v);
    n.sort.element = place(b, &body, o->value);
    scope_close(&body);
    be_kernel_append(b->k->arena, s->block, &n);
}

/* The loops over inner indices from number `next`. */
static void
emit_loops(Build *b, Scope *s, const Output *o, const ExprVars *inner, int next)
{
    if (next == inner->len) {
        emit_outputs(b, s, inner);
        return;
    }
    ExprVar *v = inner->data[next];
    if (v->order) {
        if (v->order == SORTED)
            be_emit_sort(b, s, o, v);
        else
            be_emit_scan(b, s, inner, v);
        return;
    }
    bool contiguous = v == o->vars.data[o->vars.len - 1];
    OpenLoop loop;
    loop_open(b, &loop, s, v, contiguous && !s->in_vector);
    emit_loops(b, &loop.scope, o, inner, next + 1);
    loop_close(b, &loop, s);
}

/* The rows of a scatter, one after the other. */
static void
emit_scatter(Build *b, Scope *s, const Output *o)
{
    KNode loop = {.kind = K_LOOP, .id = -1};
    loop.loop.ordered = true;
    loop.loop.ranges = o->ordered;
    Scope body = scope_open(s, &loop.loop.body, false);
    bind_ranges(b, &body, &loop.loop.ranges);
    KNode store = place_store(b, &body, o);
    append_store(b, &body, o, &store);
    scope_close(&body);
    be_kernel_append(b->k->arena, s->block, &loop);
}

/* Whether an output before number i has the same inner indices. */
static bool
is_emitted(Build *b, int i, const ExprVars *inner)
{
    while (--i >= 0) {
        if (is_in_group(b, &b->outputs.data[i], inner))
            return true;
    }
    return false;
}

/* All work of an item.  Rows are computed first and stored last: so the loads
 * of an item's reductions come before its stores. */
static void
emit_item(Build *b, Scope *s)
{
    ExprVars none = {0};
    for (int i = 0; i < b->outputs.len; i++) {
        if (is_in_group(b, &b->outputs.data[i], &none))
            place(b, s, b->outputs.data[i].value);
    }
    for (int i = 0; i < b->outputs.len; i++) {
        const Output *o = &b->outputs.data[i];
        ExprVars inner = inner_vars(b, o);
        if (inner.len && !is_emitted(b, i, &inner))
            emit_loops(b, s, o, &inner, 0);
    }
    emit_outputs(b, s, &none);
}

/* Loops over the rows from number `next` that are not in the grid, then the
 * work of an item. */
static void
be_emit_rows(Build *b, Scope *s, const ExprVars *rows, int next,
             const ExprVar *lanes)
{
    if (next == rows->len && b->outputs.data[0].ordered.count) {
        emit_scatter(b, s, &b->outputs.data[0]);
        return;
    }
    if (next == rows->len) {
        emit_item(b, s);
        return;
    }
    ExprVar *v = rows->data[next];
    OpenLoop loop;
    loop_open(b, &loop, s, v, v == lanes);
    be_emit_rows(b, &loop.scope, rows, next + 1, lanes);
    loop_close(b, &loop, s);
}

/* Makes the first rows the grid: those that are not in the lanes and whose
 * product is a dimension, or only the lanes.  Returns how many. */
static int
open_grid(Build *b, Scope *item, const ExprVars *rows, const ExprVar *lanes)
{
    BeKernel *k = b->k;
    Dim items = ir_dim_const(1);
    k->grid_vector = lanes && rows->len == 1;
    int num = 0;
    while (num < rows->len && (k->grid_vector || rows->data[num] != lanes) &&
           ir_dim_mul(items, rows->data[num]->var.extent, &items)) {
        k->grid.vars[num] = bind_var(b, item, rows->data[num]);
        k->grid.count = ++num;
    }
    item->in_vector = k->grid_vector;
    return num;
}

void
be_nest_build(Build *b)
{
    RowSpace space;
    be_space_choose(b, &space);
    if (b->error)
        return;
    Scope item = scope_open(NULL, &b->k->body, false);
    int num = open_grid(b, &item, &space.rows, space.lanes);
    be_emit_rows(b, &item, &space.rows, num, space.lanes);
    scope_close(&item);
}
