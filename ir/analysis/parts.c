/*
 * parts.c - what of a push goes to the server of a part
 *
 * The types tell: what is pushed has all rows of the variable where the update
 * takes those of a part, or as many as there are numbers of rows.
 */
#include "ir/analysis/parts.h"

static Dim
first_dim(const IrType *t)
{
    return t->rank ? t->dims[0] : ir_dim_const(-1);
}

static bool
begins_as(const IrType *a, const IrType *b)
{
    return ir_dim_equal(first_dim(a), first_dim(b));
}

IrCut
ir_push_cut(const IrFunc *update, const IrOp *push, int i)
{
    int ids = update->row_ids;
    IrValue *const *args = update->body->args.data;
    const IrType *t = &args[i]->type, *given = &push->operands[i]->type;
    if (!update->part_of || !t->rank || !given->rank)
        return CUT_NOTHING;
    if (i == ids)
        return CUT_IDS;
    if (ids >= 0 && begins_as(t, &args[ids]->type) &&
        begins_as(given, &push->operands[ids]->type))
        return CUT_ENTRIES;
    const IrVar *var = ir_var_find(update->module, update->part_of);
    Dim part =
        ir_dim_const(ir_var_part_rows(ir_var_home(update->module, var), 0));
    bool is_cut = ir_dim_equal(first_dim(given), first_dim(&var->type)) &&
                  ir_dim_equal(first_dim(t), part);
    return is_cut ? CUT_ROWS : CUT_NOTHING;
}

bool
ir_update_is_set(const IrFunc *update)
{
    const IrBlock *b = update->body;
    const IrOp *op = b->first;
    return b->args.len == 1 && op->kind == OP_write && op->next == b->last &&
           op->operands[0] == b->args.data[0] &&
           ir_enum(op, A_mode) == UPDATE_set;
}
