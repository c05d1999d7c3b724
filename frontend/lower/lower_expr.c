/*
 * lower_expr.c - operators and casts
 *
 * Each tries to fold (fold.c), and emits an operation of the IR if it cannot.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/context/steps.h"
#include "frontend/emit/fold.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/slices.h"
#include "frontend/emit/type_of.h"

#include <string.h>

/* The operations of the IR behind the operators. */
static const struct {
    bool is_op;
    IrOpKind kind;
} binary_ops[NUM_AST_OPS] = {
    [AST_OP_OR] = {true, OP_or},
    [AST_OP_AND] = {true, OP_and},
    [AST_OP_EQ] = {true, OP_eq},
    [AST_OP_NE] = {true, OP_ne},
    [AST_OP_LT] = {true, OP_lt},
    [AST_OP_LE] = {true, OP_le},
    [AST_OP_GT] = {true, OP_gt},
    [AST_OP_GE] = {true, OP_ge},
    [AST_OP_ADD] = {true, OP_add},
    [AST_OP_SUB] = {true, OP_sub},
    [AST_OP_MUL] = {true, OP_mul},
    [AST_OP_DIV] = {true, OP_div},
    [AST_OP_POW] = {true, OP_pow},
    [AST_OP_MOD] = {true, OP_mod},
    [AST_OP_FLOORDIV] = {true, OP_floordiv},
};

/* Whether v is a number; other values can be compared only. */
static bool
is_number(const FeValue *v)
{
    switch (v->kind) {
    case FE_CONST:
    case FE_DIM:
    case FE_TENSOR:
    case FE_PARAM:
    case FE_VAR:
    case FE_NEST:
        return true;
    default:
        return false;
    }
}

/* ---- comparisons of things that are no numbers -------------------------- */

/* What two values have in common that may be equal. */
static FeKind
kind_compared(const FeValue *v)
{
    if (is_number(v))
        return FE_CONST;
    return v->kind == FE_BUILTIN || v->kind == FE_MODULE ? FE_FUNC : v->kind;
}

/* Whether no other call or instance of what is around gives a value of another
 * kind: a parameter may be a function here and a string there, what the file
 * declares is one thing. */
static bool
has_one_kind(Lower *cx, const AstNode *n, const FeValue *v)
{
    const FeBinding *b;
    switch (n->kind) {
    case AST_NUMBER:
    case AST_STRING:
    case AST_BOOL:
    case AST_UNARY:
    case AST_BINARY:
        return true;
    case AST_NAME:
        b = fe_find_binding(cx, n->name.text).binding;
        return !b || b->scope->kind == SCOPE_FILE;
    case AST_INDEX:
    case AST_CALL:
        return v->kind == FE_TENSOR || v->kind == FE_DIM;
    default:
        return false;
    }
}

/* A comparison that is false wherever it stands is a slip: rank == 0, of the
 * builtin function, or ACT == relu, of the string "relu". */
static bool
are_never_equal(Lower *cx, const FeValue *x, const FeValue *y, Loc loc)
{
    const AstNode *n = fe_side_text(cx, 0, loc) ? cx->applied : NULL;
    if (!n || x->kind == FE_NONE || y->kind == FE_NONE)
        return false;
    return kind_compared(x) != kind_compared(y) &&
           has_one_kind(cx, n->binary.left, x) &&
           has_one_kind(cx, n->binary.right, y);
}

static const char *
never_equal_note(Lower *cx, const FeValue *x, const FeValue *y)
{
    const AstNode *left = cx->applied->binary.left;
    const AstNode *right = cx->applied->binary.right;
    const AstNode *of = kind_compared(x) == FE_FUNC ? left : right;
    const FeValue *other = of == left ? y : x;
    const char *name = fe_ast_text(cx->arena, of);
    if (kind_compared(of == left ? x : y) != FE_FUNC)
        return NULL;
    if (other->kind == FE_STRING)
        return fe_format(cx, "a string is equal to a string: write \"%s\"",
                         name);
    if (strcmp(name, "rank") == 0)
        return "the number of the replica is replica_id; rank(x) is how many "
               "axes x has";
    return fe_format(cx, "a function has a value where it is called: %s(...)",
                     name);
}

static FeValue *
compare_things(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc)
{
    bool has_holes = (x->kind == FE_STRING && !x->text.text) ||
                     (y->kind == FE_STRING && !y->text.text);
    bool is_param = (x->kind == FE_STRING && fe_text_is_late(&x->text)) ||
                    (y->kind == FE_STRING && fe_text_is_late(&y->text));
    if (is_param)
        return fe_error_note(cx, loc,
                             "a const can: const NAME = \"...\", which tfdc -D "
                             "NAME=... sets",
                             "a param of str cannot be compared: it is only "
                             "known when the program is run");
    if (has_holes)
        return fe_error(cx, loc, "a string with holes cannot be compared");
    if (are_never_equal(cx, x, y, loc))
        return fe_error_note(cx, loc, never_equal_note(cx, x, y),
                             "%s and %s are never equal", fe_describe(cx, x),
                             fe_describe(cx, y));
    bool same = fe_value_same(x, y);
    return fe_value_bool(cx->arena, same == (op == AST_OP_EQ));
}

/* A side of an operator in a string: what a string has, others in a hole. */
static const char *
in_string(Lower *cx, const AstNode *n)
{
    const char *text = n->kind == AST_STRING ? fe_source(cx, n->loc) : NULL;
    size_t len = text ? strlen(text) : 0;
    return len >= 2 ? fe_format(cx, "%.*s", (int)len - 2, text + 1)
                    : fe_format(cx, "{%s}", fe_ast_text(cx->arena, n));
}

/* Of "loss: %.2f" % loss, as Python has it. */
static const char *
formatted_note(Lower *cx, const AstNode *n)
{
    const char *text = in_string(cx, n->binary.left);
    const char *value = fe_ast_text(cx->arena, n->binary.right);
    const char *format = strchr(text, '%');
    Str s = str_new(cx->arena);
    if (!format || !format[1])
        return fe_format(cx, "values stand in the string: \"%s {%s}\"", text,
                         value);
    int len = (int)strspn(format + 1, "0123456789.+-") + 2;
    if (strlen(format) < (size_t)len)
        len = (int)strlen(format);
    str_addf(&s, "%.*s", (int)(format - text), text);
    fe_add_hole(&s, format, len, value);
    return fe_format(cx, "values stand in the string: \"%s%s\"", str_text(&s),
                     format + len);
}

static const char *
joined_note(Lower *cx, Loc loc)
{
    const AstNode *n = fe_side_text(cx, 0, loc) ? cx->applied : NULL;
    if (!n)
        return "strings are joined by holes: \"{a}{b}\"";
    if (n->binary.op == AST_OP_MOD)
        return formatted_note(cx, n);
    const char *left = in_string(cx, n->binary.left);
    const char *right = in_string(cx, n->binary.right);
    return fe_format(cx,
                     "strings are joined by writing them as one, with values "
                     "in braces: \"%s%s\"",
                     left, right);
}

static const char *
operand_note(Lower *cx, const FeValue *v, Loc loc)
{
    if (v->kind == FE_REMOTE)
        return "fetch(...) waits for its value";
    return v->kind == FE_STRING ? joined_note(cx, loc) : NULL;
}

/* A list whose items are alike may have been meant as a tensor. */
static const char *
nest_note(Lower *cx, const FeValue *v)
{
    const FeNest *nest = &v->nest;
    IrType first, other;
    bool is_alike = nest->kind == NEST_LIST && nest->len &&
                    fe_type_of(cx, nest->items[0], &first);
    for (int i = 1; is_alike && i < nest->len; i++)
        is_alike = fe_type_of(cx, nest->items[i], &other) &&
                   first.dtype == other.dtype &&
                   ir_type_same_shape(&first, &other);
    return is_alike ? "make a tensor of the list, stack(x, axis = -1), or go "
                      "through its items: [a + b for (a, b) in zip(x, y)]"
                    : "go through the items: [a + b for (a, b) in zip(x, y)]";
}

/* Two lists of variables with a + in between may have been meant as one list.
 */
static const char *
nests_note(Lower *cx, const FeValue *v, const FeValue *other, AstOp op, Loc loc)
{
    const char *left = fe_side_text(cx, 0, loc);
    bool has_vars = v->nest.len && v->nest.items[0]->kind == FE_VAR;
    bool are_both = other && other->kind == FE_NEST;
    if (op != AST_OP_ADD || !has_vars || !are_both || !left)
        return nest_note(cx, v);
    return fe_format(cx, "the items of both in one list are flatten([%s, %s])",
                     left, fe_side_text(cx, 1, loc));
}

/* A list of scalars counts as a tensor, other nests do not.  other is the other
 * operand, or NULL. */
static bool
check_number(Lower *cx, FeValue *v, const FeValue *other, AstOp op, Loc loc)
{
    IrType t;
    if (v->kind == FE_NEST && !fe_type_of(cx, v, &t)) {
        fe_error_note(cx, loc, nests_note(cx, v, other, op, loc),
                      "arithmetic does not go into %s", fe_describe(cx, v));
        return false;
    }
    if (!is_number(v)) {
        fe_error_note(cx, loc, operand_note(cx, v, loc),
                      "%s cannot be an operand of \"%s\"", fe_describe(cx, v),
                      fe_ast_op_text(op));
        return false;
    }
    return true;
}

static bool
is_integer(Lower *cx, FeValue *v)
{
    IrType t;
    return fe_type_of(cx, v, &t) && dtype_is_int(t.dtype);
}

/* Whether x / y is of integers: neither is a float, nor is untyped beside one.
 */
static bool
divides_integers(Lower *cx, FeValue *x, FeValue *y)
{
    bool literal_x = x->kind == FE_CONST && x->constant.untyped;
    bool literal_y = y->kind == FE_CONST && y->constant.untyped;
    bool int_x = is_integer(cx, x), int_y = is_integer(cx, y);
    if (literal_x != literal_y)
        return literal_x ? int_y : int_x;
    return int_x && int_y;
}

/* x // y of x / y, as it is written. */
static const char *
rounded_quotient(Lower *cx)
{
    AstNode quotient = *cx->applied;
    quotient.binary.op = AST_OP_FLOORDIV;
    return fe_ast_text(cx->arena, &quotient);
}

/* Whether it is written with a point: an integer has no quotient by it. */
static bool
is_float_literal(const FeValue *v)
{
    return v->kind == FE_CONST && dtype_is_float(v->constant.scalar.dtype);
}

/* y / 2.0, of an integer y, is divided as floats are. */
static FeValue *
refuse_quotient(Lower *cx, const FeValue *left, const FeValue *right, Loc loc)
{
    const char *x = fe_side_text(cx, 0, loc), *y = fe_side_text(cx, 1, loc);
    bool is_x = is_float_literal(left), is_y = is_float_literal(right);
    x = x ? x : "x";
    y = y ? y : "y";
    const char *note =
        is_x   ? fe_format(cx, "cast the integer: %s / f32(%s)", x, y)
        : is_y ? fe_format(cx, "cast the integer: f32(%s) / %s", x, y)
               : fe_format(cx,
                           "these are integers: write %s to round down, or "
                           "cast: f32(%s) / f32(%s)",
                           fe_side_text(cx, 0, loc) ? rounded_quotient(cx)
                                                    : "x // y",
                           x, y);
    return fe_error_note(cx, loc, note, "\"/\" is for floats");
}

/* ---- powers ------------------------------------------------------------- */

static FeValue *
squared(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op2(cx, OP_mul, x, x, loc);
}

static FeValue *
cubed(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op2(cx, OP_mul, squared(cx, x, loc), x, loc);
}

static FeValue *
to_the_fourth(Lower *cx, FeValue *x, Loc loc)
{
    return squared(cx, squared(cx, x, loc), loc);
}

static FeValue *
root(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op1(cx, OP_sqrt, x, loc);
}

static FeValue *
one_over_root(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op1(cx, OP_rsqrt, x, loc);
}

static FeValue *
one_over(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op2(cx, OP_div, fe_value_float(cx->arena, 1), x, loc);
}

/* x ** 2 may be too great, or too small, where 1 / x ** 2 is neither. */
static FeValue *
one_over_square(Lower *cx, FeValue *x, Loc loc)
{
    return fe_op2(cx, OP_div, one_over(cx, x, loc), x, loc);
}

typedef FeValue *PowerLowering(Lower *cx, FeValue *x, Loc loc);

/* Exponents that are other operations, faster and rounded no worse; those of
 * several steps are computed in f32 for f16 and bf16, as pow is. */
static const struct {
    double exponent;
    bool for_integers, several;
    PowerLowering *lower;
} powers[] = {
    {2, true, false, squared},          {3, true, true, cubed},
    {4, true, true, to_the_fourth},     {0.5, false, false, root},
    {-1, false, false, one_over},       {-0.5, false, false, one_over_root},
    {-2, false, true, one_over_square},
};

enum { NUM_POWERS = sizeof powers / sizeof *powers };

static FeValue *
compute_wide(Lower *cx, PowerLowering *lower, IrValue *x, Loc loc)
{
    DType t = x->type.dtype;
    FeValue *base = fe_value_tensor(cx->arena, x);
    FeValue *wide = fe_cast(cx, base, dtype_compute(t), loc);
    return fe_cast(cx, lower(cx, wide, loc), t, loc);
}

/* x ** y as other operations; NULL where y is not known to be such an
 * exponent. */
static FeValue *
lower_power(Lower *cx, FeValue *x, const FeValue *y, Loc loc)
{
    IrType t;
    if (y->kind != FE_CONST || !fe_type_of(cx, x, &t))
        return NULL;
    Scalar s = y->constant.scalar;
    bool is_float = dtype_is_float(t.dtype);
    if (y->constant.untyped ? dtype_is_float(s.dtype) && !is_float
                            : s.dtype != t.dtype)
        return NULL;
    double exponent = dtype_is_float(s.dtype) ? s.f : (double)s.i;
    for (int i = 0; i < NUM_POWERS; i++) {
        if (powers[i].exponent != exponent ||
            !(is_float || powers[i].for_integers))
            continue;
        IrValue *base = fe_operand(cx, x, loc);
        if (!base)
            return &fe_poison;
        return powers[i].several && is_float
                   ? compute_wide(cx, powers[i].lower, base, loc)
                   : powers[i].lower(cx, fe_value_tensor(cx->arena, base), loc);
    }
    return NULL;
}

/* ---- any operation ------------------------------------------------------ */

FeValue *
fe_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc)
{
    fe_count_walk_value(cx, x);
    fe_count_walk_value(cx, y);
    if (fe_value_has_poison(x) || fe_value_has_poison(y))
        return &fe_poison;
    if (fe_is_slices(x) || fe_is_slices(y))
        return fe_slices_binary(cx, op, x, y, loc);
    if ((op == AST_OP_EQ || op == AST_OP_NE) && !(is_number(x) && is_number(y)))
        return compare_things(cx, op, x, y, loc);
    if (!check_number(cx, x, y, op, loc) || !check_number(cx, y, x, op, loc))
        return &fe_poison;
    if (op == AST_OP_DIV && divides_integers(cx, x, y))
        return refuse_quotient(cx, x, y, loc);
    FeValue *known = fe_fold_binary(cx, op, x, y, loc);
    if (known)
        return known;
    if (op == AST_OP_MATMUL)
        return fe_matmul(cx, x, y, loc);
    FeValue *power = op == AST_OP_POW ? lower_power(cx, x, y, loc) : NULL;
    if (power)
        return power;
    return fe_op2(cx, binary_ops[op].kind, x, y, loc);
}

FeValue *
fe_unary(Lower *cx, AstOp op, FeValue *x, Loc loc)
{
    if (fe_value_has_poison(x))
        return &fe_poison;
    if (fe_is_slices(x))
        return fe_slices_unary(cx, op, x, loc);
    if (!check_number(cx, x, NULL, op, loc))
        return &fe_poison;
    FeValue *known = fe_fold_unary(cx, op, x, loc);
    if (known)
        return known;
    return fe_op1(cx, op == AST_OP_NOT ? OP_not : OP_neg, x, loc);
}

/* A number as written must fit the dtype; but a float that becomes an integer
 * is rounded, and a bool says whether a number is 0. */
static FeValue *
cast_constant(Lower *cx, const FeValue *x, DType t, Loc loc)
{
    bool rounds = dtype_is_int(t) && dtype_is_float(x->constant.scalar.dtype);
    bool must_fit = x->constant.untyped && t != DT_bool && !rounds;
    Scalar s = scalar_cast(x->constant.scalar, t);
    if (must_fit && !fe_constant_as(cx, x, t, loc, &s))
        return &fe_poison;
    return fe_value_scalar(cx->arena, s);
}

FeValue *
fe_cast(Lower *cx, FeValue *x, DType t, Loc loc)
{
    if (fe_is_slices(x))
        return fe_slices_with(cx, x, fe_cast(cx, fe_slices_values(x), t, loc),
                              fe_slices_indices(x));
    if (x->kind == FE_CONST)
        return cast_constant(cx, x, t, loc);
    if (x->kind == FE_DIM && t == DT_i64)
        return fe_value_length(cx->arena, x->length.dim);
    IrValue *operand = fe_operand(cx, x, loc);
    if (operand && operand->type.dtype == t)
        return fe_value_tensor(cx->arena, operand);
    IrOp *op = fe_op(cx, OP_cast, 1, &operand, loc);
    ir_set_int(op, A_dtype, t);
    return fe_emit(cx, op);
}
