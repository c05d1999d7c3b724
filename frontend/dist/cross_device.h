/*
 * cross_device.h - cross-device operations: "hierarchical_copy:packs=2"
 */
#ifndef TFD_FRONTEND_DIST_CROSS_DEVICE_H
#define TFD_FRONTEND_DIST_CROSS_DEVICE_H

#include "ir/base/arena.h"
#include "ir/ops/op.h"

typedef struct FeCrossDevice {
    IrAlgorithm algorithm;
    int packs; /* 1 unless said; 0: a pack for each value */
} FeCrossDevice;

/* Reads a name, in any case, and how many packs it is to make.  NULL on
 * success, else the error as text. */
const char *fe_cross_device_parse(Arena *a, const char *text,
                                  FeCrossDevice *out);

#endif
