/*
 * require_const.c - values that must be constants
 *
 * Sizes, axes, names of files: a value that is computed at run time is an error
 * here, which unrolling the loop around may repair (cx->needs_constant).
 */
#include "frontend/emit/require_const.h"

#include "frontend/context/messages.h"

#include <string.h>

/* A param is set when the plan runs, a const when it is made. */
static const char *
param_note(Lower *cx, const FeValue *v)
{
    Str value = str_new(cx->arena);
    if (v->kind != FE_PARAM)
        return NULL;
    const char *name = v->param->name;
    if (strchr(name, '.')) /* of a worker's context */
        return "it is known when a job starts: functions of elements compute "
               "with it, and shard(ctx.num_pipelines, ctx.pipeline_id) takes it";
    if (v->param->text)
        str_add(&value, "...");
    else if (dtype_is_float(v->param->dtype))
        str_add_float(&value, v->param->value.f, false);
    else
        str_addf(&value, "%lld", (long long)v->param->value.i);
    return fe_format(cx,
                     "a param is set when the plan runs: declare it as const "
                     "%s = %s, which tfdc -D %s=%s sets, too",
                     name, str_text(&value), name, str_text(&value));
}

/* The error that v is not a constant of that kind ("an integer"). */
static bool
refuse(Lower *cx, FeValue *v, const char *what, const char *kind, Loc loc)
{
    switch (v->kind) {
    case FE_POISON:
        break;
    case FE_DIM:
    case FE_TENSOR:
    case FE_PARAM:
    case FE_VAR:
        fe_error_show(cx, loc, v->kind == FE_PARAM ? v->param->loc : NO_LOC,
                      param_note(cx, v),
                      "%s must be known when the program is compiled", what);
        cx->needs_constant = true;
        break;
    default:
        fe_error(cx, loc, "%s is %s, not %s", what, kind, fe_describe(cx, v));
        break;
    }
    return false;
}

bool
fe_require_int(Lower *cx, FeValue *v, const char *what, Loc loc, int64_t *out)
{
    return fe_value_is_int(v, out) || refuse(cx, v, what, "an integer", loc);
}

bool
fe_require_bool(Lower *cx, FeValue *v, const char *what, Loc loc, bool *out)
{
    return fe_value_is_bool(v, out) ||
           refuse(cx, v, what, "true or false", loc);
}

bool
fe_require_text(Lower *cx, FeValue *v, const char *what, Loc loc,
                const char **out)
{
    if (v->kind != FE_STRING)
        return refuse(cx, v, what, "a string", loc);
    if (fe_text_is_late(&v->text))
        return fe_error_note(cx, loc,
                             "a const is: const NAME = \"...\", which tfdc -D "
                             "NAME=... sets",
                             "%s is known when compiling, and a param of str "
                             "is not",
                             what),
               false;
    if (!v->text.text)
        return fe_error(cx, loc, "%s is a string without holes", what), false;
    *out = v->text.text;
    return true;
}

bool
fe_require_dtype(Lower *cx, FeValue *v, const char *what, Loc loc, DType *out)
{
    if (v->kind != FE_TYPE)
        return refuse(cx, v, what, "an element type (f32)", loc);
    if (v->type->rank) {
        fe_error(cx, loc, "%s is an element type, without a shape", what);
        return false;
    }
    *out = v->type->dtype;
    return true;
}

bool
fe_require_dim(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out)
{
    int64_t size;
    if (v->kind == FE_DIM) {
        *out = v->length.dim;
        return true;
    }
    if (!fe_require_int(cx, v, what, loc, &size))
        return false;
    if (size < 0) {
        fe_error(cx, loc, "%s is at least 0, not %lld", what, (long long)size);
        return false;
    }
    *out = ir_dim_const(size);
    return true;
}

/* The items of a tuple or list, or the one value that v is. */
static int
items_of(FeValue **v, FeValue ***items)
{
    if ((*v)->kind != FE_NEST) {
        *items = v;
        return 1;
    }
    *items = (*v)->nest.items;
    return (*v)->nest.len;
}

bool
fe_require_dims(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out,
                int *rank)
{
    FeValue **items;
    int n = items_of(&v, &items);
    if (n > IR_MAX_RANK) {
        fe_error(cx, loc, "%s has more than %d dimensions", what, IR_MAX_RANK);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!fe_require_dim(cx, items[i], what, loc, &out[i]))
            return false;
    *rank = n;
    return true;
}

bool
fe_require_axis(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axis)
{
    int64_t x;
    if (!fe_require_int(cx, v, "an axis", loc, &x))
        return false;
    *axis = x < 0 ? x + rank : x;
    if (*axis >= 0 && *axis < rank)
        return true;
    fe_error_note(
        cx, loc,
        rank ? fe_format(cx, "axes are numbered from 0 to %d, or from -1 back",
                         rank - 1)
             : NULL,
        "axis %lld of a value of %d dimension%s", (long long)x, rank,
        rank == 1 ? "" : "s");
    return false;
}

bool
fe_require_axes(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axes,
                int *num_axes)
{
    FeValue **items;
    bool chosen[IR_MAX_RANK] = {false};
    int n = items_of(&v, &items);
    for (int i = 0; i < n; i++) {
        int64_t axis;
        if (!fe_require_axis(cx, items[i], rank, loc, &axis))
            return false;
        if (chosen[axis]) {
            fe_error(cx, loc, "axis %lld is there twice", (long long)axis);
            return false;
        }
        chosen[axis] = true;
    }
    *num_axes = 0;
    for (int i = 0; i < rank; i++)
        if (chosen[i])
            axes[(*num_axes)++] = i;
    return true;
}
