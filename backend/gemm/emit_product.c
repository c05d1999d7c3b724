/*
 * emit_product.c - whether a kernel is a product of matrices
 */
#include "backend/gemm/emit_product.h"

#include "backend/kernel/kernel_impl.h"

enum {
    FEW = 4, /* rows or columns for which a tile would be mostly empty */
    FEW_PRODUCTS = 8,
    FEW_IN_RUN = 8,
    FEW_SUMS = 16384, /* products in all for which staging does not pay */
};

/* ---- what is needed ------------------------------------------------------ */

static void
need_parts(EmitNeeds *w, KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        w->values[args[i]->id] = true;
    const KIndex *x = be_kernel_index(n);
    for (int i = 0; x && i < x->num_terms; i++)
        w->vars[x->terms[i].var->id] = true;
    KRanges *ranges;
    const KBlock *body = be_kernel_body(n, &ranges);
    for (KNode *i = body ? body->first : NULL; i; i = i->next)
        need_parts(w, i);
    if (n->kind == K_REDUCE)
        w->values[n->reduce.element->id] = true;
}

bool
emit_is_needed(const EmitNeeds *w, const KNode *n)
{
    switch (n->kind) {
    case K_STORE:
        return w->stores;
    case K_DIV:
    case K_MOD:
        return w->vars[n->divide.var->id];
    case K_PICK:
        return w->vars[n->pick.var->id];
    default:
        return n->id >= 0 && w->values[n->id];
    }
}

static EmitNeeds
no_needs(Emit *e)
{
    Arena *a = e->arena;
    return (EmitNeeds){
        .values = NEW_ARRAY(a, bool, (size_t)e->k->num_values + 1),
        .vars = NEW_ARRAY(a, bool, (size_t)e->k->num_vars + 1),
    };
}

/* Whoever uses a value stands behind it or further inside; `end` is a value
 * that is there. */
static void
find_needs(EmitNeeds *w, const KBlock *b, const KNode *end)
{
    for (KNode *n = b->last; n; n = n->prev) {
        if (n != end && emit_is_needed(w, n))
            need_parts(w, n);
    }
}

void
emit_needed(Emit *e, const EmitNeeds *needs, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (emit_is_needed(needs, n))
            emit_node(e, n);
    }
}

/* ---- parts of a product -------------------------------------------------- */

/* Whether n does more than compute a value or index of its own. */
static bool
does_more(const KNode *n)
{
    bool computes = be_kernel_kinds[n->kind].has_value || n->kind == K_DIV ||
                    n->kind == K_MOD || n->kind == K_PICK;
    return !computes || n->kind == K_CONTRACT || n->kind == K_RUNNING;
}

/* The loop that an item ends with, all else being values of the item. */
static const KNode *
only_loop(const KBlock *b)
{
    for (const KNode *n = b->first; n && n != b->last; n = n->next) {
        if (does_more(n))
            return NULL;
    }
    const KNode *last = b->last;
    bool good = last && last->kind == K_LOOP && last->loop.vector &&
                !last->loop.ordered;
    return good ? last : NULL;
}

/* All else being values without loops of their own, and stores. */
static const KNode *
only_contraction(const KBlock *b)
{
    const KNode *found = NULL;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind == K_CONTRACT && !found)
            found = n;
        else if (n->kind == K_REDUCE || (does_more(n) && n->kind != K_STORE))
            return NULL;
    }
    if (!found || !found->contract.ranges.count ||
        emit_contains(&found->contract.body, K_REDUCE) ||
        emit_contains(&found->contract.body, K_CONTRACT))
        return NULL;
    return found;
}

/* Tells rows from columns by what the operands depend on. */
static bool
find_operands(Emit *e, EmitProduct *p)
{
    const KNode *x = p->contract->contract.x, *y = p->contract->contract.y;
    emit_find_depends(e, NULL);
    bool x_moves = e->value_depends[x->id].lane;
    if (x_moves == e->value_depends[y->id].lane)
        return false;
    p->of_rows.value = x_moves ? y : x;
    p->of_columns.value = x_moves ? x : y;
    return true;
}

/* The last indices of the grid that the operand of the columns does not depend
 * on are rows. */
static void
find_rows(Emit *e, EmitProduct *p)
{
    const KRanges *grid = &e->k->grid;
    int first = grid->count;
    for (; first > 0; first--) {
        emit_find_depends(e, grid->vars[first - 1]);
        if (e->value_depends[p->of_columns.value->id].row)
            break;
    }
    p->outer.count = first;
    for (int i = 0; i < first; i++)
        p->outer.vars[i] = grid->vars[i];
    p->rows.count = grid->count - first;
    for (int i = first; i < grid->count; i++)
        p->rows.vars[i - first] = grid->vars[i];
}

/* Whether a load of the operand follows the last index of the products, and
 * none that of its other side. */
static bool
runs_along_products(const EmitProduct *p, const EmitOperand *o,
                    const KVar *other)
{
    const KVar *last = p->products.vars[p->products.count - 1];
    const Dim one = ir_dim_const(1);
    bool along = false;
    for (const KNode *n = p->contract->contract.body.first; n; n = n->next) {
        if (n->kind != K_LOAD || !o->needs.values[n->id])
            continue;
        if (other && ir_dim_equal(be_index_coef(&n->load.at, other), one))
            return false;
        along |= ir_dim_equal(be_index_coef(&n->load.at, last), one);
    }
    return along;
}

/* Whether rows, of several indices, are best taken as runs of the last: a load
 * follows it, and it is long. */
static bool
is_in_runs(const Emit *e, const EmitProduct *p)
{
    const KVar *row = p->rows.vars[p->rows.count - 1];
    if (p->rows.count == 1 || emit_dim_bound(e->k, row->extent) < FEW_IN_RUN)
        return false;
    for (const KNode *n = p->contract->contract.body.first; n; n = n->next) {
        if (n->kind == K_LOAD && p->of_rows.needs.values[n->id] &&
            ir_dim_equal(be_index_coef(&n->load.at, row), ir_dim_const(1)))
            return true;
    }
    return false;
}

static void
find_made_of(Emit *e, const EmitProduct *p, EmitOperand *o, const KVar *other)
{
    o->needs = no_needs(e);
    o->needs.values[o->value->id] = true;
    find_needs(&o->needs, &p->contract->contract.body, NULL);
    find_needs(&o->needs, &p->loop->loop.body, NULL);
    find_needs(&o->needs, &e->k->body, NULL);
    o->along_products = runs_along_products(p, o, other);
}

/* ---- windows ------------------------------------------------------------- */

/* Whether x has row and product in that sum only; *step is it, or 0 as long as
 * nobody has said. */
static bool
slides(const KIndex *x, const KVar *row, const KVar *product, int64_t *step)
{
    Dim of_row = be_index_coef(x, row), own = be_index_coef(x, product);
    if (!ir_dim_is_const(of_row) || !ir_dim_is_const(own))
        return false;
    if (!own.c)
        return !of_row.c;
    if (of_row.c % own.c || (*step && of_row.c / own.c != *step))
        return false;
    *step = of_row.c / own.c;
    return *step > 0;
}

static bool
all_slide(const EmitNeeds *needs, const KBlock *b, const KVar *row,
          const KVar *product, int64_t *step)
{
    for (KNode *n = b->first; n; n = n->next) {
        const KIndex *x = be_kernel_index(n);
        if (emit_is_needed(needs, n) && x && !slides(x, row, product, step))
            return false;
    }
    return true;
}

static bool
extents_are_known(const EmitSpace *s)
{
    for (int i = 0; i < s->count; i++) {
        if (!ir_dim_is_const(s->vars[i]->extent))
            return false;
    }
    return true;
}

/* What the number-th index of a side overlaps in, if steps of `sliding`, the
 * last of the other side, are less than its extent. */
static EmitOverlap
overlap_along(const Emit *e, const EmitProduct *p, const KVar *sliding,
              const EmitSpace *side, int number)
{
    static const EmitOverlap none = {0};
    const EmitNeeds *needs = &p->of_rows.needs;
    EmitOverlap o = {.index = side->vars[number], .elements = 1};
    if (!all_slide(needs, &p->contract->contract.body, sliding, o.index,
                   &o.step) ||
        !all_slide(needs, &p->loop->loop.body, sliding, o.index, &o.step) ||
        !all_slide(needs, &e->k->body, sliding, o.index, &o.step) || !o.step ||
        o.step >= o.index->extent.c)
        return none;
    EmitSpace lines = *side;
    lines.count = number;
    o.length = sliding->extent.c;
    o.runs = emit_space_bound(e->k, &lines);
    if (number < side->count - 1)
        o.elements = side->vars[number + 1]->extent.c;
    o.run = o.index->extent.c * o.elements;
    return o;
}

static EmitOverlap
find_overlap(const Emit *e, const EmitProduct *p, const KVar *sliding,
             const EmitSpace *side)
{
    int last = side->count - 1;
    EmitOverlap o = overlap_along(e, p, sliding, side, last);
    if (!o.index && last > 0)
        o = overlap_along(e, p, sliding, side, last - 1);
    return o;
}

static void
find_window(const Emit *e, EmitProduct *p)
{
    const KVar *row = p->rows.vars[p->rows.count - 1];
    if (p->of_rows.plain || !extents_are_known(&p->products) ||
        !ir_dim_is_const(row->extent) || row->extent.c < FEW_IN_RUN ||
        emit_space_bound(e->k, &p->products) > BE_K_BLOCK)
        return;
    p->window = find_overlap(e, p, row, &p->products);
    if (p->window.index) {
        p->in_runs = true;
        p->of_rows.along_products = false;
    }
}

static void
find_strip(const Emit *e, EmitProduct *p)
{
    const KVar *product = p->products.vars[p->products.count - 1];
    if (p->of_rows.plain || p->window.index || !extents_are_known(&p->rows) ||
        !ir_dim_is_const(product->extent) || product->extent.c < FEW_IN_RUN)
        return;
    p->strip = find_overlap(e, p, product, &p->rows);
}

/* ---- the rest ------------------------------------------------------------ */

static void
find_rest(Emit *e, EmitProduct *p)
{
    p->rest = no_needs(e);
    p->rest.stores = true;
    find_needs(&p->rest, &p->loop->loop.body, p->contract);
    find_needs(&p->rest, &e->k->body, NULL);
}

/* Whether the points of s follow each other in x at the same distance, a
 * constant at *step. */
static bool
is_even(const EmitSpace *s, const KIndex *x, int64_t *step)
{
    for (int i = 0; i < s->count; i++) {
        Dim own = be_index_coef(x, s->vars[i]), whole;
        if (!ir_dim_is_const(own))
            return false;
        *step = own.c;
        if (i == 0)
            continue;
        Dim before = be_index_coef(x, s->vars[i - 1]);
        if (!ir_dim_mul(own, s->vars[i]->extent, &whole) ||
            !ir_dim_equal(before, whole))
            return false;
    }
    return true;
}

static int
count_terms(const EmitSpace *s, const KIndex *x)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        for (int j = 0; j < x->num_terms; j++)
            count += x->terms[j].var == s->vars[i];
    }
    return count;
}

/* Indices that do not come from dividing others. */
static bool
is_of_product(const EmitProduct *p, const KIndex *x)
{
    EmitSpace columns = {1, {p->column}};
    int known = count_terms(&p->outer, x) + count_terms(&p->rows, x) +
                count_terms(&columns, x) + count_terms(&p->products, x);
    return known == x->num_terms;
}

/* Notes if o is a matrix in memory; side is that of the operand. */
static void
find_plain(const EmitProduct *p, EmitOperand *o, const EmitSpace *side)
{
    const KNode *n = o->value;
    if (n->kind == K_LOAD && !n->load.guard &&
        n->load.array->dtype == p->contract->dtype &&
        is_even(side, &n->load.at, &o->step) &&
        is_even(&p->products, &n->load.at, &o->product_step) &&
        is_of_product(p, &n->load.at))
        o->plain = n;
}

/* The store of the loop if the sums are all that is stored, and are the result
 * as they are. */
static const KNode *
find_direct(const EmitProduct *p)
{
    const KNode *store = p->loop->loop.body.last;
    if (store->kind != K_STORE || store->store.guard ||
        store->prev->kind == K_STORE || store->store.value != p->contract ||
        store->store.array->dtype != p->contract->dtype)
        return NULL;
    const KIndex *at = &store->store.at;
    bool dense = ir_dim_equal(be_index_coef(at, p->column), ir_dim_const(1));
    int64_t step;
    return dense && is_even(&p->rows, at, &step) && is_of_product(p, at) ? store
                                                                         : NULL;
}

/* Whether a row's own values have one: that has lanes of its own. */
static bool
needs_reduction(const Emit *e, const EmitProduct *p)
{
    for (const KNode *n = e->k->body.first; n; n = n->next) {
        if (n->kind == K_REDUCE && p->of_rows.needs.values[n->id])
            return true;
    }
    return false;
}

/* ---- whether it is one --------------------------------------------------- */

static bool
is_worth_it(const Emit *e, const EmitProduct *p)
{
    double rows = (double)emit_space_bound(e->k, &p->rows);
    double columns = (double)emit_dim_bound(e->k, p->column->extent);
    double products = (double)emit_space_bound(e->k, &p->products);
    return p->rows.count && rows >= FEW && columns >= FEW &&
           products >= FEW_PRODUCTS && rows * columns * products >= FEW_SUMS;
}

bool
emit_product_find(Emit *e, EmitProduct *p)
{
    *p = (EmitProduct){.loop = only_loop(&e->k->body)};
    if (!p->loop || e->k->grid_vector)
        return false;
    p->contract = only_contraction(&p->loop->loop.body);
    if (!p->contract || !dtype_is_float(p->contract->dtype))
        return false;
    p->column = p->loop->loop.ranges.vars[0];
    p->products = emit_space_of(&p->contract->contract.ranges);
    if (!find_operands(e, p))
        return false;
    find_rows(e, p);
    if (!is_worth_it(e, p))
        return false;
    const KVar *row = p->rows.vars[p->rows.count - 1];
    find_made_of(e, p, &p->of_rows, row);
    bool reduces = needs_reduction(e, p);
    p->in_runs = !reduces && is_in_runs(e, p);
    p->of_rows.along_products |= (p->rows.count > 1 && !p->in_runs) || reduces;
    find_made_of(e, p, &p->of_columns, p->column);
    find_plain(p, &p->of_rows, &p->rows);
    find_plain(p, &p->of_columns, &(EmitSpace){1, {p->column}});
    if (!reduces) {
        find_window(e, p);
        find_strip(e, p);
    }
    find_rest(e, p);
    p->direct = find_direct(p);
    return true;
}
