/*
 * kernel_eval.c - kernels, executed node by node
 *
 * A reduction collects its elements first and folds them then, in the very
 * words of docs/ir.md.  A contraction collects its operands; those of a row are
 * the same for each column, so that they are kept for the next one.
 */
#include "tests/ref/kernel_eval.h"

#include <math.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/rules/eval.h"
#include "ir/rules/pairs.h"
#include "ir/rules/sums.h"
#include "tests/ref/kernel_dependences.h"

/* The operands x or y of a contraction, for each value of the indices that they
 * depend on and that are around it: their rows by the number of that point. */
typedef struct Operands {
    const KVar *around[63];
    int num_around;
    Scalar **rows;   /* NULL: they are not kept */
    Scalar *scratch; /* one that is not kept */
} Operands;

typedef struct Contraction {
    Operands x, y;
    int64_t count; /* of products */
} Contraction;

typedef struct Eval {
    Arena *arena;
    const BeKernel *k;
    void *const *ptrs;
    const int64_t *dims;
    Scalar *values; /* by id */
    int64_t *vars;  /* by id */
    int number;     /* of the part whose item it is */

    KernelDependences depends;
    Contraction **contractions; /* by the id of the value; NULL: not met yet */

    /* of the current scan */
    int64_t round;
    Scalar before, part, sum; /* of blocks before, of this one, of all */
} Eval;

/* An element of a reduction and its number. */
typedef struct Element {
    Scalar value;
    int64_t number;
} Element;

typedef VEC(Element) Elements;

static void eval_block(Eval *e, const KBlock *b);

/* ---- dimensions and indices --------------------------------------------- */

static int64_t
dim_now(const Eval *e, Dim d)
{
    if (ir_dim_is_const(d))
        return d.c;
    return ir_dim_value(d, e->dims[be_kernel_symbol_word(d.sym)]);
}

static int64_t
index_now(const Eval *e, const KIndex *x)
{
    int64_t sum = dim_now(e, x->base);
    for (int i = 0; i < x->num_terms; i++)
        sum += dim_now(e, x->terms[i].coef) * e->vars[x->terms[i].var->id];
    return sum;
}

static int64_t
num_points(const Eval *e, const KRanges *r)
{
    int64_t n = 1;
    for (int i = 0; i < r->count; i++) {
        int64_t extent = dim_now(e, r->vars[i]->extent);
        n *= extent < 0 ? 0 : extent;
    }
    return n;
}

/* Sets the indices of r to its point number `point`, in row-major order; they
 * are those of the point before, unless it is the first. */
static void
next_point(Eval *e, const KRanges *r, int64_t point)
{
    for (int i = r->count - 1; i >= 0; i--) {
        int64_t *x = &e->vars[r->vars[i]->id];
        *x = point ? *x + 1 : 0;
        if (point && *x < dim_now(e, r->vars[i]->extent))
            return;
        *x = 0;
    }
}

/* ... from any other point. */
static void
set_point(Eval *e, const KRanges *r, int64_t point)
{
    for (int i = r->count - 1; i >= 0; i--) {
        int64_t extent = dim_now(e, r->vars[i]->extent);
        e->vars[r->vars[i]->id] = point % extent;
        point /= extent;
    }
}

static int64_t
floor_divide(int64_t x, int64_t by)
{
    return x / by - (x % by < 0);
}

static void
eval_divide(Eval *e, const KNode *n)
{
    int64_t x = index_now(e, &n->divide.of), by = dim_now(e, n->divide.by);
    int64_t q = floor_divide(x, by < 1 ? 1 : by);
    e->vars[n->divide.var->id] = n->kind == K_DIV ? q : x - q * by;
}

static void
eval_pick(Eval *e, const KNode *n)
{
    int64_t x = e->values[n->pick.value->id].i;
    int64_t last = dim_now(e, n->pick.var->extent) - 1;
    x = x > last ? last : x;
    e->vars[n->pick.var->id] = x < 0 ? 0 : x;
}

/* ---- memory ------------------------------------------------------------- */

static int64_t
checked_index(const Eval *e, const KArray *array, const KIndex *x)
{
    int own = be_kernel_segment_arrays(e->k, array->role);
    const KArray *of_part =
        e->k->arrays[array->role].data[array->index + e->number * own];
    int64_t at = index_now(e, x), size = dim_now(e, of_part->size);
    if (at < 0 || at >= size)
        UNREACHABLE("element %lld of an array of %lld", (long long)at,
                    (long long)size);
    return at;
}

static void *
memory_of(const Eval *e, const KArray *array)
{
    int before = array->role == K_OUT ? e->k->arrays[K_IN].len : 0;
    before += e->number * be_kernel_segment_arrays(e->k, array->role);
    return e->ptrs[before + array->index];
}

static Scalar
eval_load(const Eval *e, const KNode *n)
{
    const KArray *array = n->load.array;
    if (n->load.guard && !e->values[n->load.guard->id].i)
        return scalar_cast(scalar_int(DT_i64, 0), n->dtype);
    const void *from =
        array->role == K_TABLE ? array->data : memory_of(e, array);
    int64_t at = checked_index(e, array, &n->load.at);
    return scalar_cast(scalar_load(array->dtype, from, at), n->dtype);
}

static void
eval_store(const Eval *e, const KNode *n)
{
    const KArray *array = n->store.array;
    if (n->store.guard && !e->values[n->store.guard->id].i)
        return;
    scalar_store(array->dtype, memory_of(e, array),
                 checked_index(e, array, &n->store.at),
                 e->values[n->store.value->id]);
}

/* ---- reductions and contractions ---------------------------------------- */

/* Whether x beats y, which has the lower number. */
static bool
beats(KReduce op, Scalar x, Scalar y)
{
    if (!dtype_is_float(x.dtype))
        return op == K_REDUCE_argmax ? x.i > y.i : x.i < y.i;
    if (isnan(x.f) || isnan(y.f))
        return isnan(x.f) && !isnan(y.f);
    return op == K_REDUCE_argmax ? x.f > y.f : x.f < y.f;
}

static Element
fold_arg(KReduce op, Element x, Element y)
{
    Element *low = x.number < y.number ? &x : &y, *high = low == &x ? &y : &x;
    return beats(op, high->value, low->value) ? *high : *low;
}

static Element
fold(KReduce op, Element x, Element y)
{
    const KReduceInfo *info = &be_kernel_reduces[op];
    if (info->arg)
        return fold_arg(op, x, y);
    const Scalar both[] = {x.value, y.value};
    x.value = ir_eval(info->fold, x.value.dtype, both);
    return x;
}

/* A chunk at most: striped over lanes, then a binary tree. */
static Element
fold_chunk(KReduce op, const Element *elements, int64_t n)
{
    Element lanes[IR_STRIPES];
    for (int64_t i = 0; i < n; i++)
        lanes[i % IR_STRIPES] =
            i < IR_STRIPES ? elements[i]
                           : fold(op, lanes[i % IR_STRIPES], elements[i]);
    for (int w = IR_STRIPES / 2; w >= 1; w /= 2)
        for (int i = 0; i < w && i + w < n; i++)
            lanes[i] = fold(op, lanes[i], lanes[i + w]);
    return lanes[0];
}

static Scalar
fold_all(KReduce op, DType dtype, const Elements *all)
{
    const int64_t chunk = IR_CHUNK;
    Element total = {0};
    if (all->len == 0)
        return be_kernel_reduces[op].arg
                   ? scalar_int(DT_i64, 0)
                   : ir_eval_neutral(be_kernel_reduces[op].op, dtype);
    for (int64_t i = 0; i < all->len; i += chunk) {
        int64_t n = all->len - i < chunk ? all->len - i : chunk;
        Element part = fold_chunk(op, all->data + i, n);
        total = i ? fold(op, total, part) : part;
    }
    return be_kernel_reduces[op].arg ? scalar_int(DT_i64, total.number)
                                     : total.value;
}

static Scalar
eval_reduce(Eval *e, const KNode *n)
{
    Elements all = {0};
    int64_t count = num_points(e, &n->reduce.ranges);
    for (int64_t i = 0; i < count; i++) {
        next_point(e, &n->reduce.ranges, i);
        eval_block(e, &n->reduce.body);
        VEC_PUSH(e->arena, all,
                 ((Element){e->values[n->reduce.element->id], i}));
    }
    return fold_all(n->reduce.op, n->dtype, &all);
}

/* The number of the point that the indices around have now. */
static int64_t
point_around(const Eval *e, const Operands *o)
{
    int64_t point = 0;
    for (int i = 0; i < o->num_around; i++)
        point = point * dim_now(e, o->around[i]->extent) +
                e->vars[o->around[i]->id];
    return point;
}

/* At most so many are kept. */
enum { MAX_KEPT = 1 << 22 };

static Operands
begin_operands(const Eval *e, const KNode *n, const KNode *value, int64_t count)
{
    Operands o = {0};
    IndexSet on = e->depends.values[value->id];
    IndexSet around = on & ~kernel_range_set(&n->contract.ranges);
    int64_t points = 1;
    for (int id = 0; id < 63 && id < e->k->num_vars; id++) {
        if (!(around >> id & 1))
            continue;
        o.around[o.num_around++] = e->depends.ranges[id];
        points *= dim_now(e, e->depends.ranges[id]->extent);
    }
    if (!(around & INDEX_SET_MORE) && points <= MAX_KEPT / (count + 1))
        o.rows = NEW_ARRAY(e->arena, Scalar *, (size_t)points + 1);
    return o;
}

static Contraction *
contraction_of(Eval *e, const KNode *n)
{
    Contraction **found = &e->contractions[n->id];
    if (*found)
        return *found;
    *found = NEW(e->arena, Contraction);
    int64_t count = (*found)->count = num_points(e, &n->contract.ranges);
    (*found)->x = begin_operands(e, n, n->contract.x, count);
    (*found)->y = begin_operands(e, n, n->contract.y, count);
    return *found;
}

/* The row for the indices around as they are; *known stays if it has been
 * collected. */
static Scalar *
row_of(Eval *e, Operands *o, int64_t count, bool *known)
{
    Scalar **row = o->rows ? &o->rows[point_around(e, o)] : &o->scratch;
    *known &= o->rows && *row;
    if (!*row)
        *row = NEW_ARRAY(e->arena, Scalar, (size_t)count + 1);
    return *row;
}

static void
collect(Eval *e, const KNode *n, int64_t count, Scalar *x, Scalar *y)
{
    for (int64_t i = 0; i < count; i++) {
        next_point(e, &n->contract.ranges, i);
        eval_block(e, &n->contract.body);
        x[i] = e->values[n->contract.x->id];
        y[i] = e->values[n->contract.y->id];
    }
}

static Scalar
multiply_add(Scalar x, Scalar y, Scalar sum)
{
    if (x.dtype == DT_f32)
        return (Scalar){DT_f32, {fmaf((float)x.f, (float)y.f, (float)sum.f)}};
    if (x.dtype == DT_f64)
        return (Scalar){DT_f64, {fma(x.f, y.f, sum.f)}};
    Scalar product = ir_eval(OP_mul, x.dtype, (const Scalar[]){x, y});
    return ir_eval(OP_add, x.dtype, (const Scalar[]){product, sum});
}

/* The products of a block, added in pairs. */
static Scalar
sum_pairs(const KNode *n, const Scalar *x, const Scalar *y, int64_t count)
{
    IrPairs pairs = {.order = n->contract.pairs};
    for (int64_t i = 0; i < count; i++)
        ir_pairs_add(&pairs, (float)x[i].f, (float)y[i].f);
    return scalar_float(n->dtype, ir_pairs_sum(&pairs));
}

static Scalar
sum_chain(const KNode *n, const Scalar *x, const Scalar *y, int64_t count)
{
    Scalar acc = scalar_cast(scalar_int(DT_i64, 0), n->dtype);
    for (int64_t i = 0; i < count; i++)
        acc = multiply_add(x[i], y[i], acc);
    return acc;
}

static Scalar
eval_contract(Eval *e, const KNode *n)
{
    const int64_t block = IR_K_BLOCK;
    Scalar total = scalar_cast(scalar_int(DT_i64, 0), n->dtype);
    Contraction *c = contraction_of(e, n);
    bool known = true;
    Scalar *x = row_of(e, &c->x, c->count, &known);
    Scalar *y = row_of(e, &c->y, c->count, &known);
    if (!known)
        collect(e, n, c->count, x, y);
    for (int64_t start = 0; start < c->count; start += block) {
        int64_t left = c->count - start, num = left < block ? left : block;
        Scalar acc = n->contract.pairs
                         ? sum_pairs(n, x + start, y + start, num)
                         : sum_chain(n, x + start, y + start, num);
        total = start ? ir_eval(OP_add, n->dtype, (const Scalar[]){total, acc})
                      : acc;
    }
    return total;
}

/* ---- scans and sorts ---------------------------------------------------- */

static Scalar
sum_of(Scalar x, Scalar y)
{
    return ir_eval(OP_add, x.dtype, (const Scalar[]){x, y});
}

/* In a block the elements so far; that and the blocks before. */
static Scalar
eval_running(Eval *e, const KNode *n)
{
    const int64_t block = IR_SCAN_BLOCK;
    Scalar x = e->values[n->running.value->id];
    Scalar zero = scalar_cast(scalar_int(DT_i64, 0), n->dtype);
    Scalar was = e->round ? e->sum : zero;
    e->part = e->round % block ? sum_of(e->part, x) : x;
    e->sum = e->round < block ? e->part : sum_of(e->before, e->part);
    if (e->round % block == block - 1)
        e->before = e->sum;
    return n->running.exclusive ? was : e->sum;
}

static void
eval_scan(Eval *e, const KNode *n)
{
    int64_t count = num_points(e, &n->scan.ranges);
    for (int64_t i = 0; i < count; i++) {
        e->round = i;
        set_point(e, &n->scan.ranges, n->scan.reverse ? count - 1 - i : i);
        eval_block(e, &n->scan.body);
    }
}

/* Whether y, which comes after x in the input, precedes it in the order. */
static bool
is_out_of_order(const KNode *n, Scalar x, Scalar y)
{
    if (!dtype_is_float(x.dtype))
        return n->sort.descending ? y.i > x.i : y.i < x.i;
    if (isnan(x.f) || isnan(y.f))
        return n->sort.descending ? isnan(y.f) && !isnan(x.f)
                                  : isnan(x.f) && !isnan(y.f);
    return n->sort.descending ? y.f > x.f : y.f < x.f;
}

/* By merging neighbouring runs. */
static void
sort_elements(const KNode *n, Element *x, Element *scratch, int64_t count)
{
    int64_t half = count / 2, i = 0, j = half;
    if (count < 2)
        return;
    sort_elements(n, x, scratch, half);
    sort_elements(n, x + half, scratch, count - half);
    memcpy(scratch, x, (size_t)count * sizeof *x);
    for (int64_t to = 0; to < count; to++) {
        bool second = i == half ||
                      (j < count &&
                       is_out_of_order(n, scratch[i].value, scratch[j].value));
        x[to] = scratch[second ? j++ : i++];
    }
}

static void
eval_sort(Eval *e, const KNode *n)
{
    int64_t count = num_points(e, &n->sort.ranges);
    Element *x = NEW_ARRAY(e->arena, Element, (size_t)count + 1);
    Element *scratch = NEW_ARRAY(e->arena, Element, (size_t)count + 1);
    for (int64_t i = 0; i < count; i++) {
        next_point(e, &n->sort.ranges, i);
        eval_block(e, &n->sort.body);
        x[i] = (Element){e->values[n->sort.element->id], i};
    }
    sort_elements(n, x, scratch, count);
    int64_t first = index_now(e, &n->sort.at);
    int64_t stored = n->sort.first ? n->sort.first : count;
    if (stored && first + stored > dim_now(e, n->sort.array->size))
        UNREACHABLE("a sort beyond the end of its array");
    for (int64_t i = 0; i < stored; i++)
        scalar_store(DT_i64, memory_of(e, n->sort.array), first + i,
                     scalar_int(DT_i64, x[i].number));
}

/* ---- nodes -------------------------------------------------------------- */

static Scalar
eval_map(const Eval *e, const KNode *n)
{
    Scalar args[3];
    for (int i = 0; i < n->map.num_args; i++)
        args[i] = e->values[n->map.args[i]->id];
    if (n->map.op == OP_cast)
        return scalar_cast(scalar_cast(args[0], n->map.to), n->dtype);
    return ir_eval(n->map.op, n->dtype, args);
}

static Scalar
eval_inside(const Eval *e, const KNode *n)
{
    int64_t x = index_now(e, &n->inside.index);
    return scalar_int(DT_bool, x >= 0 && x < dim_now(e, n->inside.size));
}

static Scalar
eval_value(Eval *e, const KNode *n)
{
    switch (n->kind) {
    case K_CONST:
        return n->constant;
    case K_INDEX:
        return scalar_int(DT_i64, index_now(e, &n->index));
    case K_REPLICA_ID:
        return scalar_int(DT_i32, e->dims[be_kernel_replica_word(e->k)]);
    case K_ROW_START:
        return scalar_int(DT_i64,
                          e->dims[ir_batch_word(n->pair, BATCH_ROW_START)]);
    case K_INSIDE:
        return eval_inside(e, n);
    case K_LOAD:
        return eval_load(e, n);
    case K_MAP:
        return eval_map(e, n);
    case K_REDUCE:
        return eval_reduce(e, n);
    case K_CONTRACT:
        return eval_contract(e, n);
    case K_RUNNING:
        return eval_running(e, n);
    default:
        UNREACHABLE("a node without value");
    }
}

static void
eval_loop(Eval *e, const KNode *n)
{
    int64_t count = num_points(e, &n->loop.ranges);
    for (int64_t i = 0; i < count; i++) {
        next_point(e, &n->loop.ranges, i);
        eval_block(e, &n->loop.body);
    }
}

static void
eval_node(Eval *e, const KNode *n)
{
    if (be_kernel_kinds[n->kind].has_value)
        e->values[n->id] = eval_value(e, n);
    else if (n->kind == K_LOOP)
        eval_loop(e, n);
    else if (n->kind == K_SCAN)
        eval_scan(e, n);
    else if (n->kind == K_SORT)
        eval_sort(e, n);
    else if (n->kind == K_STORE)
        eval_store(e, n);
    else if (n->kind == K_PICK)
        eval_pick(e, n);
    else
        eval_divide(e, n);
}

static void
eval_block(Eval *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        eval_node(e, n);
}

/* ---- kernels ------------------------------------------------------------ */

int64_t
kernel_eval_items(const BeKernel *k, const int64_t *dims)
{
    Eval e = {.k = k, .dims = dims};
    return k->segments.len ? be_kernel_items(k).c : num_points(&e, &k->grid);
}

/* Of one of several parts: the items of those before it come first. */
static void
set_item(Eval *e, int64_t item)
{
    const BeKernel *k = e->k;
    if (!k->segments.len) {
        set_point(e, &k->grid, item);
        return;
    }
    for (e->number = 0; item >= k->segments.data[e->number]; e->number++)
        item -= k->segments.data[e->number];
    e->vars[k->grid.vars[0]->id] = item;
}

void
kernel_eval(const BeKernel *k, void *const *ptrs, const int64_t *dims,
            int64_t begin, int64_t end)
{
    Arena *arena = arena_new(NULL, "kernel eval");
    Eval e = {.arena = arena, .k = k, .ptrs = ptrs, .dims = dims};
    e.values = NEW_ARRAY(arena, Scalar, k->num_values);
    e.vars = NEW_ARRAY(arena, int64_t, k->num_vars);
    e.depends = kernel_dependences(arena, k);
    e.contractions = NEW_ARRAY(arena, Contraction *, (size_t)k->num_values + 1);
    for (int64_t item = begin; item < end; item++) {
        set_item(&e, item);
        eval_block(&e, &k->body);
    }
    arena_release(arena);
}
