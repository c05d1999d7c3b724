/*
 * client_impl.h - shared by the files of a client
 *
 *   client.c        what closures pull and push
 *   client_whole.c  all of all variables, a little at a time
 */
#ifndef TFD_RUNTIME_PS_CLIENT_IMPL_H
#define TFD_RUNTIME_PS_CLIENT_IMPL_H

#include "ir/base/vec.h"
#include "runtime/ps/client.h"

enum {
    RT_PS_MOST_PENDING = 32,
    RT_PS_MUCH = 1 << 20 /* bytes of a message that can be several */
};

/* A request that is not answered. */
typedef struct RtPsSent {
    int64_t number; /* 0: none */
    double at;
    RtArchive bytes;
} RtPsSent;

/* What is pushed to a server for one closure. */
typedef struct RtPsPushed {
    RtPsSent request;
    bool is_staged;
    int64_t num;
} RtPsPushed;

/* A closure whose updates are under way. */
typedef struct RtPsPending {
    int64_t id, attempt;
    bool is_told; /* that all servers keep it */
    int open;     /* servers that have not acknowledged it */
    const char *error;
    RtPsPushed *pushes; /* to each server */
} RtPsPending;

/* Rows of a part that are pulled, counted from its first. */
typedef struct RtPsWantedRows {
    const RtPart *part;
    int64_t *rows, num;
} RtPsWantedRows;

typedef struct RtPsServer {
    RtPsSocket socket;
    RtPsSent pull;
    int64_t clock;              /* of what was pulled last, or RT_PS_NO_PULL */
    VEC(RtPsWantedRows) wanted; /* by it, in its order */
    int num_wanted;             /* these, and whole parts */
} RtPsServer;

struct RtPsClient {
    Arena *arena;
    RtRun *run;
    RtPsNet *net;
    const RtPlacement *placement;
    int num_servers;
    RtPsServer *servers;
    uint64_t job;
    int64_t number;    /* of the last request */
    int64_t *versions; /* of each part, that are here; 0: none */
    /* The closures under way, from the oldest on: a ring. */
    RtPsPending pending[RT_PS_MOST_PENDING];
    int first, num_pending;
    bool is_pushing;
    bool is_held; /* the last one is ready, and leaves with the next pull */
    RtArchive several; /* that are sent together */
    bool expects_more; /* rt_ps_expect_more */
    int64_t low;
    RtPsTraffic traffic; /* of the servers that were asked for it */
    RtPsNextId next_id;  /* NULL: a closure has one */
    void *ids;
    RtPsSocket *watched;
    RtPsWatch watch; /* while it waits; NULL: nobody */
    void *watcher;
};

/* A request of that type; its parts follow. */
void rt_client_begin_request(RtPsClient *c, RtPsSent *q, RtPsType type,
                             int64_t id);
/* The next pull is also of a part, or of some of its rows. */
void rt_client_want_part(RtPsClient *c, int64_t part);
void rt_client_want_rows(RtPsClient *c, int64_t part, RtPsWantedRows *w);

#endif
