/*
 * segments.c - memory that all processes of a job map
 */
#include "runtime/cluster/segments/segments.h"

#include <string.h>
#include "ir/base/message.h"

/* Maps those of rank r.  Whether that could be; else why is added to. */
static bool
map_all_of(int rank, int r, RtBytes bytes, Arena *a, RtSegments *out, Str *why)
{
    int num = (int)(bytes.len / sizeof(RtSegmentName));
    *out = (RtSegments){.data = NEW_ARRAY(a, RtSegment, (size_t)num)};
    for (out->num = 0; out->num < num; out->num++) {
        RtSegmentName name;
        memcpy(&name, (const char *)bytes.data + (size_t)out->num * sizeof name,
               sizeof name);
        const char *reason = rt_segment_map(&name, &out->data[out->num]);
        if (reason) {
            str_add(why, message_printf(
                             a, "rank %d cannot map memory of rank %d: %s",
                             rank, r, reason));
            return false;
        }
    }
    return true;
}

static bool
map_others(const RtExchange *x, const RtBytes *names, Arena *a, RtSegments *all,
           Str *why)
{
    for (int r = 0; r < x->size; r++)
        if (r != x->rank && !map_all_of(x->rank, r, names[r], a, &all[r], why))
            return false;
    return true;
}

/* The first reason of any process, if there is one. */
static Status
agree(const RtExchange *x, const char *name, Arena *a, bool *joined, Str *why)
{
    RtBytes *reasons;
    TRY(rt_exchange_bytes(x, name, str_text(why), why->len, a, &reasons));
    *joined = true;
    for (int r = x->size - 1; r >= 0; r--)
        if (reasons[r].len) {
            *joined = false;
            *why = str_new(a);
            str_addn(why, reasons[r].data, reasons[r].len);
        }
    return OK;
}

Status
rt_segments_join(const RtExchange *x, const char *name, const RtSegment *own,
                 int num_own, Arena *a, RtSegments *all, bool *joined, Str *why)
{
    size_t size = (size_t)x->size, num = (size_t)num_own;
    RtSegmentName *own_names = NEW_ARRAY(a, RtSegmentName, num);
    RtBytes *names;
    for (size_t i = 0; i < num; i++)
        own_names[i] = rt_segment_name(&own[i]);
    TRY(rt_exchange_bytes(x, name, own_names, num * sizeof *own_names, a,
                          &names));
    memset(all, 0, size * sizeof *all);
    all[x->rank] =
        (RtSegments){arena_copy(a, own, num * sizeof *own), num_own, true};
    *why = str_new(a);
    map_others(x, names, a, all, why);
    Status st = agree(x, name, a, joined, why);
    if (st || !*joined)
        rt_segments_leave(all, x->size);
    return st;
}

Status
rt_segments_unexpected(int rank)
{
    return status_new(STATUS_MACHINE,
                      "rank %d shares other memory than it should", rank);
}

Status
rt_segments_expect(const RtSegments *all, int rank, size_t bytes)
{
    const RtSegments *s = &all[rank];
    bool is_right = s->num == 1 && s->data[0].at && s->data[0].bytes == bytes;
    return is_right ? OK : rt_segments_unexpected(rank);
}

void
rt_segments_leave(RtSegments *all, int size)
{
    for (int r = 0; r < size; r++)
        for (int i = 0; i < all[r].num && !all[r].are_own; i++)
            rt_segment_close(&all[r].data[i]);
}
