/*
 * run_state.h - a run: a loaded plan, its devices and executors
 */
#ifndef TFD_RUNTIME_EXEC_RUN_STATE_H
#define TFD_RUNTIME_EXEC_RUN_STATE_H

#include "ir/device/device.h"
#include "runtime/cluster/control/job.h"
#include "runtime/cluster/group/group.h"
#include "runtime/cluster/segments/exchange.h"
#include "runtime/exec/agreement.h"
#include "runtime/exec/checkpoint.h"
#include "runtime/exec/counters.h"
#include "runtime/exec/function.h"
#include "runtime/exec/iter_state.h"
#include "runtime/exec/options.h"
#include "runtime/exec/progress.h"
#include "runtime/exec/watchdog.h"
#include "runtime/load/tables.h"

struct RtRun {
    Arena *arena;
    const Plan *plan;
    IrModule *module;
    bool has_calls; /* its operations have theirs: read after a fault */
    const RtOptions *options;
    const TfdHooks *hooks;        /* that compiled code calls */
    const RtHostOpInfo *host_ops; /* for each IrOpKind */
    const char *prefix; /* before each line that is printed; NULL: nothing */
    int out_error; /* errno of the first line that could not be printed, or 0 */
    const char *data_dir;
    uint64_t seed;
    double now_offset;             /* now() minus clock_seconds() */
    RtClock *clock;                /* for all waits */
    const PlanCode *host_target;   /* of the plan, for this machine */
    const PlanCode *device_target; /* NULL: devices need no other code */
    RtCode *code;                  /* of host_target */
    RtCodeTables tables;           /* of code */
    RtColl *coll;
    VEC(const RtHostOp *) collectives; /* starts that made an instance */
    RtWatchdog watchdog;
    double timeout;      /* of collectives */
    RtJob *job;          /* NULL: none, or the run has left it */
    RtWaitWord job_bell; /* changes when it ends */
    IrOps sites;         /* of it: main's operations, starts of collectives */
    int32_t site;        /* of main's current operation */
    RtExchange exchange; /* with its processes, for set-up */
    RtGroup *group;      /* with the other processes of the job; NULL: none */
    struct RtCarrier *carrier; /* NULL: they share memory */
    struct RtPs *ps; /* as a task of a parameter-server job; NULL: none */
    struct RtPsClient *ps_client; /* of its servers; NULL: it needs none */
    RtArchive told_params;        /* by a coordinator; of no bytes: by nobody */
    struct RtHttp *metrics;       /* of its job; NULL: nobody is served */
    struct RtEvaluator *evaluator; /* of a job; NULL: the run is none */
    int rank, size;                /* of this process, in the job */
    int local_rank, local_size;    /* and on its machine */
    int num_replicas;              /* of all processes */
    int first_local, num_local;    /* those of this process */
    int num_devices;               /* of this process, as all that follows */
    int replicas_each;             /* on a device, next to one another */
    IrDevices device_list;
    const RtDeviceCaps *caps; /* of all of them */
    bool enqueues;            /* device programs are q_NAME */
    RtDevice **devices;       /* NULL: not opened */
    RtDeviceCode device_code; /* that they have loaded */
    RtExecutor main;
    RtExecutor *replicas; /* of all processes, by number: those of others have
                             sizes of batches, but no device */
    RtExecutor *locals;   /* the first of this process among them */
    Map *fns;             /* name -> RtFunction */
    Scalar *params;       /* as the module's params */
    FormatName *texts;    /* the same of strings; others have no value */
    RtIterBinding *iterators;           /* as the module's iters */
    struct RtSharedSteps *shared_steps; /* with other processes; or NULL */
    /* Opens the sources of one that is not open yet. */
    Status (*open_iterator)(RtRun *run, RtIterBinding *it);
    VEC(RtElementCall *) elements; /* dataset functions in use */
    /* Sends what h, a push of a worker's program, has for the servers; NULL:
     * the variables are those of this process. */
    int32_t (*push)(RtInvocation *inv, const RtHostOp *h);
    VEC(RtLaunch *) launches;
    const RtLaunch *last_launch; /* that was executed */
    int64_t arena_bytes;         /* of a replica */
    int64_t own_begin;   /* of those of a device's later ones: before it nothing
                            is used */
    int64_t dims_offset; /* in it: its executor's dims, where programs cannot */
    size_t dims_bytes;   /* read the host's memory; else no bytes */
    int max_operands;    /* of the operations that need scratch */
    int64_t max_copied_bytes; /* of the operands of one that reads them */
    RtArchive lines;          /* of its replicas, for the chief */
    RtAgreement agreement;    /* with the other processes */
    RtStats stats;
    RtProgress progress;
    struct RtProfile *profile;        /* NULL: nothing is timed */
    struct RtComparison *comparison;  /* NULL: nothing is compared */
    struct RtNanCheck *nan_check;     /* NULL: numbers may be of any kind */
    _Atomic(const IrOp *) not_finite; /* that showed such a scalar; or NULL */
    bool has_warned;                  /* of it */
    RtEvents *events;                 /* of summary; NULL: not recorded */
    RtResume resume;
};

/* For the job: what main does now. */
static inline void
rt_note_state(const RtRun *run, RtJobState state)
{
    if (run->job)
        rt_job_at(run->job, run->stats.steps + 1, state);
}

/* The user has interrupted the run in this process. */
static inline bool
rt_is_interrupted(const RtRun *run)
{
    const atomic_bool *word = run->options->interrupted;
    return word && atomic_load(word);
}

/* Whether the run ends at this safepoint: it was interrupted, and all processes
 * know. */
static inline bool
rt_stops_here(const RtRun *run)
{
    return run->group ? run->agreement.stops : rt_is_interrupted(run);
}

/* Whether the effects of main in this process are those of the job: rank 0's
 * are. */
static inline bool
rt_is_chief(const RtRun *run)
{
    return run->rank == 0;
}

/* The process with that replica. */
static inline int
rt_rank_of(const RtRun *run, int replica)
{
    return replica / run->num_local;
}

static inline bool
rt_is_local(const RtRun *run, int replica)
{
    return rt_rank_of(run, replica) == run->rank;
}

#endif
