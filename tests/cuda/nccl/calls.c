/*
 * calls.c - the functions of NCCL, and what they complain of
 *
 * Communicators do not block, as ours must not: a call that blocks cannot be
 * given up (ncclConfig_t.blocking).  So making one, and a group of calls, may
 * be ncclInProgress for a while, and whoever goes on meanwhile is told.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/cuda/nccl/fake_nccl.h"

/* TFD_FAKE_NCCL, by commas */
typedef struct Options {
    bool are_read;
    int version;
    char fail[40]; /* this function, call fail_number of it */
    int fail_number;
    int killed_rank, killed_group; /* whose process ends in it, of its own */
    int lost, hang; /* this group of all is never executed, and the
                       communicator says so, or not; 0: none */
    bool lazy;      /* a collective connects, when all ranks have come to one of
                       its kind */
    bool stuck;     /* ncclCommAbort does not return */
} Options;

static Options options;
Clique *nccl_cliques;
bool nccl_is_ending;
static int groups; /* that were enqueued */

static const char last_error[] = "a cable was pulled";

/* ---- complaints and options ---------------------------------------------- */

void
nccl_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("fake NCCL: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* Requests point to each other, and to who has left. */
static struct Block {
    struct Block *next;
    _Alignas(max_align_t) char bytes[];
} *blocks;

void *
nccl_alloc(size_t n)
{
    struct Block *b = calloc(1, sizeof *b + n);
    if (!b)
        nccl_complain("no memory for %zu bytes", n);
    b->next = blocks;
    blocks = b;
    return b->bytes;
}

static void
leave(int *unused)
{
    (void)unused;
    fake_exchange_unlock();
}

__attribute__((destructor)) static void
free_blocks(void)
{
    int held __attribute__((cleanup(leave), unused)) = 0;
    fake_exchange_lock();
    nccl_is_ending = true;
    while (blocks) {
        struct Block *b = blocks;
        blocks = b->next;
        free(b);
    }
}

static bool
read_flag(const char *word)
{
    options.lazy |= strcmp(word, "lazy") == 0;
    options.stuck |= strcmp(word, "stuck") == 0;
    return strcmp(word, "lazy") == 0 || strcmp(word, "stuck") == 0;
}

static void
read_options(void)
{
    const char *setting = getenv("TFD_FAKE_NCCL");
    char text[256], *rest = text;
    options = (Options){.are_read = true, .version = 22809};
    snprintf(text, sizeof text, "%s", setting ? setting : "");
    for (char *word; (word = strtok_r(rest, ",", &rest));)
        if (sscanf(word, "version:%d", &options.version) != 1 &&
            sscanf(word, "fail:%39[^:]:%d", options.fail,
                   &options.fail_number) != 2 &&
            sscanf(word, "lost:%d", &options.lost) != 1 &&
            sscanf(word, "killed:%d:%d", &options.killed_rank,
                   &options.killed_group) != 2 &&
            sscanf(word, "hang:%d", &options.hang) != 1 && !read_flag(word))
            nccl_complain("TFD_FAKE_NCCL has \"%s\", which is none of "
                          "version:N, fail:CALL:N, lost:N, hang:N, "
                          "killed:RANK:N, lazy and stuck",
                          word);
}

/* ---- entering and leaving ------------------------------------------------ */

/* Whether this call of the function is the one that fails. */
static bool
enter(const char *call, int *number)
{
    fake_exchange_lock();
    if (!options.are_read)
        read_options();
    ++*number;
    bool fails =
        *number == options.fail_number && strcmp(options.fail, call) == 0;
    if (fails)
        fake_exchange_note_failure();
    return fails;
}

#define ENTER                                                                  \
    static int number_of_call;                                                 \
    int held __attribute__((cleanup(leave), unused)) = 0;                      \
    if (enter(__func__, &number_of_call))                                      \
    return ncclSystemError

/* "ncclSend of 3 f32 from rank 0 to 1 (coll_test+0x12)" */
#define SITE(to, ...)                                                          \
    do {                                                                       \
        char what_[100];                                                       \
        snprintf(what_, sizeof what_, __VA_ARGS__);                            \
        note_site(to, what_, __builtin_return_address(0));                     \
    } while (0)

static void
note_site(char *to, const char *what, const void *at)
{
    Dl_info info = {0};
    const char *name = "?";
    if (dladdr(at, &info) && info.dli_fname)
        name = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1
                                            : info.dli_fname;
    snprintf(to, SITE_BYTES, "%s (%s+0x%lx)", what, name,
             (unsigned long)((const char *)at - (const char *)info.dli_fbase));
}

/* ---- communicators ------------------------------------------------------- */

ncclResult_t
ncclGetVersion(int *version)
{
    ENTER;
    *version = options.version;
    return ncclSuccess;
}

/* The path of the logs that its processes may come to have. */
ncclResult_t
ncclGetUniqueId(ncclUniqueId *id)
{
    static int given;
    const char *folder = getenv("TMPDIR");
    ENTER;
    memset(id, 0, sizeof *id);
    if (!folder || strlen(folder) > sizeof id->internal / 2)
        folder = "/tmp";
    snprintf(id->internal, sizeof id->internal, "%s/tfd-nccl-%d-%d", folder,
             (int)getpid(), ++given);
    return ncclSuccess;
}

static Clique *
find_clique(const ncclUniqueId *id, int num_ranks)
{
    Clique *c = nccl_cliques;
    while (c && memcmp(&c->id, id, sizeof *id) != 0)
        c = c->next;
    if (!c) {
        c = nccl_alloc(sizeof *c);
        c->id = *id;
        c->num_ranks = num_ranks;
        c->next = nccl_cliques;
        nccl_cliques = c;
    }
    return c;
}

static void
join(Clique *c, ncclComm_t comm, int num_ranks)
{
    for (int k = 0; k < c->num_ranks; k++) {
        const struct ncclComm *other = c->comms[k];
        if (other && c->num_ranks != num_ranks)
            nccl_complain("the sizes differ: %s, but %s", other->init_site,
                          comm->init_site);
        if (other && k == comm->rank)
            nccl_complain("a rank joins twice: %s, and %s", other->init_site,
                          comm->init_site);
        if (other && other->device == comm->device)
            nccl_complain("two ranks on one GPU: %s, and %s", other->init_site,
                          comm->init_site);
    }
    c->comms[comm->rank] = comm;
    c->num_local++;
    c->num_joined++;
}

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *out, int num_ranks, ncclUniqueId id,
                       int rank, ncclConfig_t *config)
{
    ENTER;
    if (config->magic != 0xcafebeef || config->blocking != 0)
        nccl_complain("%s of a communicator that blocks: it cannot be given up",
                      __func__);
    if (rank < 0 || rank >= num_ranks || num_ranks > MAX_RANKS)
        return ncclInvalidArgument;
    if (fake_exchange_device() < 0)
        nccl_complain("%s by a thread without a context", __func__);
    ncclComm_t comm = nccl_alloc(sizeof *comm);
    comm->rank = rank;
    comm->device = fake_exchange_device();
    SITE(comm->init_site, "%s of rank %d of %d", __func__, rank, num_ranks);
    comm->clique = find_clique(&id, num_ranks);
    join(comm->clique, comm, num_ranks);
    *out = comm;
    return ncclInProgress;
}

static bool
is_ready(const struct ncclComm *comm)
{
    return comm->clique->num_joined >= comm->clique->num_ranks &&
           !comm->asked && !comm->late;
}

/* Whether all ranks of this process have come to what the communicator has. */
static bool
is_connected(const struct ncclComm *comm)
{
    const Clique *c = comm->clique;
    for (int k = 0; options.lazy && k < c->num_ranks; k++)
        if (c->comms[k] && comm->has_come_to & ~c->comms[k]->has_come_to)
            return false;
    return true;
}

/* The thread that NCCL has for a group in progress. */
static void
go_on_with_late(ncclComm_t comm)
{
    Work *w = comm->late;
    if (comm->asked || !w || !is_connected(comm))
        return;
    comm->late = NULL;
    nccl_enqueue(w, comm->is_late_lost);
}

ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ENTER;
    nccl_find_remotes(comm->clique);
    if (nccl_has_lost_remote(comm->clique))
        comm->state = ncclRemoteError;
    *error = comm->state      ? comm->state
             : is_ready(comm) ? ncclSuccess
                              : ncclInProgress;
    if (comm->asked)
        comm->asked--;
    go_on_with_late(comm);
    return ncclSuccess;
}

static void
check_ready(const struct ncclComm *comm, const char *call)
{
    if (!is_ready(comm))
        nccl_complain("%s on a communicator of which a call is still in "
                      "progress",
                      call);
}

ncclResult_t
ncclCommFinalize(ncclComm_t comm)
{
    ENTER;
    check_ready(comm, __func__);
    if (comm->is_finalized)
        return ncclInvalidArgument;
    comm->is_finalized = true;
    comm->asked = 1;
    return ncclInProgress;
}

static void
give_back(ncclComm_t comm)
{
    Clique *c = comm->clique;
    nccl_leave_remotes(comm);
    if (++c->num_left < c->num_local)
        return; /* others may still read what it sent */
    Clique **at = &nccl_cliques;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

ncclResult_t
ncclCommDestroy(ncclComm_t comm)
{
    ENTER;
    check_ready(comm, __func__);
    if (!comm->is_finalized)
        nccl_complain("%s of a communicator that was not finalized", __func__);
    if (!comm->state)
        nccl_check_matched(comm);
    give_back(comm);
    return ncclSuccess;
}

/* Others go on. */
static _Noreturn void
never_return(void)
{
    fake_exchange_unlock();
    for (;;)
        pause();
}

ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
    ENTER;
    comm->late = NULL;
    nccl_abort_work(comm);
    give_back(comm);
    if (options.stuck)
        never_return();
    return ncclSuccess;
}

const char *
ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError   ? "unhandled system error"
           : result == ncclRemoteError ? "remote process exited"
           : result == ncclInvalidUsage
               ? "invalid usage (run with NCCL_DEBUG=WARN for details)"
               : "another error";
}

const char *
ncclGetLastError(ncclComm_t comm)
{
    return comm && comm->error[0] ? comm->error : last_error;
}

/* ---- groups -------------------------------------------------------------- */

static _Thread_local int depth;
static _Thread_local Work *group; /* one for each communicator, by next_pending
                                   */

/* A failure by request of a group: the communicator is lost, as far as it goes.
 */
static bool
is_lost(ncclComm_t comm)
{
    groups++;
    if (groups == options.lost)
        comm->state = ncclRemoteError;
    bool lost = groups == options.lost || groups == options.hang;
    if (lost)
        fake_exchange_note_failure();
    return lost;
}

static ncclResult_t
end_group(void)
{
    ncclResult_t result = ncclSuccess;
    while (group) {
        Work *w = group;
        ncclComm_t comm = w->comm;
        group = w->next_pending;
        w->next_pending = NULL;
        comm->asked = (int)fake_exchange_random(3);
        if (comm->rank == options.killed_rank &&
            comm->groups + 1 == (uint64_t)options.killed_group)
            raise(SIGKILL);
        for (const Request *r = w->first; r; r = r->next)
            comm->has_come_to |= r->kind > RECV ? 1u << r->kind : 0;
        comm->late = w;
        comm->is_late_lost = is_lost(comm);
        go_on_with_late(comm);
        if (comm->late)
            result = ncclInProgress;
    }
    return result;
}

ncclResult_t
ncclGroupStart(void)
{
    ENTER;
    depth++;
    return ncclSuccess;
}

ncclResult_t
ncclGroupEnd(void)
{
    ENTER;
    if (!depth)
        return ncclInvalidUsage;
    return --depth ? ncclSuccess : end_group();
}

static Work *
work_for(ncclComm_t comm, const char *call)
{
    Work *w = group;
    while (w && w->comm != comm)
        w = w->next_pending;
    if (!w) {
        w = nccl_alloc(sizeof *w);
        w->comm = comm;
        w->exchange.call = call;
        w->next_pending = group;
        group = w;
    }
    return w;
}

static ncclResult_t
add(const char *call, const Request *from)
{
    ncclComm_t comm = from->comm;
    const Clique *c = comm->clique;
    check_ready(comm, call);
    if (comm->is_finalized)
        nccl_complain("%s on a communicator that was finalized", call);
    if (comm->device != fake_exchange_device())
        nccl_complain("%s in the context of another GPU: %s", call, from->site);
    if (from->kind <= RECV && (from->peer < 0 || from->peer >= c->num_ranks ||
                               from->peer == comm->rank))
        return ncclInvalidArgument;
    Request *r = nccl_alloc(sizeof *r);
    *r = *from;
    Work *w = work_for(comm, call);
    if (w->last)
        w->last->next = r;
    else
        w->first = r;
    w->last = r;
    return depth ? ncclSuccess : end_group();
}

ncclResult_t
ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
         ncclComm_t comm, CUstream stream)
{
    ENTER;
    Request r = {.kind = SEND, .comm = comm, .stream = stream, .count = count};
    r.type = type;
    r.peer = peer;
    r.from = (CUdeviceptr)(uintptr_t)from;
    SITE(r.site, "rank %d sends %zu elements of type %d to %d", comm->rank,
         count, (int)type, peer);
    return add(__func__, &r);
}

ncclResult_t
ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         CUstream stream)
{
    ENTER;
    Request r = {.kind = RECV, .comm = comm, .stream = stream, .count = count};
    r.type = type;
    r.peer = peer;
    r.to = (CUdeviceptr)(uintptr_t)to;
    SITE(r.site, "rank %d receives %zu elements of type %d from %d", comm->rank,
         count, (int)type, peer);
    return add(__func__, &r);
}

ncclResult_t
ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
              ncclComm_t comm, CUstream stream)
{
    ENTER;
    Request r = {
        .kind = ALL_GATHER, .comm = comm, .stream = stream, .count = count};
    r.type = type;
    r.from = (CUdeviceptr)(uintptr_t)from;
    r.to = (CUdeviceptr)(uintptr_t)to;
    SITE(r.site, "rank %d gathers %zu elements of type %d", comm->rank, count,
         (int)type);
    return add(__func__, &r);
}

ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
              ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    ENTER;
    Request r = {
        .kind = ALL_REDUCE, .comm = comm, .stream = stream, .count = count};
    r.type = type;
    r.op = op;
    r.from = (CUdeviceptr)(uintptr_t)from;
    r.to = (CUdeviceptr)(uintptr_t)to;
    SITE(r.site, "rank %d reduces %zu elements of type %d by %d", comm->rank,
         count, (int)type, (int)op);
    return add(__func__, &r);
}
