/*
 * coll.h - collective operations of replicas
 *
 * A communicator joins the replicas of a run, which are on the devices of one
 * process or several.  Every collective operation of a plan is an instance of
 * it, made when the plan is loaded; then each device's thread calls start for
 * each of its replicas and done once, in the order of the program, any number
 * of times.  Those calls allocate nothing and look nothing up.
 *
 * What carries the bytes is the communicator's transport; who combines and
 * copies what, an instance's algorithm (algorithm/algorithm.h).  Any transport
 * executes any algorithm.
 *
 * Sums, and every other combination, follow D2's tree over the replicas, so the
 * bits of a result do not depend on the device that computed it.  Elements of
 * f16 and bf16 are combined in f32 and rounded once.
 */
#ifndef TFD_RUNTIME_COLL_COLL_H
#define TFD_RUNTIME_COLL_COLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/analysis/collectives.h"
#include "ir/base/number/dtype.h"
#include "ir/base/status.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/hal/device.h"
#include "runtime/hal/wait.h"

typedef enum RtReduceOp {
    REDUCE_SUM,
    REDUCE_MAX, /* as the operation maximum: NaN if one is */
    REDUCE_MIN,
    REDUCE_FIRST, /* the value of the root */
    NUM_REDUCE_OPS
} RtReduceOp;

/* The algorithm of a collective. */
typedef enum RtCollAlgorithm {
    COLL_AUTO,          /* the next two; algorithm.h has the rule */
    COLL_REPLICATED,    /* each device everything, for itself; auto alone
                           chooses it */
    COLL_TWO_PHASE,     /* each device a slice of the elements, for all */
    COLL_RING,          /* each device a slice, for itself; slices then go from
                           each device to the next, until all have all */
    COLL_REDUCE_TO_ONE, /* the root's device everything, for all */
    COLL_HIERARCHICAL,  /* pack k is reduced by device k mod n for its half of
                           the devices, and copied by device k + n/2 mod n to
                           the other half; an odd number of devices does it in
                           two phases */
    COLL_LIBRARY,       /* the transport's library, in an order of its own;
                           COLL_TWO_PHASE where there is none */
    NUM_COLL_ALGORITHMS
} RtCollAlgorithm;

/* How one collective is carried out. */
typedef struct RtAlgorithmChoice {
    RtCollAlgorithm algorithm;
    int packs; /* COLL_HIERARCHICAL: all elements in so many parts, the last
                  with what remains; 0: a pack for each operand */
    int root;  /* the replica that COLL_REDUCE_TO_ONE and REDUCE_FIRST ask */
    double timeout; /* as done has it, where a library makes start wait */
} RtAlgorithmChoice;

typedef struct RtColl RtColl;
typedef struct RtCollInstance RtCollInstance;

/* One operand of an all_reduce, of all calls. */
typedef struct RtReduceOperand {
    DType dtype;
    int kernel;   /* of the plan, by number, that combines elements
                     (docs/kernels.md); -1: none, since they are copied or the
                     plan is for devices without code of their own */
    int64_t most; /* elements that it ever has */
} RtReduceOperand;

/* One operand of an all_reduce and its result, on one replica.  They may be
 * the same memory; else no result overlaps an operand. */
typedef struct RtAllReducePart {
    RtDevicePtr in, out;
    int64_t count; /* elements; equal on all replicas */
} RtAllReducePart;

/* One replica's operand of an all_gather, and where the result goes.  Both
 * are `outer` blocks in a row: this replica's of own_bytes each, the whole's
 * of the sum of all replicas' own_bytes. */
typedef struct RtAllGatherPart {
    RtDevicePtr in, out;
    int64_t outer;
    int64_t own_bytes; /* may differ among the replicas */
} RtAllGatherPart;

typedef enum RtCollResult {
    COLL_OK,
    COLL_TIMEOUT, /* the time is up: see arrived() */
    COLL_ABORTED  /* abort was called */
} RtCollResult;

/* The functions of one kind of communicator. */
typedef struct RtCollOps {
    const char *name;
    void (*close)(RtColl *c);
    Status (*all_reduce_new)(RtColl *c, RtReduceOp how,
                             RtAlgorithmChoice choice, int num,
                             const RtReduceOperand *operands,
                             RtCollInstance **out);
    /* By COLL_AUTO, COLL_TWO_PHASE or COLL_REDUCE_TO_ONE; most is the bytes
     * that the result ever has. */
    Status (*all_gather_new)(RtColl *c, RtAlgorithmChoice choice, int64_t most,
                             RtCollInstance **out);
    /* Once, when all instances are made and the devices are open, before the
     * first start. */
    Status (*connect)(RtColl *c);
    /* Once, when all that was started has ended, or was aborted, and before the
     * devices are closed.  NULL: there is nothing to do. */
    void (*disconnect)(RtColl *c);
    /* The replica's part is ready; the memory that parts point to must not
     * change until done returns.  parts itself is copied.  Never waits: with
     * the last replica of a device it does, or enqueues on the device's queue
     * of collectives, what the other devices are ready for, of this and all
     * earlier instances.  Called by the device's program, as done is. */
    void (*all_reduce_start)(RtCollInstance *s, int replica,
                             const RtAllReducePart *parts);
    void (*all_gather_start)(RtCollInstance *s, int replica,
                             const RtAllGatherPart *part);
    /* Called once a device, by its number in this process, when all its
     * replicas have started; does the rest of its work, and returns when their
     * results, which they share, are complete for what the program does from
     * now on.  A wait for the others lasts at most so many seconds; 0: as many
     * as the communicator says. */
    RtCollResult (*done)(RtCollInstance *s, int device, double timeout);
    /* Whether the replica has reached the call in which others wait; of another
     * process's only where sees_all. */
    bool (*arrived)(const RtCollInstance *s, int replica);
    bool sees_all;
    /* The algorithm of an all_reduce or all_gather, which follows from measured
     * speeds, when it has as many bytes as it ever has, which are *bytes. NULL:
     * nothing is measured. */
    const char *(*chosen)(RtCollInstance *s, int64_t *bytes);
    /* The calls that this process's first device has begun, by IrCollAlgorithm;
     * not while one goes on. */
    const int64_t *(*calls)(const RtCollInstance *s);
    /* A call of all processes, between steps: how fast a device and its partner
     * exchange messages over the transport.  partners: of each device of this
     * process a device of all processes, or -1; all pairs measure at the same
     * time.  NULL: it has no messages of its own between devices. */
    Status (*measure)(RtColl *c, const int *partners, IrLinkSpeed *out);
    /* Every waiting call, now or later, returns COLL_ABORTED. */
    void (*abort)(RtColl *c);
} RtCollOps;

struct RtColl {
    const RtCollOps *ops;
    const char *over; /* what carries the bytes: the name of the link, or that
                         of the transport */
    int num_replicas; /* of all processes; their numbers are global */
    int num_devices;  /* of this process; each has as many replicas, next to one
                         another */
    bool shares_memory; /* devices are to be opened so (RtDeviceConfig) */
    char why[256];      /* not a transport that is preferred; may be empty */
};

/* One communicator's, and the same in all its processes: made by one of them as
 * its transport says (ncclGetUniqueId), and handed on by what started them. */
typedef struct RtCollId {
    unsigned char bytes[128];
} RtCollId;

/* How a communicator is opened. */
typedef struct RtCommConfig {
    const char *transport;      /* NULL: the first that joins the processes */
    RtCollId id;                /* of several processes without an exchange */
    int rank, size;             /* of this process, and how many there are */
    int num_replicas;           /* of all processes */
    int first_local, num_local; /* those of this process */
    int num_devices; /* of this process; each has num_local / num_devices of its
                        replicas, next to one another */
    int num_participants; /* devices of all processes, equally many each */
    const RtExchange *exchange; /* of all processes; NULL: there is one */
    const RtDeviceCaps *caps;   /* of all devices */
    RtDevice *const *devices;   /* open from connect on; the array lasts as long
                                   as the communicator */
    struct RtCarrier *carrier;  /* of messages to the other processes; NULL:
                                   there is none */
    double timeout;             /* of a call that waits, in seconds of clock */
    RtClock *clock;
} RtCommConfig;

/* Fails if no transport joins the processes.  With several, a call of all of
 * them. */
Status rt_coll_open(const RtCommConfig *config, RtColl **out) MUST_USE;

#endif
