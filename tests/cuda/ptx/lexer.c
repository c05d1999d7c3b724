/*
 * lexer.c - the tokens of a PTX text
 *
 * The text has a length and need not be terminated: every look at a byte is
 * through peek(), which gives 0 at the end.
 */
#include "tests/cuda/ptx/lexer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
ptx_fail(Lexer *x, int line, const char *format, ...)
{
    if (!x->failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(x->error->text, sizeof x->error->text, format, args);
        va_end(args);
        x->error->line = line;
    }
    x->failed = true;
    x->token = (Token){.kind = TOKEN_END, .line = line};
}

static int
peek(const Lexer *x, int ahead)
{
    return x->end - x->at > ahead ? (unsigned char)x->at[ahead] : 0;
}

/* ---- blanks and comments ------------------------------------------------ */

static void
skip_line(Lexer *x)
{
    while (x->at < x->end && *x->at != '\n')
        x->at++;
}

static void
skip_block(Lexer *x)
{
    int first = x->line;
    for (x->at += 2; x->at < x->end; x->at++) {
        if (peek(x, 0) == '*' && peek(x, 1) == '/') {
            x->at += 2;
            return;
        }
        x->line += *x->at == '\n';
    }
    ptx_fail(x, first, "a comment without an end");
}

static void
skip_blanks(Lexer *x)
{
    while (x->at < x->end) {
        int c = peek(x, 0);
        if (c == '\n' || c == ' ' || c == '\t' || c == '\r') {
            x->line += c == '\n';
            x->at++;
        } else if (c == '/' && peek(x, 1) == '/') {
            skip_line(x);
        } else if (c == '/' && peek(x, 1) == '*') {
            skip_block(x);
        } else {
            return;
        }
    }
}

/* ---- names and numbers -------------------------------------------------- */

static bool
is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool
begins_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '$' || c == '%' || c == '.';
}

static int
value_of_digit(int c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Digits to a base, and how many they are; false: over 64 bits. */
static bool
read_digits(Lexer *x, unsigned base, uint64_t *value, int *num)
{
    *value = 0;
    for (*num = 0; value_of_digit(peek(x, 0)) < (int)base; ++*num) {
        uint64_t digit = (uint64_t)value_of_digit(peek(x, 0));
        if (__builtin_mul_overflow(*value, (uint64_t)base, value) ||
            __builtin_add_overflow(*value, digit, value))
            return false;
        x->at++;
    }
    return true;
}

/* The base that a prefix of a number stands for; takes the prefix. */
static unsigned
take_base(Lexer *x)
{
    static const struct {
        char letter;
        unsigned base;
    } prefixes[] = {{'x', 16}, {'b', 2}, {'f', 16}, {'d', 16}};
    if (peek(x, 0) != '0')
        return 10;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if ((peek(x, 1) | 0x20) == prefixes[i].letter) {
            x->at += 2;
            return prefixes[i].base;
        }
    }
    return is_digit(peek(x, 1)) ? 8 : 10;
}

static void
read_number(Lexer *x)
{
    Token *t = &x->token;
    int letter = peek(x, 0) == '0' ? peek(x, 1) | 0x20 : 0;
    t->kind = letter == 'f' ? TOKEN_F32 : letter == 'd' ? TOKEN_F64 : TOKEN_INT;
    int num, want = letter == 'f' ? 8 : letter == 'd' ? 16 : 0;
    unsigned base = take_base(x);
    if (!read_digits(x, base, &t->bits, &num))
        ptx_fail(x, x->line, "a number of over 64 bits");
    else if (num == 0 || (want && num != want))
        ptx_fail(x, x->line, "a number with too few or too many digits");
    else if (t->kind == TOKEN_INT && peek(x, 0) == 'U')
        x->at++;
    else if (peek(x, 0) != '.' &&
             (begins_name(peek(x, 0)) || is_digit(peek(x, 0))))
        ptx_fail(x, x->line, "unknown character in a number");
}

static void
read_name(Lexer *x)
{
    const char *first = x->at;
    while (begins_name(peek(x, 0)) || is_digit(peek(x, 0)))
        x->at++;
    x->token.kind = TOKEN_NAME;
    x->token.name = intern_n(x->names, first, (size_t)(x->at - first));
}

void
ptx_next(Lexer *x)
{
    if (x->failed)
        return;
    skip_blanks(x);
    if (x->failed)
        return;
    int c = peek(x, 0);
    x->token = (Token){.kind = TOKEN_END, .line = x->line, .name = ""};
    if (x->at >= x->end)
        return;
    if (begins_name(c)) {
        read_name(x);
    } else if (is_digit(c)) {
        read_number(x);
    } else if (c && strchr(",;:{}[]()<>@!+-=|", c)) {
        x->token.kind = TOKEN_MARK;
        x->token.mark = (char)c;
        x->at++;
    } else {
        ptx_fail(x, x->line, "unknown character 0x%02x", (unsigned)c);
    }
}

void
ptx_lexer_open(Lexer *x, const char *text, size_t len, Intern *names,
               PtxError *error)
{
    *x = (Lexer){.at = text,
                 .end = text + len,
                 .line = 1,
                 .names = names,
                 .error = error};
    ptx_next(x);
}

/* ---- what must come ----------------------------------------------------- */

bool
ptx_is(const Lexer *x, char mark)
{
    return x->token.kind == TOKEN_MARK && x->token.mark == mark;
}

bool
ptx_is_name(const Lexer *x, const char *name)
{
    return x->token.kind == TOKEN_NAME && !strcmp(x->token.name, name);
}

bool
ptx_take(Lexer *x, char mark)
{
    bool is = ptx_is(x, mark);
    if (is)
        ptx_next(x);
    return is;
}

bool
ptx_take_name(Lexer *x, const char *name)
{
    bool is = ptx_is_name(x, name);
    if (is)
        ptx_next(x);
    return is;
}

void
ptx_expect(Lexer *x, char mark)
{
    if (!ptx_take(x, mark))
        ptx_fail(x, x->token.line, "expected '%c'", mark);
}

const char *
ptx_expect_any_name(Lexer *x, const char *what)
{
    const char *name = x->token.name;
    if (x->token.kind != TOKEN_NAME) {
        ptx_fail(x, x->token.line, "expected %s", what);
        return "";
    }
    ptx_next(x);
    return name;
}

int64_t
ptx_expect_int(Lexer *x, const char *what)
{
    bool negative = ptx_take(x, '-');
    uint64_t bits = x->token.bits;
    if (x->token.kind != TOKEN_INT) {
        ptx_fail(x, x->token.line, "expected %s", what);
        return 0;
    }
    ptx_next(x);
    return (int64_t)(negative ? 0 - bits : bits);
}
