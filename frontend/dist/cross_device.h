/*
 * cross_device.h - cross-device operations: "hierarchical_copy:packs=2",
 * "reduction_to_one:reduce_to_device=cpu:1"
 */
#ifndef TFD_FRONTEND_DIST_CROSS_DEVICE_H
#define TFD_FRONTEND_DIST_CROSS_DEVICE_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/device/device.h"
#include "ir/ops/op.h"

typedef struct FeCrossDevice {
    IrAlgorithm algorithm;
    int packs; /* 1 unless said; 0: a pack for each value */
    bool has_device;
    IrDevice device; /* that combines; else the first */
    int root;        /* the replica on it, when that is known */
} FeCrossDevice;

/* Reads a name, in any case, and what is said of it.  NULL on success, else the
 * error as text. */
const char *fe_cross_device_parse(Arena *a, const char *text,
                                  FeCrossDevice *out);

#endif
