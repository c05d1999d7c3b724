/*
 * exposition.c - a job's numbers as Prometheus reads them
 *
 * Rates are not here: Prometheus computes them of counters, which begin with
 * each task.
 */
#include "runtime/metrics/exposition.h"

#include <inttypes.h>

static void
family(Str *out, const char *name, const char *type, const char *help)
{
    str_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* ---- of the job ---------------------------------------------------------- */

static void
write_job(Str *out, const RtPsStatus *s)
{
    const struct {
        const char *name, *type, *help;
        int64_t value;
    } numbers[] = {
        {"tfd_closures_scheduled_total", "counter",
         "Closures that main has scheduled.", s->scheduled},
        {"tfd_closures_ended_total", "counter", "Closures that have ended.",
         s->ended},
        {"tfd_closures_put_back_total", "counter",
         "Closures that were sent again, since their worker was lost.",
         s->put_back},
        {"tfd_closures_cancelled_total", "counter",
         "Closures that were cancelled.", s->cancelled},
        {"tfd_closures_waiting", "gauge", "Closures that no worker has.",
         s->waiting},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        family(out, numbers[i].name, numbers[i].type, numbers[i].help);
        str_addf(out, "%s %" PRId64 "\n", numbers[i].name, numbers[i].value);
    }
}

/* ---- of tasks ------------------------------------------------------------ */

typedef struct Family {
    const char *name, *type, *help;
    double (*of)(const RtPsTask *t, const RtPsLoad *l);
} Family;

static double
is_up(const RtPsTask *t, const RtPsLoad *l)
{
    (void)l;
    return *t->host && !t->is_lost;
}

static double
silent(const RtPsTask *t, const RtPsLoad *l)
{
    (void)l;
    return (double)t->silent / 1e6;
}

static double
done(const RtPsTask *t, const RtPsLoad *l)
{
    (void)l;
    return (double)t->done;
}

static double
in_flight(const RtPsTask *t, const RtPsLoad *l)
{
    (void)l;
    return (double)t->in_flight;
}

static double
busy(const RtPsTask *t, const RtPsLoad *l)
{
    (void)t;
    return (double)l->busy / 1e6;
}

#define LOAD(field)                                                            \
    static double field(const RtPsTask *t, const RtPsLoad *l)                  \
    {                                                                          \
        (void)t;                                                               \
        return (double)l->field;                                               \
    }
LOAD(closures)
LOAD(pulled)
LOAD(pushed)
LOAD(variables)
LOAD(refused)
#undef LOAD

static const Family of_workers[] = {
    {"tfd_worker_up", "gauge", "Whether the worker has joined and is heard.",
     is_up},
    {"tfd_worker_silence_seconds", "gauge", "Since the worker was heard.",
     silent},
    {"tfd_worker_closures_total", "counter",
     "Closures that the worker has executed.", done},
    {"tfd_worker_closures_in_flight", "gauge",
     "Closures that were sent to the worker and have not ended.", in_flight},
};

static const Family of_servers[] = {
    {"tfd_server_up", "gauge", "Whether the server has joined.", is_up},
    {"tfd_server_silence_seconds", "gauge", "Since the server was heard.",
     silent},
    {"tfd_server_closures_total", "counter",
     "Closures whose updates the server has applied.", closures},
    {"tfd_server_busy_seconds_total", "counter",
     "Time in which the server answered.", busy},
    {"tfd_server_variables_bytes", "gauge", "Of the variables that it has.",
     variables},
    {"tfd_server_pulled_bytes_total", "counter", "Sent to workers.", pulled},
    {"tfd_server_pushed_bytes_total", "counter", "Received from workers.",
     pushed},
    {"tfd_server_refused_pushes_total", "counter",
     "Pushes whose values were staler than --staleness allows.", refused},
};

static void
write_tasks(Str *out, const char *kind, const Family *families, size_t n,
            const RtPsTask *tasks, const RtPsLoad *loads, int64_t num)
{
    static const RtPsLoad none;
    for (size_t i = 0; i < n; i++) {
        family(out, families[i].name, families[i].type, families[i].help);
        for (int64_t k = 0; k < num; k++)
            str_addf(out, "%s{%s=\"%" PRId64 "\"} %.15g\n", families[i].name,
                     kind, k,
                     families[i].of(&tasks[k], loads ? &loads[k] : &none));
    }
}

/* ---- staleness ----------------------------------------------------------- */

/* Row r of the histogram ends with 2^r - 1. */
static void
write_staleness_of(Str *out, const RtPsLoad *l, int64_t server)
{
    int64_t count = 0;
    for (int row = 0; row < RT_PS_STALENESS_ROWS; row++) {
        count += l->staleness[row];
        str_addf(out, "tfd_server_staleness_bucket{server=\"%" PRId64 "\",le=",
                 server);
        if (row == RT_PS_STALENESS_ROWS - 1)
            str_addf(out, "\"+Inf\"} %" PRId64 "\n", count);
        else
            str_addf(out, "\"%" PRId64 "\"} %" PRId64 "\n",
                     ((int64_t)1 << row) - 1, count);
    }
    str_addf(out,
             "tfd_server_staleness_sum{server=\"%" PRId64 "\"} %" PRId64
             "\ntfd_server_staleness_count{server=\"%" PRId64 "\"} %" PRId64
             "\n",
             server, l->staleness_sum, server, count);
}

static void
write_staleness(Str *out, const RtPsStatus *s)
{
    family(out, "tfd_server_staleness", "histogram",
           "Other closures whose updates a server applied between a closure's "
           "pull and its push.");
    for (int64_t i = 0; i < s->num_servers; i++)
        write_staleness_of(out, &s->loads[i], i);
}

void
rt_metrics_write(Str *out, const RtPsStatus *s)
{
    write_job(out, s);
    write_tasks(out, "worker", of_workers,
                sizeof of_workers / sizeof *of_workers, s->workers, NULL,
                s->num_workers);
    write_tasks(out, "server", of_servers,
                sizeof of_servers / sizeof *of_servers, s->servers, s->loads,
                s->num_servers);
    write_staleness(out, s);
}
