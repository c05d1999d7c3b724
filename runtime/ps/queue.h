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
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/staleness/rounds.h"
#include "runtime/ps/staleness/staleness.h"
#include "runtime/ps/wire/wire.h"

enum {
    RT_PS_IN_FLIGHT = 16,  /* closures with one worker, at most */
    RT_PS_MOST_CRASHES = 3 /* of workers that have the same closure */
};

/* What a closure will give; kept while main refers to it. */
typedef struct RtFuture {
    int64_t id;
    bool is_there;
    bool is_cancelled;     /* it is there without bytes */
    int refs;              /* of main */
    Str bytes;             /* as the worker sent it */
    struct RtFuture *next; /* of those that are free */
} RtFuture;

typedef enum RtClosureState {
    RT_CLOSURE_ended,
    RT_CLOSURE_waits,
    RT_CLOSURE_sent,
    RT_CLOSURE_decided, /* servers are told which attempt they commit */
    RT_CLOSURE_mains    /* main executes it itself */
} RtClosureState;

/* An element of a dataset that each worker has of its own, which a closure
 * takes: the how manieth of a pass of which iterator. */
typedef struct RtFeed {
    int iter;
    uint64_t pass;
    int64_t index;
} RtFeed;

typedef VEC(RtFeed) RtFeeds;

typedef struct RtClosure {
    RtClosureState state;
    int64_t id;
    int worker;      /* that has it last */
    RtFeeds feeds;   /* its elements, */
    int owner;       /* of this worker's datasets; -1: they have no index yet */
    int attempts;    /* how many workers have got it */
    int64_t round;   /* that it is of; 0: none yet */
    bool ends_round; /* main has waited after it was scheduled */
    bool is_late;    /* its updates do not count */
    int crashes;     /* of workers that had it: from the first on it is executed
                        alone, so that it is known which closure it is */
    int64_t launch;
    Str arguments;
    RtFuture *future; /* NULL: it has no results */
} RtClosure;

typedef struct RtSent {
    int64_t number, id, attempt;
    double at;
} RtSent;

/* How many elements of an iterator's pass closures have got. */
typedef struct RtTaken {
    uint64_t pass;
    int64_t count;
    bool has_ended; /* the worker has no more of it */
} RtTaken;

typedef struct RtPsWorker {
    bool is_known, is_lost; /* it has joined; it has been silent since */
    uint64_t incarnation;
    int64_t pid;
    Str host;
    RtPsRoute route;
    double heard;
    int64_t sent, received; /* the last number: of ours, of its */
    int64_t cancels; /* closures up to this number, if it has not begun them */
    int num_in_flight;
    bool is_filled; /* it had as many as it may have, and has over half of them:
                       it gets the next ones together */
    RtSent in_flight[RT_PS_IN_FLIGHT]; /* by number */
    /* Closures that a process had which this one replaces: it gets them first,
     * with the same elements. */
    int num_returned;
    int64_t returned[RT_PS_IN_FLIGHT];
    VEC(RtTaken) taken; /* of its datasets, by iterator; by all that were it */
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
    int num_returned; /* of all workers */
    int64_t num_open; /* that have not ended */
    VEC(RtPsWorker) workers;
    RtFuture *free;
    RtPsStaleness staleness;
    RtPsRounds rounds;
    int64_t last;    /* the closure that was scheduled last; 0: none */
    bool main_is_on; /* executes something itself */
    bool main_waits; /* to execute something itself: no other one begins */
    int64_t num_put_back, num_cancelled;
    int64_t deadly; /* that has ended RT_PS_MOST_CRASHES workers; 0: none */
} RtClosureQueue;

void rt_queue_init(RtClosureQueue *q, Arena *a);

/* ---- main's side --------------------------------------------------------- */

bool rt_queue_is_full(const RtClosureQueue *q);
/* Main waits or asks for closures: a round ends with the last one. */
void rt_queue_end_round(RtClosureQueue *q);
/* Opens the next round, if there is one and none is open. */
void rt_queue_open_round(RtClosureQueue *q);
/* Whether main may execute something itself now. */
bool rt_queue_admits_main(const RtClosureQueue *q);
/* A closure to be executed, or by main itself (its arguments are none). */
RtClosure *rt_queue_add(RtClosureQueue *q, int64_t launch,
                        const RtArchive *arguments, bool has_results);
/* A closure that was added takes an element of a pass, too. */
void rt_queue_add_feed(RtClosureQueue *q, RtClosure *c, int iter,
                       uint64_t pass);
RtClosure *rt_queue_add_mains(RtClosureQueue *q);
/* Main refers to a future no more, once. */
void rt_queue_release(RtClosureQueue *q, RtFuture *f);
/* Drops all that wait. */
void rt_queue_drop(RtClosureQueue *q);
/* Drops those that no worker has had: one that has been with a worker that was
 * lost may have been applied by some servers, and has to be by all. */
void rt_queue_cancel(RtClosureQueue *q);

/* ---- workers' side ------------------------------------------------------- */

/* NULL: it has ended. */
RtClosure *rt_queue_closure(RtClosureQueue *q, int64_t id);
/* NULL: no such worker has joined. */
RtPsWorker *rt_queue_worker(RtClosureQueue *q, uint32_t index);
/* A worker, or its replacement, has joined: what its predecessor had goes back,
 * but closures with elements of its datasets go to the replacement.  NULL: it
 * is older than what is known and lives. */
RtPsWorker *rt_queue_join(RtClosureQueue *q, const RtPsHello *h, double now);
/* Puts back what a worker has. */
void rt_queue_lose(RtClosureQueue *q, RtPsWorker *w);
/* The closure that w gets next, in flight then with that number; NULL: none
 * waits, or w has enough. */
RtClosure *rt_queue_send(RtClosureQueue *q, RtPsWorker *w, double now);
/* One that any worker has executed: its future gets the bytes.  False: it had
 * ended before. */
bool rt_queue_end(RtClosureQueue *q, int64_t id, const char *bytes, size_t n);
/* The attempt of a closure that is to be committed, and what it gives; false:
 * another one has begun since, or was decided for. */
bool rt_queue_decide(RtClosureQueue *q, int64_t id, int64_t attempt,
                     const char *bytes, size_t n);
/* One that the only worker which ever had it has not begun; false: there was
 * another one, or it has ended. */
bool rt_queue_end_cancelled(RtClosureQueue *q, int64_t id);
/* How many elements of its datasets each worker has used: written, or read. */
void rt_queue_taken_archive(RtClosureQueue *q, RtArchive *ar);
/* A closure that w has got, which has no more elements for it, waits again:
 * others have them. */
void rt_queue_lacks_elements(RtClosureQueue *q, RtPsWorker *w, int64_t id);
/* The first closure that waits, if no worker that lives has elements for it;
 * NULL: there is none such, or not so many have joined. */
const RtClosure *rt_queue_without_elements(RtClosureQueue *q, int num_workers);
/* It is not with w any more. */
void rt_queue_take_from(RtPsWorker *w, int64_t id, double now);

#endif
