/*
 * iter_archive.c - where an iterator is in its passes, as a state
 *
 * A checkpoint has the steps that were made and not taken, and the position of
 * the producer, which pauses between two steps.  A step that failed leaves the
 * pipeline at a position inside it, and may have failed for a reason that no
 * longer exists at the resume.  So neither the error nor the pipeline is saved
 * then, only how many steps of the pass were taken: the position of a pipeline
 * is a function of that (node.h), and the resumed run moves there again.
 */
#include <assert.h>
#include "runtime/data/iter_impl.h"
#include "runtime/hal/wait.h"

/* The first slot of the open pass that was made and not taken; those of older
 * ones come before. */
static uint64_t
first_slot(RtIter *it, uint32_t made)
{
    uint64_t first = it->next;
    while ((uint32_t)first != made &&
           rt_iter_slot(it, first)->pass != rt_wait_word_load(&it->pass))
        first++;
    return first;
}

static bool
has_failed(RtIter *it)
{
    uint32_t made = rt_wait_word_load(&it->made);
    for (uint64_t i = first_slot(it, made); (uint32_t)i != made; i++)
        if (rt_iter_slot(it, i)->failed)
            return true;
    return false;
}

/* Steps of the open pass that were not taken. */
static void
steps_archive(RtIter *it, int index, RtArchive *ar)
{
    RtIterWorker *w = &it->workers[index];
    uint64_t first = first_slot(it, rt_wait_word_load(&it->made));
    int64_t count = (int64_t)(w->made - first);
    rt_archive_count(ar, &count, it->num_slots, 1);
    for (int64_t i = 0; i < count; i++)
        rt_step_archive(w->rebatch,
                        &rt_iter_slot(it, first + (uint64_t)i)->steps[index],
                        ar);
    if (ar->reads)
        w->made = (uint64_t)count;
}

/* If the producer has not seen the pass there are no steps of it, and the
 * pipeline has no position; a failed one has none, either. */
static void
worker_archive(RtIter *it, int index, RtArchive *ar)
{
    RtIterWorker *w = &it->workers[index];
    uint32_t pass = rt_wait_word_load(&it->pass);
    bool begun = w->pass == pass && !has_failed(it);
    rt_archive_bool(ar, &begun);
    if (!begun)
        return;
    w->pass = pass;
    steps_archive(it, index, ar);
    rt_rebatch_archive(w->rebatch, ar);
}

/* The slots that have a step of every worker are filled. */
static void
finish_slots(RtIter *it)
{
    uint32_t pass = rt_wait_word_load(&it->pass);
    uint64_t made = UINT64_MAX;
    bool begun = true;
    for (int i = 0; i < it->num_workers; i++) {
        begun &= it->workers[i].pass == pass;
        made = it->workers[i].made < made ? it->workers[i].made : made;
    }
    if (!begun) /* some have to go there */
        return;
    it->making = pass;
    it->more = true;
    for (uint64_t i = 0; i < made; i++) {
        rt_iter_slot(it, i)->pass = pass;
        rt_iter_finish_slot(it, rt_iter_slot(it, i));
    }
    it->next_made = made;
    rt_wait_word_store(&it->made, (uint32_t)made);
}

static void
part_archive(RtIter *it, int worker, RtArchive *ar, const RtWorkerState *other)
{
    bool here = rt_iter_has_worker(it, worker);
    if (ar->reads && !here) {
        rt_archive_skip_part(ar);
        return;
    }
    size_t begin = rt_archive_begin_part(ar);
    if (here)
        worker_archive(it, worker - it->first_worker, ar);
    else
        rt_archive_bytes(ar, (char *)other->bytes, other->len);
    rt_archive_end_part(ar, begin);
}

static void
pass_archive(RtIter *it, RtArchive *ar, const RtWorkerState *others)
{
    uint64_t taken = atomic_load(&it->taken);
    rt_archive_u64(ar, &taken);
    if (ar->reads)
        atomic_store(&it->taken, taken);
    for (int w = 0; w < it->module->num_workers; w++)
        part_archive(it, w, ar, others ? &others[w] : NULL);
    if (ar->reads)
        finish_slots(it);
}

/* The producer may never pause. */
static Status
wait_for_rest(RtIter *it)
{
    for (;;) {
        struct timespec until = rt_time_after(1);
        if (!pthread_mutex_clocklock(&it->work, CLOCK_MONOTONIC, &until))
            return OK;
        if (rt_iter_is_stopped(it))
            return rt_data_stopped();
    }
}

Status
rt_iter_archive(RtIter *it, RtArchive *ar, const RtWorkerState *others)
{
    TRY(wait_for_rest(it));
    uint32_t pass = rt_wait_word_load(&it->pass);
    uint64_t number = atomic_load(&it->number);
    rt_archive_u32(ar, &pass);
    rt_archive_u64(ar, &number);
    if (ar->reads) {
        rt_wait_word_store(&it->pass, pass);
        atomic_store(&it->number, number);
    }
    if (pass > 0)
        pass_archive(it, ar, others);
    bool starts = ar->reads && !ar->wrong && it->threads && pass > 0;
    pthread_mutex_unlock(&it->work);
    return starts ? rt_iter_start_thread(it) : OK;
}

Status
rt_iter_archive_worker(RtIter *it, int worker, RtArchive *ar)
{
    assert(!ar->reads && rt_iter_has_worker(it, worker));
    TRY(wait_for_rest(it));
    if (rt_wait_word_load(&it->pass) > 0)
        worker_archive(it, worker - it->first_worker, ar);
    pthread_mutex_unlock(&it->work);
    return OK;
}
