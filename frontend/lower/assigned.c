/*
 * assigned.c - which muts a loop's body assigns to
 *
 * A loop of the IR carries them, so they must be known before the body is
 * lowered.  Names that the body binds itself hide those around from there to
 * the end of their block.
 */
#include "frontend/context/scope.h"
#include "frontend/lower/lower_impl.h"

#include <string.h>

typedef struct Scan {
    Lower *cx;
    VEC(const char *) hidden; /* names bound so far in the blocks around */
    FeBindings *out;
} Scan;

static bool
is_hidden(const Scan *s, const char *name)
{
    for (int i = 0; i < s->hidden.len; i++)
        if (s->hidden.data[i] == name)
            return true;
    return false;
}

static void
add_target(Scan *s, const char *name)
{
    FeFoundBinding found = fe_find_binding(s->cx, name);
    FeBinding *b = found.binding;
    if (is_hidden(s, name) || !b || !b->is_mut || found.leaves_func ||
        found.leaves_merge)
        return;
    for (int i = 0; i < s->out->len; i++)
        if (s->out->data[i] == b)
            return;
    VEC_PUSH(s->cx->arena, *s->out, b);
}

/* x, x[i], (x, y): whose names are x, x, and x and y. */
static void
scan_target(Scan *s, const AstNode *target)
{
    while (target->kind == AST_INDEX)
        target = target->index.value;
    if (target->kind == AST_NAME)
        add_target(s, target->name.text);
    for (int i = 0; target->kind == AST_TUPLE && i < target->tuple.items.len;
         i++)
        scan_target(s, target->tuple.items.data[i]);
}

static void
hide(Scan *s, const AstNode *pattern)
{
    if (pattern->kind == AST_NAME)
        VEC_PUSH(s->cx->arena, s->hidden, pattern->name.text);
    for (int i = 0; pattern->kind == AST_TUPLE && i < pattern->tuple.items.len;
         i++)
        hide(s, pattern->tuple.items.data[i]);
}

/* A statement binds names after its own expressions; a for before its body. */
static const AstNode *
bound_pattern(const AstNode *n)
{
    switch (n->kind) {
    case AST_LET:
        return n->let.pattern;
    case AST_MUT:
        return n->mut.pattern;
    default:
        return NULL;
    }
}

/* xs.append(e) */
static bool
appends(const AstNode *n)
{
    const AstNode *callee = n->kind == AST_CALL ? n->call.callee : NULL;
    return callee && callee->kind == AST_FIELD &&
           strcmp(callee->field.name, "append") == 0;
}

static void
scan(Scan *s, const AstNode *n)
{
    const AstNode *child;
    int num_hidden = s->hidden.len;
    if (n->kind == AST_FN || n->kind == AST_MERGE || n->kind == AST_UPDATE)
        return; /* assignments do not reach out of these */
    if (n->kind == AST_FOR)
        hide(s, n->for_.pattern);
    if (n->kind == AST_ASSIGN)
        scan_target(s, n->assign.target);
    if (appends(n))
        scan_target(s, n->call.callee->field.value);
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        scan(s, child);
    if (n->kind == AST_BLOCK || n->kind == AST_FOR)
        s->hidden.len = num_hidden;
    else if (bound_pattern(n))
        hide(s, bound_pattern(n));
}

void
fe_assigned(Lower *cx, const AstNode *body, FeBindings *out)
{
    Scan s = {.cx = cx, .out = out};
    scan(&s, body);
}
