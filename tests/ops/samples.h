/*
 * samples.h - a program for every operation of the table, dtype and size
 *
 * For tests that need every operation: of passes, compiled code, the runner.
 * samples.def names the builder of each operation.
 */
#ifndef TFD_TESTS_OPS_SAMPLES_H
#define TFD_TESTS_OPS_SAMPLES_H

#include "ir/ir.h"
#include "tests/ref/tensor.h"

/* Which program is wanted. */
typedef struct OpCase {
    IrOpKind kind;
    DType dtype;  /* of the operands */
    int64_t size; /* of an axis; SIZE_BATCH: the rows of a replica */
    int num_replicas;
    bool gradient; /* give a loss and its gradients instead of results */
} OpCase;

enum { SIZE_BATCH = -1, OP_MAX_ARGS = 32, SAMPLE_ROWS = 65 };

typedef enum OpValues {
    VALUES_ANY,
    VALUES_POSITIVE,
    VALUES_UNIT,
    VALUES_FLAGS
} OpValues;

typedef struct OpArg {
    IrType type;
    OpValues values;
} OpArg;

typedef struct OpSample {
    OpCase of;
    IrModule *m;         /* phase ir, verified by the caller */
    const char *program; /* a device program; NULL: m has a main instead */
    OpArg args[OP_MAX_ARGS];
    int num_args;
    int32_t rows; /* the symbol n, of at most SAMPLE_ROWS rows, or -1 */
    /* With gradient the program returns the loss, and after it the gradients
     * with respect to its first num_wrt arguments. */
    int num_wrt;
} OpSample;

/* Makes it in a.  False when the operation does not allow the dtype, has no
 * such size, or no gradient. */
bool op_sample(Arena *a, const OpCase *c, OpSample *out);

/* Fills x, which has its shape, with values of an argument: of the same seed
 * and number the same ones, but for rounding to x's dtype. */
void op_sample_fill(OpValues values, uint64_t seed, RefTensor *x);

#endif
