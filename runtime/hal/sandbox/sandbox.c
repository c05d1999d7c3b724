/*
 * sandbox.c - devices for tests, which execute the host's code
 *
 * The table of functions.  What a device could get wrong silently, this one
 * says: ranges outside an allocation, overlapping copies, operations enqueued
 * where they must not be.  The destination of a copy to the host has a pattern
 * until the copy is executed, and so has the status of a launch.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "runtime/hal/sandbox/sandbox_impl.h"

enum { POISON = 0xdb, POISON_STATUS = 0x5dbdbdb };

const char *
rt_sandbox_queue_name(RtQueueKind kind)
{
    static const char *const names[NUM_QUEUES] = {[QUEUE_COMPUTE] = "compute",
                                                  [QUEUE_COPY] = "copy",
                                                  [QUEUE_COLL] = "coll"};
    return names[kind];
}

static Sandbox *
sandbox_of(RtDevice *d)
{
    return (Sandbox *)d;
}

/* ---- enqueuing ---------------------------------------------------------- */

/* The host may enqueue anywhere, a program on its device's queue of
 * collectives. */
static void
check_caller(const Queue *q, const char *what)
{
    const Queue *by = rt_sandbox_current;
    if (!by)
        return;
    if (!by->op || by->op->kind != DO_PROGRAM)
        rt_sandbox_complain("%s is enqueued by %s", what,
                            by->op ? rt_sandbox_op_name(by->op->kind)
                                   : "nobody");
    if (q->kind != QUEUE_COLL || q->sandbox != by->sandbox)
        rt_sandbox_complain("%s is enqueued on %s %s by a program on %s", what,
                            q->sandbox->device.name,
                            rt_sandbox_queue_name(q->kind),
                            by->sandbox->device.name);
}

static void
enqueue(RtQueue *queue, Op op)
{
    Queue *q = (Queue *)queue;
    check_caller(q, rt_sandbox_op_name(op.kind));
    op.hash = rt_sandbox_hash(&op);
    rt_sandbox_enqueue(q, &op);
}

static void
check_range(RtQueue *q, OpKind kind, RtDevicePtr p, size_t n)
{
    rt_sandbox_check_range(sandbox_of(q->device), rt_sandbox_op_name(kind), p,
                           n);
}

static void
sandbox_copy_in(RtQueue *q, RtDevicePtr to, const void *from, size_t n)
{
    check_range(q, DO_COPY_IN, to, n);
    enqueue(q, (Op){DO_COPY_IN, .to = to, .host_from = from, .n = n});
}

static void
sandbox_copy_out(RtQueue *q, void *to, RtDevicePtr from, size_t n)
{
    check_range(q, DO_COPY_OUT, from, n);
    if (n)
        memset(to, POISON, n);
    enqueue(q, (Op){DO_COPY_OUT, .host_to = to, .from = from, .n = n});
}

static void
check_copy(const char *what, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    rt_sandbox_check_range(NULL, what, to, n);
    rt_sandbox_check_range(NULL, what, from, n);
    if (to.memory == from.memory && to.offset < from.offset + n &&
        from.offset < to.offset + n && n)
        rt_sandbox_complain("%s of %zu bytes from +%zu to +%zu, which overlap",
                            what, n, from.offset, to.offset);
}

static void
sandbox_copy(RtQueue *q, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    check_copy("copy", to, from, n);
    enqueue(q, (Op){DO_COPY, .to = to, .from = from, .n = n});
}

static bool
reaches(const Sandbox *s, const RtMemory *memory)
{
    return memory->device == &s->device || memory->host || s->reaches_others;
}

static void
sandbox_copy_rows(RtQueue *q, const RtRowsCopy *rows)
{
    const Sandbox *s = sandbox_of(q->device);
    if (rows->row_bytes > rows->to_pitch || rows->row_bytes > rows->from_pitch)
        rt_sandbox_complain("copy_rows of rows that overlap");
    if (!reaches(s, rows->to.memory) || !reaches(s, rows->from.memory))
        rt_sandbox_complain("copy_rows of memory that %s does not reach",
                            s->device.name);
    for (size_t i = 0; i < rows->num_rows; i++)
        check_copy("copy_rows", rt_ptr_add(rows->to, i * rows->to_pitch),
                   rt_ptr_add(rows->from, i * rows->from_pitch),
                   rows->row_bytes);
    enqueue(q, (Op){DO_COPY_ROWS, .rows = *rows});
}

static void
sandbox_fill(RtQueue *q, RtDevicePtr to, int byte, size_t n)
{
    check_range(q, DO_FILL, to, n);
    enqueue(q, (Op){DO_FILL, .to = to, .byte = byte, .n = n});
}

static void
check_number(int number, int end, const char *what)
{
    if (number < 0 || number >= end)
        rt_sandbox_complain("%s %d of %d", what, number, end);
}

static void
sandbox_launch_kernel(RtQueue *q, const RtKernelLaunch *launch)
{
    const RtDeviceCode *code = sandbox_of(q->device)->code;
    check_number(launch->kernel, code ? code->num_kernels : 0, "kernel");
    enqueue(q, (Op){DO_KERNEL, .kernel = launch});
}

static void
sandbox_launch_program(RtQueue *q, RtProgramLaunch *launch)
{
    const RtDeviceCode *code = sandbox_of(q->device)->code;
    check_number(launch->program, code ? code->num_programs : 0, "program");
    if (((Queue *)q)->kind != QUEUE_COMPUTE)
        rt_sandbox_complain("a program is launched on the queue %s",
                            rt_sandbox_queue_name(((Queue *)q)->kind));
    launch->status = POISON_STATUS;
    enqueue(q, (Op){DO_PROGRAM, .program = launch});
}

static void
sandbox_run(RtQueue *q, RtDeviceTask *task, void *data, size_t link_bytes)
{
    enqueue(q, (Op){DO_RUN, .task = task, .data = data, .n = link_bytes});
}

static void
sandbox_call_host(RtQueue *q, void (*f)(void *data), void *data)
{
    enqueue(q, (Op){DO_CALL_HOST, .call = f, .data = data});
}

static RtEvent
sandbox_record(RtQueue *queue)
{
    Queue *q = (Queue *)queue;
    check_caller(q, "record");
    return (RtEvent){queue, q->enqueued};
}

/* Whether it is of the future, which an event of another device must not be. */
static bool
is_recorded(RtEvent e)
{
    pthread_mutex_lock(&rt_sandbox_world.lock);
    bool recorded = e.value <= ((const Queue *)e.queue)->enqueued;
    pthread_mutex_unlock(&rt_sandbox_world.lock);
    return recorded;
}

static void
sandbox_wait_event(RtQueue *q, RtEvent e)
{
    if (e.queue && e.queue->device != q->device && !is_recorded(e))
        rt_sandbox_complain("%s waits for an event of %s that was never "
                            "recorded",
                            q->device->name, e.queue->device->name);
    if (e.queue)
        enqueue(q, (Op){DO_WAIT_EVENT, .event = e});
}

/* ---- opening and closing ------------------------------------------------ */

static Status
sandbox_load(RtDevice *d, const RtDeviceCode *code)
{
    sandbox_of(d)->code = code;
    return OK;
}

static Status
sandbox_alloc(RtDevice *d, size_t bytes, size_t begin, bool dense,
              const RtMemory **out)
{
    (void)dense;
    return rt_sandbox_map(sandbox_of(d), bytes, begin, false, out);
}

static Status
sandbox_alloc_host(RtDevice *d, size_t bytes, const RtMemory **out)
{
    return rt_sandbox_map(sandbox_of(d), bytes, 0, true, out);
}

static Status
sandbox_connect(RtDevice *d, RtDevice *other, bool *out)
{
    Sandbox *s = sandbox_of(d);
    (void)other;
    *out = s->reaches_others = !rt_sandbox_world.options.has_no_peers;
    return OK;
}

static void
sandbox_close(RtDevice *d)
{
    Sandbox *s = sandbox_of(d);
    rt_sandbox_drain(s);
    for (int k = 0; k < NUM_QUEUES; k++)
        rt_sandbox_join(&s->queues[k]);
    rt_sandbox_clock_report(s);
    rt_sandbox_leave(s);
    rt_sandbox_unmap(s);
    free(s);
}

const RtDeviceCaps rt_sandbox_caps = {
    .uses_host_memory = true,
    .has_copy_engine = true,
    .has_coll_engine = true,
    .runs_tasks = true,
    .max_arena_bytes = (size_t)1 << 46,
};

const RtDeviceCaps rt_sandbox_plain_caps = {
    .uses_host_memory = true,
    .runs_tasks = true,
    .max_arena_bytes = (size_t)1 << 46,
};

static const RtDeviceOps sandbox_ops = {
    .kind = "sandbox",
    .close = sandbox_close,
    .load = sandbox_load,
    .alloc = sandbox_alloc,
    .alloc_host = sandbox_alloc_host,
    .connect = sandbox_connect,
    .copy_in = sandbox_copy_in,
    .copy_out = sandbox_copy_out,
    .copy = sandbox_copy,
    .copy_rows = sandbox_copy_rows,
    .fill = sandbox_fill,
    .launch_kernel = sandbox_launch_kernel,
    .launch_program = sandbox_launch_program,
    .run = sandbox_run,
    .call_host = sandbox_call_host,
    .record = sandbox_record,
    .wait_event = sandbox_wait_event,
    .wait = rt_sandbox_wait,
    .program = &rt_sandbox_program_ops,
};

/* The first device of a world chooses its options. */
static Status
join_world(Sandbox *s)
{
    World *w = &rt_sandbox_world;
    if (!w->first) {
        TRY(rt_sandbox_options(&w->options));
        w->random = w->options.seed;
        w->turns = 0;
        w->now = 0.0;
        w->last_ready = 0;
        atomic_store(&w->executed, 0);
        rt_sandbox_explain_faults();
    }
    Sandbox **end = &w->first;
    while (*end)
        end = &(*end)->next;
    *end = s;
    return OK;
}

/* Of all devices of the world. */
static const RtDeviceCaps *
choose_caps(const SandboxOptions *o)
{
    static RtDeviceCaps caps;
    caps = o->has_one_queue ? rt_sandbox_plain_caps : rt_sandbox_caps;
    caps.is_repeatable = o->is_repeatable;
    return &caps;
}

static Status
start_queues(Sandbox *s)
{
    for (int k = 0; k < NUM_QUEUES; k++) {
        Queue *q = &s->queues[k];
        q->queue.device = &s->device;
        q->sandbox = s;
        q->kind = (RtQueueKind)k;
        bool own = !rt_sandbox_world.options.has_one_queue;
        s->device.queues[k] = own ? &q->queue : &s->queues[0].queue;
        TRY(rt_sandbox_start(q));
    }
    return OK;
}

Status
rt_sandbox_open(const RtDeviceConfig *config, RtDevice **out)
{
    Sandbox *s = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *s);
    if (!s)
        return status_new(STATUS_MACHINE, "no memory for the queues of %s",
                          config->name);
    s->device = (RtDevice){.ops = &sandbox_ops, .name = config->name};
    Status st = join_world(s);
    s->device.caps = choose_caps(&rt_sandbox_world.options);
    if (!st)
        st = start_queues(s);
    if (st) {
        sandbox_close(&s->device);
        return st;
    }
    *out = &s->device;
    return OK;
}
