/*
 * cpu.c - virtual devices of the CPU
 *
 * A device has one queue for everything, a thread that executes it, and a pool
 * of workers that help with the kernels.  One device of a run may use the
 * thread of main, which has nothing else to do while it waits: with one device
 * there is no second thread to hand work to.  Its memory is the host's, so a
 * copy on an idle device is done at once.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "ir/base/fail.h"
#include "ir/base/thread.h"
#include "runtime/hal/cpu/pool.h"
#include "runtime/hal/cpu/queue.h"

enum {
    HUGE_BYTES = 4 << 20 /* dense memory that gets huge pages */
};

typedef struct Allocation {
    RtMemory memory;
    struct Allocation *next;
    size_t mapped;
    RtSegment segment; /* where devices share their memory */
} Allocation;

typedef struct Cpu {
    CpuQueue queue;
    RtDevice device;
    RtPool *pool;
    bool on_caller, shares_memory;
    bool has_thread;
    pthread_t thread;
    bool closing; /* of its thread */
    const RtDeviceCode *code;
    Allocation *allocations;
} Cpu;

static Cpu *
cpu_of(RtDevice *d)
{
    return (Cpu *)((char *)d - offsetof(Cpu, device));
}

/* ---- execution --------------------------------------------------------- */

typedef struct KernelJob {
    TfdKernel *kernel;
    void *const *ptrs;
    const int64_t *dims;
} KernelJob;

static void
run_range(void *data, int64_t begin, int64_t end)
{
    const KernelJob *job = data;
    job->kernel(job->ptrs, job->dims, begin, end);
}

static void
cpu_parallel(RtDevice *d, TfdKernel *kernel, void *const *ptrs,
             const int64_t *dims, int64_t count, int64_t grain)
{
    KernelJob job = {kernel, ptrs, dims};
    rt_pool_run(cpu_of(d)->pool, run_range, &job, count, grain);
}

static void
execute_kernel(Cpu *c, const RtKernelLaunch *l)
{
    assert(l->kernel >= 0 && l->kernel < c->code->num_kernels);
    cpu_parallel(&c->device, c->code->kernels[l->kernel], l->ptrs, l->dims,
                 l->count, l->grain ? l->grain : l->count);
}

static void
execute_program(Cpu *c, RtProgramLaunch *l)
{
    assert(l->program >= 0 && l->program < c->code->num_programs);
    l->status = c->code->programs[l->program](l->call);
}

static void
execute(void *executor, const CpuItem *item)
{
    switch (item->kind) {
    case CPU_COPY:
        memmove(item->to, item->from, item->bytes);
        break;
    case CPU_FILL:
        memset(item->to, item->byte, item->bytes);
        break;
    case CPU_KERNEL:
        execute_kernel(executor, item->kernel);
        break;
    case CPU_PROGRAM:
        execute_program(executor, item->program);
        break;
    case CPU_CALL:
        item->f(item->data);
        break;
    }
}

static void *
serve(void *data)
{
    Cpu *c = data;
    while (!c->closing) {
        uint32_t executed = rt_wait_word_load(&c->queue.executed);
        rt_wait_word_wait(&c->queue.enqueued, executed, c->queue.spin);
        rt_cpu_queue_drain(&c->queue);
    }
    return NULL;
}

/* ---- the queue --------------------------------------------------------- */

static void
enqueue(RtQueue *q, const CpuItem *item)
{
    Cpu *c = cpu_of(q->device);
    rt_cpu_queue_add(&c->queue, item, c->on_caller);
}

static void
enqueue_or_execute(RtQueue *q, const CpuItem *item)
{
    Cpu *c = cpu_of(q->device);
    if (rt_cpu_queue_is_idle(&c->queue))
        execute(c, item);
    else
        enqueue(q, item);
}

static void
copy(RtQueue *q, char *to, const char *from, size_t n)
{
    CpuItem item = {.kind = CPU_COPY, .to = to, .from = from, .bytes = n};
    enqueue_or_execute(q, &item);
}

/* Where n bytes from p are. */
static char *
bytes_at(RtDevicePtr p, size_t n)
{
    assert(p.offset <= p.memory->bytes && n <= p.memory->bytes - p.offset);
    return rt_ptr_host(p);
}

static void
cpu_copy_in(RtQueue *q, RtDevicePtr to, const void *from, size_t n)
{
    copy(q, bytes_at(to, n), from, n);
}

static void
cpu_copy_out(RtQueue *q, void *to, RtDevicePtr from, size_t n)
{
    copy(q, to, bytes_at(from, n), n);
}

static void
cpu_copy(RtQueue *q, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    copy(q, bytes_at(to, n), bytes_at(from, n), n);
}

static void
cpu_copy_rows(RtQueue *q, const RtRowsCopy *rows)
{
    for (size_t i = 0; i < rows->num_rows; i++)
        cpu_copy(q, rt_ptr_add(rows->to, i * rows->to_pitch),
                 rt_ptr_add(rows->from, i * rows->from_pitch), rows->row_bytes);
}

static void
cpu_fill(RtQueue *q, RtDevicePtr to, int byte, size_t n)
{
    CpuItem item = {
        .kind = CPU_FILL, .to = bytes_at(to, n), .bytes = n, .byte = byte};
    enqueue_or_execute(q, &item);
}

static void
cpu_launch_kernel(RtQueue *q, const RtKernelLaunch *launch)
{
    enqueue(q, &(CpuItem){.kind = CPU_KERNEL, .kernel = launch});
}

static void
cpu_launch_program(RtQueue *q, RtProgramLaunch *launch)
{
    enqueue(q, &(CpuItem){.kind = CPU_PROGRAM, .program = launch});
}

static void
cpu_call(RtQueue *q, void (*f)(void *data), void *data)
{
    enqueue(q, &(CpuItem){.kind = CPU_CALL, .f = f, .data = data});
}

static void
cpu_run(RtQueue *q, RtDeviceTask *task, void *data, size_t link_bytes)
{
    (void)link_bytes;
    cpu_call(q, task, data);
}

static RtEvent
cpu_record(RtQueue *q)
{
    Cpu *c = cpu_of(q->device);
    return (RtEvent){q, c->queue.num_enqueued};
}

/* There is one queue, and it is in order. */
static void
cpu_wait_event(RtQueue *q, RtEvent e)
{
    assert(!e.queue || e.queue == q);
    (void)q, (void)e;
}

static bool
cpu_wait(RtEvent e)
{
    if (!e.queue)
        return true;
    Cpu *c = cpu_of(e.queue->device);
    if (c->on_caller)
        rt_cpu_queue_drain(&c->queue);
    uint32_t executed = rt_wait_word_load(&c->queue.executed);
    if (!rt_cpu_queue_is_past(&c->queue, e.value))
        rt_wait_word_wait(&c->queue.executed, executed, c->queue.spin);
    return rt_cpu_queue_is_past(&c->queue, e.value);
}

/* ---- what programs ask for ---------------------------------------------- */

static void
program_copy_in(RtDevice *d, RtDevicePtr to, const void *from, size_t n)
{
    (void)d;
    memcpy(bytes_at(to, n), from, n);
}

static void
program_copy_out(RtDevice *d, void *to, RtDevicePtr from, size_t n)
{
    (void)d;
    memcpy(to, bytes_at(from, n), n);
}

static void
program_run(RtDevice *d, RtDeviceTask *task, void *data)
{
    (void)d;
    task(data);
}

static void
program_launch(RtDevice *d, const RtKernelLaunch *l)
{
    execute_kernel(cpu_of(d), l);
}

static void
program_copy(RtDevice *d, void *to, const void *from, size_t n)
{
    (void)d;
    memmove(to, from, n);
}

static int32_t
program_load(RtDevice *d, void *word, const void *at, size_t n)
{
    memcpy(word, at, n);
    return rt_device_look(d);
}

static uint32_t
program_wait_word(RtDevice *d, RtWaitWord *word, uint32_t old)
{
    return rt_wait_word_wait(word, old, cpu_of(d)->queue.spin);
}

/* It has executed all of it. */
static RtEvent
program_record(RtDevice *d)
{
    (void)d;
    return (RtEvent){0};
}

static void
program_wait_event(RtDevice *d, RtEvent e)
{
    (void)d;
    rt_event_wait(e);
}

/* ---- memory and code ---------------------------------------------------- */

static Status
cpu_load(RtDevice *d, const RtDeviceCode *code)
{
    cpu_of(d)->code = code;
    return OK;
}

static Status
no_memory(const RtDevice *d, size_t bytes)
{
    return status_new(STATUS_MACHINE, "no memory for the %zu bytes of %s",
                      bytes, d->name);
}

/* Of this process alone. */
static Status
map_private(Allocation *a, bool dense)
{
    char *at = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return no_memory(a->memory.device, a->memory.bytes);
    if (dense && a->mapped >= HUGE_BYTES)
        madvise(at, a->mapped, MADV_HUGEPAGE);
    a->memory.host = at;
    return OK;
}

/* Of which a segment says why there is none: it may be a limit. */
static Status
map_shared(Allocation *a, bool dense)
{
    TRY(rt_segment_new(a->mapped, dense, &a->segment));
    a->memory.host = a->segment.at;
    a->memory.segment = &a->segment;
    return OK;
}

static Status
cpu_alloc(RtDevice *d, size_t bytes, size_t begin, bool dense,
          const RtMemory **out)
{
    Cpu *c = cpu_of(d);
    Allocation *a = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *a);
    if (!a)
        return no_memory(d, bytes);
    a->mapped = bytes ? bytes : 1;
    a->memory = (RtMemory){.device = d, .bytes = bytes, .begin = begin};
    Status st = (c->shares_memory ? map_shared : map_private)(a, dense);
    if (st) {
        free(a);
        return st;
    }
    a->memory.address = (uintptr_t)a->memory.host;
    a->memory.number = c->allocations ? c->allocations->memory.number + 1 : 0;
    a->next = c->allocations;
    c->allocations = a;
    *out = &a->memory;
    return OK;
}

static const RtMemory *
cpu_memory(RtDevice *d, int number)
{
    const Allocation *a = cpu_of(d)->allocations;
    while (a && a->memory.number != number)
        a = a->next;
    return a ? &a->memory : NULL;
}

static Status
cpu_alloc_host(RtDevice *d, size_t bytes, const RtMemory **out)
{
    return cpu_alloc(d, bytes, 0, false, out);
}

static Status
cpu_connect(RtDevice *d, RtDevice *other, bool *reaches)
{
    (void)d, (void)other;
    *reaches = true;
    return OK;
}

static void
free_memory(Cpu *c)
{
    while (c->allocations) {
        Allocation *a = c->allocations;
        c->allocations = a->next;
        if (a->segment.at)
            rt_segment_close(&a->segment);
        else
            munmap(a->memory.host, a->mapped);
        free(a);
    }
}

/* ---- opening and closing ------------------------------------------------ */

static void
set_closing(void *data)
{
    ((Cpu *)data)->closing = true;
}

static void
cpu_close(RtDevice *d)
{
    Cpu *c = cpu_of(d);
    if (c->has_thread) {
        cpu_call(&c->queue.queue, set_closing, c);
        pthread_join(c->thread, NULL);
    }
    rt_cpu_queue_drain(&c->queue);
    rt_pool_close(c->pool);
    free_memory(c);
    free(c);
}

const RtDeviceCaps rt_cpu_caps = {
    .uses_host_memory = true,
    .is_host_visible = true,
    .runs_tasks = true,
    .shares_memory = true,
    .max_arena_bytes = (size_t)1 << 46,
};

static const RtProgramOps program_ops = {
    .parallel = cpu_parallel,
    .copy_in = program_copy_in,
    .copy_out = program_copy_out,
    .run = program_run,
    .wait_word = program_wait_word,
    .launch = program_launch,
    .copy = program_copy,
    .store = program_copy,
    .load = program_load,
    .defer = rt_device_defer,
    .look = rt_device_look,
    .record = program_record,
    .wait_event = program_wait_event,
};

static const RtDeviceOps cpu_ops = {
    .kind = "cpu",
    .close = cpu_close,
    .load = cpu_load,
    .alloc = cpu_alloc,
    .alloc_host = cpu_alloc_host,
    .memory = cpu_memory,
    .connect = cpu_connect,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .copy = cpu_copy,
    .copy_rows = cpu_copy_rows,
    .fill = cpu_fill,
    .launch_kernel = cpu_launch_kernel,
    .launch_program = cpu_launch_program,
    .run = cpu_run,
    .call_host = cpu_call,
    .record = cpu_record,
    .wait_event = cpu_wait_event,
    .wait = cpu_wait,
    .program = &program_ops,
};

static Status
start(Cpu *c, int num_threads)
{
    TRY(rt_pool_open(num_threads, c->queue.spin, &c->pool));
    if (c->on_caller)
        return OK;
    TRY(thread_start(&c->thread, serve, c, c->device.name));
    c->has_thread = true;
    return OK;
}

static void
init(Cpu *c, const RtDeviceConfig *config)
{
    memset(c, 0, sizeof *c);
    c->device = (RtDevice){.ops = &cpu_ops,
                           .caps = &rt_cpu_caps,
                           .name = config->name,
                           .num_threads = config->num_threads};
    c->queue.queue.device = &c->device;
    for (int i = 0; i < NUM_QUEUES; i++)
        c->device.queues[i] = &c->queue.queue;
    c->queue.spin = config->spin;
    c->queue.execute = execute;
    c->queue.executor = c;
    c->on_caller = config->on_caller;
    c->shares_memory = config->shares_memory;
}

Status
rt_cpu_open(const RtDeviceConfig *config, RtDevice **out)
{
    Cpu *c =
        fail_here(FAIL_ALLOC) ? NULL : aligned_alloc(CACHE_LINE, sizeof *c);
    if (!c)
        return status_new(STATUS_MACHINE, "no memory for %s", config->name);
    init(c, config);
    Status st = start(c, config->num_threads);
    if (st) {
        cpu_close(&c->device);
        return st;
    }
    *out = &c->device;
    return OK;
}
