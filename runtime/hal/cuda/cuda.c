/*
 * cuda.c - NVIDIA's GPUs, through their driver
 *
 * A device is the primary context of a GPU, one stream for each of its queues,
 * and pinned memory of the host for copies.  Every call of the driver may
 * fail; from the first failure on the device does nothing more.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/fail.h"
#include "runtime/hal/cuda/cuda_impl.h"

/* ---- operations ---------------------------------------------------------- */

/* A queue that can be given work: no program is giving it any, and the device
 * has not failed. */
static CudaQueue *
enter(RtQueue *queue)
{
    CudaQueue *q = (CudaQueue *)queue;
    Cuda *c = rt_cuda_of(queue->device);
    if (q == &c->queues[QUEUE_COMPUTE])
        rt_cuda_join_program(c);
    if (!rt_cuda_enter(c))
        return NULL;
    q->has_more = true;
    return q;
}

static void
cuda_copy_in(RtQueue *queue, RtDevicePtr to, const void *from, size_t n)
{
    CudaQueue *q = enter(queue);
    CUdeviceptr at = rt_cuda_address(to, n);
    if (q)
        rt_cuda_stage_in(rt_cuda_of(queue->device), q, at, from, n);
}

static void
cuda_copy_out(RtQueue *queue, void *to, RtDevicePtr from, size_t n)
{
    CudaQueue *q = enter(queue);
    CUdeviceptr at = rt_cuda_address(from, n);
    if (q)
        rt_cuda_stage_out(rt_cuda_of(queue->device), q, to, at, n);
}

static void
cuda_copy(RtQueue *queue, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    CudaQueue *q = enter(queue);
    if (q)
        rt_cuda_copy(rt_cuda_of(queue->device), q, to, from, n);
}

static void
cuda_copy_rows(RtQueue *queue, const RtRowsCopy *rows)
{
    CudaQueue *q = enter(queue);
    if (q)
        rt_cuda_copy_rows(rt_cuda_of(queue->device), q, rows);
}

static void
cuda_fill(RtQueue *queue, RtDevicePtr to, int byte, size_t n)
{
    CudaQueue *q = enter(queue);
    CUdeviceptr at = rt_cuda_address(to, n);
    if (q && n)
        CALL_CUDA(rt_cuda_of(queue->device), cuMemsetD8Async, at,
                  (unsigned char)byte, n, q->stream);
}

static void
cuda_call_host(RtQueue *queue, void (*f)(void *data), void *data)
{
    CudaQueue *q = enter(queue);
    if (q)
        CALL_CUDA(rt_cuda_of(queue->device), cuLaunchHostFunc, q->stream, f,
                  data);
}

static void
cuda_launch_kernel(RtQueue *queue, const RtKernelLaunch *launch)
{
    CudaQueue *q = enter(queue);
    if (q)
        rt_cuda_launch(rt_cuda_of(queue->device), q, launch);
}

/* ---- events -------------------------------------------------------------- */

/* Whether e marks the end of the program that runs. */
static bool
is_of_program(const Cuda *c, RtEvent e)
{
    return c->programs.is_running && e.value >= c->programs.end &&
           e.queue == &c->queues[QUEUE_COMPUTE].queue;
}

static RtEvent
cuda_record(RtQueue *queue)
{
    CudaQueue *q = (CudaQueue *)queue;
    Cuda *c = rt_cuda_of(queue->device);
    RtEvent end = {queue, c->programs.end};
    if (is_of_program(c, end))
        return end;
    return (RtEvent){queue, rt_cuda_mark(c, q)};
}

static void
cuda_wait_event(RtQueue *queue, RtEvent e)
{
    CudaQueue *q = (CudaQueue *)queue;
    Cuda *c = rt_cuda_of(queue->device);
    if (!e.queue || e.queue == queue)
        return;
    Cuda *other = rt_cuda_of(e.queue->device);
    if (e.queue == &other->queues[QUEUE_COMPUTE].queue &&
        is_of_program(other, e))
        rt_cuda_join_program(other);
    if (q == &c->queues[QUEUE_COMPUTE])
        rt_cuda_join_program(c);
    rt_cuda_wait_mark(c, q, (CudaQueue *)e.queue, e.value);
}

static bool
cuda_wait(RtEvent e)
{
    if (!e.queue)
        return true;
    Cuda *c = rt_cuda_of(e.queue->device);
    if (is_of_program(c, e) && !rt_cuda_wait_program(c))
        return false;
    return rt_cuda_poll_mark(c, (CudaQueue *)e.queue, e.value);
}

static Status
cuda_load(RtDevice *d, const RtDeviceCode *code)
{
    TRY(rt_cuda_load(d, code));
    return rt_cuda_programs_load(rt_cuda_of(d));
}

/* ---- opening and closing ------------------------------------------------- */

static void
cuda_drain(RtDevice *d)
{
    Cuda *c = rt_cuda_of(d);
    rt_cuda_join_program(c);
    if (!c->context)
        return;
    c->cu->cuCtxSetCurrent(c->context);
    for (int i = 0; i < NUM_QUEUES; i++)
        rt_cuda_queue_drain(c, &c->queues[i]);
}

/* What the driver says to it changes nothing: all goes with the context. */
static void
cuda_close(RtDevice *d)
{
    Cuda *c = rt_cuda_of(d);
    cuda_drain(d);
    rt_cuda_programs_close(c);
    if (c->context) {
        rt_cuda_traces_free(c);
        if (c->programs.done)
            c->cu->cuEventDestroy_v2(c->programs.done);
        if (c->programs.pinned)
            c->cu->cuMemFreeHost(c->programs.pinned);
        if (c->programs.piece)
            c->cu->cuMemFreeHost(c->programs.piece);
        rt_cuda_unload(c);
        rt_cuda_free_memories(c);
        rt_cuda_staging_close(c);
        rt_cuda_times_close(c);
        rt_cuda_marks_close(c);
        for (int i = 0; i < NUM_QUEUES; i++)
            rt_cuda_queue_close(c, &c->queues[i]);
        c->cu->cuCtxSetCurrent(NULL);
        c->cu->cuDevicePrimaryCtxRelease_v2(c->number);
    }
    free(c);
}

const RtDeviceCaps rt_cuda_caps = {
    .has_copy_engine = true,
    .has_coll_engine = true,
    .enqueues_programs = true,
    .max_arena_bytes = (size_t)1 << 46,
};

/* ---- what a GPU can do at most ------------------------------------------- */

/* 0 where the driver does not say. */
static double
ask(Cuda *c, CUdevice_attribute attribute)
{
    int value = 0;
    if (rt_cuda_enter(c))
        CALL_CUDA(c, cuDeviceGetAttribute, &value, attribute, c->number);
    return value;
}

/* Lanes of f32 of a processor: 64 of compute capability 8.0, 128 of all since
 * (CUDA C++ Programming Guide, throughput of arithmetic instructions). */
static double
lanes_of(Cuda *c)
{
    bool is_first =
        ask(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 8.0 &&
        ask(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0.0;
    return is_first ? 64.0 : 128.0;
}

/* By its clocks, in kHz.  Memory transfers twice in one. */
static void
cuda_peaks(RtDevice *d, double *operations, double *bytes)
{
    Cuda *c = rt_cuda_of(d);
    double clock = 1e3 * ask(c, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    double memory = 1e3 * ask(c, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    double bits = ask(c, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    *operations = 2.0 * lanes_of(c) * c->num_processors * clock;
    *bytes = 2.0 * memory * bits / 8.0;
}

static const RtDeviceOps cuda_ops = {
    .kind = "cuda",
    .close = cuda_close,
    .drain = cuda_drain,
    .load = cuda_load,
    .room = rt_cuda_room,
    .alloc = rt_cuda_alloc,
    .alloc_host = rt_cuda_alloc_host,
    .connect = rt_cuda_connect,
    .peaks = cuda_peaks,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .fill = cuda_fill,
    .launch_kernel = cuda_launch_kernel,
    .launch_program = rt_cuda_launch_program,
    .call_host = cuda_call_host,
    .record = cuda_record,
    .wait_event = cuda_wait_event,
    .wait = cuda_wait,
    .program = &rt_cuda_program_ops,
};

static Status
find_device(const CudaDriver *cu, const char *name, int index, CUdevice *out)
{
    int num;
    TRY_CUDA(cu, name, cuDeviceGetCount, &num);
    if (index >= num)
        return status_new(STATUS_MACHINE,
                          "there is no %s: this machine has %d GPU%s", name,
                          num, num == 1 ? "" : "s");
    TRY_CUDA(cu, name, cuDeviceGet, out, index);
    return OK;
}

static Status
start(Cuda *c, int index)
{
    const CudaDriver *cu = c->cu;
    const char *name = c->device.name;
    TRY(find_device(cu, name, index, &c->number));
    TRY_CUDA(cu, name, cuDeviceGetAttribute, &c->num_processors,
             CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, c->number);
    TRY_CUDA(cu, name, cuDeviceGetAttribute, &c->most_pitch,
             CU_DEVICE_ATTRIBUTE_MAX_PITCH, c->number);
    TRY_CUDA(cu, name, cuDevicePrimaryCtxRetain, &c->context, c->number);
    if (!rt_cuda_enter(c))
        return rt_device_status(&c->device);
    for (int i = 0; i < NUM_QUEUES; i++)
        TRY(rt_cuda_queue_open(c, (RtQueueKind)i));
    TRY(rt_cuda_marks_open(c));
    TRY(rt_cuda_staging_open(c));
    return rt_cuda_programs_open(c);
}

Status
rt_cuda_open(const RtDeviceConfig *config, RtDevice **out)
{
    static atomic_uint_fast64_t opened;
    const CudaDriver *cu;
    TRY(rt_cuda_driver_open(config->name, &cu));
    Cuda *c =
        fail_here(FAIL_ALLOC) ? NULL : aligned_alloc(CACHE_LINE, sizeof *c);
    if (!c)
        return status_new(STATUS_MACHINE, "no memory for the streams of %s",
                          config->name);
    memset(c, 0, sizeof *c);
    c->device = (RtDevice){
        .ops = &cuda_ops, .caps = &rt_cuda_caps, .name = config->name};
    c->cu = cu;
    c->serial = atomic_fetch_add(&opened, 1) + 1;
    c->clock = config->clock ? config->clock : clock_seconds;
    c->spin = config->spin;
    c->on_caller = config->on_caller;
    Status st = start(c, config->index);
    if (st) {
        cuda_close(&c->device);
        return st;
    }
    *out = &c->device;
    return OK;
}

/* ---- what there is ------------------------------------------------------- */

static Status
read_level(const CudaDriver *cu, const char *name, CUdevice number, int *level)
{
    int major, minor;
    TRY_CUDA(cu, name, cuDeviceGetAttribute, &major,
             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, number);
    TRY_CUDA(cu, name, cuDeviceGetAttribute, &minor,
             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, number);
    *level = 10 * major + minor;
    return OK;
}

Status
rt_cuda_level(const char *name, int index, int *out)
{
    const CudaDriver *cu;
    CUdevice number;
    TRY(rt_cuda_driver_open(name, &cu));
    TRY(find_device(cu, name, index, &number));
    return read_level(cu, name, number, out);
}

Status
rt_cuda_count(const char *name, int *out)
{
    const CudaDriver *cu;
    TRY(rt_cuda_driver_open(name, &cu));
    TRY_CUDA(cu, name, cuDeviceGetCount, out);
    return OK;
}

Status
rt_cuda_describe(const char *name, int index, Str *out, bool *there_is)
{
    const CudaDriver *cu;
    CUdevice number;
    int num, level;
    size_t bytes;
    char model[256] = "";
    TRY(rt_cuda_driver_open(name, &cu));
    TRY_CUDA(cu, name, cuDeviceGetCount, &num);
    *there_is = index < num;
    if (!*there_is)
        return OK;
    TRY_CUDA(cu, name, cuDeviceGet, &number, index);
    TRY_CUDA(cu, name, cuDeviceGetName, model, sizeof model - 1, number);
    TRY_CUDA(cu, name, cuDeviceTotalMem_v2, &bytes, number);
    TRY(read_level(cu, name, number, &level));
    str_addf(out,
             "%s, compute capability %d.%d, %.1f GB, driver for CUDA %d.%d",
             model, level / 10, level % 10, (double)bytes / 1e9,
             cu->version / 1000, cu->version % 1000 / 10);
    return OK;
}
