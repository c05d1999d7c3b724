/*
 * cuda_impl.h - what the files of the CUDA devices share
 *
 * From the bottom up: the driver (driver.c), queues (queue.c), the host's
 * pinned memory (staging.c), kernels (code.c), recordings of programs
 * (trace.c), programs (program.c), and the device (cuda.c).
 */
#ifndef TFD_RUNTIME_HAL_CUDA_CUDA_IMPL_H
#define TFD_RUNTIME_HAL_CUDA_CUDA_IMPL_H

#include <pthread.h>
#include "runtime/hal/cuda/api.h"
#include "runtime/hal/device.h"

/* ---- the driver ---------------------------------------------------------- */

typedef struct CudaDriver {
#define CUDA_CALL(name, params) CUresult(*name) params;
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
    int version; /* 12020: CUDA 12.2 */
} CudaDriver;

/* Opens and initialises it, once a process; it stays open.  The failure begins
 * with what wanted it, "cuda:0".  Any thread. */
Status rt_cuda_driver_open(const char *who, const CudaDriver **out) MUST_USE;

/* "cuMemAlloc_v2 says CUDA_ERROR_UNKNOWN (unknown error)". */
void rt_cuda_explain(const CudaDriver *cu, const char *call, CUresult r,
                     char *text, size_t n);
Status rt_cuda_failure(const CudaDriver *cu, const char *who, const char *call,
                       CUresult r) MUST_USE;

#define TRY_CUDA(cu, who, name, ...)                                           \
    do {                                                                       \
        CUresult try_result_ = (cu)->name(__VA_ARGS__);                        \
        if (try_result_)                                                       \
            return rt_cuda_failure(cu, who, #name, try_result_);               \
    } while (0)

/* ---- devices ------------------------------------------------------------- */

enum {
    CUDA_EVENTS = 256,        /* of a queue, that are not taken to be later */
    CUDA_STAGED = 128,        /* copies that may be under way */
    CUDA_PIECE = 1 << 20,     /* bytes that one of them takes */
    CUDA_STAGING = 8 << 20,   /* bytes of all of them */
    CUDA_WORD_BYTES = 64,     /* for a word that a program loads */
    CUDA_SEGMENTS = 256,      /* of the recording of a launch */
    CUDA_NODES = 1 << 15,     /* of their graphs */
    CUDA_TIMES = 256,         /* parts of a program that are timed at once */
    CUDA_PARAM_BYTES = 0x1100 /* of a kernel, before PTX 8.1 */
};

typedef struct CudaQueue {
    RtQueue queue; /* first */
    CUstream stream;
    CUevent events[CUDA_EVENTS]; /* value v is events[v % CUDA_EVENTS] */
    _Atomic uint64_t recorded, completed; /* whoever stages looks at them */
    bool has_more; /* was enqueued than the last event marks */
} CudaQueue;

/* Pinned memory that pageable memory is copied through, as a ring. */
typedef struct CudaStaged {
    size_t begin, end; /* in the ring */
    CudaQueue *queue;  /* when its mark has happened, */
    uint64_t mark;     /* the driver has copied it (0: it has); */
    void *to;          /* then the host copies it there; NULL: nowhere */
    size_t bytes;
} CudaStaged;

typedef struct CudaStaging {
    pthread_mutex_t lock; /* main's copies of batches, and its program's */
    char *ring;
    size_t head;
    CudaStaged staged[CUDA_STAGED]; /* number i is at i % CUDA_STAGED */
    uint64_t first, next;           /* numbers of those in use */
    int num_out;                    /* of them, that the host has to copy */
    CUevent done;                   /* after pieces that no mark follows yet */
} CudaStaging;

typedef struct CudaFunction {
    CUfunction function; /* NULL: there is none */
    unsigned threads;    /* of a block */
    unsigned blocks;     /* that the device executes at once */
    int64_t most;        /* blocks that have work; 0: as many as items */
} CudaFunction;

/* In two launches, the second of which adds what the first has left in scratch
 * memory, if the text says so. */
typedef struct CudaKernel {
    CUmodule module;
    size_t param_bytes;
    CudaFunction first, rest;
    size_t scratch; /* bytes */
} CudaKernel;

/* The thread that executes programs, which enqueue their work.  While one does,
 * its queue is its own; end is the value of the mark that it will make. */
typedef struct CudaPrograms {
    pthread_t thread;
    bool has_thread, is_closing;
    bool is_running; /* as far as the host has seen */
    RtProgramLaunch *launch;
    struct CudaTrace *trace; /* of the launch; NULL: it is not recorded */
    uint64_t end;
    RtWaitWord launched, ended; /* so many */
    CUevent done;               /* for waits of the program */
    char *pinned; /* a word that it has loaded, and RtDeferrals.bytes */
    char *piece;  /* CUDA_PIECE, pinned, of what it reads; NULL until it does */
} CudaPrograms;

/* ---- recordings of programs (trace.c) ------------------------------------ */

/* Where the host has a part in a program. */
typedef enum CudaBreakKind {
    BREAK_END,  /* of the program */
    BREAK_CALL, /* it calls a function */
    BREAK_LOAD, /* it sees a value, and what was deferred before */
    BREAK_LOOK, /* it has to look at what was deferred */
    BREAK_LIMIT /* the rest is not recorded */
} CudaBreakKind;

typedef struct CudaBreak {
    CudaBreakKind kind;
    size_t bytes;        /* LOAD: of the value */
    RtProgramCall *call; /* CALL, of these: */
    void *context;
    const void *op;
} CudaBreak;

typedef struct CudaItem {
    RtDeferred item;
    size_t bytes;
} CudaItem;

typedef struct CudaSegment {
    CUgraphExec graph; /* NULL: nothing is enqueued */
    CudaBreak end;
    int64_t value;             /* loaded before, if its parent loads one */
    struct CudaSegment *first; /* child: what may follow */
    struct CudaSegment *next;  /* sibling */
    int num_items;
    CudaItem *items; /* deferred in it */
    int32_t *at;     /* TfdCall.at of each replica at its end */
} CudaSegment;

/* Of a launch with some sizes of batches. */
typedef struct CudaTrace {
    const TfdCall *call;
    int sizes;
    bool was_executed; /* once, at least */
    bool is_too_large;
    bool has_waits; /* for the GPU, in the midst of it */
    int num_segments, num_nodes;
    CudaSegment *root; /* NULL: not recorded yet */
    struct CudaTrace *next;
} CudaTrace;

typedef enum CudaMode {
    CUDA_DIRECT,  /* a program's work goes to the stream */
    CUDA_RECORDS, /* which captures it */
    CUDA_SKIPS    /* its work has been launched already */
} CudaMode;

/* The program that runs. */
typedef struct CudaRecorder {
    CudaMode mode;
    bool is_capturing;
    CudaTrace *trace;
    CudaSegment *last;         /* that was launched; NULL: none */
    int64_t value;             /* that its break loaded, else 0 */
    int first_item, num_nodes; /* of the capture */
    CudaSegment
        *path[CUDA_SEGMENTS]; /* launched before the program is called */
    int len, skipped;         /* of path */
    size_t num, used; /* what the skipped part has deferred: items, bytes */
} CudaRecorder;

/* Parts of a program that are timed (times.c). */
typedef struct CudaTimes {
    CUevent events[CUDA_TIMES]; /* at the begin of each; made when needed */
    uint64_t *to[CUDA_TIMES];   /* where its nanoseconds are added */
    int num;
} CudaTimes;

/* ---- a device ------------------------------------------------------------ */

/* Of the GPU, or, where memory.host is not NULL, pinned memory of the host. */
typedef struct CudaMemory {
    RtMemory memory;
    CUdeviceptr at; /* memory.address is the next whole page */
    struct CudaMemory *next;
} CudaMemory;

typedef struct Cuda {
    RtDevice device; /* first */
    const CudaDriver *cu;
    RtClock *clock;
    bool spin, on_caller;
    CUdevice number;
    CUcontext context;
    uint64_t serial; /* of the devices that were opened, from 1 */
    int num_processors;
    int most_pitch; /* of copies of rows */
    CudaQueue queues[NUM_QUEUES];
    CudaQueue marks; /* that programs make on the stream of programs */
    CudaStaging staging;
    CudaPrograms programs;
    CudaRecorder recorder;
    CudaTimes times;
    CudaTrace *traces;
    const RtDeviceCode *code;
    int num_kernels;
    CudaKernel *kernels;
    CUdeviceptr scratch; /* of kernels in two launches, one after the other */
    CudaMemory *memories;
} Cuda;

static inline Cuda *
rt_cuda_of(RtDevice *d)
{
    return (Cuda *)d;
}

/* false: r is an error, which fails the device. */
bool rt_cuda_check(Cuda *c, CUresult r, const char *call);
#define CALL_CUDA(c, name, ...)                                                \
    rt_cuda_check(c, (c)->cu->name(__VA_ARGS__), #name)

/* Makes this thread's calls be about the device.  false: it has failed. */
bool rt_cuda_enter(Cuda *c);

/* Whether the event has happened, after so many seconds at most.  Also when the
 * device has failed. */
bool rt_cuda_poll(Cuda *c, CUevent e, double seconds);

/* ---- copies -------------------------------------------------------------- */

Status rt_cuda_staging_open(Cuda *c) MUST_USE;
void rt_cuda_staging_close(Cuda *c);
void rt_cuda_stage_in(Cuda *c, CudaQueue *q, CUdeviceptr to, const char *from,
                      size_t n);
void rt_cuda_stage_out(Cuda *c, CudaQueue *q, char *to, CUdeviceptr from,
                       size_t n);
/* The host's part of all copies to it whose marks are known to have happened.
 */
void rt_cuda_staging_flush(Cuda *c);
/* rt_cuda_has_happened, with the host's part of the copies before the mark. */
bool rt_cuda_poll_mark(Cuda *c, CudaQueue *q, uint64_t value);

/* ---- queues -------------------------------------------------------------- */

Status rt_cuda_queue_open(Cuda *c, RtQueueKind kind) MUST_USE;
/* Waits for all of it, also on a device that has failed, unless the driver says
 * that it cannot. */
void rt_cuda_queue_drain(Cuda *c, CudaQueue *q);
void rt_cuda_queue_close(Cuda *c, CudaQueue *q);
/* c->marks; it has the stream of programs. */
Status rt_cuda_marks_open(Cuda *c) MUST_USE;
void rt_cuda_marks_close(Cuda *c);
uint64_t rt_cuda_mark(Cuda *c, CudaQueue *q);
/* other may be of another device, and one of its programs may run. */
void rt_cuda_wait_mark(Cuda *c, CudaQueue *q, CudaQueue *other, uint64_t value);
/* Whether it has happened, after a tenth of a second at most. */
bool rt_cuda_has_happened(Cuda *c, CudaQueue *q, uint64_t value);

/* ---- memory -------------------------------------------------------------- */

Status rt_cuda_room(RtDevice *d, size_t *available, size_t *total) MUST_USE;
Status rt_cuda_alloc(RtDevice *d, size_t bytes, size_t begin, bool dense,
                     const RtMemory **out) MUST_USE;
Status rt_cuda_alloc_host(RtDevice *d, size_t bytes,
                          const RtMemory **out) MUST_USE;
void rt_cuda_free_memories(Cuda *c);
Status rt_cuda_connect(RtDevice *d, RtDevice *other, bool *reaches) MUST_USE;
/* Where n bytes from p are. */
CUdeviceptr rt_cuda_address(RtDevicePtr p, size_t n);
void rt_cuda_copy(Cuda *c, CudaQueue *q, RtDevicePtr to, RtDevicePtr from,
                  size_t n);
void rt_cuda_copy_rows(Cuda *c, CudaQueue *q, const RtRowsCopy *rows);

/* ---- kernels ------------------------------------------------------------- */

Status rt_cuda_load(RtDevice *d, const RtDeviceCode *code) MUST_USE;
void rt_cuda_unload(Cuda *c);
void rt_cuda_launch(Cuda *c, CudaQueue *q, const RtKernelLaunch *launch);

/* ---- recordings of programs ---------------------------------------------- */

/* Of a launch; NULL: none, or the device has failed.  The rest is for the
 * thread that executes programs, for the launch that it executes. */
CudaTrace *rt_cuda_trace_find(Cuda *c, const RtProgramLaunch *l);
/* Whether it is recorded, and waits for other devices at most, not for its own.
 */
bool rt_cuda_trace_is_ahead(const CudaTrace *t);
/* Whether all of the program is one graph, */
bool rt_cuda_trace_is_one(const CudaTrace *t);
/* which this launches, on any thread. */
void rt_cuda_trace_launch(Cuda *c, const CudaTrace *t);
/* Executes the program, by its recording if there is one; its status. */
int32_t rt_cuda_trace_run(Cuda *c, CudaTrace *t);
void rt_cuda_traces_free(Cuda *c);

/* Looks at what was deferred, of which all copies have executed; not on a
 * device that has failed, where nothing is what it should be. */
int32_t rt_cuda_look(RtDevice *d);
/* Waits for the work of the program so far; then looks. */
void rt_cuda_wait_for_work(Cuda *c);
int32_t rt_cuda_wait_and_look(Cuda *c);

/* The program is about to enqueue an operation.  false: it must not. */
bool rt_cuda_may_enqueue(Cuda *c);
/* The program is at a break: what it has enqueued is launched, if it was
 * captured.  Then the host does its part, and the next one begins. */
void rt_cuda_end_segment(Cuda *c, const CudaBreak *end);
void rt_cuda_next_segment(Cuda *c, int64_t value);
/* Whether what the program asks for has been done; then a break gives the value
 * that was loaded, and items that are deferred are counted. */
bool rt_cuda_skips(const Cuda *c);
int64_t rt_cuda_skip_break(Cuda *c);
bool rt_cuda_skip_fits(const Cuda *c, size_t bytes);
void rt_cuda_skip_item(Cuda *c, size_t bytes);

/* ---- times of a program's parts ------------------------------------------ */

/* RtProgramOps.begin_time and read_times. */
void rt_cuda_begin_time(RtDevice *d, uint64_t *nanoseconds);
void rt_cuda_read_times(RtDevice *d);
/* The program has ended, and its last part. */
void rt_cuda_end_times(Cuda *c);
void rt_cuda_times_close(Cuda *c);

/* ---- programs ------------------------------------------------------------ */

Status rt_cuda_programs_open(Cuda *c) MUST_USE;
Status rt_cuda_programs_load(Cuda *c) MUST_USE;
/* When none runs. */
void rt_cuda_programs_close(Cuda *c);
void rt_cuda_launch_program(RtQueue *q, RtProgramLaunch *launch);
/* The host: after the program, if one runs, has enqueued all its work. */
void rt_cuda_join_program(Cuda *c);
/* The same, after a tenth of a second at most.  false: it still runs. */
bool rt_cuda_wait_program(Cuda *c);
extern const RtProgramOps rt_cuda_program_ops;

#endif
