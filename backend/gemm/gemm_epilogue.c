/*
 * gemm_epilogue.c - what is computed from the sums
 *
 * The micro-kernel leaves its accumulators in memory, where the epilogue reads
 * them, a row at a time.  So the epilogue is emitted once, or twice where rows
 * end within a vector, however many accumulators a tile has.
 */
#include "backend/gemm/gemm.h"

enum { LONG_EPILOGUE = 200 }; /* code size */

/* ---- the epilogue -------------------------------------------------------- */

/* Columns begin .. end of the current row; the accumulator of the first one is
 * at `sums`.  With a mask if they may end within a vector. */
static void
epilogue_columns(GemmCode *t, Val begin, Val end, Val sums, bool with_mask)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const Gemm *p = t->gemm;
    int lanes = t->plan.lanes;
    EmitTile outer = e->tile;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, lanes), "column");
    be_loop_body(u, &l);
    e->tile.lanes = lanes;
    e->tile.lane = p->n;
    if (with_mask)
        e->tile.mask[0] =
            be_emit_first_lanes(e, be_sub(u, end, l.index), lanes);
    e->indices[p->n->id] = (EmitIndex){.base = l.index};
    e->accumulators = be_gemm_scratch_at(t, sums, be_sub(u, l.index, begin));
    be_emit_slice(e, &p->epilogue, &p->loop->loop.body);
    be_loop_end(u, &l);
    e->tile = outer;
}

/* Whether rows end within a vector, and vectors before the last have code of
 * their own: masked stores are slow on some machines. */
static bool
ends_apart(const GemmCode *t)
{
    Dim extent = t->gemm->n->extent;
    int64_t lanes = t->plan.lanes;
    bool is_short = ir_dim_is_const(extent) && extent.c < lanes;
    return !is_short &&
           be_kernel_code_size(&t->gemm->loop->loop.body) <= LONG_EPILOGUE;
}

/* One row, whose accumulators are at `sums`. */
static void
epilogue_row(GemmCode *t, Val row, Val sums, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    const Gemm *p = t->gemm;
    Dim extent = p->n->extent;
    be_space_delinearize(e, &p->m, row);
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    be_emit_slice(e, &p->epilogue, &e->k->body);
    bool in_vectors = ir_dim_is_const(extent) && extent.c % t->plan.lanes == 0;
    if (!in_vectors && ends_apart(t)) {
        Val count = be_sub(u, end, first);
        Val rest = LLVMBuildURem(u->builder, count,
                                 be_emit_word(e, t->plan.lanes), "");
        Val whole = be_sub(u, count, rest), middle = be_add(u, first, whole);
        epilogue_columns(t, first, middle, sums, false);
        sums = be_gemm_scratch_at(t, sums, whole);
        first = middle;
    }
    epilogue_columns(t, first, end, sums, !in_vectors);
}

void
be_gemm_epilogue_rows(GemmCode *t, Val from, Val to, Val first, Val end)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    EmitTile outer = e->tile;
    BeLoop l;
    be_emit_find_varying(e, NULL);
    be_loop_begin(u, &l, from, to, be_emit_word(e, 1), "row");
    be_loop_body(u, &l);
    Val before =
        be_mul(u, be_sub(u, l.index, from), be_emit_word(e, t->plan.nc));
    epilogue_row(t, l.index, be_gemm_scratch_at(t, t->c, before), first, end);
    be_loop_end(u, &l);
    e->tile = outer;
}

bool
be_gemm_is_result(const Emit *e, const KNode *n)
{
    return e->gemm && e->gemm->gemm->contract == n;
}

void
be_gemm_load_result(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const GemmCode *t = e->gemm;
    Type vector = be_vector(t->type, e->tile.lanes);
    for (int v = 0; v < e->tile.vectors; v++) {
        Val p =
            be_offset_const(u, e->accumulators, v * e->tile.lanes * t->bytes);
        be_emit_set(e, n, 0, v, be_load(u, vector, p, (unsigned)t->bytes));
    }
}
