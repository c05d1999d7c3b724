/*
 * pool.c - the threads of one device
 *
 * A job is cut into chunks, and a ticket has the number of the next one.  A
 * thread takes a chunk by raising the ticket with a compare-and-swap; the job's
 * number is part of the ticket, so that a late worker does not take a chunk of
 * another job.  The job is done when as many chunks are: workers that slept
 * through it do not matter.
 */
#include "runtime/hal/cpu/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "ir/base/thread.h"
#include "runtime/hal/wait.h"

/* More chunks than threads, because threads are not equally fast; but as many
 * for each of them. */
enum { CHUNKS_PER_THREAD = 4, MAX_CHUNKS = 60000 };

struct RtPool {
    RtWaitWord signal; /* changes when there is something to do */
    RtWaitWord done;   /* chunks of the job that are done */
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
    atomic_bool closing;
    bool spin;
    int num_threads, num_workers;
    pthread_t *workers;
    /* The job; written before its ticket, read after taking a chunk. */
    RtTask *task;
    void *data;
    int64_t chunk; /* items of each chunk, */
    int64_t extra; /* and how many of the first ones have one more */
};

/* A ticket: 32 bits number of the job, 16 bits chunks, 16 bits next chunk. */
static uint64_t
ticket_make(uint32_t job, uint32_t chunks)
{
    return (uint64_t)job << 32 | chunks << 16;
}

static uint32_t
ticket_next(uint64_t t)
{
    return t & 0xffff;
}

static uint32_t
ticket_chunks(uint64_t t)
{
    return t >> 16 & 0xffff;
}

static bool
take_chunk(RtPool *p, uint32_t *chunk)
{
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    while (ticket_next(t) < ticket_chunks(t)) {
        if (atomic_compare_exchange_weak(&p->ticket, &t, t + 1)) {
            *chunk = ticket_next(t);
            return true;
        }
    }
    return false;
}

/* Executes chunks until none is left. */
static void
do_chunks(RtPool *p)
{
    uint32_t chunk;
    while (take_chunk(p, &chunk)) {
        int64_t more = chunk < p->extra ? chunk : p->extra;
        int64_t begin = chunk * p->chunk + more;
        p->task(p->data, begin, begin + p->chunk + (chunk < p->extra));
        rt_wait_word_add(&p->done, 1);
    }
}

static void *
work(void *data)
{
    RtPool *p = data;
    uint32_t seen = 0;
    while (!atomic_load(&p->closing)) {
        do_chunks(p);
        seen = rt_wait_word_wait(&p->signal, seen, p->spin);
    }
    return NULL;
}

static Status
start_workers(RtPool *p)
{
    for (int i = 0; i < p->num_threads - 1; i++) {
        TRY(thread_start(&p->workers[i], work, p, "the pool"));
        p->num_workers++;
    }
    return OK;
}

Status
rt_pool_open(int num_threads, bool spin, RtPool **out)
{
    assert(num_threads > 0);
    RtPool *p =
        fail_here(FAIL_ALLOC) ? NULL : aligned_alloc(CACHE_LINE, sizeof *p);
    pthread_t *workers = calloc((size_t)num_threads, sizeof *workers);
    if (!p || !workers) {
        free(p);
        free(workers);
        return status_new(STATUS_MACHINE, "no memory for threads");
    }
    memset(p, 0, sizeof *p);
    p->num_threads = num_threads;
    p->spin = spin;
    p->workers = workers;
    Status st = start_workers(p);
    if (st) {
        rt_pool_close(p);
        return st;
    }
    *out = p;
    return OK;
}

void
rt_pool_close(RtPool *p)
{
    if (!p)
        return;
    atomic_store(&p->closing, true);
    rt_wait_word_add(&p->signal, 1);
    for (int i = 0; i < p->num_workers; i++)
        pthread_join(p->workers[i], NULL);
    free(p->workers);
    free(p);
}

static int64_t
num_chunks(const RtPool *p, int64_t count, int64_t grain)
{
    int64_t most = (int64_t)p->num_threads * CHUNKS_PER_THREAD;
    int64_t n = grain > 1 ? count / grain : count;
    if (most > MAX_CHUNKS)
        most = MAX_CHUNKS;
    if (n > most)
        n = most;
    return n > p->num_threads ? n - n % p->num_threads : n;
}

static void
post_job(RtPool *p, int64_t count, int64_t chunks)
{
    uint64_t last = atomic_load(&p->ticket);
    rt_wait_word_store(&p->done, 0);
    p->chunk = count / chunks;
    p->extra = count % chunks;
    uint32_t job = (uint32_t)(last >> 32) + 1;
    atomic_store(&p->ticket, ticket_make(job, (uint32_t)chunks));
    rt_wait_word_add(&p->signal, 1);
}

static void
wait_for_workers(RtPool *p)
{
    uint32_t all = ticket_chunks(atomic_load(&p->ticket));
    uint32_t done = rt_wait_word_load(&p->done);
    while (done != all)
        done = rt_wait_word_wait(&p->done, done, p->spin);
}

void
rt_pool_run(RtPool *p, RtTask *task, void *data, int64_t count, int64_t grain)
{
    int64_t chunks = num_chunks(p, count, grain);
    assert(count >= 0 && !atomic_load(&p->closing));
    if (p->num_threads == 1 || chunks <= 1) {
        task(data, 0, count);
        return;
    }
    p->task = task;
    p->data = data;
    post_job(p, count, chunks);
    do_chunks(p);
    wait_for_workers(p);
}
