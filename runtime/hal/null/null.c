/*
 * null.c - devices that take time and execute nothing
 *
 * Memory is a range of inaccessible addresses.  Copies to it are ignored and
 * copies from it give zeros, at once.  A launch ends when the time that its
 * program would take on the model's machine is over; the code never runs, so it
 * prints nothing, asserts nothing and waits in no collective.  An event is the
 * time at which it happens.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "ir/base/fail.h"
#include "runtime/hal/device.h"

typedef struct Range {
    RtMemory memory;
    struct Range *next;
    size_t mapped;
} Range;

typedef struct Null {
    RtDevice device;
    RtQueue queue;
    RtClock *clock;
    const double *seconds; /* of each program */
    double end;            /* of the last launch */
    Range *ranges;
} Null;

static Null *
null_of(RtDevice *d)
{
    return (Null *)d;
}

/* ---- time -------------------------------------------------------------- */

static void
null_launch_program(RtQueue *q, RtProgramLaunch *launch)
{
    Null *n = null_of(q->device);
    n->end = fmax(n->end, n->clock());
    for (const TfdCall *call = launch->call; call; call = call->next)
        n->end += n->seconds[launch->program]; /* each replica's turn */
    launch->status = 0;
}

/* Kernels alone take no time: runs launch programs. */
static void
null_launch_kernel(RtQueue *q, const RtKernelLaunch *launch)
{
    (void)q, (void)launch;
}

static void
null_run(RtQueue *q, RtDeviceTask *task, void *data, size_t link_bytes)
{
    (void)q, (void)task, (void)data, (void)link_bytes;
}

static void
null_call_host(RtQueue *q, void (*f)(void *data), void *data)
{
    (void)q;
    f(data);
}

/* The bits of positive numbers have the order of the numbers. */
static RtEvent
null_record(RtQueue *q)
{
    RtEvent e = {.queue = q};
    memcpy(&e.value, &null_of(q->device)->end, sizeof e.value);
    return e;
}

static void
null_wait_event(RtQueue *q, RtEvent e)
{
    (void)q, (void)e; /* one queue, in order */
}

/* At most a tenth of a second, the last part of which is spent spinning: the
 * kernel wakes threads late. */
static void
pause_for(double seconds)
{
    double asleep = fmin(seconds, 0.1) - 1e-4;
    struct timespec t = {.tv_nsec = (long)(asleep * 1e9)};
    if (asleep > 0.0)
        nanosleep(&t, NULL);
}

static bool
null_wait(RtEvent e)
{
    double time;
    if (!e.queue)
        return true;
    Null *n = null_of(e.queue->device);
    memcpy(&time, &e.value, sizeof time);
    pause_for(time - n->clock());
    return n->clock() >= time;
}

static Status
null_load(RtDevice *d, const RtDeviceCode *code)
{
    assert(code->seconds || !code->num_programs);
    null_of(d)->seconds = code->seconds;
    return OK;
}

/* ---- memory ------------------------------------------------------------ */

static Status
null_alloc(RtDevice *d, size_t bytes, size_t begin, bool dense,
           const RtMemory **out)
{
    (void)dense;
    size_t mapped = bytes ? bytes : 1;
    Range *r = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *r);
    void *at = r ? mmap(NULL, mapped, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                 : MAP_FAILED;
    if (at == MAP_FAILED) {
        free(r);
        return status_new(STATUS_MACHINE,
                          "no addresses for the %zu bytes of %s", bytes,
                          d->name);
    }
    r->memory = (RtMemory){
        .device = d, .bytes = bytes, .address = (uintptr_t)at, .begin = begin};
    r->mapped = mapped;
    r->next = null_of(d)->ranges;
    null_of(d)->ranges = r;
    *out = &r->memory;
    return OK;
}

static void
null_copy_in(RtQueue *q, RtDevicePtr to, const void *from, size_t n)
{
    (void)q, (void)to, (void)from, (void)n;
}

static void
null_copy_out(RtQueue *q, void *to, RtDevicePtr from, size_t n)
{
    (void)q, (void)from;
    memset(to, 0, n);
}

static void
null_copy(RtQueue *q, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    (void)q, (void)to, (void)from, (void)n;
}

static void
null_fill(RtQueue *q, RtDevicePtr to, int byte, size_t n)
{
    (void)q, (void)to, (void)byte, (void)n;
}

/* ---- opening and closing ------------------------------------------------ */

static void
null_close(RtDevice *d)
{
    Null *n = null_of(d);
    while (n->ranges) {
        Range *r = n->ranges;
        n->ranges = r->next;
        munmap((void *)r->memory.address, r->mapped);
        free(r);
    }
    free(n);
}

const RtDeviceCaps rt_null_caps = {
    .runs_tasks = true,
    .max_arena_bytes = (size_t)1 << 42,
    .machine = &ir_machines[DEVICE_null],
};

static const RtDeviceOps null_ops = {
    .kind = "null",
    .close = null_close,
    .load = null_load,
    .alloc = null_alloc,
    .copy_in = null_copy_in,
    .copy_out = null_copy_out,
    .copy = null_copy,
    .fill = null_fill,
    .launch_kernel = null_launch_kernel,
    .launch_program = null_launch_program,
    .run = null_run,
    .call_host = null_call_host,
    .record = null_record,
    .wait_event = null_wait_event,
    .wait = null_wait,
};

Status
rt_null_open(const RtDeviceConfig *config, RtDevice **out)
{
    Null *n = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *n);
    assert(config->clock);
    if (!n)
        return status_new(STATUS_MACHINE, "no memory to open %s", config->name);
    n->device = (RtDevice){
        .ops = &null_ops, .caps = &rt_null_caps, .name = config->name};
    n->queue.device = &n->device;
    for (int i = 0; i < NUM_QUEUES; i++)
        n->device.queues[i] = &n->queue;
    n->clock = config->clock;
    *out = &n->device;
    return OK;
}
