/*
 * recorder.c - times that compiled code spends at its positions
 */
#include "runtime/profile/recorder.h"

#include <string.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "runtime/exec/run_state.h"

/* Of a trace: 16 bytes each, for main and for each device. */
enum { MOST_MARKS = 1 << 16 };

/* The time stamp counts at one rate on all cores. */
static uint64_t
now(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)(1e9 * clock_seconds());
#endif
}

/* The time until `at` was that of the current position; slot's begins, or that
 * between functions (-1). */
static void
reach(RtRecorder *r, uint64_t at, int32_t slot)
{
    r->current->ticks += at - r->last;
    r->last = at;
    r->current = slot >= 0 ? &r->slots[slot] : &r->idle;
    r->current->calls++;
    if (r->num_marks < r->max_marks)
        r->marks[r->num_marks++] = (RtMark){at, slot};
}

static void
mark(TfdCall *call, int32_t position)
{
    const RtInvocation *inv = call->context;
    RtRecorder *r = inv->executor->recorder;
    if (!r) /* of a replica of another process */
        return;
    uint64_t at = now();
    bool is_position = position >= 0 && position < inv->fn->positions.len;
    reach(r, at, is_position ? inv->fn->first_slot + position : -1);
}

/* Kernels that ran together share the time since the mark of the first as they
 * do the time of all threads; that of the last ends with the next mark. */
static void
share(TfdCall *call, int32_t position, int32_t num, const int64_t *ticks)
{
    const RtInvocation *inv = call->context;
    RtRecorder *r = inv->executor->recorder;
    if (!r || position < 0 || num > inv->fn->positions.len - position)
        return;
    double all = 1, so_far = 0;
    uint64_t begin = r->last, spent = now() - begin;
    for (int i = 0; i < num; i++)
        all += (double)ticks[i];
    for (int i = 1; i < num; i++) {
        so_far += (double)ticks[i - 1];
        uint64_t at = begin + (uint64_t)((double)spent * so_far / all);
        reach(r, at, inv->fn->first_slot + position + i);
    }
}

/* ---- programs that enqueue their work ------------------------------------ */

/* A device that executes later takes the time itself. */
static void
begin_time(const TfdCall *call)
{
    const RtInvocation *inv = call->context;
    RtRecorder *r = inv->executor->recorder;
    int32_t at = atomic_load_explicit(&call->at, memory_order_relaxed);
    if (!r || inv->fn->ir->kind != FUNC_PROGRAM || at < 0 ||
        at >= inv->fn->positions.len)
        return;
    RtDevice *d = inv->executor->device;
    RtTimes *t = &r->slots[inv->fn->first_slot + at];
    t->calls++;
    d->ops->program->begin_time(d, &t->ticks);
}

static int32_t
launch(TfdCall *call, int32_t kernel, void *const *ptrs, int32_t num_ptrs,
       const int64_t *dims, int64_t items, int64_t grain)
{
    const RtInvocation *inv = call->context;
    begin_time(call);
    return inv->executor->run->profile->run->launch(
        call, kernel, ptrs, num_ptrs, dims, items, grain);
}

static void
read_times(const RtRun *run)
{
    for (int i = 0; i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        if (!rt_device_has_failed(d))
            d->ops->program->read_times(d);
    }
}

/* When main has launched a program all devices have executed it. */
static int32_t
run_op(TfdCall *call, int32_t index)
{
    const RtInvocation *inv = call->context;
    const RtRun *run = inv->executor->run;
    begin_time(call);
    int32_t status = run->profile->run->op(call, index);
    if (inv->fn->ir->kind == FUNC_MAIN &&
        inv->fn->ops[index].op->kind == OP_launch)
        read_times(run);
    return status;
}

/* ---- opening ------------------------------------------------------------- */

static void
init_recorder(RtRun *run, RtRecorder *r)
{
    size_t n = (size_t)run->profile->num_slots;
    r->slots = NEW_ARRAY(run->arena, RtTimes, n);
    r->first = NEW_ARRAY(run->arena, RtTimes, n);
    r->current = &r->idle;
    if (run->options->profile_trace)
        r->marks = NEW_ARRAY(run->arena, RtMark, MOST_MARKS);
}

/* The positions of all functions, one after the other. */
static int
number_slots(const RtRun *run)
{
    int num = 0;
    for (int i = 0; i < map_count(run->fns); i++) {
        RtFunction *fn = map_value(run->fns, i);
        fn->first_slot = num;
        num += fn->positions.len;
    }
    return num;
}

/* A CPU device that executes programs as a whole, or a GPU. */
static bool
takes_times(const RtRun *run)
{
    const RtDeviceCaps *caps = run->caps;
    return run->enqueues ? caps->enqueues_programs : caps->is_host_visible;
}

static Status
check_devices(const RtRun *run)
{
    const char *name = ir_device_name(run->arena, run->device_list.data[0]);
    if (!takes_times(run))
        return status_new(STATUS_USAGE,
                          "--profile times the kernels of CPU devices and "
                          "GPUs, and %s is none",
                          name);
    if (run->enqueues && run->options->profile_trace)
        return status_new(STATUS_USAGE,
                          "--profile=%s: what ran when is known of CPU devices "
                          "alone, and %s is none; a .json file has its tables",
                          run->options->profile_trace, name);
    return OK;
}

/* Not when all of a long run has been timed. */
static Status
check_file(const RtRun *run)
{
    const RtOptions *o = run->options;
    const char *path = o->profile_json ? o->profile_json : o->profile_trace;
    return path && rt_is_chief(run) ? file_check_write(path) : OK;
}

Status
rt_profile_open(RtRun *run)
{
    TRY(check_devices(run));
    TRY(check_file(run));
    RtProfile *p = NEW(run->arena, RtProfile);
    run->profile = p;
    p->run = run->hooks;
    p->hooks = *run->hooks;
    p->hooks.mark = mark;
    p->hooks.share = share;
    if (run->enqueues) {
        p->hooks.launch = launch;
        p->hooks.op = run_op;
    }
    run->hooks = &p->hooks;
    p->num_slots = number_slots(run);
    p->devices = NEW_ARRAY(run->arena, RtRecorder, (size_t)run->num_devices);
    init_recorder(run, &p->main);
    for (int i = 0; i < run->num_devices; i++)
        init_recorder(run, &p->devices[i]);
    return OK;
}

void
rt_profile_begin(RtRun *run)
{
    RtProfile *p = run->profile;
    p->begin_seconds = clock_seconds();
    p->begin = now();
    p->main.last = p->begin;
}

/* A step has ended, so no device executes anything. */
static void
keep_first_step(const RtRun *run, RtRecorder *r)
{
    memcpy(r->first, r->slots,
           (size_t)run->profile->num_slots * sizeof(RtTimes));
    r->max_marks = r->marks ? MOST_MARKS : 0; /* traces begin here */
}

void
rt_profile_step(RtRun *run)
{
    RtProfile *p = run->profile;
    p->last_end = now();
    if (++p->steps > 1)
        return;
    p->first_end = p->last_end;
    keep_first_step(run, &p->main);
    for (int i = 0; i < run->num_devices; i++)
        keep_first_step(run, &p->devices[i]);
}

void
rt_profile_end(RtRun *run)
{
    RtProfile *p = run->profile;
    p->seconds_a_tick =
        (clock_seconds() - p->begin_seconds) / (double)(now() - p->begin);
    p->device_tick = run->enqueues ? 1e-9 : p->seconds_a_tick;
}
