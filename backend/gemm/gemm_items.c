/*
 * gemm_items.c - what of a gemm is executed for a range of items
 *
 * A kernel's items are the rows of its matrices, and threads execute ranges of
 * them.  Where rows are few, ranges of them would leave tiles empty and pack B
 * again for each; so a matrix with enough columns has cells of some rows and
 * columns.  A range of its rows stands for as large a part of its cells: begin
 * .. end of m rows for the cells floor(begin * cells / m) .. floor(end * cells
 * / m), by rows of cells.  Whole rows of cells in a range are multiplied at
 * once, so one thread that executes all items knows nothing of cells.
 *
 * Rows are divided in two even where all of B is then packed twice: the kernels
 * around a product are divided by rows, and what a thread has computed is in
 * its cache.
 */
#include "backend/gemm/bf16.h"

enum {
    FEW_COLUMNS = 128, /* that are not divided */
    MANY_ROWS = 2048,  /* of all matrices; these suffice for all threads */
    LEAST_ROWS = EMIT_GRAIN_ROWS * 3 / 4, /* of cells in more than two rows of
                                             them: about as many as are worth
                                             packing B */
    MOST_ACROSS = 16,                     /* cells in a row of them */
    MOST_RANGES = 64                      /* of items */
};

/* Whether threads divide the cells of g, not single rows. */
static bool
has_cells(const BeKernel *k, const Gemm *g)
{
    return be_dim_bound(k, g->n->extent) >= FEW_COLUMNS &&
           be_items_bound(k) < MANY_ROWS;
}

/* Even pieces, two or more unless there is only one tile. */
static int64_t
choose_rows(const GemmPlan *plan, int64_t m)
{
    int64_t pieces = 2;
    while (m / (2 * pieces) >= LEAST_ROWS)
        pieces *= 2;
    return be_gemm_round_up((m + pieces - 1) / pieces, plan->mr);
}

/* Panels of B that are packed together; 0: all columns, as where lines are
 * packed, which all of them share. */
static int64_t
choose_columns(const GemmPlan *plan, int64_t n)
{
    if (plan->a.kind == GEMM_K_LINES || plan->a.kind == GEMM_M_LINES)
        return 0;
    int64_t least = (n + MOST_ACROSS - 1) / MOST_ACROSS;
    if (least < FEW_COLUMNS / 2)
        least = FEW_COLUMNS / 2;
    int64_t together = plan->b.kind == GEMM_PANELS ? plan->n_panels : 1;
    int64_t columns = be_gemm_round_up(least, together * be_gemm_plan_nr(plan));
    return columns < n ? columns : 0;
}

void
be_gemm_choose_cells(const BeKernel *k, const Gemm *g, GemmPlan *plan)
{
    plan->cell_rows = plan->cell_columns = 0;
    if (!has_cells(k, g))
        return;
    plan->cell_rows = choose_rows(plan, be_space_bound(k, &g->m));
    plan->cell_columns = choose_columns(plan, be_dim_bound(k, g->n->extent));
}

/* 0: all items are too little work for two. */
static int64_t
choose_grain(const BeKernel *k)
{
    int64_t items = be_items_bound(k), grain = items / MOST_RANGES;
    double few = EMIT_GRAIN_OPERATIONS / (1 + be_kernel_cost(k, &k->body));
    if ((double)grain < few)
        grain = (int64_t)few;
    if (grain < 1)
        grain = 1;
    return items < 2 * grain ? 0 : grain;
}

bool
be_gemm_divides(const BeKernel *k, int64_t *grain)
{
    Arena *a = arena_new(NULL, "gemm items");
    Emit e = be_emit_for_analysis(a, k);
    Gemm g;
    bool found = be_gemm_find(&e, &g), has_own = false;
    if (found && !g.batch.count && be_items_bound(k) < GEMM_FEW_ROWS) {
        *grain = 0; /* one tile, which reads B once */
        has_own = true;
    } else if (found && be_gemm_match(&e, &g) && has_cells(k, &g)) {
        *grain = choose_grain(k);
        has_own = true;
    }
    arena_release(a);
    return has_own;
}

/* ---- code ---------------------------------------------------------------- */

/* Pieces of that size in an extent. */
static Val
count_pieces(const GemmCode *t, Val extent, int64_t size)
{
    BeUnit *u = t->e->u;
    Val last = be_add(u, extent, be_emit_word(t->e, size - 1));
    return LLVMBuildUDiv(u->builder, last, be_emit_word(t->e, size), "");
}

/* Where piece number `piece` of an extent begins. */
static Val
piece_begin(const GemmCode *t, Val piece, int64_t size, Val extent)
{
    BeUnit *u = t->e->u;
    return be_min(u, be_mul(u, piece, be_emit_word(t->e, size)), extent);
}

/* The rows of cells that `left` cells from this column on are; 0: a part of
 * one. */
static Val
whole_rows(const GemmCode *t, Val column, Val left, Val across)
{
    BeUnit *u = t->e->u;
    Val zero = be_emit_word(t->e, 0);
    Val is_first = be_icmp(u, LLVMIntEQ, column, zero);
    Val rows = LLVMBuildUDiv(u->builder, left, across, "");
    return be_select(u, is_first, rows, zero);
}

/* The elements of `down` rows of cells from `row` on, columns column .. to. */
static void
multiply_block(GemmCode *t, Val row, Val down, Val column, Val to)
{
    int64_t rows = t->plan.cell_rows, columns = t->plan.cell_columns;
    Val m = piece_begin(t, row, rows, t->m);
    Val m_end = piece_begin(t, be_add(t->e->u, row, down), rows, t->m);
    Val n = be_emit_word(t->e, 0), n_end = t->n; /* constants, if it has all */
    if (columns) {
        n = piece_begin(t, column, columns, t->n);
        n_end = piece_begin(t, to, columns, t->n);
    }
    be_gemm_multiply(t, m, m_end, n, n_end);
}

/* Cells begin .. end of one matrix, `across` in a row of them. */
static void
multiply_cells(GemmCode *t, Val begin, Val end, Val across)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, NULL, "cell");
    be_loop_body(u, &l);
    Val row = l.index, column = be_emit_divmod(e, &row, across);
    Val left = be_sub(u, end, l.index);
    Val whole = whole_rows(t, column, left, across);
    Val is_part = be_icmp(u, LLVMIntEQ, whole, be_emit_word(e, 0));
    Val down = be_select(u, is_part, be_emit_word(e, 1), whole);
    Val to = be_min(u, be_add(u, column, left), across);
    l.step = be_mul(u, down, be_sub(u, to, column));
    multiply_block(t, row, down, column, to);
    be_loop_end(u, &l);
}

/* The first of `cells` that row number `row` of a matrix stands for. */
static Val
cell_of(const GemmCode *t, Val row, Val cells)
{
    BeUnit *u = t->e->u;
    Val m = be_max(u, t->m, be_emit_word(t->e, 1));
    return LLVMBuildUDiv(u->builder, be_mul(u, row, cells), m, "");
}

/* What rows from .. to of one matrix stand for. */
static void
multiply_part(GemmCode *t, Val from, Val to)
{
    BeUnit *u = t->e->u;
    const GemmPlan *p = &t->plan;
    if (!p->cell_rows) {
        be_gemm_multiply(t, from, to, be_emit_word(t->e, 0), t->n);
        return;
    }
    Val rows = count_pieces(t, t->m, p->cell_rows);
    Val across = p->cell_columns ? count_pieces(t, t->n, p->cell_columns)
                                 : be_emit_word(t->e, 1);
    Val cells = be_mul(u, rows, across);
    Val begin = cell_of(t, from, cells), end = cell_of(t, to, cells);
    multiply_cells(t, begin, end, across);
}

/* One matrix of the batch at a time, or the requested part of it. */
static void
multiply_batch(GemmCode *t)
{
    Emit *e = t->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    BeLoop l;
    be_loop_begin(u, &l, e->begin, e->end, NULL, "item");
    be_loop_body(u, &l);
    be_space_delinearize(e, &t->gemm->batch,
                         LLVMBuildUDiv(b, l.index, t->m, ""));
    Val from = LLVMBuildURem(b, l.index, t->m, "");
    Val left = be_sub(u, e->end, l.index);
    l.step = be_min(u, left, be_sub(u, t->m, from));
    multiply_part(t, from, be_add(u, from, l.step));
    be_loop_end(u, &l);
}

void
be_gemm_emit(Emit *e, const Gemm *p, const GemmPlan *plan, Val micro_kernel)
{
    GemmCode t = be_gemm_begin(e, p, plan, micro_kernel);
    e->gemm = &t;
    if (plan->unit == GEMM_AMX)
        be_amx_begin(e);
    if (p->batch.count)
        multiply_batch(&t);
    else
        multiply_part(&t, e->begin, e->end);
    if (plan->unit == GEMM_AMX)
        be_amx_end(e);
    e->gemm = NULL;
}
