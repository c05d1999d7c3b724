/*
 * device.c - waits and copies of the host, for which it has nothing else to do
 */
#include "runtime/hal/device.h"

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
