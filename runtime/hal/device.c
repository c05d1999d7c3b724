/*
 * device.c - what devices of all kinds have in common: failures, and waits and
 * copies of the host, for which it has nothing else to do
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
