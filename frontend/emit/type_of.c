/*
 * type_of.c - the types that values would have as operands
 *
 * Nothing is emitted: a variable is not read, a list makes no tensor.  So it
 * can be asked for what will turn out to be an error.
 */
#include "frontend/emit/type_of.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/steps.h"

/* ---- dtypes -------------------------------------------------------------- */

/* The dtypes of the leaves of a value. */
typedef struct Hint {
    bool typed;  /* one has a dtype: */
    DType dtype; /* that of the first */
    bool floats; /* an untyped one is no integer */
} Hint;

static void
add_typed(Hint *h, DType t)
{
    if (!h->typed)
        h->dtype = t;
    h->typed = true;
}

static void
add_hint(const FeValue *v, Hint *h)
{
    switch (v->kind) {
    case FE_CONST:
        if (!v->constant.untyped)
            add_typed(h, v->constant.scalar.dtype);
        else
            h->floats |= v->constant.scalar.dtype == DT_f64;
        break;
    case FE_DIM:
        if (!v->length.untyped)
            add_typed(h, DT_i64);
        break;
    case FE_TENSOR:
        add_typed(h, v->tensor->type.dtype);
        break;
    case FE_PARAM:
        add_typed(h, v->param->dtype);
        break;
    case FE_VAR:
        add_typed(h, v->var->type.dtype);
        break;
    case FE_NEST:
        for (int i = 0; i < v->nest.len; i++)
            add_hint(v->nest.items[i], h);
        break;
    default:
        break;
    }
}

bool
fe_has_dtype(const FeValue *v, DType *out)
{
    Hint h = {0};
    add_hint(v, &h);
    *out = h.dtype;
    return h.typed;
}

static DType
hint_dtype(const Lower *cx, const Hint *h)
{
    if (h->typed)
        return h->dtype;
    return h->floats ? fe_default_float(cx) : DT_i32;
}

DType
fe_common_dtype(Lower *cx, int n, FeValue *const *v)
{
    Hint h = {0};
    for (int i = 0; i < n; i++)
        add_hint(v[i], &h);
    return hint_dtype(cx, &h);
}

/* ---- localities ---------------------------------------------------------- */

Locality
fe_least_locality(const Lower *cx)
{
    switch (cx->context) {
    case FE_TOP:
    case FE_CROSS:
    case FE_CLOSURE:
    case FE_DATA:
        return LOCAL_HOST;
    default:
        return LOCAL_MIRRORED;
    }
}

/* Whether a length is that of one replica's part of a batch. */
static bool
dim_differs(const Lower *cx, Dim d)
{
    if (ir_dim_is_const(d))
        return false;
    return ir_symbol_is_share(&cx->module->symbols.data[d.sym]);
}

static Locality
nest_locality(Lower *cx, const FeNest *nest)
{
    Locality l = fe_least_locality(cx);
    for (int i = 0; i < nest->len; i++) {
        Locality item = fe_locality_of(cx, nest->items[i]);
        if (item > l)
            l = item;
    }
    return l;
}

Locality
fe_locality_of(Lower *cx, FeValue *v)
{
    switch (v->kind) {
    case FE_TENSOR:
        return v->tensor->type.locality;
    case FE_VAR:
        return fe_var_type(cx, v->var).locality;
    case FE_DIM:
        return dim_differs(cx, v->length.dim) ? LOCAL_PER_REPLICA
                                              : fe_least_locality(cx);
    case FE_NEST:
        return nest_locality(cx, &v->nest);
    default:
        return fe_least_locality(cx);
    }
}

/* ---- types --------------------------------------------------------------- */

bool
fe_list_shape(Lower *cx, FeValue *v, IrType *out)
{
    out->rank = 0;
    if (v->kind != FE_NEST) {
        IrType t;
        return fe_type_of(cx, v, &t) && t.rank == 0;
    }
    if (v->nest.kind != NEST_LIST || v->nest.len == 0)
        return false;
    IrType first;
    for (int i = 0; i < v->nest.len; i++) {
        if (!fe_list_shape(cx, v->nest.items[i], out) ||
            out->rank == IR_MAX_RANK)
            return false;
        if (i > 0 && !ir_type_same_shape(out, &first))
            return false;
        first = *out;
    }
    out->rank++;
    for (int i = out->rank - 1; i > 0; i--)
        out->dims[i] = out->dims[i - 1];
    out->dims[0] = ir_dim_const(v->nest.len);
    return true;
}

bool
fe_type_of(Lower *cx, FeValue *v, IrType *out)
{
    *out = ir_type_scalar(fe_common_dtype(cx, 1, &v), fe_locality_of(cx, v));
    switch (v->kind) {
    case FE_CONST:
    case FE_DIM:
    case FE_PARAM:
        return true;
    case FE_TENSOR:
        *out = v->tensor->type;
        return true;
    case FE_VAR:
        *out = fe_var_type(cx, v->var);
        return true;
    case FE_NEST:
        fe_count_walk_value(cx, v);
        return fe_list_shape(cx, v, out);
    default:
        return false;
    }
}
