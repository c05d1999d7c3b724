/*
 * parse_text.c - tokens, numbers and types of the text
 */
#include "ir/text/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "ir/words.h"

/* ---- errors and tokens ------------------------------------------------- */

static Loc
loc_of(const Parser *p, const Token *t)
{
    size_t len = t->len < UINT16_MAX ? t->len : UINT16_MAX;
    return (Loc){t->line, t->col, (uint16_t)len, p->file};
}

Loc
ir_parse_here(const Parser *p)
{
    return loc_of(p, &p->token);
}

void
ir_parse_fail(Parser *p, Loc at, const char *format, ...)
{
    if (p->failed)
        return;
    va_list args;
    va_start(args, format);
    diag_error(p->diag, at, "%s", message_vprintf(p->scratch, format, args));
    va_end(args);
    p->failed = true;
    p->token.kind = TOKEN_END;
}

void
ir_parse_next(Parser *p)
{
    if (p->failed)
        return;
    p->token = ir_lex_next(&p->lexer);
    if (p->token.kind == TOKEN_BAD)
        ir_parse_fail(p, ir_parse_here(p), "%s", p->token.text);
}

static void
fail_expected(Parser *p, const char *what)
{
    const Token *t = &p->token;
    int len = t->len < 40 ? (int)t->len : 40;
    if (t->kind == TOKEN_END)
        ir_parse_fail(p, ir_parse_here(p), "expected %s, not the end", what);
    else
        ir_parse_fail(p, ir_parse_here(p), "expected %s, not %.*s", what, len,
                      t->at);
}

bool
ir_parse_is(const Parser *p, char punct)
{
    return p->token.kind == TOKEN_PUNCT && *p->token.at == punct;
}

bool
ir_parse_is_word(const Parser *p, const char *word)
{
    return p->token.kind == TOKEN_WORD && p->token.len == strlen(word) &&
           memcmp(p->token.at, word, p->token.len) == 0;
}

bool
ir_parse_accept(Parser *p, char punct)
{
    bool is = ir_parse_is(p, punct);
    if (is)
        ir_parse_next(p);
    return is;
}

bool
ir_parse_accept_word(Parser *p, const char *word)
{
    bool is = ir_parse_is_word(p, word);
    if (is)
        ir_parse_next(p);
    return is;
}

void
ir_parse_expect(Parser *p, char punct)
{
    char what[] = {punct, 0};
    if (!ir_parse_accept(p, punct))
        fail_expected(p, what);
}

void
ir_parse_expect_word(Parser *p, const char *word)
{
    if (!ir_parse_accept_word(p, word))
        fail_expected(p, word);
}

const char *
ir_parse_word(Parser *p, const char *what)
{
    if (p->token.kind != TOKEN_WORD) {
        fail_expected(p, what);
        return "";
    }
    const char *word = intern_n(p->module->names, p->token.at, p->token.len);
    ir_parse_next(p);
    return word;
}

/* The index in words of the next token, or -1. */
static int
find_word(const Parser *p, const char *const *words)
{
    if (p->token.kind != TOKEN_WORD)
        return -1;
    return ir_word_index(words, p->token.at, p->token.len);
}

int
ir_parse_word_of(Parser *p, const char *const *words, const char *what)
{
    int i = find_word(p, words);
    if (i < 0) {
        fail_expected(p, what);
        return 0;
    }
    ir_parse_next(p);
    return i;
}

int
ir_parse_one_of(Parser *p, IrWordList list, unsigned allowed, const char *what)
{
    int i = find_word(p, ir_words[list]);
    if (i < 0 || !(allowed >> i & 1)) {
        fail_expected(p, what);
        return 0;
    }
    ir_parse_next(p);
    return i;
}

const char *
ir_parse_name(Parser *p)
{
    if (p->token.kind != TOKEN_NAME) {
        fail_expected(p, "a @name");
        return "";
    }
    const char *name = intern(p->module->names, p->token.text);
    ir_parse_next(p);
    return name;
}

const char *
ir_parse_string(Parser *p)
{
    if (p->token.kind != TOKEN_STRING) {
        fail_expected(p, "a \"string\"");
        return "";
    }
    const char *text = p->token.text;
    ir_parse_next(p);
    return text;
}

/* ---- numbers ----------------------------------------------------------- */

/* The digits of an integer with its sign; false on overflow or a fraction. */
static bool
read_int(const Token *t, bool negative, int64_t *out)
{
    int64_t x = 0;
    for (size_t i = 0; i < t->len; i++) {
        int digit = t->at[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, negative ? -digit : digit, &x))
            return false;
    }
    *out = x;
    return true;
}

int64_t
ir_parse_int(Parser *p, int64_t low, int64_t high)
{
    int64_t x;
    Loc at = ir_parse_here(p);
    bool negative = ir_parse_accept(p, '-');
    if (p->token.kind != TOKEN_NUMBER) {
        fail_expected(p, "a whole number");
        return low;
    }
    if (!read_int(&p->token, negative, &x) || x < low || x > high) {
        ir_parse_fail(p, at, "this is no whole number from %lld to %lld",
                      (long long)low, (long long)high);
        return low;
    }
    ir_parse_next(p);
    return x;
}

enum { MAX_FLOAT_TEXT = 400 }; /* more digits than any float has */

static double
read_float(Parser *p, DType t)
{
    char text[MAX_FLOAT_TEXT + 1];
    if (p->token.kind == TOKEN_NUMBER && p->token.len <= MAX_FLOAT_TEXT) {
        memcpy(text, p->token.at, p->token.len);
        text[p->token.len] = 0;
        ir_parse_next(p);
        /* Rounded once: the text of an f32 is the shortest for an f32. */
        return t == DT_f64 ? strtod(text, NULL) : strtof(text, NULL);
    }
    if (ir_parse_accept_word(p, "inf"))
        return INFINITY;
    if (ir_parse_accept_word(p, "nan"))
        return NAN;
    fail_expected(p, "a number");
    return 0;
}

/* A number of dtype t with its sign; only inf may be infinite. */
static Scalar
read_signed(Parser *p, DType t)
{
    Loc at = ir_parse_here(p);
    double sign = ir_parse_accept(p, '-') ? -1.0 : 1.0;
    bool is_number = p->token.kind == TOKEN_NUMBER;
    Scalar x = scalar_float(t, sign * read_float(p, t));
    if (is_number && !isfinite(x.f))
        ir_parse_fail(p, at, "a number that does not fit %s",
                      dtype_info[t].name);
    return x;
}

Scalar
ir_parse_scalar(Parser *p, DType t)
{
    if (t == DT_bool) {
        bool is_true = ir_parse_accept_word(p, "true");
        if (!is_true)
            ir_parse_expect_word(p, "false");
        return scalar_int(t, is_true);
    }
    if (dtype_is_float(t)) {
        return read_signed(p, t);
    }
    Loc at = ir_parse_here(p);
    int64_t x = ir_parse_int(p, INT64_MIN, INT64_MAX);
    if (!int_fits(t, x))
        ir_parse_fail(p, at, "%lld does not fit %s", (long long)x,
                      dtype_info[t].name);
    return scalar_int(t, x);
}

static int
hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

const void *
ir_parse_hex(Parser *p, int64_t *size)
{
    *size = 0;
    ir_parse_expect_word(p, "hex");
    Loc at = ir_parse_here(p);
    const char *text = ir_parse_string(p);
    size_t n = strlen(text) / 2;
    unsigned char *bytes = arena_alloc(p->module->arena, n);
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            ir_parse_fail(p, at, "a hexadecimal digit is 0 to 9 or a to f");
            return bytes;
        }
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    if (strlen(text) % 2)
        ir_parse_fail(p, at, "a byte has two hexadecimal digits");
    *size = (int64_t)n;
    return bytes;
}

/* ---- types ------------------------------------------------------------- */

DType
ir_parse_dtype(Parser *p)
{
    DType t = DT_f32;
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, "an element type");
    if (!p->failed && !dtype_by_name(word, &t))
        ir_parse_fail(p, at, "there is no element type %s", word);
    return t;
}

int32_t
ir_parse_symbol(Parser *p, const char *what)
{
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, what);
    intptr_t number = (intptr_t)map_get(p->symbols, word);
    if (!number)
        ir_parse_fail(p, at, "there is no batch symbol %s", word);
    return (int32_t)number - 1;
}

/* 7, n, n+1, 2*n, 2*n-3. */
static Dim
parse_dim(Parser *p)
{
    int64_t k = 1, c = 0;
    if (p->token.kind != TOKEN_WORD) {
        k = ir_parse_int(p, INT64_MIN, INT64_MAX);
        if (!ir_parse_accept(p, '*'))
            return ir_dim_const(k);
    }
    int32_t sym = ir_parse_symbol(p, "a dimension");
    if (ir_parse_accept(p, '+'))
        c = ir_parse_int(p, 0, INT64_MAX);
    else if (ir_parse_is(p, '-'))
        c = ir_parse_int(p, INT64_MIN, 0);
    return ir_dim_linear(c, k, sym);
}

int
ir_parse_dims(Parser *p, Dim *dims, int max)
{
    int n = 0;
    ir_parse_expect(p, '[');
    while (!p->failed && !ir_parse_accept(p, ']')) {
        if (n == max) {
            ir_parse_fail(p, ir_parse_here(p),
                          "a type has at most %d dimensions", max);
            break;
        }
        if (n)
            ir_parse_expect(p, ',');
        dims[n++] = parse_dim(p);
    }
    return n;
}

/* Whether a [ begins a place: "[arena+64]", "[in 0]". */
static bool
is_place(const Parser *p)
{
    Lexer ahead = p->lexer;
    if (!ir_parse_is(p, '['))
        return false;
    Token t = ir_lex_next(&ahead);
    return t.kind == TOKEN_WORD &&
           ir_word_index(ir_space_words, t.at, t.len) >= 0;
}

IrPlace
ir_parse_place(Parser *p)
{
    IrPlace place = {SPACE_NONE, 0};
    if (!is_place(p))
        return place;
    ir_parse_expect(p, '[');
    place.space = (IrSpace)ir_parse_word_of(p, ir_space_words, "a place");
    if (place.space != SPACE_IN && place.space != SPACE_OUT)
        ir_parse_expect(p, '+');
    place.offset = ir_parse_int(p, 0, INT64_MAX);
    ir_parse_expect(p, ']');
    return place;
}

static void
parse_locality(Parser *p, IrType *t)
{
    if (p->token.first)
        return;
    if (ir_parse_accept_word(p, "mirrored")) {
        t->locality = LOCAL_MIRRORED;
    } else if (ir_parse_accept_word(p, "per_replica")) {
        t->locality = LOCAL_PER_REPLICA;
    } else if (ir_parse_accept_word(p, "on")) {
        ir_parse_expect(p, '(');
        t->locality = LOCAL_ON;
        t->on = ir_parse_name(p);
        ir_parse_expect(p, ')');
    }
}

IrType
ir_parse_type(Parser *p)
{
    int64_t bytes;
    Loc at = ir_parse_here(p);
    IrType t = {.dtype = ir_parse_dtype(p)};
    if (ir_parse_is(p, '[') && !is_place(p))
        t.rank = ir_parse_dims(p, t.dims, IR_MAX_RANK);
    parse_locality(p, &t);
    if (!p->failed && !ir_type_bytes(p->module, &t, &bytes))
        ir_parse_fail(p, at, "a value of type %s is too large",
                      ir_type_text(p->module, &t));
    return t;
}

/* The diag's number of the text's source. */
static uint16_t
parse_source(Parser *p, Loc at, int64_t number)
{
    if (number < p->module->sources.len)
        return p->module->sources.data[number];
    ir_parse_fail(p, at, "there is no source %lld", (long long)number);
    return 0;
}

Loc
ir_parse_loc(Parser *p)
{
    if (p->token.first || !ir_parse_accept_word(p, "at"))
        return NO_LOC;
    Loc loc, at = ir_parse_here(p);
    int64_t first = ir_parse_int(p, 0, UINT32_MAX), source = 0;
    if (ir_parse_accept(p, '/')) {
        source = first;
        first = ir_parse_int(p, 1, UINT32_MAX);
    }
    loc.line = (uint32_t)first;
    ir_parse_expect(p, ':');
    loc.col = (uint32_t)ir_parse_int(p, 0, UINT32_MAX);
    ir_parse_expect(p, '+');
    loc.len = (uint16_t)ir_parse_int(p, 0, UINT16_MAX);
    loc.file = parse_source(p, at, source);
    if (loc.line == 0)
        ir_parse_fail(p, at, "lines count from 1");
    return loc;
}
