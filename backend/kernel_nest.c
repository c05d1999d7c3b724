/*
 * kernel_nest.c - loops for the values of a kernel
 *
 * 1. Neighbouring indices that only occur as one linear index become one.
 * 2. The row space is chosen: the indices that all outputs have, and all
 *    reductions whose results are used along further indices.  It is the grid,
 *    but for its last index when that one runs along the lanes.
 * 3. Every value is placed in the outermost loop that has the indices it hangs
 *    on.  So what a row needs is computed once a row, before the loops that use
 *    it; a chain of reductions becomes stages without anyone looking for it.
 */
#include "backend/kernel_expr.h"

#include <string.h>

/* An open block: the item, a loop, or the body of a reduction. */
typedef struct Scope {
    struct Scope *outer;
    int depth;
    bool in_vector;
    KBlock *block;
    VEC(Expr *) exprs;   /* placed here, */
    VEC(ExprVar *) vars; /* or bound; forgotten when it closes */
} Scope;

/* ---- what is there ------------------------------------------------------ */

typedef struct Graph {
    VEC(Expr *) exprs;     /* that the outputs need, arguments first */
    VEC(KIndex *) indices; /* all that they have, and those of the stores */
} Graph;

static void visit(Build *b, Graph *g, Expr *e);

static void
visit_index(Build *b, Graph *g, KIndex *x)
{
    VEC_PUSH(b->scratch, g->indices, x);
    for (int i = 0; i < x->num_terms; i++) {
        Expr *divide = var_of(x->terms[i].var)->divide;
        if (divide)
            visit(b, g, divide);
    }
}

/* Everything e is made of: arguments, and what a body yields. */
static int
inputs_of(const Expr *e, KNode **inputs)
{
    switch (e->node.kind) {
    case K_REDUCE:
        inputs[0] = e->node.reduce.element;
        return 1;
    case K_CONTRACT:
        inputs[0] = e->node.contract.x;
        inputs[1] = e->node.contract.y;
        return 2;
    default:
        return be_kernel_args(&e->node, inputs);
    }
}

static void
visit(Build *b, Graph *g, Expr *e)
{
    if (e->seen)
        return;
    e->seen = true;
    KNode *inputs[K_MAX_ARGS];
    int num = inputs_of(e, inputs);
    for (int i = 0; i < num; i++)
        visit(b, g, expr_of(inputs[i]));
    if (be_kernel_index(&e->node))
        visit_index(b, g, be_kernel_index(&e->node));
    VEC_PUSH(b->scratch, g->exprs, e);
}

static Graph
graph_of(Build *b)
{
    Graph g = {0};
    for (int i = 0; i < b->outputs.len; i++) {
        visit(b, &g, b->outputs.data[i].value);
        if (b->outputs.data[i].guard)
            visit(b, &g, b->outputs.data[i].guard);
        visit_index(b, &g, &b->outputs.data[i].at);
    }
    return g;
}

/* ---- 1. indices that are one -------------------------------------------- */

/* Whether slow and fast occur only as fast.extent * slow + fast. */
static bool
is_one_index(const Graph *g, const KVar *slow, const KVar *fast)
{
    for (int i = 0; i < g->indices.len; i++) {
        Dim s = be_index_coef(g->indices.data[i], slow), whole;
        Dim f = be_index_coef(g->indices.data[i], fast);
        if (!dim_mul(f, fast->extent, &whole) || !dim_equal(s, whole))
            return false;
    }
    return true;
}

static void
remove_terms(const Graph *g, const KVar *v)
{
    for (int i = 0; i < g->indices.len; i++) {
        KIndex *x = g->indices.data[i];
        int kept = 0;
        for (int j = 0; j < x->num_terms; j++) {
            if (x->terms[j].var != v)
                x->terms[kept++] = x->terms[j];
        }
        x->num_terms = kept;
    }
}

/* Makes fast the index of both, if that can be. */
static bool
merge_vars(const Graph *g, const KVar *slow, KVar *fast)
{
    Dim extent;
    if (var_of((KVar *)slow)->order || var_of(fast)->order ||
        !dim_mul(slow->extent, fast->extent, &extent) ||
        !is_one_index(g, slow, fast))
        return false;
    fast->extent = extent;
    remove_terms(g, slow);
    return true;
}

static void
merge_ranges(const Graph *g, KRanges *r)
{
    for (int i = r->count - 2; i >= 0; i--) {
        if (merge_vars(g, r->vars[i], r->vars[i + 1])) {
            r->count--;
            memmove(&r->vars[i], &r->vars[i + 1],
                    (size_t)(r->count - i) * sizeof *r->vars);
        }
    }
}

static int
find_var(const ExprVars *vars, const ExprVar *v)
{
    for (int i = 0; i < vars->len; i++) {
        if (vars->data[i] == v)
            return i;
    }
    return -1;
}

static void
remove_var(ExprVars *vars, const ExprVar *v)
{
    int at = find_var(vars, v);
    if (at < 0)
        return;
    vars->len--;
    memmove(&vars->data[at], &vars->data[at + 1],
            (size_t)(vars->len - at) * sizeof *vars->data);
}

static void
merge_outputs(Build *b, const Graph *g)
{
    for (int i = 0; i < b->outputs.len; i++) {
        ExprVars *vars = &b->outputs.data[i].vars;
        for (int j = vars->len - 2; j >= 0; j--) {
            ExprVar *slow = vars->data[j];
            if (!merge_vars(g, &slow->var, &vars->data[j + 1]->var))
                continue;
            for (int o = 0; o < b->outputs.len; o++)
                remove_var(&b->outputs.data[o].vars, slow);
        }
    }
}

static void
merge_indices(Build *b, const Graph *g)
{
    KRanges *ranges;
    merge_outputs(b, g);
    for (int i = 0; i < b->outputs.len; i++)
        merge_ranges(g, &b->outputs.data[i].ordered);
    for (int i = 0; i < g->exprs.len; i++) {
        if (be_kernel_body(&g->exprs.data[i]->node, &ranges))
            merge_ranges(g, ranges);
    }
}

/* ---- which indices a value hangs on ------------------------------------- */

static void
add_var(Build *b, ExprVars *vars, ExprVar *v)
{
    if (find_var(vars, v) < 0)
        VEC_PUSH(b->scratch, *vars, v);
}

static void
add_vars(Build *b, ExprVars *vars, const ExprVars *more)
{
    for (int i = 0; i < more->len; i++)
        add_var(b, vars, more->data[i]);
}

static void
add_index_vars(Build *b, ExprVars *vars, const KIndex *x)
{
    for (int i = 0; i < x->num_terms; i++) {
        ExprVar *v = var_of(x->terms[i].var);
        if (v->divide)
            add_vars(b, vars, &v->divide->vars);
        else
            add_var(b, vars, v);
    }
}

/* Needs those of what e is made of. */
static void
find_vars(Build *b, Expr *e)
{
    KNode *inputs[K_MAX_ARGS];
    KRanges *ranges;
    int num = inputs_of(e, inputs);
    for (int i = 0; i < num; i++)
        add_vars(b, &e->vars, &expr_of(inputs[i])->vars);
    if (be_kernel_index(&e->node))
        add_index_vars(b, &e->vars, be_kernel_index(&e->node));
    if (be_kernel_body(&e->node, &ranges)) {
        for (int i = 0; i < ranges->count; i++)
            remove_var(&e->vars, var_of(ranges->vars[i]));
    }
}

/* ---- 2. the row space --------------------------------------------------- */

static bool
same_vars(const ExprVars *x, const ExprVars *y)
{
    for (int i = 0; i < x->len; i++) {
        if (find_var(y, x->data[i]) < 0)
            return false;
    }
    return x->len == y->len;
}

/* Whether e is a reduction or contraction outside of any other's body. */
static bool
is_stage(const Expr *e)
{
    if (e->node.kind != K_REDUCE && e->node.kind != K_CONTRACT)
        return false;
    for (int i = 0; i < e->vars.len; i++) {
        if (!e->vars.data[i]->is_root)
            return false;
    }
    return true;
}

static void
keep_rows(const ExprVars *space, const ExprVars *vars)
{
    for (int i = 0; i < space->len; i++)
        space->data[i]->is_row &= find_var(vars, space->data[i]) >= 0;
}

/* Marks the row space; `space` has the indices of the widest output. */
static void
choose_rows(Build *b, const Graph *g, const ExprVars *space)
{
    for (int i = 0; i < space->len; i++)
        space->data[i]->is_row = true;
    for (int i = 0; i < b->outputs.len; i++)
        keep_rows(space, &b->outputs.data[i].vars);
    for (int i = 0; i < g->exprs.len; i++) {
        const Expr *e = g->exprs.data[i];
        if (is_stage(e) && !same_vars(&e->vars, space))
            keep_rows(space, &e->vars);
    }
    for (int i = 0; i < space->len; i++)
        space->data[i]->is_row &= space->data[i]->order == FREE_ORDER;
}

/* ---- which index runs along the lanes ----------------------------------- */

/* Loads in the body of a reduction that follow its last index and those that
 * follow an index of the results. */
typedef struct Votes {
    const ExprVar *own, *other;
    int for_own, for_other;
} Votes;

static void
count_votes(Expr *e, Votes *votes)
{
    KNode *inputs[K_MAX_ARGS];
    int num = inputs_of(e, inputs);
    if (e->voter == votes->own || find_var(&e->vars, votes->own) < 0)
        return;
    e->voter = votes->own;
    if (e->node.kind == K_LOAD && find_var(&e->vars, votes->other) >= 0) {
        const KIndex *at = &e->node.load.at;
        Dim one = dim_const(1);
        votes->for_own += dim_equal(be_index_coef(at, &votes->own->var), one);
        votes->for_other +=
            dim_equal(be_index_coef(at, &votes->other->var), one);
    }
    for (int i = 0; i < num; i++)
        count_votes(expr_of(inputs[i]), votes);
}

/* Whether a reduction that has the lanes for itself reads along memory, more
 * than one that is computed for neighbouring results side by side. */
static bool
runs_along_memory(const Expr *e, const ExprVar *last)
{
    const KRanges *r = &e->node.reduce.ranges;
    Votes votes = {var_of(r->vars[r->count - 1]), last, 0, 0};
    count_votes(expr_of(e->node.reduce.element), &votes);
    return votes.for_own >= votes.for_other;
}

/* The index of the row space in the lanes, or NULL: then it is the last one of
 * a loop inside, or each reduction's own. */
static ExprVar *
choose_lanes(const Graph *g, const ExprVars *space)
{
    ExprVar *last = space->len ? space->data[space->len - 1] : NULL;
    if (!last || !last->is_row)
        return NULL;
    for (int i = 0; i < g->exprs.len; i++) {
        const Expr *e = g->exprs.data[i];
        if (e->node.kind == K_REDUCE && is_stage(e) &&
            runs_along_memory(e, last))
            return NULL;
    }
    return last;
}

/* ---- the order of the rows ---------------------------------------------- */

/* What lanes run along in a contraction: the operand that hangs on them. */
static const Expr *
side_of_lanes(const Expr *contract, const ExprVar *lanes)
{
    const Expr *x = expr_of(contract->node.contract.x);
    const Expr *y = expr_of(contract->node.contract.y);
    bool moves = find_var(&x->vars, lanes) >= 0;
    if (moves == (find_var(&y->vars, lanes) >= 0))
        return NULL;
    return moves ? x : y;
}

/* Rows that an operand does not hang on come last: they are those of a matrix,
 * the others tell matrices apart. */
static void
put_matrix_last(Build *b, const Expr *side, ExprVars *rows)
{
    ExprVars first = {0};
    for (int wanted = 1; wanted >= 0; wanted--) {
        for (int i = 0; i < rows->len; i++) {
            bool has = find_var(&side->vars, rows->data[i]) >= 0;
            if (has == wanted)
                VEC_PUSH(b->scratch, first, rows->data[i]);
        }
    }
    *rows = first;
}

/* Loads that run along v in memory, and not along the lanes. */
static int
count_turned(const Graph *g, const ExprVar *v, const ExprVar *lanes)
{
    const Dim none = dim_const(0), one = dim_const(1);
    int count = 0;
    for (int i = 0; i < g->exprs.len; i++) {
        const KNode *n = &g->exprs.data[i]->node;
        if (n->kind != K_LOAD)
            continue;
        Dim along = be_index_coef(&n->load.at, &lanes->var);
        count += dim_equal(be_index_coef(&n->load.at, &v->var), one) &&
                 !dim_equal(along, one) && !dim_equal(along, none);
    }
    return count;
}

/* What most loads run along comes last. */
static void
put_neighbours_last(Build *b, const Graph *g, const ExprVar *lanes,
                    ExprVars *rows)
{
    ExprVar *best = NULL;
    int most = 0;
    for (int i = 0; i < rows->len; i++) {
        int count = count_turned(g, rows->data[i], lanes);
        if (count > most) {
            most = count;
            best = rows->data[i];
        }
    }
    if (best) {
        remove_var(rows, best);
        VEC_PUSH(b->scratch, *rows, best);
    }
}

/* Rows may be in any order; some are better for whoever does some of the last
 * ones at once.  The lanes stay at the end. */
static void
order_rows(Build *b, const Graph *g, ExprVar *lanes, ExprVars *rows)
{
    const Expr *stage = NULL;
    if (!lanes)
        return;
    for (int i = 0; i < g->exprs.len; i++) {
        if (is_stage(g->exprs.data[i]))
            stage = g->exprs.data[i];
    }
    remove_var(rows, lanes);
    const Expr *side = stage && stage->node.kind == K_CONTRACT
                           ? side_of_lanes(stage, lanes)
                           : NULL;
    if (side)
        put_matrix_last(b, side, rows);
    else if (!stage)
        put_neighbours_last(b, g, lanes, rows);
    VEC_PUSH(b->scratch, *rows, lanes);
}

/* ---- 3. placing --------------------------------------------------------- */

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

/* The outermost scope that has all indices e hangs on. */
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

/* Fresh indices for ranges in the scope of their body. */
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

/* Turns what n, a copy of an Expr's node, names into what stands in blocks. */
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
    default:
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

/* Values first, then stores: an output may be an input that is read at the
 * same element. */
static void
emit_outputs(Build *b, Scope *s, const ExprVars *inner)
{
    VEC(KNode) stores = {0};
    for (int i = 0; i < b->outputs.len; i++) {
        Output *o = &b->outputs.data[i];
        if (!is_in_group(b, o, inner))
            continue;
        KNode store = {.kind = K_STORE, .id = -1};
        store.store.array = o->array;
        store.store.value = place(b, s, o->value);
        store.store.at = place_index(b, s, &o->at);
        VEC_PUSH(b->scratch, stores, store);
    }
    for (int i = 0; i < stores.len; i++)
        be_kernel_append(b->k->arena, s->block, &stores.data[i]);
}

/* The loop over v, in its order, around the outputs. */
static void
emit_scan(Build *b, Scope *s, const ExprVars *inner, ExprVar *v)
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
    KIndex minus = be_lin_scale(b, be_lin_var(b, last), dim_const(-1));
    return be_lin_add(b, o->at, minus);
}

static void
emit_sort(Build *b, Scope *s, const Output *o, ExprVar *v)
{
    KNode n = {.kind = K_SORT, .id = -1};
    KIndex first = first_of_row(b, o, v);
    n.sort.array = o->array;
    n.sort.descending = o->descending;
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
            emit_sort(b, s, o, v);
        else
            emit_scan(b, s, inner, v);
        return;
    }
    bool contiguous = v == o->vars.data[o->vars.len - 1];
    OpenLoop loop;
    loop_open(b, &loop, s, v, contiguous && !s->in_vector);
    emit_loops(b, &loop.scope, o, inner, next + 1);
    loop_close(b, &loop, s);
}

/* What is there combined with the value of a scatter, rounded as memory has it
 * (D4). */
static KNode *
emit_fold_of(Build *b, KBlock *to, const Output *o, const KNode *load,
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

/* A row is loaded and stored at its turn: never an Expr, which could be placed
 * outside of the loop. */
static void
emit_row(Build *b, Scope *s, const Output *o)
{
    KNode *value = place(b, s, o->value), *guard = place(b, s, o->guard);
    KNode load = {.kind = K_LOAD, .dtype = dtype_compute(o->array->dtype)};
    load.load.array = o->array;
    load.load.at = place_index(b, s, &o->at);
    load.load.guard = guard;
    KNode store = {.kind = K_STORE, .id = -1};
    store.store.array = o->array;
    store.store.at = place_index(b, s, &o->at);
    store.store.guard = guard;
    store.store.value = emit_fold_of(b, s->block, o, &load, value);
    be_kernel_append(b->k->arena, s->block, &store);
}

/* The rows of a scatter, one after the other. */
static void
emit_scatter(Build *b, Scope *s, const Output *o)
{
    if (o->ordered.count == 0) {
        emit_row(b, s, o);
        return;
    }
    KNode loop = {.kind = K_LOOP, .id = -1};
    loop.loop.ordered = true;
    loop.loop.ranges = o->ordered;
    Scope body = scope_open(s, &loop.loop.body, false);
    bind_ranges(b, &body, &loop.loop.ranges);
    emit_row(b, &body, o);
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

/* All of an item.  What rows store is computed first and stored last: what an
 * item reads in its reductions is read before it stores anything. */
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

/* Loops over the rows from number `next` that are not in the grid, then what
 * an item does. */
static void
emit_rows(Build *b, Scope *s, const ExprVars *rows, int next,
          const ExprVar *lanes)
{
    if (next == rows->len && b->outputs.data[0].guard) {
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
    emit_rows(b, &loop.scope, rows, next + 1, lanes);
    loop_close(b, &loop, s);
}

/* Makes the first rows the grid: those that are not in the lanes and whose
 * product is a dimension, or the lanes' alone.  Returns how many. */
static int
open_grid(Build *b, Scope *item, const ExprVars *rows, const ExprVar *lanes)
{
    BeKernel *k = b->k;
    Dim items = dim_const(1);
    k->grid_vector = lanes && rows->len == 1;
    int num = 0;
    while (num < rows->len && (k->grid_vector || rows->data[num] != lanes) &&
           dim_mul(items, rows->data[num]->var.extent, &items)) {
        k->grid.vars[num] = bind_var(b, item, rows->data[num]);
        k->grid.count = ++num;
    }
    item->in_vector = k->grid_vector;
    return num;
}

/* What goes in order goes around nothing else, and for one output. */
static void
check_order(Build *b, const ExprVars *space)
{
    int num_inner = 0, num_ordered = 0;
    for (int i = 0; i < space->len; i++) {
        num_inner += !space->data[i]->is_row;
        num_ordered += space->data[i]->order != FREE_ORDER;
    }
    if (num_ordered && (num_inner != 1 || b->outputs.len != 1))
        be_expr_fail(b, "a kernel with a running sum or a sort does more");
}

void
be_nest_build(Build *b)
{
    Graph g = graph_of(b);
    merge_indices(b, &g);
    for (int i = 0; i < g.exprs.len; i++)
        find_vars(b, g.exprs.data[i]);
    const ExprVars *space = &b->outputs.data[b->widest].vars;
    choose_rows(b, &g, space);
    check_order(b, space);
    if (b->error)
        return;
    ExprVar *lanes = choose_lanes(&g, space);
    ExprVars rows = {0};
    for (int i = 0; i < space->len; i++) {
        if (space->data[i]->is_row)
            VEC_PUSH(b->scratch, rows, space->data[i]);
    }
    order_rows(b, &g, lanes, &rows);
    Scope item = scope_open(NULL, &b->k->body, false);
    int num = open_grid(b, &item, &rows, lanes);
    emit_rows(b, &item, &rows, num, lanes);
    scope_close(&item);
}
