/*
 * kernel_combine.c - the kernel that combines the operands of an all_reduce
 *
 * Devices with code of their own combine elements by a kernel of the plan: one
 * item is one element, of as many inputs as there are replicas.  The number of
 * elements is a batch symbol, so that one kernel serves operands of all sizes,
 * and slices of them.
 *
 * The replicas are the leaves of D2's tree, taken from left to right.  Partial
 * results wait on a stack, as the digits of a binary counter: after p pairs of
 * leaves it holds a node for each power of two in p, the largest at the bottom;
 * two of the same power become one at once.  f16 and bf16 are combined in f32
 * and rounded once.
 */
#include "backend/kernel/kernel_impl.h"

#include <assert.h>
#include "ir/type_bounds.h"

enum { DEPTH = 16 /* of the stack: enough for 2^16 replicas */ };

typedef struct Combine {
    BeKernel *k;
    IrOpKind with;
    KIndex at; /* the item */
    KNode *stack[DEPTH];
    int top; /* nodes on it */
} Combine;

/* The operation that combines two elements; NUM_OPS: there is none. */
static IrOpKind
operation_of(IrAgg how, DType dtype)
{
    if (dtype == DT_bool)
        return NUM_OPS;
    switch (how) {
    case AGG_sum:
        return OP_add;
    case AGG_max:
        return OP_maximum;
    case AGG_min:
        return OP_minimum;
    case AGG_none:
    case AGG_mean:
    case AGG_first:
    case NUM_AGGS:
        break;
    }
    return NUM_OPS;
}

/* ---- arrays and their element -------------------------------------------- */

/* As many elements as a value may have. */
static Dim
add_length(BeKernel *k, DType dtype)
{
    int64_t most = IR_MAX_BYTES / (int64_t)dtype_info[dtype].bytes;
    VEC_PUSH(k->arena, k->pairs, ((KPair){most, -1, -1}));
    return ir_dim_linear(0, 1, 0);
}

static void
add_item(Combine *c, Dim length)
{
    BeKernel *k = c->k;
    KVar *item = NEW(k->arena, KVar);
    item->extent = length;
    k->grid.vars[k->grid.count++] = item;
    k->grid_vector = true;
    c->at = (KIndex){ir_dim_const(0), 1, NEW(k->arena, KTerm)};
    c->at.terms[0] = (KTerm){ir_dim_const(1), item};
}

/* A copy for one node, since finishing a kernel sorts the terms of each. */
static KIndex
item_of(const Combine *c)
{
    KIndex at = c->at;
    at.terms = arena_copy(c->k->arena, c->at.terms, sizeof *c->at.terms);
    return at;
}

/* ---- the tree ------------------------------------------------------------ */

static void
push_leaf(Combine *c, int replica)
{
    KArray *in = c->k->arrays[K_IN].data[replica];
    KNode load = {.kind = K_LOAD, .dtype = dtype_compute(in->dtype)};
    load.load.array = in;
    load.load.at = item_of(c);
    assert(c->top < DEPTH);
    c->stack[c->top++] = be_kernel_append(c->k->arena, &c->k->body, &load);
}

/* The two on top become one. */
static void
combine_two(Combine *c)
{
    KNode *right = c->stack[--c->top], *left = c->stack[c->top - 1];
    KNode map = {.kind = K_MAP, .dtype = left->dtype};
    map.map.op = c->with;
    map.map.num_args = 2;
    map.map.args[0] = left;
    map.map.args[1] = right;
    c->stack[c->top - 1] = be_kernel_append(c->k->arena, &c->k->body, &map);
}

static KNode *
combine_all(Combine *c, int num)
{
    for (int pairs = 1; 2 * pairs <= num; pairs++) {
        push_leaf(c, 2 * pairs - 2);
        push_leaf(c, 2 * pairs - 1);
        combine_two(c);
        for (int n = pairs; n % 2 == 0; n /= 2)
            combine_two(c);
    }
    if (num % 2 == 1)
        push_leaf(c, num - 1);
    while (c->top > 1)
        combine_two(c);
    return c->stack[0];
}

/* f16 and bf16, which are f32 in a value. */
static KNode *
round_once(Combine *c, KNode *x, DType stored)
{
    if (stored == x->dtype)
        return x;
    KNode cast = {.kind = K_MAP, .dtype = x->dtype};
    cast.map.op = OP_cast;
    cast.map.to = stored;
    cast.map.num_args = 1;
    cast.map.args[0] = x;
    return be_kernel_append(c->k->arena, &c->k->body, &cast);
}

BeKernel *
be_kernel_combine(Arena *a, IrAgg how, DType dtype, int num)
{
    Combine c = {.with = operation_of(how, dtype)};
    if (c.with == NUM_OPS || num > BE_MAX_COMBINED)
        return NULL;
    assert(num >= 1);
    BeKernel *k = c.k = be_kernel_new(a);
    Dim length = add_length(k, dtype);
    for (int i = 0; i < num; i++)
        be_kernel_array(k, K_IN, dtype, length);
    KArray *out = be_kernel_array(k, K_OUT, dtype, length);
    add_item(&c, length);
    KNode store = {.kind = K_STORE};
    store.store.array = out;
    store.store.value = round_once(&c, combine_all(&c, num), dtype);
    store.store.at = item_of(&c);
    be_kernel_append(a, &k->body, &store);
    be_kernel_finish(k);
    return k;
}
