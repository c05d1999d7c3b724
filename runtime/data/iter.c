/*
 * iter.c - distributed iterators
 *
 * With threads, a thread of the iterator makes steps in advance into a ring;
 * the consumer takes them out.  Both sides wait only on two words: how many
 * steps were made, and how many were released.  Opening the iterator again
 * begins another pass: the thread drops the steps of the previous one.  Steps
 * are numbered over all passes; a word has the lower bits of a number.
 *
 * Without threads, and without prefetch, the same ring is filled when a step is
 * requested.
 *
 * A checkpoint has the steps that were made and not taken, and the position of
 * the producer, which pauses between two steps.  A step that failed leaves the
 * pipeline at a position inside it, and may have failed for a reason that no
 * longer exists at the resume.  So neither the error nor the pipeline is saved
 * then, only how many steps of the pass were taken: the position of a pipeline
 * is a function of that (node.h), and the resumed run moves there again.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include "ir/analysis/footprint.h"
#include "ir/base/thread.h"
#include "ir/ir.h"
#include "runtime/data/rebatch.h"
#include "runtime/hal/wait.h"

typedef struct Slot {
    RtStep step;
    Status status;
    uint32_t pass; /* for which it was made */
    bool end;      /* no data: the pass is over */
    bool failed;   /* it failed; status has the error until it is reported */
} Slot;

struct RtIter {
    RtDataClient of_thread; /* pipelines of its thread ask this one */
    RtDataClient *client;   /* of who takes steps */
    Arena *arena;
    const char *dataset; /* its name */
    RtRebatch *rebatch;
    bool threads;
    bool thread_runs;
    bool spin; /* while waiting for the thread */
    pthread_t thread;
    Slot *slots;
    int64_t num_slots;
    RtWaitWord made;         /* slots filled so far */
    RtWaitWord released;     /* slots released so far */
    RtWaitWord pass;         /* opened so many times */
    _Atomic uint64_t number; /* that the open pass has in the dataset */
    _Atomic uint64_t taken;  /* steps of it */
    _Atomic bool quit;
    pthread_mutex_t work; /* held while a slot is filled or all is archived */
    uint32_t making;      /* of the producer: its current pass */
    bool more;            /* and whether that goes on */
    uint64_t next;        /* number of the next step */
    uint64_t oldest;      /* of the oldest one that was not released */
    bool have_next;       /* it is filled, of this pass, and no end */
    bool ended;
    const RtStep *current; /* in slot next - 1; NULL: none yet */
};

static const Slot *
slot_of(const RtIter *it, uint64_t number)
{
    return &it->slots[number % (uint64_t)it->num_slots];
}

static Slot *
slot(RtIter *it, uint64_t number)
{
    return &it->slots[number % (uint64_t)it->num_slots];
}

/* ---- stopping ----------------------------------------------------------- */

/* Who takes steps asks the one who made the iterator; its thread, it. */
static bool
is_stopped(const RtIter *it)
{
    return rt_data_is_stopped(it->client);
}

static RtIter *
iter_of(RtDataClient *of_thread)
{
    return (RtIter *)of_thread;
}

static RtElementFn *
function_of_client(RtDataClient *c, const char *name)
{
    RtDataClient *client = iter_of(c)->client;
    return client->function(client, name);
}

static bool
is_quitting(RtDataClient *c)
{
    const RtIter *it = iter_of(c);
    return atomic_load_explicit(&it->quit, memory_order_relaxed);
}

static RtDataOptions
options_of_thread(RtIter *it, const RtDataOptions *options)
{
    RtDataOptions own = *options;
    it->of_thread = (RtDataClient){function_of_client, is_quitting};
    own.client = &it->of_thread;
    return own;
}

/* ---- making ------------------------------------------------------------- */

/* Moves to the beginning of the open pass, and past the steps of it that were
 * taken before a resume. */
static Status
begin_pass(RtIter *it, Slot *s)
{
    uint64_t taken = atomic_load(&it->taken);
    it->making = s->pass;
    TRY(rt_rebatch_rewind(it->rebatch, atomic_load(&it->number)));
    for (uint64_t i = 0; i < taken; i++) {
        TRY(rt_rebatch_next(it->rebatch, &s->step, &s->end));
        if (s->end)
            return status_new(STATUS_INPUT,
                              "the data of \"%s\" end after %llu steps of a "
                              "pass, of which the checkpoint has seen %llu",
                              it->dataset, (unsigned long long)i,
                              (unsigned long long)taken);
    }
    return OK;
}

static Status
make_step(RtIter *it, Slot *s)
{
    if (it->making != s->pass)
        TRY(begin_pass(it, s));
    return rt_rebatch_next(it->rebatch, &s->step, &s->end);
}

/* Makes a step of the open pass. */
static void
fill_slot(RtIter *it, uint64_t number)
{
    Slot *s = slot(it, number);
    pthread_mutex_lock(&it->work);
    s->pass = rt_wait_word_load(&it->pass);
    s->end = false;
    s->status = make_step(it, s);
    s->failed = s->status != OK;
    it->more = !s->end && !s->failed;
    rt_wait_word_add(&it->made, 1);
    pthread_mutex_unlock(&it->work);
}

/* Waits until a slot is free; false: the thread must end. */
static bool
wait_for_room(RtIter *it, uint64_t number)
{
    for (;;) {
        uint32_t released = rt_wait_word_load(&it->released);
        if (atomic_load(&it->quit))
            return false;
        if ((uint32_t)number - released < it->num_slots)
            return true;
        rt_wait_word_wait(&it->released, released, false);
    }
}

/* Waits until another pass than the finished one is opened; false: the thread
 * must end. */
static bool
wait_for_pass(RtIter *it)
{
    for (;;) {
        uint32_t pass = rt_wait_word_load(&it->pass);
        if (atomic_load(&it->quit))
            return false;
        if (pass != it->making)
            return true;
        rt_wait_word_wait(&it->pass, pass, it->spin);
    }
}

static void *
make_steps(void *arg)
{
    RtIter *it = arg;
    for (uint64_t number = rt_wait_word_load(&it->made);
         (it->more || wait_for_pass(it)) && wait_for_room(it, number); number++)
        fill_slot(it, number);
    return NULL;
}

/* ---- taking ------------------------------------------------------------- */

/* Releases the oldest slot. */
static void
release_slot(RtIter *it)
{
    Slot *s = slot(it, it->oldest++);
    status_free(s->status);
    s->status = OK;
    rt_wait_word_add(&it->released, 1);
}

/* The slot of the next step, filled, after dropping those of older passes; NULL
 * if the wait was cancelled. */
static Slot *
wait_for_slot(RtIter *it)
{
    uint32_t pass = rt_wait_word_load(&it->pass);
    for (;;) {
        uint32_t made = rt_wait_word_load(&it->made);
        if (made == (uint32_t)it->next) {
            if (rt_wait_word_wait(&it->made, made, it->spin) == made &&
                is_stopped(it))
                return NULL;
            continue;
        }
        Slot *s = slot(it, it->next);
        if (s->pass == pass)
            return s;
        release_slot(it);
        it->next++;
    }
}

static Slot *
next_slot(RtIter *it)
{
    if (it->threads)
        return wait_for_slot(it);
    if (rt_wait_word_load(&it->made) == (uint32_t)it->next)
        fill_slot(it, it->next);
    return slot(it, it->next);
}

Status
rt_iter_has_next(RtIter *it, bool *out)
{
    if (rt_wait_word_load(&it->pass) == 0)
        return status_new(STATUS_INPUT, "an iterator that was not opened");
    if (!it->ended && !it->have_next) {
        Slot *s = next_slot(it);
        if (!s)
            return rt_data_stopped();
        Status st = s->status;
        s->status = OK;
        it->ended = s->end || st;
        it->have_next = !it->ended;
        if (st)
            return st;
    }
    *out = it->have_next;
    return OK;
}

Status
rt_iter_next(RtIter *it)
{
    bool any;
    TRY(rt_iter_has_next(it, &any));
    if (!any)
        return status_new(STATUS_INPUT, "next: the dataset has no more data");
    if (it->current)
        release_slot(it);
    it->current = &slot(it, it->next++)->step;
    it->have_next = false;
    atomic_fetch_add(&it->taken, 1);
    return OK;
}

const void *
rt_iter_data(const RtIter *it, int replica, int component)
{
    return it->current->parts[replica].data[component];
}

int64_t
rt_iter_rows(const RtIter *it, int replica)
{
    return it->current->parts[replica].rows;
}

int64_t
rt_iter_all_rows(const RtIter *it)
{
    return it->current->all_rows;
}

/* For a second: a pipeline may never make it. */
static void
wait_a_while(RtIter *it)
{
    enum { TENTHS = 10 };
    uint32_t next = (uint32_t)it->next;
    for (int i = 0;
         i < TENTHS && rt_wait_word_load(&it->made) == next && !is_stopped(it);
         i++)
        rt_wait_word_wait(&it->made, next, it->spin);
}

bool
rt_iter_is_ahead(RtIter *it, bool waits)
{
    uint32_t pass = rt_wait_word_load(&it->pass);
    if (it->ended || pass == 0)
        return false;
    if (waits && it->threads)
        wait_a_while(it);
    if (rt_wait_word_load(&it->made) == (uint32_t)it->next)
        return false;
    const Slot *s = slot_of(it, it->next);
    return s->pass == pass && !s->end && !s->failed;
}

const void *
rt_iter_next_data(const RtIter *it, int replica, int component)
{
    return slot_of(it, it->next)->step.parts[replica].data[component];
}

int64_t
rt_iter_next_rows(const RtIter *it, int replica)
{
    return slot_of(it, it->next)->step.parts[replica].rows;
}

/* ---- opening and closing ------------------------------------------------ */

static Status
start_thread(RtIter *it)
{
    TRY(thread_start(&it->thread, make_steps, it, "the input"));
    it->thread_runs = true;
    return OK;
}

uint32_t
rt_iter_passes(const RtIter *it)
{
    return rt_wait_word_load(&it->pass);
}

/* The producer reads the pass first, and then its number. */
Status
rt_iter_open(RtIter *it, uint64_t number)
{
    if (it->current)
        release_slot(it);
    it->current = NULL;
    it->have_next = it->ended = false;
    atomic_store(&it->number, number);
    atomic_store(&it->taken, 0);
    rt_wait_word_add(&it->pass, 1);
    if (it->threads)
        return it->thread_runs ? OK : start_thread(it);
    for (; rt_wait_word_load(&it->made) != (uint32_t)it->next; it->next++)
        release_slot(it);
    return OK;
}

/* ---- checkpoints -------------------------------------------------------- */

/* The first slot of the open pass that was made and not taken; those of older
 * ones come before. */
static uint64_t
first_slot(RtIter *it, uint32_t made)
{
    uint64_t first = it->next;
    while ((uint32_t)first != made &&
           slot(it, first)->pass != rt_wait_word_load(&it->pass))
        first++;
    return first;
}

static bool
has_failed(RtIter *it)
{
    uint32_t made = rt_wait_word_load(&it->made);
    for (uint64_t i = first_slot(it, made); (uint32_t)i != made; i++)
        if (slot(it, i)->failed)
            return true;
    return false;
}

static void
slot_archive(RtIter *it, Slot *slot, RtArchive *ar)
{
    slot->pass = rt_wait_word_load(&it->pass);
    rt_archive_bool(ar, &slot->end);
    rt_step_archive(it->rebatch, &slot->step, ar);
}

/* Steps of the open pass that were not taken. */
static void
slots_archive(RtIter *it, RtArchive *ar)
{
    uint32_t made = rt_wait_word_load(&it->made);
    uint64_t first = first_slot(it, made);
    int64_t count = made - (uint32_t)first;
    rt_archive_count(ar, &count, it->num_slots, 1);
    for (int64_t i = 0; i < count; i++)
        slot_archive(it, slot(it, first + (uint64_t)i), ar);
    if (!ar->reads)
        return;
    const Slot *last = count ? slot(it, (uint64_t)count - 1) : NULL;
    it->more = !last || !last->end;
    rt_wait_word_store(&it->made, (uint32_t)count);
}

/* If the producer has not seen the pass there are no steps of it, and the
 * pipeline has no position; a failed one has none, either. */
static void
pass_archive(RtIter *it, RtArchive *ar)
{
    bool begun = it->making == rt_wait_word_load(&it->pass) && !has_failed(it);
    uint64_t taken = atomic_load(&it->taken);
    rt_archive_bool(ar, &begun);
    rt_archive_u64(ar, &taken);
    if (ar->reads)
        atomic_store(&it->taken, taken);
    if (!begun)
        return;
    if (ar->reads) /* the thread may check it while a state is written */
        it->making = rt_wait_word_load(&it->pass);
    slots_archive(it, ar);
    rt_rebatch_archive(it->rebatch, ar);
}

/* The producer may never pause. */
static Status
wait_for_rest(RtIter *it)
{
    struct timespec until;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        if (!pthread_mutex_clocklock(&it->work, CLOCK_MONOTONIC, &until))
            return OK;
        if (is_stopped(it))
            return rt_data_stopped();
    }
}

Status
rt_iter_archive(RtIter *it, RtArchive *ar)
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
        pass_archive(it, ar);
    bool starts = ar->reads && !ar->wrong && it->threads && pass > 0;
    pthread_mutex_unlock(&it->work);
    return starts ? start_thread(it) : OK;
}

/* ---- making and unmaking ------------------------------------------------ */

static Status
make_rebatch(RtIter *it, const IrModule *m, const IrIter *iter,
             int num_replicas, const RtDataOptions *options)
{
    RtDataOptions own = it->threads ? options_of_thread(it, options) : *options;
    TRY(rt_rebatch_new(it->arena, m, iter, num_replicas, &own, &it->rebatch));
    it->num_slots = ir_iter_steps(m, iter);
    it->slots = NEW_ARRAY(it->arena, Slot, (size_t)it->num_slots);
    for (int64_t i = 0; i < it->num_slots; i++)
        it->slots[i].step = rt_step_new(it->rebatch);
    return OK;
}

Status
rt_iter_new(const IrModule *m, const IrIter *iter, int num_replicas,
            const RtDataOptions *options, RtIter **out)
{
    Arena *a = arena_new(NULL, "an input pipeline");
    /* RtWaitWord needs a larger alignment than an arena gives. */
    RtIter *it = (RtIter *)(void *)rt_data_alloc(a, sizeof(RtIter));
    it->arena = a;
    it->dataset = iter->datasets.data[0];
    it->threads = options->threads && ir_iter_ahead(m, iter) > 0;
    it->client = options->client;
    it->spin = rt_may_spin(num_replicas + 1);
    pthread_mutex_init(&it->work, NULL);
    Status st = make_rebatch(it, m, iter, num_replicas, options);
    if (st) {
        rt_iter_close(it);
        return st;
    }
    *out = it;
    return OK;
}

/* Changes both words, so that a thread about to sleep on one does not. */
static void
end_thread(RtIter *it)
{
    atomic_store(&it->quit, true);
    rt_wait_word_add(&it->pass, 1);
    rt_wait_word_add(&it->released, 1);
    pthread_join(it->thread, NULL);
}

void
rt_iter_close(RtIter *it)
{
    if (!it)
        return;
    if (it->thread_runs)
        end_thread(it);
    for (int64_t i = 0; it->slots && i < it->num_slots; i++)
        status_free(it->slots[i].status);
    pthread_mutex_destroy(&it->work);
    arena_release(it->arena);
}
