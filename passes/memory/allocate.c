/*
 * allocate.c - lifetimes become offsets
 *
 * Every value of a device program gets a place in the device's arena, the same
 * on all devices; every host value of main one in main's frame, every handle of
 * main a row of the arena that launches read and write.  The arena holds the
 * variables, then main's rows; the values of a program come after the rows that
 * are live when it is launched.  Programs share these bytes, because one runs
 * at a time.
 *
 * Values share bytes so that copies disappear (coalesce.c), and where their
 * lifetimes do not overlap (pool.c).
 */
#include "passes/memory/allocate.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/per_replica.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/footprint.h"
#include "ir/ir.h"
#include "ir/base/minmax.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"
#include "passes/memory/pool.h"
#include "passes/support/pass.h"

/* ---- collecting buffers ------------------------------------------------- */

static void
add_value(Pool *p, const IrLifetimes *l, const IrValue *v)
{
    Buffer *b = ir_buffer_of(l, v);
    if (b->fixed || b->place.space != SPACE_NONE)
        return;
    b->place.space = p->space; /* so that it is added once */
    b->number = p->buffers.len;
    VEC_PUSH(p->arena, p->buffers, b);
}

typedef bool (*Chooses)(const IrValue *v);

static void
add_values(Pool *p, const IrLifetimes *l, const IrBlock *b, Chooses chooses)
{
    for (int i = 0; i < b->args.len; i++)
        if (chooses(b->args.data[i]))
            add_value(p, l, b->args.data[i]);
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            if (chooses(op->results[i]))
                add_value(p, l, op->results[i]);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                add_values(p, l, op->regions[i], chooses);
    }
}

/* ---- writing places down ------------------------------------------------ */

static void
note_place(const IrLifetimes *l, IrValue *v)
{
    v->place = ir_buffer_of(l, v)->place;
}

static void
note_places(const IrLifetimes *l, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        note_place(l, b->args.data[i]);
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            note_place(l, op->results[i]);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                note_places(l, op->regions[i]);
    }
}

/* ---- kernels that run together ------------------------------------------- */

/* What v is made in lives as long as kernels first .. last run. */
static void
extend(const IrLifetimes *l, const IrValue *v, const IrOp *first,
       const IrOp *last)
{
    Buffer *b = ir_buffer_of(l, v);
    b->begin = min_int(b->begin, ir_span_of(l, first)->begin);
    b->end = max_int(b->end, ir_span_of(l, last)->begin);
}

/* What one of them makes has bytes that none of the others uses for something
 * else. */
static void
extend_to_tiles(const IrLifetimes *l, const IrBlock *b)
{
    const IrOp *first = NULL, *last = NULL; /* of the group, if op is in one */
    for (const IrOp *op = b->first; op; op = op->next) {
        if (!first && ir_op_tiles(op)) {
            first = op;
            last = ir_tiles_last(op);
        }
        for (int i = 0; first && i < op->num_results; i++)
            extend(l, op->results[i], first, last);
        if (op == last)
            first = last = NULL;
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            extend_to_tiles(l, op->regions[i]);
    }
}

/* ---- functions ---------------------------------------------------------- */

static bool
is_host(const IrValue *v)
{
    return v->type.locality == LOCAL_HOST;
}

static bool
is_handle(const IrValue *v)
{
    return !is_host(v);
}

static bool
is_any(const IrValue *v)
{
    (void)v;
    return true;
}

static int64_t
place_pool(const IrLifetimes *l, const IrFunc *fn, IrSpace space, int64_t base,
           Chooses chooses)
{
    Pool p = {.arena = l->arena, .space = space, .base = base};
    add_values(&p, l, fn->body, chooses);
    return pass_pool_assign_offsets(&p);
}

static void
allocate_func(PassCx *cx, IrFunc *fn, int64_t base)
{
    IrLifetimes l = {.arena = cx->arena};
    pass_insert_copies(cx, fn);
    ir_lifetimes_find(&l, fn);
    pass_coalesce_buffers(cx, &l, fn);
    extend_to_tiles(&l, fn->body);
    fn->arena_bytes = place_pool(&l, fn, SPACE_ARENA, base, is_any);
    note_places(&l, fn->body);
}

static void
allocate_main(PassCx *cx, IrFunc *fn, int64_t rows)
{
    IrLifetimes l = {.arena = cx->arena};
    pass_insert_copies(cx, fn);
    ir_lifetimes_find(&l, fn);
    pass_coalesce_buffers(cx, &l, fn);
    fn->arena_bytes = place_pool(&l, fn, SPACE_FRAME, 0, is_host);
    place_pool(&l, fn, SPACE_ROW, rows, is_handle);
    note_places(&l, fn->body);
}

static int64_t
allocate_vars_of(IrModule *m, bool shared, int64_t offset)
{
    for (int i = 0; i < m->vars.len; i++) {
        IrVar *v = m->vars.data[i];
        int64_t bytes = 0;
        if (ir_var_is_shared(v) != shared)
            continue;
        ir_type_bytes(m, &v->type, &bytes);
        v->place = (IrPlace){SPACE_ARENA, offset};
        offset = ir_align_to_line(offset + bytes);
    }
    return offset;
}

/* First what the replicas of a device share, which its later ones have no use
 * for: the arenas of those may begin after it (ir_own_begin). */
static int64_t
allocate_vars(IrModule *m)
{
    return allocate_vars_of(m, false, allocate_vars_of(m, true, 0));
}

/* ---- programs ----------------------------------------------------------- */

/* Where the places of a program may begin: after the variables and the rows
 * that main keeps at any of its launches. */
static int64_t
find_base(const IrLaunchFootprints *rooms, const IrFunc *fn, int64_t vars_end)
{
    const char *of = fn->variant_of ? fn->variant_of : fn->worker_of;
    const char *name = of ? of : fn->name;
    int64_t base = vars_end;
    for (int i = 0; i < rooms->len; i++) {
        const IrLaunchFootprint *r = &rooms->data[i];
        if (!strcmp(ir_text(r->launch, A_program), name) && r->rows_end > base)
            base = r->rows_end;
    }
    return base;
}

bool
pass_allocate(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    IrModule *m = cx->m;
    int64_t vars_end = allocate_vars(m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_MAIN)
            allocate_main(cx, fn, vars_end);
    IrLaunchFootprints rooms = ir_launch_footprints(cx->arena, m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            allocate_func(cx, fn, find_base(&rooms, fn, vars_end));
        else if (fn->kind != FUNC_MAIN)
            allocate_func(cx, fn, 0);
    m->phase = PHASE_PLACED;
    return true;
}
