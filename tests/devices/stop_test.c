/*
 * stop_test.c - runs that are told to stop, after a step or while they wait
 */
#include "tests/devices/runs.h"
#include "tests/unit/asleep.h"
#include "tests/unit/work_dir.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "ir/base/clock.h"

#define PRINT_SUM "      print %2 {format=\"{}\"}\n"

static const char endless[] = "symbols b <= 4 alone, n <= 2, N <= 4\n"
                              "dataset @d {\n"
                              "  range start=0 stop=8 : i64\n"
                              "  repeat count=-1 : i64\n"
                              "  batch size=4 drop_remainder=0 : i64[b]\n"
                              "}\n" EACH_STEP(PRINT_SUM);

static void
interrupt_at_three(void *data, int64_t step)
{
    if (step == 3)
        atomic_store((atomic_bool *)data, true);
}

static void
interrupts_end_after_a_step(void **state)
{
    atomic_bool interrupted = false;
    Result r = run_with(program(2, endless),
                        (RtOptions){.interrupted = &interrupted,
                                    .on_step = interrupt_at_three,
                                    .on_step_data = &interrupted});
    (void)state;
    assert_string_equal(r.out, "6\n22\n6\n");
    assert_status(r.st, STATUS_STOPPED, "interrupted after 3 steps");
}

/* ---- between two looks --------------------------------------------------- */

#ifdef __has_feature
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

enum { PAGE = 4096, TRAP = 1 << 8, MOST_READS = 12 };

/* A word that nobody may read.  Each try is counted, and the word becomes true
 * before a certain one; then the instruction is executed, alone, with rights.
 */
static struct {
    atomic_bool *word;
    atomic_int reads;
    int last; /* that finds false */
} watched;

static void
set_rights(int rights)
{
    if (mprotect(watched.word, PAGE, rights) != 0)
        abort();
}

static void
on_read(int signal_number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    if (info->si_addr != (void *)watched.word) {
        signal(signal_number, SIG_DFL);
        return;
    }
    set_rights(PROT_READ | PROT_WRITE);
    if (atomic_fetch_add(&watched.reads, 1) >= watched.last)
        atomic_store(watched.word, true);
    u->uc_mcontext.gregs[REG_EFL] |= TRAP;
}

static void
on_trap(int signal_number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    (void)signal_number, (void)info;
    set_rights(PROT_NONE);
    u->uc_mcontext.gregs[REG_EFL] &= ~(long long)TRAP;
}

static void
watch_reads(void)
{
    struct sigaction read = {.sa_sigaction = on_read, .sa_flags = SA_SIGINFO};
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &read, NULL);
    sigaction(SIGTRAP, &trap, NULL);
    watched.word =
        mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(watched.word != MAP_FAILED);
}

static void
forget_reads(void)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGTRAP, SIG_DFL);
    munmap(watched.word, PAGE);
}

/* Whichever look is the first to see it. */
static void
an_interrupted_run_ends_with_a_checkpoint(void **state)
{
    (void)state;
    if (THREAD_SANITIZER) {
        print_message("# left out: ThreadSanitizer delays SIGTRAP\n");
        return;
    }
    const Plan *plan = build_plan(arena, program(2, endless));
    for (int i = 0; i < MOST_READS; i++) {
        watch_reads();
        atomic_store(&watched.reads, 0);
        watched.last = i;
        Result r = build_run(arena, plan,
                             (RtOptions){.interrupted = watched.word,
                                         .checkpoint_dir = work_dir(arena),
                                         .every = 1000});
        forget_reads();
        assert_status_says(r.st, STATUS_STOPPED,
                           " steps; --resume goes on from there");
    }
}

/* ---- in the midst of steps ----------------------------------------------- */

typedef struct Waiting {
    atomic_int steps;
    _Atomic pid_t main; /* the thread that runs it */
    atomic_bool interrupted;
} Waiting;

static void
count_step(void *data, int64_t step)
{
    atomic_store(&((Waiting *)data)->steps, (int)step);
}

static void
wait_for_steps(const Waiting *w, int steps)
{
    while (atomic_load(&w->steps) < steps)
        sched_yield();
}

static void *
interrupt_in_a_step(void *data)
{
    Waiting *w = data;
    wait_for_steps(w, 100);
    atomic_store(&w->interrupted, true);
    return NULL;
}

static void
interrupts_come_at_any_time(void **state)
{
    Waiting w = {0};
    pthread_t other;
    (void)state;
    pthread_create(&other, NULL, interrupt_in_a_step, &w);
    assert_fails(program(2, endless),
                 (RtOptions){.interrupted = &w.interrupted,
                             .on_step = count_step,
                             .on_step_data = &w,
                             .pipeline_threads = true},
                 STATUS_STOPPED, "interrupted");
    pthread_join(other, NULL);
}

/* Two steps, and then no element ever passes: the stages, to which more may be
 * added, and the rest. */
static const char never[] = "symbols b <= 4 alone, n <= 2, N <= 4\n"
                            "dataset @more {\n"
                            "  range start=8 stop=9 : i64\n"
                            "  repeat count=-1 : i64\n"
                            "}\n"
                            "dataset @d {\n"
                            "  range start=0 stop=8 : i64\n"
                            "  concat with @more : i64\n"
                            "  filter @few : i64\n"
                            "  batch size=4 drop_remainder=0 : i64[b]\n";
static const char never_runs[] = "}\n" EACH_STEP(
    PRINT_SUM) "func @few(%x: i64) host {\n"
               "  %8: i64 = constant {dims=[] dtype=i64 data=[8]}\n"
               "  %0: bool = lt %x, %8\n"
               "  return %0\n"
               "}\n";

/* Processor time that the thread of main has taken. */
static double
busy_seconds(const Waiting *w)
{
    struct timespec t;
    clockid_t clock = (clockid_t)(~(unsigned)w->main << 3 | 6);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* After the last step that it can do: it is asleep, or it looks for elements
 * itself. */
static void *
interrupt_while_it_waits(void *data)
{
    Waiting *w = data;
    wait_for_steps(w, 2);
    double begin = busy_seconds(w);
    while (!is_asleep(w->main) && busy_seconds(w) < begin + 0.01)
        sched_yield();
    atomic_store(&w->interrupted, true);
    return NULL;
}

/* A second of it is a tenth of one. */
static double
fast_clock(void)
{
    return 10.0 * clock_seconds();
}

/* Runs it until it waits for data that do not come, and interrupts it. */
static Result
wait_for_ever(RtOptions options, bool ahead)
{
    Waiting w = {.main = gettid()};
    pthread_t other;
    options.interrupted = &w.interrupted;
    options.on_step = count_step;
    options.on_step_data = &w;
    options.pipeline_threads = true;
    options.clock = fast_clock;
    const char *depth = ahead ? "" : "  prefetch depth=0 : i64[b]\n";
    const char *text = arena_printf(arena, "%s%s%s", never, depth, never_runs);
    pthread_create(&other, NULL, interrupt_while_it_waits, &w);
    Result r = run_with(program(2, text), options);
    pthread_join(other, NULL);
    return r;
}

static void
an_interrupt_ends_the_wait_for_data(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        Result r = wait_for_ever((RtOptions){0}, ahead);
        assert_string_equal(r.out, "6\n22\n");
        assert_status(r.st, STATUS_STOPPED, "interrupted after 2 steps");
    }
}

/* The result with a checkpoint after n steps. */
static Result
wait_with_checkpoints(int64_t every)
{
    Result r = wait_for_ever((RtOptions){.checkpoint_dir = work_dir(arena),
                                         .every = every,
                                         .timeout = 1},
                             true);
    assert_non_null(r.st);
    assert_int_equal(status_kind(r.st), STATUS_STOPPED);
    return r;
}

/* The current step would be finished first, but it does not begin. */
static void
data_are_waited_for_a_while_before_a_checkpoint(void **state)
{
    (void)state;
    Result r = wait_with_checkpoints(1000);
    assert_string_equal(status_message(r.st),
                        "interrupted after 2 steps, waiting for data; "
                        "--resume goes on after step 0");
    status_free(r.st);
}

/* A checkpoint waits for the iterator's thread to come to rest, and it may be
 * looking for the third step already. */
static void
an_interrupt_ends_the_wait_for_a_checkpoint(void **state)
{
    (void)state;
    Result r = wait_with_checkpoints(2);
    assert_non_null(strstr(status_message(r.st), "interrupted after 2 steps"));
    status_free(r.st);
}

/* ---- a slow disk --------------------------------------------------------- */

#define SPEND(seconds, begin, now, spent, limit, less)                         \
    "    " begin ": f64 = now\n"                                               \
    "    while {\n"                                                            \
    "      " now ": f64 = now\n"                                               \
    "      " spent ": f64 = sub " now ", " begin "\n"                          \
    "      " limit ": f64 = constant {dims=[] dtype=f64 data=[" seconds "]}\n" \
    "      " less ": bool = lt " spent ", " limit "\n"                         \
    "      yield " less "\n"                                                   \
    "    } {\n"                                                                \
    "      yield\n"                                                            \
    "    }\n"

/* Saves in the midst of each step, to a folder that follows. */
static const char saves[] =
    "symbols b <= 4 alone, n <= 2, N <= 4\n"
    "var @w: f32 sync(on_write) aggregate(none) init @w.init at 1:1+4\n"
    "dataset @d {\n"
    "  range start=0 stop=8 : i64\n"
    "  repeat count=-1 : i64\n"
    "  batch size=4 drop_remainder=0 : i64[b]\n"
    "}\n"
    "iter @it of @d shard auto rows n\n"
    "func @w.init() init {\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[3.0]}\n"
    "  return %0\n"
    "}\n"
    "func @main() main {\n"
    "  iter_open {iter=@it}\n"
    "  while {\n"
    "    %0: bool = iter_has_next {iter=@it}\n"
    "    yield %0\n"
    "  } {\n"
    "    %x: i64[n] per_replica = iter_next {iter=@it}\n" SPEND(
        "0.4", "%a", "%1", "%2", "%3", "%4") "    %w: f32 = read {var=@w}\n"
                                             "    save %w {vars=[@w] format=";
static const char saved[] =
    "}\n" SPEND("0.25", "%b", "%5", "%6", "%7", "%8") "    yield\n"
                                                      "  }\n"
                                                      "  return\n"
                                                      "}\n";

static _Atomic pid_t waits_for_disk; /* the thread that does; 0: none */

/* In the place of the C library's. */
int
fsync(int fd)
{
    if (atomic_load(&waits_for_disk) == gettid())
        usleep(1200000);
    return (int)syscall(SYS_fsync, fd);
}

static void *
interrupt_soon(void *data)
{
    usleep(100000);
    atomic_store((atomic_bool *)data, true);
    return NULL;
}

static pthread_t interrupter;

static void
interrupt_the_second(void *data, int64_t step)
{
    if (step != 1)
        return;
    atomic_store(&waits_for_disk, gettid());
    pthread_create(&interrupter, NULL, interrupt_soon, data);
}

/* What the disk takes is not the step's time. */
static void
an_interrupted_step_may_wait_for_the_disk(void **state)
{
    atomic_bool interrupted = false;
    (void)state;
    const char *dir = work_dir(arena);
    const char *text =
        arena_printf(arena, "%s\"%s/saved\"%s", saves, dir, saved);
    Result r = run_with(
        program(2, text),
        (RtOptions){.interrupted = &interrupted,
                    .on_step = interrupt_the_second,
                    .on_step_data = &interrupted,
                    .timeout = 2,
                    .checkpoint_dir = arena_printf(arena, "%s/run", dir),
                    .every = 1000});
    atomic_store(&waits_for_disk, 0);
    pthread_join(interrupter, NULL);
    assert_status_says(r.st, STATUS_STOPPED,
                       "interrupted after 2 steps; --resume goes on from "
                       "there");
}

/* ---- devices that are lost ----------------------------------------------- */

enum { MOST_OPERATIONS = 400 };

static const char ends[] =
    "symbols b <= 6 alone, n <= 3, N <= 6\n"
    "var @w: f32 sync(on_write) aggregate(none) init @w.init at 1:1+4\n"
    "dataset @d {\n"
    "  range start=0 stop=11 : i64\n"
    "  batch size=6 drop_remainder=0 : i64[b]\n"
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
    "      print %1 {format=\"{}\"}\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  %w: f32 = read {var=@w}\n"
    "  print %w {format=\"w {}\"}\n"
    "  return\n"
    "}\n"
    "func @w.init() init {\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[3.0]}\n"
    "  return %0\n"
    "}\n";

/* Loses a device at each operation in turn, until there are no more: those of
 * launches, batches, fetches, checkpoints and the checksum. */
static int
lose_in_turn(const char *seed, bool checkpoints)
{
    const char *text = program(2, ends);
    for (int n = 1; n < MOST_OPERATIONS; n++) {
        setenv("TFD_SANDBOX", arena_printf(arena, "%s,lost:%d", seed, n), 1);
        Result r = run_with(
            text, (RtOptions){.devices = "sandbox:0-1",
                              .checksum = true,
                              .every = 1,
                              .checkpoint_dir =
                                  checkpoints ? work_dir(arena) : NULL});
        if (!r.st)
            return n - 1;
        assert_status_says(r.st, STATUS_MACHINE, " is lost: TFD_SANDBOX says ");
        assert_null(strstr(r.out, "checksum"));
    }
    return MOST_OPERATIONS;
}

static void
a_lost_device_ends_the_run(void **state)
{
    (void)state;
    int plain = lose_in_turn("seed:0", false);
    assert_in_range(plain, 20, MOST_OPERATIONS - 1);
    assert_true(lose_in_turn("seed:0", true) > plain);
    assert_in_range(lose_in_turn("seed:3", false), 20, MOST_OPERATIONS - 1);
    unsetenv("TFD_SANDBOX");
}

/* ---- a loop without end -------------------------------------------------- */

static const char forever[] =
    "func @main() main {\n"
    "  while {\n"
    "    %0: bool = constant {dims=[] dtype=bool data=[true]} at 1:1+4\n"
    "    yield %0\n"
    "  } {\n"
    "    yield\n"
    "  } at 1:1+4\n"
    "  return\n"
    "}\n";

/* Main reads what the watchdog has written. */
static void
an_endless_loop_is_ended(void **state)
{
    (void)state;
    assert_fails(program(2, forever), (RtOptions){.timeout = 0.1}, STATUS_INPUT,
                 "main has not gone on for 0.1 seconds");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupts_end_after_a_step),
        cmocka_unit_test(an_interrupted_run_ends_with_a_checkpoint),
        cmocka_unit_test(interrupts_come_at_any_time),
        cmocka_unit_test(an_interrupt_ends_the_wait_for_data),
        cmocka_unit_test(data_are_waited_for_a_while_before_a_checkpoint),
        cmocka_unit_test(an_interrupt_ends_the_wait_for_a_checkpoint),
        cmocka_unit_test(an_interrupted_step_may_wait_for_the_disk),
        cmocka_unit_test(a_lost_device_ends_the_run),
        cmocka_unit_test(an_endless_loop_is_ended),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
