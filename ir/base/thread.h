/*
 * thread.h - starting threads, and the cores there are for them
 */
#ifndef TFD_IR_BASE_THREAD_H
#define TFD_IR_BASE_THREAD_H

#include <pthread.h>
#include "ir/base/status.h"

/* Of the stack of a thread, at least: kernels have operands and sums of
 * products there, up to 4 MB. */
enum { THREAD_STACK_BYTES = 8 << 20 };

/* Starts run(data); `what` is the thread's owner, for the message. */
Status thread_start(pthread_t *thread, void *(*run)(void *), void *data,
                    const char *what) MUST_USE;

/* Cores that this process may use. */
int num_cores(void);

#endif
