/*
 * usage.h - how much memory this process has
 */
#ifndef TFD_IR_BASE_USAGE_H
#define TFD_IR_BASE_USAGE_H

#include <stdint.h>

/* None of these allocates.  Bytes of memory that the process has now, and had
 * at most since it began or usage_forget_peak was called; 0 if the system does
 * not tell. */
int64_t usage_now(void);
int64_t usage_peak(void);

/* Bytes of its address space, whether backed by memory or not. */
int64_t usage_addresses(void);

/* Sets the peak to the memory in use now, if the system allows that. */
void usage_forget_peak(void);

/* How many more bytes the process may take before it is refused memory or
 * killed, and by which limit: the machine's memory and swap, a control group's
 * limit, a limit of the process (ulimit).  INT64_MAX if there is no limit. */
typedef struct UsageRoom {
    int64_t bytes;
    const char *of; /* "free memory and swap" */
} UsageRoom;
UsageRoom usage_room(void);

/* The part of it that limits of the process set (ulimit -v, -d).  These count
 * what is reserved, whether anybody touches it or not. */
UsageRoom usage_reservable(void);

/* The same from the files of a tree that replaces /, without limits of the
 * process (tests). */
UsageRoom usage_room_in(const char *root);

#endif
