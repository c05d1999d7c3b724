/*
 * resolve.h - which process of a job this one is
 *
 * Whatever starts the processes of a job tells each its number: by options, by
 * TF_CONFIG, or by variables of its own (launchers.def).  This finds them, says
 * where each fact comes from, and refuses what contradicts itself.  Nothing is
 * asked over a network, and the same environment gives the same answer.
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_RESOLVE_H

#include <stdbool.h>
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"
#include "runtime/cluster/resolve/tasks.h"

/* The value of a variable, NULL if it is not set; as getenv. */
typedef struct RtEnvironment {
    const char *(*get)(void *data, const char *name);
    void *data;
} RtEnvironment;

/* This process's own. */
RtEnvironment rt_environment(void);

typedef enum RtLauncher {
    RT_LAUNCHER_alone, /* nothing says that there are others */
    RT_LAUNCHER_options,
    RT_LAUNCHER_tf_config, /* or --cluster */
    RT_LAUNCHER_sagemaker,
#define LAUNCHER(id, ...) RT_LAUNCHER_##id,
#include "runtime/cluster/resolve/launchers.def"
#undef LAUNCHER
    RT_NUM_LAUNCHERS
} RtLauncher;

/* What the command line says; it wins over all else. */
typedef struct RtResolveOptions {
    int rank;                 /* --rank; -1: not given */
    int size;                 /* --size; 0: not given */
    const char *join;         /* --join HOST:PORT[,HOST:PORT]...; NULL */
    const char *cluster_file; /* --cluster, JSON as TF_CONFIG, or a list of
                                 pods; NULL */
    const char *task;         /* --task worker:1; NULL: as the file says */
    /* Of a parameter-server job (role.h); NULL: not given. */
    const char *serve;      /* --serve ps:1 */
    const char *coordinate; /* --coordinate workers=3,ps=2 */
    const char *tasks;      /* --tasks workers=3,ps=2 */
    const char *listen;     /* --listen HOST:PORT */
} RtResolveOptions;

/* A fact and where it comes from, for people. */
typedef struct RtFact {
    const char *name, *value, *from;
} RtFact;

typedef struct RtClusterSpec {
    int rank, size;
    int local_rank, local_size; /* on this machine, as the launcher says; -1
                                   and 0: it does not, and the job finds out */
    RtLauncher launcher;
    /* The control server's addresses, HOST:PORT; none: over MPI, or the process
     * is alone. */
    const char *const *addresses;
    int num_addresses;
    bool over_mpi;        /* rank 0 sends them, and a key, over MPI */
    const char *job;      /* the launcher's name of the job; NULL: none */
    int attempt;          /* how often the job was started again */
    const RtTasks *tasks; /* of TF_CONFIG, --cluster or SageMaker; or NULL */
    bool is_chief;
    VEC(RtFact) facts;
} RtClusterSpec;

/* What launches processes, as messages name it: "mpirun (Open MPI)". */
const char *rt_launcher_name(RtLauncher launcher);
/* Whether it starts processes, and is not the environment of a container in
 * which they may be started. */
bool rt_launcher_starts(RtLauncher launcher);

/* All in a.  STATUS_INPUT: the environment contradicts itself or is
 * incomplete; STATUS_USAGE: the options do.  A file given by --cluster is read.
 */
Status rt_resolve(Arena *a, RtEnvironment env, const RtResolveOptions *options,
                  RtClusterSpec *out) MUST_USE;

/* Prints the facts as a table: tfd-run --resolve. */
void rt_resolve_print(const RtClusterSpec *spec, FILE *to);

#endif
