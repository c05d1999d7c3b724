/*
 * memory.c - what a placed module needs, and what it could do with
 *
 * Works on places alone and knows nothing of how they were chosen, so that it
 * holds for modules that were read as text, too, and notices an allocator that
 * wastes.
 */
#include "passes/memory/memory.h"

#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/lifetime.h"
#include "ir/analysis/room.h"
#include "ir/analysis/stay.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- a device ----------------------------------------------------------- */

typedef struct Device {
    Arena *arena;
    DeviceMemory *memory;
    IrStays rows; /* of main */
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
    IrStays stays = ir_stays(d->arena, fn, SPACE_ARENA, past);
    ProgramMemory p = {fn, ir_whole_lines(fn->arena_bytes),
                       ir_alive_at_most(d->arena, &stays, NULL), 0};
    ProgramMemory *of =
        fn->variant_of ? find_program(d->memory, fn->variant_of) : NULL;
    if (of) {
        of->arena = larger(of->arena, p.arena);
        of->live = larger(of->live, p.live);
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
            sum += ir_whole_lines(bytes);
    }
    return sum;
}

/* What a launched program has beside variables and what it makes itself. */
static void
add_launch(Device *d, const IrRoom *room)
{
    ProgramMemory *p =
        find_program(d->memory, ir_text(room->launch, A_program));
    int64_t rows =
        ir_alive_at(d->arena, &d->rows, span_of(room->launch)->begin);
    if (!p)
        return;
    p->given = larger(p->given, rows + bytes_staged(room->launch));
    p->arena = larger(p->arena, ir_whole_lines(ir_room_stage(room, NULL)));
}

static void
add_launches(Device *d, const IrModule *m)
{
    IrRooms launches = ir_launch_rooms(d->arena, m);
    for (int i = 0; i < launches.len; i++)
        add_launch(d, &launches.data[i]);
}

static int64_t
bytes_of_vars(const IrModule *m)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < m->vars.len; i++)
        if (ir_type_bytes(m, &m->vars.data[i]->type, &bytes))
            sum += ir_whole_lines(bytes);
    return sum;
}

DeviceMemory
memory_of_devices(Arena *a, const IrModule *m)
{
    DeviceMemory dm = {.vars = bytes_of_vars(m)};
    Device d = {.arena = a, .memory = &dm};
    int64_t past = ir_vars_end(m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            add_program(&d, fn, past);
    for (IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_MAIN)
            continue;
        d.rows = ir_stays(a, fn, SPACE_ROW, past);
        dm.rows = ir_alive_at_most(a, &d.rows, NULL);
        add_launches(&d, m);
    }
    dm.arena = past;
    dm.live = dm.vars + dm.rows;
    for (int i = 0; i < dm.programs.len; i++) {
        const ProgramMemory *p = &dm.programs.data[i];
        dm.arena = larger(dm.arena, p->arena);
        dm.live = larger(dm.live, dm.vars + p->given + p->live);
    }
    return dm;
}
