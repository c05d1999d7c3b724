/*
 * addresses.h - where a job's control server is
 */
#ifndef TFD_RUNTIME_CLUSTER_RESOLVE_ADDRESSES_H
#define TFD_RUNTIME_CLUSTER_RESOLVE_ADDRESSES_H

#include "runtime/cluster/resolve/resolve.h"

typedef struct RtAddressQuery {
    Arena *arena;
    RtEnvironment env;
    const char *join;    /* of the command line, or NULL */
    const char *what;    /* is there, as facts call it: "control server" */
    RtClusterSpec *spec; /* whose addresses are set, and facts added */
    bool has_slurm; /* a step of Slurm started the processes, with whichever
                       library */
} RtAddressQuery;

/* Sets addresses, or over_mpi. */
Status rt_find_addresses(RtAddressQuery *q) MUST_USE;

/* Where a process listens whose address others know: on all interfaces with a
 * key, for the others' address of it may be another one than its own. */
const char *rt_listen_address(Arena *a, const char *address, bool has_key);

/* The tasks of this node in a step of Slurm, and what says it; *out stays where
 * nothing does. */
Status rt_slurm_local_size(const RtAddressQuery *q, int *out,
                           const char **from) MUST_USE;

#endif
