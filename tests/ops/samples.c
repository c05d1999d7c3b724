/*
 * samples.c - a program for every operation: the table, and common code
 */
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/text/text.h"
#include "tests/ops/sampler.h"

#include <string.h>
#include "ir/base/status.h"

static const struct {
    SampleBuilder *build;
    OpValues values;
} samples[NUM_OPS] = {
#define SAMPLE(op, builder, values)                                            \
    [OP_##op] = {build_##builder, VALUES_##values},
#include "tests/ops/samples.def"
#undef SAMPLE
};

enum {
    NUM_SAMPLES = 0
#define SAMPLE(op, builder, values) +1
#include "tests/ops/samples.def"
#undef SAMPLE
};
_Static_assert(
    (int)NUM_SAMPLES == (int)NUM_OPS,
    "a row of ir/ops/ops.def has no sample: see tests/ops/samples.def");

/* ---- values ------------------------------------------------------------- */

static uint64_t
mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* From 0.25 up to 2. */
static double
magnitude(uint64_t bits)
{
    return 0.25 + 1.75 * ((double)(bits >> 12) / 0x1p52);
}

static Scalar
value_of(OpValues values, DType t, uint64_t bits)
{
    bool negative = (values == VALUES_ANY || values == VALUES_UNIT) && bits & 1;
    if (t == DT_bool || values == VALUES_FLAGS)
        return scalar_int(DT_i64, bits >> 8 & 1);
    if (!dtype_is_float(t)) {
        int64_t x = (int64_t)(bits >> 8) % 6;
        bool is_signed = dtype_info[t].kind == DTYPE_SIGNED;
        return scalar_int(DT_i64, negative && is_signed ? -x : x);
    }
    double x = magnitude(bits) * (values == VALUES_UNIT ? 0.45 : 1);
    return scalar_float(DT_f64, negative ? -x : x);
}

void
op_sample_fill(OpValues values, uint64_t seed, RefTensor *x)
{
    for (int64_t i = 0; i < x->count; i++)
        ref_set(x, i, value_of(values, x->dtype, mix(mix(seed) + (uint64_t)i)));
}

/* ---- what builders use -------------------------------------------------- */

IrValue *
sampler_arg_of(Sampler *s, DType t, OpValues values, int rank, const Dim *dims)
{
    IrType type = ir_type_scalar(t, LOCAL_PER_REPLICA);
    type.rank = rank;
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    if (s->out->num_args == OP_MAX_ARGS)
        UNREACHABLE("a sample with more than %d arguments", OP_MAX_ARGS);
    s->out->args[s->out->num_args++] = (OpArg){type, values};
    return ir_block_arg(s->fn->body, type, NULL);
}

IrValue *
sampler_arg(Sampler *s, int rank, const Dim *dims)
{
    return sampler_arg_of(s, s->out->of.dtype, s->values, rank, dims);
}

void
sampler_result(Sampler *s, IrValue *v)
{
    if (v)
        VEC_PUSH(s->m->arena, s->results, v);
}

IrOp *
sampler_op(Sampler *s, IrBlock *b, int n, IrValue *const *operands)
{
    return ir_build_op(b, s->out->of.kind, n, operands, s->loc);
}

IrValue *
sampler_infer(Sampler *s, IrOp *op)
{
    if (!ir_op_infer(op, op->block))
        return op->num_results ? op->results[0] : NULL;
    ir_remove(op);
    s->refused = true;
    return NULL;
}

IrVar *
sampler_var(Sampler *s, const char *name, VarSync sync, IrAgg agg, int rank,
            const Dim *dims)
{
    IrVar *v = NEW(s->m->arena, IrVar);
    v->name = intern(s->m->names, name);
    v->type = ir_type_scalar(s->out->of.dtype, LOCAL_MIRRORED);
    if (sync == SYNC_ON_READ)
        v->type.locality = LOCAL_PER_REPLICA;
    v->type.rank = rank;
    for (int i = 0; i < rank; i++)
        v->type.dims[i] = dims[i];
    v->sync = sync;
    v->agg = agg;
    v->loc = s->loc;
    ir_var_add(s->m, v);
    return v;
}

void
sampler_read_main(Sampler *s, const char *text)
{
    Diag *d = s->m->diag;
    uint16_t file = diag_add_source(d, "main.tir", text, strlen(text));
    s->out->m = ir_parse(s->m->arena, s->m->names, d, file, text, strlen(text));
    s->out->program = NULL;
    if (!s->out->m)
        UNREACHABLE("%s", diag_text(d, s->m->arena));
}

bool
sampler_is_batch(const Sampler *s)
{
    return s->out->of.size == SIZE_BATCH;
}

/* ---- gradients ---------------------------------------------------------- */

/* The sum of all elements of all float results, each times a weight. */
static IrValue *
weighted_sum(Sampler *s)
{
    IrValue *loss = NULL;
    for (int i = 0; i < s->results.len; i++) {
        IrValue *v = s->results.data[i];
        if (!dtype_is_float(v->type.dtype))
            continue;
        IrValue *w = sampler_arg_of(s, v->type.dtype, VALUES_ANY, v->type.rank,
                                    v->type.dims);
        IrValue *sum = ir_build_sum_all(
            s->b, ir_build2(s->b, OP_mul, v, w, s->loc), s->loc);
        sum = ir_build_cast(s->b, sum, s->out->of.dtype, s->loc);
        loss = loss ? ir_build2(s->b, OP_add, loss, sum, s->loc) : sum;
    }
    return loss;
}

/* The results become the loss and its gradients. */
static bool
add_gradients(Sampler *s)
{
    IrValue *operands[OP_MAX_ARGS + 1];
    IrType types[OP_MAX_ARGS];
    int n = 0;
    for (; n < s->out->num_args; n++) {
        operands[n + 1] = s->fn->body->args.data[n];
        types[n] = s->out->args[n].type;
        if (!dtype_is_float(types[n].dtype))
            return false;
    }
    operands[0] = weighted_sum(s);
    if (!operands[0] || n == 0)
        return false;
    IrOp *grad = ir_build_op(s->b, OP_grad, n + 1, operands, s->loc);
    ir_op_results(grad, n, types);
    s->results.len = 0;
    sampler_result(s, operands[0]);
    for (int i = 0; i < n; i++)
        sampler_result(s, grad->results[i]);
    s->out->num_wrt = n;
    return true;
}

/* ---- making one --------------------------------------------------------- */

static IrModule *
new_module(Arena *a, const OpCase *c)
{
    Diag *d = diag_new(a);
    diag_add_source(d, "sample.tfd", NULL, 0);
    IrModule *m = ir_module_new(a, intern_new(a), d);
    m->num_replicas = c->num_replicas;
    m->strategy = STRATEGY_mirrored;
    m->devices = arena_printf(a, "cpu:0-%d", c->num_replicas - 1);
    return m;
}

/* Returns the results of the run region, then the values after it. */
static void
finish(Sampler *s, IrOp *run)
{
    Arena *a = s->m->arena;
    ir_build_yield(s->b, s->results.len, s->results.data, s->loc);
    ir_op_close(run);
    IrValues all = {0};
    for (int i = 0; i < run->num_results; i++)
        VEC_PUSH(a, all, run->results[i]);
    for (int i = 0; i < s->above.len; i++)
        VEC_PUSH(a, all, s->above.data[i]);
    ir_build_return(s->fn->body, all.len, all.data, s->loc);
    ir_infer_localities(s->fn);
}

bool
op_sample(Arena *a, const OpCase *c, OpSample *out)
{
    *out = (OpSample){.of = *c, .m = new_module(a, c), .program = "f"};
    Sampler s = {.out = out, .m = out->m, .values = samples[c->kind].values};
    s.loc = (Loc){1, 1, 1, 0};
    s.s = num(c->size);
    out->rows = -1;
    if (c->size == SIZE_BATCH) {
        out->rows = ir_symbol_pair(s.m, SAMPLE_ROWS,
                                   (int64_t)SAMPLE_ROWS * c->num_replicas);
        s.s = ir_dim_linear(0, 1, out->rows);
    }
    s.fn = ir_func_new(s.m, "f", FUNC_PROGRAM, s.loc);
    IrOp *run = ir_build_op(s.fn->body, OP_run, 0, NULL, s.loc);
    s.b = run->regions[0];
    samples[c->kind].build(&s);
    if (s.refused || (c->gradient && !add_gradients(&s)))
        return false;
    if (out->program)
        finish(&s, run);
    return true;
}
