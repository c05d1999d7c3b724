/*
 * job_test.c - plans that run in several processes
 *
 * Everything that a process of a job does, without a network: processes by
 * fork, a group and a communicator over memory that they share.  What one
 * process prints, so do several, to the byte, with the checksum of all
 * variables.
 */
#include "tests/cluster/job_run.h"

#include <sys/stat.h>
#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"
#include "tests/unit/work_dir.h"

enum { REPLICAS = 4 };

/* Batches whose last is ragged and leaves replicas without rows, variables of
 * each kind, values that main takes from one replica, prints by replicas. */
static const char training[] =
    "symbols b <= 7 alone, n <= 2, N <= 7\n"
    "param @lr: f32 = 0.5\n"
    "var @w: f32[30] sync(on_write) aggregate(none) init @w.init at 1:1+1\n"
    "var @seen: i64 sync(on_read) aggregate(sum) init @seen.init at 1:1+4\n"
    "dataset @d {\n"
    "  range start=0 stop=10 : i64\n"
    "  map @d.half : f32, i64\n"
    "  shuffle buffer=5 seed=1 reshuffle=1 has_seed=1 : f32, i64\n"
    "  repeat count=12 : f32, i64\n"
    "  batch size=7 drop_remainder=0 : f32[b], i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @w.init() init {\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[0.0]}\n"
    "  %1: f32[30] = broadcast %0 {dims=[30]}\n"
    "  return %1\n"
    "}\n"
    "func @seen.init() init {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[0]}\n"
    "  return %0\n"
    "}\n"
    "func @d.half(%i: i64) host {\n"
    "  %0: f32 = cast %i {dtype=f32}\n"
    "  %1: f32 = mul %0, %0\n"
    "  return %1, %i\n"
    "}\n"
    "func @main() main {\n"
    "  %zero: f32 = constant {dims=[] dtype=f32 data=[0.0]}\n"
    "  iter_open {iter=@it}\n"
    "  %total: f32 = while %zero (%t: f32) {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } (%t.1: f32) {\n"
    "    %x: f32[n] per_replica, %i: i64[n] per_replica = iter_next "
    "{iter=@it}\n"
    "    %loss: f32 per_replica = run {\n"
    "      %lr: f32 mirrored = param {param=@lr}\n"
    "      %1: f32 per_replica = sum %x {axes=[0]}\n"
    "      %n: i64 per_replica = dim_size {dims=[n]}\n"
    "      write %n {var=@seen mode=add}\n"
    "      %w: f32[30] mirrored = read {var=@w}\n"
    "      %2: f32[30] per_replica = mul %w, %1\n"
    "      %9: f32[30] per_replica = add %2, %1\n"
    "      %3: f32[30] mirrored = all_reduce %9 {op=sum}\n"
    "      %4: f32 mirrored = all_reduce %1 {op=max}\n"
    "      %5: f32[30] mirrored = mul %3, %lr\n"
    "      write %5 {var=@w mode=sub}\n"
    "      print %i, %4 {format=\"{} {:.3f}\" each=true}\n"
    "      print %4 {format=\"most {}\"}\n"
    "      yield %1\n"
    "    }\n"
    "    %6: f32 = reduce %loss {op=sum}\n"
    "    %7: f32 = add %t.1, %6\n"
    "    print %7 {format=\"total {}\"}\n"
    "    yield %7\n"
    "  }\n"
    "  return\n"
    "}\n";

/* A plan for four replicas with so many input workers. */
static const Plan *
plan_of(int workers, const char *body)
{
    int each = REPLICAS / workers;
    return build_plan(
        arena, workers == 1 ? build_program(arena, REPLICAS, body)
                            : build_worker_program(arena, workers, each, body));
}

/* ---- the same output ----------------------------------------------------- */

static const JobRun jobs[] = {
    {.size = 1},
    {.size = 2},
    {.size = 4},
    {.size = 2, .devices = "cpu:0"},
};

static void
any_number_of_processes_prints_the_same(void **state)
{
    (void)state;
    for (int workers = 1; workers <= REPLICAS; workers *= 2) {
        const Plan *p = plan_of(workers, training);
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
            JobRun job = jobs[i];
            const char *want = output_of(arena, p, &job);
            assert_job_prints(arena, p, &job, want);
            job.options.pipeline_threads = true;
            assert_job_prints(arena, p, &job, want);
        }
    }
}

static void
statistics_say_what_joins_processes(void **state)
{
    JobRun job = {.size = 2, .options = {.stats = true}};
    (void)state;
    JobEnd end = run_job(arena, plan_of(1, training), &job);
    assert_int_equal(end.exit_status[0], 0);
    if (!strstr(end.err[0],
                " MB from 4 replicas, by shm between 2 processes\n"))
        fail_msg("not said: %s", end.err[0]);
}

static void
expect_refusal(const Plan *p, JobRun job, const char *message)
{
    JobEnd end = run_job(arena, p, &job);
    for (int r = 0; r < job.size; r++) {
        assert_int_equal(end.exit_status[r], STATUS_USAGE);
        assert_string_equal(end.message[r], message);
    }
}

static void
processes_and_devices_divide_the_replicas(void **state)
{
    (void)state;
    const Plan *p = plan_of(1, training);
    expect_refusal(p, (JobRun){.size = 3},
                   "the plan's 4 replicas cannot be divided among 3 processes "
                   "evenly: start 1, 2 or 4");
    expect_refusal(
        p, (JobRun){.size = 2, .devices = "cpu:0-3"},
        "--devices cpu:0-3 are 4, and the 2 replicas of each process "
        "cannot be divided among them evenly: take 1 or 2");
    expect_refusal(
        p, (JobRun){.size = 2, .options = {.compare = true}},
        "--compare needs all replicas in one process: run it without "
        "others");
}

static void
a_process_has_not_any_number_of_replicas(void **state)
{
    (void)state;
    const Plan *p = build_plan(
        arena, build_worker_program(arena, 4, 1024,
                                    "func @main() main {\n  return\n}\n"));
    expect_refusal(p, (JobRun){.size = 2},
                   "2048 replicas are more than a process of a job has: run "
                   "them in more processes");
}

static void
take_more_devices(void *data, int rank, RtOptions *options)
{
    (void)data;
    options->devices = rank == 1 ? "cpu:0-1" : "cpu:0";
}

static void
processes_have_equally_many_devices(void **state)
{
    (void)state;
    expect_refusal(plan_of(1, training),
                   (JobRun){.size = 2, .prepare = take_more_devices},
                   "rank 1 has 2 devices, and rank 0 1: all processes of a job "
                   "have equally many");
}

/* ---- checkpoints --------------------------------------------------------- */

/* The state in a file, without the clock in it. */
static const char *
state_of(const char *folder, int step, size_t *len)
{
    enum { SEED = 8, LR = 4, EVENTS = 16, STEPS = 16 };
    size_t n;
    char *bytes;
    RtCheckpoint c;
    const char *path = arena_printf(arena, "%s/step-%d.ckpt", folder, step);
    assert_null(file_read(arena, path, &bytes, &n));
    assert_null(rt_checkpoint_parse(arena, path, bytes, n, &c));
    memset((char *)c.state + SEED + LR + EVENTS + STEPS, 0, sizeof(double));
    *len = c.len;
    return c.state;
}

static void
assert_same_states(const char *one, const char *other, int step)
{
    size_t n, m;
    const char *a = state_of(one, step, &n), *b = state_of(other, step, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
}

/* What job prints with checkpoints in the folder. */
static void
keep_checkpoints(const Plan *p, JobRun *job, const char *folder)
{
    job->options.checkpoint_dir = folder;
    job->options.every = 2;
    job->options.checksum = true;
    JobEnd end = run_job(arena, p, job);
    for (int r = 0; r < job->size; r++)
        if (end.exit_status[r])
            fail_msg("rank %d: %s", r, end.err[r]);
}

static void
checkpoints_are_those_of_one_process(void **state)
{
    (void)state;
    for (int workers = 1; workers <= REPLICAS; workers *= 2) {
        const Plan *p = plan_of(workers, training);
        const char *one = work_dir(arena);
        keep_checkpoints(p, &(JobRun){.size = 1}, one);
        for (int size = 2; size <= REPLICAS; size *= 2) {
            const char *several = work_dir(arena);
            keep_checkpoints(p, &(JobRun){.size = size}, several);
            assert_same_states(one, several, 16);
            assert_same_states(one, several, 18);
        }
    }
}

/* ---- interrupts ---------------------------------------------------------- */

/* Where a process interrupts itself. */
typedef struct Interrupt {
    int rank;
    int64_t step;
} Interrupt;

static atomic_bool interrupted; /* each process has its own */

static void
interrupt_at(void *data, int64_t step)
{
    if (step >= ((const Interrupt *)data)->step)
        atomic_store(&interrupted, true);
}

static void
interrupt_own_rank(void *data, int rank, RtOptions *options)
{
    const Interrupt *i = data;
    options->interrupted = &interrupted;
    if (rank != i->rank || !i->step)
        return;
    options->on_step = interrupt_at;
    options->on_step_data = data;
}

/* One attempt of a run: so many processes, one of which is interrupted. */
typedef struct Attempt {
    int size;
    Interrupt interrupt;
} Attempt;

/* What the chief printed until then. */
static const char *
continue_run(const Plan *p, const char *folder, const Attempt *attempt)
{
    bool ends = attempt->interrupt.step == 0;
    JobRun job = {.size = attempt->size,
                  .options = {.checkpoint_dir = folder,
                              .every = 100,
                              .resume = true,
                              .quiet = true,
                              .checksum = true,
                              .pipeline_threads = true},
                  .prepare = interrupt_own_rank,
                  .data = (void *)&attempt->interrupt};
    JobEnd end = run_job(arena, p, &job);
    for (int r = 0; r < job.size; r++) {
        if (end.exit_status[r] != (ends ? 0 : 130))
            fail_msg("rank %d of %d: %s", r, job.size, end.err[r]);
        assert_string_equal(end.message[r], end.message[0]);
    }
    if (!ends)
        assert_non_null(strstr(end.message[0], "steps; --resume goes on"));
    return end.out[0];
}

static void
runs_move_between_numbers_of_processes(void **state)
{
    (void)state;
    const Attempt attempts[] = {
        {4, {2, 1}}, {2, {1, 3}}, {1, {0, 5}}, {4, {0, 7}}, {2, {0, 0}}};
    for (int workers = 1; workers <= REPLICAS; workers *= 2) {
        Str all = str_new(arena);
        const Plan *p = plan_of(workers, training);
        const char *folder = work_dir(arena);
        for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
            str_add(&all, continue_run(p, folder, &attempts[i]));
        assert_string_equal(str_text(&all),
                            output_of(arena, p, &(JobRun){.size = 1}));
    }
}

/* Without checkpoints, too, all end after the same step. */
static void
an_interrupt_ends_all_processes(void **state)
{
    (void)state;
    Interrupt i = {1, 2};
    const Plan *p = plan_of(1, training);
    JobRun job = {.size = 2, .prepare = interrupt_own_rank, .data = &i};
    JobEnd end = run_job(arena, p, &job);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(end.exit_status[r], 130);
        assert_string_equal(end.message[r], end.message[0]);
    }
}

/* ---- faults -------------------------------------------------------------- */

/* In the second step, on replica 2. */
static const char asserting[] =
    "symbols b <= 4 alone, n <= 1, N <= 4\n"
    "dataset @d {\n"
    "  range start=0 stop=16 : i64\n"
    "  batch size=4 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @main() main {\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n"
    "    run {\n"
    "      %1: i64 per_replica = sum %x {axes=[0]}\n"
    "      print %1 {format=\"has {}\" each=true}\n"
    "      %six: i64 mirrored = constant {dims=[] dtype=i64 data=[6]}\n"
    "      %2: bool per_replica = ne %1, %six\n"
    "      assert %2, %1 {format=\"it is {}\"}\n"
    "      %3: i64 mirrored = all_reduce %1 {op=sum}\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static void
a_failed_assert_ends_all_processes(void **state)
{
    (void)state;
    Result one = build_run(arena, plan_of(1, asserting), (RtOptions){0});
    const Plan *p = plan_of(1, asserting); /* without that one's message */
    assert_status(one.st, STATUS_INPUT, "it is 6");
    for (int size = 2; size <= REPLICAS; size *= 2) {
        JobEnd end = run_job(arena, p, &(JobRun){.size = size});
        int failing = size / 2;
        assert_string_equal(end.out[0], one.out);
        for (int r = 0; r < size; r++)
            assert_int_equal(end.exit_status[r],
                             r == failing ? STATUS_INPUT : 130);
        assert_string_equal(end.message[failing], "it is 6");
        assert_non_null(
            strstr(end.err[failing],
                   arena_printf(arena, "on replica 2, device cpu:2 of rank %d",
                                failing)));
    }
}

static void
give_other_params(void *data, int rank, RtOptions *options)
{
    if (rank == 1) {
        options->sets = data;
        options->num_sets = 1;
    }
}

/* Main does in the second process what it does not in the first. */
static const char diverging[] =
    "symbols b <= 4 alone, n <= 2, N <= 4\n"
    "param @more: bool = false\n"
    "dataset @d {\n"
    "  range start=0 stop=16 : i64\n"
    "  batch size=4 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @main() main {\n"
    "  %more: bool = param {param=@more}\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n"
    "    if %more {\n"
    "      print {format=\"more\"}\n"
    "      yield\n"
    "    } {\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static void
mains_that_part_are_noticed(void **state)
{
    (void)state;
    RtSet set = {"more", "true"};
    JobRun job = {.size = 2, .prepare = give_other_params, .data = &set};
    const Plan *p = build_plan(arena, build_program(arena, 2, diverging));
    JobEnd end = run_job(arena, p, &job);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(end.exit_status[r], STATUS_INPUT);
        assert_non_null(strstr(end.message[r], "before step 3 of \"d\" main "));
    }
}

/* ---- files --------------------------------------------------------------- */

static void
go_elsewhere(void *data, int rank, RtOptions *options)
{
    const char *const *dirs = data;
    options->data_dir = dirs[rank];
    assert_int_equal(chdir(dirs[rank]), 0);
}

/* Joins no job, and notes how. */
typedef struct Refusal {
    RtRendezvous base;
    double timeout, patience;
} Refusal;

static Status
refuse(RtRendezvous *r, const RtJobConfig *config, Arena *a,
       RtJobOptions *options)
{
    Refusal *own = (Refusal *)r;
    (void)a;
    (void)options;
    own->timeout = config->timeout;
    own->patience = config->patience;
    return status_new(STATUS_MACHINE, "no job");
}

static void
leave(RtRendezvous *r, bool failed, bool speaks)
{
    (void)r;
    (void)failed;
    (void)speaks;
}

static const char patient[] = "func @main() main {\n"
                              "  run {\n"
                              "    %0: i32 per_replica = replica_id\n"
                              "    %1: i32 mirrored = all_reduce %0 {op=sum "
                              "timeout_ms=1000000}\n"
                              "    %2: i32 mirrored = all_reduce %0 {op=max "
                              "timeout_ms=5000}\n"
                              "    print %1, %2 {format=\"{} {}\"}\n"
                              "    yield\n"
                              "  }\n"
                              "  return\n"
                              "}\n";

/* The job waits for a process as long as its replicas do. */
static void
the_job_is_as_patient_as_its_collectives(void **state)
{
    static const struct {
        double option, timeout, patience;
    } cases[] = {{0, 300, 1000}, {400, 400, 5}, {2000, 2000, 1000}};
    static const RtRendezvousOps ops = {.meet = refuse, .leave = leave};
    (void)state;
    const Plan *p = build_plan(arena, build_program(arena, 2, patient));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Refusal r = {.base = {&ops}};
        RtJobOptions job = {.size = 2, .rendezvous = &r.base};
        RtJobEnd end;
        Result got = build_run(
            arena, p,
            (RtOptions){.timeout = cases[i].option, .job = &job, .end = &end});
        assert_status(got.st, STATUS_MACHINE, "no job");
        assert_true(r.timeout == cases[i].timeout);
        assert_true(r.patience == cases[i].patience);
    }
}

static const char saving[] =
    "var @w: i64 sync(on_write) aggregate(none) init @w.init at 1:1+1\n"
    "func @w.init() init {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[5]}\n"
    "  return %0\n"
    "}\n"
    "func @main() main {\n"
    "  %0: i64 = read {var=@w}\n"
    "  save %0 {vars=[@w] format=\"kept\"}\n"
    "  %two: i64 = constant {dims=[] dtype=i64 data=[2]}\n"
    "  write %two {var=@w mode=set}\n"
    "  %1: i64 = restore {vars=[@w] strict=true format=\"kept\"}\n"
    "  write %1 {var=@w mode=set}\n"
    "  %2: i64 = read {var=@w}\n"
    "  print %2 {format=\"{}\"}\n"
    "  return\n"
    "}\n";

static void
the_chief_alone_has_files(void **state)
{
    (void)state;
    struct stat st;
    const char *dirs[] = {work_dir(arena), work_dir(arena)};
    JobRun job = {.size = 2, .prepare = go_elsewhere, .data = dirs};
    const Plan *p = build_plan(arena, build_program(arena, 2, saving));
    JobEnd end = run_job(arena, p, &job);
    assert_string_equal(end.err[0], "");
    assert_string_equal(end.err[1], "");
    assert_string_equal(end.out[0], "5\n");
    assert_int_equal(stat(arena_printf(arena, "%s/kept", dirs[0]), &st), 0);
    assert_int_not_equal(stat(arena_printf(arena, "%s/kept", dirs[1]), &st), 0);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_processes_prints_the_same),
        TEST(statistics_say_what_joins_processes),
        TEST(processes_and_devices_divide_the_replicas),
        TEST(a_process_has_not_any_number_of_replicas),
        TEST(processes_have_equally_many_devices),
        TEST(checkpoints_are_those_of_one_process),
        TEST(runs_move_between_numbers_of_processes),
        TEST(an_interrupt_ends_all_processes),
        TEST(a_failed_assert_ends_all_processes),
        TEST(mains_that_part_are_noticed),
        TEST(the_chief_alone_has_files),
        TEST(the_job_is_as_patient_as_its_collectives),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
