/*
 * str.c - growing strings, and numbers and names as text
 */
#include "ir/base/str.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/memory.h"

Str
str_new(Arena *a)
{
    return (Str){.arena = a};
}

/* Ensures space for n more bytes and the terminator. */
static void
reserve(Str *s, size_t n)
{
    assert(s->arena && (s->cap ? s->len < s->cap : !s->len));
    if (n < s->cap - s->len)
        return;
    size_t cap = s->cap * 2;
    if (cap < s->len + n + 1)
        cap = s->len + n + 1;
    if (cap < 64)
        cap = 64;
    char *grown = arena_alloc(s->arena, cap);
    if (s->len)
        memcpy(grown, s->data, s->len);
    s->data = grown;
    s->cap = cap;
}

void
str_addn(Str *s, const char *text, size_t n)
{
    reserve(s, n);
    if (n)
        memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = 0;
}

void
str_add(Str *s, const char *text)
{
    str_addn(s, text, strlen(text));
}

void
str_addc(Str *s, char c)
{
    str_addn(s, &c, 1);
}

void
str_addf(Str *s, const char *format, ...)
{
    enum { MOST_ARE_SHORTER = 63 };
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    reserve(s, MOST_ARE_SHORTER);
    size_t room = s->cap - s->len;
    size_t n =
        formatted_length(vsnprintf(s->data + s->len, room, format, args));
    if (n >= room) {
        reserve(s, n);
        formatted_length(vsnprintf(s->data + s->len, n + 1, format, again));
    }
    s->len += n;
    va_end(again);
    va_end(args);
}

const char *
str_text(const Str *s)
{
    assert(!s->data || (s->len < s->cap && !s->data[s->len]));
    return s->data ? s->data : "";
}

static void
add_escaped(Str *s, unsigned char c)
{
    static const char named[] = "\"\"\\\\\nn\tt\rr"; /* byte, letter, ... */
    for (const char *p = named; *p; p += 2) {
        if ((unsigned char)*p == c) {
            str_addc(s, '\\');
            str_addc(s, p[1]);
            return;
        }
    }
    if (c < 0x20 || c == 0x7f)
        str_addf(s, "\\x%02x", c);
    else
        str_addc(s, (char)c);
}

void
str_add_quoted(Str *s, const char *text, size_t n)
{
    str_addc(s, '"');
    for (size_t i = 0; i < n; i++)
        add_escaped(s, (unsigned char)text[i]);
    str_addc(s, '"');
}

/* x as D.DDDe+XX with the fewest digits that read back. */
static void
print_shortest(char *text, size_t size, double x, bool single)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*e", digits - 1, x);
        if (single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x)
            return;
    }
}

/* Lays out digits d1 d2 d3... with the point after the first (exponent 0),
 * without an exponent where that stays short. */
static void
add_decimal(Str *s, const char *digits, int n, int exponent)
{
    if (exponent < -4 || exponent > 15) {
        str_addc(s, digits[0]);
        if (n > 1)
            str_addf(s, ".%s", digits + 1);
        str_addf(s, "e%d", exponent);
    } else if (exponent < 0) {
        str_addf(s, "0.%.*s%s", -exponent - 1, "000", digits);
    } else if (n <= exponent + 1) {
        str_addf(s, "%s%.*s.0", digits, exponent + 1 - n, "000000000000000");
    } else {
        str_addf(s, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
}

void
str_add_float(Str *s, double x, bool single)
{
    char text[40], digits[20];
    int n = 0;
    if (isnan(x)) {
        str_add(s, "nan");
        return;
    }
    if (signbit(x))
        str_addc(s, '-');
    if (isinf(x)) {
        str_add(s, "inf");
        return;
    }
    print_shortest(text, sizeof text, fabs(x), single);
    char *e = strchr(text, 'e');
    for (const char *p = text; p < e; p++)
        if (*p != '.')
            digits[n++] = *p;
    digits[n] = 0;
    add_decimal(s, digits, n, atoi(e + 1));
}

enum { MAX_NAME = 64 }; /* longer names are not compared */

static int
min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

static bool
same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Insertions, removals, changes and swaps of neighbours from a to b, where
 * both are at most MAX_NAME long. */
static int
edit_distance(const char *a, int n, const char *b, int m)
{
    int rows[3][MAX_NAME + 1]; /* row i is rows[i % 3] */
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3];
        const int *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            bool same = same_letter(a[i - 1], b[j - 1]);
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + !same);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]) && up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return rows[n % 3][m];
}

const char *
nearest_name(const char *name, const char *const *candidates, int n)
{
    const char *best = NULL;
    size_t len = strlen(name);
    if (len == 0 || len > MAX_NAME)
        return NULL;
    /* A third may differ, but at least one letter must be the same: of two
     * letters one, of four one, of five two. */
    int limit = ((int)len + 1) / 3;
    if (limit >= (int)len)
        limit = (int)len - 1;
    for (int i = 0; i < n; i++) {
        size_t other = strlen(candidates[i]);
        if (other > MAX_NAME)
            continue;
        int d = edit_distance(name, (int)len, candidates[i], (int)other);
        if (d <= limit) {
            best = candidates[i];
            limit = d - 1;
        }
    }
    return best;
}

/* ---- UTF-8 -------------------------------------------------------------- */

size_t
str_char_len(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    static const struct {
        unsigned char from, to, second_from, second_to;
        size_t len;
    } rows[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = rows[i].len;
        if (s[0] < rows[i].from || s[0] > rows[i].to)
            continue;
        if (len > n)
            return 0;
        if (len > 1 && (s[1] < rows[i].second_from || s[1] > rows[i].second_to))
            return 0;
        for (size_t k = 2; k < len; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return len;
    }
    return 0;
}

/* Whether a terminal obeys the character, of so many bytes: those below a
 * space, DEL, and C1 (0x9b begins a sequence as ESC [ does). */
static bool
is_control(const char *text, size_t len)
{
    unsigned char c = (unsigned char)text[0];
    bool is_c1 = len == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0;
    return c < ' ' || c == 127 || is_c1;
}

void
str_make_printable(char *text, size_t n, bool has_lines)
{
    for (size_t at = 0, len; at < n; at += len) {
        bool is_end = text[at] == '\n' && has_lines;
        len = str_char_len(text + at, n - at);
        bool is_shown = len && (is_end || !is_control(text + at, len));
        len = len ? len : 1;
        if (!is_shown)
            memset(text + at, '?', len);
    }
}
