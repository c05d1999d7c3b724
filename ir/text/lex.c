/*
 * lex.c - the text of the IR as tokens
 *
 * The only rule of layout is that an operation ends with its line: each token
 * knows whether it is the first of a line.
 */
#include "ir/text/lex.h"

#include <string.h>
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/words.h"

Lexer
ir_lex_new(Arena *a, const char *text, size_t len)
{
    return (Lexer){.arena = a,
                   .at = text,
                   .end = text + len,
                   .line_start = text,
                   .line = 1};
}

static char
peek(const Lexer *lx)
{
    return lx->at < lx->end ? *lx->at : 0;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Moves to the next token; returns whether a line began before it. */
static bool
skip_space(Lexer *lx)
{
    bool first = lx->at == lx->line_start;
    for (; lx->at < lx->end; lx->at++) {
        if (*lx->at == '\n') {
            lx->line++;
            lx->line_start = lx->at + 1;
            first = true;
        } else if (*lx->at == '#') {
            const char *end = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
            lx->at = (end ? end : lx->end) - 1;
        } else if (*lx->at != ' ' && *lx->at != '\t' && *lx->at != '\r') {
            break;
        }
    }
    return first;
}

static size_t
skip_digits(Lexer *lx)
{
    const char *start = lx->at;
    while (is_digit(peek(lx)))
        lx->at++;
    return (size_t)(lx->at - start);
}

/* 7, 1.5, 1e-5, 1.5e300. */
static void
skip_number(Lexer *lx)
{
    skip_digits(lx);
    if (peek(lx) == '.') {
        lx->at++;
        skip_digits(lx);
    }
    if (peek(lx) != 'e')
        return;
    const char *before = lx->at++;
    if (peek(lx) == '-' || peek(lx) == '+')
        lx->at++;
    if (!skip_digits(lx))
        lx->at = before;
}

static void
skip_name(Lexer *lx)
{
    while (lx->at < lx->end && ir_is_name_char(*lx->at))
        lx->at++;
}

static Token
bad(Token t, const char *why)
{
    t.kind = TOKEN_BAD;
    t.text = message_part(why);
    return t;
}

static int
hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape stands for; `at` is after the backslash. -1: none. */
static int
read_escape(Lexer *lx)
{
    static const char named[] = "\"\"\\\\n\nt\tr\r"; /* letter, byte, ... */
    char c = peek(lx);
    for (const char *p = named; *p; p += 2) {
        if (*p == c) {
            lx->at++;
            return (unsigned char)p[1];
        }
    }
    if (c != 'x' || lx->end - lx->at < 3)
        return -1;
    int high = hex_digit(lx->at[1]), low = hex_digit(lx->at[2]);
    lx->at += 3;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Reads a string; the next byte is its quote. */
static Token
read_string(Lexer *lx, Token t, TokenKind kind)
{
    Str s = str_new(lx->arena);
    t.kind = kind;
    lx->at++;
    for (;;) {
        const char *run = lx->at;
        while (lx->at < lx->end && *lx->at != '"' && *lx->at != '\\' &&
               *lx->at != '\n' && *lx->at != 0)
            lx->at++;
        str_addn(&s, run, (size_t)(lx->at - run));
        char c = peek(lx);
        if (c != '"' && c != '\\')
            return bad(t, "a string does not end on its line");
        lx->at++;
        if (c == '"')
            break;
        int byte = read_escape(lx);
        if (byte <= 0)
            return bad(t, "an escape in a string means no byte");
        str_addc(&s, (char)byte);
    }
    t.text = str_text(&s);
    return t;
}

/* Reads the name after % or @. */
static Token
read_sigil(Lexer *lx, Token t)
{
    t.kind = *lx->at == '%' ? TOKEN_VALUE : TOKEN_NAME;
    lx->at++;
    if (t.kind == TOKEN_NAME && peek(lx) == '"')
        return read_string(lx, t, TOKEN_NAME);
    const char *start = lx->at;
    skip_name(lx);
    if (lx->at == start)
        return bad(t, "a name is missing");
    t.text = arena_strndup(lx->arena, start, (size_t)(lx->at - start));
    return t;
}

static Token
read_token(Lexer *lx, Token t)
{
    char c = peek(lx);
    if (lx->at == lx->end) {
        t.kind = TOKEN_END;
    } else if (c == '%' || c == '@') {
        t = read_sigil(lx, t);
    } else if (c == '"') {
        t = read_string(lx, t, TOKEN_STRING);
    } else if (is_digit(c)) {
        t.kind = TOKEN_NUMBER;
        skip_number(lx);
    } else if (ir_is_name_char(c) && c != '.') {
        t.kind = TOKEN_WORD;
        skip_name(lx);
    } else if (c && strchr("{}()[],:=*+-/<", c)) {
        t.kind = TOKEN_PUNCT;
        lx->at++;
    } else {
        lx->at++;
        t = bad(t, "this byte has no meaning here");
    }
    t.len = (size_t)(lx->at - t.at);
    return t;
}

Token
ir_lex_next(Lexer *lx)
{
    Token t = {.first = skip_space(lx)};
    t.at = lx->at;
    t.line = lx->line;
    t.col = (uint32_t)(lx->at - lx->line_start) + 1;
    return read_token(lx, t);
}
