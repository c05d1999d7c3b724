/*
 * device.h - devices: their memory, their queues, and the plan's code on them
 *
 * Host code never follows an address of a device's memory: it has a handle and
 * an offset (RtDevicePtr), and every access is an operation enqueued on one of
 * the device's queues.  Memory that is the host's says so, and then host code
 * may use it in place.
 *
 * A queue executes its operations in order, one after another, and returns at
 * once to whoever enqueues.  Queues of one device run independently: an event
 * marks a point of one, for which another queue or the host can wait.
 * Enqueuing allocates nothing; where a queue is full, it waits for room.  What
 * operations point to in the host's memory must not change, and must last,
 * until they have executed.
 *
 * One thread at a time enqueues on a device: main's, but a running program's
 * own thread enqueues on the queue of collectives.
 *
 * A kind of device is a folder with a table of functions (docs/hal.md).
 */
#ifndef TFD_RUNTIME_HAL_DEVICE_H
#define TFD_RUNTIME_HAL_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "ir/analysis/cost.h"
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/plan/abi.h"
#include "ir/plan/plan.h"
#include "runtime/hal/deferred.h"
#include "runtime/hal/segment.h"
#include "runtime/hal/wait.h"

typedef struct RtDevice RtDevice;

/* ---- memory ------------------------------------------------------------ */

/* An allocation: page-aligned, zeros; it lasts as long as the device. */
typedef struct RtMemory {
    RtDevice *device;
    size_t bytes;
    uintptr_t address;        /* as the device's code knows it */
    char *host;               /* as host code does; NULL: it has no access */
    size_t begin;             /* there may be nothing before: nobody uses it */
    int number;               /* among those of the device, from 0 */
    const RtSegment *segment; /* that other processes can map; NULL: none */
} RtMemory;

typedef struct RtDevicePtr {
    const RtMemory *memory;
    size_t offset;
} RtDevicePtr;

static inline RtDevicePtr
rt_ptr_add(RtDevicePtr p, size_t bytes)
{
    return (RtDevicePtr){p.memory, p.offset + bytes};
}

/* For arguments of the device's code; host code must not follow it. */
static inline char *
rt_ptr_address(RtDevicePtr p)
{
    return (char *)(p.memory->address + p.offset);
}

/* NULL: host code has no access. */
static inline char *
rt_ptr_host(RtDevicePtr p)
{
    return p.memory->host ? p.memory->host + p.offset : NULL;
}

/* n bytes from at. */
typedef struct RtDevicePart {
    RtDevicePtr at;
    size_t n;
} RtDevicePart;

/* ---- queues and events -------------------------------------------------- */

typedef enum RtQueueKind {
    QUEUE_COMPUTE, /* programs and kernels */
    QUEUE_COPY,    /* copies to the device beside them */
    QUEUE_COLL,    /* collectives beside them */
    NUM_QUEUES
} RtQueueKind;

/* Rows of equal length, so many bytes from one to the next. */
typedef struct RtRowsCopy {
    RtDevicePtr to, from;
    size_t to_pitch, from_pitch;
    size_t row_bytes, num_rows;
} RtRowsCopy;

/* A device with fewer engines has one queue for several kinds. */
typedef struct RtQueue {
    RtDevice *device;
} RtQueue;

/* What was enqueued until a point has executed.  All zeros: has happened. */
typedef struct RtEvent {
    RtQueue *queue;
    uint64_t value; /* grows along the queue */
} RtEvent;

/* Kernel number `kernel` of the plan on items 0 .. count of its grid, in ranges
 * of at least grain (0: in one); ptrs and dims as for TfdKernel, ptrs of the
 * device. */
typedef struct RtKernelLaunch {
    int kernel;
    void *const *ptrs;
    const int64_t *dims;
    int64_t count, grain;
    int num_ptrs; /* devices with code of their own copy them; else unused */
} RtKernelLaunch;

/* Device program number `program` of the plan.  base, shared and the entries of
 * in and out are addresses of the device; so is dims unless programs enqueue
 * their work. */
typedef struct RtProgramLaunch {
    int program;
    TfdCall *call; /* of its first replica on the device */
    /* Not 0: with this number launches of the call read equal sizes of batches:
     * what it enqueues depends on nothing but values that it loads. */
    int sizes;
    int32_t status; /* what it returned, when it has */
} RtProgramLaunch;

/* A part of a program that the host has whenever the program is executed.  0,
 * or a status that ends the program. */
typedef int32_t RtProgramCall(void *context, const void *op);

/* Code that reads and writes device memory beside the plan's own; only devices
 * that execute host code. */
typedef void RtDeviceTask(void *data);

/* ---- devices ------------------------------------------------------------ */

/* A plan's code; kernels and programs are known by their numbers. */
typedef struct RtDeviceCode {
    int num_kernels, num_programs;
    TfdKernel *const *kernels; /* the host's, as programs are */
    TfdFunction *const *programs;
    bool enqueues; /* programs are q_NAME: the host's code, not the device's */
    bool is_read_along; /* hooks read what each launch has computed: programs
                           must not be recorded, to be launched as a whole */
    const PlanObject *kernel_texts; /* PTX; NULL: the devices of this kind have
                                       no code of their own */
    const double *seconds; /* that each program takes on caps.machine; NULL
                              where caps.machine is */
} RtDeviceCode;

/* What a program may ask of its device, on the program's own thread, while it
 * runs. */
typedef struct RtProgramOps {
    /* Runs kernel on 0 .. count, in ranges of at least grain, on the threads
     * of the device. */
    void (*parallel)(RtDevice *d, TfdKernel *kernel, void *const *ptrs,
                     const int64_t *dims, int64_t count, int64_t grain);
    /* Copies at this point of the program. */
    void (*copy_in)(RtDevice *d, RtDevicePtr to, const void *from, size_t n);
    void (*copy_out)(RtDevice *d, void *to, RtDevicePtr from, size_t n);
    /* Executes task at this point of the program. */
    void (*run)(RtDevice *d, RtDeviceTask *task, void *data);
    /* rt_wait_word_wait, while other devices go on. */
    uint32_t (*wait_word)(RtDevice *d, RtWaitWord *word, uint32_t old);

    /* The rest is for programs that enqueue their work (q_NAME), on the queue
     * that executes them. The arguments of launch, the word of store and, for
     * them, what copy_in copies are copied; load and copy_out have executed
     * when they return, which a program that is to be recorded cannot ask for
     * (RtDeviceCode.is_read_along).  copy: both addresses are of the device;
     * store and load: `at` is, and n is at most 8. */
    void (*launch)(RtDevice *d, const RtKernelLaunch *launch);
    void (*copy)(RtDevice *d, void *to, const void *from, size_t n);
    void (*store)(RtDevice *d, void *at, const void *word, size_t n);
    int32_t (*load)(RtDevice *d, void *word, const void *at, size_t n);
    /* Returns call(context, op), which may wait.  What a program does without
     * it may be recorded, and is not done again.  NULL: nothing is recorded. */
    int32_t (*call)(RtDevice *d, RtProgramCall *call, void *context,
                    const void *op);
    /* Copies the parts at this point of the program, for item->look, which is
     * called, in order, by load, by a defer that finds no room, or when the
     * host asks with `look`.  Like load it returns the status of a look that
     * ends the program, else 0. */
    int32_t (*defer)(RtDevice *d, const RtDeferred *item,
                     const RtDevicePart *parts, int num_parts);
    /* The host, when the program has ended: looks at what is left. */
    int32_t (*look)(RtDevice *d);

    /* The work of the program so far; what it does or enqueues from now on
     * executes after e, which may be of another device of the same kind. */
    RtEvent (*record)(RtDevice *d);
    void (*wait_event)(RtDevice *d, RtEvent e);

    /* The nanoseconds that the device takes from this point of the program to
     * the next call, or the program's end, are added to *nanoseconds: at the
     * latest by read_times, which the host calls when the program has ended.
     * The program must not be recorded (RtDeviceCode.is_read_along). */
    void (*begin_time)(RtDevice *d, uint64_t *nanoseconds);
    void (*read_times)(RtDevice *d);
} RtProgramOps;

typedef struct RtDeviceOps {
    const char *kind; /* "cpu" */
    /* Waits for all that is enqueued, and frees the device's memory. */
    void (*close)(RtDevice *d);
    /* The same without freeing, also on a device that has failed; NULL where
     * only close does.  Before any of several devices is closed: their work may
     * use each other's memory. */
    void (*drain)(RtDevice *d);
    /* Once, before anything is enqueued; code must last. */
    Status (*load)(RtDevice *d, const RtDeviceCode *code);
    /* How many bytes of the device's memory are free, of how many; NULL where
     * it is the host's, or none. */
    Status (*room)(RtDevice *d, size_t *available, size_t *total);
    /* Nobody will use the bytes before begin.  dense: all others will be
     * touched; of host memory, only touched pages count. */
    Status (*alloc)(RtDevice *d, size_t bytes, size_t begin, bool dense,
                    const RtMemory **out);
    /* Memory of the host that all devices of the kind reach at its address, in
     * kernels and copies.  This, connect and copy_rows are NULL where program
     * is. */
    Status (*alloc_host)(RtDevice *d, size_t bytes, const RtMemory **out);
    /* What was allocated, by number; NULL: there are fewer.  The function is
     * NULL where caps.shares_memory is not. */
    const RtMemory *(*memory)(RtDevice *d, int number);
    /* Lets d's kernels follow addresses of other's memory, if the machine can;
     * other is of the same kind.  Before anything of d does so. */
    Status (*connect)(RtDevice *d, RtDevice *other, bool *reaches);
    /* Multiply-adds of f32, each two operations, and bytes of memory in a
     * second, at most; 0: not known.  NULL: they can be measured. */
    void (*peaks)(RtDevice *d, double *operations, double *bytes);

    void (*copy_in)(RtQueue *q, RtDevicePtr to, const void *from, size_t n);
    void (*copy_out)(RtQueue *q, void *to, RtDevicePtr from, size_t n);
    /* Between any memory of devices of the kind, reached or not; it does not
     * overlap. */
    void (*copy)(RtQueue *q, RtDevicePtr to, RtDevicePtr from, size_t n);
    /* Between memory that the device reaches. */
    void (*copy_rows)(RtQueue *q, const RtRowsCopy *rows);
    void (*fill)(RtQueue *q, RtDevicePtr to, int byte, size_t n);
    void (*launch_kernel)(RtQueue *q, const RtKernelLaunch *launch);
    void (*launch_program)(RtQueue *q, RtProgramLaunch *launch);
    /* NULL, as that of programs, where caps.runs_tasks is not.  link_bytes:
     * that the task moves from device to device, for devices that take the time
     * of a model. */
    void (*run)(RtQueue *q, RtDeviceTask *task, void *data, size_t link_bytes);
    /* Calls f on the host: it enqueues nothing and touches no device. */
    void (*call_host)(RtQueue *q, void (*f)(void *data), void *data);

    RtEvent (*record)(RtQueue *q);
    /* What is enqueued on q from now on executes after e, of the same device,
     * or, where programs and collectives have queues of their own, of another
     * one of the same kind. */
    void (*wait_event)(RtQueue *q, RtEvent e);
    /* The host: whether e has happened, after waiting a tenth of a second at
     * most.  A device may leave all work to these calls. */
    bool (*wait)(RtEvent e);

    const RtProgramOps *program; /* NULL: executes no programs */
} RtDeviceOps;

/* The properties of all devices of a kind, and their limits. */
typedef struct RtDeviceCaps {
    bool uses_host_memory;  /* counts as memory of this machine */
    bool is_host_visible;   /* RtMemory.host: copies are not needed */
    bool has_copy_engine;   /* QUEUE_COPY runs beside QUEUE_COMPUTE */
    bool has_coll_engine;   /* QUEUE_COLL, too */
    bool runs_tasks;        /* RtDeviceOps.run executes code of the host */
    bool shares_memory;     /* other processes map it, if it is opened so */
    bool enqueues_programs; /* q_NAME are launched, else p_NAME */
    bool is_repeatable;     /* what is enqueued must not depend on time */
    size_t max_arena_bytes; /* of a device */
    /* The machine whose time launches take; NULL: launches are executed. */
    const IrMachine *machine;
} RtDeviceCaps;

typedef enum RtDeviceFailure { WORKS, IS_FAILING, HAS_FAILED } RtDeviceFailure;

/* A device that fails, because it is lost or an operation is not possible, says
 * why once and stays so: it executes nothing more, and all events of it have
 * happened.  So whoever waited for an event asks for the status of its device
 * before using what should have happened. */
struct RtDevice {
    const RtDeviceOps *ops;
    const RtDeviceCaps *caps;
    const char *name; /* "cpu:0" */
    int num_threads;  /* of this process, that divide the items of kernels
                         among them; 0: it has no such */
    RtQueue *queues[NUM_QUEUES];
    RtDeferrals *deferrals; /* NULL, or set before code is loaded that enqueues;
                               lasts as long as the device */
    atomic_int failed;      /* RtDeviceFailure */
    char failure[1024];
};

/* The part of the machine that a device gets. */
typedef struct RtDeviceConfig {
    const char *name; /* lasts as long as the device */
    int index;        /* its number among those of its kind */
    int num_threads;  /* with the one that issues its work */
    bool spin;
    /* The thread that calls wait is the one; of devices that enqueue programs,
     * the one that launches them may, and this device comes last. */
    bool on_caller;
    bool shares_memory; /* with other processes (RtMemory.segment) */
    RtClock *clock;     /* seconds, for all waits */
} RtDeviceConfig;

/* The device fails, for this reason; only the first one counts.  Any thread;
 * allocates nothing. */
void rt_device_fail(RtDevice *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool rt_device_has_failed(const RtDevice *d);
/* Its failure, of kind MACHINE. */
Status rt_device_status(const RtDevice *d) MUST_USE;

/* RtProgramOps.defer and look of devices whose copy_out has executed when it
 * returns. */
int32_t rt_device_defer(RtDevice *d, const RtDeferred *item,
                        const RtDevicePart *parts, int num_parts);
int32_t rt_device_look(RtDevice *d);
/* The bytes that the parts take as copies, each aligned. */
size_t rt_parts_bytes(const RtDevicePart *parts, int num_parts);

/* Waits for as long as it takes. */
void rt_event_wait(RtEvent e);
/* Copies on the compute queue, and waits for it. */
void rt_copy_in(RtDevicePtr to, const void *from, size_t n);
void rt_copy_out(void *to, RtDevicePtr from, size_t n);

/* hal/cpu: a virtual device with memory of its own and some threads. */
extern const RtDeviceCaps rt_cpu_caps;
Status rt_cpu_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;

/* hal/null: takes time and executes nothing. */
extern const RtDeviceCaps rt_null_caps;
Status rt_null_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;

/* hal/cuda: NVIDIA's GPUs, through their driver. */
extern const RtDeviceCaps rt_cuda_caps;
Status rt_cuda_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;
/* The compute capability of a GPU, 86 for 8.6; name is for messages. */
Status rt_cuda_level(const char *name, int index, int *out) MUST_USE;
/* One line of --list-devices about a GPU, without its name; there_is none:
 * there are fewer. */
Status rt_cuda_describe(const char *name, int index, Str *out,
                        bool *there_is) MUST_USE;
/* The GPUs that this process sees. */
Status rt_cuda_count(const char *name, int *out) MUST_USE;

/* hal/sandbox: executes as late as it may, in any legal order, and ends the
 * process when the host does what is not allowed. */
extern const RtDeviceCaps rt_sandbox_caps;
extern const RtDeviceCaps rt_sandbox_plain_caps; /* without engines */
Status rt_sandbox_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;
/* Whether TFD_SANDBOX asks for them where cpu:0 is said, and for one queue. */
bool rt_sandbox_replaces_cpu(void);
bool rt_sandbox_has_one_queue(void);

#endif
