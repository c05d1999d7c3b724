/*
 * pool.c - the threads of one device
 *
 * A job is cut into chunks, and each thread has a share of them: neighbours,
 * the same ones in each job of as many chunks.  So what a thread has computed
 * is in its own cache when the next job goes on with it.  Who has finished
 * takes the last chunks of others.
 *
 * A share has the numbers of the chunks that are left.  A thread takes one by a
 * compare-and-swap; the job's number is part of the share, so that a late
 * worker does not take a chunk of another job.  Shares are not dealt out: in a
 * share of an earlier job everything is left, and whoever comes first writes
 * what is then.  The job is done when as many chunks are: workers that slept
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

/* The chunks of a thread that are left: 32 bits number of the job, 16 bits end,
 * 16 bits first. */
typedef struct Share {
    _Alignas(CACHE_LINE) _Atomic uint64_t left;
} Share;

typedef struct Worker {
    RtPool *pool;
    int number; /* of its share; the caller has number 0 */
    pthread_t thread;
} Worker;

struct RtPool {
    RtWaitWord signal; /* changes when there is something to do */
    RtWaitWord done;   /* chunks of the job that are done */
    /* The job: 32 bits number, 32 bits chunks. */
    _Alignas(CACHE_LINE) _Atomic uint64_t job;
    atomic_bool closing;
    bool spin;
    int num_threads, num_workers;
    Worker *workers;
    Share *shares;
    /* Written before the job's number, read after taking a chunk. */
    RtTask *task;
    void *data;
    int64_t chunk; /* items of each chunk, */
    int64_t extra; /* and how many of the first ones have one more */
};

static uint32_t
job_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t
chunks_of(uint64_t job)
{
    return (uint32_t)job;
}

static uint32_t
first_left(uint64_t share)
{
    return share & 0xffff;
}

static uint32_t
end_left(uint64_t share)
{
    return share >> 16 & 0xffff;
}

static uint64_t
share_make(uint64_t job, uint32_t first, uint32_t end)
{
    return (uint64_t)job_of(job) << 32 | end << 16 | first;
}

/* The first chunk of a thread's share. */
static uint32_t
first_chunk(const RtPool *p, uint64_t job, int thread)
{
    uint32_t n = (uint32_t)p->num_threads;
    return (chunks_of(job) * (uint32_t)thread + n - 1) / n;
}

/* What is left of a share that begins with first: all of it while nobody has
 * taken any of this job.  Nothing, if the job is over. */
static uint64_t
left_of(RtPool *p, uint64_t job, uint64_t share, uint32_t first, uint32_t end)
{
    if (job_of(share) == job_of(job))
        return share;
    return share_make(job, first, atomic_load(&p->job) == job ? end : first);
}

/* The first chunk of one's own share that is left, the last one of another's;
 * false if there is none. */
static bool
take_from(RtPool *p, uint64_t job, int thread, bool own, uint32_t *chunk)
{
    uint32_t first = first_chunk(p, job, thread);
    uint32_t end = first_chunk(p, job, thread + 1);
    _Atomic uint64_t *share = &p->shares[thread].left;
    uint64_t old = atomic_load_explicit(share, memory_order_acquire), rest;
    do {
        uint64_t left = left_of(p, job, old, first, end);
        uint32_t from = first_left(left), to = end_left(left);
        if (from == to)
            return false;
        *chunk = own ? from : to - 1;
        rest =
            own ? share_make(job, from + 1, to) : share_make(job, from, to - 1);
    } while (!atomic_compare_exchange_weak(share, &old, rest));
    return true;
}

static bool
take_chunk(RtPool *p, int self, uint32_t *chunk)
{
    uint64_t job = atomic_load_explicit(&p->job, memory_order_acquire);
    if (take_from(p, job, self, true, chunk))
        return true;
    for (int i = 1; i < p->num_threads; i++) {
        if (rt_wait_word_load(&p->done) == chunks_of(job))
            return false;
        if (take_from(p, job, (self + i) % p->num_threads, false, chunk))
            return true;
    }
    return false;
}

/* Executes chunks until none is left. */
static void
do_chunks(RtPool *p, int self)
{
    uint32_t chunk;
    while (take_chunk(p, self, &chunk)) {
        int64_t more = chunk < p->extra ? chunk : p->extra;
        int64_t begin = chunk * p->chunk + more;
        p->task(p->data, begin, begin + p->chunk + (chunk < p->extra));
        rt_wait_word_add(&p->done, 1);
    }
}

static void *
work(void *data)
{
    const Worker *w = data;
    RtPool *p = w->pool;
    uint32_t seen = 0;
    while (!atomic_load(&p->closing)) {
        do_chunks(p, w->number);
        seen = rt_wait_word_wait(&p->signal, seen, p->spin);
    }
    return NULL;
}

static Status
start_workers(RtPool *p)
{
    for (int i = 0; i < p->num_threads - 1; i++) {
        Worker *w = &p->workers[i];
        *w = (Worker){.pool = p, .number = i + 1};
        TRY(thread_start(&w->thread, work, w, "the pool"));
        p->num_workers++;
    }
    return OK;
}

Status
rt_pool_open(int num_threads, bool spin, RtPool **out)
{
    assert(num_threads > 0);
    size_t num = (size_t)num_threads;
    RtPool *p =
        fail_here(FAIL_ALLOC) ? NULL : aligned_alloc(CACHE_LINE, sizeof *p);
    Share *shares = aligned_alloc(CACHE_LINE, num * sizeof *shares);
    Worker *workers = calloc(num, sizeof *workers);
    if (!p || !shares || !workers) {
        free(p);
        free(shares);
        free(workers);
        return status_new(STATUS_MACHINE, "no memory for threads");
    }
    memset(p, 0, sizeof *p);
    memset(shares, 0, num * sizeof *shares);
    p->num_threads = num_threads;
    p->spin = spin;
    p->workers = workers;
    p->shares = shares;
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
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p->shares);
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
    uint64_t last = atomic_load(&p->job);
    rt_wait_word_store(&p->done, 0);
    p->chunk = count / chunks;
    p->extra = count % chunks;
    uint64_t job = (uint64_t)(job_of(last) + 1) << 32 | (uint64_t)chunks;
    atomic_store(&p->job, job);
    rt_wait_word_add(&p->signal, 1);
}

static void
wait_for_workers(RtPool *p)
{
    uint32_t all = chunks_of(atomic_load(&p->job));
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
    do_chunks(p, 0);
    wait_for_workers(p);
}
