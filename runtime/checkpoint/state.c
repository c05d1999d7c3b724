/*
 * state.c - what must be the same after a resume, as bytes
 *
 * Numbers are little-endian, as everything in a plan; nothing is aligned.
 */
#include "runtime/checkpoint/state.h"

#include <endian.h>
#include <stdarg.h>
#include <string.h>
#include "ir/base/message.h"

enum { LEAST_ROOM = 256 };

RtState
rt_state_writer(Arena *a, size_t room)
{
    size_t cap = room > LEAST_ROOM ? room : LEAST_ROOM;
    return (RtState){.arena = a, .data = arena_alloc(a, cap), .cap = cap};
}

RtState
rt_state_reader(Arena *a, const char *data, size_t len)
{
    return (RtState){
        .arena = a, .reads = true, .data = (char *)data, .len = len};
}

void
rt_state_clear(RtState *s)
{
    s->len = 0;
}

void
rt_state_fail(RtState *s, const char *format, ...)
{
    va_list args;
    if (s->wrong)
        return;
    va_start(args, format);
    s->wrong = message_vprintf(s->arena, format, args);
    va_end(args);
}

/* ---- bytes -------------------------------------------------------------- */

static void
make_room(RtState *s, size_t n)
{
    size_t cap = s->cap;
    while (cap - s->len < n)
        cap *= 2;
    if (cap == s->cap)
        return;
    s->data = memcpy(arena_alloc(s->arena, cap), s->data, s->len);
    s->cap = cap;
}

static void
read_bytes(RtState *s, void *bytes, size_t n)
{
    if (n > s->len - s->at)
        rt_state_fail(s, "it ends too early");
    if (s->wrong) {
        memset(bytes, 0, n);
        return;
    }
    memcpy(bytes, s->data + s->at, n);
    s->at += n;
}

void
rt_state_bytes(RtState *s, void *bytes, size_t n)
{
    if (n == 0)
        return;
    if (s->reads) {
        read_bytes(s, bytes, n);
        return;
    }
    make_room(s, n);
    memcpy(s->data + s->len, bytes, n);
    s->len += n;
}

/* ---- numbers ------------------------------------------------------------ */

void
rt_state_u64(RtState *s, uint64_t *x)
{
    uint64_t bytes = htole64(*x);
    rt_state_bytes(s, &bytes, sizeof bytes);
    *x = le64toh(bytes);
}

void
rt_state_u32(RtState *s, uint32_t *x)
{
    uint32_t bytes = htole32(*x);
    rt_state_bytes(s, &bytes, sizeof bytes);
    *x = le32toh(bytes);
}

void
rt_state_i64(RtState *s, int64_t *x, int64_t least, int64_t most)
{
    uint64_t bits = (uint64_t)*x;
    rt_state_u64(s, &bits);
    *x = (int64_t)bits;
    if (s->reads && (*x < least || *x > most)) {
        rt_state_fail(s, "%lld is not from %lld to %lld", (long long)*x,
                      (long long)least, (long long)most);
        *x = least;
    }
}

void
rt_state_bool(RtState *s, bool *x)
{
    unsigned char byte = *x;
    rt_state_bytes(s, &byte, 1);
    if (byte > 1)
        rt_state_fail(s, "%d is neither true nor false", byte);
    *x = byte == 1;
}

void
rt_state_count(RtState *s, int64_t *n, int64_t most, size_t each)
{
    rt_state_i64(s, n, 0, most);
    if (s->reads && each && (uint64_t)*n > (s->len - s->at) / each) {
        rt_state_fail(s, "it ends before %lld parts", (long long)*n);
        *n = 0;
    }
}

void
rt_state_text(RtState *s, const char **text)
{
    int64_t len = s->reads ? 0 : (int64_t)strlen(*text);
    rt_state_count(s, &len, INT64_MAX, 1);
    char *bytes = (char *)*text;
    if (s->reads)
        *text = bytes = arena_alloc(s->arena, (size_t)len + 1);
    rt_state_bytes(s, bytes, (size_t)len);
}

Status
rt_state_end(RtState *s)
{
    if (s->reads && s->at < s->len)
        rt_state_fail(s, "it is longer than it should be");
    return s->wrong ? status_new(STATUS_INPUT, "%s", s->wrong) : OK;
}
