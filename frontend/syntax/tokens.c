/*
 * tokens.c - words to tokens
 *
 * Three things need a word's neighbours:
 *
 * - A newline ends a statement when the word before it could be the last of
 *   one and the line after it does not go on (with a dot, else or with).
 * - Some names are keywords where a statement starts and a name follows:
 *   `update v {` against `update(v)`.
 * - After a syntax error reading starts afresh at a line that begins a
 *   declaration.  A T_RESYNC before it tells the grammar.  Such a line must
 *   not be indented deeper than the declaration with the error, so that the
 *   lets of a function are not taken for it.
 */
#include "frontend/syntax/parse_impl.h"

#include <string.h>
#include "frontend/syntax/gram.tab.h"

/* ---- one word ahead ---- */

static FeToken
next_word(FeParser *ps)
{
    if (!ps->has_ahead)
        return fe_scan_word(ps);
    ps->has_ahead = false;
    return ps->ahead;
}

static const FeToken *
peek_word(FeParser *ps)
{
    if (!ps->has_ahead) {
        ps->ahead = fe_scan_word(ps);
        ps->has_ahead = true;
    }
    return &ps->ahead;
}

static void
push_back(FeParser *ps, FeToken t)
{
    ps->held = t;
    ps->has_held = true;
}

/* ---- newlines ---- */

bool
fe_ends_expr(int kind)
{
    switch (kind) {
    case T_NAME:
    case T_INT:
    case T_FLOAT:
    case T_STRING_END:
    case T_TRUE:
    case T_FALSE:
    case T_NONE:
    case T_RPAREN:
    case T_RSQUARE:
    case T_RBRACE:
        return true;
    default:
        return false;
    }
}

static bool
can_end_statement(int kind)
{
    return fe_ends_expr(kind) || kind == T_RETURN || kind == T_BREAK ||
           kind == T_CONTINUE;
}

static bool
continues_line(int kind)
{
    return kind == T_DOT || kind == T_ELSE || kind == T_WITH;
}

/* The next word that is no newline, or a newline that ends a statement. */
static FeToken
word_or_end(FeParser *ps)
{
    FeToken t = next_word(ps);
    while (t.kind == T_NEWLINE) {
        while (peek_word(ps)->kind == T_NEWLINE)
            (void)next_word(ps);
        if (can_end_statement(ps->last.kind) &&
            !continues_line(peek_word(ps)->kind))
            return t;
        t = next_word(ps);
    }
    if (t.kind == T_END && can_end_statement(ps->last.kind)) {
        push_back(ps, t);
        t.kind = T_NEWLINE;
    }
    return t;
}

/* ---- names that are keywords here ---- */

/* Where a name is a keyword when a name follows: at the start of a statement;
 * or anywhere, but before a clause (a variable's initial value ends there). */
typedef enum Where { AT_START, BUT_CLAUSES, ANYWHERE } Where;

static const struct {
    const char *name;
    int kind;
    Where where;
} contextual[] = {
    {"dataset", T_DATASET, AT_START},   {"strategy", T_STRATEGY, AT_START},
    {"slot", T_SLOT, AT_START},         {"non_slot", T_NON_SLOT, AT_START},
    {"colocate", T_COLOCATE, AT_START}, {"update", T_UPDATE, BUT_CLAUSES},
    {"run", T_RUN, ANYWHERE},           {"schedule", T_SCHEDULE, ANYWHERE},
};

static bool
starts_statement(int last)
{
    return last == 0 || last == T_NEWLINE || last == T_SEMICOLON ||
           last == T_LBRACE || last == T_RESYNC;
}

static bool
name_follows(FeParser *ps)
{
    const FeToken *next = peek_word(ps);
    return (next->kind == T_NAME || next->kind == T_VAR) &&
           !next->first_on_line;
}

static bool
can_stand(FeParser *ps, Where where, int last)
{
    if (last == T_DOT || !name_follows(ps))
        return false;
    if (where == ANYWHERE || starts_statement(last))
        return true;
    const FeToken *next = peek_word(ps);
    return where == BUT_CLAUSES &&
           !(next->kind == T_NAME && fe_is_clause(next->text));
}

/* The kind of a name after a token of kind last. */
static int
kind_of_name(FeParser *ps, const FeToken *t, int last)
{
    for (size_t i = 0; i < sizeof contextual / sizeof *contextual; i++)
        if (strcmp(t->text, contextual[i].name) == 0 &&
            can_stand(ps, contextual[i].where, last))
            return contextual[i].kind;
    return T_NAME;
}

/* ---- starting afresh ---- */

bool
fe_begins_declaration(int kind)
{
    switch (kind) {
    case T_USE:
    case T_CONST:
    case T_PARAM:
    case T_STRATEGY:
    case T_VAR:
    case T_NON_SLOT:
    case T_COLOCATE:
    case T_DATASET:
    case T_FN:
    case T_MODULE:
    case T_LET:
    case T_MAIN:
        return true;
    default:
        return false;
    }
}

static bool
is_fresh_start(FeParser *ps, FeToken *t)
{
    if (t->kind == T_END)
        return true;
    if (!t->first_on_line || t->place.col > ps->item_col)
        return false;
    if (t->kind == T_NAME)
        t->kind = kind_of_name(ps, t, T_NEWLINE);
    return fe_begins_declaration(t->kind);
}

/* The unexpected token may itself begin a declaration: after a forgotten "}".
 * It is read again, once. */
static bool
read_again(FeParser *ps, FeToken *t)
{
    *t = ps->last;
    if (t->kind == 0 || ps->redelivered == t->place.start + 1 ||
        !is_fresh_start(ps, t))
        return false;
    ps->redelivered = t->place.start + 1;
    return true;
}

static FeToken
resync(FeParser *ps)
{
    FeToken t;
    bool found = read_again(ps, &t);
    fe_scan_reset(ps);
    while (!found) {
        t = next_word(ps);
        found = is_fresh_start(ps, &t);
    }
    fe_scan_reset(ps);
    ps->recovering = false;
    t.depth = 0;
    push_back(ps, t);
    t.kind = T_RESYNC;
    return t;
}

/* ---- tokens for the grammar ---- */

static FeToken
next_token(FeParser *ps)
{
    if (ps->recovering)
        return resync(ps);
    if (ps->has_held) {
        ps->has_held = false;
        return ps->held;
    }
    FeToken t = word_or_end(ps);
    if (t.kind == T_NAME)
        t.kind = kind_of_name(ps, &t, ps->last.kind);
    return t;
}

int
fe_gram_lex(FE_GRAM_STYPE *value, FePlace *place, FeParser *ps)
{
    FeToken t = next_token(ps);
    if (t.depth == 0 && starts_statement(ps->last.kind))
        ps->item_col = t.place.col;
    ps->before_last = ps->last;
    ps->last = t;
    value->text = t.text;
    *place = t.place;
    return t.kind;
}
