/*
 * devices.h - lists of devices: "cpu:0-3", "cpu:0,cpu:2"
 */
#ifndef TFD_FRONTEND_DIST_DEVICES_H
#define TFD_FRONTEND_DIST_DEVICES_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/vec.h"

enum { FE_MAX_DEVICES = 1024 };

typedef struct FeDevice {
    const char *kind; /* "cpu", "gpu" */
    int index;
} FeDevice;

typedef VEC(FeDevice) FeDevices;

/* Reads a list.  NULL on success, else what is wrong with it, in words. */
const char *fe_devices_parse(Arena *a, const char *text, FeDevices *out);
/* The same list as short as it can be written: "cpu:0-3". */
const char *fe_devices_text(Arena *a, const FeDevices *devices);

#endif
