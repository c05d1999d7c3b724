/*
 * ptx_tiles.c - contractions, a rectangle of the result at a time
 *
 *   ptx_operand.c     which kernels, and how their operands lie in memory
 *   ptx_tile_shape.c  the size of a tile and of a thread's part
 *   ptx_stage.c       the operands of a step of products in shared memory
 *   ptx_mma.c         the products of a step on tensor cores
 *   ptx_tiles.c       the loops over steps and blocks of products; results
 *
 * The main loop adds the products of a step, ascending, to a thread's sums,
 * while the operands of the next step are on their way to the other half of
 * shared memory.  One barrier a step is enough: it says that this half is
 * complete and that nobody reads the other one any more.
 *
 * Blocks of 512 products are summed separately (D2).  A block's threads may be
 * several k slices, each with a block of products of its own; their sums are
 * then added in order.  Products that do not fill a step are added one by one.
 * Tensor cores have neither (D36).
 *
 * The sums go through shared memory once more, so that the rest of the kernel
 * is executed for neighbouring elements by neighbouring threads, with accesses
 * of 16 bytes.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"

/* ---- products ----------------------------------------------------------- */

static int
num_sums(const PtxTile *t)
{
    return t->shape->rows * t->shape->columns;
}

static void
add_product(const PtxTile *t, const Val *x, const Val *y, Val *sums)
{
    BeUnit *u = t->p->e.u;
    int columns = t->shape->columns;
    for (int i = 0; i < num_sums(t); i++) {
        Val a = x[i / columns], b = y[i % columns];
        sums[i] = t->t->is_float ? be_intrinsic3(u, "llvm.fma", a, b, sums[i])
                                 : be_add(u, sums[i], be_mul(u, a, b));
    }
}

static void
add_step(PtxTile *t, Val buffer, Val *sums)
{
    if (t->t->mma) {
        be_ptx_mma_add_step(t, buffer, sums);
        return;
    }
    if (t->t->contract->contract.pairs) {
        be_ptx_pairs_add_step(t, buffer, sums);
        return;
    }
    for (int product = 0; product < t->step; product += t->vector) {
        PtxFragment x, y;
        be_ptx_fragment_load(t, PTX_ROWS, buffer, product, &x);
        be_ptx_fragment_load(t, PTX_COLUMNS, buffer, product, &y);
        for (int i = 0; i < t->vector; i++)
            add_product(t, x.x[i], y.x[i], sums);
    }
}

/* The first `count` products of a step, fewer than all. */
static void
add_part_of_step(PtxTile *t, Val buffer, Val count, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val x[PTX_MAX_EACH], y[PTX_MAX_EACH];
    BeLoop l;
    if (t->t->mma) {
        be_ptx_mma_add_part(t, buffer, count, sums);
        return;
    }
    if (t->t->contract->contract.pairs) {
        be_ptx_pairs_add_part(t, buffer, count, sums);
        return;
    }
    be_loop_begin(u, &l, be_emit_word(e, 0), count, be_emit_word(e, 1), "rest");
    for (int i = 0; i < num_sums(t); i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    be_loop_body(u, &l);
    be_ptx_fragment_load_one(t, PTX_ROWS, buffer, l.index, x);
    be_ptx_fragment_load_one(t, PTX_COLUMNS, buffer, l.index, y);
    add_product(t, x, y, sums);
    for (int i = 0; i < num_sums(t); i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < num_sums(t); i++)
        sums[i] = be_loop_result(&l, i);
}

static Val
other_buffer(const PtxTile *t, Val buffer)
{
    Emit *e = &t->p->e;
    return be_sub(e->u, be_emit_word(e, t->step_bytes), buffer);
}

/* Stages the first products from `product` on, if there are any before end. */
static void
stage_first(PtxTile *t, Val product, Val end, Val buffer)
{
    BeUnit *u = t->p->e.u;
    PtxFetched fetched;
    Val more = be_icmp(u, LLVMIntSLT, product, end);
    be_ptx_stage_begin(t, more, product, buffer, &fetched);
    be_ptx_stage_end(t, buffer, &fetched);
}

/* ---- a block of products ------------------------------------------------ */

/* How a step is added whose first product is number `product`. */
typedef void AddStep(PtxTile *t, Val product, Val end, Val buffer, Val *sums);

static void
add_whole_step(PtxTile *t, Val product, Val end, Val buffer, Val *sums)
{
    (void)product;
    (void)end;
    add_step(t, buffer, sums);
}

/* The loop over steps: `count` products from `begin` on.  The next products are
 * staged as long as they are before `more`. */
static void
add_steps(PtxTile *t, Val begin, Val count, Val end, Val more, AddStep *add,
          Val *buffer, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int num = num_sums(t);
    PtxFetched fetched;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, be_emit_word(e, t->step),
                  "step");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, be_zero(t->type));
    Val here = be_loop_carry(u, &l, *buffer);
    be_loop_body(u, &l);
    be_ptx_stage_wait(t);
    Val product = be_add(u, begin, l.index), there = other_buffer(t, here);
    Val next = be_add(u, product, be_emit_word(e, t->step));
    Val is_more = be_icmp(u, LLVMIntSLT, next, more);
    be_ptx_stage_begin(t, is_more, next, there, &fetched);
    add(t, product, end, here, sums);
    be_ptx_stage_end(t, there, &fetched);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_next(&l, num, there);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_result(&l, i);
    *buffer = be_loop_result(&l, num);
}

/* x rounded down to whole steps. */
static Val
whole_steps(const PtxTile *t, Val x)
{
    Emit *e = &t->p->e;
    return LLVMBuildAnd(e->u->builder, x, be_emit_word(e, -t->step), "");
}

/* The sums of the products begin to end, which all threads add.  The first ones
 * are staged; those after end are, too, as long as they are before `more`. */
static void
add_block(PtxTile *t, Val begin, Val end, Val more, Val *buffer, Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val count = be_sub(u, end, begin), whole = whole_steps(t, count);
    add_steps(t, begin, t->t->ends_ragged ? whole : count, end, more,
              add_whole_step, buffer, sums);
    if (!t->t->ends_ragged)
        return;
    Val rest = be_sub(u, count, whole), before[PTX_MAX_SUMS];
    for (int i = 0; i < num_sums(t); i++)
        before[i] = sums[i];
    PtxIf i = be_ptx_if(
        t->p, be_icmp(u, LLVMIntSGT, rest, be_emit_word(&t->p->e, 0)));
    be_ptx_stage_wait(t);
    add_part_of_step(t, *buffer, rest, sums);
    be_ptx_end_if_all(t->p, &i, sums, before, num_sums(t));
}

/* ---- blocks of products ------------------------------------------------- */

/* Totals are carried through the loop, or wait in local memory. */
static void
add_blocks(PtxTile *t, Val *totals)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    bool is_aside = be_ptx_totals_are_aside(t->t, t->shape);
    int num = num_sums(t), carried = is_aside ? 0 : num;
    Val sums[PTX_MAX_SUMS];
    Val none = be_emit_word(e, 0), step = be_emit_word(e, IR_K_BLOCK);
    Val aside = is_aside ? be_ptx_totals_aside(t, num) : NULL;
    stage_first(t, none, t->size, none);
    BeLoop l;
    be_loop_begin(u, &l, none, t->size, step, "block");
    be_ptx_totals_begin(t, &l, carried, totals);
    Val buffer = be_loop_carry(u, &l, none);
    be_loop_body(u, &l);
    Val end = be_min(u, be_add(u, l.index, step), t->size);
    add_block(t, l.index, end, t->size, &buffer, sums);
    if (is_aside)
        be_ptx_totals_add(t, aside, num, sums);
    for (int i = 0; i < carried; i++)
        be_loop_next(&l, i, LLVMBuildFAdd(u->builder, totals[i], sums[i], ""));
    be_loop_next(&l, carried, buffer);
    be_loop_end(u, &l);
    if (is_aside)
        be_ptx_totals_get(t, aside, num, totals);
    be_ptx_totals_end(t, &l, carried, totals);
}

static void
add_only_block(PtxTile *t, Val *sums)
{
    Emit *e = &t->p->e;
    Val none = be_emit_word(e, 0), buffer = none;
    stage_first(t, none, t->size, none);
    add_block(t, none, t->size, t->size, &buffer, sums);
}

/* ---- k slices ---------------------------------------------------------- */

/* A step of which a k slice may have all, some or no products. */
static void
add_any_step(PtxTile *t, Val product, Val end, Val buffer, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int num = num_sums(t);
    Val before[PTX_MAX_SUMS], all = be_emit_word(e, t->step);
    Val left = be_sub(u, end, product);
    for (int i = 0; i < num; i++)
        before[i] = sums[i];
    PtxIf whole = be_ptx_if(t->p, be_icmp(u, LLVMIntSGE, left, all));
    add_step(t, buffer, sums);
    be_ptx_end_if_all(t->p, &whole, sums, before, num);
    if (!t->t->ends_ragged)
        return;
    Val some = be_icmp(u, LLVMIntSLT, left, all);
    add_part_of_step(t, buffer, be_select(u, some, left, be_emit_word(e, 0)),
                     sums);
}

/* Where the thread's vector number i of sums is exchanged. */
static Val
exchanged_at(const PtxTile *t, int i)
{
    Emit *e = &t->p->e;
    int64_t before = (int64_t)i * be_ptx_tile_threads(t->shape);
    Val slot = be_add(e->u, t->thread, be_emit_word(e, before));
    return be_ptx_shared_at(t->p, 0, slot, PTX_ALIGN);
}

static void
offer_sums(PtxTile *t, Val slice, const Val *sums)
{
    BeUnit *u = t->p->e.u;
    PtxIf mine = be_ptx_if(t->p, be_icmp(u, LLVMIntEQ, t->k_slice, slice));
    for (int i = 0; i < num_sums(t) / t->vector; i++)
        be_ptx_store_lanes(t, &sums[i * t->vector], t->vector,
                           exchanged_at(t, i));
    be_ptx_end_if(t->p, &mine, NULL, NULL);
}

static void
add_offered(PtxTile *t, const Val *totals, BeLoop *l)
{
    BeUnit *u = t->p->e.u;
    Val all = NULL;
    for (int i = 0; i < num_sums(t); i++) {
        if (i % t->vector == 0)
            all = be_load(u, be_vector(t->type, t->vector),
                          exchanged_at(t, i / t->vector), PTX_ALIGN);
        Val x = be_extract(u, all, i % t->vector, 0);
        be_loop_next(l, i, LLVMBuildFAdd(u->builder, totals[i], x, ""));
    }
}

/* Adds the sums of the k slices that have a block, in order; all threads have
 * the totals then. */
static void
add_slices(PtxTile *t, Val blocks, const Val *sums, Val *totals)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int num = num_sums(t);
    Val slices = be_emit_word(e, t->shape->k_slices);
    be_ptx_barrier(t->p);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_min(u, blocks, slices),
                  be_emit_word(e, 1), "slice");
    for (int i = 0; i < num; i++)
        totals[i] = be_loop_carry(u, &l, totals[i]);
    be_loop_body(u, &l);
    offer_sums(t, l.index, sums);
    be_ptx_barrier(t->p);
    add_offered(t, totals, &l);
    be_ptx_barrier(t->p);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        totals[i] = be_loop_result(&l, i);
}

/* Each k slice has every k_slices-th block.  Those of the first are the
 * longest, so that all make as many steps as it does. */
static void
add_blocks_of_slices(PtxTile *t, Val *totals)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int num = num_sums(t);
    Val none = be_emit_word(e, 0), block = be_emit_word(e, IR_K_BLOCK);
    Val sums[PTX_MAX_SUMS], buffer = none;
    BeLoop l;
    be_loop_begin(u, &l, none, t->size,
                  be_emit_word(e, (int64_t)IR_K_BLOCK * t->shape->k_slices),
                  "blocks");
    be_ptx_totals_begin(t, &l, num, totals);
    be_loop_body(u, &l);
    Val left = be_sub(u, t->size, l.index);
    Val begin = be_add(u, l.index, be_mul(u, t->k_slice, block));
    Val end = be_min(u, be_add(u, begin, block), t->size);
    stage_first(t, begin, end, none);
    add_steps(t, begin, be_min(u, left, block), end, end, add_any_step, &buffer,
              sums);
    Val blocks = be_add(u, left, be_emit_word(e, IR_K_BLOCK - 1));
    add_slices(t, LLVMBuildUDiv(u->builder, blocks, block, ""), sums, totals);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, totals[i]);
    be_loop_end(u, &l);
    be_ptx_totals_end(t, &l, num, totals);
}

/* ---- a part of split products -------------------------------------------- */

/* One block of a tile's products. */
static void
emit_split_tile(PtxTile *t)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val sums[PTX_MAX_SUMS], buffer = be_emit_word(e, 0);
    Val block = be_emit_word(e, IR_K_BLOCK);
    Val begin = be_mul(u, t->part, block);
    Val end = be_min(u, be_add(u, begin, block), t->size);
    stage_first(t, begin, end, buffer);
    add_block(t, begin, end, end, &buffer, sums);
    be_ptx_put_part(t, sums);
    be_ptx_barrier(t->p); /* the next one stages where this one was read */
}

/* ---- results ------------------------------------------------------------ */

static Val
result_at(const PtxTile *t, Val number)
{
    return be_ptx_shared_at(t->p, 0, number, t->t->bytes);
}

/* The first `rows` rows of the thread. */
static void
put_results(PtxTile *t, int rows, const Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int columns = t->shape->columns, run = be_ptx_tile_run(t);
    int line = be_ptx_result_line(t->t, t->shape);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j += run) {
            int64_t before = (int64_t)i * t->panels[PTX_ROWS].places;
            Val row =
                be_add(u, t->panels[PTX_ROWS].place, be_emit_word(e, before));
            Val column = be_ptx_element_of(t, PTX_COLUMNS, be_emit_word(e, j),
                                           t->panels[PTX_COLUMNS].place);
            row = be_mul(u, row, be_emit_word(e, line));
            be_ptx_store_lanes(t, &sums[i * columns + j], run,
                               result_at(t, be_add(u, row, column)));
        }
    }
}

/* Whether column and those beside it that the rest of the kernel is executed
 * for at once exist. */
static Val
columns_exist(const PtxTile *t, Val column, int columns)
{
    Emit *e = &t->p->e;
    Val last = be_add(e->u, column, be_emit_word(e, columns - 1));
    return be_icmp(e->u, LLVMIntSLT, last, t->panels[PTX_COLUMNS].limit);
}

/* A few elements of the results in shared memory. */
static void
get_results(const PtxTile *t, Val number, int count, Val *x)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Type type = be_emit_type(e, t->t->contract->dtype);
    Val all = be_load(u, be_vector(t->type, count > 1 ? count : 0),
                      result_at(t, number), (unsigned)(count * t->t->bytes));
    for (int i = 0; i < count; i++) {
        x[i] = count > 1 ? be_extract(u, all, i, 0) : all;
        if (!t->t->is_float)
            x[i] = LLVMBuildIntCast2(u->builder, x[i], type, 1, "");
    }
}

/* The rest of the kernel for elements from `number` on of the results in shared
 * memory, or of parts, which are at this row and column of the matrix. */
static void
finish_elements(PtxTile *t, Val number, Val row, Val column, int count)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    int together = count < t->vector ? count : t->vector;
    for (int i = 0; i < count; i += together) {
        Val first = be_add(e->u, number, be_emit_word(e, i));
        if (p->is_rest)
            be_ptx_add_parts(t, first, together, &p->products[i]);
        else
            get_results(t, first, together, &p->products[i]);
    }
    e->tile.rows = count;
    be_space_delinearize(e, &t->t->operands[PTX_ROWS].space, row);
    be_space_delinearize(e, &t->t->operands[PTX_COLUMNS].space, column);
    be_emit_block(e, &e->k->body);
    e->tile.rows = 1;
}

/* The same, one by one. */
static void
finish_one_by_one(PtxTile *t, Val number, Val row, Val column, int count)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, count),
                  be_emit_word(e, 1), "one");
    be_loop_body(u, &l);
    Val at = be_add(u, column, l.index);
    PtxIf i = be_ptx_if(t->p, columns_exist(t, at, 1));
    finish_elements(t, be_add(u, number, l.index), row, at, 1);
    be_ptx_end_if(t->p, &i, NULL, NULL);
    be_loop_end(u, &l);
}

/* A row of the results in shared memory as a row of the tile; the first of them
 * is the thread's row number `first`. */
static Val
row_of_tile(const PtxTile *t, Val first, Val row)
{
    Emit *e = &t->p->e;
    LLVMBuilderRef b = e->u->builder;
    Val places = be_emit_word(e, t->panels[PTX_ROWS].places);
    Val number = be_add(e->u, first, LLVMBuildUDiv(b, row, places, ""));
    return be_ptx_element_of(t, PTX_ROWS, number,
                             LLVMBuildURem(b, row, places, ""));
}

static bool
columns_are_even(const PtxTile *t, int count)
{
    int64_t all;
    return be_is_const(t->panels[PTX_COLUMNS].limit, &all) && all % count == 0;
}

/* A group of neighbours, of which the first one exists. */
static void
finish_group(PtxTile *t, Val number, Val row, Val column)
{
    BeUnit *u = t->p->e.u;
    int count = t->t->together;
    if (columns_are_even(t, count)) {
        finish_elements(t, number, row, column, count);
        return;
    }
    Block all = be_block(u, "all"), some = be_block(u, "some");
    Block after = be_block(u, "after");
    be_cond_br(u, columns_exist(t, column, count), all, some);
    be_position_at_end(u, all);
    finish_elements(t, number, row, column, count);
    be_br(u, after);
    be_position_at_end(u, some);
    finish_one_by_one(t, number, row, column, count);
    be_br(u, after);
    be_position_at_end(u, after);
}

/* The group from this number of the results in shared memory on. */
static void
finish_group_of_tile(PtxTile *t, Val first, Val number)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int padding = be_ptx_result_line(t->t, t->shape) - t->shape->width;
    Val width = be_emit_word(e, t->shape->width);
    Val in_memory = LLVMBuildUDiv(u->builder, number, width, "");
    Val row = row_of_tile(t, first, in_memory);
    Val column = LLVMBuildURem(u->builder, number, width, "");
    if (padding)
        number =
            be_add(u, number, be_mul(u, in_memory, be_emit_word(e, padding)));
    row = be_add(u, t->panels[PTX_ROWS].first, row);
    column = be_add(u, t->panels[PTX_COLUMNS].first, column);
    Val inside = be_icmp(u, LLVMIntSLT, row, t->panels[PTX_ROWS].limit);
    PtxIf i = be_ptx_if(t->p, be_and(u, inside, columns_exist(t, column, 1)));
    finish_group(t, number, row, column);
    be_ptx_end_if(t->p, &i, NULL, NULL);
}

/* `rows` of each thread's rows, the first of which is number `first`. */
static void
finish_rows(PtxTile *t, Val first, int rows, const Val *sums)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int64_t elements =
        (int64_t)rows * t->panels[PTX_ROWS].places * t->shape->width;
    int64_t step = (int64_t)p->shape.threads * t->t->together;
    PtxIf i;
    if (t->shape->k_slices > 1)
        i = be_ptx_if(p, be_icmp(u, LLVMIntEQ, t->k_slice, be_emit_word(e, 0)));
    put_results(t, rows, sums);
    if (t->shape->k_slices > 1)
        be_ptx_end_if(p, &i, NULL, NULL);
    be_ptx_barrier(p);
    BeLoop l;
    be_loop_begin(u, &l, be_mul(u, p->thread, be_emit_word(e, t->t->together)),
                  be_emit_word(e, elements), be_emit_word(e, step), "result");
    be_loop_body(u, &l);
    finish_group_of_tile(t, first, l.index);
    be_loop_end(u, &l);
    be_ptx_barrier(p);
}

/* The rest of the kernel is in the code once: in each round the sums of its
 * rows move to the front. */
static void
finish(PtxTile *t, Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    int rows = be_ptx_result_rows(t->t, t->shape), num = num_sums(t);
    int moved = rows * t->shape->columns;
    be_ptx_barrier(t->p);
    if (rows == t->shape->rows) {
        finish_rows(t, be_emit_word(e, 0), rows, sums);
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, t->shape->rows),
                  be_emit_word(e, rows), "rows");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    be_loop_body(u, &l);
    finish_rows(t, l.index, rows, sums);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, sums[(i + moved) % num]);
    be_loop_end(u, &l);
}

/* ---- tiles -------------------------------------------------------------- */

static void
emit_tile(PtxTile *t)
{
    Emit *e = &t->p->e;
    Val sums[PTX_MAX_SUMS];
    be_ptx_parts_find(t);
    if (t->p->scratch) {
        emit_split_tile(t);
        return;
    }
    if (t->shape->k_slices > 1)
        add_blocks_of_slices(t, sums);
    else if (t->t->is_float && !t->t->mma &&
             be_space_bound(e->k, &t->t->products) > IR_K_BLOCK)
        add_blocks(t, sums);
    else
        add_only_block(t, sums);
    be_ptx_tile_neighbours(t, t->along, t->t->together);
    finish(t, sums);
}

/* Tiles in turn, row by row; where products are split, all tiles of a part
 * before those of the next one. */
static void
emit_all(PtxTile *t)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    PtxPanel *rows = &t->panels[PTX_ROWS], *columns = &t->panels[PTX_COLUMNS];
    Val down = be_ptx_num_tiles(t, PTX_ROWS),
        across = be_ptx_num_tiles(t, PTX_COLUMNS);
    Val work = be_mul(u, down, across);
    work = be_mul(u, work, be_space_size(e, &t->t->outer));
    Val all = p->scratch ? be_mul(u, work, be_ptx_num_parts(t)) : work;
    BeLoop l;
    be_loop_begin(u, &l, p->block, all, p->num_blocks, "tile");
    be_loop_body(u, &l);
    Val tile = p->scratch ? LLVMBuildURem(b, l.index, work, "") : l.index;
    t->part = p->scratch ? LLVMBuildUDiv(b, l.index, work, "") : NULL;
    Val column = LLVMBuildURem(b, tile, across, "");
    Val number = LLVMBuildUDiv(b, tile, across, "");
    Val row = LLVMBuildURem(b, number, down, "");
    t->outer = LLVMBuildUDiv(b, number, down, "");
    be_space_delinearize(e, &t->t->outer, t->outer);
    rows->first = be_mul(u, row, be_emit_word(e, rows->side));
    columns->first = be_mul(u, column, be_emit_word(e, columns->side));
    emit_tile(t);
    be_loop_end(u, &l);
}

static PtxTile
open_tile(Ptx *p)
{
    Emit *e = &p->e;
    const PtxTiles *t = &p->shape.tiles;
    const EmitSpace *columns = &t->operands[PTX_COLUMNS].space;
    DType dtype = t->contract->dtype;
    PtxTile tile = {.p = p, .t = t, .shape = &t->shape};
    tile.type =
        t->is_float || t->bytes == 8 ? be_emit_type(e, dtype) : e->u->i32;
    tile.step = t->shape.step;
    tile.vector = be_ptx_tile_vector(t);
    tile.size = be_space_size(e, &t->products);
    tile.step_bytes = be_ptx_buffer_bytes(t, &t->shape);
    tile.along = columns->vars[columns->count - 1];
    return tile;
}

void
be_ptx_emit_tiles(Ptx *p)
{
    Emit *e = &p->e;
    LLVMBuilderRef b = e->u->builder;
    const PtxTiles *t = &p->shape.tiles;
    PtxTile tile = open_tile(p);
    Val threads = be_emit_word(e, be_ptx_tile_threads(&t->shape));
    tile.k_slice = t->shape.k_slices > 1
                       ? LLVMBuildUDiv(b, p->thread, threads, "")
                       : be_emit_word(e, 0);
    tile.thread = t->shape.k_slices > 1
                      ? LLVMBuildURem(b, p->thread, threads, "")
                      : p->thread;
    be_ptx_panels_open(&tile);
    emit_all(&tile);
}

/* A thread does a group of neighbouring results. */
static void
emit_groups(PtxTile *t)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    int count = t->t->together;
    Val down = t->panels[PTX_ROWS].limit, all = t->panels[PTX_COLUMNS].limit;
    Val wide = be_emit_word(e, count);
    Val across = be_add(u, all, be_emit_word(e, count - 1));
    across = LLVMBuildUDiv(b, across, wide, "");
    Val work = be_mul(u, down, across);
    work = be_mul(u, work, be_space_size(e, &t->t->outer));
    Val threads = be_emit_word(e, PTX_REST_THREADS);
    Val first = be_add(u, be_mul(u, p->block, threads), p->thread);
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, threads),
                  "group");
    be_loop_body(u, &l);
    Val column = be_mul(u, LLVMBuildURem(b, l.index, across, ""), wide);
    Val number = LLVMBuildUDiv(b, l.index, across, "");
    Val row = LLVMBuildURem(b, number, down, "");
    t->outer = LLVMBuildUDiv(b, number, down, "");
    be_space_delinearize(e, &t->t->outer, t->outer);
    finish_group(t, be_ptx_number_in_part(t, row, column), row, column);
    be_loop_end(u, &l);
}

void
be_ptx_emit_tiles_rest(Ptx *p)
{
    PtxTile tile = open_tile(p);
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        const PtxOperand *o = &p->shape.tiles.operands[side];
        tile.panels[side].side =
            be_ptx_tile_side(&p->shape.tiles.shape, (PtxSide)side);
        tile.panels[side].limit = be_space_size(&p->e, &o->space);
    }
    be_ptx_tile_neighbours(&tile, tile.along, p->shape.tiles.together);
    p->e.tile.rows = 1;
    emit_groups(&tile);
}

void
be_ptx_contract(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (n == p->shape.tiles.contract) {
        int rows = be_emit_rows(e, be_emit_varying(e, n));
        for (int row = 0; row < rows; row++)
            be_emit_set(e, n, row, 0, p->products[row]);
        return;
    }
    bool outer = p->together;
    p->together = false;
    be_emit_contract(e, n);
    p->together = outer;
}
