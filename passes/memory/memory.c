/*
 * memory.c - memory of a placed module, and its lower bound
 *
 * Works on places alone and does not depend on how they were chosen, so it
 * works for modules that were read as text, too, and shows when the allocator
 * wastes memory.
 */
#include "passes/memory/memory.h"

#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/lifetime.h"
#include "ir/analysis/footprint.h"
#include "ir/analysis/live_range.h"
#include "ir/base/minmax.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"

/* ---- a device ----------------------------------------------------------- */

typedef struct Device {
    Arena *arena;
    IrLifetimes lifetimes; /* of main and the programs */
    DeviceMemory *memory;
    IrLiveRanges rows; /* of main */
} Device;

static ProgramMemory *
find_program(DeviceMemory *m, const char *name)
{
    for (int i = 0; i < m->programs.len; i++)
        if (!strcmp(m->programs.data[i].program->name, name))
            return &m->programs.data[i];
    return NULL;
}

/* A program is found before its variants. */
static void
add_program(Device *d, IrFunc *fn, int64_t past)
{
    ir_lifetimes_find(&d->lifetimes, fn);
    IrLiveRanges stays = ir_live_ranges(&d->lifetimes, fn, SPACE_ARENA, past);
    ProgramMemory p = {fn, ir_align_to_line(fn->arena_bytes),
                       ir_peak_live_bytes(d->arena, &stays, NULL), 0};
    const char *name = fn->variant_of ? fn->variant_of : fn->worker_of;
    ProgramMemory *of = name ? find_program(d->memory, name) : NULL;
    if (of) {
        of->arena = max_i64(of->arena, p.arena);
        of->live = max_i64(of->live, p.live);
    } else {
        VEC_PUSH(d->arena, d->memory->programs, p);
    }
}

/* The bytes of the launch's operands that come from the host. */
static int64_t
bytes_staged(const IrOp *launch)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < launch->num_operands; i++) {
        const IrValue *v = launch->operands[i];
        if (v->place.space == SPACE_FRAME &&
            ir_type_bytes(launch->module, &v->type, &bytes))
            sum += ir_align_to_line(bytes);
    }
    return sum;
}

/* The memory of a launched program besides variables and the values it
 * computes. */
static void
add_launch(Device *d, const IrLaunchFootprint *room)
{
    ProgramMemory *p =
        find_program(d->memory, ir_text(room->launch, A_program));
    int64_t rows = ir_live_bytes_at(
        d->arena, &d->rows, ir_span_of(&d->lifetimes, room->launch)->begin);
    if (!p)
        return;
    p->given = max_i64(p->given, rows + bytes_staged(room->launch));
    p->arena = max_i64(p->arena,
                       ir_align_to_line(ir_launch_stage_operands(room, NULL)));
}

static void
add_launches(Device *d, const IrModule *m)
{
    IrLaunchFootprints launches = ir_launch_footprints(d->arena, m);
    for (int i = 0; i < launches.len; i++)
        add_launch(d, &launches.data[i]);
}

static int64_t
bytes_of_vars(const IrModule *m)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < m->vars.len; i++)
        if (ir_type_bytes(m, &m->vars.data[i]->type, &bytes))
            sum += ir_align_to_line(bytes);
    return sum;
}

DeviceMemory
pass_device_memory(Arena *a, const IrModule *m)
{
    DeviceMemory dm = {.vars = bytes_of_vars(m)};
    Device d = {.arena = a, .lifetimes = {.arena = a}, .memory = &dm};
    int64_t past = ir_vars_end(m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            add_program(&d, fn, past);
    for (IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_MAIN)
            continue;
        ir_lifetimes_find(&d.lifetimes, fn);
        d.rows = ir_live_ranges(&d.lifetimes, fn, SPACE_ROW, past);
        dm.rows = ir_peak_live_bytes(a, &d.rows, NULL);
        add_launches(&d, m);
    }
    dm.arena = past;
    dm.live = dm.vars + dm.rows;
    for (int i = 0; i < dm.programs.len; i++) {
        const ProgramMemory *p = &dm.programs.data[i];
        dm.arena = max_i64(dm.arena, p->arena);
        dm.live = max_i64(dm.live, dm.vars + p->given + p->live);
    }
    return dm;
}
