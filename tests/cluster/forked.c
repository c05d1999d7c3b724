/*
 * forked.c - processes of a test, joined by memory that they share
 *
 * An exchange is a word for each process, which counts the exchanges it has
 * begun, and two places for its bytes, used in turn: a process begins the next
 * exchange but one when all have begun the next, and so have read the last.
 * A broadcast or gather is a series of exchanges.
 */
#include "tests/cluster/forked.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/clock.h"

#define PATIENCE 60.0 /* seconds that an exchange waits */

enum { SERIES = RT_GROUP_SLOTS, ALL_SLOTS };

typedef struct Part {
    _Atomic uint32_t begun;
    char bytes[2][RT_GROUP_MOST_BYTES];
} Part;

struct Forked {
    int size;
    size_t all; /* bytes of the mapping */
    _Atomic uint32_t aborted;
    Part parts[ALL_SLOTS][FORKED_MOST];
    size_t room;
    _Alignas(64) char memory[];
};

typedef struct ForkedGroup {
    RtGroup group;
    Forked *shared;
    size_t bytes[ALL_SLOTS]; /* of the exchange in flight */
    char *part;              /* of a gather: room bytes */
    size_t room;
} ForkedGroup;

/* ---- words --------------------------------------------------------------- */

uint32_t
forked_wait(_Atomic uint32_t *word, uint32_t old)
{
    struct timespec limit = {0, 100 * 1000 * 1000};
    if (atomic_load(word) == old)
        syscall(SYS_futex, word, FUTEX_WAIT, old, &limit, NULL, 0);
    return atomic_load(word);
}

void
forked_add(_Atomic uint32_t *word, uint32_t n)
{
    atomic_fetch_add(word, n);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool
forked_is_aborted(const Forked *f)
{
    return atomic_load(&f->aborted) != 0;
}

/* ---- exchanges ----------------------------------------------------------- */

static Status
start(RtGroup *g, int slot, const void *own, size_t bytes)
{
    ForkedGroup *fg = (ForkedGroup *)g;
    Part *p = &fg->shared->parts[slot][g->rank];
    assert(bytes > 0 && bytes <= RT_GROUP_MOST_BYTES && !fg->bytes[slot]);
    memcpy(p->bytes[atomic_load(&p->begun) % 2], own, bytes);
    fg->bytes[slot] = bytes;
    forked_add(&p->begun, 1);
    return OK;
}

/* Until the part has begun that many exchanges. */
static Status
wait_for_part(const ForkedGroup *fg, int slot, int rank, uint32_t number)
{
    Part *p = &fg->shared->parts[slot][rank];
    double begin = clock_seconds();
    uint32_t begun = atomic_load(&p->begun);
    while ((int32_t)(begun - number) < 0) {
        if (forked_is_aborted(fg->shared))
            return status_new(STATUS_STOPPED, "the group was aborted");
        if (clock_seconds() - begin > PATIENCE)
            return status_new(STATUS_INPUT, "rank %d does not come", rank);
        begun = forked_wait(&p->begun, begun);
    }
    return OK;
}

static Status
finish(RtGroup *g, int slot, void *all)
{
    ForkedGroup *fg = (ForkedGroup *)g;
    uint32_t number = atomic_load(&fg->shared->parts[slot][g->rank].begun);
    size_t bytes = fg->bytes[slot];
    assert(bytes);
    for (int r = 0; r < g->size; r++) {
        TRY(wait_for_part(fg, slot, r, number));
        memcpy((char *)all + (size_t)r * bytes,
               fg->shared->parts[slot][r].bytes[(number - 1) % 2], bytes);
    }
    fg->bytes[slot] = 0;
    return OK;
}

static Status
exchange(RtGroup *g, const void *own, size_t bytes, void *all)
{
    TRY(start(g, SERIES, own, bytes));
    return finish(g, SERIES, all);
}

/* ---- series of exchanges ------------------------------------------------- */

enum { PIECE = 1024 };

static Status
broadcast(RtGroup *g, int root, void *bytes, size_t n)
{
    char all[FORKED_MOST][PIECE], own[PIECE] = {0};
    for (size_t at = 0; at < n; at += PIECE) {
        size_t m = n - at < PIECE ? n - at : PIECE;
        if (g->rank == root)
            memcpy(own, (char *)bytes + at, m);
        TRY(exchange(g, own, PIECE, all));
        memcpy((char *)bytes + at, all[root], m);
    }
    return OK;
}

static Status
gather_from(RtGroup *g, int rank, const void *own, size_t n, char *to)
{
    for (size_t at = 0; at < n; at += PIECE) {
        char all[FORKED_MOST][PIECE], piece[PIECE] = {0};
        size_t m = n - at < PIECE ? n - at : PIECE;
        if (g->rank == rank)
            memcpy(piece, (const char *)own + at, m);
        TRY(exchange(g, piece, PIECE, all));
        memcpy(to + at, all[rank], m);
    }
    return OK;
}

static Status
gather(RtGroup *g, int root, const void *own, size_t n,
       void (*take)(void *data, int rank, const void *part, size_t n),
       void *data)
{
    size_t sizes[FORKED_MOST];
    TRY(exchange(g, &n, sizeof n, sizes));
    for (int r = 0; r < g->size; r++) {
        ForkedGroup *fg = (ForkedGroup *)g;
        if (fg->room < sizes[r])
            fg->part = realloc(fg->part, fg->room = 2 * sizes[r]);
        TRY(gather_from(g, r, own, sizes[r], fg->part));
        if (g->rank == root)
            take(data, r, fg->part, sizes[r]);
    }
    return OK;
}

static void
abort_all(RtGroup *g)
{
    atomic_store(&((ForkedGroup *)g)->shared->aborted, 1);
}

static void
close_group(RtGroup *g)
{
    (void)g;
}

static const RtGroupOps ops = {"forked", start,     finish,     broadcast,
                               gather,   abort_all, close_group};

/* ---- processes ----------------------------------------------------------- */

Forked *
forked_new(int size, size_t bytes)
{
    size_t all = sizeof(Forked) + bytes;
    assert(size >= 1 && size <= FORKED_MOST);
    Forked *f = mmap(NULL, all, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(f != MAP_FAILED);
    f->size = size;
    f->all = all;
    f->room = bytes;
    return f;
}

void
forked_free(Forked *f)
{
    munmap(f, f->all);
}

/* Each process counts for itself. */
static _Thread_local size_t own_used;

void *
forked_alloc(Forked *f, size_t bytes)
{
    char *at = f->memory + own_used;
    own_used += (bytes + 63) / 64 * 64;
    assert(own_used <= f->room);
    return at;
}

_Noreturn static void
be_process(Forked *f, int rank, ForkedBody *body, void *data)
{
    ForkedGroup g = {.group = {&ops, rank, f->size}, .shared = f};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = body(data, f, &g.group);
    fflush(NULL);
    _exit(status);
}

void
forked_run(Forked *f, ForkedBody *body, void *data, int *statuses)
{
    pid_t children[FORKED_MOST];
    fflush(NULL);
    for (int r = 0; r < f->size; r++) {
        children[r] = fork();
        assert(children[r] >= 0);
        if (children[r] == 0)
            be_process(f, r, body, data);
    }
    for (int r = 0; r < f->size; r++) {
        int status;
        while (waitpid(children[r], &status, 0) < 0)
            continue;
        statuses[r] =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}
