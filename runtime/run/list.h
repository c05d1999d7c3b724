/*
 * list.h - the devices that can be used here
 */
#ifndef TFD_RUNTIME_RUN_LIST_H
#define TFD_RUNTIME_RUN_LIST_H

#include "ir/base/str.h"

/* A line for each: its name, and what is known of it.  What keeps a kind of
 * device from being used is the text of its line. */
void rt_print_devices(Arena *a, Str *out);

#endif
