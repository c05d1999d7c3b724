/*
 * iter.c - distributed iterators
 *
 * With threads, a thread of the iterator's own makes steps ahead into a ring;
 * the consumer takes them out.  Both sides only ever wait on two words: how
 * many steps were made, and how many were given back.  Opening the iterator
 * anew begins another pass: the thread drops what it made for the last one.
 *
 * Without threads the same ring has one slot that is filled when asked for.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "ir/build.h"
#include "runtime/cpu/wait.h"
#include "runtime/data/divide.h"

enum { RING = 4 };

typedef struct Slot {
    RtStep step;
    Status status;
    uint32_t pass; /* for which it was made */
    bool end;      /* no data: the pass is over */
} Slot;

struct RtIter {
    Arena *arena;
    RtNode *pipeline;
    RtDivision *division;
    int num_replicas;
    bool threads;
    bool thread_runs;
    pthread_t thread;
    Slot slots[RING];
    RtWord made;     /* slots filled so far */
    RtWord released; /* slots given back so far */
    RtWord pass;     /* opened so many times */
    _Atomic bool quit;
    uint32_t next;  /* number of the slot of the next step */
    bool have_next; /* it is filled, of this pass, and no end */
    bool ended;
    const RtStep *current; /* in slot next - 1; NULL: none yet */
};

static Slot *
slot(RtIter *it, uint32_t number)
{
    return &it->slots[number % RING];
}

/* ---- making ------------------------------------------------------------- */

static Status
rewind_pipeline(RtIter *it)
{
    TRY(rt_node_rewind(it->pipeline));
    rt_division_rewind(it->division);
    return OK;
}

static void
fill_slot(RtIter *it, Slot *s, uint32_t pass, bool rewind)
{
    s->pass = pass;
    s->end = false;
    s->status = rewind ? rewind_pipeline(it) : OK;
    if (!s->status)
        s->status = rt_division_next(it->division, &s->step, &s->end);
}

/* Waits until a slot is free, or until there is other work. */
static bool
wait_for_room(RtIter *it, uint32_t number)
{
    for (;;) {
        uint32_t released = rt_word_load(&it->released);
        if (number - released < RING)
            return true;
        if (atomic_load(&it->quit))
            return false;
        rt_word_wait(&it->released, released, false);
    }
}

/* Waits for a pass after `pass` to be opened; that pass, or 0 to quit. */
static uint32_t
wait_for_pass(RtIter *it, uint32_t pass)
{
    while (!atomic_load(&it->quit)) {
        uint32_t now = rt_word_load(&it->pass);
        if (now != pass)
            return now;
        rt_word_wait(&it->pass, pass, false);
    }
    return 0;
}

static void *
make_steps(void *arg)
{
    RtIter *it = arg;
    uint32_t number = 0, pass = 0;
    bool over = true;
    while (!atomic_load(&it->quit)) {
        uint32_t now = over ? wait_for_pass(it, pass) : rt_word_load(&it->pass);
        if (now == 0 || !wait_for_room(it, number))
            break;
        Slot *s = slot(it, number++);
        fill_slot(it, s, now, now != pass);
        over = s->end || s->status;
        pass = now;
        rt_word_add(&it->made, 1);
    }
    return NULL;
}

/* ---- taking ------------------------------------------------------------- */

/* Gives back the oldest slot that was not. */
static void
release_slot(RtIter *it)
{
    Slot *s = slot(it, rt_word_load(&it->released));
    status_free(s->status);
    s->status = OK;
    rt_word_add(&it->released, 1);
}

/* The slot of the next step, filled, after dropping those of older passes. */
static Slot *
wait_for_slot(RtIter *it)
{
    uint32_t pass = rt_word_load(&it->pass);
    bool spin = rt_may_spin(it->num_replicas + 1);
    for (;;) {
        uint32_t made = rt_word_load(&it->made);
        if (made == it->next) {
            rt_word_wait(&it->made, made, spin);
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
    Slot *s = slot(it, it->next);
    if (rt_word_load(&it->made) == it->next) {
        fill_slot(it, s, rt_word_load(&it->pass), false);
        rt_word_add(&it->made, 1);
    }
    return s;
}

Status
rt_iter_has_next(RtIter *it, bool *out)
{
    if (!it->ended && !it->have_next) {
        Slot *s = next_slot(it);
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

const char *
rt_iter_division(const RtIter *it)
{
    return rt_division_name(it->division);
}

/* ---- opening and closing ------------------------------------------------ */

Status
rt_iter_open(RtIter *it)
{
    if (it->current)
        release_slot(it);
    it->current = NULL;
    it->have_next = it->ended = false;
    rt_word_add(&it->pass, 1);
    if (!it->threads) {
        for (; rt_word_load(&it->made) != it->next; it->next++)
            release_slot(it);
        return rewind_pipeline(it);
    }
    if (it->thread_runs)
        return OK;
    int error = pthread_create(&it->thread, NULL, make_steps, it);
    if (error)
        return status_new(STATUS_MACHINE, "no thread for the input: %s",
                          strerror(error));
    it->thread_runs = true;
    return OK;
}

static Status
make_pipeline(RtIter *it, const IrModule *m, const IrIter *iter,
              const RtDataOptions *options)
{
    const IrDataset *dataset = ir_dataset_find(m, iter->dataset);
    if (!dataset)
        UNREACHABLE("no dataset @%s", iter->dataset);
    TRY(rt_pipeline_new(it->arena, m, dataset, options, &it->pipeline));
    it->division =
        rt_division_new(it->pipeline, iter, dataset, it->num_replicas);
    for (int i = 0; i < RING; i++)
        it->slots[i].step = rt_step_new(it->division);
    return OK;
}

Status
rt_iter_new(const IrModule *m, const IrIter *iter, int num_replicas,
            const RtDataOptions *options, RtIter **out)
{
    Arena *a = arena_new(NULL, "input pipeline");
    /* RtWord asks for more than an arena aligns to */
    char *room = arena_alloc(a, sizeof(RtIter) + CACHE_LINE);
    RtIter *it = (RtIter *)(room + (CACHE_LINE - (uintptr_t)room % CACHE_LINE));
    it->arena = a;
    it->num_replicas = num_replicas;
    it->threads = options->threads;
    Status st = make_pipeline(it, m, iter, options);
    if (st) {
        rt_iter_close(it);
        return st;
    }
    *out = it;
    return OK;
}

void
rt_iter_close(RtIter *it)
{
    if (!it)
        return;
    atomic_store(&it->quit, true);
    rt_word_wake(&it->pass);
    rt_word_wake(&it->released);
    if (it->thread_runs)
        pthread_join(it->thread, NULL);
    for (int i = 0; i < RING; i++)
        status_free(it->slots[i].status);
    rt_node_close(it->pipeline);
    arena_release(it->arena);
}
