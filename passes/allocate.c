/*
 * allocate.c - lifetimes become offsets
 *
 * Every value of a device program gets a place in the device's arena, the same
 * on all devices; every host value of main one in main's frame, every handle
 * of main a row of the arena that launches read and write.  The arena holds
 * the variables, then main's rows, then what the programs need, which share
 * their bytes because one program runs at a time.
 *
 * Values share bytes where they can, so that copies disappear (share.c), and
 * where their lifetimes do not meet: buffers are placed largest first, each in
 * the lowest gap between those it lives with (the greedy-by-size heuristic of
 * Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
 * Inference", 2020).
 */
#include "passes/allocate.h"

#include <stdlib.h>
#include "ir/build.h"
#include "ir/hooks.h"
#include "passes/passes.h"

static int64_t
align_up(int64_t x, int64_t align)
{
    return (x + align - 1) / align * align;
}

/* ---- collecting buffers ------------------------------------------------- */

typedef struct Pool {
    Arena *arena;
    IrSpace space;
    int64_t base; /* first offset */
    int64_t top;  /* past the last byte placed */
    VEC(Buffer *) buffers;
} Pool;

static void
add_value(Pool *p, const IrValue *v)
{
    Buffer *b = buffer_of(v);
    if (b->fixed || b->place.space != SPACE_NONE)
        return;
    b->place.space = p->space; /* so that it is added once */
    VEC_PUSH(p->arena, p->buffers, b);
}

typedef bool (*Chooses)(const IrValue *v);

static void
add_values(Pool *p, const IrBlock *b, Chooses chooses)
{
    for (int i = 0; i < b->args.len; i++)
        if (chooses(b->args.data[i]))
            add_value(p, b->args.data[i]);
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            if (chooses(op->results[i]))
                add_value(p, op->results[i]);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                add_values(p, op->regions[i], chooses);
    }
}

/* ---- placing them ------------------------------------------------------- */

static int
larger_first(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int
lower_first(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    return (a->place.offset > b->place.offset) -
           (a->place.offset < b->place.offset);
}

static bool
live_together(const Buffer *a, const Buffer *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

/* The lowest offset at which b meets none of the n placed ones it lives with,
 * which are given in order of their offsets. */
static int64_t
lowest_gap(const Pool *p, const Buffer *b, int n, Buffer *const *placed)
{
    int64_t offset = align_up(p->base, b->align);
    for (int i = 0; i < n; i++) {
        const Buffer *other = placed[i];
        if (!live_together(b, other))
            continue;
        if (offset + b->bytes <= other->place.offset)
            break;
        int64_t past = align_up(other->place.offset + other->bytes, b->align);
        if (past > offset)
            offset = past;
    }
    return offset;
}

/* Puts b among the n placed ones, keeping their order. */
static void
insert_by_offset(Buffer **placed, int n, Buffer *b)
{
    int i = n;
    for (; i > 0 && lower_first(&b, &placed[i - 1]) < 0; i--)
        placed[i] = placed[i - 1];
    placed[i] = b;
}

static void
place_buffers(Pool *p)
{
    if (p->buffers.len == 0)
        return;
    qsort(p->buffers.data, (size_t)p->buffers.len, sizeof(Buffer *),
          larger_first);
    Buffer **placed = NEW_ARRAY(p->arena, Buffer *, (size_t)p->buffers.len);
    for (int i = 0; i < p->buffers.len; i++) {
        Buffer *b = p->buffers.data[i];
        b->place.offset = lowest_gap(p, b, i, placed);
        insert_by_offset(placed, i, b);
        if (b->place.offset + b->bytes > p->top)
            p->top = b->place.offset + b->bytes;
    }
}

/* ---- writing places down ------------------------------------------------ */

static void
note_place(IrValue *v)
{
    v->place = buffer_of(v)->place;
    v->mark = NULL;
}

static void
note_places(const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        note_place(b->args.data[i]);
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            note_place(op->results[i]);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                note_places(op->regions[i]);
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
place_pool(PassCx *cx, IrFunc *fn, IrSpace space, int64_t base, Chooses chooses)
{
    Pool p = {.arena = cx->arena, .space = space, .base = base, .top = base};
    add_values(&p, fn->body, chooses);
    place_buffers(&p);
    return p.top;
}

static void
allocate_func(PassCx *cx, IrFunc *fn, int64_t base)
{
    share_isolate(cx, fn);
    lifetimes_find(cx->arena, fn);
    share_buffers(cx, fn);
    fn->arena_bytes = place_pool(cx, fn, SPACE_ARENA, base, is_any);
    note_places(fn->body);
}

/* Gives where the rows end. */
static int64_t
allocate_main(PassCx *cx, IrFunc *fn, int64_t rows)
{
    share_isolate(cx, fn);
    lifetimes_find(cx->arena, fn);
    share_buffers(cx, fn);
    fn->arena_bytes = place_pool(cx, fn, SPACE_FRAME, 0, is_host);
    int64_t end = place_pool(cx, fn, SPACE_ROW, rows, is_handle);
    note_places(fn->body);
    return end;
}

static int64_t
allocate_vars(IrModule *m)
{
    int64_t offset = 0;
    for (int i = 0; i < m->vars.len; i++) {
        IrVar *v = m->vars.data[i];
        int64_t bytes = 0;
        ir_type_bytes(m, &v->type, &bytes);
        v->place = (IrPlace){SPACE_ARENA, offset};
        offset = align_up(offset + bytes, 64);
    }
    return align_up(offset, 4096);
}

bool
pass_allocate(PassCx *cx)
{
    IrModule *m = cx->m;
    int64_t end = allocate_vars(m);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_MAIN)
            end = allocate_main(cx, fn, end);
    end = align_up(end, 4096);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            allocate_func(cx, fn, end);
        else if (fn->kind != FUNC_MAIN)
            allocate_func(cx, fn, 0);
    m->phase = PHASE_PLACED;
    return true;
}
