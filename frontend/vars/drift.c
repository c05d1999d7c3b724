/*
 * drift.c - what to write where a mirrored variable would get a value that
 * differs among the replicas
 *
 * Of w - g the gradient g is to be summed and not w, which all have: it would
 * count once for each replica.  So terms are looked at one by one.
 */
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/region.h"
#include "frontend/vars/vars.h"

#include <string.h>

/* Whether var, by its name or the end of its path, stands in n. */
static bool
mentions(const AstNode *n, const char *var)
{
    const char *dot = strrchr(var, '.');
    return fe_ast_mentions(n, dot ? dot + 1 : var);
}

static bool
is_sum(const AstNode *n)
{
    return n->kind == AST_BINARY &&
           (n->binary.op == AST_OP_ADD || n->binary.op == AST_OP_SUB);
}

/* Whether var is in a sum that n multiplies or divides. */
static bool
scales_sum(const AstNode *n, const char *var)
{
    AstNode *child;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (mentions(child, var) && (is_sum(child) || scales_sum(child, var)))
            return true;
    return false;
}

/* n with the terms summed that differ; NULL where var is in a part of one. */
static const char *
terms_summed(Lower *cx, const AstNode *n, const char *var)
{
    const char *text = fe_ast_text(cx->arena, n);
    if (!fe_differs(cx, n))
        return text;
    if (!is_sum(n) && scales_sum(n, var))
        return NULL;
    if (!is_sum(n) || !mentions(n, var))
        return fe_format(cx, "all_reduce(sum, %s)", text);
    const AstNode *right = n->binary.right;
    const char *x = terms_summed(cx, n->binary.left, var);
    const char *y = terms_summed(cx, right, var);
    bool wraps =
        is_sum(right) && (mentions(right, var) || !fe_differs(cx, right));
    return x && y ? fe_format(cx, wraps ? "%s %s (%s)" : "%s %s %s", x,
                              fe_ast_op_text(n->binary.op), y)
                  : NULL;
}

/* min in `if x < best { best = x }`, max where it is greater, as in an else; or
 * NULL. */
static const char *
extremum_around(Lower *cx, const char *value)
{
    const FeDivergence *d = fe_divergence(cx);
    const AstNode *c = d ? d->cond : NULL;
    if (!c || c->kind != AST_BINARY)
        return NULL;
    AstOp op = c->binary.op;
    bool less = op == AST_OP_LT || op == AST_OP_LE;
    bool greater = op == AST_OP_GT || op == AST_OP_GE;
    const char *left = fe_ast_text(cx->arena, c->binary.left);
    const char *right = fe_ast_text(cx->arena, c->binary.right);
    bool is_left = strcmp(left, value) == 0;
    if ((!is_left && strcmp(right, value) != 0) || (!less && !greater))
        return NULL;
    return (less == is_left) != d->is_else ? "min" : "max";
}

const char *
fe_var_drift_note(Lower *cx, const char *var, const AstNode *node,
                  const char *value)
{
    const char *extremum = extremum_around(cx, value);
    if (extremum)
        return fe_format(cx,
                         "compare what is the same on all: let every = "
                         "all_reduce(%s, %s) before the \"%s\", and every in "
                         "place of %s in it",
                         extremum, value, fe_divergence(cx)->what, value);
    if (!node || !mentions(node, var))
        return fe_format(cx, "did you mean all_reduce(sum, %s)?", value);
    const char *summed = terms_summed(cx, node, var);
    return summed ? fe_format(cx, "did you mean %s?", summed)
                  : "sum what differs in it alone, with all_reduce(sum, ...): "
                    "the variable would count once for each replica";
}
