/*
 * cpu.c - virtual devices of the CPU
 *
 * A device has a thread that runs launches, and a pool of workers that help
 * with the kernels.  One device of a run may use the thread of main, which has
 * nothing else to do while it waits: with one device there is no second thread
 * to hand work to.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "ir/base/fail.h"
#include "ir/base/thread.h"
#include "runtime/hal/cpu/pool.h"
#include "runtime/hal/cpu/wait.h"
#include "runtime/hal/device.h"

enum {
    PAGE_BYTES = 4096,
    HUGE_BYTES = 4 << 20 /* arenas that get huge pages */
};

typedef struct Cpu {
    RtDevice device;
    RtPool *pool;
    bool spin, on_caller;
    bool has_thread;
    pthread_t thread;
    atomic_bool closing;
    RtWaitWord launched; /* numbers of launches: begun, ended */
    RtWaitWord ended;
    TfdFunction *code; /* of the last launch */
    TfdCall *call;
    int32_t status;
} Cpu;

static Cpu *
cpu_of(RtDevice *d)
{
    return (Cpu *)d;
}

/* ---- running ----------------------------------------------------------- */

static void
run_launched(Cpu *c)
{
    c->status = c->code(c->call);
    rt_wait_word_add(&c->ended, 1);
}

static void *
serve(void *data)
{
    Cpu *c = data;
    uint32_t seen = 0;
    for (;;) {
        uint32_t launched = rt_wait_word_wait(&c->launched, seen, c->spin);
        if (atomic_load(&c->closing))
            return NULL;
        if (launched != seen)
            run_launched(c);
        seen = launched;
    }
}

static void
cpu_launch(RtDevice *d, TfdFunction *code, TfdCall *call)
{
    Cpu *c = cpu_of(d);
    assert(rt_wait_word_load(&c->ended) == rt_wait_word_load(&c->launched));
    c->code = code;
    c->call = call;
    rt_wait_word_add(&c->launched, 1);
}

static bool
cpu_wait(RtDevice *d, int32_t *status)
{
    Cpu *c = cpu_of(d);
    uint32_t target = rt_wait_word_load(&c->launched);
    uint32_t ended = rt_wait_word_load(&c->ended);
    if (ended != target && c->on_caller) {
        run_launched(c);
        ended = target;
    } else if (ended != target) {
        ended = rt_wait_word_wait(&c->ended, ended, c->spin);
    }
    if (ended != target)
        return false;
    *status = c->status;
    return true;
}

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

/* ---- memory ------------------------------------------------------------ */

/* Huge pages for the first arena: only parts of the others are touched. */
static Status
cpu_reserve(RtDevice *d, size_t bytes, int num_replicas)
{
    size_t stride = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, all;
    stride = stride ? stride : PAGE_BYTES;
    assert(num_replicas > 0 && !d->arena);
    bool fits = !__builtin_mul_overflow(stride, num_replicas, &all);
    void *at = !fits || fail_here(FAIL_ALLOC)
                   ? MAP_FAILED
                   : mmap(NULL, all, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return status_new(STATUS_MACHINE, "no memory for the %zu bytes of %s",
                          bytes, d->name);
    if (bytes >= HUGE_BYTES)
        madvise(at, stride, MADV_HUGEPAGE);
    d->arena = at;
    d->arena_stride = stride;
    d->reserved = all;
    return OK;
}

static void
cpu_copy(RtDevice *d, void *to, const void *from, size_t n)
{
    (void)d;
    memcpy(to, from, n);
}

/* ---- opening and closing ------------------------------------------------ */

static void
cpu_close(RtDevice *d)
{
    Cpu *c = cpu_of(d);
    if (c->has_thread) {
        atomic_store(&c->closing, true);
        rt_wait_word_add(&c->launched, 1);
        pthread_join(c->thread, NULL);
    }
    rt_pool_close(c->pool);
    if (d->arena)
        munmap(d->arena, d->reserved);
    free(c);
}

const RtDeviceCaps rt_cpu_caps = {
    .uses_host_memory = true,
    .max_arena_bytes = (size_t)1 << 46,
};

static const RtDeviceOps cpu_ops = {
    .kind = "cpu",
    .close = cpu_close,
    .reserve = cpu_reserve,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .launch = cpu_launch,
    .wait = cpu_wait,
    .parallel = cpu_parallel,
};

static Status
start(Cpu *c, int num_threads)
{
    TRY(rt_pool_open(num_threads, c->spin, &c->pool));
    if (c->on_caller)
        return OK;
    TRY(thread_start(&c->thread, serve, c, c->device.name));
    c->has_thread = true;
    return OK;
}

Status
rt_cpu_open(const RtDeviceConfig *config, RtDevice **out)
{
    Cpu *c =
        fail_here(FAIL_ALLOC) ? NULL : aligned_alloc(CACHE_LINE, sizeof *c);
    if (!c)
        return status_new(STATUS_MACHINE, "no memory for %s", config->name);
    memset(c, 0, sizeof *c);
    c->device =
        (RtDevice){.ops = &cpu_ops, .caps = &rt_cpu_caps, .name = config->name};
    c->spin = config->spin;
    c->on_caller = config->on_caller;
    Status st = start(c, config->num_threads);
    if (st) {
        cpu_close(&c->device);
        return st;
    }
    *out = &c->device;
    return OK;
}
