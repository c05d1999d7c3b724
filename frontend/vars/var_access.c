/*
 * var_access.c - reading and writing variables
 *
 * The table semantics.def says what is allowed where; here it is looked up.
 * Checked beside it: which variables an update may write, and that all replicas
 * reach a collective.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/needs_step.h"
#include "frontend/emit/index.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/slices.h"
#include "frontend/vars/vars.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/rules/build.h"

/* ---- the table ---------------------------------------------------------- */

typedef enum Verdict {
#define VERDICT(name, together, message, repair) V_##name,
#include "frontend/vars/semantics.def"
} Verdict;

static const struct {
    bool together;
    const char *message, *repair;
} verdicts[] = {
#define VERDICT(name, together, message, repair) {together, message, repair},
#include "frontend/vars/semantics.def"
};

/* The words of the rows, each with ANY for all. */
typedef enum Sync { S_ANY, S_ON_READ, S_ONE_COPY, S_ON_WRITE } Sync;
typedef enum Agg { G_ANY, G_NONE, G_SUM, G_MEAN, G_INT_MEAN, G_FIRST } Agg;
typedef enum Place { C_ANY, C_REPLICA, C_CROSS, C_UPDATE } Place;
typedef enum Change {
    O_ANY,
    O_SET,
    O_ADDS,
    O_SCALES,
    O_SLICES,
    O_ROWS,
    O_SCALES_ROWS,
    O_PICKS_ROWS
} Change;
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
#include "frontend/vars/semantics.def"
};

static const Row writes[] = {
#define WRITE(sync, agg, context, operation, value, verdict)                   \
    {{S_##sync, G_##agg, C_##context, O_##operation, L_##value}, V_##verdict},
#include "frontend/vars/semantics.def"
};

static bool
row_matches(const Access *row, const Access *a)
{
    return (row->sync == S_ANY || row->sync == a->sync) &&
           (row->agg == G_ANY || row->agg == a->agg) &&
           (row->place == C_ANY || row->place == a->place) &&
           (row->change == O_ANY || row->change == a->change) &&
           (row->content == L_ANY || row->content == a->content);
}

/* The verdict of the first row that matches; the last one always does. */
static Verdict
find_verdict(const Row *rows, int n, const Access *a)
{
    int i = 0;
    while (i < n - 1 && !row_matches(&rows[i].when, a))
        i++;
    return rows[i].verdict;
}

/* Whether v has one copy, though it was declared sync(on_read). */
static bool
is_one_copy(Lower *cx, const IrVar *v)
{
    const FeVarInfo *info = fe_var_info(cx, v);
    return info && info->unsynced;
}

static Access
describe_access(Lower *cx, const IrVar *v)
{
    static const Agg aggs[] = {[AGG_none] = G_NONE,
                               [AGG_sum] = G_SUM,
                               [AGG_mean] = G_MEAN,
                               [AGG_first] = G_FIRST};
    Access a = {.agg = aggs[v->agg]};
    if (a.agg == G_MEAN && !dtype_is_float(v->type.dtype))
        a.agg = G_INT_MEAN;
    a.sync = v->sync == SYNC_ON_READ ? S_ON_READ
             : is_one_copy(cx, v)    ? S_ONE_COPY
                                     : S_ON_WRITE;
    a.place = cx->context == FE_REPLICA  ? C_REPLICA
              : cx->context == FE_UPDATE ? C_UPDATE
                                         : C_CROSS;
    return a;
}

/* ---- messages ----------------------------------------------------------- */

/* The texts for $v, $x, $o, $c; the value as an expression, or NULL, for $r. */
typedef struct MessageArgs {
    const char *var, *value, *op, *context;
    const AstNode *node;
} MessageArgs;

static const char *
message_arg(Lower *cx, const MessageArgs *w, char c)
{
    switch (c) {
    case 'v':
        return w->var;
    case 'x':
        return w->value;
    case 'o':
        return w->op;
    case 'r':
        return fe_var_drift_note(cx, w->var, w->node, w->value);
    default:
        return w->context;
    }
}

static const char *
expand_message(Lower *cx, const char *text, const MessageArgs *w)
{
    Str s = str_new(cx->arena);
    for (; *text; text++) {
        if (*text == '$')
            str_add(&s, message_arg(cx, w, *++text));
        else
            str_addc(&s, *text);
    }
    return str_text(&s);
}

/* The repair; with a note where the strategy ignores the declared
 * synchronization. */
static const char *
repair_text(Lower *cx, Verdict verdict, const IrVar *v, const MessageArgs *w)
{
    const char *repair = expand_message(cx, verdicts[verdict].repair, w);
    if (!is_one_copy(cx, v))
        return repair;
    return fe_format(cx,
                     "%s (%s has one copy of \"%s\": its sync(on_read) has no "
                     "effect)",
                     repair, ir_strategy_names[cx->module->strategy], v->name);
}

/* Reports the verdict if it is an error, and returns false. */
static bool
check_verdict(Lower *cx, Verdict verdict, const IrVar *v, const MessageArgs *w,
              Loc loc)
{
    if (!*verdicts[verdict].message)
        return true;
    if (verdict == V_HAS_NO_SHARE && fe_refuse_library_in_main(cx, loc))
        return false;
    const char *repair = repair_text(cx, verdict, v, w);
    fe_error_note(
        cx, loc, repair, "%s",
        expand_message(cx, message_part(verdicts[verdict].message), w));
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
    MessageArgs w = {.var = v->name, .context = fe_context_name(cx->context)};
    Access a = describe_access(cx, v);
    Verdict verdict = find_verdict(reads, sizeof reads / sizeof *reads, &a);
    if (cx->context != FE_INIT && !check_context(cx, v, "read", loc))
        return NULL;
    if (!check_verdict(cx, verdict, v, &w, loc))
        return NULL;
    return ir_build_read(cx->block, v->name, loc);
}

FeValue *
fe_builtin_read(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0), "read takes a variable, not %s",
                        fe_describe(cx, v));
    return fe_value_tensor(cx->arena, fe_operand(cx, v, in->loc));
}

/* ---- variables that an update may write --------------------------------- */

/* The variable that v is, in the end, colocated with. */
static const char *
colocation_root(const Lower *cx, const IrVar *v)
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
    if (updated ? colocation_root(cx, v) == colocation_root(cx, updated)
                : v->non_slot)
        return true;
    const char *repair =
        v->non_slot ? "write update non_slot(...) { ... }"
                    : fe_format(cx, "update it by itself: update %s { ... }",
                                colocation_root(cx, v));
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
    IrUpdate mode;
    Change change;
} changes[NUM_AST_OPS] = {
    [AST_OP_NONE] = {UPDATE_set, O_SET},
    [AST_OP_ADD] = {UPDATE_add, O_ADDS},
    [AST_OP_SUB] = {UPDATE_sub, O_ADDS},
    [AST_OP_MUL] = {UPDATE_mul, O_SCALES},
    [AST_OP_DIV] = {UPDATE_div, O_SCALES},
};

/* Whether v may be written like this here; w lacks the variable and context. */
static bool
check_write(Lower *cx, IrVar *v, Change change, bool differs, MessageArgs w,
            Loc loc)
{
    Access a = describe_access(cx, v);
    a.change = change;
    a.content = differs ? L_DIFFERS : L_SAME;
    w.var = v->name;
    w.context = fe_context_name(cx->context);
    Verdict verdict = find_verdict(writes, sizeof writes / sizeof *writes, &a);
    if (!check_context(cx, v, "written", loc) || !check_updated(cx, v, loc) ||
        !check_verdict(cx, verdict, v, &w, loc))
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
    if (ir_type_same_shape(&x->type, &v->type))
        return x;
    IrOp *op = fe_op(cx, OP_broadcast, 1, &x, loc);
    ir_set_dims(op, A_dims, v->type.dims, v->type.rank);
    if (ir_op_infer(op, cx->block))
        return x;
    return fe_tensor(fe_emit(cx, op));
}

/* Of zeros alone, which may be an initial value, the shape is not known. */
static IrValue *
operand_for(Lower *cx, FeValue *value, const IrVar *v, Loc loc)
{
    DType t = v->type.dtype;
    if (value->kind != FE_BUILTIN || !fe_builtin_fills(value->builtin))
        return fe_operand_as(cx, value, t, loc);
    const char *dtype =
        t == DT_f32 ? "" : fe_format(cx, ", dtype = %s", dtype_info[t].name);
    return fe_no_tensor(cx, value,
                        fe_format(cx, "call it: %s(%s.shape%s)",
                                  fe_builtin_name(value->builtin), v->name,
                                  dtype),
                        loc);
}

/* ---- writing rows ------------------------------------------------------- */

/* Parts of a variable along an axis, and what they become. */
typedef struct RowsWrite {
    IrVar *var;
    IrUpdate mode;
    int axis;
    IrValue *rows, *values;
} RowsWrite;

static FeValue *
change_rows(Lower *cx, const RowsWrite *w, Loc loc)
{
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    IrVar *v = w->var;
    FeValue *x = fe_scatter(cx, w->mode, ir_build_read(cx->block, v->name, loc),
                            w->rows, w->values, w->axis, loc);
    if (!fe_is_poison(x))
        ir_build_write(cx->block, v->name, UPDATE_set, x->tensor, loc);
    return fe_is_poison(x) ? x : &fe_none;
}

/* Rows of other replicas than the first are none. */
static IrValue *
rows_of_first(Lower *cx, IrValue *rows, Loc loc)
{
    IrBlock *b = cx->block;
    rows = ir_build_cast(b, rows, DT_i64, loc);
    IrValue *id = ir_build0(b, OP_replica_id, loc);
    IrValue *zero = ir_const_int(b, DT_i32, 0, loc);
    IrValue *is_first = ir_build2(b, OP_eq, id, zero, loc);
    IrValue *none = ir_const_int(b, DT_i64, -1, loc);
    return ir_build3(b, OP_where, is_first, rows, none, loc);
}

static IrValue *
part_of_mean(Lower *cx, IrValue *values, Loc loc)
{
    IrBlock *b = cx->block;
    DType narrow = values->type.dtype, wide = dtype_compute(narrow);
    values = ir_build_cast(b, values, wide, loc);
    IrValue *n = ir_const_float(b, wide, cx->module->num_replicas, loc);
    values = ir_build2(b, OP_div, values, n, loc);
    return ir_build_cast(b, values, narrow, loc);
}

static IrValue *
gathered(Lower *cx, IrValue *x, int axis, Loc loc)
{
    IrOp *op = fe_op(cx, OP_gather, 1, &x, loc);
    ir_set_int(op, A_axis, axis);
    return fe_tensor(fe_emit(cx, op));
}

/* The replicas' rows concatenated, written in a merge: the table of
 * aggregations (tensorflow.md 1.7). */
static FeValue *
write_together(Lower *cx, RowsWrite w, Loc loc)
{
    FeRegion saved;
    const IrVar *v = w.var;
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    if (v->agg == AGG_first)
        w.rows = rows_of_first(cx, w.rows, loc);
    if (v->agg == AGG_mean)
        w.values = part_of_mean(cx, w.values, loc);
    IrOp *merge = fe_region_open(cx, OP_merge, FE_MERGE, loc, &saved);
    if (!merge)
        return &fe_poison;
    w.rows = gathered(cx, w.rows, 0, loc);
    w.values = gathered(cx, w.values, w.axis, loc);
    if (w.rows) /* by each replica; those of none are to be left out */
        fe_mark_index_checked(cx, w.rows, v->type.dims[w.axis]);
    if (w.rows && w.values)
        change_rows(cx, &w, loc);
    return fe_region_close(cx, merge, &saved, &fe_none, loc);
}

/* Emits a write that is allowed; row i of rows is v's row rows[i]. */
static FeValue *
write_rows(Lower *cx, const RowsWrite *w, Loc loc)
{
    bool own = w->rows->type.locality == LOCAL_PER_REPLICA ||
               w->values->type.locality == LOCAL_PER_REPLICA;
    if (cx->context == FE_REPLICA && w->var->agg != AGG_none && own)
        return write_together(cx, *w, loc);
    return change_rows(cx, w, loc);
}

/* Slices are only added and subtracted. */
static bool
check_adds(Lower *cx, AstOp op, const MessageArgs *w, Loc loc)
{
    if (op == AST_OP_ADD || op == AST_OP_SUB)
        return true;
    fe_error_note(cx, loc,
                  fe_format(cx, "dense(%s) makes a tensor of them", w->value),
                  "slices are added to a variable or subtracted from it");
    return false;
}

static void
write_slices(Lower *cx, IrVar *v, AstOp op, const FeValue *slices, Loc loc)
{
    IrType t = fe_slices_type(slices);
    if (!ir_type_same_shape(&t, &v->type) || t.dtype != v->type.dtype) {
        fe_error(cx, loc, "\"%s\" is %s, and these are slices of %s", v->name,
                 fe_type_text(cx, &v->type), fe_type_text(cx, &t));
        return;
    }
    IrValue *rows = fe_operand(cx, fe_slices_indices(slices), loc);
    IrValue *values = fe_operand(cx, fe_slices_values(slices), loc);
    RowsWrite w = {v, changes[op].mode, 0, rows, values};
    if (rows && values)
        write_rows(cx, &w, loc);
}

/* ---- writing all of a variable ----------------------------------------- */

static bool
differs(Lower *cx, FeValue *v)
{
    return fe_locality_of(cx, v) == LOCAL_PER_REPLICA;
}

void
fe_var_write(Lower *cx, IrVar *v, AstOp op, FeValue *value, const AstNode *node,
             Loc loc)
{
    MessageArgs w = {.value = node ? fe_ast_text(cx->arena, node) : "x",
                     .op = fe_format(cx, "%s=", fe_ast_op_text(op)),
                     .node = op == AST_OP_NONE ? node : NULL};
    bool slices = fe_is_slices(value);
    if (fe_value_has_poison(value) || (slices && !check_adds(cx, op, &w, loc)))
        return;
    if (!check_write(cx, v, slices ? O_SLICES : changes[op].change,
                     differs(cx, value), w, loc))
        return;
    if (slices) {
        write_slices(cx, v, op, value, loc);
        return;
    }
    IrValue *x = operand_for(cx, value, v, loc);
    if (!x)
        return;
    x = at_shape(cx, x, v, loc);
    IrOp *write = fe_op(cx, OP_write, 1, &x, loc);
    ir_set_text(write, A_var, v->name);
    ir_set_enum(write, A_mode, changes[op].mode);
    fe_emit(cx, write);
}

/* ---- builtin functions -------------------------------------------------- */

FeValue *
fe_builtin_created_in_scope(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "created_in_scope takes a variable, not %s",
                        fe_describe(cx, v));
    /* Nothing is outside of the default strategy, which has no scope. */
    bool is_default = cx->module->strategy == STRATEGY_default;
    bool outside = fe_var_info(cx, v->var)->outside;
    return fe_value_bool(cx->arena, is_default || !outside);
}

/* scatter_<name>: its mode in the IR, and the change that it makes. */
static const struct {
    const char *name;
    IrUpdate mode;
    Change change;
} row_changes[] = {
    {"scatter_add", UPDATE_add, O_ROWS},
    {"scatter_sub", UPDATE_sub, O_ROWS},
    {"scatter_mul", UPDATE_mul, O_SCALES_ROWS},
    {"scatter_div", UPDATE_div, O_SCALES_ROWS},
    {"scatter_min", UPDATE_min, O_PICKS_ROWS},
    {"scatter_max", UPDATE_max, O_PICKS_ROWS},
    {"scatter_update", UPDATE_set, O_PICKS_ROWS},
};

/* Indices of at least one dimension, each of a row of v along axis. */
static IrValue *
row_indices(Lower *cx, const IrVar *v, int64_t axis, FeValue *rows, Loc loc)
{
    static const Dim one = {.c = 1, .sym = -1};
    IrValue *x = fe_operand(cx, rows, loc);
    if (!x)
        return NULL;
    if (!dtype_is_int(x->type.dtype)) {
        fe_error(cx, loc, "rows are named by integers, not %s",
                 dtype_info[x->type.dtype].name);
        return NULL;
    }
    if (!fe_check_rows(cx, x, v->type.dims[axis], v->name, loc))
        return NULL;
    return x->type.rank ? x : fe_tensor(fe_reshape(cx, x, 1, &one, loc));
}

/* Values for each of the rows. */
static IrValue *
row_values(Lower *cx, const IrVar *v, int64_t axis, const IrType *rows,
           FeValue *values, Loc loc)
{
    Dim dims[IR_MAX_RANK];
    int rank = rows->rank + v->type.rank - 1;
    IrValue *x = fe_operand_as(cx, values, v->type.dtype, loc);
    if (!x || !fe_check_rank(cx, rank, loc))
        return NULL;
    fe_rows_dims(&v->type, rows, axis, dims);
    return fe_tensor(fe_broadcast(cx, x, rank, dims, loc));
}

FeValue *
fe_builtin_scatter(Lower *cx, const FeArgs *in)
{
    int i = 0;
    int64_t axis = 0;
    FeValue *v = fe_arg(in, 0), *rows = fe_arg(in, 1), *values = fe_arg(in, 2);
    MessageArgs w = {.value = fe_arg_text(cx, in, 2), .op = in->name};
    while (strcmp(row_changes[i].name, in->name) != 0)
        i++;
    if (v->kind != FE_VAR)
        return fe_error(cx, fe_arg_loc(in, 0), "%s takes a variable, not %s",
                        in->name, fe_describe(cx, v));
    if (v->var->type.rank == 0)
        return fe_error(cx, fe_arg_loc(in, 0),
                        "\"%s\" is a scalar: it has no "
                        "rows",
                        v->var->name);
    if (fe_arg(in, 3) && !fe_require_axis(cx, fe_arg(in, 3), v->var->type.rank,
                                          fe_arg_loc(in, 3), &axis))
        return &fe_poison;
    bool own = differs(cx, rows) || differs(cx, values);
    if (!check_write(cx, v->var, row_changes[i].change, own, w, in->loc))
        return &fe_poison;
    IrValue *index = row_indices(cx, v->var, axis, rows, fe_arg_loc(in, 1));
    IrValue *x = index ? row_values(cx, v->var, axis, &index->type, values,
                                    fe_arg_loc(in, 2))
                       : NULL;
    if (!x)
        return &fe_poison;
    RowsWrite write = {v->var, row_changes[i].mode, (int)axis, index, x};
    return write_rows(cx, &write, in->loc);
}
