/*
 * live_range.c - which bytes each value occupies, and when
 *
 * A sweep visits the ranges in order of their beginnings, and at each beginning
 * adds up the places that are live.
 */
#include "ir/analysis/live_range.h"

#include <assert.h>
#include <stdlib.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/lifetime.h"
#include "ir/analysis/footprint.h"
#include "ir/base/minmax.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"

/* ---- collecting the ranges ---------------------------------------------- */

typedef struct RangeCollector {
    const IrLifetimes *lifetimes;
    const IrModule *module;
    IrSpace space;
    IrLiveRanges stays;
} RangeCollector;

static void
add_range(RangeCollector *c, const IrValue *v)
{
    const Lifetime *life = ir_lifetime_of(c->lifetimes, v);
    int64_t bytes;
    if (v->place.space != c->space ||
        !ir_type_bytes(c->module, &v->type, &bytes) || !bytes)
        return;
    int end = life->last_use > life->made ? life->last_use : life->made;
    int64_t to = v->place.offset + ir_align_to_line(bytes);
    IrLiveRange s = {v, life->made - 1, end, v->place.offset, to};
    VEC_PUSH(c->lifetimes->arena, c->stays, s);
}

static void
add_ranges(RangeCollector *c, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        add_range(c, b->args.data[i]);
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            add_range(c, op->results[i]);
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            add_ranges(c, op->regions[i]);
    }
}

static int
by_begin(const void *x, const void *y)
{
    const IrLiveRange *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int
by_offset(const void *x, const void *y)
{
    const IrLiveRange *a = x, *b = y;
    return (a->from > b->from) - (a->from < b->from);
}

static void
sort(IrLiveRanges *s, int (*order)(const void *, const void *))
{
    if (s->len > 1)
        qsort(s->data, (size_t)s->len, sizeof *s->data, order);
}

IrLiveRanges
ir_live_ranges(const IrLifetimes *l, const IrFunc *fn, IrSpace space,
               int64_t past)
{
    assert(space != SPACE_NONE);
    RangeCollector c = {.lifetimes = l, .module = fn->module, .space = space};
    IrLiveRanges stays = {0};
    add_ranges(&c, fn->body);
    for (int i = 0; i < c.stays.len; i++)
        if (c.stays.data[i].from >= past)
            VEC_PUSH(l->arena, stays, c.stays.data[i]);
    sort(&stays, by_begin);
    return stays;
}

/* ---- how much that is --------------------------------------------------- */

/* The bytes that the live ranges take together; sorts them. */
static int64_t
bytes_together(IrLiveRanges *live)
{
    int64_t sum = 0, past = 0;
    sort(live, by_offset);
    for (int i = 0; i < live->len; i++) {
        const IrLiveRange *s = &live->data[i];
        int64_t from = max_i64(s->from, past);
        if (s->to > from)
            sum += s->to - from;
        past = max_i64(past, s->to);
    }
    return sum;
}

static void
drop_ended(IrLiveRanges *live, int before)
{
    int n = 0;
    for (int i = 0; i < live->len; i++)
        if (live->data[i].end >= before)
            live->data[n++] = live->data[i];
    live->len = n;
}

/* The worst position so far. */
static int64_t
take_most(Arena *a, int64_t most, IrLiveRanges *live, IrLiveRanges *peak)
{
    int64_t bytes = bytes_together(live);
    if (bytes <= most)
        return most;
    if (peak) {
        peak->len = 0;
        for (int i = 0; i < live->len; i++)
            VEC_PUSH(a, *peak, live->data[i]);
    }
    return bytes;
}

int64_t
ir_peak_live_bytes(Arena *a, const IrLiveRanges *stays, IrLiveRanges *peak)
{
    IrLiveRanges live = {0};
    int64_t most = 0;
    for (int i = 0; i < stays->len; i++) {
        int at = stays->data[i].begin;
        drop_ended(&live, at);
        VEC_PUSH(a, live, stays->data[i]);
        if (i + 1 == stays->len || stays->data[i + 1].begin != at)
            most = take_most(a, most, &live, peak);
    }
    return most;
}

int64_t
ir_live_bytes_at(Arena *a, const IrLiveRanges *stays, int at)
{
    IrLiveRanges live = {0};
    for (int i = 0; i < stays->len && stays->data[i].begin <= at; i++)
        if (stays->data[i].end >= at)
            VEC_PUSH(a, live, stays->data[i]);
    return bytes_together(&live);
}

int64_t
ir_vars_end(const IrModule *m)
{
    int64_t end = 0, bytes;
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        if (ir_type_bytes(m, &v->type, &bytes))
            end = max_i64(end, v->place.offset + bytes);
    }
    return ir_align_to_line(end);
}

int64_t
ir_own_begin(Arena *a, const IrModule *m)
{
    int64_t first = ir_first_own_place(a, m), end = ir_vars_end(m);
    return first < end ? first : end;
}

/* ---- the largest -------------------------------------------------------- */

typedef struct Largest {
    Arena *arena;
    const IrModule *module;
    IrLarge *list;
    int num;
} Largest;

/* Inserts it before smaller ones; the last one is dropped when there is no more
 * space. */
static void
add_large(Largest *l, const char *what, Loc loc, int64_t bytes)
{
    int at = l->num;
    if (l->num < IR_LARGEST)
        l->num++;
    else if (l->list[--at].bytes >= bytes)
        return;
    for (; at > 0 && l->list[at - 1].bytes < bytes; at--)
        l->list[at] = l->list[at - 1];
    l->list[at] = (IrLarge){what, loc, bytes};
}

static void
add_large_vars(Largest *l)
{
    int64_t bytes;
    for (int i = 0; i < l->module->vars.len; i++) {
        const IrVar *v = l->module->vars.data[i];
        if (ir_type_bytes(l->module, &v->type, &bytes))
            add_large(l, arena_printf(l->arena, "the variable \"%s\"", v->name),
                      v->loc, bytes);
    }
}

/* The operation that a message names for a kernel: the last one in it. */
static const char *
maker_of(const IrOp *op)
{
    const IrOp *yield =
        op->kind == OP_kernel ? ir_block_yield(op->regions[0]) : NULL;
    return ir_op_info[(yield && yield->prev ? yield->prev : op)->kind].name;
}

static void
add_large_value(Largest *l, const IrFunc *fn, const IrValue *v)
{
    int64_t bytes;
    const char *what;
    if (!ir_type_bytes(l->module, &v->type, &bytes))
        return;
    if (v->def)
        what = arena_printf(l->arena, "what this %s makes", maker_of(v->def));
    else
        what = v->name ? arena_printf(l->arena, "\"%s\", which it is given",
                                      v->name)
                       : "what it is given";
    add_large(l, what, v->def ? v->def->loc : fn->loc, bytes);
}

/* The program whose launch needs most, counting its host operands. */
static IrFunc *
largest_program(Arena *a, const IrModule *m)
{
    IrFunc *most = NULL;
    int64_t end, most_end = -1;
    IrLaunchFootprints rooms = ir_launch_footprints(a, m);
    for (int i = 0; i < rooms.len; i++) {
        const char *name = ir_text(rooms.data[i].launch, A_program);
        end = ir_launch_stage_operands(&rooms.data[i], NULL);
        if (end > most_end) {
            most = ir_func_find(m, name);
            most_end = end;
        }
    }
    return most;
}

/* The parameters of fn, and the values it has then; of several in one place the
 * first. */
static IrValues
values_at_peak(Arena *a, const IrModule *m, const IrFunc *fn)
{
    IrValues values = {0};
    IrLiveRanges peak = {0};
    IrLifetimes lifetimes = {.arena = a};
    ir_lifetimes_find(&lifetimes, fn);
    IrLiveRanges all =
        ir_live_ranges(&lifetimes, fn, SPACE_ARENA, ir_vars_end(m));
    ir_peak_live_bytes(a, &all, &peak);
    sort(&peak, by_offset);
    for (int i = 0; i < fn->body->args.len; i++)
        VEC_PUSH(a, values, fn->body->args.data[i]);
    for (int i = 0; i < peak.len; i++)
        if (!i || peak.data[i].from >= peak.data[i - 1].to)
            VEC_PUSH(a, values, (IrValue *)peak.data[i].value);
    return values;
}

IrValues
ir_values_at_peak(Arena *a, const IrModule *m)
{
    const IrFunc *most = largest_program(a, m);
    return most ? values_at_peak(a, m, most) : (IrValues){0};
}

int
ir_largest_at_peak(Arena *a, const IrModule *m, IrLarge *out)
{
    Largest l = {a, m, out, 0};
    IrFunc *most = largest_program(a, m);
    add_large_vars(&l);
    if (!most)
        return l.num;
    IrValues values = values_at_peak(a, m, most);
    for (int i = 0; i < values.len; i++)
        add_large_value(&l, most, values.data[i]);
    return l.num;
}
