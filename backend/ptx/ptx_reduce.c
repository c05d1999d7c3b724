/*
 * ptx_reduce.c - reductions of a team
 *
 * A thread of the team is a stripe of D2: it folds elements i, i + 64, ... of a
 * chunk in a register, and the tree over the stripes goes through shared
 * memory.  A team of several slices takes as many chunks at a time; all its
 * threads then fold the slices' results in order, and so each has the total.
 *
 * Shared memory has a value for each thread and, after all of these, a number
 * for each thread if elements have one.
 *
 * A reduction inside a loop, or in the body of another one, is executed by one
 * thread, with its stripes in local memory: correct, but slow.
 */
#include "backend/ptx/ptx_emit.h"

typedef struct Team {
    Ptx *p;
    EmitFold fold;
    EmitSpace space;
    Val size;          /* elements */
    Val stripe, slice; /* this thread's, words */
    int64_t step;      /* threads between neighbouring stripes */
} Team;

/* ---- shared memory ------------------------------------------------------ */

static int64_t
value_bytes(DType t)
{
    return t == DT_bool ? 1 : (int64_t)dtype_info[dtype_compute(t)].bytes;
}

int64_t
be_ptx_reduce_bytes(const KNode *n, int threads)
{
    int64_t bytes = value_bytes(n->reduce.element->dtype);
    if (be_kernel_reduces[n->reduce.op].arg)
        bytes += 8;
    return bytes * threads;
}

/* Numbers are aligned, since at least 32 values come before them. */
static Val
number_at(const Team *t, Val slot)
{
    int64_t values = value_bytes(t->fold.dtype) * t->p->shape.threads;
    return be_ptx_shared_at(t->p, values, slot, 8);
}

static Val
value_at(const Team *t, Val slot)
{
    return be_ptx_shared_at(t->p, 0, slot, value_bytes(t->fold.dtype));
}

static void
put_part(const Team *t, EmitPartial part)
{
    BeUnit *u = t->p->e.u;
    DType dtype = dtype_compute(t->fold.dtype);
    Val slot = t->p->thread;
    Val value = be_emit_to_memory(u, dtype, part.value);
    be_store(u, value, value_at(t, slot), (unsigned)value_bytes(dtype));
    if (part.number)
        be_store(u, part.number, number_at(t, slot), 8);
}

static EmitPartial
get_part(const Team *t, Val slot)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    DType dtype = dtype_compute(t->fold.dtype);
    Val x = be_load(u, be_emit_memory_type(e, dtype), value_at(t, slot),
                    (unsigned)value_bytes(dtype));
    EmitPartial part = {be_emit_from_memory(u, dtype, x), NULL};
    if (t->fold.info->arg)
        part.number = be_load(u, u->i64, number_at(t, slot), 8);
    return part;
}

/* ---- a chunk ------------------------------------------------------------ */

static EmitPartial
element(const Team *t, Val number)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    be_space_delinearize(&p->e, &t->space, number);
    p->together = false;
    be_emit_block(e, &t->fold.node->reduce.body);
    p->together = true;
    EmitPartial part = {be_emit_get(e, t->fold.node->reduce.element, 0, 0),
                        NULL};
    if (t->fold.info->arg)
        part.number =
            LLVMBuildIntCast2(e->u->builder, number, e->u->i64, 1, "");
    return part;
}

/* The partial result of this thread's stripe for elements begin to end. */
static EmitPartial
fold_stripe(const Team *t, Val begin, Val end)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    EmitPartial part = be_fold_neutral(&t->fold, 0);
    BeLoop l;
    be_loop_begin(u, &l, be_add(u, begin, t->stripe), end,
                  be_emit_word(e, BE_STRIPES), "element");
    EmitPartial sum = {be_loop_carry(u, &l, part.value), NULL};
    if (part.number)
        sum.number = be_loop_carry(u, &l, part.number);
    be_loop_body(u, &l);
    EmitPartial next = be_fold_combine(&t->fold, sum, element(t, l.index));
    be_loop_next(&l, 0, next.value);
    if (part.number)
        be_loop_next(&l, 1, next.number);
    be_loop_end(u, &l);
    return sum;
}

/* The tree over the stripes of a slice: its sum is in the slot of stripe 0. */
static void
fold_stripes(const Team *t, EmitPartial part)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    put_part(t, part);
    for (int half = t->fold.stripes / 2; half; half /= 2) {
        be_ptx_barrier(p);
        Val below = be_icmp(u, LLVMIntULT, t->stripe, be_emit_word(e, half));
        PtxIf i = be_ptx_if(p, below);
        Val other = be_add(u, p->thread, be_emit_word(e, half * t->step));
        EmitPartial own = get_part(t, p->thread);
        put_part(t, be_fold_combine(&t->fold, own, get_part(t, other)));
        be_ptx_end_if(p, &i, NULL, NULL);
    }
    be_ptx_barrier(p);
}

/* ---- chunks ------------------------------------------------------------- */

/* The slot of stripe 0 of slice 0. */
static Val
first_slot(const Team *t)
{
    BeUnit *u = t->p->e.u;
    Val before = be_mul(u, t->p->lane, be_emit_word(&t->p->e, t->step));
    return be_sub(u, t->p->thread, before);
}

static EmitPartial
fold_slices(const Team *t, EmitPartial total)
{
    Emit *e = &t->p->e;
    for (int i = 0; i < t->p->shape.slices; i++) {
        int64_t away = i * BE_STRIPES * t->step;
        Val slot = be_add(e->u, first_slot(t), be_emit_word(e, away));
        total = be_fold_combine(&t->fold, total, get_part(t, slot));
    }
    return total;
}

/* As many chunks at a time as there are slices. */
static EmitPartial
fold_chunks(const Team *t)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitPartial part = be_fold_neutral(&t->fold, 0);
    Val chunk = be_emit_word(e, BE_CHUNK);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), t->size,
                  be_emit_word(e, (int64_t)BE_CHUNK * p->shape.slices),
                  "chunk");
    EmitPartial total = {be_loop_carry(u, &l, part.value), NULL};
    if (part.number)
        total.number = be_loop_carry(u, &l, part.number);
    be_loop_body(u, &l);
    Val begin = be_add(u, l.index, be_mul(u, t->slice, chunk));
    Val end = be_min(u, be_add(u, begin, chunk), t->size);
    fold_stripes(t, fold_stripe(t, begin, end));
    EmitPartial next = fold_slices(t, total);
    be_ptx_barrier(p);
    be_loop_next(&l, 0, next.value);
    if (part.number)
        be_loop_next(&l, 1, next.number);
    be_loop_end(u, &l);
    return total;
}

/* Threads beyond the stripes and slices in use have no elements. */
static EmitPartial
fold_one_chunk(const Team *t)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val first = be_icmp(u, LLVMIntEQ, t->slice, be_emit_word(e, 0));
    Val end = be_select(u, first, t->size, be_emit_word(e, 0));
    fold_stripes(t, fold_stripe(t, be_emit_word(e, 0), end));
    EmitPartial total = get_part(t, first_slot(t));
    be_ptx_barrier(t->p);
    return total;
}

static Val
reduce_together(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Team t = {.p = p, .fold = be_fold_of(e, n)};
    t.space = be_space_of(&n->reduce.ranges);
    t.size = be_space_size(&p->e, &t.space);
    Val stripes = be_emit_word(e, BE_STRIPES);
    t.stripe = LLVMBuildURem(u->builder, p->lane, stripes, "");
    t.slice = LLVMBuildUDiv(u->builder, p->lane, stripes, "");
    t.step = p->shape.strided ? p->shape.items : 1;
    EmitPartial all =
        t.fold.bound > BE_CHUNK ? fold_chunks(&t) : fold_one_chunk(&t);
    return be_fold_result(&t.fold, all);
}

void
be_ptx_reduce(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (p->shape.rows.length)
        be_ptx_row_reduce(p, n);
    else if (p->together)
        be_emit_set(e, n, 0, 0, reduce_together(p, n));
    else
        be_emit_reduce(e, n);
}
