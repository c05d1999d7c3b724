/*
 * devices.h - lists of devices in words
 */
#ifndef TFD_RUNTIME_HAL_DEVICES_H
#define TFD_RUNTIME_HAL_DEVICES_H

#include "ir/base/arena.h"
#include "ir/base/status.h"

/* The devices of "cpu:0-2,cpu:5" in order, each once: "cpu:0", ... , in a. */
Status rt_parse_devices(Arena *a, const char *list, const char *const **names,
                        int *num) MUST_USE;

#endif
