/*
 * queue.c - the queue of a CPU device
 *
 * A ring with two counts, both modulo 2^32: items enqueued and executed.  Who
 * reads a count sees what was written before it was raised.
 */
#include "runtime/hal/cpu/queue.h"

#include <assert.h>

static CpuItem *
item_at(CpuQueue *q, uint32_t number)
{
    return &q->items[number % CPU_QUEUE_LENGTH];
}

bool
rt_cpu_queue_is_idle(CpuQueue *q)
{
    return rt_wait_word_load(&q->executed) == rt_wait_word_load(&q->enqueued);
}

bool
rt_cpu_queue_is_past(CpuQueue *q, uint64_t n)
{
    uint32_t executed = rt_wait_word_load(&q->executed);
    uint32_t left = (uint32_t)q->num_enqueued - executed;
    return q->num_enqueued - left >= n;
}

void
rt_cpu_queue_drain(CpuQueue *q)
{
    uint32_t at = rt_wait_word_load(&q->executed);
    for (; at != rt_wait_word_load(&q->enqueued); at++) {
        q->execute(q->executor, item_at(q, at));
        rt_wait_word_add(&q->executed, 1);
    }
}

static bool
is_full(CpuQueue *q)
{
    return rt_wait_word_load(&q->enqueued) - rt_wait_word_load(&q->executed) ==
           CPU_QUEUE_LENGTH;
}

void
rt_cpu_queue_add(CpuQueue *q, const CpuItem *item, bool on_caller)
{
    if (on_caller && is_full(q))
        rt_cpu_queue_drain(q);
    while (is_full(q)) {
        uint32_t executed = rt_wait_word_load(&q->executed);
        if (is_full(q))
            rt_wait_word_wait(&q->executed, executed, q->spin);
    }
    *item_at(q, rt_wait_word_load(&q->enqueued)) = *item;
    q->num_enqueued++;
    rt_wait_word_add(&q->enqueued, 1);
}
