/*
 * streams.c - streams and events
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

enum { NOT_YET = 2 /* of so many questions one is told to wait */ };

/* ---- streams and events -------------------------------------------------- */

EXPORT
cuStreamCreate(CUstream *stream, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags != CU_STREAM_NON_BLOCKING)
        fake_complain("%s of a stream that the default stream waits for",
                      __func__);
    CUstream s = fake_alloc(sizeof *s);
    s->context = fake_current;
    fake_open_slot(s);
    fake_current->device->streams++;
    *stream = s;
    return CUDA_SUCCESS;
}

static bool
has_pending(CUstream s)
{
    bool has = s->first != NULL;
    for (int i = 0; i < MAX_CHAINS; i++)
        has |= s->branches[i] && s->branches[i]->first;
    return has;
}

EXPORT
cuStreamDestroy_v2(CUstream stream)
{
    ENTER(GIVES_BACK);
    fake_check_context(__func__, stream->context, "a stream");
    if (has_pending(stream) && !fake_may_leave_work())
        fake_complain("%s of a stream with pending operations", __func__);
    if (stream->capture && !fake_may_leave_work())
        fake_complain("%s of a stream that captures", __func__);
    for (int i = 0; i < MAX_CHAINS; i++)
        if (stream->branches[i]) {
            fake_close_slot(stream->branches[i]);
            free(stream->branches[i]);
        }
    fake_end_part(stream);
    fake_close_slot(stream);
    stream->context->device->streams--;
    free(stream);
    return failed;
}

EXPORT
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    fake_check_context(__func__, stream->context, "a stream");
    if (stream->capture || event->capture)
        return fake_capture_wait(stream, event);
    fake_join(stream->clock, event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventCreate(CUevent *event, unsigned int flags)
{
    ENTER(CONTEXT);
    if (flags != CU_EVENT_DISABLE_TIMING && flags != CU_EVENT_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    CUevent e = fake_alloc(sizeof *e);
    e->takes_time = flags == CU_EVENT_DEFAULT;
    e->context = fake_current;
    fake_current->device->events++;
    *event = e;
    return CUDA_SUCCESS;
}

EXPORT
cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, event->context, "an event");
    if (stream && stream->capture && event->takes_time)
        fake_complain("%s of an event that takes the time, in a capture",
                      __func__);
    if (stream && stream->capture)
        return fake_capture_record(event, stream);
    fake_enqueue(
        __func__, stream,
        (Op){.kind = OP_NOTHING, .event = event->takes_time ? event : NULL});
    event->capture = 0;
    event->at = (Mark){stream->slot, stream->clock[stream->slot]};
    memcpy(event->clock, stream->clock, sizeof event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventQuery(CUevent event)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, event->context, "an event");
    if (event->capture)
        return fake_ask_captured(event);
    CUresult wrong = fake_forbid_in_capture();
    if (wrong)
        return wrong;
    if (!fake_has_happened(event->at) && fake_random(NOT_YET) == 0)
        return CUDA_ERROR_NOT_READY;
    fake_run_until(event->at, event->clock);
    if (!fake_has_happened(event->at))
        return CUDA_ERROR_NOT_READY;
    fake_join(fake_world.seen, event->clock);
    return CUDA_SUCCESS;
}

EXPORT
cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, begin->context, "an event");
    fake_check_context(__func__, end->context, "an event");
    if (!begin->takes_time || !end->takes_time || !begin->at.number ||
        !end->at.number)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!fake_has_happened(begin->at) || !fake_has_happened(end->at))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(1e3 * (end->seconds - begin->seconds));
    return CUDA_SUCCESS;
}

EXPORT
cuEventDestroy_v2(CUevent event)
{
    ENTER(GIVES_BACK);
    fake_check_context(__func__, event->context, "an event");
    event->context->device->events--;
    if (event->takes_time && !fake_has_happened(event->at))
        event->is_destroyed = true;
    else
        free(event);
    return failed;
}
