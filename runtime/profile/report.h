/*
 * report.h - a profile for people, and for programs
 */
#ifndef TFD_RUNTIME_PROFILE_REPORT_H
#define TFD_RUNTIME_PROFILE_REPORT_H

#include "ir/base/status.h"

typedef struct RtRun RtRun;

/* Once main has returned: the profile of this process, by the chief, to
 * options->err and to the files that are asked for.  All processes of a job
 * call it. */
Status rt_profile_report(RtRun *run) MUST_USE;

#endif
