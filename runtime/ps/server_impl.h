/*
 * server_impl.h - shared by the files of a server
 *
 *   server.c          its requests, and turns
 *   server_updates.c  updates of variables
 */
#ifndef TFD_RUNTIME_PS_SERVER_IMPL_H
#define TFD_RUNTIME_PS_SERVER_IMPL_H

#include "runtime/ps/applied.h"
#include "runtime/ps/parts/rows.h"
#include "runtime/ps/server.h"

enum { RT_SERVER_MOST_HELD = 16 };

/* An update with places for its arguments. */
typedef struct RtApply {
    RtInvocation inv;
    RtDevicePtr *in;
    RtValue *values; /* its parameters */
    RtRows rows;     /* that it is of, if it needs no others */
    RtProgramLaunch launch;
} RtApply;

/* An acknowledgement that waits for the next answer. */
typedef struct RtHeldAck {
    RtPsRoute to;
    RtPsRequest head;
    const char *failure; /* then: those before did not fail */
} RtHeldAck;

typedef struct RtServer {
    RtServing with;
    Arena *arena;
    RtArchive out, ack;
    RtApply *applies;
    int index;            /* of this server */
    RtDevicePtr *slots;   /* memories, each for a part of a variable */
    RtDevicePtr together; /* another one, for rows from anywhere in a part */
    int64_t *versions;    /* of each part, from 1 */
    VEC(RtPsRoute) peers; /* the coordinator, and each worker */
    RtAppliedSet applied;
    RtStaging staging;
    int64_t last_commit; /* one that comes again is only answered */
    int64_t last_set; /* the last SET: one that comes again is only answered */
    RtPsMeter meter;
    RtPsTraffic traffic;
    double busy, load_sent;              /* seconds; when */
    RtHeldAck held[RT_SERVER_MOST_HELD]; /* in their order */
    int num_held;
    bool has_answered;   /* something else in this turn */
    const char *failure; /* of an update; NULL: none */
    bool has_ended;
    Status refused; /* by the coordinator, since it joined */
} RtServer;

/* Places for the arguments of an update. */
void rt_server_init_apply(RtServer *s, RtApply *a, const RtUpdate *u);
/* Rows of a part get the bytes that come, without a program. */
void rt_server_set(RtServer *s, const RtPart *part, RtArchive *in);
/* One update of a part; false if the message is damaged, or that is not here.
 */
bool rt_server_apply_next(RtServer *s, RtArchive *in);

#endif
