/*
 * archive.c - the state that a resumed run needs, as bytes
 *
 * Numbers are little-endian, as everything in a plan; nothing is aligned.
 */
#include "runtime/checkpoint/archive.h"

#include <assert.h>
#include <endian.h>
#include <stdarg.h>
#include <string.h>
#include "ir/base/message.h"

enum { LEAST_ROOM = 256 };

RtArchive
rt_archive_writer(Arena *a, size_t room)
{
    size_t cap = room > LEAST_ROOM ? room : LEAST_ROOM;
    return (RtArchive){.arena = a, .data = arena_alloc(a, cap), .cap = cap};
}

RtArchive
rt_archive_reader(Arena *a, const char *data, size_t len)
{
    return (RtArchive){
        .arena = a, .reads = true, .data = (char *)data, .len = len};
}

void
rt_archive_clear(RtArchive *ar)
{
    assert(!ar->reads);
    ar->len = 0;
}

void
rt_archive_fail(RtArchive *ar, const char *format, ...)
{
    va_list args;
    if (ar->wrong)
        return;
    va_start(args, format);
    ar->wrong = message_vprintf(ar->arena, format, args);
    va_end(args);
}

/* ---- bytes -------------------------------------------------------------- */

static void
make_room(RtArchive *ar, size_t n)
{
    size_t cap = ar->cap;
    while (cap - ar->len < n)
        cap *= 2;
    if (cap == ar->cap)
        return;
    ar->data = memcpy(arena_alloc(ar->arena, cap), ar->data, ar->len);
    ar->cap = cap;
}

void *
rt_archive_place(RtArchive *ar, size_t n)
{
    if (!ar->reads) {
        make_room(ar, n);
        ar->len += n;
        return ar->data + ar->len - n;
    }
    if (n > ar->len - ar->at)
        rt_archive_fail(ar, "it ends too early");
    if (ar->wrong)
        return NULL;
    ar->at += n;
    return ar->data + ar->at - n;
}

void
rt_archive_bytes(RtArchive *ar, void *bytes, size_t n)
{
    if (n == 0)
        return;
    void *place = rt_archive_place(ar, n);
    if (!ar->reads)
        memcpy(place, bytes, n);
    else if (place)
        memcpy(bytes, place, n);
    else
        memset(bytes, 0, n);
}

/* ---- numbers ------------------------------------------------------------ */

void
rt_archive_u64(RtArchive *ar, uint64_t *x)
{
    uint64_t bytes = htole64(*x);
    rt_archive_bytes(ar, &bytes, sizeof bytes);
    *x = le64toh(bytes);
}

void
rt_archive_u32(RtArchive *ar, uint32_t *x)
{
    uint32_t bytes = htole32(*x);
    rt_archive_bytes(ar, &bytes, sizeof bytes);
    *x = le32toh(bytes);
}

void
rt_archive_i64(RtArchive *ar, int64_t *x, int64_t least, int64_t most)
{
    uint64_t bits = (uint64_t)*x;
    assert(least <= most && (ar->reads || (*x >= least && *x <= most)));
    rt_archive_u64(ar, &bits);
    *x = (int64_t)bits;
    if (ar->reads && (*x < least || *x > most)) {
        rt_archive_fail(ar, "%lld is not from %lld to %lld", (long long)*x,
                        (long long)least, (long long)most);
        *x = least;
    }
}

void
rt_archive_position(RtArchive *ar, int64_t *x)
{
    rt_archive_i64(ar, x, 0, ar->reads ? RT_MOST_POSITION : INT64_MAX);
}

void
rt_archive_bool(RtArchive *ar, bool *x)
{
    unsigned char byte =
        ar->reads ? 0 : *x; /* what is read into has no value */
    rt_archive_bytes(ar, &byte, 1);
    if (byte > 1)
        rt_archive_fail(ar, "%d is neither true nor false", byte);
    *x = byte == 1;
}

void
rt_archive_count(RtArchive *ar, int64_t *n, int64_t most, size_t each)
{
    rt_archive_i64(ar, n, 0, most);
    if (ar->reads && each && (uint64_t)*n > (ar->len - ar->at) / each) {
        rt_archive_fail(ar, "it ends before %lld parts", (long long)*n);
        *n = 0;
    }
}

/* ---- parts -------------------------------------------------------------- */

/* Of a state that is read, where the part ends; of one that is written, where
 * its length is. */
size_t
rt_archive_begin_part(RtArchive *ar)
{
    int64_t bytes = 0;
    size_t begin = ar->len;
    rt_archive_count(ar, &bytes, INT64_MAX, 1);
    return ar->reads ? ar->at + (size_t)bytes : begin;
}

void
rt_archive_end_part(RtArchive *ar, size_t begin)
{
    if (ar->reads) {
        if (ar->at != begin)
            rt_archive_fail(ar, "a part of it is of another length");
        return;
    }
    uint64_t bytes = htole64(ar->len - begin - sizeof bytes);
    memcpy(ar->data + begin, &bytes, sizeof bytes);
}

void
rt_archive_skip_part(RtArchive *ar)
{
    assert(ar->reads);
    ar->at = rt_archive_begin_part(ar);
}

void
rt_archive_text(RtArchive *ar, const char **text)
{
    int64_t len = ar->reads ? 0 : (int64_t)strlen(*text);
    rt_archive_count(ar, &len, INT64_MAX, 1);
    char *bytes = (char *)*text;
    if (ar->reads)
        *text = bytes = arena_alloc(ar->arena, (size_t)len + 1);
    rt_archive_bytes(ar, bytes, (size_t)len);
}

Status
rt_archive_end(RtArchive *ar)
{
    if (ar->reads && ar->at < ar->len)
        rt_archive_fail(ar, "it is longer than it should be");
    return ar->wrong ? status_new(STATUS_INPUT, "%s", ar->wrong) : OK;
}
