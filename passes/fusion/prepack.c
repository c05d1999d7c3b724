/*
 * prepack.c - a matrix that every iteration of a loop multiplies is packed once
 *
 *   for t { z = dot h, u }        h: [m, k], few rows; u: [k, n] from outside
 *
 * becomes
 *
 *   p = transpose (reshape u)     [n / w, k, w]: panels of w columns
 *   for t { z = reshape (dot h, p) }
 *
 * A product of few rows reads much of u for each of its multiplications, so the
 * code of a CPU would pack u again in each iteration, into just these panels: w
 * columns side by side are a line of its caches.  A product with panels reads
 * them in place.  Its sums are the same, in the same order (D2).  Recurrent
 * layers are such loops, and so are their gradients.
 *
 * A matrix that several products of a loop multiply is packed once for all, and
 * one that was transposed in front of the loop is packed as it was before.
 * GPUs keep their tiles in shared memory, and their plans stay as they are.
 */
#include <assert.h>
#include "ir/base/cache_line.h"
#include "ir/base/number/dtype.h"
#include "ir/device/device.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/support/pass.h"

enum {
    MIN_ITERATIONS = 8,
    MIN_ROWS = 4, /* fewer are no product of matrices to a CPU */
    MAX_ROWS = 64,
    MIN_BYTES = 384 << 10, /* of the matrix: it does not stay in a cache, */
    MAX_BYTES = 16 << 20   /* of which there are two then */
};

/* A matrix, and its axis of the sums. */
typedef struct Matrix {
    IrValue *value;
    int64_t along;
} Matrix;

/* One in panels, made in front of the loop. */
typedef struct Packed {
    Matrix matrix;
    IrValue *panels;
} Packed;

typedef struct Prepack {
    PassCx *cx;
    VEC(Packed) done;       /* for the current loop */
    VEC(IrOp *) transposes; /* that were looked through */
} Prepack;

/* ---- which products ------------------------------------------------------ */

static bool
has_enough_iterations(const IrOp *loop)
{
    Scalar count;
    return loop->kind == OP_for && ir_const_known(loop->operands[0], &count) &&
           count.i >= MIN_ITERATIONS;
}

/* Columns of a panel. */
static int64_t
panel_width(DType t)
{
    return CACHE_LINE / (int64_t)dtype_info[t].bytes;
}

/* The rows of x in a product along its axis `along`; 0: they are not known. */
static int64_t
num_rows(const IrType *x, int64_t along)
{
    int64_t rows = 1;
    for (int i = 0; i < x->rank; i++) {
        if (i == along)
            continue;
        if (!ir_dim_is_const(x->dims[i]) ||
            __builtin_mul_overflow(rows, x->dims[i].c, &rows))
            return 0;
    }
    return rows;
}

static bool
has_good_sizes(const IrOp *op, int64_t along_x, int64_t along_y)
{
    const IrType *x = &op->operands[0]->type, *y = &op->operands[1]->type;
    int64_t bytes, rows = num_rows(x, along_x);
    return rows >= MIN_ROWS && rows <= MAX_ROWS &&
           ir_type_bytes(op->module, y, &bytes) && bytes >= MIN_BYTES &&
           bytes <= MAX_BYTES &&
           y->dims[1 - along_y].c % panel_width(y->dtype) == 0;
}

/* Whether op multiplies a matrix from outside of the loop, which should be in
 * panels; *along is then its axis of the sums. */
static bool
should_pack(const IrOp *op, const IrOp *loop, int64_t *along)
{
    int num_contract, num_batch = 0;
    if (op->kind != OP_dot)
        return false;
    const IrValue *x = op->operands[0], *y = op->operands[1];
    const int64_t *along_x = ir_ints(op, A_contract_x, &num_contract);
    const int64_t *along_y = ir_ints(op, A_contract_y, &num_contract);
    if (num_contract != 1)
        return false;
    *along = along_y[0];
    if (ir_has(op, A_batch_x))
        ir_ints(op, A_batch_x, &num_batch);
    bool is_float = y->type.dtype == DT_f32 || y->type.dtype == DT_f64;
    return num_batch == 0 && is_float && y->type.rank == 2 &&
           x->type.rank < IR_MAX_RANK && ir_dim_is_const(y->type.dims[0]) &&
           ir_dim_is_const(y->type.dims[1]) && !ir_is_inside(y, loop) &&
           ir_is_inside(x, loop) && has_good_sizes(op, along_x[0], *along);
}

/* ---- packing ------------------------------------------------------------- */

/* The matrix behind v: what v is the transpose of, if it is one. */
static Matrix
matrix_of(Prepack *p, IrValue *v, int64_t along)
{
    int n;
    IrOp *def = v->def;
    if (!def || def->kind != OP_transpose || ir_ints(def, A_perm, &n)[0] != 1)
        return (Matrix){v, along};
    VEC_PUSH(p->cx->arena, p->transposes, def);
    return (Matrix){def->operands[0], 1 - along};
}

/* m, n and k of it being its columns and sums, as [n / w, k, w]. */
static IrValue *
build_panels(IrBlock *b, Matrix m, Loc loc)
{
    static const int64_t of_rows[] = {1, 0, 2}, of_columns[] = {0, 2, 1};
    const IrType *y = &m.value->type;
    int64_t width = panel_width(y->dtype);
    Dim k = y->dims[m.along], n = y->dims[1 - m.along];
    Dim panels = ir_dim_const(n.c / width), w = ir_dim_const(width);
    const Dim rows[] = {k, panels, w}, columns[] = {panels, w, k};
    IrValue *parts =
        ir_build_reshape(b, m.value, 3, m.along == 0 ? rows : columns, loc);
    return ir_build_transpose(b, parts, m.along == 0 ? of_rows : of_columns,
                              loc);
}

static const IrReason *
reason_of(const IrOp *op)
{
    return ir_reason_for(
        op, "prepack.panels",
        "one packing of a matrix for all iterations of a loop");
}

/* op's matrix in panels, in front of the loop. */
static IrValue *
panels_of(Prepack *p, const IrOp *op, IrOp *loop, int64_t along)
{
    Matrix matrix = matrix_of(p, op->operands[1], along);
    for (int i = 0; i < p->done.len; i++) {
        const Packed *q = &p->done.data[i];
        if (q->matrix.value == matrix.value && q->matrix.along == matrix.along)
            return q->panels;
    }
    IrBlock *before = ir_block_scratch(loop);
    IrValue *panels = build_panels(before, matrix, op->loc);
    ir_stamp(before, reason_of(op));
    ir_splice_before(loop, before);
    Packed packed = {matrix, panels};
    VEC_PUSH(p->cx->arena, p->done, packed);
    return panels;
}

/* The product of op with panels, instead of op. */
static void
multiply_panels(IrOp *op, IrValue *panels)
{
    static const int64_t along[] = {1};
    IrBlock *here = ir_block_scratch(op);
    IrValue *operands[] = {op->operands[0], panels};
    const IrType *type = &op->results[0]->type;
    IrOp *dot = ir_build_op(here, OP_dot, 2, operands, op->loc);
    ir_attrs_copy(dot, op);
    ir_set_ints(dot, A_contract_y, along, 1);
    IrValue *product = ir_build_infer(dot);
    ir_forward(op->results[0], ir_build_reshape(here, product, type->rank,
                                                type->dims, op->loc));
    ir_stamp(here, reason_of(op));
    ir_splice_before(op, here);
    ir_remove(op);
}

static void
remove_unused(Prepack *p, IrFunc *fn)
{
    ir_count_uses(fn);
    for (int i = 0; i < p->transposes.len; i++) {
        IrOp *op = p->transposes.data[i];
        if (op->block && op->results[0]->num_uses == 0) {
            op->operands[0]->num_uses--;
            ir_remove(op);
        }
    }
    p->transposes.len = 0;
}

static void
visit(IrOp *loop, void *data)
{
    Prepack *p = data;
    int64_t along;
    if (!has_enough_iterations(loop))
        return;
    p->done.len = 0;
    for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
        next = op->next;
        ir_follow_forwards(op);
        if (should_pack(op, loop, &along))
            multiply_panels(op, panels_of(p, op, loop, along));
    }
}

bool
pass_prepack(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    if (ir_devices_have(cx->m->devices, DEVICE_cuda))
        return true;
    Prepack p = {.cx = cx};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM)
            continue;
        ir_walk(fn->body, visit, &p);
        ir_apply_forwards(fn);
        remove_unused(&p, fn);
    }
    return true;
}
