/*
 * forked.h - processes of a test, joined by memory that they share
 *
 * The memory is mapped before the fork, so it has one address in all of them.
 * No process outlives the test: each dies with its parent.
 */
#ifndef TFD_TESTS_CLUSTER_FORKED_H
#define TFD_TESTS_CLUSTER_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/cluster/group/group.h"

enum { FORKED_MOST = 8 }; /* processes */

typedef struct Forked Forked;

/* Memory for so many processes, with bytes for what the test puts there. */
Forked *forked_new(int size, size_t bytes);
void forked_free(Forked *f);

/* Zeroed bytes that all processes share, aligned to 64.  After the fork, all
 * ask for the same in the same order, and each gets the same address. */
void *forked_alloc(Forked *f, size_t bytes);

/* Calls body in each of the processes, with its group, and waits for all; the
 * exit status of each, or 128 and the signal that ended it, to statuses.  What
 * body returns is the exit status. */
typedef int ForkedBody(void *data, Forked *f, RtGroup *group);
void forked_run(Forked *f, ForkedBody *body, void *data, int *statuses);

/* A word in shared memory: waits until it has another value than old, or the
 * group is aborted, or a tenth of a second; the value then. */
uint32_t forked_wait(_Atomic uint32_t *word, uint32_t old);
void forked_add(_Atomic uint32_t *word, uint32_t n);
/* Whether somebody has aborted the group. */
bool forked_is_aborted(const Forked *f);

#endif
