/*
 * summaries.c - what a step gives summary(), until the step ends
 */
#include "runtime/exec/summaries.h"

#include <string.h>
#include "runtime/checkpoint/events.h"
#include "runtime/exec/run_state.h"

/* What a line begins with; the numbers follow, then the tag. */
typedef struct Head {
    int64_t step, n;
    uint32_t dtype, is_scalar;
} Head;

static size_t
bytes_of(const RtSummary *s)
{
    return (size_t)s->n * dtype_info[s->dtype].bytes;
}

void
rt_summary_pack(Str *to, const RtSummary *s)
{
    Head h = {s->step, s->n, (uint32_t)s->dtype, s->is_scalar};
    str_addn(to, (const char *)&h, sizeof h);
    str_addn(to, s->data, bytes_of(s));
}

Status
rt_summary_write(RtRun *run, const char *tag, const RtSummary *s)
{
    if (!run->events)
        return OK;
    if (!s->is_scalar)
        return rt_events_histogram(run->events, tag, s->step, s->dtype, s->data,
                                   s->n);
    Scalar x = scalar_load(s->dtype, s->data, 0);
    return rt_events_scalar(run->events, tag, s->step,
                            scalar_cast(x, DT_f64).f);
}

/* Whether a line, which another process may have sent, has all of its value. */
static bool
is_whole(const Head *h, size_t len)
{
    size_t most = len - sizeof *h;
    return h->dtype < NUM_DTYPES && h->is_scalar <= 1 &&
           h->n >= (int64_t)h->is_scalar &&
           (size_t)h->n <= most / dtype_info[h->dtype].bytes;
}

/* Lines have any alignment. */
Status
rt_summary_write_line(RtRun *run, const char *line, size_t len)
{
    Head h;
    if (!run->events || len < sizeof h)
        return OK;
    memcpy(&h, line, sizeof h);
    if (!is_whole(&h, len))
        return OK;
    RtSummary s = {h.step, h.is_scalar, (DType)h.dtype, h.n, NULL};
    size_t bytes = bytes_of(&s), begin = sizeof h + bytes;
    Arena *scratch = arena_new(NULL, "a summary");
    char *data = arena_alloc_on_lines(scratch, bytes);
    memcpy(data, line + sizeof h, bytes);
    s.data = data;
    Status st = rt_summary_write(
        run, arena_strndup(scratch, line + begin, len - begin), &s);
    arena_release(scratch);
    return st;
}
