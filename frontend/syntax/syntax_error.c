/*
 * syntax_error.c - errors of syntax in plain words
 *
 * The grammar knows the set of tokens that could have come.  Most of it is of
 * no use to the reader of a message: after any operand every operator could
 * have come.  So a set is described by the widest thing in it ("an
 * expression"), or by the few tokens that are no operators.
 *
 * Slips that many make have words of their own: slip_info, in the order in
 * which they are tried.
 */
#include "frontend/syntax/parse_impl.h"

#include <stdarg.h>
#include <string.h>
#include "frontend/syntax/gram.tab.h"
#include "ir/base/message.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- reporting ---------------------------------------------------------- */

void
fe_syntax_error(FeParser *ps, FePlace place, const char *format, ...)
{
    if (ps->stopped || ps->recovering)
        return;
    va_list args;
    va_start(args, format);
    diag_error(ps->diag, fe_loc(ps, place), "%s",
               message_vprintf(ps->arena, format, args));
    va_end(args);
    ps->error_line = place.line;
    if (diag_num_errors(ps->diag) > MAX_ERRORS)
        ps->stopped = true;
}

void
fe_note(FeParser *ps, FePlace place, const char *format, ...)
{
    if (ps->stopped || ps->recovering)
        return;
    va_list args;
    va_start(args, format);
    diag_note(ps->diag, fe_loc(ps, place), "%s",
              arena_vprintf(ps->arena, format, args));
    va_end(args);
}

void
fe_syntax_stop(FeParser *ps, FePlace place, const char *format, ...)
{
    if (ps->stopped || ps->recovering)
        return;
    va_list args;
    va_start(args, format);
    diag_error(ps->diag, fe_loc(ps, place), "%s",
               message_vprintf(ps->arena, format, args));
    va_end(args);
    ps->stopped = true;
}

void
fe_syntax_limit(FeParser *ps, FePlace place, LimitId id)
{
    const char *note = limit_note(ps->arena, id);
    if (ps->stopped || ps->recovering)
        return;
    fe_syntax_error(ps, place, "%s", limit_message(ps->arena, id));
    if (note)
        fe_note(ps, place, "%s", note);
    ps->stopped = true;
}

void
fe_too_deep(FeParser *ps, FePlace place)
{
    fe_syntax_stop(ps, place, "this is nested too deeply");
}

/* ---- the set of expected tokens ----------------------------------------- */

typedef struct Expected {
    const char *const *names;
    int n;
} Expected;

static bool
expects(const Expected *set, const char *name)
{
    for (int i = 0; i < set->n; i++)
        if (strcmp(set->names[i], name) == 0)
            return true;
    return false;
}

/* An operand has been read, and operators may follow. */
static bool
is_after_operand(const Expected *set)
{
    return expects(set, "+");
}

static bool
is_operand_due(const Expected *set)
{
    return expects(set, "a number") && expects(set, "not");
}

static bool
is_statement_due(const Expected *set)
{
    return expects(set, "while");
}

static bool
is_declaration_due(const Expected *set)
{
    return expects(set, "module");
}

static bool
is_member_due(const Expected *set)
{
    return expects(set, "slot");
}

/* Tokens that are left out where others are expected too: operators and others
 * that may follow any operand. */
static const char *const minor[] = {
    "=", "+=", "-=", "*=", "/=", "and", "or", "==",     "!=",
    "<", "<=", ">",  ">=", "+",  "-",   "*",  "/",      "//",
    "%", "@",  "**", "(",  "[",  ".",   ";",  "a name", "a new start",
};

static bool
is_minor(const char *name)
{
    for (int i = 0; i < COUNT(minor); i++)
        if (strcmp(name, minor[i]) == 0)
            return true;
    return false;
}

/* Whether a name is how the token is written, not a phrase for it. */
static bool
is_spelling(const char *name)
{
    return strchr(name, ' ') == NULL;
}

static void
add_alternative(Str *s, const char *name, bool is_last)
{
    const char *quote = is_spelling(name) ? "\"" : "";
    str_addf(s, "%s%s%s%s",
             !s->len   ? ""
             : is_last ? " or "
                       : ", ",
             quote, name, quote);
}

/* "," and ")" and the like, by name. */
static const char *
few_tokens(FeParser *ps, const Expected *set)
{
    const char *chosen[4];
    int n = 0;
    bool skip_minor = is_after_operand(set);
    for (int i = 0; i < set->n; i++) {
        if (skip_minor && is_minor(set->names[i]))
            continue;
        if (strcmp(set->names[i], ";") == 0)
            continue; /* "the end of the line" says it */
        if (n == COUNT(chosen))
            return "something else";
        chosen[n++] = set->names[i];
    }
    Str s = str_new(ps->arena);
    for (int i = 0; i < n; i++)
        add_alternative(&s, chosen[i], i == n - 1);
    return n ? str_text(&s) : "an operator";
}

static const char *
describe(FeParser *ps, const Expected *set)
{
    if (is_statement_due(set))
        return "a statement";
    if (is_declaration_due(set))
        return "a declaration";
    if (is_member_due(set))
        return "a var, slot, let or fn";
    if (is_operand_due(set))
        return "an expression";
    return few_tokens(ps, set);
}

/* ---- the tokens around the place ---------------------------------------- */

static bool
is_nothing(const FeToken *t)
{
    return t->kind == T_NEWLINE || t->kind == T_END;
}

static bool
has_before(const FeParser *ps)
{
    int kind = ps->before_last.kind;
    return kind != 0 && kind != T_NEWLINE && kind != T_RESYNC &&
           kind != T_SEMICOLON;
}

/* The missing token belongs at the end of the line before. */
static bool
is_missing(const FeParser *ps)
{
    int before = ps->before_last.kind;
    return is_nothing(&ps->last) ||
           (ps->last.first_on_line && has_before(ps) && before != T_LPAREN &&
            before != T_LSQUARE && before != T_LBRACE);
}

/* As it stands in the source, cut to a readable length. */
static const char *
spelling(FeParser *ps, const FeToken *t)
{
    enum { MAX_LEN = 40 };
    int len = (int)(t->place.end - t->place.start);
    if (t->kind == T_STRING_BEGIN || t->kind == T_STRING_END)
        return "the string";
    return arena_printf(ps->arena, "\"%.*s\"", len < MAX_LEN ? len : MAX_LEN,
                        ps->text + t->place.start);
}

/* At the end of a line the message is about the token before it. */
static FePlace
place_of_error(const FeParser *ps)
{
    return is_missing(ps) && has_before(ps) ? ps->before_last.place
                                            : ps->last.place;
}

static bool
is_closer(int kind)
{
    return kind == T_RPAREN || kind == T_RSQUARE || kind == T_RBRACE ||
           kind == T_HOLE_END;
}

static bool
is_reserved(int kind)
{
    return kind >= T_AND && kind <= T_WITH;
}

/* Tokens that begin a declaration and no statement. */
static bool
is_declaration_word(int kind)
{
    return fe_begins_declaration(kind) && kind != T_FN && kind != T_LET;
}

/* The innermost bracket that was open before the token; NULL if none. */
static const FeBracket *
open_before(const FeParser *ps)
{
    for (int i = ps->open.len - 1; i >= 0; i--)
        if (ps->open.data[i].place.start < ps->last.place.start)
            return &ps->open.data[i];
    return NULL;
}

static bool
is_in_block(const FeParser *ps)
{
    const FeBracket *b = open_before(ps);
    return b && b->kind == OPEN_BLOCK;
}

/* A line like the first one of a declaration, inside a block. */
static bool
is_new_declaration(const FeParser *ps)
{
    return is_declaration_word(ps->last.kind) && ps->last.first_on_line &&
           ps->last.place.col <= ps->item_col;
}

/* ---- slips -------------------------------------------------------------- */

static bool
is_misplaced_declaration(const FeParser *ps, const Expected *set)
{
    return is_statement_due(set) && is_declaration_word(ps->last.kind) &&
           !is_new_declaration(ps);
}

static bool
is_slot_outside(const FeParser *ps, const Expected *set)
{
    return (is_statement_due(set) || is_declaration_due(set)) &&
           ps->last.kind == T_SLOT;
}

static bool
is_statement_outside(const FeParser *ps, const Expected *set)
{
    static const int kinds[] = {T_NAME,  T_FOR,    T_WHILE,  T_IF,
                                T_MUT,   T_RUN,    T_MERGE,  T_RETURN,
                                T_BREAK, T_LPAREN, T_UPDATE, T_SCHEDULE};
    if (!is_declaration_due(set))
        return false;
    for (int i = 0; i < COUNT(kinds); i++)
        if (ps->last.kind == kinds[i])
            return true;
    return false;
}

static bool
is_decrement(const FeParser *ps, const Expected *set)
{
    const FeToken *t = &ps->before_last;
    return is_operand_due(set) && t->kind == T_MINUS && t->place.start > 0 &&
           ps->text[t->place.start - 1] == '-' &&
           (is_nothing(&ps->last) || is_closer(ps->last.kind) ||
            ps->last.kind == T_SEMICOLON);
}

static bool
is_whole_as_operand(const FeParser *ps, const Expected *set)
{
    return is_operand_due(set) && !is_statement_due(set) && !is_missing(ps) &&
           (ps->last.kind == T_IF || ps->last.kind == T_FN);
}

/* x if c else y, as in Python. */
static bool
is_if_behind(const FeParser *ps, const Expected *set)
{
    int before = ps->before_last.kind;
    return ps->last.kind == T_IF && !ps->last.first_on_line &&
           fe_ends_expr(before) && before != T_RBRACE && !is_statement_due(set);
}

static bool
is_bare_tuple(const FeParser *ps, const Expected *set)
{
    (void)set;
    return ps->last.kind == T_COMMA && (!open_before(ps) || is_in_block(ps));
}

static bool
is_empty_hole(const FeParser *ps, const Expected *set)
{
    (void)set;
    return ps->last.kind == T_HOLE_END && ps->before_last.kind == T_HOLE_BEGIN;
}

static bool
is_operator_at_start(const FeParser *ps, const Expected *set)
{
    return is_statement_due(set) && ps->last.first_on_line &&
           ps->last.kind >= T_EQ && ps->last.kind <= T_POW;
}

/* let x: f32 = ...: a let takes its type from its value. */
static bool
is_type_of_name(const FeParser *ps, const Expected *set)
{
    return set->n == 1 && expects(set, "=") && ps->last.kind == T_COLON &&
           ps->before_last.kind == T_NAME;
}

/* A declaration that ends where its value is due. */
static bool
is_value_missing(const FeParser *ps, const Expected *set)
{
    return is_missing(ps) && expects(set, "=") && !expects(set, "{") &&
           !is_after_operand(set);
}

/* What has ended, and a word that begins a statement behind it. */
static bool
is_second_statement(const FeParser *ps, const Expected *set)
{
    static const int kinds[] = {T_NAME,   T_FOR,   T_WHILE, T_IF,
                                T_MUT,    T_LET,   T_RUN,   T_MERGE,
                                T_RETURN, T_BREAK, T_UPDATE};
    if (!expects(set, ";") || ps->last.first_on_line ||
        !(is_closer(ps->before_last.kind) ||
          ps->before_last.kind == T_STRING_END))
        return false;
    for (int i = 0; i < COUNT(kinds); i++)
        if (ps->last.kind == kinds[i])
            return true;
    return false;
}

/* if x > 1: of Python. */
static bool
is_colon_for_block(const FeParser *ps, const Expected *set)
{
    return ps->last.kind == T_COLON && expects(set, "{");
}

/* The { of a block on a line of its own, as C has it. */
static bool
is_block_below(const FeParser *ps, const Expected *set)
{
    uint32_t at = ps->last.place.start;
    while (at < ps->len && strchr(" \t\r\n", ps->text[at]))
        at++;
    return is_nothing(&ps->last) && expects(set, "{") && at < ps->len &&
           ps->text[at] == '{';
}

/* 1..=3 of Rust. */
static bool
is_closed_range(const FeParser *ps, const Expected *set)
{
    return is_operand_due(set) && ps->last.kind == T_ASSIGN &&
           ps->before_last.kind == T_DOTDOT;
}

static bool
is_slash_comment(const FeParser *ps, const Expected *set)
{
    return ps->last.kind == T_FLOORDIV &&
           (is_declaration_due(set) || is_statement_due(set));
}

/* f"..." of Python. */
static bool
is_prefixed_string(const FeParser *ps, const Expected *set)
{
    const FeToken *t = &ps->before_last;
    (void)set;
    return ps->last.kind == T_STRING_BEGIN && t->kind == T_NAME &&
           strcmp(t->text, "f") == 0 && t->place.end == ps->last.place.start;
}

/* print x */
static bool
is_call_without(const FeParser *ps, const Expected *set)
{
    const FeToken *t = &ps->before_last;
    return expects(set, ";") && !ps->last.first_on_line && t->kind == T_NAME &&
           (strcmp(t->text, "print") == 0 || strcmp(t->text, "assert") == 0);
}

/* int z = 3 */
static bool
is_declared_as_in_c(const FeParser *ps, const Expected *set)
{
    static const char *const types[] = {
        "int", "float", "double", "auto", "bool", "f32", "f64", "i32", "i64"};
    const FeToken *t = &ps->before_last;
    if (!expects(set, ";") || ps->last.kind != T_NAME || t->kind != T_NAME)
        return false;
    for (int i = 0; i < COUNT(types); i++)
        if (strcmp(t->text, types[i]) == 0)
            return true;
    return false;
}

/* Two operands in parentheses or in a list. */
static bool
is_comma_missing(const FeParser *ps, const Expected *set)
{
    int kind = ps->last.kind;
    return expects(set, ",") && (expects(set, ")") || expects(set, "]")) &&
           !ps->last.first_on_line &&
           (kind == T_INT || kind == T_FLOAT || kind == T_NAME ||
            kind == T_STRING_BEGIN);
}

const char *
fe_rest_of_line(FeParser *ps, uint32_t start)
{
    size_t n = 0;
    while (start + n < ps->len && ps->text[start + n] != '\n')
        n++;
    while (n &&
           (ps->text[start + n - 1] == ' ' || ps->text[start + n - 1] == ';'))
        n--;
    return arena_printf(ps->arena, "%.*s", (int)n, ps->text + start);
}

typedef struct Slip {
    bool (*is_it)(const FeParser *ps, const Expected *set);
    const char *message;
    const char *note; /* or NULL */
} Slip;

static const Slip slip_info[] = {
    {is_misplaced_declaration,
     MESSAGE("this declaration stands at the top level, not in a block"),
     "write it above, outside of all blocks; within one, let declares a value, "
     "and mut one that changes"},
    {is_slot_outside, MESSAGE("a slot stands in a module"), NULL},
    {is_statement_outside,
     MESSAGE("a statement stands in main or in a function"), NULL},
    {is_decrement, MESSAGE("there is no --: write -= 1"), NULL},
    {is_whole_as_operand,
     MESSAGE("an if or fn that is part of an expression stands in parentheses"),
     NULL},
    {is_if_behind, MESSAGE("an if stands before its values"),
     "write (if c { a } else { b })"},
    {is_colon_for_block, MESSAGE("a block stands in braces"),
     "write { in place of the colon, and } behind the last line of the block"},
    {is_block_below, MESSAGE("a block begins on the line of its head"),
     "write { at the end of this line"},
    {is_closed_range,
     MESSAGE("there is no ..=: a range has all numbers below "
             "its end"),
     "leave the = out, and write the number after the last one: 1..4 is 1, 2 "
     "and 3"},
    {is_slash_comment, MESSAGE("a comment begins with #"),
     "write # in place of //"},
    {is_prefixed_string, MESSAGE("there is no f before a string"),
     "leave the f out: every string has its values in braces"},
    {is_declared_as_in_c,
     MESSAGE("a local is declared by let, or by mut if it "
             "changes"),
     "write let in place of the type"},
    {is_comma_missing, MESSAGE("two values have a comma between them"),
     "write , before this one"},
    {is_bare_tuple, MESSAGE("a tuple is written in parentheses"),
     "write it as in (a, b)"},
    {is_empty_hole,
     MESSAGE("there is no expression in this hole of the string"),
     "braces are written {{ and }}"},
    {is_type_of_name,
     MESSAGE("only variables, parameters and locals have a type"),
     "cast the value: const x = u8(250)"},
    {is_value_missing, MESSAGE("this declaration needs a value"),
     "write it behind a =, as in param lr: f32 = 0.1"},
    {is_second_statement,
     MESSAGE("two statements on one line have a ; between them"),
     "write ; before this one"},
    {is_operator_at_start,
     MESSAGE("a statement does not begin with an operator"),
     "end the line before with it, or put the expression in parentheses"},
};

/* print("loss {loss}") of "loss", loss. */
static const char *
print_of(FeParser *ps, const char *arguments)
{
    const char *quote = *arguments == '"' ? strchr(arguments + 1, '"') : NULL;
    Str s = str_new(ps->arena);
    if (quote)
        str_addf(&s, "print(%.*s", (int)(quote - arguments), arguments);
    else
        str_add(&s, "print(\"");
    const char *rest = quote ? quote + 1 : arguments;
    while (*rest) {
        rest += strspn(rest, ", ");
        int n = (int)strcspn(rest, ",");
        str_addf(&s, "%s{%.*s}", s.len > 7 ? " " : "", n, rest);
        rest += n;
    }
    str_add(&s, "\")");
    return str_text(&s);
}

/* A call of print or assert whose arguments stand in no parentheses. */
static bool
report_call(FeParser *ps, const Expected *set)
{
    if (!is_call_without(ps, set))
        return false;
    const char *name = ps->before_last.text;
    const char *rest = fe_rest_of_line(ps, ps->last.place.start);
    fe_syntax_error(ps, ps->before_last.place,
                    "the arguments of a function stand in parentheses");
    fe_note(ps, ps->before_last.place, "write %s",
            strcmp(name, "print") == 0
                ? print_of(ps, rest)
                : arena_printf(ps->arena, "%s(%.*s, \"it does not hold\")",
                               name, (int)strcspn(rest, ";}"), rest));
    return true;
}

/* let a = (1, 5), of let a = 1, 5, where the comma is behind the =; "1,5" may
 * be meant as a decimal. */
static const char *
tuple_as_value(FeParser *ps, const char *text, const char *value,
               uint32_t comma)
{
    int n = (int)strcspn(value, ";}");
    while (n && value[n - 1] == ' ')
        n--;
    const char *at = ps->text + comma;
    bool is_decimal = comma + 1 < ps->len && at[-1] >= '0' && at[-1] <= '9' &&
                      at[1] >= '0' && at[1] <= '9';
    return arena_printf(ps->arena, "%.*s(%.*s)%s", (int)(value - text), text, n,
                        value,
                        is_decimal ? "; a decimal has a point, as 1.5" : "");
}

/* return (a, b), of return a, b; let (a, b), of let a, b = ...  NULL where
 * the line is another one. */
static const char *
tuple_of(FeParser *ps)
{
    static const char *const words[] = {"return ", "let ", "mut ", "for "};
    uint32_t comma = ps->last.place.start, line = comma;
    while (line > 0 && ps->text[line - 1] != '\n')
        line--;
    const char *text = fe_rest_of_line(ps, line);
    for (int i = 0; i < COUNT(words); i++) {
        const char *at = strstr(text, words[i]);
        if (!at || at > text + (comma - line))
            continue;
        const char *from = at + strlen(words[i]);
        const char *end = i == 0 ? NULL : strstr(from, i == 3 ? " in " : " = ");
        if (end && i < 3 && end < text + (comma - line))
            return tuple_as_value(ps, at, end + 3, comma);
        int n = end ? (int)(end - from) : (int)strcspn(from, ";}");
        while (n && from[n - 1] == ' ')
            n--;
        return arena_printf(ps->arena, "%s(%.*s)", words[i], n, from);
    }
    return NULL;
}

static bool
report_slip(FeParser *ps, const Expected *set)
{
    if (report_call(ps, set))
        return true;
    for (int i = 0; i < COUNT(slip_info); i++) {
        const Slip *slip = &slip_info[i];
        if (!slip->is_it(ps, set))
            continue;
        FePlace place = slip->is_it == is_declared_as_in_c
                            ? ps->before_last.place
                            : place_of_error(ps);
        fe_syntax_error(ps, place, "%s", slip->message);
        const char *tuple = slip->is_it == is_bare_tuple ? tuple_of(ps) : NULL;
        if (tuple)
            fe_note(ps, place, "write %s", tuple);
        else if (slip->note)
            fe_note(ps, place, "%s", slip->note);
        return true;
    }
    return false;
}

/* ---- the message -------------------------------------------------------- */

/* A slip of the keyword that a declaration begins with. */
static void
note_keyword(FeParser *ps, const Expected *set)
{
    static const char *const words[] = {"use", "const",   "param", "strategy",
                                        "var", "dataset", "fn",    "module",
                                        "let", "main"};
    if (ps->last.kind != T_NAME || !is_declaration_due(set))
        return;
    const char *near = nearest_name(ps->last.text, words, COUNT(words));
    if (near)
        fe_note(ps, ps->last.place, "did you mean %s?", near);
}

static void
note_open(FeParser *ps, const FeBracket *b)
{
    char bracket = b->kind == OPEN_HOLE ? '{' : (char)b->kind;
    char closer = bracket == '(' ? ')' : bracket == '[' ? ']' : '}';
    fe_note(ps, b->place,
            "the %c that is not closed is here: write %c where it ends",
            bracket, closer);
}

/* A "}" is missing, and maybe far above. */
static bool
report_open_block(FeParser *ps)
{
    bool is_end = ps->last.kind == T_END;
    if (!is_in_block(ps) || !(is_end || is_new_declaration(ps)))
        return false;
    fe_syntax_error(ps, ps->last.place, "expected } before %s",
                    is_end ? "the end of the file" : spelling(ps, &ps->last));
    note_open(ps, open_before(ps));
    return true;
}

/* A bracket that was opened on a line above is more often forgotten than not;
 * so is one that meets a wrong closer. */
static void
note_open_bracket(FeParser *ps)
{
    const FeBracket *b = open_before(ps);
    if (!b || b->kind == OPEN_BLOCK || b->kind == OPEN_STRING)
        return;
    if (b->place.line != ps->last.place.line || is_nothing(&ps->last) ||
        is_closer(ps->last.kind))
        note_open(ps, b);
}

/* A bracket that is open where a statement ends, or the next one begins. */
static bool
report_open_bracket(FeParser *ps, const Expected *set)
{
    const FeBracket *b = open_before(ps);
    bool is_paren = b && b->kind == OPEN_PAREN && expects(set, ")");
    bool is_square = b && b->kind == OPEN_SQUARE && expects(set, "]");
    bool is_end = is_nothing(&ps->last) || is_reserved(ps->last.kind) ||
                  is_closer(ps->last.kind);
    if (!is_missing(ps) || !is_end || !(is_paren || is_square))
        return false;
    fe_syntax_error(ps, place_of_error(ps), "a %c is not closed",
                    (char)b->kind);
    note_open(ps, b);
    return true;
}

/* let x = while …, which is no attempt to give something that name. */
static bool
is_statement_in_expression(const FeParser *ps, const Expected *set)
{
    static const int words[] = {T_FOR,   T_WHILE,    T_IF,  T_ELSE, T_RETURN,
                                T_BREAK, T_CONTINUE, T_LET, T_MUT};
    for (int i = 0; i < COUNT(words); i++)
        if (ps->last.kind == words[i])
            return expects(set, "a number");
    return false;
}

/* var(x) is the variance elsewhere. */
static void
note_reserved(FeParser *ps)
{
    const FeToken *t = &ps->last;
    if (t->kind == T_VAR && *fe_rest_of_line(ps, t->place.end) == '(')
        fe_note(ps, t->place, "the variance is std(...) ** 2");
    else if (t->kind == T_MAIN && ps->before_last.kind == T_FN)
        fe_note(ps, t->place, "write main { ... }, without fn and ()");
    else
        fe_note(ps, t->place,
                "choose another name: %s is a word of the language",
                spelling(ps, t));
}

static void
report_expected(FeParser *ps, const Expected *set)
{
    const char *wanted = describe(ps, set);
    const char *after = has_before(ps)
                            ? arena_printf(ps->arena, " after %s",
                                           spelling(ps, &ps->before_last))
                            : "";
    const char *reserved = is_reserved(ps->last.kind) && expects(set, "a name")
                               ? "the reserved word "
                               : "";
    if (is_missing(ps))
        fe_syntax_error(ps, place_of_error(ps), "expected %s%s", wanted, after);
    else
        fe_syntax_error(ps, place_of_error(ps), "expected %s%s, not %s%s",
                        wanted, after, reserved, spelling(ps, &ps->last));
    note_open_bracket(ps);
    if (*reserved && !is_missing(ps) && !is_statement_in_expression(ps, set))
        note_reserved(ps);
    if (!is_missing(ps))
        fe_note_names(ps, expects(set, "a number"), expects(set, ":"),
                      expects(set, ")"));
}

/* On a line with an error already this one most often comes from that. */
static void
report(FeParser *ps, const Expected *set)
{
    if (ps->error_line == place_of_error(ps).line)
        return;
    if (fe_report_foreign_word(ps))
        return;
    if (!report_open_block(ps) && !report_slip(ps, set) &&
        !report_open_bracket(ps, set))
        report_expected(ps, set);
    note_keyword(ps, set);
}

void
fe_unexpected(FeParser *ps, const char *const *expected, int n)
{
    Expected set = {expected, n};
    if (ps->last.kind != T_WRONG)
        report(ps, &set);
    ps->recovering = true;
}
