/*
 * check_index.c - indices that are known when the program runs
 *
 * An operation clamps an index that is out of range, or leaves it out, so that
 * memory stays safe; before the operation an assert stops the program with the
 * index and the line (D9).  The column index of ops.def says which operations
 * have indices, and fe_emit asks fe_check_indices for each; operations that
 * find elements by comparing (one_hot, a mask) ask for the check themselves.
 *
 * An index that was checked against a length is not checked again where the
 * first check has been passed: in its block and those within.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/slices.h"
#include "ir/base/message.h"
#include "ir/rules/build.h"

/* ---- constants ---------------------------------------------------------- */

/* The first of a constant that is not in 0 .. size - 1; false when all are. */
static bool
find_wrong(const IrOp *constant, int64_t size, int64_t *out)
{
    int64_t bytes;
    DType t = (DType)ir_int(constant, A_dtype);
    const void *data = ir_data(constant, A_data, &bytes);
    int64_t count = bytes / (int64_t)dtype_info[t].bytes;
    for (int64_t i = 0; i < count; i++) {
        *out = scalar_load(t, data, i).i;
        if (*out < 0 || *out >= size)
            return true;
    }
    return false;
}

/* Whether index and size are known now. */
static bool
is_known(const IrValue *index, Dim size)
{
    return index->def && index->def->kind == OP_constant &&
           ir_dim_is_const(size);
}

/* Whether the elements of op are those of its first operand, or their integers
 * in another dtype. */
static bool
is_of_same(const IrOp *op)
{
    bool casts =
        op->kind == OP_cast && dtype_is_int(op->operands[0]->type.dtype);
    return casts || (op->kind != OP_concat && op->num_operands > 0 &&
                     (ir_op_info[op->kind].traits & (MOVES | VIEW)));
}

/* Whether index, made of bytes, has no number beyond size: they name all of
 * 256. */
static bool
fits_always(const IrValue *index, Dim size)
{
    while (index->type.dtype != DT_u8 && index->def && is_of_same(index->def))
        index = index->def->operands[0];
    return index->type.dtype == DT_u8 && ir_dim_is_const(size) &&
           size.c > UINT8_MAX;
}

bool
fe_index_error(Lower *cx, int64_t i, int64_t size, const char *var, Loc loc)
{
    const char *range = size ? fe_format(cx, "the first is 0, the last %lld",
                                         (long long)size - 1)
                             : NULL;
    if (var)
        fe_error_note(cx, loc, range, "index %lld of %lld, in \"%s\"",
                      (long long)i, (long long)size, var);
    else
        fe_error_note(cx, loc, range, "index %lld of %lld", (long long)i,
                      (long long)size);
    return false;
}

bool
fe_index_dtype_error(Lower *cx, DType t, const char *text, Loc loc)
{
    bool is_user = loc_is_same(fe_user_loc(cx, loc), loc);
    fe_error_note(cx, loc,
                  fe_format(cx, "cast it: i32(%s)", is_user ? text : "..."),
                  "an index is an integer, not %s", dtype_info[t].name);
    return false;
}

/* ---- when the program runs ---------------------------------------------- */

/* Whether the program can stop here. */
static bool
can_assert(const Lower *cx)
{
    return cx->context != FE_TOP;
}

static bool
encloses(const IrBlock *outer, const IrBlock *b)
{
    while (b && b != outer)
        b = b->op ? b->op->block : NULL;
    return b != NULL;
}

static bool
was_checked(const Lower *cx, const IrValue *index, Dim size)
{
    for (int i = cx->checked.len - 1; i >= 0; i--) {
        const FeCheckedIndex *c = &cx->checked.data[i];
        if (c->index == index && ir_dim_equal(c->size, size) &&
            encloses(c->block, cx->block))
            return true;
    }
    return false;
}

void
fe_mark_index_checked(Lower *cx, IrValue *index, Dim size)
{
    FeCheckedIndex c = {index, size, cx->block};
    VEC_PUSH(cx->arena, cx->checked, c);
}

IrValue *
fe_length_of(Lower *cx, Dim size, Loc loc)
{
    return ir_dim_is_const(size) ? ir_const_int(cx->block, DT_i64, size.c, loc)
                                 : ir_build_dim_size(cx->block, size, loc);
}

static const char *
one_index(Lower *cx, const char *var)
{
    return var ? message_printf(cx->arena,
                                "index {} of an axis of \"%s\" that has {}, "
                                "numbered from 0",
                                var)
               : MESSAGE("index {} of an axis that has {}, numbered from 0");
}

static const char *
several_indices(Lower *cx, const char *var)
{
    return var ? message_printf(cx->arena,
                                "there are indices from {} to {}, and the axis "
                                "of \"%s\" has {}, numbered from 0",
                                var)
               : MESSAGE("there are indices from {} to {}, and the axis has "
                         "{}, numbered from 0");
}

static void
assert_with(Lower *cx, int n, IrValue *const *operands, const char *format,
            Loc loc)
{
    IrOp *op = fe_op(cx, OP_assert, n, operands, loc);
    ir_set_text(op, A_format, format);
    fe_emit(cx, op);
}

/* The format is of the index, or of the least and the greatest of several, and
 * of their end. */
static void
check_at_run_time(Lower *cx, IrValue *index, Dim size, const char *format,
                  Loc loc)
{
    IrBlock *b = cx->block;
    int64_t axes[IR_MAX_RANK];
    int rank = index->type.rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    IrValue *x = ir_build_cast(b, index, DT_i64, loc);
    IrValue *low = x, *high = x;
    if (rank) {
        low = ir_build_reduce(b, OP_reduce_min, x, axes, rank, false, loc);
        high = ir_build_reduce(b, OP_reduce_max, x, axes, rank, false, loc);
    }
    IrValue *end = fe_length_of(cx, size, loc);
    IrValue *zero = ir_const_int(b, DT_i64, 0, loc);
    IrValue *from_zero = ir_build2(b, OP_ge, low, zero, loc);
    IrValue *below_end = ir_build2(b, OP_lt, high, end, loc);
    IrValue *ok = ir_build2(b, OP_and, from_zero, below_end, loc);
    if (rank)
        assert_with(cx, 4, (IrValue *[]){ok, low, high, end}, format, loc);
    else
        assert_with(cx, 3, (IrValue *[]){ok, low, end}, format, loc);
}

const char *
fe_variable_of(const IrValue *x)
{
    while (x->def && x->def->kind == OP_cast)
        x = x->def->operands[0];
    return x->def && x->def->kind == OP_read ? ir_text(x->def, A_var) : NULL;
}

/* Whether an index, which is not known now, is to be checked then. */
static bool
is_unchecked(Lower *cx, IrValue *index, Dim size)
{
    if (fits_always(index, size) || was_checked(cx, index, size))
        return false;
    fe_mark_index_checked(cx, index, size);
    return true;
}

bool
fe_check_range(Lower *cx, IrValue *index, Dim size, const char *var, Loc loc)
{
    int64_t wrong;
    if (!can_assert(cx) || !fe_check_can_emit(cx, loc))
        return true;
    if (is_known(index, size))
        return !find_wrong(index->def, size.c, &wrong) ||
               fe_index_error(cx, wrong, size.c, var, loc);
    if (is_unchecked(cx, index, size))
        check_at_run_time(cx, index, size,
                          index->type.rank ? several_indices(cx, var)
                                           : one_index(cx, var),
                          loc);
    return true;
}

bool
fe_check_labels(Lower *cx, IrValue *labels, Dim size, Loc loc)
{
    int64_t wrong;
    if (!can_assert(cx) || !fe_check_can_emit(cx, loc))
        return true;
    if (is_known(labels, size)) {
        if (!find_wrong(labels->def, size.c, &wrong))
            return true;
        fe_error_note(cx, loc,
                      "correct the labels, or make the last layer (or one_hot) "
                      "wider",
                      "label %lld of %lld classes, numbered from 0",
                      (long long)wrong, (long long)size.c);
        return false;
    }
    if (is_unchecked(cx, labels, size))
        check_at_run_time(
            cx, labels, size,
            labels->type.rank
                ? MESSAGE("there are labels from {} to {}, and {} classes, "
                          "numbered from 0: correct the labels, or make the "
                          "last layer (or one_hot) wider")
                : MESSAGE("there is a label {}, and {} classes, numbered from "
                          "0: correct the label, or make the last layer (or "
                          "one_hot) wider"),
            loc);
    return true;
}

bool
fe_check_rows(Lower *cx, IrValue *index, Dim size, const char *var, Loc loc)
{
    int64_t row;
    if (!is_known(index, size))
        return fe_check_range(cx, index, size, var, loc);
    if (!find_wrong(index->def, size.c, &row))
        return true;
    const char *range = size.c
                            ? fe_format(cx, "rows are numbered from 0 to %lld",
                                        (long long)size.c - 1)
                            : NULL;
    if (var)
        fe_error_note(cx, loc, range, "row %lld of %lld, in \"%s\"",
                      (long long)row, (long long)size.c, var);
    else
        fe_error_note(cx, loc, range, "row %lld of %lld", (long long)row,
                      (long long)size.c);
    return false;
}

bool
fe_check_indices(Lower *cx, const IrOp *op)
{
    Dim size;
    return !ir_op_names(op, &size) ||
           fe_check_range(cx, op->operands[1], size,
                          fe_variable_of(op->operands[0]), op->loc);
}

/* ---- an index known now, of a length known then ------------------------- */

void
fe_check_static_index(Lower *cx, int64_t i, Dim size, const char *var, Loc loc)
{
    if (!can_assert(cx))
        return;
    IrBlock *b = cx->block;
    int64_t needed = i < 0 ? -(i + 1) : i; /* and one more */
    IrValue *end = fe_length_of(cx, size, loc);
    IrValue *less = ir_const_int(b, DT_i64, needed, loc);
    IrValue *holds = ir_build2(b, OP_gt, end, less, loc);
    IrValue *index = ir_const_int(b, DT_i64, i, loc);
    assert_with(cx, 3, (IrValue *[]){holds, index, end}, one_index(cx, var),
                loc);
}
