/*
 * emit_pairs.c - contractions of bf16 in loops
 *
 * Each element of the tile has two chains in registers, which take turns: that
 * of the next product and the other one.  The innermost loop goes in pieces
 * that end where a group of 32 products ends, after which it is the turn of the
 * chain of even products again.  A block of D2 ends with a group.
 *
 * In the order of one chain, each element has the operands of the product
 * before beside its sum: those of a product that waits for its second.
 */
#include "backend/gemm/pairs.h"

#include <assert.h>
#include "ir/rules/pairs.h"

enum { MAX_SUMS = 16, NUM_KEPT = 4 };

typedef struct Sums {
    int num; /* elements of the tile */
    /* for each of them, the chain of the next product and the other one (or the
     * operands of the product before), the sum of the block's earlier groups
     * (or the one chain), and of earlier blocks */
    Val next[MAX_SUMS], other[MAX_SUMS], sum[MAX_SUMS], total[MAX_SUMS];
    Val filled; /* products in the block */
} Sums;

typedef struct Contract {
    Emit *e;
    const KNode *node;
    EmitVarying depends;
    Type type;
    bool by_mode; /* the CPU's mode flushes */
    bool one_chain;
} Contract;

/* ---- loops -------------------------------------------------------------- */

/* The values of s, by number. */
static Val *
kept_one(Sums *s, int i)
{
    Val *const all[NUM_KEPT] = {s->next, s->other, s->sum, s->total};
    return &all[i / s->num][i % s->num];
}

static void
carry_one(BeUnit *u, BeLoop *l, Sums *s, int i)
{
    Val *x = kept_one(s, i);
    *x = be_loop_carry(u, l, *x);
}

static void
carry(BeUnit *u, BeLoop *l, Sums *s)
{
    for (int i = 0; i < NUM_KEPT * s->num; i++)
        carry_one(u, l, s, i);
    s->filled = be_loop_carry(u, l, s->filled);
}

static void
end_loop(BeUnit *u, BeLoop *l, Sums *s)
{
    int num = NUM_KEPT * s->num;
    for (int i = 0; i < num; i++)
        be_loop_next(l, i, *kept_one(s, i));
    be_loop_next(l, num, s->filled);
    be_loop_end(u, l);
    for (int i = 0; i < num; i++)
        *kept_one(s, i) = be_loop_result(l, i);
    s->filled = be_loop_result(l, num);
}

/* ---- products ----------------------------------------------------------- */

static Val
is_odd(const Emit *e, Val number)
{
    Val odd = be_and(e->u, number, be_emit_word(e, 1));
    return be_icmp(e->u, LLVMIntNE, odd, be_emit_word(e, 0));
}

static Val
operand(const Contract *c, const KNode *n, int row, int v)
{
    Val x = be_emit_get_as(c->e, n, row, v, c->depends.lane);
    return c->by_mode ? x : be_flushed(c->e->u, x);
}

static Val
fma_of(const Contract *c, Val x, Val y, Val sum)
{
    BeUnit *u = c->e->u;
    return c->by_mode ? be_intrinsic3(u, "llvm.fma", x, y, sum)
                      : be_flushed_fma(u, x, y, sum);
}

/* To the chain whose turn it is. */
static void
add_in_turn(const Contract *c, Sums *s, int i, Val x, Val y)
{
    Val sum = fma_of(c, x, y, s->next[i]);
    s->next[i] = s->other[i];
    s->other[i] = sum;
}

/* To the one chain, where it is the second of two, and then the first. */
static void
add_if_second(const Contract *c, Sums *s, int i, Val x, Val y, Val second)
{
    Val sum = fma_of(c, x, y, s->sum[i]);
    sum = fma_of(c, s->next[i], s->other[i], sum);
    s->sum[i] = be_select(c->e->u, second, sum, s->sum[i]);
    s->next[i] = x;
    s->other[i] = y;
}

/* Those of the body; whether they are the second of two. */
static void
add_products(Contract *c, Sums *s, Val second)
{
    Emit *e = c->e;
    be_emit_block(e, &c->node->contract.body);
    for (int row = 0; row < be_emit_rows(e, c->depends); row++) {
        for (int v = 0; v < be_emit_vectors(e, c->depends); v++) {
            int i = be_emit_slot(e, c->depends, row, v);
            Val x = operand(c, c->node->contract.x, row, v);
            Val y = operand(c, c->node->contract.y, row, v);
            if (c->one_chain)
                add_if_second(c, s, i, x, y, second);
            else
                add_in_turn(c, s, i, x, y);
        }
    }
}

/* Rounds begin to end of the innermost loop, of one group. */
static void
add_piece(Contract *c, Sums *s, Val begin, Val end)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const KRanges *r = &c->node->contract.ranges;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 1), "k");
    int num = (c->one_chain ? 3 : 2) * s->num;
    for (int i = 0; i < num; i++)
        carry_one(u, &l, s, i);
    be_loop_body(u, &l);
    e->indices[r->vars[r->count - 1]->id] = (EmitIndex){.base = l.index};
    Val number = be_add(u, s->filled, be_sub(u, l.index, begin));
    add_products(c, s, is_odd(e, number));
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, *kept_one(s, i));
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        *kept_one(s, i) = be_loop_result(&l, i);
}

/* ---- groups and blocks -------------------------------------------------- */

static Val
sum_of(const Contract *c, Val x, Val y)
{
    BeUnit *u = c->e->u;
    return c->by_mode ? LLVMBuildFAdd(u->builder, x, y, "")
                      : be_flushed_add(u, x, y);
}

/* Where `ends`, the chains are added to the sum, and begin anew. */
static void
end_group(const Contract *c, Sums *s, Val ends)
{
    BeUnit *u = c->e->u;
    Val zero = be_zero(c->type);
    for (int i = 0; i < s->num; i++) {
        Val both = sum_of(c, s->next[i], s->other[i]);
        both = sum_of(c, s->sum[i], both);
        s->sum[i] = be_select(u, ends, both, s->sum[i]);
        s->next[i] = be_select(u, ends, zero, s->next[i]);
        s->other[i] = be_select(u, ends, zero, s->other[i]);
    }
}

static void
end_block(const Contract *c, Sums *s)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val full = be_icmp(u, LLVMIntEQ, s->filled, be_emit_word(e, IR_K_BLOCK));
    for (int i = 0; i < s->num; i++) {
        Val sum = LLVMBuildFAdd(u->builder, s->total[i], s->sum[i], "");
        s->total[i] = be_select(u, full, sum, s->total[i]);
        s->sum[i] = be_select(u, full, be_zero(c->type), s->sum[i]);
    }
    s->filled = be_select(u, full, be_emit_word(e, 0), s->filled);
}

/* Products of the current group. */
static Val
in_group(const Contract *c, const Sums *s)
{
    return be_and(c->e->u, s->filled, be_emit_word(c->e, IR_PAIRS_GROUP - 1));
}

/* The innermost loop in pieces that end at its own end or that of a group. */
static void
add_pieces(Contract *c, Sums *s, Val extent)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val before = NULL, none = be_emit_word(e, 0);
    BeLoop l;
    be_loop_begin(u, &l, none, extent, NULL, "piece");
    carry(u, &l, s);
    be_loop_body(u, &l);
    Val left = be_sub(u, be_emit_word(e, IR_PAIRS_GROUP), in_group(c, s));
    l.step = be_min(u, be_sub(u, extent, l.index), left);
    if (c->by_mode)
        before = be_flush_begin(u);
    add_piece(c, s, l.index, be_add(u, l.index, l.step));
    s->filled = be_add(u, s->filled, l.step);
    if (!c->one_chain)
        end_group(c, s, be_icmp(u, LLVMIntEQ, in_group(c, s), none));
    if (c->by_mode)
        be_flush_end(u, before);
    end_block(c, s);
    end_loop(u, &l, s);
}

static void
add_nest(Contract *c, Sums *s, int depth)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const KRanges *r = &c->node->contract.ranges;
    Val extent = be_emit_dim(e, r->vars[depth]->extent);
    if (depth == r->count - 1) {
        add_pieces(c, s, extent);
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), extent, be_emit_word(e, 1), "k");
    carry(u, &l, s);
    be_loop_body(u, &l);
    e->indices[r->vars[depth]->id] = (EmitIndex){.base = l.index};
    add_nest(c, s, depth + 1);
    end_loop(u, &l, s);
}

/* The last group, or pair, is filled up with products of zeros. */
static void
fill_up(const Contract *c, Sums *s)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val zero = be_zero(c->type), waits = is_odd(e, s->filled);
    for (int i = 0; i < s->num && c->one_chain; i++)
        add_if_second(c, s, i, zero, zero, waits);
    if (c->one_chain)
        return;
    for (int i = 0; i < s->num; i++) {
        s->next[i] = sum_of(c, s->next[i], zero);
        s->other[i] = sum_of(c, s->other[i], zero);
    }
    Val some = be_icmp(u, LLVMIntNE, in_group(c, s), be_emit_word(e, 0));
    end_group(c, s, some);
}

/* Of no products at all the sum is 0. */
static void
end_sums(Contract *c, Sums *s)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val none = be_emit_word(e, 0), before = NULL;
    if (c->by_mode)
        before = be_flush_begin(u);
    fill_up(c, s);
    if (c->by_mode)
        be_flush_end(u, before);
    Val size = be_emit_ranges_size(e, &c->node->contract.ranges);
    Val empty = be_icmp(u, LLVMIntEQ, s->filled, none);
    Val some = be_icmp(u, LLVMIntNE, size, none);
    Val done = be_and(u, empty, some);
    for (int i = 0; i < s->num; i++) {
        Val sum = LLVMBuildFAdd(u->builder, s->total[i], s->sum[i], "");
        s->sum[i] = be_select(u, done, s->total[i], sum);
    }
}

/* ---- the contraction ---------------------------------------------------- */

/* Whether the mode does not change what n computes. */
static bool
only_moves(const KNode *n)
{
    if (n->kind != K_MAP)
        return n->kind != K_REDUCE && n->kind != K_CONTRACT;
    if (n->map.op == OP_cast)
        return n->map.args[0]->dtype == DT_f32 && n->map.to == DT_bf16;
    return n->map.op == OP_where || n->map.op == OP_neg ||
           n->map.op == OP_abs || !dtype_is_float(n->map.args[0]->dtype);
}

/* Whether all of the contraction can be computed in the mode. */
static bool
may_flush(const Emit *e, const KNode *contract)
{
    const KNode *n = contract->contract.body.first;
    while (n && only_moves(n))
        n = n->next;
    return !e->target->gpu && contract->contract.ranges.count && !n;
}

void
be_emit_pairs(Emit *e, const KNode *n)
{
    Contract c = {.e = e, .node = n, .depends = be_emit_varying(e, n)};
    c.type = be_vector(be_emit_type(e, n->dtype),
                       c.depends.lane ? e->tile.lanes : 0);
    c.by_mode = may_flush(e, n);
    c.one_chain = n->contract.pairs == IR_ONE_CHAIN;
    Sums s = {.num =
                  be_emit_rows(e, c.depends) * be_emit_vectors(e, c.depends)};
    assert(s.num <= MAX_SUMS);
    for (int i = 0; i < s.num; i++) {
        s.next[i] = s.other[i] = s.sum[i] = be_zero(c.type);
        s.total[i] = be_float(c.type, -0.0);
    }
    s.filled = be_emit_word(e, 0);
    if (n->contract.ranges.count)
        add_nest(&c, &s, 0);
    else
        add_products(&c, &s, LLVMConstNull(e->u->i1));
    if (!n->contract.ranges.count)
        s.filled = be_emit_word(e, 1);
    end_sums(&c, &s);
    for (int row = 0; row < be_emit_rows(e, c.depends); row++) {
        for (int v = 0; v < be_emit_vectors(e, c.depends); v++)
            be_emit_set(e, n, row, v,
                        s.sum[be_emit_slot(e, c.depends, row, v)]);
    }
}
