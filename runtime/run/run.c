/*
 * run.c - runs a plan
 *
 * Opening first checks the plan, and then takes resources of the machine:
 * params, code, functions, then devices, then files.
 */
#include "runtime/run/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "ir/analysis/gpu_memory.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/live_range.h"
#include "ir/base/clock.h"
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "ir/plan/abi.h"
#include "runtime/evaluator/evaluator.h"
#include "runtime/exec/end.h"
#include "runtime/exec/function.h"
#include "runtime/exec/output.h"
#include "runtime/exec/params.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/bounded.h"
#include "runtime/hal/wait.h"
#include "runtime/hal/registry/driver.h"
#include "runtime/metrics/metrics.h"
#include "runtime/ops/batch.h"
#include "runtime/ops/host_ops.h"
#include "runtime/ops/iter.h"
#include "runtime/ops/launch.h"
#include "runtime/profile/recorder.h"
#include "runtime/profile/report.h"
#include "runtime/ps/ps.h"
#include "runtime/check/check_nan.h"
#include "runtime/run/checksum.h"
#include "runtime/run/compare.h"
#include "runtime/run/hooks.h"
#include "runtime/run/join.h"
#include "runtime/run/memory.h"
#include "runtime/run/preflight.h"
#include "runtime/run/stats.h"

#define USUAL_TIMEOUT 300.0

/* ---- opening ----------------------------------------------------------- */

/* Compiled code identifies operations, places and dimensions by number, so it
 * runs only with the module that it was compiled from. */
static Status
check_module_symbol(const RtRun *run)
{
    const char *hash = run->plan->ir_hash;
    if (hash &&
        !rt_code_function(
            run->code, arena_printf(run->arena, PLAN_MODULE_SYMBOL "%s", hash)))
        return plan_refuse(run->plan,
                           "its code was not compiled from its placed.tir");
    return OK;
}

static Status
load_code(RtRun *run, const IrFunc *main_ir, RtFunction **main_fn)
{
    const PlanCode *host = run->host_target;
    TRY(rt_code_open(host->objects, host->num_objects, &run->code));
    TRY(check_module_symbol(run));
    TRY(rt_code_tables(run->arena, run->plan, run->code, run->enqueues,
                       &run->tables));
    TRY(rt_measure_arena(run));
    TRY(rt_load_elements(run));
    TRY(rt_load_function(run, main_ir->name, FUNC_MAIN, main_fn));
    TRY(rt_reserve_staging(run));
    TRY(rt_ps_load(run, *main_fn));
    return rt_reserve_slots(run);
}

/* "1, 2, 4 or 8": the divisors of n. */
static const char *
list_divisors(Arena *a, int n)
{
    Str s = str_new(a);
    for (int i = 1; i <= n; i++)
        if (n % i == 0)
            str_addf(&s, "%s%d", i == 1 ? "" : i == n ? " or " : ", ", i);
    return str_text(&s);
}

/* Devices that execute programs as a whole can also be given their work piece
 * by piece, as others get it. */
static bool
tests_enqueuing(void)
{
    const char *setting = getenv("TFD_PROGRAMS");
    return setting && strcmp(setting, "enqueue") == 0;
}

/* Replicas execute collectives together, so all devices are of one kind. */
static Status
check_drivers(RtRun *run)
{
    IrDevice first = run->device_list.data[0];
    for (int i = 0; i < run->device_list.len; i++) {
        IrDevice d = run->device_list.data[i];
        if (d.kind != first.kind)
            return status_new(STATUS_USAGE,
                              "%s and %s cannot run one plan: all devices of "
                              "a run are of one kind",
                              ir_device_name(run->arena, first),
                              ir_device_name(run->arena, d));
    }
    run->caps = rt_driver_find(first.kind)->caps;
    run->enqueues = run->caps->enqueues_programs || run->options->compare ||
                    tests_enqueuing();
    return OK;
}

/* Of the job's processes each has equally many replicas, next to one another.
 */
static Status
divide_replicas(RtRun *run)
{
    int all = run->num_replicas;
    if (all % run->size)
        return status_new(STATUS_USAGE,
                          "the plan's %d replica%s cannot be divided among %d "
                          "processes evenly: start %s",
                          all, all > 1 ? "s" : "", run->size,
                          list_divisors(run->arena, all));
    run->num_local = all / run->size;
    if (run->group && run->num_local > MOST_LOCAL)
        return status_new(STATUS_USAGE,
                          "%d replicas are more than a process of a job has: "
                          "run them in more processes",
                          run->num_local);
    run->first_local = run->rank * run->num_local;
    return OK;
}

/* How far the numbers of a list reach. */
static int
reach_of(IrDevices list)
{
    int least = INT_MAX, most = 0;
    for (int i = 0; i < list.len; i++) {
        int index = list.data[i].index;
        least = index < least ? index : least;
        most = index > most ? index : most;
    }
    return most - least + 1;
}

/* So many devices of this process among those of a list, each process of a
 * machine those behind the ones of the process before it.  GPUs are counted on
 * where the list ends, since no two processes have one together; where a
 * launcher has dealt them out a process sees no others, and counts from 0. */
static Status
take_devices(RtRun *run, int num)
{
    IrDevices all = run->device_list, own = {0};
    const RtDriver *driver = rt_driver_find(all.data[0].kind);
    int first = run->local_rank * num, seen = 0;
    if (driver->count && first > 0)
        TRY(driver->count(ir_device_name(run->arena, all.data[0]), &seen));
    for (int i = first; i < first + num; i++) {
        IrDevice d = all.data[i % all.len];
        if (seen)
            d.index = (d.index + i / all.len * reach_of(all)) % seen;
        VEC_PUSH(run->arena, own, d);
    }
    run->device_list = own;
    return OK;
}

/* Devices that are asked for are those of each process; GPUs, of the first one
 * on its machine. */
static Status
take_asked(RtRun *run)
{
    bool are_counted = rt_driver_find(run->device_list.data[0].kind)->count;
    return are_counted ? take_devices(run, run->device_list.len) : OK;
}

Status
rt_devices_asked(Arena *a, const char *list, IrDevices *out)
{
    const char *wrong = ir_devices_parse(a, list, out);
    return wrong ? status_new(STATUS_USAGE, "--devices %s: %s", list,
                              message_part(wrong))
                 : OK;
}

/* Any number of devices with equally many replicas. */
static Status
check_asked(RtRun *run, const char *asked)
{
    TRY(rt_devices_asked(run->arena, asked, &run->device_list));
    int num = run->device_list.len, replicas = run->num_local;
    if (replicas % num == 0)
        return take_asked(run);
    if (run->size > 1)
        return status_new(STATUS_USAGE,
                          "--devices %s are %d, and the %d replica%s of each "
                          "process cannot be divided among them evenly: take "
                          "%s",
                          asked, num, replicas, replicas > 1 ? "s" : "",
                          list_divisors(run->arena, replicas));
    return status_new(STATUS_USAGE,
                      "--devices %s are %d, and the plan's %d replica%s cannot "
                      "be divided among them evenly: take %s, or compile it "
                      "for them with tfdc --devices %s",
                      asked, num, replicas, replicas > 1 ? "s" : "",
                      list_divisors(run->arena, replicas), asked);
}

static Status
check_planned(RtRun *run)
{
    const char *wrong =
        ir_devices_parse(run->arena, run->module->devices, &run->device_list);
    if (wrong)
        return plan_refuse(run->plan, "of its devices, %s",
                           message_part(wrong));
    int workers = run->module->num_workers; /* which each have as many */
    if (run->device_list.len * workers != run->num_replicas)
        return plan_refuse(run->plan, "it names %d devices for %d replicas",
                           run->device_list.len, run->num_replicas);
    if (run->size == 1)
        return OK;
    return take_devices(run,
                        rt_num_planned(run->device_list.len, run->num_local));
}

/* The level that all devices run. */
static Status
common_level(const RtRun *run, int *out)
{
    *out = INT_MAX;
    for (int i = 0; i < run->device_list.len; i++) {
        IrDevice device = run->device_list.data[i];
        const RtDriver *driver = rt_driver_find(device.kind);
        int level = INT_MAX;
        if (driver->level)
            TRY(driver->level(ir_device_name(run->arena, device), device.index,
                              &level));
        *out = level < *out ? level : *out;
    }
    return OK;
}

/* Code that the kernel does not allow is passed over. */
static Status
choose_host_code(const Plan *p, const PlanCode **out)
{
    TRY(plan_choose_code_here(p, out));
    if (target_allow((*out)->target))
        return OK;
    return plan_choose_code(p, DEVICE_cpu, (*out)->target->level - 1, out);
}

/* The host's code, and that of devices which execute other code. */
static Status
choose_code(RtRun *run)
{
    const Plan *p = run->plan;
    IrDeviceKind kind = run->device_list.data[0].kind;
    int level;
    TRY(choose_host_code(p, &run->host_target));
    if (kind == DEVICE_cpu)
        return OK;
    TRY(plan_choose_code(p, kind, INT_MAX, &run->device_target));
    if (!run->device_target)
        return OK;
    TRY(common_level(run, &level));
    return plan_choose_code(p, kind, level, &run->device_target);
}

static Status
choose_devices(RtRun *run)
{
    const char *asked = run->options->devices;
    TRY(divide_replicas(run));
    TRY(asked ? check_asked(run, asked) : check_planned(run));
    run->num_devices = run->device_list.len;
    run->replicas_each = run->num_local / run->num_devices;
    run->devices = NEW_ARRAY(run->arena, RtDevice *, (size_t)run->num_devices);
    TRY(check_drivers(run));
    return choose_code(run);
}

/* Of all devices: the processes of a machine divide its cores. */
static int
threads_of_process(const RtRun *run)
{
    int asked = run->options->num_threads, cores = num_cores();
    int size = run->local_size;
    return asked > 0 ? asked : cores / size + (run->local_rank < cores % size);
}

/* Threads of device number i: its share, at least the one it needs. */
static int
threads_of(const RtRun *run, int i)
{
    int all = threads_of_process(run);
    int share = all / run->num_devices + (i < all % run->num_devices);
    return share > 0 ? share : 1;
}

/* Devices with code of their own have one thread each, which is main's for the
 * one that is launched last. */
static bool
may_spin(const RtRun *run)
{
    int sum = 0;
    if (run->caps->enqueues_programs)
        return rt_may_spin(run->num_devices * run->local_size);
    for (int i = 0; i < run->num_devices; i++)
        sum += threads_of(run, i);
    return rt_may_spin(sum * run->local_size);
}

/* How long each program takes on devices that execute nothing. */
static const double *
program_seconds(const RtRun *run)
{
    const Plan *p = run->plan;
    double *seconds = NEW_ARRAY(run->arena, double, (size_t)p->num_programs);
    for (int i = 0; i < p->num_programs; i++)
        seconds[i] = ir_program_seconds(p->module, p->programs[i],
                                        run->caps->machine, run->num_devices);
    return seconds;
}

static Status
list_device_code(RtRun *run)
{
    RtDeviceCode *code = &run->device_code;
    *code = (RtDeviceCode){.num_kernels = run->plan->num_kernels,
                           .num_programs = run->plan->num_programs,
                           .kernels = run->tables.kernels,
                           .programs = run->tables.programs,
                           .enqueues = run->enqueues,
                           .is_read_along = run->options->compare ||
                                            run->options->check_nan ||
                                            run->options->profile};
    if (run->caps->machine)
        code->seconds = program_seconds(run);
    return run->device_target ? rt_kernel_texts(run->plan, run->device_target,
                                                &code->kernel_texts)
                              : OK;
}

static Status
open_devices(RtRun *run, bool spin)
{
    int on_caller = run->caps->enqueues_programs ? run->num_devices - 1 : 0;
    TRY(list_device_code(run));
    for (int i = 0; i < run->num_devices; i++) {
        IrDevice device = run->device_list.data[i];
        const RtDriver *driver = rt_driver_find(device.kind);
        RtDeviceConfig config = {.name = ir_device_name(run->arena, device),
                                 .index = device.index,
                                 .num_threads = threads_of(run, i),
                                 .spin = spin,
                                 .on_caller = i == on_caller,
                                 .shares_memory = run->coll->shares_memory,
                                 .clock = run->clock};
        TRY(driver->open(&config, &run->devices[i]));
        TRY(rt_check_device_memory(run, run->devices[i]));
        if (run->enqueues)
            run->devices[i]->deferrals =
                rt_deferrals_new(run->arena, (size_t)run->max_copied_bytes);
        TRY(run->devices[i]->ops->load(run->devices[i], &run->device_code));
    }
    return OK;
}

/* NCCL only where it is asked for: the devices of one process reach each other
 * without it. */
static const char *
transport_of(const RtRun *run)
{
    if (run->options->link && run->carrier && run->caps == &rt_cpu_caps)
        return "messages";
    return run->caps == &rt_cuda_caps && ir_asks_for_nccl(run->module) ? "nccl"
                                                                       : NULL;
}

/* The devices of all processes. */
static Status
count_participants(RtRun *run, int *out)
{
    int64_t own = run->num_devices;
    int64_t *all = NEW_ARRAY(run->arena, int64_t, (size_t)run->size);
    TRY(rt_exchange(run, &own, 1, all));
    *out = 0;
    for (int r = 0; r < run->size; r++) {
        *out += (int)all[r];
        if (all[r] != all[0])
            return status_new(STATUS_USAGE,
                              "rank %d has %d devices, and rank 0 %d: all "
                              "processes of a job have equally many",
                              r, (int)all[r], (int)all[0]);
    }
    return OK;
}

static Status
open_coll(RtRun *run)
{
    int num_participants;
    TRY(count_participants(run, &num_participants));
    RtCommConfig config = {.transport = transport_of(run),
                           .rank = run->rank,
                           .size = run->size,
                           .num_replicas = run->num_replicas,
                           .first_local = run->first_local,
                           .num_local = run->num_local,
                           .num_devices = run->num_devices,
                           .num_participants = num_participants,
                           .exchange = run->size > 1 ? &run->exchange : NULL,
                           .caps = run->caps,
                           .devices = run->devices,
                           .carrier = run->carrier,
                           .timeout = run->timeout,
                           .clock = run->clock};
    return rt_coll_open(&config, &run->coll);
}

/* What replicas share is in the arena of the first on the device, all of which
 * is touched; but those of a job with servers touch what they have pulled. */
static Status
allocate_arena(RtRun *run, RtExecutor *replica)
{
    const RtMemory *memory;
    RtDevice *d = replica->device;
    RtExecutor *first =
        run->locals + replica->device_number * run->replicas_each;
    bool is_first = replica == first;
    TRY(d->ops->alloc(d, (size_t)run->arena_bytes,
                      is_first ? 0 : (size_t)run->own_begin,
                      is_first && !run->ps, &memory));
    replica->base = (RtDevicePtr){memory, 0};
    replica->shared = first->base;
    return OK;
}

static Status
make_executors(RtRun *run)
{
    size_t n = (size_t)run->num_replicas;
    rt_executor_init(&run->main, run, -1);
    run->main.recorder = run->profile ? &run->profile->main : NULL;
    run->main.device = run->caps->is_host_visible ? run->devices[0] : NULL;
    run->replicas = NEW_ARRAY(run->arena, RtExecutor, n);
    run->locals = run->replicas + run->first_local;
    for (int i = 0; i < run->num_replicas; i++)
        rt_executor_init(&run->replicas[i], run, i);
    for (int i = 0; i < run->num_local; i++) {
        RtExecutor *replica = &run->locals[i];
        replica->device_number = i / run->replicas_each;
        replica->device = run->devices[replica->device_number];
        if (run->profile)
            replica->recorder = &run->profile->devices[replica->device_number];
        TRY(allocate_arena(run, replica));
    }
    return OK;
}

static void
init(RtRun *run, const Plan *plan, const RtOptions *options)
{
    Arena *a = arena_new(NULL, "run");
    *run = (RtRun){.arena = a,
                   .plan = plan,
                   .module = plan->module,
                   .options = options,
                   .hooks = &rt_hooks,
                   .host_ops = rt_host_ops,
                   .group = options->group,
                   .carrier = options->carrier,
                   .size = 1,
                   .local_size = 1,
                   .num_replicas = plan->module->num_replicas};
    if (run->group) {
        run->exchange = *options->exchange;
        run->rank = run->local_rank = run->group->rank;
        run->size = run->local_size = run->group->size;
    }
    rt_begin_stats(run);
    run->fns = map_new(a);
    run->clock = options->clock ? options->clock : clock_seconds;
    run->timeout = options->timeout > 0 ? options->timeout : USUAL_TIMEOUT;
    run->data_dir =
        options->data_dir ? options->data_dir : file_directory(a, plan->path);
    bool shows = options->progress && rt_is_chief(run);
    rt_progress_begin(&run->progress, shows ? options->err : NULL);
}

static Status
open_run(RtRun *run, RtFunction **main_fn)
{
    IrFunc *main_ir = ir_main(run->module);
    if (!main_ir)
        return plan_refuse(run->plan, "it has no main");
    TRY(rt_join_job(run));
    TRY(rt_ps_open(run));
    TRY(rt_metrics_open(run));
    TRY(rt_evaluator_open(run));
    TRY(choose_devices(run));
    if (run->options->compare)
        TRY(rt_open_comparison(run));
    if (run->options->checkpoint_dir)
        rt_list_safepoints(run, main_ir);
    TRY(rt_open_checkpoints(run));
    TRY(rt_read_params(run));
    rt_ps_tell_params(run);
    rt_ps_set_context(run);
    bool spin = may_spin(run);
    TRY(open_coll(run));
    TRY(rt_follow_job(run));
    TRY(load_code(run, main_ir, main_fn));
    run->own_begin = ir_own_begin(run->arena, run->module);
    TRY(rt_check_memory(run));
    if (run->options->profile)
        TRY(rt_profile_open(run));
    if (run->options->check_nan)
        TRY(rt_open_nan_check(run));
    TRY(open_devices(run, spin));
    TRY(make_executors(run));
    TRY(run->coll->ops->connect(run->coll));
    rt_bind_launches(run);
    TRY(rt_ps_connect_all(run));
    TRY(rt_open_iterators(run));
    return rt_open_events(run);
}

/* Collectives that nobody waited for, because a program failed, may still read
 * and write the memory of other devices: none is closed before all have ended.
 */
static void
wait_for_queues(const RtRun *run)
{
    for (int i = 0; run->devices && i < run->num_devices; i++) {
        RtDevice *d = run->devices[i];
        for (int k = 0; d && k < NUM_QUEUES; k++)
            rt_event_wait(d->ops->record(d->queues[k]));
    }
}

static void
close_devices(RtRun *run)
{
    wait_for_queues(run);
    if (run->coll && run->coll->ops->disconnect)
        run->coll->ops->disconnect(run->coll);
    for (int i = 0; run->devices && i < run->num_devices; i++)
        if (run->devices[i] && run->devices[i]->ops->drain)
            run->devices[i]->ops->drain(run->devices[i]);
    for (int i = 0; run->devices && i < run->num_devices; i++)
        if (run->devices[i])
            run->devices[i]->ops->close(run->devices[i]);
}

static void
close_run(RtRun *run, Status st)
{
    rt_watchdog_closing(run, st);
    rt_metrics_close(run);
    rt_close_iterators(run);
    rt_ps_close(run);
    rt_evaluator_close(run);
    rt_close_checkpoints(run);
    rt_events_close(run->events);
    close_devices(run);
    rt_watchdog_join(run);
    for (int i = 0; run->replicas && i < run->num_replicas; i++)
        rt_executor_deinit(&run->replicas[i]);
    rt_executor_deinit(&run->main);
    if (run->coll)
        run->coll->ops->close(run->coll);
    if (run->group && !run->options->group)
        run->group->ops->close(run->group);
    rt_close_link(run, st);
    rt_close_comparison(run);
    rt_code_close(run->code);
    if (!rt_has_left_threads()) /* which may still use it */
        arena_release(run->arena);
}

/* ---- running ----------------------------------------------------------- */

static Status
enter_main(RtRun *run, const RtFunction *main_fn, RtInvocation *main)
{
    char *frame =
        arena_alloc_on_lines(run->arena, (size_t)ir_frame_bytes(main_fn->ir));
    rt_invocation_init(main, main_fn, &run->main, frame);
    TRY(rt_watchdog_start(run));
    rt_locate_for_job(run);
    TRY(rt_resume(run, main));
    rt_ps_begin_main(run);
    return OK;
}

static Status
call_main(RtRun *run, RtInvocation *main)
{
    run->stats.ready = clock_seconds();
    if (run->carrier)
        run->stats.sent_before = rt_carrier_sent(run->carrier);
    atomic_store(&run->main.running, main);
    if (run->profile)
        rt_profile_begin(run);
    int32_t end = main->fn->code(&main->call);
    if (run->profile)
        rt_profile_end(run);
    rt_watchdog_main_returned(run);
    rt_note_state(run, RT_JOB_RETURNED);
    rt_progress_clear(&run->progress);
    TRY(rt_flush(run));
    TRY(rt_status_of_fault(run)); /* a mark cannot end main */
    TRY(rt_devices_status(run));
    TRY(rt_end_checkpoints(run));
    if (end == EXEC_OK)
        TRY(rt_ps_finish(run));
    if (end != EXEC_OK && rt_stops_here(run))
        TRY(rt_wait_for_others(run)); /* which still save */
    return end == EXEC_OK ? OK : rt_status_of_stop(run);
}

/* A failure ends the waits of all other processes. */
static Status
leave(RtRun *run, Status st)
{
    if (run->coll && st)
        run->coll->ops->abort(run->coll);
    if (run->group && st)
        run->group->ops->abort(run->group);
    return rt_leave_job(run, st);
}

Status
rt_run(const Plan *plan, const RtOptions *options)
{
    RtRun run;
    RtFunction *main_fn;
    RtInvocation main;
    init(&run, plan, options);
    Status st = open_run(&run, &main_fn);
    if (!st)
        st = enter_main(&run, main_fn, &main);
    if (!st && !options->load_only)
        st = run.evaluator          ? rt_evaluator_follow(&run, &main)
             : rt_ps_has_main(&run) ? call_main(&run, &main)
                                    : rt_ps_take_part(&run, &main);
    if (run.evaluator || !rt_ps_has_main(&run)) {
        close_run(&run, st);
        return st;
    }
    if (!st && run.comparison && !options->load_only)
        st = rt_print_comparison(&run);
    if (!st && options->preflight)
        st = rt_preflight(&run);
    if (!st && options->checksum && !options->preflight) {
        st = rt_print_checksum(&run);
        if (!st)
            st = rt_flush(&run);
    }
    if (!st && options->stats && !options->preflight)
        st = rt_print_stats(&run);
    if (!st && options->profile && !options->load_only)
        st = rt_profile_report(&run);
    if (!st) /* who may still use the memory of this one's replicas */
        st = rt_wait_for_others(&run);
    st = leave(&run, st);
    close_run(&run, st);
    return st;
}

int
rt_report(const Plan *plan, Status st, const char *program, FILE *to)
{
    if (!st || !plan || diag_num_errors(plan->diag) == 0)
        return status_report(st, program, to);
    diag_print(plan->diag, to);
    return status_kind(st);
}
