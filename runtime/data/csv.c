/*
 * csv.c - rows of a table in text
 *
 * The format is that of RFC 4180: fields between separators, lines that end in
 * \n or \r\n, or in \r as old Macs wrote them; a quoted field may contain all
 * of these, and doubled quotes. Empty lines are skipped, and so is a byte order
 * mark at the beginning of the file.
 *
 * A component takes the column of its name or number; one with dimensions takes
 * as many adjacent columns as it has elements, but u8[n] is the text of one
 * column, padded with zeros.
 */
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "ir/base/io/limit.h"
#include "runtime/data/files.h"

typedef struct Field {
    size_t begin, len; /* in the text of the row, a zero behind it */
} Field;

typedef struct Csv {
    RtFile *file;
    char separator;
    const char *at, *end; /* bytes at hand */
    size_t seen;          /* that the stream returned, consumed or not */
    int64_t line;         /* in which the next byte stands */
    Str text;             /* of the row: its fields, without quotes */
    VEC(Field) fields;
    VEC(const char *) header; /* names of columns, if they are looked up */
    int64_t *columns;         /* the first column of each component */
    int64_t num_columns;      /* of every row; -1: not known yet */
} Csv;

/* ---- bytes --------------------------------------------------------------- */

enum { AT_END = -1 };

/* The next byte without consuming it, or AT_END. */
static Status
look(Csv *c, int *out)
{
    if (c->at == c->end) {
        size_t have, held = (size_t)c->fields.len * sizeof(Field);
        if (c->text.len + held > (size_t)limit_value(LIMIT_record))
            return limit_status(LIMIT_record, c->file->path);
        rt_stream_skip(c->file->stream, c->seen);
        TRY(rt_stream_peek(c->file->stream, 1, &c->at, &have));
        c->end = c->at + have;
        c->seen = have;
    }
    *out = c->at == c->end ? AT_END : (unsigned char)*c->at;
    return OK;
}

static void
take(Csv *c)
{
    c->line += *c->at++ == '\n';
}

static bool
ends_line(int byte)
{
    return byte == '\n' || byte == '\r';
}

/* The bytes that end a line, the first of which is at hand. */
static Status
take_line_end(Csv *c)
{
    int byte;
    bool is_return = *c->at == '\r';
    take(c);
    if (!is_return)
        return OK;
    TRY(look(c, &byte));
    if (byte == '\n')
        take(c);
    else
        c->line++;
    return OK;
}

/* Returns bytes that were peeked at and not used to the stream. */
static void
leave(Csv *c)
{
    rt_stream_skip(c->file->stream, c->seen - (size_t)(c->end - c->at));
    c->at = c->end = NULL;
    c->seen = 0;
}

/* ---- rows ---------------------------------------------------------------- */

/* Up to the quote that ends the field. */
static Status
read_quoted(Csv *c)
{
    int byte;
    for (take(c);; take(c)) {
        TRY(look(c, &byte));
        if (byte == AT_END)
            return rt_line_error(c->file,
                                 "a field that begins with \" has no end");
        if (byte == '"') {
            take(c);
            TRY(look(c, &byte));
            if (byte != '"')
                return OK;
        }
        str_addc(&c->text, (char)byte);
    }
}

/* As many available bytes as have no special meaning. */
static void
take_plain(Csv *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at != c->separator && !ends_line(*c->at) &&
           *c->at != '"')
        c->at++;
    str_addn(&c->text, from, (size_t)(c->at - from));
}

static Status
read_plain(Csv *c)
{
    int byte;
    do {
        take_plain(c);
        TRY(look(c, &byte));
    } while (byte != AT_END && byte != c->separator && !ends_line(byte) &&
             byte != '"');
    if (byte == '"')
        return rt_line_error(c->file,
                             "a quote stands in a field that does not begin "
                             "with one; write \"...\"\"...\"");
    return OK;
}

/* A separator, for which *more is set, or the end of the line. */
static Status
read_end(Csv *c, bool *more)
{
    int byte;
    TRY(look(c, &byte));
    *more = byte == c->separator;
    if (*more)
        take(c);
    else if (ends_line(byte))
        TRY(take_line_end(c));
    else if (byte != AT_END)
        return rt_line_error(c->file,
                             "text stands behind a field in quotes; a quote in "
                             "one is written \"\"");
    return OK;
}

static Status
read_field(Csv *c, bool *more)
{
    int byte;
    size_t begin = c->text.len;
    TRY(look(c, &byte));
    TRY(byte == '"' ? read_quoted(c) : read_plain(c));
    TRY(read_end(c, more));
    size_t len = c->text.len - begin;
    str_addc(&c->text, 0);
    VEC_PUSH(c->file->arena, c->fields, ((Field){begin, len}));
    return OK;
}

/* Splits the text of a row. */
static void
split(Csv *c, size_t len)
{
    char *text = c->text.data;
    size_t begin = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] != c->separator)
            continue;
        text[i] = 0;
        VEC_PUSH(c->file->arena, c->fields, ((Field){begin, i - begin}));
        begin = i + 1;
    }
    VEC_PUSH(c->file->arena, c->fields, ((Field){begin, len - begin}));
}

/* Takes a line that is at hand as a whole and has no quotes, as most are: false
 * if it is another, or there may be several. */
static bool
take_line(Csv *c)
{
    size_t have = (size_t)(c->end - c->at);
    const char *end = memchr(c->at, '\n', have);
    size_t len = end ? (size_t)(end - c->at) : 0;
    if (!end || memchr(c->at, '"', len))
        return false;
    size_t kept = len && end[-1] == '\r' ? len - 1 : len;
    if (memchr(c->at, '\r', kept))
        return false;
    str_addn(&c->text, c->at, kept);
    str_addc(&c->text, 0);
    split(c, kept);
    c->at = end + 1;
    c->line++;
    return true;
}

/* The fields of the next line that is not empty; *end: there is none. */
static Status
read_row(Csv *c, bool *end)
{
    int byte;
    RtFile *f = c->file;
    c->line = f->line + 1;
    c->text.len = 0;
    c->fields.len = 0;
    TRY(look(c, &byte));
    while (ends_line(byte)) {
        TRY(take_line_end(c));
        TRY(look(c, &byte));
    }
    f->line = c->line;
    *end = byte == AT_END;
    for (bool more = !*end && !take_line(c); more;)
        TRY(read_field(c, &more));
    leave(c);
    return OK;
}

/* ---- columns ------------------------------------------------------------- */

static bool
is_text(const IrType *t)
{
    return t->dtype == DT_u8 && t->rank == 1;
}

/* The number of columns of a component. */
static int64_t
width_of(const RtFile *f, int component)
{
    bool text = is_text(rt_file_type(f, component));
    return text ? 1 : rt_file_count(f, component);
}

/* 'column "x"', or 'column 3' where columns have no names. */
static const char *
column_text(const Csv *c, int64_t column)
{
    Arena *a = c->file->arena;
    if (column < c->header.len)
        return arena_printf(a, "column \"%s\"", c->header.data[column]);
    return arena_printf(a, "column %lld", (long long)column);
}

/* Field i of the row, without blanks around it: a number or a name. */
static Status
trimmed(const Csv *c, int64_t i, const char **out)
{
    Field *f = &c->fields.data[i];
    char *text = c->text.data + f->begin, *end = text + f->len;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    f->len = (size_t)(end - text);
    while (*text == ' ' || *text == '\t')
        text++;
    *out = text;
    if (text + strlen(text) == end)
        return OK;
    return rt_line_error(c->file,
                         "%s has a zero byte, as no number or name has; a file "
                         "in UTF-16 is to be converted to UTF-8",
                         column_text(c, i));
}

static const char *
header_text(const Csv *c)
{
    Str s = str_new(c->file->arena);
    for (int i = 0; i < c->header.len && i < 20; i++)
        str_addf(&s, "%s\"%s\"", i ? ", " : "", c->header.data[i]);
    return str_text(&s);
}

/* The column that was meant: of a name much like it, or that begins so. */
static const char *
near_column(const Csv *c, const char *name)
{
    const char *near = nearest_name(name, c->header.data, c->header.len);
    for (int i = 0; i < c->header.len && !near && *name; i++)
        if (strncmp(c->header.data[i], name, strlen(name)) == 0)
            near = c->header.data[i];
    return near;
}

/* What separates the columns of a header that was read as one, in which the
 * name is; NULL if nothing seems to. */
static const char *
other_separator(const Csv *c, const char *name)
{
    static const char *const separators[] = {";", "\t", "|", ","};
    const char *all = c->header.len == 1 ? c->header.data[0] : "";
    for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
        if (strstr(all, separators[i]) && strstr(all, name))
            return separators[i];
    return NULL;
}

static Status
find_column(Csv *c, const char *name, int64_t *out)
{
    *out = -1;
    for (int i = 0; i < c->header.len; i++) {
        if (strcmp(c->header.data[i], name) != 0)
            continue;
        if (*out >= 0)
            return rt_file_error(c->file, "has two columns \"%s\"", name);
        *out = i;
    }
    const char *other = *out < 0 ? other_separator(c, name) : NULL;
    if (other)
        return rt_file_error(c->file,
                             "has no column \"%s\"; it has %s: write "
                             "separator = \"%s\"%s in csv(...)",
                             name, header_text(c), other,
                             *other == '\t' ? " (a tab)" : "");
    const char *near = *out < 0 ? near_column(c, name) : NULL;
    if (near)
        return rt_file_error(c->file,
                             "has no column \"%s\"; it has %s: write %s in "
                             "place of %s",
                             name, header_text(c), near, name);
    if (*out < 0)
        return rt_file_error(c->file, "has no column \"%s\"; it has %s", name,
                             header_text(c));
    return OK;
}

static Status
read_header(Csv *c)
{
    bool end;
    TRY(read_row(c, &end));
    if (end)
        return rt_file_error(c->file, "is empty: it has no line of names");
    c->num_columns = c->fields.len;
    c->file->line = c->line - 1;
    if (c->file->node->stage->ints[0] != CSV_NAMES)
        return OK;
    for (int i = 0; i < c->fields.len; i++) {
        const char *name;
        TRY(trimmed(c, i, &name));
        VEC_PUSH(c->file->arena, c->header, arena_strdup(c->file->arena, name));
    }
    return OK;
}

static Status
choose_columns(Csv *c)
{
    RtFile *f = c->file;
    const IrStage *stage = f->node->stage;
    int64_t next = 0;
    for (int i = 0; i < stage->types.len; i++) {
        c->columns[i] = next;
        if (stage->ints[0] == CSV_NAMES)
            TRY(find_column(c, stage->names.data[i], &c->columns[i]));
        else if (stage->names.len)
            c->columns[i] = strtoll(stage->names.data[i], NULL, 10);
        next += width_of(f, i);
    }
    return OK;
}

/* Rows with that many fields must have the columns of component i. */
static bool
has_columns(const Csv *c, int i, int64_t fields)
{
    int64_t width = width_of(c->file, i);
    return c->columns[i] >= 0 && width <= fields &&
           c->columns[i] <= fields - width;
}

/* "0, 1": the numbers of the columns that are taken, as in a tuple. */
static const char *
numbers_text(const Csv *c)
{
    int n = c->file->node->stage->types.len;
    Str s = str_new(c->file->arena);
    for (int i = 0; i < n; i++)
        str_addf(&s, "%s%lld", i ? ", " : "", (long long)c->columns[i]);
    return n == 1 ? arena_printf(c->file->arena, "%s,", str_text(&s))
                  : str_text(&s);
}

/* Checks the first row, or the header: all requested columns exist, and without
 * a selection they are all columns. */
static Status
check_columns(Csv *c)
{
    const IrStage *stage = c->file->node->stage;
    int64_t n = c->fields.len, taken = 0;
    for (int i = 0; i < stage->types.len; i++) {
        taken += width_of(c->file, i);
        if (!has_columns(c, i, n))
            return rt_file_error(
                c->file,
                "has %lld columns, and component %d takes %lld from %s",
                (long long)n, i, (long long)width_of(c->file, i),
                column_text(c, c->columns[i]));
    }
    if (stage->names.len == 0 && taken != n)
        return rt_file_error(c->file,
                             "has %lld columns, and the program takes %lld; "
                             "names = (%s) takes some by number",
                             (long long)n, (long long)taken, numbers_text(c));
    return OK;
}

static Status
check_row(Csv *c)
{
    if (c->num_columns < 0)
        TRY(check_columns(c));
    else if (c->fields.len != c->num_columns)
        return rt_line_error(c->file, "it has %d fields, and those before %lld",
                             c->fields.len, (long long)c->num_columns);
    c->num_columns = c->fields.len;
    return OK;
}

/* ---- values -------------------------------------------------------------- */

/* Texts for a missing value, besides the empty one. */
static bool
is_missing(const char *text)
{
    static const char *const words[] = {"",     "NA",   "N/A", "n/a",
                                        "NULL", "null", "None"};
    if (*text && *text != 'N' && *text != 'n')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

static bool
parse_bool(const char *text, Scalar *out)
{
    bool yes = !strcasecmp(text, "true") || !strcmp(text, "1");
    *out = scalar_int(DT_bool, yes);
    return yes || !strcasecmp(text, "false") || !strcmp(text, "0");
}

/* A number as it is mostly written: digits * 10^exponent, where both are exact
 * as f64. */
typedef struct Decimal {
    bool negative;
    uint64_t digits;
    int exponent; /* 0 of an integer */
} Decimal;

enum { MAX_DIGITS = 18, MAX_EXPONENT = 22 };

/* The digits at *p, after which *p is; false: too many. */
static bool
take_digits(const char **p, Decimal *d, int *count)
{
    const char *from = *p;
    for (; **p >= '0' && **p <= '9'; ++*p)
        d->digits = 10 * d->digits + (uint64_t)(**p - '0');
    *count += (int)(*p - from);
    return *p - from <= MAX_DIGITS && *count <= MAX_DIGITS;
}

static bool
take_exponent(const char **p, Decimal *d)
{
    if (**p != 'e' && **p != 'E')
        return true;
    Decimal power = {.negative = (*p)[1] == '-'};
    int count = 0;
    *p += power.negative || (*p)[1] == '+' ? 2 : 1;
    if (!take_digits(p, &power, &count) || !count || power.digits > 1000)
        return false;
    d->exponent += (int)power.digits * (power.negative ? -1 : 1);
    return true;
}

/* Whether all of text is such a number. */
static bool
parse_decimal(const char *text, Decimal *d)
{
    const char *p = text;
    int count = 0;
    *d = (Decimal){.negative = *p == '-'};
    p += *p == '-' || *p == '+';
    if (!take_digits(&p, d, &count))
        return false;
    if (*p == '.') {
        const char *point = ++p;
        if (!take_digits(&p, d, &count))
            return false;
        d->exponent = (int)(point - p);
    }
    return count && take_exponent(&p, d) && !*p;
}

/* Its f64, rounded once, as there is one operation on exact numbers. */
static bool
decimal_value(const Decimal *d, double *out)
{
    static const double powers[MAX_EXPONENT + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int e = d->exponent;
    if (d->digits > UINT64_C(1) << 53 || e < -MAX_EXPONENT || e > MAX_EXPONENT)
        return false;
    double x = (double)d->digits;
    x = e < 0 ? x / powers[-e] : x * powers[e];
    *out = d->negative ? -x : x;
    return true;
}

/* Whether the f32 next to x, the f64 next to a number, is the f32 next to that
 * number: x is not half way between two. */
static bool
rounds_to_f32(double x)
{
    uint64_t bits, below = (UINT64_C(1) << 29) - 1;
    memcpy(&bits, &x, sizeof bits);
    double size = fabs(x);
    return size == 0 || (size >= FLT_MIN && size <= FLT_MAX &&
                         (bits & below) != UINT64_C(1) << 28);
}

static bool
parse_integer(const char *text, DType t, Scalar *out)
{
    char *end;
    Decimal d;
    if (parse_decimal(text, &d) && !d.exponent && !strpbrk(text, ".eE")) {
        int64_t x = d.negative ? -(int64_t)d.digits : (int64_t)d.digits;
        *out = scalar_int(t, x);
        return int_fits(t, x);
    }
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || *end || errno || !int_fits(t, x))
        return false;
    *out = scalar_int(t, x);
    return true;
}

/* Decimal, inf or nan.  Once rounded where C can. */
static bool
parse_float(const char *text, DType t, Scalar *out)
{
    char *end;
    double x;
    Decimal d;
    if (parse_decimal(text, &d) && decimal_value(&d, &x) &&
        (t != DT_f32 || rounds_to_f32(x))) {
        *out = scalar_float(t, x);
        return !isinf(out->f);
    }
    x = t == DT_f64 ? strtod(text, &end) : strtof(text, &end);
    if (t == DT_f16 || t == DT_bf16)
        x = strtod(text, &end);
    *out = scalar_float(t, x);
    bool overflows = isinf(out->f) && !strpbrk(text, "iI");
    return end != text && !*end && !overflows && !strpbrk(text, "xX(");
}

static bool
parse_value(const char *text, DType t, Scalar *out)
{
    if (dtype_is_float(t))
        return parse_float(text, t, out);
    return t == DT_bool ? parse_bool(text, out) : parse_integer(text, t, out);
}

static const char *
quoted(Arena *a, const char *text)
{
    Str s = str_new(a);
    str_add_quoted(&s, text, strnlen(text, 40));
    return str_text(&s);
}

/* The type that the column is to be declared with for such a value; "" where
 * there is none. */
static const char *
other_type(const Csv *c, const char *text, DType t, int64_t column)
{
    static const DType wider[] = {DT_i64, DT_f32};
    Scalar x;
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++) {
        if (wider[i] == t || dtype_is_float(t) ||
            !parse_value(text, wider[i], &x))
            continue;
        const char *type = dtype_info[wider[i]].name;
        return column < c->header.len
                   ? arena_printf(c->file->arena, "; declare it as %s: %s",
                                  c->header.data[column], type)
                   : arena_printf(c->file->arena, "; declare it as %s", type);
    }
    return "";
}

/* A name where a number belongs, in the first line of a file without a header,
 * is most often that of the column. */
static const char *
repair_of(const Csv *c, const char *text, DType t, int64_t column)
{
    bool is_first = c->file->line == 1 && !c->file->record;
    bool has_header = c->file->node->stage->ints[0] != CSV_NO_HEADER;
    if (is_first && !has_header && isalpha((unsigned char)*text))
        return "; csv(..., header = true) leaves out a first line of names";
    return other_type(c, text, t, column);
}

static Status
read_value(const Csv *c, int component, DType t, int64_t column, Scalar *out)
{
    const char *text;
    TRY(trimmed(c, column, &text));
    if (!is_missing(text)) {
        if (parse_value(text, t, out))
            return OK;
        return rt_line_error(c->file, "%s in %s is no %s%s",
                             quoted(c->file->arena, text),
                             column_text(c, column), dtype_info[t].name,
                             repair_of(c, text, t, column));
    }
    if (rt_file_default(c->file, component, out))
        return OK;
    return rt_line_error(c->file,
                         "%s is empty; csv(..., missing = 0) gives such fields "
                         "a value",
                         column_text(c, column));
}

static Status
read_text(const Csv *c, int component, int64_t column, char *to)
{
    const Field *f = &c->fields.data[column];
    size_t room = (size_t)c->file->node->bytes[component];
    if (f->len > room)
        return rt_line_error(c->file,
                             "%s has %zu bytes, more than %s holds: write "
                             "u8[%zu] or longer",
                             column_text(c, column), f->len,
                             rt_file_type_text(c->file, component), f->len);
    memcpy(to, c->text.data + f->begin, f->len);
    memset(to + f->len, 0, room - f->len);
    return OK;
}

static Status
read_component(const Csv *c, int i, char *to)
{
    const IrType *t = rt_file_type(c->file, i);
    if (is_text(t))
        return read_text(c, i, c->columns[i], to);
    int64_t n = width_of(c->file, i);
    for (int64_t k = 0; k < n; k++) {
        Scalar x;
        TRY(read_value(c, i, t->dtype, c->columns[i] + k, &x));
        scalar_store(t->dtype, to, k, x);
    }
    return OK;
}

/* ---- the format ---------------------------------------------------------- */

static Status
skip_mark(RtFile *f)
{
    const char *data;
    size_t have;
    TRY(rt_stream_peek(f->stream, 3, &data, &have));
    if (have >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        rt_stream_skip(f->stream, 3);
    return OK;
}

static Status
begin(RtFile *f)
{
    Csv *c = NEW(f->arena, Csv);
    const IrStage *stage = f->node->stage;
    f->state = c;
    *c =
        (Csv){.file = f,
              .separator = (char)stage->ints[1],
              .text = str_new(f->arena),
              .columns = NEW_ARRAY(f->arena, int64_t, (size_t)stage->types.len),
              .num_columns = -1};
    TRY(skip_mark(f));
    if (stage->ints[0] != CSV_NO_HEADER)
        TRY(read_header(c));
    TRY(choose_columns(c));
    if (stage->ints[0] != CSV_NO_HEADER)
        TRY(check_columns(c));
    return OK;
}

static Status
next(RtFile *f, RtElement *e, bool *end)
{
    Csv *c = f->state;
    TRY(read_row(c, end));
    if (*end)
        return OK;
    TRY(check_row(c));
    for (int i = 0; i < f->node->stage->types.len; i++)
        TRY(read_component(c, i, e->data[i]));
    f->line = c->line - 1;
    return OK;
}

const RtFileFormat rt_csv_format = {
    .is_packed = rt_is_gzip, .begin = begin, .next = next};
