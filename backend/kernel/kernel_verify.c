/*
 * kernel_verify.c - the invariants that code generation relies on
 *
 * One walk in the order of the text, which tracks the definitions in scope.
 * Only the first error is reported: a kernel is small, and is made by this
 * compiler or by editing a dump.
 */
#include "backend/kernel/kernel_impl.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/rules/eval.h"
#include "ir/base/status.h"

typedef struct Check {
    const BeKernel *k;
    Arena *scratch;
    const char *error; /* the first, or NULL */
    bool *has_value, *has_var, *is_stored;
    bool *is_divided; /* vars of DIV, whose range is an upper bound only */
    bool in_vector, in_body;
    const KNode *scan;     /* whose body is being checked, itself, or NULL */
    int num_running;       /* seen in it */
    VEC(int) values, vars; /* defined, in order: cut back with a block */
} Check;

__attribute__((format(printf, 2, 3))) static void
fail(Check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!c->error)
        c->error = message_vprintf(c->scratch, format, args);
    va_end(args);
}

/* ---- dimensions, indices and ranges ------------------------------------- */

static void
check_dim(Check *c, Dim d)
{
    int pair = d.sym / 2;
    if (!ir_dim_is_const(d) &&
        (pair >= c->k->pairs.len ||
         (d.sym % 2 && c->k->pairs.data[pair].total < 0)))
        fail(c, "a dimension has no batch symbol");
}

static void
check_index(Check *c, const KIndex *x)
{
    check_dim(c, x->base);
    for (int i = 0; i < x->num_terms; i++) {
        for (int j = 0; j < i; j++)
            if (x->terms[j].var == x->terms[i].var)
                fail(c, "i%d is in an index twice", x->terms[i].var->id);
        check_dim(c, x->terms[i].coef);
        if (!c->has_var[x->terms[i].var->id])
            fail(c, "i%d is not known there", x->terms[i].var->id);
    }
}

static void
define_var(Check *c, const KVar *v)
{
    check_dim(c, v->extent);
    if (ir_dim_is_const(v->extent) && v->extent.c < 0)
        fail(c, "i%d has a negative range", v->id);
    c->has_var[v->id] = true;
    VEC_PUSH(c->scratch, c->vars, v->id);
}

/* The value of d when all batches are full. */
static int64_t
dim_full(const Check *c, Dim d)
{
    if (ir_dim_is_const(d))
        return d.c;
    const KPair *p = &c->k->pairs.data[d.sym / 2];
    return ir_dim_value(d, d.sym % 2 ? p->total : p->bound);
}

/* Whether x is in 0 .. size - 1 for all values of its indices, if that can be
 * proved and if there are any. */
static bool
is_in_range(const Check *c, const KIndex *x, Dim size)
{
    int64_t low = dim_full(c, x->base), high = low, reach;
    for (int i = 0; i < x->num_terms; i++) {
        const KVar *v = x->terms[i].var;
        int64_t extent = dim_full(c, v->extent);
        int64_t coef = dim_full(c, x->terms[i].coef);
        if (extent <= 0 || c->is_divided[v->id])
            return true;
        if (__builtin_mul_overflow(coef, extent - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach,
                                   reach < 0 ? &low : &high))
            return false;
    }
    return low >= 0 && high < dim_full(c, size);
}

static void
check_access(Check *c, const KArray *array, const KIndex *at)
{
    if (!is_in_range(c, at, array->size))
        fail(c, "an index is out of the range of its array");
}

/* ---- types -------------------------------------------------------------- */

/* The dtypes that elementwise rules of ops.def require of the last operand (a
 * choice has its condition before). */
typedef struct TypeRule {
    const char *name;
    bool floats, ints, bools;
    bool gives_bool;
} TypeRule;

static const TypeRule type_rules[] = {
    {"numeric", true, true, false, false},
    {"float", true, false, false, false},
    {"boolean", false, false, true, false},
    {"bits", false, true, false, false},
    {"float_to_bool", true, false, false, true},
    {"compare", true, true, true, true},
    {"order", true, true, false, true},
    {"where", true, true, true, false},
    {"any", true, true, true, false},
};

static bool
rule_allows(const TypeRule *rule, DType t)
{
    if (t == DT_bool)
        return rule->bools;
    return dtype_is_float(t) ? rule->floats : rule->ints;
}

static void
check_map_types(Check *c, const KNode *n)
{
    const char *name = ir_op_info[n->map.op].dtype_rule;
    DType t = n->map.args[n->map.num_args - 1]->dtype;
    bool ok = false;
    for (size_t i = 0; i < sizeof type_rules / sizeof *type_rules; i++) {
        const TypeRule *rule = &type_rules[i];
        if (strcmp(rule->name, name) == 0)
            ok = rule_allows(rule, t) &&
                 n->dtype == (rule->gives_bool ? DT_bool : t);
    }
    for (int i = 0; i < n->map.num_args; i++) {
        bool condition = i == 0 && n->map.op == OP_where;
        ok &= n->map.args[i]->dtype == (condition ? DT_bool : t);
    }
    ok &= n->map.op != OP_random || t == DT_i64;
    if (!ok)
        fail(c, "%%%d has operands of wrong dtypes", n->id);
}

static void
check_map(Check *c, const KNode *n)
{
    if (!ir_can_eval(n->map.op) ||
        n->map.num_args != ir_op_info[n->map.op].num_in)
        fail(c, "%%%d is no elementwise operation", n->id);
    else if (n->map.op != OP_cast)
        check_map_types(c, n);
    else if (n->dtype != dtype_compute(n->map.to))
        fail(c, "%%%d has not the dtype of its cast", n->id);
}

/* ---- nodes -------------------------------------------------------------- */

static void check_block(Check *c, const KBlock *b);

/* Everything begun here ends with cut_back. */
typedef struct Mark {
    int values, vars;
    bool in_vector, in_body;
    const KNode *scan;
} Mark;

static Mark
mark(const Check *c)
{
    return (Mark){c->values.len, c->vars.len, c->in_vector, c->in_body,
                  c->scan};
}

static void
cut_back(Check *c, Mark m)
{
    while (c->values.len > m.values)
        c->has_value[VEC_POP(c->values)] = false;
    while (c->vars.len > m.vars)
        c->has_var[VEC_POP(c->vars)] = false;
    c->in_vector = m.in_vector;
    c->in_body = m.in_body;
    c->scan = m.scan;
}

static void
check_value(Check *c, const KNode *used, const KNode *by)
{
    if (!used || used->id < 0 || !c->has_value[used->id])
        fail(c, "%%%d uses a value that is not known there", by->id);
}

/* Opens the index space of a node, along the lanes or not. */
static void
enter(Check *c, const KRanges *r, bool vector)
{
    if (vector && c->in_vector)
        fail(c, "a vector is inside of another one");
    c->in_vector |= vector;
    c->scan = NULL;
    for (int i = 0; i < r->count; i++)
        define_var(c, r->vars[i]);
}

static void
check_reduce(Check *c, const KNode *n)
{
    const KReduceInfo *info = &be_kernel_reduces[n->reduce.op];
    Mark m = mark(c);
    enter(c, &n->reduce.ranges, n->reduce.vector);
    c->in_body = true;
    check_block(c, &n->reduce.body);
    check_value(c, n->reduce.element, n);
    cut_back(c, m);
    if (c->error)
        return;
    DType t = n->reduce.element->dtype;
    bool logical = info->fold == OP_or || info->fold == OP_and;
    if ((t == DT_bool) != logical || n->dtype != (info->arg ? DT_i64 : t))
        fail(c, "%%%d reduces elements of the wrong dtype", n->id);
    if (n->reduce.ranges.count == 0)
        fail(c, "%%%d reduces no index", n->id);
}

static void
check_contract(Check *c, const KNode *n)
{
    Mark m = mark(c);
    enter(c, &n->contract.ranges, false);
    c->in_body = true;
    check_block(c, &n->contract.body);
    check_value(c, n->contract.x, n);
    check_value(c, n->contract.y, n);
    cut_back(c, m);
    if (!c->error && (n->contract.x->dtype != n->dtype ||
                      n->contract.y->dtype != n->dtype || n->dtype == DT_bool))
        fail(c, "%%%d multiplies elements of the wrong dtype", n->id);
    if (!c->error && n->contract.pairs &&
        !(be_kernel_fits(n->contract.x, DT_bf16) &&
          be_kernel_fits(n->contract.y, DT_bf16)))
        fail(c, "%%%d adds pairs of elements that may not be bf16", n->id);
    if (!c->error && n->contract.tf32 && n->dtype != DT_f32)
        fail(c, "%%%d rounds elements to TF32 that are not f32", n->id);
}

/* Neighbouring lanes must store to neighbouring elements. */
static void
check_lanes(Check *c, const KBlock *b, const KVar *lanes)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind == K_LOOP)
            check_lanes(c, &n->loop.body, lanes);
        if (n->kind == K_SCAN)
            check_lanes(c, &n->scan.body, lanes);
        if (n->kind == K_STORE &&
            !ir_dim_equal(be_index_coef(&n->store.at, lanes), ir_dim_const(1)))
            fail(c, "a vector over i%d does not store along memory", lanes->id);
    }
}

static void
check_vector(Check *c, const KRanges *r, const KBlock *body)
{
    if (r->count == 1)
        check_lanes(c, body, r->vars[0]);
    else
        fail(c, "a vector loop has %d indices", r->count);
}

static void
check_loop(Check *c, const KNode *n)
{
    Mark m = mark(c);
    if (n->loop.vector)
        check_vector(c, &n->loop.ranges, &n->loop.body);
    enter(c, &n->loop.ranges, n->loop.vector);
    check_block(c, &n->loop.body);
    cut_back(c, m);
    if (c->in_body)
        fail(c, "a loop stands in the body of a reduction");
}

static void
check_scan(Check *c, const KNode *n)
{
    Mark m = mark(c);
    if (c->in_body)
        fail(c, "a scan stands in the body of a reduction");
    if (n->scan.ranges.count != 1)
        fail(c, "a scan has %d indices", n->scan.ranges.count);
    enter(c, &n->scan.ranges, false);
    c->scan = n;
    c->num_running = 0;
    check_block(c, &n->scan.body);
    if (c->num_running != 1)
        fail(c, "a scan has %d running sums", c->num_running);
    cut_back(c, m);
}

static void
check_running(Check *c, const KNode *n)
{
    const KIndex *along = &n->running.along;
    bool ok = c->scan && along->num_terms == 1 &&
              along->terms[0].var == c->scan->scan.ranges.vars[0] &&
              ir_dim_equal(along->terms[0].coef, ir_dim_const(1)) &&
              ir_dim_equal(along->base, ir_dim_const(0));
    if (!ok)
        fail(c, "%%%d does not run along the scan it stands in", n->id);
    else if (n->running.value->dtype != n->dtype || n->dtype == DT_bool)
        fail(c, "%%%d adds elements of the wrong dtype", n->id);
    c->num_running++;
}

/* The place of the last number, as far as an index determines it. */
static void
check_sorted(Check *c, const KNode *n)
{
    Dim count = n->sort.ranges.vars[0]->extent;
    int64_t first = n->sort.first;
    if (first && (!ir_dim_is_const(count) || first > count.c)) {
        fail(c, "a sort stores more numbers than it has elements");
        return;
    }
    KIndex last = {.base = first ? ir_dim_const(first) : count};
    bool ok = ir_dim_sub(last.base, ir_dim_const(1), &last.base) &&
              be_index_add(c->scratch, &n->sort.at, &last, &last);
    if (!ok)
        fail(c, "a sort goes out of the range of its array");
    else if (dim_full(c, count) > 0)
        check_access(c, n->sort.array, &last);
}

static void
check_sort(Check *c, const KNode *n)
{
    Mark m = mark(c);
    if (c->in_body || c->in_vector)
        fail(c, "a sort stands in a vector or in the body of a reduction");
    if (n->sort.ranges.count != 1)
        fail(c, "a sort has %d indices", n->sort.ranges.count);
    if (n->sort.array->role != K_OUT || n->sort.array->dtype != DT_i64)
        fail(c, "a sort is not to an output of i64");
    if (c->error)
        return;
    check_access(c, n->sort.array, &n->sort.at);
    check_sorted(c, n);
    c->is_stored[n->sort.array->index] = true;
    enter(c, &n->sort.ranges, true);
    c->in_body = true;
    check_block(c, &n->sort.body);
    check_value(c, n->sort.element, n);
    cut_back(c, m);
}

static void
check_store(Check *c, const KNode *n)
{
    const KArray *array = n->store.array;
    if (array->role != K_OUT || c->in_body)
        fail(c, "a store is not to an output, or in a reduction");
    else if (n->store.guard && n->store.guard->dtype != DT_bool)
        fail(c, "the guard of a store is no bool");
    else if (!c->error && n->store.value->dtype != dtype_compute(array->dtype))
        fail(c, "out%d gets values of another dtype", array->index);
    else
        c->is_stored[array->index] = true;
    if (!n->store.guard)
        check_access(c, array, &n->store.at);
}

/* Whether an output overwrites the input. */
static bool
is_begun(const BeKernel *k, const KArray *in)
{
    for (int i = 0; i < k->arrays[K_OUT].len; i++)
        if (k->arrays[K_OUT].data[i]->from == in)
            return true;
    return false;
}

static void
check_load(Check *c, const KNode *n)
{
    const KArray *array = n->load.array;
    bool loaded = array->role != K_OUT || array->from;
    if (!loaded || n->dtype != dtype_compute(array->dtype))
        fail(c, "%%%d does not load what it says", n->id);
    if (is_begun(c->k, array))
        fail(c, "in%d is loaded though an output begins as it", array->index);
    if (!n->load.guard)
        check_access(c, array, &n->load.at);
    else if (n->load.guard->dtype != DT_bool)
        fail(c, "the guard of %%%d is no bool", n->id);
}

static void
check_divide(Check *c, const KNode *n)
{
    check_dim(c, n->divide.by);
    if (ir_dim_is_const(n->divide.by) && n->divide.by.c < 1)
        fail(c, "i%d is divided by less than 1", n->divide.var->id);
    define_var(c, n->divide.var);
    c->is_divided[n->divide.var->id] = n->kind == K_DIV;
}

static void
check_pick(Check *c, const KNode *n)
{
    if (n->pick.value->dtype != DT_i64)
        fail(c, "i%d is picked by what is no i64", n->pick.var->id);
    if (ir_dim_equal(n->pick.var->extent, ir_dim_const(0)))
        fail(c, "i%d has nothing to pick", n->pick.var->id);
    define_var(c, n->pick.var);
}

static void
check_dtype(Check *c, const KNode *n, DType t)
{
    if (n->dtype != t)
        fail(c, "%%%d is no %s", n->id, dtype_info[t].name);
}

static void
check_kind(Check *c, const KNode *n)
{
    switch (n->kind) {
    case K_CONST:
        check_dtype(c, n, n->constant.dtype);
        check_dtype(c, n, dtype_compute(n->dtype));
        break;
    case K_INDEX:
        check_dtype(c, n, DT_i64);
        break;
    case K_REPLICA_ID:
        check_dtype(c, n, DT_i32);
        break;
    case K_ROW_START:
        check_dtype(c, n, DT_i64);
        check_dim(c, ir_dim_linear(0, 1, 2 * n->pair));
        break;
    case K_INSIDE:
        check_dtype(c, n, DT_bool);
        check_dim(c, n->inside.size);
        break;
    case K_LOAD:
        check_load(c, n);
        break;
    case K_MAP:
        check_map(c, n);
        break;
    case K_REDUCE:
        check_reduce(c, n);
        break;
    case K_CONTRACT:
        check_contract(c, n);
        break;
    case K_LOOP:
        check_loop(c, n);
        break;
    case K_SCAN:
        check_scan(c, n);
        break;
    case K_SORT:
        check_sort(c, n);
        break;
    case K_RUNNING:
        check_running(c, n);
        break;
    case K_STORE:
        check_store(c, n);
        break;
    case K_PICK:
        check_pick(c, n);
        break;
    case K_DIV:
    case K_MOD:
        check_divide(c, n);
        break;
    case K_NUM_KINDS:
        UNREACHABLE("a node of no kind");
    }
}

static void
check_node(Check *c, KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        check_value(c, args[i], n);
    if (be_kernel_index(n))
        check_index(c, be_kernel_index(n));
    if (c->error)
        return;
    check_kind(c, n);
    if (be_kernel_kinds[n->kind].has_value) {
        c->has_value[n->id] = true;
        VEC_PUSH(c->scratch, c->values, n->id);
    }
}

static void
check_block(Check *c, const KBlock *b)
{
    for (KNode *n = b->first; n && !c->error; n = n->next)
        check_node(c, n);
}

/* ---- the kernel --------------------------------------------------------- */

/* An output must have the dtype and size of the input that it begins as. */
static void
check_from(Check *c, const KArray *out)
{
    const KArray *in = out->from;
    if (in && (in->role != K_IN || in->dtype != out->dtype ||
               !ir_dim_equal(in->size, out->size)))
        fail(c, "out%d cannot begin as an array of another kind", out->index);
}

static void
check_arrays(Check *c)
{
    for (int role = 0; role < K_NUM_ROLES; role++) {
        for (int i = 0; i < c->k->arrays[role].len; i++) {
            Dim size = c->k->arrays[role].data[i]->size;
            check_dim(c, size);
            if (ir_dim_is_const(size) && size.c < 0)
                fail(c, "an array has a negative size");
            check_from(c, c->k->arrays[role].data[i]);
        }
    }
}

static void
check_grid(Check *c)
{
    const BeKernel *k = c->k;
    Dim items = ir_dim_const(1);
    for (int i = 0; i < k->grid.count; i++) {
        if (!ir_dim_mul(items, k->grid.vars[i]->extent, &items))
            fail(c, "the number of items is no dimension");
    }
    if (k->grid_vector)
        check_vector(c, &k->grid, &k->body);
    enter(c, &k->grid, k->grid_vector);
}

/* ---- parts -------------------------------------------------------------- */

/* An array of a segment is like that of the first: as long as the segment, or
 * of one element. */
static void
check_part_array(Check *c, const KArray *array)
{
    const BeKernel *k = c->k;
    int own = be_kernel_segment_arrays(k, array->role);
    const KArray *first = k->arrays[array->role].data[array->index % own];
    int64_t length = k->segments.data[array->index / own];
    bool whole = ir_dim_equal(first->size, ir_dim_const(k->segments.data[0]));
    Dim size = ir_dim_const(whole ? length : 1);
    if (array->dtype != first->dtype || !ir_dim_equal(array->size, size) ||
        array->from)
        fail(c, "the parts' arrays are not alike");
}

/* Whether x is 0 or the item's number. */
static bool
is_item(const KIndex *x)
{
    return ir_dim_equal(x->base, ir_dim_const(0)) &&
           (x->num_terms == 0 ||
            (x->num_terms == 1 &&
             ir_dim_equal(x->terms[0].coef, ir_dim_const(1))));
}

static void
check_part_node(Check *c, const KNode *n)
{
    const BeKernel *k = c->k;
    const KArray *array = n->kind == K_LOAD    ? n->load.array
                          : n->kind == K_STORE ? n->store.array
                                               : NULL;
    if (array && (array->index >= be_kernel_segment_arrays(k, array->role) ||
                  !is_item(n->kind == K_LOAD ? &n->load.at : &n->store.at)))
        fail(c, "a part's body has elements of the first part alone");
    if (!array && n->kind != K_MAP && n->kind != K_CONST)
        fail(c, "a part's body computes elements from elements");
}

static void
check_segments(Check *c)
{
    const BeKernel *k = c->k;
    int num = k->segments.len;
    if (!num)
        return;
    if (!k->grid_vector ||
        !ir_dim_equal(k->grid.vars[0]->extent,
                      ir_dim_const(k->segments.data[0])) ||
        k->arrays[K_TABLE].len || k->arrays[K_IN].len % num ||
        k->arrays[K_OUT].len % num) {
        fail(c, "parts are for kernels along one index");
        return;
    }
    for (int role = K_IN; role <= K_OUT; role++)
        for (int i = 0; i < k->arrays[role].len; i++)
            check_part_array(c, k->arrays[role].data[i]);
    for (const KNode *n = k->body.first; n; n = n->next)
        check_part_node(c, n);
}

static void
check_kernel(Check *c)
{
    check_arrays(c);
    check_grid(c);
    check_block(c, &c->k->body);
    if (!c->error)
        check_segments(c);
    for (int i = 0; i < be_kernel_segment_arrays(c->k, K_OUT); i++) {
        if (!c->is_stored[i])
            fail(c, "out%d is never stored", i);
    }
}

bool
be_kernel_verify(const BeKernel *k, Diag *d, Loc loc)
{
    Arena *scratch = arena_new(k->arena, "kernel verify");
    Check c = {.k = k, .scratch = scratch};
    c.has_value = NEW_ARRAY(scratch, bool, k->num_values);
    c.has_var = NEW_ARRAY(scratch, bool, k->num_vars);
    c.is_divided = NEW_ARRAY(scratch, bool, k->num_vars);
    c.is_stored = NEW_ARRAY(scratch, bool, k->arrays[K_OUT].len);
    check_kernel(&c);
    bool ok = c.error == NULL;
    if (!ok)
        diag_error(d, loc, "kernel %s: %s", k->name, c.error);
    arena_release(scratch);
    return ok;
}
