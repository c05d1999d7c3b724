/*
 * check.h - whether a program does the same on every number of devices
 *
 * A program says in comments of its own how it is run, so that a file alone
 * repeats a failure:
 *
 *   #! replicas 1 2 4 5     the numbers of replicas; else 1 to 5
 *   #! level 2              -O of passes and code
 *   #! strategy mirrored    where there are several devices
 *   #! one default          the strategy on one device
 *   #! cross reduction_to_one
 *   #! reduce_to 3          the device of reduction_to_one, modulo how many
 *   #! parameters 3         the parameter device of central_storage, so, too
 *   #! pack 16              bytes_per_pack
 *   #! threads 1            pipelines have threads
 *   #! invariant            results do not depend on the number of devices
 */
#ifndef TFD_TESTS_RANDOM_CHECK_H
#define TFD_TESTS_RANDOM_CHECK_H

#include "ir/base/arena.h"

enum { MINUTE = 60 }; /* seconds */

/* Compiles and runs the program, with --widen, on as many CPU devices
 * as each number of replicas, and on fewer that they share, and the reference
 * interpreter on its front-end IR with as many replicas, one after the other.
 * Returns NULL, or the fault: the first line is of the form "KIND on N: ...".
 */
const char *check_program(Arena *a, const char *text);

/* The same in a process of its own: one that crashes, or is at work for longer
 * (SIGALRM), has failed, too. */
const char *check_apart(Arena *a, const char *text, unsigned seconds);

#endif
