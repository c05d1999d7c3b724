/*
 * tfd_run_uses.c - in which runs an option of tfd-run has an effect
 *
 * Who gives --key to a process that joins nobody believes that it is protected,
 * and who gives --staleness to a mirrored plan that it waits: an option that
 * cannot have an effect is an error.  One that has none in some processes of a
 * job that has it (all may be started by the same line) is none.  Options
 * without a row have an effect in every run.  Beside --resolve those of the
 * run may stand whose process it tells.
 */
#include "runtime/tfd_run_uses.h"

#include "ir/base/message.h"
#include "runtime/tfd_run_options.h"

enum {
    ALONE = 1 << RUN_ALONE,
    EQUAL = 1 << RUN_EQUAL,
    TASK = 1 << RUN_TASK,
    N_EQUAL = 1 << RUN_N_EQUAL,
    N_TASKS = 1 << RUN_N_TASKS,
    LOCAL_CLUSTER = 1 << RUN_LOCAL_CLUSTER,
    STARTED = EQUAL | TASK, /* by whoever gives the options */
    OF_TASKS = TASK | N_TASKS,
    OF_EQUAL = EQUAL | N_EQUAL,
    HAS_MAIN = ALONE | OF_EQUAL | OF_TASKS, /* here or elsewhere */
};

typedef struct OptionUse {
    int option;
    unsigned in;       /* where it has an effect */
    const char *tasks; /* of what OF_EQUAL has: why tasks have no use for it */
} OptionUse;

static const char zmq_alone[] = MESSAGE("tasks send over zmq");

/* In the order of the help: the first one is reported. */
static const OptionUse uses[] = {
    {OPT_SET, HAS_MAIN, NULL},
    {OPT_LOG_DIR, HAS_MAIN, NULL},
    {OPT_SEED, HAS_MAIN, NULL},
    {OPT_CHECKPOINT, HAS_MAIN, NULL},
    {OPT_EVERY, HAS_MAIN, NULL},
    {OPT_RESUME, HAS_MAIN, NULL},
    {OPT_STATS, HAS_MAIN, NULL},
    {OPT_CHECKSUM, HAS_MAIN, NULL},
    {OPT_PROCESSES, STARTED | N_EQUAL | N_TASKS, NULL},
    {OPT_MIN_PROCESSES, N_EQUAL,
     MESSAGE(
         "of strategy parameter_server a job goes on with whichever workers "
         "there are")},
    {OPT_RANK, STARTED, NULL},
    {OPT_SIZE, STARTED, NULL},
    {OPT_JOIN, STARTED | LOCAL_CLUSTER, NULL},
    {OPT_CLUSTER, STARTED, NULL},
    {OPT_TASK, STARTED, NULL},
    {OPT_SERVE, TASK, NULL},
    {OPT_COORDINATE, TASK, NULL},
    {OPT_TASKS, TASK, NULL},
    {OPT_LISTEN, TASK, NULL},
    {OPT_KEY, STARTED | N_TASKS | LOCAL_CLUSTER, NULL},
    {OPT_LINK, OF_EQUAL, zmq_alone},
    {OPT_MPI, EQUAL, zmq_alone},
    {OPT_WIRE, OF_EQUAL, MESSAGE("tasks that have a key encrypt")},
    {OPT_SILENCE, OF_EQUAL | OF_TASKS | LOCAL_CLUSTER, NULL},
    {OPT_STALENESS, OF_TASKS, NULL},
    {OPT_ATOMIC, OF_TASKS, NULL},
    {OPT_SYNC, OF_TASKS, NULL},
    {OPT_DIAGNOSE, OF_EQUAL,
     MESSAGE("tasks execute no collectives; --status says what they do")},
    {OPT_PREFLIGHT, ALONE | OF_EQUAL,
     MESSAGE("of strategy parameter_server tasks say what is wrong as they "
             "join")},
    {OPT_METRICS, OF_TASKS, NULL},
    {OPT_PLACEMENT, OF_TASKS, NULL},
};

/* ---- answers instead of a run ------------------------------------------- */

enum { NO_OPTION = -1 };

/* What has an effect beside it: one option or none, and whether the plan has.
 */
typedef struct Answer {
    int option, beside;
    bool has_plan;
} Answer;

static const Answer answers[] = {
    {OPT_INFO, OPT_LIMIT, true},
    {OPT_LIST, NO_OPTION, false},
    {OPT_STATUS, OPT_KEY, false},
};

static Status
no_effect_beside(const char *what, const char *answer)
{
    return status_new(STATUS_USAGE,
                      "%s has no effect beside --%s, which runs nothing: leave "
                      "one of them out",
                      what, answer);
}

Status
tfd_run_check_answer(const Options *o, int answer)
{
    const OptionRow *rows = tfd_run_options.rows;
    const Answer *is = answers;
    while (is->option != answer)
        is++;
    for (int i = 0; i < NUM_OPTS; i++) {
        if (!options_given(o, i) || i == answer || i == is->beside)
            continue;
        return no_effect_beside(options_spelling(o, i), rows[answer].name);
    }
    return options_operand(o) && !is->has_plan
               ? no_effect_beside(options_operand(o), rows[answer].name)
               : OK;
}

/* ---- runs --------------------------------------------------------------- */

static Status
no_effect_alone(const char *name, const IrStrategyInfo *strategy)
{
    return status_new(STATUS_USAGE,
                      "--%s has no effect here: nothing says that this process "
                      "is one of a job, so it runs the plan alone; leave it "
                      "out, or start a job: -n %s does it on this machine",
                      name, strategy->servers ? "workers=3,ps=2" : "N");
}

static Status
no_effect(const OptionUse *use, RunKind kind, const IrStrategyInfo *strategy)
{
    const char *name = tfd_run_options.rows[use->option].name;
    if (!strategy->servers && !(use->in & OF_EQUAL))
        return status_new(STATUS_USAGE,
                          "--%s is for plans of strategy parameter_server, and "
                          "this one's is %s",
                          name, strategy->name);
    if (kind == RUN_ALONE)
        return no_effect_alone(name, strategy);
    if (strategy->servers && !(use->in & (OF_TASKS | LOCAL_CLUSTER)))
        return status_new(STATUS_USAGE,
                          "--%s is for jobs of equal processes, and this "
                          "plan's are tasks: %s",
                          name, message_part(use->tasks));
    if (kind == RUN_LOCAL_CLUSTER)
        return status_new(STATUS_USAGE,
                          "--local-cluster and --%s contradict each other: a "
                          "coordinator is started by itself",
                          name);
    return status_new(STATUS_USAGE,
                      "--%s is for a process that is started alone, and -n "
                      "starts all of them",
                      name);
}

Status
tfd_run_check_uses(const Options *o, RunKind kind,
                   const IrStrategyInfo *strategy)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (options_given(o, uses[i].option) && !(uses[i].in & 1u << kind))
            return no_effect(&uses[i], kind, strategy);
    return OK;
}
