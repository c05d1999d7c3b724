/*
 * npy.c - rows of an .npy file
 *
 * The format is NumPy's (numpy.lib.format): "\x93NUMPY", a version of two
 * bytes, the length of the header (2 bytes in version 1, 4 in 2 and 3), a
 * Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * and the elements.  The file must hold what the program stated: the first
 * dimension counts elements of the pipeline, the others are an element's shape.
 */
#include "runtime/data/npy.h"

#include <string.h>

typedef struct Cursor {
    const char *at, *end;
} Cursor;

static void
skip_space(Cursor *c)
{
    while (c->at < c->end && memchr(" \t\n\r", *c->at, 4))
        c->at++;
}

static bool
take(Cursor *c, const char *text)
{
    size_t n = strlen(text);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

static bool
take_quoted(Cursor *c, char *out, size_t size)
{
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (n + 1 >= size || *c->at < ' ' || *c->at > '~')
            return false;
        out[n++] = *c->at;
    }
    out[n] = 0;
    return take(c, (char[]){quote, 0});
}

static bool
take_number(Cursor *c, int64_t *out)
{
    skip_space(c);
    const char *begin = c->at;
    *out = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *c->at - '0', out))
            return false;
    return c->at > begin;
}

/* "(3, 4)", "(3,)" or "()". */
static bool
take_shape(Cursor *c, RtNpyHeader *h)
{
    if (!take(c, "("))
        return false;
    h->rank = 0;
    while (!take(c, ")")) {
        if (h->rank == NPY_MAX_RANK || !take_number(c, &h->shape[h->rank++]))
            return false;
        if (!take(c, ","))
            return take(c, ")");
    }
    return true;
}

static bool
take_entry(Cursor *c, RtNpyHeader *h, unsigned *seen)
{
    char key[32];
    if (!take_quoted(c, key, sizeof key) || !take(c, ":"))
        return false;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        return take_quoted(c, h->descr, sizeof h->descr);
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= 2;
        h->fortran_order = take(c, "True");
        return h->fortran_order || take(c, "False");
    }
    *seen |= 4;
    return !strcmp(key, "shape") && take_shape(c, h);
}

static bool
parse_dictionary(Cursor c, RtNpyHeader *h)
{
    unsigned seen = 0;
    if (!take(&c, "{"))
        return false;
    while (!take(&c, "}")) {
        if (!take_entry(&c, h, &seen))
            return false;
        if (!take(&c, ",") && !take(&c, "}"))
            return false;
        if (c.at[-1] == '}')
            break;
    }
    return seen == 7;
}

/* Where the header's text and the elements begin, of a file of len bytes. */
static bool
find_header(const char *data, size_t len, Cursor *text, size_t *elements)
{
    if (len < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return false;
    const unsigned char *u = (const unsigned char *)data;
    size_t at = u[6] == 1 ? 10 : 12, size = u[8] | (size_t)u[9] << 8;
    if (u[6] < 1 || u[6] > 3 || len < at)
        return false;
    if (u[6] > 1)
        size |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (size > len - at)
        return false;
    *text = (Cursor){data + at, data + at + size};
    *elements = at + size;
    return true;
}

/* The bytes of all elements: INT64_MAX for more. */
static int64_t
total_bytes(const RtNpyHeader *h, int64_t element)
{
    int64_t bytes = element;
    for (int i = 0; i < h->rank; i++)
        if (__builtin_mul_overflow(bytes, h->shape[i], &bytes))
            return INT64_MAX;
    return bytes;
}

bool
rt_npy_parse(const char *data, size_t len, RtNpyHeader *h)
{
    Cursor text;
    *h = (RtNpyHeader){.rank = 0};
    return find_header(data, len, &text, &h->offset) &&
           parse_dictionary(text, h);
}

/* ---- the source --------------------------------------------------------- */

/* No header is longer; NumPy's are some hundred bytes. */
enum { MAX_HEADER = 64 << 10 };

static bool
agrees(const IrType *t, const RtNpyHeader *h)
{
    if (!*h->descr || strcmp(dtype_info[t->dtype].numpy, h->descr) != 0 ||
        h->rank != t->rank + 1)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].c != h->shape[i + 1])
            return false;
    return true;
}

static const char *
shape_text(Arena *a, const RtNpyHeader *h)
{
    Str s = str_new(a);
    for (int i = 0; i < h->rank; i++)
        str_addf(&s, "%s%lld", i ? ", " : "", (long long)h->shape[i]);
    return str_text(&s);
}

/* "f32[2]", the type of its rows; NULL where no type has such elements. */
static const char *
rows_text(Arena *a, const RtNpyHeader *h)
{
    int t = 0;
    while (t < NUM_DTYPES && strcmp(dtype_info[t].numpy, h->descr) != 0)
        t++;
    if (t == NUM_DTYPES || !*h->descr || h->rank == 0)
        return NULL;
    RtNpyHeader row = *h;
    row.rank--;
    memmove(row.shape, row.shape + 1, (size_t)row.rank * sizeof *row.shape);
    const char *name = dtype_info[t].name;
    return row.rank ? arena_printf(a, "%s[%s]", name, shape_text(a, &row))
                    : name;
}

/* How NumPy saves what can be read, of elements that cannot; "" where they are
 * no numbers. */
static const char *
repair_of(Arena *a, const char *descr)
{
    static const struct {
        const char *theirs, *numpy, *ours;
    } wider[] = {
        {"<u2", "<i4", "i32"}, {"<u4", "<i8", "i64"}, {"<u8", "<i8", "i64"}};
    if (descr[0] == '>')
        return arena_printf(a, "; save it with x.astype('<%s')", descr + 1);
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        if (strcmp(descr, wider[i].theirs) == 0)
            return arena_printf(a, "; save it with x.astype('%s'), as %s",
                                wider[i].numpy, wider[i].ours);
    return "";
}

/* Rows of another type than the program states. */
static Status
refuse_rows(const RtFile *f, int i, const char *of, const RtNpyHeader *h)
{
    Arena *a = f->arena;
    const char *rows = rows_text(a, h), *shape = shape_text(a, h);
    const char *type = rt_file_type_text(f, i);
    if (rows)
        return rt_file_error(
            f, "%shas rows of %s, not of %s: NumPy wrote '%s' of shape [%s]%s",
            of, rows, type, h->descr, shape,
            rt_file_widened(f, i, strcmp(h->descr, "<f4") == 0));
    return rt_file_error(f, "%sholds '%s' of shape [%s], not rows of %s%s", of,
                         h->descr, shape, type, repair_of(a, h->descr));
}

static Status
check(const RtFile *f, RtStream *s, int i, const char *of, const RtNpyHeader *h)
{
    const IrType *t = rt_file_type(f, i);
    if (!agrees(t, h))
        return refuse_rows(f, i, of, h);
    if (h->fortran_order)
        return rt_file_error(f,
                             "%sis in column-major order; save it with "
                             "numpy.ascontiguousarray",
                             of);
    if (rt_stream_size(s) < 0)
        return OK;
    return rt_check_bytes_left(f, of, rt_stream_size(s) - (int64_t)h->offset,
                               total_bytes(h, dtype_info[t->dtype].bytes));
}

/* The header of an array whose elements are records, of several fields. */
static bool
has_fields(const char *data, size_t len)
{
    size_t elements;
    Cursor c;
    return find_header(data, len, &c, &elements) && take(&c, "{") &&
           take(&c, "'descr'") && take(&c, ":") && take(&c, "[");
}

Status
rt_npy_begin(const RtFile *f, RtStream *s, int i, const char *array,
             RtNpyHeader *h)
{
    const char *data;
    size_t have;
    const char *of =
        array ? arena_printf(f->arena, "array \"%s\" ", array) : "";
    TRY(rt_stream_peek(s, MAX_HEADER, &data, &have));
    if (!rt_npy_parse(data, have, h))
        return has_fields(data, have)
                   ? rt_file_error(f,
                                   "%sholds records of several fields; save "
                                   "x['name'] of each field as an array",
                                   of)
                   : rt_file_error(f, "%sis no .npy file", of);
    TRY(check(f, s, i, of, h));
    rt_stream_skip(s, h->offset);
    return OK;
}

static Status
begin(RtFile *f)
{
    RtNpyHeader *h = NEW(f->arena, RtNpyHeader);
    f->state = h;
    return rt_npy_begin(f, f->stream, 0, NULL, h);
}

static Status
next(RtFile *f, RtElement *e, bool *end)
{
    const RtNpyHeader *h = f->state;
    size_t bytes = (size_t)f->node->bytes[0];
    *end = f->record >= h->shape[0];
    if (*end)
        return OK;
    TRY(rt_file_take(f, f->stream, e->data[0], bytes));
    if (rt_file_type(f, 0)->dtype == DT_bool)
        rt_normalise_bools(e->data[0], (int64_t)bytes);
    return OK;
}

static int64_t
count(const RtFile *f)
{
    const RtNpyHeader *h = f->state;
    return h->shape[0];
}

const RtFileFormat rt_npy_format = {
    .begin = begin, .next = next, .count = count};
