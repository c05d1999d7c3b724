/*
 * link.h - messages between the processes of a job
 *
 * A link joins this process, by its rank, with all others: it carries messages,
 * each from one process to another one with a tag.  Messages of one pair and
 * one tag arrive in the order in which they were sent; between others there is
 * no order.  Both ends know the bytes of a message.
 *
 * A link is used by one thread, the carrier's (carrier.h), so that libraries
 * need not be safe for several.  Nothing here waits, except connect and close.
 */
#ifndef TFD_RUNTIME_LINK_LINK_H
#define TFD_RUNTIME_LINK_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"

typedef struct RtLink RtLink;
typedef struct RtTransfer RtTransfer;

enum {
    RT_LINK_MAX_ADDRESS = 64 << 10, /* bytes */
    RT_LINK_NUM_TAGS = 1 << 15      /* tags are below it: what every MPI has */
};

/* One message as one of its ends sees it.  Lasts until it has ended. */
struct RtTransfer {
    int peer; /* rank of the other end */
    uint32_t tag;
    void *address; /* of what is sent, which must not change, or received */
    size_t bytes;  /* not 0 */
    /* Called by the carrier when the message was sent, so that its memory can
     * be used again, or received; may begin other transfers.  Not called for a
     * transfer that was cancelled. */
    void (*end)(RtTransfer *t);
    void *owner;

    /* The carrier's and the link's. */
    RtTransfer *next;
    bool sends;
    size_t moved; /* bytes */
    uint64_t handle[2];
    atomic_bool has_ended;
};

/* The address of a process, as the link's connect of other processes
 * understands it. */
typedef struct RtLinkAddress {
    const void *bytes;
    size_t len; /* at most RT_LINK_MAX_ADDRESS */
} RtLinkAddress;

typedef struct RtLinkOps {
    const char *name; /* "mpi" */
    /* This process's address; lasts as long as the link. */
    RtLinkAddress (*address)(RtLink *l);
    /* Once, with the addresses of all processes by rank, before the first
     * message.  A failure says which process cannot be reached by what. */
    Status (*connect)(RtLink *l, const RtLinkAddress *all);
    /* Begin a transfer, which has nothing of the link's in it. */
    void (*send)(RtLink *l, RtTransfer *t);
    void (*recv)(RtLink *l, RtTransfer *t);
    /* Moves what can be moved; *moved is set if anything was.  A failure is the
     * link's end: nothing is begun or tested after it. */
    Status (*progress)(RtLink *l, bool *moved);
    /* Whether a transfer has ended, as of the last progress. */
    bool (*test)(RtLink *l, RtTransfer *t);
    /* Forgets a transfer: its memory is not touched any more, as far as the
     * library allows it. */
    void (*cancel)(RtLink *l, RtTransfer *t);
    /* Readable when progress may have something to do, after a progress that
     * moved nothing; -1: the library has none. */
    int (*wait_fd)(RtLink *l);
    /* failed: others may not answer any more. */
    void (*close)(RtLink *l, bool failed);
    /* Whether messages to and from a peer go through memory that both map, and
     * not over the link that is named; NULL: none do. */
    bool (*is_near)(RtLink *l, int peer);
} RtLinkOps;

struct RtLink {
    const RtLinkOps *ops;
    int rank, size;
    int wake_fd; /* the carrier's, set before connect: what is written to it
                    wakes the carrier; for threads of a library */
};

#endif
