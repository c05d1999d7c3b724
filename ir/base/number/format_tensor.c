/*
 * format_tensor.c - tensors as NumPy prints them
 *
 * A first walk over the elements to be shown finds the notation, the digits and
 * the width for all of them; a second one writes them.  The rules are those of
 * numpy/core/arrayprint.py (1.24) with its default options.
 */
#include "ir/base/number/format_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_WIDTH = 75,
    PRECISION = 8,    /* digits after the dot, at most */
    THRESHOLD = 1000, /* elements; of more only the edges are shown */
    EDGE = 3
};

/* How the elements of one tensor are written. */
typedef struct Layout {
    Str *out;
    const FormatSpec *spec; /* NULL: as NumPy does */
    const FormatArg *arg;
    bool cut;        /* only edges */
    double max, min; /* sizes of the finite nonzero elements; min 0: none */
    bool not_finite; /* there is a nan or inf */
    bool minus_inf;  /* there is a -inf */
    bool scientific;
    int left, right;     /* characters before and after the dot */
    int exponent_digits; /* of scientific ones */
    int width;           /* of elements that are not floats, or have a spec */
    size_t line_start;   /* in out */
} Layout;

typedef void Look(Layout *l, Scalar x);

static bool
is_cut_at(const Layout *l, int axis, int64_t i)
{
    int64_t n = l->arg->dims[axis];
    return l->cut && n > 2 * EDGE && i == EDGE;
}

/* Calls look() on every element that is shown. */
static void
look_at_all(Layout *l, int axis, int64_t index, Look *look)
{
    const FormatArg *arg = l->arg;
    if (axis == arg->rank) {
        look(l, scalar_load(arg->dtype, arg->data, index));
        return;
    }
    int64_t n = arg->dims[axis];
    for (int64_t i = 0; i < n; i++) {
        if (is_cut_at(l, axis, i))
            i = n - EDGE;
        look_at_all(l, axis + 1, index * n + i, look);
    }
}

static void
raise(int *to, size_t n)
{
    if ((int)n > *to)
        *to = (int)n;
}

/* ---- floats ------------------------------------------------------------ */

/* Removes the zeros after the last digit of a text with a point. */
static void
trim_zeros(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '0')
        n--;
    text[n] = 0;
}

/* "-12.5", "3." */
static void
positional_text(Scalar x, char *to)
{
    Digits d = format_digits(x);
    int after = d.num - 1 - d.exponent;
    after = after < 0 ? 0 : after < PRECISION ? after : PRECISION;
    snprintf(to, ELEMENT_MAX, "%#.*f", after, x.f);
    trim_zeros(to);
}

/* "1.25" and, after the zero byte that ends it, the exponent: "-05". */
static const char *
scientific_text(Scalar x, char *to)
{
    Digits d = format_digits(x);
    int after = d.num - 1 < PRECISION ? d.num - 1 : PRECISION;
    snprintf(to, ELEMENT_MAX, "%#.*e", after, x.f);
    char *e = strchr(to, 'e');
    *e = 0;
    trim_zeros(to);
    return e + 1;
}

static void
look_at_size(Layout *l, Scalar x)
{
    double size = fabs(x.f);
    if (!isfinite(size)) {
        l->not_finite = true;
        l->minus_inf |= x.f < 0;
        return;
    }
    if (size == 0.0)
        return;
    l->max = size > l->max ? size : l->max;
    l->min = l->min == 0.0 || size < l->min ? size : l->min;
}

static void
look_at_digits(Layout *l, Scalar x)
{
    char text[ELEMENT_MAX];
    const char *exponent = "-";
    if (!isfinite(x.f))
        return;
    if (l->scientific)
        exponent = scientific_text(x, text);
    else
        positional_text(x, text);
    size_t left = strcspn(text, ".");
    raise(&l->left, left);
    raise(&l->right, strlen(text) - left - 1);
    raise(&l->exponent_digits, strlen(exponent) - 1);
}

static void
choose_notation(Layout *l)
{
    if (l->min == 0.0)
        return;
    double ratio = scalar_float(l->arg->dtype, l->max / l->min).f;
    l->scientific = l->max >= 1e8 || l->min < 1e-4 || ratio > 1e3;
}

/* Reserves width for nan and inf before the point. */
static void
fit_specials(Layout *l)
{
    int exponent = l->scientific ? l->exponent_digits + 2 : 0;
    l->width = l->left + 1 + l->right + exponent;
    int lacking = l->not_finite ? 3 + l->minus_inf - l->width : 0;
    if (lacking > 0) {
        l->left += lacking;
        l->width += lacking;
    }
}

static void
lay_out_floats(Layout *l)
{
    look_at_all(l, 0, 0, look_at_size);
    choose_notation(l);
    look_at_all(l, 0, 0, look_at_digits);
    fit_specials(l);
}

/* Writes c n times and returns the end of the text. */
static char *
put(char *to, char c, int n)
{
    if (n > 0)
        to = (char *)memset(to, c, (size_t)n) + n;
    *to = 0;
    return to;
}

static void
positional_word(const Layout *l, Scalar x, char *to)
{
    char text[ELEMENT_MAX];
    positional_text(x, text);
    int before = (int)strcspn(text, ".");
    int after = (int)strlen(text) - before - 1;
    to = stpcpy(put(to, ' ', l->left - before), text);
    put(to, ' ', l->right - after);
}

static void
scientific_word(const Layout *l, Scalar x, char *to)
{
    char text[ELEMENT_MAX];
    snprintf(text, sizeof text, "%#.*e", l->right, x.f);
    const char *digits = strchr(text, 'e') + 2; /* of the exponent */
    to = put(to, ' ', l->left - (int)strcspn(text, "."));
    to = stpncpy(to, text, (size_t)(digits - text));
    to = put(to, '0', l->exponent_digits - (int)strlen(digits));
    stpcpy(to, digits);
}

/* Aligns a text, to the width of the others. */
static void
flush(char *to, int width, char align, const char *text)
{
    int room = width - (int)strlen(text);
    int left = align == '<' ? 0 : align == '^' ? room / 2 : room;
    put(stpcpy(put(to, ' ', left), text), ' ', room - left);
}

/* ---- all elements ------------------------------------------------------ */

static bool
is_plain_float(const Layout *l)
{
    return !l->spec && dtype_is_float(l->arg->dtype);
}

/* An element whose text, but for its width, does not depend on the others. */
static void
single_text(const Layout *l, Scalar x, char *to)
{
    if (l->spec)
        format_padded(to, l->spec, x);
    else
        format_scalar(to, x);
}

static void
look_at_width(Layout *l, Scalar x)
{
    char text[ELEMENT_MAX];
    single_text(l, x, text);
    raise(&l->width, strlen(text));
}

static void
lay_out(Layout *l)
{
    if (is_plain_float(l)) {
        lay_out_floats(l);
        return;
    }
    if (l->arg->dtype == DT_bool && !l->spec)
        l->width = (int)strlen("False");
    look_at_all(l, 0, 0, look_at_width);
}

static void
word_of(const Layout *l, Scalar x, char *to)
{
    char text[ELEMENT_MAX];
    if (is_plain_float(l) && isfinite(x.f)) {
        if (l->scientific)
            scientific_word(l, x, to);
        else
            positional_word(l, x, to);
    } else {
        single_text(l, x, text);
        flush(to, l->width, l->spec ? l->spec->align : '>', text);
    }
}

/* ---- brackets and lines ------------------------------------------------ */

static void
new_line(Layout *l, int indent)
{
    while (l->out->len > l->line_start && l->out->data[l->out->len - 1] == ' ')
        l->out->data[--l->out->len] = 0;
    str_addc(l->out, '\n');
    l->line_start = l->out->len;
    str_addf(l->out, "%*s", indent, "");
}

/* Adds a word of the last axis, on a new line where it does not fit and a new
 * line would help. */
static void
add_word(Layout *l, const char *word)
{
    int indent = l->arg->rank;
    size_t column = l->out->len - l->line_start;
    size_t room = (size_t)(LINE_WIDTH - indent);
    if (column + strlen(word) > room && column > (size_t)indent)
        new_line(l, indent);
    str_add(l->out, word);
}

static void
add_row(Layout *l, int64_t index)
{
    const FormatArg *arg = l->arg;
    int axis = arg->rank - 1;
    int64_t n = arg->dims[axis];
    char word[ELEMENT_MAX];
    for (int64_t i = 0; i < n; i++) {
        if (is_cut_at(l, axis, i)) {
            add_word(l, "...");
            str_addc(l->out, ' ');
            i = n - EDGE;
        }
        word_of(l, scalar_load(arg->dtype, arg->data, index * n + i), word);
        add_word(l, word);
        if (i + 1 < n)
            str_addc(l->out, ' ');
    }
}

/* Adds the separator of an axis that is not the last: as many line ends as
 * there are axes below it. */
static void
add_break(Layout *l, int axis)
{
    for (int i = axis + 2; i < l->arg->rank; i++)
        str_addc(l->out, '\n');
    new_line(l, axis + 1);
}

static void
add_axis(Layout *l, int axis, int64_t index)
{
    int64_t n = l->arg->dims[axis];
    str_addc(l->out, '[');
    if (axis == l->arg->rank - 1)
        add_row(l, index);
    for (int64_t i = 0; i < n && axis < l->arg->rank - 1; i++) {
        if (is_cut_at(l, axis, i)) {
            str_add(l->out, "...");
            add_break(l, axis);
            i = n - EDGE;
        }
        add_axis(l, axis + 1, index * n + i);
        if (i + 1 < n)
            add_break(l, axis);
    }
    str_addc(l->out, ']');
}

void
format_tensor(Str *out, const FormatSpec *spec, const FormatArg *arg)
{
    int64_t count = 1;
    for (int i = 0; i < arg->rank; i++)
        count *= arg->dims[i];
    if (count == 0) {
        str_add(out, "[]");
        return;
    }
    Layout l = {.out = out,
                .spec = spec,
                .arg = arg,
                .cut = count > THRESHOLD,
                .line_start = out->len};
    lay_out(&l);
    add_axis(&l, 0, 0);
}
