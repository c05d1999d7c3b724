/*
 * checkpoint.c - save, restore and summary
 *
 * To save is to read variables in main, and to restore is to write them there,
 * so that semantics.def and the passes decide about each kind: of a
 * sync-on-read variable the aggregate is saved, and a sum that is restored is
 * divided among the replicas.  Thus a file fits any number of devices.
 *
 * Which variables there are is known when all of main is lowered (slots come
 * to be when an optimizer is applied); until then a save or restore of all has
 * no list of variables.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/type_of.h"
#include "frontend/vars/vars.h"
#include "ir/rules/build.h"

#include <string.h>

/* ---- which variables ---------------------------------------------------- */

typedef VEC(const char *) VarNames;

static bool
is_listed(const VarNames *names, const char *name)
{
    for (int i = 0; i < names->len; i++)
        if (names->data[i] == name)
            return true;
    return false;
}

static bool
add_listed(Lower *cx, const FeArgs *in, const FeValue *v, VarNames *names)
{
    Loc loc = fe_arg_loc(in, 1);
    const char *note = v->kind == FE_INSTANCE
                           ? fe_format(cx, "vars(%s) are its variables",
                                       fe_arg_text(cx, in, 1))
                           : NULL;
    if (v->kind != FE_VAR)
        fe_error_note(cx, loc, note, "%s takes a list of variables, not %s",
                      in->name, fe_describe(cx, v));
    else if (is_listed(names, v->var->name))
        fe_error(cx, loc, "the variable \"%s\" is listed twice", v->var->name);
    else
        VEC_PUSH(cx->arena, *names, v->var->name);
    return v->kind == FE_VAR;
}

/* Notes the variables that were listed, if any were. */
static bool
set_vars(Lower *cx, const FeArgs *in, IrOp *op)
{
    VarNames names = {0};
    FeValues leaves = {0};
    FeValue *list = fe_arg(in, 1);
    if (!list)
        return true;
    fe_value_leaves(cx->arena, list, &leaves);
    for (int i = 0; i < leaves.len; i++)
        if (!add_listed(cx, in, leaves.data[i], &names))
            return false;
    if (names.len == 0) {
        fe_error(cx, fe_arg_loc(in, 1), "this list has no variable to %s",
                 in->name);
        return false;
    }
    ir_set_names(op, A_vars, names.data, names.len);
    return true;
}

/* Notes what the file calls the variables that were listed. */
static bool
set_names(Lower *cx, const FeArgs *in, IrOp *op)
{
    int num_vars = 0;
    VarNames names = {0};
    FeValues leaves = {0};
    Loc loc = fe_arg_loc(in, 2);
    ir_names(op, A_vars, &num_vars);
    fe_value_leaves(cx->arena, fe_arg(in, 2), &leaves);
    if (leaves.len != num_vars) {
        fe_error(cx, loc, "%d names for %d variables listed", leaves.len,
                 num_vars);
        return false;
    }
    for (int i = 0; i < leaves.len; i++) {
        const char *text;
        if (!fe_require_text(cx, leaves.data[i], "a name", loc, &text))
            return false;
        const char *name = intern(cx->names, text);
        if (is_listed(&names, name)) {
            fe_error(cx, loc, "the name \"%s\" is listed twice", name);
            return false;
        }
        VEC_PUSH(cx->arena, names, name);
    }
    ir_set_names(op, A_names, names.data, names.len);
    return true;
}

/* ---- the calls ---------------------------------------------------------- */

/* The text that a path or a tag is, or NULL with a message. */
static const FeText *
string_argument(Lower *cx, const FeArgs *in, const char *what)
{
    const FeValue *v = fe_arg(in, 0);
    if (v->kind == FE_STRING)
        return &v->text;
    fe_error(cx, fe_arg_loc(in, 0), "%s is a string, \"...\", not %s", what,
             fe_describe(cx, v));
    return NULL;
}

static FeValue *
emit_checkpoint(Lower *cx, const FeArgs *in, IrOpKind kind)
{
    const FeText *path = string_argument(cx, in, "the path of a folder");
    if (!path || !fe_check_can_emit(cx, in->loc))
        return &fe_poison;
    IrOp *op = fe_text_op(cx, kind, 0, NULL, path, in->loc);
    if (!set_vars(cx, in, op))
        return &fe_poison;
    if (kind == OP_restore && fe_arg(in, 2) && !set_names(cx, in, op))
        return &fe_poison;
    ir_append(cx->block, op);
    return &fe_none;
}

FeValue *
fe_builtin_save(Lower *cx, const FeArgs *in)
{
    return emit_checkpoint(cx, in, OP_save);
}

FeValue *
fe_builtin_restore(Lower *cx, const FeArgs *in)
{
    return emit_checkpoint(cx, in, OP_restore);
}

/* ---- summary ------------------------------------------------------------ */

static IrValue *
step_argument(Lower *cx, const FeArgs *in)
{
    IrType t;
    FeValue *step = fe_arg(in, 2);
    Loc loc = fe_arg_loc(in, 2);
    if (fe_type_of(cx, step, &t) && t.rank == 0 && dtype_is_int(t.dtype))
        return fe_operand(cx, fe_cast(cx, step, DT_i64, loc), loc);
    fe_error(cx, loc, "a step is one integer, not %s", fe_describe(cx, step));
    return NULL;
}

/* Closures have no output but print, and updates of variables none. */
static bool
may_summarize(Lower *cx, Loc loc)
{
    bool in_closure = cx->context != FE_CROSS &&
                      ir_strategy_info[cx->module->strategy].servers;
    if (in_closure)
        return fe_error_note(cx, loc,
                             "return the value, and write it in main: "
                             "summary(\"loss\", fetch(h), step)",
                             "a closure has no summary of its own"),
               false;
    if (cx->context == FE_REPLICA || fe_is_cross(cx))
        return true;
    fe_error(cx, loc, "summary stands in main and in steps, and this is %s",
             fe_context_name(cx->context));
    return false;
}

FeValue *
fe_builtin_summary(Lower *cx, const FeArgs *in)
{
    if (!may_summarize(cx, in->loc))
        return &fe_poison;
    const FeText *tag = string_argument(cx, in, "the tag of a summary");
    FeValue *value = fe_arg(in, 1);
    Loc loc = fe_arg_loc(in, 1);
    if (!tag)
        return &fe_poison;
    IrValue *operands[2];
    operands[0] = fe_operand(cx, value, loc);
    operands[1] = step_argument(cx, in);
    if (!operands[0] || !operands[1])
        return &fe_poison;
    if (operands[0]->type.dtype == DT_bool)
        return fe_error_note(
            cx, loc, fe_format(cx, "cast it: f32(%s)", fe_arg_text(cx, in, 1)),
            "a summary is of numbers, not of bool");
    return fe_emit(cx, fe_text_op(cx, OP_summary, 2, operands, tag, in->loc));
}

/* ---- once all variables are known --------------------------------------- */

/* The variables of op, as listed, or all. */
static bool
vars_of(Lower *cx, const IrOp *op, VarNames *names)
{
    int num;
    const IrModule *m = cx->module;
    const char *const *listed = ir_names(op, A_vars, &num);
    for (int i = 0; listed && i < num; i++)
        VEC_PUSH(cx->arena, *names, listed[i]);
    for (int i = 0; !listed && i < m->vars.len; i++)
        VEC_PUSH(cx->arena, *names, m->vars.data[i]->name);
    if (names->len == 0)
        fe_error(cx, op->loc, "the program has no variable to %s",
                 ir_op_info[op->kind].name);
    return names->len > 0;
}

/* The same operation with other operands, at the end of b. */
static IrOp *
with_operands(IrBlock *b, const IrOp *op, int n, IrValue *const *operands,
              const VarNames *vars)
{
    IrOp *new_op = ir_build_op(b, op->kind, n, operands, op->loc);
    ir_set_text(new_op, A_format, ir_text(op, A_format));
    ir_set_names(new_op, A_vars, vars->data, vars->len);
    return new_op;
}

static void
finish_save(Lower *cx, IrOp *op, const VarNames *vars)
{
    IrValues operands = {0};
    IrBlock *b = cx->block = ir_block_scratch(op);
    for (int i = 0; i < vars->len; i++) {
        IrVar *v = ir_var_find(cx->module, vars->data[i]);
        VEC_PUSH(cx->arena, operands, fe_var_read(cx, v, op->loc));
    }
    for (int i = 0; i < op->num_operands; i++)
        VEC_PUSH(cx->arena, operands, op->operands[i]);
    with_operands(b, op, operands.len, operands.data, vars);
    ir_splice_before(op, b);
    ir_remove(op);
}

static void
finish_restore(Lower *cx, IrOp *op, const VarNames *vars)
{
    IrBlock *b = ir_block_scratch(op);
    IrOp *restore = with_operands(b, op, op->num_operands, op->operands, vars);
    if (!ir_has(op, A_vars))
        ir_set_int(restore, A_strict, true);
    int num_names;
    const char *const *names = ir_names(op, A_names, &num_names);
    if (names)
        ir_set_names(restore, A_names, names, num_names);
    IrType *types = NEW_ARRAY(cx->arena, IrType, (size_t)vars->len);
    for (int i = 0; i < vars->len; i++) {
        types[i] = ir_var_find(cx->module, vars->data[i])->type;
        types[i].locality = LOCAL_HOST;
    }
    ir_op_results(restore, vars->len, types);
    for (int i = 0; i < vars->len; i++)
        ir_build_write(b, vars->data[i], UPDATE_set, restore->results[i],
                       op->loc);
    ir_splice_before(op, b);
    ir_remove(op);
}

static void
finish(IrOp *op, void *data)
{
    Lower *cx = data;
    VarNames vars = {0};
    bool is_save = op->kind == OP_save;
    if ((!is_save && op->kind != OP_restore) || !vars_of(cx, op, &vars))
        return;
    if (is_save)
        finish_save(cx, op, &vars);
    else
        finish_restore(cx, op, &vars);
}

void
fe_checkpoints_finish(Lower *cx)
{
    IrFunc *main_fn = ir_func_find(cx->module, "main");
    if (!main_fn)
        return;
    FeContext context = cx->context;
    IrBlock *block = cx->block;
    cx->context = FE_CROSS;
    ir_walk(main_fn->body, finish, cx);
    cx->context = context;
    cx->block = block;
}
