/*
 * frame.h - messages of the control plane as bytes
 *
 * A frame is a header (type, protocol, attempt, number) and fields, all
 * little-endian.  One function describes the fields of a message for both
 * directions.  A frame that is read is a stranger's until the contrary is
 * proved: lengths are checked against what is there and against a limit of
 * their own, control characters of texts become "?", and the first thing wrong
 * sets bad, after which every field reads as zero.
 */
#ifndef TFD_RUNTIME_CLUSTER_CONTROL_FRAME_H
#define TFD_RUNTIME_CLUSTER_CONTROL_FRAME_H

#include "runtime/cluster/control/job.h"
#include "runtime/hal/segment.h"

enum {
    RT_FRAME_PROTOCOL = 2,
    RT_FRAME_MOST = 8 << 20, /* bytes that the server takes of one member */
    RT_MOST_PROCESSES = 4096,
    RT_MOST_ADDRESSES = 64,
    RT_MOST_SITES = 20000
};

typedef enum RtFrameType {
    RT_FRAME_NONE,
#define FRAME(name, sender) RT_FRAME_##name,
#include "runtime/cluster/control/frames.def"
#undef FRAME
    RT_NUM_FRAMES
} RtFrameType;

typedef struct RtFrame {
    bool reads, bad;
    uint16_t type;
    uint16_t protocol;
    uint32_t attempt;
    uint64_t number; /* of the exchange, or of the hello */
    uint8_t *bytes;
    size_t len, cap, at;
    Arena *a; /* grows in it, and has texts that were read; NULL: fixed */
} RtFrame;

/* A frame to be written in a, or in `cap` bytes of the caller's. */
RtFrame rt_frame_new(Arena *a, RtFrameType type, uint32_t attempt,
                     uint64_t number);
RtFrame rt_frame_in(uint8_t *bytes, size_t cap, RtFrameType type,
                    uint32_t attempt, uint64_t number);
/* One that was received; n bytes that outlive it. */
RtFrame rt_frame_read(Arena *a, const void *bytes, size_t n);
/* Whether all of it was read, and nothing was wrong. */
bool rt_frame_is_good(const RtFrame *f);

/* ---- fields: read into, or written from, where they point ---------------- */

void rt_frame_i32(RtFrame *f, int32_t *value);
void rt_frame_i64(RtFrame *f, int64_t *value);
void rt_frame_f64(RtFrame *f, double *value);
/* At most `most` characters; NULL is written as "". */
void rt_frame_text(RtFrame *f, const char **text, size_t most);
/* The bytes stay where they are. */
void rt_frame_bytes(RtFrame *f, RtBytes *bytes, size_t most);
/* A number of elements, each of at least `least` bytes. */
void rt_frame_count(RtFrame *f, int32_t *count, int32_t most, size_t least);

/* ---- messages ------------------------------------------------------------ */

typedef struct RtAddresses {
    int32_t num;
    const char **text; /* tcp://10.0.0.1:4711 */
} RtAddresses;

typedef struct RtHello {
    int32_t rank, size;
    int64_t pid;
    double timeout;
    const char *host, *machine;
    const char *identity[RT_NUM_IDENTITIES];
    RtAddresses addresses;   /* where it answers link tests */
    RtSegmentName positions; /* where it tells where it is (position.h) */
    int32_t num_sites;       /* of rank 0: all have the same */
    RtJobSite *sites;
} RtHello;

void rt_frame_hello(RtFrame *f, RtHello *hello);

typedef struct RtWelcomePeer {
    RtJobPeer peer;
    RtAddresses addresses;
} RtWelcomePeer;

typedef struct RtWelcome {
    const char *id;
    int32_t size;
    int32_t server; /* the rank whose process is the control server; -1: none */
    RtWelcomePeer *peers;
} RtWelcome;

void rt_frame_welcome(RtFrame *f, RtWelcome *welcome);

/* A pair that does not reach each other: of the sender and peer. */
typedef struct RtUnreached {
    int32_t peer;
    const char *why;
} RtUnreached;

typedef struct RtLinked {
    int32_t num;
    RtUnreached *unreached;
} RtLinked;

void rt_frame_linked(RtFrame *f, RtLinked *linked);

/* Where a process is: of its places the one that is furthest behind. */
typedef struct RtHeartbeat {
    int64_t step;
    int64_t call;      /* calls that it has begun */
    int64_t wait_call; /* the one it waits in */
    int32_t site;      /* of the last call; -1: none */
    int32_t wait_site;
    int32_t state;     /* of RtJobState */
    int32_t at_site;   /* in whose work it is; -1: not known */
    int32_t maker;     /* the rank that makes the data it reads; -1: itself */
    int32_t read_site; /* where it waited for data last; -1: none */
    double waited;     /* seconds, in all calls so far */
} RtHeartbeat;

void rt_frame_heartbeat(RtFrame *f, RtHeartbeat *heartbeat);

typedef struct RtExchangePart {
    const char *name;
    RtBytes own;
} RtExchangePart;

void rt_frame_exchange(RtFrame *f, RtExchangePart *exchange);
/* As many as there are processes. */
void rt_frame_all(RtFrame *f, RtBytes *all, int32_t size);

/* How the run of a process, or all of them, ended. */
typedef struct RtEnd {
    int32_t exit_status;
    int32_t speaker;    /* the rank that prints it; -1: it was printed */
    const char *reason; /* one line; "" when nothing failed */
    const char *notes;  /* whole lines below it */
} RtEnd;

void rt_frame_end(RtFrame *f, RtEnd *end);

#endif
