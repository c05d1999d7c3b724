/*
 * deadline.h - the end of a call into a library that waits for other processes
 *
 * MPI_Init and MPI_Finalize wait inside of the library for as long as others
 * take, or do not live: a thread ends the process, with a message, when such a
 * call has taken too long.
 */
#ifndef TFD_RUNTIME_CLUSTER_MPI_DEADLINE_H
#define TFD_RUNTIME_CLUSTER_MPI_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include "ir/base/status.h"

typedef struct RtDeadline {
    const char *call, *library; /* for the message */
    double seconds;             /* 0: there is none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_ended;
} RtDeadline;

/* Between these two the process may spend so many seconds; 0: any number. */
Status rt_deadline_begin(RtDeadline *d, const char *call, const char *library,
                         double seconds) MUST_USE;
void rt_deadline_end(RtDeadline *d);

#endif
