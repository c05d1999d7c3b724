/*
 * mpi.c - a link over the cluster's MPI
 *
 * Messages are Isend, Irecv and Test, nothing else: so peers are combined in
 * D2's order whatever MPI does, and what is needed of a family is little.  A
 * count is an int, so more than a gigabyte goes in segments, each begun when
 * the one before has ended.
 */
#include "runtime/link/mpi/mpi.h"

#include <string.h>
#include "runtime/cluster/mpi/library.h"

enum { SEGMENT = 1 << 30, MOST_FAMILY = 32, IDLE_TAG = RT_LINK_NUM_TAGS - 1 };

typedef struct Address {
    int rank, size; /* MPI's */
    char family[MOST_FAMILY];
} Address;

typedef struct MpiLink {
    RtLink link;
    Arena *arena;
    const MpiLibrary *mpi;
    Address address;
    int *ranks;      /* MPI's of each rank */
    MpiRequest idle; /* what is tested to make progress */
    char idle_byte;
    bool is_idling;
    const char *failed; /* call */
} MpiLink;

static MpiLink *
mpi_of(RtLink *l)
{
    return (MpiLink *)l;
}

static RtLinkAddress
mpi_address(RtLink *l)
{
    return (RtLinkAddress){&mpi_of(l)->address, sizeof(Address)};
}

static Status
check_peer(const MpiLink *l, int peer, const RtLinkAddress *blob)
{
    Address other;
    if (blob->len != sizeof other)
        return status_new(
            STATUS_INPUT,
            "rank %d has no address of MPI: all processes use one "
            "link",
            peer);
    memcpy(&other, blob->bytes, sizeof other);
    if (strncmp(other.family, l->address.family, MOST_FAMILY) != 0)
        return status_new(
            STATUS_INPUT,
            "rank %d has %.31s, and rank %d %.31s: use one MPI on "
            "all hosts (--mpi PATH)",
            peer, other.family, l->link.rank, l->address.family);
    if (other.size != l->link.size || other.rank < 0 ||
        other.rank >= l->link.size)
        return rt_mpi_other_numbers(l->mpi, peer, l->link.size, other.rank,
                                    other.size);
    l->ranks[peer] = other.rank;
    return OK;
}

static Status
mpi_connect(RtLink *link, const RtLinkAddress *all)
{
    MpiLink *l = mpi_of(link);
    for (int k = 0; k < link->size; k++)
        TRY(check_peer(l, k, &all[k]));
    if (l->mpi->MPI_Irecv(&l->idle_byte, 1, l->mpi->byte, l->address.rank,
                          IDLE_TAG, l->mpi->world, &l->idle))
        return status_new(STATUS_MACHINE, "MPI_Irecv fails");
    l->is_idling = true;
    return OK;
}

/* ---- transfers ----------------------------------------------------------- */

static MpiRequest *
request_of(RtTransfer *t)
{
    return &t->handle[0];
}

/* The next segment; `moved` counts what has been begun. */
static void
begin_segment(MpiLink *l, RtTransfer *t)
{
    const MpiLibrary *mpi = l->mpi;
    size_t rest = t->bytes - t->moved;
    int n = rest < SEGMENT ? (int)rest : SEGMENT;
    char *at = (char *)t->address + t->moved;
    int peer = l->ranks[t->peer], tag = (int)t->tag;
    int error = t->sends ? mpi->MPI_Isend(at, n, mpi->byte, peer, tag,
                                          mpi->world, request_of(t))
                         : mpi->MPI_Irecv(at, n, mpi->byte, peer, tag,
                                          mpi->world, request_of(t));
    t->moved += (size_t)n;
    if (error)
        l->failed = t->sends ? "MPI_Isend" : "MPI_Irecv";
}

static void
mpi_begin(RtLink *link, RtTransfer *t)
{
    begin_segment(mpi_of(link), t);
}

static Status
mpi_progress(RtLink *link, bool *moved)
{
    MpiLink *l = mpi_of(link);
    int flag;
    (void)moved; /* the carrier sees what has ended */
    if (!l->failed && l->mpi->MPI_Test(&l->idle, &flag, l->mpi->status_ignore))
        l->failed = "MPI_Test";
    if (!l->failed)
        return OK;
    return status_new(STATUS_MACHINE, "%s fails: another process may have died",
                      l->failed);
}

static bool
mpi_test(RtLink *link, RtTransfer *t)
{
    MpiLink *l = mpi_of(link);
    int flag = 0;
    if (l->failed)
        return false;
    if (l->mpi->MPI_Test(request_of(t), &flag, l->mpi->status_ignore))
        l->failed = "MPI_Test";
    if (l->failed || !flag)
        return false;
    if (t->moved == t->bytes)
        return true;
    begin_segment(l, t);
    return false;
}

/* What is sent cannot be called back; what is received has no reader. */
static void
mpi_cancel(RtLink *link, RtTransfer *t)
{
    MpiLink *l = mpi_of(link);
    if (!t->sends && !l->failed)
        l->mpi->MPI_Cancel(request_of(t));
}

static int
mpi_wait_fd(RtLink *link)
{
    (void)link;
    return -1;
}

static void
end_idling(MpiLink *l)
{
    const MpiLibrary *mpi = l->mpi;
    MpiRequest sent;
    int has_sent = 0, has_come = 0;
    char byte = 0;
    if (mpi->MPI_Isend(&byte, 1, mpi->byte, l->address.rank, IDLE_TAG,
                       mpi->world, &sent))
        return;
    while (!has_sent || !has_come) {
        if ((!has_sent &&
             mpi->MPI_Test(&sent, &has_sent, mpi->status_ignore)) ||
            (!has_come &&
             mpi->MPI_Test(&l->idle, &has_come, mpi->status_ignore)))
            return;
    }
}

/* Finalize waits for all processes, so not after a failure. */
static void
mpi_close(RtLink *link, bool failed)
{
    MpiLink *l = mpi_of(link);
    if (!failed && !l->failed) {
        if (l->is_idling)
            end_idling(l);
        rt_mpi_library_close(0);
    }
    arena_release(l->arena);
}

static const RtLinkOps mpi_ops = {
    .name = "mpi",
    .address = mpi_address,
    .connect = mpi_connect,
    .send = mpi_begin,
    .recv = mpi_begin,
    .progress = mpi_progress,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .wait_fd = mpi_wait_fd,
    .close = mpi_close,
};

Status
rt_link_mpi_open(int rank, int size, const char *path, RtLink **out)
{
    const MpiLibrary *mpi;
    TRY(rt_mpi_library_open(path, 0, &mpi));
    Arena *a = arena_new(NULL, "messages over MPI");
    MpiLink *l = NEW(a, MpiLink);
    l->link = (RtLink){&mpi_ops, rank, size, -1};
    l->arena = a;
    l->mpi = mpi;
    l->ranks = NEW_ARRAY(a, int, (size_t)size);
    mpi->MPI_Comm_rank(mpi->world, &l->address.rank);
    mpi->MPI_Comm_size(mpi->world, &l->address.size);
    strncpy(l->address.family, mpi->family, MOST_FAMILY - 1);
    *out = &l->link;
    return OK;
}
