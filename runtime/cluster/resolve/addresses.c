/*
 * addresses.c - where a job's control server is
 *
 * It is beside rank 0, so every launcher that tells where rank 0 runs is
 * enough: TF_CONFIG's first address, torchrun's master, the first host of a
 * step of Slurm.  MPI launchers tell nothing, but MPI itself can: rank 0
 * sends where it listens (cluster/mpi/rendezvous).
 */
#include "runtime/cluster/resolve/addresses.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/resolve/hostlist.h"
#include "runtime/cluster/resolve/resolve_impl.h"
#include "runtime/cluster/resolve/task_counts.h"

enum {
    FIRST_PORT = 17000, /* of steps of Slurm: and their number, modulo */
    NUM_PORTS = 10000,
    STEP_STRIDE = 131, /* steps of one job have other ports */
    LAST_PORT = 65535
};

static const char *
get(const RtAddressQuery *q, const char *name)
{
    return rt_variable(q->env, name);
}

static void
add_address(RtAddressQuery *q, const char *address, const char *from)
{
    RtClusterSpec *spec = q->spec;
    const char **list =
        NEW_ARRAY(q->arena, const char *, (size_t)spec->num_addresses + 1);
    for (int i = 0; i < spec->num_addresses; i++)
        list[i] = spec->addresses[i];
    list[spec->num_addresses++] = address;
    spec->addresses = list;
    VEC_PUSH(q->arena, spec->facts, ((RtFact){q->what, address, from}));
}

/* "h0:17000,10.0.0.1:17000" */
static Status
add_list(RtAddressQuery *q, const char *text, const char *from, StatusKind kind)
{
    for (;;) {
        size_t n = strcspn(text, ",");
        const char *address = arena_printf(q->arena, "%.*s", (int)n, text);
        const char *wrong = rt_wrong_address(q->arena, address);
        if (wrong)
            return status_new(kind, "%s is no list of addresses: %s", from,
                              message_part(wrong));
        add_address(q, address, from);
        if (!text[n])
            return OK;
        text += n + 1;
    }
}

/* ---- launchers ----------------------------------------------------------- */

static Status
of_torchrun(RtAddressQuery *q)
{
    const char *host = get(q, "MASTER_ADDR"), *port = get(q, "MASTER_PORT");
    if (!host || !port)
        return status_new(
            STATUS_INPUT,
            "%s is not set, and RANK and WORLD_SIZE are: torchrun "
            "sets MASTER_ADDR and MASTER_PORT, too; or give --join "
            "HOST:PORT",
            host ? "MASTER_PORT" : "MASTER_ADDR");
    int number = rt_is_number(port) && strlen(port) < 6 ? atoi(port) : 0;
    if (number < 1 || number >= LAST_PORT)
        return status_new(STATUS_INPUT,
                          "MASTER_PORT=%s is no port from 1 to %d", port,
                          LAST_PORT - 1);
    add_address(q, rt_host_port(q->arena, host, number + 1),
                "MASTER_ADDR, and the port after MASTER_PORT");
    return OK;
}

/* Of a variable that Slurm sets; 0 where it is not set. */
static int64_t
number_of(const RtAddressQuery *q, const char *name)
{
    const char *text = get(q, name);
    return text ? strtol(text, NULL, 10) & 0xffffffff : 0;
}

static Status
of_slurm(RtAddressQuery *q)
{
    RtNames hosts;
    const char *name = "SLURM_STEP_NODELIST", *list = get(q, name);
    if (!list) {
        name = "SLURM_JOB_NODELIST";
        list = get(q, name);
    }
    if (!list)
        return status_new(STATUS_INPUT,
                          "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST "
                          "is set, though SLURM_PROCID is: give --join "
                          "HOST:PORT");
    TRY(rt_hostlist(q->arena, name, list, &hosts));
    int64_t number = number_of(q, "SLURM_JOB_ID") +
                     STEP_STRIDE * number_of(q, "SLURM_STEP_ID");
    add_address(q,
                arena_printf(q->arena, "%s:%d", hosts.data[0],
                             FIRST_PORT + (int)(number % NUM_PORTS)),
                arena_printf(q->arena,
                             "the first of %s, and a port by "
                             "SLURM_JOB_ID",
                             name));
    return OK;
}

static Status
of_tasks(RtAddressQuery *q)
{
    const RtTasks *t = q->spec->tasks;
    const RtTaskJob *first = rt_tasks_job(t, "chief");
    if (!first || first->tasks.len == 0)
        first = rt_tasks_job(t, "worker");
    add_address(q, first->tasks.data[0].address,
                arena_printf(q->arena, "%s 0", first->name));
    return OK;
}

static Status
over_mpi(RtAddressQuery *q)
{
    q->spec->over_mpi = true;
    VEC_PUSH(q->arena, q->spec->facts,
             ((RtFact){q->what, "over MPI",
                       "rank 0 sends where it listens, and a key"}));
    return OK;
}

static Status
of_none(const RtAddressQuery *q)
{
    return status_new(STATUS_INPUT,
                      "nothing says where rank 0 is (%s does not): give --join "
                      "HOST:PORT, or set TFD_CONTROL to it",
                      rt_launcher_name(q->spec->launcher));
}

static Status
of_launcher(RtAddressQuery *q)
{
    switch (q->spec->launcher) {
    case RT_LAUNCHER_options:
        return q->spec->tasks ? of_tasks(q) : of_none(q);
    case RT_LAUNCHER_tf_config:
    case RT_LAUNCHER_sagemaker:
        return of_tasks(q);
    case RT_LAUNCHER_torchrun:
        return of_torchrun(q);
    case RT_LAUNCHER_slurm:
        return of_slurm(q);
    case RT_LAUNCHER_open_mpi:
    case RT_LAUNCHER_jsm:
    case RT_LAUNCHER_pals:
    case RT_LAUNCHER_mpich:
    case RT_LAUNCHER_flux:
        return q->has_slurm ? of_slurm(q) : over_mpi(q);
    case RT_LAUNCHER_tfd:
    case RT_LAUNCHER_kubernetes:
    case RT_LAUNCHER_alone:
    case RT_NUM_LAUNCHERS:
        break;
    }
    return of_none(q);
}

Status
rt_find_addresses(RtAddressQuery *q)
{
    const char *set = get(q, "TFD_CONTROL");
    if (q->join)
        return add_list(q, q->join, "--join", STATUS_USAGE);
    if (set)
        return add_list(q, set, "TFD_CONTROL", STATUS_INPUT);
    return of_launcher(q);
}

const char *
rt_listen_address(Arena *a, const char *address, bool has_key)
{
    const char *colon = strrchr(address, ':');
    return arena_printf(a, has_key ? "*%s" : "127.0.0.1%s", colon);
}

Status
rt_slurm_local_size(const RtAddressQuery *q, int *out, const char **from)
{
    RtCounts counts;
    const char *name = "SLURM_STEP_TASKS_PER_NODE";
    const char *list = get(q, name);
    int64_t at = number_of(q, "SLURM_NODEID");
    if (!list || !get(q, "SLURM_NODEID"))
        return OK;
    TRY(rt_repeated_counts(q->arena, name, list, &counts));
    if (at < counts.len) {
        *out = counts.data[at];
        *from = arena_printf(q->arena, "%s=%s", name, list);
    }
    return OK;
}
