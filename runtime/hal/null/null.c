/*
 * null.c - devices that take time and execute nothing
 *
 * An arena is a range of inaccessible addresses.  Copies to it are ignored,
 * copies from it give zeros.  A launch ends when the time that its program
 * would take on the model's machine is over; the code never runs, so it prints
 * nothing, asserts nothing and waits in no collective.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "ir/base/fail.h"
#include "runtime/hal/device.h"

typedef struct Program {
    TfdFunction *code;
    double seconds;
} Program;

typedef struct Null {
    RtDevice device;
    double (*clock)(void);
    Program *programs; /* in no order: a run has few */
    int num_programs;
    double end; /* of the last launch */
} Null;

static Null *
null_of(RtDevice *d)
{
    return (Null *)d;
}

/* ---- running ----------------------------------------------------------- */

static Status
null_set_seconds(RtDevice *d, TfdFunction *code, double seconds)
{
    Null *n = null_of(d);
    size_t bytes = ((size_t)n->num_programs + 1) * sizeof *n->programs;
    Program *all = fail_here(FAIL_ALLOC) ? NULL : realloc(n->programs, bytes);
    if (!all)
        return status_new(STATUS_MACHINE, "no memory for the programs of %s",
                          d->name);
    n->programs = all;
    n->programs[n->num_programs++] = (Program){code, seconds};
    return OK;
}

static double
seconds_of(const Null *n, TfdFunction *code)
{
    for (int i = 0; i < n->num_programs; i++)
        if (n->programs[i].code == code)
            return n->programs[i].seconds;
    return 0.0;
}

static void
null_launch(RtDevice *d, TfdFunction *code, TfdCall *call)
{
    Null *n = null_of(d);
    n->end = n->clock();
    for (; call; call = call->next) /* each replica takes the whole time */
        n->end += seconds_of(n, code);
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
null_wait(RtDevice *d, int32_t *status)
{
    Null *n = null_of(d);
    pause_for(n->end - n->clock());
    *status = 0;
    return n->clock() >= n->end;
}

static void
null_parallel(RtDevice *d, TfdKernel *kernel, void *const *ptrs,
              const int64_t *dims, int64_t count, int64_t grain)
{
    (void)d, (void)grain;
    kernel(ptrs, dims, 0, count); /* main's, on the host */
}

/* ---- memory ------------------------------------------------------------ */

static Status
null_reserve(RtDevice *d, size_t bytes, int num_replicas)
{
    size_t all;
    assert(num_replicas > 0 && !d->arena);
    if (bytes == 0)
        bytes = 1;
    bool fits = !__builtin_mul_overflow(bytes, num_replicas, &all);
    void *at = !fits || fail_here(FAIL_ALLOC)
                   ? MAP_FAILED
                   : mmap(NULL, all, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return status_new(STATUS_MACHINE,
                          "no addresses for the %zu bytes of %s", bytes,
                          d->name);
    d->arena = at;
    d->arena_stride = bytes;
    d->reserved = all;
    return OK;
}

static void
null_copy_in(RtDevice *d, void *to, const void *from, size_t n)
{
    (void)d, (void)to, (void)from, (void)n;
}

static void
null_copy_out(RtDevice *d, void *to, const void *from, size_t n)
{
    (void)d, (void)from;
    memset(to, 0, n);
}

/* ---- opening and closing ------------------------------------------------ */

static void
null_close(RtDevice *d)
{
    Null *n = null_of(d);
    if (d->arena)
        munmap(d->arena, d->reserved);
    free(n->programs);
    free(n);
}

const RtDeviceCaps rt_null_caps = {
    .max_arena_bytes = (size_t)1 << 42,
    .machine = &ir_machines[DEVICE_null],
};

static const RtDeviceOps null_ops = {
    .kind = "null",
    .close = null_close,
    .reserve = null_reserve,
    .copy_in = null_copy_in,
    .copy_out = null_copy_out,
    .launch = null_launch,
    .wait = null_wait,
    .parallel = null_parallel,
    .set_seconds = null_set_seconds,
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
    n->clock = config->clock;
    *out = &n->device;
    return OK;
}
