/*
 * fail.h - failures on request, for tests (D20)
 *
 * TFD_FAIL=alloc:N makes the Nth chunk of memory, and TFD_FAIL=io:N the Nth
 * operation on a file, fail in this process.
 */
#ifndef TFD_BASE_FAIL_H
#define TFD_BASE_FAIL_H

#include <stdbool.h>

typedef enum FailPoint { FAIL_ALLOC, FAIL_IO, NUM_FAIL_POINTS } FailPoint;

/* Counts one operation; true if it is the one to fail.  Any thread. */
bool fail_here(FailPoint point);

#endif
