/*
 * dtype_rules.c - one function for each name in the dtype column
 *
 * There is no promotion (D5): a mismatch is an error that names the missing
 * cast.
 */
#include "ir/rules/rules.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

#include <string.h>

static DType
dtype_of(const Infer *in, int i)
{
    return in->op->operands[i]->type.dtype;
}

static const char *
name_of(DType t)
{
    return dtype_info[t].name;
}

static const char *
op_name(const Infer *in)
{
    return ir_op_info[in->op->kind].name;
}

/* ---- words ------------------------------------------------------------- */

/* The operation in the words of a user: "multiply", "apply pow to". */
static const char *
verb_of(const Infer *in)
{
    static const struct {
        IrOpKind kind;
        const char *verb;
    } verbs[] = {
        {OP_add, "add"},
        {OP_sub, "subtract"},
        {OP_mul, "multiply"},
        {OP_div, "divide"},
        {OP_floordiv, "divide"},
        {OP_dot, "multiply"},
        {OP_conv, "multiply"},
        {OP_conv_weights, "multiply"},
        {OP_eq, "compare"},
        {OP_ne, "compare"},
        {OP_lt, "compare"},
        {OP_le, "compare"},
        {OP_gt, "compare"},
        {OP_ge, "compare"},
        {OP_concat, "concatenate"},
        {OP_where, "choose between"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (verbs[i].kind == in->op->kind)
            return verbs[i].verb;
    }
    return WRONG(in, "apply %s to", op_name(in));
}

/* The operands from `first` on must have one dtype. */
static const char *
check_same(const Infer *in, int first)
{
    for (int i = first + 1; i < in->op->num_operands; i++) {
        if (dtype_of(in, i) != dtype_of(in, first))
            return WRONG(in,
                         "cannot %s %s and %s: there is no silent change of "
                         "dtype; cast one of them",
                         verb_of(in), name_of(dtype_of(in, first)),
                         name_of(dtype_of(in, i)));
    }
    return NULL;
}

/* The result has the common dtype of the operands. */
static const char *
take_same(const Infer *in, IrType *out)
{
    out->dtype = dtype_of(in, 0);
    return check_same(in, 0);
}

/* ---- rules that look at operands --------------------------------------- */

const char *
ir_dtype_any(const Infer *in, int i, IrType *out)
{
    out->dtype = dtype_of(in, i);
    return NULL;
}

const char *
ir_dtype_equal(const Infer *in, int i, IrType *out)
{
    (void)i;
    return take_same(in, out);
}

const char *
ir_dtype_numeric(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *wrong = take_same(in, out);
    if (wrong || out->dtype != DT_bool)
        return wrong;
    if (in->op->num_operands == 1)
        return WRONG(in, "%s of bool asks for a cast", op_name(in));
    return WRONG(in, "cannot %s bool and bool: cast them to a number",
                 verb_of(in));
}

const char *
ir_dtype_product(const Infer *in, int i, IrType *out)
{
    const char *wrong = ir_dtype_numeric(in, i, out);
    if (wrong || !ir_has(in->op, A_dtype))
        return wrong;
    DType of = out->dtype;
    out->dtype = (DType)ir_int(in->op, A_dtype);
    if (out->dtype == of || out->dtype == dtype_compute(of))
        return NULL;
    return WRONG(in, "products of %s are not added as %s", name_of(of),
                 name_of(out->dtype));
}

const char *
ir_dtype_float(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *wrong = take_same(in, out);
    if (wrong || dtype_is_float(out->dtype))
        return wrong;
    if (in->op->kind == OP_div)
        return WRONG(in, "/ is for floats: use // or cast");
    return WRONG(in, "%s is for floats: cast the %s", op_name(in),
                 name_of(out->dtype));
}

const char *
ir_dtype_bits(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *wrong = take_same(in, out);
    if (!wrong && out->dtype != DT_i64)
        wrong = WRONG(in, "%s is for i64: cast the %s", op_name(in),
                      name_of(out->dtype));
    return wrong;
}

const char *
ir_dtype_float_to_bool(const Infer *in, int i, IrType *out)
{
    const char *wrong = ir_dtype_float(in, i, out);
    out->dtype = DT_bool;
    return wrong;
}

const char *
ir_dtype_boolean(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = DT_bool;
    for (int k = 0; k < in->op->num_operands; k++) {
        if (dtype_of(in, k) != DT_bool)
            return WRONG(in, "%s is for bool, not %s", op_name(in),
                         name_of(dtype_of(in, k)));
    }
    return NULL;
}

const char *
ir_dtype_compare(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = DT_bool;
    return check_same(in, 0);
}

const char *
ir_dtype_order(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = DT_bool;
    const char *wrong = check_same(in, 0);
    if (!wrong && dtype_of(in, 0) == DT_bool)
        wrong = WRONG(in, "bools have no order: compare them with ==");
    return wrong;
}

const char *
ir_dtype_where(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = dtype_of(in, 1);
    if (dtype_of(in, 0) != DT_bool)
        return WRONG(in, "a condition is a bool, not %s",
                     name_of(dtype_of(in, 0)));
    return check_same(in, 1);
}

const char *
ir_dtype_take(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = dtype_of(in, 0);
    if (!dtype_is_int(dtype_of(in, 1)))
        return WRONG(in, "the index of take is an integer, not %s",
                     name_of(dtype_of(in, 1)));
    return NULL;
}

const char *
ir_dtype_scatter(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = dtype_of(in, 0);
    if (!dtype_is_int(dtype_of(in, 1)))
        return WRONG(in, "a row is named by an integer, not %s",
                     name_of(dtype_of(in, 1)));
    if (dtype_of(in, 2) != out->dtype)
        return WRONG(in, "values of %s where rows are %s: cast them",
                     name_of(dtype_of(in, 2)), name_of(out->dtype));
    if (out->dtype == DT_bool && ir_enum(in->op, A_mode) != UPDATE_set)
        return WRONG(in, "rows of bool are only set");
    return NULL;
}

const char *
ir_dtype_arg(const Infer *in, int i, IrType *out)
{
    const char *wrong = ir_dtype_numeric(in, i, out);
    out->dtype = DT_i64;
    return wrong;
}

const char *
ir_dtype_assert(const Infer *in, int i, IrType *out)
{
    (void)i, (void)out;
    if (in->op->num_operands == 0)
        return WRONG(in, "assert needs a condition");
    const IrType *t = &in->op->operands[0]->type;
    if (t->dtype != DT_bool || t->rank != 0)
        return WRONG(in, "a condition is one bool, not %s",
                     ir_type_text(in->module, t));
    return NULL;
}

/* ---- what replicas combine --------------------------------------------- */

static const char *
check_combined(const Infer *in, DType t)
{
    IrAgg how = (IrAgg)ir_enum(in->op, A_op);
    if (t == DT_bool && how != AGG_first)
        return WRONG(in, "replicas do not %s bools: cast them",
                     ir_words[WORDS_AGG][how]);
    if (how == AGG_mean && !dtype_is_float(t))
        return WRONG(in, "a mean is of floats: cast the %s", name_of(t));
    return NULL;
}

const char *
ir_dtype_all_reduce(const Infer *in, int i, IrType *out)
{
    out->dtype = dtype_of(in, i);
    if (ir_type_is_local(in->module, &in->op->operands[i]->type))
        return WRONG(in,
                     "values of shape %s have other rows on each replica: "
                     "reduce over their axis first",
                     ir_dims_text(in->module, out->rank, out->dims));
    return check_combined(in, out->dtype);
}

const char *
ir_dtype_cross_reduce(const Infer *in, int i, IrType *out)
{
    out->dtype = dtype_of(in, i);
    return check_combined(in, out->dtype);
}

/* ---- dtypes from elsewhere --------------------------------------------- */

static const char *
set_dtype(IrType *out, DType t)
{
    out->dtype = t;
    return NULL;
}

const char *
ir_dtype_bool(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set_dtype(out, DT_bool);
}

const char *
ir_dtype_i32(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set_dtype(out, DT_i32);
}

const char *
ir_dtype_i64(const Infer *in, int i, IrType *out)
{
    (void)i;
    int count;
    bool has_dims = ir_attr_index(in->op->kind, A_dims) >= 0;
    if (has_dims && (ir_dims(in->op, A_dims, &count), count != 1))
        return WRONG(in, "%s takes one dimension", op_name(in));
    return set_dtype(out, DT_i64);
}

const char *
ir_dtype_f64(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set_dtype(out, DT_f64);
}

/* The data of a constant must have as many elements as its shape. */
static const char *
check_data(const Infer *in, const IrType *t)
{
    int64_t have, need;
    ir_data(in->op, A_data, &have);
    if (!ir_type_is_static(t))
        return WRONG(in, "a constant of shape %s has no number of elements",
                     ir_dims_text(in->module, t->rank, t->dims));
    if (ir_type_bytes(in->module, t, &need) && have != need)
        return WRONG(in, "a constant of type %s has %lld bytes of data",
                     ir_type_text(in->module, t), (long long)have);
    return NULL;
}

const char *
ir_dtype_attr(const Infer *in, int i, IrType *out)
{
    (void)i;
    out->dtype = (DType)ir_int(in->op, A_dtype);
    return in->op->kind == OP_constant ? check_data(in, out) : NULL;
}

const char *
ir_dtype_param(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *name = ir_text(in->op, A_param);
    const IrParam *p = ir_param_find(in->module, name);
    if (!p)
        return WRONG(in, "there is no param \"%s\"", name);
    return set_dtype(out, p->dtype);
}

const char *
ir_dtype_var(const Infer *in, int i, IrType *out)
{
    (void)i;
    /* The shape rule has found it. */
    return set_dtype(
        out, ir_var_find(in->module, ir_text(in->op, A_var))->type.dtype);
}

const char *
ir_dtype_write(const Infer *in, int i, IrType *out)
{
    (void)i, (void)out;
    const char *name = ir_text(in->op, A_var), *wrong;
    const IrVar *var = ir_rule_var(in, &wrong);
    const IrType *x = &in->op->operands[0]->type;
    if (!var)
        return wrong;
    if (x->dtype != var->type.dtype)
        return WRONG(in, "cannot write %s to the %s variable \"%s\": cast it",
                     name_of(x->dtype), name_of(var->type.dtype), name);
    IrType type = ir_var_type_in(in->at->func, var);
    if (!ir_type_same_shape(x, &type))
        return WRONG(in,
                     "cannot write a value of shape %s to the variable "
                     "\"%s\" of shape %s",
                     ir_dims_text(in->module, x->rank, x->dims), name,
                     ir_dims_text(in->module, type.rank, type.dims));
    if (ir_enum(in->op, A_mode) == UPDATE_div && !dtype_is_float(x->dtype))
        return WRONG(in, "/= is for floats: use // or cast");
    if (x->dtype == DT_bool && ir_enum(in->op, A_mode) != UPDATE_set)
        return WRONG(in, "bool variables are only set");
    return NULL;
}

const char *
ir_dtype_none(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}
