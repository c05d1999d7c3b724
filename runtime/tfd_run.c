/*
 * tfd_run.c - the program tfd-run
 *
 * The first interrupt (control-C), or that the terminal or the system goes away
 * (SIGHUP, SIGTERM, SIGUSR1), asks the run to stop where it can be resumed
 * later; the second one ends the process.  What stops a run may do so by two
 * signals at once, as timeout(1) does, to its child and to the child's group:
 * they are one interrupt.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/io/limit.h"
#include "ir/base/io/options.h"
#include "ir/base/message.h"
#include "runtime/cluster/control/printing.h"
#include "runtime/cluster/launch/inquiry.h"
#include "runtime/cluster/launch/launch.h"
#include "runtime/cluster/launch/local_cluster.h"
#include "runtime/cluster/launch/start.h"
#include "runtime/cluster/launch/tasks_launch.h"
#include "runtime/cluster/resolve/role.h"
#include "runtime/evaluator/evaluator.h"
#include "runtime/hal/bounded.h"
#include "runtime/hal/system.h"
#include "runtime/ps/status/status.h"
#include "runtime/run/list.h"
#include "runtime/run/run.h"
#include "runtime/tfd_run_options.h"
#include "runtime/tfd_run_uses.h"

enum { USUAL_EVERY = 1000 };

static atomic_bool interrupted, dump_wanted;

static RtJobEnd job_end;

static void
on_dump(int signal_number)
{
    (void)signal_number;
    atomic_store(&dump_wanted, true);
}

enum { ONE_INTERRUPT_MS = 500, INTERRUPTED = 130 };

/* Of any thread. */
static void
on_interrupt(int signal_number)
{
    static _Atomic int64_t first;
    (void)signal_number;
    int64_t now = (int64_t)(1e3 * clock_seconds()), begun = 0;
    if (!atomic_compare_exchange_strong(&first, &begun, now) &&
        now - begun > ONE_INTERRUPT_MS)
        _exit(INTERRUPTED);
    atomic_store(&interrupted, true);
}

/* A run started by nohup continues when the terminal is closed. */
static void
catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = SA_RESTART};
    struct sigaction dump = {.sa_handler = on_dump, .sa_flags = SA_RESTART};
    sigaction(SIGUSR2, &dump, NULL);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL); /* Slurm's, before it ends a job */
    if (!rt_signal_is_ignored(SIGHUP))
        sigaction(SIGHUP, &action, NULL);
}

/* One of a job's processes prints why it ended, and all have its status. */
static int
report(const Plan *plan, Status st)
{
    if (!job_end.is_set)
        return rt_report(plan, st, tfd_run_options.program, stderr);
    if (!job_end.is_silent)
        rt_report(plan, st, tfd_run_options.program, stderr);
    return job_end.exit_status;
}

/* What is printed so far, if its reader takes it and no thread is at it.  A
 * pipe with room takes all that a buffer has. */
static void
flush_results(void)
{
    enum { PATIENCE_MS = 500 };
    struct pollfd room = {.fd = fileno(stdout), .events = POLLOUT};
    if (poll(&room, 1, PATIENCE_MS) == 1 && (room.revents & POLLOUT) &&
        ftrylockfile(stdout) == 0)
        fflush_unlocked(stdout);
}

/* Streams of other threads may be in any state, so nothing but the results so
 * far is flushed. */
static void
abandon(const Plan *plan, Status st)
{
    int exit_status = report(plan, st);
    flush_results();
    _Exit(exit_status);
}

static Status
take_sets(Arena *a, const Options *o, RtOptions *out)
{
    out->num_sets = options_count(o, OPT_SET);
    RtSet *sets = NEW_ARRAY(a, RtSet, (size_t)out->num_sets);
    for (int i = 0; i < out->num_sets; i++)
        TRY(options_assignment(o, a, OPT_SET, i, &sets[i].name,
                               &sets[i].value));
    out->sets = sets;
    return OK;
}

static Status
take_progress(const Options *o, RtOptions *out)
{
    int when = 0;
    bool quiet = options_given(o, OPT_QUIET);
    TRY(options_choice(o, OPT_PROGRESS, "value",
                       tfd_run_options.rows[OPT_PROGRESS].values,
                       options_value(o, OPT_PROGRESS, "auto"), &when));
    out->progress = when == 1 || (when == 0 && !quiet && isatty(2));
    if (quiet && when == 1)
        return status_new(STATUS_USAGE,
                          "--quiet and --progress=always contradict each "
                          "other");
    out->stats = options_given(o, OPT_STATS);
    if (quiet && out->stats)
        return status_new(STATUS_USAGE,
                          "--quiet and --stats contradict each other");
    return OK;
}

static Status
take_checkpoint(const Options *o, RtOptions *out)
{
    out->every = USUAL_EVERY;
    out->resume = options_given(o, OPT_RESUME);
    out->checkpoint_dir = options_value(o, OPT_CHECKPOINT, NULL);
    TRY(options_int(o, OPT_EVERY, 1, INT64_MAX, &out->every));
    if (out->checkpoint_dir)
        return OK;
    if (out->resume)
        return status_new(STATUS_USAGE, "--resume needs --checkpoint DIR");
    if (options_given(o, OPT_EVERY))
        return status_new(STATUS_USAGE, "--every needs --checkpoint DIR");
    return OK;
}

static Status
take_compare(const Options *o, RtOptions *out)
{
    out->compare = options_given(o, OPT_COMPARE);
    TRY(options_int(o, OPT_COMPARE_STEPS, 1, INT64_MAX, &out->compare_steps));
    if (options_given(o, OPT_COMPARE_STEPS) && !out->compare)
        return status_new(STATUS_USAGE, "--compare-steps needs --compare cpu");
    return OK;
}

static bool
ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static Status
take_profile(const Options *o, RtOptions *out)
{
    const char *file = options_value(o, OPT_PROFILE, "");
    out->profile = options_given(o, OPT_PROFILE);
    if (out->profile && out->compare)
        return status_new(STATUS_USAGE,
                          "--profile and --compare contradict each other: what "
                          "is compared takes longer");
    if (options_given(o, OPT_CHECK_NAN) && (out->profile || out->compare))
        return status_new(STATUS_USAGE,
                          "--check-nan and --%s contradict each other: both "
                          "follow each kernel",
                          out->profile ? "profile" : "compare");
    if (ends_in(file, ".trace.json"))
        out->profile_trace = file;
    else if (ends_in(file, ".json"))
        out->profile_json = file;
    else if (*file)
        return status_new(STATUS_USAGE,
                          "--profile=%s: the file is a .json of the tables, or "
                          "a .trace.json for chrome://tracing and Perfetto",
                          file);
    return OK;
}

static Status
take_limits(const Options *o)
{
    for (int i = 0; i < options_count(o, OPT_LIMIT); i++)
        TRY(limit_set("tfd_run", options_nth(o, OPT_LIMIT, i)));
    return OK;
}

static Status
take_options(Arena *a, const Options *o, RtOptions *out)
{
    int64_t seed = 0, threads = 0;
    IrDevices devices = {0};
    *out = (RtOptions){.data_dir = options_value(o, OPT_DATA, NULL),
                       .log_dir = options_value(o, OPT_LOG_DIR, NULL),
                       .metrics = options_value(o, OPT_METRICS, NULL),
                       .devices = options_value(o, OPT_DEVICES, NULL),
                       .pipeline_threads = true,
                       .check_nan = options_given(o, OPT_CHECK_NAN),
                       .checksum = options_given(o, OPT_CHECKSUM),
                       .load_only = options_given(o, OPT_PREFLIGHT),
                       .preflight = options_given(o, OPT_PREFLIGHT),
                       .quiet = options_given(o, OPT_QUIET),
                       .seed_given = options_given(o, OPT_SEED),
                       .out = stdout,
                       .err = stderr,
                       .interrupted = &interrupted,
                       .abandon = abandon};
    TRY(take_sets(a, o, out));
    TRY(take_progress(o, out));
    TRY(take_checkpoint(o, out));
    TRY(take_compare(o, out));
    TRY(take_profile(o, out));
    TRY(options_int(o, OPT_SEED, 0, INT64_MAX, &seed));
    TRY(options_int(o, OPT_THREADS, 1, 1024, &threads));
    TRY(options_float(o, OPT_TIMEOUT, 0.001, 1e9, &out->timeout));
    if (out->devices)
        TRY(rt_devices_asked(a, out->devices, &devices));
    out->seed = (uint64_t)seed;
    out->num_threads = (int)threads;
    return OK;
}

/* ---- jobs --------------------------------------------------------------- */

/* Rounds need pushes that are committed together. */
static Status
take_sync(const Options *o, RtStartConfig *out)
{
    enum { MOST = 4096 };
    const char *text = options_value(o, OPT_SYNC, NULL);
    long need, of;
    int end = 0;
    if (!text)
        return OK;
    if (text[strspn(text, "0123456789/")] ||
        sscanf(text, "%5ld/%5ld%n", &need, &of, &end) != 2 || text[end] ||
        need < 1 || need > of || of > MOST)
        return status_new(STATUS_USAGE,
                          "--sync is N/M, as 3/4, with 1 <= N <= M <= %d, not "
                          "\"%s\"",
                          MOST, text);
    if (options_given(o, OPT_STALENESS))
        return status_new(STATUS_USAGE,
                          "--staleness has no use with --sync: values of a "
                          "round lack nothing");
    out->sync_need = need;
    out->sync_of = of;
    out->atomic = true;
    return OK;
}

static Status
take_start(const Options *o, RtStartConfig *out)
{
    int64_t rank = -1, size = 0;
    TRY(options_int(o, OPT_RANK, 0, INT32_MAX, &rank));
    TRY(options_int(o, OPT_SIZE, 1, INT32_MAX, &size));
    *out = (RtStartConfig){
        .resolve = {.rank = (int)rank,
                    .size = (int)size,
                    .join = options_value(o, OPT_JOIN, NULL),
                    .cluster_file = options_value(o, OPT_CLUSTER, NULL),
                    .task = options_value(o, OPT_TASK, NULL),
                    .serve = options_value(o, OPT_SERVE, NULL),
                    .coordinate = options_value(o, OPT_COORDINATE, NULL),
                    .tasks = options_value(o, OPT_TASKS, NULL),
                    .listen = options_value(o, OPT_LISTEN, NULL)},
        .key_file = options_value(o, OPT_KEY, NULL),
        .mpi = options_value(o, OPT_MPI, NULL),
        .diagnose = options_value(o, OPT_DIAGNOSE, NULL),
        .atomic = options_given(o, OPT_ATOMIC),
        .dump = &dump_wanted};
    int by_bytes = 0;
    TRY(options_choice(o, OPT_PLACEMENT, "rule",
                       tfd_run_options.rows[OPT_PLACEMENT].values,
                       options_value(o, OPT_PLACEMENT, "turn"), &by_bytes));
    out->by_bytes = by_bytes;
    out->staleness = -1;
    TRY(options_int(o, OPT_STALENESS, 0, INT32_MAX, &out->staleness));
    if (out->staleness == 0) /* the bits of one process: of one attempt */
        out->atomic = true;
    TRY(take_sync(o, out));
    return options_float(o, OPT_SILENCE, 0.5, 1e6, &out->silence);
}

static Status
print_status(Arena *a, const Options *o)
{
    const uint8_t *key;
    RtInquiryAnswer answer;
    int64_t pid = 0;
    const char *of = options_value(o, OPT_STATUS, "");
    const char *wrong = rt_wrong_address(a, of);
    TRY(tfd_run_check_answer(o, OPT_STATUS));
    if (!rt_is_number(of) && wrong)
        return status_new(STATUS_USAGE,
                          "--status: %s, and no process id of the tfd-run -n "
                          "that is asked",
                          message_part(wrong));
    if (!rt_is_number(of)) {
        TRY(rt_read_key(a, options_value(o, OPT_KEY, NULL), &key));
        TRY(rt_ps_print_status(key, of, stdout));
        return file_finish_output();
    }
    if (options_given(o, OPT_KEY))
        return status_new(STATUS_USAGE,
                          "--key has no effect beside --status %s: the parent "
                          "of the job tells its key; leave it out",
                          of);
    TRY(options_int(o, OPT_STATUS, 1, INT32_MAX, &pid));
    TRY(rt_inquiry_ask(pid, &answer));
    TRY(rt_ps_print_status(
        answer.key, arena_printf(a, "127.0.0.1:%u", answer.port), stdout));
    return file_finish_output();
}

static const IrStrategyInfo *
strategy_of(const Plan *plan)
{
    return &ir_strategy_info[plan->module->strategy];
}

static Status
check_uses(const Options *o, RunKind kind, const Plan *plan)
{
    return tfd_run_check_uses(o, kind, strategy_of(plan));
}

/* A process that is started by itself. */
static Status
check_own_uses(const Options *o, const Plan *plan)
{
    return check_uses(o, strategy_of(plan)->servers ? RUN_TASK : RUN_EQUAL,
                      plan);
}

/* A launcher, or a cluster, of one process is a job all the same, whose command
 * line is that of larger ones. */
static bool
is_of_a_job(const RtResolveOptions *options, const RtClusterSpec *spec)
{
    return spec->launcher != RT_LAUNCHER_alone || options->size > 0 ||
           options->cluster_file || getenv("TF_CONFIG");
}

/* Of -n N. */
static Status
take_size(const Options *o, int64_t *out)
{
    return options_int(o, OPT_PROCESSES, 1, limit_value(LIMIT_processes), out);
}

/* -n of either kind of a job. */
static Status
check_count(Arena *a, const Options *o)
{
    int64_t size;
    RtTaskCounts counts;
    const char *text = options_value(o, OPT_PROCESSES, "1");
    return rt_is_number(text) ? take_size(o, &size)
                              : rt_task_counts_parse(a, "-n", text, &counts);
}

/* Without a plan, the options and the cluster say which kind of job it is. */
static Status
print_resolved(Arena *a, const Options *o, Plan **plan)
{
    RtStartConfig start;
    RtClusterSpec spec;
    const char *option;
    TRY(check_count(a, o));
    TRY(take_start(o, &start));
    bool has_role = rt_options_have_role(&start.resolve, &option) ||
                    rt_cluster_has_role(a, rt_environment(), &start.resolve);
    if (options_operand(o)) {
        TRY(plan_read(a, options_operand(o), plan));
        TRY(check_own_uses(o, *plan));
        has_role = strategy_of(*plan)->servers;
    }
    if (has_role) {
        TRY(rt_print_task(a, &start, stdout));
        return file_finish_output();
    }
    TRY(rt_resolve(a, rt_environment(), &start.resolve, &spec));
    rt_resolve_print(&spec, stdout);
    return file_finish_output();
}

/* The same command with --resume. */
static char **
resuming(Arena *a, const Options *o, int argc, char **argv)
{
    if (options_given(o, OPT_RESUME))
        return argv;
    char **out = NEW_ARRAY(a, char *, (size_t)argc + 2);
    out[0] = argv[0];
    out[1] = "--resume";
    memcpy(out + 2, argv + 1, (size_t)argc * sizeof *argv);
    return out;
}

/* Size and replicas are the caller's. */
static Status
take_restarts(const Options *o, RtRestartPolicy *out)
{
    int64_t restarts = 0, least = 0;
    TRY(options_int(o, OPT_RESTARTS, 0, INT32_MAX, &restarts));
    TRY(options_int(o, OPT_MIN_PROCESSES, 1, INT32_MAX, &least));
    *out = (RtRestartPolicy){.restarts = (int)restarts,
                             .min_processes = (int)least};
    if (options_given(o, OPT_MIN_PROCESSES) && !options_given(o, OPT_RESTARTS))
        return status_new(STATUS_USAGE, "--min-processes needs --restarts N");
    if (!options_given(o, OPT_RESTARTS))
        return OK;
    if (!options_given(o, OPT_PROCESSES))
        return status_new(STATUS_USAGE,
                          "--restarts needs -n N: what else starts processes "
                          "has to start them again itself");
    if (!options_given(o, OPT_CHECKPOINT))
        return status_new(STATUS_USAGE, "--restarts needs --checkpoint DIR");
    return OK;
}

/* Tasks are for another strategy. */
static Status
check_processes(Arena *a, const Options *o, const Plan *plan)
{
    const char *text = options_value(o, OPT_PROCESSES, "");
    RtTaskCounts counts;
    if (rt_is_number(text))
        return OK;
    Status st = rt_task_counts_parse(a, "-n", text, &counts);
    bool is_tasks = !st;
    status_free(st);
    if (!is_tasks)
        return OK; /* what it should be is said where it is read */
    return status_new(STATUS_USAGE,
                      "-n %s is for plans of strategy parameter_server, and "
                      "this one's is %s: -n %d",
                      text, strategy_of(plan)->name,
                      plan->module->num_replicas);
}

/* An MPI is that of the launcher that starts the processes. */
static Status
check_link(const Options *o)
{
    if (strcmp(options_value(o, OPT_LINK, ""), "mpi") != 0)
        return OK;
    return status_new(STATUS_USAGE,
                      "--link mpi is for processes that MPI's launcher has "
                      "started, and -n is another one: mpirun -n %s tfd-run "
                      "starts them, or leave --link out",
                      options_value(o, OPT_PROCESSES, ""));
}

/* otherwise: where data go without --link. */
static Status
check_wire(const Options *o, const char *otherwise)
{
    const char *link = options_value(o, OPT_LINK, otherwise);
    if (!options_given(o, OPT_WIRE) || strcmp(link, "zmq") == 0)
        return OK;
    return status_new(STATUS_USAGE,
                      "--wire is how data goes over zmq, and here it goes over "
                      "%s: give --link zmq, or leave --wire out",
                      link);
}

/* Each process of a launcher that gives -n starts a job of its own: they train
 * the same, and write the same files.  Who sweeps over values wants that. */
static void
note_launcher(Arena *a, const Options *o)
{
    RtClusterSpec spec;
    RtResolveOptions none = {.rank = -1};
    Status st = rt_resolve(a, rt_environment(), &none, &spec);
    bool are_many = !st && spec.size > 1 && rt_launcher_starts(spec.launcher);
    status_free(st);
    if (are_many && !options_given(o, OPT_QUIET))
        rt_server_print(
            NULL, RT_SAY_NOTE,
            message_printf(a,
                           "%s has started %d processes, and this one, by -n "
                           "%s, a job of its own; leave -n out for one job of "
                           "all",
                           rt_launcher_name(spec.launcher), spec.size,
                           options_value(o, OPT_PROCESSES, "")),
            "");
    rt_server_printed(); /* before what processes print */
}

/* The parent of a job's processes: what it runs is checked before, so that it
 * is refused once. */
static Status
launch(Arena *a, const Options *o, const Plan *plan,
       const RtRestartPolicy *policy, int argc, char **argv)
{
    RtLaunchConfig config = {.policy = *policy,
                             .argv = argv,
                             .has_messages = options_given(o, OPT_LINK),
                             .resume_argv = resuming(a, o, argc, argv),
                             .diagnose = options_value(o, OPT_DIAGNOSE, NULL),
                             .checkpoint =
                                 options_value(o, OPT_CHECKPOINT, NULL)};
    int64_t size = 1;
    TRY(check_processes(a, o, plan));
    TRY(check_uses(o, RUN_N_EQUAL, plan));
    TRY(check_link(o));
    TRY(check_wire(o, "memory"));
    TRY(take_size(o, &size));
    TRY(options_float(o, OPT_SILENCE, 0.5, 1e6, &config.silence));
    TRY(options_float(o, OPT_TIMEOUT, 0.001, 1e9, &config.timeout));
    config.policy.size = (int)size;
    if (options_given(o, OPT_PREFLIGHT)) /* to see the first failure */
        config.policy.restarts = 0;
    config.policy.num_replicas = plan->module->num_replicas;
    if (config.policy.min_processes > size)
        return status_new(STATUS_USAGE,
                          "--min-processes is at most the %d of -n", (int)size);
    Status st = rt_launch(&config, &job_end.exit_status);
    job_end.is_set = job_end.is_silent = !st;
    return st;
}

static Status
take_counts(Arena *a, const Options *o, RtTaskCounts *out)
{
    const char *text = options_value(o, OPT_PROCESSES, "");
    int64_t num = 0;
    if (!rt_is_number(text))
        return rt_task_counts_parse(a, "-n", text, out);
    TRY(take_size(o, &num));
    return status_new(STATUS_USAGE,
                      "-n %s: a plan of strategy parameter_server has a "
                      "coordinator, servers and workers, so "
                      "-n workers=%d,ps=1 says how many of each",
                      text, num > 2 ? (int)num - 2 : 1);
}

/* Before anything is started. */
static Status
check_evaluator(const Options *o, const Plan *plan, const RtTaskCounts *counts)
{
    return counts->evaluators
               ? rt_evaluator_check(plan->module,
                                    options_value(o, OPT_CHECKPOINT, NULL))
               : OK;
}

/* The same of a parameter-server job. */
static Status
launch_tasks(Arena *a, const Options *o, const Plan *plan,
             const RtRestartPolicy *policy, int argc, char **argv)
{
    RtTasksLaunchConfig config = {.argc = argc,
                                  .argv = argv,
                                  .resume_argv = resuming(a, o, argc, argv),
                                  .restarts = policy->restarts,
                                  .quiet = options_given(o, OPT_QUIET)};
    TRY(take_counts(a, o, &config.counts));
    TRY(check_uses(o, RUN_N_TASKS, plan));
    TRY(check_evaluator(o, plan, &config.counts));
    TRY(options_float(o, OPT_TIMEOUT, 0.001, 1e9, &config.timeout));
    Status st = rt_launch_tasks(&config, &job_end.exit_status);
    job_end.is_set = job_end.is_silent = !st;
    return st;
}

/* Servers and workers alone, for coordinators that are started by hand. */
static Status
keep_local_cluster(Arena *a, const Options *o, const Plan *plan, int argc,
                   char **argv)
{
    RtStartConfig start;
    const char *text = options_value(o, OPT_LOCAL_CLUSTER, "");
    RtLocalCluster config = {.argc = argc,
                             .argv = argv,
                             .plan = options_operand(o),
                             .join = options_value(o, OPT_JOIN, NULL),
                             .key_file = options_value(o, OPT_KEY, NULL),
                             .has_timeout = options_given(o, OPT_TIMEOUT)};
    TRY(rt_task_counts_parse(a, "--local-cluster", text, &config.counts));
    if (config.counts.evaluators)
        return status_new(STATUS_USAGE,
                          "--local-cluster %s: an evaluator is of one job: "
                          "start it with --serve evaluator",
                          text);
    if (!strategy_of(plan)->servers)
        return status_new(STATUS_USAGE,
                          "--local-cluster is for plans of strategy "
                          "parameter_server, and this one's is %s",
                          strategy_of(plan)->name);
    TRY(check_uses(o, RUN_LOCAL_CLUSTER, plan));
    TRY(take_start(o, &start)); /* else its tasks would not start, ever */
    return rt_run_local_cluster(a, &config);
}

static void
take_link(const Options *o, RtOptions *out)
{
    out->link = options_value(o, OPT_LINK, NULL);
    out->mpi = options_value(o, OPT_MPI, NULL);
    out->is_wire_plain = options_given(o, OPT_WIRE);
}

static Status
run_in_job(Arena *a, const Options *o, const Plan *plan, RtOptions *options)
{
    RtStartConfig start;
    RtClusterSpec spec;
    take_link(o, options);
    TRY(take_start(o, &start));
    if (!rt_is_launched()) {
        TRY(check_own_uses(o, plan));
        TRY(check_wire(o, "zmq"));
    }
    if (strategy_of(plan)->servers)
        TRY(rt_find_task(a, &start, &spec, &options->task));
    else
        TRY(rt_find_job(a, &start, &spec, &options->job));
    bool is_alone = !options->task && !options->job;
    if (is_alone && !is_of_a_job(&start.resolve, &spec))
        TRY(check_uses(o, RUN_ALONE, plan));
    options->end = &job_end;
    catch_interrupts();
    return rt_run(plan, options);
}

static Status
print_info(Arena *a, const Options *o, Plan **plan)
{
    Str s = str_new(a);
    TRY(tfd_run_check_answer(o, OPT_INFO));
    TRY(plan_read(a, options_operand(o), plan));
    plan_print_info(&s, *plan);
    return file_write("-", str_text(&s), s.len);
}

static Status
print_devices(Arena *a, const Options *o)
{
    Str s = str_new(a);
    TRY(tfd_run_check_answer(o, OPT_LIST));
    rt_print_devices(a, &s);
    return file_write("-", str_text(&s), s.len);
}

/* Opened resources stay for the report; plan is NULL until it is read. */
static Status
run(Arena *a, int argc, char **argv, Plan **plan)
{
    Options *o;
    RtOptions options;
    TRY(options_parse(a, &tfd_run_options, argc, argv, &o));
    const char *answer = options_answer(o);
    if (answer)
        return file_write("-", answer, strlen(answer));
    TRY(take_limits(o));
    if (options_given(o, OPT_LIST))
        return print_devices(a, o);
    if (options_given(o, OPT_STATUS))
        return print_status(a, o);
    if (options_given(o, OPT_INFO))
        return print_info(a, o, plan);
    RtRestartPolicy policy;
    TRY(take_options(a, o, &options));
    TRY(take_restarts(o, &policy));
    if (options_given(o, OPT_RESOLVE))
        return print_resolved(a, o, plan);
    TRY(plan_read(a, options_operand(o), plan));
    if (options_given(o, OPT_LOCAL_CLUSTER) && !rt_is_launched())
        return keep_local_cluster(a, o, *plan, argc, argv);
    if (!options_given(o, OPT_PROCESSES) || rt_is_launched())
        return run_in_job(a, o, *plan, &options);
    note_launcher(a, o);
    return strategy_of(*plan)->servers
               ? launch_tasks(a, o, *plan, &policy, argc, argv)
               : launch(a, o, *plan, &policy, argc, argv);
}

int
main(int argc, char **argv)
{
    Plan *plan = NULL;
    file_prepare_process();
    Arena *a = arena_new(NULL, tfd_run_options.program);
    setvbuf(stdout, NULL, _IOLBF, 0); /* the reader of a pipe is also waiting */
    Status st = run(a, argc, argv, &plan);
    rt_server_printed();
    int exit_status = report(plan, st);
    if (rt_has_left_threads()) { /* which may still use anything */
        fflush(stdout);
        _Exit(exit_status);
    }
    status_free(st);
    arena_release(a);
    return exit_status;
}
