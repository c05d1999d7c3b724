/*
 * queue.h - which closure is where
 *
 * Closures have ascending ids.  One waits in the queue, is with a worker, or
 * has ended; those of a worker that is lost go back to the front of the queue,
 * so a closure may be executed several times: servers apply it once.  All
 * closures before `low` have ended, and none is RT_PS_WINDOW or more after it:
 * so servers need remember only so many.
 *
 * What is sent to a worker is numbered; it may be lost with a connection, and
 * is sent again from the number that the worker has.  No locks and no sockets
 * here.
 */
#ifndef TFD_RUNTIME_PS_QUEUE_H
#define TFD_RUNTIME_PS_QUEUE_H

#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "runtime/ps/sockets.h"
#include "runtime/ps/wire.h"

enum { RT_PS_IN_FLIGHT = 16 }; /* closures with one worker, at most */

/* What a closure will give; kept while main refers to it. */
typedef struct RtFuture {
    int64_t id;
    bool is_there;
    int refs;              /* of main */
    Str bytes;             /* as the worker sent it */
    struct RtFuture *next; /* of those that are free */
} RtFuture;

typedef enum RtClosureState {
    RT_CLOSURE_ended,
    RT_CLOSURE_waits,
    RT_CLOSURE_sent,
    RT_CLOSURE_mains /* main executes it itself */
} RtClosureState;

typedef struct RtClosure {
    RtClosureState state;
    int64_t id;
    int worker; /* that has it last */
    int64_t launch;
    Str arguments;
    RtFuture *future; /* NULL: it has no results */
} RtClosure;

typedef struct RtSent {
    int64_t number, id;
    double at;
} RtSent;

typedef struct RtPsWorker {
    bool is_known, is_lost; /* it has joined; it has been silent since */
    uint32_t incarnation;
    int64_t pid;
    const char *host;
    RtPsRoute route;
    double heard;
    int64_t sent, received; /* the last number: of ours, of its */
    int num_in_flight;
    RtSent in_flight[RT_PS_IN_FLIGHT]; /* by number */
    int64_t num_done;
    double seconds; /* of a closure, lately */
} RtPsWorker;

typedef struct RtClosureQueue {
    Arena *arena;
    int64_t low, next;   /* ids */
    RtClosure *closures; /* by id % RT_PS_WINDOW */
    int64_t *waiting;    /* ids in order, a ring of twice RT_PS_WINDOW: some
                            have ended since */
    int64_t first, num_waiting;
    int64_t num_open; /* that have not ended */
    VEC(RtPsWorker) workers;
    RtFuture *free;
    int64_t num_put_back;
} RtClosureQueue;

void rt_queue_init(RtClosureQueue *q, Arena *a);

/* ---- main's side --------------------------------------------------------- */

bool rt_queue_is_full(const RtClosureQueue *q);
/* A closure to be executed, or by main itself (its arguments are none). */
RtClosure *rt_queue_add(RtClosureQueue *q, int64_t launch,
                        const RtArchive *arguments, bool has_results);
RtClosure *rt_queue_add_mains(RtClosureQueue *q);
/* Main refers to a future no more, once. */
void rt_queue_release(RtClosureQueue *q, RtFuture *f);
/* Drops all that wait. */
void rt_queue_cancel(RtClosureQueue *q);

/* ---- workers' side ------------------------------------------------------- */

/* NULL: it has ended. */
RtClosure *rt_queue_closure(RtClosureQueue *q, int64_t id);
/* NULL: no such worker has joined. */
RtPsWorker *rt_queue_worker(RtClosureQueue *q, uint32_t index);
/* A worker, or its replacement, has joined: what its predecessor had goes back.
 * NULL: it is older than what is known. */
RtPsWorker *rt_queue_join(RtClosureQueue *q, const RtPsHello *h, double now);
/* Puts back what a worker has. */
void rt_queue_lose(RtClosureQueue *q, RtPsWorker *w);
/* The closure that w gets next, in flight then with that number; NULL: none
 * waits, or w has enough. */
RtClosure *rt_queue_send(RtClosureQueue *q, RtPsWorker *w, double now);
/* One that any worker has executed: its future gets the bytes.  False: it had
 * ended before. */
bool rt_queue_end(RtClosureQueue *q, int64_t id, const char *bytes, size_t n);
/* It is not with w any more. */
void rt_queue_take_from(RtPsWorker *w, int64_t id, double now);

#endif
