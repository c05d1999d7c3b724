/*
 * executor.h - executors of compiled functions, and their faults
 *
 * An executor is main, a replica, or a dataset function.  An invocation is a
 * function on an executor, with pointers to its parameters and results;
 * compiled code passes it to hooks.  Executors work at the same time and share
 * nothing that changes.
 */
#ifndef TFD_RUNTIME_EXEC_EXECUTOR_H
#define TFD_RUNTIME_EXEC_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include "ir/analysis/batch.h"
#include "ir/base/cache_line.h"
#include "ir/base/number/format.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/ir.h"
#include "ir/plan/abi.h"
#include "runtime/coll/coll.h"
#include "runtime/exec/counters.h"
#include "runtime/exec/value.h"
#include "runtime/hal/device.h"

typedef struct RtRun RtRun;
typedef struct RtFunction RtFunction;
typedef struct RtHostOp RtHostOp;
typedef struct RtInvocation RtInvocation;

/* Statuses that hooks return, and that compiled code returns to its caller. */
enum {
    EXEC_OK = 0,
    EXEC_FAULT,  /* this executor's fault says why */
    EXEC_STOPPED /* another executor failed, or the user interrupted */
};

/* ---- faults ------------------------------------------------------------ */

/* A place of the program, and a message about it. */
typedef struct RtNote {
    Loc loc;
    const char *text;
} RtNote;

typedef VEC(RtNote) RtNotes;

/* The failure that ended an executor's work: its status block (D9). */
typedef struct RtFault {
    const IrOp *op;   /* NULL: no fault */
    int started, met; /* collectives before it, in this step */
    Status cause;     /* a failure from below that is complete, or OK: */
    StatusKind kind;
    Str text;      /* the message, about op */
    bool late;     /* a timeout: */
    RtNotes notes; /* other places; then: where stragglers were */
} RtFault;

/* Records the first fault of an executor, stops all replicas, returns
 * EXEC_FAULT. */
int32_t rt_fault(RtInvocation *inv, const RtHostOp *h, StatusKind kind,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for a failure from below, of which it takes ownership.  A stopped
 * executor has no fault: EXEC_STOPPED. */
int32_t rt_fault_status(RtInvocation *inv, const RtHostOp *h, Status st);

/* ---- executors ---------------------------------------------------------- */

/* The lines that a step printed: one text, and the end of each. */
typedef struct RtLine {
    size_t end;      /* in the text; an empty line is one that another replica
                        prints */
    int met;         /* collectives before it */
    bool is_summary; /* for the event file (summaries.h) */
} RtLine;

typedef struct RtLines {
    Str text;
    VEC(RtLine) lines;
} RtLines;

typedef struct RtExecutor {
    RtRun *run;
    Arena *arena;     /* its own: executors work at the same time */
    int replica;      /* -1: on the host */
    RtDevice *device; /* main's helps with its kernels; NULL: none */
    int device_number;
    RtDevicePtr base;      /* the replica's arena */
    RtDevicePtr shared;    /* the arena of the device's first replica */
    IrBatchSizes *batches; /* one for each pair of batch symbols */
    int64_t *dims;         /* the same, as words */
    int64_t *sent_dims;    /* what the device has of them, once it has */
    bool has_sent_dims;
    RtFault fault;
    RtLines lines;
    FormatArg *args; /* scratch of print and assert, for each operand */
    int64_t (*arg_dims)[IR_MAX_RANK];
    char *copies;         /* scratch of print and assert, for their operands */
    RtDevicePart *parts;  /* the same, for what they defer */
    const char *deferred; /* their operands, when they are looked at */
    RtAllReducePart *reduces; /* scratch of all_reduce, for each operand */
    RtCollUse *coll_uses;     /* for each of the run's; NULL without --stats */
    int started, met;         /* collectives, in this step */
    struct RtRecorder *recorder; /* of its device, or main's; NULL: nothing is
                                    timed */
    /* For the watchdog: its current operation (NULL: none), and how many
     * operations the runtime has executed for it. */
    _Atomic(RtInvocation *) running;
    _Atomic uint64_t num_ops;
} RtExecutor;

struct RtInvocation {
    TfdCall call; /* its context is the invocation */
    RtExecutor *executor;
    const RtFunction *fn;
    /* Of a device program: what call.in and call.out are addresses of. */
    const RtDevicePtr *in, *out;
    const RtDevicePtr *shared_out; /* out of the device's first replica */
};

/* An executor without a device, once all functions are loaded. */
void rt_executor_init(RtExecutor *executor, RtRun *run, int replica);
/* Also for one that was never made. */
void rt_executor_deinit(RtExecutor *executor);

/* An invocation of main or a dataset function, with memory of the host. */
void rt_invocation_init(RtInvocation *inv, const RtFunction *fn,
                        RtExecutor *executor, char *base);
/* An invocation of a device program on a replica; in and out, for each
 * parameter and result, must last.  dims: where the device has the executor's.
 */
void rt_program_invocation_init(RtInvocation *inv, const RtFunction *fn,
                                RtExecutor *executor, const RtDevicePtr *in,
                                const RtDevicePtr *out, const int64_t *dims);

/* The memory that parameter i of a device program is in has moved: its address
 * anew. */
void rt_invocation_moved(RtInvocation *inv, int i);

/* v of main or a dataset function; not for rows. */
char *rt_host_value(const RtInvocation *inv, const RtValue *v);
/* v of a device program. */
RtDevicePtr rt_device_value(const RtInvocation *inv, const RtValue *v);
/* Main's row v on a replica. */
RtDevicePtr rt_row(const RtExecutor *replica, const RtValue *v);

/* The bytes of v at this point of any function: in place where host code may
 * read them, else a copy at *scratch, which advances; of an operation that was
 * deferred, those of its operands in order. */
const char *rt_read_value(RtInvocation *inv, const RtValue *v, char **scratch);
/* Writes all bytes of v at this point of any function. */
void rt_write_value(RtInvocation *inv, const RtValue *v, const void *from);

#endif
