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
} RtDriver;

/* The driver of a kind; NULL: this program has none. */
const RtDriver *rt_driver_find(IrDeviceKind kind);

#endif
