/*
 * build.h - making operations in a line each
 *
 * The ir_build_* functions append an operation to a block, infer its result
 * and return it.  They are for callers that know their operands to be right
 * (passes; the front end after its own checks): what does not infer ends the
 * program with UNREACHABLE.  To get an error as words for a user call
 * ir_op_new, ir_set_*, ir_op_infer and ir_append.
 *
 * Inference asks where a block stands, so an operation with regions is
 * appended first, its regions are filled then, and ir_op_close gives it its
 * results:
 *
 *   IrOp *run = ir_build_op(main, OP_run, 0, NULL, loc);
 *   IrValue *w = ir_build_read(run->regions[0], "w", loc);
 *   ir_build_yield(run->regions[0], 1, &w, loc);
 *   ir_op_close(run);
 *   ... run->results[0] ...
 *
 * To put operations in the middle of a block, build them in a scratch block
 * and splice it.
 */
#ifndef TFD_IR_BUILD_H
#define TFD_IR_BUILD_H

#include "ir/ir.h"

/* ---- any operation ----------------------------------------------------- */

/* With no, one, two and three operands and no attributes. */
IrValue *ir_build0(IrBlock *b, IrOpKind kind, Loc loc);
IrValue *ir_build1(IrBlock *b, IrOpKind kind, IrValue *x, Loc loc);
IrValue *ir_build2(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y, Loc loc);
IrValue *ir_build3(IrBlock *b, IrOpKind kind, IrValue *x, IrValue *y,
                   IrValue *z, Loc loc);

/* Appended, with an empty block for each region of its kind, without results
 * and not inferred: for control flow, and to set attributes. */
IrOp *ir_build_op(IrBlock *b, IrOpKind kind, int num_operands,
                  IrValue *const *operands, Loc loc);
/* Infers op, which must be right; its first result, or NULL if it has none. */
IrValue *ir_build_infer(IrOp *op);

/* ---- constants --------------------------------------------------------- */

IrValue *ir_const_float(IrBlock *b, DType t, double x, Loc loc);
IrValue *ir_const_int(IrBlock *b, DType t, int64_t x, Loc loc);
IrValue *ir_const_bool(IrBlock *b, bool x, Loc loc);
IrValue *ir_const_scalar(IrBlock *b, Scalar x, Loc loc);
/* Elements in row-major order; dims are constants. */
IrValue *ir_const_data(IrBlock *b, DType t, int rank, const Dim *dims,
                       const void *bytes, Loc loc);
/* x in every element of a value of that dtype and shape. */
IrValue *ir_const_fill(IrBlock *b, DType t, int rank, const Dim *dims, Scalar x,
                       Loc loc);
/* 0 in the dtype and shape of like. */
IrValue *ir_const_zeros(IrBlock *b, const IrType *like, Loc loc);

/* Whether every element of v is one number known now (a constant, also behind
 * broadcast, reshape and copy), and which. */
bool ir_const_known(const IrValue *v, Scalar *out);

/* ---- operations with attributes ---------------------------------------- */

/* x as that dtype: x itself when it has it. */
IrValue *ir_build_cast(IrBlock *b, IrValue *x, DType to, Loc loc);
/* x under that shape: x itself when it has it.  Broadcast also where the
 * shapes differ in rank; reshape where elements are to be kept. */
IrValue *ir_build_broadcast(IrBlock *b, IrValue *x, int rank, const Dim *dims,
                            Loc loc);
IrValue *ir_build_reshape(IrBlock *b, IrValue *x, int rank, const Dim *dims,
                          Loc loc);
/* sum, prod, reduce_max, ..., argmin over axes (ascending). */
IrValue *ir_build_reduce(IrBlock *b, IrOpKind kind, IrValue *x,
                         const int64_t *axes, int num_axes, bool keepdims,
                         Loc loc);
IrValue *ir_build_sum_all(IrBlock *b, IrValue *x, Loc loc);
IrValue *ir_build_transpose(IrBlock *b, IrValue *x, const int64_t *perm,
                            Loc loc);
IrValue *ir_build_slice(IrBlock *b, IrValue *x, const int64_t *start,
                        const Dim *dims, const int64_t *step, Loc loc);
IrValue *ir_build_pad(IrBlock *b, IrValue *x, const int64_t *low,
                      const Dim *dims, const int64_t *step, Loc loc);
IrValue *ir_build_reverse(IrBlock *b, IrValue *x, const int64_t *axes,
                          int num_axes, Loc loc);
IrValue *ir_build_concat(IrBlock *b, int n, IrValue *const *xs, int64_t axis,
                         Loc loc);
/* x with rows changed by values, as ops.def says; mode is add, sub, mul, div,
 * min, max or set. */
IrValue *ir_build_scatter(IrBlock *b, const char *mode, IrValue *x,
                          IrValue *rows, IrValue *values, Loc loc);
/* x with values added to rows; sums of f16 and bf16 are f32, rounded once. */
IrValue *ir_build_add_rows(IrBlock *b, IrValue *x, IrValue *rows,
                           IrValue *values, Loc loc);
IrValue *ir_build_iota(IrBlock *b, DType t, int rank, const Dim *dims,
                       int64_t axis, Loc loc);

/* Axes of a contraction; the pairs with num 0 may be NULL. */
typedef struct IrDotAxes {
    const int64_t *contract_x, *contract_y;
    int num_contract;
    const int64_t *batch_x, *batch_y;
    int num_batch;
} IrDotAxes;
IrValue *ir_build_dot(IrBlock *b, IrValue *x, IrValue *y, const IrDotAxes *axes,
                      Loc loc);

IrValue *ir_build_dim_size(IrBlock *b, Dim d, Loc loc); /* an i64 */
IrValue *ir_build_param(IrBlock *b, const char *param, Loc loc);
IrValue *ir_build_read(IrBlock *b, const char *var, Loc loc);
IrOp *ir_build_write(IrBlock *b, const char *var, const char *mode, IrValue *x,
                     Loc loc);
/* all_reduce of n values together; results as op->results. */
IrOp *ir_build_all_reduce(IrBlock *b, const char *op, int n, IrValue *const *xs,
                          Loc loc);
IrValue *ir_build_all_gather(IrBlock *b, IrValue *x, int64_t axis, Loc loc);

/* ---- regions and functions --------------------------------------------- */

IrOp *ir_build_yield(IrBlock *b, int n, IrValue *const *xs, Loc loc);
IrOp *ir_build_return(IrBlock *b, int n, IrValue *const *xs, Loc loc);

/* The yield or return that ends b, or NULL while it has none. */
IrOp *ir_block_yield(const IrBlock *b);
/* fn's return: its operands are the results.  NULL while it has none. */
IrOp *ir_func_return(const IrFunc *fn);

/* Gives run, merge, if, for, while and kernel the results that their regions'
 * yields say; localities are joined, and those of an if, for or while under a
 * per-replica condition are per_replica.  The yields of a kind must agree in
 * dtype and shape.  The arguments of a loop must have their final localities:
 * see ir_settle_localities. */
void ir_op_close(IrOp *op);

/* Infers the localities of fn anew, of loops' arguments and of control flow's
 * results too: the least that hold.  For whoever builds a loop before it knows
 * what the loop's values become, or replaced values by others that agree more.
 * Leaves what it cannot infer (iter_next, launch, grad) as it is. */
void ir_settle_localities(IrFunc *fn);

/* The if, for or while around b whose condition or count is per-replica, so
 * that replicas may go different ways to b; NULL when all go the same.  Asks
 * up to the operation or function that makes b's context. */
const IrOp *ir_divergence(const IrBlock *b);

/* ---- in the middle of a block ------------------------------------------ */

/* An empty block that counts as standing where `where` stands. */
IrBlock *ir_block_scratch(const IrOp *where);
/* Moves all operations of the scratch block before (after) where. */
void ir_splice_before(IrOp *where, IrBlock *scratch);
void ir_splice_after(IrOp *where, IrBlock *scratch);

/* A reason in the module's arena; cause is a format. */
const IrReason *ir_reason(IrModule *m, const char *rule, Loc loc,
                          const char *cause, ...)
    __attribute__((format(printf, 4, 5)));
/* Gives it to every operation of b and below that has none. */
void ir_stamp(IrBlock *b, const IrReason *reason);

/* ---- facts that many ask for ------------------------------------------- */

/* Bytes of a value when all its batch symbols are at their bounds; false when
 * they are more than IR_MAX_BYTES or a dimension could be negative. */
#define IR_MAX_BYTES ((int64_t)1 << 44)
bool ir_type_bytes(const IrModule *m, const IrType *t, int64_t *bytes);

/* Whether a replica reads and writes v for itself, so that nobody else's is
 * like it: a part of a sync-on-read variable, or a variable that is on one
 * device alone. */
bool ir_var_is_own(const IrVar *v);

/* The type whose symbols are replaced by their bounds. */
IrType ir_type_full(const IrModule *m, const IrType *t);
Dim ir_dim_full(const IrModule *m, Dim d);

/* Whether t's shape hangs on the rows of one replica (an n with a partner). */
bool ir_type_is_local(const IrModule *m, const IrType *t);

/* The symbol n whose rows an iter_next gives, or -1: static shapes. */
int32_t ir_next_rows(const IrOp *op);
/* A symbol without partner: the batch of a dataset before distribution. */
int32_t ir_symbol_alone(IrModule *m, int64_t bound);

/* Same attributes with the same values; a hash that such operations share. */
bool ir_attrs_equal(const IrOp *a, const IrOp *b);
uint64_t ir_attrs_hash(const IrOp *op);
/* A copy of from's attributes; both are of one kind. */
void ir_attrs_copy(IrOp *to, const IrOp *from);

/* Words for Diag of a value's type: "f32[n, 3] per_replica". */
const char *ir_type_text(const IrModule *m, const IrType *t);
const char *ir_dims_text(const IrModule *m, int rank, const Dim *dims);

/* Whether the kernel may make result r in exactly the bytes of operand o: it
 * reads an element of o only to make that element of its results, or changes
 * rows of it.  Uses the marks inside of it. */
bool ir_kernel_may_overwrite(const IrOp *kernel, int o, int r);

/* One of the parts that a kernel has: kernels that only differ in their values'
 * lengths, done as one.  A kernel without `parts` is one part. */
typedef struct IrPart {
    IrValue **args, **results; /* of the region; what it yields */
    IrOp *first;
    int num_args, num_results, num_ops; /* the same for all */
} IrPart;
int ir_kernel_parts(const IrOp *kernel);
IrPart ir_kernel_part(const IrOp *kernel, int number);
/* The elements of each of p's results; -1 when that is not one number from 2
 * on, or p is none that could be one of several. */
int64_t ir_part_length(const IrPart *p);
/* Whether both compute the same of values of other lengths; they have lengths.
 */
bool ir_parts_alike(const IrPart *p, const IrPart *q);

/* The collectives of fn in the order of the text, those of regions included:
 * the order in which every device meets them.  An array of *count in a. */
IrOp **ir_collectives(const IrFunc *fn, Arena *a, int *count);

#endif
