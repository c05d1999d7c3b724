/*
 * emit_contract.c - contractions
 *
 * Each element of the tile has a sum in a register; a round of the loops over
 * the contracted indices adds one product to each of them.  By D2 products are
 * added in blocks of 512, and then the blocks' sums are added; a block may end
 * inside the innermost loop, which is therefore split.  With a single block
 * this code is not emitted.
 *
 * Where the lanes of an operand are strided and its contracted index is
 * contiguous, as in a matrix times a vector, some rounds are emitted at once,
 * of strips that are loaded along memory and transposed: 16 bytes for each
 * lane, for which few registers and shuffles are enough, but for matrices whose
 * rows conflict in the cache.
 */
#include "backend/gemm/pairs.h"

enum { LONG_ROUNDS = 256 /* code size of the rounds of a strip */ };

/* The values carried from round to round. */
typedef struct Sums {
    int num;                /* elements of the tile */
    Val block[BE_MAX_TILE]; /* of the current block */
    Val total[BE_MAX_TILE]; /* of the earlier blocks */
    Val filled;             /* products in the present block; NULL: one block
                               is enough and total is not used */
} Sums;

typedef struct Contract {
    Emit *e;
    const KNode *node;
    EmitVarying depends;
    Type type;
    bool is_float;
    int rounds; /* that are emitted at once, of strips; or 0 */
} Contract;

/* ---- sums in loops ------------------------------------------------------ */

static void
carry(BeUnit *u, BeLoop *l, Sums *s)
{
    for (int i = 0; i < s->num; i++)
        s->block[i] = be_loop_carry(u, l, s->block[i]);
    for (int i = 0; s->filled && i < s->num; i++)
        s->total[i] = be_loop_carry(u, l, s->total[i]);
    if (s->filled)
        s->filled = be_loop_carry(u, l, s->filled);
}

static void
hand_on(BeLoop *l, const Sums *s)
{
    for (int i = 0; i < s->num; i++)
        be_loop_next(l, i, s->block[i]);
    for (int i = 0; s->filled && i < s->num; i++)
        be_loop_next(l, s->num + i, s->total[i]);
    if (s->filled)
        be_loop_next(l, 2 * s->num, s->filled);
}

static void
take(const BeLoop *l, Sums *s)
{
    for (int i = 0; i < s->num; i++)
        s->block[i] = be_loop_result(l, i);
    for (int i = 0; s->filled && i < s->num; i++)
        s->total[i] = be_loop_result(l, s->num + i);
    if (s->filled)
        s->filled = be_loop_result(l, 2 * s->num);
}

/* ---- one round ---------------------------------------------------------- */

static void
add_products(Contract *c, Sums *s)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    be_emit_block(e, &c->node->contract.body);
    for (int row = 0; row < be_emit_rows(e, c->depends); row++) {
        for (int v = 0; v < be_emit_vectors(e, c->depends); v++) {
            int i = be_emit_slot(e, c->depends, row, v);
            Val x =
                be_emit_get_as(e, c->node->contract.x, row, v, c->depends.lane);
            Val y =
                be_emit_get_as(e, c->node->contract.y, row, v, c->depends.lane);
            s->block[i] = c->is_float
                              ? be_intrinsic3(u, "llvm.fma", x, y, s->block[i])
                              : be_add(u, s->block[i], be_mul(u, x, y));
        }
    }
}

/* ---- rounds of several products ------------------------------------------ */

static const KVar *
innermost(const Contract *c)
{
    const KRanges *r = &c->node->contract.ranges;
    return r->vars[r->count - 1];
}

/* Whether n is a load of which strips can be loaded before the body: its
 * indices are known there. */
static bool
has_strips(const Contract *c, const KNode *n)
{
    return be_emit_is_strided(c->e, n, innermost(c)) &&
           !be_block_defines_index(&c->node->contract.body, &n->load.at);
}

/* The rounds of the longest strip, if strips are worth the code; or 0. */
static int
choose_rounds(const Contract *c)
{
    const Emit *e = c->e;
    const KBlock *body = &c->node->contract.body;
    double size = be_kernel_code_size(body);
    int rounds = 0;
    for (const KNode *n = body->first; n && e->tile.lanes >= 4; n = n->next) {
        if (!has_strips(c, n))
            continue;
        int length = be_emit_strip_length(e, n);
        rounds = length > rounds ? length : rounds;
    }
    bool is_worth_it =
        rounds * e->tile.vectors <= BE_MAX_TILE &&
        be_dim_bound(e->k, innermost(c)->extent) >= 2 * e->tile.lanes &&
        rounds * be_emit_rows(e, c->depends) * size <= LONG_ROUNDS;
    return is_worth_it ? rounds : 0;
}

/* The rounds of a strip, from the current index on. */
static void
add_strip(Contract *c, Sums *s)
{
    Emit *e = c->e;
    const KBlock *body = &c->node->contract.body;
    const KVar *var = innermost(c);
    Val first = e->indices[var->id].base;
    int outer = e->round, outer_rounds = e->rounds;
    e->rounds = c->rounds;
    for (const KNode *n = body->first; n; n = n->next)
        if (has_strips(c, n))
            e->strips[n->id] = be_emit_strips(e, n);
    for (int i = 0; i < c->rounds; i++) {
        e->round = i;
        Val at = be_add(e->u, first, be_emit_word(e, i));
        e->indices[var->id] = (EmitIndex){.base = at};
        add_products(c, s);
    }
    for (const KNode *n = body->first; n; n = n->next)
        if (n->kind == K_LOAD)
            e->strips[n->id] = NULL;
    e->round = outer;
    e->rounds = outer_rounds;
}

/* ---- pieces of the innermost loop ---------------------------------------- */

typedef void AddRound(Contract *c, Sums *s);

/* Values begin to end of the innermost index, in rounds of `step`. */
static void
add_rounds(Contract *c, Sums *s, Val begin, Val end, int step, AddRound *round)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Sums inner = *s;
    inner.filled = NULL;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, step), "k");
    carry(u, &l, &inner);
    be_loop_body(u, &l);
    e->indices[innermost(c)->id] = (EmitIndex){.base = l.index};
    round(c, &inner);
    hand_on(&l, &inner);
    be_loop_end(u, &l);
    take(&l, &inner);
    for (int i = 0; i < s->num; i++)
        s->block[i] = inner.block[i];
}

/* Values begin to end of the innermost index; no block ends before the last. */
static void
add_piece(Contract *c, Sums *s, Val begin, Val end)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    if (c->rounds) {
        Val rounds = be_emit_word(e, c->rounds);
        Val count = be_sub(u, end, begin);
        Val rest = LLVMBuildURem(u->builder, count, rounds, "");
        Val middle = be_sub(u, end, rest);
        add_rounds(c, s, begin, middle, c->rounds, add_strip);
        begin = middle;
    }
    add_rounds(c, s, begin, end, 1, add_products);
}

/* ---- blocks ------------------------------------------------------------- */

/* Adds a full block's sum to the total, and begins a new one. */
static void
end_block(Contract *c, Sums *s, Val count)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    s->filled = be_add(u, s->filled, count);
    Val full = be_icmp(u, LLVMIntEQ, s->filled, be_emit_word(e, IR_K_BLOCK));
    for (int i = 0; i < s->num; i++) {
        Val sum = LLVMBuildFAdd(u->builder, s->total[i], s->block[i], "");
        s->total[i] = be_select(u, full, sum, s->total[i]);
        s->block[i] = be_select(u, full, be_zero(c->type), s->block[i]);
    }
    s->filled = be_select(u, full, be_emit_word(e, 0), s->filled);
}

/* The innermost loop in pieces that end at its own end or that of a block. */
static void
add_pieces(Contract *c, Sums *s, Val extent)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), extent, NULL, "piece");
    carry(u, &l, s);
    be_loop_body(u, &l);
    Val left = be_sub(u, be_emit_word(e, IR_K_BLOCK), s->filled);
    l.step = be_min(u, be_sub(u, extent, l.index), left);
    add_piece(c, s, l.index, be_add(u, l.index, l.step));
    end_block(c, s, l.step);
    hand_on(&l, s);
    be_loop_end(u, &l);
    take(&l, s);
}

static void
add_nest(Contract *c, Sums *s, int depth)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const KRanges *r = &c->node->contract.ranges;
    Val extent = be_emit_dim(e, r->vars[depth]->extent);
    if (depth == r->count - 1) {
        if (s->filled)
            add_pieces(c, s, extent);
        else
            add_piece(c, s, be_emit_word(e, 0), extent);
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), extent, be_emit_word(e, 1), "k");
    carry(u, &l, s);
    be_loop_body(u, &l);
    e->indices[r->vars[depth]->id] = (EmitIndex){.base = l.index};
    add_nest(c, s, depth + 1);
    hand_on(&l, s);
    be_loop_end(u, &l);
    take(&l, s);
}

/* Adds the last block's sum to the total, unless it has no product while others
 * have some.  The total begins with -0, which is neutral; of no products at all
 * it becomes 0. */
static void
end_sums(Contract *c, Sums *s)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val size = be_emit_ranges_size(e, &c->node->contract.ranges);
    Val empty = be_icmp(u, LLVMIntEQ, s->filled, be_emit_word(e, 0));
    Val some = be_icmp(u, LLVMIntNE, size, be_emit_word(e, 0));
    Val done = be_and(u, empty, some);
    for (int i = 0; i < s->num; i++) {
        Val sum = LLVMBuildFAdd(u->builder, s->total[i], s->block[i], "");
        s->block[i] = be_select(u, done, s->total[i], sum);
    }
}

void
be_emit_contract(Emit *e, const KNode *n)
{
    if (be_gemm_is_result(e, n)) {
        be_gemm_load_result(e, n);
        return;
    }
    if (n->contract.pairs) {
        be_emit_pairs(e, n);
        return;
    }
    Contract c = {.e = e, .node = n, .depends = be_emit_varying(e, n)};
    c.is_float = dtype_is_float(n->dtype);
    c.type = be_vector(be_emit_type(e, n->dtype),
                       c.depends.lane ? e->tile.lanes : 0);
    c.rounds = n->contract.ranges.count ? choose_rounds(&c) : 0;
    bool blocks =
        c.is_float && be_ranges_bound(e->k, &n->contract.ranges) > IR_K_BLOCK;
    Sums s = {.num =
                  be_emit_rows(e, c.depends) * be_emit_vectors(e, c.depends)};
    for (int i = 0; i < s.num; i++) {
        s.block[i] = be_zero(c.type);
        s.total[i] = c.is_float ? be_float(c.type, -0.0) : s.block[i];
    }
    if (blocks)
        s.filled = be_emit_word(e, 0);
    if (n->contract.ranges.count)
        add_nest(&c, &s, 0);
    else
        add_products(&c, &s);
    if (blocks)
        end_sums(&c, &s);
    for (int row = 0; row < be_emit_rows(e, c.depends); row++) {
        for (int v = 0; v < be_emit_vectors(e, c.depends); v++)
            be_emit_set(e, n, row, v,
                        s.block[be_emit_slot(e, c.depends, row, v)]);
    }
}
