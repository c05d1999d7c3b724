/*
 * kernel_region.c - regions, their operands, and their kernels
 */
#include "tests/kernels/kernel_region.h"

#include <math.h>
#include "ir/rules/build.h"
#include "tests/ref/kernel_eval.h"

enum { MAX_ROWS = 65 };

const int64_t region_sizes[REGION_SIZES] = {0, 1, 7, MAX_ROWS};

/* ---- making regions ----------------------------------------------------- */

Region
region_new(void)
{
    Region r = {.arena = arena_new(NULL, "test"), .rows = 7};
    Diag *d = diag_new(r.arena);
    r.m = ir_module_new(r.arena, intern_new(r.arena), d);
    int32_t n = ir_symbol_pair(r.m, MAX_ROWS, 2 * MAX_ROWS);
    r.n = ir_dim_linear(0, 1, n);
    r.all = ir_dim_linear(0, 1, r.m->symbols.data[n].partner);
    IrFunc *fn = ir_func_new(r.m, "f", FUNC_PROGRAM, NO_LOC);
    r.op = ir_build_op(fn->body, OP_kernel, 0, NULL, NO_LOC);
    r.b = r.op->regions[0];
    return r;
}

IrValue *
region_arg(Region *r, DType t, int rank, const Dim *dims)
{
    IrType type = ir_type_scalar(t, LOCAL_PER_REPLICA);
    type.rank = rank;
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    return ir_block_arg(r->b, type, NULL);
}

/* ---- numbers ------------------------------------------------------------ */

/* Small whole numbers and quarters: sums and products of a few are exact. */
static Scalar
number(DType t, int64_t i)
{
    int64_t x = i * 7919 % 41 - 20;
    if (t == DT_bool)
        return scalar_int(t, i * 7919 % 3 == 0);
    return dtype_is_float(t) ? scalar_float(t, (double)x / 4)
                             : scalar_int(t, x);
}

int64_t
region_elements(const Region *r, const IrType *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= ir_dim_is_const(t->dims[i])
                 ? t->dims[i].c
                 : ir_dim_value(t->dims[i],
                                r->rows * (t->dims[i].sym == r->n.sym ? 1 : 2));
    return n;
}

static void *
new_array(Region *r, const IrValue *v)
{
    int64_t n = region_elements(r, &v->type);
    return arena_array(r->arena, (size_t)n, dtype_info[v->type.dtype].bytes);
}

/* The contents of an output that begins as that input. */
static void *
copy_input(Region *r, int input)
{
    const IrType *t = &r->b->args.data[input]->type;
    size_t bytes = (size_t)region_elements(r, t) * dtype_info[t->dtype].bytes;
    return arena_copy(r->arena, r->ptrs[input], bytes);
}

/* ---- executing ---------------------------------------------------------- */

static BeKernel *
read_back(Region *r, const BeKernel *k)
{
    BeKernels read = {0};
    Str s = str_new(r->arena), again = str_new(r->arena);
    be_kernel_print(&s, k);
    bool ok = be_kernel_parse(&read, r->arena, r->m->diag, 0, s.data, s.len);
    if (!ok)
        print_error("%s\n%s", diag_text(r->m->diag, r->arena), s.data);
    assert_true(ok);
    be_kernel_print(&again, read.data[0]);
    assert_string_equal(s.data, again.data);
    return read.data[0];
}

static void
execute(Region *r, const BeKernel *k)
{
    int64_t words[] = {r->rows, 2 * r->rows, ROW_START, REPLICA};
    if (k->pairs.len == 0)
        words[0] = REPLICA;
    int64_t items = kernel_eval_items(k, words);
    for (int i = 0; r->outs[i]; i++) {
        const KArray *from = k->arrays[K_OUT].data[i]->from;
        r->ptrs[r->b->args.len + i] =
            from ? copy_input(r, from->index) : new_array(r, r->outs[i]);
    }
    kernel_eval(k, r->ptrs, words, 0, items / 3);
    kernel_eval(k, r->ptrs, words, items / 3, items);
}

void
region_close(Region *r, int num, IrValue *const *outs)
{
    for (int i = 0; i < num; i++)
        r->outs[i] = outs[i];
    ir_build_yield(r->b, num, outs, NO_LOC);
    r->kernel = be_kernel_build(r->arena, r->op, r->m->diag);
    bool ok = r->kernel && be_kernel_verify(r->kernel, r->m->diag, NO_LOC);
    if (!ok)
        print_error("%s\n", diag_text(r->m->diag, r->arena));
    assert_true(ok);
}

void
region_run(Region *r, int64_t rows)
{
    r->rows = rows;
    for (int i = 0; i < r->b->args.len; i++) {
        const IrValue *v = r->b->args.data[i];
        r->ptrs[i] = new_array(r, v);
        for (int64_t j = 0; j < region_elements(r, &v->type); j++)
            scalar_store(v->type.dtype, r->ptrs[i], j,
                         number(v->type.dtype, j + 100 * i));
    }
    execute(r, read_back(r, r->kernel));
    void *first[MAX_ARRAYS];
    memcpy(first, r->ptrs + r->b->args.len, sizeof first);
    execute(r, r->kernel);
    for (int i = 0; r->outs[i]; i++) {
        const IrType *t = &r->outs[i]->type;
        size_t n = (size_t)region_elements(r, t) * dtype_info[t->dtype].bytes;
        if (n)
            assert_memory_equal(first[i], r->ptrs[r->b->args.len + i], n);
    }
}

void
region_make(Region *r, IrValue *result, int64_t rows)
{
    region_close(r, 1, &result);
    region_run(r, rows);
}

void
region_free(Region *r)
{
    arena_release(r->arena);
}

/* ---- expecting ---------------------------------------------------------- */

void
assert_same(Region *r, Scalar have, Scalar want, int64_t at)
{
    bool equal = have.i == want.i ||
                 (dtype_is_float(have.dtype) && isnan(have.f) && isnan(want.f));
    if (!equal) {
        Str s = str_new(r->arena);
        be_kernel_print(&s, r->kernel);
        print_error("%selement %lld: have %g (%llx), want %g (%llx)\n", s.data,
                    (long long)at, have.f, (long long)have.i, want.f,
                    (long long)want.i);
    }
    assert_true(equal);
}

void
assert_float(Region *r, int array, int64_t at, double want)
{
    Scalar have = out(r, array, at);
    assert_same(r, have, scalar_float(have.dtype, want), at);
}

void
assert_int(Region *r, int array, int64_t at, int64_t want)
{
    Scalar have = out(r, array, at);
    assert_same(r, have, scalar_int(have.dtype, want), at);
}
