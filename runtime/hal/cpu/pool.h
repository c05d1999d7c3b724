/*
 * pool.h - the threads of one device
 *
 * The thread that issues a device's work takes part in it; the pool's workers
 * help.  How a range is split never changes its result (D2).
 */
#ifndef TFD_RUNTIME_HAL_CPU_POOL_H
#define TFD_RUNTIME_HAL_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include "ir/base/status.h"

typedef struct RtPool RtPool;

/* Items begin to end of a job. */
typedef void RtTask(void *data, int64_t begin, int64_t end);

/* A pool of num_threads, one of which is the caller's. */
Status rt_pool_open(int num_threads, bool spin, RtPool **out) MUST_USE;
void rt_pool_close(RtPool *p); /* NULL is allowed */

/* Runs task on 0 .. count in ranges of at least grain items and returns when
 * all are done.  Called by one thread at a time. */
void rt_pool_run(RtPool *p, RtTask *task, void *data, int64_t count,
                 int64_t grain);

#endif
