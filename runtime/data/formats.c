/*
 * formats.c - small formats: bytes, lines, IDX
 *
 * IDX is the format of MNIST's files (yann.lecun.com/exdb/mnist): two zeros, a
 * code of the dtype, the rank; then the dimensions and all elements,
 * big-endian.
 */
#include <string.h>
#include "runtime/data/files.h"

/* ---- bytes --------------------------------------------------------------- */

static Status
bytes_begin(RtFile *f)
{
    int64_t each = f->node->bytes[0], size = rt_stream_size(f->stream);
    if (each == 0)
        return rt_file_error(f, "cannot be read as elements of no bytes");
    if (size % each != 0)
        return rt_file_error(f,
                             "has %lld bytes, which is no multiple of the %lld "
                             "of an element of type %s",
                             (long long)size, (long long)each,
                             rt_file_type_text(f, 0));
    return OK;
}

static Status
bytes_next(RtFile *f, RtElement *e, bool *end)
{
    const char *data;
    size_t have, n = (size_t)f->node->bytes[0];
    TRY(rt_stream_peek(f->stream, 1, &data, &have));
    *end = have == 0;
    if (*end)
        return OK;
    TRY(rt_file_take(f, f->stream, e->data[0], n));
    if (rt_file_type(f, 0)->dtype == DT_bool)
        rt_normalise_bools(e->data[0], (int64_t)n);
    return OK;
}

static int64_t
bytes_count(const RtFile *f)
{
    return rt_stream_size(f->stream) / f->node->bytes[0];
}

const RtFileFormat rt_bytes_format = {
    .begin = bytes_begin, .next = bytes_next, .count = bytes_count};

/* ---- lines --------------------------------------------------------------- */

static Status
lines_begin(RtFile *f)
{
    (void)f;
    return OK;
}

/* The length of the next line with its end, if it has one. */
static Status
find_end(RtFile *f, const char **line, size_t *len)
{
    const char *found = NULL;
    size_t have = 0, looked;
    do {
        looked = have;
        TRY(rt_stream_peek(f->stream, looked + 1, line, &have));
        found = memchr(*line + looked, '\n', have - looked);
    } while (!found && have > looked);
    *len = found ? (size_t)(found - *line) + 1 : have;
    return OK;
}

/* "\n", "\r\n", or nothing at the end of the file. */
static size_t
without_end(const char *line, size_t n)
{
    if (n == 0 || line[n - 1] != '\n')
        return n;
    n--;
    return n > 0 && line[n - 1] == '\r' ? n - 1 : n;
}

static Status
lines_next(RtFile *f, RtElement *e, bool *end)
{
    const char *line;
    size_t all, room = (size_t)f->node->bytes[0];
    TRY(find_end(f, &line, &all));
    *end = all == 0;
    if (*end)
        return OK;
    f->line++;
    size_t n = without_end(line, all);
    if (n > room && !f->node->stage->ints[0])
        return rt_line_error(f,
                             "it has %zu bytes, more than %s holds: write "
                             "u8[%zu] or longer, or cut = true behind it",
                             n, rt_file_type_text(f, 0), n);
    n = n < room ? n : room;
    memcpy(e->data[0], line, n);
    memset(e->data[0] + n, 0, room - n);
    rt_stream_skip(f->stream, all);
    return OK;
}

const RtFileFormat rt_lines_format = {
    .is_packed = rt_is_gzip, .begin = lines_begin, .next = lines_next};

/* ---- IDX ----------------------------------------------------------------- */

static const struct {
    unsigned char code;
    DType dtype;
} idx_dtypes[] = {{0x08, DT_u8},  {0x09, DT_i8},  {0x0b, DT_i16},
                  {0x0c, DT_i32}, {0x0d, DT_f32}, {0x0e, DT_f64}};

/* NULL: not a dtype of IDX. */
static const DTypeInfo *
idx_dtype(unsigned char code)
{
    for (size_t i = 0; i < sizeof idx_dtypes / sizeof *idx_dtypes; i++)
        if (idx_dtypes[i].code == code)
            return &dtype_info[idx_dtypes[i].dtype];
    return NULL;
}

static int64_t
big_endian(const unsigned char *x)
{
    return (int64_t)x[0] << 24 | (int64_t)x[1] << 16 | (int64_t)x[2] << 8 |
           (int64_t)x[3];
}

/* The header h of a rank's dimensions against the type stated. */
static Status
check_idx(RtFile *f, const unsigned char *h)
{
    const IrType *t = rt_file_type(f, 0);
    const DTypeInfo *dtype = idx_dtype(h[2]);
    bool agrees = dtype == &dtype_info[t->dtype] && h[3] == t->rank + 1;
    Str shape = str_new(f->arena);
    for (int i = 0; i < h[3]; i++) {
        int64_t n = big_endian(h + 4 + 4 * i);
        str_addf(&shape, "%s%lld", i ? ", " : "", (long long)n);
        agrees = agrees && (i == 0 || n == t->dims[i - 1].c);
    }
    if (agrees)
        return OK;
    if (!dtype)
        return rt_file_error(f,
                             "is no IDX file: its third byte, 0x%02x, stands "
                             "for no dtype",
                             h[2]);
    return rt_file_error(f, "holds %s[%s], not rows of %s%s", dtype->name,
                         str_text(&shape), rt_file_type_text(f, 0),
                         rt_file_widened(f, 0, dtype == &dtype_info[DT_f32]));
}

/* As far as it is known: compressed files do not tell. */
static Status
check_size(RtFile *f, int64_t count)
{
    int64_t all, size = rt_stream_size(f->stream);
    if (__builtin_mul_overflow(count, f->node->bytes[0], &all))
        all = INT64_MAX;
    return size < 0 ? OK
                    : rt_check_bytes_left(f, "", size - rt_stream_at(f->stream),
                                          all);
}

static Status
idx_begin(RtFile *f)
{
    const char *data;
    size_t have, header;
    TRY(rt_stream_peek(f->stream, 4, &data, &have));
    if (have < 4 || data[0] || data[1] || !data[3])
        return rt_file_error(f, "is no IDX file");
    header = 4 + 4 * (size_t)(unsigned char)data[3];
    TRY(rt_stream_peek(f->stream, header, &data, &have));
    if (have < header)
        return rt_file_error(f, "is cut short in its header");
    TRY(check_idx(f, (const unsigned char *)data));
    int64_t *count = NEW(f->arena, int64_t);
    *count = big_endian((const unsigned char *)data + 4);
    f->state = count;
    rt_stream_skip(f->stream, header);
    return check_size(f, *count);
}

/* n elements of big-endian order to ours. */
static void
turn_around(char *data, int64_t n, size_t width)
{
    for (; n > 0; n--, data += width)
        for (size_t i = 0; i < width / 2; i++) {
            char byte = data[i];
            data[i] = data[width - 1 - i];
            data[width - 1 - i] = byte;
        }
}

static Status
idx_next(RtFile *f, RtElement *e, bool *end)
{
    const int64_t *count = f->state;
    *end = f->record >= *count;
    if (*end)
        return rt_file_finish(f->stream);
    TRY(rt_file_take(f, f->stream, e->data[0], (size_t)f->node->bytes[0]));
    turn_around(e->data[0], rt_file_count(f, 0),
                dtype_info[rt_file_type(f, 0)->dtype].bytes);
    return OK;
}

static int64_t
idx_count(const RtFile *f)
{
    return *(const int64_t *)f->state;
}

const RtFileFormat rt_idx_format = {.is_packed = rt_is_gzip,
                                    .begin = idx_begin,
                                    .next = idx_next,
                                    .count = idx_count};
