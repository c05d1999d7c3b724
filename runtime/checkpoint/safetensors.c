/*
 * safetensors.c - files of named tensors
 *
 * Tensors of wide elements come first, and the header is filled up with blanks
 * to a multiple of 64 bytes, so that all data are aligned where the file is
 * mapped.  Within one width they are in the order of their names.
 *
 * The checksum is in the header's metadata: XXH3 of the whole file where its
 * own digits are zeros.  Metadata of a file written by tfd have a checksum and
 * nothing else (in older versions not even that), and stand first in the
 * header, so that damage to the format's or the checksum's name does not make
 * it a file without checksum.  What other programs call a checksum is none of
 * ours.
 *
 * Data are read once, in the order of the file and straight to where they
 * belong, and added to the checksum while they are in the cache.
 */
#include "runtime/checkpoint/safetensors.h"

#include <ctype.h>
#include <endian.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/base/message.h"

enum {
    LENGTH_BYTES = 8,
    ALIGN = 64,
    PIECE_BYTES = 256 << 10, /* that are read at once, and stay in L2 */
    MAX_HEADER = 100 << 20   /* the limit of other readers */
};

static const char metadata[] = "__metadata__"; /* not a tensor's name */
static const char format_key[] = "format", our_format[] = "tfd";
static const char checksum_key[] = "checksum";
static const char beginning[] =
    "{\"__metadata__\":{\"format\":\"tfd\",\"checksum\":\"";
static const char no_digits[HASH_LEN + 1] = "00000000000000000000000000000000";

const char *
rt_tensor_dtype(Arena *a, DType t)
{
    char *name =
        arena_strndup(a, dtype_info[t].name, strlen(dtype_info[t].name));
    for (char *p = name; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return name;
}

/* Bytes of an element; 0 for an unknown dtype of a file. */
static size_t
element_bytes(const char *dtype)
{
    for (int i = 0; i < NUM_DTYPES; i++)
        if (strcasecmp(dtype_info[i].name, dtype) == 0)
            return dtype_info[i].bytes;
    return 0;
}

/* ---- writing ------------------------------------------------------------ */

static int
compare(const void *a, const void *b)
{
    const RtTensor *x = *(const RtTensor *const *)a;
    const RtTensor *y = *(const RtTensor *const *)b;
    size_t wide_x = element_bytes(x->dtype), wide_y = element_bytes(y->dtype);
    if (wide_x != wide_y)
        return wide_x > wide_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* NULL: no memory; a shape lacks no dimension for want of it. */
static json_t *
describe(const RtTensor *t, size_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++) {
        if (json_array_append_new(shape, json_integer(t->dims[i])) == 0)
            continue;
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                     "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + t->bytes));
}

/* The header's text, to be freed; NULL: a name is not valid text, or no memory.
 */
static char *
header_text(const RtTensor *const *sorted, int n)
{
    size_t begin = 0;
    json_t *header = json_pack("{s:{s:s, s:s}}", metadata, format_key,
                               our_format, checksum_key, no_digits);
    for (int i = 0; i < n; i++) {
        json_object_set_new(header, sorted[i]->name,
                            describe(sorted[i], begin));
        begin += sorted[i]->bytes;
    }
    bool whole = json_object_size(header) == (size_t)n + 1;
    char *text = whole ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

/* The length and the header, filled up with blanks, in a. */
static FilePart
header_part(Arena *a, const char *text)
{
    size_t len = strlen(text);
    size_t all = (LENGTH_BYTES + len + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t length = htole64(all - LENGTH_BYTES);
    char *bytes = arena_alloc(a, all);
    memcpy(bytes, &length, LENGTH_BYTES);
    memset(bytes + LENGTH_BYTES, ' ', all - LENGTH_BYTES);
    memcpy(bytes + LENGTH_BYTES, text, len);
    return (FilePart){bytes, all};
}

/* Sets the digits in the first part, the header, which has zeros there: before
 * all names of tensors. */
static void
set_checksum(Arena *a, FilePart *parts, size_t n)
{
    Hash *h = hash_new(a);
    for (size_t i = 0; i < n; i++)
        hash_add(h, parts[i].data, parts[i].len);
    char *digits = memmem(parts[0].data, parts[0].len, no_digits, HASH_LEN);
    memcpy(digits, hash_end(a, h), HASH_LEN);
}

static Status
write_sorted(Arena *a, const char *path, const RtTensor *const *sorted, int n)
{
    char *text = header_text(sorted, n);
    if (!text)
        return status_new(STATUS_INPUT,
                          "cannot write \"%s\": the names of its tensors are "
                          "no text, or not different",
                          path);
    FilePart *parts = NEW_ARRAY(a, FilePart, (size_t)n + 1);
    parts[0] = header_part(a, text);
    free(text);
    for (int i = 0; i < n; i++)
        parts[i + 1] = (FilePart){sorted[i]->data, sorted[i]->bytes};
    set_checksum(a, parts, (size_t)n + 1);
    return file_write_parts(path, parts, (size_t)n + 1);
}

Status
rt_tensors_write(const char *path, const RtTensor *tensors, int n)
{
    Arena *a = arena_new(NULL, "writing tensors");
    const RtTensor **sorted = NEW_ARRAY(a, const RtTensor *, (size_t)n);
    for (int i = 0; i < n; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    Status st = write_sorted(a, path, sorted, n);
    arena_release(a);
    return st;
}

/* ---- reading ------------------------------------------------------------ */

/* A file being read. */
typedef struct Reader {
    Arena *arena;
    const char *path;
    int fd;
    size_t len;        /* of all of it */
    size_t begin;      /* of the data */
    size_t bytes;      /* of the data */
    char *head;        /* all before the data */
    RtTensor **sorted; /* by their places in the file */
    Hash *hash;        /* of what has been read; NULL: not checked */
} Reader;

static Status
refuse(const Reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *why = message_vprintf(r->arena, format, args);
    va_end(args);
    return status_new(STATUS_INPUT, "cannot read \"%s\": %s", r->path, why);
}

static bool
read_shape(const json_t *shape, RtTensor *t)
{
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > ST_MAX_RANK)
        return false;
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        t->dims[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || t->dims[i] < 0)
            return false;
    }
    return true;
}

static bool
read_offsets(const Reader *r, const json_t *offsets, RtTensor *t)
{
    const json_t *from = json_array_get(offsets, 0);
    const json_t *to = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) ||
        !json_is_integer(to) || begin < 0 || end < begin ||
        (uint64_t)end > r->bytes)
        return false;
    t->at = (size_t)begin;
    t->bytes = (size_t)(end - begin);
    return true;
}

/* Whether the bytes are as many as the elements need.  An unknown dtype may
 * have any number; callers that need such a tensor reject its dtype. */
static bool
fits(const RtTensor *t)
{
    size_t bytes = element_bytes(t->dtype), all = bytes;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(all, (size_t)t->dims[i], &all))
            return false;
    return !bytes || all == t->bytes;
}

static Status
read_tensor(const Reader *r, const char *name, const json_t *entry, RtTensor *t)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    t->name = arena_strndup(r->arena, name, strlen(name));
    if (!dtype || !read_shape(json_object_get(entry, "shape"), t) ||
        !read_offsets(r, json_object_get(entry, "data_offsets"), t))
        return refuse(r, "its header is damaged at \"%s\"", name);
    t->dtype = arena_strndup(r->arena, dtype, strlen(dtype));
    return fits(t) ? OK
                   : refuse(r, "\"%s\" has not as many bytes as its shape says",
                            name);
}

/* ---- the layout: each byte belongs to exactly one tensor ----------- */

/* Empty tensors come before the one that begins at the same byte. */
static int
by_place(const void *a, const void *b)
{
    const RtTensor *x = *(const RtTensor *const *)a;
    const RtTensor *y = *(const RtTensor *const *)b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static Status
check_layout(Reader *r, RtTensor *tensors, int n)
{
    RtTensor **sorted = NEW_ARRAY(r->arena, RtTensor *, (size_t)n);
    size_t at = 0;
    r->sorted = sorted;
    for (int i = 0; i < n; i++)
        sorted[i] = &tensors[i];
    if (n)
        qsort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int i = 0; i < n; i++) {
        if (sorted[i]->at != at)
            return refuse(r, "\"%s\" %s", sorted[i]->name,
                          sorted[i]->at < at
                              ? message_part("shares bytes with another tensor")
                              : message_part("has bytes of no tensor before "
                                             "it"));
        at += sorted[i]->bytes;
    }
    size_t rest = r->bytes - at;
    return rest ? refuse(r, "%zu bytes at its end belong to no tensor", rest)
                : OK;
}

/* ---- the checksum -------------------------------------------------------- */

/* Begins the checksum of a file whose header has these digits, which are zeros
 * there afterwards; false: it has not. */
static bool
begin_checksum(Reader *r, const char *digits)
{
    char *at = strlen(digits) == HASH_LEN
                   ? memmem(r->head, r->begin, digits, HASH_LEN)
                   : NULL;
    if (!at)
        return false;
    memcpy(at, no_digits, HASH_LEN);
    r->hash = hash_new(r->arena);
    hash_add(r->hash, r->head, r->begin);
    return true;
}

/* Whether tfd wrote the file: its header begins so, but for a byte or two that
 * are damaged.  Another program's format shifts or changes more. */
static bool
begins_as_ours(const Reader *r)
{
    enum { MOST_DAMAGED = 2 };
    const char *head = r->head + LENGTH_BYTES;
    size_t damaged = 0, n = strlen(beginning);
    if (r->begin < LENGTH_BYTES + n)
        return false;
    for (size_t i = 0; i < n; i++)
        damaged += head[i] != beginning[i];
    return damaged <= MOST_DAMAGED;
}

/* Files written by tfd have only these two. */
static bool
is_known(const json_t *about)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)about, key, unused)
    {
        if (strcmp(key, format_key) != 0 && strcmp(key, checksum_key) != 0)
            return false;
    }
    return true;
}

static Status
refuse_checksum(const Reader *r)
{
    return refuse(r, "it is damaged (checksum)");
}

static Status
check_metadata(Reader *r, const json_t *header)
{
    const json_t *about = json_object_get(header, metadata);
    const char *format = json_string_value(json_object_get(about, format_key));
    const json_t *checksum = json_object_get(about, checksum_key);
    bool ours =
        (format && strcmp(format, our_format) == 0) || begins_as_ours(r);
    if (!hash_is_checked() || !ours)
        return OK;
    if (!is_known(about))
        return refuse(r, "its metadata are damaged");
    if (checksum && (!json_is_string(checksum) ||
                     !begin_checksum(r, json_string_value(checksum))))
        return refuse_checksum(r);
    return OK;
}

static Status
check_checksum(const Reader *r, const json_t *header)
{
    const json_t *about = json_object_get(header, metadata);
    const char *want = json_string_value(json_object_get(about, checksum_key));
    return !r->hash || strcmp(want, hash_end(r->arena, r->hash)) == 0
               ? OK
               : refuse_checksum(r);
}

/* ---- reading a file ------------------------------------------------------ */

static Status
read_entries(Reader *r, json_t *header, RtTensor **out, int *n)
{
    const char *name;
    json_t *entry;
    *n = 0;
    *out = NEW_ARRAY(r->arena, RtTensor, json_object_size(header));
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, metadata) != 0)
            TRY(read_tensor(r, name, entry, &(*out)[(*n)++]));
    }
    return check_layout(r, *out, *n);
}

static Status
refuse_bytes(const Reader *r)
{
    return refuse(r, "it is no safetensors file, or cut short");
}

/* n bytes of the file, from that one on. */
static Status
read_bytes(const Reader *r, size_t at, size_t n, char *to)
{
    size_t got;
    TRY(file_read_at(r->fd, r->path, (int64_t)at, to, n, &got));
    return got == n ? OK : refuse_bytes(r);
}

/* Records the positions of the data. */
static Status
find_data(Reader *r)
{
    uint64_t length;
    if (r->len < LENGTH_BYTES)
        return refuse(r, "it is no safetensors file");
    TRY(read_bytes(r, 0, LENGTH_BYTES, (char *)&length));
    length = le64toh(length);
    if (length > MAX_HEADER || length > r->len - LENGTH_BYTES)
        return refuse_bytes(r);
    r->begin = LENGTH_BYTES + (size_t)length;
    r->bytes = r->len - r->begin;
    return OK;
}

static Status
read_header(Reader *r, json_t **header)
{
    r->head = arena_alloc(r->arena, r->begin);
    TRY(read_bytes(r, 0, r->begin, r->head));
    const char *text = r->head + LENGTH_BYTES;
    size_t length = r->begin - LENGTH_BYTES;
    if (length > 0 && *text == '{')
        *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(*header))
        return OK;
    json_decref(*header);
    *header = NULL;
    return refuse(r, "its header is no JSON object");
}

/* t's data, to where they belong; NULL: they are only added to the checksum. */
static Status
read_tensor_data(const Reader *r, const RtTensor *t, char *to, char *scratch)
{
    if (!to && !r->hash)
        return OK;
    for (size_t at = 0, n; at < t->bytes; at += n) {
        n = t->bytes - at < PIECE_BYTES ? t->bytes - at : PIECE_BYTES;
        char *piece = to ? to + at : scratch;
        TRY(read_bytes(r, r->begin + t->at + at, n, piece));
        if (r->hash)
            hash_add(r->hash, piece, n);
    }
    return OK;
}

/* Gives tensors their data. */
static Status
read_data(const Reader *r, const RtTensorsUser *user, int n)
{
    char *scratch = arena_alloc(r->arena, PIECE_BYTES);
    for (int i = 0; i < n; i++) {
        RtTensor *t = r->sorted[i];
        char *to = user->place ? user->place(user->cx, t)
                               : arena_alloc(r->arena, t->bytes);
        TRY(read_tensor_data(r, t, to, scratch));
        t->data = to;
    }
    return OK;
}

static Status
read_open(Reader *r, const RtTensorsUser *user, RtTensor **out, int *n)
{
    json_t *header = NULL;
    TRY(find_data(r));
    TRY(read_header(r, &header));
    Status st = read_entries(r, header, out, n);
    if (!st && user->check)
        st = user->check(user->cx, *out, *n);
    if (!st)
        st = check_metadata(r, header);
    if (!st)
        st = read_data(r, user, *n);
    if (!st)
        st = check_checksum(r, header);
    json_decref(header);
    return st;
}

Status
rt_tensors_read(Arena *a, const char *path, const RtTensorsUser *user,
                RtTensor **out, int *n)
{
    int64_t size;
    Reader r = {.arena = a, .path = path};
    TRY(file_open_limited(path, LIMIT_checkpoint, &r.fd, &size));
    r.len = (size_t)size;
    Status st = read_open(&r, user, out, n);
    close(r.fd);
    return st;
}
