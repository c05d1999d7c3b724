/*
 * loop_carried.c - muts around a loop of the IR
 */
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/loop.h"
#include "frontend/lower/stmt.h"

#include <assert.h>
#include <string.h>
#include "ir/type_text.h"

static bool
is_number(Lower *cx, FeValue *leaf)
{
    IrType t;
    return fe_type_of(cx, leaf, &t);
}

static void
add_operands(Lower *cx, FeCarried *c, FeValue *start, Loc loc, bool *ok)
{
    FeValues leaves = {0};
    fe_value_leaves(cx->arena, start, &leaves);
    for (int i = 0; i < leaves.len; i++) {
        if (!is_number(cx, leaves.data[i]))
            continue;
        IrValue *x = fe_handle(cx, leaves.data[i], loc);
        *ok = *ok && x;
        if (!x)
            continue;
        VEC_PUSH(cx->arena, c->operands, x);
        VEC_PUSH(cx->arena, c->types, x->type);
        if (x->type.locality < fe_least_locality(cx))
            VEC_LAST(c->types).locality = fe_least_locality(cx);
    }
}

bool
fe_carried_begin(Lower *cx, FeCarried *c, Loc loc)
{
    bool ok = true;
    assert(c->start.len == 0 && c->operands.len == 0);
    for (int i = 0; i < c->muts.len; i++) {
        FeValue *start = c->muts.data[i]->value;
        VEC_PUSH(cx->arena, c->start, start);
        ok = ok && !fe_value_has_poison(start);
        add_operands(cx, c, start, loc, &ok);
    }
    return ok;
}

/* A value like start with `values` for its numbers. */
typedef struct Filling {
    Lower *cx;
    IrValue *const *values; /* the next one */
} Filling;

static FeValue *
fill_leaf(FeValue *leaf, void *data)
{
    Filling *f = data;
    if (!is_number(f->cx, leaf))
        return leaf;
    return fe_value_tensor(f->cx->arena, *f->values++);
}

static void
set_muts(Lower *cx, const FeCarried *c, IrValue *const *values)
{
    Filling f = {cx, values};
    for (int i = 0; i < c->muts.len; i++) {
        FeBinding *b = c->muts.data[i];
        FeValue *v = fe_value_map(cx->arena, c->start.data[i], fill_leaf, &f);
        fe_name_value(v, b->name);
        fe_write(cx, b, v);
    }
}

void
fe_carried_bind(Lower *cx, FeCarried *c, IrBlock *region)
{
    IrValues args = {0};
    assert(c->types.len == c->operands.len);
    for (int i = 0; i < c->types.len; i++)
        VEC_PUSH(cx->arena, args, ir_block_arg(region, c->types.data[i], NULL));
    set_muts(cx, c, args.data);
}

void
fe_carried_leave(Lower *cx, const FeCarried *c, const IrOp *op)
{
    assert(op->num_results == c->types.len);
    set_muts(cx, c, op->results);
}

/* ---- the end of an iteration ------------------------------------------- */

/* The yields in the making. */
typedef struct Ending {
    Lower *cx;
    FeCarried *carry;
    const char *name; /* of the mut */
    const AstNode *loop;
    Loc loc;
    IrValues *yields;
    bool grew;
} Ending;

/* The assignment to the mut in n, or NULL. */
static const AstNode *
assignment_to(const AstNode *n, const char *name)
{
    AstNode *child;
    const AstNode *found = NULL;
    if (n->kind == AST_ASSIGN && n->assign.target->kind == AST_NAME &&
        strcmp(n->assign.target->name.text, name) == 0)
        return n;
    for (AstIter it = fe_ast_children(n);
         !found && (child = fe_ast_next_child(&it));)
        found = assignment_to(child, name);
    return found;
}

/* The number of the axis that alone differs; -1 without one. */
static int
grown_axis(const IrType *was, const IrType *is)
{
    int axis = -1, others = 0;
    for (int i = 0; i < was->rank && was->rank == is->rank; i++) {
        if (ir_dim_equal(was->dims[i], is->dims[i]))
            continue;
        others += axis >= 0;
        axis = i;
    }
    bool known = axis >= 0 && ir_dim_is_const(was->dims[axis]) &&
                 ir_dim_is_const(is->dims[axis]);
    return known && !others ? axis : -1;
}

/* The iterations of a for over a range of numbers that are written; 0: it is
 * not known. */
static int64_t
count_written(const AstNode *loop)
{
    int64_t from, to;
    const AstNode *r = loop->kind == AST_FOR ? loop->for_.iter : NULL;
    bool is_known = r && r->kind == AST_RANGE &&
                    r->range.from->kind == AST_NUMBER &&
                    r->range.to->kind == AST_NUMBER &&
                    fe_ast_int_value(r->range.from, &from) &&
                    fe_ast_int_value(r->range.to, &to) && from == 0;
    return is_known && to < 1 << 20 ? to : 0;
}

/* The mut of its last shape, written to in the loop. */
static const char *
grown_note(const Ending *e, const IrType *was, const IrType *is, int axis)
{
    Lower *cx = e->cx;
    int64_t count = count_written(e->loop);
    int64_t first = was->dims[axis].c, step = is->dims[axis].c - first;
    int64_t last = first + (count ? count : 100) * step;
    const AstNode *pattern = count ? e->loop->for_.pattern : NULL;
    const char *i =
        pattern && pattern->kind == AST_NAME && step == 1
            ? fe_format(cx, "%lld + %s", (long long)first, pattern->name.text)
            : "k";
    IrType t = *was;
    t.dims[axis] = ir_dim_const(last);
    const char *dims = ir_dims_text(cx->module, t.rank, t.dims);
    return fe_format(
        cx,
        "a shape does not change in a loop: write mut %s = "
        "zeros((%.*s%s), %s) before it%s, and %s[%.*s%s] = ... "
        "in it%s",
        e->name, (int)strlen(dims) - 2, dims + 1, t.rank == 1 ? "," : "",
        dtype_info[t.dtype].name,
        count ? ""
              : ", with room for 100 iterations (or the most there can be)",
        e->name, 3 * axis, ":, :, :, :, :, :, :, ", i,
        count && strcmp(i, "k") != 0
            ? ""
            : fe_format(cx, ", of a mut k = %lld that counts",
                        (long long)first));
}

static void
refuse_shape(Ending *e, const IrType *was, const IrType *is)
{
    Lower *cx = e->cx;
    const AstNode *at = assignment_to(e->loop, e->name);
    int axis = grown_axis(was, is);
    fe_error_note(cx, at ? at->loc : e->loc,
                  axis >= 0 && is->dims[axis].c > was->dims[axis].c
                      ? grown_note(e, was, is, axis)
                      : fe_format(cx,
                                  "a shape does not change in a loop: give %s "
                                  "its last shape before it, and assign to "
                                  "%s[i] in it",
                                  e->name, e->name),
                  "\"%s\" is %s before this loop and %s after an iteration",
                  e->name, fe_type_text(cx, was), fe_type_text(cx, is));
}

static bool
end_number(Ending *e, FeValue *value)
{
    Lower *cx = e->cx;
    IrType *type = &e->carry->types.data[e->yields->len];
    IrValue *x = fe_handle_as(cx, value, type->dtype, e->loc);
    if (!x)
        return false;
    if (!ir_type_same_shape(&x->type, type)) {
        refuse_shape(e, type, &x->type);
        return false;
    }
    if (x->type.locality > type->locality) {
        type->locality = x->type.locality;
        type->on = x->type.on;
        e->grew = true;
    }
    VEC_PUSH(cx->arena, *e->yields, x);
    return true;
}

static bool
end_leaf(Ending *e, FeValue *start, FeValue *value)
{
    if (fe_is_poison(value))
        return false;
    if (is_number(e->cx, start))
        return end_number(e, value);
    if (fe_value_same(start, value))
        return true;
    fe_error(e->cx, e->loc,
             "\"%s\" is %s, which a loop of the program cannot change", e->name,
             fe_describe(e->cx, start));
    return false;
}

static bool
end_mut(Ending *e, FeValue *start, FeValue *value)
{
    if (start->kind != FE_NEST)
        return end_leaf(e, start, value);
    if (!fe_value_alike(start, value)) {
        e->cx->needs_constant = true; /* unrolled, it may change */
        if (!fe_is_poison(value))
            fe_error_note(
                e->cx, e->loc,
                "a nest grows only in a loop over a range that the compiler "
                "knows, which is unrolled",
                "\"%s\" has another structure after an iteration of this loop",
                e->name);
        return false;
    }
    for (int i = 0; i < start->nest.len; i++)
        if (!end_mut(e, start->nest.items[i], value->nest.items[i]))
            return false;
    return true;
}

bool
fe_carried_end(Lower *cx, FeCarried *c, const AstNode *loop, IrValues *yields,
               bool *grew)
{
    Ending e = {
        .cx = cx, .carry = c, .loop = loop, .loc = loop->loc, .yields = yields};
    bool ok = true;
    assert(yields->len == 0);
    for (int i = 0; ok && i < c->muts.len; i++) {
        e.name = c->muts.data[i]->name;
        ok = end_mut(&e, c->start.data[i], c->muts.data[i]->value);
    }
    *grew = e.grew;
    return ok;
}
