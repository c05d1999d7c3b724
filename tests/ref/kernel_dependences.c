/*
 * kernel_dependences.c - which indices the values of a kernel depend on
 */
#include "tests/ref/kernel_dependences.h"

static void see_block(const KernelDependences *on, const KBlock *b);

static IndexSet
set_of(const KVar *var)
{
    return var->id < 63 ? UINT64_C(1) << var->id : INDEX_SET_MORE;
}

IndexSet
kernel_range_set(const KRanges *r)
{
    IndexSet all = 0;
    for (int i = 0; i < r->count; i++)
        all |= set_of(r->vars[i]);
    return all;
}

static void
see_ranges(const KernelDependences *on, const KRanges *r)
{
    for (int i = 0; i < r->count; i++) {
        on->vars[r->vars[i]->id] = set_of(r->vars[i]);
        on->ranges[r->vars[i]->id] = r->vars[i];
    }
}

/* Ranges of a loop, a reduction, a contraction, and what is in it. */
static void
see_body(const KernelDependences *on, const KRanges *r, const KBlock *body)
{
    see_ranges(on, r);
    see_block(on, body);
}

static IndexSet
of_index(const KernelDependences *on, const KIndex *x)
{
    IndexSet all = 0;
    for (int i = 0; i < x->num_terms; i++)
        all |= on->vars[x->terms[i].var->id];
    return all;
}

static IndexSet
of_value(const KernelDependences *on, const KNode *n)
{
    return n ? on->values[n->id] : 0;
}

/* An output, or an input that one begins as: they may be the same memory. */
static bool
may_change(const BeKernel *k, const KArray *array)
{
    bool may = array->role == K_OUT;
    for (int i = 0; i < k->arrays[K_OUT].len; i++)
        may |= k->arrays[K_OUT].data[i]->from == array;
    return may;
}

static IndexSet
of_load(const KernelDependences *on, const KNode *n)
{
    IndexSet more = may_change(on->k, n->load.array) ? INDEX_SET_MORE : 0;
    return more | of_index(on, &n->load.at) | of_value(on, n->load.guard);
}

static IndexSet
of_map(const KernelDependences *on, const KNode *n)
{
    IndexSet all = 0;
    for (int i = 0; i < n->map.num_args; i++)
        all |= of_value(on, n->map.args[i]);
    return all;
}

static IndexSet
of_reduce(const KernelDependences *on, const KNode *n)
{
    see_body(on, &n->reduce.ranges, &n->reduce.body);
    return of_value(on, n->reduce.element) &
           ~kernel_range_set(&n->reduce.ranges);
}

static IndexSet
of_contract(const KernelDependences *on, const KNode *n)
{
    see_body(on, &n->contract.ranges, &n->contract.body);
    return (of_value(on, n->contract.x) | of_value(on, n->contract.y)) &
           ~kernel_range_set(&n->contract.ranges);
}

static IndexSet
of_node(const KernelDependences *on, const KNode *n)
{
    switch (n->kind) {
    case K_INDEX:
        return of_index(on, &n->index);
    case K_INSIDE:
        return of_index(on, &n->inside.index);
    case K_LOAD:
        return of_load(on, n);
    case K_MAP:
        return of_map(on, n);
    case K_REDUCE:
        return of_reduce(on, n);
    case K_CONTRACT:
        return of_contract(on, n);
    case K_RUNNING:
        return INDEX_SET_MORE;
    default: /* the same for all items */
        return 0;
    }
}

static void
see_node(const KernelDependences *on, const KNode *n)
{
    if (be_kernel_kinds[n->kind].has_value)
        on->values[n->id] = of_node(on, n);
    else if (n->kind == K_LOOP)
        see_body(on, &n->loop.ranges, &n->loop.body);
    else if (n->kind == K_SCAN)
        see_body(on, &n->scan.ranges, &n->scan.body);
    else if (n->kind == K_SORT)
        see_body(on, &n->sort.ranges, &n->sort.body);
    else if (n->kind == K_PICK)
        on->vars[n->pick.var->id] = of_value(on, n->pick.value);
    else if (n->kind != K_STORE)
        on->vars[n->divide.var->id] = of_index(on, &n->divide.of);
}

static void
see_block(const KernelDependences *on, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        see_node(on, n);
}

KernelDependences
kernel_dependences(Arena *a, const BeKernel *k)
{
    KernelDependences on = {
        .k = k,
        .values = NEW_ARRAY(a, IndexSet, (size_t)k->num_values + 1),
        .vars = NEW_ARRAY(a, IndexSet, (size_t)k->num_vars + 1),
        .ranges = NEW_ARRAY(a, const KVar *, (size_t)k->num_vars + 1)};
    see_body(&on, &k->grid, &k->body);
    for (int i = 0; i < k->num_values && k->segments.len; i++)
        on.values[i] |= INDEX_SET_MORE;
    return on;
}
