/*
 * job_test.c - plans that run in several processes
 *
 * Everything that a process of a job does, without a network: processes by
 * fork, a group and a communicator over memory that they share.  What one
 * process prints, so do several, to the byte, with the checksum of all
 * variables.
 */
#include "tests/cluster/job_run.h"

#include "tests/unit/arena.h"

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
    "  repeat count=3 : f32, i64\n"
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

static const char *
on_four(const char *body)
{
    return build_program(arena, REPLICAS, body);
}

static const JobRun jobs[] = {
    {.size = 2},
    {.size = 4},
    {.size = 1},
    {.size = 2, .devices = "cpu:0"},
};

static void
any_number_of_processes_prints_the_same(void **state)
{
    (void)state;
    const Plan *p = build_plan(arena, on_four(training));
    for (int threads = 0; threads < 2; threads++)
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
            JobRun job = jobs[i];
            job.options.pipeline_threads = threads;
            assert_job_prints(arena, p, &job, output_of(arena, p, &job));
        }
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, new_arena, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_processes_prints_the_same),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
