/*
 * device.h - devices, which run device programs
 *
 * A device has an arena for each of its replicas, which has the replica's
 * values at the offsets of the placed module; shared values are in the first.
 * It runs one launch of main at a time, in order.  A kind of device is a table
 * of functions.
 */
#ifndef TFD_RUNTIME_HAL_DEVICE_H
#define TFD_RUNTIME_HAL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include "ir/analysis/cost.h"
#include "ir/base/status.h"
#include "ir/plan/abi.h"

typedef struct RtDevice RtDevice;

typedef struct RtDeviceOps {
    const char *kind; /* "cpu" */
    /* Ends the current launch, and frees the device's memory. */
    void (*close)(RtDevice *d);
    /* Allocates an arena for each of that many replicas: zeros, aligned to 4
     * KB.  Only touched pages take memory.  Called once. */
    Status (*reserve)(RtDevice *d, size_t bytes, int num_replicas);
    /* Between the host's memory and the arena, while nothing runs. */
    void (*copy_in)(RtDevice *d, void *to, const void *from, size_t n);
    void (*copy_out)(RtDevice *d, void *to, const void *from, size_t n);
    /* Begins code(call).  A device may leave the work to wait. */
    void (*launch)(RtDevice *d, TfdFunction *code, TfdCall *call);
    /* Whether it has ended, after waiting at most a tenth of a second; sets the
     * status that it returned. */
    bool (*wait)(RtDevice *d, int32_t *status);
    /* Runs kernel on 0 .. count, in ranges of at least grain, on the threads of
     * the device; called by the running program. */
    void (*parallel)(RtDevice *d, TfdKernel *kernel, void *const *ptrs,
                     const int64_t *dims, int64_t count, int64_t grain);
    /* How long code would take on caps.machine; before it is launched.  NULL
     * where caps.machine is. */
    Status (*set_seconds)(RtDevice *d, TfdFunction *code, double seconds);
} RtDeviceOps;

/* The properties of all devices of a kind, and their limits. */
typedef struct RtDeviceCaps {
    bool uses_host_memory;  /* arenas count as memory of this machine */
    size_t max_arena_bytes; /* of a device */
    /* The machine whose time launches take; NULL: launches are executed. */
    const IrMachine *machine;
} RtDeviceCaps;

struct RtDevice {
    const RtDeviceOps *ops;
    const RtDeviceCaps *caps;
    const char *name;    /* "cpu:0" */
    char *arena;         /* the first replica's, which has the shared values */
    size_t arena_stride; /* to the next replica's */
    size_t reserved;     /* bytes of all arenas */
};

/* The part of the machine that a device gets. */
typedef struct RtDeviceConfig {
    const char *name; /* lasts as long as the device */
    int num_threads;  /* with the one that issues its work */
    bool spin;
    bool on_caller;        /* the thread that calls wait is the one */
    double (*clock)(void); /* seconds, for all waits */
} RtDeviceConfig;

/* hal/cpu: a virtual device with memory of its own and some threads. */
extern const RtDeviceCaps rt_cpu_caps;
Status rt_cpu_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;

/* hal/null: takes time and executes nothing. */
extern const RtDeviceCaps rt_null_caps;
Status rt_null_open(const RtDeviceConfig *config, RtDevice **out) MUST_USE;

#endif
