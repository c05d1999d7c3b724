/*
 * system.h - calls of the system that fail
 */
#ifndef TFD_RUNTIME_HAL_SYSTEM_H
#define TFD_RUNTIME_HAL_SYSTEM_H

#include "ir/base/status.h"

/* The failure of a call that a job of several processes needs, by errno. */
Status rt_system_error(const char *call) MUST_USE;

#endif
