/*
 * export.h - a profile for other programs
 */
#ifndef TFD_RUNTIME_PROFILE_EXPORT_H
#define TFD_RUNTIME_PROFILE_EXPORT_H

#include "ir/base/status.h"
#include "runtime/profile/rows.h"

/* All rows of all tables, as JSON (docs/profile.md). */
Status rt_profile_write_json(const RtRun *run, const RtReport *report,
                             const char *path) MUST_USE;

/* The marks of the recorders, in the format of chrome://tracing and Perfetto:
 * a thread for main and for each device, an event for each position. */
Status rt_profile_write_trace(const RtRun *run, const RtReport *report,
                              const char *path) MUST_USE;

#endif
