/*
 * builtins.c - the functions that programs call by name, as a table
 *
 * A row says how a function is called and where; another file implements it.
 */
#include "frontend/builtins/builtins.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/needs_step.h"
#include "frontend/context/steps.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/call.h"
#include <string.h>

typedef enum Where { ANYWHERE, REPLICA, CROSS, CLOSURE, MAIN } Where;

struct FeBuiltin {
    const char *name, *params;
    Where where;
    const char *instead; /* "" for none */
    FeBuiltinFn *lower;
    IrOpKind op;
};

static const FeBuiltin builtins[] = {
#define OPERATION(name, params, how, op, doc)                                  \
    {#name, params, ANYWHERE, "", fe_builtin_##how, OP_##op},
#define BUILTIN(name, params, where, instead, how, doc)                        \
    {#name, params, where, instead, fe_builtin_##how, NUM_OPS},
#include "frontend/builtins/builtins.def"
};

static const char *const names[] = {
#define OPERATION(name, ...) #name,
#define BUILTIN(name, ...) #name,
#define VALUE(name, doc) #name,
#include "frontend/builtins/builtins.def"
};

static const char *const enum_names[] = {
#define ENUM_NAME(name) #name,
#include "frontend/builtins/builtins.def"
};

enum {
    NUM_BUILTINS = sizeof builtins / sizeof *builtins,
    NUM_NAMES = sizeof names / sizeof *names,
    NUM_ENUM_NAMES = sizeof enum_names / sizeof *enum_names
};

/* ---- finding ------------------------------------------------------------ */

const FeBuiltin *
fe_builtin_find(const char *name)
{
    for (int i = 0; i < NUM_BUILTINS; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    return NULL;
}

const char *
fe_builtin_name(const FeBuiltin *b)
{
    return b->name;
}

const char *
fe_builtin_params(const FeBuiltin *b)
{
    return b->params;
}

/* The length of the first parameter in the text: up to a comma that is not in
 * the quotes of its default. */
static size_t
param_len(const char *text)
{
    bool in_quotes = false;
    size_t n = 0;
    for (; text[n] && (in_quotes || text[n] != ','); n++)
        in_quotes ^= text[n] == '"';
    return n;
}

const char *
fe_builtin_needs(Arena *a, const FeBuiltin *b)
{
    const char *rest = b->params + param_len(b->params), *end = rest;
    while (*end == ',') {
        size_t len = 1 + param_len(end + 1);
        if (memchr(end, '=', len))
            break;
        end += len;
    }
    return arena_strndup(a, rest, (size_t)(end - rest));
}

const char *const *
fe_builtin_names(int *n)
{
    *n = NUM_NAMES;
    return names;
}

IrOpKind
fe_builtin_op(const FeBuiltin *b)
{
    return b->op;
}

static bool
is_enum_name_param(const char *name, size_t len)
{
    static const char *const params[] = {"op", "shard", "pipelines"};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        if (strlen(params[i]) == len && strncmp(params[i], name, len) == 0)
            return true;
    return false;
}

bool
fe_builtin_takes_enum_name(const FeBuiltin *b, const char *name, int index)
{
    const char *text = b->params;
    for (int i = 0; *text; i++) {
        size_t n = strcspn(text, " ,");
        if (name ? strlen(name) == n && strncmp(name, text, n) == 0
                 : i == index)
            return is_enum_name_param(text, n);
        text += param_len(text);
        text += strspn(text, ", ");
    }
    return false;
}

static bool
begin_with(const char *params, const char *first)
{
    return strncmp(params, first, strlen(first)) == 0;
}

bool
fe_builtin_fills(const FeBuiltin *b)
{
    return begin_with(b->params, "shape, dtype");
}

/* Whether it makes random numbers of any shape. */
static bool
draws(const FeBuiltin *b)
{
    return begin_with(b->params, "shape = none, dtype");
}

/* ---- names that are values ---------------------------------------------- */

static FeValue *
replica_id(Lower *cx, Loc loc)
{
    if (cx->context == FE_REPLICA)
        return fe_emit(cx, fe_op(cx, OP_replica_id, 0, NULL, loc));
    return fe_error(cx, loc,
                    "\"replica_id\" needs replica context: %s is executed for "
                    "all replicas at once",
                    fe_context_name(cx->context));
}

FeValue *
fe_builtin_value(Lower *cx, const char *name, Loc loc)
{
    if (strcmp(name, "replica_id") == 0)
        return replica_id(cx, loc);
    if (strcmp(name, "num_replicas") == 0)
        return fe_value_scalar(cx->arena,
                               scalar_int(DT_i32, cx->module->num_replicas));
    for (int i = 0; i < NUM_ENUM_NAMES; i++)
        if (strcmp(enum_names[i], name) == 0)
            return fe_value_text(cx->arena, name);
    return NULL;
}

/* ---- contexts ----------------------------------------------------------- */

static bool
is_allowed(const Lower *cx, Where where)
{
    switch (where) {
    case REPLICA:
        return cx->context == FE_REPLICA;
    case CROSS:
        return fe_is_cross(cx);
    case CLOSURE:
        return cx->context == FE_CROSS || cx->context == FE_CLOSURE;
    case MAIN:
        return cx->context == FE_CROSS;
    default:
        return true;
    }
}

/* The repair where b cannot be called, or NULL. */
static const char *
repair(Lower *cx, const FeBuiltin *b)
{
    bool other_side = cx->context == FE_REPLICA || fe_is_cross(cx);
    if (other_side && *b->instead)
        return fe_format(cx, "did you mean %s?", b->instead);
    if (strcmp(b->name, "broadcast_to") == 0 && cx->context == FE_REPLICA)
        return "it gives a value to all replicas, in the block of a merge; x + "
               "zeros(shape) is x with another shape";
    if (b->where == CROSS && cx->context == FE_REPLICA)
        return "the block of a merge is cross-replica context";
    if (strcmp(b->name, "distribute") == 0 && cx->context == FE_REPLICA)
        return "a step is given its share of one batch: write mut total = 0.0 "
               "and for x in distribute(d) { total += reduce(sum, run step(x)) "
               "} in main, where fn step(x) returns what a batch adds";
    if (b->where == MAIN && cx->context == FE_REPLICA)
        return "call it in main, beside the run; a step returns what main "
               "needs";
    if (b->where == REPLICA && fe_is_cross(cx))
        return "run f(...) enters replica context";
    return NULL;
}

void
fe_refuse_outside_main(Lower *cx, const char *what, const char *note, Loc loc)
{
    fe_error_note(cx, loc, note, "\"%s\" stands in main, and this is %s", what,
                  cx->context == FE_REPLICA ? "run on each replica"
                                            : fe_context_name(cx->context));
}

static bool
check_context(Lower *cx, const FeBuiltin *b, Loc loc)
{
    static const char *const needs[] = {
        [REPLICA] = "replica context",
        [CROSS] = "cross-replica context",
        [CLOSURE] = "main or a closure",
    };
    if (is_allowed(cx, b->where))
        return true;
    if (b->where == REPLICA && fe_refuse_library_in_main(cx, loc))
        return false;
    if (b->where == MAIN)
        fe_refuse_outside_main(cx, b->name, repair(cx, b), loc);
    else
        fe_error_note(cx, loc, repair(cx, b), "\"%s\" needs %s, and this is %s",
                      b->name, needs[b->where], fe_context_name(cx->context));
    return false;
}

bool
fe_check_coordinator(Lower *cx, const char *what, Loc loc)
{
    if (ir_strategy_info[cx->module->strategy].servers)
        return true;
    fe_error(cx, loc, "\"%s\" needs the strategy parameter_server", what);
    return false;
}

/* ---- arguments ---------------------------------------------------------- */

/* "x, axis = none" taken apart. */
typedef struct Params {
    const char *names[FE_MAX_PARAMS];
    bool needed[FE_MAX_PARAMS];
    int len;
} Params;

static Params
read_params(Lower *cx, const char *text)
{
    Params p = {0};
    while (*text) {
        size_t n = strcspn(text, " ,");
        size_t end = param_len(text);
        p.names[p.len] = intern_n(cx->names, text, n);
        p.needed[p.len++] = n == end;
        text += end;
        text += strspn(text, ", ");
    }
    return p;
}

/* The call with what is missing, where an example of it can be given. */
static const char *
needs_note(Lower *cx, const char *missing, const char *params, const FeArgs *in)
{
    static const struct {
        const char *name, *value;
    } examples[] = {{"message", "\"it does not hold\""},
                    {"axis", "axis = 0"},
                    {"condition", "true"}};
    Loc loc = in->loc, end = {loc.line, loc.col + loc.len - 1, 0, loc.file};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const char *text =
            strcmp(examples[i].name, missing) == 0 && in->call->num_args
                ? fe_edit(cx, loc, end,
                          fe_format(cx, ", %s", examples[i].value))
                : NULL;
        if (text)
            return fe_format(cx, "write %s", text);
    }
    return fe_format(cx, "write %s(%s)", in->name, params);
}

/* The value of a function that returns nothing, given to another one.  False
 * where the argument is no such call. */
static bool
refuse_nothing(Lower *cx, const FeArg *arg, const char *name, const char *of)
{
    const AstNode *n = arg->node;
    if (n && n->kind == AST_RUN)
        n = n->run.call;
    const AstNode *callee = n && n->kind == AST_CALL ? n->call.callee : NULL;
    const FeBinding *b = callee && callee->kind == AST_NAME
                             ? fe_find_binding(cx, callee->name.text).binding
                             : NULL;
    if (!b || !b->value || b->value->kind != FE_FUNC)
        return false;
    const AstNode *fn = b->value->func.fn;
    const AstList *stmts =
        fn->fn.body->kind == AST_BLOCK ? &fn->fn.body->block.stmts : NULL;
    const AstNode *last =
        stmts && stmts->len ? stmts->data[stmts->len - 1] : NULL;
    const AstNode *pattern = !last                      ? NULL
                             : last->kind == AST_LET    ? last->let.pattern
                             : last->kind == AST_MUT    ? last->mut.pattern
                             : last->kind == AST_ASSIGN ? last->assign.target
                                                        : last;
    bool is_value = pattern && fe_ast_is_expr(pattern);
    fe_error_show(
        cx, arg->loc, last ? last->loc : fn->loc,
        is_value ? fe_format(cx, "write return %s %s this line",
                             fe_ast_text(cx->arena, pattern),
                             pattern == last ? "in place of" : "behind")
                 : "write return and the value behind this line",
        "\"%s\" of %s is nothing: %s returns no value", name, of, b->name);
    return true;
}

static bool
check_needed(Lower *cx, const Params *p, const char *params, const FeArgs *in)
{
    for (int i = 0; i < p->len; i++) {
        if (p->needed[i] && !fe_arg(in, i) && in->args[i] &&
            refuse_nothing(cx, in->args[i], p->names[i], in->name))
            return false;
        if (p->needed[i] && !fe_arg(in, i)) {
            fe_error_note(cx, in->loc, needs_note(cx, p->names[i], params, in),
                          "%s needs \"%s\"", in->name, p->names[i]);
            return false;
        }
    }
    return true;
}

static bool
has_poison(const FeCall *call)
{
    for (int i = 0; i < call->num_args; i++)
        if (fe_value_has_poison(call->args[i].value))
            return true;
    return false;
}

bool
fe_bind_args(Lower *cx, const FeCall *call, const char *params, FeArgs *out)
{
    out->call = call;
    out->name = call->name;
    out->loc = call->loc;
    if (strcmp(params, "...") == 0)
        return !has_poison(call);
    Params p = read_params(cx, params);
    return fe_match_args(cx, call, p.len, p.names, out->args) &&
           check_needed(cx, &p, params, out) && !has_poison(call);
}

/* gather(x, 1, indices) of PyTorch and gather(x, indices) of TensorFlow are of
 * one value. */
static bool
refuse_indices(Lower *cx, const FeBuiltin *b, const FeCall *call)
{
    IrType t;
    int n = 0;
    while (n < call->num_args && !call->args[n].name)
        n++;
    const FeArg *last = n > 1 ? &call->args[n - 1] : NULL;
    if (strcmp(b->name, "gather") != 0 || !last || has_poison(call) ||
        !fe_type_of(cx, last->value, &t) || !t.rank || !dtype_is_int(t.dtype))
        return false;
    FeElsewhere of = {.module = n == 3 ? "torch" : "tf",
                      .name = b->name,
                      .rank = -1,
                      .args = fe_written_arguments(cx, call)};
    const char *here = of.args ? fe_other_call_here(cx, &of) : NULL;
    fe_error_note(cx, last->loc, here ? fe_format(cx, "write %s", here) : NULL,
                  "gather is of the values of the replicas, and takes no "
                  "indices");
    return true;
}

FeValue *
fe_builtin_call(Lower *cx, const FeBuiltin *b, const FeCall *call)
{
    FeArgs in = {.builtin = b};
    for (int i = 0; i < call->num_args; i++)
        fe_count_walk_value(cx, call->args[i].value);
    bool is_reported = !is_allowed(cx, b->where) && has_poison(call);
    if (is_reported || refuse_indices(cx, b, call) ||
        !check_context(cx, b, call->loc) ||
        !fe_bind_args(cx, call, b->params, &in))
        return &fe_poison;
    const FeCall *outer = cx->builtin_call;
    cx->builtin_call = call;
    FeValue *v = b->lower(cx, &in);
    cx->builtin_call = outer;
    return v;
}

const AstNode *
fe_written_argument(const Lower *cx, const FeValue *v, Loc loc)
{
    const FeCall *call = cx->builtin_call;
    int n = call && loc_is_same(call->loc, loc) ? call->num_args : 0;
    for (int i = 0; i < n; i++)
        if (call->args[i].value == v)
            return call->args[i].node;
    return NULL;
}

const AstNode *
fe_differing_argument(Lower *cx, Loc loc)
{
    const FeCall *call = cx->builtin_call;
    int n = call && loc_is_same(call->loc, loc) ? call->num_args : 0;
    for (int i = 0; i < n; i++)
        if (fe_locality_of(cx, call->args[i].value) == LOCAL_PER_REPLICA)
            return call->args[i].node;
    return NULL;
}

/* ---- single arguments --------------------------------------------------- */

const char *
fe_arg_text(Lower *cx, const FeArgs *in, int i)
{
    const AstNode *node = in->args[i] ? in->args[i]->node : NULL;
    return node ? fe_ast_text(cx->arena, node) : "x";
}

FeOwn
fe_arg_own(Lower *cx, const FeArgs *in, int i)
{
    const AstNode *node = in->args[i] ? in->args[i]->node : NULL;
    return node ? fe_own(cx, node) : fe_own_at(cx, fe_arg_loc(in, i));
}

bool
fe_arg_bool(Lower *cx, const FeArgs *in, int i, const char *what, bool *out)
{
    FeValue *v = fe_arg(in, i);
    return !v || fe_require_bool(cx, v, what, fe_arg_loc(in, i), out);
}

bool
fe_arg_int(Lower *cx, const FeArgs *in, int i, const char *what, int64_t *out)
{
    FeValue *v = fe_arg(in, i);
    return !v || fe_require_int(cx, v, what, fe_arg_loc(in, i), out);
}

bool
fe_arg_is_known(const FeArgs *in, int i, double *out)
{
    const FeValue *v = fe_arg(in, i);
    if (!v || v->kind != FE_CONST)
        return false;
    *out = scalar_cast(v->constant.scalar, DT_f64).f;
    return true;
}

bool
fe_check_bounds(Lower *cx, const FeArgs *in)
{
    double low = 0, high = 1;
    bool is_known = (!fe_arg(in, 1) || fe_arg_is_known(in, 1, &low)) &&
                    (!fe_arg(in, 2) || fe_arg_is_known(in, 2, &high));
    if (!is_known || low <= high)
        return true;
    fe_error_note(cx, in->loc, "low comes first, then high",
                  "no number is from %g to %g", low, high);
    return false;
}

/* zeros(3, 2) and randn(3, 2), as NumPy's rand and PyTorch have it. */
static bool
refuse_length(Lower *cx, const FeArgs *in)
{
    const char *first = fe_arg_text(cx, in, 0);
    const char *second = fe_arg_text(cx, in, 1);
    fe_error_note(cx, fe_arg_loc(in, 1),
                  fe_format(cx, "write %s((%s, %s))", in->name, first, second),
                  "a shape of several axes is a tuple");
    return false;
}

bool
fe_arg_dtype(Lower *cx, const FeArgs *in, int i, DType *out)
{
    FeValue *v = fe_arg(in, i);
    int64_t n;
    bool takes_shape = draws(in->builtin) || fe_builtin_fills(in->builtin);
    if (v && i == 1 && takes_shape && fe_value_is_int(v, &n))
        return refuse_length(cx, in);
    return !v || fe_require_dtype(cx, v, "dtype", fe_arg_loc(in, i), out);
}

bool
fe_arg_axes(Lower *cx, const FeArgs *in, int i, int rank, FeAxes *out)
{
    FeValue *v = fe_arg(in, i);
    if (v)
        return fe_require_axes(cx, v, rank, fe_arg_loc(in, i), out->axes,
                               &out->len);
    out->len = rank;
    for (int k = 0; k < rank; k++)
        out->axes[k] = k;
    return true;
}
