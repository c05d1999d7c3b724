/*
 * ptx_slice.c - the part of a kernel that some values follow from
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

PtxSlice
be_ptx_slice_new(const Emit *e)
{
    return (PtxSlice){
        .values = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_values + 1),
        .vars = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_vars + 1)};
}

bool
be_ptx_slice_has(const PtxSlice *s, const KNode *n)
{
    const KVar *index = be_kernel_new_index(n);
    if (index)
        return s->vars[index->id];
    return n->id >= 0 && s->values[n->id];
}

void
be_ptx_slice_add_uses(PtxSlice *s, KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        s->values[args[i]->id] = true;
    const KIndex *x = be_kernel_index(n);
    for (int i = 0; x && i < x->num_terms; i++)
        s->vars[x->terms[i].var->id] = true;
}

/* Users of a value come after it. */
void
be_ptx_slice_close(PtxSlice *s, const KBlock *b)
{
    for (KNode *n = b->last; n; n = n->prev)
        if (be_ptx_slice_has(s, n))
            be_ptx_slice_add_uses(s, n);
}

PtxSlice
be_ptx_slice_of_elements(const Emit *e, const KBlock *b)
{
    PtxSlice s = be_ptx_slice_new(e);
    for (KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_REDUCE)
            continue;
        s.values[n->reduce.element->id] = true;
        for (KNode *inner = n->reduce.body.first; inner; inner = inner->next)
            be_ptx_slice_add_uses(&s, inner);
    }
    be_ptx_slice_close(&s, b);
    return s;
}

void
be_ptx_slice_emit(Emit *e, const PtxSlice *s, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        if (be_ptx_slice_has(s, n))
            be_emit_node(e, n);
}
