/*
 * rendezvous.c - finding the control server over MPI
 *
 * Two messages of each process: the name of its machine to rank 0, and what it
 * has to know from there.  Both are of fixed size, sent and received without
 * waiting inside of MPI, so that whoever does not come is named.
 */
#include "runtime/cluster/mpi/rendezvous.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/interfaces.h"
#include "runtime/cluster/mpi/deadline.h"
#include "runtime/cluster/mpi/library.h"
#include "runtime/cluster/zmq/socket.h"
#include "runtime/hal/bounded.h"
#include "runtime/hal/system.h"

enum {
    MACHINE_BYTES = 256,
    ADDRESSES_BYTES = 4000,
    TAG = 1,         /* a link over MPI begins when nothing of this is left */
    NAP = 200 * 1000 /* nanoseconds */
};

/* What rank 0 sends to all: the processes are of one program. */
typedef struct Announcement {
    uint8_t has_key; /* else all have that of --key */
    uint8_t key[RT_JOB_KEY];
    char addresses[ADDRESSES_BYTES]; /* with commas */
} Announcement;

typedef struct MpiRendezvous {
    RtRendezvous base;
    Arena *arena;
    const char *path;
    const MpiLibrary *mpi;
    int rank, size;
    bool has_key_file;       /* --key */
    uint8_t key[RT_JOB_KEY]; /* that rank 0 has made */
    bool is_local;           /* all processes are on one machine */
    double timeout;
    const atomic_bool *interrupted; /* or NULL */
    MpiRequest *requests;           /* by rank, of the others */
    bool *ended;
} MpiRendezvous;

static MpiRendezvous *
rendezvous_of(RtRendezvous *r)
{
    return (MpiRendezvous *)r;
}

/* ---- messages ------------------------------------------------------------ */

static Status
call_failed(const MpiRendezvous *r, const char *call)
{
    return status_new(STATUS_MACHINE,
                      "%s fails (%s) before the job has begun: another process "
                      "may have died",
                      call, r->mpi->family);
}

static Status
send_to(MpiRendezvous *r, int peer, const void *bytes, size_t n)
{
    const MpiLibrary *mpi = r->mpi;
    r->ended[peer] = false;
    return mpi->MPI_Isend(bytes, (int)n, mpi->byte, peer, TAG, mpi->world,
                          &r->requests[peer])
               ? call_failed(r, "MPI_Isend")
               : OK;
}

static Status
receive_from(MpiRendezvous *r, int peer, void *bytes, size_t n)
{
    const MpiLibrary *mpi = r->mpi;
    r->ended[peer] = false;
    return mpi->MPI_Irecv(bytes, (int)n, mpi->byte, peer, TAG, mpi->world,
                          &r->requests[peer])
               ? call_failed(r, "MPI_Irecv")
               : OK;
}

/* *peer gets the first rank whose message has not ended, -1: none. */
static Status
test_all(MpiRendezvous *r, int *peer)
{
    *peer = -1;
    for (int k = r->size - 1; k >= 0; k--) {
        int flag = 1;
        if (!r->ended[k] &&
            r->mpi->MPI_Test(&r->requests[k], &flag, r->mpi->status_ignore))
            return call_failed(r, "MPI_Test");
        r->ended[k] = flag;
        if (!flag)
            *peer = k;
    }
    return OK;
}

static Status
check_time(const MpiRendezvous *r, int peer, double waited)
{
    if (r->interrupted && atomic_load(r->interrupted))
        return status_new(STATUS_STOPPED,
                          "interrupted before rank %d was heard of over MPI",
                          peer);
    if (waited < r->timeout)
        return OK;
    return status_new(STATUS_MACHINE,
                      "rank %d has waited for rank %d over MPI (%s) for %g "
                      "seconds, and the job has not begun",
                      r->rank, peer, r->mpi->family, r->timeout);
}

/* Until all messages that were begun have ended. */
static Status
test_until_all_end(MpiRendezvous *r)
{
    double begin = clock_seconds();
    for (;;) {
        int peer;
        TRY(test_all(r, &peer));
        if (peer < 0)
            return OK;
        double now = clock_seconds();
        TRY(check_time(r, peer, now - begin));
        nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
    }
}

/* The deadline is for an MPI_Test that does not return. */
static Status
wait_for_all(MpiRendezvous *r)
{
    enum { LATER = 2 }; /* seconds */
    RtDeadline d;
    TRY(rt_deadline_begin(&d, "MPI_Test", r->mpi->family, r->timeout + LATER));
    Status st = test_until_all_end(r);
    rt_deadline_end(&d);
    return st;
}

/* ---- opening ------------------------------------------------------------- */

static Status
without_mpi(Status st)
{
    Status out = status_new(
        status_kind(st),
        "%s; rank 0 says over MPI where it listens, unless all processes have "
        "--join HOST:PORT, or TFD_CONTROL set to it",
        message_part(status_message(st)));
    status_free(st);
    return out;
}

static Status
open_mpi(MpiRendezvous *r, const RtJobConfig *config)
{
    int rank = -1, size = -1;
    r->timeout = config->timeout > 0 ? config->timeout : RT_JOB_TIMEOUT;
    r->interrupted = config->interrupted;
    Status st = rt_mpi_library_open(r->path, r->timeout, &r->mpi);
    if (st)
        return without_mpi(st);
    r->mpi->MPI_Comm_rank(r->mpi->world, &rank);
    r->mpi->MPI_Comm_size(r->mpi->world, &size);
    if (rank != r->rank || size != r->size)
        return rt_mpi_other_numbers(r->mpi, r->rank, r->size, rank, size);
    r->requests = NEW_ARRAY(r->arena, MpiRequest, (size_t)r->size);
    r->ended = NEW_ARRAY(r->arena, bool, (size_t)r->size);
    for (int k = 0; k < r->size; k++)
        r->ended[k] = true;
    return OK;
}

static void
name_machine(Arena *a, char out[MACHINE_BYTES])
{
    memset(out, 0, MACHINE_BYTES);
    strncpy(out, rt_machine_name(a), MACHINE_BYTES - 1);
}

/* ---- rank 0 -------------------------------------------------------------- */

static Status
hear_machines(MpiRendezvous *r)
{
    char own[MACHINE_BYTES];
    char *all = NEW_ARRAY(r->arena, char, (size_t)r->size *MACHINE_BYTES);
    name_machine(r->arena, own);
    for (int k = 1; k < r->size; k++)
        TRY(receive_from(r, k, all + (size_t)k * MACHINE_BYTES, MACHINE_BYTES));
    TRY(wait_for_all(r));
    r->is_local = true;
    for (int k = 1; k < r->size; k++)
        r->is_local &=
            memcmp(own, all + (size_t)k * MACHINE_BYTES, MACHINE_BYTES) == 0;
    return OK;
}

static Status
wait_for_others(MpiRendezvous *r, RtJobOptions *options)
{
    TRY(hear_machines(r));
    options->listen = r->is_local ? "127.0.0.1:0" : "*:0";
    if (r->has_key_file)
        return OK;
    if (getrandom(r->key, RT_JOB_KEY, 0) != RT_JOB_KEY)
        return rt_system_error("getrandom");
    options->key = r->key;
    return OK;
}

/* All that others may reach; loopback where they are all here, or there is
 * nothing else. */
static Status
list_addresses(MpiRendezvous *r, int port, char out[ADDRESSES_BYTES])
{
    enum { SCHEME = sizeof "tcp://" - 1 };
    RtAddresses found = {0};
    Str list = str_new(r->arena);
    if (!r->is_local)
        TRY(rt_list_addresses(r->arena, port, &found));
    for (int i = 0; i < found.num; i++)
        if (!rt_zmq_is_loopback(found.text[i]))
            str_addf(&list, "%s%s", list.len ? "," : "",
                     found.text[i] + SCHEME);
    if (list.len == 0)
        str_addf(&list, "127.0.0.1:%d", port);
    strncpy(out, str_text(&list), ADDRESSES_BYTES - 1);
    return OK;
}

static Status
announce(RtRendezvous *base, int port)
{
    MpiRendezvous *r = rendezvous_of(base);
    Announcement *said = NEW(r->arena, Announcement);
    said->has_key = !r->has_key_file;
    memcpy(said->key, r->key, RT_JOB_KEY);
    TRY(list_addresses(r, port, said->addresses));
    for (int k = 1; k < r->size; k++)
        TRY(send_to(r, k, said, sizeof *said));
    Status st = wait_for_all(r);
    explicit_bzero(said->key, RT_JOB_KEY);
    return st;
}

/* ---- the others ---------------------------------------------------------- */

static void
split_addresses(Arena *a, const char *list, RtJobOptions *options)
{
    const char **all = NEW_ARRAY(a, const char *, RT_MOST_ADDRESSES);
    int num = 0;
    while (*list && num < RT_MOST_ADDRESSES) {
        size_t n = strcspn(list, ",");
        all[num++] = arena_printf(a, "%.*s", (int)n, list);
        list += list[n] ? n + 1 : n;
    }
    options->addresses = all;
    options->num_addresses = num;
}

static Status
take_key(const MpiRendezvous *r, const Announcement *heard,
         RtJobOptions *options)
{
    if (r->has_key_file == heard->has_key)
        return status_new(STATUS_INPUT,
                          "one of rank 0 and rank %d has --key, and the other "
                          "has not: give it to all processes, or to none",
                          r->rank);
    if (heard->has_key)
        options->key = heard->key;
    return OK;
}

static Status
wait_for_rank_0(MpiRendezvous *r, Arena *a, RtJobOptions *options)
{
    char own[MACHINE_BYTES];
    Announcement *heard = NEW(a, Announcement);
    name_machine(a, own);
    TRY(send_to(r, 0, own, sizeof own));
    TRY(wait_for_all(r));
    TRY(receive_from(r, 0, heard, sizeof *heard));
    TRY(wait_for_all(r));
    heard->addresses[ADDRESSES_BYTES - 1] = '\0';
    split_addresses(a, heard->addresses, options);
    return take_key(r, heard, options);
}

/* ---- the table ----------------------------------------------------------- */

static Status
meet(RtRendezvous *base, const RtJobConfig *config, Arena *a,
     RtJobOptions *options)
{
    MpiRendezvous *r = rendezvous_of(base);
    TRY(open_mpi(r, config));
    return r->rank == 0 ? wait_for_others(r, options)
                        : wait_for_rank_0(r, a, options);
}

/* MPI_Finalize waits for all processes, so all have ended well.  Without it the
 * launcher kills all others as soon as one of them ends: those that have
 * nothing to say wait for that. */
static void
leave(RtRendezvous *base, bool failed, bool speaks)
{
    enum { LATER = 1 };                    /* seconds */
    if (!failed && !rt_has_left_threads()) /* which may be in it */
        rt_mpi_library_close(rendezvous_of(base)->timeout);
    else if (!speaks)
        nanosleep(&(struct timespec){.tv_sec = LATER}, NULL);
}

static const RtRendezvousOps ops = {
    .meet = meet, .announce = announce, .leave = leave};

RtRendezvous *
rt_mpi_rendezvous(Arena *a, const RtJobOptions *job, const char *path)
{
    MpiRendezvous *r = NEW(a, MpiRendezvous);
    *r = (MpiRendezvous){.base = {&ops},
                         .arena = a,
                         .path = path,
                         .rank = job->rank,
                         .size = job->size,
                         .has_key_file = job->key != NULL};
    return &r->base;
}
