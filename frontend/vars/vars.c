/*
 * vars.c - variables: declarations, initial values, slots
 *
 * Reads and writes are in var_access.c.
 */
#include "frontend/vars/vars.h"

#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/lower/call.h"
#include <assert.h>
#include <string.h>
#include "ir/type_text.h"
#include "ir/words.h"

FeVars *
fe_vars(Lower *cx)
{
    if (!cx->vars) {
        FeVars *vars = NEW(cx->arena, FeVars);
        vars->infos = map_new(cx->arena);
        cx->vars = vars;
    }
    return cx->vars;
}

const FeVarInfo *
fe_var_info(Lower *cx, const IrVar *v)
{
    return map_get(fe_vars(cx)->infos, v->name);
}

FeVarInfo *
fe_var_add(Lower *cx, IrVar *v, bool outside, bool is_slot)
{
    assert(!fe_var_info(cx, v));
    if (cx->module->vars.len == limit_value(LIMIT_variables))
        fe_stop(cx, v->loc, LIMIT_variables);
    FeVarInfo *info = NEW(cx->arena, FeVarInfo);
    *info = (FeVarInfo){.var = v, .outside = outside, .is_slot = is_slot};
    map_set(fe_vars(cx)->infos, v->name, info);
    ir_var_add(cx->module, v);
    return info;
}

/* ---- initial values ----------------------------------------------------- */

/* zeros, ones: called with the variable's shape and dtype. */
static FeValue *
call_filler(Lower *cx, const FeBuiltin *b, const IrType *t, Loc loc)
{
    FeValue *dims[IR_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = fe_value_dim(cx->arena, t->dims[i]);
    FeArg args[] = {
        {.name = intern(cx->names, "shape"),
         .value = fe_value_tuple(cx->arena, t->rank, dims),
         .loc = loc},
        {.name = intern(cx->names, "dtype"),
         .value =
             fe_value_type(cx->arena, ir_type_scalar(t->dtype, LOCAL_HOST)),
         .loc = loc},
    };
    FeCall call = {fe_builtin_name(b), args, 2, loc};
    return fe_builtin_call(cx, b, &call);
}

/* init at the shape and dtype of v, in the function that is open. */
static FeValue *
initial_value(Lower *cx, const IrVar *v, FeValue *init, IrVar *of, Loc loc)
{
    const IrType *t = &v->type;
    if (init->kind == FE_FUNC && of) {
        FeValue *arg = fe_value_var(cx->arena, of);
        init = fe_call_with(cx, init, 1, &arg, false, "called", loc);
    }
    if (init->kind == FE_BUILTIN && fe_builtin_fills(init->builtin))
        init = call_filler(cx, init->builtin, t, loc);
    IrValue *x = fe_operand_as(cx, init, t->dtype, loc);
    if (x && x->type.rank != 0 && !ir_type_same_shape(&x->type, t))
        return fe_error_note(
            cx, loc,
            fe_format(cx, "declare it as %s, or give it a value of its shape",
                      fe_type_text(cx, &x->type)),
            "\"%s\" is %s, and its initial value has shape %s", v->name,
            fe_type_text(cx, t),
            ir_dims_text(cx->module, x->type.rank, x->type.dims));
    return fe_broadcast(cx, x, t->rank, t->dims, loc);
}

/* Makes function NAME.init of v, whose value is that of init in scope; a
 * function is called with `of`, a variable, when there is one.  False with a
 * message. */
static bool
make_init(Lower *cx, IrVar *v, FeScope *scope, const AstNode *init, IrVar *of)
{
    FeRegion saved;
    v->init = intern(cx->names, fe_format(cx, "%s.init", v->name));
    IrFunc *fn = fe_func_open(cx, v->init, FUNC_INIT, FE_INIT, v->loc, &saved);
    cx->scope = scope;
    cx->init_type = &v->type;
    FeValue *value = initial_value(cx, v, fe_eval(cx, init), of, init->loc);
    return fe_func_close(cx, fn, &saved, value, init->loc);
}

/* ---- clauses ------------------------------------------------------------ */

/* The enumerator of the word of a clause; 0 when it was not written. */
static int
clause_word(const AstNode *clause, const char *const *words)
{
    if (!clause)
        return 0;
    const char *word = clause->kind == AST_NAME ? clause->name.text : "none";
    return ir_word_index(words, word, strlen(word));
}

static bool
has_one_copy(const IrModule *m)
{
    return ir_strategy_info[m->strategy].central;
}

/* Central storage and parameter servers know no synchronization: writes of the
 * replicas are aggregated at once.  Whether that changes v. */
static bool
forget_sync(const IrModule *m, IrVar *v)
{
    bool forgets = has_one_copy(m) || ir_strategy_info[m->strategy].servers;
    bool changes = forgets && v->sync == SYNC_ON_READ;
    if (forgets)
        v->sync = SYNC_ON_WRITE;
    return changes;
}

/* A program that names no strategy is to be right on several devices too. */
static bool
check_sync(Lower *cx, const IrVar *v, Loc loc)
{
    bool implied = cx->strategy_is_implied;
    const IrStrategyInfo *info = &ir_strategy_info[cx->module->strategy];
    bool copies = info->several && !info->central;
    if (v->sync != SYNC_NONE || !(implied || copies))
        return true;
    fe_error_note(cx, loc,
                  "leave it out: a copy on each replica, written together",
                  "sync(none) is not supported with the strategy %s%s",
                  implied ? ir_strategy_names[STRATEGY_mirrored] : info->name,
                  implied ? ", which this program has on several devices" : "");
    return false;
}

/* Whether the variable's dtype has the sum or mean that is its aggregation.
 * With one copy a mean of integers is made when replicas write (semantics.def).
 */
static bool
check_aggregate(Lower *cx, const IrVar *v, const AstNode *n)
{
    DType t = v->type.dtype;
    bool is_mean = v->agg == AGG_mean;
    bool has_sum = dtype_is_float(t) || dtype_is_int(t);
    bool has_mean =
        dtype_is_float(t) || (dtype_is_int(t) && has_one_copy(cx->module));
    if (is_mean ? has_mean : has_sum || v->agg != AGG_sum)
        return true;
    fe_error_note(
        cx, n->var.aggregate->loc,
        fe_format(cx, "declare it %s, or aggregate(%s)",
                  is_mean ? "f32" : "i32", has_sum ? "sum" : "first"),
        "a %s is no %s: the variable \"%s\" cannot have aggregate(%s)",
        ir_words[WORDS_AGG][v->agg], dtype_info[t].name, v->name,
        ir_words[WORDS_AGG][v->agg]);
    return false;
}

static bool
read_attributes(Lower *cx, IrVar *v, const AstNode *n)
{
    v->sync = (VarSync)clause_word(n->var.sync, ir_sync_words);
    v->agg = (IrAgg)clause_word(n->var.aggregate, ir_words[WORDS_AGG]);
    if (v->sync == SYNC_AUTO)
        v->sync = SYNC_ON_WRITE;
    if (n->var.sync && !check_sync(cx, v, n->var.sync->loc))
        return false;
    return check_aggregate(cx, v, n);
}

/* Trainable are variables that may have a gradient; not those that each replica
 * has of its own, and no slots or counters. */
static void
read_trainable(IrVar *v, const AstNode *n)
{
    bool trained = dtype_is_float(v->type.dtype) && !n->var.non_slot &&
                   v->sync != SYNC_ON_READ;
    v->trainable = n->var.trainable ? n->var.trainable->boolean.value : trained;
}

static bool
read_colocate(Lower *cx, IrVar *v, const AstNode *n, FeValue *around)
{
    const AstNode *clause = n->var.colocate;
    Loc loc = clause ? clause->loc : n->loc;
    FeValue *other = clause ? fe_eval(cx, clause) : around;
    if (!other)
        return true;
    if (fe_is_poison(other))
        return false;
    if (other->kind != FE_VAR)
        fe_error(cx, loc, "a variable is colocated with a variable, not %s",
                 fe_describe(cx, other));
    else if (n->var.non_slot)
        fe_error(cx, loc, "a non_slot variable belongs to no other variable");
    else if (fe_var_info(cx, other->var)->outside)
        fe_error(cx, loc, "\"%s\" was not created in the strategy's scope",
                 other->var->name);
    else
        v->colocate = other->var->name;
    return v->colocate != NULL;
}

/* ---- declarations ------------------------------------------------------- */

static bool
read_type(Lower *cx, const AstNode *type, IrType *out)
{
    if (!fe_eval_type(cx, type, NULL, out))
        return false;
    out->locality = LOCAL_MIRRORED;
    assert(ir_type_is_static(out)); /* no batch is known to declarations */
    return true;
}

static FeValue *
declare(Lower *cx, const AstNode *n, FeValue *colocate)
{
    IrVar *v = NEW(cx->arena, IrVar);
    v->name = intern(cx->names,
                     fe_format(cx, "%s%s", cx->scope->prefix, n->var.name));
    v->loc = n->loc;
    v->non_slot = n->var.non_slot;
    if (ir_var_find(cx->module, v->name))
        return fe_error(cx, n->loc, "there are two variables \"%s\"", v->name);
    if (!read_type(cx, n->var.type, &v->type) || !read_attributes(cx, v, n) ||
        !read_colocate(cx, v, n, colocate) ||
        !fe_var_partition(cx, v, n->var.partition) ||
        !fe_var_on_server(cx, v, n->var.on) ||
        !make_init(cx, v, cx->scope, n->var.init, NULL))
        return &fe_poison;
    read_trainable(v, n);
    bool unsynced = forget_sync(cx->module, v);
    FeVarInfo *info = fe_var_add(cx, v, n->var.outside, false);
    info->unsynced = unsynced;
    info->decl = n;
    info->scope = cx->scope;
    return fe_value_var(cx->arena, v);
}

FeValue *
fe_var_declare(Lower *cx, FeScope *scope, const AstNode *var, FeValue *colocate)
{
    FeScope *saved = cx->scope;
    cx->scope = scope;
    FeValue *v = declare(cx, var, colocate);
    cx->scope = saved;
    return v;
}

/* ---- slots -------------------------------------------------------------- */

FeValue *
fe_slot_declare(Lower *cx, FeScope *scope, const AstNode *slot)
{
    FeSlot *s = NEW(cx->arena, FeSlot);
    s->name = fe_format(cx, "%s%s", scope->prefix, slot->slot.name);
    s->init = slot->slot.init;
    s->type = slot->slot.type;
    s->scope = scope;
    s->loc = slot->loc;
    s->by_name = map_new(cx->arena);
    VEC_PUSH(cx->arena, fe_vars(cx)->slots, s);
    FeValue *v = fe_value_new(cx->arena, FE_SLOT);
    v->slot = s;
    return v;
}

/* The variable's, or that of the family; it has the variable's shape. */
static DType
slot_dtype(Lower *cx, const FeSlot *slot, const IrVar *of)
{
    FeScope *saved = cx->scope;
    IrType t = of->type;
    if (!slot->type)
        return t.dtype;
    cx->scope = slot->scope;
    if (fe_eval_type(cx, slot->type, NULL, &t) && t.rank)
        fe_error(cx, slot->type->loc,
                 "a slot has the shape of its variable; its type is an element "
                 "type");
    cx->scope = saved;
    return t.dtype;
}

static IrVar *
slot_var_new(Lower *cx, FeSlot *slot, IrVar *of)
{
    IrVar *v = NEW(cx->arena, IrVar);
    FeSlotVar one = {of, v};
    v->name = intern(cx->names, fe_format(cx, "%s.%s", slot->name, of->name));
    v->type = of->type;
    v->type.dtype = slot_dtype(cx, slot, of);
    v->sync = SYNC_ON_WRITE;
    v->colocate = of->name;
    v->loc = slot->loc;
    fe_var_add(cx, v, false, true);
    VEC_PUSH(cx->arena, slot->vars, one);
    map_set(slot->by_name, of->name, v);
    return v;
}

FeValue *
fe_slot_index(Lower *cx, FeSlot *slot, FeValue *v, Loc loc)
{
    if (fe_is_poison(v))
        return v;
    if (v->kind != FE_VAR)
        return fe_error(cx, loc, "a slot is indexed by a variable, not %s",
                        fe_describe(cx, v));
    IrVar *made = map_get(slot->by_name, v->var->name);
    return fe_value_var(cx->arena,
                        made ? made : slot_var_new(cx, slot, v->var));
}

IrVar *
fe_var_counter(Lower *cx, const char *name, Loc loc)
{
    IrVar *v = ir_var_find(cx->module, name);
    if (v)
        return v;
    v = NEW(cx->arena, IrVar);
    v->name = name;
    v->type = ir_type_scalar(DT_i64, LOCAL_MIRRORED);
    v->loc = loc;
    fe_var_add(cx, v, false, true);
    VEC_PUSH(cx->arena, fe_vars(cx)->counters, v);
    return v;
}

/* Counting begins at 0. */
static void
make_counter_init(Lower *cx, IrVar *v)
{
    FeRegion saved;
    v->init = intern(cx->names, fe_format(cx, "%s.init", v->name));
    IrFunc *fn = fe_func_open(cx, v->init, FUNC_INIT, FE_INIT, v->loc, &saved);
    FeValue *zero = fe_value_scalar(cx->arena, scalar_int(DT_i64, 0));
    fe_func_close(cx, fn, &saved, zero, v->loc);
}

void
fe_vars_finish(Lower *cx)
{
    FeVars *vars = fe_vars(cx);
    for (int i = 0; i < vars->counters.len; i++)
        make_counter_init(cx, vars->counters.data[i]);
    for (int i = 0; i < vars->slots.len; i++) {
        const FeSlot *s = vars->slots.data[i];
        for (int k = 0; k < s->vars.len; k++)
            make_init(cx, s->vars.data[k].var, s->scope, s->init,
                      s->vars.data[k].of);
    }
}

/* ---- where a length is written ------------------------------------------ */

/* The call that made the instance that a scope is within. */
static Loc
made_at(const FeScope *scope)
{
    while (scope && scope->kind != SCOPE_INSTANCE)
        scope = scope->parent;
    return scope ? scope->instance->loc : NO_LOC;
}

Loc
fe_var_type_loc(Lower *cx, const char *var)
{
    const FeVarInfo *info = map_get(fe_vars(cx)->infos, var);
    Loc loc = info && info->decl ? info->decl->var.type->loc : NO_LOC;
    return diag_is_library(cx->diag, loc.file) ? NO_LOC : loc;
}

bool
fe_var_length(Lower *cx, const char *var, int axis, Loc *length, Loc *around)
{
    const FeVarInfo *info = var ? map_get(fe_vars(cx)->infos, var) : NULL;
    const AstNode *type = info && info->decl ? info->decl->var.type : NULL;
    if (!type || axis >= type->type.dims.len)
        return false;
    const AstNode *dim = type->type.dims.data[axis];
    FeScope *saved = cx->scope;
    cx->scope = info->scope;
    const AstNode *own = fe_written(cx, dim);
    cx->scope = saved;
    if (!own)
        return false;
    *length = own->loc;
    *around = own == dim ? type->loc : made_at(info->scope);
    return true;
}

/* ---- lists of variables ------------------------------------------------- */

static bool
is_of(const FeInstance *instance, const IrVar *v)
{
    size_t n = strlen(instance->path);
    return strncmp(v->name, instance->path, n) == 0 && v->name[n] == '.';
}

/* Adds the variables of an instance, or all when it is NULL; but not those that
 * are listed, as of an instance that is within another one. */
static void
add_vars(Lower *cx, const FeInstance *instance, bool trained, Map *listed,
         FeValues *out)
{
    const FeVars *vars = fe_vars(cx);
    for (int i = 0; i < map_count(vars->infos); i++) {
        const FeVarInfo *info = map_value(vars->infos, i);
        IrVar *v = info->var;
        bool wanted = !info->is_slot && (v->trainable || !trained) &&
                      (!instance || is_of(instance, v)) &&
                      !map_get(listed, v->name);
        if (!wanted)
            continue;
        map_set(listed, v->name, v);
        VEC_PUSH(cx->arena, *out, fe_value_var(cx->arena, v));
    }
}

static FeValue *
list_vars(Lower *cx, const FeArgs *in, bool trained)
{
    FeValues leaves = {0}, out = {0};
    FeValue *of = fe_arg(in, 0);
    Map *listed = map_new(cx->arena);
    if (of)
        fe_value_leaves(cx->arena, of, &leaves);
    else
        add_vars(cx, NULL, trained, listed, &out);
    for (int i = 0; i < leaves.len; i++) {
        if (leaves.data[i]->kind != FE_INSTANCE)
            return fe_error(cx, fe_arg_loc(in, 0),
                            "%s takes an instance of a module, not %s",
                            in->name, fe_describe(cx, leaves.data[i]));
        add_vars(cx, leaves.data[i]->instance, trained, listed, &out);
    }
    return fe_value_list(cx->arena, out.len, out.data);
}

FeValue *
fe_builtin_trainable(Lower *cx, const FeArgs *in)
{
    return list_vars(cx, in, true);
}

FeValue *
fe_builtin_vars(Lower *cx, const FeArgs *in)
{
    return list_vars(cx, in, false);
}
