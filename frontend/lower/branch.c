/*
 * branch.c - conditions, and values where two branches join
 *
 * Both branches are lowered into the regions of an `if`.  A mut that one of
 * them assigns to, and the value of the `if` itself, is afterwards the common
 * value where the two sides agree, and a result of the `if` where not.
 */
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"

#include <assert.h>
#include <string.h>

/* ---- conditions --------------------------------------------------------- */

FeCond
fe_cond(Lower *cx, FeValue *v, Loc loc)
{
    FeCond cond = {0};
    IrType t;
    if (fe_value_has_poison(v))
        return cond;
    if (fe_value_is_bool(v, &cond.truth)) {
        cond.known = true;
        return cond;
    }
    bool is_tensor = fe_type_of(cx, v, &t);
    if (is_tensor && t.dtype == DT_bool && t.rank == 0)
        cond.value = fe_operand(cx, v, loc);
    else if (is_tensor && t.dtype == DT_bool)
        fe_error_note(cx, loc,
                      "all(...) and any(...) make one of it; where(c, a, b) "
                      "chooses for each element",
                      "a condition is one bool, and this is %s",
                      fe_type_text(cx, &t));
    else
        fe_error(cx, loc, "a condition is a bool, and this is %s",
                 fe_describe(cx, v));
    return cond;
}

/* ---- the sides ---------------------------------------------------------- */

typedef struct Assigned {
    FeBinding *binding;
    FeValue *value;
} Assigned;

/* The effect of a branch: its value, and the muts around that it assigned
 * to. */
typedef struct Side {
    FeValue *value; /* or NULL */
    VEC(Assigned) muts;
} Side;

static FeValue *
side_value(const Side *s, const FeBinding *b)
{
    for (int i = 0; i < s->muts.len; i++)
        if (s->muts.data[i].binding == b)
            return s->muts.data[i].value;
    return b->value;
}

static bool
side_has(const Side *s, const FeBinding *b)
{
    for (int i = 0; i < s->muts.len; i++)
        if (s->muts.data[i].binding == b)
            return true;
    return false;
}

/* Muts that are older than the branch; the others ended with it. */
static void
collect_muts(Lower *cx, Side *s, int mark, int64_t oldest)
{
    for (int i = mark; i < cx->writes.len; i++) {
        FeBinding *b = cx->writes.data[i].binding;
        if (b->serial >= oldest || side_has(s, b))
            continue;
        Assigned a = {b, b->value};
        VEC_PUSH(cx->arena, s->muts, a);
    }
}

static void
lower_side(Lower *cx, IrOp *op, int region, FeBranch *branch, const void *data,
           Side *out)
{
    const AstNode *cond = cx->condition;
    bool is_written = cond && loc_is_same(cond->loc, op->loc);
    FeDivergence divergence = {.outer = cx->divergence,
                               .what = "if",
                               .loc = op->loc,
                               .cond = is_written ? cond : NULL,
                               .scope = cx->scope,
                               .is_else = region == 1,
                               .op = op};
    FeRegion saved = fe_region_enter(cx, op->regions[region], cx->context);
    int mark = cx->writes.len;
    int64_t oldest = cx->num_bindings;
    if (op->operands[0]->type.locality == LOCAL_PER_REPLICA)
        cx->divergence = &divergence;
    out->value = branch(cx, data);
    collect_muts(cx, out, mark, oldest);
    fe_undo_writes(cx, mark);
    fe_region_leave(cx, &saved);
}

/* ---- joining ------------------------------------------------------------ */

/* The results of an if in the making: values of the regions' yields, and the
 * FE_TENSOR that each will be. */
typedef struct Join {
    IrOp *op;
    IrValues yields[2];
    FeValues results;
    const char *name; /* of the value being joined */
    Loc loc;
} Join;

/* v as an operand at the end of a region. */
static IrValue *
operand_in(Lower *cx, Join *j, int region, FeValue *v, DType t)
{
    FeRegion saved = fe_region_enter(cx, j->op->regions[region], cx->context);
    IrValue *x = fe_handle_as(cx, v, t, j->loc);
    fe_region_leave(cx, &saved);
    return x;
}

static FeValue *
report_mismatch(Lower *cx, const Join *j, const char *a, const char *b)
{
    return fe_error(cx, j->loc, "%s is %s in one branch and %s in the other",
                    j->name, a, b);
}

/* Two numbers, or lists of them: a result of the if. */
static FeValue *
join_numbers(Lower *cx, Join *j, FeValue *a, FeValue *b)
{
    FeValue *both[2] = {a, b};
    assert(j->yields[0].len == j->yields[1].len);
    DType t = fe_common_dtype(cx, 2, both);
    IrValue *x = operand_in(cx, j, 0, a, t);
    IrValue *y = operand_in(cx, j, 1, b, t);
    if (!x || !y)
        return &fe_poison;
    if (!ir_type_same_shape(&x->type, &y->type))
        return report_mismatch(cx, j, fe_type_text(cx, &x->type),
                               fe_type_text(cx, &y->type));
    VEC_PUSH(cx->arena, j->yields[0], x);
    VEC_PUSH(cx->arena, j->yields[1], y);
    FeValue *result = fe_value_new(cx->arena, FE_TENSOR);
    VEC_PUSH(cx->arena, j->results, result);
    return result;
}

/* v, which branch number `there` has and the other has nothing for: zeros
 * there, which nobody reads, where a result of the if has to be. */
static FeValue *
join_absent(Lower *cx, Join *j, FeValue *v, int there)
{
    if (v->kind == FE_NEST) {
        FeValues items = {0};
        for (int i = 0; i < v->nest.len; i++)
            VEC_PUSH(cx->arena, items,
                     join_absent(cx, j, v->nest.items[i], there));
        return fe_value_with_items(cx->arena, v, items.data);
    }
    if (v->kind != FE_TENSOR)
        return v;
    IrBlock *other = j->op->regions[1 - there];
    VEC_PUSH(cx->arena, j->yields[there], v->tensor);
    VEC_PUSH(cx->arena, j->yields[1 - there],
             ir_const_zeros(other, &v->tensor->type, j->loc));
    FeValue *result = fe_value_new(cx->arena, FE_TENSOR);
    VEC_PUSH(cx->arena, j->results, result);
    return result;
}

static FeValue *
join(Lower *cx, Join *j, FeValue *a, FeValue *b)
{
    IrType t;
    if (a == &fe_absent || b == &fe_absent)
        return join_absent(cx, j, a == &fe_absent ? b : a, a == &fe_absent);
    if (fe_value_same(a, b))
        return a;
    if (fe_value_has_poison(a) || fe_value_has_poison(b))
        return &fe_poison;
    if (a->kind == FE_NEST && fe_value_alike(a, b)) {
        FeValues items = {0};
        for (int i = 0; i < a->nest.len; i++)
            VEC_PUSH(cx->arena, items,
                     join(cx, j, a->nest.items[i], b->nest.items[i]));
        return fe_value_with_items(cx->arena, a, items.data);
    }
    if (fe_type_of(cx, a, &t) && fe_type_of(cx, b, &t))
        return join_numbers(cx, j, a, b);
    const char *first = fe_describe(cx, a), *second = fe_describe(cx, b);
    if (strcmp(first, second) != 0)
        return report_mismatch(cx, j, first, second);
    return fe_error(cx, j->loc,
                    "%s is not the same in both branches, and %s "
                    "cannot be chosen when the program runs",
                    j->name, first);
}

/* The value of the if itself; a branch that gives nothing gives none. */
static FeValue *
join_values(Lower *cx, Join *j, const Side sides[2])
{
    FeValue *a = sides[0].value, *b = sides[1].value;
    if (!a && !b)
        return NULL;
    j->name = "the value";
    if ((a && fe_is_poison(a)) || (b && fe_is_poison(b)))
        return &fe_poison;
    if ((!a && b->kind != FE_NONE) || (!b && a->kind != FE_NONE))
        return fe_error(cx, j->loc,
                        "a value is returned on one side of this if only");
    return join(cx, j, a ? a : &fe_none, b ? b : &fe_none);
}

static void
join_mut(Lower *cx, Join *j, const Side sides[2], FeBinding *b,
         FeValues *joined)
{
    j->name = fe_format(cx, "\"%s\"", b->name);
    VEC_PUSH(cx->arena, *joined,
             join(cx, j, side_value(&sides[0], b), side_value(&sides[1], b)));
}

/* The muts that either side assigned to. */
static void
collect_muts_of_both(Lower *cx, const Side sides[2], FeBindings *out)
{
    for (int i = 0; i < sides[0].muts.len; i++)
        VEC_PUSH(cx->arena, *out, sides[0].muts.data[i].binding);
    for (int i = 0; i < sides[1].muts.len; i++)
        if (!side_has(&sides[0], sides[1].muts.data[i].binding))
            VEC_PUSH(cx->arena, *out, sides[1].muts.data[i].binding);
}

static void
close_if(Join *j)
{
    for (int r = 0; r < 2; r++)
        ir_build_yield(j->op->regions[r], j->yields[r].len, j->yields[r].data,
                       j->op->loc);
    ir_op_close(j->op);
    for (int i = 0; i < j->results.len; i++)
        j->results.data[i]->tensor = j->op->results[i];
}

FeValue *
fe_branch(Lower *cx, IrValue *cond, Loc loc, FeBranch *then, FeBranch *other,
          const void *data)
{
    Side sides[2] = {0};
    Join j = {.loc = loc};
    FeBindings muts = {0};
    FeValues joined = {0};
    assert(cond->type.dtype == DT_bool && cond->type.rank == 0);
    j.op = fe_nested_op(cx, OP_if, 1, &cond, loc);
    if (!j.op)
        return NULL;
    lower_side(cx, j.op, 0, then, data, &sides[0]);
    lower_side(cx, j.op, 1, other, data, &sides[1]);
    collect_muts_of_both(cx, sides, &muts);
    FeValue *value = join_values(cx, &j, sides);
    for (int i = 0; i < muts.len; i++)
        join_mut(cx, &j, sides, muts.data[i], &joined);
    close_if(&j);
    for (int i = 0; i < muts.len; i++) {
        fe_name_value(joined.data[i], muts.data[i]->name);
        fe_write(cx, muts.data[i], joined.data[i]);
    }
    return value;
}
