/*
 * memory.c - what a placed module needs, and what it could do with
 *
 * Works on places alone and knows nothing of how they were chosen, so that it
 * holds for modules that were read as text, too, and notices an allocator that
 * wastes.
 *
 * Lifetimes are swept in order of their beginnings; where one begins, the
 * places that are live are laid side by side.
 */
#include "passes/memory.h"

#include <stdlib.h>
#include <string.h>
#include "ir/build.h"
#include "ir/hooks.h"
#include "ir/room.h"
#include "passes/pool.h"

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- who is where, and when --------------------------------------------- */

typedef struct Stay {
    int begin, end; /* positions of lifetime.h */
    int64_t from, to;
} Stay;

typedef VEC(Stay) Stays;

typedef struct Census {
    Arena *arena;
    const IrModule *module;
    IrSpace space;
    Stays stays;
} Census;

static void
count_value(Census *c, const IrValue *v)
{
    const Life *life = life_of(v);
    int64_t bytes;
    if (v->place.space != c->space ||
        !ir_type_bytes(c->module, &v->type, &bytes) || !bytes)
        return;
    int end = life->last_use > life->made ? life->last_use : life->made;
    int64_t to = v->place.offset + ir_whole_lines(bytes);
    Stay s = {life->made - 1, end, v->place.offset, to};
    VEC_PUSH(c->arena, c->stays, s);
}

static void
count_values(Census *c, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        count_value(c, b->args.data[i]);
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            count_value(c, op->results[i]);
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            count_values(c, op->regions[i]);
    }
}

static int
by_begin(const void *x, const void *y)
{
    const Stay *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int
by_offset(const void *x, const void *y)
{
    const Stay *a = x, *b = y;
    return (a->from > b->from) - (a->from < b->from);
}

static void
sort(Stays *s, int (*order)(const void *, const void *))
{
    if (s->len > 1)
        qsort(s->data, (size_t)s->len, sizeof *s->data, order);
}

/* The values of fn in that space, in order of their beginnings; but for those
 * in variables, which end at past. */
static Stays
stays_of(Arena *a, IrFunc *fn, IrSpace space, int64_t past)
{
    Census c = {.arena = a, .module = fn->module, .space = space};
    Stays stays = {0};
    lifetimes_find(a, fn);
    count_values(&c, fn->body);
    for (int i = 0; i < c.stays.len; i++)
        if (c.stays.data[i].from >= past)
            VEC_PUSH(a, stays, c.stays.data[i]);
    sort(&stays, by_begin);
    return stays;
}

/* ---- how much that is --------------------------------------------------- */

/* The bytes that the live ones take together; sorts them. */
static int64_t
bytes_together(Stays *live)
{
    int64_t sum = 0, past = 0;
    sort(live, by_offset);
    for (int i = 0; i < live->len; i++) {
        const Stay *s = &live->data[i];
        int64_t from = larger(s->from, past);
        if (s->to > from)
            sum += s->to - from;
        past = larger(past, s->to);
    }
    return sum;
}

static void
drop_ended(Stays *live, int before)
{
    int n = 0;
    for (int i = 0; i < live->len; i++)
        if (live->data[i].end >= before)
            live->data[n++] = live->data[i];
    live->len = n;
}

static int64_t
live_at_most(Arena *a, const Stays *stays)
{
    Stays live = {0};
    int64_t most = 0;
    for (int i = 0; i < stays->len; i++) {
        int at = stays->data[i].begin;
        drop_ended(&live, at);
        VEC_PUSH(a, live, stays->data[i]);
        if (i + 1 == stays->len || stays->data[i + 1].begin != at)
            most = larger(most, bytes_together(&live));
    }
    return most;
}

static int64_t
live_at(Arena *a, const Stays *stays, int at)
{
    Stays live = {0};
    for (int i = 0; i < stays->len && stays->data[i].begin <= at; i++)
        if (stays->data[i].end >= at)
            VEC_PUSH(a, live, stays->data[i]);
    return bytes_together(&live);
}

/* ---- a device ----------------------------------------------------------- */

typedef struct Device {
    Arena *arena;
    DeviceMemory *memory;
    Stays rows; /* of main */
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
    Stays stays = stays_of(d->arena, fn, SPACE_ARENA, past);
    ProgramMemory p = {fn, ir_whole_lines(fn->arena_bytes),
                       live_at_most(d->arena, &stays), 0};
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
    int64_t rows = live_at(d->arena, &d->rows, span_of(room->launch)->begin);
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

/* Where the last variable ends. */
static int64_t
end_of_vars(const IrModule *m)
{
    int64_t end = 0, bytes;
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        if (ir_type_bytes(m, &v->type, &bytes))
            end = larger(end, v->place.offset + bytes);
    }
    return ir_whole_lines(end);
}

DeviceMemory
memory_of_devices(Arena *a, const IrModule *m)
{
    DeviceMemory dm = {.vars = bytes_of_vars(m)};
    Device d = {.arena = a, .memory = &dm};
    int64_t past = end_of_vars(m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            add_program(&d, fn, past);
    for (IrFunc *fn = m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_MAIN)
            continue;
        d.rows = stays_of(a, fn, SPACE_ROW, past);
        dm.rows = live_at_most(a, &d.rows);
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
