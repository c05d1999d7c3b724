/*
 * ptx_scan.c - running sums and sorts of a team
 *
 * A thread of the team does a block of 64 rounds of a scan.  First each sums
 * its block; all of them add the blocks' sums, which are exchanged in shared
 * memory, in order; then each goes through its block again, beginning with the
 * sum of the earlier ones.
 *
 * The passes of a sort are divided place by place, with a barrier between
 * them.  Places are in the output: global memory, of which all threads of a
 * block have the same view after a barrier.
 */
#include "backend/ptx/ptx_emit.h"

/* ---- shared memory ------------------------------------------------------ */

static int64_t
value_bytes(const KNode *running)
{
    return (int64_t)dtype_info[running->dtype].bytes;
}

int64_t
be_ptx_scan_bytes(const KNode *n, int threads)
{
    const KNode *running = n->scan.body.first;
    while (running->kind != K_RUNNING)
        running = running->next;
    return value_bytes(running) * threads;
}

/* The value of the thread of this team with that lane. */
static Val
sum_at(Ptx *p, const EmitScan *s, Val lane)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val step = be_emit_word(e, p->shape.strided ? p->shape.items : 1);
    Val first = be_sub(u, p->thread, be_mul(u, p->lane, step));
    Val slot = be_add(u, first, be_mul(u, lane, step));
    return be_ptx_shared_at(p, 0, slot, value_bytes(s->running));
}

/* ---- scans -------------------------------------------------------------- */

/* The sum of this thread's block, from the nodes before the running sum. */
static Val
add_block(Ptx *p, const EmitScan *s, Val begin, Val end)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 1), "element");
    Val sum = be_loop_carry(u, &l, s->none);
    be_loop_body(u, &l);
    be_scan_at(e, s, l.index);
    for (const KNode *n = s->node->scan.body.first; n != s->running;
         n = n->next)
        be_emit_node(e, n);
    Val x = be_emit_get(e, s->running->running.value, 0, 0);
    be_loop_next(&l, 0, be_scan_add(e, s, sum, x));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* Adds the blocks' sums to total, one after the other; *before is its value
 * before this thread's block. */
static Val
add_sums(Ptx *p, const EmitScan *s, Val total, Val sum, Val *before)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    unsigned bytes = (unsigned)value_bytes(s->running);
    be_store(u, sum, sum_at(p, s, p->lane), bytes);
    be_ptx_barrier(p);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, p->shape.team),
                  be_emit_word(e, 1), "lane");
    Val all = be_loop_carry(u, &l, total);
    Val mine = be_loop_carry(u, &l, total);
    be_loop_body(u, &l);
    Val here = be_icmp(u, LLVMIntEQ, l.index, p->lane);
    Val part = be_load(u, LLVMTypeOf(sum), sum_at(p, s, l.index), bytes);
    be_loop_next(&l, 0, be_scan_add(e, s, all, part));
    be_loop_next(&l, 1, be_select(u, here, all, mine));
    be_loop_end(u, &l);
    be_ptx_barrier(p);
    *before = be_loop_result(&l, 1);
    return be_loop_result(&l, 0);
}

static void
scan_together(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitScan s = be_scan_of(e, n);
    Val run = be_emit_word(e, IR_SCAN_BLOCK);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), s.size,
                  be_emit_word(e, (int64_t)IR_SCAN_BLOCK * p->shape.team),
                  "blocks");
    Val total = be_loop_carry(u, &l, s.none);
    be_loop_body(u, &l);
    Val begin = be_add(u, l.index, be_mul(u, p->lane, run));
    Val end = be_min(u, be_add(u, begin, run), s.size);
    p->together = false;
    Val sum = add_block(p, &s, begin, end);
    total = add_sums(p, &s, total, sum, &s.before);
    PtxIf i = be_ptx_if(p, p->active);
    be_scan_block(e, &s, begin, end);
    be_ptx_end_if(p, &i, NULL, NULL);
    p->together = true;
    be_loop_next(&l, 0, total);
    be_loop_end(u, &l);
}

void
be_ptx_scan(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (p->together)
        scan_together(p, n);
    else
        be_emit_scan(e, n);
}

/* ---- sorts -------------------------------------------------------------- */

/* Calls `what` for this thread's places; then a barrier. */
static void
share_places(const EmitSort *s, void (*what)(const EmitSort *s, Val i))
{
    Emit *e = s->e;
    Ptx *p = ptx_of(e);
    PtxIf i = be_ptx_if(p, p->active);
    BeLoop l;
    be_loop_begin(e->u, &l, p->lane, s->size, be_emit_word(e, p->shape.team),
                  "at");
    be_loop_body(e->u, &l);
    what(s, l.index);
    be_loop_end(e->u, &l);
    be_ptx_end_if(p, &i, NULL, NULL);
    be_ptx_barrier(p);
}

/* This thread's part of the places that a pass compares, numbered from 0. */
static void
pass_together(const EmitSort *s, const EmitSortStep *step)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Ptx *p = ptx_of(e);
    Val end = be_sub(u, s->size, step->distance);
    Val inner = be_sub(u, step->run, be_emit_word(e, 1));
    Val most = LLVMBuildAShr(u->builder, be_add(u, end, step->run),
                             be_emit_word(e, 1), "");
    PtxIf i = be_ptx_if(p, p->active);
    BeLoop l;
    be_loop_begin(u, &l, p->lane, be_add(u, most, be_emit_word(e, 1)),
                  be_emit_word(e, p->shape.team), "pair");
    be_loop_body(u, &l);
    /* every second run: the number of a run is doubled */
    Val within = be_and(u, l.index, inner);
    Val at = be_add(u, l.index, be_sub(u, l.index, within));
    at = be_add(u, at, step->first);
    PtxIf there = be_ptx_if(p, be_icmp(u, LLVMIntSLT, at, end));
    be_sort_exchange(s, at, step->distance);
    be_ptx_end_if(p, &there, NULL, NULL);
    be_loop_end(u, &l);
    be_ptx_end_if(p, &i, NULL, NULL);
    be_ptx_barrier(p);
}

/* One thread finds the first. */
static void
choose_together(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    Val leads = be_icmp(e->u, LLVMIntEQ, p->lane, be_emit_word(e, 0));
    p->together = false;
    PtxIf i = be_ptx_if(p, be_and(e->u, p->active, leads));
    be_emit_sort(e, n);
    be_ptx_end_if(p, &i, NULL, NULL);
    be_ptx_barrier(p);
    p->together = true;
}

static void
sort_together(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    EmitSort s = be_sort_of(e, n);
    p->together = false;
    share_places(&s, be_sort_put);
    be_sort_passes(&s, pass_together);
    if (s.packs != KEY_NONE)
        share_places(&s, be_sort_clean);
    p->together = true;
}

void
be_ptx_sort(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (p->together && n->sort.first)
        choose_together(p, n);
    else if (p->together)
        sort_together(p, n);
    else
        be_emit_sort(e, n);
}
