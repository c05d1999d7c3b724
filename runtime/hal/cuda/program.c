/*
 * program.c - device programs on a GPU
 *
 * A program is code of the host that enqueues kernels and copies on the queue
 * of programs (q_NAME, docs/abi.md).  It runs on a thread of the device, since
 * the replicas of several devices wait for each other in it, and may be far
 * ahead of the GPU.  Until it has ended nobody else enqueues there.
 */
#include <assert.h>
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

/* The work so far, and the host's part of copies. */
static void
wait_for_work(Cuda *c)
{
    CUevent done = c->programs.done;
    if (!rt_cuda_enter(c) ||
        !CALL_CUDA(c, cuEventRecord, done, compute_of(c)->stream))
        return;
    while (!rt_cuda_poll(c, done, 0.1))
        ;
    rt_cuda_staging_flush(c);
}

static void
program_store(RtDevice *d, void *at, const void *word, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    if (rt_cuda_enter(c))
        rt_cuda_stage_in(c, compute_of(c)->stream, address_at(at), word, n);
}

static void
program_load(RtDevice *d, void *word, const void *at, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    if (!rt_cuda_enter(c))
        return;
    rt_cuda_stage_out(c, compute_of(c)->stream, word, address_at(at), n);
    wait_for_work(c);
}

static void
program_copy_in(RtDevice *d, RtDevicePtr to, const void *from, size_t n)
{
    program_store(d, rt_ptr_address(to), from, n);
}

static void
program_copy_out(RtDevice *d, void *to, RtDevicePtr from, size_t n)
{
    program_load(d, to, rt_ptr_address(from), n);
}

static void
program_copy(RtDevice *d, void *to, const void *from, size_t n)
{
    Cuda *c = rt_cuda_of(d);
    if (n && rt_cuda_enter(c))
        CALL_CUDA(c, cuMemcpyDtoDAsync_v2, address_at(to), address_at(from), n,
                  compute_of(c)->stream);
}

static void
program_launch(RtDevice *d, const RtKernelLaunch *launch)
{
    Cuda *c = rt_cuda_of(d);
    rt_cuda_launch(c, compute_of(c), launch);
}

/* Collectives in shared memory ask for it. */
void
rt_cuda_run(RtQueue *queue, RtDeviceTask *task, void *data, size_t link_bytes)
{
    (void)task, (void)data, (void)link_bytes;
    rt_device_fail(queue->device,
                   "%s cannot take part in collectives: this version has them "
                   "for devices that execute the host's code",
                   queue->device->name);
}

static uint32_t
program_wait_word(RtDevice *d, RtWaitWord *word, uint32_t old)
{
    return rt_wait_word_wait(word, old, rt_cuda_of(d)->spin);
}

static void
program_run(RtDevice *d, RtDeviceTask *task, void *data)
{
    rt_cuda_run(&compute_of(rt_cuda_of(d))->queue, task, data, 0);
}

const RtProgramOps rt_cuda_program_ops = {
    .run = program_run,
    .copy_in = program_copy_in,
    .copy_out = program_copy_out,
    .wait_word = program_wait_word,
    .launch = program_launch,
    .copy = program_copy,
    .store = program_store,
    .load = program_load,
};

/* ---- the thread ---------------------------------------------------------- */

static void
run_program(Cuda *c, RtProgramLaunch *l)
{
    CudaQueue *q = compute_of(c);
    l->status = c->code->programs[l->program](l->call);
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
    p->is_running = p->is_running && !has_ended(p);
    return !p->is_running;
}

void
rt_cuda_join_program(Cuda *c)
{
    while (!rt_cuda_wait_program(c))
        ;
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
    p->end = compute_of(c)->recorded + 1;
    p->is_running = true;
    rt_wait_word_add(&p->launched, 1);
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
    if (p->has_thread) {
        rt_cuda_join_program(c);
        p->is_closing = true;
        rt_wait_word_add(&p->launched, 1);
        pthread_join(p->thread, NULL);
    }
}
