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
 * requested.  So it is while that takes less than to wake the thread, as for
 * batches that are rows of an array in memory: a step that lasts microseconds
 * would wait for the scheduler otherwise.
 *
 * A slot has the step of each worker that is open here.  The state of a worker
 * has as many steps as the process made that saved it, so workers that one
 * process reads may have different numbers of them: the producer makes only
 * those that a slot lacks.
 *
 * When the pipelines here have ended, other processes may go on: the slot that
 * says so is then every further step, in which the replicas here have no rows.
 */
#include <assert.h>
#include <string.h>
#include "ir/dataset/sharding.h"
#include "ir/analysis/footprint.h"
#include "ir/base/clock.h"
#include "ir/base/thread.h"
#include "ir/ir.h"
#include "runtime/data/iter_impl.h"

/* ---- stopping ----------------------------------------------------------- */

/* Who takes steps asks the one who made the iterator; its thread, it. */
bool
rt_iter_is_stopped(const RtIter *it)
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

/* A step that its taker makes is not left half made for an interrupt, unless it
 * takes unexpectedly long: state that is torn cannot be saved.  Less than the
 * watchdog gives a run that is to stop. */
static bool
has_patience(const RtIter *it)
{
    static const double patience = 0.2; /* seconds */
    return !it->taker_makes || !rt_iter_is_stopped(it) ||
           clock_seconds() - it->making_since < patience;
}

static bool
is_quitting(RtDataClient *c)
{
    const RtIter *it = iter_of(c);
    return atomic_load_explicit(&it->quit, memory_order_relaxed) ||
           !has_patience(it);
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

static int
num_given(const RtIter *it, const RtStep *step)
{
    int num = 0;
    for (int r = 0; r < it->replicas_each; r++)
        num += step->given[r];
    return num;
}

static int
num_replicas_here(const RtIter *it)
{
    return it->num_workers * it->replicas_each;
}

static bool
slot_has_data(const RtIter *it, const RtIterSlot *s)
{
    int num = 0;
    for (int i = 0; i < it->num_workers; i++)
        num += num_given(it, &s->steps[i]);
    return rt_step_exists(it->module, it->ir, num, num_replicas_here(it));
}

/* Makes a step of every worker that is not in the slot's pass yet; whether one
 * of them has data. */
static Status
skip_step(RtIter *it, RtIterSlot *s, bool *any)
{
    *any = false;
    for (int i = 0; i < it->num_workers; i++) {
        const RtIterWorker *w = &it->workers[i];
        if (w->pass == s->pass)
            continue;
        if (!w->takes)
            TRY(rt_rebatch_next(w->rebatch, &s->steps[i]));
        *any |= w->takes || num_given(it, &s->steps[i]) > 0;
    }
    return OK;
}

/* Whether all workers of the module are here, and none is in that pass. */
static bool
all_are_behind(const RtIter *it, uint32_t pass)
{
    for (int i = 0; i < it->num_workers; i++)
        if (it->workers[i].pass == pass)
            return false;
    return it->num_workers == it->module->num_workers;
}

/* Steps of the pass that were taken before a resume.  Data that have ended stay
 * so: other workers had some then. */
static Status
skip_taken(RtIter *it, RtIterSlot *s)
{
    bool any = true;
    uint64_t i = 0, taken = atomic_load(&it->taken);
    for (; any && i < taken; i++)
        TRY(skip_step(it, s, &any));
    if (any || !all_are_behind(it, s->pass))
        return OK;
    return status_new(STATUS_INPUT,
                      "the data of \"%s\" end after %llu steps of a pass, of "
                      "which the checkpoint has seen %llu",
                      it->ir->datasets.data[0], (unsigned long long)(i - 1),
                      (unsigned long long)taken);
}

/* Moves workers that are not in the slot's pass to its beginning, and past the
 * steps of it that were taken before a resume. */
static Status
begin_pass(RtIter *it, RtIterSlot *s, uint64_t number)
{
    it->making = s->pass;
    for (int i = 0; i < it->num_workers; i++)
        if (it->workers[i].pass != s->pass && !it->workers[i].takes)
            TRY(rt_rebatch_rewind(it->workers[i].rebatch,
                                  atomic_load(&it->number)));
    TRY(skip_taken(it, s));
    for (int i = 0; i < it->num_workers; i++) {
        RtIterWorker *w = &it->workers[i];
        if (w->pass == s->pass)
            continue;
        w->pass = s->pass;
        w->made = number;
        w->index = 0;
        w->has_ended = false;
    }
    return OK;
}

static void
give_nothing(const RtIter *it, RtStep *step)
{
    memset(step->given, 0, (size_t)it->replicas_each * sizeof *step->given);
}

/* Another process makes it; nobody has data in a step of a pass that was left.
 */
static Status
take_from_maker(RtIter *it, const RtIterWorker *w, uint32_t pass, RtStep *step)
{
    for (;;) {
        RtStepTaking t = rt_step_ring_take(w->ring, pass, w->index, step);
        bool is_left = rt_wait_word_load(&it->pass) != pass;
        if (t == STEP_TAKEN)
            return OK;
        if (t == STEP_NEVER || is_left)
            break;
        if (it->threads ? atomic_load(&it->quit) : rt_iter_is_stopped(it))
            return rt_data_stopped();
        rt_step_ring_wait_for_step(w->ring);
    }
    give_nothing(it, step);
    return OK;
}

/* Others may have data when this worker's have ended: its maker need not go on
 * with the pass for those that take its steps, so they have no more of it. */
static Status
next_of_worker(RtIter *it, RtIterWorker *w, uint32_t pass, RtStep *step)
{
    if (w->takes && w->has_ended)
        give_nothing(it, step);
    else if (w->takes)
        TRY(take_from_maker(it, w, pass, step));
    else
        TRY(rt_rebatch_next(w->rebatch, step));
    if (w->ring && !w->takes && !w->has_ended)
        rt_step_ring_put(w->ring, pass, w->index, step);
    w->has_ended = num_given(it, step) == 0;
    w->index++;
    return OK;
}

static Status
make_step(RtIter *it, RtIterSlot *s, uint64_t number)
{
    if (it->making != s->pass)
        TRY(begin_pass(it, s, number));
    for (int i = 0; i < it->num_workers; i++) {
        RtIterWorker *w = &it->workers[i];
        if (w->made > number)
            continue;
        TRY(next_of_worker(it, w, s->pass, &s->steps[i]));
        w->made = number + 1;
    }
    return OK;
}

void
rt_iter_finish_slot(RtIter *it, RtIterSlot *s)
{
    s->end = s->status == OK && !slot_has_data(it, s);
    s->failed = s->status != OK;
    it->more = !s->end && !s->failed;
}

/* What making a step costs.  It falls slowly, so that a step among many that
 * takes long, as one that reads a file, is remembered. */
static void
note_cost(RtIter *it)
{
    enum { FALL = 32 };
    int64_t ns = (int64_t)(1e9 * (clock_seconds() - it->making_since));
    int64_t before = atomic_load(&it->cost_ns);
    int64_t fallen = before - before / FALL;
    atomic_store(&it->cost_ns, ns > fallen ? ns : fallen);
}

/* Makes a step of the open pass; with the lock. */
static void
fill_slot(RtIter *it)
{
    uint64_t number = it->next_made++;
    RtIterSlot *s = rt_iter_slot(it, number);
    it->making_since = clock_seconds();
    s->pass = rt_wait_word_load(&it->pass);
    s->status = make_step(it, s, number);
    rt_iter_finish_slot(it, s);
    note_cost(it);
    rt_wait_word_add(&it->made, 1);
}

/* Whether the open pass has more steps to make, as far as is known. */
static bool
has_more(const RtIter *it)
{
    return atomic_load(&it->more) ||
           rt_wait_word_load(&it->pass) != atomic_load(&it->making);
}

static bool
has_free_slot(const RtIter *it)
{
    uint32_t made = rt_wait_word_load(&it->made);
    return made - rt_wait_word_load(&it->released) < it->num_slots;
}

/* The ring of the steps that are made here for others, if it is full. */
static RtStepRing *
full_ring(const RtIter *it)
{
    for (int i = 0; i < it->num_workers; i++) {
        const RtIterWorker *w = &it->workers[i];
        if (w->ring && !w->takes && !rt_step_ring_has_room(w->ring))
            return w->ring;
    }
    return NULL;
}

/* Waits until a slot is free, and others have room; false: the thread must end.
 * Not with a lock: a checkpoint waits for that. */
static bool
wait_for_room(RtIter *it)
{
    for (;;) {
        uint32_t released = rt_wait_word_load(&it->released);
        if (atomic_load(&it->quit))
            return false;
        RtStepRing *full = full_ring(it);
        if (!has_free_slot(it))
            rt_wait_word_wait(&it->released, released, false);
        else if (full)
            rt_step_ring_wait_for_room(full);
        else
            return true;
    }
}

/* Waits while the pass is over, until another one is opened; false: the thread
 * must end. */
static bool
wait_for_pass(RtIter *it)
{
    for (;;) {
        uint32_t pass = rt_wait_word_load(&it->pass);
        if (atomic_load(&it->quit))
            return false;
        if (has_more(it))
            return true;
        rt_wait_word_wait(&it->pass, pass, it->spin);
    }
}

/* Who takes steps may have made the one for which there was room. */
static void
make_one(RtIter *it)
{
    pthread_mutex_lock(&it->work);
    if (has_more(it) && has_free_slot(it))
        fill_slot(it);
    pthread_mutex_unlock(&it->work);
}

static void *
make_steps(void *arg)
{
    RtIter *it = arg;
    while (wait_for_pass(it) && wait_for_room(it))
        make_one(it);
    return NULL;
}

/* ---- making what is taken ----------------------------------------------- */

/* Whether to wake the thread for a step would take longer than to make it. */
static bool
is_cheap(const RtIter *it)
{
    return it->threads && !it->shares_steps &&
           atomic_load(&it->cost_ns) < RT_ITER_CHEAP_NS;
}

/* The next step, by who takes steps, if that is cheap; whether it was made. */
static bool
make_cheap_one(RtIter *it)
{
    if (!is_cheap(it) || pthread_mutex_trylock(&it->work))
        return false;
    bool makes = has_more(it) && has_free_slot(it);
    it->taker_makes = true;
    if (makes)
        fill_slot(it);
    it->taker_makes = false;
    pthread_mutex_unlock(&it->work);
    return makes;
}

/* ---- taking ------------------------------------------------------------- */

/* Releases the oldest slot. */
static void
release_slot(RtIter *it)
{
    RtIterSlot *s = rt_iter_slot(it, it->oldest++);
    status_free(s->status);
    s->status = OK;
    if (is_cheap(it))
        rt_wait_word_add_quietly(&it->released, 1);
    else
        rt_wait_word_add(&it->released, 1);
}

/* Waits until more than so many steps are made, or for a tenth of a second;
 * whether they are.  The thread may sleep, for the step was a cheap one. */
static bool
wait_for_thread(RtIter *it, uint32_t made)
{
    rt_wait_word_wake(&it->released);
    return rt_wait_word_wait(&it->made, made, it->spin) != made;
}

/* The slot of the next step, filled, after dropping those of older passes; NULL
 * if the wait was cancelled. */
static RtIterSlot *
wait_for_slot(RtIter *it)
{
    uint32_t pass = rt_wait_word_load(&it->pass);
    for (;;) {
        uint32_t made = rt_wait_word_load(&it->made);
        if (made == (uint32_t)it->next) {
            if (!make_cheap_one(it) && !wait_for_thread(it, made) &&
                rt_iter_is_stopped(it))
                return NULL;
            continue;
        }
        RtIterSlot *s = rt_iter_slot(it, it->next);
        if (s->pass == pass)
            return s;
        release_slot(it);
        it->next++;
    }
}

static RtIterSlot *
next_slot(RtIter *it)
{
    if (it->threads)
        return wait_for_slot(it);
    for (RtStepRing *full; (full = full_ring(it));) {
        if (rt_iter_is_stopped(it))
            return NULL;
        rt_step_ring_wait_for_room(full);
    }
    pthread_mutex_lock(&it->work);
    if (rt_wait_word_load(&it->made) == (uint32_t)it->next)
        fill_slot(it);
    pthread_mutex_unlock(&it->work);
    return rt_iter_slot(it, it->next);
}

static const RtElement *
part_of(const RtIter *it, const RtStep *steps, int replica)
{
    int own = replica - it->first_worker * it->replicas_each;
    assert(own >= 0 && own < num_replicas_here(it));
    return &steps[own / it->replicas_each].parts[own % it->replicas_each];
}

static bool
has_data(const RtIter *it, const RtStep *steps, int replica)
{
    int own = replica - it->first_worker * it->replicas_each;
    return steps[own / it->replicas_each].given[own % it->replicas_each];
}

/* The rows of elements that name no batch are arbitrary. */
static int64_t
rows_of(const RtIter *it, const RtStep *steps, int replica)
{
    int64_t rows = part_of(it, steps, replica)->rows;
    if (!has_data(it, steps, replica))
        return -1;
    return rows > 0 ? rows : 0;
}

Status
rt_iter_local_rows(RtIter *it, int64_t *rows)
{
    if (rt_wait_word_load(&it->pass) == 0)
        return status_new(STATUS_INPUT, "an iterator that was not opened");
    RtIterSlot *s = it->ended ? NULL : next_slot(it);
    if (!s && !it->ended)
        return rt_data_stopped();
    Status st = s ? s->status : OK;
    if (st) {
        s->status = OK;
        it->ended = true;
        return st;
    }
    for (int i = 0; i < it->num_local; i++)
        rows[i] = s ? rows_of(it, s->steps, it->first_local + i) : -1;
    return OK;
}

/* next_rows are known. */
static void
decide_next(RtIter *it)
{
    int num = it->module->num_replicas, num_data = 0;
    for (int r = 0; r < num; r++)
        num_data += it->next_rows[r] >= 0;
    it->knows_next = true;
    it->have_next = rt_step_exists(it->module, it->ir, num_data, num);
    it->ended |= !it->have_next;
}

void
rt_iter_set_rows(RtIter *it, const int64_t *rows)
{
    size_t num = (size_t)it->module->num_replicas;
    memcpy(it->next_rows, rows, num * sizeof *rows);
    decide_next(it);
}

Status
rt_iter_has_next(RtIter *it, bool *out)
{
    bool alone = it->num_local == it->module->num_replicas;
    assert(alone || it->knows_next || it->ended);
    if (!it->ended && !it->knows_next && alone) {
        TRY(rt_iter_local_rows(it, it->next_rows));
        decide_next(it);
    }
    *out = it->have_next;
    return OK;
}

/* The step in s, which was made; one without data stays where it is. */
static void
take_step(RtIter *it, const RtIterSlot *s)
{
    if (it->holds)
        release_slot(it);
    it->holds = !s->end;
    it->next += it->holds;
    it->current = s->steps;
    for (int r = 0; r < it->module->num_replicas; r++)
        it->rows[r] = it->next_rows[r] < 0 ? 0 : it->next_rows[r];
    it->knows_next = it->have_next = false;
    atomic_fetch_add(&it->taken, 1);
}

Status
rt_iter_next(RtIter *it)
{
    bool any;
    TRY(rt_iter_has_next(it, &any));
    if (!any)
        return status_new(STATUS_INPUT, "next: the dataset has no more data");
    const RtIterSlot *s = next_slot(it);
    if (!s)
        return rt_data_stopped();
    take_step(it, s);
    return OK;
}

const void *
rt_iter_data(const RtIter *it, int replica, int component)
{
    return part_of(it, it->current, replica)->data[component];
}

int64_t
rt_iter_rows(const RtIter *it, int replica)
{
    return it->rows[replica];
}

int64_t
rt_iter_all_rows(const RtIter *it)
{
    int64_t all = 0;
    for (int r = 0; r < it->module->num_replicas; r++)
        all += it->rows[r];
    return all;
}

/* For a second: a pipeline may never make it. */
static void
wait_a_while(RtIter *it, int k)
{
    enum { TENTHS = 10 };
    uint32_t before = (uint32_t)it->next + (uint32_t)k;
    for (int i = 0; i < TENTHS && rt_wait_word_load(&it->made) == before &&
                    !rt_iter_is_stopped(it);
         i++)
        wait_for_thread(it, before);
}

bool
rt_iter_is_ahead(RtIter *it, int k, bool waits)
{
    uint32_t pass = rt_wait_word_load(&it->pass);
    if (it->ended || pass == 0)
        return false;
    uint64_t step = it->next + (uint64_t)k;
    bool made = rt_wait_word_load(&it->made) != (uint32_t)step;
    made = made || make_cheap_one(it);
    if (!made && waits && it->threads)
        wait_a_while(it, k);
    if (rt_wait_word_load(&it->made) == (uint32_t)step)
        return false;
    const RtIterSlot *s = rt_iter_slot(it, step);
    return s->pass == pass && !s->end && !s->failed;
}

const void *
rt_iter_next_data(const RtIter *it, int k, int replica, int component)
{
    const RtIterSlot *s = rt_iter_slot(it, it->next + (uint64_t)k);
    return part_of(it, s->steps, replica)->data[component];
}

int64_t
rt_iter_next_rows(const RtIter *it, int k, int replica)
{
    const RtIterSlot *s = rt_iter_slot(it, it->next + (uint64_t)k);
    return part_of(it, s->steps, replica)->rows;
}

/* ---- opening and closing ------------------------------------------------ */

Status
rt_iter_start_thread(RtIter *it)
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
    if (it->holds)
        release_slot(it);
    it->current = NULL;
    it->holds = it->knows_next = it->have_next = it->ended = false;
    atomic_store(&it->number, number);
    atomic_store(&it->taken, 0);
    rt_wait_word_add(&it->pass, 1);
    if (it->threads)
        return it->thread_runs ? OK : rt_iter_start_thread(it);
    for (; rt_wait_word_load(&it->made) != (uint32_t)it->next; it->next++)
        release_slot(it);
    return OK;
}

/* ---- sharing steps ------------------------------------------------------- */

/* Of processes with neighbouring replicas the one that has the first of a
 * worker's makes its steps, for those that have others: of the last worker
 * here, or by another process of the first one here.  false: there is none. */
static bool
sharing_of(const RtIter *it, bool takes, RtStepSharing *out)
{
    int worker =
        takes ? it->first_worker : it->first_worker + it->num_workers - 1;
    int begin = worker * it->replicas_each, end = begin + it->replicas_each;
    int own = it->first_local, own_end = own + it->num_local;
    int maker = begin / it->num_local, rank = own / it->num_local;
    int last = (end - 1) / it->num_local;
    int first = takes ? own : own_end;
    int to = takes && own_end < end ? own_end : end;
    *out = (RtStepSharing){.rebatch =
                               it->workers[worker - it->first_worker].rebatch,
                           .num_slots = it->num_slots,
                           .first = first - begin,
                           .num = to - first,
                           .num_takers = last - maker,
                           .taker = takes ? rank - maker - 1 : -1};
    return takes ? begin < own : begin >= own && end > own_end;
}

size_t
rt_iter_shared_bytes(const RtIter *it, bool takes)
{
    RtStepSharing sharing;
    if (!sharing_of(it, takes, &sharing))
        return 0;
    return on_lines(rt_step_ring_bytes(&sharing));
}

void
rt_iter_share(RtIter *it, bool takes, char *memory)
{
    RtStepSharing sharing;
    if (!sharing_of(it, takes, &sharing))
        return;
    RtIterWorker *w = &it->workers[takes ? 0 : it->num_workers - 1];
    w->takes = takes;
    it->shares_steps = true;
    w->ring = rt_step_ring_new(it->arena, &sharing, memory);
}

/* ---- making and unmaking ------------------------------------------------ */

/* The replicas of this process, and the workers that have one of them. */
static Status
divide_replicas(RtIter *it, const RtDataOptions *options)
{
    const IrModule *m = it->module;
    int num = options->num_local ? options->num_local : m->num_replicas;
    int first = options->first_local;
    if (first < 0 || num < 1 || first > m->num_replicas - num)
        return status_new(STATUS_INPUT,
                          "%d replicas from number %d are not among the "
                          "plan's %d, which are counted from 0",
                          num, first, m->num_replicas);
    it->first_local = first;
    it->num_local = num;
    it->replicas_each = m->num_replicas / m->num_workers;
    it->first_worker = first / it->replicas_each;
    it->num_workers =
        (first + num - 1) / it->replicas_each + 1 - it->first_worker;
    return OK;
}

static Status
open_workers(RtIter *it, const RtDataOptions *options)
{
    RtDataOptions own = it->threads ? options_of_thread(it, options) : *options;
    it->workers = NEW_ARRAY(it->arena, RtIterWorker, (size_t)it->num_workers);
    for (int i = 0; i < it->num_workers; i++)
        TRY(rt_rebatch_new(it->arena, it->module, it->ir, it->first_worker + i,
                           &own, &it->workers[i].rebatch));
    return OK;
}

static void
make_slot(RtIter *it, RtIterSlot *s)
{
    s->steps = NEW_ARRAY(it->arena, RtStep, (size_t)it->num_workers);
    for (int i = 0; i < it->num_workers; i++)
        s->steps[i] = rt_step_new(it->workers[i].rebatch);
}

static Status
fill_iter(RtIter *it, const RtDataOptions *options)
{
    size_t replicas = (size_t)it->module->num_replicas;
    TRY(divide_replicas(it, options));
    it->spin = rt_may_spin(it->num_local + 1);
    it->cost_ns = 4 * RT_ITER_CHEAP_NS; /* until it is known */
    it->rows = NEW_ARRAY(it->arena, int64_t, replicas);
    it->next_rows = NEW_ARRAY(it->arena, int64_t, replicas);
    TRY(open_workers(it, options));
    it->num_slots = ir_iter_steps(it->module, it->ir);
    it->slots = NEW_ARRAY(it->arena, RtIterSlot, (size_t)it->num_slots);
    for (int64_t i = 0; i < it->num_slots; i++)
        make_slot(it, &it->slots[i]);
    return OK;
}

Status
rt_iter_new(const IrModule *m, const IrIter *iter, const RtDataOptions *options,
            RtIter **out)
{
    Arena *a = arena_new(NULL, "an input pipeline");
    /* RtWaitWord needs a larger alignment than an arena gives. */
    RtIter *it = arena_alloc_on_lines(a, sizeof(RtIter));
    it->arena = a;
    it->module = m;
    it->ir = iter;
    it->threads = options->threads && ir_iter_ahead(m, iter) > 0;
    it->client = options->client;
    pthread_mutex_init(&it->work, NULL);
    Status st = fill_iter(it, options);
    if (st) {
        rt_iter_close(it);
        return st;
    }
    *out = it;
    return OK;
}

bool
rt_iter_has_own_files(const RtIter *it)
{
    return it->module->num_workers > 1 &&
           (it->ir->whole ||
            ir_iter_shard_policy(it->module, it->ir) == SHARD_OFF);
}

bool
rt_iter_has_worker(const RtIter *it, int worker)
{
    return worker >= it->first_worker &&
           worker < it->first_worker + it->num_workers;
}

void
rt_iter_files(const RtIter *it, int worker, RtTakeFile *take, void *data)
{
    assert(rt_iter_has_worker(it, worker));
    rt_rebatch_files(it->workers[worker - it->first_worker].rebatch, take,
                     data);
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
