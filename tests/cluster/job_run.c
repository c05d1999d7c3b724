/*
 * job_run.c - runs a plan in several processes of a test
 */
#include "tests/cluster/job_run.h"

#include <sys/mman.h>
#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/cluster/group/shared.h"
#include "tests/cluster/exchange.h"

enum { MOST_MESSAGE = 4096 };

typedef struct Process {
    FILE *out, *err;
    char *message; /* shared */
} Process;

typedef struct Job {
    const Plan *plan;
    const JobRun *run;
    Process processes[FORKED_MOST];
} Job;

static FILE *
memory_file(void)
{
    int fd = memfd_create("output", 0);
    FILE *f = fdopen(fd, "w+");
    assert_non_null(f);
    return f;
}

static const char *
text_of(Arena *a, FILE *f)
{
    Str s = str_new(a);
    char block[4096];
    rewind(f);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        str_addn(&s, block, n);
    fclose(f);
    return str_text(&s);
}

static RtGroup *
shared_group(const RtExchange *exchange)
{
    RtGroup *group;
    Arena *a = arena_new(NULL, "why");
    Str why = str_new(a);
    RtSharedGroupConfig config = {
        .exchange = exchange, .timeout = 60, .clock = clock_seconds};
    Status st = rt_shared_group_open(&config, &group, &why);
    assert_null(st);
    assert_non_null(group);
    arena_release(a);
    return group;
}

static int
be_rank(void *data, Forked *f, RtGroup *group)
{
    const Job *job = data;
    const Process *own = &job->processes[group->rank];
    RtOptions options = job->run->options;
    RtExchange exchange = exchange_over(group);
    options.group = shared_group(&exchange);
    options.exchange = &exchange;
    options.devices = job->run->devices;
    options.out = own->out;
    options.err = own->err;
    (void)f;
    if (job->run->prepare)
        job->run->prepare(job->run->data, group->rank, &options);
    Status st = rt_run(job->plan, &options);
    if (st)
        snprintf(own->message, MOST_MESSAGE, "%s", status_message(st));
    options.group->ops->close(options.group);
    return rt_report(job->plan, st, "tfd-run", own->err);
}

JobEnd
run_job(Arena *a, const Plan *p, const JobRun *run)
{
    JobEnd end;
    Job job = {.plan = p, .run = run};
    Forked *f = forked_new(run->size, 0);
    char *messages =
        mmap(NULL, FORKED_MOST * MOST_MESSAGE, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int r = 0; r < run->size; r++)
        job.processes[r] = (Process){memory_file(), memory_file(),
                                     messages + r * MOST_MESSAGE};
    forked_run(f, be_rank, &job, end.exit_status);
    for (int r = 0; r < run->size; r++) {
        end.out[r] = text_of(a, job.processes[r].out);
        end.err[r] = text_of(a, job.processes[r].err);
        end.message[r] = arena_strdup(a, job.processes[r].message);
    }
    munmap(messages, FORKED_MOST * MOST_MESSAGE);
    forked_free(f);
    return end;
}

const char *
output_of(Arena *a, const Plan *p, const JobRun *run)
{
    RtOptions options = run->options;
    options.checksum = true;
    Result r = build_run(a, p, options);
    if (r.st)
        fail_msg("%s", status_message(r.st));
    return r.out;
}

void
assert_job_prints(Arena *a, const Plan *p, const JobRun *run, const char *want)
{
    JobRun with = *run;
    with.options.checksum = true;
    JobEnd end = run_job(a, p, &with);
    for (int r = 0; r < run->size; r++) {
        if (end.exit_status[r])
            fail_msg("rank %d of %d: %s", r, run->size, end.err[r]);
        assert_string_equal(end.out[r], r ? "" : want);
    }
}
