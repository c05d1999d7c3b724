/*
 * emit_scan.c - running sums
 *
 * In D2 a running sum is the sum of the elements so far in a block of 64, added
 * to the sum of all earlier blocks, so that threads can sum blocks in parallel
 * (ptx_scan.c).  Here one loop goes over the blocks and one over the elements
 * of each.
 *
 * Sums of floats begin with -0, which is neutral to the bit.
 */
#include "backend/codegen/emit.h"

static bool
runs(const KNode *n)
{
    return n->kind == K_RUNNING;
}

EmitScan
be_scan_of(Emit *e, const KNode *n)
{
    EmitScan s = {.node = n, .running = n->scan.body.first};
    while (!runs(s.running))
        s.running = s.running->next;
    s.size = be_emit_dim(e, n->scan.ranges.vars[0]->extent);
    DType t = s.running->dtype;
    int lanes = be_emit_varying(e, s.running).lane ? e->tile.lanes : 0;
    Type type = be_vector(be_emit_type(e, t), lanes);
    s.none = dtype_is_float(t) ? be_float(type, -0.0) : be_zero(type);
    return s;
}

Val
be_scan_add(Emit *e, const EmitScan *s, Val x, Val y)
{
    Val pair[] = {x, y};
    return be_emit_map(e->u, OP_add, s->running->dtype, pair);
}

void
be_scan_at(Emit *e, const EmitScan *s, Val round)
{
    BeUnit *u = e->u;
    Val at = round;
    if (s->node->scan.reverse)
        at = be_sub(u, be_sub(u, s->size, be_emit_word(e, 1)), round);
    e->indices[s->node->scan.ranges.vars[0]->id] = (EmitIndex){.base = at};
}

/* The first exclusive sum is a 0 without sign. */
static Val
without_sign(Emit *e, const EmitScan *s, Val sum)
{
    BeUnit *u = e->u;
    if (!dtype_is_float(s->running->dtype))
        return sum;
    Val first = be_icmp(u, LLVMIntEQ, s->round, be_emit_word(e, 0));
    return be_select(u, first, be_zero(LLVMTypeOf(sum)), sum);
}

void
be_emit_running(Emit *e, const KNode *n)
{
    EmitScan *s = e->scan;
    bool lanes = be_emit_varying(e, n).lane;
    Val x = be_emit_get_as(e, n->running.value, 0, 0, lanes);
    Val next = be_scan_add(e, s, s->part, x);
    bool exclusive = n->running.exclusive;
    Val sum = be_scan_add(e, s, s->before, exclusive ? s->part : next);
    s->part = next;
    be_emit_set(e, n, 0, 0, exclusive ? without_sign(e, s, sum) : sum);
}

/* Rounds begin to end, of one block; returns the block's sum. */
Val
be_scan_block(Emit *e, EmitScan *s, Val begin, Val end)
{
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 1), "round");
    s->part = be_loop_carry(u, &l, s->none);
    be_loop_body(u, &l);
    EmitScan *outer = e->scan;
    e->scan = s;
    s->round = l.index;
    be_scan_at(e, s, l.index);
    be_emit_block(e, &s->node->scan.body);
    be_loop_next(&l, 0, s->part);
    e->scan = outer;
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

void
be_emit_scan(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    EmitScan s = be_scan_of(e, n);
    BeLoop l;
    Val block = be_emit_word(e, IR_SCAN_BLOCK);
    be_loop_begin(u, &l, be_emit_word(e, 0), s.size, block, "block");
    s.before = be_loop_carry(u, &l, s.none);
    be_loop_body(u, &l);
    Val end = be_min(u, be_add(u, l.index, block), s.size);
    Val part = be_scan_block(e, &s, l.index, end);
    be_loop_next(&l, 0, be_scan_add(e, &s, s.before, part));
    be_loop_end(u, &l);
}
