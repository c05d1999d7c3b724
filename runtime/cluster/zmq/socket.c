/*
 * socket.c - sockets of ZeroMQ that only the processes of a job can talk to
 */
#include "runtime/cluster/zmq/socket.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "ir/base/hash/siphash.h"

static const char zap_domain[] = "tfd";
static const char zap_address[] = "inproc://zeromq.zap.01";

enum { HANDSHAKE_MS = 10000, MOST_WAITING = 256, MOST_UNREAD = 1000 };

/* ---- keys --------------------------------------------------------------- */

/* 32 bytes that follow from the key and a label, by a pseudorandom function in
 * counter mode. */
static void
derive(const uint8_t *key, const char *label, uint8_t out[RT_KEY_BYTES])
{
    for (uint8_t block = 0; block < 2; block++) {
        SipHash h = siphash_begin(key);
        siphash_add(&h, key + SIPHASH_KEY, RT_KEY_BYTES - SIPHASH_KEY);
        siphash_add(&h, label, strlen(label));
        siphash_add(&h, &block, 1);
        SipValue v = siphash_end(&h);
        memcpy(out + 16 * block, &v.first, 8);
        memcpy(out + 16 * block + 8, &v.second, 8);
    }
}

static Status
make_pair(const RtZmq *zmq, const uint8_t *key, const char *label,
          char *public_key, char *secret_key)
{
    uint8_t secret[RT_KEY_BYTES];
    derive(key, label, secret);
    zmq->zmq_z85_encode(secret_key, secret, sizeof secret);
    if (zmq->zmq_curve_public(public_key, secret_key))
        return rt_zmq_error(zmq, "cannot make the keys of the job");
    return OK;
}

Status
rt_zmq_keys(const RtZmq *zmq, const uint8_t *key, RtCurveKeys *out)
{
    memset(out, 0, sizeof *out);
    if (!key || !zmq->has_curve)
        return OK;
    TRY(make_pair(zmq, key, "tfd server", out->server_public,
                  out->server_secret));
    TRY(make_pair(zmq, key, "tfd member", out->member_public,
                  out->member_secret));
    if (!zmq->zmq_z85_decode(out->member_bytes, out->member_public))
        return rt_zmq_error(zmq, "cannot make the keys of the job");
    out->given = true;
    return OK;
}

/* ---- addresses ---------------------------------------------------------- */

/* A name could lead anywhere, so only numbers count. */
bool
rt_zmq_is_loopback(const char *address)
{
    const char *host = strstr(address, "://");
    host = host ? host + 3 : address;
    const char *colon = strrchr(host, ':');
    char text[INET_ADDRSTRLEN];
    size_t n = colon ? (size_t)(colon - host) : strlen(host);
    struct in_addr number;
    if (n == 5 && memcmp(host, "[::1]", n) == 0)
        return true;
    if (n >= sizeof text)
        return false;
    memcpy(text, host, n);
    text[n] = '\0';
    return inet_pton(AF_INET, text, &number) == 1 &&
           ntohl(number.s_addr) >> 24 == 127;
}

Status
rt_zmq_check_address(const RtZmq *zmq, const RtCurveKeys *keys,
                     const char *address)
{
    if (keys->given || rt_zmq_is_loopback(address))
        return OK;
    if (!zmq->has_curve)
        return status_new(STATUS_MACHINE,
                          "this libzmq has no CURVE, so connections could not "
                          "be authenticated; without it a job cannot use %s, "
                          "only this machine's loopback",
                          address);
    return status_new(STATUS_USAGE,
                      "a job that uses %s needs a key, so that nobody else can "
                      "join it: give all processes the same --key FILE (32 "
                      "random bytes)",
                      address);
}

/* ---- sockets ------------------------------------------------------------ */

static Status
set(const RtZmq *zmq, void *socket, int option, const void *value, size_t size)
{
    if (zmq->zmq_setsockopt(socket, option, value, size))
        return rt_zmq_error(zmq, "an option of a socket");
    return OK;
}

static Status
set_int(const RtZmq *zmq, void *socket, int option, int value)
{
    return set(zmq, socket, option, &value, sizeof value);
}

static Status
set_common(const RtZmq *zmq, void *socket)
{
    TRY(set_int(zmq, socket, ZMQ_LINGER, 0));
    TRY(set_int(zmq, socket, ZMQ_IPV6, 1));
    TRY(set_int(zmq, socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS));
    TRY(set_int(zmq, socket, ZMQ_SNDHWM, 0));
    return set_int(zmq, socket, ZMQ_RCVHWM, 0);
}

static Status
set_server(const RtZmq *zmq, void *socket, const RtCurveKeys *keys,
           int64_t most_bytes)
{
    TRY(set_common(zmq, socket));
    TRY(set_int(zmq, socket, ZMQ_BACKLOG, MOST_WAITING));
    if (most_bytes) {
        /* A flood waits in its sender. */
        TRY(set_int(zmq, socket, ZMQ_RCVHWM, MOST_UNREAD));
        TRY(set(zmq, socket, ZMQ_MAXMSGSIZE, &most_bytes, sizeof most_bytes));
    }
    if (!keys->given)
        return OK;
    TRY(set_int(zmq, socket, ZMQ_CURVE_SERVER, 1));
    TRY(set(zmq, socket, ZMQ_CURVE_SECRETKEY, keys->server_secret,
            RT_CURVE_TEXT));
    return set(zmq, socket, ZMQ_ZAP_DOMAIN, zap_domain, strlen(zap_domain));
}

static Status
set_member(const RtZmq *zmq, void *socket, const RtCurveKeys *keys)
{
    enum { RETRY_MS = 100 };
    TRY(set_common(zmq, socket));
    TRY(set_int(zmq, socket, ZMQ_RECONNECT_IVL, RETRY_MS));
    if (!keys->given)
        return OK;
    TRY(set(zmq, socket, ZMQ_CURVE_SERVERKEY, keys->server_public,
            RT_CURVE_TEXT));
    TRY(set(zmq, socket, ZMQ_CURVE_PUBLICKEY, keys->member_public,
            RT_CURVE_TEXT));
    return set(zmq, socket, ZMQ_CURVE_SECRETKEY, keys->member_secret,
               RT_CURVE_TEXT);
}

static Status
open_socket(const RtZmq *zmq, void *context, int type, void **out)
{
    *out = zmq->zmq_socket(context, type);
    return *out ? OK : rt_zmq_error(zmq, "cannot make a socket");
}

Status
rt_zmq_server_socket(const RtZmq *zmq, void *context, int type,
                     const RtCurveKeys *keys, int64_t most_bytes, void **out)
{
    void *socket;
    TRY(open_socket(zmq, context, type, &socket));
    Status st = set_server(zmq, socket, keys, most_bytes);
    if (st) {
        zmq->zmq_close(socket);
        return st;
    }
    *out = socket;
    return OK;
}

Status
rt_zmq_member_socket(const RtZmq *zmq, void *context, int type,
                     const RtCurveKeys *keys, void **out)
{
    void *socket;
    TRY(open_socket(zmq, context, type, &socket));
    Status st = set_member(zmq, socket, keys);
    if (st) {
        zmq->zmq_close(socket);
        return st;
    }
    *out = socket;
    return OK;
}

int
rt_zmq_port(const RtZmq *zmq, void *socket)
{
    char address[256];
    size_t size = sizeof address;
    if (zmq->zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &size))
        return 0;
    const char *colon = strrchr(address, ':');
    return colon ? atoi(colon + 1) : 0;
}

/* ---- who may connect ---------------------------------------------------- */

Status
rt_zmq_open_zap(const RtZmq *zmq, void *context, void **out)
{
    void *zap;
    TRY(open_socket(zmq, context, ZMQ_REP, &zap));
    if (zmq->zmq_bind(zap, zap_address)) {
        Status st = rt_zmq_error(zmq, "cannot answer who may connect");
        zmq->zmq_close(zap);
        return st;
    }
    *out = zap;
    return OK;
}

enum { ZAP_PARTS = 7, ZAP_ID = 1, ZAP_MECHANISM = 5, ZAP_CREDENTIALS = 6 };

typedef struct ZapPart {
    uint8_t bytes[256];
    int size; /* -1: it did not fit */
} ZapPart;

/* A request's parts; their number. */
static int
read_parts(const RtZmq *zmq, void *zap, ZapPart *parts)
{
    int count = 0, more = 1;
    size_t size = sizeof more;
    while (more) {
        ZapPart part;
        int n = zmq->zmq_recv(zap, part.bytes, sizeof part.bytes, ZMQ_DONTWAIT);
        if (n < 0)
            return 0;
        part.size = n <= (int)sizeof part.bytes ? n : -1;
        if (count < ZAP_PARTS)
            parts[count] = part;
        count++;
        if (zmq->zmq_getsockopt(zap, ZMQ_RCVMORE, &more, &size))
            return 0;
    }
    return count;
}

static bool
part_is(const ZapPart *part, const void *bytes, size_t n)
{
    return part->size == (int)n && memcmp(part->bytes, bytes, n) == 0;
}

static void
reply(const RtZmq *zmq, void *zap, const ZapPart *id, bool accepted)
{
    const char *status = accepted ? "200" : "400";
    int size = id->size > 0 ? id->size : 0;
    zmq->zmq_send(zap, "1.0", 3, ZMQ_SNDMORE);
    zmq->zmq_send(zap, id->bytes, (size_t)size, ZMQ_SNDMORE);
    zmq->zmq_send(zap, status, 3, ZMQ_SNDMORE);
    zmq->zmq_send(zap, "", 0, ZMQ_SNDMORE); /* a reason, a user, properties */
    zmq->zmq_send(zap, "", 0, ZMQ_SNDMORE);
    zmq->zmq_send(zap, "", 0, 0);
}

void
rt_zmq_answer_zap(const RtZmq *zmq, void *zap, const RtCurveKeys *keys)
{
    ZapPart parts[ZAP_PARTS];
    int count;
    while ((count = read_parts(zmq, zap, parts)) > 0) {
        bool accepted =
            count == ZAP_PARTS && keys->given &&
            part_is(&parts[ZAP_MECHANISM], "CURVE", 5) &&
            part_is(&parts[ZAP_CREDENTIALS], keys->member_bytes, RT_KEY_BYTES);
        static const ZapPart none;
        reply(zmq, zap, count > ZAP_ID ? &parts[ZAP_ID] : &none, accepted);
    }
}

/* ---- events ------------------------------------------------------------- */

Status
rt_zmq_open_monitor(const RtZmq *zmq, void *context, void *socket,
                    const char *name, int events, void **out)
{
    void *monitor;
    if (zmq->zmq_socket_monitor(socket, name, events))
        return rt_zmq_error(zmq, "cannot watch a socket");
    TRY(open_socket(zmq, context, ZMQ_PAIR, &monitor));
    if (zmq->zmq_connect(monitor, name)) {
        Status st = rt_zmq_error(zmq, "cannot watch a socket");
        zmq->zmq_close(monitor);
        return st;
    }
    *out = monitor;
    return OK;
}

void
rt_zmq_close_monitor(const RtZmq *zmq, void *socket, void *monitor)
{
    if (!monitor)
        return;
    zmq->zmq_socket_monitor(socket, NULL, 0);
    zmq->zmq_close(monitor);
}

/* Two parts: the event and its value, then the address. */
bool
rt_zmq_next_event(const RtZmq *zmq, void *monitor, int *event, int32_t *value)
{
    uint8_t bytes[256];
    int n = zmq->zmq_recv(monitor, bytes, sizeof bytes, ZMQ_DONTWAIT);
    if (n != 6)
        return false;
    uint16_t kind;
    memcpy(&kind, bytes, sizeof kind);
    memcpy(value, bytes + 2, sizeof *value);
    *event = kind;
    zmq->zmq_recv(monitor, bytes, sizeof bytes, 0);
    return true;
}

bool
rt_zmq_has_unread(int fd)
{
    char byte;
    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}
