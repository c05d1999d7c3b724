/*
 * ptx_reuse.c - values that the stages of an item share
 *
 * Reductions and loops over the same indices are stages: a softmax has three.
 * Where they are emitted for the same element, one after the other, what an
 * earlier reduction has loaded, or computed in many instructions, is taken by
 * those after it; cheap values are computed again from these.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_NODES = 512, /* of all stages, where shared values are looked for */
    KEPT_COST = 4    /* instructions of a value that is worth a register */
};

struct PtxReuse {
    int num;
    const KNode *const *nodes;
    PtxSlice *needs;      /* of each: what has to be emitted, or taken */
    const KNode **firsts; /* by id: the first value that is the same at the same
                             element; NULL: the value itself */
    int *vars;            /* by id: the same of indices */
    bool *kept;           /* by id: whether a later stage takes the value */
    int num_kept;         /* registers that these are */
};

const KBlock *
be_ptx_body_of(const KNode *n)
{
    return n->kind == K_REDUCE ? &n->reduce.body
           : n->kind == K_LOOP ? &n->loop.body
                               : NULL;
}

const KRanges *
be_ptx_ranges_of(const KNode *n)
{
    return n->kind == K_REDUCE ? &n->reduce.ranges : &n->loop.ranges;
}

bool
be_ptx_is_plain(const KBlock *b)
{
    KRanges *ranges;
    for (KNode *n = b->first; n; n = n->next)
        if (be_kernel_body(n, &ranges) || n->kind == K_RUNNING)
            return false;
    return true;
}

/* ---- an item's stages ---------------------------------------------------- */

KVar *
be_ptx_stage_var(const KNode *stage)
{
    return be_ptx_ranges_of(stage)->vars[0];
}

void
be_ptx_begin_stage(Ptx *p, const KNode *stage, int width)
{
    KVar *var = be_ptx_stage_var(stage);
    p->groups = be_ptx_groups(&p->e, var, width);
    p->e.tile.row = var;
    p->e.tile.rows = width;
    p->together = false;
}

void
be_ptx_end_stage(Ptx *p)
{
    p->e.tile.row = NULL;
    p->e.tile.rows = 1;
    p->together = true;
}

int
be_ptx_stage_width(Emit *e, Dim length)
{
    int width = 1;
    for (const KNode *n = e->k->body.first; n; n = n->next) {
        if (!be_ptx_body_of(n))
            continue;
        const KVar *var = be_ptx_stage_var(n);
        int own = PTX_ALIGN / be_ptx_bytes_along(e, var).least;
        width = own > width ? own : width;
    }
    while (!be_ptx_is_whole(length, width))
        width /= 2;
    return width;
}

double
be_ptx_stage_cost(const BeKernel *k)
{
    double sum = 0;
    for (const KNode *n = k->body.first; n; n = n->next)
        sum += be_ptx_body_of(n) ? be_kernel_cost(k, be_ptx_body_of(n)) : 0;
    return sum;
}

/* ---- reductions that go together ---------------------------------------- */

static bool
same_ranges(const KRanges *x, const KRanges *y)
{
    bool same = x->count == y->count;
    for (int i = 0; same && i < x->count; i++)
        same = ir_dim_equal(x->vars[i]->extent, y->vars[i]->extent);
    return same;
}

/* Whether all that n's body uses from outside is known before `first`. */
static bool
is_known_before(const KNode *n, const KNode *first)
{
    int inside = first->id;
    const KNode *body = n->reduce.body.first;
    for (KNode *x = n->reduce.body.first; x; x = x->next) {
        KNode *args[K_MAX_ARGS];
        int num = be_kernel_args(x, args);
        for (int i = 0; i < num; i++)
            if (args[i]->id >= inside && args[i]->id < body->id)
                return false;
    }
    const KNode *element = n->reduce.element;
    return body && (element->id < inside || element->id >= body->id);
}

/* Indices of a body that are quotients of one from outside would have to be
 * known, too: such bodies go alone. */
static bool
uses_late_index(const KNode *n, const KNode *first)
{
    for (const KNode *x = first; x != n; x = x->next)
        if (be_kernel_new_index(x))
            return true;
    return false;
}

int
be_ptx_together(const KNode *first, const KNode **out, int most)
{
    int num = 0;
    for (const KNode *n = first; n && num < most; n = n->next) {
        bool joins =
            n == first ||
            (n->kind == K_REDUCE && n->reduce.vector == first->reduce.vector &&
             same_ranges(&n->reduce.ranges, &first->reduce.ranges) &&
             !uses_late_index(n, first) && is_known_before(n, first));
        if (joins)
            out[num++] = n;
        else if (be_ptx_body_of(n))
            break;
    }
    return num;
}

/* ---- equal values ------------------------------------------------------- */

static const KNode *
first_of(const PtxReuse *s, const KNode *n)
{
    return n && s->firsts[n->id] ? s->firsts[n->id] : n;
}

static bool
same_index(const PtxReuse *s, const KIndex *x, const KIndex *y)
{
    if (!ir_dim_equal(x->base, y->base) || x->num_terms != y->num_terms)
        return false;
    for (int i = 0; i < x->num_terms; i++)
        if (!ir_dim_equal(x->terms[i].coef, y->terms[i].coef) ||
            s->vars[x->terms[i].var->id] != s->vars[y->terms[i].var->id])
            return false;
    return true;
}

static bool
same_details(const KNode *x, const KNode *y)
{
    switch (x->kind) {
    case K_LOAD:
        return x->load.array == y->load.array && x->load.array->role != K_OUT;
    case K_MAP:
        return x->map.op == y->map.op && x->map.to == y->map.to;
    case K_CONST:
        return x->constant.i == y->constant.i;
    case K_INSIDE:
        return ir_dim_equal(x->inside.size, y->inside.size);
    case K_DIV:
    case K_MOD:
        return ir_dim_equal(x->divide.by, y->divide.by);
    case K_PICK:
        return ir_dim_equal(x->pick.var->extent, y->pick.var->extent);
    case K_INDEX:
        return true;
    default:
        return false;
    }
}

static bool
is_same(const PtxReuse *s, KNode *x, KNode *y)
{
    KNode *xs[K_MAX_ARGS], *ys[K_MAX_ARGS];
    if (x->kind != y->kind || x->dtype != y->dtype || !same_details(x, y))
        return false;
    int num = be_kernel_args(x, xs);
    if (num != be_kernel_args(y, ys))
        return false;
    for (int i = 0; i < num; i++)
        if (first_of(s, xs[i]) != first_of(s, ys[i]))
            return false;
    const KIndex *at = be_kernel_index(x);
    return !at || same_index(s, at, be_kernel_index(y));
}

/* The same node of an earlier reduction, or NULL. */
static KNode *
find_same(const PtxReuse *s, int before, KNode *n)
{
    for (int i = 0; i < before; i++) {
        if (s->nodes[i]->kind != K_REDUCE)
            continue;
        for (KNode *x = s->nodes[i]->reduce.body.first; x; x = x->next)
            if (is_same(s, x, n))
                return x;
    }
    return NULL;
}

static void
note_var(PtxReuse *s, const KVar *var, const KVar *same)
{
    s->vars[var->id] = s->vars[same->id];
}

static bool
is_worth_keeping(const KNode *n)
{
    return n->kind == K_LOAD ||
           (n->kind == K_MAP && ir_op_code(n->map.op)->cost >= KEPT_COST);
}

static void
share_stage(PtxReuse *s, int stage)
{
    const KRanges *first = be_ptx_ranges_of(s->nodes[0]);
    const KRanges *own = be_ptx_ranges_of(s->nodes[stage]);
    for (int i = 0; i < own->count; i++)
        note_var(s, own->vars[i], first->vars[i]);
    for (KNode *n = be_ptx_body_of(s->nodes[stage])->first; n; n = n->next) {
        KNode *same = find_same(s, stage, n);
        if (same && (n->kind == K_DIV || n->kind == K_MOD))
            note_var(s, n->divide.var, same->divide.var);
        else if (same && n->kind == K_PICK)
            note_var(s, n->pick.var, same->pick.var);
        else if (same)
            s->firsts[n->id] = first_of(s, same);
    }
}

/* ---- what a stage computes ---------------------------------------------- */

static bool
is_needed(const PtxSlice *needs, const KNode *n)
{
    return n->kind == K_STORE || be_ptx_slice_has(needs, n);
}

static bool
is_taken(const PtxReuse *s, const KNode *n)
{
    return n->id >= 0 && s->firsts[n->id] && is_worth_keeping(n);
}

static void
find_needs(const Emit *e, PtxReuse *s, int stage)
{
    const KNode *node = s->nodes[stage];
    PtxSlice *needs = &s->needs[stage];
    *needs = be_ptx_slice_new(e);
    if (node->kind == K_REDUCE)
        needs->values[node->reduce.element->id] = true;
    for (KNode *n = be_ptx_body_of(node)->last; n; n = n->prev)
        if (is_needed(needs, n) && !is_taken(s, n))
            be_ptx_slice_add_uses(needs, n);
}

/* Counts the values that the stage takes from earlier ones. */
static void
note_kept(PtxReuse *s, int stage)
{
    const KBlock *body = be_ptx_body_of(s->nodes[stage]);
    for (KNode *n = body->first; n; n = n->next) {
        if (n->id < 0 || !is_needed(&s->needs[stage], n) || !is_taken(s, n))
            continue;
        const KNode *first = first_of(s, n);
        if (!s->kept[first->id])
            s->num_kept += dtype_info[first->dtype].bytes > 4 ? 2 : 1;
        s->kept[first->id] = true;
    }
}

static int
count_nodes(const PtxReuse *s)
{
    int num = 0;
    for (int i = 0; i < s->num; i++)
        for (KNode *n = be_ptx_body_of(s->nodes[i])->first; n; n = n->next)
            num++;
    return num;
}

PtxReuse *
be_ptx_reuse(const Emit *e, const KNode *const *nodes, int num)
{
    const BeKernel *k = e->k;
    PtxReuse *s = NEW(e->arena, PtxReuse);
    s->num = num;
    s->nodes = nodes;
    s->needs = NEW_ARRAY(e->arena, PtxSlice, (size_t)num + 1);
    s->firsts = NEW_ARRAY(e->arena, const KNode *, (size_t)k->num_values + 1);
    s->kept = NEW_ARRAY(e->arena, bool, (size_t)k->num_values + 1);
    s->vars = NEW_ARRAY(e->arena, int, (size_t)k->num_vars + 1);
    for (int i = 0; i < k->num_vars; i++)
        s->vars[i] = i;
    bool few = count_nodes(s) <= MAX_NODES;
    for (int i = 0; i < num; i++) {
        if (few)
            share_stage(s, i);
        find_needs(e, s, i);
        note_kept(s, i);
    }
    return s;
}

PtxReuse *
be_ptx_reuse_all(const Emit *e)
{
    int num = 0;
    for (const KNode *n = e->k->body.first; n; n = n->next)
        num += be_ptx_body_of(n) != NULL;
    const KNode **nodes = NEW_ARRAY(e->arena, const KNode *, (size_t)num);
    num = 0;
    for (const KNode *n = e->k->body.first; n; n = n->next)
        if (be_ptx_body_of(n))
            nodes[num++] = n;
    return be_ptx_reuse(e, nodes, num);
}

int
be_ptx_reuse_kept(const PtxReuse *s)
{
    return s->num_kept;
}

const KNode *
be_ptx_reuse_only(const PtxReuse *s)
{
    const KNode *only = NULL;
    for (int i = 0; i < s->num; i++)
        for (KNode *n = be_ptx_body_of(s->nodes[i])->first; n; n = n->next) {
            if (n->id < 0 || !s->kept[n->id])
                continue;
            if (only)
                return NULL;
            only = n;
        }
    return only;
}

bool
be_ptx_reuse_is_new(const PtxReuse *s, const KNode *n)
{
    return !s->firsts[n->id];
}

const KNode *
be_ptx_reuse_taken(const PtxReuse *s, const KNode *stage, const KNode *value)
{
    for (KNode *n = be_ptx_body_of(stage)->first; n; n = n->next)
        if (n->id >= 0 && s->firsts[n->id] == value)
            return n;
    return NULL;
}

/* ---- emission ----------------------------------------------------------- */

PtxKept *
be_ptx_kept_new(const Emit *e)
{
    return NEW_ARRAY(e->arena, PtxKept, (size_t)e->k->num_values + 1);
}

static int
number_of(const PtxReuse *s, const KNode *stage)
{
    int i = 0;
    while (s->nodes[i] != stage)
        i++;
    return i;
}

void
be_ptx_reuse_emit(Emit *e, const PtxReuse *s, const KNode *stage, PtxKept *kept)
{
    const PtxSlice *needs = &s->needs[number_of(s, stage)];
    for (const KNode *n = be_ptx_body_of(stage)->first; n; n = n->next) {
        if (!is_needed(needs, n))
            continue;
        if (is_taken(s, n)) {
            e->values[n->id] = *kept[first_of(s, n)->id].value;
            continue;
        }
        be_emit_node(e, n);
        if (n->id >= 0 && s->kept[n->id]) {
            kept[n->id].value = NEW(e->arena, EmitValue);
            *kept[n->id].value = e->values[n->id];
        }
    }
}
