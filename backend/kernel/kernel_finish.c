/*
 * kernel_finish.c - the last step of making a kernel
 *
 * Values and indices are numbered in the order of the text, which is canonical
 * then; its hash is the kernel's name.
 */
#include "backend/kernel/kernel_impl.h"

#include <assert.h>
#include "ir/base/hash/hash.h"

static void
number_ranges(BeKernel *k, const KRanges *r)
{
    for (int i = 0; i < r->count; i++)
        r->vars[i]->id = k->num_vars++;
}

/* By ascending id; expressions are short. */
static void
sort_terms(KIndex *x)
{
    for (int i = 1; i < x->num_terms; i++) {
        KTerm t = x->terms[i];
        int j = i;
        for (; j > 0 && x->terms[j - 1].var->id > t.var->id; j--)
            x->terms[j] = x->terms[j - 1];
        x->terms[j] = t;
    }
}

static void
number_node(KNode *n, void *data)
{
    BeKernel *k = data;
    KRanges *ranges;
    KVar *index = be_kernel_new_index(n);
    n->id = be_kernel_kinds[n->kind].has_value ? k->num_values++ : -1;
    k->uses_replica |= n->kind == K_REPLICA_ID;
    if (be_kernel_index(n))
        sort_terms(be_kernel_index(n));
    if (index)
        index->id = k->num_vars++;
    if (be_kernel_body(n, &ranges))
        number_ranges(k, ranges);
}

void
be_kernel_finish(BeKernel *k)
{
    assert(k->arena && !k->name);
    k->num_vars = k->num_values = 0;
    k->uses_replica = false;
    number_ranges(k, &k->grid);
    be_kernel_walk(&k->body, number_node, k);

    Str text = str_new(k->arena);
    be_kernel_print_rest(&text, k);
    k->name = arena_printf(k->arena, "k_%s",
                           hash_text(k->arena, str_text(&text), text.len));
    k->text = str_text(&text);
    k->text_len = text.len;
}
