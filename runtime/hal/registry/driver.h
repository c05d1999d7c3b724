/*
 * driver.h - the kinds of devices that this program can open
 *
 * A driver is a folder beside this one: it opens devices of one kind of
 * ir/device/kinds.def, and gives their properties.
 */
#ifndef TFD_RUNTIME_HAL_REGISTRY_DRIVER_H
#define TFD_RUNTIME_HAL_REGISTRY_DRIVER_H

#include "ir/device/device.h"
#include "runtime/hal/device.h"

typedef struct RtDriver {
    IrDeviceKind kind;
    const RtDeviceCaps *caps;
    Status (*open)(const RtDeviceConfig *config, RtDevice **out);
    /* The level of the code that a device runs (ir/plan/target.h), and what is
     * to be said of it; NULL: any code, and what kinds.def says.  name is for
     * messages. */
    Status (*level)(const char *name, int index, int *out);
    Status (*describe)(const char *name, int index, Str *out, bool *there_is);
    /* How many there are, of which no two processes use one; NULL: it does not
     * matter. */
    Status (*count)(const char *name, int *out);
} RtDriver;

/* The driver of a kind. */
const RtDriver *rt_driver_find(IrDeviceKind kind);

#endif
