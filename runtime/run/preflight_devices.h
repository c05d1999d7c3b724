/*
 * preflight_devices.h - --preflight: how fast devices reach each other, where
 * messages go from device to device and not through the processes (NCCL)
 */
#ifndef TFD_RUNTIME_RUN_PREFLIGHT_DEVICES_H
#define TFD_RUNTIME_RUN_PREFLIGHT_DEVICES_H

#include "ir/base/status.h"
#include "ir/base/str.h"

typedef struct RtRun RtRun;
typedef struct RtDeviceSpeeds RtDeviceSpeeds;

/* A call of all processes.  *out is NULL where devices send no messages of
 * their own, or there is one. */
Status rt_measure_devices(RtRun *run, RtDeviceSpeeds **out) MUST_USE;
/* The chief's: the table, and the slowest pair. */
void rt_add_devices(const RtRun *run, const RtDeviceSpeeds *speeds, Str *s);

#endif
