/*
 * builtins_nest.c - nests as lists: a further item, the leaves, and back
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"

FeValue *
fe_builtin_append(Lower *cx, const FeArgs *in)
{
    FeValue *list = fe_arg(in, 0);
    FeValues items = {0};
    if (list->kind != FE_NEST || list->nest.kind != NEST_LIST)
        return fe_error_note(
            cx, fe_arg_loc(in, 0),
            list->kind == FE_TENSOR ? "concat([x, [e]]) is a longer tensor"
                                    : NULL,
            "append is to a list, not to %s", fe_describe(cx, list));
    fe_value_items(cx->arena, list, &items);
    VEC_PUSH(cx->arena, items, in->args[1]->value);
    return fe_value_list(cx->arena, items.len, items.data);
}

FeValue *
fe_builtin_flatten(Lower *cx, const FeArgs *in)
{
    FeValues leaves = {0};
    fe_value_parts(cx->arena, fe_arg(in, 0), &leaves);
    return fe_value_list(cx->arena, leaves.len, leaves.data);
}

FeValue *
fe_builtin_pack_like(Lower *cx, const FeArgs *in)
{
    FeValues leaves = {0};
    FeValue *like = fe_arg(in, 0), *list = fe_arg(in, 1);
    fe_value_parts(cx->arena, like, &leaves);
    if (list->kind != FE_NEST || list->nest.kind != NEST_LIST ||
        list->nest.len != leaves.len)
        return fe_error(cx, fe_arg_loc(in, 1),
                        "%s of %d leaves is made of a list of as many, not of "
                        "%s",
                        fe_describe(cx, like), leaves.len,
                        fe_describe(cx, list));
    FeValue *const *next = list->nest.items;
    return fe_value_rebuild_parts(cx->arena, like, &next);
}
