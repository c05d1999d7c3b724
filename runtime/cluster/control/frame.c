/*
 * frame.c - messages of the control plane as bytes
 */
#include "runtime/cluster/control/frame.h"

#include <string.h>
#include "ir/base/str.h"

enum {
    HEADER = 16,
    FIRST_ROOM = 256,
    MOST_NAME = 256,
    MOST_TEXT = 64 << 10,
    MOST_LINES = 256 << 10
};

/* ---- bytes -------------------------------------------------------------- */

static bool
make_room(RtFrame *f, size_t n)
{
    if (f->cap - f->len >= n)
        return true;
    if (!f->a) {
        f->bad = true;
        return false;
    }
    size_t cap = f->cap * 2 > f->len + n ? f->cap * 2 : f->len + n;
    uint8_t *bytes = arena_alloc(f->a, cap);
    memcpy(bytes, f->bytes, f->len);
    f->bytes = bytes;
    f->cap = cap;
    return true;
}

static void
put(RtFrame *f, const void *from, size_t n)
{
    if (f->bad || !make_room(f, n))
        return;
    if (n)
        memcpy(f->bytes + f->len, from, n);
    f->len += n;
}

static const uint8_t *
take(RtFrame *f, size_t n)
{
    if (f->bad || f->len - f->at < n) {
        f->bad = true;
        return NULL;
    }
    const uint8_t *from = f->bytes + f->at;
    f->at += n;
    return from;
}

/* An unsigned number of n bytes, the lowest first. */
static uint64_t
number(RtFrame *f, uint64_t value, int n)
{
    uint8_t bytes[8];
    if (!f->reads) {
        for (int i = 0; i < n; i++)
            bytes[i] = (uint8_t)(value >> 8 * i);
        put(f, bytes, (size_t)n);
        return value;
    }
    const uint8_t *from = take(f, (size_t)n);
    value = 0;
    for (int i = 0; from && i < n; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static void
header(RtFrame *f)
{
    f->type = (uint16_t)number(f, f->type, 2);
    f->protocol = (uint16_t)number(f, f->protocol, 2);
    f->attempt = (uint32_t)number(f, f->attempt, 4);
    f->number = number(f, f->number, 8);
}

static RtFrame
begin(Arena *a, uint8_t *bytes, size_t cap, RtFrameType type, uint32_t attempt,
      uint64_t frame_number)
{
    RtFrame f = {.type = (uint16_t)type,
                 .protocol = RT_FRAME_PROTOCOL,
                 .attempt = attempt,
                 .number = frame_number,
                 .bytes = bytes,
                 .cap = cap,
                 .a = a};
    header(&f);
    return f;
}

RtFrame
rt_frame_new(Arena *a, RtFrameType type, uint32_t attempt,
             uint64_t frame_number)
{
    uint8_t *bytes = arena_alloc(a, FIRST_ROOM);
    return begin(a, bytes, FIRST_ROOM, type, attempt, frame_number);
}

RtFrame
rt_frame_in(uint8_t *bytes, size_t cap, RtFrameType type, uint32_t attempt,
            uint64_t frame_number)
{
    return begin(NULL, bytes, cap, type, attempt, frame_number);
}

RtFrame
rt_frame_read(Arena *a, const void *bytes, size_t n)
{
    RtFrame f = {.reads = true, .bytes = (uint8_t *)bytes, .len = n, .a = a};
    header(&f);
    if (f.type == RT_FRAME_NONE || f.type >= RT_NUM_FRAMES)
        f.bad = true;
    return f;
}

bool
rt_frame_is_good(const RtFrame *f)
{
    return !f->bad && (!f->reads || f->at == f->len);
}

/* ---- fields ------------------------------------------------------------- */

void
rt_frame_i32(RtFrame *f, int32_t *value)
{
    *value = (int32_t)(uint32_t)number(f, (uint32_t)*value, 4);
}

void
rt_frame_i64(RtFrame *f, int64_t *value)
{
    *value = (int64_t)number(f, (uint64_t)*value, 8);
}

void
rt_frame_f64(RtFrame *f, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    bits = number(f, bits, 8);
    memcpy(value, &bits, sizeof bits);
}

void
rt_frame_bytes(RtFrame *f, RtBytes *bytes, size_t most)
{
    uint32_t n = (uint32_t)number(f, bytes->len, 4);
    if (!f->reads) {
        put(f, bytes->data, bytes->len);
        return;
    }
    if (n > most)
        f->bad = true;
    const uint8_t *from = take(f, n);
    *bytes = (RtBytes){from, from ? n : 0};
}

static char *
printable(Arena *a, const RtBytes *bytes, bool has_lines)
{
    char *text = arena_strndup(a, bytes->data, bytes->len);
    str_make_printable(text, bytes->len, has_lines);
    return text;
}

static RtBytes
text_bytes(const char *text, size_t most)
{
    size_t n = text ? strlen(text) : 0;
    return (RtBytes){text, n < most ? n : most};
}

void
rt_frame_text(RtFrame *f, const char **text, size_t most)
{
    RtBytes bytes = {0};
    if (!f->reads)
        bytes = text_bytes(*text, most);
    rt_frame_bytes(f, &bytes, most);
    if (f->reads)
        *text = bytes.len ? printable(f->a, &bytes, false) : "";
}

/* The same for text with ends of lines. */
static void
lines(RtFrame *f, const char **text)
{
    RtBytes bytes = {0};
    if (!f->reads)
        bytes = text_bytes(*text, MOST_LINES);
    rt_frame_bytes(f, &bytes, MOST_LINES);
    if (f->reads)
        *text = bytes.len ? printable(f->a, &bytes, true) : "";
}

void
rt_frame_count(RtFrame *f, int32_t *count, int32_t most, size_t least)
{
    rt_frame_i32(f, count);
    if (f->reads && (*count < 0 || *count > most ||
                     (size_t)*count > (f->len - f->at) / least))
        f->bad = true;
    if (f->bad)
        *count = 0;
}

/* ---- messages ----------------------------------------------------------- */

static void
addresses(RtFrame *f, RtAddresses *at)
{
    rt_frame_count(f, &at->num, RT_MOST_ADDRESSES, 4);
    if (f->reads)
        at->text = NEW_ARRAY(f->a, const char *, (size_t)at->num);
    for (int i = 0; i < at->num; i++)
        rt_frame_text(f, &at->text[i], MOST_NAME);
}

static void
sites(RtFrame *f, RtHello *hello)
{
    rt_frame_count(f, &hello->num_sites, RT_MOST_SITES, 8);
    if (f->reads)
        hello->sites = NEW_ARRAY(f->a, RtJobSite, (size_t)hello->num_sites);
    for (int i = 0; i < hello->num_sites; i++) {
        rt_frame_text(f, &hello->sites[i].where, MOST_NAME);
        rt_frame_text(f, &hello->sites[i].what, MOST_NAME);
    }
}

/* A name of another form is one of no segment. */
static void
segment_name(RtFrame *f, RtSegmentName *name)
{
    RtBytes bytes = {name, sizeof *name};
    rt_frame_bytes(f, &bytes, sizeof *name);
    if (!f->reads)
        return;
    memset(name, 0, sizeof *name);
    if (bytes.len == sizeof *name)
        memcpy(name, bytes.data, sizeof *name);
}

void
rt_frame_hello(RtFrame *f, RtHello *hello)
{
    rt_frame_i32(f, &hello->rank);
    rt_frame_i32(f, &hello->size);
    rt_frame_i64(f, &hello->pid);
    rt_frame_f64(f, &hello->timeout);
    rt_frame_text(f, &hello->host, MOST_NAME);
    rt_frame_text(f, &hello->machine, MOST_NAME);
    int32_t num = RT_NUM_IDENTITIES;
    rt_frame_count(f, &num, RT_NUM_IDENTITIES, 4);
    for (int i = 0; i < num; i++)
        rt_frame_text(f, &hello->identity[i], MOST_TEXT);
    for (int i = num; i < RT_NUM_IDENTITIES; i++)
        hello->identity[i] = "";
    addresses(f, &hello->addresses);
    segment_name(f, &hello->positions);
    sites(f, hello);
}

static void
peer(RtFrame *f, RtWelcomePeer *p)
{
    int32_t local_rank = p->peer.local_rank, local_size = p->peer.local_size;
    rt_frame_text(f, &p->peer.host, MOST_NAME);
    rt_frame_text(f, &p->peer.machine, MOST_NAME);
    rt_frame_i64(f, &p->peer.pid);
    rt_frame_i32(f, &local_rank);
    rt_frame_i32(f, &local_size);
    p->peer.local_rank = local_rank;
    p->peer.local_size = local_size;
    addresses(f, &p->addresses);
}

void
rt_frame_welcome(RtFrame *f, RtWelcome *welcome)
{
    rt_frame_text(f, &welcome->id, MOST_NAME);
    rt_frame_i32(f, &welcome->server);
    rt_frame_count(f, &welcome->size, RT_MOST_PROCESSES, 28);
    if (f->reads)
        welcome->peers = NEW_ARRAY(f->a, RtWelcomePeer, (size_t)welcome->size);
    for (int i = 0; i < welcome->size; i++)
        peer(f, &welcome->peers[i]);
}

void
rt_frame_linked(RtFrame *f, RtLinked *linked)
{
    rt_frame_count(f, &linked->num, RT_MOST_PROCESSES, 8);
    if (f->reads)
        linked->unreached = NEW_ARRAY(f->a, RtUnreached, (size_t)linked->num);
    for (int i = 0; i < linked->num; i++) {
        rt_frame_i32(f, &linked->unreached[i].peer);
        rt_frame_text(f, &linked->unreached[i].why, MOST_TEXT);
    }
}

void
rt_frame_heartbeat(RtFrame *f, RtHeartbeat *heartbeat)
{
    rt_frame_i64(f, &heartbeat->step);
    rt_frame_i64(f, &heartbeat->call);
    rt_frame_i64(f, &heartbeat->wait_call);
    rt_frame_i32(f, &heartbeat->site);
    rt_frame_i32(f, &heartbeat->wait_site);
    rt_frame_i32(f, &heartbeat->state);
    rt_frame_i32(f, &heartbeat->at_site);
    rt_frame_i32(f, &heartbeat->maker);
    rt_frame_i32(f, &heartbeat->read_site);
    rt_frame_f64(f, &heartbeat->waited);
}

void
rt_frame_exchange(RtFrame *f, RtExchangePart *exchange)
{
    rt_frame_text(f, &exchange->name, MOST_NAME);
    rt_frame_bytes(f, &exchange->own, RT_JOB_EXCHANGE);
}

void
rt_frame_all(RtFrame *f, RtBytes *all, int32_t size)
{
    int32_t num = size;
    rt_frame_count(f, &num, RT_MOST_PROCESSES, 4);
    if (num != size)
        f->bad = true;
    for (int i = 0; i < num && !f->bad; i++)
        rt_frame_bytes(f, &all[i], RT_JOB_EXCHANGE);
}

void
rt_frame_end(RtFrame *f, RtEnd *end)
{
    rt_frame_i32(f, &end->exit_status);
    rt_frame_i32(f, &end->speaker);
    rt_frame_text(f, &end->reason, MOST_TEXT);
    lines(f, &end->notes);
}
