/*
 * kernel_needs.c - which indices the values of a kernel depend on
 */
#include "tests/ref/kernel_needs.h"

static void see_block(const KernelNeeds *needs, const KBlock *b);

static Needs
set_of(const KVar *var)
{
    return var->id < 63 ? UINT64_C(1) << var->id : NEEDS_MORE;
}

Needs
kernel_needs_ranges(const KRanges *r)
{
    Needs all = 0;
    for (int i = 0; i < r->count; i++)
        all |= set_of(r->vars[i]);
    return all;
}

static void
see_ranges(const KernelNeeds *needs, const KRanges *r)
{
    for (int i = 0; i < r->count; i++) {
        needs->vars[r->vars[i]->id] = set_of(r->vars[i]);
        needs->ranges[r->vars[i]->id] = r->vars[i];
    }
}

/* Ranges of a loop, a reduction, a contraction, and what is in it. */
static void
see_body(const KernelNeeds *needs, const KRanges *r, const KBlock *body)
{
    see_ranges(needs, r);
    see_block(needs, body);
}

static Needs
of_index(const KernelNeeds *needs, const KIndex *x)
{
    Needs all = 0;
    for (int i = 0; i < x->num_terms; i++)
        all |= needs->vars[x->terms[i].var->id];
    return all;
}

static Needs
of_value(const KernelNeeds *needs, const KNode *n)
{
    return n ? needs->values[n->id] : 0;
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

static Needs
of_load(const KernelNeeds *needs, const KNode *n)
{
    Needs more = may_change(needs->k, n->load.array) ? NEEDS_MORE : 0;
    return more | of_index(needs, &n->load.at) | of_value(needs, n->load.guard);
}

static Needs
of_map(const KernelNeeds *needs, const KNode *n)
{
    Needs all = 0;
    for (int i = 0; i < n->map.num_args; i++)
        all |= of_value(needs, n->map.args[i]);
    return all;
}

static Needs
of_reduce(const KernelNeeds *needs, const KNode *n)
{
    see_body(needs, &n->reduce.ranges, &n->reduce.body);
    return of_value(needs, n->reduce.element) &
           ~kernel_needs_ranges(&n->reduce.ranges);
}

static Needs
of_contract(const KernelNeeds *needs, const KNode *n)
{
    see_body(needs, &n->contract.ranges, &n->contract.body);
    return (of_value(needs, n->contract.x) | of_value(needs, n->contract.y)) &
           ~kernel_needs_ranges(&n->contract.ranges);
}

static Needs
of_node(const KernelNeeds *needs, const KNode *n)
{
    switch (n->kind) {
    case K_INDEX:
        return of_index(needs, &n->index);
    case K_INSIDE:
        return of_index(needs, &n->inside.index);
    case K_LOAD:
        return of_load(needs, n);
    case K_MAP:
        return of_map(needs, n);
    case K_REDUCE:
        return of_reduce(needs, n);
    case K_CONTRACT:
        return of_contract(needs, n);
    case K_RUNNING:
        return NEEDS_MORE;
    default: /* the same for all items */
        return 0;
    }
}

static void
see_node(const KernelNeeds *needs, const KNode *n)
{
    if (be_kernel_kinds[n->kind].has_value)
        needs->values[n->id] = of_node(needs, n);
    else if (n->kind == K_LOOP)
        see_body(needs, &n->loop.ranges, &n->loop.body);
    else if (n->kind == K_SCAN)
        see_body(needs, &n->scan.ranges, &n->scan.body);
    else if (n->kind == K_SORT)
        see_body(needs, &n->sort.ranges, &n->sort.body);
    else if (n->kind == K_PICK)
        needs->vars[n->pick.var->id] = of_value(needs, n->pick.value);
    else if (n->kind != K_STORE)
        needs->vars[n->divide.var->id] = of_index(needs, &n->divide.of);
}

static void
see_block(const KernelNeeds *needs, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        see_node(needs, n);
}

KernelNeeds
kernel_needs(Arena *a, const BeKernel *k)
{
    KernelNeeds needs = {
        .k = k,
        .values = NEW_ARRAY(a, Needs, (size_t)k->num_values + 1),
        .vars = NEW_ARRAY(a, Needs, (size_t)k->num_vars + 1),
        .ranges = NEW_ARRAY(a, const KVar *, (size_t)k->num_vars + 1)};
    see_body(&needs, &k->grid, &k->body);
    for (int i = 0; i < k->num_values && k->segments.len; i++)
        needs.values[i] |= NEEDS_MORE;
    return needs;
}
