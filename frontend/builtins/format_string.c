/*
 * format_string.c - strings with holes, print and assert
 *
 * A string keeps the values of its holes; constants (a number, a type, another
 * string) become part of the text, so that such a string can be a path.
 * Variables are read where the string stands.  Outside of steps a value that
 * differs among the replicas is those of all: {0: 1.5, 1: 2.5}.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/steps.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/type_of.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/base/number/format.h"

/* ---- strings being made ------------------------------------------------- */

typedef struct Builder {
    Lower *cx;
    Str format, text; /* as in FeText */
    FeValues holes;
    bool is_late; /* it has a param of str */
    bool ok;
} Builder;

static Builder
builder_new(Lower *cx)
{
    return (Builder){.cx = cx,
                     .format = str_new(cx->arena),
                     .text = str_new(cx->arena),
                     .ok = true};
}

static void
add_text(Builder *b, const char *text)
{
    FeValue *v = fe_value_text(b->cx->arena, text); /* escapes braces */
    str_add(&b->text, text);
    str_add(&b->format, v->text.format);
}

static FeValue *
finish(Builder *b)
{
    if (!b->ok)
        return &fe_poison;
    FeValue *v = fe_value_new(b->cx->arena, FE_STRING);
    v->text.format = str_text(&b->format);
    v->text.len = (int64_t)b->format.len;
    bool is_known = !b->holes.len && !b->is_late;
    v->text.text = is_known ? str_text(&b->text) : NULL;
    v->text.holes = b->holes.data;
    v->text.num_holes = b->holes.len;
    return v;
}

/* ---- holes -------------------------------------------------------------- */

static bool add_value(Builder *b, FeValue *v, const char *format, Loc loc);

/* Constants are formatted at compile time as they would be at run time. */
static bool
add_constant(Builder *b, const FeValue *v, DType t, const char *format, Loc loc)
{
    char bytes[8];
    Scalar s;
    Str text = str_new(b->cx->arena);
    if (!fe_constant_as(b->cx, v, t, loc, &s))
        return false;
    FormatArg arg = {.dtype = s.dtype, .data = bytes};
    scalar_store(s.dtype, bytes, 0, s);
    format_value(&text, format, strlen(format), &arg);
    add_text(b, str_text(&text));
    return true;
}

/* format is "" for none. */
static bool
add_number(Builder *b, FeValue *v, const IrType *t, const char *format, Loc loc)
{
    Lower *cx = b->cx;
    const char *hole = *format ? fe_format(cx, "{:%s}", format) : "{}";
    const char *wrong = format_check_written(cx->arena, hole, 1, &t->dtype);
    size_t len = strlen(format);
    if (wrong && dtype_is_float(t->dtype) && strchr("dxXbo", format[len - 1]))
        return fe_error_note(cx, loc,
                             fe_format(cx, "write :%.*sf in place of :%s",
                                       (int)len - 1, format, format),
                             "%s", wrong),
               false;
    if (wrong)
        return fe_error(cx, loc, "%s", wrong), false;
    if (v->kind == FE_CONST)
        return add_constant(b, v, t->dtype, format, loc);
    IrValue *x = fe_operand(cx, v, loc);
    if (!x)
        return false;
    str_add(&b->format, hole);
    VEC_PUSH(cx->arena, b->holes, fe_value_tensor(cx->arena, x));
    return true;
}

static bool
add_nest(Builder *b, const FeNest *nest, const char *format, Loc loc)
{
    bool is_list = nest->kind == NEST_LIST, ok = true;
    add_text(b, is_list ? "[" : "(");
    for (int i = 0; ok && i < nest->len; i++) {
        if (i > 0)
            add_text(b, ", ");
        if (nest->names)
            add_text(b, fe_format(b->cx, "%s: ", nest->names[i]));
        ok = add_value(b, nest->items[i], format, loc);
    }
    bool is_single = nest->kind == NEST_TUPLE && nest->len == 1;
    add_text(b, is_list ? "]" : is_single ? ",)" : ")");
    return ok;
}

/* Whether v has a value for each replica, and this is no step of one. */
static bool
is_of_each(Lower *cx, FeValue *v)
{
    return fe_is_cross(cx) && (v->kind == FE_TENSOR || v->kind == FE_DIM) &&
           fe_locality_of(cx, v) == LOCAL_PER_REPLICA;
}

/* The same of a value in a nest, which then is no tensor either. */
static bool
has_some_of_each(Lower *cx, FeValue *v)
{
    FeValues leaves = {0};
    if (v->kind != FE_NEST || !fe_is_cross(cx))
        return false;
    fe_value_leaves(cx->arena, v, &leaves);
    for (int i = 0; i < leaves.len; i++)
        if (is_of_each(cx, leaves.data[i]))
            return true;
    return false;
}

static bool
add_each(Builder *b, FeValue *v, const char *format, Loc loc)
{
    FeArg arg = {.value = v, .loc = loc};
    FeArgs in = {.name = "print", .args = {&arg}, .loc = loc};
    FeValue *parts = fe_builtin_local_results(b->cx, &in);
    bool ok = !fe_is_poison(parts) && !fe_value_has_poison(parts);
    add_text(b, "{");
    for (int i = 0; ok && i < parts->nest.len; i++) {
        add_text(b, fe_format(b->cx, "%s%d: ", i ? ", " : "", i));
        ok = add_value(b, parts->nest.items[i], format, loc);
    }
    add_text(b, "}");
    return ok;
}

static void
add_string(Builder *b, const FeText *t)
{
    fe_count_walk(b->cx, t->len);
    str_add(&b->format, t->format);
    if (t->text)
        str_add(&b->text, t->text);
    b->is_late |= !t->text;
    for (int i = 0; i < t->num_holes; i++)
        VEC_PUSH(b->cx->arena, b->holes, t->holes[i]);
}

static bool
is_untyped(const FeValue *v)
{
    return (v->kind == FE_CONST && v->constant.untyped) ||
           (v->kind == FE_DIM && v->length.untyped);
}

/* Whether v, an untyped number, is none of t: 2.5 of an i32, 1 of a bool. */
static bool
is_of_other_kind(const FeValue *v, DType t)
{
    bool is_float =
        v->kind == FE_CONST && dtype_is_float(v->constant.scalar.dtype);
    return t == DT_bool || (is_float && !dtype_is_float(t));
}

/* A list whose numbers are of several dtypes is no tensor, but a nest. */
static bool
is_mixed(Lower *cx, FeValue *v)
{
    IrType t, first = {0};
    bool seen = false;
    FeValues leaves = {0};
    if (v->kind != FE_NEST)
        return false;
    fe_value_leaves(cx->arena, v, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        if (is_untyped(leaves.data[i]) || !fe_type_of(cx, leaves.data[i], &t))
            continue;
        if (seen && t.dtype != first.dtype)
            return true;
        first = t;
        seen = true;
    }
    for (int i = 0; seen && i < leaves.len; i++)
        if (is_untyped(leaves.data[i]) &&
            is_of_other_kind(leaves.data[i], first.dtype))
            return true;
    return false;
}

static bool
add_value(Builder *b, FeValue *v, const char *format, Loc loc)
{
    IrType t;
    Lower *cx = b->cx;
    if (fe_is_poison(v))
        return false;
    if (is_of_each(cx, v))
        return add_each(b, v, format, loc);
    if (!is_mixed(cx, v) && !has_some_of_each(cx, v) && fe_type_of(cx, v, &t))
        return add_number(b, v, &t, format, loc);
    if (v->kind == FE_NEST)
        return add_nest(b, &v->nest, format, loc);
    if (*format) {
        fe_error(cx, loc, "a format is for numbers, not for %s",
                 fe_describe(cx, v));
        return false;
    }
    if (v->kind == FE_STRING)
        add_string(b, &v->text);
    else if (v->kind == FE_TYPE)
        add_text(b, fe_type_text(cx, v->type));
    else if (v->kind == FE_NONE)
        add_text(b, "none");
    else
        return fe_error(cx, loc, "%s cannot be printed", fe_describe(cx, v)),
               false;
    return true;
}

FeValue *
fe_eval_string(Lower *cx, const AstNode *n)
{
    Builder b = builder_new(cx);
    const AstList *pieces = &n->string.pieces;
    for (int i = 0; i < pieces->len; i++) {
        const AstNode *piece = pieces->data[i];
        if (piece->kind == AST_TEXT) {
            add_text(&b, piece->text.text);
            continue;
        }
        const AstNode *value = piece->hole.value;
        const char *format = piece->hole.format ? piece->hole.format : "";
        b.ok = add_value(&b, fe_eval(cx, value), format, value->loc) && b.ok;
    }
    return finish(&b);
}

/* text(bytes): a string, when the program runs. */
FeValue *
fe_builtin_text(Lower *cx, const FeArgs *in)
{
    IrType t;
    FeValue *x = fe_arg(in, 0);
    Builder b = builder_new(cx);
    if (!fe_type_of(cx, x, &t) || t.rank != 1 || t.dtype != DT_u8)
        return fe_error_note(cx, fe_arg_loc(in, 0), "u8(...) casts",
                             "text is of a row of bytes, u8[n], not of %s",
                             fe_describe(cx, x));
    b.ok = add_number(&b, x, &t, "s", fe_arg_loc(in, 0));
    return finish(&b);
}

/* ---- print and assert --------------------------------------------------- */

/* Argument i as a string: any other value becomes a hole. */
static FeValue *
arg_as_text(Lower *cx, const FeArgs *in, int i)
{
    Builder b = builder_new(cx);
    b.ok = add_value(&b, fe_arg(in, i), "", fe_arg_loc(in, i));
    return finish(&b);
}

IrOp *
fe_text_op(Lower *cx, IrOpKind kind, int n, IrValue *const *first,
           const FeText *text, Loc loc)
{
    IrValues operands = {0};
    for (int i = 0; i < n; i++)
        VEC_PUSH(cx->arena, operands, first[i]);
    for (int i = 0; i < text->num_holes; i++)
        VEC_PUSH(cx->arena, operands, fe_operand(cx, text->holes[i], loc));
    IrOp *op = fe_op(cx, kind, operands.len, operands.data, loc);
    ir_set_text(op, A_format, text->format);
    return op;
}

FeValue *
fe_builtin_print(Lower *cx, const FeArgs *in)
{
    if (cx->context != FE_REPLICA && !fe_is_cross(cx))
        return fe_error(cx, in->loc,
                        "print stands in main and in steps, and "
                        "this is %s",
                        fe_context_name(cx->context));
    FeValue *text = arg_as_text(cx, in, 0);
    if (fe_is_poison(text))
        return text;
    return fe_emit(cx, fe_text_op(cx, OP_print, 0, NULL, &text->text, in->loc));
}

/* In a declaration, and of what the library asks of shapes and dtypes: what is
 * asserted of constants holds or is an error. */
static FeValue *
assert_now(Lower *cx, const FeArgs *in, bool holds)
{
    const char *message;
    FeValue *text = arg_as_text(cx, in, 1);
    if (fe_is_poison(text) || holds)
        return fe_is_poison(text) ? text : &fe_none;
    if (!fe_require_text(cx, text, "the message", fe_arg_loc(in, 1), &message))
        return &fe_poison;
    return fe_error(cx, in->loc, "%s", message_part(message));
}

FeValue *
fe_builtin_assert(Lower *cx, const FeArgs *in)
{
    bool holds;
    bool is_early = !cx->block || diag_is_library(cx->diag, in->loc.file);
    if (is_early && fe_value_is_bool(fe_arg(in, 0), &holds))
        return assert_now(cx, in, holds);
    IrValue *condition = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    FeValue *text = arg_as_text(cx, in, 1);
    if (!condition || fe_is_poison(text))
        return &fe_poison;
    return fe_emit(
        cx, fe_text_op(cx, OP_assert, 1, &condition, &text->text, in->loc));
}

FeValue *
fe_builtin_now(Lower *cx, const FeArgs *in)
{
    return fe_emit(cx, fe_op(cx, OP_now, 0, NULL, in->loc));
}
