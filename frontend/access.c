/*
 * access.c - reading and writing variables
 *
 * What is allowed where is a table, semantics.def; here it is looked up, and
 * what it does not know is checked: what an update may write, and that replicas
 * come together to what they do together.
 */
#include "frontend/vars.h"

#include <string.h>

/* ---- the table ---------------------------------------------------------- */

typedef enum Verdict {
#define VERDICT(name, together, message, repair) V_##name,
#include "frontend/semantics.def"
} Verdict;

static const struct {
    bool together;
    const char *message, *repair;
} verdicts[] = {
#define VERDICT(name, together, message, repair) {together, message, repair},
#include "frontend/semantics.def"
};

/* The words of the rows, each with ANY for all. */
typedef enum Sync { S_ANY, S_ON_WRITE, S_ON_READ } Sync;
typedef enum Agg { G_ANY, G_NONE, G_SUM, G_MEAN, G_FIRST } Agg;
typedef enum Place { C_ANY, C_REPLICA, C_CROSS, C_UPDATE } Place;
typedef enum Change { O_ANY, O_SET, O_ADDS, O_SCALES } Change;
typedef enum Content { L_ANY, L_SAME, L_DIFFERS } Content;

typedef struct Access {
    Sync sync;
    Agg agg;
    Place place;
    Change change;
    Content content;
} Access;

typedef struct Row {
    Access when;
    Verdict verdict;
} Row;

static const Row reads[] = {
#define READ(sync, agg, context, verdict)                                      \
    {{S_##sync, G_##agg, C_##context, O_ANY, L_ANY}, V_##verdict},
#include "frontend/semantics.def"
};

static const Row writes[] = {
#define WRITE(sync, agg, context, operation, value, verdict)                   \
    {{S_##sync, G_##agg, C_##context, O_##operation, L_##value}, V_##verdict},
#include "frontend/semantics.def"
};

static bool
fits(const Access *row, const Access *a)
{
    return (row->sync == S_ANY || row->sync == a->sync) &&
           (row->agg == G_ANY || row->agg == a->agg) &&
           (row->place == C_ANY || row->place == a->place) &&
           (row->change == O_ANY || row->change == a->change) &&
           (row->content == L_ANY || row->content == a->content);
}

/* The verdict of the first row that fits; the last one always does. */
static Verdict
judge(const Row *rows, int n, const Access *a)
{
    int i = 0;
    while (i < n - 1 && !fits(&rows[i].when, a))
        i++;
    return rows[i].verdict;
}

static Access
access_of(const Lower *cx, const IrVar *v)
{
    static const Agg aggs[] = {[AGG_NONE] = G_NONE,
                               [AGG_SUM] = G_SUM,
                               [AGG_MEAN] = G_MEAN,
                               [AGG_FIRST] = G_FIRST};
    Access a = {.agg = aggs[v->agg]};
    a.sync = v->sync == SYNC_ON_READ ? S_ON_READ : S_ON_WRITE;
    a.place = cx->context == FE_REPLICA  ? C_REPLICA
              : cx->context == FE_UPDATE ? C_UPDATE
                                         : C_CROSS;
    return a;
}

/* ---- messages ----------------------------------------------------------- */

/* What stands for $v, $x, $o, $c. */
typedef struct Words {
    const char *var, *value, *op, *context;
} Words;

static const char *
word_for(const Words *w, char c)
{
    switch (c) {
    case 'v':
        return w->var;
    case 'x':
        return w->value;
    case 'o':
        return w->op;
    default:
        return w->context;
    }
}

static const char *
fill_in(Lower *cx, const char *text, const Words *w)
{
    Str s = str_new(cx->arena);
    for (; *text; text++) {
        if (*text == '$')
            str_add(&s, word_for(w, *++text));
        else
            str_addc(&s, *text);
    }
    return str_text(&s);
}

/* Reports what the verdict says, if it is an error. */
static bool
is_granted(Lower *cx, Verdict verdict, const Words *w, Loc loc)
{
    if (!*verdicts[verdict].message)
        return true;
    fe_error_note(cx, loc, fill_in(cx, verdicts[verdict].repair, w), "%s",
                  fill_in(cx, verdicts[verdict].message, w));
    return false;
}

/* Variables are there where the program runs. */
static bool
check_context(Lower *cx, const IrVar *v, const char *verb, Loc loc)
{
    bool is_program = cx->context == FE_REPLICA || fe_is_cross(cx) ||
                      cx->context == FE_UPDATE;
    if (!is_program)
        fe_error(cx, loc, "the variable \"%s\" cannot be %s in %s", v->name,
                 verb, fe_context_name(cx->context));
    return is_program;
}

/* ---- reading ------------------------------------------------------------ */

IrType
fe_var_type(const Lower *cx, const IrVar *v)
{
    IrType t = v->type;
    bool own = cx->context == FE_REPLICA || cx->context == FE_UPDATE;
    t.locality = own && v->sync == SYNC_ON_READ   ? LOCAL_PER_REPLICA
                 : own || cx->context == FE_MERGE ? LOCAL_MIRRORED
                                                  : LOCAL_HOST;
    return t;
}

IrValue *
fe_var_read(Lower *cx, IrVar *v, Loc loc)
{
    Words w = {.var = v->name, .context = fe_context_name(cx->context)};
    Access a = access_of(cx, v);
    Verdict verdict = judge(reads, sizeof reads / sizeof *reads, &a);
    if (cx->context != FE_INIT && !check_context(cx, v, "read", loc))
        return NULL;
    if (!is_granted(cx, verdict, &w, loc))
        return NULL;
    return ir_build_read(cx->block, v->name, loc);
}

FeValue *
builtin_read(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0), "read takes a variable, not %s",
                        fe_what(cx, v));
    return fe_value_tensor(cx->arena, fe_operand(cx, v, in->loc));
}

/* ---- what an update may write ------------------------------------------- */

/* The variable that v is, in the end, colocated with. */
static const char *
home_of(const Lower *cx, const IrVar *v)
{
    const char *name = v->name;
    while (v && v->colocate) {
        name = v->colocate;
        v = ir_var_find(cx->module, name);
    }
    return name;
}

static bool
check_updated(Lower *cx, const IrVar *v, Loc loc)
{
    const IrVar *updated = cx->updated;
    if (cx->context != FE_UPDATE)
        return true;
    if (updated ? home_of(cx, v) == home_of(cx, updated) : v->non_slot)
        return true;
    const char *repair =
        v->non_slot ? "write update non_slot(...) { ... }"
                    : fe_format(cx, "update it by itself: update %s { ... }",
                                home_of(cx, v));
    if (updated)
        fe_error_note(cx, loc, repair,
                      "an update of \"%s\" writes it and what is colocated "
                      "with it, and \"%s\" is neither",
                      updated->name, v->name);
    else
        fe_error_note(cx, loc, repair,
                      "a non_slot update writes non_slot variables, and "
                      "\"%s\" is none",
                      v->name);
    return false;
}

/* ---- writing ------------------------------------------------------------ */

static const struct {
    const char *mode;
    Change change;
} changes[NUM_AST_OPS] = {
    [AST_OP_NONE] = {"set", O_SET},   [AST_OP_ADD] = {"add", O_ADDS},
    [AST_OP_SUB] = {"sub", O_ADDS},   [AST_OP_MUL] = {"mul", O_SCALES},
    [AST_OP_DIV] = {"div", O_SCALES},
};

/* Whether v may be written like this here. */
static bool
check_write(Lower *cx, IrVar *v, AstOp op, FeValue *value, const AstNode *node,
            Loc loc)
{
    Access a = access_of(cx, v);
    a.change = changes[op].change;
    bool differs = fe_locality_of(cx, value) == LOCAL_PER_REPLICA;
    a.content = differs ? L_DIFFERS : L_SAME;
    Words w = {v->name, node ? ast_text(cx->arena, node) : "x",
               fe_format(cx, "%s=", ast_op_text(op)),
               fe_context_name(cx->context)};
    Verdict verdict = judge(writes, sizeof writes / sizeof *writes, &a);
    if (!check_context(cx, v, "written", loc) || !check_updated(cx, v, loc) ||
        !is_granted(cx, verdict, &w, loc))
        return false;
    return !verdicts[verdict].together ||
           fe_check_together(cx, fe_format(cx, "a write of \"%s\"", v->name),
                             loc);
}

/* x repeated to the shape of v; x itself when that is not possible, which the
 * operation then says. */
static IrValue *
at_shape(Lower *cx, IrValue *x, const IrVar *v, Loc loc)
{
    if (type_same_shape(&x->type, &v->type))
        return x;
    IrOp *op = fe_op(cx, OP_broadcast, 1, &x, loc);
    ir_set_dims(op, A_dims, v->type.dims, v->type.rank);
    if (ir_op_infer(op, cx->block))
        return x;
    return fe_tensor(fe_emit(cx, op));
}

void
fe_var_write(Lower *cx, IrVar *v, AstOp op, FeValue *value, const AstNode *node,
             Loc loc)
{
    if (fe_value_has_poison(value) || !check_write(cx, v, op, value, node, loc))
        return;
    IrValue *x = fe_operand_as(cx, value, v->type.dtype, loc);
    if (!x)
        return;
    x = at_shape(cx, x, v, loc);
    IrOp *write = fe_op(cx, OP_write, 1, &x, loc);
    ir_set_text(write, A_var, v->name);
    ir_set_text(write, A_mode, changes[op].mode);
    fe_emit(cx, write);
}

/* ---- asking, and rows --------------------------------------------------- */

FeValue *
builtin_created_in_scope(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "created_in_scope takes a variable, not %s",
                        fe_what(cx, v));
    return fe_value_bool(cx->arena, !fe_var_info(cx, v->var)->outside);
}

FeValue *
builtin_scatter(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0), "%s takes a variable, not %s",
                        in->name, fe_what(cx, v));
    if (v->var->sync == SYNC_ON_READ)
        return fe_error_note(
            cx, in->loc,
            fe_format(cx, "write the whole of it: %s += ...", v->var->name),
            "%s cannot write rows of the sync-on-read "
            "variable \"%s\"",
            in->name, v->var->name);
    return fe_error_note(
        cx, in->loc,
        fe_format(cx, "write the whole of it: %s += ...", v->var->name),
        "%s is not supported yet", in->name);
}
