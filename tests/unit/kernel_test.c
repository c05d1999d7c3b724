/*
 * kernel_test.c - kernels compute what their operations say
 *
 * Each test makes a region, and executes its kernel (tests/ref/kernel_eval) on
 * numbers made from their positions: as built and as read back from its text,
 * the grid cut in two.  What is expected is said by a formula for each element,
 * or by ir_eval for elementwise operations.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include "ir/build.h"
#include "ir/eval.h"
#include "tests/ref/kernel_eval.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MAX_ARRAYS = 8, MAX_ROWS = 65, REPLICA = 3, ROW_START = 1000 };

typedef struct Region {
    Arena *arena;
    IrModule *m;
    IrOp *op;
    IrBlock *b;
    Dim n, all; /* the batch: n rows of N */
    int64_t rows;
    IrValue *outs[MAX_ARRAYS];
    BeKernel *kernel;
    void *ptrs[2 * MAX_ARRAYS];
} Region;

static const int64_t sizes[] = {0, 1, 7, 65};

/* ---- making regions ----------------------------------------------------- */

static Region
region_new(void)
{
    Region r = {.arena = arena_new(NULL, "test"), .rows = 7};
    Diag *d = diag_new(r.arena);
    r.m = ir_module_new(r.arena, intern_new(r.arena), d);
    int32_t n = ir_symbol_pair(r.m, MAX_ROWS, 2 * MAX_ROWS);
    r.n = dim_linear(0, 1, n);
    r.all = dim_linear(0, 1, r.m->symbols.data[n].partner);
    IrFunc *fn = ir_func_new(r.m, "f", FUNC_PROGRAM, NO_LOC);
    r.op = ir_build_op(fn->body, OP_kernel, 0, NULL, NO_LOC);
    r.b = r.op->regions[0];
    return r;
}

static IrValue *
arg(Region *r, DType t, int rank, const Dim *dims)
{
    IrType type = type_scalar(t, LOCAL_PER_REPLICA);
    type.rank = rank;
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    return ir_block_arg(r->b, type, NULL);
}

#define C(x) dim_const(x)
#define ARG(r, t, ...)                                                         \
    arg(r, t, COUNT(((Dim[]){__VA_ARGS__})), (Dim[]){__VA_ARGS__})

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

static int64_t
num_elements(const Region *r, const IrType *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= dim_is_const(t->dims[i])
                 ? t->dims[i].c
                 : dim_value(t->dims[i],
                             r->rows * (t->dims[i].sym == r->n.sym ? 1 : 2));
    return n;
}

static void *
new_array(Region *r, const IrValue *v)
{
    int64_t n = num_elements(r, &v->type);
    return arena_array(r->arena, (size_t)n, dtype_info[v->type.dtype].bytes);
}

/* What an output that begins as that input has. */
static void *
copy_input(Region *r, int input)
{
    const IrType *t = &r->b->args.data[input]->type;
    size_t bytes = (size_t)num_elements(r, t) * dtype_info[t->dtype].bytes;
    return arena_copy(r->arena, r->ptrs[input], bytes);
}

static Scalar
in(const Region *r, int array, int64_t at)
{
    return scalar_load(r->b->args.data[array]->type.dtype, r->ptrs[array], at);
}

static double
in_float(const Region *r, int array, int64_t at)
{
    return in(r, array, at).f;
}

static Scalar
out(const Region *r, int array, int64_t at)
{
    return scalar_load(r->outs[array]->type.dtype,
                       r->ptrs[r->b->args.len + array], at);
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

/* Ends the region with its outputs. */
static void
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

/* Executes the region's kernel, for a batch of that many rows. */
static void
region_run(Region *r, int64_t rows)
{
    r->rows = rows;
    for (int i = 0; i < r->b->args.len; i++) {
        const IrValue *v = r->b->args.data[i];
        r->ptrs[i] = new_array(r, v);
        for (int64_t j = 0; j < num_elements(r, &v->type); j++)
            scalar_store(v->type.dtype, r->ptrs[i], j,
                         number(v->type.dtype, j + 100 * i));
    }
    execute(r, read_back(r, r->kernel));
    void *first[MAX_ARRAYS];
    memcpy(first, r->ptrs + r->b->args.len, sizeof first);
    execute(r, r->kernel);
    for (int i = 0; r->outs[i]; i++) {
        const IrType *t = &r->outs[i]->type;
        size_t n = (size_t)num_elements(r, t) * dtype_info[t->dtype].bytes;
        if (n)
            assert_memory_equal(first[i], r->ptrs[r->b->args.len + i], n);
    }
}

static void
region_make(Region *r, IrValue *result, int64_t rows)
{
    region_close(r, 1, &result);
    region_run(r, rows);
}

static void
region_free(Region *r)
{
    arena_release(r->arena);
}

static void
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

static void
assert_float(Region *r, int array, int64_t at, double want)
{
    Scalar have = out(r, array, at);
    assert_same(r, have, scalar_float(have.dtype, want), at);
}

static void
assert_int(Region *r, int array, int64_t at, int64_t want)
{
    Scalar have = out(r, array, at);
    assert_same(r, have, scalar_int(have.dtype, want), at);
}

/* ---- elementwise -------------------------------------------------------- */

/* One operation on arguments of these dtypes; false if it has none. */
static bool
try_elementwise(IrOpKind kind, const DType *types, DType to, Dim size)
{
    Region r = region_new();
    IrValue *args[3];
    int num = ir_op_info[kind].num_in;
    for (int i = 0; i < num; i++)
        args[i] = ARG(&r, types[i], size);
    IrOp *op = ir_build_op(r.b, kind, num, args, NO_LOC);
    if (kind == OP_cast)
        ir_set_int(op, A_dtype, to);
    bool allowed = ir_op_infer(op, r.b) == NULL;
    if (allowed) {
        region_make(&r, op->results[0], dim_is_const(size) ? 7 : 65);
        int64_t n = num_elements(&r, &op->results[0]->type);
        for (int64_t i = 0; i < n; i++) {
            Scalar x[3];
            for (int j = 0; j < num; j++)
                x[j] = in(&r, j, i);
            DType t = op->results[0]->type.dtype;
            assert_same(&r, out(&r, 0, i), ir_eval(kind, t, x), i);
        }
    }
    region_free(&r);
    return allowed;
}

static void
every_elementwise_operation(void **state)
{
    (void)state;
    Dim n = dim_linear(0, 1, 0);
    for (int kind = 0; kind < NUM_OPS; kind++) {
        int allowed = 0;
        if (!(ir_op_info[kind].traits & ELEMENTWISE) || kind == OP_cast)
            continue;
        for (int t = 0; t < NUM_DTYPES; t++) {
            DType types[] = {t, t, t};
            if (kind == OP_where)
                types[0] = DT_bool;
            for (int s = 0; s <= COUNT(sizes); s++)
                allowed += try_elementwise((IrOpKind)kind, types, DT_f32,
                                           s < COUNT(sizes) ? C(sizes[s]) : n);
        }
        assert_true(allowed > 0);
    }
}

static void
every_cast(void **state)
{
    (void)state;
    for (int from = 0; from < NUM_DTYPES; from++) {
        for (int to = 0; to < NUM_DTYPES; to++) {
            DType type = (DType)from;
            assert_true(try_elementwise(OP_cast, &type, (DType)to, C(65)));
        }
    }
}

static void
operands_broadcast(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t rows = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(3), r.n, C(1));
        IrValue *y = ARG(&r, DT_f32, r.n, C(5));
        IrValue *z = arg(&r, DT_f32, 0, NULL);
        IrValue *xy = ir_build2(r.b, OP_sub, x, y, NO_LOC);
        region_make(&r, ir_build2(r.b, OP_mul, z, xy, NO_LOC), rows);
        for (int64_t i = 0; i < 3 * rows * 5; i++)
            assert_float(
                &r, 0, i,
                in_float(&r, 2, 0) *
                    (in_float(&r, 0, i / 5) - in_float(&r, 1, i % (rows * 5))));
        region_free(&r);
    }
}

/* Half floats round after every operation, fused or not. */
static void
halves_round_at_each_operation(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_bf16, C(65));
    IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
    IrValue *s = ir_build2(r.b, OP_add, e, x, NO_LOC);
    region_make(&r, ir_build2(r.b, OP_div, s, e, NO_LOC), 7);
    for (int64_t i = 0; i < 65; i++) {
        Scalar a[2] = {in(&r, 0, i)};
        a[1] = a[0];
        a[0] = ir_eval(OP_exp, DT_bf16, a);
        Scalar b[2] = {ir_eval(OP_add, DT_bf16, a), a[0]};
        assert_same(&r, out(&r, 0, i), ir_eval(OP_div, DT_bf16, b), i);
    }
    region_free(&r);
}

static void
numbers_that_need_no_memory(void **state)
{
    (void)state;
    Region r = region_new();
    Dim dims[] = {r.n, C(3)};
    float table[] = {1.5, -2, 8};
    IrValue *outs[] = {
        ir_build_iota(r.b, DT_i64, 2, dims, 0, NO_LOC),
        ir_build_iota(r.b, DT_f32, 2, dims, 1, NO_LOC),
        ir_build_dim_size(r.b, r.all, NO_LOC),
        ir_build0(r.b, OP_replica_id, NO_LOC),
        ir_const_data(r.b, DT_f32, 1, &dims[1], table, NO_LOC),
        ir_const_fill(r.b, DT_i8, 1, &dims[1], scalar_int(DT_i8, -5), NO_LOC),
    };
    region_close(&r, COUNT(outs), outs);
    region_run(&r, 7);
    for (int64_t i = 0; i < 21; i++) {
        assert_int(&r, 0, i, i / 3);
        assert_float(&r, 1, i, (double)(i % 3));
    }
    assert_int(&r, 2, 0, 14);
    assert_int(&r, 3, 0, REPLICA);
    for (int i = 0; i < 3; i++) {
        assert_float(&r, 4, i, (double)table[i]);
        assert_int(&r, 5, i, -5);
    }
    region_free(&r);

    r = region_new();
    IrOp *op = ir_build_op(r.b, OP_row_start, 0, NULL, NO_LOC);
    ir_set_dims(op, A_dims, &r.n, 1);
    region_make(&r, ir_build_infer(op), 7);
    assert_int(&r, 0, 0, ROW_START);
    region_free(&r);
}

/* ---- moves -------------------------------------------------------------- */

static void
transpose(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_i16, C(2), r.n, C(5));
        region_make(
            &r, ir_build_transpose(r.b, x, (int64_t[]){1, 2, 0}, NO_LOC), n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < 10; j++)
                assert_int(&r, 0, i * 10 + j,
                           in(&r, 0, j % 2 * n * 5 + i * 5 + j / 2).i);
        region_free(&r);
    }
}

static void
slice_and_reverse(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, r.n, C(10));
        Dim dims[] = {r.n, C(3)};
        int64_t axis = 0;
        IrValue *rev = ir_build_reverse(r.b, x, &axis, 1, NO_LOC);
        IrValue *part = ir_build_slice(r.b, rev, (int64_t[]){0, 8}, dims,
                                       (int64_t[]){1, -3}, NO_LOC);
        region_make(&r, part, n);
        for (int64_t i = 0; i < 3 * n; i++)
            assert_float(&r, 0, i,
                         in_float(&r, 0, (n - 1 - i / 3) * 10 + 8 - i % 3 * 3));
        region_free(&r);
    }
}

/* With an operation between the pad and memory, and without one. */
static void
pad(void **state)
{
    (void)state;
    for (int s = 0; s < 2 * COUNT(sizes); s++) {
        int64_t n = sizes[s / 2];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(n), C(4));
        if (s % 2)
            x = ir_build1(r.b, OP_cos, x, NO_LOC);
        int64_t gap = n ? 3 * (n - 1) + 1 : 0;
        Dim dims[] = {C(2 + gap), C(4 + 1 + 2)};
        region_make(&r,
                    ir_build_pad(r.b, x, (int64_t[]){2, 1}, dims,
                                 (int64_t[]){3, 1}, NO_LOC),
                    7);
        for (int64_t i = 0; i < (2 + gap) * 7; i++) {
            int64_t row = i / 7 - 2, column = i % 7 - 1;
            bool inside = row >= 0 && row % 3 == 0 && column >= 0 && column < 4;
            Scalar have = inside ? in(&r, 0, row / 3 * 4 + column)
                                 : scalar_float(DT_f32, 0);
            if (inside && s % 2)
                have = ir_eval(OP_cos, DT_f32, &have);
            assert_same(&r, out(&r, 0, i), have, i);
        }
        region_free(&r);
    }
}

static void
concat(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *xs[] = {ARG(&r, DT_i32, C(2), r.n),
                         ARG(&r, DT_i32, C(2), C(0)),
                         ARG(&r, DT_i32, C(2), C(1))};
        xs[2] = ir_build1(r.b, OP_neg, xs[2], NO_LOC);
        region_make(&r, ir_build_concat(r.b, 3, xs, 1, NO_LOC), n);
        for (int64_t i = 0; i < 2 * (n + 1); i++) {
            int64_t row = i / (n + 1), column = i % (n + 1);
            assert_int(&r, 0, i,
                       column < n ? in(&r, 0, row * n + column).i
                                  : -in(&r, 2, row).i);
        }
        region_free(&r);
    }
}

/* A pad of a concat: loads have the conditions of both. */
static void
conditions_join(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *xs[] = {ARG(&r, DT_i32, C(3)), ARG(&r, DT_i32, C(4))};
    Dim wide = C(20);
    int64_t low = 1, step = 3;
    IrValue *all = ir_build_concat(r.b, 2, xs, 0, NO_LOC);
    region_make(&r, ir_build_pad(r.b, all, &low, &wide, &step, NO_LOC), 7);
    for (int64_t i = 0; i < 20; i++) {
        int64_t at = (i - 1) / 3;
        int64_t want = at < 3 ? in(&r, 0, at).i : in(&r, 1, at - 3).i;
        assert_int(&r, 0, i, i >= 1 && (i - 1) % 3 == 0 ? want : 0);
    }
    region_free(&r);
}

/* reshape of x * column number, to shapes that cut rows in every way. */
static void
reshape(void **state)
{
    (void)state;
    for (int s = 0; s < 5 * COUNT(sizes); s++) {
        int64_t n = sizes[s % COUNT(sizes)];
        Region r = region_new();
        Dim from[] = {r.n, C(12)}, n12;
        dim_mul(r.n, C(12), &n12);
        Dim n3 = dim_linear(0, 3, r.n.sym), n6 = dim_linear(0, 6, r.n.sym);
        const Dim to[5][4] = {{n3, C(4), C(1), C(1)},
                              {C(1), n12, C(1), C(1)},
                              {r.n, C(2), C(3), C(2)},
                              {C(4), n3, C(1), C(1)},
                              {C(1), C(2), n6, C(1)}};
        IrValue *x = arg(&r, DT_i64, 2, from);
        IrValue *col = ir_build_iota(r.b, DT_i64, 2, from, 1, NO_LOC);
        IrValue *y = ir_build2(r.b, OP_mul, x, col, NO_LOC);
        y = ir_build_reshape(r.b, y, 4, to[s / COUNT(sizes)], NO_LOC);
        region_make(&r, ir_build1(r.b, OP_neg, y, NO_LOC), n);
        for (int64_t i = 0; i < 12 * n; i++)
            assert_int(&r, 0, i, -in(&r, 0, i).i * (i % 12));
        region_free(&r);
    }
}

/* Rows of a batch that may be empty, after a first one: its length divides
 * indices under a guard. */
static void
divisors_may_be_0(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        Dim from[] = {C(4), r.n}, to[] = {r.n, C(4)};
        Dim wide[] = {dim_linear(1, 1, r.n.sym), C(4)};
        IrValue *x = arg(&r, DT_i64, 2, from);
        IrValue *row = ir_build_iota(r.b, DT_i64, 2, from, 0, NO_LOC);
        x = ir_build2(r.b, OP_mul, x, row, NO_LOC);
        x = ir_build_reshape(r.b, x, 2, to, NO_LOC);
        x = ir_build_pad(r.b, x, (int64_t[]){1, 0}, wide, (int64_t[]){1, 1},
                         NO_LOC);
        region_make(&r, x, n);
        for (int64_t i = 0; i < 4 * (n + 1); i++)
            assert_int(&r, 0, i,
                       i < 4 ? 0 : in(&r, 0, i - 4).i * ((i - 4) / n));
        region_free(&r);
    }
}

static void
broadcast_of_a_reshape(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f32, r.n);
    Dim column[] = {r.n, C(1)}, wide[] = {C(2), r.n, C(3)};
    IrValue *y = ir_build_reshape(r.b, x, 2, column, NO_LOC);
    region_make(&r, ir_build_broadcast(r.b, y, 3, wide, NO_LOC), 65);
    for (int64_t i = 0; i < 2 * 65 * 3; i++)
        assert_float(&r, 0, i, in_float(&r, 0, i / 3 % 65));
    region_free(&r);
}

/* ---- reductions --------------------------------------------------------- */

static const IrOpKind reductions[] = {OP_sum, OP_prod, OP_reduce_max,
                                      OP_reduce_min};

/* All elements of a x[outer, mid, inner] in one result, one after the other. */
static Scalar
fold_in_order(const Region *r, IrOpKind kind, int64_t o, int64_t i,
              const int64_t *dims)
{
    static const IrOpKind folds[] = {OP_add, OP_mul, OP_maximum, OP_minimum};
    int which = 0;
    while (reductions[which] != kind)
        which++;
    DType t = r->b->args.data[0]->type.dtype;
    Scalar both[2] = {ir_eval_neutral(kind, t)};
    for (int64_t j = 0; j < dims[1]; j++) {
        both[1] = in(r, 0, (o * dims[1] + j) * dims[2] + i);
        both[0] = ir_eval(folds[which], t, both);
    }
    return both[0];
}

static void
reduce_middle(IrOpKind kind, DType t, const int64_t *dims)
{
    Region r = region_new();
    int64_t axis = 1;
    IrValue *x = ARG(&r, t, C(dims[0]), C(dims[1]), C(dims[2]));
    region_make(&r, ir_build_reduce(r.b, kind, x, &axis, 1, false, NO_LOC), 7);
    for (int64_t o = 0; o < dims[0]; o++)
        for (int64_t i = 0; i < dims[2]; i++)
            assert_same(&r, out(&r, 0, o * dims[2] + i),
                        fold_in_order(&r, kind, o, i, dims), o);
    region_free(&r);
}

/* Rows, columns, the axis between; f64 sums of quarters are exact. */
static void
reductions_of_every_size(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT(reductions); k++) {
        for (int s = 0; s < 3 * COUNT(sizes); s++) {
            int64_t dims[] = {3, 5, 2};
            dims[s % 3] = sizes[s / 3];
            reduce_middle(reductions[k], DT_f64, dims);
            reduce_middle(reductions[k], DT_u8, dims);
        }
        reduce_middle(reductions[k], DT_i32, (int64_t[]){1, 65, 1});
        reduce_middle(reductions[k], DT_i64, (int64_t[]){1, 7, 65});
        reduce_middle(reductions[k], DT_i8, (int64_t[]){65, 7, 1});
    }
}

static void
both_ends(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_bool, C(4), r.n, C(5));
        int64_t axes[] = {0, 2};
        IrValue *outs[] = {
            ir_build_reduce(r.b, OP_any, x, axes, 2, true, NO_LOC),
            ir_build_reduce(r.b, OP_all, x, axes, 2, false, NO_LOC)};
        region_close(&r, 2, outs);
        region_run(&r, n);
        for (int64_t i = 0; i < n; i++) {
            bool any = false, all = true;
            for (int64_t j = 0; j < 20; j++) {
                bool b = in(&r, 0, (j / 5 * n + i) * 5 + j % 5).i;
                any |= b;
                all &= b;
            }
            assert_int(&r, 0, i, any);
            assert_int(&r, 1, i, all);
        }
        region_free(&r);
    }
}

static void
places_of_extrema(void **state)
{
    (void)state;
    for (int s = 0; s < 3 * COUNT(sizes); s++) {
        int64_t n = sizes[s / 3], axis = 1;
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f32, C(3), r.n);
        if (s % 3 == 1) /* ties: 1 and 0 */
            x = ir_build_cast(r.b,
                              ir_build2(r.b, OP_gt, x,
                                        ir_const_float(r.b, DT_f32, 3, NO_LOC),
                                        NO_LOC),
                              DT_f32, NO_LOC);
        if (s % 3 == 2) /* some NaNs */
            x = ir_build1(r.b, OP_sqrt, x, NO_LOC);
        IrValue *outs[] = {
            ir_build_reduce(r.b, OP_argmax, x, &axis, 1, false, NO_LOC),
            ir_build_reduce(r.b, OP_argmin, x, &axis, 1, true, NO_LOC), x};
        region_close(&r, 3, outs);
        region_run(&r, n);
        for (int64_t i = 0; i < 3; i++) {
            int64_t most = 0, least = 0;
            for (int64_t j = 1; j < n; j++) {
                double y = out(&r, 2, i * n + j).f;
                double high = out(&r, 2, i * n + most).f;
                double low = out(&r, 2, i * n + least).f;
                if (!isnan(high) && (isnan(y) || y > high))
                    most = j;
                if (!isnan(low) && (isnan(y) || y < low))
                    least = j;
            }
            assert_int(&r, 0, i, most);
            assert_int(&r, 1, i, least);
        }
        region_free(&r);
    }
}

/* Lane by lane, the lanes' tree, chunk by chunk (D2). */
static float
striped_sum(const float *x, int64_t n)
{
    float total = 0;
    for (int64_t start = 0; start < n; start += 65536) {
        float lanes[64];
        int64_t end = n - start < 65536 ? n : start + 65536;
        int used = end - start < 64 ? (int)(end - start) : 64;
        for (int lane = 0; lane < used; lane++) {
            lanes[lane] = x[start + lane];
            for (int64_t i = start + lane + 64; i < end; i += 64)
                lanes[lane] += x[i];
        }
        for (int w = 32; w; w /= 2)
            for (int i = 0; i + w < used && i < w; i++)
                lanes[i] += lanes[i + w];
        total = start ? total + lanes[0] : lanes[0];
    }
    return total;
}

static void
sums_have_one_order(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 33, 64, 65, 97, 127, 1000, 140001};
    for (int s = 0; s < COUNT(lengths); s++) {
        Region r = region_new();
        int64_t n = lengths[s];
        IrValue *x = ARG(&r, DT_f32, C(n));
        IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
        IrValue *outs[] = {ir_build_sum_all(r.b, e, NO_LOC), e};
        region_close(&r, 2, outs);
        region_run(&r, 7);
        const float *values = r.ptrs[2];
        assert_float(&r, 0, 0, (double)striped_sum(values, n));
        region_free(&r);
    }
}

static void
half_sums_round_once(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f16, C(1000));
    IrValue *y = ir_build1(r.b, OP_exp, x, NO_LOC);
    IrValue *outs[] = {ir_build_sum_all(r.b, y, NO_LOC), y};
    region_close(&r, 2, outs);
    region_run(&r, 7);
    float values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (float)out(&r, 1, i).f;
    assert_float(&r, 0, 0, (double)striped_sum(values, 1000));
    region_free(&r);
}

/* ---- contractions ------------------------------------------------------- */

static void
multiply_matrices(DType t, int64_t m, int64_t k, int64_t n)
{
    Region r = region_new();
    IrValue *x = ARG(&r, t, C(m), C(k)), *y = ARG(&r, t, C(k), C(n));
    int64_t one = 1, zero = 0;
    IrDotAxes axes = {
        .contract_x = &one, .contract_y = &zero, .num_contract = 1};
    region_make(&r, ir_build_dot(r.b, x, y, &axes, NO_LOC), 7);
    for (int64_t i = 0; i < m * n; i++) {
        Scalar sum = scalar_cast(scalar_int(DT_i64, 0), t);
        for (int64_t j = 0; j < k; j++) {
            Scalar both[] = {in(&r, 0, i / n * k + j),
                             in(&r, 1, j * n + i % n)};
            Scalar add[] = {sum, ir_eval(OP_mul, t, both)};
            sum = ir_eval(OP_add, t, add);
        }
        assert_same(&r, out(&r, 0, i), sum, i);
    }
    region_free(&r);
}

static void
products_of_matrices(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        multiply_matrices(DT_f64, sizes[s], 3, 5);
        multiply_matrices(DT_f32, 3, sizes[s], 5);
        multiply_matrices(DT_i16, 5, 3, sizes[s]);
    }
    multiply_matrices(DT_i8, 7, 65, 7);
}

/* x[b, i, k] y[k, j, b] with everything in odd places. */
static void
products_in_batches(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, C(2), r.n, C(5), C(3));
        IrValue *y = ARG(&r, DT_f64, C(3), C(4), C(2), C(5));
        int64_t cx[] = {2, 3}, cy[] = {3, 0}, bx = 0, by = 2;
        IrDotAxes axes = {cx, cy, 2, &bx, &by, 1};
        region_make(&r, ir_build_dot(r.b, x, y, &axes, NO_LOC), n);
        for (int64_t at = 0; at < 2 * n * 4; at++) {
            int64_t b = at / (n * 4), i = at / 4 % n, j = at % 4;
            double sum = 0;
            for (int64_t k = 0; k < 15; k++)
                sum += in_float(&r, 0, (b * n + i) * 15 + k) *
                       in_float(&r, 1, ((k % 3 * 4 + j) * 2 + b) * 5 + k / 3);
            assert_float(&r, 0, at, sum);
        }
        region_free(&r);
    }
}

static void
contractions_have_one_order(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 511, 512, 513, 1025, 3000};
    for (int s = 0; s < COUNT(lengths); s++) {
        Region r = region_new();
        int64_t n = lengths[s], zero = 0;
        IrValue *x = ARG(&r, DT_f32, C(n));
        IrValue *e = ir_build1(r.b, OP_exp, x, NO_LOC);
        IrDotAxes axes = {
            .contract_x = &zero, .contract_y = &zero, .num_contract = 1};
        IrValue *outs[] = {ir_build_dot(r.b, e, x, &axes, NO_LOC), e};
        region_close(&r, 2, outs);
        region_run(&r, 7);
        float total = 0;
        for (int64_t start = 0; start < n; start += 512) {
            float acc = 0;
            for (int64_t i = start; i < n && i < start + 512; i++)
                acc = fmaf((float)out(&r, 1, i).f, (float)in_float(&r, 0, i),
                           acc);
            total = start ? total + acc : acc;
        }
        assert_float(&r, 0, 0, (double)total);
        region_free(&r);
    }
}

/* ---- chains ------------------------------------------------------------- */

/* exp(x - max) / sum over an axis, and the place of the greatest element. */
static void
softmax_over(int axis_number, int64_t rows, int64_t columns)
{
    Region r = region_new();
    int64_t axis = axis_number;
    IrValue *x = ARG(&r, DT_f32, r.n, C(columns));
    IrValue *m = ir_build_reduce(r.b, OP_reduce_max, x, &axis, 1, true, NO_LOC);
    IrValue *e =
        ir_build1(r.b, OP_exp, ir_build2(r.b, OP_sub, x, m, NO_LOC), NO_LOC);
    IrValue *s = ir_build_reduce(r.b, OP_sum, e, &axis, 1, true, NO_LOC);
    IrValue *p = ir_build2(r.b, OP_div, e, s, NO_LOC);
    IrValue *outs[] = {
        ir_build_reduce(r.b, OP_argmax, p, &axis, 1, false, NO_LOC), p, m};
    region_close(&r, 3, outs);
    region_run(&r, rows);
    int64_t lines = axis ? rows : columns, n = axis ? columns : rows;
    int64_t stride = axis ? 1 : columns, next = axis ? columns : 1;
    for (int64_t i = 0; i < lines; i++) {
        float values[65], most = -INFINITY;
        int64_t where = 0;
        for (int64_t j = 0; j < n; j++) {
            float y = (float)in_float(&r, 0, i * next + j * stride);
            where = y > most ? j : where;
            most = y > most ? y : most;
        }
        for (int64_t j = 0; j < n; j++) {
            double d = in_float(&r, 0, i * next + j * stride) - (double)most;
            Scalar y = scalar_float(DT_f32, d);
            values[j] = (float)ir_eval(OP_exp, DT_f32, &y).f;
        }
        float sum = striped_sum(values, n);
        for (int64_t j = 0; j < n; j++)
            assert_float(&r, 1, i * next + j * stride,
                         (double)(values[j] / sum));
        assert_int(&r, 0, i, where);
        assert_float(&r, 2, i, (double)most);
    }
    region_free(&r);
}

static void
softmax_of_rows_and_columns(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        softmax_over(1, sizes[s], 33);
        softmax_over(0, sizes[s], 3);
        softmax_over(1, 5, sizes[s]);
    }
}

/* Everything by the sum of everything, and that sum. */
static void
one_item(void **state)
{
    (void)state;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        Region r = region_new();
        IrValue *x = ARG(&r, DT_f64, r.n, C(3));
        IrValue *sum = ir_build_sum_all(r.b, x, NO_LOC);
        IrValue *outs[] = {ir_build2(r.b, OP_sub, x, sum, NO_LOC), sum};
        region_close(&r, 2, outs);
        region_run(&r, n);
        double total = 0;
        for (int64_t i = 0; i < 3 * n; i++)
            total += in_float(&r, 0, i);
        for (int64_t i = 0; i < 3 * n; i++)
            assert_float(&r, 0, i, in_float(&r, 0, i) - total);
        assert_float(&r, 1, 0, total);
        region_free(&r);
    }
}

/* Clusters that fuse would not make are right all the same. */
static void
odd_clusters_are_right(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f64, C(6), C(5)), *y = ARG(&r, DT_f64, C(7));
    int64_t one = 1, zero = 0;
    IrValue *rows = ir_build_reduce(r.b, OP_sum, x, &one, 1, true, NO_LOC);
    IrValue *cols = ir_build_reduce(r.b, OP_sum, x, &zero, 1, false, NO_LOC);
    IrValue *both = ir_build2(r.b, OP_add, rows, cols, NO_LOC);
    IrValue *outs[] = {both, cols, ir_build_sum_all(r.b, both, NO_LOC),
                       ir_build1(r.b, OP_neg, y, NO_LOC)};
    region_close(&r, 4, outs);
    region_run(&r, 7);
    double total = 0, row[6] = {0}, col[5] = {0};
    for (int64_t i = 0; i < 30; i++) {
        row[i / 5] += in_float(&r, 0, i);
        col[i % 5] += in_float(&r, 0, i);
    }
    for (int64_t i = 0; i < 30; i++) {
        assert_float(&r, 0, i, row[i / 5] + col[i % 5]);
        total += row[i / 5] + col[i % 5];
    }
    for (int64_t i = 0; i < 5; i++)
        assert_float(&r, 1, i, col[i]);
    assert_float(&r, 2, 0, total);
    for (int64_t i = 0; i < 7; i++)
        assert_float(&r, 3, i, -in_float(&r, 1, i));
    region_free(&r);
}

/* ---- names and limits --------------------------------------------------- */

static const char *
name_of_sum(DType t, Dim rows, int64_t columns)
{
    static char name[64];
    Region r = region_new();
    IrValue *x = ARG(&r, t, rows, C(columns));
    IrValue *y = ir_build2(r.b, OP_add, x, x, NO_LOC);
    region_close(&r, 1, &y);
    snprintf(name, sizeof name, "%s", r.kernel->name);
    region_free(&r);
    return name;
}

static void
equal_kernels_have_equal_names(void **state)
{
    (void)state;
    char first[64];
    snprintf(first, sizeof first, "%s", name_of_sum(DT_f32, C(4), 30));
    assert_int_equal(strlen(first), 2 + 32);
    assert_string_equal(name_of_sum(DT_f32, C(12), 10), first);
    assert_string_not_equal(name_of_sum(DT_f32, C(12), 11), first);
    assert_string_not_equal(name_of_sum(DT_i32, C(12), 10), first);
}

/* The message about a region with these results. */
static const char *
message_of(Region *r, int num, IrValue *const *results)
{
    ir_build_yield(r->b, num, results, NO_LOC);
    assert_null(be_kernel_build(r->arena, r->op, r->m->diag));
    return diag_text(r->m->diag, r->arena);
}

static void
huge_and_useless_kernels_are_refused(void **state)
{
    (void)state;
    Region r = region_new();
    IrValue *x = ARG(&r, DT_f32, C(4));
    for (int i = 0; i < 1100; i++)
        x = ir_build1(r.b, OP_neg, x, NO_LOC);
    assert_non_null(
        strstr(message_of(&r, 1, &x), "more than 1,024 operations"));
    region_free(&r);

    r = region_new();
    x = ARG(&r, DT_f32, C(4));
    for (int i = 0; i < 1001; i++)
        x = ir_build1(r.b, OP_neg, x, NO_LOC);
    region_make(&r, x, 7);
    assert_float(&r, 0, 3, -in_float(&r, 0, 3));
    region_free(&r);

    r = region_new();
    assert_non_null(strstr(message_of(&r, 0, NULL), "no results"));
    region_free(&r);

    r = region_new();
    x = ARG(&r, DT_f32, C(2));
    for (int i = 0; i < 40; i++) { /* x beside 0 and 0 beside x */
        Dim more = C(i + 3);
        int64_t low = 0, step = 1;
        IrValue *y = ir_build_pad(r.b, x, &low, &more, &step, NO_LOC);
        low = 1;
        IrValue *z = ir_build_pad(r.b, x, &low, &more, &step, NO_LOC);
        x = ir_build2(r.b, OP_add, y, z, NO_LOC);
    }
    assert_non_null(strstr(message_of(&r, 1, &x), "more than 65,536 nodes"));
    region_free(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_elementwise_operation),
        cmocka_unit_test(every_cast),
        cmocka_unit_test(operands_broadcast),
        cmocka_unit_test(halves_round_at_each_operation),
        cmocka_unit_test(numbers_that_need_no_memory),
        cmocka_unit_test(transpose),
        cmocka_unit_test(slice_and_reverse),
        cmocka_unit_test(pad),
        cmocka_unit_test(concat),
        cmocka_unit_test(conditions_join),
        cmocka_unit_test(reshape),
        cmocka_unit_test(divisors_may_be_0),
        cmocka_unit_test(broadcast_of_a_reshape),
        cmocka_unit_test(reductions_of_every_size),
        cmocka_unit_test(both_ends),
        cmocka_unit_test(places_of_extrema),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(half_sums_round_once),
        cmocka_unit_test(products_of_matrices),
        cmocka_unit_test(products_in_batches),
        cmocka_unit_test(contractions_have_one_order),
        cmocka_unit_test(softmax_of_rows_and_columns),
        cmocka_unit_test(one_item),
        cmocka_unit_test(odd_clusters_are_right),
        cmocka_unit_test(equal_kernels_have_equal_names),
        cmocka_unit_test(huge_and_useless_kernels_are_refused),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
