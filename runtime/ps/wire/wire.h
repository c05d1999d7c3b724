/*
 * wire.h - messages of a parameter-server job as bytes
 *
 * A message is its type and parts (checkpoint/archive.h).  One function lists
 * the parts of a message for both directions.  What is read is a stranger's:
 * numbers have ranges, counts are bounded by the bytes that are there, and the
 * first thing wrong makes all of it wrong.
 */
#ifndef TFD_RUNTIME_PS_WIRE_WIRE_H
#define TFD_RUNTIME_PS_WIRE_WIRE_H

#include "ir/ir.h"
#include "runtime/checkpoint/archive.h"
#include "runtime/cluster/resolve/roles.h"
#include "runtime/ps/staleness/staleness.h"
#include "runtime/ps/wire/sockets.h"

typedef enum RtPsType {
    RT_PS_NONE,
#define FRAME(name, sender, doc) RT_PS_##name,
#include "runtime/ps/wire/frames.def"
#undef FRAME
    RT_PS_NUM_TYPES
} RtPsType;

/* In place of a version: rows are pulled, not all. */
#define RT_PS_ROWS ((int64_t)-1)
/* In place of a clock: the closure has pulled nothing from the server. */
#define RT_PS_NO_PULL ((int64_t)-1)

enum {
    RT_PS_MOST_TASKS = IR_MOST_SERVERS, /* servers, and workers */
    RT_PS_WINDOW = 1 << 18,     /* closures between the oldest and the newest */
    RT_PS_MOST_FEEDS = 1 << 20, /* elements that one closure takes */
    RT_PS_MOST_UPDATES = 1 << 20 /* of one closure on one server */
};

/* Begins to write a message; the memory of the last one is used again. */
void rt_ps_begin(RtArchive *ar, RtPsType type);
/* Begins to read n bytes, which outlive it; its type, RT_PS_NONE if it has
 * none. */
RtPsType rt_ps_read(RtArchive *ar, Arena *a, const void *bytes, size_t n);
/* Whether all of it was read, and nothing was wrong. */
bool rt_ps_is_good(RtArchive *ar);
/* Whoever reads it cannot use it, for a reason that nobody is told: users hear
 * of whom it is, and of what kind (rt_ps_blame). */
void rt_ps_reject(RtArchive *ar, const char *why);
/* As in frames.def; of RT_PS_NONE "of no kind". */
const char *rt_ps_type_name(RtPsType type);
/* A text that users see: rt_archive_text, whose characters that a terminal
 * would not show are '?' when it is read. */
void rt_ps_text(RtArchive *ar, const char **text);
/* Where it is known of whom a damaged message is; RT_ROLE_alone: it is not. */
void rt_ps_blame(RtPsNet *net, uint32_t role, uint32_t index, RtPsType type);

typedef struct RtPsHello {
    uint32_t role; /* RtRole */
    uint32_t index;
    uint64_t incarnation;
    uint64_t job;   /* that it has joined; 0: none */
    uint32_t crash; /* of a worker: RtTaskOptions.crash */
    int64_t pid;
    const char *plan, *host;
    const char *address; /* of a server, tcp://HOST:PORT; else "" */
} RtPsHello;

void rt_ps_hello(RtArchive *ar, RtPsHello *h);

/* The number of a job is its coordinator's, by chance: who is left of another
 * job, with the same key and addresses, has another one. */
typedef struct RtPsWelcome {
    uint64_t job;
    int64_t num_servers;
    const char **addresses; /* of each */
    int64_t num_workers;    /* that are there from the beginning on */
    const char *params;     /* exec/params.h writes and reads them */
    int64_t params_len;
    int64_t staleness; /* of a push, at most; negative: no bound */
    bool by_bytes;     /* how variables are placed (parts/placement.h) */
    bool atomic;       /* servers keep pushes until they are committed, */
    bool in_rounds;    /* those of a round together */
} RtPsWelcome;

void rt_ps_welcome(RtArchive *ar, RtPsWelcome *w);

typedef struct RtPsHeartbeat {
    uint32_t role, index;
    uint64_t incarnation;
} RtPsHeartbeat;

void rt_ps_heartbeat(RtArchive *ar, RtPsHeartbeat *b);

/* START, STATE, SAVE and SAVED begin with it; after STATE and SAVED comes the
 * worker's state, or nothing if it has none. */
typedef struct RtPsSaving {
    uint32_t index; /* of the worker */
    uint64_t incarnation;
    int64_t number; /* of the saving, ascending; START, STATE: 0 */
} RtPsSaving;

void rt_ps_saving(RtArchive *ar, RtPsSaving *s);

/* DEAL and DEALT: file number `taken`, from 0, that a worker has of the num
 * files of an iterator's pass. */
typedef struct RtPsDealing {
    uint32_t index; /* of the worker */
    uint64_t incarnation;
    int64_t iter;
    uint64_t pass;
    int64_t taken, num;
    const char *names; /* a hash of those of all files */
    int64_t file;      /* the answer; num: none is left */
} RtPsDealing;

void rt_ps_dealing(RtArchive *ar, RtPsDealing *d);

/* Between coordinator and worker both RUN and DONE are numbered from 1; who
 * gets them says the last number up to which it has all, and what was lost with
 * a connection is sent again. */
typedef struct RtPsSync {
    uint32_t index;
    uint64_t incarnation;
    int64_t received;
} RtPsSync;

void rt_ps_sync(RtArchive *ar, RtPsSync *s);

/* After it, unless it is void, the closure's arguments (closures.h). */
typedef struct RtPsRun {
    int64_t number;   /* of the message */
    int64_t received; /* of the worker's */
    int64_t id;       /* of the closure, from 1 */
    bool is_void;     /* another worker has executed it: it is only answered */
    int64_t low;      /* all closures before this one have ended */
    int64_t launch;   /* its number */
    int64_t attempt;  /* from 1: how many workers have got it, with this one */
    int64_t num_feeds, *indices; /* of its elements of the worker's datasets, in
                                    the pass that its arguments name */
} RtPsRun;

void rt_ps_run(RtArchive *ar, RtPsRun *r);

/* After it, if error is "", the closure's results. */
typedef struct RtPsDone {
    uint32_t index;
    uint64_t incarnation;
    int64_t number, received;
    int64_t id, attempt;
    bool is_cancelled;   /* it was not begun */
    bool lacks_elements; /* this worker has no more for it, which has changed
                            nothing */
    const char *error;   /* why it failed; "": it has not */
    const char *lines;   /* that are shown below it */
} RtPsDone;

void rt_ps_done(RtArchive *ar, RtPsDone *d);

/* Batches are numbered from 1; the next one comes when all servers have
 * committed the one before. */
typedef struct RtPsCommit {
    int64_t number, low;
    bool is_round; /* they have all computed with the values from before it */
    int64_t num;
    int64_t *ids, *attempts; /* of each closure; 0: no attempt counts */
} RtPsCommit;

void rt_ps_commit(RtArchive *ar, RtPsCommit *c);

typedef struct RtPsCommitted {
    uint32_t index; /* of the server */
    int64_t number;
    const char *error; /* of an update; "": none */
} RtPsCommitted;

void rt_ps_committed(RtArchive *ar, RtPsCommitted *c);

/* CANCEL is the number of the last RUN that it is about. */

/* PULL, VALUES, PUSH, STAGED, SET, ACK, COUNT and COUNTED begin with it;
 * answers have the request's.  Of another job they are nobody's.  Up to the
 * message's end follow
 *
 *   PULL    for each part its number and the version that is here; or
 *           RT_PS_ROWS, a count and so many rows of it
 *   VALUES  the server's clock: how many closures it has applied; in the same
 *           order the number, the version, and the bytes of a part
 *           that has changed; or RT_PS_ROWS and the rows' bytes
 *   PUSH    low, whether the answer may wait for that of the next request, the
 *           clock of the values that it computed with, or RT_PS_NO_PULL, the
 *           attempt that is to be committed, or 0 to apply it at once, and
 *           for each update its number, the part's among the
 *           variable's, the sizes of batches and the arguments, each behind its
 *           length; of one that only sets, in place of these, the first row,
 *           how many, and their bytes behind their length
 *   SET     a part's number, the first row, how many, and their bytes behind
 *           their length */
typedef struct RtPsRequest {
    uint64_t job;
    int64_t number;       /* of the client, ascending */
    int64_t id;           /* PUSH, ACK: of the closure */
    uint32_t role, index; /* who asks */
} RtPsRequest;

void rt_ps_request(RtArchive *ar, RtPsRequest *r);

/* SEVERAL has whole messages, none of which is SEVERAL, one after the other.
 * One is added... */
void rt_ps_add(RtArchive *several, const RtArchive *one);
/* ...and the next one is taken from what is being read; false: there is none,
 * or it is damaged. */
bool rt_ps_take(RtArchive *several, Arena *a, RtArchive *one, RtPsType *type);

typedef enum RtPsTrafficKind {
#define TRAFFIC(name, units, doc) RT_TRAFFIC_##name,
#include "runtime/ps/parts/traffic.def"
#undef TRAFFIC
    RT_NUM_TRAFFICS
} RtPsTrafficKind;

/* After COUNTED's head: of a server, since it began. */
typedef struct RtPsTraffic {
    int64_t bytes[RT_NUM_TRAFFICS], units[RT_NUM_TRAFFICS];
    int64_t staleness[RT_PS_STALENESS_ROWS], stalest, refused; /* RtPsLoad */
} RtPsTraffic;

void rt_ps_traffic(RtArchive *ar, RtPsTraffic *t);

static inline void
rt_ps_count_traffic(RtPsTraffic *t, RtPsTrafficKind kind, size_t bytes,
                    int64_t units)
{
    t->bytes[kind] += (int64_t)bytes;
    t->units[kind] += units;
}

/* Of a server, since it began. */
typedef struct RtPsLoad {
    uint32_t index;
    int64_t at, busy;       /* microseconds */
    int64_t closures;       /* whose updates it has applied */
    int64_t pulled, pushed; /* bytes */
    int64_t variables;      /* their bytes */
    int64_t stalest;        /* the largest staleness (applied.h) */
    int64_t refused;        /* pushes whose values were staler than allowed */
    int64_t staleness[RT_PS_STALENESS_ROWS], staleness_sum;
} RtPsLoad;

void rt_ps_server_load(RtArchive *ar, RtPsLoad *l);

typedef struct RtPsTask {
    const char *host; /* "": it has not joined */
    int64_t pid;
    bool is_lost;
    int64_t silent;    /* microseconds since it was heard */
    int64_t in_flight; /* of a worker, and how many it has executed */
    int64_t done;
} RtPsTask;

typedef struct RtPsStatus {
    int64_t at; /* microseconds */
    int64_t scheduled, ended, waiting, put_back, cancelled;
    int64_t staleness; /* its bound; negative: none */
    int64_t num_workers, num_servers;
    RtPsTask *workers, *servers;
    RtPsLoad *loads; /* of each server */
} RtPsStatus;

void rt_ps_status(RtArchive *ar, RtPsStatus *s);

#endif
