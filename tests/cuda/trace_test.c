/*
 * trace_test.c - programs on CUDA devices are recorded, and replayed
 *
 * A program that calls the device as q_NAME does: kernels, parts of the host, a
 * value that decides how much there is to do, and values that are looked at
 * later.  Whatever was recorded, results, calls and looks are those of a
 * program that is executed each time.
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"
#include "tests/unit/sweep.h"

#include "ir/base/clock.h"
#include "runtime/hal/cuda/cuda_impl.h"
#include "runtime/hal/registry/driver.h"
#include "tests/cuda/add.h"

enum { NUM_ITEMS = 1000, SEEDS = 10, FAILED = 7, STOPPED = 5, MANY = 300 };

typedef struct Test {
    RtDevice *d;
    RtDevicePtr items, word, other;
    TfdCall call, second; /* of the two programs */
    RtProgramLaunch launch;
    _Atomic int32_t stop;
    int executions;    /* of the program's code */
    int calls, looks;  /* of all launches */
    int fails_at;      /* that call */
    int32_t sum, seen; /* that the items should be, and what was looked at */
    RtWaitWord begun;  /* launches of a program that waits for main */
    RtWaitWord go;     /* so many of them may go on */
    int times_waited;
    pthread_t thread; /* that has made the last call of the host */
} Test;

/* ---- the program --------------------------------------------------------- */

static int32_t
note_call(void *context, const void *op)
{
    Test *t = context;
    t->thread = pthread_self();
    assert_ptr_equal(op, &t->calls);
    t->call.at = -1;
    return ++t->calls == t->fails_at ? FAILED : 0;
}

static int32_t
look(const RtDeferred *item, const char *bytes)
{
    Test *t = item->context;
    t->looks++;
    memcpy(&t->seen, bytes, sizeof t->seen);
    return t->seen < 0 ? FAILED : 0;
}

static void
add(Test *t, int64_t n)
{
    void *ptrs[] = {rt_ptr_address(t->items)};
    RtKernelLaunch launch = {
        .ptrs = ptrs, .dims = &n, .count = NUM_ITEMS, .num_ptrs = 1};
    t->d->ops->program->launch(t->d, &launch);
}

static int32_t
defer(Test *t)
{
    RtDeferred item = {.look = look, .context = t};
    RtDevicePart part = {t->items, sizeof(int32_t)};
    return t->d->ops->program->defer(t->d, &item, &part, 1);
}

static int32_t
call_host(Test *t, int position)
{
    t->call.at = position;
    return t->d->ops->program->call(t->d, note_call, t, &t->calls);
}

/* Adds 1; then, word times, 10; then 100. */
static int32_t
program(TfdCall *call)
{
    Test *t = call->context;
    int64_t rounds = 0, two = 0x0000000700000007;
    t->executions++;
    add(t, 1);
    int32_t end = call_host(t, 1);
    if (!end)
        end = t->d->ops->program->load(t->d, &rounds, rt_ptr_address(t->word),
                                       sizeof rounds);
    for (int64_t i = 0; !end && i < rounds; i++) {
        add(t, 10);
        end = defer(t);
    }
    t->d->ops->program->store(
        t->d, rt_ptr_address(rt_ptr_add(t->word, sizeof rounds)), &two,
        sizeof two);
    if (!end)
        end = call_host(t, 2);
    add(t, 100);
    call->at = 3;
    return end;
}

/* Another one, of which launches have no part. */
static int32_t
second_program(TfdCall *call)
{
    add(call->context, 1000);
    return 0;
}

/* Says that it has begun; goes on when main lets it.  Meanwhile it marks the
 * queue of collectives, as transports do. */
static void
wait_for_main(Test *t)
{
    uint32_t n = rt_wait_word_add(&t->begun, 1), go;
    for (; (go = rt_wait_word_load(&t->go)) < n; t->times_waited++) {
        t->d->ops->record(t->d->queues[QUEUE_COLL]);
        t->d->ops->program->wait_word(t->d, &t->go, go);
    }
}

static int32_t
wait_in_call(void *context, const void *op)
{
    Test *t = context;
    (void)op;
    t->thread = pthread_self();
    wait_for_main(t);
    return 0;
}

/* Main may do something while the host has its part in it. */
static int32_t
waiting_program(TfdCall *call)
{
    Test *t = call->context;
    add(t, 1);
    int32_t end = t->d->ops->program->call(t->d, wait_in_call, t, NULL);
    add(t, 10);
    return end;
}

/* Enqueues much more after it has begun. */
static int32_t
long_program(TfdCall *call)
{
    Test *t = call->context;
    wait_for_main(t);
    for (int i = 0; i < MANY; i++)
        add(t, 1);
    return 0;
}

/* ---- a device ------------------------------------------------------------ */

enum { PROGRAM, SECOND, WAITING, LONG };

static TfdFunction *const programs[] = {program, second_program,
                                        waiting_program, long_program};
static PlanObject texts[] = {{"code/sm_80/k_add.ptx", direct_add, 0}};
static const RtDeviceCode code = {.num_kernels = 1,
                                  .kernel_texts = texts,
                                  .num_programs = 4,
                                  .programs = programs,
                                  .enqueues = true};

static RtDevicePtr
allocate(RtDevice *d, size_t bytes)
{
    const RtMemory *memory = NULL;
    Status st = d->ops->alloc(d, bytes, 0, true, &memory);
    status_free(st);
    return (RtDevicePtr){st ? NULL : memory, 0};
}

/* false: the driver does not work, by request. */
static bool
begin_with(Test *t, RtDeviceConfig config, const char *options)
{
    *t = (Test){.launch = {.sizes = 1}};
    t->call = (TfdCall){.context = t, .stop = &t->stop};
    t->second = t->call;
    t->launch.call = &t->call;
    setenv("TFD_FAKE_CUDA", options, 1);
    Status st = rt_driver_find(DEVICE_cuda)->open(&config, &t->d);
    status_free(st);
    if (st)
        return false;
    t->d->deferrals = rt_deferrals_new(arena, sizeof(int32_t));
    st = t->d->ops->load(t->d, &code);
    status_free(st);
    t->items = allocate(t->d, NUM_ITEMS * sizeof(int32_t));
    t->word = allocate(t->d, 2 * sizeof(int64_t));
    t->other = allocate(t->d, sizeof(int32_t));
    return t->items.memory && t->word.memory && t->other.memory && !st;
}

static bool
begin(Test *t, const char *options)
{
    return begin_with(t, (RtDeviceConfig){.name = "cuda:0"}, options);
}

/* The status of the program; rounds of it. */
static int32_t
launch(Test *t, int64_t rounds)
{
    RtQueue *q = t->d->queues[QUEUE_COMPUTE];
    rt_copy_in(t->word, &rounds, sizeof rounds);
    t->d->ops->launch_program(q, &t->launch);
    rt_event_wait(t->d->ops->record(q));
    int32_t looked = t->d->ops->program->look(t->d);
    return looked ? looked : t->launch.status;
}

static void
check_items(const Test *t)
{
    int32_t items[NUM_ITEMS];
    int64_t words[2];
    rt_copy_out(items, t->items, sizeof items);
    rt_copy_out(words, t->word, sizeof words);
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], t->sum);
    assert_int_equal(words[1], 0x0000000700000007);
}

/* A launch with its results. */
static void
launch_well(Test *t, int64_t rounds)
{
    int calls = t->calls, looks = t->looks;
    assert_int_equal(launch(t, rounds), 0);
    t->sum += 1 + 10 * (int32_t)rounds + 100;
    assert_int_equal(t->calls, calls + 2);
    assert_int_equal(t->looks, looks + rounds);
    if (rounds)
        assert_int_equal(t->seen, t->sum - 100);
    assert_int_equal(t->call.at, 3);
    check_items(t);
}

static void
end(Test *t)
{
    assert_null(rt_device_status(t->d));
    t->d->ops->close(t->d);
}

/* ---- recordings ---------------------------------------------------------- */

/* The first time directly, then recorded; once more where a new value is
 * loaded. */
static void
values_that_were_seen_are_replayed(void **state)
{
    static const struct {
        int rounds, executions;
    } launches[] = {{2, 1}, {2, 2}, {2, 2}, {0, 3}, {2, 3},
                    {0, 3}, {5, 4}, {5, 4}, {2, 4}};
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        Test t;
        assert_true(begin(&t, arena_printf(arena, "seed:%d", seed)));
        for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
            launch_well(&t, launches[i].rounds);
            assert_int_equal(t.executions, launches[i].executions);
        }
        end(&t);
    }
}

/* More is deferred than there is room for: the host looks in between. */
static void
looks_in_between_are_replayed(void **state)
{
    Test t;
    (void)state;
    assert_true(begin(&t, "seed:1"));
    for (int i = 0; i < 4; i++)
        launch_well(&t, MANY);
    assert_int_equal(t.executions, 2);
    launch_well(&t, MANY + 1);
    launch_well(&t, MANY);
    assert_int_equal(t.executions, 3);
    end(&t);
}

/* Other sizes of batches have their own recording, unknown ones none. */
static void
sizes_are_told_apart(void **state)
{
    static const struct {
        int sizes, executions;
    } launches[] = {{1, 1}, {2, 2}, {1, 3}, {2, 4}, {1, 4},
                    {2, 4}, {0, 5}, {0, 6}, {0, 7}, {1, 7}};
    Test t;
    (void)state;
    assert_true(begin(&t, "seed:2"));
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        t.launch.sizes = launches[i].sizes;
        launch_well(&t, 1);
        assert_int_equal(t.executions, launches[i].executions);
    }
    end(&t);
}

/* The host's part ends the program: directly, in a capture, in a replay. */
static void
calls_end_programs(void **state)
{
    (void)state;
    for (int number = 1; number <= 8; number++) {
        Test t;
        assert_true(begin(&t, "seed:3"));
        t.fails_at = number;
        for (int i = 1; i < (number + 1) / 2; i++)
            launch_well(&t, 1);
        assert_int_equal(launch(&t, 1), FAILED);
        assert_int_equal(t.calls, number);
        end(&t);
    }
}

/* What was looked at ends the program, too; none of the rest is looked at. */
static void
looks_end_programs(void **state)
{
    (void)state;
    for (int before = 0; before < 3; before++) {
        Test t;
        int32_t items[NUM_ITEMS];
        assert_true(begin(&t, "seed:4"));
        for (int i = 0; i < before; i++)
            launch_well(&t, 3);
        for (int i = 0; i < NUM_ITEMS; i++)
            items[i] = -15; /* and 1, and 10: negative once */
        rt_copy_in(t.items, items, sizeof items);
        assert_int_equal(launch(&t, 3), FAILED);
        assert_int_equal(t.looks, 3 * before + 1);
        end(&t);
    }
}

/* A replay looks at the stop word after each part of the host. */
static void
the_stop_word_ends_replays(void **state)
{
    Test t;
    (void)state;
    assert_true(begin(&t, "seed:5"));
    for (int i = 0; i < 3; i++)
        launch_well(&t, 1);
    t.stop = STOPPED;
    assert_int_equal(launch(&t, 1), STOPPED);
    assert_int_equal(t.calls, 7);
    t.stop = 0;
    end(&t);
}

/* ---- main beside a program ----------------------------------------------- */

typedef enum Beside {
    SAME_QUEUE,
    OTHER_QUEUE,
    WAIT_FOR_OTHER,
    SECOND_LAUNCH,
    KINDS
} Beside;

/* What main lets the queue of programs wait for, it waits for after the program
 * that runs: that has enqueued all its work. */
static void
wait_for_other(Test *t)
{
    RtQueue *compute = t->d->queues[QUEUE_COMPUTE],
            *copy = t->d->queues[QUEUE_COPY];
    t->d->ops->fill(copy, t->other, 1, sizeof(int32_t));
    t->d->ops->wait_event(compute, t->d->ops->record(copy));
    assert_int_equal(t->call.at, 3);
}

/* What main enqueues while a program runs comes after it. */
static void
enqueue_beside(Test *t, Beside kind)
{
    const RtDeviceOps *ops = t->d->ops;
    RtQueue *compute = t->d->queues[QUEUE_COMPUTE], *q = compute;
    int32_t items[NUM_ITEMS];
    int64_t rounds = 3;
    RtProgramLaunch second = {
        .program = SECOND, .call = &t->second, .sizes = t->launch.sizes};
    rt_copy_in(t->word, &rounds, sizeof rounds);
    t->call.at = 0;
    ops->launch_program(compute, &t->launch);
    if (kind == WAIT_FOR_OTHER)
        wait_for_other(t);
    if (kind == SECOND_LAUNCH)
        ops->launch_program(compute, &second);
    if (kind == OTHER_QUEUE) {
        q = t->d->queues[QUEUE_COPY];
        ops->wait_event(q, ops->record(compute));
    }
    ops->copy_out(q, items, t->items, sizeof items);
    rt_event_wait(ops->record(q));
    assert_int_equal(ops->program->look(t->d), 0);
    t->sum += 1 + 10 * (int32_t)rounds + 100;
    t->sum += kind == SECOND_LAUNCH ? 1000 : 0;
    for (int i = 0; i < NUM_ITEMS; i++)
        assert_int_equal(items[i], t->sum);
}

static void
main_enqueues_beside_programs(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++)
        for (int kind = 0; kind < KINDS; kind++) {
            Test t;
            assert_true(begin(&t, arena_printf(arena, "seed:%d", seed)));
            for (int i = 0; i < 4; i++)
                enqueue_beside(&t, (Beside)kind);
            end(&t);
        }
}

/* Launches one of the programs that wait for main, and lets it begin. */
static void
launch_waiting(Test *t, int number)
{
    uint32_t begun = rt_wait_word_load(&t->begun);
    t->launch.program = number;
    t->d->ops->launch_program(t->d->queues[QUEUE_COMPUTE], &t->launch);
    while (rt_wait_word_load(&t->begun) == begun)
        rt_wait_word_wait(&t->begun, begun, false);
}

/* A wait for a program that runs comes back after a while, not at once; so does
 * one in a program. */
static void
waits_have_a_bound(void **state)
{
    Test t;
    (void)state;
    assert_true(begin(&t, "seed:6"));
    launch_waiting(&t, WAITING);
    RtEvent e = t.d->ops->record(t.d->queues[QUEUE_COMPUTE]);
    double began = clock_seconds();
    assert_false(t.d->ops->wait(e));
    assert_true(clock_seconds() - began > 0.02);
    rt_wait_word_add(&t.go, 1);
    rt_event_wait(e);
    assert_true(t.times_waited < 100);
    end(&t);
}

/* Main needs the pinned memory of copies that it has enqueued before the
 * program, while that runs: the mark behind them is not the program's end. */
static void
main_takes_staging_back_beside_programs(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        Test t;
        int32_t items[NUM_ITEMS] = {0};
        assert_true(begin(&t, arena_printf(arena, "seed:%d", seed)));
        RtQueue *compute = t.d->queues[QUEUE_COMPUTE],
                *copy = t.d->queues[QUEUE_COPY];
        t.d->ops->copy_in(compute, t.items, items, sizeof items);
        launch_waiting(&t, WAITING);
        RtEvent e = t.d->ops->record(compute);
        for (int i = 0; i <= CUDA_STAGED; i++)
            t.d->ops->copy_in(copy, t.other, &i, sizeof i);
        rt_wait_word_add(&t.go, 1);
        t.d->ops->wait_event(copy, e);
        t.d->ops->copy_out(copy, items, t.items, sizeof items);
        rt_event_wait(t.d->ops->record(copy));
        for (int i = 0; i < NUM_ITEMS; i++)
            assert_int_equal(items[i], 11);
        end(&t);
    }
}

/* Whoever launches the last device enqueues its program, once that is recorded
 * and does not wait for the device. */
static void
the_caller_enqueues_what_does_not_wait(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        Test t;
        RtDeviceConfig config = {.name = "cuda:0", .on_caller = true};
        assert_true(
            begin_with(&t, config, arena_printf(arena, "seed:%d", seed)));
        rt_wait_word_add(&t.go, MANY);
        for (int i = 0; i < 4; i++) {
            launch_waiting(&t, WAITING);
            assert_int_equal(pthread_equal(t.thread, pthread_self()) != 0,
                             i >= 2);
        }
        rt_event_wait(t.d->ops->record(t.d->queues[QUEUE_COMPUTE]));
        t.sum = 4 * 11;
        t.launch = (RtProgramLaunch){.call = &t.call, .sizes = 2};
        for (int i = 0; i < 4; i++) {
            launch_well(&t, 1);
            assert_false(pthread_equal(t.thread, pthread_self()));
        }
        end(&t);
    }
}

/* Nothing is given back while it still enqueues. */
static void
close_waits_for_programs(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        Test t;
        assert_true(begin(&t, arena_printf(arena, "seed:%d", seed)));
        launch_waiting(&t, LONG);
        rt_wait_word_add(&t.go, 1);
        end(&t);
    }
}

/* ---- failures ------------------------------------------------------------ */

static const char *const calls[] = {"cuStreamBeginCapture_v2",
                                    "cuStreamEndCapture",
                                    "cuGraphInstantiateWithFlags",
                                    "cuGraphUpload",
                                    "cuGraphLaunch",
                                    "cuGraphDestroy",
                                    "cuGraphExecDestroy",
                                    "cuLaunchKernel",
                                    "cuMemcpyDtoHAsync_v2",
                                    "cuMemsetD32Async",
                                    "cuEventRecord",
                                    "cuEventQuery",
                                    "cuMemHostAlloc"};

/* Whatever call of a recording fails: launches return, no program is executed
 * any more, and all is given back: the fake driver ends the process if not. */
static void
failures_leave_nothing(void **state)
{
    enum { TIMES = 6, NUM = TIMES * (int)(sizeof calls / sizeof *calls) };
    (void)state;
    for (int i = sweep_first(NUM); i < NUM; i = sweep_next(i)) {
        Test t;
        bool opened = begin(&t, arena_printf(arena, "seed:%d,fail:%s:%d:2", i,
                                             calls[i / TIMES], 1 + i % TIMES));
        for (int k = 0; opened && k < 5; k++)
            if (launch(&t, k == 4))
                rt_device_fail(t.d, "by request");
        if (t.d)
            t.d->ops->close(t.d);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_were_seen_are_replayed),
        cmocka_unit_test(looks_in_between_are_replayed),
        cmocka_unit_test(sizes_are_told_apart),
        cmocka_unit_test(calls_end_programs),
        cmocka_unit_test(looks_end_programs),
        cmocka_unit_test(the_stop_word_ends_replays),
        cmocka_unit_test(main_enqueues_beside_programs),
        cmocka_unit_test(waits_have_a_bound),
        cmocka_unit_test(main_takes_staging_back_beside_programs),
        cmocka_unit_test(the_caller_enqueues_what_does_not_wait),
        cmocka_unit_test(close_waits_for_programs),
        cmocka_unit_test(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
