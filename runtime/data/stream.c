/*
 * stream.c - the bytes of a file one after the other, unpacked
 *
 * Bytes come from the file itself, zlib, or a file in a zip.  They are appended
 * to a buffer and consumed at its beginning.  At the end of the buffer the rest
 * moves to the front; a buffer that is too small doubles as bytes arrive, so
 * that a wrong length in a damaged file costs nothing.
 */
#include "runtime/data/stream.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "ir/base/io/file.h"
#include "ir/base/io/limit.h"
#include "ir/base/message.h"

enum { BLOCK = 64 << 10, HEAD = 12 };

/* The next bytes, at most n, to `to`; *got is 0 at the end. */
typedef Status ReadMore(RtStream *s, char *to, size_t n, size_t *got);

struct RtStream {
    Arena *arena;
    const char *path;
    ReadMore *read;
    int fd;            /* -1: a file in a zip */
    int64_t size;      /* in all; -1: unknown */
    int64_t file_size; /* when it was opened; -1: a file in a zip */
    int64_t file_at;   /* how much of the file was read */
    z_stream z;        /* packed: its input is in `packed` */
    unsigned char *packed;
    bool unpacks; /* z is to be ended */
    bool whole;   /* packed: what was packed is complete so far */
    zip_file_t *member;
    bool is_stored; /* the member: its bytes are in the zip as they are */
    Arena *room;    /* of the buffer */
    char *buffer;
    size_t first, last; /* bytes of it that were read and not skipped */
    size_t capacity;
    int64_t at;
    bool ended;
};

static void
close_stream(void *stream)
{
    RtStream *s = stream;
    if (s->unpacks)
        inflateEnd(&s->z);
    if (s->member)
        zip_fclose(s->member);
    if (s->fd >= 0)
        close(s->fd);
}

static RtStream *
new_stream(Arena *a, const char *path, ReadMore *read)
{
    RtStream *s = NEW(a, RtStream);
    s->arena = a;
    s->path = arena_strdup(a, path);
    s->read = read;
    s->fd = -1;
    s->size = s->file_size = -1;
    arena_on_release(a, close_stream, s);
    return s;
}

/* ---- the file itself ----------------------------------------------------- */

/* A file that ends before its initial size was truncated, or the disk returns
 * less than it has; the missing bytes must not count as the end of the data.
 * What is appended meanwhile is not read. */
static Status
read_file(RtStream *s, char *to, size_t n, size_t *got)
{
    int64_t left = s->file_size - s->file_at;
    if (s->file_size >= 0 && (int64_t)n > left)
        n = left > 0 ? (size_t)left : 0;
    TRY(file_read_at(s->fd, s->path, s->file_at, to, n, got));
    s->file_at += (int64_t)*got;
    if (*got < n && s->file_at < s->file_size)
        return status_new(STATUS_INPUT,
                          "\"%s\" ends after %lld bytes, and had %lld when it "
                          "was opened",
                          s->path, (long long)s->file_at,
                          (long long)s->file_size);
    return OK;
}

/* ---- zlib ---------------------------------------------------------------- */

static Status
damaged(const RtStream *s, const char *why)
{
    return status_new(STATUS_INPUT, "\"%s\" cannot be unpacked: %s", s->path,
                      why);
}

/* Several compressed streams may follow each other. */
static void
begin_next_part(RtStream *s)
{
    s->whole = true;
    if (inflateReset(&s->z) != Z_OK)
        UNREACHABLE("a z_stream that is not sound");
}

/* Zeros may pad a file, as many as its writer likes. */
static void
skip_padding(RtStream *s)
{
    while (s->z.avail_in && *s->z.next_in == 0) {
        s->z.next_in++;
        s->z.avail_in--;
    }
}

static Status
refill_packed(RtStream *s, bool *end)
{
    size_t got;
    TRY(read_file(s, (char *)s->packed, BLOCK, &got));
    s->z.next_in = s->packed;
    s->z.avail_in = (unsigned)got;
    *end = got == 0;
    if (*end && !s->whole)
        return damaged(s, message_part("its end is missing"));
    return OK;
}

static Status
read_packed(RtStream *s, char *to, size_t n, size_t *got)
{
    bool end = false;
    *got = 0;
    s->z.next_out = (unsigned char *)to;
    s->z.avail_out = (unsigned)(n < BLOCK ? n : BLOCK);
    while (!end && s->z.next_out == (unsigned char *)to) {
        if (s->whole)
            skip_padding(s);
        if (s->z.avail_in == 0) {
            TRY(refill_packed(s, &end));
            continue;
        }
        s->whole = false;
        int result = inflate(&s->z, Z_NO_FLUSH);
        if (result == Z_STREAM_END)
            begin_next_part(s);
        else if (result != Z_OK && result != Z_BUF_ERROR)
            return damaged(s, s->z.msg
                                  ? s->z.msg
                                  : message_part("it asks for a dictionary"));
    }
    *got = (size_t)(s->z.next_out - (unsigned char *)to);
    return OK;
}

static void *
allocate(void *arena, unsigned n, unsigned size)
{
    return arena_array(arena, n, size);
}

/* With the arena. */
static void
leave(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

/* gzip or zlib, by the first bytes. */
static void
begin_unpacking(RtStream *s)
{
    s->read = read_packed;
    s->size = -1;
    s->packed = arena_alloc(s->arena, BLOCK);
    s->z.zalloc = allocate;
    s->z.zfree = leave;
    s->z.opaque = s->arena;
    if (inflateInit2(&s->z, MAX_WBITS + 32) != Z_OK)
        UNREACHABLE("zlib %s is not zlib %s", zlibVersion(), ZLIB_VERSION);
    s->unpacks = true;
}

/* ---- files in a zip ------------------------------------------------------ */

static Status
read_member(RtStream *s, char *to, size_t n, size_t *got)
{
    zip_int64_t more = zip_fread(s->member, to, n);
    if (more < 0)
        return damaged(s, zip_error_strerror(zip_file_get_error(s->member)));
    *got = (size_t)more;
    return OK;
}

/* Drops the buffer and goes on to read at `at`. */
static Status
seek_member(RtStream *s, int64_t at)
{
    s->first = s->last = 0;
    s->at = at;
    if (zip_fseek(s->member, at, SEEK_SET) < 0)
        return damaged(s, zip_error_strerror(zip_file_get_error(s->member)));
    return OK;
}

/* ---- the buffer ---------------------------------------------------------- */

static void
make_room(RtStream *s, size_t capacity)
{
    Arena *room = arena_new(s->arena, "a buffer of a file");
    char *buffer = arena_alloc(room, capacity);
    if (s->last > s->first)
        memcpy(buffer, s->buffer + s->first, s->last - s->first);
    if (s->room)
        arena_release(s->room);
    s->room = room;
    s->buffer = buffer;
    s->capacity = capacity;
    s->last -= s->first;
    s->first = 0;
}

/* Makes space for another byte at the end.  The bytes in the buffer are a piece
 * of the file that its reader needs at once, and may not exceed the limit. */
static Status
move_down(RtStream *s)
{
    size_t held = s->last - s->first;
    if (s->last < s->capacity)
        return OK;
    if (held > (size_t)limit_value(LIMIT_record))
        return limit_status(LIMIT_record, s->path);
    if (held > s->capacity / 2) {
        make_room(s, s->capacity * 2);
        return OK;
    }
    memmove(s->buffer, s->buffer + s->first, held);
    s->first = 0;
    s->last = held;
    return OK;
}

Status
rt_stream_peek(RtStream *s, size_t n, const char **data, size_t *have)
{
    while (s->last - s->first < n && !s->ended) {
        size_t got;
        TRY(move_down(s));
        TRY(s->read(s, s->buffer + s->last, s->capacity - s->last, &got));
        s->last += got;
        s->ended = got == 0;
    }
    *data = s->buffer + s->first;
    *have = s->last - s->first;
    return OK;
}

void
rt_stream_skip(RtStream *s, size_t n)
{
    s->first += n;
    s->at += (int64_t)n;
}

int64_t
rt_stream_at(const RtStream *s)
{
    return s->at;
}

Status
rt_stream_seek(RtStream *s, int64_t at)
{
    const char *data;
    size_t have = s->last - s->first;
    bool is_ahead = at - s->at > (int64_t)have;
    if (s->read == read_file && is_ahead) {
        s->first = s->last = 0;
        s->file_at = s->at = at;
    }
    if (s->is_stored && is_ahead)
        TRY(seek_member(s, at < s->size ? at : s->size));
    while (s->at < at) {
        TRY(rt_stream_peek(s, 1, &data, &have));
        int64_t step = at - s->at;
        if (have == 0)
            break;
        rt_stream_skip(s, (int64_t)have < step ? have : (size_t)step);
    }
    return OK;
}

int64_t
rt_stream_size(const RtStream *s)
{
    return s->size;
}

int64_t
rt_stream_file_size(const RtStream *s)
{
    return s->file_size;
}

int64_t
rt_stream_footprint(const RtStream *s)
{
    return (int64_t)s->capacity + (s->unpacks ? BLOCK : 0);
}

/* ---- opening ------------------------------------------------------------- */

/* A full block, or the file and a byte more, which finds its end at once. */
static size_t
first_capacity(const RtStream *s)
{
    return s->size >= 0 && s->size < BLOCK ? (size_t)s->size + 1 : BLOCK;
}

Status
rt_open_data(const char *path, int *fd, int64_t *size)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return status_new(STATUS_INPUT,
                          "cannot open \"%s\": it is a folder; name the files "
                          "in it, as \"%s/*\"",
                          path, path);
    return file_open(path, fd, size);
}

Status
rt_stream_open(Arena *a, const char *path, RtIsPacked *is_packed,
               RtStream **out)
{
    size_t got;
    unsigned char head[HEAD];
    RtStream *s = new_stream(a, path, read_file);
    Status st = rt_open_data(path, &s->fd, &s->size);
    if (st) {
        s->fd = -1;
        return st;
    }
    s->file_size = s->size;
    if (is_packed) {
        TRY(file_read_at(s->fd, path, 0, head, HEAD, &got));
        if (is_packed(head, got))
            begin_unpacking(s);
    }
    make_room(s, first_capacity(s));
    *out = s;
    return OK;
}

static bool
is_stored(const zip_stat_t *info)
{
    return (info->valid & ZIP_STAT_COMP_METHOD) &&
           info->comp_method == ZIP_CM_STORE;
}

Status
rt_stream_open_member(Arena *a, const char *path, zip_t *zip,
                      zip_uint64_t index, RtStream **out)
{
    zip_stat_t info;
    RtStream *s = new_stream(a, path, read_member);
    s->member = zip_fopen_index(zip, index, 0);
    if (!s->member)
        return damaged(s, zip_strerror(zip));
    if (zip_stat_index(zip, index, 0, &info) == 0 &&
        (info.valid & ZIP_STAT_SIZE) && info.size <= INT64_MAX) {
        s->size = (int64_t)info.size;
        s->is_stored = is_stored(&info);
    }
    make_room(s, first_capacity(s));
    *out = s;
    return OK;
}
