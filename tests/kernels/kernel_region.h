/*
 * kernel_region.h - a region whose kernel is executed
 *
 * A test makes a region, and executes its kernel (tests/ref/kernel_eval) on
 * numbers made from their positions: as built and as read back from its text,
 * with the grid cut in two.  A difference or a refusal fails the test.
 */
#ifndef TFD_TESTS_UNIT_KERNEL_REGION_H
#define TFD_TESTS_UNIT_KERNEL_REGION_H

#include "tests/unit/unit.h"

#include "backend/kernel/kernel.h"
#include "ir/ir.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MAX_ARRAYS = 8, REPLICA = 3, ROW_START = 1000, REGION_SIZES = 4 };

/* One region and, when it has run, its arrays. */
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

/* Lengths that are odd in their own ways, of dimensions or of the batch. */
extern const int64_t region_sizes[REGION_SIZES];

/* ---- making ------------------------------------------------------------- */

Region region_new(void);
void region_free(Region *r);
IrValue *region_arg(Region *r, DType t, int rank, const Dim *dims);

#define C(x) ir_dim_const(x)
#define ARG(r, t, ...)                                                         \
    region_arg(r, t, COUNT(((Dim[]){__VA_ARGS__})), (Dim[]){__VA_ARGS__})

/* Ends the region with its outputs, and makes its kernel. */
void region_close(Region *r, int num, IrValue *const *outs);
/* Executes the region's kernel, for a batch of that many rows. */
void region_run(Region *r, int64_t rows);
/* Both, for one output. */
void region_make(Region *r, IrValue *result, int64_t rows);

/* ---- inputs and results ------------------------------------------------- */

/* How many elements a value of that type has in the last run. */
int64_t region_elements(const Region *r, const IrType *t);

static inline Scalar
in(const Region *r, int array, int64_t at)
{
    return scalar_load(r->b->args.data[array]->type.dtype, r->ptrs[array], at);
}

static inline double
in_float(const Region *r, int array, int64_t at)
{
    return in(r, array, at).f;
}

static inline Scalar
out(const Region *r, int array, int64_t at)
{
    return scalar_load(r->outs[array]->type.dtype,
                       r->ptrs[r->b->args.len + array], at);
}

/* That the element is that number, bit for bit; a NaN is any NaN. */
void assert_same(Region *r, Scalar have, Scalar want, int64_t at);
void assert_float(Region *r, int array, int64_t at, double want);
void assert_int(Region *r, int array, int64_t at, int64_t want);

#endif
