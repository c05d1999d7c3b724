/*
 * program.c - device programs on a GPU
 *
 * A program is code of the host that enqueues kernels and copies on the queue
 * of programs (q_NAME, docs/abi.md).  It runs on a thread of the device, since
 * the replicas of several devices wait for each other in it, and may be far
 * ahead of the GPU.  Until it has ended nobody else enqueues there.
 *
 * Whoever launches a program whose recording is one graph enqueues it.  The
 * same of the device that is launched last (on_caller), if the recording has
 * waits for other devices only: they have been launched, and one thread less
 * has to be woken.
 */
#include <assert.h>
#include <string.h>
#include "ir/base/thread.h"
#include "runtime/hal/cuda/cuda_impl.h"

static CudaQueue *
compute_of(Cuda *c)
{
    return &c->queues[QUEUE_COMPUTE];
}

/* ---- what programs ask for ----------------------------------------------- */

static CUdeviceptr
address_at(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

/* The widest unit in which n bytes can be set there: 4, 2 or 1. */
static size_t
unit_at(CUdeviceptr at, size_t n)
{
    if (at % 4 == 0 && n >= 4)
        return 4;
    return at % 2 == 0 && n >= 2 ? 2 : 1;
}

/* How many units at the beginning of the bytes are equal. */
static size_t
count_equal(const char *bytes, size_t n, size_t unit)
{
    size_t num = 1;
    while ((num + 1) * unit <= n &&
           memcmp(bytes, bytes + num * unit, unit) == 0)
        num++;
    return num;
}

static bool
set_units(Cuda *c, CUdeviceptr at, const char *value, size_t unit, size_t num)
{
    CUstream stream = compute_of(c)->stream;
    uint16_t two;
    uint32_t four;
    switch (unit) {
    case 4:
        memcpy(&four, value, sizeof four);
        return CALL_CUDA(c, cuMemsetD32Async, at, four, num, stream);
    case 2:
        memcpy(&two, value, sizeof two);
        return CALL_CUDA(c, cuMemsetD16Async, at, two, num, stream);
    default:
        return CALL_CUDA(c, cuMemsetD8Async, at, (unsigned char)*value, num,
                         stream);
    }
}

/* Few bytes, whose values are arguments: nothing of the host's has to stay. */
static void
program_store(RtDevice *d, void *to, const void *word, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    CUdeviceptr at = address_at(to);
    const char *bytes = word;
    bool works = true;
    for (size_t done; works && n; bytes += done, at += done, n -= done) {
        size_t unit = unit_at(at, n), num = count_equal(bytes, n, unit);
        works = rt_cuda_may_enqueue(c) && set_units(c, at, bytes, unit, num);
        done = num * unit;
    }
}

/* To pinned memory. */
static void
copy_out_later(Cuda *c, void *pinned, CUdeviceptr from, size_t n)
{
    if (n && rt_cuda_may_enqueue(c))
        CALL_CUDA(c, cuMemcpyDtoHAsync_v2, pinned, from, n,
                  compute_of(c)->stream);
}

static int32_t
program_load(RtDevice *d, void *word, const void *at, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    int64_t value = 0;
    int32_t status = 0;
    assert(n <= sizeof value);
    if (rt_cuda_skips(c)) {
        value = rt_cuda_skip_break(c);
    } else {
        copy_out_later(c, c->programs.pinned, address_at(at), n);
        rt_cuda_end_segment(c, &(CudaBreak){.kind = BREAK_LOAD, .bytes = n});
        status = rt_cuda_wait_and_look(c);
        memcpy(&value, c->programs.pinned, n);
        rt_cuda_next_segment(c, value);
    }
    memcpy(word, &value, n);
    return status;
}

static int32_t
program_call(RtDevice *d, RtProgramCall *call, void *context, const void *op)
{
    Cuda *c = rt_cuda_of(d);
    if (rt_cuda_skips(c)) {
        rt_cuda_skip_break(c);
        return 0;
    }
    rt_cuda_end_segment(
        c, &(CudaBreak){
               .kind = BREAK_CALL, .call = call, .context = context, .op = op});
    int32_t status = call(context, op);
    rt_cuda_next_segment(c, 0);
    return status;
}

/* There is no room for what the program defers. */
static int32_t
make_room(Cuda *c)
{
    rt_cuda_end_segment(c, &(CudaBreak){.kind = BREAK_LOOK});
    int32_t status = rt_cuda_wait_and_look(c);
    rt_cuda_next_segment(c, 0);
    return status;
}

/* As program_defer counts it. */
static bool
skip_deferred(Cuda *c, size_t bytes)
{
    if (!rt_cuda_skip_fits(c, bytes))
        rt_cuda_skip_break(c);
    if (!rt_cuda_skips(c))
        return false;
    rt_cuda_skip_item(c, bytes);
    return true;
}

static int32_t
program_defer(RtDevice *d, const RtDeferred *item, const RtDevicePart *parts,
              int num_parts)
{
    Cuda *c = rt_cuda_of(d);
    size_t bytes = rt_parts_bytes(parts, num_parts);
    if (rt_cuda_skips(c) && skip_deferred(c, bytes))
        return 0;
    int32_t status = rt_deferrals_fit(d->deferrals, bytes) ? 0 : make_room(c);
    if (status)
        return status;
    char *to = rt_deferrals_add(d->deferrals, item, bytes);
    for (int i = 0; i < num_parts; i++) {
        copy_out_later(c, to,
                       (CUdeviceptr)(uintptr_t)rt_ptr_address(parts[i].at),
                       parts[i].n);
        to += on_lines(parts[i].n);
    }
    return 0;
}

/* By pieces: whoever reads so much in the midst of a program is in no hurry. */
static void
program_copy_out(RtDevice *d, void *to, RtDevicePtr from, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    CUdeviceptr at = address_at(rt_ptr_address(from));
    void *pinned = c->programs.piece;
    if (!pinned && rt_cuda_enter(c) &&
        CALL_CUDA(c, cuMemHostAlloc, &pinned, CUDA_PIECE, 0))
        c->programs.piece = pinned;
    for (size_t done = 0, piece; done < n && !rt_device_has_failed(d);
         done += piece) {
        piece = n - done < CUDA_PIECE ? n - done : CUDA_PIECE;
        copy_out_later(c, pinned, at + done, piece);
        rt_cuda_wait_for_work(c);
        if (!rt_device_has_failed(d))
            memcpy((char *)to + done, pinned, piece);
    }
}

static void
program_copy_in(RtDevice *d, RtDevicePtr to, const void *from, size_t n)
{
    program_store(d, rt_ptr_address(to), from, n);
}

static void
program_copy(RtDevice *d, void *to, const void *from, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    if (n && rt_cuda_may_enqueue(c))
        CALL_CUDA(c, cuMemcpyDtoDAsync_v2, address_at(to), address_at(from), n,
                  compute_of(c)->stream);
}

static void
program_launch(RtDevice *d, const RtKernelLaunch *launch)
{
    Cuda *c = rt_cuda_of(d);
    if (rt_cuda_may_enqueue(c))
        rt_cuda_launch(c, compute_of(c), launch);
}

static uint32_t
program_wait_word(RtDevice *d, RtWaitWord *word, uint32_t old)
{
    return rt_wait_word_wait(word, old, rt_cuda_of(d)->spin);
}

static RtEvent
program_record(RtDevice *d)
{
    Cuda *c = rt_cuda_of(d);
    c->marks.has_more = true;
    uint64_t value = rt_cuda_mark(c, &c->marks);
    return (RtEvent){&c->marks.queue, value};
}

static void
program_wait_event(RtDevice *d, RtEvent e)
{
    Cuda *c = rt_cuda_of(d);
    if (e.queue)
        rt_cuda_wait_mark(c, compute_of(c), (CudaQueue *)e.queue, e.value);
}

const RtProgramOps rt_cuda_program_ops = {
    .copy_in = program_copy_in,
    .copy_out = program_copy_out,
    .wait_word = program_wait_word,
    .launch = program_launch,
    .copy = program_copy,
    .store = program_store,
    .load = program_load,
    .call = program_call,
    .defer = program_defer,
    .look = rt_cuda_look,
    .record = program_record,
    .wait_event = program_wait_event,
    .begin_time = rt_cuda_begin_time,
    .read_times = rt_cuda_read_times,
};

/* ---- the thread ---------------------------------------------------------- */

static void
run_program(Cuda *c, RtProgramLaunch *l)
{
    CudaQueue *q = compute_of(c);
    l->status = rt_cuda_trace_run(c, c->programs.trace);
    rt_cuda_end_times(c);
    q->has_more = true;
    rt_cuda_mark(c, q);
}

static void *
serve(void *data)
{
    Cuda *c = data;
    CudaPrograms *p = &c->programs;
    for (;;) {
        uint32_t ended = rt_wait_word_load(&p->ended);
        while (rt_wait_word_wait(&p->launched, ended, c->spin) == ended)
            ;
        if (p->is_closing)
            return NULL;
        run_program(c, p->launch);
        rt_wait_word_add(&p->ended, 1);
    }
}

static bool
has_ended(CudaPrograms *p)
{
    return rt_wait_word_load(&p->ended) == rt_wait_word_load(&p->launched);
}

bool
rt_cuda_wait_program(Cuda *c)
{
    CudaPrograms *p = &c->programs;
    uint32_t ended = rt_wait_word_load(&p->ended);
    if (p->is_running && !has_ended(p))
        rt_wait_word_wait(&p->ended, ended, c->spin);
    if (p->is_running && has_ended(p)) /* else the program may read it */
        p->is_running = false;
    return !p->is_running;
}

void
rt_cuda_join_program(Cuda *c)
{
    while (!rt_cuda_wait_program(c))
        ;
}

/* There is nothing to wait for. */
static void
launch_recorded(Cuda *c, RtProgramLaunch *launch)
{
    rt_cuda_trace_launch(c, c->programs.trace);
    launch->status = 0;
    compute_of(c)->has_more = true;
}

void
rt_cuda_launch_program(RtQueue *queue, RtProgramLaunch *launch)
{
    Cuda *c = rt_cuda_of(queue->device);
    CudaPrograms *p = &c->programs;
    assert(queue == &compute_of(c)->queue);
    assert(launch->program >= 0 && launch->program < c->code->num_programs);
    rt_cuda_join_program(c);
    p->launch = launch;
    p->trace = rt_cuda_trace_find(c, launch);
    if (rt_cuda_trace_is_one(p->trace)) {
        launch_recorded(c, launch);
        return;
    }
    if (c->on_caller && rt_cuda_trace_is_ahead(p->trace)) {
        run_program(c, launch);
        return;
    }
    rt_cuda_mark(c, compute_of(c)); /* of copies, while it is main's queue */
    p->end = compute_of(c)->recorded + 1;
    p->is_running = true;
    rt_wait_word_add(&p->launched, 1);
}

/* Memory for what programs load and leave to the host. */
Status
rt_cuda_programs_load(Cuda *c)
{
    RtDeferrals *left = c->device.deferrals;
    size_t bytes = CUDA_WORD_BYTES + (left ? left->capacity : 0);
    void *pinned;
    TRY_CUDA(c->cu, c->device.name, cuMemHostAlloc, &pinned, bytes, 0);
    c->programs.pinned = pinned;
    if (left)
        left->bytes = c->programs.pinned + CUDA_WORD_BYTES;
    return OK;
}

Status
rt_cuda_programs_open(Cuda *c)
{
    TRY_CUDA(c->cu, c->device.name, cuEventCreate, &c->programs.done,
             CU_EVENT_DISABLE_TIMING);
    TRY(thread_start(&c->programs.thread, serve, c, c->device.name));
    c->programs.has_thread = true;
    return OK;
}

void
rt_cuda_programs_close(Cuda *c)
{
    CudaPrograms *p = &c->programs;
    assert(!p->is_running);
    if (p->has_thread) {
        p->is_closing = true;
        rt_wait_word_add(&p->launched, 1);
        pthread_join(p->thread, NULL);
    }
}
