/*
 * recorder.c - times that compiled code spends at its positions
 */
#include "runtime/profile/recorder.h"

#include <string.h>
#include "runtime/exec/run_state.h"
#include "runtime/hal/wait.h"

/* Of a trace: 16 bytes each, for main and for each device. */
enum { MOST_MARKS = 1 << 16 };

/* The time stamp counts at one rate on all cores. */
static uint64_t
now(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)(1e9 * rt_seconds());
#endif
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
    int32_t slot = is_position ? inv->fn->first_slot + position : -1;
    r->current->ticks += at - r->last;
    r->last = at;
    r->current = is_position ? &r->slots[slot] : &r->idle;
    r->current->calls++;
    if (r->num_marks < r->max_marks)
        r->marks[r->num_marks++] = (RtMark){at, slot};
}

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

Status
rt_profile_open(RtRun *run)
{
    if (run->enqueues || run->caps->machine)
        return status_new(STATUS_USAGE,
                          "--profile times the kernels of CPU devices, and %s "
                          "is none: docs/profile.md says how others are "
                          "profiled",
                          ir_device_name(run->arena, run->device_list.data[0]));
    RtProfile *p = NEW(run->arena, RtProfile);
    run->profile = p;
    p->hooks = *run->hooks;
    p->hooks.mark = mark;
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
    p->begin_seconds = rt_seconds();
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
        (rt_seconds() - p->begin_seconds) / (double)(now() - p->begin);
}
