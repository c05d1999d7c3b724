/*
 * memory.c - the memory that a run needs, and whether it is available
 *
 * It is known before main is called, except for the elements that datasets keep
 * of files.  A run that would be killed for lack of memory is refused before it
 * begins.
 */
#include "runtime/run/memory.h"

#include <stdlib.h>
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/gpu_memory.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/live_range.h"
#include "ir/base/message.h"
#include "ir/base/usage.h"
#include "runtime/exec/position.h"
#include "runtime/exec/run_state.h"

enum { MEGABYTE_BITS = 20 };

double
rt_megabytes(int64_t bytes)
{
    return (double)bytes / 1e6;
}

/* ---- the need ------------------------------------------------------------ */

static int64_t
frame_bytes(const RtRun *run)
{
    IrFunc *fn = ir_main(run->module);
    return fn ? ir_frame_bytes(fn) : 0;
}

static int64_t
data_bytes(const RtRun *run)
{
    int64_t sum = run->stats.file_bytes + run->stats.kept_bytes;
    for (int i = 0; i < run->module->iters.len; i++)
        sum += ir_iter_bytes(run->module, run->module->iters.data[i]);
    return sum;
}

static int64_t
arenas_bytes(const RtRun *run, int num_devices, bool reserved)
{
    if (!run->caps->uses_host_memory)
        return 0;
    if (reserved)
        return run->num_local * run->arena_bytes;
    return ir_arenas_bytes(run->arena, run->module, run->arena_bytes,
                           num_devices * run->size) /
           run->size;
}

/* Of this process of the run, if it were on so many devices; of arenas what is
 * touched, or what is reserved.  Each replica has addresses for a whole arena,
 * also for the shared values in it, which are only in the arena of its device's
 * first. */
static RtFootprint
footprint_on(const RtRun *run, int num_devices, bool reserved)
{
    const RtResume *r = &run->resume;
    RtFootprint n = {.arenas = arenas_bytes(run, num_devices, reserved),
                     .frame = frame_bytes(run),
                     .data = data_bytes(run),
                     .copy = r->folder ? r->bytes : 0};
    n.all = n.arenas + n.frame + n.data + n.copy;
    return n;
}

RtFootprint
rt_memory_footprint(const RtRun *run)
{
    return footprint_on(run, run->num_devices, false);
}

/* ---- whether it is available --------------------------------------------- */

/* The memory in TFD_MEMORY, in bytes; -1: not set. */
static Status
stated_room(int64_t *out)
{
    enum { MOST_DIGITS = 12 };
    const char *text = getenv("TFD_MEMORY");
    *out = -1;
    if (!text || !*text)
        return OK;
    size_t digits = strspn(text, "0123456789");
    if (text[digits] || digits > MOST_DIGITS)
        return status_new(STATUS_USAGE,
                          "TFD_MEMORY is a number of megabytes, of at most %d "
                          "digits, or 0 for no limit, and not \"%s\"",
                          MOST_DIGITS, text);
    int64_t n = strtoll(text, NULL, 10);
    *out = n ? n << MEGABYTE_BITS : INT64_MAX;
    return OK;
}

/* The largest users of a device's memory, and their sources. */
static Status
show_largest(const RtRun *run, Status st)
{
    RtNotes notes = {0};
    IrLarge large[IR_LARGEST];
    int num = ir_largest_at_peak(run->arena, run->module, large);
    for (int i = 0; i < num; i++) {
        RtNote note = {large[i].loc,
                       arena_printf(run->arena, "%.3f MB of each device are %s",
                                    rt_megabytes(large[i].bytes),
                                    large[i].what)};
        VEC_PUSH(run->arena, notes, note);
    }
    return rt_show_notes(run, &notes, st);
}

/* The most devices, fewer than now, on which the run touches no more bytes; 0
 * if there is no such number. */
static int
devices_that_fit(const RtRun *run, int64_t bytes)
{
    for (int n = run->num_devices - 1; n > 0; n--)
        if (run->num_local % n == 0 && footprint_on(run, n, false).all <= bytes)
            return n;
    return 0;
}

static const char *
advice(const RtRun *run, int64_t bytes, bool reserved)
{
    IrDevices fewer = run->device_list;
    fewer.len = reserved ? 0 : devices_that_fit(run, bytes);
    if (run->num_devices == 1)
        return message_part(MESSAGE("compile it with smaller batches"));
    if (!fewer.len)
        return message_part(
            MESSAGE("compile it for fewer devices or with smaller batches"));
    return message_printf(
        run->arena,
        "tfd-run --devices %s needs %.3f MB, to the same bits; or compile it "
        "with smaller batches",
        ir_devices_text(run->arena, &fewer),
        rt_megabytes(footprint_on(run, fewer.len, false).all));
}

static Status
check_room(const RtRun *run, UsageRoom room, bool reserved)
{
    RtFootprint n = footprint_on(run, run->num_devices, reserved);
    room.bytes /= run->local_size; /* the others take as much */
    if (n.all <= room.bytes)
        return OK;
    return show_largest(
        run,
        status_new(STATUS_MACHINE,
                   "cannot run \"%s\": it needs %.3f MB of memory, and there "
                   "are %.3f MB (%s); %.3f MB are for %d device%s, %.3f for "
                   "main, %.3f for data, %.3f for a checkpoint: %s "
                   "(TFD_MEMORY=0 runs it all the same)",
                   run->plan->path, rt_megabytes(n.all),
                   rt_megabytes(room.bytes), room.of, rt_megabytes(n.arenas),
                   run->num_devices, run->num_devices > 1 ? "s" : "",
                   rt_megabytes(n.frame), rt_megabytes(n.data),
                   rt_megabytes(n.copy), advice(run, room.bytes, reserved)));
}

Status
rt_check_memory(const RtRun *run)
{
    int64_t stated;
    TRY(stated_room(&stated));
    if (stated >= 0)
        return check_room(run, (UsageRoom){stated, "TFD_MEMORY"}, false);
    TRY(check_room(run, usage_reservable(), true));
    return check_room(run, usage_room(), false);
}

/* ---- of devices ---------------------------------------------------------- */

static IrGpuMemory
device_need(const RtRun *run)
{
    int64_t staging = ir_gpu_memory(run->module, 0, 1, true, false).staging;
    bool uses_nccl = run->size > 1 || ir_asks_for_nccl(run->module);
    return ir_gpu_memory(run->module, run->arena_bytes - staging,
                         run->replicas_each, true, uses_nccl);
}

static Status
refuse_device(const RtRun *run, const RtDevice *d, const IrGpuMemory *n,
              size_t available, size_t total)
{
    IrGpuRemedies r =
        ir_gpu_remedies(run->arena, run->module, n, (int64_t)available);
    return show_largest(
        run,
        status_new(
            STATUS_MACHINE,
            "cannot run \"%s\": it needs %.3f MB of %s, and %.3f of its "
            "%.3f MB are free; %.3f MB are for %d replica%s, %.3f for "
            "the next batch, at most %.3f for graphs, %.3f for kernels and "
            "%.3f for NCCL: %s (TFD_MEMORY=0 runs it all the same)",
            run->plan->path, rt_megabytes(n->all), d->name,
            rt_megabytes((int64_t)available), rt_megabytes((int64_t)total),
            rt_megabytes(n->arenas), n->replicas, n->replicas > 1 ? "s" : "",
            rt_megabytes(n->staging), rt_megabytes(n->graphs),
            rt_megabytes(n->modules + n->scratch), rt_megabytes(n->nccl),
            ir_gpu_remedies_text(run->arena, &r)));
}

Status
rt_check_device_memory(const RtRun *run, RtDevice *d)
{
    int64_t stated;
    size_t available, total;
    TRY(stated_room(&stated));
    if (!d->ops->room || stated == INT64_MAX)
        return OK;
    IrGpuMemory n = device_need(run);
    TRY(d->ops->room(d, &available, &total));
    return n.all <= (int64_t)available
               ? OK
               : refuse_device(run, d, &n, available, total);
}
