/*
 * gemm_match.c - recognizes kernels that are a gemm, C = A * B
 */
#include "backend/gemm/gemm.h"

#include <assert.h>
#include "backend/kernel/kernel_impl.h"
#include "ir/base/status.h"

enum {
    FEW_COLUMNS = GEMM_FEW_ROWS, /* for which a tile would be mostly empty */
    FEW_PRODUCTS = 8,
    FEW_IN_RUN = 8,
    FEW_SUMS = 16384, /* products in total for which packing does not pay */
};

/* ---- slices -------------------------------------------------------------- */

static void
add_operands(KernelSlice *w, KNode *n)
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
        add_operands(w, i);
    if (n->kind == K_REDUCE)
        w->values[n->reduce.element->id] = true;
}

bool
be_slice_contains(const KernelSlice *w, const KNode *n)
{
    assert(w->values && w->vars);
    switch (n->kind) {
    case K_STORE:
        return w->stores;
    case K_DIV:
    case K_MOD:
        return w->vars[n->divide.var->id];
    case K_PICK:
        return w->vars[n->pick.var->id];
    case K_CONST:
    case K_INDEX:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_INSIDE:
    case K_LOAD:
    case K_MAP:
    case K_REDUCE:
    case K_CONTRACT:
    case K_RUNNING:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
        return n->id >= 0 && w->values[n->id];
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

static KernelSlice
empty_slice(Emit *e)
{
    Arena *a = e->arena;
    return (KernelSlice){
        .values = NEW_ARRAY(a, bool, (size_t)e->k->num_values + 1),
        .vars = NEW_ARRAY(a, bool, (size_t)e->k->num_vars + 1),
    };
}

/* Users of a value come after it or further inside; `end` is a value in the
 * slice. */
static void
extend_slice(KernelSlice *w, const KBlock *b, const KNode *end)
{
    for (KNode *n = b->last; n; n = n->prev) {
        if (n != end && be_slice_contains(w, n))
            add_operands(w, n);
    }
}

void
be_emit_slice(Emit *e, const KernelSlice *slice, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (be_slice_contains(slice, n))
            be_emit_node(e, n);
    }
}

/* ---- parts of a product -------------------------------------------------- */

/* Whether n does more than compute its own value or index. */
static bool
does_more(const KNode *n)
{
    bool computes =
        be_kernel_kinds[n->kind].has_value || be_kernel_new_index(n);
    return !computes || n->kind == K_CONTRACT || n->kind == K_RUNNING;
}

/* The loop that ends an item whose other nodes are all values. */
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

/* Whether all other nodes are values without loops of their own, and stores. */
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
        be_kernel_contains(&found->contract.body, K_REDUCE) ||
        be_kernel_contains(&found->contract.body, K_CONTRACT))
        return NULL;
    return found;
}

/* Distinguishes rows from columns by the indices that the operands depend on.
 */
static bool
find_operands(Emit *e, Gemm *g)
{
    const KNode *x = g->contract->contract.x, *y = g->contract->contract.y;
    be_emit_find_varying(e, NULL);
    bool x_moves = e->value_varying[x->id].lane;
    if (x_moves == e->value_varying[y->id].lane)
        return false;
    g->a.value = x_moves ? y : x;
    g->b.value = x_moves ? x : y;
    return true;
}

/* Whether a load of the operand is contiguous along the last index of the
 * products, and none along that of its other side. */
static bool
runs_along_products(const Gemm *g, const GemmOperand *o, const KVar *other)
{
    const KVar *last = g->k.vars[g->k.count - 1];
    const Dim one = ir_dim_const(1);
    bool along = false;
    for (const KNode *n = g->contract->contract.body.first; n; n = n->next) {
        if (n->kind != K_LOAD || !o->slice.values[n->id])
            continue;
        if (other && ir_dim_equal(be_index_coef(&n->load.at, other), one))
            return false;
        along |= ir_dim_equal(be_index_coef(&n->load.at, last), one);
    }
    return along;
}

/* Whether rows, of several indices, should be packed as runs of the last one: a
 * load is contiguous along it, and it is long. */
static bool
is_in_runs(const Emit *e, const Gemm *g)
{
    const KVar *row = g->m.vars[g->m.count - 1];
    if (g->m.count == 1 || be_dim_bound(e->k, row->extent) < FEW_IN_RUN)
        return false;
    for (const KNode *n = g->contract->contract.body.first; n; n = n->next) {
        if (n->kind == K_LOAD && g->a.slice.values[n->id] &&
            ir_dim_equal(be_index_coef(&n->load.at, row), ir_dim_const(1)))
            return true;
    }
    return false;
}

KernelSlice
be_slice_of(Emit *e, const KNode *value, const KNode *contract,
            const KNode *loop)
{
    KernelSlice slice = empty_slice(e);
    slice.values[value->id] = true;
    extend_slice(&slice, &contract->contract.body, NULL);
    extend_slice(&slice, &loop->loop.body, NULL);
    extend_slice(&slice, &e->k->body, NULL);
    return slice;
}

static void
find_slice(Emit *e, const Gemm *g, GemmOperand *o, const KVar *other)
{
    o->slice = be_slice_of(e, o->value, g->contract, g->loop);
    o->along_k = runs_along_products(g, o, other);
}

/* ---- im2col lines -------------------------------------------------------- */

/* Whether x depends on row and product only through that sum; *step is its
 * stride, or 0 until it is known. */
static bool
is_strided_sum(const KIndex *x, const KVar *row, const KVar *product,
               int64_t *step)
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
all_are_strided_sums(const KernelSlice *slice, const KBlock *b, const KVar *row,
                     const KVar *product, int64_t *step)
{
    for (KNode *n = b->first; n; n = n->next) {
        const KIndex *x = be_kernel_index(n);
        if (be_slice_contains(slice, n) && x &&
            !is_strided_sum(x, row, product, step))
            return false;
    }
    return true;
}

int64_t
be_slice_stride(const Emit *e, const KernelSlice *slice, const KNode *contract,
                const KNode *loop, const KVar *row, const KVar *product)
{
    int64_t stride = 0;
    bool strided =
        all_are_strided_sums(slice, &contract->contract.body, row, product,
                             &stride) &&
        all_are_strided_sums(slice, &loop->loop.body, row, product, &stride) &&
        all_are_strided_sums(slice, &e->k->body, row, product, &stride);
    return strided ? stride : 0;
}

/* The overlap along index `number` of a side, if the stride of `sliding`, the
 * last index of the other side, is less than its extent. */
static GemmLines
overlap_along(const Emit *e, const Gemm *g, const KVar *sliding,
              const EmitSpace *side, int number)
{
    static const GemmLines none = {0};
    GemmLines o = {.index = side->vars[number], .elements = 1};
    o.stride =
        be_slice_stride(e, &g->a.slice, g->contract, g->loop, sliding, o.index);
    if (!o.stride || o.stride >= o.index->extent.c)
        return none;
    EmitSpace lines = *side;
    lines.count = number;
    o.length = sliding->extent.c;
    o.lines = be_space_bound(e->k, &lines);
    if (number < side->count - 1)
        o.elements = side->vars[number + 1]->extent.c;
    o.run = o.index->extent.c * o.elements;
    return o;
}

static GemmLines
find_overlap(const Emit *e, const Gemm *g, const KVar *sliding,
             const EmitSpace *side)
{
    int last = side->count - 1;
    GemmLines o = overlap_along(e, g, sliding, side, last);
    if (!o.index && last > 0)
        o = overlap_along(e, g, sliding, side, last - 1);
    return o;
}

/* Whether the lines of a row are packed seldom enough: anew for each block of
 * columns, of which there are several where k is long.  Rows of A that are
 * packed one by one are packed once for all. */
static bool
lines_pay(const Emit *e, const Gemm *g)
{
    enum { MOST_B_BYTES = 1 << 20 };
    double k = (double)be_space_bound(e->k, &g->k);
    double n = (double)be_dim_bound(e->k, g->n->extent);
    double bytes = (double)dtype_info[g->contract->dtype].bytes;
    return k <= IR_K_BLOCK || k * n * bytes <= MOST_B_BYTES;
}

static void
find_m_lines(const Emit *e, Gemm *g)
{
    const KVar *row = g->m.vars[g->m.count - 1];
    if (g->a.plain || !be_space_is_const(&g->k) ||
        !ir_dim_is_const(row->extent) || row->extent.c < FEW_IN_RUN ||
        !lines_pay(e, g))
        return;
    g->m_lines = find_overlap(e, g, row, &g->k);
    if (g->m_lines.index) {
        g->in_runs = true;
        g->a.along_k = false;
    }
}

static void
find_k_lines(const Emit *e, Gemm *g)
{
    const KVar *product = g->k.vars[g->k.count - 1];
    if (g->a.plain || g->m_lines.index || !be_space_is_const(&g->m) ||
        !ir_dim_is_const(product->extent) || product->extent.c < FEW_IN_RUN)
        return;
    g->k_lines = find_overlap(e, g, product, &g->m);
}

/* ---- the epilogue -------------------------------------------------------- */

KernelSlice
be_slice_of_stores(Emit *e, const KNode *contract, const KNode *loop)
{
    KernelSlice slice = empty_slice(e);
    slice.stores = true;
    extend_slice(&slice, &loop->loop.body, contract);
    extend_slice(&slice, &e->k->body, NULL);
    return slice;
}

/* Whether the points of s have a constant distance in x, which is returned in
 * *step. */
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

/* Indices that are not quotients or remainders of others. */
static bool
is_of_gemm(const Gemm *g, const KIndex *x)
{
    EmitSpace columns = {1, {g->n}};
    int known = count_terms(&g->batch, x) + count_terms(&g->m, x) +
                count_terms(&columns, x) + count_terms(&g->k, x);
    return known == x->num_terms;
}

/* Sets o's matrix if it is one in memory; side is that of the operand. */
static void
find_plain(const Gemm *g, GemmOperand *o, const EmitSpace *side)
{
    const KNode *n = o->value;
    if (n->kind == K_LOAD && !n->load.guard &&
        n->load.array->dtype == g->contract->dtype &&
        is_even(side, &n->load.at, &o->stride) &&
        is_even(&g->k, &n->load.at, &o->k_stride) && is_of_gemm(g, &n->load.at))
        o->plain = n;
}

/* The store of the loop if the accumulators are all that it stores, without an
 * epilogue. */
static const KNode *
find_direct(const Gemm *g)
{
    const KNode *store = g->loop->loop.body.last;
    if (store->kind != K_STORE || store->store.guard ||
        store->prev->kind == K_STORE || store->store.value != g->contract ||
        store->store.array->dtype != g->contract->dtype)
        return NULL;
    const KIndex *at = &store->store.at;
    bool dense = ir_dim_equal(be_index_coef(at, g->n), ir_dim_const(1));
    int64_t step;
    return dense && is_even(&g->m, at, &step) && is_of_gemm(g, at) ? store
                                                                   : NULL;
}

/* Whether one of A's values is a reduction, which has lanes of its own. */
static bool
needs_reduction(const Emit *e, const Gemm *g)
{
    for (const KNode *n = e->k->body.first; n; n = n->next) {
        if (n->kind == K_REDUCE && g->a.slice.values[n->id])
            return true;
    }
    return false;
}

/* ---- the match --------------------------------------------------- */

static bool
is_worth_it(const Emit *e, const Gemm *g)
{
    double rows = (double)be_space_bound(e->k, &g->m);
    double columns = (double)be_dim_bound(e->k, g->n->extent);
    double products = (double)be_space_bound(e->k, &g->k);
    return rows >= GEMM_FEW_ROWS && columns >= FEW_COLUMNS &&
           products >= FEW_PRODUCTS && rows * columns * products >= FEW_SUMS;
}

bool
be_find_contraction(const BeKernel *k, const KNode **contract,
                    const KNode **loop)
{
    *loop = k->grid_vector ? NULL : only_loop(&k->body);
    *contract = *loop ? only_contraction(&(*loop)->loop.body) : NULL;
    return *contract && dtype_is_float((*contract)->dtype);
}

bool
be_gemm_find(Emit *e, Gemm *g)
{
    *g = (Gemm){0};
    if (!be_find_contraction(e->k, &g->contract, &g->loop))
        return false;
    g->n = g->loop->loop.ranges.vars[0];
    g->k = be_space_of(&g->contract->contract.ranges);
    if (!find_operands(e, g))
        return false;
    be_emit_split_grid(e, g->b.value, &g->batch, &g->m);
    return g->m.count > 0;
}

bool
be_gemm_match(Emit *e, Gemm *g)
{
    if (!be_gemm_find(e, g) || !is_worth_it(e, g))
        return false;
    const KVar *row = g->m.vars[g->m.count - 1];
    find_slice(e, g, &g->a, row);
    bool reduces = needs_reduction(e, g);
    g->in_runs = !reduces && is_in_runs(e, g);
    g->a.along_k |= (g->m.count > 1 && !g->in_runs) || reduces;
    find_slice(e, g, &g->b, g->n);
    find_plain(g, &g->a, &g->m);
    find_plain(g, &g->b, &(EmitSpace){1, {g->n}});
    if (!reduces && !g->contract->contract.pairs) {
        find_m_lines(e, g);
        find_k_lines(e, g);
    }
    g->epilogue = be_slice_of_stores(e, g->contract, g->loop);
    g->direct = find_direct(g);
    return true;
}
