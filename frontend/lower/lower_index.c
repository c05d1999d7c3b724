/*
 * lower_index.c - x[...]
 *
 * Of a nest an item, of a slot a variable, of an element type a shape; of a
 * tensor a slice of it, whose axes with a number go away.  Slices are those of
 * Python: from the end where negative, clipped to the length.
 *
 * Numbers that are known only when the program runs count from the front; one
 * that names nothing stops it (check_index.c).
 *
 * So it is with a row of a length that is known only when the program runs, and
 * with a slice whose two ends count from one side, so that its own length is
 * known; as long as the length is no replica's own, of which another one may
 * have nothing.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/lower_impl.h"
#include "ir/rules/build.h"

/* ---- slices ------------------------------------------------------------- */

/* A bound of a slice, which counts from the end where it is negative, of an
 * axis of that size: from the front, within [least, most]. */
static int64_t
clamp_bound(int64_t x, int64_t size, int64_t least, int64_t most)
{
    if (x < 0)
        x = x < -size ? least : x + size;
    if (x < least)
        return least;
    return x > most ? most : x;
}

/* A part of a SLICE: its value, or the default when it is left out. */
static bool
slice_part(Lower *cx, const AstNode *part, const char *what, int64_t absent,
           int64_t *out)
{
    *out = absent;
    return !part || fe_require_int(cx, fe_eval(cx, part), what, part->loc, out);
}

static void
forward_range(FeIndex *x, int64_t start, int64_t stop, int64_t size)
{
    x->start = clamp_bound(start, size, 0, size);
    stop = clamp_bound(stop, size, 0, size);
    x->size = stop > x->start ? (stop - x->start - 1) / x->step + 1 : 0;
}

static void
backward_range(FeIndex *x, int64_t start, int64_t stop, bool to_front,
               int64_t size)
{
    x->start = clamp_bound(start, size, -1, size - 1);
    stop = to_front ? -1 : clamp_bound(stop, size, -1, size - 1);
    x->size = x->start > stop ? (x->start - stop - 1) / -x->step + 1 : 0;
}

/* A slice of an axis whose length is known. */
static bool
slice_known(Lower *cx, const AstNode *s, int64_t size, FeIndex *x)
{
    int64_t start, stop;
    bool back = x->step < 0;
    if (!slice_part(cx, s->slice.start, "where a slice begins",
                    back ? size - 1 : 0, &start) ||
        !slice_part(cx, s->slice.stop, "where a slice ends", size, &stop))
        return false;
    x->kind = INDEX_RANGE;
    /* A step beyond the axis is as good as any other. */
    if (x->step > size + 1 || x->step < -size - 1)
        x->step = back ? -size - 1 : size + 1;
    if (back)
        backward_range(x, start, stop, !s->slice.stop, size);
    else
        forward_range(x, start, stop, size);
    if (x->size == 0)
        x->start = 0;
    if (x->size <= 1)
        x->step = 1;
    return true;
}

/* Whether a length, which is not constant, is the same on all replicas: that of
 * a whole batch, or of a value that one replica gave main. */
static bool
is_common(const Lower *cx, Dim size)
{
    const IrSymbol *n = &cx->module->symbols.data[size.sym];
    return n->global || n->of >= 0;
}

/* The number of index i, of an axis that need not have it; from the end where
 * it is negative. */
static IrValue *
index_of_common(Lower *cx, int64_t i, Dim size, Loc loc)
{
    IrBlock *b = cx->block;
    IrValue *from = ir_const_int(b, DT_i64, i, loc);
    if (i >= 0)
        return from;
    return ir_build2(b, OP_add, fe_length_of(cx, size, loc), from, loc);
}

/* 0 .. count - 1. */
static IrValue *
emit_iota(Lower *cx, int64_t count, Loc loc)
{
    Dim n = ir_dim_const(count);
    IrOp *op = fe_op(cx, OP_iota, 0, NULL, loc);
    ir_set_dims(op, A_dims, &n, 1);
    ir_set_int(op, A_axis, 0);
    ir_set_int(op, A_dtype, DT_i64);
    return fe_tensor(fe_emit(cx, op));
}

/* So many indices from the one of start, at the step of x. */
static bool
take_range(Lower *cx, int64_t start, int64_t count, Dim size, Loc loc,
           FeIndex *x)
{
    IrBlock *b = cx->block;
    IrValue *numbers = emit_iota(cx, count, loc);
    if (!numbers)
        return false;
    IrValue *first = index_of_common(cx, start, size, loc);
    IrValue *step = ir_const_int(b, DT_i64, x->step, loc);
    x->kind = INDEX_DYNAMIC;
    x->value = ir_build2(b, OP_mul, numbers, step, loc);
    x->value = ir_build2(b, OP_add, x->value, first, loc);
    fe_mark_index_checked(cx, x->value, size);
    return true;
}

static bool
refuse_slice(Lower *cx, Loc loc)
{
    fe_error_note(cx, loc,
                  "x[:k] has its first k rows, x[-k:] its last, of a k known "
                  "to the compiler",
                  "a slice of a length that is known only when the program "
                  "runs");
    return false;
}

/* A slice of an axis whose length is known when the program runs: both bounds
 * count from the same end, and all elements between them exist. */
static bool
slice_common(Lower *cx, const AstNode *s, Dim size, FeIndex *x)
{
    int64_t start, stop;
    if (!slice_part(cx, s->slice.start, "where a slice begins", 0, &start) ||
        !slice_part(cx, s->slice.stop, "where a slice ends", 0, &stop))
        return false;
    if (start == INT64_MIN)
        start++; /* as far beyond the front, and its distance is a number */
    bool front = start >= 0 && s->slice.stop && stop >= 0;
    bool back = start < 0 && (!s->slice.stop || stop < 0);
    if (x->step < 1 || !(front || back))
        return refuse_slice(cx, s->loc);
    int64_t count = stop > start ? (stop - start - 1) / x->step + 1 : 0;
    int64_t end = front ? start + (count - 1) * x->step : start;
    if (!fe_check_can_emit(cx, s->loc))
        return false;
    if (count)
        fe_check_static_index(cx, end, size, x->var, s->loc);
    return take_range(cx, start, count, size, s->loc, x);
}

static bool
read_slice(Lower *cx, const AstNode *s, Dim size, FeIndex *x)
{
    if (!slice_part(cx, s->slice.step, "the step of a slice", 1, &x->step))
        return false;
    if (x->step == 0) {
        fe_error(cx, s->slice.step->loc, "the step of a slice is not 0");
        return false;
    }
    bool is_all = !s->slice.start && !s->slice.stop;
    if (is_all && (x->step == 1 || (x->step == -1 && !ir_dim_is_const(size)))) {
        x->kind = x->step == 1 ? INDEX_FULL : INDEX_REVERSED;
        return true;
    }
    if (ir_dim_is_const(size))
        return slice_known(cx, s, size.c, x);
    if (is_common(cx, size))
        return slice_common(cx, s, size, x);
    fe_error_note(cx, s->loc,
                  "skip, take and filter of the dataset leave elements out; "
                  "in a step, where(keep, x, 0.0) leaves them out of a sum",
                  "a part of the batch, whose length is known only when the "
                  "program runs");
    return false;
}

/* ---- numbers ------------------------------------------------------------ */

/* The row i of a share of the batch; of a batch, in a function of a dataset. */
static bool
refuse_row(Lower *cx, int64_t i, const FeIndex *x, Loc loc)
{
    bool is_whole = cx->context == FE_DATA;
    const char *note = NULL;
    if (is_whole)
        note = "a map before .batch(n) has each row by itself, and "
               ".batch(n, drop_remainder = true) makes batches of n rows";
    else if (i >= 0 && x->axis == 0)
        note =
            fe_format(cx,
                      "all_reduce(sum, sum(%s[[%lld]], axis = 0)) is the "
                      "sum of the rows %lld of all shares that have one",
                      fe_operand_text(cx, x->of), (long long)i, (long long)i);
    fe_error_note(
        cx, loc, note,
        "there may be no row %lld: how many rows %s has is known only "
        "when the program runs",
        (long long)i, is_whole ? "a batch" : "a share of the batch");
    return false;
}

static bool
read_number(Lower *cx, FeValue *v, Dim size, Loc loc, FeIndex *x)
{
    int64_t i;
    FeOwn at = fe_own_at(cx, loc);
    FeAxis axis = {.size = size, .var = x->var, .number = x->axis};
    if (!fe_require_int(cx, v, "an index", loc, &i))
        return false;
    if (!ir_dim_is_const(size) && is_common(cx, size)) {
        if (!fe_check_can_emit(cx, loc))
            return false;
        fe_check_static_index(cx, i, size, x->var, loc);
        x->kind = INDEX_DYNAMIC;
        x->value = index_of_common(cx, i, size, loc);
        fe_mark_index_checked(cx, x->value, size);
        return true;
    }
    if (!ir_dim_is_const(size))
        return refuse_row(cx, i, x, loc);
    if (i < -size.c || i >= size.c)
        return fe_index_error(cx, i, &axis, &at);
    x->kind = INDEX_STATIC;
    x->start = i < 0 ? i + size.c : i;
    x->step = x->size = 1;
    return true;
}

/* An integer tensor, or a scalar, which becomes an i64. */
static bool
read_value(Lower *cx, FeValue *v, const FeAxis *axis, const FeOwn *at, Loc loc,
           FeIndex *x)
{
    x->kind = INDEX_DYNAMIC;
    x->value = fe_operand(cx, v, loc);
    if (!x->value || !fe_check_can_emit(cx, loc))
        return false;
    if (x->value->type.rank == 0)
        x->value = ir_build_cast(cx->block, x->value, DT_i64, loc);
    return fe_check_range(cx, x->value, axis, at);
}

/* Whether v is an integer or several that are known when the program runs. */
static bool
is_value(Lower *cx, FeValue *v)
{
    IrType t;
    int64_t known;
    bool runs = v->kind == FE_TENSOR || v->kind == FE_VAR ||
                v->kind == FE_PARAM || v->kind == FE_DIM || v->kind == FE_NEST;
    return runs && !fe_value_is_int(v, &known) && fe_type_of(cx, v, &t) &&
           dtype_is_int(t.dtype);
}

static bool
is_mask(Lower *cx, FeValue *v)
{
    IrType t;
    return v->kind != FE_POISON && fe_type_of(cx, v, &t) && t.dtype == DT_bool;
}

static bool
is_float(Lower *cx, FeValue *v, DType *t)
{
    IrType type;
    bool is_typed = v->kind != FE_POISON && fe_type_of(cx, v, &type);
    *t = is_typed ? type.dtype : DT_bool;
    return is_typed && dtype_is_float(*t);
}

static const char *
zero_text(DType t)
{
    if (t == DT_bool)
        return "false";
    return dtype_is_float(t) ? "0.0" : "0";
}

/* The assignment whose target has the mask alone as its index; else NULL. */
static const AstNode *
assigned_where(const Lower *cx, const AstNode *mask)
{
    const AstNode *n = cx->assigned, *target = n ? n->assign.target : NULL;
    return target && target->kind == AST_INDEX &&
                   target->index.items.len == 1 &&
                   target->index.items.data[0] == mask
               ? n
               : NULL;
}

/* x = where(mask, value, x) of x[mask] = value. */
static const char *
where_assigned(Lower *cx, const AstNode *n, const char *mask, const char *x)
{
    const char *value = fe_ast_text(cx->arena, n->assign.value);
    if (n->assign.op != AST_OP_NONE)
        value = fe_format(cx, "%s %s %s", x, fe_ast_op_text(n->assign.op),
                          fe_operand_text(cx, value));
    return fe_format(cx, "write %s = where(%s, %s, %s)", x, mask, value, x);
}

/* The mask as it broadcasts to what x is the index of: "keep[:, none]" of rows.
 * NULL where others stand beside it. */
static const char *
whole_mask(Lower *cx, const AstNode *mask, FeValue *v, const FeIndex *x)
{
    IrType t;
    const char *text = fe_ast_text(cx->arena, mask);
    if (!fe_type_of(cx, v, &t) || t.rank > x->rank)
        return NULL;
    if (t.rank == 0 || t.rank == x->rank)
        return text;
    Str s = str_new(cx->arena);
    str_addf(&s, "%s[", fe_operand_text(cx, text));
    for (int i = 0; i < x->rank; i++)
        str_addf(&s, "%s%s", i ? ", " : "", i < t.rank ? ":" : "none");
    str_add(&s, "]");
    return str_text(&s);
}

static const char *
mask_note(Lower *cx, const AstNode *mask, const char *text, const FeIndex *x,
          DType t)
{
    const AstNode *assigned = assigned_where(cx, mask);
    if (!text)
        return "where(mask, x, 0.0) of the whole keeps the shape";
    return assigned ? where_assigned(cx, assigned, text, x->of)
                    : fe_format(cx,
                                "where(%s, %s, %s) keeps the shape, and has %s "
                                "for the others",
                                text, x->of, zero_text(t), zero_text(t));
}

/* v is the mask, and x says what has it as its index. */
static bool
refuse_mask(Lower *cx, const AstNode *mask, FeValue *v, const FeIndex *x,
            DType t)
{
    const char *text = whole_mask(cx, mask, v, x);
    fe_error_note(cx, mask->loc, mask_note(cx, mask, text, x, t),
                  "an index of bools: how many elements it selects is known "
                  "only when the program runs, and shapes are static");
    return false;
}

static bool
read_item(Lower *cx, const AstNode *item, DType dtype, Dim size, FeIndex *x)
{
    DType t;
    if (item->kind == AST_SLICE)
        return read_slice(cx, item, size, x);
    FeValue *v = fe_eval(cx, item);
    FeOwn at = fe_own(cx, item);
    FeAxis axis = {.size = size, .var = x->var, .number = x->axis};
    if (is_float(cx, v, &t))
        return fe_index_dtype_error(cx, t, &at);
    if (is_mask(cx, v))
        return refuse_mask(cx, item, v, x, dtype);
    return is_value(cx, v) ? read_value(cx, v, &axis, &at, item->loc, x)
                           : read_number(cx, v, size, item->loc, x);
}

/* How many axes of a value of that rank "..." stands for; negative if the other
 * items are more. */
static int
count_left(const AstList *items, int rank)
{
    int left = rank;
    for (int i = 0; i < items->len; i++) {
        AstKind kind = items->data[i]->kind;
        left -= kind != AST_NONE && kind != AST_ELLIPSIS;
    }
    return left;
}

/* All of the axes that "..." stands for. */
static bool
add_ellipsis(Lower *cx, const AstList *items, int i, int rank, FeIndices *out)
{
    for (int k = 0; k < i; k++) {
        if (items->data[k]->kind != AST_ELLIPSIS)
            continue;
        fe_error_note(cx, items->data[i]->loc,
                      "the first one stands for all axes that are not named",
                      "a second \"...\"");
        return false;
    }
    for (int left = count_left(items, rank); left > 0; left--)
        out->items[out->len++].kind = INDEX_FULL;
    return true;
}

bool
fe_indices(Lower *cx, const AstNode *n, IrValue *of, FeIndices *out)
{
    const AstList *items = &n->index.items;
    const char *text = fe_ast_text(cx->arena, n->index.value);
    const IrType *t = &of->type;
    const char *var = fe_variable_of(of);
    int axis = 0, num_new = 0;
    *out = (FeIndices){0};
    for (int i = 0; i < items->len; i++) {
        const AstNode *item = items->data[i];
        if (item->kind == AST_ELLIPSIS) {
            int before = out->len;
            if (!add_ellipsis(cx, items, i, t->rank, out))
                return false;
            axis += out->len - before;
            continue;
        }
        FeIndex *x = &out->items[out->len++];
        x->var = var;
        x->of = text;
        x->rank = items->len == 1 ? t->rank : 0;
        x->axis = axis;
        if (item->kind == AST_NONE) {
            x->kind = INDEX_NEW;
            num_new++;
        } else if (axis == t->rank) {
            fe_error(cx, item->loc, "%d indices of a value of %d dimension%s",
                     t->rank - count_left(items, t->rank), t->rank,
                     t->rank == 1 ? "" : "s");
            return false;
        } else if (!read_item(cx, item, t->dtype, t->dims[axis++], x)) {
            return false;
        }
        if (!fe_check_rank(cx, num_new + t->rank, n->loc))
            return false;
    }
    out->len += t->rank - axis; /* the rest is whole */
    return true;
}

/* ---- reading ------------------------------------------------------------ */

/* The axes that are turned round although their length is not known. */
static FeValue *
reverse_axes(Lower *cx, IrValue *x, const FeIndices *indices, Loc loc)
{
    int64_t axes[IR_MAX_RANK];
    int num_axes = 0, axis = 0;
    for (int i = 0; i < indices->len; i++) {
        if (indices->items[i].kind == INDEX_REVERSED)
            axes[num_axes++] = axis;
        axis += indices->items[i].kind != INDEX_NEW;
    }
    if (!num_axes)
        return fe_value_tensor(cx->arena, x);
    IrOp *op = fe_op(cx, OP_reverse, 1, &x, loc);
    ir_set_ints(op, A_axes, axes, num_axes);
    return fe_emit(cx, op);
}

/* The part of each axis; numbers are ranges of one. */
static FeValue *
slice_axes(Lower *cx, IrValue *x, const FeIndices *indices, Loc loc)
{
    int64_t start[IR_MAX_RANK], step[IR_MAX_RANK];
    Dim dims[IR_MAX_RANK];
    int axis = 0;
    bool whole = true;
    for (int i = 0; i < indices->len; i++) {
        const FeIndex *part = &indices->items[i];
        bool cuts = part->kind == INDEX_RANGE || part->kind == INDEX_STATIC;
        if (part->kind == INDEX_NEW)
            continue;
        whole = whole && !cuts;
        start[axis] = cuts ? part->start : 0;
        step[axis] = cuts ? part->step : 1;
        dims[axis] = cuts ? ir_dim_const(part->size) : x->type.dims[axis];
        axis++;
    }
    if (whole)
        return fe_value_tensor(cx->arena, x);
    IrOp *op = fe_op(cx, OP_slice, 1, &x, loc);
    ir_set_ints(op, A_start, start, axis);
    ir_set_dims(op, A_dims, dims, axis);
    ir_set_ints(op, A_step, step, axis);
    return fe_emit(cx, op);
}

FeValue *
fe_take(Lower *cx, IrValue *x, IrValue *index, int64_t axis, Loc loc)
{
    IrOp *op = fe_op(cx, OP_take, 2, (IrValue *[]){x, index}, loc);
    ir_set_int(op, A_axis, axis);
    return fe_emit(cx, op);
}

/* Takes the elements that dynamic indices name, the last axis first. */
static FeValue *
take_values(Lower *cx, IrValue *x, const FeIndices *indices, Loc loc)
{
    FeValue *v = fe_value_tensor(cx->arena, x);
    int axis = x->type.rank;
    for (int i = indices->len - 1; i >= 0 && !fe_is_poison(v); i--) {
        const FeIndex *part = &indices->items[i];
        axis -= part->kind != INDEX_NEW;
        if (part->kind == INDEX_DYNAMIC)
            v = fe_take(cx, v->tensor, part->value, axis, loc);
    }
    return v;
}

/* Drops the axes of numbers and makes the new ones. */
static FeValue *
reshape(Lower *cx, IrValue *x, const FeIndices *indices, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    int axis = 0, rank = 0;
    for (int i = 0; i < indices->len; i++) {
        const FeIndex *part = &indices->items[i];
        int width = part->kind == INDEX_DYNAMIC ? part->value->type.rank : 1;
        if (!fe_check_rank(cx, rank + width, loc))
            return &fe_poison;
        if (part->kind == INDEX_NEW)
            dims[rank++] = ir_dim_const(1);
        for (int k = 0; part->kind != INDEX_NEW && k < width; k++, axis++)
            if (part->kind != INDEX_STATIC)
                dims[rank++] = x->type.dims[axis];
    }
    return fe_reshape(cx, x, rank, dims, loc);
}

/* x[i, j] of two tensors has an element of each pair in NumPy: of the rows i,
 * those in the columns j. */
static const char *
pairs_note(Lower *cx, const FeIndices *indices, const AstNode *n,
           const IrValue *x)
{
    const AstList *items = &n->index.items;
    bool is_matrix = x->type.rank == 2 && items->len == 2;
    for (int i = 0; i < indices->len && is_matrix; i++)
        is_matrix = indices->items[i].value->type.rank == 1;
    if (!is_matrix)
        return "for an element of each pair take_along_axis has one of each "
               "row; for all pairs take along one axis after the other";
    const char *rows = fe_ast_text(cx->arena, items->data[0]);
    const char *columns = fe_ast_text(cx->arena, items->data[1]);
    const char *array =
        fe_format(cx, "%s[%s]", fe_ast_text(cx->arena, n->index.value), rows);
    return fe_format(cx,
                     "for an element of each pair write take_along_axis(%s, "
                     "expand(%s, 1), axis = 1)[:, 0], for all pairs %s[:, %s]",
                     array, columns, array, columns);
}

static bool
check_tensors(Lower *cx, const FeIndices *indices, const AstNode *n,
              const IrValue *x)
{
    int count = 0;
    for (int i = 0; i < indices->len; i++) {
        const FeIndex *part = &indices->items[i];
        count += part->kind == INDEX_DYNAMIC && part->value->type.rank > 0;
    }
    if (count > 1)
        fe_error_note(cx, n->loc, pairs_note(cx, indices, n, x),
                      "%d indices are tensors", count);
    return count <= 1;
}

static FeValue *
index_tensor(Lower *cx, FeValue *v, const AstNode *n)
{
    FeIndices indices;
    IrValue *x = fe_operand(cx, v, n->index.value->loc);
    if (!x || !fe_indices(cx, n, x, &indices) ||
        !check_tensors(cx, &indices, n, x))
        return &fe_poison;
    FeValue *r = reverse_axes(cx, x, &indices, n->loc);
    if (!fe_is_poison(r))
        r = slice_axes(cx, r->tensor, &indices, n->loc);
    if (!fe_is_poison(r))
        r = take_values(cx, r->tensor, &indices, n->loc);
    return fe_is_poison(r) ? r : reshape(cx, r->tensor, &indices, n->loc);
}

/* ---- other things with an index ----------------------------------------- */

static const AstNode *
single_item(Lower *cx, const AstNode *n, FeValue *v)
{
    if (n->index.items.len == 1)
        return n->index.items.data[0];
    fe_error(cx, n->loc, "%s has one index", fe_describe(cx, v));
    return NULL;
}

static FeValue *
slice_nest(Lower *cx, FeValue *v, const AstNode *slice)
{
    FeIndex x = {0};
    FeValues items = {0};
    if (v->nest.kind == NEST_NAMED)
        return fe_error(cx, slice->loc,
                        "a named tuple has no slices: name its fields");
    if (!read_slice(cx, slice, ir_dim_const(v->nest.len), &x))
        return &fe_poison;
    if (x.kind == INDEX_FULL)
        return v;
    for (int64_t i = 0; i < x.size; i++)
        VEC_PUSH(cx->arena, items, v->nest.items[x.start + i * x.step]);
    return v->nest.kind == NEST_LIST
               ? fe_value_list(cx->arena, items.len, items.data)
               : fe_value_tuple(cx->arena, items.len, items.data);
}

static bool
has_variable(const FeValue *v)
{
    bool has = v->kind == FE_VAR;
    for (int i = 0; v->kind == FE_NEST && !has && i < v->nest.len; i++)
        has = has_variable(v->nest.items[i]);
    return has;
}

/* Whether v is a list that is a tensor where one is needed; a list of
 * variables stays one, so that an item of it can be written. */
static bool
is_tensor_of_list(Lower *cx, FeValue *v)
{
    IrType t;
    return v->nest.kind == NEST_LIST && !has_variable(v) &&
           fe_type_of(cx, v, &t);
}

/* Whether v depends on the counter or a carried value of a loop of the IR; an
 * expression of more than *budget values counts as one. */
static bool
depends_on_loop(const IrValue *v, int *budget)
{
    if (v->block)
        return v->block->op != NULL;
    if (!v->def || --*budget < 0)
        return *budget < 0;
    for (int i = 0; i < v->def->num_operands; i++)
        if (depends_on_loop(v->def->operands[i], budget))
            return true;
    return false;
}

/* Whether i becomes a number when the loops around are unrolled, which shows
 * the item itself. */
static bool
is_unrolled(const Lower *cx, const FeValue *i)
{
    int budget = 64;
    return cx->num_unrollable > 0 && i->kind == FE_TENSOR &&
           depends_on_loop(i->tensor, &budget);
}

/* [3, 2, 1][i], of an i that is known when the program runs. */
static FeValue *
take_items(Lower *cx, FeValue *list, FeValue *i, const AstNode *n)
{
    FeIndex index = {0};
    FeOwn at = fe_own(cx, n->index.items.data[0]);
    FeAxis axis = {.list = n->loc};
    IrValue *x = fe_operand(cx, list, n->index.value->loc);
    if (x)
        axis.size = x->type.dims[0];
    if (!x || !read_value(cx, i, &axis, &at, n->loc, &index))
        return &fe_poison;
    return fe_take(cx, x, index.value, 0, n->loc);
}

static FeValue *
index_nest(Lower *cx, FeValue *v, const AstNode *n)
{
    FeIndex x = {0};
    const AstNode *item = single_item(cx, n, v);
    if (!item)
        return &fe_poison;
    if (item->kind == AST_SLICE)
        return slice_nest(cx, v, item);
    FeValue *i = fe_eval(cx, item);
    if (is_value(cx, i) && !is_unrolled(cx, i) && is_tensor_of_list(cx, v))
        return take_items(cx, v, i, n);
    IrType t;
    if (is_mask(cx, i) && is_tensor_of_list(cx, v) && fe_type_of(cx, v, &t)) {
        x.of = fe_ast_text(cx->arena, n->index.value);
        x.rank = t.rank;
        refuse_mask(cx, item, i, &x, t.dtype);
        return &fe_poison;
    }
    if (!read_number(cx, i, ir_dim_const(v->nest.len), item->loc, &x))
        return &fe_poison;
    return v->nest.items[x.start];
}

/* u8[28, 28] */
static FeValue *
index_type(Lower *cx, const FeValue *v, const AstNode *n)
{
    const AstList *items = &n->index.items;
    IrType t = *v->type;
    if (t.rank > 0 || items->len > IR_MAX_RANK)
        return fe_error(cx, n->loc, "a shape of %d dimensions too many",
                        t.rank ? t.rank : items->len - IR_MAX_RANK);
    t.rank = items->len;
    for (int i = 0; i < items->len; i++)
        if (!fe_require_dim(cx, fe_eval(cx, items->data[i]), "a dimension",
                            items->data[i]->loc, &t.dims[i]))
            return &fe_poison;
    return fe_value_type(cx->arena, t);
}

static FeValue *
index_slot(Lower *cx, FeValue *v, const AstNode *n)
{
    const AstNode *item = single_item(cx, n, v);
    return item ? fe_slot_index(cx, v->slot, fe_eval(cx, item), item->loc)
                : &fe_poison;
}

FeValue *
fe_index_of(Lower *cx, FeValue *v, const AstNode *n)
{
    switch (v->kind) {
    case FE_POISON:
        return v;
    case FE_NEST:
        return index_nest(cx, v, n);
    case FE_SLOT:
        return index_slot(cx, v, n);
    case FE_TYPE:
        return index_type(cx, v, n);
    case FE_TENSOR:
    case FE_VAR:
        return index_tensor(cx, v, n);
    default:
        return fe_error(cx, n->loc, "%s has no index", fe_describe(cx, v));
    }
}

FeValue *
fe_eval_index(Lower *cx, const AstNode *n)
{
    return fe_index_of(cx, fe_eval(cx, n->index.value), n);
}
