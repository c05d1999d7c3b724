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
#include "frontend/context/scope.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/slices.h"
#include "ir/base/message.h"
#include "ir/base/number/format.h"
#include "ir/rules/build.h"

#include <assert.h>
#include <string.h>

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

/* The least and the greatest of a constant; 0 and -1 of none. */
static void
find_range(const IrOp *constant, int64_t *least, int64_t *greatest)
{
    int64_t bytes;
    DType t = (DType)ir_int(constant, A_dtype);
    const void *data = ir_data(constant, A_data, &bytes);
    int64_t count = bytes / (int64_t)dtype_info[t].bytes;
    *least = count ? INT64_MAX : 0;
    *greatest = count ? INT64_MIN : -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t x = scalar_load(t, data, i).i;
        *least = x < *least ? x : *least;
        *greatest = x > *greatest ? x : *greatest;
    }
}

/* Whether index and size are known now. */
static bool
is_known(const IrValue *index, Dim size)
{
    return index->def && index->def->kind == OP_constant &&
           ir_dim_is_const(size);
}

/* Whether the elements of op are those of its first operand, or their integers
 * in another dtype that has all bytes; in an i8 those from 128 on are negative.
 */
static bool
is_of_same(const IrOp *op)
{
    bool casts = op->kind == OP_cast &&
                 dtype_is_int(op->operands[0]->type.dtype) &&
                 op->results[0]->type.dtype != DT_i8;
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

/* The declaration of the axis with that length instead, and its place:
 * "f32[12, 2]", "Embedding(12, 2)".  NULL where the author did not write it. */
static const char *
longer(Lower *cx, const FeAxis *axis, const char *length, Loc *place)
{
    Loc part;
    return fe_var_length(cx, axis->var, axis->number, &part, place)
               ? fe_edit(cx, *place, part, length)
               : NULL;
}

bool
fe_index_error(Lower *cx, int64_t i, const FeAxis *axis, const FeOwn *at)
{
    Loc place = NO_LOC;
    long long last = axis->size.c - 1;
    const char *length = fe_format(cx, "%lld", (long long)i + 1);
    const char *other = i > last ? longer(cx, axis, length, &place) : NULL;
    const char *note =
        last < 0 ? NULL
        : other
            ? fe_format(cx, "write %s here, or an index from 0 to %lld there",
                        other, last)
            : fe_format(cx, "the first is 0, the last %lld", last);
    if (!other)
        place = NO_LOC;
    if (axis->var)
        fe_error_own(cx, at, place, note,
                     "index %lld of %lld, numbered from 0, in \"%s\"",
                     (long long)i, last + 1, axis->var);
    else
        fe_error_own(cx, at, place, note, "index %lld of %lld, numbered from 0",
                     (long long)i, last + 1);
    return false;
}

/* "[1, 2]" of "[1.0, 2.0]"; NULL of what is no list of such numbers. */
static const char *
as_integers(Lower *cx, const char *text)
{
    Str s = str_new(cx->arena);
    if (*text != '[' || strspn(text, "[]0123456789., -") != strlen(text))
        return NULL;
    for (; *text; text++) {
        bool is_whole = strncmp(text, ".0", 2) == 0 && strchr(",]", text[2]);
        if (*text == '.' && !is_whole)
            return NULL;
        if (is_whole)
            text++;
        else
            str_addc(&s, *text);
    }
    return str_text(&s);
}

bool
fe_index_dtype_error(Lower *cx, DType t, const FeOwn *at)
{
    const char *text = fe_own_text(cx, at);
    const char *integers = text ? as_integers(cx, text) : NULL;
    fe_error_own(cx, at, NO_LOC,
                 integers
                     ? fe_format(cx, "write %s", integers)
                     : fe_format(cx, "cast it: i32(%s)", text ? text : "..."),
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
               : message_part(
                     "index {} of an axis that has {}, numbered from 0");
}

static const char *
several_indices(Lower *cx, const char *var)
{
    return var ? message_printf(cx->arena,
                                "there are indices from {} to {}, and the axis "
                                "of \"%s\" has {}, numbered from 0",
                                var)
               : message_part(
                     "there are indices from {} to {}, and the axis has "
                     "{}, numbered from 0");
}

/* text where only holes are to be braces. */
static const char *
braced(Lower *cx, const char *text)
{
    Str s = str_new(cx->arena);
    for (; *text; text++)
        str_addf(&s, *text == '{' || *text == '}' ? "%c%c" : "%c", *text,
                 *text);
    return str_text(&s);
}

/* What stands for the hole in a text that is edited. */
#define COUNT_HERE "\1"

/* The hole of a format for the greatest index, and one. */
#define COUNT_HOLE "{" FORMAT_COUNT "}"

/* text, which has a COUNT_HERE, as a format with that hole. */
static const char *
with_hole(Lower *cx, const char *text, const char *hole)
{
    const char *here = strstr(text, COUNT_HERE);
    return fe_format(
        cx, "%s%s%s",
        braced(cx, fe_format(cx, "%.*s", (int)(here - text), text)), hole,
        braced(cx, here + strlen(COUNT_HERE)));
}

/* The repair of indices: of those that are too large, with one hole, a
 * COUNT_HOLE, and of those below 0, with so many holes for the least. */
typedef struct Repair {
    const char *larger, *negative;
    int num_least;
} Repair;

/* How the axis is made longer, or the index kept within it.  NULLs where
 * neither is written in the program. */
static Repair
range_repair(Lower *cx, const FeAxis *axis, const FeOwn *at)
{
    Loc place;
    Repair r = {.negative =
                    message_part(": correct the index, which counts from 0 "
                                 "(only a number that is written, as in "
                                 "x[-1], counts from the end)")};
    const char *other = longer(cx, axis, COUNT_HERE, &place);
    const char *text = fe_own_text(cx, at);
    const char *within =
        !other && axis->list.line && text && ir_dim_is_const(axis->size)
            ? fe_edit(cx, axis->list, at->loc,
                      fe_format(cx,
                                at->node->kind == AST_NAME ? "%s %% %lld"
                                                           : "(%s) %% %lld",
                                text, (long long)axis->size.c))
            : NULL;
    if (other)
        r.larger = message_printf(
            cx->arena, ": write at least %s in line %u, or correct the index",
            with_hole(cx, other, COUNT_HOLE), place.line);
    else if (within)
        r.larger = message_printf(
            cx->arena,
            ": write a list of at least %s, or %s to begin again "
            "at its end",
            COUNT_HOLE, braced(cx, within));
    return r.larger ? r : (Repair){0};
}

/* An assertion about the place, of the calls around it. */
static void
assert_with(Lower *cx, int n, IrValue *const *operands, const char *format,
            const FeOwn *at)
{
    IrOp *op = fe_op(cx, OP_assert, n, operands, at->loc);
    op->calls = at->calls;
    ir_set_text(op, A_format, message_part(format));
    fe_emit(cx, op);
}

/* The least and the greatest of an index, which are itself if it is one. */
static void
find_ends(Lower *cx, IrValue *index, Loc loc, IrValue **low, IrValue **high)
{
    IrBlock *b = cx->block;
    int64_t axes[IR_MAX_RANK];
    int rank = index->type.rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    IrValue *x = ir_build_cast(b, index, DT_i64, loc);
    *low = *high = x;
    if (rank) {
        *low = ir_build_reduce(b, OP_reduce_min, x, axes, rank, false, loc);
        *high = ir_build_reduce(b, OP_reduce_max, x, axes, rank, false, loc);
    }
}

/* What is wrong and both repairs; one index is the least and the greatest. */
#define WRONG_ONE "%s{" FORMAT_IF_COUNT "}%s{" FORMAT_IF_NEGATIVE "}%s"
#define WRONG_SEVERAL                                                          \
    "%s{" FORMAT_IF_COUNT "}{" FORMAT_IF_COUNT "}%s{" FORMAT_IF_NEGATIVE "}%s"

/* The format is of the index, or of the least and the greatest of several, and
 * of their end; behind it is the repair of what they are. */
static void
check_at_run_time(Lower *cx, IrValue *index, Dim size, const char *format,
                  Repair repair, const FeOwn *at)
{
    enum { MOST = 10 };
    IrBlock *b = cx->block;
    Loc loc = at->loc;
    int n = 0, rank = index->type.rank;
    IrValue *low, *high, *operands[MOST];
    find_ends(cx, index, loc, &low, &high);
    IrValue *end = fe_length_of(cx, size, loc);
    IrValue *zero = ir_const_int(b, DT_i64, 0, loc);
    IrValue *from_zero = ir_build2(b, OP_ge, low, zero, loc);
    IrValue *below_end = ir_build2(b, OP_lt, high, end, loc);
    operands[n++] = ir_build2(b, OP_and, from_zero, below_end, loc);
    operands[n++] = low;
    if (rank)
        operands[n++] = high;
    operands[n++] = end;
    if (repair.larger) {
        format = fe_format(cx, rank ? WRONG_SEVERAL : WRONG_ONE, format,
                           repair.larger, repair.negative);
        operands[n++] = low;
        if (rank)
            operands[n++] = high;
        operands[n++] = high;
        for (int k = 0; k <= repair.num_least; k++)
            operands[n++] = low;
    }
    assert(n <= MOST);
    assert_with(cx, n, operands, format, at);
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
fe_check_range(Lower *cx, IrValue *index, const FeAxis *axis, const FeOwn *at)
{
    int64_t wrong;
    Dim size = axis->size;
    if (!can_assert(cx) || !fe_check_can_emit(cx, at->loc))
        return true;
    if (is_known(index, size))
        return !find_wrong(index->def, size.c, &wrong) ||
               fe_index_error(cx, wrong, axis, at);
    if (!is_unchecked(cx, index, size))
        return true;
    const char *what = index->type.rank ? several_indices(cx, axis->var)
                                        : one_index(cx, axis->var);
    check_at_run_time(cx, index, size, what, range_repair(cx, axis, at), at);
    return true;
}

/* The call of one_hot that has labels, and where its size is written. */
typedef struct Wider {
    Loc call, written; /* NO_LOC where the library calls it */
} Wider;

/* The layer that makes the logits with so many of them, or one_hot, and its
 * place; NULL where they are not those of a layer that is called with its name.
 */
static const char *
wider_layer(Lower *cx, const char *length, const Wider *w, Loc *place)
{
    *place = w->call;
    if (w->call.line)
        return fe_edit(cx, w->call, w->written, length);
    const AstNode *logits = fe_written_name(cx, "logits");
    const AstNode *callee =
        logits && logits->kind == AST_CALL ? logits->call.callee : NULL;
    const FeBinding *b = callee && callee->kind == AST_NAME
                             ? fe_scope_find(cx->file, callee->name.text)
                             : NULL;
    if (!b || !b->value || b->value->kind != FE_INSTANCE)
        return NULL;
    const FeInstance *layer = b->value->instance;
    const FeBinding *n =
        fe_scope_find(layer->scope->parent, intern(cx->names, "n_out"));
    *place = layer->loc;
    return n && n->argument ? fe_edit(cx, layer->loc, n->argument->loc, length)
                            : NULL;
}

/* The program's call of a loss of the library, which then leaves out labels of
 * that number, or the argument alone where the call has several lines; NULL
 * where it has no such argument, or is given one. */
static const char *
ignoring(Lower *cx, const char *label)
{
    FeFoundBinding found =
        fe_find_binding(cx, intern(cx->names, "ignore_index"));
    Loc call = fe_own_call(cx).loc;
    const char *text = fe_source(cx, call);
    size_t len = text ? strcspn(text, "(") : 0, n = strlen("cross_entropy");
    if (!found.binding || found.binding->value->kind != FE_NONE || len < n ||
        strncmp(text + len - n, "cross_entropy", n) != 0)
        return NULL;
    const char *args = fe_arguments_behind(
        cx, (Loc){call.line, call.col, (uint32_t)len, call.file});
    return args ? fe_format(cx, "%.*s(%s, ignore_index = %s)", (int)len, text,
                            args, label)
                : fe_format(cx, "ignore_index = %s behind the labels", label);
}

/* The repair of labels that are found when the program runs. */
static Repair
labels_repair(Lower *cx, const Wider *w)
{
    Loc place;
    const char *layer = wider_layer(cx, COUNT_HERE, w, &place);
    const char *call = ignoring(cx, COUNT_HERE);
    Repair r = {.num_least = call ? 2 : 0};
    if (layer)
        r.larger = message_printf(
            cx->arena, ": write at least %s in line %u, or correct the labels",
            with_hole(cx, layer, COUNT_HOLE), place.line);
    else
        r.larger = message_printf(
            cx->arena,
            ": correct the labels, or make the logits at least %s "
            "wide (the width of the last layer)",
            COUNT_HOLE);
    r.negative =
        call
            ? message_printf(cx->arena,
                             ": to leave labels of {} out write %s, or correct "
                             "the labels",
                             with_hole(cx, call, "{}"))
            : message_part(": correct the labels, which count from 0");
    return r;
}

/* How labels below 0 are left out, and those that are too large fit. */
static const char *
negative_note(Lower *cx, int64_t least, int64_t greatest, int64_t size,
              const char *labels)
{
    const char *call = ignoring(cx, fe_format(cx, "%lld", (long long)least));
    if (!call)
        return fe_format(cx, "write numbers from 0 to %lld in %s",
                         (long long)size - 1, labels);
    const char *wider =
        greatest < size
            ? ""
            : fe_format(cx, "; for label %lld make the logits %lld wide",
                        (long long)greatest, (long long)greatest + 1);
    return fe_format(cx, "to leave labels of %lld out write %s%s",
                     (long long)least, call, wider);
}

/* How labels that are too large fit; the place is that of the layer, if it is
 * known. */
static const char *
large_note(Lower *cx, int64_t greatest, int64_t size, const char *labels,
           const Wider *w, Loc *place)
{
    const char *length = fe_format(cx, "%lld", (long long)greatest + 1);
    const char *layer = wider_layer(cx, length, w, place);
    if (layer)
        return fe_format(cx, "write %s here, or numbers from 0 to %lld in %s",
                         layer, (long long)size - 1, labels);
    *place = NO_LOC;
    return fe_format(cx,
                     "write numbers from 0 to %lld in %s, or make the "
                     "logits %s wide",
                     (long long)size - 1, labels, length);
}

/* The error that the least or the greatest of the labels is no class. */
static bool
label_error(Lower *cx, int64_t least, int64_t greatest, int64_t size,
            const Wider *w, const FeOwn *at)
{
    Loc place = NO_LOC;
    const char *text = fe_own_text(cx, at);
    const char *labels = text ? text : "the labels";
    const char *note = least < 0
                           ? negative_note(cx, least, greatest, size, labels)
                           : large_note(cx, greatest, size, labels, w, &place);
    fe_error_own(cx, at, place, note,
                 "there are labels from %lld to %lld, and %lld classes, "
                 "numbered from 0",
                 (long long)least, (long long)greatest, (long long)size);
    return false;
}

bool
fe_check_labels(Lower *cx, IrValue *labels, Dim size, const FeOwn *at, Loc call,
                Loc written)
{
    Wider w = {call, written};
    int64_t least, greatest;
    if (!can_assert(cx) || !fe_check_can_emit(cx, at->loc))
        return true;
    if (is_known(labels, size)) {
        find_range(labels->def, &least, &greatest);
        return (least >= 0 && greatest < size.c) ||
               label_error(cx, least, greatest, size.c, &w, at);
    }
    if (!is_unchecked(cx, labels, size))
        return true;
    const char *what =
        labels->type.rank
            ? message_part("there are labels from {} to {}, and {} classes, "
                           "numbered from 0")
            : message_part(
                  "there is a label {}, and {} classes, numbered from 0");
    check_at_run_time(cx, labels, size, what, labels_repair(cx, &w), at);
    return true;
}

bool
fe_check_rows(Lower *cx, IrValue *index, Dim size, const char *var, Loc loc)
{
    int64_t row;
    FeAxis axis = {.size = size, .var = var};
    FeOwn at = fe_own_at(cx, loc);
    if (!is_known(index, size))
        return fe_check_range(cx, index, &axis, &at);
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
    FeAxis axis = {0};
    FeOwn at = fe_own_at(cx, op->loc);
    if (!ir_op_names(op, &axis.size))
        return true;
    axis.var = fe_variable_of(op->operands[0]);
    axis.number = (int)ir_int(op, A_axis);
    return fe_check_range(cx, op->operands[1], &axis, &at);
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
    FeOwn at = fe_own_at(cx, loc);
    assert_with(cx, 3, (IrValue *[]){holds, index, end}, one_index(cx, var),
                &at);
}
