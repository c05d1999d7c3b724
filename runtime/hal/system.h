/*
 * system.h - the system that a process runs on
 */
#ifndef TFD_RUNTIME_HAL_SYSTEM_H
#define TFD_RUNTIME_HAL_SYSTEM_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

/* The failure of a call that a job of several processes needs, by errno. */
Status rt_system_error(const char *call) MUST_USE;

/* Whether a signal is, as SIGHUP is for what nohup starts. */
bool rt_signal_is_ignored(int signal_number);

/* This machine's name for people, in a; "?" if it has none. */
const char *rt_host_name(Arena *a);

/* Equal for processes that could share memory, in a: of one running kernel, and
 * with one view of its network and its processes. */
const char *rt_machine_name(Arena *a);

#endif
