/*
 * peaks.h - the most that a device can do, measured
 *
 * What a kernel reached says little without it: 40 billion operations a second
 * are good on two cores and poor on sixty-four.
 */
#ifndef TFD_RUNTIME_PROFILE_PEAKS_H
#define TFD_RUNTIME_PROFILE_PEAKS_H

#include "runtime/hal/device.h"

typedef struct RtPeaks {
    double operations; /* of f32 in a second, by multiply-adds in registers */
    double bytes;      /* read from memory in a second */
} RtPeaks;

/* Measures device d, which executes nothing else, with all of its threads; in
 * some hundredths of a second. */
RtPeaks rt_measure_peaks(RtDevice *d);

#endif
