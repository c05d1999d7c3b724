/*
 * kernel_space.c - the indices of a kernel, and their roles
 *
 * 1. Neighbouring indices that only occur as one linear index become one.
 * 2. The row space is chosen: the indices that all outputs have, and all
 *    reductions whose results are used along further indices.
 * 3. One of its indices may run along the lanes, and the rows before it are
 *    put in an order.
 */
#include "backend/kernel/kernel_expr.h"
#include "ir/base/status.h"

#include <string.h>

/* ---- the graph ---------------------------------------------------------- */

typedef struct Graph {
    VEC(Expr *) exprs;     /* that the outputs need, arguments first */
    VEC(KIndex *) indices; /* all their indices, and the stores' */
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

/* Visits all operands of e: arguments, and the yields of a body. */
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
    case K_CONST:
    case K_INDEX:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_INSIDE:
    case K_LOAD:
    case K_MAP:
    case K_RUNNING:
    case K_DIV:
    case K_MOD:
    case K_PICK:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
    case K_STORE:
        return be_kernel_args(&e->node, inputs);
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
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

/* ---- merging indices ----------------------------------------------- */

/* Whether slow and fast occur only as fast.extent * slow + fast. */
static bool
is_one_index(const Graph *g, const KVar *slow, const KVar *fast)
{
    for (int i = 0; i < g->indices.len; i++) {
        Dim s = be_index_coef(g->indices.data[i], slow), whole;
        Dim f = be_index_coef(g->indices.data[i], fast);
        if (!ir_dim_mul(f, fast->extent, &whole) || !ir_dim_equal(s, whole))
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

/* Merges both into fast, if that is possible. */
static bool
merge_vars(const Graph *g, const KVar *slow, KVar *fast)
{
    Dim extent;
    if (var_of((KVar *)slow)->order || var_of(fast)->order ||
        !ir_dim_mul(slow->extent, fast->extent, &extent) ||
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

/* ---- indices that a value depends on ------------------------------------- */

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

/* The indices of e's operands must be known. */
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

/* ---- the row space ------------------------------------------------------ */

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

/* ---- the index along the lanes ----------------------------------- */

/* Loads in the body of a reduction that are contiguous along its last index,
 * and those that are along an index of the results. */
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
        Dim one = ir_dim_const(1);
        votes->for_own +=
            ir_dim_equal(be_index_coef(at, &votes->own->var), one);
        votes->for_other +=
            ir_dim_equal(be_index_coef(at, &votes->other->var), one);
    }
    for (int i = 0; i < num; i++)
        count_votes(expr_of(inputs[i]), votes);
}

/* Whether a reduction that uses the lanes for itself has more contiguous loads
 * than one that is computed for neighbouring results side by side. */
static bool
runs_along_memory(const Expr *e, const ExprVar *last)
{
    const KRanges *r = &e->node.reduce.ranges;
    Votes votes = {var_of(r->vars[r->count - 1]), last, 0, 0};
    count_votes(expr_of(e->node.reduce.element), &votes);
    return votes.for_own >= votes.for_other;
}

/* A scatter whose rows lie along the last axis has columns that are not
 * neighbours in memory. */
static bool
stores_along_memory(const Build *b, const ExprVar *last)
{
    for (int i = 0; i < b->outputs.len; i++) {
        const Output *o = &b->outputs.data[i];
        Dim step = be_index_coef(&o->at, &last->var);
        if (o->guard && !ir_dim_equal(step, ir_dim_const(1)))
            return false;
    }
    return true;
}

/* The index of the row space in the lanes, or NULL: then it is the last one of
 * an inner loop, or each reduction's own. */
static ExprVar *
choose_lanes(const Build *b, const Graph *g, const ExprVars *space)
{
    ExprVar *last = space->len ? space->data[space->len - 1] : NULL;
    if (!last || !last->is_row || !stores_along_memory(b, last))
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

/* The index along the lanes in a contraction: of the operand that depends on
 * it. */
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

/* Rows that an operand does not depend on come last: they are the rows of a
 * matrix, the others are batches. */
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

/* Loads that are contiguous along v, and not along the lanes. */
static int
count_turned(const Graph *g, const ExprVar *v, const ExprVar *lanes)
{
    const Dim none = ir_dim_const(0), one = ir_dim_const(1);
    int count = 0;
    for (int i = 0; i < g->exprs.len; i++) {
        const KNode *n = &g->exprs.data[i]->node;
        if (n->kind != K_LOAD)
            continue;
        Dim along = be_index_coef(&n->load.at, &lanes->var);
        count += ir_dim_equal(be_index_coef(&n->load.at, &v->var), one) &&
                 !ir_dim_equal(along, one) && !ir_dim_equal(along, none);
    }
    return count;
}

/* The index along which most loads are contiguous comes last. */
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

/* Rows may be in any order; some orders are better for executing several of the
 * last rows at once.  The lanes stay at the end. */
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

/* ---- the row space of a build -------------------------------------------- */

/* A scan or sort must be the innermost loop, and of one output. */
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
be_space_choose(Build *b, RowSpace *s)
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
    *s = (RowSpace){.lanes = choose_lanes(b, &g, space)};
    for (int i = 0; i < space->len; i++) {
        if (space->data[i]->is_row)
            VEC_PUSH(b->scratch, s->rows, space->data[i]);
    }
    order_rows(b, &g, s->lanes, &s->rows);
}
