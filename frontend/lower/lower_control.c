/*
 * lower_control.c - blocks, if, and early exits
 *
 * The IR has structured control flow only.  An `if` that is decided when the
 * program runs and has an early exit (return, break, continue) in it therefore
 * takes the rest of the statements into its branches: what is left to do is a
 * chain (Rest) that either branch executes to its end.  A break then is nothing
 * but clearing the loop's flag and not executing the rest.
 *
 * Where both branches could come to their end the rest would be executed twice,
 * and twice again for each such `if`.  There an early exit only notes that it
 * was taken, and the value returned; the rest is then the branch of a second
 * `if`, of that note.
 */
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/context/steps.h"
#include "frontend/lower/call.h"
#include "frontend/lower/lower_impl.h"

#include <assert.h>

/* The statements still to be executed: those of a block from `at`, and after
 * them those of the blocks around. */
typedef struct Rest Rest;
struct Rest {
    const AstList *stmts;
    int at;
    FeScope *scope;
    const Rest *outer; /* or NULL */
};

static FeValue *exec_rest(Lower *cx, Rest rest);

/* The notes of early exits from an if whose rest is executed once. */
struct FeExits {
    FeBinding *gone;   /* whether one was taken */
    FeBinding *result; /* the value returned: &fe_absent without one */
};

/* ---- early exits ------------------------------------------------------- */

/* Whether n has a break or continue of a loop around n, or a return; or such a
 * break. */
static bool
has_exit(const AstNode *n, bool only_break)
{
    switch (n->kind) {
    case AST_BREAK:
        return true;
    case AST_CONTINUE:
    case AST_RETURN:
        return !only_break;
    case AST_FN:
    case AST_MERGE:
    case AST_UPDATE:
    case AST_FOR: /* a return in it is an error, found there */
    case AST_WHILE:
        return false;
    default:
        break;
    }
    const AstNode *child;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (has_exit(child, only_break))
            return true;
    return false;
}

bool
fe_has_break(const AstNode *n)
{
    return has_exit(n, true);
}

/* Exits with a value (or &fe_absent); returns the value of the statements
 * executed until here. */
static FeValue *
exit_early(Lower *cx, FeValue *value)
{
    if (!cx->exits)
        return value == &fe_absent ? NULL : value;
    fe_write(cx, cx->exits->gone, fe_value_bool(cx->arena, true));
    fe_write(cx, cx->exits->result, value);
    return NULL;
}

static FeValue *
exec_break(Lower *cx, const AstNode *n)
{
    if (!cx->loop)
        fe_error(cx, n->loc, "there is no loop around this %s",
                 n->kind == AST_BREAK ? "break" : "continue");
    else if (n->kind == AST_BREAK)
        fe_write(cx, cx->loop->running, fe_value_bool(cx->arena, false));
    return exit_early(cx, &fe_absent);
}

static FeValue *
exec_return(Lower *cx, const AstNode *n)
{
    if (cx->loop)
        return fe_error_note(cx, n->loc, "assign to a mut, and break",
                             "a return does not stand in a loop");
    return exit_early(cx, n->return_.value ? fe_eval(cx, n->return_.value)
                                           : &fe_none);
}

/* ---- if as a statement -------------------------------------------------- */

/* A branch of an if; without an else it is empty. */
static const AstList *
branch_stmts(Lower *cx, const AstNode *n, bool truth)
{
    AstNode *branch = truth ? n->if_.then : n->if_.else_;
    if (branch && branch->kind == AST_BLOCK)
        return &branch->block.stmts;
    AstList *stmts = NEW(cx->arena, AstList);
    if (branch)
        VEC_PUSH(cx->arena, *stmts, branch);
    return stmts;
}

/* A branch, and the statements after the if when the branch has early exits
 * (else after is NULL). */
typedef struct IfStmt {
    const AstNode *n;
    const Rest *after;
} IfStmt;

static Rest
begin_branch(Lower *cx, const IfStmt *s, FeScope *around, bool truth)
{
    return (Rest){.stmts = branch_stmts(cx, s->n, truth),
                  .scope = fe_scope_new(cx, around, SCOPE_BLOCK),
                  .outer = s->after};
}

static FeValue *
exec_then(Lower *cx, const void *data)
{
    return exec_rest(cx, begin_branch(cx, data, cx->scope, true));
}

static FeValue *
exec_else(Lower *cx, const void *data)
{
    return exec_rest(cx, begin_branch(cx, data, cx->scope, false));
}

/* Whether control may come to the end of the branch of an if. */
static bool
falls_through(const AstNode *branch)
{
    if (!branch)
        return true;
    switch (branch->kind) {
    case AST_RETURN:
    case AST_BREAK:
    case AST_CONTINUE:
        return false;
    case AST_IF:
        return falls_through(branch->if_.then) ||
               falls_through(branch->if_.else_);
    case AST_BLOCK:
        for (int i = 0; i < branch->block.stmts.len; i++)
            if (!falls_through(branch->block.stmts.data[i]))
                return false;
        return true;
    default:
        return true;
    }
}

static bool
is_empty(const Rest *rest)
{
    for (; rest; rest = rest->outer)
        if (rest->at < rest->stmts->len)
            return false;
    return true;
}

/* The rest by itself, unless an early exit was taken. */
typedef struct SplitIf {
    const Rest *after;
    FeValue *result;
} SplitIf;

static FeValue *
exit_branch(Lower *cx, const void *data)
{
    const SplitIf *apart = data;
    return exit_early(cx, apart->result);
}

static FeValue *
continue_branch(Lower *cx, const void *data)
{
    const SplitIf *apart = data;
    return exec_rest(cx, *apart->after);
}

static FeValue *
exec_split_if(Lower *cx, const AstNode *n, IrValue *cond, const Rest *after)
{
    struct FeExits exits, *around = cx->exits;
    IfStmt s = {n, NULL};
    Loc loc = n->if_.cond->loc;
    exits.gone =
        fe_hidden_mut(cx, "gone", fe_value_bool(cx->arena, false), loc);
    exits.result = fe_hidden_mut(cx, "return", &fe_absent, loc);
    cx->exits = &exits;
    cx->condition = n->if_.cond;
    fe_branch(cx, cond, loc, exec_then, exec_else, &s);
    cx->exits = around;
    SplitIf apart = {after, exits.result->value};
    FeCond gone = fe_cond(cx, exits.gone->value, loc);
    if (gone.value)
        return fe_branch(cx, gone.value, loc, exit_branch, continue_branch,
                         &apart);
    return gone.known && gone.truth ? exit_branch(cx, &apart)
                                    : continue_branch(cx, &apart);
}

/* The value of an if that ends its block: where it has early exits, its
 * branches execute the rest. */
static FeValue *
exec_if(Lower *cx, const AstNode *n, const Rest *after)
{
    IfStmt s = {n, after};
    FeCond cond = fe_cond(cx, fe_eval(cx, n->if_.cond), n->if_.cond->loc);
    if (cond.value && !is_empty(after) && falls_through(n->if_.then) &&
        falls_through(n->if_.else_))
        return exec_split_if(cx, n, cond.value, after);
    cx->condition = n->if_.cond;
    if (cond.value)
        return fe_branch(cx, cond.value, n->if_.cond->loc, exec_then, exec_else,
                         &s);
    if (cond.known)
        return exec_rest(cx, begin_branch(cx, &s, cx->scope, cond.truth));
    return after ? exec_rest(cx, *after) : NULL;
}

/* ---- statements one after the other ------------------------------------- */

/* Executes one statement; true when nothing comes after it, and then its value
 * is in *value. */
static bool
exec_stmt(Lower *cx, const AstNode *n, const Rest *after, FeValue **value)
{
    *value = NULL;
    switch (n->kind) {
    case AST_RETURN:
        *value = exec_return(cx, n);
        return true;
    case AST_BREAK:
    case AST_CONTINUE:
        *value = exec_break(cx, n);
        return true;
    case AST_IF:
        if (has_exit(n, false)) {
            *value = exec_if(cx, n, after);
            return true;
        }
        exec_if(cx, n, NULL);
        return false;
    default:
        fe_exec_simple(cx, n);
        return false;
    }
}

static FeValue *
exec_rest(Lower *cx, Rest rest)
{
    FeScope *around = cx->scope;
    FeValue *value = NULL;
    bool done = false;
    cx->depth++;
    while (!done) {
        while (rest.at == rest.stmts->len && rest.outer)
            rest = *rest.outer;
        if (rest.at == rest.stmts->len)
            break;
        const AstNode *n = rest.stmts->data[rest.at++];
        if (!fe_step(cx, n->loc))
            break;
        cx->scope = rest.scope;
        done = exec_stmt(cx, n, &rest, &value);
        rest.scope = cx->scope;
    }
    cx->depth--;
    cx->scope = around;
    return value;
}

FeValue *
fe_exec(Lower *cx, const AstList *stmts)
{
    struct FeExits *around = cx->exits;
    cx->exits = NULL;
    FeValue *v = exec_rest(cx, (Rest){.stmts = stmts, .scope = cx->scope});
    cx->exits = around;
    return v;
}

FeValue *
fe_exec_body(Lower *cx, FeScope *scope, const AstNode *block)
{
    FeScope *around = cx->scope;
    FeLoop *loop = cx->loop;
    cx->scope = fe_scope_new(cx, scope, SCOPE_BLOCK);
    cx->loop = NULL;
    FeValue *v = fe_exec(cx, &block->block.stmts);
    cx->scope = around;
    cx->loop = loop;
    return v ? v : &fe_none;
}

/* ---- if as an expression ------------------------------------------------ */

/* The value of a branch is that of its last line. */
static FeValue *
eval_branch(Lower *cx, const AstNode *branch)
{
    if (branch->kind != AST_BLOCK)
        return fe_eval(cx, branch);
    AstList stmts = branch->block.stmts;
    assert(stmts.len > 0 && fe_ast_is_expr(stmts.data[stmts.len - 1]));
    FeScope *around = cx->scope;
    FeValue *v = &fe_poison;
    cx->scope = fe_scope_new(cx, around, SCOPE_BLOCK);
    for (int i = 0; i < stmts.len - 1 && fe_step(cx, branch->loc); i++)
        exec_stmt(cx, stmts.data[i], NULL, &v);
    v = fe_eval(cx, stmts.data[stmts.len - 1]);
    cx->scope = around;
    return v;
}

static FeValue *
eval_then(Lower *cx, const void *data)
{
    const AstNode *n = data;
    return eval_branch(cx, n->if_.then);
}

static FeValue *
eval_else(Lower *cx, const void *data)
{
    const AstNode *n = data;
    return eval_branch(cx, n->if_.else_);
}

FeValue *
fe_eval_if(Lower *cx, const AstNode *n)
{
    if (has_exit(n, false))
        return fe_error(cx, n->loc,
                        "return, break and continue do not stand "
                        "in an if that gives a value");
    assert(n->if_.else_); /* the reader has seen to both */
    Loc loc = n->if_.cond->loc;
    FeCond cond = fe_cond(cx, fe_eval(cx, n->if_.cond), loc);
    if (cond.known)
        return eval_branch(cx, cond.truth ? n->if_.then : n->if_.else_);
    if (!cond.value)
        return &fe_poison;
    cx->condition = n->if_.cond;
    FeValue *v = fe_branch(cx, cond.value, loc, eval_then, eval_else, n);
    return v ? v : &fe_poison;
}
