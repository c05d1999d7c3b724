/*
 * shared_steps.c - processes of one machine read a worker's data once
 *
 * A process that makes steps for others has a segment with the rings of its
 * iterators, one behind the other.  It makes them for one worker at most, its
 * last one, and takes those of one at most, its first.
 */
#include "runtime/ops/shared_steps.h"

#include "runtime/cluster/segments/segments.h"
#include "runtime/exec/run_state.h"

typedef struct RtSharedSteps {
    RtSegment own; /* of zeros: nothing is made for others */
    RtSegments *all;
} RtSharedSteps;

/* Of all iterators. */
static size_t
shared_bytes(const RtRun *run, bool takes)
{
    size_t bytes = 0;
    for (int i = 0; i < run->module->iters.len; i++)
        if (run->iterators[i].iter)
            bytes += rt_iter_shared_bytes(run->iterators[i].iter, takes);
    return bytes;
}

static void
share(const RtRun *run, bool takes, char *at)
{
    for (int i = 0; i < run->module->iters.len; i++) {
        RtIter *it = run->iterators[i].iter;
        if (!it)
            continue;
        size_t n = rt_iter_shared_bytes(it, takes);
        rt_iter_share(it, takes, at);
        at += n;
    }
}

static Status
make_own(const RtRun *run, RtSharedSteps *s)
{
    size_t bytes = shared_bytes(run, false);
    if (bytes == 0)
        return OK;
    TRY(rt_segment_new(bytes, false, &s->own));
    share(run, false, s->own.at);
    return OK;
}

/* The first process that has replicas of this one's first worker. */
static int
maker(const RtRun *run)
{
    int each = run->num_replicas / run->module->num_workers;
    return rt_rank_of(run, run->first_local / each * each);
}

/* false: no process has a worker that another one has, too. */
static bool
any_shares(const RtRun *run)
{
    int each = run->num_replicas / run->module->num_workers;
    return run->module->iters.len && run->num_local % each != 0;
}

static Status
join(RtRun *run, RtSharedSteps *s)
{
    bool joined;
    Str why = str_new(run->arena);
    TRY(make_own(run, s));
    TRY(rt_segments_join(&run->exchange, "steps of datasets", &s->own,
                         s->own.at != NULL, run->arena, s->all, &joined, &why));
    if (!joined)
        return status_new(STATUS_MACHINE, "%s", str_text(&why));
    const RtSegments *made = &s->all[maker(run)];
    if (shared_bytes(run, true) && made->num == 1) {
        share(run, true, made->data[0].at);
        rt_job_has_maker(run->job, maker(run));
    }
    return OK;
}

Status
rt_share_steps(RtRun *run)
{
    /* Who waits for steps of a process that has failed is told by the job. */
    if (!run->job || run->size == 1 || run->carrier || !any_shares(run))
        return OK;
    RtSharedSteps *s = NEW(run->arena, RtSharedSteps);
    s->own.fd = -1;
    s->all = NEW_ARRAY(run->arena, RtSegments, (size_t)run->size);
    run->shared_steps = s;
    return join(run, s);
}

void
rt_unshare_steps(RtRun *run)
{
    RtSharedSteps *s = run->shared_steps;
    if (!s)
        return;
    rt_segments_leave(s->all, run->size);
    rt_segment_close(&s->own);
}
