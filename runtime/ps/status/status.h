/*
 * status.h - tfd-run --status: what a coordinator says of its job
 */
#ifndef TFD_RUNTIME_PS_STATUS_STATUS_H
#define TFD_RUNTIME_PS_STATUS_STATUS_H

#include <stdint.h>
#include <stdio.h>
#include "ir/base/status.h"

/* Asks the coordinator that listens at HOST:PORT twice, a second apart, and
 * prints its workers and servers and what they did between.  key: the job's
 * RT_JOB_KEY bytes, or NULL.  STATUS_MACHINE: nobody answers, which is also
 * what somebody with another key sees. */
Status rt_ps_print_status(const uint8_t *key, const char *coordinator,
                          FILE *to) MUST_USE;

#endif
