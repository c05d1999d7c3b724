/*
 * ptx_split.c - work in two launches
 *
 * A sum of a whole tensor, or a product with few results, has fewer results
 * than the machine has processors, and D2 has an order for their sums.  But it
 * adds blocks of 512 products, and chunks of 65,536 elements, by themselves
 * first.  So a first launch makes these parts, each by a block of threads, and
 * leaves them in scratch memory; a second one adds them in order, and does the
 * rest of the kernel.
 *
 * Both are functions of one module with the same parameters: those of the
 * kernel, and the address of the scratch memory after the arrays.
 *
 * Here are rows; tiles, whose parts are of a matrix, are in ptx_tiles.c.
 */
#include <math.h>
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    CHUNK_COST = 20000, /* clocks of a block for a chunk of elements */
    PART_BYTES = 16     /* of a reduction: its value, then a number */
};

/* ---- the choice --------------------------------------------------------- */

static int
num_reductions(const BeKernel *k)
{
    int num = 0;
    for (const KNode *n = k->body.first; n; n = n->next)
        num += n->kind == K_REDUCE;
    return num;
}

static int
number_of(const BeKernel *k, const KNode *reduction)
{
    int number = 0;
    for (const KNode *n = k->body.first; n != reduction; n = n->next)
        number += n->kind == K_REDUCE;
    return number;
}

/* Whether an item is reductions of which none needs another one. */
static bool
is_independent(const Emit *e)
{
    PtxSlice s = be_ptx_slice_of_elements(e, &e->k->body);
    for (const KNode *n = e->k->body.first; n; n = n->next)
        if (n->kind == K_LOOP ||
            (n->kind == K_REDUCE && be_ptx_slice_has(&s, n)))
            return false;
    return true;
}

static double
rounds_of(double blocks)
{
    return ceil(blocks / PTX_PROCESSORS);
}

void
be_ptx_split_rows(Ptx *p, PtxShape *s)
{
    Emit *e = &p->e;
    int64_t length = be_dim_bound(e->k, s->panels.length);
    int64_t items = be_items_bound(e->k);
    int64_t chunks = length > IR_CHUNK ? (length - 1) / IR_CHUNK + 1 : 1;
    double whole = rounds_of((double)items) * (double)chunks * CHUNK_COST;
    double parts = rounds_of((double)items * (double)chunks) * CHUNK_COST;
    if (chunks == 1 || s->panels.slots || !is_independent(e) ||
        whole <= parts + PTX_LAUNCH_COST)
        return;
    s->split.parts = chunks;
    s->split.bytes = items * chunks * num_reductions(e->k) * PART_BYTES;
}

int64_t
be_ptx_rest_blocks(const BeKernel *k, const PtxShape *s)
{
    int64_t work = be_items_bound(k);
    if (s->tiles.contract) {
        const EmitSpace *columns = &s->tiles.operands[PTX_COLUMNS].space;
        int64_t across = be_space_bound(k, columns);
        work = be_space_bound(k, &s->tiles.outer) *
               be_space_bound(k, &s->tiles.operands[PTX_ROWS].space) *
               ((across + s->tiles.together - 1) / s->tiles.together);
    }
    return (work + PTX_REST_THREADS - 1) / PTX_REST_THREADS;
}

/* ---- parts of rows ------------------------------------------------------- */

static Val
num_chunks(Ptx *p)
{
    Emit *e = &p->e;
    Val size = be_emit_extent(e, p->shape.panels.length);
    size = be_add(e->u, size, be_emit_word(e, IR_CHUNK - 1));
    return LLVMBuildUDiv(e->u->builder, size, be_emit_word(e, IR_CHUNK), "");
}

/* Of the item p->item. */
static Val
part_at(Ptx *p, const KNode *reduction, Val chunk, Val chunks)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val number = be_add(u, be_mul(u, p->item, chunks), chunk);
    number = be_mul(u, number, be_emit_word(e, num_reductions(e->k)));
    number = be_add(u, number, be_emit_word(e, number_of(e->k, reduction)));
    return be_offset(u, p->scratch,
                     be_mul(u, number, be_emit_word(e, PART_BYTES)));
}

static void
put_part(Ptx *p, const EmitFold *f, EmitPartial x, Val at)
{
    BeUnit *u = p->e.u;
    DType t = dtype_compute(f->dtype);
    be_store(u, be_emit_to_memory(u, t, x.value), at,
             t == DT_bool ? 1 : (unsigned)dtype_info[t].bytes);
    if (x.number)
        be_store(u, x.number, be_offset_const(u, at, 8), 8);
}

static EmitPartial
get_part(Ptx *p, const EmitFold *f, Val at)
{
    BeUnit *u = p->e.u;
    DType t = dtype_compute(f->dtype);
    Val x = be_load(u, be_emit_memory_type(&p->e, t), at,
                    t == DT_bool ? 1 : (unsigned)dtype_info[t].bytes);
    EmitPartial part = {be_emit_from_memory(u, t, x), NULL};
    if (f->info->arg)
        part.number = be_load(u, u->i64, be_offset_const(u, at, 8), 8);
    return part;
}

/* Folds a chunk of n and those that go together with it. */
static void
emit_fold(Ptx *p, const KNode *n, Val chunk, Val chunks)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const KNode *nodes[PTX_MAX_TOGETHER];
    EmitPartial parts[PTX_MAX_TOGETHER];
    Val size = be_emit_extent(e, p->shape.panels.length);
    Val begin = be_mul(u, chunk, be_emit_word(e, IR_CHUNK));
    Val end = be_min(u, be_add(u, begin, be_emit_word(e, IR_CHUNK)), size);
    int num = be_ptx_panel_fold(p, n, begin, end, nodes, parts);
    Val zero = be_emit_word(e, 0);
    PtxIf first = be_ptx_if(p, be_icmp(u, LLVMIntEQ, p->thread, zero));
    for (int i = 0; i < num; i++) {
        EmitFold f = be_fold_of(e, nodes[i]);
        put_part(p, &f, parts[i], part_at(p, nodes[i], chunk, chunks));
    }
    be_ptx_end_if(p, &first, NULL, NULL);
    be_ptx_barrier(p);
    p->reduced = nodes[num - 1]->id;
}

void
be_ptx_emit_chunks(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    PtxSlice slice = be_ptx_slice_of_elements(e, &e->k->body);
    be_ptx_panels_begin(p);
    Val chunks = num_chunks(p);
    Val work = be_mul(u, be_space_size(e, &p->shape.work), chunks);
    BeLoop l;
    be_loop_begin(u, &l, p->block, work, p->num_blocks, "chunk");
    be_loop_body(u, &l);
    p->item = LLVMBuildUDiv(b, l.index, chunks, "");
    Val chunk = LLVMBuildURem(b, l.index, chunks, "");
    be_space_delinearize(e, &p->shape.work, p->item);
    for (const KNode *n = e->k->body.first; n; n = n->next)
        if (n->kind == K_REDUCE && n->id > p->reduced)
            emit_fold(p, n, chunk, chunks);
        else if (n->kind != K_REDUCE && be_ptx_slice_has(&slice, n))
            be_emit_node(e, n);
    be_loop_end(u, &l);
}

/* ---- the second launch --------------------------------------------------- */

/* Several parts are loaded before the first of them is needed; what does not
 * exist is neutral. */
void
be_ptx_rest_reduce(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitFold f = be_fold_of(e, n);
    Val chunks = num_chunks(p);
    Val last = be_sub(u, chunks, be_emit_word(e, 1));
    EmitPartial none = be_fold_neutral(&f, 0), parts[PTX_PARTS_AT_ONCE];
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), chunks,
                  be_emit_word(e, PTX_PARTS_AT_ONCE), "parts");
    EmitPartial total = {be_loop_carry(u, &l, none.value), NULL};
    if (none.number)
        total.number = be_loop_carry(u, &l, none.number);
    EmitPartial sum = total;
    be_loop_body(u, &l);
    for (int i = 0; i < PTX_PARTS_AT_ONCE; i++) {
        Val number = be_add(u, l.index, be_emit_word(e, i));
        Val at = part_at(p, n, be_min(u, number, last), chunks);
        Val exists = be_icmp(u, LLVMIntSLE, number, last);
        parts[i] = be_fold_select(&f, exists, get_part(p, &f, at), none);
    }
    for (int i = 0; i < PTX_PARTS_AT_ONCE; i++)
        sum = be_fold_combine(&f, sum, parts[i]);
    be_loop_next(&l, 0, sum.value);
    if (sum.number)
        be_loop_next(&l, 1, sum.number);
    be_loop_end(u, &l);
    be_emit_set(e, n, 0, 0, be_fold_result(&f, total));
}

/* A thread does an item. */
static void
emit_rows_rest(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val threads = be_emit_word(e, PTX_REST_THREADS);
    Val first = be_add(u, be_mul(u, p->block, threads), p->thread);
    Val work = be_space_size(e, &p->shape.work);
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, threads),
                  "item");
    be_loop_body(u, &l);
    p->item = l.index;
    be_space_delinearize(e, &p->shape.work, l.index);
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
}

void
be_ptx_emit_rest(Ptx *p)
{
    if (p->shape.tiles.contract) {
        be_ptx_emit_tiles_rest(p);
        return;
    }
    be_emit_find_varying(&p->e, NULL);
    emit_rows_rest(p);
}
