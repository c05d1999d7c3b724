/*
 * sockets.h - sockets between the processes of a parameter-server job
 *
 * Coordinator and servers listen (ROUTER), all others connect to them (DEALER),
 * with the job's key (cluster/zmq/socket.h).  A message is one part.  A
 * connection that breaks comes back by itself; what was under way then is lost,
 * so whoever needs an answer asks again.
 */
#ifndef TFD_RUNTIME_PS_WIRE_SOCKETS_H
#define TFD_RUNTIME_PS_WIRE_SOCKETS_H

#include "runtime/checkpoint/archive.h"
#include "runtime/cluster/zmq/socket.h"
#include "runtime/ps/wire/damage.h"

/* libzmq, for one process. */
typedef struct RtPsNet {
    const RtZmq *zmq;
    void *context;
    RtCurveKeys keys;
    RtPsDamage damage; /* that has come */
} RtPsNet;

/* key: RT_JOB_KEY bytes, or NULL: loopback only. */
Status rt_ps_net_open(RtPsNet *net, const uint8_t *key) MUST_USE;
/* All sockets are closed.  Also for one of zeros. */
void rt_ps_net_close(RtPsNet *net);

/* A socket with what is known of it: libzmq says of each, in three calls of the
 * kernel, whether it has a message, which is more than a message costs.
 * Without zmq it is a descriptor of any kind. */
typedef struct RtPsSocket {
    void *zmq;
    int fd;        /* readable where something has come since it was empty */
    bool has_news; /* it may have a message */
} RtPsSocket;

enum { RT_PS_MOST_WAITED = 66 };

/* Waits so many milliseconds at most until one of them has news.  Those that
 * have had some before are looked at again. */
void rt_ps_poll(RtPsNet *net, RtPsSocket *const *sockets, int num, int ms);

/* Whoever listens; one in a process. */
typedef struct RtPsListener {
    RtPsNet *net;
    RtPsSocket router, zap; /* both are waited for; zap may be none */
    int port;
} RtPsListener;

/* A peer of a listener, as long as its connection lasts. */
typedef struct RtPsRoute {
    uint8_t len; /* 0: none */
    uint8_t id[32];
} RtPsRoute;

bool rt_ps_is_route(const RtPsRoute *a, const RtPsRoute *b);

/* at: HOST:PORT, "*" for all interfaces, port 0 for any. */
Status rt_ps_listen(RtPsNet *net, const char *at, RtPsListener *out) MUST_USE;
void rt_ps_listener_close(RtPsListener *l);

/* The next message without waiting; false: none.  m is initialized before, and
 * closed after it.  Who connects is answered where rt_ps_poll has seen it. */
bool rt_ps_next_from(RtPsListener *l, RtPsRoute *from, zmq_msg_t *m);
void rt_ps_send_to(RtPsListener *l, const RtPsRoute *to, const RtArchive *ar);

/* A socket connected to tcp://HOST:PORT; rt_ps_disconnect closes it, also one
 * of zeros. */
Status rt_ps_connect(RtPsNet *net, const char *address,
                     RtPsSocket *out) MUST_USE;
void rt_ps_disconnect(RtPsNet *net, RtPsSocket *socket);
bool rt_ps_next(RtPsNet *net, RtPsSocket *socket, zmq_msg_t *m);
void rt_ps_send(RtPsNet *net, RtPsSocket *socket, const RtArchive *ar);

/* Tells the process that started this one, by a line: where it listens, or that
 * it has joined.  Closes fd; -1: nobody asks. */
Status rt_ps_announce(int fd, const char *line) MUST_USE;

#endif
