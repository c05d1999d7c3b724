/*
 * agreement.c - the processes of a job agree on each step
 *
 * Every process gives a part: whether it has data, the rows of its replicas,
 * and where its main is.  Which steps have an agreement follows from what main
 * does, never from when data arrive: one is begun ahead or when main asks for
 * it, and one that main does not ask for any more ends when the iterator is
 * opened anew.
 */
#include "runtime/exec/agreement.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include "runtime/data/data.h"
#include "runtime/exec/run_state.h"

enum {
    FAILS = 1 << 0, /* this process ends with the failure of its data */
    WANTS_STOP = 1 << 1
};

typedef struct Part {
    uint64_t flags, fingerprint;
    int64_t number;
    int64_t rows[]; /* of its replicas; -1: it has no data */
} Part;

static const uint64_t fingerprint_begin = 0xcbf29ce484222325U;

/* ---- waiting for others -------------------------------------------------- */

static void
begin_wait(RtRun *run)
{
    if (!run->job)
        return;
    rt_job_calls(run->job, 0, run->site);
    rt_job_waits(run->job, 0, run->site);
}

/* One that failed is where this process was when the job ended. */
static Status
end_wait(RtRun *run, Status st)
{
    if (run->job && !st)
        rt_job_goes_on(run->job, 0);
    return st;
}

/* ---- preparation --------------------------------------------------------- */

Status
rt_prepare_agreement(RtRun *run)
{
    RtAgreement *a = &run->agreement;
    if (!run->group)
        return OK;
    a->fingerprint = fingerprint_begin;
    a->have_ended = true;
    a->bytes = sizeof(Part) + (size_t)run->num_local * sizeof(int64_t);
    assert(a->bytes <= RT_GROUP_MOST_BYTES);
    a->own = arena_alloc(run->arena, a->bytes);
    a->all = arena_alloc(run->arena, a->bytes * (size_t)run->size);
    for (int i = 0; i < run->module->iters.len; i++) {
        RtNextStep *n = &run->iterators[i].agreed;
        n->can_be_ahead = i < RT_GROUP_NUM_AHEAD;
        n->slot = n->can_be_ahead ? i : RT_GROUP_NOW;
        n->rows = NEW_ARRAY(run->arena, int64_t, (size_t)run->num_replicas);
    }
    return OK;
}

/* ---- one agreement ------------------------------------------------------- */

/* An interrupt, or that nobody reads the output any more. */
static bool
wants_stop(const RtRun *run)
{
    return rt_is_interrupted(run) || run->out_error == EPIPE;
}

static Part *
own_part(RtRun *run)
{
    return (Part *)(void *)run->agreement.own;
}

/* The rows of the part are there. */
static Status
begin(RtRun *run, RtNextStep *n, unsigned flags)
{
    Part *own = own_part(run);
    own->flags = flags | (wants_stop(run) ? WANTS_STOP : 0);
    own->number = n->number;
    own->fingerprint = n->fingerprint;
    n->has_begun = true;
    return run->group->ops->start(run->group, n->slot, own,
                                  run->agreement.bytes);
}

static Status
begin_without_data(RtRun *run, RtNextStep *n, unsigned flags)
{
    for (int i = 0; i < run->num_local; i++)
        own_part(run)->rows[i] = -1;
    return begin(run, n, flags);
}

/* Of data that this process cannot have the others hear, too; the failure of
 * the exchange itself is of less interest. */
static Status
begin_with_data(RtRun *run, RtIterBinding *it)
{
    if (run->job)
        rt_job_reads(run->job, run->stats.steps + 1, run->site);
    Status st = rt_iter_local_rows(it->iter, own_part(run)->rows);
    rt_note_state(run, RT_JOB_RUNS);
    if (!st)
        return begin(run, &it->agreed, 0);
    status_free(begin_without_data(run, &it->agreed, FAILS));
    return st;
}

static Status
diverged(const RtIterBinding *it, int rank)
{
    return status_new(STATUS_INPUT,
                      "before step %lld of \"%s\" main of rank %d has come "
                      "another way than that of this process: all must have "
                      "the same params and see the same values",
                      (long long)it->agreed.number, it->ir->datasets.data[0],
                      rank);
}

static Status
take_part(RtRun *run, RtIterBinding *it, int rank, const Part *p)
{
    RtNextStep *n = &it->agreed;
    if (p->flags & FAILS)
        return rt_data_stopped();
    if (p->number != n->number || p->fingerprint != n->fingerprint)
        return diverged(it, rank);
    run->agreement.stops |= (p->flags & WANTS_STOP) != 0;
    memcpy(n->rows + rank * run->num_local, p->rows,
           (size_t)run->num_local * sizeof *p->rows);
    return OK;
}

static Status
end(RtRun *run, RtIterBinding *it)
{
    RtAgreement *a = &run->agreement;
    RtNextStep *n = &it->agreed;
    begin_wait(run);
    TRY(end_wait(run, run->group->ops->finish(run->group, n->slot, a->all)));
    n->has_begun = false;
    for (int r = 0; r < run->size; r++)
        TRY(take_part(run, it, r,
                      (const Part *)(void *)(a->all + (size_t)r * a->bytes)));
    n->is_known = true;
    return OK;
}

Status
rt_agree_on_next(RtRun *run, RtIterBinding *it, bool *has_data)
{
    RtNextStep *n = &it->agreed;
    if (run->group && !n->is_known) {
        if (!n->has_begun)
            TRY(begin_with_data(run, it));
        TRY(end(run, it));
        rt_iter_set_rows(it->iter, n->rows);
    }
    return rt_iter_has_next(it->iter, has_data);
}

void
rt_agreed_step_is_taken(RtRun *run, RtIterBinding *it)
{
    RtNextStep *n = &it->agreed;
    n->is_known = false;
    n->has_moved = true;
    n->number++;
    n->fingerprint = run->agreement.fingerprint;
}

/* Another process may have begun the next one. */
Status
rt_agree_on_open(RtRun *run, RtIterBinding *it)
{
    RtNextStep *n = &it->agreed;
    if (!run->group)
        return OK;
    if (n->has_moved && !n->is_known && n->can_be_ahead) {
        if (!n->has_begun)
            TRY(begin_without_data(run, n, 0));
        TRY(end(run, it));
    }
    n->is_known = n->has_moved = false;
    n->number++;
    n->fingerprint = run->agreement.fingerprint;
    return OK;
}

Status
rt_agree_ahead(RtRun *run)
{
    for (int i = 0; run->group && i < run->module->iters.len; i++) {
        RtIterBinding *it = &run->iterators[i];
        RtNextStep *n = &it->agreed;
        if (!n->can_be_ahead || !n->has_moved || n->has_begun || n->is_known ||
            !rt_iter_is_ahead(it->iter, 0, false))
            continue;
        TRY(begin_with_data(run, it));
    }
    return OK;
}

/* ---- other exchanges ----------------------------------------------------- */

Status
rt_broadcast(RtRun *run, int root, void *bytes, size_t n)
{
    if (!run->group || !n)
        return OK;
    begin_wait(run);
    return end_wait(run,
                    run->group->ops->broadcast(run->group, root, bytes, n));
}

Status
rt_gather(RtRun *run, const void *own, size_t n,
          void (*take)(void *data, int rank, const void *part, size_t n),
          void *data)
{
    if (!run->group) {
        take(data, 0, own, n);
        return OK;
    }
    begin_wait(run);
    return end_wait(run,
                    run->group->ops->gather(run->group, 0, own, n, take, data));
}

typedef struct Equal {
    size_t bytes;
    void (*take)(void *data, int rank, const void *part, size_t n);
    void *data;
    int other; /* the first rank with a part of another length; -1: none */
} Equal;

static void
take_equal(void *data, int rank, const void *part, size_t n)
{
    Equal *e = data;
    if (n == e->bytes)
        e->take(e->data, rank, part, n);
    else if (e->other < 0)
        e->other = rank;
}

Status
rt_gather_equal(RtRun *run, const void *own, size_t n,
                void (*take)(void *data, int rank, const void *part, size_t n),
                void *data)
{
    Equal e = {n, take, data, -1};
    TRY(rt_gather(run, own, n, take_equal, &e));
    if (e.other >= 0)
        return status_new(STATUS_INPUT,
                          "rank %d has sent a part of a gather that is not as "
                          "long as that of rank %d",
                          e.other, run->rank);
    return OK;
}

Status
rt_exchange(RtRun *run, const int64_t *own, int num, int64_t *all)
{
    size_t bytes = (size_t)num * sizeof *own;
    if (!run->group) {
        memcpy(all, own, bytes);
        return OK;
    }
    TRY(run->group->ops->start(run->group, RT_GROUP_NOW, own, bytes));
    begin_wait(run);
    return end_wait(run,
                    run->group->ops->finish(run->group, RT_GROUP_NOW, all));
}

Status
rt_wait_for_others(RtRun *run)
{
    int64_t here = 0;
    return run->group ? rt_exchange(run, &here, 1,
                                    (int64_t *)(void *)run->agreement.all)
                      : OK;
}

void
rt_launch_has_ended(RtRun *run, bool has_failed)
{
    RtAgreement *a = &run->agreement;
    a->has_failed = has_failed;
    a->have_ended = a->one_has_failed = false;
}

/* Whoever failed comes here to hand in its lines, or aborts the group. */
Status
rt_wait_for_launch(RtRun *run)
{
    RtAgreement *a = &run->agreement;
    int64_t failed = a->has_failed, *all = (int64_t *)(void *)a->all;
    if (!run->group || a->have_ended)
        return OK;
    TRY(rt_exchange(run, &failed, 1, all));
    for (int r = 0; r < run->size; r++)
        a->one_has_failed |= all[r] != 0;
    a->have_ended = true;
    return OK;
}

Status
rt_settle(RtRun *run)
{
    TRY(rt_wait_for_launch(run));
    return run->agreement.one_has_failed ? rt_data_stopped() : OK;
}
