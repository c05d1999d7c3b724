/*
 * summaries.c - what a step gives summary(), until the step ends
 */
#include "runtime/exec/summaries.h"

#include <string.h>
#include "runtime/checkpoint/events.h"
#include "runtime/exec/run_state.h"

static size_t
bytes_of(const RtSummary *s)
{
    return (size_t)s->n * dtype_info[s->dtype].bytes;
}

void
rt_summary_pack(Str *to, const RtSummary *s)
{
    str_addn(to, (const char *)s, sizeof *s);
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
is_whole(const RtSummary *s, size_t len)
{
    size_t most = len - sizeof *s;
    return (unsigned)s->dtype < NUM_DTYPES && s->n >= s->is_scalar &&
           (size_t)s->n <= most / dtype_info[s->dtype].bytes;
}

/* Lines have any alignment. */
Status
rt_summary_write_line(RtRun *run, const char *line, size_t len)
{
    RtSummary s;
    if (!run->events || len < sizeof s)
        return OK;
    memcpy(&s, line, sizeof s);
    if (!is_whole(&s, len))
        return OK;
    size_t bytes = bytes_of(&s), begin = sizeof s + bytes;
    Arena *scratch = arena_new(NULL, "a summary");
    char *data = rt_alloc_aligned(scratch, (int64_t)bytes);
    memcpy(data, line + sizeof s, bytes);
    s.data = data;
    Status st = rt_summary_write(
        run, arena_strndup(scratch, line + begin, len - begin), &s);
    arena_release(scratch);
    return st;
}
