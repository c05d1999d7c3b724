/*
 * gemm_hidden.c - tiles of C that an epilogue does not look at
 *
 * The epilogue of scores under a mask is where(mask, f(c), x): it takes x
 * wherever the mask is false, whatever c is.  So a tile whose mask is false
 * everywhere needs no products; its accumulators keep what is there.  For a
 * triangular mask that is half of all tiles, and it is known from the elements
 * of the mask alone, so any mask that hides whole tiles is as good.
 *
 * Looking at the mask must cost little beside the products.  A tile that is
 * needed most often shows it in the first columns of its last row, where a
 * causal mask hides least; the others are looked at only if these are hidden.
 */
#include "backend/gemm/gemm.h"

#include "backend/kernel/kernel_impl.h"
#include "ir/ops/op.h"

enum {
    MIN_PRODUCTS = 16,
    MAX_COST = 16, /* elementary operations for an element of a condition */
};

/* ---- the condition ------------------------------------------------------- */

/* Whether n takes one of its operands from the sums, and which one a condition
 * that does not depend on them decides. */
static bool
chooses(const KNode *n, const bool *of_sums)
{
    return n->kind == K_MAP && n->map.op == OP_where &&
           !of_sums[n->map.args[0]->id] &&
           of_sums[n->map.args[1]->id] != of_sums[n->map.args[2]->id];
}

/* The only operation of the loop that the sums reach, if it is a choice: what
 * follows it sees them only where it takes them.  of_sums gets the values that
 * depend on them before. */
static const KNode *
only_choice(const Gemm *g, bool *of_sums)
{
    const KNode *choice = NULL;
    of_sums[g->contract->id] = true;
    for (KNode *n = g->contract->next; n; n = n->next) {
        KNode *args[K_MAX_ARGS];
        bool depends = false;
        int num = be_kernel_args(n, args);
        for (int i = 0; i < num; i++)
            depends |= of_sums[args[i]->id];
        if (!depends)
            continue;
        if (n->kind != K_MAP || (choice && chooses(n, of_sums)))
            return NULL;
        if (chooses(n, of_sums))
            choice = n;
        else
            of_sums[n->id] = true;
    }
    return choice;
}

/* Whether the values of b in the slice are made by a few simple operations. */
static bool
is_cheap(const KernelSlice *slice, const KBlock *b, int *cost)
{
    for (const KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        bool has_body = be_kernel_body((KNode *)n, &ranges) != NULL;
        if (!be_slice_contains(slice, n) || n->kind == K_STORE)
            continue;
        if (n->kind != K_LOOP && (has_body || n->kind == K_RUNNING))
            return false;
        *cost += n->kind == K_MAP ? ir_op_code(n->map.op)->cost : 1;
    }
    return *cost <= MAX_COST;
}

void
be_gemm_find_shown(Emit *e, Gemm *g)
{
    bool *of_sums = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_values + 1);
    const KNode *choice = only_choice(g, of_sums);
    int cost = 0;
    if (!choice || be_space_bound(e->k, &g->k) < MIN_PRODUCTS)
        return;
    const KNode *condition = choice->map.args[0];
    KernelSlice slice = be_slice_of(e, condition, g->contract, g->loop);
    if (is_cheap(&slice, &e->k->body, &cost) &&
        is_cheap(&slice, &g->loop->loop.body, &cost))
        g->shown =
            (GemmShown){condition, slice, of_sums[choice->map.args[2]->id]};
}

/* ---- tiles --------------------------------------------------------------- */

/* Whether the epilogue looks at an element of a vector of columns, of which
 * those from `end` on do not exist. */
static Val
vector_is_shown(GemmCode *t, Val row, Val column, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const Gemm *g = t->gemm;
    EmitTile outer = e->tile;
    Dim extent = g->n->extent;
    int lanes = t->plan.lanes;
    be_emit_find_varying(e, NULL);
    be_space_delinearize(e, &g->m, row);
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    be_emit_slice(e, &g->shown.slice, &e->k->body);
    e->tile.lanes = lanes;
    e->tile.lane = g->n;
    if (!ir_dim_is_const(extent) || extent.c % be_gemm_nr(t))
        e->tile.mask[0] = be_emit_first_lanes(e, be_sub(u, end, column), lanes);
    e->indices[g->n->id] = (EmitIndex){.base = column};
    be_emit_slice(e, &g->shown.slice, &g->loop->loop.body);
    Val shown = be_emit_get_as(e, g->shown.condition, 0, 0, true);
    if (g->shown.inverted)
        shown = LLVMBuildNot(u->builder, shown, "");
    if (e->tile.mask[0])
        shown = be_and(u, shown, e->tile.mask[0]);
    e->tile = outer;
    return be_intrinsic1(u, "llvm.vector.reduce.or", shown);
}

/* The same of all rows and columns of a tile. */
static Val
tile_is_shown(GemmCode *t, Val first, Val count, Val column, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    Val no = be_zero(u->i1), stop = be_add(u, first, count);
    BeLoop l;
    be_loop_begin(u, &l, first, stop, be_emit_word(e, 1), "look");
    Val found = be_loop_carry(u, &l, no);
    be_loop_body(u, &l);
    for (int v = 0; v < t->plan.vectors; v++) {
        Val at = be_add(u, column, be_emit_word(e, v * t->plan.lanes));
        found = be_or(u, found, vector_is_shown(t, l.index, at, end));
    }
    be_loop_next(&l, 0, found);
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

Val
be_gemm_is_shown(GemmCode *t, Val first, Val count, Val column, Val end)
{
    BeUnit *u = t->e->u;
    Val last = be_sub(u, be_add(u, first, count), be_emit_word(t->e, 1));
    Val found = vector_is_shown(t, last, column, end);
    Block here, look = be_block(u, "look"), known = be_block(u, "known");
    here = be_insert_block(u);
    be_cond_br(u, found, known, look);
    be_position_at_end(u, look);
    Val others = tile_is_shown(t, first, count, column, end);
    Block looked = be_insert_block(u);
    be_br(u, known);
    be_position_at_end(u, known);
    Val shown = LLVMBuildPhi(u->builder, u->i1, "shown");
    Val values[] = {found, others};
    Block from[] = {here, looked};
    LLVMAddIncoming(shown, values, from, 2);
    return shown;
}
