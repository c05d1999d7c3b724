/*
 * orders_test.c - programs in many orders of their devices' work
 *
 * Each is run on CPU devices, and then on sandbox devices with many seeds: to
 * the same output, checksum and failure.
 */
#include "tests/devices/runs.h"

#include <fcntl.h>
#include "tests/unit/work_dir.h"

enum { NUM_SEEDS = 20 };

/* Batches that are copied ahead, several collectives at the same time, prints,
 * host operands, a variable that is fetched. */
static const char steps[] =
    "symbols b <= 6 alone, n <= 3, N <= 6\n"
    "param @step: i64 = 3\n"
    "var @seen: i64 sync(on_read) aggregate(sum) init @seen.init at 1:1+4\n"
    "dataset @d {\n"
    "  range start=0 stop=40 : i64\n"
    "  batch size=6 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @seen.init() init {\n"
    "  %0: i64 = constant {dims=[] dtype=i64 data=[0]}\n"
    "  return %0\n"
    "}\n"
    "func @main() main {\n"
    "  %p: i64 = param {param=@step}\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n"
    "    run {\n"
    "      %1: i64 per_replica = sum %x {axes=[0]}\n"
    "      %2: i64 mirrored = all_reduce %1 {op=sum}\n"
    "      %3: i64 mirrored = all_reduce %1 {op=max}\n"
    "      %4: i64[N] mirrored = all_gather %x {axis=0}\n"
    "      %5: i64 per_replica = row_start {dims=[n]}\n"
    "      %6: i64 per_replica = mul %1, %p\n"
    "      write %6 {var=@seen mode=add}\n"
    "      print %5, %x {format=\"from {}: {}\" each=true}\n"
    "      print %2, %3, %4 {format=\"sum {}, most {} of {}\"}\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  %7: i64 = read {var=@seen}\n"
    "  print %7 {format=\"seen {}\"}\n"
    "  return\n"
    "}\n";

/* Sums whose devices work in one phase, and in two. */
static const char sums[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %zero: i32 mirrored = constant {dims=[] dtype=i32 data=[0]}\n"
    "    %some: i32[3000] mirrored = broadcast %zero {dims=[3000]}\n"
    "    %x: i32[3000] per_replica = add %some, %id\n"
    "    %one: i32 per_replica = add %id, %id\n"
    "    %all: i32[3000] mirrored = all_reduce %x {op=sum}\n"
    "    %most: i32 mirrored = all_reduce %one {op=max}\n"
    "    %again: i32[3000] mirrored = add %all, %most\n"
    "    %mine: i32[3000] per_replica = add %again, %id\n"
    "    %last: i32[3000] mirrored = all_reduce %mine {op=sum}\n"
    "    %n: i32 mirrored = sum %last {axes=[0]}\n"
    "    print %n {format=\"sum {}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

/* Main leaves a loop while the next batch is on its way, and begins again; it
 * takes batches that no program computes with. */
static const char leaves[] =
    "symbols b <= 64 alone, n <= 32, N <= 64\n"
    "dataset @d {\n"
    "  range start=0 stop=4000 : i64\n"
    "  batch size=64 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @main() main {\n"
    "  %zero: i64 = constant {dims=[] dtype=i64 data=[0]}\n"
    "  %one: i64 = constant {dims=[] dtype=i64 data=[1]}\n"
    "  %three: i64 = constant {dims=[] dtype=i64 data=[3]}\n"
    "  %five: i64 = constant {dims=[] dtype=i64 data=[5]}\n"
    "  %end: i64 = while %zero (%k: i64) {\n"
    "    %more: bool = lt %k, %five\n"
    "    yield %more\n"
    "  } (%j: i64) {\n"
    "    iter_open {iter=@it}\n"
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n"
    "    %few: bool = lt %j, %three\n"
    "    if %few {\n"
    "      run {\n"
    "        %1: i64 per_replica = sum %x {axes=[0]}\n"
    "        %2: i64 mirrored = all_reduce %1 {op=sum}\n"
    "        print %2 {format=\"{}\"}\n"
    "        yield\n"
    "      }\n"
    "      yield\n"
    "    } {\n"
    "      yield\n"
    "    }\n"
    "    %y: i64[n] per_replica = iter_next {iter=@it}\n"
    "    %z: i64[n] per_replica = iter_next {iter=@it}\n"
    "    %next: i64 = add %j, %one\n"
    "    yield %next\n"
    "  }\n"
    "  return\n"
    "}\n";

/* All replicas fail while a collective of theirs may be under way. */
static const char failing[] =
    "func @main() main {\n"
    "  run {\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %zero: i32 mirrored = constant {dims=[] dtype=i32 data=[0]}\n"
    "    %some: i32[3000] mirrored = broadcast %zero {dims=[3000]}\n"
    "    %x: i32[3000] per_replica = add %some, %id\n"
    "    %all: i32[6000] mirrored = all_gather %x {axis=0}\n"
    "    %ok: bool per_replica = ne %id, %id\n"
    "    assert %ok {format=\"never\"} at 1:1+4\n"
    "    %sum: i32 mirrored = sum %all {axes=[0]}\n"
    "    print %sum {format=\"sum {}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static const char *
substitute(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    return arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to,
                        at + strlen(from));
}

static Result
run_on(const Plan *p, const char *devices, const char *options)
{
    setenv("TFD_SANDBOX", options, 1);
    Result r = build_run(arena, p,
                         (RtOptions){.devices = devices,
                                     .checksum = true,
                                     .pipeline_threads = true});
    unsetenv("TFD_SANDBOX");
    return r;
}

static const char *
failure(const Result *r)
{
    return r->st ? status_message(r->st) : "";
}

typedef struct Way {
    const char *devices, *options;
} Way;

static const Way ways[] = {
    {"sandbox:0-1", "seed:%d"},
    {"sandbox:0", "seed:%d"},
    {"sandbox:0-1", "one-queue,seed:%d"},
};

static void
check_plan(const Plan *p, const char *fails)
{
    Result want = run_on(p, "cpu:0-1", "");
    assert_string_equal(failure(&want), fails);
    for (int seed = 0; seed < NUM_SEEDS; seed++) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *options = substitute(ways[i].options, "%d",
                                             arena_printf(arena, "%d", seed));
            Result r = run_on(p, ways[i].devices, options);
            if (strcmp(failure(&r), fails) || strcmp(r.out, want.out))
                fail_msg("%s on %s: %s\n%s", options, ways[i].devices,
                         failure(&r), r.out);
            status_free(r.st);
        }
    }
    status_free(want.st);
}

static void
check_orders(const char *text, const char *fails)
{
    check_plan(build_plan(arena, program(2, text)), fails);
}

static void
results_do_not_depend_on_it(void **state)
{
    (void)state;
    check_orders(steps, "");
}

static void
algorithms_do_not_depend_on_it(void **state)
{
    static const char *const algorithms[] = {
        "", " algorithm hierarchical_copy packs 2",
        " algorithm reduction_to_one packs 0"};
    (void)state;
    for (int i = 0; i < 3; i++)
        check_plan(
            build_plan(arena, substitute(program(2, sums), " replicas 2",
                                         arena_printf(arena, " replicas 2%s",
                                                      algorithms[i]))),
            "");
}

static void
batches_that_nobody_takes_do_no_harm(void **state)
{
    (void)state;
    check_orders(leaves, "");
}

static atomic_bool interrupted;

static void
interrupt_third(void *data, int64_t step)
{
    (void)data;
    atomic_store(&interrupted, step == 3);
}

/* A run that is interrupted after its third step, or the rest of it. */
static const char *
run_part(const Plan *p, const Way *way, int seed, const char *dir, bool rest)
{
    RtOptions options = {.devices = way->devices,
                         .checkpoint_dir = dir,
                         .every = 2,
                         .resume = rest,
                         .quiet = true,
                         .interrupted = &interrupted,
                         .on_step = rest ? NULL : interrupt_third,
                         .checksum = true,
                         .pipeline_threads = true};
    atomic_store(&interrupted, false);
    setenv("TFD_SANDBOX",
           substitute(way->options, "%d", arena_printf(arena, "%d", seed)), 1);
    Result r = build_run(arena, p, options);
    unsetenv("TFD_SANDBOX");
    StatusKind end = r.st ? status_kind(r.st) : 0;
    if (end != (rest ? 0 : STATUS_STOPPED))
        fail_msg("seed %d on %s: %s", seed, way->devices, failure(&r));
    status_free(r.st);
    return r.out;
}

static void
a_resumed_run_goes_on_to_the_same(void **state)
{
    Plan *p = build_plan(arena, program(2, steps));
    Result want = run_on(p, "cpu:0-1", "");
    (void)state;
    for (int seed = 0; seed < NUM_SEEDS; seed++) {
        const Way *way = &ways[seed % 3];
        const char *dir = work_dir(arena);
        const char *first = run_part(p, way, seed, dir, false);
        const char *rest = run_part(p, &ways[0], seed + 1, dir, true);
        assert_string_equal(arena_printf(arena, "%s%s", first, rest), want.out);
    }
}

enum { LAST_STEP = 7 };

static void
remove_at_last(void *data, int64_t step)
{
    if (step == LAST_STEP)
        assert_int_equal(system(arena_printf(arena, "rm -r %s", (char *)data)),
                         0);
}

/* Nobody waits for a checkpoint after the last one, but the end of the run. */
static void
a_last_checkpoint_that_fails_is_told(void **state)
{
    char *dir = arena_strdup(arena, work_dir(arena));
    (void)state;
    assert_fails(program(2, steps),
                 (RtOptions){.checkpoint_dir = dir,
                             .every = LAST_STEP,
                             .on_step = remove_at_last,
                             .on_step_data = dir},
                 STATUS_INPUT, dir);
}

/* The trace of a run. */
static const char *
turns(const Plan *p, int seed)
{
    int usual = dup(2), to = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    fflush(stderr);
    dup2(to, 2);
    Result r = run_on(p, "sandbox:0-1",
                      arena_printf(arena, "repeat,seed:%d,trace", seed));
    fflush(stderr);
    dup2(usual, 2);
    close(usual);
    assert_null(r.st);
    size_t n = (size_t)lseek(to, 0, SEEK_END);
    char *text = arena_alloc(arena, n + 1);
    assert_int_equal(pread(to, text, n, 0), n);
    close(to);
    return text;
}

static void
a_seed_repeats_its_order(void **state)
{
    Plan *p = build_plan(arena, program(2, steps));
    (void)state;
    for (int seed = 0; seed < 4; seed++) {
        const char *first = turns(p, seed);
        assert_non_null(strstr(first, "sandbox: turn 100: "));
        assert_string_equal(turns(p, seed), first);
    }
}

/* A task of a collective writes to the memory of a device: it has ended when
 * the device is closed. */
static void
a_failure_leaves_nothing_under_way(void **state)
{
    (void)state;
    check_orders(failing, "never");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_it),
        cmocka_unit_test(algorithms_do_not_depend_on_it),
        cmocka_unit_test(batches_that_nobody_takes_do_no_harm),
        cmocka_unit_test(a_resumed_run_goes_on_to_the_same),
        cmocka_unit_test(a_last_checkpoint_that_fails_is_told),
        cmocka_unit_test(a_seed_repeats_its_order),
        cmocka_unit_test(a_failure_leaves_nothing_under_way),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
