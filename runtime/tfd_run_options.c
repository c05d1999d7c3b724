/*
 * tfd_run_options.c - the options of tfd-run, in the order of its help
 */
#include "runtime/tfd_run_options.h"

#include "ir/base/io/limit.h"

static const char *const progress_values[] = {"auto", "always", "never", NULL};

static const char *const compare_values[] = {"cpu", NULL};

static const char *const link_values[] = {"zmq", "mpi", "ucx", NULL};

static const char *const wire_values[] = {"plain", NULL};

static const char *const placement_values[] = {"turn", "bytes", NULL};

static const OptionRow rows[NUM_OPTS] = {
    [OPT_SET] = {.name = "set",
                 .arg = "NAME=VALUE",
                 .repeatable = true,
                 .help = "a param of the program"},
    [OPT_LIMIT] = {.name = "limit",
                   .repeatable = true,
                   .arg = LIMIT_ARG,
                   .help = LIMIT_HELP},
    [OPT_DATA] = {.name = "data",
                  .arg = "DIR",
                  .help = "where paths of datasets start; else where the plan "
                          "is"},
    [OPT_LOG_DIR] = {.name = "log-dir",
                     .arg = "DIR",
                     .help = "write what the program gives summary() there, "
                             "for TensorBoard; else it is not kept"},
    [OPT_DEVICES] = {.name = "devices",
                     .arg = "LIST",
                     .help =
                         "run there: any number of devices that divides the "
                         "plan's replicas, to the same bits; null:0-3 only "
                         "take time (docs/hal.md)"},
    [OPT_SEED] = {.name = "seed",
                  .arg = "N",
                  .help = "for random numbers and shuffles that state none"},
    [OPT_THREADS] = {.name = "threads",
                     .arg = "N",
                     .help = "threads of all devices together; else one for "
                             "each core"},
    [OPT_CHECKPOINT] = {.name = "checkpoint",
                        .arg = "DIR",
                        .help = "keep the last checkpoints of the run there; "
                                "an interrupt ends the run with one"},
    [OPT_EVERY] = {.name = "every",
                   .arg = "N",
                   .help = "steps from one checkpoint to the next; else 1000"},
    [OPT_RESUME] = {.name = "resume",
                    .help = "go on from the newest checkpoint, if there is "
                            "one, to the same results"},
    [OPT_TIMEOUT] = {.name = "timeout",
                     .arg = "SECONDS",
                     .help = "when nothing goes on for so long the run ends "
                             "with a diagnosis; else only where replicas wait "
                             "for each other, after 300"},
    [OPT_QUIET] = {.name = "quiet",
                   .help = "nothing but what the program prints, and errors"},
    [OPT_PROGRESS] = {.name = "progress",
                      .arg = "WHEN",
                      .values = progress_values,
                      .help = "show steps and their rate on standard error; "
                              "auto is when that is a terminal"},
    [OPT_STATS] = {.name = "stats",
                   .help = "at the end, print steps/s, time by kind, bytes "
                           "moved, and memory against the plan"},
    [OPT_PROFILE] = {.name = "profile",
                     .arg = "FILE",
                     .optional = true,
                     .help = "at the end, print which lines, functions, layers "
                             "and kernels took the time of a step, and what "
                             "bounds them; also to FILE.json, or to "
                             "FILE.trace.json what ran when (docs/profile.md)"},
    [OPT_COMPARE] = {.name = "compare",
                     .arg = "DEVICE",
                     .values = compare_values,
                     .help = "execute each launch of a kernel on the host, "
                             "too, and compare all bits (docs/gpu.md)"},
    [OPT_COMPARE_STEPS] = {.name = "compare-steps",
                           .arg = "N",
                           .help = "compare in the first N steps only"},
    [OPT_CHECK_NAN] = {.name = "check-nan",
                       .help = "end the run at the first kernel or collective "
                               "that makes a nan or an infinity of finite "
                               "numbers, and name its lines, variables, "
                               "replica and step; of a plan of tfdc "
                               "--check-nan, the operation"},
    [OPT_CHECKSUM] = {.name = "checksum",
                      .help = "at the end, print a hash of all variables on "
                              "all devices: equal bits, equal hash"},
    [OPT_INFO] = {.name = "info",
                  .help = "print what the plan has instead of running it: "
                          "devices, programs, kernels, code for which "
                          "machines"},
    [OPT_LIST] = {.name = "list-devices",
                  .help = "print the devices that can be used here, without "
                          "a plan",
                  .alone = true},
    [OPT_PROCESSES] = {.name = "processes",
                       .letter = 'n',
                       .arg = "N",
                       .help = "run the plan in N processes of this machine, "
                               "to the same bits; of strategy "
                               "parameter_server, workers=3,ps=2 says how "
                               "many of each (docs/cluster.md)"},
    [OPT_RESTARTS] = {.name = "restarts",
                      .arg = "N",
                      .help = "start a job of -n that fails (of tasks: its "
                              "coordinator or a server) again from its newest "
                              "checkpoint, at most N times"},
    [OPT_MIN_PROCESSES] = {.name = "min-processes",
                           .arg = "N",
                           .help = "with --restarts: go on with fewer "
                                   "processes, N at least, where not all of "
                                   "them start, and ask for all at "
                                   "checkpoints"},
    [OPT_RANK] = {.name = "rank",
                  .arg = "P",
                  .help = "this process's number in a job of several; else "
                          "what started it says so"},
    [OPT_SIZE] = {.name = "size",
                  .arg = "N",
                  .help = "the number of the job's processes"},
    [OPT_JOIN] = {.name = "join",
                  .arg = "HOST:PORT",
                  .help = "where rank 0, or the coordinator, listens; several "
                          "are separated by commas"},
    [OPT_CLUSTER] = {.name = "cluster",
                     .arg = "FILE",
                     .help = "the job's tasks and addresses, as TF_CONFIG has "
                             "them"},
    [OPT_TASK] = {.name = "task",
                  .arg = "TYPE:INDEX",
                  .help = "which of them this process is"},
    [OPT_SERVE] = {.name = "serve",
                   .arg = "TYPE:INDEX",
                   .help = "be this task of a job of strategy "
                           "parameter_server, ps:0, worker:0 or evaluator, "
                           "whose coordinator is where --join says"},
    [OPT_COORDINATE] = {.name = "coordinate",
                        .arg = "TASKS",
                        .help = "be the coordinator of these tasks, "
                                "workers=3,ps=2, which join it where --listen "
                                "says"},
    [OPT_TASKS] = {.name = "tasks",
                   .arg = "TASKS",
                   .help = "of these tasks, workers=3,ps=2, be the one that "
                           "the rank says: the coordinator (0), then ps, then "
                           "workers, then an evaluator"},
    [OPT_LISTEN] = {.name = "listen",
                    .arg = "HOST:PORT",
                    .help = "where a coordinator or a ps listens; * is every "
                            "host of this machine, and 0 any port of a ps"},
    [OPT_KEY] = {.name = "key",
                 .arg = "FILE",
                 .help = "32 bytes that all processes of the job have and "
                         "nobody else; without them it is on loopback only"},
    [OPT_LINK] = {.name = "link",
                  .arg = "LINK",
                  .values = link_values,
                  .help = "joins the processes (else memory, or mpi under its "
                          "launcher, or zmq)"},
    [OPT_MPI] = {.name = "mpi",
                 .arg = "PATH",
                 .help = "the MPI library; else that of the launcher"},
    [OPT_WIRE] = {.name = "wire",
                  .arg = "WIRE",
                  .values = wire_values,
                  .help = "how data goes over zmq; plain is unencrypted, for a "
                          "private network"},
    [OPT_SILENCE] = {.name = "silence",
                     .arg = "SECONDS",
                     .help = "a process that gives no sign for so long ends "
                             "the job; else 5"},
    [OPT_STALENESS] = {.name = "staleness",
                       .arg = "N",
                       .help = "no closure computes with values that lack "
                               "more than N other closures' updates when its "
                               "own are applied; 0: one after the other, as "
                               "with --atomic"},
    [OPT_ATOMIC] = {.name = "atomic",
                    .help = "all servers apply the updates of the same attempt "
                            "of a closure, also where a worker dies in the "
                            "midst of it"},
    [OPT_SYNC] = {.name = "sync",
                  .arg = "N/M",
                  .help = "closures are executed in rounds of M that compute "
                          "with the same values; the first N that end count"},
    [OPT_DIAGNOSE] = {.name = "diagnose",
                      .arg = "DIR",
                      .help = "write each process's last collectives there "
                              "when the job fails, and on SIGUSR2"},
    [OPT_RESOLVE] = {.name = "resolve",
                     .help = "print which process of a job this one is, and "
                             "why",
                     .alone = true},
    [OPT_PREFLIGHT] = {.name = "preflight",
                       .help = "join, check and open everything as a run does, "
                               "measure how fast the processes reach each "
                               "other, and end"},
    [OPT_STATUS] = {.name = "status",
                    .arg = "HOST:PORT|PID",
                    .help = "ask the coordinator that listens there, with its "
                            "job's --key, or that of the job whose tfd-run -n "
                            "is process PID, and print workers, servers, their "
                            "rates and how stale values are",
                    .alone = true},
    [OPT_METRICS] = {.name = "metrics",
                     .arg = "[HOST:]PORT",
                     .help = "the coordinator serves the same numbers there, "
                             "as a page for Prometheus, on loopback unless a "
                             "host is named; port 0 is any"},
    [OPT_LOCAL_CLUSTER] = {.name = "local-cluster",
                           .arg = "TASKS",
                           .help = "start the servers and workers of these "
                                   "tasks, workers=3,ps=2, on this machine, "
                                   "print how a coordinator joins them, and "
                                   "stay there for one after another"},
    [OPT_PLACEMENT] = {.name = "placement",
                       .arg = "RULE",
                       .values = placement_values,
                       .help = "which server has a variable or part: each in "
                               "turn, or, by bytes, the one that has the "
                               "fewest; the coordinator says it"},
};

const OptionTable tfd_run_options = {
    .program = "tfd-run",
    .about = "Runs a plan that tfdc made.",
    .operand = "FILE.tfp",
    .rows = rows,
    .num_rows = NUM_OPTS,
};
