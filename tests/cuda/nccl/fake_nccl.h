/*
 * fake_nccl.h - what the files of the fake NCCL share
 *
 * Communicators meet in a clique, by their unique id.  A group of calls on a
 * communicator is one operation of its stream in the fake driver (an exchange),
 * which is executed together with those of the others.  Ranks of other
 * processes are remotes (remote.c).
 */
#ifndef TFD_TESTS_CUDA_NCCL_FAKE_NCCL_H
#define TFD_TESTS_CUDA_NCCL_FAKE_NCCL_H

#include "runtime/coll/nccl/api.h"
#include "tests/cuda/fake/exchange.h"

#define NCCL_CALL(result, name, params)                                        \
    __attribute__((visibility("default"))) result name params;
#include "runtime/coll/nccl/nccl.def"
#undef NCCL_CALL

enum {
    MAX_RANKS = EXCHANGE_PARTNERS,
    SITE_BYTES = 160,
    FILE_BYTES = 160,
    ERROR_BYTES = 160
};

typedef struct Clique Clique;
typedef struct Request Request;
typedef struct Work Work;
typedef struct Remote Remote;

typedef enum RequestKind { SEND, RECV, ALL_GATHER, ALL_REDUCE } RequestKind;

/* One call. */
struct Request {
    RequestKind kind;
    ncclComm_t comm;
    CUstream stream;
    char site[SITE_BYTES]; /* who called what, for complaints */
    CUdeviceptr from, to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer;              /* of SEND and RECV */
    uint64_t number;       /* collectives of the communicator before it */
    Work *work;            /* the group that it is part of */
    uint64_t remote_group; /* of another process, counted from 1 */
    Request *partner;      /* of SEND and RECV; NULL: not yet */
    uint8_t *bytes;        /* that it has read */
    Request *next;         /* in its work */
    Request *next_unmatched;
};

/* A group of calls on a communicator. */
struct Work {
    Exchange exchange; /* first */
    ncclComm_t comm;
    Request *first, *last;
    Work *next_pending; /* of its communicator */
    uint64_t number;    /* groups of the communicator before it */
    bool is_written;    /* to its rank's log */
    uint64_t remote_groups[MAX_RANKS]; /* that it meets; 0: none yet */
};

struct ncclComm {
    Clique *clique;
    int rank, device;
    ncclResult_t state;   /* of the communicator as a whole */
    int asked;            /* questions that are answered with ncclInProgress */
    Work *late;           /* a group that is not on its stream until then */
    bool is_late_lost;    /* as nccl_enqueue has it */
    unsigned has_come_to; /* a bit for each RequestKind */
    uint64_t collectives; /* so far */
    uint64_t groups;      /* so far */
    int log;              /* that remotes read; 0: there is none */
    bool has_told;        /* that it has found all of them */
    bool is_finalized;
    Work *pending;
    Request *sends[MAX_RANKS], *recvs[MAX_RANKS]; /* unmatched, by peer */
    char init_site[SITE_BYTES];
    char error[ERROR_BYTES];
};

/* The collectives of all ranks with one number. */
typedef struct Round {
    uint64_t number;
    Request *requests[MAX_RANKS]; /* of each rank */
    int num_done;                 /* ranks that have their results */
    struct Round *next;
} Round;

struct Clique {
    ncclUniqueId id;
    int num_ranks, num_joined;
    int num_local, num_left;     /* of this process */
    ncclComm_t comms[MAX_RANKS]; /* of this process, else NULL */
    Remote *remotes[MAX_RANKS];  /* of others, once they are found */
    bool is_shared, are_removed; /* with other processes; the logs' names */
    Round *rounds;
    Clique *next;
};

_Noreturn void nccl_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* Zeroed, for as long as the process lasts. */
void *nccl_alloc(size_t n);
size_t nccl_bytes_of(ncclDataType_t type);

extern Clique *nccl_cliques;
extern bool nccl_is_ending; /* the process is */

/* Complains of two calls that do not fit, unless something failed by request.
 */
void nccl_must(bool is_so, const Request *a, const Request *b,
               const char *what);
void nccl_check_pair(const Request *send, const Request *recv);
void nccl_check_alike(const Request *a, const Request *b);
Round *nccl_round_of(Clique *c, uint64_t number);

/* Looks for ranks that are not of this process, and at what they have done. */
void nccl_find_remotes(Clique *c);
/* Whether the process of one has ended before it left. */
bool nccl_has_lost_remote(const Clique *c);
void nccl_leave_remotes(ncclComm_t comm);
/* Exchange.meets of a group with remotes. */
bool nccl_meets_remotes(Exchange *x);

/* Adds all requests of a group on a communicator to the driver's streams, and
 * finds their partners (match.c).  is_lost: it will never be executed. */
void nccl_enqueue(Work *w, bool is_lost);
/* What the communicator has enqueued does nothing any more. */
void nccl_abort_work(ncclComm_t comm);
/* Complains of what nobody else has come to. */
void nccl_check_matched(ncclComm_t comm);

/* Two elements, as the operation says, in the precision of their type. */
void nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *to,
                  const void *with, size_t count);

#endif
