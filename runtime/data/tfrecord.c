/*
 * tfrecord.c - records of TFRecord files
 *
 * The format is TensorFlow's (core/lib/io/record_writer.h): the length of a
 * record in 8 bytes, its check sum, the record, its check sum; all
 * little-endian.  A file may be compressed as a whole by gzip or zlib: it is if
 * it begins so and its first 12 bytes are not a length with its check sum.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/hash/crc.h"
#include "runtime/data/files.h"

enum { LENGTH = 8, SUM = 4, HEADER = LENGTH + SUM };

typedef struct Records {
    bool trusts; /* check sums are not compared: for tests of later code */
    bool *seen;  /* features of the record at hand */
} Records;

static bool
has_sum(const void *bytes, size_t n)
{
    uint32_t sum;
    memcpy(&sum, (const char *)bytes + n, SUM);
    return crc32c_masked(bytes, n) == le32toh(sum);
}

static bool
is_packed(const unsigned char *head, size_t len)
{
    bool zlib =
        len >= 2 && head[0] == 0x78 && (head[0] << 8 | head[1]) % 31 == 0;
    if (len >= HEADER && has_sum(head, LENGTH))
        return false;
    return zlib || rt_is_gzip(head, len);
}

static Status
begin(RtFile *f)
{
    const char *sums = getenv("TFD_CHECKSUMS");
    Records *r = NEW(f->arena, Records);
    r->trusts = sums && strcmp(sums, "0") == 0;
    r->seen = NEW_ARRAY(f->arena, bool, (size_t)f->node->stage->types.len);
    f->state = r;
    return OK;
}

/* The length of the next record; *end: there is none. */
static Status
read_length(RtFile *f, uint64_t *out, bool *end)
{
    const char *data;
    size_t have;
    const Records *r = f->state;
    TRY(rt_stream_peek(f->stream, HEADER, &data, &have));
    *end = have == 0;
    if (*end)
        return OK;
    if (have < HEADER)
        return rt_record_error(f, "it is cut short: its length has %zu bytes",
                               have);
    if (!r->trusts && !has_sum(data, LENGTH))
        return rt_record_error(f, "the check sum of its length is wrong: the "
                                  "file is damaged, or no TFRecord file");
    memcpy(out, data, LENGTH);
    *out = le64toh(*out);
    return OK;
}

static Status
cut_short(const RtFile *f, uint64_t have, uint64_t need)
{
    return rt_record_error(f, "it is cut short: it has %llu bytes of %llu",
                           (unsigned long long)have, (unsigned long long)need);
}

/* The bytes of the next record, which is not consumed yet. */
static Status
read_record(RtFile *f, const char **data, size_t *len, bool *end)
{
    size_t have;
    uint64_t n = 0;
    const Records *r = f->state;
    int64_t size = rt_stream_size(f->stream);
    TRY(read_length(f, &n, end));
    if (*end)
        return OK;
    int64_t left = size - rt_stream_at(f->stream) - HEADER;
    if (n > SIZE_MAX / 4 || (size >= 0 && n > (uint64_t)left))
        return cut_short(f, size < 0 ? 0 : (uint64_t)left, n);
    *len = (size_t)n;
    TRY(rt_stream_peek(f->stream, HEADER + *len + SUM, data, &have));
    if (have < HEADER + *len + SUM)
        return cut_short(f, have - HEADER, n + SUM);
    *data += HEADER;
    if (!r->trusts && !has_sum(*data, *len))
        return rt_record_error(f,
                               "its check sum is wrong: the file is damaged");
    return OK;
}

static Status
read_raw(const RtFile *f, const char *data, size_t len, RtElement *e)
{
    if ((int64_t)len != f->node->bytes[0])
        return rt_record_error(f, "it has %zu bytes, and %s takes %lld", len,
                               rt_file_type_text(f, 0),
                               (long long)f->node->bytes[0]);
    memcpy(e->data[0], data, len);
    if (rt_file_type(f, 0)->dtype == DT_bool)
        rt_normalise_bools(e->data[0], (int64_t)len);
    return OK;
}

static Status
next(RtFile *f, RtElement *e, bool *end)
{
    const char *data;
    size_t len = 0;
    const Records *r = f->state;
    TRY(read_record(f, &data, &len, end));
    if (*end)
        return OK;
    if (f->node->stage->names.len)
        TRY(rt_example_read(f, data, len, r->seen, e));
    else
        TRY(read_raw(f, data, len, e));
    rt_stream_skip(f->stream, HEADER + len + SUM);
    return OK;
}

const RtFileFormat rt_tfrecord_format = {
    .is_packed = is_packed, .begin = begin, .next = next};
