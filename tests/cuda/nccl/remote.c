/*
 * remote.c - ranks of other processes
 *
 * A rank writes what it does to a log, a file that the other processes of its
 * clique read: first who it is, then each group of calls with the operands,
 * when the group could be executed here.  A group is over when the partners in
 * all logs have come.  So a rank sees of a remote one what a local one shows.
 *
 * A GPU works whether or not its host asks; the fake driver only when it is
 * asked.  A host may be busy with something that another process has to send
 * first, so a thread goes on with what ranks of other processes wait for.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/thread.h"
#include "tests/cuda/nccl/fake_nccl.h"

enum { PAUSE_NS = 300 * 1000 };

typedef enum EntryKind { JOINED, HAS_SEEN_ALL, CALLED, LEFT } EntryKind;

/* One of a log; the bytes of a call's operand follow. */
typedef struct Entry {
    EntryKind kind;
    int pid, num_ranks, device; /* of JOINED */
    uint64_t group;             /* of CALLED, counted by the rank */
    Request call;               /* without what points into its process */
    size_t num_bytes;
} Entry;

struct Remote {
    int log; /* it is read of */
    off_t at;
    int pid;
    bool has_seen_all, has_left;
    Request *sends[MAX_RANKS], *recvs[MAX_RANKS]; /* unmatched, by peer */
};

/* ---- writing ------------------------------------------------------------- */

static void
path_of(char *path, size_t size, const Clique *c, int rank)
{
    snprintf(path, size, "%s.%d", c->id.internal, rank);
}

/* In one call: readers see an entry as a whole, or wait for the rest. */
static void
append(const struct ncclComm *comm, const Entry *entry, const uint8_t *bytes)
{
    struct iovec parts[] = {{(void *)entry, sizeof *entry},
                            {(void *)bytes, entry->num_bytes}};
    size_t all = sizeof *entry + entry->num_bytes;
    if (writev(comm->log, parts, 2) != (ssize_t)all)
        nccl_complain("a log cannot be written: %s", strerror(errno));
}

static void
open_log(ncclComm_t comm)
{
    char path[FILE_BYTES];
    path_of(path, sizeof path, comm->clique, comm->rank);
    comm->log =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (comm->log < 0)
        nccl_complain("a rank joins twice: %s, and another process has it",
                      comm->init_site);
    Entry entry = {.kind = JOINED, .pid = getpid()};
    entry.num_ranks = comm->clique->num_ranks;
    entry.device = comm->device;
    memcpy(entry.call.site, comm->init_site, SITE_BYTES);
    append(comm, &entry, NULL);
}

static void
append_call(const Request *r)
{
    bool gives = r->kind != RECV;
    Entry entry = {.kind = CALLED, .group = r->work->number, .call = *r};
    entry.num_bytes = gives ? r->count * nccl_bytes_of(r->type) : 0;
    append(r->comm, &entry, r->bytes);
}

/* ---- reading ------------------------------------------------------------- */

/* The next entry that is complete. */
static bool
read_entry(Remote *p, Entry *entry, uint8_t **bytes)
{
    struct stat info;
    off_t n = sizeof *entry;
    if (fstat(p->log, &info) < 0 || info.st_size < p->at + n ||
        pread(p->log, entry, (size_t)n, p->at) != (ssize_t)n ||
        info.st_size < p->at + n + (off_t)entry->num_bytes)
        return false;
    *bytes = nccl_alloc(entry->num_bytes);
    if (pread(p->log, *bytes, entry->num_bytes, p->at + n) !=
        (ssize_t)entry->num_bytes)
        nccl_complain("a log cannot be read");
    p->at += n + (off_t)entry->num_bytes;
    return true;
}

/* As NCCL says it, since users can make it happen: with --devices. */
static void
fail_alike(ncclComm_t own, int rank)
{
    own->state = ncclInvalidUsage;
    snprintf(own->error, sizeof own->error,
             "Duplicate GPU detected : rank %d and rank %d both on CUDA device "
             "%x",
             own->rank, rank, 0x1000 * (own->device + 1));
}

static void
check_joined(const Clique *c, int rank, const Entry *entry)
{
    for (int k = 0; k < c->num_ranks; k++) {
        ncclComm_t own = c->comms[k];
        if (own && entry->num_ranks != c->num_ranks)
            nccl_complain("the sizes differ: %s, but %s", own->init_site,
                          entry->call.site);
        if (own && k == rank)
            nccl_complain("a rank joins twice: %s, and %s", own->init_site,
                          entry->call.site);
        if (own && own->device == entry->device)
            fail_alike(own, rank);
    }
}

static void
add_call(Clique *c, int rank, const Entry *entry, uint8_t *bytes)
{
    Remote *p = c->remotes[rank];
    Request *r = nccl_alloc(sizeof *r);
    *r = entry->call;
    r->comm = NULL;
    r->work = NULL;
    r->partner = r->next = r->next_unmatched = NULL;
    r->remote_group = entry->group + 1;
    r->bytes = bytes;
    if (r->kind > RECV) {
        nccl_round_of(c, r->number)->requests[rank] = r;
        return;
    }
    Request **at = r->kind == SEND ? &p->sends[r->peer] : &p->recvs[r->peer];
    while (*at)
        at = &(*at)->next_unmatched;
    *at = r;
}

static void
read_log(Clique *c, int rank)
{
    Remote *p = c->remotes[rank];
    Entry entry;
    for (uint8_t *bytes; read_entry(p, &entry, &bytes);) {
        if (entry.kind == CALLED) {
            add_call(c, rank, &entry, bytes);
            continue;
        }
        if (entry.kind == JOINED)
            check_joined(c, rank, &entry);
        p->pid = entry.kind == JOINED ? entry.pid : p->pid;
        p->has_seen_all |= entry.kind == HAS_SEEN_ALL;
        p->has_left |= entry.kind == LEFT;
    }
}

static void
find_log(Clique *c, int rank)
{
    char path[FILE_BYTES];
    path_of(path, sizeof path, c, rank);
    int log = open(path, O_RDONLY | O_CLOEXEC);
    if (log < 0)
        return;
    c->remotes[rank] = nccl_alloc(sizeof(Remote));
    c->remotes[rank]->log = log;
    c->num_joined++;
}

/* ---- joining and leaving ------------------------------------------------- */

static void
remove_log(const struct ncclComm *comm)
{
    char path[FILE_BYTES];
    path_of(path, sizeof path, comm->clique, comm->rank);
    unlink(path);
}

/* All processes have opened the logs of all, which need no names any more. */
static void
note_seen(Clique *c)
{
    bool all = true;
    for (int k = 0; k < c->num_ranks; k++) {
        ncclComm_t own = c->comms[k];
        if (own && !own->has_told) {
            Entry entry = {.kind = HAS_SEEN_ALL};
            append(own, &entry, NULL);
            own->has_told = true;
        }
        all &= own || (c->remotes[k] && c->remotes[k]->has_seen_all);
    }
    for (int k = 0; all && !c->are_removed && k < c->num_ranks; k++)
        if (c->comms[k])
            remove_log(c->comms[k]);
    c->are_removed |= all;
}

static void *go_on(void *data);

static void
begin(Clique *c)
{
    static bool has_thread;
    pthread_t thread;
    c->is_shared = true;
    if (has_thread)
        return;
    has_thread = true;
    Status st = thread_start(&thread, go_on, NULL, "the fake GPUs");
    if (st)
        nccl_complain("no thread");
    pthread_detach(thread);
}

void
nccl_find_remotes(Clique *c)
{
    if (!c->is_shared && c->num_joined == c->num_ranks)
        return; /* all are here */
    if (!c->is_shared)
        begin(c);
    for (int k = 0; k < c->num_ranks; k++) {
        if (c->comms[k] && !c->comms[k]->log)
            open_log(c->comms[k]);
        if (!c->comms[k] && !c->remotes[k])
            find_log(c, k);
        if (c->remotes[k])
            read_log(c, k);
    }
    if (c->num_joined == c->num_ranks)
        note_seen(c);
}

bool
nccl_has_lost_remote(const Clique *c)
{
    for (int k = 0; k < c->num_ranks; k++) {
        const Remote *p = c->remotes[k];
        if (p && p->pid && !p->has_left && kill(p->pid, 0) < 0 &&
            errno == ESRCH)
            return true;
    }
    return false;
}

void
nccl_leave_remotes(ncclComm_t comm)
{
    Entry entry = {.kind = LEFT};
    if (!comm->log)
        return;
    append(comm, &entry, NULL);
    if (!comm->clique->are_removed)
        remove_log(comm);
    close(comm->log);
    comm->log = 0;
}

/* ---- meeting ------------------------------------------------------------- */

static Remote *
remote_of(const Request *r)
{
    return r->comm->clique->remotes[r->peer];
}

static bool
find_partner(Request *r)
{
    Remote *p = remote_of(r);
    if (!p || r->partner)
        return true;
    Request **wanted =
        r->kind == SEND ? &p->recvs[r->comm->rank] : &p->sends[r->comm->rank];
    if (!*wanted)
        return false;
    r->partner = *wanted;
    *wanted = r->partner->next_unmatched;
    nccl_check_pair(r->kind == SEND ? r : r->partner,
                    r->kind == SEND ? r->partner : r);
    uint64_t *group = &r->work->remote_groups[r->peer];
    if (!*group)
        *group = r->partner->remote_group;
    nccl_must(*group == r->partner->remote_group, r, r->partner,
              "the groups differ");
    return true;
}

static bool
find_partners(Request *r)
{
    const Clique *c = r->comm->clique;
    if (r->kind <= RECV)
        return find_partner(r);
    const Round *round = nccl_round_of(r->comm->clique, r->number);
    for (int k = 0; k < c->num_ranks; k++) {
        if (c->remotes[k] && !round->requests[k])
            return false;
        if (c->remotes[k])
            nccl_check_alike(round->requests[k], r);
    }
    return true;
}

bool
nccl_meets_remotes(Exchange *x)
{
    Work *w = (Work *)x;
    bool all = true;
    for (Request *r = w->first; r && !w->is_written; r = r->next)
        append_call(r);
    w->is_written = true;
    nccl_find_remotes(w->comm->clique);
    for (Request *r = w->first; r; r = r->next)
        all &= find_partners(r);
    return all;
}

/* ---- the devices' own progress ------------------------------------------- */

static bool
has_work(const struct ncclComm *comm)
{
    return comm && comm->pending && !comm->pending->exchange.is_aborted &&
           comm->pending->exchange.op;
}

static void *
go_on(void *data)
{
    static const struct timespec pause = {0, PAUSE_NS};
    (void)data;
    for (;;) {
        nanosleep(&pause, NULL);
        fake_exchange_lock();
        if (nccl_is_ending) {
            fake_exchange_unlock();
            return NULL;
        }
        for (Clique *c = nccl_cliques; c; c = c->next)
            for (int k = 0; c->is_shared && k < c->num_ranks; k++)
                if (has_work(c->comms[k]))
                    fake_exchange_go_on(&c->comms[k]->pending->exchange);
        fake_exchange_unlock();
    }
}
