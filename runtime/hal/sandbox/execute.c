/*
 * execute.c - operations, and programs among them
 *
 * A copy moves its bytes in pieces, and a kernel's range is cut into chunks in
 * any order; between them others may have their turn.  What an operation found
 * when it was enqueued it must find when it is executed.  A program calls the
 * run's hooks through ours, which close the memory for as long as they take.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/hash/hash.h"
#include "runtime/hal/sandbox/sandbox_impl.h"

enum {
    CALM = 16,     /* one time in so many another queue goes first: chunks */
    LIVELY = 3,    /* the same at hooks, and between pieces of copies */
    MAX_CHUNKS = 8 /* of a kernel */
};

void
rt_sandbox_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("sandbox: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

const char *
rt_sandbox_op_name(OpKind kind)
{
    static const char *const names[] = {
        [DO_COPY_IN] = "copy_in",
        [DO_COPY_OUT] = "copy_out",
        [DO_COPY] = "copy",
        [DO_COPY_ROWS] = "copy_rows",
        [DO_FILL] = "fill",
        [DO_KERNEL] = "launch_kernel",
        [DO_PROGRAM] = "launch_program",
        [DO_RUN] = "run",
        [DO_CALL_HOST] = "call_host",
        [DO_WAIT_EVENT] = "wait_event",
    };
    return names[kind];
}

static bool
is_random(void)
{
    const SandboxOptions *o = &rt_sandbox_world.options;
    return o->seed && !o->is_engine;
}

/* ---- what must not change ----------------------------------------------- */

enum { CALL_WORDS = 11 };

/* Not the hooks, which we change, nor the place, which the program does. */
static void
words_of_call(const TfdCall *c, uintptr_t *words)
{
    const uintptr_t list[CALL_WORDS] = {c->abi,
                                        (uintptr_t)c->replica,
                                        (uintptr_t)c->base,
                                        (uintptr_t)c->shared,
                                        (uintptr_t)c->next,
                                        (uintptr_t)c->in,
                                        (uintptr_t)c->out,
                                        (uintptr_t)c->dims,
                                        (uintptr_t)c->context,
                                        (uintptr_t)c->resume,
                                        (uintptr_t)c->stop};
    memcpy(words, list, sizeof list);
}

static uint64_t
hash_launch(const RtProgramLaunch *l)
{
    uint64_t hash = (uint64_t)l->program;
    for (const TfdCall *c = l->call; c; c = c->next) {
        uintptr_t words[CALL_WORDS + 1];
        words_of_call(c, words);
        words[CALL_WORDS] = (uintptr_t)hash;
        hash = hash_bytes(words, sizeof words);
    }
    return hash;
}

uint64_t
rt_sandbox_hash(const Op *op)
{
    switch (op->kind) {
    case DO_COPY_IN:
        return hash_bytes(op->host_from, op->n);
    case DO_KERNEL:
        return hash_bytes(op->kernel, sizeof *op->kernel);
    case DO_PROGRAM:
        return hash_launch(op->program);
    case DO_COPY_OUT:
    case DO_COPY:
    case DO_COPY_ROWS:
    case DO_FILL:
    case DO_RUN:
    case DO_CALL_HOST:
    case DO_WAIT_EVENT:
        break;
    }
    return 0;
}

static void
check_unchanged(const Queue *q, const Op *op)
{
    if (rt_sandbox_hash(op) != op->hash)
        rt_sandbox_complain("what %s on %s %s points to has changed since it "
                            "was enqueued",
                            rt_sandbox_op_name(op->kind),
                            q->sandbox->device.name,
                            rt_sandbox_queue_name(q->kind));
}

/* ---- copies and kernels ------------------------------------------------- */

static void
copy_bytes(Queue *q, char *to, const char *from, size_t n)
{
    while (n) {
        size_t piece = n;
        if (is_random() && rt_sandbox_random(2))
            piece = 1 + rt_sandbox_random(n);
        memcpy(to, from, piece);
        to += piece;
        from += piece;
        n -= piece;
        if (n)
            rt_sandbox_yield(q, LIVELY);
    }
}

static void
copy_rows(Queue *q, const RtRowsCopy *rows)
{
    for (size_t i = 0; i < rows->num_rows; i++)
        copy_bytes(q, rt_ptr_address(rows->to) + i * rows->to_pitch,
                   rt_ptr_address(rows->from) + i * rows->from_pitch,
                   rows->row_bytes);
}

/* The ends of chunks of at least grain items; their number. */
static int
cut(int64_t count, int64_t grain, int64_t *ends)
{
    int64_t most = grain > 1 ? count / grain : count, at = 0;
    int n = 0;
    if (!is_random() || grain == 0)
        most = 1;
    for (int64_t rest = most; rest > 1 && n < MAX_CHUNKS - 1;) {
        int64_t part = 1 + (int64_t)rt_sandbox_random((uint64_t)rest);
        if (part == rest)
            break;
        at += part * (grain > 1 ? grain : 1);
        ends[n++] = at;
        rest -= part;
    }
    ends[n++] = count;
    return n;
}

static void
run_kernel(Queue *q, TfdKernel *kernel, void *const *ptrs, const int64_t *dims,
           int64_t count, int64_t grain)
{
    int64_t ends[MAX_CHUNKS];
    int n = cut(count, grain, ends), order[MAX_CHUNKS];
    for (int i = 0; i < n; i++) {
        int k = is_random() ? (int)rt_sandbox_random((uint64_t)i + 1) : i;
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int c = order[i];
        kernel(ptrs, dims, c ? ends[c - 1] : 0, ends[c]);
        if (i + 1 < n)
            rt_sandbox_yield(q, CALM);
    }
}

/* ---- what programs ask for ---------------------------------------------- */

static Queue *
asker(RtDevice *d, const char *what)
{
    Queue *q = rt_sandbox_current;
    if (!q || &q->sandbox->device != d)
        rt_sandbox_complain("%s is asked of %s by %s", what, d->name,
                            q ? q->sandbox->device.name : "the host");
    return q;
}

static void
program_parallel(RtDevice *d, TfdKernel *kernel, void *const *ptrs,
                 const int64_t *dims, int64_t count, int64_t grain)
{
    Queue *q = asker(d, "parallel");
    View before = q->view;
    rt_sandbox_see(q, VIEW_OWN);
    run_kernel(q, kernel, ptrs, dims, count, grain);
    rt_sandbox_see(q, before);
}

static void
program_copy_in(RtDevice *d, RtDevicePtr to, const void *from, size_t n)
{
    Queue *q = asker(d, "copy_in");
    View before = q->view;
    rt_sandbox_check_range(q->sandbox, "copy_in", to, n);
    rt_sandbox_see(q, VIEW_OWN);
    copy_bytes(q, rt_ptr_address(to), from, n);
    rt_sandbox_see(q, before);
}

static void
program_copy_out(RtDevice *d, void *to, RtDevicePtr from, size_t n)
{
    Queue *q = asker(d, "copy_out");
    View before = q->view;
    rt_sandbox_check_range(q->sandbox, "copy_out", from, n);
    rt_sandbox_see(q, VIEW_OWN);
    copy_bytes(q, to, rt_ptr_address(from), n);
    rt_sandbox_see(q, before);
}

static void
program_run(RtDevice *d, RtDeviceTask *task, void *data)
{
    Queue *q = asker(d, "run");
    View before = q->view;
    rt_sandbox_see(q, VIEW_ALL);
    task(data);
    rt_sandbox_see(q, before);
}

static void
program_launch(RtDevice *d, const RtKernelLaunch *l)
{
    Queue *q = asker(d, "launch");
    program_parallel(d, q->sandbox->code->kernels[l->kernel], l->ptrs, l->dims,
                     l->count, l->grain);
    rt_sandbox_yield(q, CALM);
}

static void
program_copy(RtDevice *d, void *to, const void *from, size_t n)
{
    Queue *q = asker(d, "copy");
    View before = q->view;
    rt_sandbox_see(q, VIEW_OWN);
    copy_bytes(q, to, from, n);
    rt_sandbox_see(q, before);
}

/* On a program's thread the memory is closed as for hooks. */
static int32_t
program_look(RtDevice *d)
{
    Queue *q = rt_sandbox_current;
    View before = q ? q->view : VIEW_NONE;
    if (q)
        rt_sandbox_see(q, VIEW_NONE);
    int32_t status = rt_device_look(d);
    if (q)
        rt_sandbox_see(q, before);
    return status;
}

static int32_t
program_load(RtDevice *d, void *word, const void *at, size_t n)
{
    program_copy(d, word, at, n);
    return program_look(d);
}

/* It has executed all of it. */
static RtEvent
program_record(RtDevice *d)
{
    asker(d, "record");
    return (RtEvent){0};
}

static void
program_wait_event(RtDevice *d, RtEvent e)
{
    asker(d, "wait_event");
    rt_event_wait(e);
}

const RtProgramOps rt_sandbox_program_ops = {
    .parallel = program_parallel,
    .copy_in = program_copy_in,
    .copy_out = program_copy_out,
    .run = program_run,
    .wait_word = rt_sandbox_wait_word,
    .launch = program_launch,
    .copy = program_copy,
    .store = program_copy,
    .load = program_load,
    .defer = rt_device_defer,
    .look = program_look,
    .record = program_record,
    .wait_event = program_wait_event,
};

/* ---- programs ----------------------------------------------------------- */

/* What a program sees between two hooks: one that enqueues its work is the
 * host's. */
static View
view_of_program(const Queue *q)
{
    return q->sandbox->code->enqueues ? VIEW_NONE : VIEW_OWN;
}

static int32_t
hook_op(TfdCall *call, int32_t index)
{
    Queue *q = rt_sandbox_current;
    rt_sandbox_clock_stop(q);
    rt_sandbox_see(q, VIEW_NONE);
    rt_sandbox_yield(q, LIVELY);
    int32_t end = q->hooks->op(call, index);
    rt_sandbox_yield(q, LIVELY);
    rt_sandbox_see(q, view_of_program(q));
    rt_sandbox_clock_run(q);
    return end;
}

/* Often, and only handed on to program_parallel: the memory stays open. */
static int32_t
hook_parallel(TfdCall *call, TfdKernel *kernel, void *const *ptrs,
              const int64_t *dims, int64_t count, int64_t grain)
{
    return rt_sandbox_current->hooks->parallel(call, kernel, ptrs, dims, count,
                                               grain);
}

static int32_t
hook_safepoint(TfdCall *call, int32_t index)
{
    Queue *q = rt_sandbox_current;
    rt_sandbox_see(q, VIEW_NONE);
    int32_t end = q->hooks->safepoint(call, index);
    rt_sandbox_see(q, view_of_program(q));
    return end;
}

/* Those of programs that enqueue their work go to the functions above, too. */
static int32_t
hook_launch(TfdCall *call, int32_t kernel, void *const *ptrs, int32_t num_ptrs,
            const int64_t *dims, int64_t items, int64_t grain)
{
    const TfdHooks *to = rt_sandbox_current->hooks;
    return to->launch(call, kernel, ptrs, num_ptrs, dims, items, grain);
}

static int32_t
hook_copy(TfdCall *call, void *to, const void *from, int64_t bytes)
{
    return rt_sandbox_current->hooks->copy(call, to, from, bytes);
}

static int32_t
hook_store(TfdCall *call, void *to, int64_t word, int32_t bytes)
{
    return rt_sandbox_current->hooks->store(call, to, word, bytes);
}

static int32_t
hook_load(TfdCall *call, int64_t *word, const void *from, int32_t bytes)
{
    return rt_sandbox_current->hooks->load(call, word, from, bytes);
}

static const TfdHooks hooks = {.abi = TFD_ABI,
                               .op = hook_op,
                               .parallel = hook_parallel,
                               .safepoint = hook_safepoint,
                               .launch = hook_launch,
                               .copy = hook_copy,
                               .store = hook_store,
                               .load = hook_load};

static void
set_hooks(TfdCall *first, const TfdHooks *to)
{
    for (TfdCall *c = first; c; c = c->next)
        c->hooks = to;
}

static void
run_program(Queue *q, RtProgramLaunch *l)
{
    const RtDeviceCode *code = q->sandbox->code;
    q->hooks = l->call->hooks;
    if (q->hooks)
        set_hooks(l->call, &hooks);
    rt_sandbox_see(q, view_of_program(q));
    rt_sandbox_clock_run(q);
    int32_t status = code->programs[l->program](l->call);
    rt_sandbox_clock_stop(q);
    rt_sandbox_see(q, VIEW_NONE);
    if (q->hooks)
        set_hooks(l->call, q->hooks);
    q->hooks = NULL;
    l->status = status;
}

/* ---- operations --------------------------------------------------------- */

static void
launch_kernel(Queue *q, const RtKernelLaunch *l)
{
    run_kernel(q, q->sandbox->code->kernels[l->kernel], l->ptrs, l->dims,
               l->count, l->grain);
}

/* A copy of memory that is not all the device's. */
static View
view_of_copy(const Queue *q, RtDevicePtr to, RtDevicePtr from)
{
    const RtDevice *d = &q->sandbox->device;
    return to.memory->device == d && from.memory->device == d ? VIEW_OWN
                                                              : VIEW_ALL;
}

/* The plan's kernels are about one device's memory, and those that collectives
 * launch about all that it reaches. */
static View
view_of(const Queue *q, const Op *op)
{
    switch (op->kind) {
    case DO_RUN:
        return VIEW_ALL;
    case DO_COPY:
        return view_of_copy(q, op->to, op->from);
    case DO_COPY_ROWS:
        return view_of_copy(q, op->rows.to, op->rows.from);
    case DO_KERNEL:
        return q->sandbox->reaches_others && q->kind == QUEUE_COLL ? VIEW_ALL
                                                                   : VIEW_OWN;
    case DO_COPY_IN:
    case DO_COPY_OUT:
    case DO_FILL:
        return VIEW_OWN;
    case DO_PROGRAM:
    case DO_CALL_HOST:
    case DO_WAIT_EVENT:
        break;
    }
    return VIEW_NONE;
}

static void
execute(Queue *q, const Op *op)
{
    switch (op->kind) {
    case DO_COPY_IN:
        copy_bytes(q, rt_ptr_address(op->to), op->host_from, op->n);
        break;
    case DO_COPY_OUT:
        copy_bytes(q, op->host_to, rt_ptr_address(op->from), op->n);
        break;
    case DO_COPY:
        copy_bytes(q, rt_ptr_address(op->to), rt_ptr_address(op->from), op->n);
        break;
    case DO_COPY_ROWS:
        copy_rows(q, &op->rows);
        break;
    case DO_FILL:
        memset(rt_ptr_address(op->to), op->byte, op->n);
        break;
    case DO_KERNEL:
        launch_kernel(q, op->kernel);
        break;
    case DO_PROGRAM:
        run_program(q, op->program);
        break;
    case DO_RUN:
        op->task(op->data);
        break;
    case DO_CALL_HOST:
        op->call(op->data);
        break;
    case DO_WAIT_EVENT: /* the order of turns sees to it */
        break;
    }
}

/* Whether q's device is lost, by TFD_SANDBOX=lost:N or an earlier operation. */
static bool
is_lost(Queue *q, const Op *op)
{
    RtDevice *d = &q->sandbox->device;
    unsigned long long n = atomic_fetch_add(&rt_sandbox_world.executed, 1) + 1;
    if ((double)n == rt_sandbox_world.options.lost)
        rt_device_fail(d,
                       "%s is lost: TFD_SANDBOX says so of operation %llu, "
                       "%s",
                       d->name, n, rt_sandbox_op_name(op->kind));
    return rt_device_has_failed(d);
}

void
rt_sandbox_execute(Queue *q, const Op *op)
{
    if (is_lost(q, op))
        return;
    q->op = op;
    check_unchanged(q, op);
    rt_sandbox_see(q, view_of(q, op));
    execute(q, op);
    q->view = VIEW_NONE;
    q->op = NULL;
    if (op->kind == DO_COPY_IN) /* others had their turn meanwhile */
        check_unchanged(q, op);
}
