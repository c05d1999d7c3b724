/*
 * events.c - event files, which TensorBoard shows
 *
 * Five kinds of protocol buffer fields are needed, each a line below; the
 * numbers of fields are those of event.proto and summary.proto.  A message in a
 * message is made first and then added as a string.
 */
#include "runtime/checkpoint/events.h"

#include <endian.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/hash/crc.h"
#include "ir/base/io/file.h"
#include "ir/base/io/protobuf.h"
#include "ir/base/str.h"

enum { NUM_BUCKETS = 30, MAX_TRIES = 1000 };

static const char prefix[] = "events.out.tfevents.";

struct RtEvents {
    Arena *arena;
    const char *path;
    int fd;
    int64_t bytes;                                         /* of the file */
    Str record, event, summary, value, histogram, numbers; /* scratch */
};

/* ---- protocol buffers --------------------------------------------------- */

static void
add_varint(Str *s, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        str_addc(s, (char)(x | 0x80));
    str_addc(s, (char)x);
}

static void
add_64(Str *s, uint64_t x)
{
    x = htole64(x);
    str_addn(s, (const char *)&x, sizeof x);
}

static void
add_32(Str *s, uint32_t x)
{
    x = htole32(x);
    str_addn(s, (const char *)&x, sizeof x);
}

static void
add_key(Str *s, unsigned field, WireType wire)
{
    add_varint(s, field << 3 | (unsigned)wire);
}

static void
add_plain_double(Str *s, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_64(s, bits);
}

static void
add_int(Str *s, unsigned field, int64_t x)
{
    add_key(s, field, WIRE_VARINT);
    add_varint(s, (uint64_t)x);
}

static void
add_double(Str *s, unsigned field, double x)
{
    add_key(s, field, WIRE_64);
    add_plain_double(s, x);
}

static void
add_float(Str *s, unsigned field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_key(s, field, WIRE_32);
    add_32(s, bits);
}

static void
add_bytes(Str *s, unsigned field, const char *bytes, size_t n)
{
    add_key(s, field, WIRE_BYTES);
    add_varint(s, n);
    str_addn(s, bytes, n);
}

static void
add_message(Str *s, unsigned field, const Str *message)
{
    add_bytes(s, field, str_text(message), message->len);
}

/* Texts of proto3 are UTF-8: readers refuse a message with a byte of no
 * character, and a tag may be any text that a param gives. */
static void
add_text(Str *s, unsigned field, const char *text)
{
    size_t n = strlen(text);
    add_key(s, field, WIRE_BYTES);
    add_varint(s, n);
    for (size_t at = 0; at < n;) {
        size_t len = str_char_len(text + at, n - at);
        str_addn(s, len ? text + at : "?", len ? len : 1);
        at += len ? len : 1;
    }
}

/* ---- records ------------------------------------------------------------ */

/* Length, its sum, the bytes, their sum. */
static Status
write_event(RtEvents *e)
{
    Str *r = &e->record;
    r->len = 0;
    add_64(r, e->event.len);
    add_32(r, crc32c_masked(r->data, sizeof(uint64_t)));
    str_addn(r, e->event.data, e->event.len);
    add_32(r, crc32c_masked(e->event.data, e->event.len));
    TRY(file_add(e->fd, e->path, e->bytes, r->data, r->len));
    e->bytes += (int64_t)r->len;
    return OK;
}

static double
wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Event: 1 wall_time, 2 step, 3 file_version or 5 summary. */
static void
begin_event(RtEvents *e, int64_t step)
{
    e->event.len = 0;
    add_double(&e->event, 1, wall_time());
    add_int(&e->event, 2, step);
}

/* Summary: 1 value, a Value, which begins with 1 tag. */
static void
begin_value(RtEvents *e, const char *tag)
{
    e->value.len = 0;
    add_text(&e->value, 1, tag);
}

static Status
write_value(RtEvents *e, int64_t step)
{
    e->summary.len = 0;
    add_message(&e->summary, 1, &e->value);
    begin_event(e, step);
    add_message(&e->event, 5, &e->summary);
    return write_event(e);
}

/* ---- opening ------------------------------------------------------------ */

/* Existing names are those of a run that began in the same second. */
static Status
create(RtEvents *e, const char *folder)
{
    char host[256] = "";
    Status st = OK;
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        strcpy(host, "localhost");
    for (int i = 0; i < MAX_TRIES; i++) {
        status_free(st);
        e->path = arena_printf(e->arena, "%s/%s%lld.%s.%d.%d", folder, prefix,
                               (long long)time(NULL), host, (int)getpid(), i);
        st = file_create(e->path, &e->fd);
        if (!st || access(e->path, F_OK) != 0)
            return st;
    }
    return st;
}

static Status
write_version(RtEvents *e)
{
    static const char version[] = "brain.Event:2";
    begin_event(e, 0);
    add_bytes(&e->event, 3, version, sizeof version - 1);
    return write_event(e);
}

static RtEvents *
new_events(void)
{
    Arena *a = arena_new(NULL, "events");
    RtEvents *e = NEW(a, RtEvents);
    Str *const scratch[] = {&e->record, &e->event,     &e->summary,
                            &e->value,  &e->histogram, &e->numbers};
    *e = (RtEvents){.arena = a, .fd = -1};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        *scratch[i] = str_new(a);
    return e;
}

/* The status of opening e. */
static Status
opened(RtEvents *e, Status st, RtEvents **out)
{
    if (st)
        rt_events_close(e);
    else
        *out = e;
    return st;
}

Status
rt_events_open(const char *folder, RtEvents **out)
{
    RtEvents *e = new_events();
    Status st = file_make_folder(folder);
    if (!st)
        st = create(e, folder);
    if (!st)
        st = write_version(e);
    return opened(e, st, out);
}

Status
rt_events_continue(const char *folder, const char *name, int64_t len,
                   RtEvents **out)
{
    RtEvents *e = new_events();
    e->path = arena_printf(e->arena, "%s/%s", folder, name);
    e->bytes = len;
    return opened(e, file_continue(e->path, len, &e->fd), out);
}

bool
rt_events_is_name(const char *name)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

const char *
rt_events_name(const RtEvents *e)
{
    return strrchr(e->path, '/') + 1;
}

int64_t
rt_events_bytes(const RtEvents *e)
{
    return e->bytes;
}

Status
rt_events_sync(RtEvents *e)
{
    return file_sync(e->fd, e->path);
}

void
rt_events_close(RtEvents *e)
{
    if (!e)
        return;
    if (e->fd >= 0)
        close(e->fd);
    arena_release(e->arena);
}

/* ---- values ------------------------------------------------------------- */

/* Value: 2 simple_value. */
Status
rt_events_scalar(RtEvents *e, const char *tag, int64_t step, double value)
{
    begin_value(e, tag);
    add_float(&e->value, 2, (float)value);
    return write_value(e, step);
}

typedef struct Histogram {
    double least, greatest, num, sum, squares;
    double buckets[NUM_BUCKETS];
} Histogram;

static double
number_at(DType t, const void *data, int64_t i)
{
    return scalar_cast(scalar_load(t, data, i), DT_f64).f;
}

static void
measure(Histogram *h, DType t, const void *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = number_at(t, data, i);
        if (!isfinite(x))
            continue;
        h->least = h->num == 0 || x < h->least ? x : h->least;
        h->greatest = h->num == 0 || x > h->greatest ? x : h->greatest;
        h->num++;
        h->sum += x;
        h->squares += x * x;
    }
}

/* Where bucket i ends.  Halves, since the width of all may overflow. */
static double
bucket_end(const Histogram *h, int i)
{
    double part = (double)(i + 1) / NUM_BUCKETS;
    return i == NUM_BUCKETS - 1 ? h->greatest
                                : h->least * (1.0 - part) + h->greatest * part;
}

static void
count(Histogram *h, DType t, const void *data, int64_t n)
{
    double half = h->greatest / 2 - h->least / 2;
    for (int64_t i = 0; i < n; i++) {
        double x = number_at(t, data, i);
        if (!isfinite(x))
            continue;
        double part = half > 0 ? (x / 2 - h->least / 2) / half : 0;
        int bucket = (int)(part * NUM_BUCKETS);
        h->buckets[bucket < NUM_BUCKETS ? bucket : NUM_BUCKETS - 1]++;
    }
}

static void
add_numbers(RtEvents *e, unsigned field)
{
    add_message(&e->histogram, field, &e->numbers);
    e->numbers.len = 0;
}

/* HistogramProto: 1 min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 bucket_limit,
 * 7 bucket.  Value: 5 histo. */
static void
add_histogram(RtEvents *e, const Histogram *h)
{
    const double facts[] = {h->least, h->greatest, h->num, h->sum, h->squares};
    e->histogram.len = e->numbers.len = 0;
    for (unsigned i = 0; i < 5; i++)
        add_double(&e->histogram, i + 1, facts[i]);
    for (int i = 0; i < NUM_BUCKETS; i++)
        add_plain_double(&e->numbers, bucket_end(h, i));
    add_numbers(e, 6);
    for (int i = 0; i < NUM_BUCKETS; i++)
        add_plain_double(&e->numbers, h->buckets[i]);
    add_numbers(e, 7);
    add_message(&e->value, 5, &e->histogram);
}

Status
rt_events_histogram(RtEvents *e, const char *tag, int64_t step, DType t,
                    const void *data, int64_t n)
{
    Histogram h = {0};
    measure(&h, t, data, n);
    count(&h, t, data, n);
    begin_value(e, tag);
    add_histogram(e, &h);
    return write_value(e, step);
}
