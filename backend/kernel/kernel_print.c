/*
 * kernel_print.c - kernels as text
 *
 * docs/kernels.md describes the form.  The text is canonical: equal kernels
 * print equal, and the hash of the text is the kernel's name.
 */
#include <inttypes.h>
#include <math.h>
#include "backend/kernel/kernel_impl.h"
#include "ir/base/status.h"

static const char *const role_names[K_NUM_ROLES] = {"in", "out", "table"};

enum { MAX_LISTED = 64 }; /* elements of a table; more are bytes in hex */

/* ---- dimensions and indices --------------------------------------------- */

/* |k| * sym */
static void
print_symbol(Str *out, Dim d)
{
    uint64_t k = d.k < 0 ? -(uint64_t)d.k : (uint64_t)d.k;
    if (k != 1)
        str_addf(out, "%" PRIu64 "*", k);
    str_addf(out, "%c%d", d.sym % 2 ? 'N' : 'n', d.sym / 2);
}

/* Begins a summand after earlier ones: its sign with a space on both sides. */
static void
print_sign(Str *out, bool negative, bool first)
{
    if (first)
        str_add(out, negative ? "-" : "");
    else
        str_add(out, negative ? " - " : " + ");
}

static void
print_summands(Str *out, Dim d, bool first)
{
    if (!ir_dim_is_const(d)) {
        print_sign(out, d.k < 0, first);
        print_symbol(out, d);
        first = false;
    }
    if (d.c != 0 || first) {
        print_sign(out, d.c < 0, first);
        str_addf(out, "%" PRIu64, d.c < 0 ? -(uint64_t)d.c : (uint64_t)d.c);
    }
}

static void
print_dim(Str *out, Dim d)
{
    print_summands(out, d, true);
}

static void
print_term(Str *out, const KTerm *t, bool first)
{
    Dim c = t->coef;
    if (!ir_dim_is_const(c) && c.c != 0) {
        print_sign(out, false, first);
        str_add(out, "(");
        print_dim(out, c);
        str_add(out, ")*");
    } else if (!ir_dim_is_const(c)) {
        print_sign(out, c.k < 0, first);
        print_symbol(out, c);
        str_add(out, "*");
    } else {
        print_sign(out, c.c < 0, first);
        if (c.c != 1 && c.c != -1)
            str_addf(out, "%" PRIu64 "*",
                     c.c < 0 ? -(uint64_t)c.c : (uint64_t)c.c);
    }
    str_addf(out, "i%d", t->var->id);
}

static void
print_index(Str *out, const KIndex *x)
{
    for (int i = 0; i < x->num_terms; i++)
        print_term(out, &x->terms[i], i == 0);
    if (x->num_terms == 0 || !ir_dim_equal(x->base, ir_dim_const(0)))
        print_summands(out, x->base, x->num_terms == 0);
}

static void
print_ranges(Str *out, const KRanges *r)
{
    for (int i = 0; i < r->count; i++) {
        str_addf(out, i ? ", i%d < " : " i%d < ", r->vars[i]->id);
        print_dim(out, r->vars[i]->extent);
    }
}

static void
print_access(Str *out, const KArray *array, const KIndex *at)
{
    str_addf(out, " %s%d[", role_names[array->role], array->index);
    print_index(out, at);
    str_add(out, "]");
}

/* ---- numbers ------------------------------------------------------------ */

static void
print_scalar(Str *out, Scalar s)
{
    if (dtype_is_float(s.dtype))
        str_add_float(out, s.f, s.dtype != DT_f64);
    else if (s.dtype == DT_bool)
        str_add(out, s.i ? "true" : "false");
    else
        str_addf(out, "%" PRId64, s.i);
}

static void
print_hex(Str *out, const unsigned char *bytes, size_t n)
{
    str_add(out, "hex\"");
    for (size_t i = 0; i < n; i++)
        str_addf(out, "%02x", bytes[i]);
    str_add(out, "\"");
}

static void
print_table(Str *out, const KArray *t)
{
    if (t->size.c > MAX_LISTED) {
        size_t bytes = (size_t)t->size.c * dtype_info[t->dtype].bytes;
        print_hex(out, t->data, bytes);
        return;
    }
    str_add(out, "[");
    for (int64_t i = 0; i < t->size.c; i++) {
        str_add(out, i ? ", " : "");
        print_scalar(out, scalar_load(t->dtype, t->data, i));
    }
    str_add(out, "]");
}

/* ---- nodes -------------------------------------------------------------- */

static void print_block(Str *out, const KBlock *b, int depth);

static void
indent(Str *out, int depth)
{
    for (int i = 0; i < depth; i++)
        str_add(out, "  ");
}

static void
open_body(Str *out, const KRanges *r, const KBlock *b, int depth)
{
    print_ranges(out, r);
    str_add(out, " {\n");
    print_block(out, b, depth + 1);
}

static void
close_body(Str *out, int depth)
{
    indent(out, depth);
    str_add(out, "}");
}

static void
print_yield(Str *out, const KNode *x, const KNode *y, int depth)
{
    indent(out, depth + 1);
    str_addf(out, "yield %%%d", x->id);
    if (y)
        str_addf(out, ", %%%d", y->id);
    str_add(out, "\n");
    close_body(out, depth);
}

static void
print_reduce(Str *out, const KNode *n, int depth)
{
    str_addf(out, " %s", be_kernel_reduces[n->reduce.op].name);
    str_add(out, n->reduce.vector ? " vector" : "");
    open_body(out, &n->reduce.ranges, &n->reduce.body, depth);
    print_yield(out, n->reduce.element, NULL, depth);
}

static void
print_map(Str *out, const KNode *n)
{
    str_add(out, ir_op_info[n->map.op].name);
    if (n->map.op == OP_cast)
        str_addf(out, " %s", dtype_info[n->map.to].name);
    for (int i = 0; i < n->map.num_args; i++)
        str_addf(out, i ? ", %%%d" : " %%%d", n->map.args[i]->id);
}

static void
print_inside(Str *out, const KNode *n)
{
    str_add(out, " ");
    print_index(out, &n->inside.index);
    str_add(out, " < ");
    print_dim(out, n->inside.size);
}

static void
print_load(Str *out, const KNode *n)
{
    print_access(out, n->load.array, &n->load.at);
    if (n->load.guard)
        str_addf(out, " if %%%d", n->load.guard->id);
}

/* i2 < 4 = div 12*i0 + i1, 3 */
static void
print_divide(Str *out, const KNode *n)
{
    str_addf(out, "i%d < ", n->divide.var->id);
    print_dim(out, n->divide.var->extent);
    str_addf(out, " = %s ", be_kernel_kinds[n->kind].text);
    print_index(out, &n->divide.of);
    str_add(out, ", ");
    print_dim(out, n->divide.by);
}

/* i2 < 4 = pick %3 */
static void
print_pick(Str *out, const KNode *n)
{
    str_addf(out, "i%d < ", n->pick.var->id);
    print_dim(out, n->pick.var->extent);
    str_addf(out, " = pick %%%d", n->pick.value->id);
}

static void
print_contract(Str *out, const KNode *n, int depth)
{
    static const char *const orders[] = {[IR_NO_PAIRS] = "",
                                         [IR_TWO_CHAINS] = " pairs",
                                         [IR_ONE_CHAIN] = " one_chain"};
    str_add(out, orders[n->contract.pairs]);
    str_add(out, n->contract.tf32 ? " tf32" : "");
    open_body(out, &n->contract.ranges, &n->contract.body, depth);
    print_yield(out, n->contract.x, n->contract.y, depth);
}

/* The text after the word that begins a value's node. */
static void
print_value(Str *out, const KNode *n, int depth)
{
    switch (n->kind) {
    case K_CONST:
        str_add(out, " ");
        print_scalar(out, n->constant);
        return;
    case K_INDEX:
        str_add(out, " ");
        print_index(out, &n->index);
        return;
    case K_ROW_START:
        str_addf(out, " n%d", n->pair);
        return;
    case K_INSIDE:
        print_inside(out, n);
        return;
    case K_LOAD:
        print_load(out, n);
        return;
    case K_RUNNING:
        str_add(out, n->running.exclusive ? " before" : "");
        str_addf(out, " %%%d along ", n->running.value->id);
        print_index(out, &n->running.along);
        return;
    case K_REDUCE:
        print_reduce(out, n, depth);
        return;
    case K_CONTRACT:
        print_contract(out, n, depth);
        return;
    case K_REPLICA_ID:
    case K_MAP:
    case K_DIV:
    case K_MOD:
    case K_PICK:
    case K_LOOP:
    case K_SCAN:
    case K_SORT:
    case K_STORE:
    case K_NUM_KINDS:
        return;
    }
}

/* sort first 2 out0[2*i0] i1 < 4 { ... yield %0 } */
static void
print_sort(Str *out, const KNode *n, int depth)
{
    str_add(out, n->sort.descending ? "sort descending" : "sort");
    if (n->sort.first)
        str_addf(out, " first %lld", (long long)n->sort.first);
    print_access(out, n->sort.array, &n->sort.at);
    open_body(out, &n->sort.ranges, &n->sort.body, depth);
    print_yield(out, n->sort.element, NULL, depth);
}

static void
print_statement(Str *out, const KNode *n, int depth)
{
    switch (n->kind) {
    case K_LOOP:
        str_add(out, n->loop.vector    ? "vector"
                     : n->loop.ordered ? "ordered"
                                       : "loop");
        open_body(out, &n->loop.ranges, &n->loop.body, depth);
        close_body(out, depth);
        return;
    case K_SCAN:
        str_add(out, n->scan.reverse ? "scan reverse" : "scan");
        open_body(out, &n->scan.ranges, &n->scan.body, depth);
        close_body(out, depth);
        return;
    case K_SORT:
        print_sort(out, n, depth);
        return;
    case K_STORE:
        str_add(out, "store");
        print_access(out, n->store.array, &n->store.at);
        str_addf(out, ", %%%d", n->store.value->id);
        if (n->store.guard)
            str_addf(out, " if %%%d", n->store.guard->id);
        return;
    case K_PICK:
        print_pick(out, n);
        return;
    case K_DIV:
    case K_MOD:
        print_divide(out, n);
        return;
    case K_CONST:
    case K_INDEX:
    case K_REPLICA_ID:
    case K_ROW_START:
    case K_INSIDE:
    case K_LOAD:
    case K_MAP:
    case K_REDUCE:
    case K_CONTRACT:
    case K_RUNNING:
    case K_NUM_KINDS:
        UNREACHABLE("a value among statements");
    }
}

static void
print_node(Str *out, const KNode *n, int depth)
{
    indent(out, depth);
    if (!be_kernel_kinds[n->kind].has_value) {
        print_statement(out, n, depth);
    } else {
        str_addf(out, "%%%d: %s = ", n->id, dtype_info[n->dtype].name);
        if (n->kind == K_MAP)
            print_map(out, n);
        else
            str_add(out, be_kernel_kinds[n->kind].text);
        print_value(out, n, depth);
    }
    str_add(out, "\n");
}

static void
print_block(Str *out, const KBlock *b, int depth)
{
    for (const KNode *n = b->first; n; n = n->next)
        print_node(out, n, depth);
}

/* ---- kernels ------------------------------------------------------------ */

static void
print_pairs(Str *out, const BeKernel *k)
{
    for (int i = 0; i < k->pairs.len; i++) {
        const KPair *p = &k->pairs.data[i];
        str_addf(out, "%s n%d <= %" PRId64, i ? "," : "symbols", i, p->bound);
        if (p->total >= 0)
            str_addf(out, " N%d <= %" PRId64, i, p->total);
    }
    str_add(out, k->pairs.len ? "\n" : "");
}

static void
print_array(Str *out, const KArray *array)
{
    const char *role = role_names[array->role];
    str_addf(out, "%s %s%d: %s[", role, role, array->index,
             dtype_info[array->dtype].name);
    print_dim(out, array->size);
    str_add(out, "]");
    if (array->from)
        str_addf(out, " from in%d", array->from->index);
    if (array->role == K_TABLE) {
        str_add(out, " = ");
        print_table(out, array);
    }
    str_add(out, "\n");
}

static void
print_parts(Str *out, const BeKernel *k)
{
    for (int i = 0; i < k->segments.len; i++)
        str_addf(out, "%s %" PRId64, i ? "," : "parts", k->segments.data[i]);
    str_add(out, k->segments.len ? "\n" : "");
}

void
be_kernel_print_rest(Str *out, const BeKernel *k)
{
    print_pairs(out, k);
    for (int role = 0; role < K_NUM_ROLES; role++)
        for (int i = 0; i < k->arrays[role].len; i++)
            print_array(out, k->arrays[role].data[i]);
    print_parts(out, k);
    str_add(out, k->grid_vector ? "grid vector" : "grid");
    open_body(out, &k->grid, &k->body, 0);
    str_add(out, "}\n");
}

void
be_kernel_print(Str *out, const BeKernel *k)
{
    str_addf(out, "kernel %s\n", k->name);
    be_kernel_print_rest(out, k);
}
