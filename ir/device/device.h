/*
 * device.h - kinds of devices, and lists of devices: "cpu:0-3", "cpu:0,cpu:2"
 *
 * A kind may have several names in lists ("gpu:0" is "cuda:0"); what is printed
 * has the one of kinds.def.
 *
 * Both programs read the same lists: tfdc makes a plan for the devices, tfd-run
 * opens them.
 */
#ifndef TFD_IR_DEVICE_DEVICE_H
#define TFD_IR_DEVICE_DEVICE_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/vec.h"

enum { IR_MAX_DEVICES = 1024 }; /* of a plan */

typedef enum IrDeviceKind {
#define DEVICE_KIND(name, max, doc) DEVICE_##name,
#include "ir/device/kinds.def"
#undef DEVICE_KIND
    NUM_DEVICE_KINDS
} IrDeviceKind;

typedef struct IrDeviceKindInfo {
    const char *name;
    int max_devices;
    const char *doc;
} IrDeviceKindInfo;

extern const IrDeviceKindInfo ir_device_kinds[NUM_DEVICE_KINDS];

typedef struct IrDevice {
    IrDeviceKind kind;
    int index;
} IrDevice;

typedef VEC(IrDevice) IrDevices;

/* Reads a list, in which each device is once.  NULL on success, else the error,
 * in a. */
const char *ir_devices_parse(Arena *a, const char *text, IrDevices *out);
/* The list in its shortest form: "cpu:0-3". */
const char *ir_devices_text(Arena *a, const IrDevices *devices);
/* "cpu:3", in a. */
const char *ir_device_name(Arena *a, IrDevice d);
/* Whether a list that was read has a device of the kind. */
bool ir_devices_have(const char *text, IrDeviceKind kind);

#endif
