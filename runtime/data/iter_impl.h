/*
 * iter_impl.h - what the files of a distributed iterator share
 *
 *   iter.c          makes steps in advance, and takes them
 *   iter_archive.c  the steps and the pass in checkpoints
 */
#ifndef TFD_RUNTIME_DATA_ITER_IMPL_H
#define TFD_RUNTIME_DATA_ITER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include "runtime/data/rebatch.h"
#include "runtime/data/step_ring.h"
#include "runtime/hal/wait.h"

/* What waking a thread costs, about. */
enum { RT_ITER_CHEAP_NS = 5000 };

typedef struct RtIterSlot {
    RtStep *steps; /* of each worker here */
    Status status;
    uint32_t pass; /* for which it was made */
    bool end;      /* there are no data: the pass is over, as far as is known
                      here */
    bool failed;   /* it failed; status has the error until it is reported */
} RtIterSlot;

/* A worker whose pipelines are open here. */
typedef struct RtIterWorker {
    RtRebatch *rebatch;
    uint32_t pass; /* that they are in */
    uint64_t
        made; /* slots that have its step, those that a state had included */
    RtStepRing *ring; /* with other processes; NULL: they have none of it */
    bool takes;       /* another process makes its steps */
    bool has_ended; /* in the pass: with the step that is the last in a ring */
    uint64_t index; /* of the next one, in the pass or since the state */
} RtIterWorker;

struct RtIter {
    RtDataClient of_thread; /* pipelines of its thread ask this one */
    RtDataClient *client;   /* of who takes steps */
    Arena *arena;
    const IrModule *module;
    const IrIter *ir;
    int first_local, num_local; /* replicas of this process */
    int first_worker, num_workers;
    int replicas_each; /* of a worker */
    RtIterWorker *workers;
    bool threads;
    bool thread_runs;
    bool spin; /* while waiting for the thread */
    pthread_t thread;
    RtIterSlot *slots;
    int64_t num_slots;
    RtWaitWord made;         /* slots filled so far */
    RtWaitWord released;     /* slots released so far */
    RtWaitWord pass;         /* opened so many times */
    _Atomic uint64_t number; /* that the open pass has in the dataset */
    _Atomic uint64_t taken;  /* steps of it */
    _Atomic bool quit;
    bool shares_steps;       /* a worker has a ring */
    _Atomic int64_t cost_ns; /* of making a step */
    pthread_mutex_t work; /* held while a slot is filled or all is archived; of
                             what follows, down to more */
    uint64_t next_made;   /* number of the next step to make */
    double making_since;  /* on the clock of clock_seconds() */
    bool taker_makes;     /* the step, instead of the thread */
    _Atomic uint32_t making; /* pass of the step made last, */
    _Atomic bool more;       /* and whether that goes on; written with it */
    uint64_t next;           /* number of the next step to take */
    uint64_t oldest;         /* of the oldest one that was not released */
    bool knows_next; /* next_rows are of the step after the current one */
    bool have_next;  /* there is one */
    bool ended;
    int64_t *rows;         /* of the current step, for each replica */
    int64_t *next_rows;    /* -1: it has no data */
    const RtStep *current; /* of each worker here; NULL: none yet */
    bool holds;            /* current is in a slot of its own, next - 1 */
};

/* Of a step, by its number over all passes. */
static inline RtIterSlot *
rt_iter_slot(const RtIter *it, uint64_t number)
{
    return &it->slots[number % (uint64_t)it->num_slots];
}

/* The steps of all workers are in the slot, or an error is. */
void rt_iter_finish_slot(RtIter *it, RtIterSlot *s);
/* The thread goes on from `made`. */
Status rt_iter_start_thread(RtIter *it) MUST_USE;
bool rt_iter_is_stopped(const RtIter *it);

#endif
