/*
 * same.c - a sum over the replicas of a value that is the same on all
 *
 * Whether it counts once, or once for each, is not clear: so it is refused, and
 * the message says how to write either.  Where the library sums, the program's
 * own call of it is what is wrong.
 */
#include "frontend/dist/same.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/needs_step.h"
#include "frontend/context/scope.h"
#include "frontend/emit/slices.h"
#include "frontend/emit/type_of.h"

/* The number of replicas, an i32, as a factor of v. */
static const char *
replicas_factor(Lower *cx, FeValue *v)
{
    IrType t;
    FeValue *number = fe_is_slices(v) ? fe_slices_values(v) : v;
    bool casts = fe_type_of(cx, number, &t) && t.dtype != DT_i32 &&
                 dtype_info[t.dtype].bytes > 1;
    return casts ? fe_format(cx, "%s(num_replicas)", dtype_info[t.dtype].name)
                 : "num_replicas";
}

static const char *
times_replicas(Lower *cx, const FeArgs *in)
{
    FeArg *arg = in->args[1];
    bool binds_less = arg->node && arg->node->kind == AST_BINARY;
    const char *text = fe_arg_text(cx, in, 1);
    return fe_format(cx, binds_less ? "(%s) * %s" : "%s * %s", text,
                     replicas_factor(cx, arg->value));
}

/* Of an optimizer. */
static FeValue *
refuse_same_gradients(Lower *cx)
{
    FeOwn call = fe_own_call(cx);
    Loc loc = call.loc;
    Loc end = {loc.line, loc.col + loc.len - 1, 0, loc.file};
    const char *text = fe_edit(cx, loc, end, ", aggregated = true");
    return fe_error_own(
        cx, &call, NO_LOC,
        fe_format(cx,
                  "gradients of a loss without a batch, or of one that is "
                  "summed over the replicas, are whole already: write %s",
                  text ? text : "aggregated = true"),
        "these gradients are the same on each replica, and their sum over the "
        "replicas would count them once for each");
}

/* Whether it is an optimizer that sums: its function says what else it takes.
 */
static bool
sums_gradients(Lower *cx)
{
    const char *option = intern(cx->names, "aggregated");
    return fe_find_binding(cx, option).binding != NULL;
}

/* Of a layer or a loss, as BatchNorm is. */
static FeValue *
refuse_same_argument(Lower *cx)
{
    FeOwn call = fe_own_call(cx);
    const char *name = fe_callee_text(cx, call.loc);
    return fe_error_own(
        cx, &call, NO_LOC,
        "give it each replica's share of a batch: a parameter of the step, "
        "for which main has for x in distribute(d) { run step(x) }",
        "%s sums over the replicas, and what it is given is the same on each, "
        "so it would count once for each",
        name ? name : "this function");
}

/* ".1", ".loss" or "[0].y": where leaf is in v; NULL if it is not in it. */
static const char *
path_in(Lower *cx, const FeValue *v, const FeValue *leaf)
{
    if (v == leaf)
        return "";
    for (int i = 0; v->kind == FE_NEST && i < v->nest.len; i++) {
        const char *rest = path_in(cx, v->nest.items[i], leaf);
        if (rest && v->nest.names)
            return fe_format(cx, ".%s%s", v->nest.names[i], rest);
        if (rest)
            return fe_format(cx, v->nest.kind == NEST_LIST ? "[%d]%s" : ".%d%s",
                             i, rest);
    }
    return NULL;
}

/* Of a tuple or a list, whose value at path is leaf. */
static FeValue *
refuse_same_part(Lower *cx, const FeArgs *in, const char *path, FeValue *leaf)
{
    const AstNode *node = in->args[1]->node;
    const char *text = fe_arg_text(cx, in, 1);
    bool is_name = node && node->kind == AST_NAME;
    const char *name = is_name ? text : "r";
    const char *named =
        is_name ? "" : fe_format(cx, "after let r = %s, ", text);
    return fe_error_note(
        cx, fe_arg_loc(in, 1),
        fe_format(cx,
                  "%swrite %s%s as it is, or %s%s * %s to count it once for "
                  "each, and %s of the others alone",
                  named, name, path, name, path, replicas_factor(cx, leaf),
                  in->name),
        "the value %s of %s is the same on every replica, and %s would count "
        "it once for each",
        path, text, in->name);
}

FeValue *
fe_refuse_same_sum(Lower *cx, const FeArgs *in, FeValue *leaf)
{
    if (!loc_is_same(fe_user_loc(cx, in->loc), in->loc))
        return sums_gradients(cx) ? refuse_same_gradients(cx)
                                  : refuse_same_argument(cx);
    const char *path = path_in(cx, fe_arg(in, 1), leaf);
    if (path && *path)
        return refuse_same_part(cx, in, path, leaf);
    const char *text = fe_arg_text(cx, in, 1), *call = fe_source(cx, in->loc);
    return fe_error_note(
        cx, fe_arg_loc(in, 1),
        fe_format(cx,
                  "write %s in place of %s, or %s to count it once for each",
                  text, call ? call : in->name, times_replicas(cx, in)),
        "%s is the same on every replica, and %s would count it once for each",
        text, in->name);
}
