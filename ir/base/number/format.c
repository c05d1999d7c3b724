/*
 * format.c - values as text: elements, and the text around them
 */
#include "ir/base/number/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/number/format_impl.h"
#include "ir/base/message.h"

enum { MAX_WIDTH = 500, MAX_PRECISION = 100 };

#define COUNT 'n'       /* FORMAT_COUNT */
#define IF_COUNT '?'    /* FORMAT_IF_COUNT */
#define IF_NEGATIVE '!' /* FORMAT_IF_NEGATIVE */

/* ---- reading formats --------------------------------------------------- */

/* The types of formats and the values they accept: i integers and bool, f
 * floats. */
static const struct {
    char type;
    const char *takes;
} format_types[] = {
    {'d', "i"},  {'x', "i"},   {'X', "i"},      {'b', "i"},
    {'o', "i"},  {'e', "if"},  {'E', "if"},     {'f', "if"},
    {'F', "if"}, {'g', "if"},  {'G', "if"},     {'%', "if"},
    {'s', "u"},  {COUNT, "i"}, {IF_COUNT, "i"}, {IF_NEGATIVE, "i"},
};

static bool
is_in(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Reads digits; false when there are too many. */
static bool
read_number(const char **at, const char *end, int max, int *out)
{
    int n = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        n = n * 10 + (**at - '0');
        if (n > max)
            return false;
    }
    *out = n;
    return true;
}

/* Returns whether there is a fill. */
static bool
read_fill_and_align(const char **at, const char *end, FormatSpec *s)
{
    bool has_fill = end - *at >= 2 && is_in((*at)[1], "<>=^");
    if (has_fill) {
        s->fill = (*at)[0];
        s->align = (*at)[1];
        *at += 2;
    } else if (*at < end && is_in(**at, "<>=^")) {
        s->align = *(*at)++;
    }
    return has_fill;
}

static bool
read_flag(const char **at, const char *end, char flag)
{
    if (*at == end || **at != flag)
        return false;
    (*at)++;
    return true;
}

/* False when the text is not a format at all. */
static bool
read_spec(const char *at, size_t len, FormatSpec *s)
{
    const char *end = at + len;
    *s = (FormatSpec){
        .fill = ' ', .sign = '-', .precision = -1, .given = len > 0};
    bool has_fill = read_fill_and_align(&at, end, s);
    if (at < end && is_in(*at, "+- "))
        s->sign = *at++;
    s->alternate = read_flag(&at, end, '#');
    if (read_flag(&at, end, '0') && !has_fill) {
        s->fill = '0';
        s->align = s->align ? s->align : '=';
    }
    if (!read_number(&at, end, MAX_WIDTH, &s->width))
        return false;
    s->group = read_flag(&at, end, ',');
    if (read_flag(&at, end, '.')) {
        const char *digits = at;
        if (!read_number(&at, end, MAX_PRECISION, &s->precision) ||
            at == digits)
            return false;
    }
    if (at < end)
        s->type = *at++;
    return at == end;
}

static const char *
takes_of(char type)
{
    for (size_t i = 0; i < sizeof format_types / sizeof *format_types; i++) {
        if (format_types[i].type == type)
            return format_types[i].takes;
    }
    return NULL;
}

/* An error of a format for elements of t, or NULL. */
static const char *
spec_problem(const FormatSpec *s, DType t)
{
    const char *takes = s->type ? takes_of(s->type) : "ifu";
    char kind = dtype_is_float(t) ? 'f' : 'i';
    if (!takes)
        return MESSAGE("it has no such type of format");
    if (s->type == 's')
        return t == DT_u8 ? NULL : MESSAGE("s is for text");
    if (!is_in(kind, takes))
        return MESSAGE(
            "that is a format of integers, and f, e or g one of floats");
    bool as_integer = kind == 'i' && (!s->type || !is_in('f', takes));
    if (as_integer && s->precision >= 0)
        return MESSAGE("integers have no precision");
    bool zeros_are_digits = s->fill == '0' && s->align == '=';
    if (s->group && (is_in(s->type, "xXbo") || zeros_are_digits))
        return MESSAGE("\",\" does not go with that");
    return NULL;
}

/* ---- digits ------------------------------------------------------------ */

static bool
reads_back(const char *text, Scalar x)
{
    double back = x.dtype == DT_f32
                      ? (double)strtof(text, NULL)
                      : scalar_float(x.dtype, strtod(text, NULL)).f;
    return back == x.f;
}

Digits
format_digits(Scalar x)
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, x.f);
        if (reads_back(text, x))
            break;
    }
    Digits d = {.negative = signbit(x.f)};
    const char *c = text + (text[0] == '-');
    for (; *c != 'e'; c++) {
        if (*c != '.')
            d.digits[d.num++] = *c;
    }
    while (d.num > 1 && d.digits[d.num - 1] == '0')
        d.num--;
    d.exponent = atoi(c + 1);
    return d;
}

/* Digit number i; 0 is the first, and all digits outside are zeros. */
static char
digit_at(const Digits *d, int i)
{
    return i >= 0 && i < d->num ? d->digits[i] : '0';
}

static void
write_positional(char *to, const Digits *d)
{
    if (d->negative)
        *to++ = '-';
    if (d->exponent < 0)
        *to++ = '0';
    for (int i = 0; i <= d->exponent; i++)
        *to++ = digit_at(d, i);
    *to++ = '.';
    int first = d->exponent + 1;
    for (int i = first; i < d->num || i == first; i++)
        *to++ = digit_at(d, i);
    *to = 0;
}

static void
write_scientific(char *to, const Digits *d)
{
    if (d->negative)
        *to++ = '-';
    *to++ = d->digits[0];
    if (d->num > 1)
        *to++ = '.';
    for (int i = 1; i < d->num; i++)
        *to++ = d->digits[i];
    snprintf(to, 8, "e%+03d", d->exponent);
}

/* ---- elements ---------------------------------------------------------- */

static const char *
special_name(double x, bool capitals)
{
    static const char *const names[] = {"nan", "-inf", "inf",
                                        "NAN", "-INF", "INF"};
    return names[3 * capitals + (isnan(x) ? 0 : x < 0 ? 1 : 2)];
}

static void
float_scalar(char *to, Scalar x)
{
    if (!isfinite(x.f)) {
        strcpy(to, special_name(x.f, false));
        return;
    }
    Digits d = format_digits(x);
    double size = fabs(x.f);
    if (size == 0.0 || (size >= 1e-4 && size < 1e16))
        write_positional(to, &d);
    else
        write_scientific(to, &d);
}

void
format_scalar(char *to, Scalar x)
{
    if (dtype_is_float(x.dtype))
        float_scalar(to, x);
    else if (x.dtype == DT_bool)
        strcpy(to, x.i ? "True" : "False");
    else
        snprintf(to, ELEMENT_MAX, "%lld", (long long)x.i);
}

/* n in a base up to 16, with its sign. */
static void
write_integer(char *to, const FormatSpec *s, int64_t n)
{
    static const struct {
        char type;
        int base;
        const char *prefix, *digits;
    } bases[] = {{'x', 16, "0x", "0123456789abcdef"},
                 {'X', 16, "0X", "0123456789ABCDEF"},
                 {'b', 2, "0b", "0123456789"},
                 {'o', 8, "0o", "0123456789"},
                 {0, 10, "", "0123456789"}};
    int row = 0;
    while (bases[row].type && bases[row].type != s->type)
        row++;
    char reversed[72];
    int len = 0;
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    do
        reversed[len++] = bases[row].digits[rest % (unsigned)bases[row].base];
    while (rest /= (unsigned)bases[row].base);
    if (n < 0)
        *to++ = '-';
    if (s->alternate)
        to = stpcpy(to, bases[row].prefix);
    while (len)
        *to++ = reversed[--len];
    *to = 0;
}

/* Removes the zeros at the end of the digits before the e: "1.50e+03". */
static void
trim_mantissa(char *text)
{
    char *e = strchr(text, 'e'), *end = e;
    if (!memchr(text, '.', (size_t)(e - text)))
        return;
    while (end[-1] == '0')
        end--;
    end -= end[-1] == '.';
    memmove(end, e, strlen(e) + 1);
}

/* A float format without a type: as g, but with a digit after the point, and
 * with as many digits as needed unless a precision is given, of which # keeps
 * the zeros. */
static void
write_general(char *to, const FormatSpec *s, Scalar x)
{
    if (s->precision < 0) {
        float_scalar(to, x);
        return;
    }
    int precision = s->precision ? s->precision : 1;
    snprintf(to, ELEMENT_MAX, s->alternate ? "%#.*e" : "%.*e", precision - 1,
             x.f);
    int exponent = atoi(strchr(to, 'e') + 1);
    if (exponent < -4 || exponent >= precision - 1) {
        if (!s->alternate)
            trim_mantissa(to);
        return;
    }
    snprintf(to, ELEMENT_MAX, s->alternate ? "%#.*g" : "%.*g", precision, x.f);
    if (!strchr(to, '.'))
        strcat(to, ".0");
}

static void
write_float(char *to, const FormatSpec *s, Scalar x)
{
    int precision = s->precision < 0 ? 6 : s->precision;
    char type = s->type == '%' ? 'f' : s->type;
    double value = s->type == '%' ? x.f * 100.0 : x.f;
    char format[8] = "%";
    snprintf(format + 1, 7, "%s.*%c", s->alternate ? "#" : "", type);
    if (!isfinite(value))
        strcpy(to, special_name(value, is_in(type, "EFG")));
    else if (!type)
        write_general(to, s, x);
    else
        snprintf(to, ELEMENT_MAX, format, precision, value);
    if (s->type == '%')
        strcat(to, "%");
}

/* Puts a comma before every third digit of the integer part. */
static void
group_digits(char *text)
{
    size_t first = text[0] == '-', len = strspn(text + first, "0123456789");
    for (size_t left = len; left > 3;) {
        left -= 3;
        char *at = text + first + left;
        memmove(at + 1, at, strlen(at) + 1);
        *at = ',';
    }
}

static void
put_sign(char *text, char sign)
{
    if (sign == '-' || text[0] == '-')
        return;
    memmove(text + 1, text, strlen(text) + 1);
    text[0] = sign;
}

void
format_element(char *to, const FormatSpec *s, Scalar x)
{
    bool is_float = dtype_is_float(x.dtype);
    if (!is_float && is_in(s->type, "eEfFgG%")) {
        x = scalar_float(DT_f64, (double)x.i);
        is_float = true;
    }
    if (is_float)
        write_float(to, s, x);
    else if (x.dtype == DT_bool && !s->type)
        format_scalar(to, x);
    else
        write_integer(to, s, x.i + (s->type == COUNT && x.i < INT64_MAX));
    if (s->group)
        group_digits(to);
    put_sign(to, s->sign);
}

/* ---- values ------------------------------------------------------------ */

static void
add_fill(Str *out, char fill, size_t n)
{
    while (n-- > 0)
        str_addc(out, fill);
}

/* What a text gets to have its width: so much fill behind its first bytes, and
 * so much behind all. */
typedef struct Padding {
    size_t head, left, right;
} Padding;

/* The sign of a number, and its prefix: "-0x". */
static size_t
head_of(const FormatSpec *s, const char *text, size_t len)
{
    size_t sign = len && is_in(text[0], "+- ");
    return sign + (s->alternate && is_in(s->type, "xXbo") ? 2 : 0);
}

/* align is the default of the dtype. */
static Padding
padding_of(const FormatSpec *s, char align, const char *text, size_t len)
{
    size_t width = (size_t)s->width, room = width > len ? width - len : 0;
    Padding p = {0, room, 0};
    align = s->align ? s->align : align;
    if (align == '<')
        p.left = 0;
    else if (align == '^')
        p.left = room / 2;
    else if (align == '=')
        p.head = head_of(s, text, len);
    p.right = room - p.left;
    return p;
}

/* text, padded to its width. */
static void
add_aligned(Str *out, const FormatSpec *s, char align, const char *text,
            size_t len)
{
    Padding p = padding_of(s, align, text, len);
    str_addn(out, text, p.head);
    add_fill(out, s->fill, p.left);
    str_addn(out, text + p.head, len - p.head);
    add_fill(out, s->fill, p.right);
}

void
format_padded(char *to, const FormatSpec *s, Scalar x)
{
    format_element(to, s, x);
    size_t len = strlen(to);
    Padding p = padding_of(s, '>', to, len);
    char *rest = to + p.head;
    memmove(rest + p.left, rest, len - p.head);
    memset(rest, s->fill, p.left);
    memset(to + len + p.left, s->fill, p.right);
    to[len + p.left + p.right] = 0;
}

static int64_t
count_elements(const FormatArg *arg)
{
    int64_t n = 1;
    for (int i = 0; i < arg->rank; i++)
        n *= arg->dims[i];
    return n;
}

/* Padding in a tensor of text is not part of it. */
static size_t
text_length(const FormatArg *arg)
{
    const char *text = arg->data;
    size_t n = (size_t)count_elements(arg);
    while (n > 0 && !text[n - 1])
        n--;
    return n;
}

/* As many of its bytes as the precision says; zeros of the width stand behind
 * them. */
static void
add_text(Str *out, FormatSpec s, const FormatArg *arg)
{
    size_t len = text_length(arg);
    if (s.precision >= 0 && (size_t)s.precision < len)
        len = (size_t)s.precision;
    s.align = s.align == '=' ? '<' : s.align;
    add_aligned(out, &s, '<', arg->data, len);
}

void
format_value(Str *out, const char *text, size_t len, const FormatArg *arg)
{
    FormatSpec spec;
    char element[ELEMENT_MAX];
    if (!read_spec(text, len, &spec) || spec_problem(&spec, arg->dtype))
        spec = (FormatSpec){0};
    if (spec.type == 's') {
        add_text(out, spec, arg);
        return;
    }
    if (arg->rank > 0) {
        format_tensor(out, spec.given ? &spec : NULL, arg);
        return;
    }
    Scalar x = scalar_load(arg->dtype, arg->data, 0);
    if (spec.given)
        format_element(element, &spec, x);
    else
        format_scalar(element, x);
    add_aligned(out, &spec, '>', element, strlen(element));
}

/* ---- text with places for values --------------------------------------- */

/* A piece of a format text. */
typedef struct Piece {
    enum { PIECE_TEXT, PIECE_VALUE, PIECE_BAD, PIECE_END } kind;
    const char *text; /* or the format, after the colon */
    size_t len;
} Piece;

static Piece
value_piece(const char **at)
{
    const char *open = *at + 1;
    const char *close = strchr(open, '}');
    if (!close || (*open != '}' && *open != ':'))
        return (Piece){PIECE_BAD, open, strlen(open)};
    *at = close + 1;
    size_t colon = *open == ':';
    return (Piece){PIECE_VALUE, open + colon, (size_t)(close - open) - colon};
}

static Piece
next_piece(const char **at)
{
    const char *c = *at;
    if (!*c)
        return (Piece){PIECE_END, c, 0};
    if ((c[0] == '{' && c[1] == '{') || (c[0] == '}' && c[1] == '}')) {
        *at += 2;
        return (Piece){PIECE_TEXT, c, 1};
    }
    if (*c == '{')
        return value_piece(at);
    if (*c == '}')
        return (Piece){PIECE_BAD, c, 1};
    size_t len = strcspn(c, "{}");
    *at += len;
    return (Piece){PIECE_TEXT, c, len};
}

/* Whether the value says whether the text behind it is there. */
static bool
is_condition(const Piece *p)
{
    return p->len == 1 && (*p->text == IF_COUNT || *p->text == IF_NEGATIVE);
}

/* Whether the text behind it is, where is_there says so of the text before. */
static bool
holds(const Piece *p, const FormatArg *arg, bool is_there)
{
    int64_t i = scalar_load(arg->dtype, arg->data, 0).i;
    return *p->text == IF_NEGATIVE ? i < 0
                                   : is_there && i >= 0 && i < INT32_MAX;
}

void
format_text(Str *out, const char *text, int num, const FormatArg *args)
{
    int used = 0;
    bool is_there = true;
    for (;;) {
        Piece p = next_piece(&text);
        if (p.kind == PIECE_END || p.kind == PIECE_BAD)
            return;
        const FormatArg *arg =
            p.kind == PIECE_VALUE && used < num ? &args[used++] : NULL;
        if (arg && is_condition(&p))
            is_there = holds(&p, arg, is_there);
        else if (arg && is_there)
            format_value(out, p.text, p.len, arg);
        else if (p.kind == PIECE_TEXT && is_there)
            str_addn(out, p.text, p.len);
    }
}

static const char *
check_piece(Arena *a, const Piece *p, DType t, bool is_written)
{
    FormatSpec spec;
    const char *why = MESSAGE("it is none");
    if (read_spec(p->text, p->len, &spec)) {
        if (is_written &&
            is_in(spec.type, (char[]){COUNT, IF_COUNT, IF_NEGATIVE, 0}))
            spec.type = '\a'; /* none */
        why = spec_problem(&spec, t);
    }
    return why ? message_printf(a, "the format \"%.*s\" does not fit %s: %s",
                                (int)p->len, p->text, dtype_info[t].name,
                                message_part(why))
               : NULL;
}

static const char *
check(Arena *a, const char *text, int num, const DType *dtypes, bool is_written)
{
    int used = 0;
    const char *why = NULL;
    Piece p = next_piece(&text);
    for (; p.kind != PIECE_END && !why; p = next_piece(&text)) {
        if (p.kind == PIECE_BAD)
            return MESSAGE("a brace without its partner ({{ is a brace)");
        if (p.kind != PIECE_VALUE)
            continue;
        if (used == num)
            return MESSAGE("more places than values");
        why = check_piece(a, &p, dtypes[used++], is_written);
    }
    if (!why && used < num)
        return MESSAGE("more values than places");
    return why;
}

const char *
format_check(Arena *a, const char *text, int num, const DType *dtypes)
{
    return check(a, text, num, dtypes, false);
}

const char *
format_check_written(Arena *a, const char *text, int num, const DType *dtypes)
{
    return check(a, text, num, dtypes, true);
}

/* ---- words that are filled in -------------------------------------------- */

static void
add_escaped(Str *out, const char *text)
{
    for (; *text; text++) {
        str_addc(out, *text);
        if (is_in(*text, "{}"))
            str_addc(out, *text);
    }
}

static const FormatName *
find_name(const char *name, size_t len, const FormatName *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i].name) == len &&
            memcmp(names[i].name, name, len) == 0)
            return &names[i];
    return NULL;
}

const char *
format_fill(Arena *a, const char *format, const FormatName *names, int n)
{
    Str s = str_new(a);
    for (const char *at = format; *at;) {
        bool is_word = at[0] == '{' && at[1] == '$';
        size_t len = is_word ? strcspn(at + 2, "{}") : strcspn(at, "{}");
        const FormatName *found =
            is_word ? find_name(at + 2, len, names, n) : NULL;
        if (is_word && (!found || at[2 + len] != '}'))
            return NULL;
        if (is_word)
            add_escaped(&s, found->value);
        else if (!len) /* a brace, or two that stand for one */
            len = at[1] == at[0] ? 2 : 1;
        if (!is_word)
            str_addn(&s, at, len);
        at += is_word ? len + 3 : len;
    }
    return str_text(&s);
}
