/*
 * device.c - what devices of all kinds have in common: failures, waits and
 * copies of the host, for which it has nothing else to do, and what programs
 * leave to the host
 */
#include "runtime/hal/device.h"

#include <stdarg.h>
#include "ir/base/message.h"

void
rt_device_fail(RtDevice *d, const char *format, ...)
{
    int works = WORKS;
    if (!atomic_compare_exchange_strong(&d->failed, &works, IS_FAILING))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(d->failure, sizeof d->failure, format, args);
    va_end(args);
    message_said(format, d->failure);
    atomic_store(&d->failed, HAS_FAILED);
}

bool
rt_device_has_failed(const RtDevice *d)
{
    return atomic_load_explicit(&d->failed, memory_order_acquire) == HAS_FAILED;
}

Status
rt_device_status(const RtDevice *d)
{
    return rt_device_has_failed(d)
               ? status_new(STATUS_MACHINE, "%s", message_part(d->failure))
               : OK;
}

int32_t
rt_device_look(RtDevice *d)
{
    return rt_deferrals_look(d->deferrals);
}

size_t
rt_parts_bytes(const RtDevicePart *parts, int num_parts)
{
    size_t sum = 0;
    for (int i = 0; i < num_parts; i++)
        sum += on_lines(parts[i].n);
    return sum;
}

int32_t
rt_device_defer(RtDevice *d, const RtDeferred *item, const RtDevicePart *parts,
                int num_parts)
{
    size_t bytes = rt_parts_bytes(parts, num_parts);
    int32_t status =
        rt_deferrals_fit(d->deferrals, bytes) ? 0 : d->ops->program->look(d);
    if (status)
        return status;
    char *to = rt_deferrals_add(d->deferrals, item, bytes);
    for (int i = 0; i < num_parts; i++) {
        d->ops->program->copy_out(d, to, parts[i].at, parts[i].n);
        to += on_lines(parts[i].n);
    }
    return 0;
}

void
rt_event_wait(RtEvent e)
{
    while (e.queue && !e.queue->device->ops->wait(e))
        ;
}

void
rt_copy_in(RtDevicePtr to, const void *from, size_t n)
{
    RtDevice *d = to.memory->device;
    RtQueue *q = d->queues[QUEUE_COMPUTE];
    d->ops->copy_in(q, to, from, n);
    rt_event_wait(d->ops->record(q));
}

void
rt_copy_out(void *to, RtDevicePtr from, size_t n)
{
    RtDevice *d = from.memory->device;
    RtQueue *q = d->queues[QUEUE_COMPUTE];
    d->ops->copy_out(q, to, from, n);
    rt_event_wait(d->ops->record(q));
}
