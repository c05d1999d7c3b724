/*
 * text.h - a profile as text: tables, and the program with times beside it
 */
#ifndef TFD_RUNTIME_PROFILE_TEXT_H
#define TFD_RUNTIME_PROFILE_TEXT_H

#include "ir/base/str.h"
#include "runtime/profile/rows.h"

void rt_profile_print(Str *out, const RtRun *run, const RtReport *report);

/* The lines of the program's own files that took time, with their share. */
void rt_profile_print_listing(Str *out, const RtRun *run,
                              const RtReport *report);

#endif
