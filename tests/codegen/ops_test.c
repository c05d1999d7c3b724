/*
 * ops_test.c - every operation of the table, compiled, against kernel_eval
 *
 * Kernels are made from operations as fuse makes them: of every elementwise
 * operation and every dtype that it allows, of reductions and dots of many
 * shapes, and of operations that move elements.  All of them run on batches of
 * 0, 1, 7, 65 and 200 rows, for each target at -O3, for one of them in turn at
 * -O0 too, and for GPUs, on ordinary and on extreme values; under sanitizers
 * without what is at -O3.
 */
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "tests/codegen/run.h"

#include <string.h>
#include "backend/codegen/emit.h"
#include "ir/plan/target.h"
#include "ir/ir.h"
#include "tests/codegen/sim.h"
#include "tests/unit/sweep.h"
#include "tests/unit/unit.h"

static const int64_t batches[] = {0, 1, 7, 65, 200};
enum { NUM_BATCHES = sizeof batches / sizeof batches[0], BOUND = 200 };

typedef struct Bench {
    Arena *arena;
    IrModule *module;
    BeKernels kernels;
    int32_t n; /* a batch symbol of at most BOUND rows */
} Bench;

static Bench
bench_new(void)
{
    Bench b = {.arena = arena_new(NULL, "codegen test")};
    Diag *d = diag_new(b.arena);
    diag_add_source(d, "made.tir", NULL, 0);
    b.module = ir_module_new(b.arena, intern_new(b.arena), d);
    b.module->num_replicas = 2;
    b.n = ir_symbol_pair(b.module, BOUND, 2 * BOUND);
    return b;
}

/* ---- running ------------------------------------------------------------ */

static void
run_all(Bench *b, RtCode *const *codes, int num_codes)
{
    for (int i = 0; i < b->kernels.len; i++) {
        const BeKernel *k = b->kernels.data[i];
        int num = (k->pairs.len ? NUM_BATCHES : 1) * RUN_NUM_VALUES;
        for (int s = 0; s < num; s++) {
            int64_t dims[RUN_MAX_DIMS];
            RunCase c = {k, dims, i + s, (RunValues)(s % RUN_NUM_VALUES)};
            run_dims(k, batches[s / RUN_NUM_VALUES], dims);
            Arena *a = arena_new(NULL, "run");
            const char *wrong = run_compare(a, codes, num_codes, &c);
            if (wrong)
                fail_msg("values %d, batch %d: %s", (int)c.values,
                         (int)batches[s / RUN_NUM_VALUES], wrong);
            arena_release(a);
        }
    }
}

/* Every target that runs here, at -O3; the next one at -O0, where code differs
 * by what LLVM does and not by what we emit; and the code for GPUs.  Sanitizers
 * see what emits and nothing of what LLVM makes of it, so with them there is
 * nothing at -O3: each kernel is emitted for the next target alone. */
static void
bench_check(Bench *b)
{
    static int turn;
    RtCode *codes[NUM_TARGETS + 2];
    const char *here[NUM_TARGETS];
    int num = 0, num_here = 0;
    assert_int_equal(diag_num_errors(b->module->diag), 0);
    assert_true(b->kernels.len > 0);
    run_sample(&b->kernels);
    for (int t = 0; t < NUM_TARGETS; t++) {
        if (!target_runs_here(target_info[t].name))
            continue;
        here[num_here++] = target_info[t].name;
        if (sweep_part() == 1)
            codes[num++] = run_compile(&b->kernels, target_info[t].name, 3);
    }
    assert_true(num_here > 0);
    const char *next = here[turn++ % num_here];
    codes[num++] = run_compile(&b->kernels, next, 0);
    codes[num++] = sim_compile(&b->kernels, "sm_80");
    run_all(b, codes, num);
    for (int i = 0; i < num; i++)
        rt_code_close(codes[i]);
    arena_release(b->arena);
}

/* ---- kernels of operations ---------------------------------------------- */

/* A kernel operation being filled: make operations in body on args, then
 * close. */
typedef struct Kernel {
    Bench *bench;
    IrOp *op;
    IrBlock *body;
    IrValue *args[4];
} Kernel;

static Kernel
kernel_begin(Bench *b, int num, const IrType *types)
{
    IrFunc *fn =
        ir_func_new(b->module, arena_printf(b->arena, "f%d", b->kernels.len),
                    FUNC_PROGRAM, NO_LOC);
    Kernel k = {.bench = b};
    IrValue *params[4];
    for (int i = 0; i < num; i++)
        params[i] = ir_block_arg(fn->body, types[i], NULL);
    k.op = ir_build_op(fn->body, OP_kernel, num, params, NO_LOC);
    k.body = k.op->regions[0];
    for (int i = 0; i < num; i++)
        k.args[i] = ir_block_arg(k.body, types[i], NULL);
    return k;
}

static void
kernel_close(Kernel *k, int num, IrValue *const *results)
{
    Bench *b = k->bench;
    ir_build_yield(k->body, num, results, NO_LOC);
    ir_op_close(k->op);
    BeKernel *kernel = be_kernel_build(b->arena, k->op, b->module->diag);
    if (!kernel)
        fail_msg("%s", diag_text(b->module->diag, b->arena));
    VEC_PUSH(b->arena, b->kernels, kernel);
}

static void
kernel_end(Kernel *k, IrValue *result)
{
    kernel_close(k, 1, &result);
}

static IrType
type_of(DType t, int rank, const Dim *dims)
{
    IrType type = ir_type_scalar(t, LOCAL_PER_REPLICA);
    type.rank = rank;
    memcpy(type.dims, dims, (size_t)rank * sizeof *dims);
    return type;
}

/* ---- elementwise -------------------------------------------------------- */

static bool
add_elementwise(Bench *b, IrOpKind kind, DType t, DType to, Dim dim)
{
    int num = ir_op_info[kind].num_in;
    IrType types[3];
    for (int i = 0; i < num; i++)
        types[i] = type_of(kind == OP_where && i == 0 ? DT_bool : t, 1, &dim);
    Kernel k = kernel_begin(b, num, types);
    IrOp *op = ir_op_new(k.op->block->func, kind, num, k.args, NO_LOC);
    if (kind == OP_cast)
        ir_set_int(op, A_dtype, to);
    if (ir_op_infer(op, k.body)) {
        ir_func_remove(k.op->block->func);
        return false;
    }
    ir_append(k.body, op);
    kernel_end(&k, op->results[0]);
    return true;
}

static void
add_shapes(Bench *b, IrOpKind kind, DType t, DType to)
{
    if (add_elementwise(b, kind, t, to, ir_dim_linear(0, 1, b->n))) {
        add_elementwise(b, kind, t, to, ir_dim_const(7));
        add_elementwise(b, kind, t, to, ir_dim_const(65));
        add_elementwise(b, kind, t, to, ir_dim_const(1));
    }
}

static void
elementwise_operations_have_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    for (int kind = 0; kind < NUM_OPS; kind++) {
        if (!(ir_op_info[kind].traits & ELEMENTWISE) || kind == OP_cast)
            continue;
        Bench b = bench_new();
        for (int t = 0; t < NUM_DTYPES; t++)
            add_shapes(&b, (IrOpKind)kind, (DType)t, (DType)t);
        bench_check(&b);
    }
}

static void
casts_have_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    Bench b = bench_new();
    for (int from = 0; from < NUM_DTYPES; from++) {
        for (int to = 0; to < NUM_DTYPES; to++)
            add_shapes(&b, OP_cast, (DType)from, (DType)to);
    }
    bench_check(&b);
}

/* ---- reductions --------------------------------------------------------- */

/* A shape (0 stands for n) and the axes to reduce. */
typedef struct Shape {
    int rank;
    int64_t dims[3];
    int num_axes;
    int64_t axes[3];
    bool adds_row; /* a value of the last dimension alone is added before, so
                      that the index space cannot become one line */
} Shape;

static const Shape shapes[] = {
    {1, {0}, 1, {0}, false},          {1, {7}, 1, {0}, false},
    {1, {65}, 1, {0}, false},         {1, {66000}, 1, {0}, false},
    {2, {0, 7}, 1, {0}, false},       {2, {0, 7}, 1, {1}, false},
    {2, {0, 65}, 2, {0, 1}, false},   {2, {0, 65}, 2, {0, 1}, true},
    {2, {5, 0}, 1, {1}, false},       {2, {65, 9}, 1, {0}, true},
    {2, {5, 4}, 2, {0, 1}, true},     {2, {300, 250}, 2, {0, 1}, true},
    {2, {600, 128}, 2, {0, 1}, true}, {2, {66000, 3}, 1, {0}, false},
    {3, {4, 0, 6}, 2, {0, 2}, false}, {3, {0, 3, 20}, 2, {1, 2}, true},
    {3, {3, 0, 2}, 1, {1}, false},    {2, {0, 700}, 2, {0, 1}, false},
};

static IrType
shape_type(const Bench *b, const Shape *s, DType t)
{
    Dim dims[3];
    for (int i = 0; i < s->rank; i++)
        dims[i] =
            s->dims[i] ? ir_dim_const(s->dims[i]) : ir_dim_linear(0, 1, b->n);
    return type_of(t, s->rank, dims);
}

static bool
add_reduction(Bench *b, IrOpKind kind, DType t, const Shape *s)
{
    if ((kind == OP_argmax || kind == OP_argmin) && s->num_axes > 1)
        return true;
    IrType type = shape_type(b, s, t), row = type;
    row.rank = 1;
    row.dims[0] = type.dims[type.rank - 1];
    IrType types[] = {type, row};
    Kernel k = kernel_begin(b, s->adds_row ? 2 : 1, types);
    IrValue *x = k.args[0];
    if (s->adds_row && t != DT_bool)
        x = ir_build2(k.body, OP_add, x, k.args[1], NO_LOC);
    else if (s->adds_row)
        x = ir_build2(k.body, OP_eq, x, k.args[1], NO_LOC);
    IrOp *op = ir_op_new(k.op->block->func, kind, 1, &x, NO_LOC);
    ir_set_ints(op, A_axes, s->axes, s->num_axes);
    if (ir_op_infer(op, k.body)) {
        ir_func_remove(k.op->block->func);
        return false;
    }
    ir_append(k.body, op);
    kernel_end(&k, op->results[0]);
    return true;
}

static void
reductions_fold_in_the_order_of_d2(void **state)
{
    (void)state;
    enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0] };
    for (int kind = 0; kind < NUM_OPS; kind++) {
        if (!(ir_op_info[kind].traits & REDUCES))
            continue;
        Bench b = bench_new();
        for (int t = 0; t < NUM_DTYPES; t++) {
            for (int s = 0; s < NUM_SHAPES; s++) {
                if (!add_reduction(&b, (IrOpKind)kind, (DType)t, &shapes[s]))
                    break;
            }
        }
        bench_check(&b);
    }
}

/* ---- products ----------------------------------------------------------- */

typedef struct Dot {
    Shape x, y; /* axes: the contracted ones */
    int num_batch;
} Dot;

/* Plain, transposed, of few and of many products, batched, of a vector, of
 * scalars, of nothing; sums of more than a block of 512 along one axis and
 * along several. */
static const Dot dots[] = {
    {{2, {0, 9}, 1, {1}, 0}, {2, {9, 65}, 1, {0}, 0}, 0},
    {{2, {0, 64}, 1, {1}, 0}, {2, {64, 48}, 1, {0}, 0}, 0},
    {{2, {0, 5}, 1, {0}, 0}, {2, {0, 33}, 1, {0}, 0}, 0},
    {{2, {0, 12}, 1, {1}, 0}, {2, {31, 12}, 1, {1}, 0}, 0},
    {{2, {12, 0}, 1, {1}, 0}, {2, {0, 16}, 1, {0}, 0}, 0},
    {{2, {13, 1300}, 1, {1}, 0}, {2, {1300, 20}, 1, {0}, 0}, 0},
    {{2, {3, 1024}, 1, {1}, 0}, {2, {1024, 5}, 1, {0}, 0}, 0},
    {{3, {2, 600, 3}, 2, {1, 2}, 0}, {3, {600, 3, 18}, 2, {0, 1}, 0}, 0},
    {{3, {2, 3, 700}, 2, {1, 2}, 0}, {3, {3, 18, 700}, 2, {0, 2}, 0}, 0},
    {{3, {9, 0, 4}, 2, {1, 2}, 0}, {3, {0, 4, 6}, 2, {0, 1}, 0}, 0},
    {{3, {3, 0, 10}, 1, {2}, 0}, {3, {3, 10, 17}, 1, {1}, 0}, 1},
    {{2, {0, 40}, 1, {1}, 0}, {1, {40}, 1, {0}, 0}, 0},
    {{1, {40}, 1, {0}, 0}, {2, {40, 0}, 1, {0}, 0}, 0},
    {{1, {0}, 1, {0}, 0}, {1, {0}, 1, {0}, 0}, 0},
    {{1, {1500}, 1, {0}, 0}, {1, {1500}, 1, {0}, 0}, 0},
    {{1, {6}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, 0},
};
enum { NUM_DOTS = sizeof dots / sizeof dots[0] };

/* Products of t; their sum is one of `sum`. */
static void
add_dot(Bench *b, const Dot *dot, DType t, DType sum)
{
    static const int64_t leading[] = {0, 1, 2};
    IrType types[] = {shape_type(b, &dot->x, t), shape_type(b, &dot->y, t)};
    Kernel k = kernel_begin(b, 2, types);
    IrOp *op = ir_build_op(k.body, OP_dot, 2, k.args, NO_LOC);
    ir_set_ints(op, A_contract_x, dot->x.axes, dot->x.num_axes);
    ir_set_ints(op, A_contract_y, dot->y.axes, dot->y.num_axes);
    ir_set_ints(op, A_batch_x, leading, dot->num_batch);
    ir_set_ints(op, A_batch_y, leading, dot->num_batch);
    if (sum != t)
        ir_set_int(op, A_dtype, sum);
    IrValue *d = ir_build_infer(op);
    kernel_end(&k, ir_build2(k.body, OP_maximum, d, d, NO_LOC));
}

static void
products_are_added_in_blocks(void **state)
{
    (void)state;
    for (int t = 0; t < DT_bool; t++) {
        Bench b = bench_new();
        for (int i = 0; i < NUM_DOTS; i++)
            add_dot(&b, &dots[i], (DType)t, (DType)t);
        bench_check(&b);
    }
}

static void
sums_of_products_need_not_be_rounded(void **state)
{
    (void)state;
    static const DType dtypes[] = {DT_bf16, DT_f16};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        Bench b = bench_new();
        for (int j = 0; j < NUM_DOTS; j++)
            add_dot(&b, &dots[j], dtypes[i], DT_f32);
        bench_check(&b);
    }
}

/* ---- rows that change ---------------------------------------------------- */

typedef struct Change {
    Shape x, rows, values;
    int axis;
} Change;

/* Of matrices, of a vector, by one index, by a grid of them, along an axis that
 * is not the first; of a batch, one row, no row, no index.  93 columns are
 * several vectors, fewer, and one that is not whole. */
static const Change changes[] = {
    {{2, {9, 93}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, {2, {0, 93}, 0, {0}, 0}, 0},
    {{2, {9, 65}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, {2, {0, 65}, 0, {0}, 0}, 0},
    {{2, {9, 3}, 0, {0}, 0},
     {2, {0, 4}, 0, {0}, 0},
     {3, {0, 4, 3}, 0, {0}, 0},
     0},
    {{3, {9, 2, 33}, 0, {0}, 0},
     {1, {40}, 0, {0}, 0},
     {3, {40, 2, 33}, 0, {0}, 0},
     0},
    {{1, {9}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, 0},
    {{2, {9, 20}, 0, {0}, 0}, {0, {0}, 0, {0}, 0}, {1, {20}, 0, {0}, 0}, 0},
    {{2, {0, 7}, 0, {0}, 0}, {1, {12}, 0, {0}, 0}, {2, {12, 7}, 0, {0}, 0}, 0},
    {{2, {1, 16}, 0, {0}, 0}, {1, {8}, 0, {0}, 0}, {2, {8, 16}, 0, {0}, 0}, 0},
    {{3, {4, 9, 33}, 0, {0}, 0},
     {0, {0}, 0, {0}, 0},
     {2, {4, 33}, 0, {0}, 0},
     1},
    {{2, {33, 9}, 0, {0}, 0}, {1, {0}, 0, {0}, 0}, {2, {33, 0}, 0, {0}, 0}, 1},
    {{2, {3, 9}, 0, {0}, 0}, {1, {12}, 0, {0}, 0}, {2, {3, 12}, 0, {0}, 0}, 1},
};

static void
add_change(Bench *b, const Change *c, IrUpdate mode, DType t, DType index)
{
    IrType types[] = {shape_type(b, &c->x, t), shape_type(b, &c->rows, index),
                      shape_type(b, &c->values, t)};
    Kernel k = kernel_begin(b, 3, types);
    IrValue *values = k.args[2];
    if (t != DT_bool)
        values = ir_build2(k.body, OP_mul, values, values, NO_LOC);
    kernel_end(&k, ir_build_scatter(k.body, mode, k.args[0], k.args[1], values,
                                    c->axis, NO_LOC));
}

static void
rows_change_one_after_the_other(void **state)
{
    (void)state;
    static const IrUpdate modes[] = {UPDATE_set, UPDATE_add, UPDATE_sub,
                                     UPDATE_mul, UPDATE_div, UPDATE_min,
                                     UPDATE_max};
    static const DType indices[] = {DT_i32, DT_i64, DT_u8};
    enum { NUM_CHANGES = sizeof changes / sizeof changes[0] };
    for (int t = 0; t < NUM_DTYPES; t++) {
        Bench b = bench_new();
        for (int m = 0; m < (t == DT_bool ? 1 : 7); m++)
            for (int i = 0; i < NUM_CHANGES; i++)
                add_change(&b, &changes[i], modes[m], (DType)t,
                           indices[(m + i) % 3]);
        bench_check(&b);
    }
}

/* ---- rows, and operations that move elements ---------------------------- */

typedef IrValue *Program(IrBlock *b, IrValue *const *x, Dim n);

static IrValue *
softmax_of_rows(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t last[] = {1};
    (void)n;
    IrValue *m = ir_build_reduce(b, OP_reduce_max, x[0], last, 1, true, NO_LOC);
    IrValue *e = ir_build2(b, OP_sub, x[0], m, NO_LOC);
    if (dtype_is_float(x[0]->type.dtype))
        e = ir_build1(b, OP_exp, e, NO_LOC);
    IrValue *sum = ir_build_reduce(b, OP_sum, e, last, 1, true, NO_LOC);
    return ir_build2(b, OP_mul, e, sum, NO_LOC);
}

static IrValue *
mean_of_columns(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t first[] = {0};
    IrValue *sum = ir_build_reduce(b, OP_sum, x[0], first, 1, true, NO_LOC);
    IrValue *rows = ir_build_cast(b, ir_build_dim_size(b, n, NO_LOC),
                                  x[0]->type.dtype, NO_LOC);
    IrValue *mean = ir_build2(b, OP_floordiv, sum, rows, NO_LOC);
    return ir_build2(b, OP_sub, x[0], mean, NO_LOC);
}

static IrValue *
transposed_and_itself(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t perm[] = {1, 0};
    (void)n;
    IrValue *t = ir_build_transpose(b, x[0], perm, NO_LOC);
    return ir_build2(b, OP_add, t, ir_build1(b, OP_neg, t, NO_LOC), NO_LOC);
}

static IrValue *
every_second_backwards(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t start[] = {0, 10}, step[] = {1, -2};
    Dim dims[] = {n, ir_dim_const(5)};
    IrValue *s = ir_build_slice(b, x[0], start, dims, step, NO_LOC);
    return ir_build2(b, OP_mul, s, s, NO_LOC);
}

static IrValue *
padded_within_and_around(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t low[] = {2, 1}, step[] = {2, 3};
    Dim dims[] = {ir_dim_linear(3, 2, n.sym), ir_dim_const(40)};
    IrValue *p = ir_build_pad(b, x[0], low, dims, step, NO_LOC);
    return ir_build2(b, OP_sub, p, p, NO_LOC);
}

static IrValue *
joined(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    IrValue *parts[] = {x[0], x[1], x[0]};
    return ir_build_concat(b, 3, parts, 1, NO_LOC);
}

static IrValue *
padded(IrBlock *b, IrValue *x, Dim n, int64_t low_column, int64_t columns)
{
    static const int64_t step[] = {1, 1};
    int64_t low[] = {0, low_column};
    Dim dims[] = {n, ir_dim_const(columns)};
    return ir_build_pad(b, x, low, dims, step, NO_LOC);
}

/* Parts that begin and end at multiples of all numbers of lanes, and columns
 * within them that do not. */
static IrValue *
joined_in_whole_vectors(IrBlock *b, IrValue *const *x, Dim n)
{
    IrValue *narrow = padded(b, x[0], n, 0, 16);
    IrValue *wide = padded(b, ir_build1(b, OP_neg, x[1], NO_LOC), n, 20, 32);
    IrValue *parts[] = {narrow, wide, narrow};
    IrValue *all = ir_build_concat(b, 3, parts, 1, NO_LOC);
    IrValue *left = padded(b, narrow, n, 0, 64);
    IrValue *right = padded(b, wide, n, 32, 64);
    IrValue *sum = ir_build2(b, OP_add, left, right, NO_LOC);
    return ir_build2(b, OP_add, sum, all, NO_LOC);
}

static IrValue *
split_and_reversed(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t axes[] = {0, 2};
    Dim dims[] = {n, ir_dim_const(3), ir_dim_const(4)};
    IrValue *s = ir_build_reshape(b, x[0], 3, dims, NO_LOC);
    return ir_build_reverse(b, s, axes, 2, NO_LOC);
}

/* [n, 12] as [12, n]: rows of the result begin anywhere in those of x. */
static IrValue *
cut_elsewhere(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t perm[] = {1, 0};
    Dim dims[] = {ir_dim_const(12), n};
    IrValue *s = ir_build_reshape(b, x[0], 2, dims, NO_LOC);
    IrValue *t = ir_build_transpose(b, s, perm, NO_LOC);
    return ir_build2(b, OP_add, t, x[0], NO_LOC);
}

static IrValue *
numbered(IrBlock *b, IrValue *const *x, Dim n)
{
    DType t = x[0]->type.dtype;
    Dim dims[] = {n, ir_dim_const(12)};
    IrValue *i = ir_build_iota(b, t, 2, dims, 1, NO_LOC);
    IrValue *j = ir_build_iota(b, t, 2, dims, 0, NO_LOC);
    IrValue *id = ir_build0(b, OP_replica_id, NO_LOC);
    id = ir_build_cast(b, id, t, NO_LOC);
    IrValue *sum = ir_build2(b, OP_mul, i, x[0], NO_LOC);
    sum = ir_build2(b, OP_add, sum, j, NO_LOC);
    return ir_build2(b, OP_add, sum, id, NO_LOC);
}

/* Shifts and masks, for integers. */
static IrValue *
divided_by_powers_of_two(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    DType t = x[0]->type.dtype;
    IrValue *all = x[1];
    for (int power = 1; power <= 64; power *= 8) {
        IrValue *y = dtype_is_float(t) ? ir_const_float(b, t, power, NO_LOC)
                                       : ir_const_int(b, t, power, NO_LOC);
        IrValue *q = ir_build2(b, OP_floordiv, x[0], y, NO_LOC);
        IrValue *rest = ir_build2(b, OP_mod, x[0], y, NO_LOC);
        IrValue *both = ir_build2(b, OP_sub, q, rest, NO_LOC);
        all = ir_build2(b, OP_sub, both, all, NO_LOC);
    }
    return all;
}

static Program *const programs[] = {
    divided_by_powers_of_two,
    softmax_of_rows,
    mean_of_columns,
    transposed_and_itself,
    every_second_backwards,
    padded_within_and_around,
    joined,
    joined_in_whole_vectors,
    split_and_reversed,
    cut_elsewhere,
    numbered,
};

/* Programs of two matrices, in every dtype that is a number. */
static void
check_programs(Program *const *all, size_t num)
{
    for (int t = 0; t < DT_bool; t++) {
        Bench b = bench_new();
        Dim n = ir_dim_linear(0, 1, b.n), dims[] = {n, ir_dim_const(12)};
        IrType type = type_of((DType)t, 2, dims), types[] = {type, type};
        for (size_t i = 0; i < num; i++) {
            Kernel k = kernel_begin(&b, 2, types);
            kernel_end(&k, all[i](k.body, k.args, n));
        }
        bench_check(&b);
    }
}

static void
rows_and_moved_elements_are_right(void **state)
{
    (void)state;
    check_programs(programs, sizeof programs / sizeof *programs);
}

/* ---- rows in order ------------------------------------------------------ */

static IrValue *
running(IrBlock *b, IrValue *x, int64_t axis, bool exclusive, bool reverse)
{
    IrOp *op = ir_build_op(b, OP_cumsum, 1, &x, NO_LOC);
    ir_set_int(op, A_axis, axis);
    if (exclusive)
        ir_set_int(op, A_exclusive, 1);
    if (reverse)
        ir_set_int(op, A_reverse, 1);
    return ir_build_infer(op);
}

static IrValue *
sums_of_rows(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    return running(b, x[0], 1, true, true);
}

static IrValue *
sums_of_columns(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    IrValue *product = ir_build2(b, OP_mul, x[0], x[1], NO_LOC);
    return running(b, product, 0, false, false);
}

static IrValue *
sums_of_lines(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t perm[] = {1, 0};
    (void)n;
    IrValue *lines = ir_build_transpose(b, x[0], perm, NO_LOC);
    return running(b, lines, 1, true, false);
}

static IrValue *
sums_of_one(IrBlock *b, IrValue *const *x, Dim n)
{
    Dim all;
    if (!ir_dim_mul(n, ir_dim_const(12), &all))
        return NULL;
    IrValue *column = ir_build_reshape(
        b, x[0], 2, (const Dim[]){all, ir_dim_const(1)}, NO_LOC);
    return running(b, column, 1, true, false);
}

static IrValue *
order_of(IrBlock *b, IrValue *x, bool descending)
{
    IrOp *op = ir_build_op(b, OP_argsort, 1, &x, NO_LOC);
    if (descending)
        ir_set_int(op, A_descending, 1);
    return ir_build_infer(op);
}

static IrValue *
order_of_rows(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    return order_of(b, ir_build2(b, OP_mul, x[0], x[1], NO_LOC), true);
}

static IrValue *
order_of_columns(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t perm[] = {1, 0};
    (void)n;
    return order_of(b, ir_build_transpose(b, x[0], perm, NO_LOC), false);
}

/* The first of each row, of which many are equal: one, and several. */
static IrValue *
first_of(IrBlock *b, IrValue *x, int64_t first, bool descending)
{
    IrOp *op = ir_build_op(b, OP_argsort, 1, &x, NO_LOC);
    if (descending)
        ir_set_int(op, A_descending, 1);
    ir_set_int(op, A_first, first);
    return ir_build_infer(op);
}

static IrValue *
first_of_rows(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    return first_of(b, ir_build2(b, OP_mul, x[0], x[1], NO_LOC), 1, true);
}

static IrValue *
first_of_repeated(IrBlock *b, IrValue *const *x, Dim n)
{
    const Dim dims[] = {n, ir_dim_const(12), ir_dim_const(12)};
    const Dim rows[] = {n, ir_dim_const(144)};
    const Dim ones[] = {n, ir_dim_const(12), ir_dim_const(1)};
    IrValue *y = ir_build_reshape(b, x[0], 3, ones, NO_LOC);
    y = ir_build_broadcast(b, y, 3, dims, NO_LOC);
    return first_of(b, ir_build_reshape(b, y, 2, rows, NO_LOC), 37, false);
}

/* Of many f64, values whose high halves are equal, so that only the low ones
 * say which comes first, of both signs; with others between them. */
static IrValue *
order_of_neighbours(IrBlock *b, IrValue *const *x, Dim n)
{
    DType t = x[0]->type.dtype;
    IrValue *scale =
        ir_build_cast(b, ir_const_float(b, DT_f64, 0x1p-36, NO_LOC), t, NO_LOC);
    IrValue *one =
        ir_build_cast(b, ir_const_int(b, DT_i64, 1, NO_LOC), t, NO_LOC);
    IrValue *near = ir_build2(b, OP_mul, x[0], scale, NO_LOC);
    near = ir_build2(b, OP_add, near, one, NO_LOC);
    IrValue *is = ir_build2(b, OP_gt, x[1], one, NO_LOC);
    IrValue *negative = ir_build1(b, OP_neg, near, NO_LOC);
    near = ir_build3(b, OP_where, is, near, negative, NO_LOC);
    Dim all;
    if (!ir_dim_mul(n, ir_dim_const(12), &all))
        return NULL;
    return order_of(b, ir_build_reshape(b, near, 1, &all, NO_LOC), false);
}

/* Numbers that are not there are clamped. */
static IrValue *
reordered(IrBlock *b, IrValue *const *x, Dim n)
{
    (void)n;
    IrValue *order = ir_build_cast(b, x[1], DT_i64, NO_LOC);
    return ir_build2(b, OP_reorder, x[0], order, NO_LOC);
}

static IrValue *
some_reordered(IrBlock *b, IrValue *const *x, Dim n)
{
    static const int64_t start[] = {0, 3}, step[] = {1, 1};
    const Dim dims[] = {n, ir_dim_const(5)};
    IrValue *order = ir_build_cast(b, x[1], DT_i64, NO_LOC);
    order = ir_build_slice(b, order, start, dims, step, NO_LOC);
    return ir_build2(b, OP_reorder, x[0], order, NO_LOC);
}

static Program *const in_order[] = {
    sums_of_rows,  sums_of_columns,   sums_of_lines,       sums_of_one,
    order_of_rows, order_of_columns,  order_of_neighbours, reordered,
    first_of_rows, first_of_repeated, some_reordered,
};

static void
rows_in_order_are_right(void **state)
{
    (void)state;
    check_programs(in_order, sizeof in_order / sizeof *in_order);
}

static IrValue *
reduced(IrBlock *b, IrOpKind kind, IrValue *x)
{
    static const int64_t axes[] = {0};
    return ir_build_reduce(b, kind, x, axes, 1, false, NO_LOC);
}

/* Several long reductions, whose chunks threads share; and one that depends on
 * another, whose chunks they cannot share. */
static void
add_long_reductions(Bench *b, DType t, bool waits)
{
    Dim dims[] = {ir_dim_const(131075)};
    IrType types[] = {type_of(t, 1, dims), type_of(t, 0, dims)};
    Kernel k = kernel_begin(b, 2, types);
    IrValue *x = k.args[0],
            *y = ir_build2(k.body, OP_mul, x, k.args[1], NO_LOC);
    IrValue *sum = reduced(k.body, OP_sum, y);
    if (waits)
        x = ir_build2(k.body, OP_sub, x, sum, NO_LOC);
    IrValue *max = reduced(k.body, OP_reduce_max, x);
    IrValue *results[] = {ir_build2(k.body, OP_mul, sum, max, NO_LOC), max,
                          reduced(k.body, OP_argmin, x)};
    kernel_close(&k, 3, results);
}

static void
long_reductions_are_done_together(void **state)
{
    (void)state;
    static const DType dtypes[] = {DT_f32, DT_f64, DT_bf16, DT_i8, DT_i64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        Bench b = bench_new();
        add_long_reductions(&b, dtypes[i], false);
        add_long_reductions(&b, dtypes[i], true);
        assert_int_equal(be_emit_num_chunks(b.kernels.data[0]), 3);
        assert_int_equal(be_emit_num_chunks(b.kernels.data[1]), 0);
        bench_check(&b);
    }
}

/* Columns with so many rows that several vectors of them are computed together,
 * with lines of them at the end. */
static void
add_long_columns(Bench *b, DType t, int64_t rows, int64_t columns)
{
    static const int64_t axes[] = {0};
    Dim dims[] = {ir_dim_const(rows), ir_dim_const(columns)};
    IrType types[] = {type_of(t, 2, dims), type_of(t, 1, dims + 1)};
    Kernel k = kernel_begin(b, 2, types);
    IrValue *x = ir_build2(k.body, OP_mul, k.args[0], k.args[1], NO_LOC);
    IrValue *results[] = {
        ir_build_reduce(k.body, OP_sum, x, axes, 1, false, NO_LOC),
        ir_build_reduce(k.body, OP_argmax, x, axes, 1, false, NO_LOC)};
    results[0] = ir_build2(k.body, OP_add, results[0], k.args[1], NO_LOC);
    kernel_close(&k, 2, results);
}

static void
columns_are_reduced_side_by_side(void **state)
{
    (void)state;
    static const DType dtypes[] = {DT_f64, DT_bf16, DT_i8, DT_f32};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        Bench b = bench_new();
        add_long_columns(&b, dtypes[i], 8193, 70);
        if (dtypes[i] == DT_f32)
            add_long_columns(&b, dtypes[i], 65540, 33);
        bench_check(&b);
    }
}

/* Three kernels of one body and many lengths: whole blocks of lanes, less than
 * a vector, and a rest. */
static void
parts_are_kernels_of_their_own(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1040, 3, 70};
    for (int t = 0; t < DT_bool; t++) {
        Bench b = bench_new();
        IrValue *results[3];
        IrType types[3];
        for (int i = 0; i < 3; i++) {
            Dim dims[] = {ir_dim_const(lengths[i])};
            types[i] = type_of((DType)t, 1, dims);
        }
        Kernel k = kernel_begin(&b, 3, types);
        ir_set_int(k.op, A_segments, 3);
        for (int i = 0; i < 3; i++) {
            IrValue *x = k.args[i];
            x = ir_build2(k.body, OP_mul, x, x, NO_LOC);
            results[i] = ir_build2(k.body, OP_sub, k.args[i], x, NO_LOC);
        }
        kernel_close(&k, 3, results);
        bench_check(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            elementwise_operations_have_the_bits_of_the_interpreter),
        cmocka_unit_test(casts_have_the_bits_of_the_interpreter),
        cmocka_unit_test(reductions_fold_in_the_order_of_d2),
        cmocka_unit_test(products_are_added_in_blocks),
        cmocka_unit_test(sums_of_products_need_not_be_rounded),
        cmocka_unit_test(rows_change_one_after_the_other),
        cmocka_unit_test(rows_and_moved_elements_are_right),
        cmocka_unit_test(rows_in_order_are_right),
        cmocka_unit_test(parts_are_kernels_of_their_own),
        cmocka_unit_test(long_reductions_are_done_together),
        cmocka_unit_test(columns_are_reduced_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
