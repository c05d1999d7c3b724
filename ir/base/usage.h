/*
 * usage.h - how much memory this process has
 */
#ifndef TFD_IR_BASE_USAGE_H
#define TFD_IR_BASE_USAGE_H

#include <stdint.h>

/* None allocates.  Bytes of memory that the process has now, and had at most since it began or
 * usage_forget_peak was called; 0 where the system does not say. */
int64_t usage_now(void);
int64_t usage_peak(void);

/* Bytes of addresses that it has, with memory behind them or not. */
int64_t usage_addresses(void);

/* The peak is what is used now, where the system allows to say so. */
void usage_forget_peak(void);

/* How many bytes the process may take beside what it has, before somebody
 * refuses or kills it, and who that is: the machine's memory and swap, a
 * control group's limit, a limit of the process (ulimit).  INT64_MAX where
 * nobody says. */
typedef struct UsageRoom {
    int64_t bytes;
    const char *of; /* "free memory and swap" */
} UsageRoom;
UsageRoom usage_room(void);

/* The same by the files of a tree that stands for /, without limits of the
 * process (tests). */
UsageRoom usage_room_in(const char *root);

#endif
