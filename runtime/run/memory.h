/*
 * memory.h - the memory that a run needs
 */
#ifndef TFD_RUNTIME_RUN_MEMORY_H
#define TFD_RUNTIME_RUN_MEMORY_H

#include <stdint.h>
#include "ir/base/status.h"

typedef struct RtDevice RtDevice;
typedef struct RtRun RtRun;

/* In bytes, as far as it is known. */
typedef struct RtFootprint {
    int64_t arenas, frame, data;
    int64_t copy; /* of a checkpoint */
    int64_t all;
} RtFootprint;

/* As messages have them: 10^6 bytes. */
double rt_megabytes(int64_t bytes);
RtFootprint rt_memory_footprint(const RtRun *run);
/* An error if it is not available: of the host; of a device that has memory of
 * its own, once it is open. */
Status rt_check_memory(const RtRun *run) MUST_USE;
Status rt_check_device_memory(const RtRun *run, RtDevice *d) MUST_USE;

#endif
