/*
 * null_test.c - devices that take time and execute nothing
 */
#include "tests/devices/runs.h"

#include <math.h>
#include <sys/mman.h>
#include "ir/analysis/cost.h"
#include "runtime/hal/registry/driver.h"

/* ---- the model ---------------------------------------------------------- */

/* A product of [4, 8] and [8, 2] on each of two replicas, and a sum over both
 * of its 8 floats, which are squared. */
static const char product[] =
    "func @main() main {\n"
    "  run {\n"
    "    %c: f32 mirrored = constant {dims=[] dtype=f32 data=[0.5]}\n"
    "    %x: f32[4, 8] mirrored = broadcast %c {dims=[4, 8]}\n"
    "    %y: f32[8, 2] mirrored = broadcast %c {dims=[8, 2]}\n"
    "    %id: i32 per_replica = replica_id\n"
    "    %f: f32 per_replica = cast %id {dtype=f32}\n"
    "    %wide: f32[4, 8] per_replica = broadcast %f {dims=[4, 8]}\n"
    "    %part: f32[4, 8] per_replica = add %x, %wide\n"
    "    %z: f32[4, 2] per_replica = dot %part, %y {contract_x=[1] "
    "contract_y=[0]}\n"
    "    %all: f32[4, 2] mirrored = all_reduce %z {op=sum}\n"
    "    %square: f32[4, 2] mirrored = mul %all, %all\n"
    "    print %square {format=\"{}\"}\n"
    "    yield\n"
    "  }\n"
    "  return\n"
    "}\n";

static double
seconds_on(IrMachine machine, int num_devices)
{
    double sum = 0.0;
    IrModule *m = build_placed(arena, program(2, product));
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            sum += ir_program_seconds(m, fn, &machine, num_devices);
    return sum;
}

static void
time_follows_the_model(void **state)
{
    (void)state;
    IrMachine machine = {INFINITY, INFINITY, INFINITY, 0.0, 0.0, 0.0};
    assert_true(seconds_on(machine, 2) == 0.0);
    machine.operations = 1.0; /* 2 * 4 * 2 * 8, and elementwise ones */
    double operations = seconds_on(machine, 2);
    assert_true(operations >= 128.0 && operations < 128.0 + 4 * 32);
    machine.operations = INFINITY;
    machine.link_bytes = 1.0; /* each sends half of 32 bytes twice */
    assert_true(seconds_on(machine, 2) == 32.0);
    machine.link_bytes = INFINITY;
    machine.collective = 3.0;
    assert_true(seconds_on(machine, 2) == 3.0);
}

/* Two replicas on one device: it computes what is the same for both once, and
 * the rest twice; nothing crosses a link. */
static void
replicas_of_a_device_take_turns(void **state)
{
    (void)state;
    IrMachine machine = {1.0, INFINITY, INFINITY, 0.0, 0.0, 0.0};
    double own = seconds_on(machine, 2), shared = seconds_on(machine, 1);
    enum { ONCE = 4 * 2 }; /* elements of %square */
    assert_true(shared >= 2 * 128.0 && shared == 2 * own - ONCE);
    machine.operations = INFINITY;
    machine.link_bytes = 1.0;
    assert_true(seconds_on(machine, 1) == 0.0);
    machine.collective = 3.0;
    assert_true(seconds_on(machine, 1) == 3.0);
}

/* ---- the device --------------------------------------------------------- */

static double now;

static double
stopped_clock(void)
{
    return now;
}

static int32_t
never_called(TfdCall *call)
{
    (void)call;
    fail_msg("a null device executes code");
    return 1;
}

static RtDevice *
open_null(void)
{
    RtDevice *d;
    RtDeviceConfig config = {.name = "null:0", .clock = stopped_clock};
    assert_null(rt_driver_find(DEVICE_null)->open(&config, &d));
    return d;
}

static void
a_launch_takes_its_time(void **state)
{
    static TfdFunction *const programs[] = {never_called};
    static const double seconds[] = {1e-5};
    static const RtDeviceCode code = {
        .num_programs = 1, .programs = programs, .seconds = seconds};
    RtDevice *d = open_null();
    RtQueue *q = d->queues[QUEUE_COMPUTE];
    TfdCall call = {.abi = TFD_ABI};
    RtProgramLaunch launch = {.call = &call, .status = -1};
    (void)state;
    assert_null(d->ops->load(d, &code));
    RtEvent before = d->ops->record(q);
    d->ops->launch_program(q, &launch);
    RtEvent after = d->ops->record(q);
    assert_true(d->ops->wait(before));
    assert_false(d->ops->wait(after));
    now += 2e-5;
    assert_true(d->ops->wait(after));
    assert_int_equal(launch.status, 0);
    d->ops->close(d);
}

/* Whoever follows an address of its memory ends with a fault. */
static void
memory_is_out_of_reach(void **state)
{
    const RtMemory *memory;
    RtDevice *d = open_null();
    char back[4] = "abc";
    unsigned char resident;
    (void)state;
    assert_null(d->ops->alloc(d, (size_t)1 << 40, 0, true, &memory));
    assert_null(memory->host);
    rt_copy_in((RtDevicePtr){memory, 0}, "xyz", 4);
    rt_copy_out(back, (RtDevicePtr){memory, 0}, 4);
    assert_memory_equal(back, "\0\0\0\0", 4);
    assert_int_equal(mincore((void *)memory->address, 4096, &resident), 0);
    assert_int_equal(resident & 1, 0);
    d->ops->close(d);
}

/* ---- runs --------------------------------------------------------------- */

static const char checks[] =
    "var @w: f32 sync(on_write) aggregate(none) init @w.init at 1:1+4\n"
    "func @w.init() init {\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[3.0]}\n"
    "  return %0\n"
    "}\n"
    "func @main() main {\n"
    "  %w: f32 = read {var=@w}\n"
    "  %0: f32 = constant {dims=[] dtype=f32 data=[1.0]}\n"
    "  %more: bool = gt %w, %0\n"
    "  assert %more {format=\"w is large\"}\n"
    "  print %w {format=\"w {}\"}\n"
    "  return\n"
    "}\n";

static void
values_are_zeros_and_not_checked(void **state)
{
    (void)state;
    assert_prints(program(2, checks), (RtOptions){0}, "w 3.0\n");
    assert_prints(program(2, checks), (RtOptions){.devices = "null:0-1"},
                  "w 0.0\n");
    assert_prints(program(2, product), (RtOptions){.devices = "null:0-1"}, "");
}

static void
kinds_do_not_mix(void **state)
{
    (void)state;
    assert_fails(program(2, product), (RtOptions){.devices = "null:0,cpu:0"},
                 STATUS_USAGE,
                 "null:0 and cpu:0 cannot run one plan: all devices of a run "
                 "are of one kind");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_follows_the_model),
        cmocka_unit_test(replicas_of_a_device_take_turns),
        cmocka_unit_test(a_launch_takes_its_time),
        cmocka_unit_test(memory_is_out_of_reach),
        cmocka_unit_test(values_are_zeros_and_not_checked),
        cmocka_unit_test(kinds_do_not_mix),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
