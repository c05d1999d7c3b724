/*
 * alloc_test.c - no allocation on the path of a step
 *
 * The linker hands every call of malloc and its like, from any of our code and
 * any thread, to the functions below; they count from the 10th step to the
 * 20th.
 */
#include "tests/unit/unit.h"

#include <stdatomic.h>
#include "runtime/cluster/zmq/zmq.h"
#include "runtime/link/join/join.h"
#include "tests/cluster/exchange.h"
#include "tests/cluster/forked.h"
#include "tests/devices/build.h"

static atomic_bool is_counting;
static atomic_int num_allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static void
count(void)
{
    if (atomic_load(&is_counting))
        atomic_fetch_add(&num_allocations, 1);
}

void *
__wrap_malloc(size_t n)
{
    count();
    return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    count();
    return __real_calloc(n, size);
}

void *
__wrap_realloc(void *old, size_t n)
{
    count();
    return __real_realloc(old, n);
}

void *
__wrap_aligned_alloc(size_t align, size_t n)
{
    count();
    return __real_aligned_alloc(align, n);
}

static void
count_ten_steps(void *data, int64_t step)
{
    *(int64_t *)data = step;
    atomic_store(&is_counting, step >= 10 && step < 20);
}

/* Many passes over shuffled batches, of which the last is ragged, with a
 * dataset function, prints and collectives of a step, and values that main
 * takes back. */
static const char training[] =
    "param @lr: f32 = 0.5\n"
    "var @w: f32[300] sync(on_write) aggregate(none) init @w.init at 1:1+1\n"
    "dataset @d {\n"
    "  range start=0 stop=10 : i64\n"
    "  map @d.half : f32, i64\n"
    "  shuffle buffer=5 seed=1 reshuffle=1 has_seed=1 : f32, i64\n"
    "  repeat count=40 : f32, i64\n"
    "  batch size=4 drop_remainder=0 : f32[b], i64[b]\n"
    "  prefetch depth=2 : f32[b], i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @w.init() init {\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[0.0]}\n"
    "  %1: f32[300] = broadcast %0 {dims=[300]}\n"
    "  return %1\n"
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
    "      %w: f32[300] mirrored = read {var=@w}\n"
    "      %2: f32[300] per_replica = mul %w, %1\n"
    "      %3: f32[300] mirrored = all_reduce %2 {op=sum}\n"
    "      %4: f32 mirrored = all_reduce %1 {op=max}\n"
    "      %5: f32[300] mirrored = mul %3, %lr\n"
    "      write %5 {var=@w mode=sub}\n"
    "      print %i, %4 {format=\"{} {:.3f}\" each=true}\n"
    "      yield %1\n"
    "    }\n"
    "    %6: f32 = reduce %loss {op=sum}\n"
    "    %7: f32 = add %t.1, %6\n"
    "    print %7 {format=\"total {}\"}\n"
    "    yield %7\n"
    "  }\n"
    "  return\n"
    "}\n";

static const char *devices; /* NULL: two CPU devices */

static Plan *
plan_of_training(Arena *a)
{
    int num = devices && !strchr(devices, '-') ? 1 : 2;
    const char *text = arena_printf(
        a, "symbols b <= 4 alone, n <= %d, N <= 4\n%s", 4 / num, training);
    return build_plan_for(a, build_program(a, num, text),
                          devices ? "native,sm_80" : NULL);
}

static void
allocations_are_counted(void **state)
{
    (void)state;
    num_allocations = 0;
    atomic_store(&is_counting, true);
    arena_release(arena_new(NULL, "counted"));
    atomic_store(&is_counting, false);
    assert_true(num_allocations > 0);
}

/* Prints allocate while their texts grow; the stream is at its size before. */
static void
steps_allocate_nothing(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        Arena *a = arena_new(NULL, "test");
        Plan *p = plan_of_training(a);
        FILE *out = fopen("/dev/null", "w");
        int64_t last = 0;
        RtOptions options = {.out = out,
                             .err = stderr,
                             .devices = devices,
                             .pipeline_threads = threads,
                             .on_step = count_ten_steps,
                             .on_step_data = &last};
        num_allocations = 0;
        Status st = rt_run(p, &options);
        if (st)
            fail_msg("%s", status_message(st));
        assert_int_equal(last, 100);
        assert_int_equal(num_allocations, 0);
        fclose(out);
        arena_release(a);
    }
}

/* The exit status is how often it allocated. */
static int
train_with(const Plan *p, RtOptions options)
{
    int64_t last = 0;
    options.out = fopen("/dev/null", "w");
    options.err = stderr;
    options.pipeline_threads = true;
    options.on_step = count_ten_steps;
    options.on_step_data = &last;
    num_allocations = 0;
    Status st = rt_run(p, &options);
    if (st)
        return 100 + status_report(st, "rank", stderr);
    return last == 100 ? num_allocations : 200;
}

static int
train_over_memory(void *data, Forked *f, RtGroup *group)
{
    RtExchange exchange = exchange_over(group);
    (void)f;
    return train_with(data, (RtOptions){.group = group, .exchange = &exchange});
}

static int
train_over_zmq(void *data, Forked *f, RtGroup *group)
{
    RtCarrier *carrier;
    RtExchange exchange = exchange_over(group);
    RtLinkOptions link = {
        .name = "zmq", .interface = "127.0.0.1", .timeout = 30};
    (void)f;
    Status st = rt_link_join(&link, &exchange, &carrier);
    if (st)
        return 100 + status_report(st, "rank", stderr);
    RtGroup *mains = rt_link_group_open(carrier, 60);
    int end = train_with(data, (RtOptions){.group = mains,
                                           .exchange = &exchange,
                                           .carrier = carrier,
                                           .link = "zmq"});
    mains->ops->close(mains);
    rt_carrier_close(carrier);
    return end;
}

typedef int TrainFn(void *data, Forked *f, RtGroup *group);

/* What threads beside the steps do once in a while may fall into ten of them,
 * but hardly into those of several runs. */
static void
train_in_two_processes(TrainFn *train)
{
    enum { RUNS = 3 };
    int statuses[2];
    Arena *a = arena_new(NULL, "test");
    for (int i = 0; i < RUNS; i++) {
        Forked *f = forked_new(2, 0);
        forked_run(f, train, plan_of_training(a), statuses);
        forked_free(f);
        if (statuses[0] == 0 && statuses[1] == 0)
            break;
    }
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[1], 0);
    arena_release(a);
}

static void
steps_of_a_job_allocate_nothing(void **state)
{
    (void)state;
    train_in_two_processes(train_over_memory);
}

/* Allocations of libzmq are its own. */
static void
steps_over_a_link_allocate_nothing(void **state)
{
    (void)state;
    const RtZmq *zmq;
    Status st = rt_zmq_open(&zmq);
    bool has_zmq = !st;
    status_free(st);
    if (!has_zmq)
        skip();
    train_in_two_processes(train_over_zmq);
}

int
main(int argc, char **argv)
{
    devices = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(steps_of_a_job_allocate_nothing),
        cmocka_unit_test(steps_over_a_link_allocate_nothing),
    };
    const struct CMUnitTest on_gpus[] = {
        /* which NCCL joins, not memory */
        cmocka_unit_test(allocations_are_counted),
        cmocka_unit_test(steps_allocate_nothing),
    };
    return devices ? cmocka_run_group_tests(on_gpus, NULL, NULL)
                   : cmocka_run_group_tests(tests, NULL, NULL);
}
