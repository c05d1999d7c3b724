/*
 * fail.h - failures on request, for tests (D20)
 *
 * TFD_FAIL=alloc:N makes the Nth chunk of memory, TFD_FAIL=io:N the Nth
 * operation on a file and TFD_FAIL=thread:N the Nth new thread fail in this
 * process.
 */
#ifndef TFD_IR_BASE_FAIL_H
#define TFD_IR_BASE_FAIL_H

#include <stdbool.h>

typedef enum FailPoint {
    FAIL_ALLOC,
    FAIL_IO,
    FAIL_THREAD,
    NUM_FAIL_POINTS
} FailPoint;

/* Counts one operation; true if it is the one to fail.  Any thread. */
bool fail_here(FailPoint point);

#endif
