/*
 * dispatcher_impl.h - shared by the files of the coordinator's thread
 *
 *   dispatcher.c           the thread, and what main calls
 *   dispatcher_messages.c  what the thread sends and receives
 *   dispatcher_status.c    how the job is
 *
 * Whoever calls these has the lock.
 */
#ifndef TFD_RUNTIME_PS_DISPATCHER_IMPL_H
#define TFD_RUNTIME_PS_DISPATCHER_IMPL_H

#include <pthread.h>
#include "runtime/hal/wait.h"
#include "runtime/ps/dispatcher.h"
#include "runtime/ps/input/deals.h"
#include "runtime/ps/input/states.h"

typedef struct RtDispatcherServer {
    bool is_known;
    uint64_t incarnation;
    int64_t pid;
    Str host, address;
    RtPsRoute route;
    double heard;
    RtPsLoad load;
} RtDispatcherServer;

/* What main may wait for. */
typedef bool RtDispatcherCondition(RtDispatcher *d, const void *data);

/* Closures of which all servers commit one attempt, at once. */
typedef struct RtDispatcherBatch {
    int64_t number; /* of the last one */
    bool is_open;   /* not all servers have committed it */
    bool is_round;  /* it ends a round */
    double said;
    VEC(int64_t) ids;
    VEC(int64_t) attempts;
    bool *committed; /* by each server */
} RtDispatcherBatch;

struct RtDispatcher {
    Arena *arena;
    RtPsNet *net;
    RtDispatcherConfig config;
    RtPsListener listener;
    uint64_t job; /* its number */
    double silence;
    int bell; /* an event descriptor: main has done something */
    pthread_t thread;
    bool has_thread;
    RtArchive out;        /* of the thread */
    RtWaitWord news;      /* changes with what main waits for */
    pthread_mutex_t lock; /* of all below */
    bool closing;
    int num_servers; /* that have joined */
    RtDispatcherServer *servers;
    RtPsRoute evaluator; /* that has joined, if one has */
    RtClosureQueue queue;
    bool has_params, was_welcome; /* all were, since */
    Str params;                   /* for WELCOME */
    bool has_begun;     /* main has, and workers may have their states */
    double begun;       /* when */
    RtPsDeals deals;    /* of files of datasets, to workers */
    RtPsStates states;  /* of workers, as they were saved last */
    int64_t saving;     /* the number of what is saved last */
    bool is_saving;     /* workers are asked for it, */
    double saving_said; /* lately then */
    RtDispatcherBatch batch;
    VEC(int64_t) decided; /* for the next one */
    VEC(int64_t) round;   /* of the round that is open, those that count */
    int turn;             /* the worker that got the last closure */
    RtDispatcherCondition *awaited; /* by main; NULL: it does not wait */
    const void *awaited_data;
    bool has_lost_server;
    Status failure; /* of a closure or a server: main gets it */
};

/* A closure has ended: main is woken if it waits for that. */
void rt_dispatcher_wake(RtDispatcher *d);
/* A message has come. */
void rt_dispatcher_receive(RtDispatcher *d, const RtPsRoute *from, zmq_msg_t *m,
                           double now);
/* The job has failed: closures that wait are dropped, and main gets st. */
void rt_dispatcher_fail(RtDispatcher *d, Status st);
/* Those that have waited, once all servers and the params are there. */
void rt_dispatcher_welcome(RtDispatcher *d);
/* Closures that wait, one to each worker in turn, until none waits or all
 * workers have enough. */
void rt_dispatcher_feed(RtDispatcher *d, double now);
/* The job fails if no worker has elements for the closure that is next. */
void rt_dispatcher_look_for_elements(RtDispatcher *d, double now);
/* Workers of whom main has cancelled closures are told so. */
void rt_dispatcher_send_cancels(RtDispatcher *d);
/* Servers commit what was decided, once they have committed what was before. */
void rt_dispatcher_send_commits(RtDispatcher *d, double now);
/* While a checkpoint is made: workers that have not told their state. */
void rt_dispatcher_ask_states(RtDispatcher *d, double now);
/* Whether the state of a worker is still to come. */
bool rt_dispatcher_lacks_state(RtDispatcher *d, int worker);

/* Its tasks are in a. */
RtPsStatus rt_dispatcher_status(const RtDispatcher *d, Arena *a, double now);

#endif
