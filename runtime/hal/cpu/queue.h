/*
 * queue.h - the queue of a CPU device
 *
 * One thread enqueues, one executes; they may be the same.
 */
#ifndef TFD_RUNTIME_HAL_CPU_QUEUE_H
#define TFD_RUNTIME_HAL_CPU_QUEUE_H

#include "runtime/hal/device.h"

enum { CPU_QUEUE_LENGTH = 64 };

typedef enum CpuItemKind {
    CPU_COPY,
    CPU_FILL,
    CPU_KERNEL,
    CPU_PROGRAM,
    CPU_CALL, /* a function with data */
} CpuItemKind;

typedef struct CpuItem {
    CpuItemKind kind;
    union {
        struct {
            char *to;
            const char *from; /* copy */
            size_t bytes;
            int byte; /* fill */
        };
        const RtKernelLaunch *kernel;
        RtProgramLaunch *program;
        struct {
            void (*f)(void *data);
            void *data;
        };
    };
} CpuItem;

typedef void CpuExecute(void *executor, const CpuItem *item);

typedef struct CpuQueue {
    RtWaitWord enqueued, executed; /* items so far, modulo 2^32 */
    uint64_t num_enqueued;         /* of the enqueuing thread */
    RtQueue queue;
    bool spin;
    CpuItem items[CPU_QUEUE_LENGTH];
    CpuExecute *execute;
    void *executor;
} CpuQueue;

/* Whether nothing is left to execute. */
bool rt_cpu_queue_is_idle(CpuQueue *q);
/* For the enqueuing thread: whether the first n items have executed. */
bool rt_cpu_queue_is_past(CpuQueue *q, uint64_t n);
/* Waits for room, unless the enqueuing thread is the executing one: then it
 * executes what is there. */
void rt_cpu_queue_add(CpuQueue *q, const CpuItem *item, bool on_caller);
/* Executes all items that are there; called by the executing thread only. */
void rt_cpu_queue_drain(CpuQueue *q);

#endif
