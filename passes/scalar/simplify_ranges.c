/*
 * simplify_ranges.c - what is known of integers between known bounds
 *
 * The number of a loop's step is one: front ends check x[t] in each step, and
 * gradients clamp t, though 0 <= t < n is known when n is.  Comparisons that
 * always hold are true, clamps that change nothing are their operand.
 */
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "passes/scalar/simplify.h"
#include "passes/support/pass.h"

typedef struct Range {
    int64_t low, high;
} Range;

enum { MAX_DEPTH = 8 };

/* Whether v is the number of an iteration of a loop whose count is known. */
static bool
is_iteration(const IrValue *v, Range *out)
{
    Scalar count;
    const IrOp *loop = v->block ? v->block->op : NULL;
    if (!loop || loop->kind != OP_for || v != ir_loop(loop).index ||
        !ir_const_known(loop->operands[0], &count) || count.i < 1)
        return false;
    *out = (Range){0, count.i - 1};
    return true;
}

static bool
fits(DType t, int64_t x)
{
    int bits = dtype_info[t].bytes * 8 - 1;
    return t != DT_u8 && x >= -((int64_t)1 << (bits - 1)) &&
           x < (int64_t)1 << (bits - 1);
}

static bool find_range(const IrValue *v, int depth, Range *out);

static bool
range_of_op(const IrOp *op, int depth, Range *out)
{
    Range x, y;
    if (!find_range(op->operands[0], depth, &x))
        return false;
    if (op->kind == OP_cast) {
        *out = x;
        return true;
    }
    if (!find_range(op->operands[1], depth, &y))
        return false;
    bool adds = op->kind == OP_add;
    return !(adds ? __builtin_add_overflow(x.low, y.low, &out->low)
                  : __builtin_sub_overflow(x.low, y.high, &out->low)) &&
           !(adds ? __builtin_add_overflow(x.high, y.high, &out->high)
                  : __builtin_sub_overflow(x.high, y.low, &out->high));
}

/* The bounds of an integer, which never wrapped. */
static bool
find_range(const IrValue *v, int depth, Range *out)
{
    Scalar x;
    DType t = v->type.dtype;
    if (dtype_is_float(t) || t == DT_bool || depth == MAX_DEPTH)
        return false;
    if (ir_const_known(v, &x)) {
        *out = (Range){x.i, x.i};
        return true;
    }
    const IrOp *def = v->def;
    bool found = def ? (def->kind == OP_add || def->kind == OP_sub ||
                        def->kind == OP_cast) &&
                           range_of_op(def, depth + 1, out)
                     : is_iteration(v, out);
    return found && fits(t, out->low) && fits(t, out->high);
}

/* 1 and 0: whether the comparison holds for all x and y; -1: for some. */
static int
compare(IrOpKind kind, Range x, Range y)
{
    switch (kind) {
    case OP_lt:
        return x.high < y.low ? 1 : x.low >= y.high ? 0 : -1;
    case OP_ge:
        return x.low >= y.high ? 1 : x.high < y.low ? 0 : -1;
    case OP_le:
        return x.high <= y.low ? 1 : x.low > y.high ? 0 : -1;
    case OP_gt:
        return x.low > y.high ? 1 : x.high <= y.low ? 0 : -1;
    default:
        return -1;
    }
}

static IrValue *
known_truth(IrOp *op, bool holds)
{
    Scalar x = {.dtype = DT_bool, .i = holds};
    const IrReason *why = ir_reason_for(op, "simplify.range",
                                        "%s of numbers between known bounds",
                                        ir_op_info[op->kind].name);
    return pass_simplify_fill(op, x, why);
}

static bool
has_type_of(const IrValue *v, const IrOp *op)
{
    return v->type.dtype == op->results[0]->type.dtype &&
           ir_type_same_shape(&v->type, &op->results[0]->type);
}

IrValue *
pass_simplify_range(IrOp *op)
{
    Range x, y;
    if (op->num_operands != 2)
        return NULL;
    IrValue *a = op->operands[0], *b = op->operands[1];
    if (op->kind == OP_eq && a == b && !dtype_is_float(a->type.dtype))
        return known_truth(op, true);
    bool clamps = op->kind == OP_minimum || op->kind == OP_maximum;
    bool compares = op->kind == OP_lt || op->kind == OP_le ||
                    op->kind == OP_gt || op->kind == OP_ge;
    if ((!clamps && !compares) || !find_range(a, 0, &x) ||
        !find_range(b, 0, &y))
        return NULL;
    int holds = compare(op->kind, x, y);
    if (compares)
        return holds < 0 ? NULL : known_truth(op, holds);
    bool first = op->kind == OP_minimum ? x.high <= y.low : x.low >= y.high;
    return first && has_type_of(a, op) ? a : NULL;
}
