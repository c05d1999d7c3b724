/*
 * operand.c - values as operands of the IR, and operations made of them
 *
 * A value becomes an operand where an operation needs it: a constant at the
 * dtype of the other operands, a variable by being read, a list of scalars as
 * one tensor.  Here it is also checked that the value may be computed with at
 * this place.
 */
#include "frontend/emit/operand.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/needs_step.h"
#include "frontend/context/scope.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/emit/type_of.h"
#include "ir/rules/build.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- constants ---------------------------------------------------------- */

static const char *
number_text(Lower *cx, Scalar s)
{
    Str text = str_new(cx->arena);
    if (dtype_is_float(s.dtype))
        str_add_float(&text, s.f, false);
    else
        str_addf(&text, "%lld", (long long)s.i);
    return str_text(&text);
}

/* "300 fits i16", the first integer dtype that has it; of 1.5 what is f32 then.
 * NULL: none has it. */
static const char *
fitting_note(Lower *cx, Scalar s, DType t)
{
    static const DType wider[] = {DT_i8, DT_u8, DT_i16, DT_i32, DT_i64};
    if (dtype_is_int(t) && dtype_is_float(s.dtype))
        return "write a whole number, or declare what it goes with as f32, or "
               "cast that by f32(...)";
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        if (dtype_is_int(t) && s.dtype != DT_f64 && int_fits(wider[i], s.i))
            return fe_format(cx, "%lld fits %s", (long long)s.i,
                             dtype_info[wider[i]].name);
    return NULL;
}

static bool
does_not_fit(Lower *cx, Scalar s, DType t, Loc loc)
{
    fe_error_note(cx, loc, fitting_note(cx, s, t), "%s does not fit %s",
                  number_text(cx, s), dtype_info[t].name);
    return false;
}

static bool
check_dtype(Lower *cx, DType have, DType want, Loc loc)
{
    const char *name = dtype_info[want].name;
    const char *note = have == DT_bool || want == DT_bool
                           ? NULL
                           : fe_format(cx, "%s(...) casts", name);
    if (have == want)
        return true;
    fe_error_note(cx, loc, note, "%s where %s is needed", dtype_info[have].name,
                  name);
    return false;
}

/* An untyped number as a t. */
static bool
adapt_number(Lower *cx, Scalar s, DType t, Loc loc, Scalar *out)
{
    if (dtype_is_float(t)) {
        *out = scalar_float(t, s.dtype == DT_f64 ? s.f : (double)s.i);
        bool was_finite = s.dtype != DT_f64 || isfinite(s.f);
        return !was_finite || isfinite(out->f) || does_not_fit(cx, s, t, loc);
    }
    if (t == DT_bool)
        return check_dtype(
            cx, s.dtype == DT_f64 ? fe_default_float(cx) : DT_i32, t, loc);
    if (s.dtype == DT_f64 || !int_fits(t, s.i))
        return does_not_fit(cx, s, t, loc);
    *out = scalar_int(t, s.i);
    return true;
}

bool
fe_constant_as(Lower *cx, const FeValue *v, DType t, Loc loc, Scalar *out)
{
    if (v->constant.untyped)
        return adapt_number(cx, v->constant.scalar, t, loc, out);
    *out = v->constant.scalar;
    return check_dtype(cx, out->dtype, t, loc);
}

FeValue *
fe_default_typed(Lower *cx, FeValue *x, Loc loc)
{
    Scalar s;
    if (x->kind == FE_DIM && x->length.untyped)
        return fe_value_length(cx->arena, x->length.dim);
    if (x->kind != FE_CONST || !x->constant.untyped)
        return x;
    if (!fe_constant_as(cx, x, fe_common_dtype(cx, 1, &x), loc, &s))
        return &fe_poison;
    return fe_value_scalar(cx->arena, s);
}

/* ---- whether a value may be used here ----------------------------------- */

/* What is written in place of the declaration of a tensor: a variable where its
 * shape is written, else a local. */
static const char *
declaration_note(Lower *cx, Loc loc)
{
    const char *name = cx->path ? cx->path : "w";
    const char *value = fe_source(cx, loc);
    const char *filled = value ? fe_fill_as_variable(cx, name, value) : NULL;
    if (filled)
        return fe_format(cx,
                         "compute it in main or in a function, or declare a "
                         "variable, with its shape and initial value: %s",
                         filled);
    if (value && cx->path)
        return fe_format(cx,
                         "compute it in main or in a function, by let %s = %s",
                         name, value);
    return "compute it in main or in a function, or declare a variable with "
           "its shape and initial value, as var w: f32[2, 3] = ones";
}

static bool
check_running(Lower *cx, Loc loc)
{
    if (cx->block)
        return true;
    fe_error_note(cx, loc, declaration_note(cx, loc),
                  "this is computed when the program runs, as all tensors "
                  "are, and a declaration is evaluated before");
    return false;
}

bool
fe_check_can_emit(Lower *cx, Loc loc)
{
    if (cx->stopped || !check_running(cx, loc))
        return false;
    if (++cx->num_values > limit_value(LIMIT_operations)) {
        fe_stop(cx, loc, LIMIT_operations);
        return false;
    }
    return true;
}

const IrBlock *
fe_block_of(const IrValue *v)
{
    return v->def ? v->def->block : v->block;
}

/* Whether v stands in a block around the current one. */
static bool
is_around(const Lower *cx, const IrValue *v)
{
    const IrBlock *home = fe_block_of(v);
    const IrBlock *b = cx->block;
    while (b && b != home)
        b = b->op ? b->op->block : NULL;
    return b != NULL;
}

static bool
check_visible(Lower *cx, const IrValue *v, Loc loc)
{
    if (!check_running(cx, loc))
        return false;
    if (is_around(cx, v))
        return true;
    if (fe_block_of(v)->func == cx->block->func)
        fe_error_note(cx, loc, "return the value, and not a function of it",
                      "this value belongs to a block that has ended");
    else
        fe_error(cx, loc, "a value of main is not known in %s",
                 fe_context_name(cx->context));
    return false;
}

/* x of -x, not x and f32(x), else the text itself. */
static const char *
without_operation(Lower *cx, const char *text)
{
    static const char *const signs[] = {"-", "not "};
    DType t;
    size_t len = strlen(text), name = strcspn(text, "(");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(text, signs[i], strlen(signs[i])) == 0)
            return text + strlen(signs[i]);
    bool casts = text[len - 1] == ')' &&
                 dtype_by_name(fe_format(cx, "%.*s", (int)name, text), &t);
    return casts ? fe_format(cx, "%.*s", (int)(len - name - 2), text + name + 1)
                 : text;
}

/* A value that differs among the replicas, as its author wrote it: the left or
 * the right side (0, 1) of the operator at loc, an argument of the call there,
 * or what stands there; NULL where that is not known. */
static const char *
differing_text(Lower *cx, int side, Loc loc)
{
    const AstNode *argument = fe_differing_argument(cx, loc);
    if (!loc_is_same(fe_user_loc(cx, loc), loc))
        return NULL;
    if (cx->applied && loc_is_same(cx->applied->loc, loc))
        return fe_side_text(cx, side, loc);
    if (argument)
        return fe_ast_text(cx->arena, argument);
    const char *text = fe_source(cx, loc);
    return text ? without_operation(cx, text) : NULL;
}

static const char *
reduce_note(Lower *cx, int side, Loc loc)
{
    const char *text = differing_text(cx, side, loc);
    /* Of a list the items may be the same. */
    const char *x = text && *text != '[' ? text : "...";
    const char *argument = strncmp(x, "run ", 4) == 0 ? "..." : x;
    return fe_format(cx,
                     "reduce(sum, %s) makes one value of it, and "
                     "local_results(%s) has those of all replicas; run f(%s) "
                     "computes with it on each",
                     x, x, argument);
}

/* Whether v, the left or the right side (0, 1) of an operator if there is one
 * at loc, may be computed with here. */
static bool
check_agreed(Lower *cx, FeValue *v, int side, Loc loc)
{
    if (!fe_is_cross(cx) || fe_locality_of(cx, v) != LOCAL_PER_REPLICA)
        return true;
    const IrCall *called = fe_call_in_main(cx);
    bool in_main = cx->context == FE_CROSS && called;
    FeOwn at = in_main ? (FeOwn){.loc = called->loc} : fe_own_at(cx, loc);
    fe_error_own(cx, &at, NO_LOC,
                 in_main ? fe_run_note(cx, called->loc)
                         : reduce_note(cx, side, loc),
                 "a value that differs among the replicas cannot be computed "
                 "with in %s",
                 fe_context_name(cx->context));
    return false;
}

/* ---- operands ----------------------------------------------------------- */

static IrValue *list_operand(Lower *cx, FeValue *v, DType t, Loc loc);

static IrValue *
constant_operand(Lower *cx, const FeValue *v, DType t, Loc loc)
{
    Scalar s;
    if (!fe_constant_as(cx, v, t, loc, &s) || !fe_check_can_emit(cx, loc))
        return NULL;
    return ir_const_scalar(cx->block, s, loc);
}

IrValue *
fe_no_tensor(Lower *cx, const FeValue *v, const char *note, Loc loc)
{
    fe_error_note(cx, loc, note, "%s where a tensor is needed",
                  fe_describe(cx, v));
    return NULL;
}

static IrValue *
length_operand(Lower *cx, const FeValue *v, DType t, Loc loc)
{
    if (!v->length.untyped && !check_dtype(cx, DT_i64, t, loc))
        return NULL;
    if (!fe_check_can_emit(cx, loc))
        return NULL;
    IrValue *x = ir_build_dim_size(cx->block, v->length.dim, loc);
    return ir_build_cast(cx->block, x, t, loc);
}

/* A function is no tensor; its result may be one. */
static const char *
function_note(Lower *cx, const FeValue *v)
{
    if (v->kind != FE_BUILTIN)
        return NULL;
    return fe_format(cx,
                     fe_builtin_fills(v->builtin) ? "call it: %s((2, 3))"
                                                  : "call it: %s(...)",
                     fe_builtin_name(v->builtin));
}

/* A value with a dtype of its own. */
static IrValue *
typed_operand(Lower *cx, FeValue *v, Loc loc)
{
    switch (v->kind) {
    case FE_TENSOR:
        return check_visible(cx, v->tensor, loc) ? v->tensor : NULL;
    case FE_PARAM:
        return fe_check_can_emit(cx, loc)
                   ? ir_build_param(cx->block, v->param->name, loc)
                   : NULL;
    case FE_VAR:
        return fe_check_can_emit(cx, loc) ? fe_var_read(cx, v->var, loc) : NULL;
    default:
        return fe_no_tensor(cx, v, function_note(cx, v), loc);
    }
}

/* v at dtype t, wherever it is. */
static IrValue *
operand_at(Lower *cx, FeValue *v, DType t, Loc loc)
{
    IrValue *x;
    switch (v->kind) {
    case FE_POISON:
        return NULL;
    case FE_CONST:
        return constant_operand(cx, v, t, loc);
    case FE_DIM:
        return length_operand(cx, v, t, loc);
    case FE_NEST:
        return list_operand(cx, v, t, loc);
    default:
        x = typed_operand(cx, v, loc);
        return x && check_dtype(cx, x->type.dtype, t, loc) ? x : NULL;
    }
}

/* Stores the constants of a list in row-major order; false if one is none. */
static bool
store_constants(Lower *cx, const FeValue *v, DType t, void *data,
                int64_t *index, Loc loc)
{
    if (v->kind != FE_NEST) {
        Scalar s;
        if (!fe_constant_as(cx, v, t, loc, &s))
            return false;
        scalar_store(t, data, (*index)++, s);
        return true;
    }
    for (int i = 0; i < v->nest.len; i++)
        if (!store_constants(cx, v->nest.items[i], t, data, index, loc))
            return false;
    return true;
}

static bool
is_constant(const FeValue *v)
{
    if (v->kind != FE_NEST)
        return v->kind == FE_CONST;
    for (int i = 0; i < v->nest.len; i++)
        if (!is_constant(v->nest.items[i]))
            return false;
    return true;
}

static IrValue *
constant_list(Lower *cx, FeValue *v, const IrType *shape, DType t, Loc loc)
{
    void *data =
        arena_array(cx->arena, (size_t)v->nest.leaves, dtype_info[t].bytes);
    int64_t index = 0;
    if (!store_constants(cx, v, t, data, &index, loc) ||
        !fe_check_can_emit(cx, loc))
        return NULL;
    return ir_const_data(cx->block, t, shape->rank, shape->dims, data, loc);
}

static const char *
nest_note(Lower *cx, const FeNest *nest)
{
    switch (nest->kind) {
    case NEST_LIST:
        return "stack(...) makes one of a list of tensors";
    case NEST_SLICES:
        return "dense(...) makes one of slices";
    case NEST_NAMED:
        return fe_format(cx, "take one of its fields, as .%s", nest->names[0]);
    default:
        return "take one of its fields, as .0; a list of scalars is a tensor";
    }
}

static IrValue *
list_operand(Lower *cx, FeValue *v, DType t, Loc loc)
{
    IrType shape;
    if (fe_value_has_poison(v))
        return NULL;
    if (!fe_list_shape(cx, v, &shape))
        return fe_no_tensor(cx, v, nest_note(cx, &v->nest), loc);
    if (is_constant(v))
        return constant_list(cx, v, &shape, t, loc);
    IrValue **items = NEW_ARRAY(cx->arena, IrValue *, (size_t)v->nest.len);
    for (int i = 0; i < v->nest.len; i++)
        items[i] = operand_at(cx, v->nest.items[i], t, loc);
    FeValue *stacked = fe_stack(cx, v->nest.len, items, 0, loc);
    return fe_tensor(stacked);
}

IrValue *
fe_handle(Lower *cx, FeValue *v, Loc loc)
{
    return operand_at(cx, v, fe_common_dtype(cx, 1, &v), loc);
}

IrValue *
fe_handle_as(Lower *cx, FeValue *v, DType t, Loc loc)
{
    return operand_at(cx, v, t, loc);
}

IrValue *
fe_operand(Lower *cx, FeValue *v, Loc loc)
{
    return check_agreed(cx, v, 0, loc) ? fe_handle(cx, v, loc) : NULL;
}

IrValue *
fe_operand_as(Lower *cx, FeValue *v, DType t, Loc loc)
{
    return check_agreed(cx, v, 0, loc) ? operand_at(cx, v, t, loc) : NULL;
}

/* Floats hold more than integers, and these more than bools. */
static int
dtype_kind(DType t)
{
    return dtype_is_float(t) ? 2 : t != DT_bool;
}

/* Whether values of a become ones of b, not the reverse: less is lost, and the
 * gradient of a float is not. */
static bool
is_cast_to(DType a, DType b)
{
    if (dtype_kind(a) != dtype_kind(b))
        return dtype_kind(a) < dtype_kind(b);
    return dtype_info[a].bytes < dtype_info[b].bytes;
}

/* An operand as its author wrote it, of an operator or a call; NULL if that is
 * in the library. */
static const AstNode *
written(Lower *cx, FeValue *const *v, int i, Loc loc)
{
    const AstNode *n = cx->applied;
    if (!loc_is_same(fe_user_loc(cx, loc), loc))
        return NULL;
    if (!n || !loc_is_same(n->loc, loc))
        return fe_written_argument(cx, v[i], loc);
    return i ? n->binary.right : n->binary.left;
}

static const char *
written_text(Lower *cx, FeValue *const *v, int i, Loc loc)
{
    const AstNode *n = written(cx, v, i, loc);
    return n ? fe_ast_text(cx->arena, n) : NULL;
}

/* Operands 0 and i of v are an a and a b. */
static const char *
cast_note(Lower *cx, FeValue *const *v, DType a, DType b, int i, Loc loc)
{
    bool first = is_cast_to(a, b);
    DType from = first ? a : b, to = first ? b : a;
    const char *text = written_text(cx, v, first ? 0 : i, loc);
    const char *other = written_text(cx, v, first ? i : 0, loc);
    if (text && other && dtype_is_float(from))
        return fe_format(cx,
                         "%s is %s, and %s %s: cast one of them, %s(%s) or "
                         "%s(%s)",
                         other, dtype_info[to].name, text,
                         dtype_info[from].name, dtype_info[from].name, other,
                         dtype_info[to].name, text);
    if (text)
        return fe_format(cx, "cast it: %s(%s)", dtype_info[to].name, text);
    return fe_format(cx, "cast the %s: %s(...)", dtype_info[from].name,
                     dtype_info[to].name);
}

/* The declaration of a mut in n that took its dtype from a number, with another
 * dtype, and its place: mut best: f64 = 1e30.  NULL if there is none. */
static const char *
mut_as(Lower *cx, const AstNode *n, DType t, Loc *place)
{
    AstNode *child;
    const char *found = NULL;
    const FeBinding *b =
        n->kind == AST_NAME ? fe_find_binding(cx, n->name.text).binding : NULL;
    const char *line = b && b->is_mut ? fe_line_from(cx, b->loc) : NULL;
    size_t name = b ? strlen(b->name) : 0;
    if (line && strncmp(line + name, " = ", 3) == 0) {
        const char *number = line + name + 3;
        int len = (int)strspn(number, "0123456789.e+-");
        *place = b->loc;
        if (len)
            return fe_format(cx, "mut %s: %s = %.*s", b->name,
                             dtype_info[t].name, len, number);
    }
    for (AstIter it = fe_ast_children(n);
         !found && (child = fe_ast_next_child(&it));)
        found = mut_as(cx, child, t, place);
    return found;
}

/* The repair of two numbers of which one is a mut that has its dtype by
 * default: mut n = 0 is an i32. */
static const char *
wider_mut(Lower *cx, FeValue *const *v, DType a, DType b, int i, Loc loc,
          Loc *place)
{
    bool left = is_cast_to(a, b);
    const AstNode *narrow = written(cx, v, left ? 0 : i, loc);
    const AstNode *wide = written(cx, v, left ? i : 0, loc);
    if (!narrow || !wide || a == DT_bool || b == DT_bool)
        return NULL;
    DType t = left ? b : a;
    const char *wider = mut_as(cx, narrow, t, place);
    return wider ? fe_format(cx, "%s is %s: declare this as %s, %s",
                             fe_ast_text(cx->arena, wide), dtype_info[t].name,
                             dtype_info[t].name, wider)
                 : NULL;
}

/* Whether value i has no dtype of its own that is another one. */
static bool
check_common(Lower *cx, FeValue *const *v, int i, DType common, Loc loc)
{
    DType own;
    if (!fe_has_dtype(v[i], &own) || own == common)
        return true;
    Loc place = NO_LOC;
    const char *note = wider_mut(cx, v, common, own, i, loc, &place);
    fe_error_show(
        cx, loc, place, note ? note : cast_note(cx, v, common, own, i, loc),
        "%s and %s do not mix", dtype_info[common].name, dtype_info[own].name);
    return false;
}

bool
fe_operands(Lower *cx, int n, FeValue *const *v, IrValue **out, Loc loc)
{
    DType t = fe_common_dtype(cx, n, v);
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = check_common(cx, v, i, t, loc);
    for (int i = 0; i < n; i++) {
        ok = ok && check_agreed(cx, v[i], i, loc);
        out[i] = ok ? operand_at(cx, v[i], t, loc) : NULL;
        ok = ok && out[i];
    }
    return ok;
}

/* ---- operations --------------------------------------------------------- */

IrOp *
fe_op(Lower *cx, IrOpKind kind, int n, IrValue *const *operands, Loc loc)
{
    assert(n >= 0 && kind < NUM_OPS);
    IrFunc *fn = cx->block ? cx->block->func : cx->detached;
    return ir_op_new(fn, kind, n, operands, loc);
}

static bool
is_narrow(IrOpKind kind)
{
    switch (kind) {
#define NARROW(op, why) case OP_##op:
#include "frontend/emit/precision.def"
        return true;
    default:
        return false;
    }
}

static bool
all_f32(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (!op->operands[i] || op->operands[i]->type.dtype != DT_f32)
            return false;
    return true;
}

static FeValue *
cast(Lower *cx, IrValue *x, DType t, Loc loc)
{
    IrOp *op = fe_op(cx, OP_cast, 1, &x, loc);
    ir_set_int(op, A_dtype, t);
    return fe_emit(cx, op);
}

DType
fe_product_dtype(const Lower *cx, IrOpKind kind, DType t)
{
    return cx->precision && t == DT_f32 && is_narrow(kind) ? *cx->precision : t;
}

/* op in the dtype that precision() says, and its result in f32. */
static FeValue *
emit_narrow(Lower *cx, IrOp *op)
{
    DType t = *cx->precision;
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i] = fe_tensor(cast(cx, op->operands[i], t, op->loc));
    IrValue *result = fe_tensor(fe_emit(cx, op));
    return cast(cx, result, DT_f32, op->loc);
}

FeValue *
fe_emit(Lower *cx, IrOp *op)
{
    assert(!op->block);
    if (cx->precision && *cx->precision != DT_f32 && is_narrow(op->kind) &&
        all_f32(op))
        return emit_narrow(cx, op);
    for (int i = 0; i < op->num_operands; i++)
        if (!op->operands[i])
            return &fe_poison;
    if (!fe_check_can_emit(cx, op->loc))
        return &fe_poison;
    const char *wrong = ir_op_infer(op, cx->block);
    if (wrong)
        return fe_error(cx, op->loc, "%s", wrong);
    if (!fe_check_indices(cx, op))
        return &fe_poison;
    ir_append(cx->block, op);
    return op->num_results == 1 ? fe_value_tensor(cx->arena, op->results[0])
                                : &fe_none;
}

FeValue *
fe_op1(Lower *cx, IrOpKind kind, FeValue *x, Loc loc)
{
    IrValue *operand = fe_operand(cx, x, loc);
    return fe_emit(cx, fe_op(cx, kind, 1, &operand, loc));
}

FeValue *
fe_op2(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, Loc loc)
{
    FeValue *values[2] = {x, y};
    IrValue *operands[2];
    if (!fe_operands(cx, 2, values, operands, loc))
        return &fe_poison;
    return fe_emit(cx, fe_op(cx, kind, 2, operands, loc));
}

FeValue *
fe_op3(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, FeValue *z, Loc loc)
{
    FeValue *values[2] = {y, z};
    IrValue *operands[3] = {fe_operand(cx, x, loc)};
    if (!fe_operands(cx, 2, values, operands + 1, loc))
        return &fe_poison;
    return fe_emit(cx, fe_op(cx, kind, 3, operands, loc));
}
