/*
 * sandbox_test.c - what the sandbox device finds, and the order of its work
 *
 * What it complains about ends the process, so each complaint is provoked in a
 * process of its own.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include "ir/base/clock.h"
#include "ir/base/status.h"
#include "runtime/hal/device.h"

enum { BYTES = 8192, MANY_SEEDS = 20 };

static RtDevice *own, *other;
static const RtMemory *memory, *others;

static void
copy_eight(void *const *ptrs, const int64_t *dims, int64_t begin, int64_t end)
{
    (void)dims;
    memcpy((char *)ptrs[0] + 8 * begin, (char *)ptrs[1] + 8 * begin,
           (size_t)(8 * (end - begin)));
}

/* ---- devices ------------------------------------------------------------ */

static TfdFunction *body; /* of program 0 */

static int32_t
call_body(TfdCall *call)
{
    return body(call);
}

static TfdKernel *const kernels[] = {copy_eight};
static TfdFunction *const programs[] = {call_body};
static const RtDeviceCode code = {.num_kernels = 1,
                                  .num_programs = 1,
                                  .kernels = kernels,
                                  .programs = programs};

static RtDevice *
open_one(const char *name, const RtMemory **out)
{
    RtDevice *d;
    RtDeviceConfig config = {
        .name = name, .num_threads = 1, .clock = clock_seconds};
    assert_null(rt_sandbox_open(&config, &d));
    assert_null(d->ops->load(d, &code));
    assert_null(d->ops->alloc(d, BYTES, 0, true, out));
    return d;
}

static void
open_both(const char *options)
{
    setenv("TFD_SANDBOX", options, 1);
    own = open_one("sandbox:0", &memory);
    other = open_one("sandbox:1", &others);
}

static void
close_both(void)
{
    own->ops->close(own);
    other->ops->close(other);
}

static RtDevicePtr
at(size_t offset)
{
    return (RtDevicePtr){memory, offset};
}

static RtQueue *
compute(void)
{
    return own->queues[QUEUE_COMPUTE];
}

static void
finish(void)
{
    rt_event_wait(own->ops->record(compute()));
}

/* ---- complaints --------------------------------------------------------- */

/* Runs f in a process that ends by the signal and says this. */
static void
assert_dies(void (*f)(void), int signal_number, const char *says)
{
    char text[1000] = "";
    size_t len = 0;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL); /* cmocka's handlers are the parent's */
        signal(SIGSEGV, SIG_DFL);
        open_both("seed:0");
        f();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; len < sizeof text - 1 &&
                    (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!strstr(text, says))
        fail_msg("\"%s\" is not in \"%s\"", says, text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

static volatile char sink;

static void
host_reads(void)
{
    sink = ((char *)memory->address)[8];
}

static int32_t
read_own(TfdCall *call)
{
    (void)call;
    sink = ((char *)memory->address)[16];
    return call->hooks ? call->hooks->op(call, 0) : 0;
}

static int32_t
read_in_hook(TfdCall *call, int32_t index)
{
    (void)call, (void)index;
    sink = ((char *)memory->address)[24];
    return 0;
}

static const TfdHooks hooks = {.abi = TFD_ABI, .op = read_in_hook};

static int32_t
launch(TfdFunction *f, const TfdHooks *with)
{
    TfdCall call = {.abi = TFD_ABI, .hooks = with};
    RtProgramLaunch l = {.program = 0, .call = &call};
    body = f;
    own->ops->launch_program(compute(), &l);
    finish();
    return l.status;
}

static void
hook_reads(void)
{
    assert_int_equal(launch(read_own, NULL), 0);
    launch(read_own, &hooks);
}

static int32_t
read_other(TfdCall *call)
{
    (void)call;
    sink = ((char *)others->address)[32];
    return 0;
}

static void
program_reads_other(void)
{
    launch(read_other, NULL);
}

static void
source_changes(void)
{
    int x = 1;
    own->ops->copy_in(compute(), at(0), &x, sizeof x);
    x = 2;
    finish();
}

static void
launch_changes(void)
{
    char *in[1] = {NULL};
    TfdCall call = {.abi = TFD_ABI}, second = {.abi = TFD_ABI};
    RtProgramLaunch l = {.program = 0, .call = &call};
    call.next = &second;
    own->ops->launch_program(compute(), &l);
    second.in = in;
    finish();
}

static void
kernel_changes(void)
{
    void *ptrs[] = {NULL, NULL};
    RtKernelLaunch l = {.kernel = 0, .ptrs = ptrs, .count = 1};
    own->ops->launch_kernel(compute(), &l);
    l.count = 0;
    finish();
}

static void
end_is_outside(void)
{
    own->ops->fill(compute(), at(BYTES - 8), 0, 9);
}

static void
memory_is_of_another(void)
{
    char back[4];
    own->ops->copy_out(compute(), back, (RtDevicePtr){others, 0}, 4);
}

static void
memory_is_freed(void)
{
    RtMemory gone = *memory;
    own->ops->copy(compute(), at(0), (RtDevicePtr){&gone, 8}, 4);
}

static void
copies_overlap(void)
{
    own->ops->copy(compute(), at(0), at(7), 8);
}

static void
program_is_unknown(void)
{
    RtProgramLaunch l = {.program = 1};
    own->ops->launch_program(compute(), &l);
}

static void
program_on_copies(void)
{
    RtProgramLaunch l = {.program = 0};
    own->ops->launch_program(own->queues[QUEUE_COPY], &l);
}

static void
enqueue_more(void *data)
{
    (void)data;
    own->ops->fill(own->queues[QUEUE_COLL], at(0), 0, 1);
}

static void
callback_enqueues(void)
{
    own->ops->call_host(compute(), enqueue_more, NULL);
    finish();
}

static int32_t
copy_beside(TfdCall *call)
{
    (void)call;
    own->ops->fill(own->queues[QUEUE_COPY], at(0), 0, 1);
    return 0;
}

static void
program_enqueues_copies(void)
{
    launch(copy_beside, NULL);
}

static int32_t
ask_other(TfdCall *call)
{
    (void)call;
    other->ops->program->copy_in(other, (RtDevicePtr){others, 0}, "x", 1);
    return 0;
}

static void
program_asks_other(void)
{
    launch(ask_other, NULL);
}

static void
host_asks(void)
{
    own->ops->program->copy_in(own, at(0), "x", 1);
}

static void
event_is_of_the_future(void)
{
    rt_event_wait((RtEvent){compute(), 1});
}

static void
waits_for_other(void)
{
    own->ops->wait_event(compute(), (RtEvent){other->queues[QUEUE_COPY], 1});
}

/* Only kernels of collectives are about the memory of connected devices. */
static void
kernel_reads_other(void)
{
    bool reaches;
    void *ptrs[] = {rt_ptr_address(at(0)), (char *)others->address};
    RtKernelLaunch l = {.kernel = 0, .ptrs = ptrs, .count = 5};
    assert_null(own->ops->connect(own, other, &reaches));
    assert_true(reaches);
    own->ops->launch_kernel(own->queues[QUEUE_COLL], &l);
    own->ops->wait_event(compute(), own->ops->record(own->queues[QUEUE_COLL]));
    finish();
    own->ops->launch_kernel(compute(), &l);
    finish();
}

/* Two rows of eight bytes. */
static void
copy_rows(const RtMemory *from, size_t offset, size_t pitch)
{
    RtRowsCopy rows = {at(0), {from, offset}, 8, pitch, 8, 2};
    own->ops->copy_rows(compute(), &rows);
}

static void
rows_are_not_reached(void)
{
    const RtMemory *hosts;
    assert_null(other->ops->alloc_host(other, BYTES, &hosts));
    copy_rows(hosts, 0, 16);
    copy_rows(others, 0, 16);
}

static void
rows_are_too_long(void)
{
    copy_rows(memory, 64, 7);
}

static void
rows_overlap(void)
{
    copy_rows(memory, 0, 8);
}

static void
queues_wait_for_each_other(void)
{
    RtQueue *copies = own->queues[QUEUE_COPY];
    own->ops->wait_event(compute(), (RtEvent){copies, 2});
    own->ops->wait_event(copies, (RtEvent){compute(), 1});
    own->ops->fill(copies, at(0), 0, 1);
    finish();
}

static const struct {
    void (*f)(void);
    int signal_number;
    const char *says;
} complaints[] = {
    {host_reads, SIGSEGV,
     "sandbox: the host touched memory of sandbox:0 at +8\n"},
    {hook_reads, SIGSEGV,
     "sandbox: a hook on sandbox:0 touched memory of sandbox:0 at +24\n"},
    {program_reads_other, SIGSEGV,
     "sandbox: code on sandbox:0 touched memory of sandbox:1 at +32\n"},
    {source_changes, SIGABRT,
     "sandbox: what copy_in on sandbox:0 compute points to has changed since "
     "it was enqueued\n"},
    {launch_changes, SIGABRT,
     "sandbox: what launch_program on sandbox:0 compute points to has "
     "changed"},
    {kernel_changes, SIGABRT,
     "sandbox: what launch_kernel on sandbox:0 compute points to has changed"},
    {end_is_outside, SIGABRT,
     "sandbox: fill of 9 bytes at +8184 of an allocation of 8192 bytes of "
     "sandbox:0\n"},
    {memory_is_of_another, SIGABRT,
     "sandbox: copy_out of memory that is not sandbox:0's, or no longer\n"},
    {memory_is_freed, SIGABRT,
     "sandbox: copy of memory that is not any device's, or no longer\n"},
    {copies_overlap, SIGABRT,
     "sandbox: copy of 8 bytes from +7 to +0, which overlap\n"},
    {program_is_unknown, SIGABRT, "sandbox: program 1 of 1\n"},
    {program_on_copies, SIGABRT,
     "sandbox: a program is launched on the queue copy\n"},
    {callback_enqueues, SIGABRT, "sandbox: fill is enqueued by call_host\n"},
    {program_enqueues_copies, SIGABRT,
     "sandbox: fill is enqueued on sandbox:0 copy by a program on "
     "sandbox:0\n"},
    {program_asks_other, SIGABRT,
     "sandbox: copy_in is asked of sandbox:1 by sandbox:0\n"},
    {host_asks, SIGABRT, "sandbox: copy_in is asked of sandbox:0 by the host"},
    {event_is_of_the_future, SIGABRT,
     "sandbox: the host waits for an event that was never recorded\n"},
    {waits_for_other, SIGABRT,
     "sandbox: sandbox:0 waits for an event of sandbox:1 that was never "
     "recorded\n"},
    {kernel_reads_other, SIGSEGV,
     "sandbox: code on sandbox:0 touched memory of sandbox:1 at +0\n"},
    {rows_are_not_reached, SIGABRT,
     "sandbox: copy_rows of memory that sandbox:0 does not reach\n"},
    {rows_are_too_long, SIGABRT, "sandbox: copy_rows of rows that overlap\n"},
    {rows_overlap, SIGABRT,
     "sandbox: copy_rows of 8 bytes from +0 to +0, which overlap\n"},
    {queues_wait_for_each_other, SIGABRT,
     "sandbox: sandbox:0 compute waits for sandbox:0 copy\n"
     "sandbox: sandbox:0 copy waits for sandbox:0 compute\n"
     "sandbox: nothing can go on, and what the host waits for has not "
     "happened\n"},
};

static void
mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        assert_dies(complaints[i].f, complaints[i].signal_number,
                    complaints[i].says);
}

static void
options_are_checked(void **state)
{
    static const char *const wrong[] = {"seed",     "seed:x",      "fast",
                                        "trace,no", "bandwidth:0", "seed:-1"};
    RtDevice *d;
    RtDeviceConfig config = {.name = "sandbox:0", .clock = clock_seconds};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("TFD_SANDBOX", wrong[i], 1);
        Status st = rt_sandbox_open(&config, &d);
        assert_non_null(st);
        assert_int_equal(status_kind(st), STATUS_USAGE);
        status_free(st);
    }
}

/* ---- the order ---------------------------------------------------------- */

/* What has been executed, a letter for each operation. */
static char order[400];

static void
note(void *data)
{
    size_t n = strlen(order);
    order[n] = *(const char *)data;
    order[n + 1] = '\0';
}

static void
call(RtQueue *q, const char *letter)
{
    q->device->ops->call_host(q, note, (char *)letter);
}

/* Waits let b go after a, and A after b. */
static void
enqueue_letters(void)
{
    RtQueue *copies = own->queues[QUEUE_COPY];
    RtQueue *third = own->queues[QUEUE_COLL];
    call(third, "x");
    call(compute(), "a");
    RtEvent a = own->ops->record(compute());
    call(copies, "p");
    own->ops->wait_event(copies, a);
    call(copies, "b");
    own->ops->wait_event(third, own->ops->record(copies));
    call(third, "A");
    call(third, "z");
    call(compute(), "c");
}

static const char *
order_of(const char *options, RtQueueKind awaited)
{
    order[0] = '\0';
    open_both(options);
    enqueue_letters();
    if (strstr(options, "seed:0"))
        assert_string_equal(order, "");
    rt_event_wait(own->ops->record(own->queues[awaited]));
    strcat(order, "|");
    close_both();
    return order;
}

static void
seed_0_does_what_is_needed(void **state)
{
    (void)state;
    assert_string_equal(order_of("seed:0", QUEUE_COMPUTE), "ac|pbxAz");
    assert_string_equal(order_of("seed:0", QUEUE_COPY), "pab|cxAz");
    assert_string_equal(order_of("seed:0", QUEUE_COLL), "xpabAz|c");
}

static void
assert_before(const char *text, char first, char second)
{
    const char *a = strchr(text, first), *b = strchr(text, second);
    if (!a || !b || a > b)
        fail_msg("%c is not before %c in %s", first, second, text);
}

/* All orders are legal, a seed repeats its own, and not all are the same. */
static void
seeds_choose_the_order(void **state)
{
    char seen[MANY_SEEDS][sizeof order], options[32];
    int different = 0;
    (void)state;
    for (int seed = 1; seed < MANY_SEEDS; seed++) {
        snprintf(options, sizeof options, "seed:%d", seed);
        strcpy(seen[seed], order_of(options, QUEUE_COPY));
        assert_string_equal(order_of(options, QUEUE_COPY), seen[seed]);
        static const char *const rows[] = {"ab", "pb", "bA", "xA",
                                           "Az", "ac", "b|"};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_before(order, rows[i][0], rows[i][1]);
        different += seed > 1 && strcmp(seen[seed], seen[seed - 1]) != 0;
    }
    assert_true(different > MANY_SEEDS / 2);
}

/* ---- what the host sees too early --------------------------------------- */

static void
results_are_there_after_the_wait(void **state)
{
    int sent = 42, back = 7;
    TfdCall call = {.abi = TFD_ABI};
    RtProgramLaunch l = {.program = 0, .call = &call};
    (void)state;
    open_both("seed:0");
    body = read_own;
    own->ops->copy_in(compute(), at(0), &sent, sizeof sent);
    own->ops->copy_out(compute(), &back, at(0), sizeof back);
    own->ops->launch_program(compute(), &l);
    assert_int_not_equal(back, 42);
    assert_int_not_equal(back, 7);
    assert_int_not_equal(l.status, 0);
    finish();
    assert_int_equal(back, 42);
    assert_int_equal(l.status, 0);
    close_both();
}

/* ---- within a program --------------------------------------------------- */

static int times;

static int32_t
do_nothing(TfdCall *call, int32_t index)
{
    (void)call, (void)index;
    return 0;
}

static int32_t
call_hooks(TfdCall *call)
{
    for (int32_t i = 0; i < 4; i++) {
        note("h");
        call->hooks->op(call, i);
    }
    return 0;
}

/* Copies beside a program are executed in its midst. */
static void
copies_interleave_with_programs(void **state)
{
    static const TfdHooks idle = {.abi = TFD_ABI, .op = do_nothing};
    char options[32];
    int midst = 0;
    (void)state;
    for (int seed = 1; seed < MANY_SEEDS; seed++) {
        snprintf(options, sizeof options, "seed:%d", seed);
        open_both(options);
        order[0] = '\0';
        call(own->queues[QUEUE_COPY], "p");
        assert_int_equal(launch(call_hooks, &idle), 0);
        close_both();
        midst += strncmp(order, "hp", 2) == 0 || strstr(order, "hph") != NULL;
        times++;
    }
    assert_true(midst > 3);
}

/* Each of the 1000 words is copied once, in whatever chunks. */
static void
kernels_are_executed_in_chunks(void **state)
{
    int64_t words[512], back[512];
    char options[32];
    (void)state;
    for (int i = 0; i < 512; i++)
        words[i] = i;
    for (int seed = 0; seed < MANY_SEEDS; seed++) {
        snprintf(options, sizeof options, "seed:%d", seed);
        open_both(options);
        void *ptrs[] = {(char *)memory->address + 4096,
                        (char *)memory->address};
        RtKernelLaunch l = {
            .kernel = 0, .ptrs = ptrs, .count = 512, .grain = 10};
        own->ops->copy_in(compute(), at(0), words, sizeof words);
        own->ops->launch_kernel(compute(), &l);
        own->ops->copy_out(compute(), back, at(4096), sizeof back);
        finish();
        assert_memory_equal(back, words, sizeof back);
        close_both();
    }
}

static RtWaitWord word;

/* Each goes on when the other has counted. */
static int32_t
take_turns(TfdCall *call)
{
    RtDevice *d = call->context;
    for (uint32_t i = d == other; i < 20; i += 2) {
        uint32_t now = rt_wait_word_load(&word);
        while (now < i)
            now = d->ops->program->wait_word(d, &word, now);
        assert_int_equal(now, i);
        rt_wait_word_add(&word, 1);
    }
    return 0;
}

static void
waiting_programs_let_others_go_on(void **state)
{
    char options[32];
    (void)state;
    for (int seed = 0; seed < MANY_SEEDS; seed++) {
        snprintf(options, sizeof options, "seed:%d", seed);
        open_both(options);
        rt_wait_word_store(&word, 0);
        body = take_turns;
        TfdCall first = {.abi = TFD_ABI, .context = own};
        TfdCall second = {.abi = TFD_ABI, .context = other};
        RtProgramLaunch l = {.call = &first}, m = {.call = &second};
        other->ops->launch_program(other->queues[QUEUE_COMPUTE], &m);
        own->ops->launch_program(compute(), &l);
        finish();
        close_both();
        assert_int_equal(rt_wait_word_load(&word), 20);
    }
}

/* ---- TFD_SANDBOX=engine -------------------------------------------------- */

static void
add_ten(void *data)
{
    *(int *)data += 10;
}

static int32_t
start_and_wait(TfdCall *call)
{
    RtQueue *q = own->queues[QUEUE_COLL];
    own->ops->run(q, add_ten, call->context, 8);
    RtEvent e = own->ops->record(q);
    while (!own->ops->wait(e))
        ;
    return *(int *)call->context;
}

static void
engines_run_beside_programs(void **state)
{
    static const char *const options[] = {"seed:0", "seed:3", "engine",
                                          "no-overlap"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        int sum = 3;
        TfdCall call = {.abi = TFD_ABI, .context = &sum};
        RtProgramLaunch l = {.call = &call};
        open_both(options[i]);
        body = start_and_wait;
        own->ops->launch_program(compute(), &l);
        finish();
        assert_int_equal(l.status, 13);
        close_both();
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(seed_0_does_what_is_needed),
        cmocka_unit_test(seeds_choose_the_order),
        cmocka_unit_test(results_are_there_after_the_wait),
        cmocka_unit_test(copies_interleave_with_programs),
        cmocka_unit_test(kernels_are_executed_in_chunks),
        cmocka_unit_test(waiting_programs_let_others_go_on),
        cmocka_unit_test(engines_run_beside_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
