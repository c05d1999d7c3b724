/*
 * driver.c - the kinds of devices that this program can open
 */
#include "runtime/hal/registry/driver.h"

#include <assert.h>

static const RtDriver plain_sandbox = {
    DEVICE_sandbox, &rt_sandbox_plain_caps, rt_sandbox_open, NULL, NULL, NULL};
static const RtDriver drivers[] = {
    {DEVICE_cpu, &rt_cpu_caps, rt_cpu_open, NULL, NULL, NULL},
    {DEVICE_cuda, &rt_cuda_caps, rt_cuda_open, rt_cuda_level, rt_cuda_describe,
     rt_cuda_count},
    {DEVICE_null, &rt_null_caps, rt_null_open, NULL, NULL, NULL},
    {DEVICE_sandbox, &rt_sandbox_caps, rt_sandbox_open, NULL, NULL, NULL},
};

/* Tests ask for sandbox devices in the place, and under the names, of CPU
 * devices, and for ones without engines. */
const RtDriver *
rt_driver_find(IrDeviceKind kind)
{
    if (kind == DEVICE_cpu && rt_sandbox_replaces_cpu())
        kind = DEVICE_sandbox;
    if (kind == DEVICE_sandbox && rt_sandbox_has_one_queue())
        return &plain_sandbox;
    const RtDriver *found = NULL;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (drivers[i].kind == kind)
            found = &drivers[i];
    assert(found);
    return found;
}
