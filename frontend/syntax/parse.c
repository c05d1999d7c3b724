/*
 * parse.c - from text to tree
 *
 * The text is any bytes: invalid UTF-8 is refused before the scanner sees it,
 * so that strings and messages are text.
 *
 * The grammar takes every expression as a statement, because the last line of
 * a branch may be one; whether it may stand where it does is known when the
 * tree is finished.
 */
#include "frontend/syntax/parse.h"

#include <string.h>
#include "frontend/syntax/gram.tab.h"
#include "frontend/syntax/parse_impl.h"
#include "ir/base/str.h"

/* ---- the text ----------------------------------------------------------- */

/* Reports the first byte that belongs to no character. */
static bool
check_text(FeParser *ps, const char *text, size_t len)
{
    FePlace place = {.line = 1, .end_line = 1};
    size_t line_start = 0, at = 0, n;
    for (; at < len; at += n) {
        n = str_char_len(text + at, len - at);
        if (n == 0)
            break;
        if (text[at] == '\n') {
            place.end_line = ++place.line;
            line_start = at + 1;
        }
    }
    if (at == len)
        return true;
    place.col = (uint32_t)(at - line_start + 1);
    place.start = (uint32_t)at;
    place.end = place.start + 1;
    if (text[at] == 0)
        fe_syntax_error(ps, place, "a zero byte cannot stand in a program");
    else
        fe_syntax_error(ps, place, "the text is not UTF-8 here");
    return false;
}

/* ---- statements that are only expressions ------------------------------- */

static void check(FeParser *ps, const AstNode *n);

static bool
has_effect(const AstNode *n)
{
    return n->kind == AST_CALL || n->kind == AST_RUN ||
           n->kind == AST_SCHEDULE || n->kind == AST_MERGE ||
           n->kind == AST_UPDATE || n->kind == AST_IF;
}

static void check_block(FeParser *ps, const AstNode *block, bool is_value);

/* The branches of an if that is used as a value end in values. */
static void
check_if(FeParser *ps, const AstNode *n, bool is_value)
{
    check(ps, n->if_.cond);
    check_block(ps, n->if_.then, is_value);
    if (!n->if_.else_ && is_value)
        diag_error(ps->diag, n->loc, "an if without else has no value");
    else if (n->if_.else_ && n->if_.else_->kind == AST_IF)
        check_if(ps, n->if_.else_, is_value);
    else if (n->if_.else_)
        check_block(ps, n->if_.else_, is_value);
}

static void
check_statement(FeParser *ps, const AstNode *n, bool is_value)
{
    if (is_value && !fe_ast_is_expr(n))
        diag_error(ps->diag, n->loc,
                   "the last line of this branch must be its value");
    if (!is_value && fe_ast_is_expr(n) && !has_effect(n)) {
        ps->num_idle++;
        diag_error(ps->diag, n->loc,
                   "this line computes a value and does nothing with it");
        if (n == ps->last_of_fn && n->kind != AST_NONE)
            diag_note(ps->diag, n->loc,
                      "write return %s, if the function is "
                      "to have this value",
                      fe_ast_text(ps->arena, n));
        else
            diag_note(ps->diag, n->loc,
                      "leave it out: a statement that is only an expression is "
                      "a call, run, schedule, merge, update or if");
    }
    if (n->kind == AST_IF)
        check_if(ps, n, is_value);
    else
        check(ps, n);
}

/* is_value: the last line is the value of the block. */
static void
check_block(FeParser *ps, const AstNode *block, bool is_value)
{
    AstList stmts = block->block.stmts;
    for (int i = 0; i < stmts.len; i++)
        check_statement(ps, stmts.data[i], is_value && i == stmts.len - 1);
    if (is_value && !stmts.len)
        diag_error(ps->diag, block->loc, "this branch has no value");
}

static void
check(FeParser *ps, const AstNode *n)
{
    AstNode *child;
    if (n->kind == AST_FN && n->fn.body->kind == AST_BLOCK) {
        const AstList *stmts = &n->fn.body->block.stmts;
        ps->last_of_fn = stmts->len ? stmts->data[stmts->len - 1] : NULL;
    }
    if (n->kind == AST_IF)
        check_if(ps, n, true);
    else if (n->kind == AST_BLOCK)
        check_block(ps, n, false);
    else
        for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
            check(ps, child);
}

/* ---- fe_parse ---------------------------------------------------------- */

static void
parse_text(FeParser *ps, const char *text, size_t len)
{
    fe_scan_begin(ps, text, len);
    fe_gram_parse(ps);
    fe_scan_end(ps);
    if (ps->program && !ps->stopped)
        check(ps, ps->program);
}

static void
refuse_size(FeParser *ps)
{
    Loc loc = {.file = ps->file};
    const char *note = limit_note(ps->arena, LIMIT_source);
    diag_error(ps->diag, loc, "%s", limit_message(ps->arena, LIMIT_source));
    if (note)
        diag_note(ps->diag, loc, "%s", note);
}

AstNode *
fe_parse_on(Arena *a, Intern *names, Diag *d, uint16_t file, const char *text,
            size_t len)
{
    FeParser ps = {.arena = a, .names = names, .diag = d, .file = file};
    int before = diag_num_errors(d);
    ps.text = text;
    if ((int64_t)len > limit_value(LIMIT_source))
        refuse_size(&ps);
    else if (check_text(&ps, text, len))
        parse_text(&ps, text, len);
    return diag_num_errors(d) == before + ps.num_idle ? ps.program : NULL;
}

AstNode *
fe_parse(Arena *a, Intern *names, Diag *d, uint16_t file, const char *text,
         size_t len)
{
    int before = diag_num_errors(d);
    AstNode *tree = fe_parse_on(a, names, d, file, text, len);
    return diag_num_errors(d) == before ? tree : NULL;
}
