/*
 * sandbox_impl.h - what the files of the sandbox share
 *
 * All sandbox devices of the process are one world.  A queue is a thread; one
 * of them, or the host, has the token, and the others stand still.
 */
#ifndef TFD_RUNTIME_HAL_SANDBOX_SANDBOX_IMPL_H
#define TFD_RUNTIME_HAL_SANDBOX_SANDBOX_IMPL_H

#include <pthread.h>
#include "runtime/hal/device.h"

typedef struct Sandbox Sandbox;

/* ---- options ------------------------------------------------------------ */

typedef struct SandboxOptions {
    uint64_t seed;       /* 0: the laziest order */
    bool replaces_cpu;   /* cpu:0 is one of these devices, too */
    bool is_repeatable;  /* the same calls of the host, whatever the time */
    bool has_one_queue;  /* no engines for copies and collectives */
    bool has_no_peers;   /* no device reaches another one's memory */
    bool trace;          /* every turn, on standard error */
    double lost;         /* the operation that loses its device; 0: none */
    bool is_engine;      /* queues run at the same time, in no order */
    bool is_timed;       /* clocks: time.c */
    bool has_no_overlap; /* then: a program waits where it starts one */
    double link_bytes;   /* then: that collectives move in a second */
    double link_seconds; /* and how long one takes besides */
} SandboxOptions;

/* From TFD_SANDBOX. */
Status rt_sandbox_options(SandboxOptions *out) MUST_USE;

/* ---- memory ------------------------------------------------------------- */

/* Which devices' memory the code that has the token may touch. */
typedef enum View { VIEW_NONE, VIEW_OWN, VIEW_ALL } View;

typedef struct Allocation {
    RtMemory memory; /* with .host: of the host, always accessible */
    size_t mapped;   /* bytes */
    struct Allocation *next;
} Allocation;

/* Inaccessible until a view opens it, unless it is of the host; the pages
 * before begin stay so. */
Status rt_sandbox_map(Sandbox *s, size_t bytes, size_t begin, bool of_host,
                      const RtMemory **out) MUST_USE;
void rt_sandbox_unmap(Sandbox *s);
/* n bytes at p, which a copy or fill is about to touch; it has to be memory of
 * s, or, if s is NULL, of any sandbox device. */
void rt_sandbox_check_range(const Sandbox *s, const char *what, RtDevicePtr p,
                            size_t n);
/* Opens and closes all memory so that a queue of s has this view; s may be NULL
 * for VIEW_NONE. */
void rt_sandbox_apply_view(const Sandbox *s, View view);
/* Explains faults on closed memory, and then lets them happen. */
void rt_sandbox_explain_faults(void);

/* ---- operations --------------------------------------------------------- */

typedef enum OpKind {
    DO_COPY_IN,
    DO_COPY_OUT,
    DO_COPY,
    DO_COPY_ROWS,
    DO_FILL,
    DO_KERNEL,
    DO_PROGRAM,
    DO_RUN,
    DO_CALL_HOST,
    DO_WAIT_EVENT
} OpKind;

typedef struct Op {
    OpKind kind;
    RtDevicePtr to, from;
    RtRowsCopy rows;
    void *host_to;
    const void *host_from;
    size_t n;
    int byte;
    uint64_t hash; /* of what it points to, when it was enqueued */
    const RtKernelLaunch *kernel;
    RtProgramLaunch *program;
    RtDeviceTask *task;
    void (*call)(void *data);
    void *data;
    RtEvent event;
    double ready; /* when it was enqueued, by the clock of who did */
} Op;

enum { NUM_TIMES = 1024 }; /* that are remembered */

/* ---- queues ------------------------------------------------------------- */

typedef enum QueueState {
    STATE_BETWEEN,    /* operations: the next one may be enqueued or not */
    STATE_WITHIN,     /* an operation, which can go on */
    STATE_WAITS_WORD, /* within one, until the word changes */
    STATE_WAITS_EVENT /* within one, until the event has happened */
} QueueState;

typedef struct Queue {
    RtQueue queue; /* first */
    Sandbox *sandbox;
    RtQueueKind kind;
    pthread_t thread;
    bool has_thread, is_closing;
    pthread_cond_t turn;
    Op *ops; /* a ring: number i is at i modulo capacity, a power of two */
    uint64_t capacity, enqueued, completed;
    QueueState state;
    View view;
    RtWaitWord *word;
    uint32_t old;
    bool has_waited; /* for the word or event, as long as a wait may */
    RtEvent event;
    uint64_t priority;     /* larger: first */
    const Op *op;          /* that it executes */
    const TfdHooks *hooks; /* the run's, while a program runs */
    /* time.c: seconds */
    double now, began, computed, transferred, waited;
    double ends[NUM_TIMES]; /* of the last operations */
} Queue;

struct Sandbox {
    RtDevice device; /* first */
    Sandbox *next;
    const RtDeviceCode *code;
    Allocation *allocations;
    bool is_open;        /* its memory */
    bool reaches_others; /* the memory of other devices, in kernels */
    Queue queues[NUM_QUEUES];
};

typedef struct World {
    pthread_mutex_t lock;
    pthread_cond_t host; /* the token is back; engine: an operation has ended */
    pthread_mutex_t host_lock; /* one thread of the host at a time */
    Queue *holder;             /* of the token; NULL: the host */
    Sandbox *first;            /* in the order in which they were opened */
    SandboxOptions options;
    uint64_t random;
    uint64_t turns;
    double now;              /* time.c: the host's clock */
    double ready[NUM_TIMES]; /* when all devices have enqueued a collective */
    uint64_t last_ready;     /* the number behind the last of them */
    atomic_ullong executed;  /* operations of all devices */
} World;

extern World rt_sandbox_world;
/* The queue whose thread this is; NULL: the host's. */
extern _Thread_local Queue *rt_sandbox_current;

const char *rt_sandbox_queue_name(RtQueueKind kind);

/* ---- the order ---------------------------------------------------------- */

/* 0 .. n - 1, by the seed; by whoever has the token. */
uint64_t rt_sandbox_random(uint64_t n);
/* A device thread: others may have a turn here, one time in odds. */
void rt_sandbox_yield(Queue *q, uint64_t odds);
uint32_t rt_sandbox_wait_word(RtDevice *d, RtWaitWord *word, uint32_t old);
bool rt_sandbox_wait(RtEvent e);
/* Adds an operation; the thread may not be q's own. */
void rt_sandbox_enqueue(Queue *q, const Op *op);
/* The host: until nothing is left on the queues of s. */
void rt_sandbox_drain(Sandbox *s);
/* Takes a device that has nothing to do out of the world. */
void rt_sandbox_leave(Sandbox *s);
Status rt_sandbox_start(Queue *q) MUST_USE;
void rt_sandbox_join(Queue *q);
/* Sets the view of the thread that has the token. */
void rt_sandbox_see(Queue *q, View view);

/* ---- clocks (time.c) ----------------------------------------------------- */

/* The thread of q executes a program's code, and no longer. */
void rt_sandbox_clock_run(Queue *q);
void rt_sandbox_clock_stop(Queue *q);
/* op will be the next one of q. */
void rt_sandbox_clock_enqueue(Queue *q, Op *op);
void rt_sandbox_clock_begin(Queue *q, const Op *op);
void rt_sandbox_clock_end(Queue *q, const Op *op);
/* The current thread knows that e has happened. */
void rt_sandbox_clock_waited(RtEvent e);
void rt_sandbox_clock_report(const Sandbox *s);

/* ---- execution ---------------------------------------------------------- */

/* What op points to and its queue must find unchanged. */
uint64_t rt_sandbox_hash(const Op *op);
void rt_sandbox_execute(Queue *q, const Op *op);
const char *rt_sandbox_op_name(OpKind kind);
extern const RtProgramOps rt_sandbox_program_ops;

/* "sandbox: ...", and the end of the process. */
_Noreturn void rt_sandbox_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
