/*
 * devices.c - the driver, its devices and their contexts
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

enum { PROCESSORS = 4 };

/* ---- the driver and its devices ------------------------------------------ */

EXPORT
cuInit(unsigned int flags)
{
    ENTER(ANYTIME);
    fake_world.is_initialised = fake_world.options.devices > 0;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_world.is_initialised ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT
cuDriverGetVersion(int *version)
{
    ENTER(ANYTIME);
    *version = fake_world.options.version;
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    long long value;
} known_values[] = {
#define CUDA_VALUE(kind, name, value) {#name, value},
#include "runtime/hal/cuda/driver.def"
#undef CUDA_VALUE
};

EXPORT
cuGetErrorName(CUresult error, const char **text)
{
    ENTER(ANYTIME);
    for (size_t i = 0; i < sizeof known_values / sizeof *known_values; i++)
        if (known_values[i].value == (long long)error &&
            strncmp(known_values[i].name, "CUDA_ERROR", 10) == 0) {
            *text = known_values[i].name;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT
cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    ENTER(ANYTIME);
    *text = "the fake driver says so";
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetCount(int *num)
{
    ENTER(INITIALISED);
    *num = fake_world.options.devices;
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(INITIALISED);
    if (ordinal < 0 || ordinal >= fake_world.options.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

static bool
is_device(CUdevice device)
{
    return device >= 0 && device < fake_world.options.devices;
}

EXPORT
cuDeviceGetName(char *name, int len, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device) || len <= 0)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

EXPORT
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = PROCESSORS;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *value = fake_world.options.pitch;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 1000 * 1000; /* kHz */
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 1024;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = fake_most_shared();
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake_world.options.capability / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake_world.options.capability % 10;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = fake_world.options.memory;
    return CUDA_SUCCESS;
}

/* ---- contexts ------------------------------------------------------------ */

int
fake_num_retained(void)
{
    int num = 0;
    for (int i = 0; i < MAX_DEVICES; i++)
        num += fake_world.devices[i].retained;
    return num;
}

EXPORT
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(INITIALISED);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_world.devices[device].retained++;
    *context = &fake_world.devices[device].context;
    return CUDA_SUCCESS;
}

/* What a device that was not given back by request still has. */
static void
check_left(const Device *d)
{
    if (fake_num_pending((CUcontext)&d->context))
        fake_complain("the context of device %d is released while %d "
                      "operations are pending",
                      d->number, fake_num_pending((CUcontext)&d->context));
    if (d->streams + d->events + d->modules + d->memories + d->pinned +
        d->graphs)
        fake_complain("the context of device %d is released with %d streams, "
                      "%d events, %d modules, %d allocations, %d of pinned "
                      "memory and %d graphs",
                      d->number, d->streams, d->events, d->modules, d->memories,
                      d->pinned, d->graphs);
}

EXPORT
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(RELEASES);
    if (!is_device(device) || !fake_world.devices[device].retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--fake_world.devices[device].retained == 0) {
        check_left(&fake_world.devices[device]);
        fake_world.devices[device].peers = 0;
    }
    if (fake_num_retained() == 0)
        fake_forget_options();
    return CUDA_SUCCESS;
}

static bool
can_access(int device, int peer)
{
    return device != peer && !fake_world.options.no_peers &&
           abs(device - peer) <= fake_world.options.near;
}

EXPORT
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(INITIALISED);
    if (!is_device(device) || !is_device(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = can_access(device, peer);
    return CUDA_SUCCESS;
}

EXPORT
cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER(CONTEXT);
    Device *d = fake_current->device;
    uint64_t bit = (uint64_t)1 << peer->device->number;
    if (flags || !can_access(d->number, peer->device->number))
        return CUDA_ERROR_INVALID_VALUE;
    if (!peer->device->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (d->peers & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (__builtin_popcountll(d->peers) >= fake_world.options.peers)
        return CUDA_ERROR_TOO_MANY_PEERS;
    d->peers |= bit;
    return CUDA_SUCCESS;
}

EXPORT
cuCtxSetCurrent(CUcontext context)
{
    ENTER(INITIALISED);
    if (context && !context->device->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_current = context;
    return CUDA_SUCCESS;
}
