/*
 * emit_long.c - kernels whose long reductions threads divide among them
 *
 * Such a kernel is one item: reductions of the same length that do not depend
 * on each other, values before them, and what is computed from their results.
 * Threads fold chunks of them (emit_reduce.c), and one of them does the rest.
 */
#include "backend/codegen/emit.h"
#include "backend/kernel/kernel_impl.h"

enum { MOST_PARTS = 4096 }; /* of chunks, which are kept on a stack */

/* Which values depend on a reduction of the item, by id. */
typedef struct Late {
    bool *values;
    bool found; /* in the nodes walked so far */
} Late;

static void
note_late(KNode *n, void *data)
{
    Late *l = data;
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        l->found |= l->values[args[i]->id];
}

/* Whether n or a node in it does; earlier values are known. */
static bool
is_late(Late *l, KNode *n)
{
    l->found = false;
    note_late(n, l);
    if (n->kind == K_REDUCE) {
        be_kernel_walk(&n->reduce.body, note_late, l);
        l->found |= l->values[n->reduce.element->id];
    }
    if (n->id >= 0)
        l->values[n->id] = l->found || n->kind == K_REDUCE;
    return l->found;
}

static bool
may_be_long(const EmitLongReduces *l, const KNode *n)
{
    const KRanges *r = &n->reduce.ranges;
    return n->kind == K_REDUCE && n->reduce.vector && r->count == 1 &&
           l->count < EMIT_MAX_LONG &&
           (!l->count ||
            ir_dim_equal(r->vars[0]->extent,
                         l->reduces[0]->reduce.ranges.vars[0]->extent));
}

EmitLongReduces
be_emit_long_reduces(const BeKernel *k)
{
    static const EmitLongReduces none = {0};
    Arena *scratch = arena_new(NULL, "long reductions");
    Late late = {.values = NEW_ARRAY(scratch, bool, (size_t)k->num_values + 1)};
    EmitLongReduces l = {0};
    KRanges *ranges;
    bool good = !k->grid.count;
    for (KNode *n = k->body.first; n && good; n = n->next) {
        bool hangs = is_late(&late, n);
        if (be_kernel_body(n, &ranges)) {
            good = !hangs && may_be_long(&l, n);
            if (good)
                l.reduces[l.count++] = n;
        } else if (!be_kernel_kinds[n->kind].has_value) {
            good = !hangs || n->kind == K_STORE;
        }
    }
    arena_release(scratch);
    return good ? l : none;
}

int64_t
be_emit_num_chunks(const BeKernel *k)
{
    EmitLongReduces l = be_emit_long_reduces(k);
    int64_t bound =
        l.count ? be_ranges_bound(k, &l.reduces[0]->reduce.ranges) : 0;
    int64_t chunks = bound ? (bound - 1) / IR_CHUNK + 1 : 0;
    return chunks > 1 && chunks <= MOST_PARTS / l.count ? chunks : 0;
}

int64_t
be_emit_partial_bytes(const BeKernel *k)
{
    int64_t chunks = be_emit_num_chunks(k);
    return EMIT_PARTIAL_BYTES * chunks * be_emit_long_reduces(k).count;
}

void
be_emit_before_long(Emit *e, const EmitLongReduces *long_ones)
{
    const KNode *last = long_ones->reduces[long_ones->count - 1];
    Late late = {.values =
                     NEW_ARRAY(e->arena, bool, (size_t)e->k->num_values + 1)};
    for (KNode *n = e->k->body.first; n != last; n = n->next)
        if (!is_late(&late, n) && n->kind != K_STORE && n->kind != K_REDUCE)
            be_emit_node(e, n);
}
