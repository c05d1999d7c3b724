/*
 * eval.c - the value of an expression
 *
 * One function for each kind of node, in a table.  Every node evaluated is a
 * step, and steps are limited (D16): inlining can make a short text long.  So
 * is the memory that they take, whatever takes it.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/hint.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/context/steps.h"
#include "frontend/emit/region.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/lower_impl.h"

#include <math.h>
#include <string.h>

/* ---- leaves ------------------------------------------------------------- */

static FeValue *
eval_number(Lower *cx, const AstNode *n)
{
    int64_t i;
    double x = n->number.is_float ? fe_ast_float_value(n) : 0;
    if (n->number.is_float && isfinite(x))
        return fe_value_float(cx->arena, x);
    if (!n->number.is_float && fe_ast_int_value(n, &i))
        return fe_value_int(cx->arena, i);
    return fe_error_note(cx, n->loc,
                         n->number.is_float
                             ? "the greatest f64 is 1.797e308; 1.0 / 0.0 is "
                               "infinity"
                             : NULL,
                         "%s is too large", n->number.text);
}

static FeValue *
eval_bool(Lower *cx, const AstNode *n)
{
    return fe_value_bool(cx->arena, n->boolean.value);
}

static FeValue *
eval_none(Lower *cx, const AstNode *n)
{
    (void)cx;
    (void)n;
    return &fe_none;
}

static FeValue *
eval_name(Lower *cx, const AstNode *n)
{
    return fe_lookup(cx, n->name.text, n->loc);
}

static FeValue *
eval_fn(Lower *cx, const AstNode *n)
{
    FeValue *f = fe_value_new(cx->arena, FE_FUNC);
    f->func.fn = n;
    f->func.scope = cx->scope;
    return f;
}

/* ---- operators ---------------------------------------------------------- */

/* The digits of the least integer are too large before the sign is read. */
static bool
is_negative_int(const AstNode *n, int64_t *out)
{
    const AstNode *digits = n->unary.value;
    return n->unary.op == AST_OP_NEG && digits->kind == AST_NUMBER &&
           !digits->number.is_float && fe_ast_negated_value(digits, out);
}

static FeValue *
eval_unary(Lower *cx, const AstNode *n)
{
    int64_t i;
    if (is_negative_int(n, &i))
        return fe_value_int(cx->arena, i);
    FeValue *x = fe_eval(cx, n->unary.value);
    return fe_unary(cx, n->unary.op, x, n->loc);
}

/* false and right, true or right: decided, but that the operators go by element
 * and a right side with a shape has a say in that of the result.  One that
 * makes no sense (`x != none and x > 0`) has none. */
static FeValue *
eval_decided(Lower *cx, const AstNode *n, FeValue *left)
{
    IrType t;
    FeMark mark = fe_mark(cx);
    FeValue *right = fe_eval(cx, n->binary.right);
    if (cx->stopped)
        return &fe_poison;
    bool has_shape = cx->num_errors == mark.num_errors &&
                     fe_type_of(cx, right, &t) && t.rank > 0;
    if (has_shape)
        return fe_binary(cx, n->binary.op, left, right, n->loc);
    fe_rewind(cx, &mark);
    return left;
}

static FeValue *
apply_binary(Lower *cx, const AstNode *n, FeValue *left, FeValue *right)
{
    cx->applied = n;
    FeValue *v = fe_binary(cx, n->binary.op, left, right, n->loc);
    cx->applied = NULL;
    return v;
}

static FeValue *
eval_binary(Lower *cx, const AstNode *n)
{
    bool truth;
    AstOp op = n->binary.op;
    FeValue *left = fe_eval(cx, n->binary.left);
    if ((op == AST_OP_AND || op == AST_OP_OR) &&
        fe_value_is_bool(left, &truth) && truth == (op == AST_OP_OR))
        return eval_decided(cx, n, left);
    FeValue *right = fe_eval(cx, n->binary.right);
    return apply_binary(cx, n, left, right);
}

/* ---- the table ---------------------------------------------------------- */

typedef FeValue *Evaluator(Lower *cx, const AstNode *n);

static Evaluator *const evaluators[NUM_AST_KINDS] = {
    [AST_NUMBER] = eval_number,
    [AST_BOOL] = eval_bool,
    [AST_NONE] = eval_none,
    [AST_NAME] = eval_name,
    [AST_STRING] = fe_eval_string,
    [AST_FN] = eval_fn,
    [AST_TUPLE] = fe_eval_tuple,
    [AST_NAMED_TUPLE] = fe_eval_named_tuple,
    [AST_LIST] = fe_eval_list,
    [AST_COMPREHENSION] = fe_eval_comprehension,
    [AST_UNARY] = eval_unary,
    [AST_BINARY] = eval_binary,
    [AST_CALL] = fe_eval_call,
    [AST_INDEX] = fe_eval_index,
    [AST_FIELD] = fe_eval_field,
    [AST_ELEMENT] = fe_eval_element,
    [AST_RUN] = fe_run,
    [AST_SCHEDULE] = fe_schedule,
    [AST_MERGE] = fe_merge,
    [AST_UPDATE] = fe_update,
    [AST_IF] = fe_eval_if,
};

FeValue *
fe_eval(Lower *cx, const AstNode *expr)
{
    Evaluator *evaluate = evaluators[expr->kind];
    if (!fe_step(cx, expr->loc))
        return &fe_poison;
    if (!evaluate)
        return fe_error(cx, expr->loc, "%s is no value", fe_ast_describe(expr));
    cx->depth++;
    FeValue *v = evaluate(cx, expr);
    cx->depth--;
    return fe_limit_size(cx, v, expr->loc);
}

FeValue *
fe_eval_in(Lower *cx, FeScope *scope, const AstNode *expr)
{
    FeScope *saved = cx->scope;
    cx->scope = scope;
    FeValue *v = fe_eval(cx, expr);
    cx->scope = saved;
    return v;
}

FeValue *
fe_eval_item(Lower *cx, const AstNode *expr, const char *name, int i)
{
    const char *path = cx->path;
    if (path && name)
        cx->path = fe_format(cx, "%s.%s", path, name);
    else if (path)
        cx->path = fe_format(cx, "%s.%d", path, i);
    FeValue *v = fe_eval(cx, expr);
    cx->path = path;
    return v;
}

/* ---- types -------------------------------------------------------------- */

DType
fe_default_float(const Lower *cx)
{
    return cx->options->widen ? DT_f64 : DT_f32;
}

bool
fe_dtype_by_name(const Lower *cx, const char *name, DType *out)
{
    if (!dtype_by_name(name, out))
        return false;
    if (*out == DT_f32)
        *out = fe_default_float(cx);
    return true;
}

/* A dimension of a type that is a name: a constant that has that name, else
 * the length it is bound to from now on. */
static bool
eval_dim_name(Lower *cx, const AstNode *n, const Dim *actual, Dim *out)
{
    const char *name = n->name.text;
    FeFoundBinding found = fe_find_binding(cx, name);
    FeValue *v = found.binding ? fe_binding_value(cx, found.binding) : NULL;
    int64_t known;
    if (v && fe_is_poison(v))
        return false;
    bool is_length = v && (v->kind == FE_DIM || fe_value_is_int(v, &known));
    if (is_length || (v && !actual))
        return fe_require_dim(cx, v, "a dimension", n->loc, out);
    if (!actual) {
        fe_error(cx, n->loc, "the dimension \"%s\" is not known here", name);
        return false;
    }
    *out = *actual;
    if (strcmp(name, "_") != 0)
        fe_bind(cx, cx->scope, name, fe_value_dim(cx->arena, *actual), n->loc);
    return true;
}

/* The name of an element type, or of a parameter or constant that is one. */
static bool
eval_element_type(Lower *cx, const AstNode *type, DType *out)
{
    const char *name = type->type.dtype;
    if (fe_dtype_by_name(cx, name, out))
        return true;
    FeFoundBinding found = fe_find_binding(cx, name);
    FeValue *v = found.binding ? fe_binding_value(cx, found.binding) : NULL;
    if (!v || v->kind != FE_TYPE || v->type->rank != 0)
        return false;
    *out = v->type->dtype;
    return true;
}

static const char *
element_type_note(Lower *cx, const char *name)
{
    DType t;
    const char *ours = fe_hint_foreign(name), *names[NUM_DTYPES];
    if (strncmp(name, "str", 3) == 0)
        return "a string is a const, or a param of str: param name: str = "
               "\"x\"";
    if (!ours || !dtype_by_name(ours, &t)) {
        for (int i = 0; i < NUM_DTYPES; i++)
            names[i] = dtype_info[i].name;
        ours = nearest_name(name, names, NUM_DTYPES);
    }
    return ours ? fe_format(cx, "did you mean %s?", ours)
                : "f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool are there";
}

bool
fe_eval_type(Lower *cx, const AstNode *type, const IrType *actual, IrType *out)
{
    const AstList *dims = &type->type.dims;
    *out = ir_type_scalar(DT_f32, LOCAL_HOST);
    if (!eval_element_type(cx, type, &out->dtype)) {
        fe_error_note(cx, type->loc, element_type_note(cx, type->type.dtype),
                      "there is no element type \"%s\"", type->type.dtype);
        return false;
    }
    if (!fe_check_rank(cx, dims->len, type->loc))
        return false;
    out->rank = dims->len;
    if (actual && actual->rank != dims->len)
        return true; /* the caller sees that they differ */
    for (int i = 0; i < dims->len; i++) {
        const AstNode *n = dims->data[i];
        const Dim *have = actual ? &actual->dims[i] : NULL;
        if (n->kind == AST_NAME) {
            if (!eval_dim_name(cx, n, have, &out->dims[i]))
                return false;
        } else if (!fe_require_dim(cx, fe_eval(cx, n), "a dimension", n->loc,
                                   &out->dims[i])) {
            return false;
        }
    }
    return true;
}
