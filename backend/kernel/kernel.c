/*
 * kernel.c - kernels as a structure: tables, indices, walks, names
 */
#include "backend/kernel/kernel_impl.h"

#include <assert.h>
#include <string.h>
#include "ir/base/status.h"

const KKindInfo be_kernel_kinds[K_NUM_KINDS] = {
#define KNODE(name, text, value, doc) {#text, value},
#include "backend/kernel/kernels.def"
#undef KNODE
};

const KReduceInfo be_kernel_reduces[K_NUM_REDUCES] = {
#define KREDUCE(name, op, fold, doc)                                           \
    {#name, OP_##op, OP_##fold, OP_##op == OP_argmax || OP_##op == OP_argmin},
#include "backend/kernel/kernels.def"
#undef KREDUCE
};

/* ---- indices ------------------------------------------------------------ */

Dim
be_index_coef(const KIndex *x, const KVar *var)
{
    for (int i = 0; i < x->num_terms; i++) {
        if (x->terms[i].var == var)
            return x->terms[i].coef;
    }
    return ir_dim_const(0);
}

KVar *
be_kernel_new_index(const KNode *n)
{
    return n->kind == K_DIV || n->kind == K_MOD ? n->divide.var
           : n->kind == K_PICK                  ? n->pick.var
                                                : NULL;
}

bool
be_block_defines_index(const KBlock *b, const KIndex *x)
{
    for (const KNode *n = b->first; n; n = n->next) {
        const KVar *own = be_kernel_new_index(n);
        for (int i = 0; own && i < x->num_terms; i++)
            if (x->terms[i].var == own)
                return true;
    }
    return false;
}

bool
be_index_equal(const KIndex *x, const KIndex *y)
{
    if (x->num_terms != y->num_terms || !ir_dim_equal(x->base, y->base))
        return false;
    for (int i = 0; i < x->num_terms; i++) {
        if (x->terms[i].var != y->terms[i].var ||
            !ir_dim_equal(x->terms[i].coef, y->terms[i].coef))
            return false;
    }
    return true;
}

/* Appends a term, unless its coefficient is 0. */
static void
push_term(KIndex *x, Dim coef, KVar *var)
{
    if (!ir_dim_equal(coef, ir_dim_const(0)))
        x->terms[x->num_terms++] = (KTerm){coef, var};
}

/* Whether each index is there once, by ascending id. */
static bool
is_ascending(const KIndex *x)
{
    for (int i = 1; i < x->num_terms; i++) {
        if (x->terms[i - 1].var->id >= x->terms[i].var->id)
            return false;
    }
    return true;
}

bool
be_index_add(Arena *a, const KIndex *x, const KIndex *y, KIndex *out)
{
    assert(is_ascending(x) && is_ascending(y));
    KIndex sum = {.terms = NEW_ARRAY(a, KTerm, x->num_terms + y->num_terms)};
    if (!ir_dim_add(x->base, y->base, &sum.base))
        return false;
    int i = 0, j = 0;
    while (i < x->num_terms || j < y->num_terms) {
        const KTerm *s = i < x->num_terms ? &x->terms[i] : NULL;
        const KTerm *t = j < y->num_terms ? &y->terms[j] : NULL;
        Dim coef;
        if (s && t && s->var == t->var) {
            if (!ir_dim_add(s->coef, t->coef, &coef))
                return false;
            push_term(&sum, coef, s->var);
            i++, j++;
        } else if (s && (!t || s->var->id < t->var->id)) {
            push_term(&sum, s->coef, s->var);
            i++;
        } else {
            push_term(&sum, t->coef, t->var);
            j++;
        }
    }
    *out = sum;
    return true;
}

bool
be_index_scale(Arena *a, const KIndex *x, Dim by, KIndex *out)
{
    KIndex product = {.terms = NEW_ARRAY(a, KTerm, x->num_terms)};
    if (!ir_dim_mul(x->base, by, &product.base))
        return false;
    for (int i = 0; i < x->num_terms; i++) {
        Dim coef;
        if (!ir_dim_mul(x->terms[i].coef, by, &coef))
            return false;
        push_term(&product, coef, x->terms[i].var);
    }
    *out = product;
    return true;
}

/* ---- structure ---------------------------------------------------------- */

BeKernel *
be_kernel_new(Arena *a)
{
    BeKernel *k = NEW(a, BeKernel);
    k->arena = a;
    return k;
}

KArray *
be_kernel_array(BeKernel *k, KRole role, DType dtype, Dim size)
{
    assert(role < K_NUM_ROLES);
    KArray *array = NEW(k->arena, KArray);
    array->role = role;
    array->index = k->arrays[role].len;
    array->dtype = dtype;
    array->size = size;
    VEC_PUSH(k->arena, k->arrays[role], array);
    return array;
}

KNode *
be_kernel_append(Arena *a, KBlock *b, const KNode *node)
{
    assert(node->kind < K_NUM_KINDS && !b->first == !b->last);
    KNode *n = arena_copy(a, node, sizeof *node);
    n->prev = b->last;
    n->next = NULL;
    *(b->last ? &b->last->next : &b->first) = n;
    b->last = n;
    return n;
}

/* Operations whose operands are looked at, from the last back. */
enum { FIT_DEPTH = 6 };

static bool
fits_within(const KNode *n, DType dtype, int depth)
{
    if (n->dtype == DT_bool)
        return true;
    if (n->kind == K_LOAD)
        return n->load.array->dtype == dtype;
    if (n->kind == K_CONST)
        return scalar_cast(n->constant, dtype).f == n->constant.f;
    if (n->kind != K_MAP || n->dtype != DT_f32 || depth == 0)
        return false;
    if (n->map.op == OP_cast)
        return n->map.to == dtype;
    for (int i = 0; i < n->map.num_args; i++) {
        if (!fits_within(n->map.args[i], dtype, depth - 1))
            return false;
    }
    return ir_op_code(n->map.op)->exact;
}

bool
be_kernel_fits(const KNode *n, DType dtype)
{
    return n->dtype == DT_f32 && fits_within(n, dtype, FIT_DEPTH);
}

KBlock *
be_kernel_body(KNode *n, KRanges **ranges)
{
    switch (n->kind) {
    case K_REDUCE:
        *ranges = &n->reduce.ranges;
        return &n->reduce.body;
    case K_CONTRACT:
        *ranges = &n->contract.ranges;
        return &n->contract.body;
    case K_LOOP:
        *ranges = &n->loop.ranges;
        return &n->loop.body;
    case K_SCAN:
        *ranges = &n->scan.ranges;
        return &n->scan.body;
    case K_SORT:
        *ranges = &n->sort.ranges;
        return &n->sort.body;
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
    case K_STORE:
        return NULL;
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

int
be_kernel_args(const KNode *n, KNode **args)
{
    switch (n->kind) {
    case K_LOAD:
        args[0] = n->load.guard;
        return n->load.guard != NULL;
    case K_MAP:
        memcpy(args, n->map.args, sizeof n->map.args);
        return n->map.num_args;
    case K_STORE:
        args[0] = n->store.value;
        args[1] = n->store.guard;
        return n->store.guard ? 2 : 1;
    case K_PICK:
        args[0] = n->pick.value;
        return 1;
    case K_RUNNING:
        args[0] = n->running.value;
        return 1;
    case K_CONST:
    case K_INDEX:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_INSIDE:
    case K_REDUCE:
    case K_CONTRACT:
    case K_DIV:
    case K_MOD:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
        return 0;
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

KIndex *
be_kernel_index(KNode *n)
{
    switch (n->kind) {
    case K_INDEX:
        return &n->index;
    case K_INSIDE:
        return &n->inside.index;
    case K_LOAD:
        return &n->load.at;
    case K_STORE:
        return &n->store.at;
    case K_RUNNING:
        return &n->running.along;
    case K_SORT:
        return &n->sort.at;
    case K_DIV:
    case K_MOD:
        return &n->divide.of;
    case K_CONST:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_MAP:
    case K_REDUCE:
    case K_CONTRACT:
    case K_PICK:
    case K_LOOP:
    case K_SCAN:
        return NULL;
    case K_NUM_KINDS:
        break;
    }
    UNREACHABLE("a node of no kind");
}

void
be_kernel_walk(KBlock *b, void (*visit)(KNode *n, void *data), void *data)
{
    KRanges *ranges;
    for (KNode *n = b->first; n; n = n->next) {
        visit(n, data);
        KBlock *body = be_kernel_body(n, &ranges);
        if (body)
            be_kernel_walk(body, visit, data);
    }
}

static int
num_parts(const BeKernel *k)
{
    return k->segments.len ? k->segments.len : 1;
}

int
be_kernel_segment_arrays(const BeKernel *k, KRole role)
{
    return k->arrays[role].len / num_parts(k);
}

static Dim
items_of_parts(const BeKernel *k)
{
    int64_t items = 0;
    for (int i = 0; i < k->segments.len; i++)
        items += k->segments.data[i];
    return ir_dim_const(items);
}

int
be_kernel_number(const BeKernels *kernels, const BeKernel *k)
{
    int before = 0;
    for (int i = 0; i < kernels->len; i++)
        before += strcmp(kernels->data[i]->name, k->name) < 0;
    return before;
}

Dim
be_kernel_items(const BeKernel *k)
{
    Dim items = ir_dim_const(1);
    if (k->segments.len)
        return items_of_parts(k);
    for (int i = 0; i < k->grid.count; i++) {
        if (!ir_dim_mul(items, k->grid.vars[i]->extent, &items))
            UNREACHABLE("the grid of %s has no size", k->name);
    }
    return items;
}
