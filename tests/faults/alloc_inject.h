/*
 * alloc_inject.h - how a test tells alloc_inject.c which allocations fail
 *
 * The variable TFD_INJECT of a program that has it preloaded is one of
 *
 *   once:N        the Nth allocation fails
 *   fork:IN:OUT   numbers are read from the file descriptor IN, ascending, as
 *                 int64_t.  At each the program forks: in the child that
 *                 allocation fails, and the parent waits for its end, writes
 *                 an AllocReport to OUT, and takes the next number.  0 is the
 *                 end of the list.
 *
 * With fork, the end of the program is a report, too, with the number of
 * allocations.
 */
#ifndef TFD_TESTS_FAULTS_ALLOC_INJECT_H
#define TFD_TESTS_FAULTS_ALLOC_INJECT_H

#include <stdint.h>

enum { ALLOC_CHILD_SECONDS = 60, ALLOC_ENDED = -1 };

typedef struct AllocReport {
    int64_t n;
    int64_t status; /* as of waitpid, or ALLOC_ENDED */
} AllocReport;

#endif
