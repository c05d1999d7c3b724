/*
 * exec_impl.h - a plan that is loaded
 *
 * A function of the placed module has one RtFn: its code, and a row for each
 * operation that the code leaves to the runtime, in the order of
 * ir/analysis/hooks.h. Who executes functions is an executor: main, one for
 * each replica, one for each dataset function.  An invocation is a function on
 * an executor, with pointers to its parameters and results; compiled code hands
 * it back to hooks.
 */
#ifndef TFD_RUNTIME_EXEC_EXEC_IMPL_H
#define TFD_RUNTIME_EXEC_EXEC_IMPL_H

#include <pthread.h>
#include "ir/analysis/hooks.h"
#include "ir/base/format.h"
#include "ir/base/str.h"
#include "ir/ir.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/events.h"
#include "runtime/coll/coll.h"
#include "runtime/data/data.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/loader.h"
#include "runtime/exec/progress.h"
#include "runtime/hal/cpu/wait.h"
#include "runtime/hal/device.h"

typedef struct RtRun RtRun;
typedef struct RtFunction RtFunction;
typedef struct RtHostOp RtHostOp;
typedef struct RtInvocation RtInvocation;
typedef struct RtLaunch RtLaunch;
typedef struct RtElementCall RtElementCall;

/* What hooks tell compiled code, which hands it on to whoever called it. */
enum {
    EXEC_OK = 0,
    EXEC_FAULT,  /* this executor's fault says why */
    EXEC_STOPPED /* another one's does, or the user interrupted */
};

/* ---- values ------------------------------------------------------------ */

/* c + k * dims[word]; a constant where word is -1. */
typedef struct RtDim {
    int64_t c, k;
    int word;
} RtDim;

typedef struct RtValue {
    IrPlace place;
    DType dtype;
    int rank;
    RtDim dims[IR_MAX_RANK];
} RtValue;

/* A dimension, and the number of elements and bytes, where dims are these. */
int64_t rt_dim(const RtDim *d, const int64_t *dims);
int64_t rt_value_count(const RtValue *v, const int64_t *dims);
size_t rt_value_bytes(const RtValue *v, const int64_t *dims);

/* Where v is, on the invocation's executor; not for rows. */
char *rt_value_pointer(const RtInvocation *inv, const RtValue *v);

/* ---- executors ------------------------------------------------------------
 */

/* A place of the program, and what is the matter there. */
typedef struct RtNote {
    Loc loc;
    const char *text;
} RtNote;

typedef VEC(RtNote) RtNotes;

/* What ended an executor's work: its status block (D9). */
typedef struct RtFault {
    const IrOp *op; /* NULL: nothing did */
    Status cause;   /* a failure from below that says it all, or OK: */
    StatusKind kind;
    Str text;     /* what is wrong at op */
    bool late;    /* the time was up */
    RtNotes slow; /* then: where those were that others waited for */
} RtFault;

/* What a step printed: one text, and where its lines end. */
typedef struct RtLines {
    Str text;
    VEC(size_t) ends; /* an empty line is one that another replica prints */
} RtLines;

typedef struct RtExecutor {
    RtRun *run;
    Arena *arena;     /* its own: executors work at the same time */
    int replica;      /* -1: on the host */
    RtDevice *device; /* main's is that of replica 0; NULL: none */
    int64_t *dims;    /* three words for each pair of batch symbols */
    RtFault fault;
    RtLines lines;
    FormatArg *args; /* scratch of print and assert, for each operand */
    int64_t (*arg_dims)[IR_MAX_RANK];
    RtAllReducePart *reduces; /* scratch of all_reduce, for each operand */
    int64_t bytes_sent;
    /* For who watches: what it executes (NULL: nothing), and how many
     * operations the runtime has executed for it. */
    _Atomic(RtInvocation *) running;
    _Atomic uint64_t num_ops;
} RtExecutor;

struct RtInvocation {
    TfdCall call; /* its context is the invocation */
    RtExecutor *executor;
    const RtFunction *fn;
};

/* Notes the first fault of an executor, stops all replicas, gives EXEC_FAULT.
 */
int32_t rt_fault(RtInvocation *inv, const RtHostOp *h, StatusKind kind,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for a failure from below, which it takes over.  One that is stopped
 * has failed in nothing: EXEC_STOPPED. */
int32_t rt_fault_status(RtInvocation *inv, const RtHostOp *h, Status st);

/* ---- functions --------------------------------------------------------- */

typedef int32_t RtOpRun(RtInvocation *inv, const RtHostOp *h);

typedef struct RtIterBinding {
    const IrIter *ir;
    RtIter *iter;
    int64_t bound, all_bound; /* of the rows of a replica, and of all */
} RtIterBinding;

/* Where dims have the rows of one replica, for all to see. */
typedef struct RtReplicaWord {
    int word, replica;
} RtReplicaWord;

typedef VEC(RtReplicaWord) RtReplicaRows;

struct RtHostOp {
    RtOpRun *run;
    const IrOp *op;
    RtValue *in, *out;
    union {
        RtCollInstance *instance; /* collectives */
        struct {
            RtIterBinding *iterator;
            int word; /* of n in dims, followed by N and row_start; -1: none */
            const RtReplicaRows *replica_rows; /* NULL where word is -1 */
        };
        RtLaunch *launch;
        const void *param; /* its value, in its dtype */
        const IrVar *var;  /* fetch_var */
        bool each;         /* print: a line of each replica */
    };
};

struct RtFunction {
    IrFunc *ir;
    TfdFunction *code;
    RtHostOp *ops;
    int num_ops, num_safepoints;
    IrOps positions; /* what TfdCall.at counts */
    int num_in, num_out;
    VEC(const RtHostOp *) starts; /* collectives, in order */
};

/* Resolves what an operation needs at run time (exec_ops.def). */
typedef Status RtOpPrepare(RtRun *run, RtFunction *fn, RtHostOp *h);

#define HOST_OP(kind, where, prepare)                                          \
    RtOpPrepare rt_prepare_##prepare;                                          \
    RtOpRun rt_op_##kind;
#include "runtime/exec/exec_ops.def"
#undef HOST_OP

/* ---- the run ----------------------------------------------------------- */

typedef struct RtStats {
    double begin, ready;  /* rt_seconds() */
    double data, devices; /* seconds that main spent with them */
    double saving;        /* and with checkpoints, those before its end: */
    double saving_most;   /* with one */
    double saving_end;    /* and when it had ended, until the last was there */
    int64_t saved, saved_bytes; /* how many, after its first step */
    int64_t steps, launches;
    int64_t resumed;            /* steps before this process */
    int64_t file_bytes;         /* that datasets have read */
    _Atomic int64_t kept_bytes; /* and keep, though the plan could not say so */
    int64_t memory;             /* of the process before the run */
} RtStats;

typedef struct RtExtent {
    int64_t begin, end; /* bytes */
} RtExtent;

typedef VEC(RtExtent) RtExtents;

/* The end of a round of a dataset loop, and what main needs to go on there: of
 * its frame, of all devices' arenas, of the first one's. */
typedef struct RtSafepoint {
    IrOp *loop;
    RtExtents frame, rows, first;
    int64_t more_bytes; /* of rows that may differ among the devices */
} RtSafepoint;

/* Checkpoints that are made, and the one that a run begins with. */
typedef struct RtResume {
    RtCheckpoints *folder; /* NULL: none are made */
    RtArchive written;     /* of the last one */
    int64_t step;          /* after which it was made */
    int64_t bytes;         /* about what it takes */
    RtSafepoint *safepoints;
    int num_safepoints;
    Arena *arena; /* of what is read, until main is entered */
    RtArchive read;
    bool going; /* it is to be entered with what was read */
    const char *events_name;
    int64_t events_bytes;
} RtResume;

/* A dataset function in use: one thread at a time calls it. */
struct RtElementCall {
    RtInvocation inv;
    RtExecutor executor;
};

/* What an executor had done when the watchdog looked. */
typedef struct RtProgressSample {
    uint64_t num_ops;
    int32_t at;
} RtProgressSample;

typedef enum RtRunPhase {
    PHASE_RUNNING,   /* main is called, or about to be */
    PHASE_RETURNED,  /* and it has come back */
    PHASE_CLOSING,   /* threads are asked to end */
    PHASE_ABANDONED, /* the watchdog ends the process */
    PHASE_ENDED
} RtRunPhase;

/* The thread that sees to it that a run ends (exec_watchdog.c).  Times are of
 * rt_seconds(), 0 if there was none yet. */
typedef struct RtWatchdog {
    pthread_t thread;
    bool has_thread;
    RtWaitWord bell;      /* changes when the thread is to end */
    _Atomic int32_t stop; /* the word that loops look at: EXEC_STOPPED or 0 */
    atomic_int phase;     /* of RtPhase */
    atomic_int held;      /* who waits for a disk is waited for */
    _Atomic(RtExecutor *) failed; /* who did first; its fault is complete */
    _Atomic int64_t steps;        /* done by main */
    Status result;                /* PHASE_CLOSING: what the run ends with */
    Arena *arena;
    RtProgressSample *seen; /* of main and each replica */
    double moved;           /* the last time that something else was seen */
    int64_t seen_steps;
    double stepped, longest; /* when the last step ended; the longest one */
    double interrupted, faulted, stopped, closed; /* when that was seen */
    RtFault fault;      /* nothing went on for too long */
    bool wants_data;    /* an interrupted run that did not come to an end */
    RtNotes unfinished; /* was waiting for data, or was there */
} RtWatchdog;

struct RtRun {
    Arena *arena;
    const Plan *plan;
    IrModule *module;
    const RtOptions *options;
    int out_error; /* errno of the first line that could not be printed, or 0 */
    const char *data_dir;
    uint64_t seed;
    double clock; /* what now() is ahead of rt_seconds() */
    RtCode *code;
    RtColl *coll;
    RtWatchdog watchdog;
    double timeout; /* of collectives */
    int num_replicas;
    const char *const *device_names;
    RtDevice **devices; /* for each replica; NULL: not opened */
    RtExecutor main;
    RtExecutor *replicas;
    Map *fns;                      /* name -> RtFn */
    Scalar *params;                /* as the module's params */
    RtIterBinding *iterators;      /* as the module's iters */
    VEC(RtElementCall *) elements; /* dataset functions in use */
    VEC(RtLaunch *) launches;
    int64_t arena_bytes; /* of a device */
    int max_operands;    /* of the operations that need scratch */
    RtStats stats;
    RtProgress progress;
    bool has_summary;
    RtEvents *events; /* of summary; NULL: nobody wants them */
    RtResume resume;
};

/* exec_params.c: values of params, by option, default or checkpoint; --seed is
 * one of them. */
Status rt_read_params(RtRun *run) MUST_USE;
void rt_params_archive(RtRun *run, RtArchive *ar);

/* exec_load.c */

/* Finds how large arenas must be for what the module places. */
Status rt_measure_arena(RtRun *run) MUST_USE;
/* Arenas of at least so many bytes, beyond what the module places. */
Status rt_reserve_arena(RtRun *run, int64_t end) MUST_USE;
/* The function of that name and kind; prepared when first asked for. */
Status rt_load_function(RtRun *run, const char *name, IrFuncKind kind,
                        RtFunction **out) MUST_USE;
/* An executor without a device, once all functions are loaded. */
void rt_executor_init(RtExecutor *executor, RtRun *run, int replica);
void rt_executor_deinit(RtExecutor *executor);
/* Zeroed memory of a, aligned like arenas are for values. */
void *rt_alloc_aligned(Arena *a, int64_t bytes);
/* An invocation of fn; in and out have room for its pointers. */
void rt_invocation_init(RtInvocation *inv, const RtFunction *fn,
                        RtExecutor *executor, char *base, char *const *in,
                        char *const *out);

/* exec_launch.c: room for host operands, once all launches are loaded, and
 * pointers, once the devices have their arenas. */
Status rt_reserve_staging(RtRun *run) MUST_USE;
void rt_bind_launches(RtRun *run);

/* exec_print.c */

/* What was printed so far is out of our hands. */
Status rt_flush(const RtRun *run) MUST_USE;
/* What the replicas printed in a step. */
void rt_print_lines(RtRun *run);
/* The text of an operation with a format: its values are those of the operands
 * from first. */
Status rt_check_format(RtRun *run, const RtFunction *fn, const RtHostOp *h,
                       int first) MUST_USE;
void rt_add_text(Str *to, RtInvocation *inv, const RtHostOp *h, int first);

/* exec_iter.c */

/* The functions that datasets call; before any executor is made. */
Status rt_load_elements(RtRun *run) MUST_USE;
Status rt_open_iterators(RtRun *run) MUST_USE;
void rt_close_iterators(RtRun *run);

/* exec_checkpoint.c */

/* What is kept at each safepoint of main, and how much that is. */
void rt_list_safepoints(RtRun *run, IrFunc *main);
/* Then: opens the folder, and what the run was begun with if one is resumed:
 * seed and params.  The rest, once everything is open, before main is called.
 */
Status rt_open_checkpoints(RtRun *run) MUST_USE;
Status rt_resume(RtRun *run, RtInvocation *main) MUST_USE;
/* The file of summaries, new or the one that was begun. */
Status rt_open_events(RtRun *run) MUST_USE;
/* Main is at this safepoint: makes a checkpoint when it is time. */
Status rt_checkpoint(RtInvocation *main, int32_t safepoint) MUST_USE;
/* Waits for the last one; NULL or not, what became of it. */
Status rt_end_checkpoints(RtRun *run) MUST_USE;
void rt_close_checkpoints(RtRun *run);

/* exec_memory.c: what a run needs, in bytes, as far as it is known; and an
 * error if there is not as much. */
typedef struct RtFootprint {
    int64_t arenas, frame, data;
    int64_t copy; /* of a checkpoint */
    int64_t all;
} RtFootprint;
RtFootprint rt_memory_footprint(const RtRun *run);
Status rt_check_memory(const RtRun *run) MUST_USE;

/* exec_stats.c: what a run took, to options->err; begun before it takes any.
 */
void rt_begin_stats(RtRun *run);
void rt_print_stats(RtRun *run);

/* exec_checksum.c: "checksum HASH" of all variables, to options->out. */
void rt_print_checksum(const RtRun *run);

/* exec_ops.c */
bool rt_is_interrupted(const RtRun *run);
extern const TfdHooks rt_hooks;

/* exec_watchdog.c */

/* Begins to watch, before main is called. */
Status rt_watchdog_start(RtRun *run) MUST_USE;
/* Main has come back; the run ends with st; all threads have ended.  Who comes
 * too late, when the process is being ended, does not return. */
void rt_watchdog_main_returned(RtRun *run);
void rt_watchdog_closing(RtRun *run, Status st);
void rt_watchdog_join(RtRun *run);
/* Between these two nobody counts the seconds. */
void rt_watchdog_suspend(RtRun *run);
void rt_watchdog_resume(RtRun *run);
/* All who run, and all who wait, are to come back with EXEC_STOPPED. */
void rt_stop(RtRun *run);
bool rt_is_stopped(const RtRun *run);

/* exec_position.c */

/* The operation that an executor executes; NULL: none. */
const IrOp *rt_position(const RtExecutor *executor, int32_t *at);
/* The outermost loop around op without a known number of rounds; NULL: none. */
const IrOp *rt_unbounded_loop(const IrOp *op);
/* Main waits for data there, or for who makes them. */
bool rt_waits_for_data(const IrOp *op);
/* Where those are for whom main waits: replicas in a launch that neither wait
 * themselves nor have done their part, functions of datasets, or main. */
void rt_add_stragglers(RtRun *run, Arena *a, RtNotes *to);

/* The same message with these places below it, as diag_print shows notes. */
Status rt_show_notes(const RtRun *run, const RtNotes *notes,
                     Status st) MUST_USE;

/* exec_end.c: why main came back with a status other than 0, or did not come
 * back. */
Status rt_status_of_end(RtRun *run) MUST_USE;
Status rt_status_of_abandoned(RtRun *run) MUST_USE;

#endif
