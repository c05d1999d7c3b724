/*
 * job_impl.h - what the files of a member share
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_JOB_IMPL_H
#define TFD_RUNTIME_CLUSTER_CONTROL_JOB_IMPL_H

#include <pthread.h>
#include "runtime/cluster/control/position.h"
#include "runtime/cluster/control/server.h"
#include "runtime/cluster/zmq/socket.h"

/* ---- a connection to the control server ---------------------------------- */

typedef struct RtConnection {
    const char *address; /* tcp://10.0.0.1:17000 */
    void *socket, *monitor;
    bool handshake; /* succeeded */
    int refusals;   /* handshakes that failed in a row */
} RtConnection;

enum { RT_MOST_CONNECTIONS = 32 };

/* ---- the member ---------------------------------------------------------- */

typedef enum RtMemberPhase {
    MEMBER_SEEKS,  /* the control server */
    MEMBER_HEARD,  /* and waits for the others */
    MEMBER_LINKS,  /* tests the connections to them */
    MEMBER_LINKED, /* has told so */
    MEMBER_GOES,
    MEMBER_STOPPED, /* all have to end; or it failed to join */
    MEMBER_DONE     /* the server knows how it ended, and has answered */
} RtMemberPhase;

typedef struct RtLinkTest RtLinkTest; /* linktest.c */

typedef struct RtMember {
    RtJob job; /* first: it is what others see */
    Arena *arena;
    RtJobOptions options;
    RtHello hello;
    double timeout, silence;
    const atomic_bool *interrupted; /* as RtJobConfig */
    bool has_messages;              /* as RtJobConfig */
    RtBound bound;                  /* of calls of libzmq: main's */
    RtLiveness liveness;            /* of the thread: main's */
    uint64_t nonce;
    RtPositions positions;

    /* of the thread */
    const RtZmq *zmq;
    RtCurveKeys keys;
    void *context;
    RtConnection connections[RT_MOST_CONNECTIONS];
    int num_connections;
    RtConnection *server; /* NULL: none has answered */
    int server_fd;        /* over which it was heard last; -1: it was not */
    RtServer *own_server; /* NULL: it is elsewhere */
    double last_words;    /* seconds that it gets when all is closed */
    int server_rank;      /* whose process it is; -1: none is known */
    RtLinkTest *links;
    double began, looked, said, resolved, heard, heartbeat, tested;
    int resolver_error; /* of the last name that was looked for; 0: none */
    double server_lost; /* when its connection was closed; 0: it is not */
    bool dumped, silence_said;
    int bell; /* an event descriptor: to the thread */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    RtMemberPhase phase;
    bool closing;
    /* why it stopped */
    RtEnd stop;
    bool stopped, stop_called;
    void (*on_stop)(void *data, const char *reason);
    void *on_stop_data;
    int32_t (*locate)(void *data); /* as rt_job_locate */
    void *locate_data;
    /* an exchange: wanted by main's thread, sent, answered */
    bool exchange_wanted, exchange_done;
    uint64_t exchange_number;
    RtExchangePart exchange;
    Arena *exchange_arena; /* the caller's, for the answer */
    RtBytes *exchange_all;
    /* the end */
    bool end_wanted, end_sent, has_bye;
    RtEnd end, bye;
} RtMember;

/* The member's thread (member.c). */
void *rt_member_run(void *member);
/* Has the thread look at what changed. */
void rt_member_ring(RtMember *m);

/* ---- the link test: linktest.c ------------------------------------------- */

/* Listens for the tests of other members; addresses gets where. */
Status rt_link_test_open(RtMember *m, RtAddresses *addresses) MUST_USE;
/* Begins to test the connections to all later ranks on other machines. */
void rt_link_test_begin(RtMember *m, const RtWelcome *welcome);
/* Sockets to be polled, at most `most`. */
int rt_link_test_poll(RtMember *m, zmq_pollitem_t *items, int most);
/* Answers and looks for answers; whether all have come, or will not. */
bool rt_link_test_turn(RtMember *m, double now);
/* What it found, in a. */
void rt_link_test_result(const RtMember *m, Arena *a, RtLinked *out);
void rt_link_test_close(RtMember *m);

#endif
