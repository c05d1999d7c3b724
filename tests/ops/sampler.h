/*
 * sampler.h - private to samples: helpers for building programs
 *
 * A builder makes results in the run region of a device program, or above it
 * in cross-replica context.
 */
#ifndef TFD_TESTS_OPS_SAMPLER_H
#define TFD_TESTS_OPS_SAMPLER_H

#include "ir/ir.h"
#include "tests/ops/samples.h"

typedef struct Sampler {
    OpSample *out;
    OpValues values;
    IrModule *m;
    IrFunc *fn;
    IrBlock *b; /* in the run region */
    Dim s;      /* the size asked for */
    Loc loc;
    bool refused;     /* the operation does not allow this */
    IrValues results; /* of the run region */
    IrValues above;   /* of cross-replica context */
} Sampler;

#define DIMS(...) ((const Dim[]){__VA_ARGS__})
#define AXES(...) ((const int64_t[]){__VA_ARGS__})

static inline Dim
num(int64_t c)
{
    return ir_dim_const(c);
}

/* A parameter of the sample's dtype and values; of any dtype and values. */
IrValue *sampler_arg(Sampler *s, int rank, const Dim *dims);
IrValue *sampler_arg_of(Sampler *s, DType t, OpValues values, int rank,
                        const Dim *dims);
/* v is a result; NULL is none. */
void sampler_result(Sampler *s, IrValue *v);

/* An operation of the sample's kind without attributes, in b. */
IrOp *sampler_op(Sampler *s, IrBlock *b, int n, IrValue *const *operands);
/* Infers op: its first result, or NULL when it is refused, which the sampler
 * notes.  The operation is removed then. */
IrValue *sampler_infer(Sampler *s, IrOp *op);

/* A new variable of the sample's dtype. */
IrVar *sampler_var(Sampler *s, const char *name, VarSync sync, IrAgg agg,
                   int rank, const Dim *dims);

/* The program is a main that was read from text, instead. */
void sampler_read_main(Sampler *s, const char *text);

bool sampler_is_batch(const Sampler *s);

typedef void SampleBuilder(Sampler *s);

#define SAMPLE(op, builder, values) SampleBuilder build_##builder;
#include "tests/ops/samples.def"
#undef SAMPLE

#endif
