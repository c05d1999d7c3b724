/*
 * infer.c - results of an operation by its row of the table
 *
 * A row names three rules; each gives one part of the result's type.  The form
 * of an operation (operands, attributes) is checked before its rules run, so
 * rules may index without checks.
 */

#include <assert.h>
#include "ir/base/status.h"
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/rules.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

static const struct {
    IrRule *shape, *dtype, *locality;
} rules[NUM_OPS] = {
/* clang-format off */
#define OP(name, in, out, regions, shape, dtype, locality, ...) \
    {ir_shape_##shape, ir_dtype_##dtype, ir_locality_##locality},
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
    /* clang-format on */
};

const char *
ir_shape_given(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}

const char *
ir_dtype_given(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}

static const char *
check_attr(const IrOp *op, const IrAttrInfo *attr, const IrAttrValue *v)
{
    Arena *arena = op->module->arena;
    const char *name = ir_op_info[op->kind].name;
    if (!v->present)
        return attr->required
                   ? message_printf(arena, "%s needs the attribute %s", name,
                                    attr->text)
                   : NULL;
    assert(attr->kind != ENUM || ir_attr_allows(attr, v->i));
    assert(attr->kind != DTYPE_ || (v->i >= 0 && v->i < NUM_DTYPES));
    return NULL;
}

static const char *
check_attrs(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    const char *wrong = NULL;
    for (int i = 0; !wrong && i < info->num_attrs; i++)
        wrong = check_attr(op, &info->attrs[i], &op->attrs[i]);
    return wrong;
}

const IrVar *
ir_rule_var(const Infer *in, const char **wrong)
{
    const char *name = ir_text(in->op, A_var);
    const IrVar *var = ir_var_find(in->module, name);
    *wrong = var ? NULL : WRONG(in, "there is no variable \"%s\"", name);
    return var;
}

const char *
ir_check_form(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    if (info->num_in >= 0 && op->num_operands != info->num_in)
        return message_printf(
            op->module->arena, "%s takes %d operand%s, not %d", info->name,
            info->num_in, info->num_in == 1 ? "" : "s", op->num_operands);
    return check_attrs(op);
}

bool
ir_is_inferred(IrOpKind kind)
{
    return rules[kind].shape != ir_shape_given;
}

int
ir_infer_count(const IrOp *op)
{
    if (rules[op->kind].shape == ir_shape_each)
        return op->num_operands;
    return ir_op_info[op->kind].num_out;
}

const char *
ir_infer_result(const IrOp *op, const IrBlock *at, int i, IrType *out)
{
    Infer in = {op, at, op->module};
    const char *wrong = rules[op->kind].shape(&in, i, out);
    if (!wrong)
        wrong = rules[op->kind].dtype(&in, i, out);
    if (!wrong)
        wrong = rules[op->kind].locality(&in, i, out);
    int64_t bytes;
    if (!wrong && !ir_type_bytes(in.module, out, &bytes))
        wrong = WRONG(&in, "a value of shape %s is too large",
                      ir_dims_text(in.module, out->rank, out->dims));
    return wrong;
}

/* An operation that has results already gets their new types in place. */
static void
set_results(IrOp *op, int count, const IrType *types)
{
    if (op->num_results != count) {
        ir_op_results(op, count, types);
        return;
    }
    for (int i = 0; i < count; i++)
        op->results[i]->type = types[i];
}

const char *
ir_op_infer(IrOp *op, const IrBlock *at)
{
    const char *wrong = ir_check_form(op);
    if (wrong || !ir_is_inferred(op->kind))
        return wrong;
    int count = ir_infer_count(op);
    IrType one = {0}, *types = &one;
    if (count > 1)
        types = NEW_ARRAY(op->module->arena, IrType, (size_t)count);
    for (int i = 0; i == 0 || i < count; i++) {
        wrong = ir_infer_result(op, at, i, &types[i]);
        if (wrong)
            return wrong;
    }
    set_results(op, count, types);
    return NULL;
}
