/*
 * ptx_groups.c - neighbours that one access brings
 *
 * A thread executes a group of `width` neighbours along one index, the first of
 * which is a multiple of the width.  An index or a guard is then one of three
 * things in a group: the same for all; ascending by 1 from a multiple of the
 * width; or anything.  The quotient of an ascending index by a multiple of the
 * width is the same for all, and its remainder ascends: so the parts of a
 * reshaped or concatenated dimension are recognized, too.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

typedef enum Along { SAME, ASCENDING, ANY } Along;

struct PtxGroups {
    const Emit *e;
    int width;
    Along *vars, *values; /* by id; values: SAME or ANY */
};

bool
be_ptx_is_whole(Dim d, int width)
{
    return d.c % width == 0 && (ir_dim_is_const(d) || d.k % width == 0);
}

static bool
divides(int width, Dim d)
{
    return be_ptx_is_whole(d, width);
}

/* An ascending index is a multiple of the width at the first of a group, and so
 * the terms besides must be. */
static Along
along_index(const PtxGroups *g, const KIndex *x)
{
    int ascending = 0, odd = !divides(g->width, x->base);
    for (int i = 0; i < x->num_terms; i++) {
        const KTerm *t = &x->terms[i];
        if (g->vars[t->var->id] == ANY)
            return ANY;
        if (g->vars[t->var->id] == SAME) {
            odd += !divides(g->width, t->coef);
        } else {
            odd += !ir_dim_equal(t->coef, ir_dim_const(1));
            ascending++;
        }
    }
    return !ascending ? SAME : ascending == 1 && !odd ? ASCENDING : ANY;
}

static Along
along_args(const PtxGroups *g, const KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        if (g->values[args[i]->id] != SAME)
            return ANY;
    return SAME;
}

static void
note_divided(PtxGroups *g, const KNode *n)
{
    Along of = along_index(g, &n->divide.of);
    bool whole = of == ASCENDING && divides(g->width, n->divide.by);
    g->vars[n->divide.var->id] = of == SAME         ? SAME
                                 : !whole           ? ANY
                                 : n->kind == K_MOD ? ASCENDING
                                                    : SAME;
}

static void
note_inside(PtxGroups *g, const KNode *n)
{
    Along of = along_index(g, &n->inside.index);
    bool whole = of == ASCENDING && divides(g->width, n->inside.size);
    g->values[n->id] = of == SAME || whole ? SAME : ANY;
}

static void
note(KNode *n, void *data)
{
    PtxGroups *g = data;
    if (n->kind == K_DIV || n->kind == K_MOD)
        note_divided(g, n);
    else if (n->kind == K_PICK)
        g->vars[n->pick.var->id] = g->values[n->pick.value->id];
    else if (n->id >= 0 && !g->e->value_varying[n->id].row)
        g->values[n->id] = SAME;
    else if (n->kind == K_INSIDE)
        note_inside(g, n);
    else if (n->kind == K_MAP)
        g->values[n->id] = along_args(g, n);
    else if (n->id >= 0)
        g->values[n->id] = ANY;
}

PtxGroups *
be_ptx_groups(Emit *e, const KVar *row, int width)
{
    const BeKernel *k = e->k;
    PtxGroups *g = NEW(e->arena, PtxGroups);
    be_emit_find_varying(e, row);
    g->e = e;
    g->width = width;
    g->vars = NEW_ARRAY(e->arena, Along, (size_t)k->num_vars + 1);
    g->values = NEW_ARRAY(e->arena, Along, (size_t)k->num_values + 1);
    g->vars[row->id] = ASCENDING;
    KBlock body = k->body;
    be_kernel_walk(&body, note, g);
    return g;
}

bool
be_ptx_is_contiguous(const PtxGroups *g, const KIndex *x)
{
    return along_index(g, x) == ASCENDING;
}

bool
be_ptx_is_same(const PtxGroups *g, const KNode *value)
{
    return !value || g->values[value->id] == SAME;
}

/* ---- widths of accesses -------------------------------------------------- */

typedef struct Accesses {
    const PtxGroups *groups;
    PtxBytes bytes;
} Accesses;

static void
note_access(KNode *n, void *data)
{
    Accesses *a = data;
    const KArray *array = n->kind == K_LOAD    ? n->load.array
                          : n->kind == K_STORE ? n->store.array
                                               : NULL;
    if (!array || !be_ptx_is_contiguous(a->groups, be_kernel_index(n)))
        return;
    int bytes = (int)dtype_info[array->dtype].bytes;
    a->bytes.least = bytes < a->bytes.least ? bytes : a->bytes.least;
    a->bytes.most = bytes > a->bytes.most ? bytes : a->bytes.most;
}

PtxBytes
be_ptx_bytes_along(Emit *e, const KVar *row)
{
    Accesses a = {be_ptx_groups(e, row, 1), {PTX_ALIGN, 1}};
    KBlock body = e->k->body;
    be_kernel_walk(&body, note_access, &a);
    return a.bytes;
}
