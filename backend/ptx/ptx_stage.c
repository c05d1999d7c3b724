/*
 * ptx_stage.c - stages a tile's operands in shared memory
 *
 * An operand that is no more than a load is copied by cp.async, which brings
 * zeros where its guard is false; others are computed in registers, by the
 * slice of the kernel that makes them, while the products of the step before
 * are added, as are those that are turned, or narrowed for tensor cores.  What
 * lies beyond the products is zero.  The sums of what lies beyond the matrix
 * are not used.
 *
 * No two lanes of eight that access 16 bytes each meet in a bank.  Elements
 * that are stored product by product need nothing for that.  The others lie in
 * rows of step + 16 bytes, an odd multiple of 16, and neighbouring rows are
 * those of neighbouring threads: a thread's rows are `places` apart, though it
 * has neighbouring elements of the matrix.  Tensor cores and turned operands
 * have rows and columns in their order, and pad the lines of products, too
 * (be_ptx_panel_line).  Elements of bf16 and f16 are loaded as matrices of 8 x
 * 8 by ldmatrix, for which eight lanes have the addresses of lines.
 */
#include "backend/ptx/ptx_stage.h"

#include <assert.h>
#include "backend/kernel/kernel_impl.h"

/* ---- places ------------------------------------------------------------- */

static Val
divided(const PtxTile *t, Val x, int64_t by)
{
    Emit *e = &t->p->e;
    return LLVMBuildUDiv(e->u->builder, x, be_emit_word(e, by), "");
}

static Val
remainder_of(const PtxTile *t, Val x, int64_t by)
{
    Emit *e = &t->p->e;
    return LLVMBuildURem(e->u->builder, x, be_emit_word(e, by), "");
}

static Val
times(const PtxTile *t, Val x, int64_t by)
{
    Emit *e = &t->p->e;
    return be_mul(e->u, x, be_emit_word(e, by));
}

/* Elements of a tile that are neighbours and one thread's. */
static int
run_of_thread(const PtxTile *t, PtxSide side)
{
    if (!t->t->mma)
        return t->vector;
    return side == PTX_ROWS ? 1 : PTX_MMA_COLUMNS;
}

int
be_ptx_tile_run(const PtxTile *t)
{
    return run_of_thread(t, PTX_COLUMNS);
}

Val
be_ptx_element_of(const PtxTile *t, PtxSide side, Val number, Val place)
{
    BeUnit *u = t->p->e.u;
    int places = t->panels[side].places, run = run_of_thread(t, side);
    Val piece = times(t, divided(t, number, run), (int64_t)places * run);
    Val rest = remainder_of(t, number, run);
    return be_add(u, piece, be_add(u, times(t, place, run), rest));
}

static Val
at_element(const PtxTile *t, Val memory, Val element)
{
    return be_offset(t->p->e.u, memory, times(t, element, t->t->element_bytes));
}

static void
open_panel(PtxTile *t, PtxSide side, Val place)
{
    PtxPanel *o = &t->panels[side];
    int64_t before =
        side == PTX_ROWS ? 0 : be_ptx_panel_bytes(t->t, t->shape, PTX_ROWS);
    o->operand = &t->t->operands[side];
    o->side = be_ptx_tile_side(t->shape, side);
    o->each = be_ptx_tile_each(t->shape, side);
    o->places = be_ptx_tile_places(t->shape, side);
    o->limit = be_space_size(&t->p->e, &o->operand->space);
    o->place = place;
    o->line = be_ptx_panel_line(t->t, t->shape, side);
    o->memory = be_ptx_shared_at(t->p, before, t->k_slice, 2 * t->step_bytes);
    int between = be_ptx_lies_along_k(o->operand) ? o->line : t->vector;
    o->own = at_element(t, o->memory, times(t, place, between));
}

/* From the 8 rows or columns of a warp's fragment to those of its next one. */
static int64_t
fragment_stride(const PtxTile *t, PtxSide side)
{
    return (int64_t)t->panels[side].places * run_of_thread(t, side);
}

/* The matrices of an ldmatrix, whose lines lanes 8 i to 8 i + 7 point to: of
 * two fragments of rows or columns and twice 8 products, in the order of the
 * operands of mma.  Where this lane's line begins: *line, its row or column,
 * and *product. */
static void
find_matrix_line(const PtxTile *t, PtxSide side, Val lane, Val *line,
                 Val *product)
{
    Emit *e = &t->p->e;
    bool is_along_k = be_ptx_lies_along_k(t->panels[side].operand);
    Val matrix = divided(t, lane, PTX_MMA_DOWN);
    Val number = remainder_of(t, lane, PTX_MMA_DOWN);
    Val inner = remainder_of(t, matrix, 2), outer = divided(t, matrix, 2);
    *line = side == PTX_ROWS ? inner : outer;
    *line = times(t, *line, fragment_stride(t, side));
    *product = times(t, side == PTX_ROWS ? outer : inner, PTX_MMA_DOWN);
    Val *moves = is_along_k ? line : product;
    *moves = be_add(e->u, *moves, number);
}

/* Where the lanes of tensor cores load from, of which this one is number `lane`
 * of its warp: its row or column of the first, and its first product. */
static void
open_lanes(PtxTile *t, PtxSide side, Val lane)
{
    PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    int across = side == PTX_ROWS ? PTX_MMA_DOWN : PTX_MMA_ACROSS;
    Val first = times(t, divided(t, o->place, across), PTX_MMA_DOWN);
    Val line = divided(t, lane, PTX_MMA_ACROSS);
    Val product = remainder_of(t, lane, PTX_MMA_ACROSS);
    if (be_ptx_has_halves(t->t))
        find_matrix_line(t, side, lane, &line, &product);
    line = be_add(u, first, line);
    Val element = be_ptx_lies_along_k(o->operand)
                      ? be_add(u, times(t, line, o->line), product)
                      : be_add(u, times(t, product, o->line), line);
    o->own = at_element(t, o->memory, element);
}

/* A warp, or the part of it that is a k slice, is eight columns wide if it can,
 * so that its loads of both operands are short; those of tensor cores are four
 * wide. */
void
be_ptx_panels_open(PtxTile *t)
{
    Emit *e = &t->p->e;
    int down = be_ptx_tile_places(t->shape, PTX_ROWS);
    int across = be_ptx_tile_places(t->shape, PTX_COLUMNS);
    int lanes = down * across < PTX_WARP ? down * across : PTX_WARP;
    int most = t->t->mma ? PTX_MMA_ACROSS : 8;
    int columns = across < most ? across : most;
    if (columns * down < lanes)
        columns = lanes / down;
    int rows = lanes / columns;
    Val lane = remainder_of(t, t->thread, lanes);
    Val warp = divided(t, t->thread, lanes);
    Val warp_row = divided(t, warp, across / columns);
    Val warp_column = remainder_of(t, warp, across / columns);
    Val row = divided(t, lane, columns),
        column = remainder_of(t, lane, columns);
    row = be_add(e->u, row, times(t, warp_row, rows));
    column = be_add(e->u, column, times(t, warp_column, columns));
    open_panel(t, PTX_ROWS, row);
    open_panel(t, PTX_COLUMNS, column);
    for (int side = 0; side < PTX_NUM_SIDES && t->t->mma; side++)
        open_lanes(t, (PtxSide)side, lane);
}

/* ---- parts -------------------------------------------------------------- */

/* Parts of a product, or of a row of neighbours along the products. */
static int
run_of(const PtxTile *t, const PtxPanel *o)
{
    int elements = o->operand->along_k ? t->step : o->side;
    return elements / o->operand->neighbours;
}

/* Where the part is from, whose number in the panel is `number`. */
static void
locate_part(const PtxTile *t, PtxSide side, PtxPart *part, Val number)
{
    const PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    int run = run_of(t, o);
    Val outer = divided(t, number, run);
    Val inner = times(t, remainder_of(t, number, run), o->operand->neighbours);
    if (o->operand->along_k) {
        Val i = divided(t, outer, o->places);
        Val place = remainder_of(t, outer, o->places);
        bool is_straight = t->t->mma || o->operand->turned;
        Val element =
            is_straight ? outer : be_ptx_element_of(t, side, i, place);
        part->element = be_add(u, o->first, element);
        part->product = inner;
    } else {
        part->element = be_add(u, o->first, inner);
        part->product = outer;
    }
}

/* Where the thread's first part goes to. */
static Val
first_place(const PtxTile *t, const PtxPanel *o)
{
    int run = run_of(t, o);
    Val outer = divided(t, t->thread, run);
    Val inner = remainder_of(t, t->thread, run);
    inner = times(t, inner, o->operand->neighbours);
    if (o->operand->turned)
        inner = times(t, inner, o->line);
    else
        outer = times(t, outer, o->line);
    return at_element(t, o->memory, be_add(t->p->e.u, outer, inner));
}

/* From there to where part number i goes to: both the threads and a run are
 * powers of two. */
static int64_t
to_part(const PtxTile *t, const PtxPanel *o, int i)
{
    int64_t before = (int64_t)i * be_ptx_tile_threads(t->shape);
    int run = run_of(t, o);
    int64_t line = before / run, place = before % run * o->operand->neighbours;
    int64_t elements =
        o->operand->turned ? place * o->line + line : line * o->line + place;
    return elements * t->t->element_bytes;
}

/* Whether all parts of a thread are of the same rows or columns, and so differ
 * by a constant number of products. */
static bool
parts_are_products(const PtxTile *t, const PtxPanel *o)
{
    return !o->operand->along_k &&
           be_ptx_tile_threads(t->shape) >= run_of(t, o);
}

/* Products from the first part to number i. */
static int64_t
products_between(const PtxTile *t, const PtxPanel *o, int i)
{
    return (int64_t)i * be_ptx_tile_threads(t->shape) / run_of(t, o);
}

static void
find_indices(const PtxTile *t, const PtxPanel *o, PtxPart *part)
{
    Emit *e = &t->p->e;
    const EmitSpace *s = &o->operand->space;
    int64_t all;
    Val element = part->element;
    if (!be_is_const(o->limit, &all) || all % o->side) {
        part->exists = be_icmp(e->u, LLVMIntSLT, element, o->limit);
        if (!o->operand->copied)
            element =
                be_select(e->u, part->exists, element, be_emit_word(e, 0));
    }
    be_space_delinearize(e, s, element);
    for (int v = 0; v < s->count; v++)
        part->indices[v] = e->indices[s->vars[v]->id].base;
}

/* A thread without a part has that of the first one, and does not use it. */
static void
find_part(PtxTile *t, PtxSide side, int i, Val used)
{
    PtxPanel *o = &t->panels[side];
    Emit *e = &t->p->e;
    PtxPart *part = &o->parts[i];
    int threads = be_ptx_tile_threads(t->shape);
    if (i > 0 && parts_are_products(t, o)) {
        *part = o->parts[0];
        Val more = be_emit_word(e, products_between(t, o, i));
        part->product = be_add(e->u, part->product, more);
    } else {
        *part = (PtxPart){.used = used};
        Val number = be_emit_word(e, (int64_t)i * threads);
        number = be_add(e->u, t->thread, number);
        if (used)
            number = be_select(e->u, used, number, be_emit_word(e, 0));
        locate_part(t, side, part, number);
        find_indices(t, o, part);
    }
    part->to = to_part(t, o, i);
}

void
be_ptx_parts_find(PtxTile *t)
{
    Emit *e = &t->p->e;
    int threads = be_ptx_tile_threads(t->shape);
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        PtxPanel *o = &t->panels[side];
        int num = o->side * t->step / o->operand->neighbours;
        Val used = NULL;
        if (num < threads)
            used = be_icmp(e->u, LLVMIntSLT, t->thread, be_emit_word(e, num));
        o->num_parts = num < threads ? 1 : num / threads;
        assert(o->num_parts <= PTX_MAX_PARTS);
        o->to = first_place(t, o);
        for (int i = 0; i < o->num_parts; i++)
            find_part(t, (PtxSide)side, i, used);
    }
}

static bool
is_zero(Dim d)
{
    return ir_dim_is_const(d) && d.c == 0;
}

/* ---- the slice of an operand -------------------------------------------- */

/* Whether a step has one value of all indices of the products but the last. */
static bool
steps_are_rows(const PtxTile *t)
{
    const EmitSpace *s = &t->t->products;
    Dim last = s->vars[s->count - 1]->extent;
    return s->count == 1 || (last.c % t->step == 0 &&
                             (ir_dim_is_const(last) || last.k % t->step == 0));
}

/* The indices of a part of the step that begins with `first`; those of the
 * products are divided for the whole step if they can be, not by each thread
 * for its own.  They are those of the first product unless `exists` (NULL: it
 * does). */
static void
set_indices(const PtxTile *t, const PtxPanel *o, const PtxPart *part, Val first,
            Val exists)
{
    Emit *e = &t->p->e;
    const EmitSpace *s = &o->operand->space, *k = &t->t->products;
    for (int v = 0; v < s->count; v++)
        e->indices[s->vars[v]->id] = (EmitIndex){.base = part->indices[v]};
    if (exists || !steps_are_rows(t)) {
        Val product = be_add(e->u, first, part->product);
        if (exists)
            product = be_select(e->u, exists, product, be_emit_word(e, 0));
        be_space_delinearize(e, k, product);
        return;
    }
    be_space_delinearize(e, k, first);
    EmitIndex *last = &e->indices[k->vars[k->count - 1]->id];
    last->base = be_add(e->u, last->base, part->product);
}

/* All of the slice, but its copied load. */
static void
emit_slice(const PtxTile *t, const PtxOperand *o)
{
    const KBlock *blocks[PTX_NUM_BLOCKS];
    Emit *e = &t->p->e;
    be_ptx_list_blocks(e->k, t->t, blocks);
    for (int i = 0; i < PTX_NUM_BLOCKS; i++) {
        for (const KNode *n = blocks[i]->first; n; n = n->next) {
            if (be_ptx_is_of_operand(o, n) && n != o->copied)
                be_emit_node(e, n);
        }
    }
}

/* Whether a part of the step that begins with `first` is of the products; NULL:
 * yes. */
static Val
product_exists(const PtxTile *t, const PtxPart *part, Val first)
{
    BeUnit *u = t->p->e.u;
    if (!t->t->ends_ragged)
        return NULL;
    return be_icmp(u, LLVMIntSLT, be_add(u, first, part->product), t->size);
}

/* ... and of the matrix. */
static Val
is_inside(const PtxTile *t, const PtxPart *part, Val first)
{
    Val exists = product_exists(t, part, first);
    if (!exists || !part->exists)
        return exists ? exists : part->exists;
    return be_and(t->p->e.u, exists, part->exists);
}

static Val
destination(const PtxTile *t, const PtxPanel *o, const PtxPart *part,
            Val buffer)
{
    BeUnit *u = t->p->e.u;
    return be_offset_const(u, be_offset(u, o->to, buffer), part->to);
}

/* ---- copies ------------------------------------------------------------- */

/* Zeros come where condition is false; the address is not used then. */
static void
emit_copy(const PtxTile *t, Val to, Val from, int bytes, Val condition)
{
    Ptx *p = t->p;
    BeUnit *u = p->e.u;
    Val args[] = {to, from, NULL};
    const char *name = arena_printf(
        p->e.arena, "llvm.nvvm.cp.async.%s.shared.global.%d%s",
        bytes == PTX_ALIGN ? "cg" : "ca", bytes, condition ? ".s" : "");
    if (condition)
        args[2] =
            be_select(u, condition, be_int(u->i32, bytes), be_zero(u->i32));
    be_intrinsic(u, name, NULL, 0, args, condition ? 3 : 2);
}

/* Whether the address of the operand's load is linear in the last index of the
 * products, by constants. */
static bool
is_linear(const PtxTile *t, const PtxPanel *o)
{
    const KIndex *x = &o->operand->copied->load.at;
    const EmitSpace *spaces[] = {&o->operand->space, &t->t->products,
                                 &t->t->outer};
    int known = 0;
    for (int s = 0; s < 3; s++)
        for (int v = 0; v < spaces[s]->count; v++)
            known += !is_zero(be_index_coef(x, spaces[s]->vars[v]));
    const KVar *last = t->t->products.vars[t->t->products.count - 1];
    return known == x->num_terms && ir_dim_is_const(be_index_coef(x, last));
}

/* The address that a part is loaded from; its indices are set. */
static Val
copied_from(const PtxTile *t, PtxPanel *o, const PtxPart *part)
{
    Emit *e = &t->p->e;
    const KNode *n = o->operand->copied;
    const KArray *array = n->load.array;
    int i = (int)(part - o->parts);
    if (i > 0 && parts_are_products(t, o) && steps_are_rows(t) &&
        is_linear(t, o)) {
        const KVar *last = t->t->products.vars[t->t->products.count - 1];
        int64_t step = be_index_coef(&n->load.at, last).c * t->t->element_bytes;
        return be_offset_const(e->u, o->from, step * products_between(t, o, i));
    }
    EmitAddress a = be_address_of(e, &n->load.at);
    Val index = be_address_scalar(e, &a, 0, 0);
    o->from =
        LLVMBuildGEP2(e->u->builder, be_emit_memory_type(e, array->dtype),
                      e->arrays[array->role][array->index], &index, 1, "");
    return o->from;
}

static void
copy_part(const PtxTile *t, PtxPanel *o, const PtxPart *part, Val first,
          Val buffer)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    const KNode *n = o->operand->copied;
    Val condition = is_inside(t, part, first);
    set_indices(t, o, part, first, NULL);
    emit_slice(t, o->operand);
    Val from = copied_from(t, o, part);
    if (n->load.guard) {
        Val guard = be_emit_get(e, n->load.guard, 0, 0);
        condition = condition ? be_and(u, condition, guard) : guard;
    }
    emit_copy(t, destination(t, o, part, buffer), from,
              o->operand->neighbours * t->t->element_bytes, condition);
}

/* ---- values ------------------------------------------------------------- */

/* A value as it is added up: small integers wrap around in the end. */
static Val
widened(const PtxTile *t, Val x)
{
    return t->t->is_float
               ? x
               : LLVMBuildIntCast2(t->p->e.u->builder, x, t->type, 1, "");
}

/* Without branches, so that all loads of a step are under way at once: a part
 * beyond the matrix or the products is made of the first elements. */
static void
fetch_part(const PtxTile *t, const PtxPanel *o, const PtxPart *part, Val first,
           PtxFetched *fetched)
{
    Emit *e = &t->p->e;
    Val *x = &fetched->x[fetched->count];
    int num = o->operand->neighbours;
    Val exists = product_exists(t, part, first);
    assert(fetched->count + num <= PTX_MAX_FETCHED);
    set_indices(t, o, part, first, exists);
    emit_slice(t, o->operand);
    for (int row = 0; row < num; row++) {
        x[row] = widened(t, be_emit_get(e, o->operand->value, row, 0));
        if (exists)
            x[row] = be_select(e->u, exists, x[row], be_zero(t->type));
    }
    fetched->count += num;
}

static void
store_turned(const PtxTile *t, const PtxPanel *o, Val to, const Val *fetched)
{
    BeUnit *u = t->p->e.u;
    int64_t line = (int64_t)o->line * t->t->element_bytes;
    for (int i = 0; i < o->operand->neighbours; i++)
        be_ptx_store_lanes(t, &fetched[i], 1, be_offset_const(u, to, i * line));
}

static void
store_part(const PtxTile *t, const PtxPanel *o, const PtxPart *part, Val buffer,
           const Val *fetched)
{
    BeUnit *u = t->p->e.u;
    Val x[BE_MAX_ROWS], to = destination(t, o, part, buffer);
    int num = o->operand->neighbours, vector = be_ptx_element_vector(t->t);
    if (o->operand->turned) {
        store_turned(t, o, to, fetched);
        return;
    }
    for (int i = 0; i < num; i += vector) {
        int count = num - i < vector ? num - i : vector;
        int words = be_ptx_narrow(t, o->operand, &fetched[i], count, x);
        be_ptx_store_lanes(
            t, x, words,
            be_offset_const(u, to, (int64_t)i * t->t->element_bytes));
    }
}

/* ---- steps -------------------------------------------------------------- */

void
be_ptx_tile_neighbours(PtxTile *t, const KVar *along, int num)
{
    Emit *e = &t->p->e;
    e->tile.row = along;
    e->tile.rows = num;
    t->p->groups = be_ptx_groups(e, along, num);
}

static void
begin_part(PtxTile *t, PtxPanel *o, const PtxPart *part, Val first, Val buffer,
           PtxFetched *fetched)
{
    Ptx *p = t->p;
    bool branches = part->used && o->operand->copied;
    PtxIf i;
    if (branches)
        i = be_ptx_if(p, part->used);
    if (o->operand->copied)
        copy_part(t, o, part, first, buffer);
    else
        fetch_part(t, o, part, first, fetched);
    if (branches)
        be_ptx_end_if(p, &i, NULL, NULL);
}

static void
begin_panels(PtxTile *t, Val first, Val buffer, PtxFetched *fetched)
{
    Emit *e = &t->p->e;
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        PtxPanel *o = &t->panels[side];
        be_ptx_tile_neighbours(t, be_ptx_along(t->t, o->operand),
                               o->operand->neighbours);
        for (int i = 0; i < o->num_parts; i++)
            begin_part(t, o, &o->parts[i], first, buffer, fetched);
    }
    e->tile.rows = 1;
}

void
be_ptx_stage_begin(PtxTile *t, Val condition, Val first, Val buffer,
                   PtxFetched *fetched)
{
    Val none[PTX_MAX_FETCHED];
    PtxIf i;
    fetched->count = 0;
    if (condition)
        i = be_ptx_if(t->p, condition);
    begin_panels(t, first, buffer, fetched);
    for (int n = 0; n < fetched->count; n++)
        none[n] = be_zero(t->type);
    if (condition)
        be_ptx_end_if_all(t->p, &i, fetched->x, none, fetched->count);
}

void
be_ptx_stage_end(PtxTile *t, Val buffer, const PtxFetched *fetched)
{
    const Val *x = fetched->x;
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        const PtxPanel *o = &t->panels[side];
        for (int i = 0; i < o->num_parts && !o->operand->copied; i++) {
            const PtxPart *part = &o->parts[i];
            PtxIf used;
            if (part->used)
                used = be_ptx_if(t->p, part->used);
            store_part(t, o, part, buffer, x);
            if (part->used)
                be_ptx_end_if(t->p, &used, NULL, NULL);
            x += o->operand->neighbours;
        }
    }
}

void
be_ptx_stage_wait(PtxTile *t)
{
    bool copies = false;
    for (int side = 0; side < PTX_NUM_SIDES; side++)
        copies |= t->panels[side].operand->copied != NULL;
    if (copies)
        be_intrinsic(t->p->e.u, "llvm.nvvm.cp.async.wait.all", NULL, 0, NULL,
                     0);
    be_ptx_barrier(t->p);
}

/* ---- fragments ---------------------------------------------------------- */

/* From the thread's first element to number i, for product 0. */
static int64_t
between(const PtxTile *t, const PtxPanel *o, int i)
{
    int64_t elements =
        be_ptx_lies_along_k(o->operand)
            ? (int64_t)i * o->places * o->line
            : (int64_t)(i / t->vector) * t->vector * o->places + i % t->vector;
    return elements * t->t->element_bytes;
}

static Val
load_vector(const PtxTile *t, Val from)
{
    BeUnit *u = t->p->e.u;
    return be_load(u, be_vector(t->type, t->vector), from, PTX_ALIGN);
}

static void
load_for_product(const PtxTile *t, const PtxPanel *o, Val own, Val *out)
{
    BeUnit *u = t->p->e.u;
    for (int i = 0; i < o->each; i += t->vector) {
        Val all = load_vector(t, be_offset_const(u, own, between(t, o, i)));
        for (int j = 0; j < t->vector; j++)
            out[i + j] = be_extract(u, all, j, 0);
    }
}

void
be_ptx_fragment_load(PtxTile *t, PtxSide side, Val buffer, int product,
                     PtxFragment *out)
{
    const PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    Val own = be_offset(u, o->own, buffer);
    int64_t bytes = t->t->element_bytes;
    if (!be_ptx_lies_along_k(o->operand)) {
        for (int j = 0; j < t->vector; j++)
            load_for_product(
                t, o, be_offset_const(u, own, (product + j) * o->line * bytes),
                out->x[j]);
        return;
    }
    for (int i = 0; i < o->each; i++) {
        Val all = load_vector(
            t, be_offset_const(u, own, between(t, o, i) + product * bytes));
        for (int j = 0; j < t->vector; j++)
            out->x[j][i] = be_extract(u, all, j, 0);
    }
}

void
be_ptx_fragment_load_one(PtxTile *t, PtxSide side, Val buffer, Val product,
                         Val *out)
{
    const PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    Val own = be_offset(u, o->own, buffer);
    if (!be_ptx_lies_along_k(o->operand)) {
        load_for_product(t, o, at_element(t, own, times(t, product, o->line)),
                         out);
        return;
    }
    own = at_element(t, own, product);
    for (int i = 0; i < o->each; i++)
        out[i] = be_load(u, t->type, be_offset_const(u, own, between(t, o, i)),
                         (unsigned)t->t->element_bytes);
}

/* ---- lanes of tensor cores ----------------------------------------------- */

/* Where this lane loads from for fragment number i of the warp's rows or
 * columns, and the products from `product` on. */
static Val
lane_at(const PtxTile *t, PtxSide side, Val buffer, int i, int product)
{
    const PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    int64_t next = i * fragment_stride(t, side), line = o->line;
    int64_t element = be_ptx_lies_along_k(o->operand) ? next * line + product
                                                      : product * line + next;
    return be_offset_const(u, be_offset(u, o->own, buffer),
                           element * t->t->element_bytes);
}

Val
be_ptx_lane_load(const PtxTile *t, PtxSide side, Val buffer, int i, int product)
{
    BeUnit *u = t->p->e.u;
    return be_load(u, u->i32, lane_at(t, side, buffer, i, product),
                   (unsigned)t->t->element_bytes);
}

void
be_ptx_matrices_load(const PtxTile *t, PtxSide side, Val buffer, int i,
                     int product, Val *x)
{
    BeUnit *u = t->p->e.u;
    Val at = lane_at(t, side, buffer, i, product);
    Type type = LLVMTypeOf(at);
    const char *name =
        be_ptx_lies_along_k(t->panels[side].operand)
            ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16"
            : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16";
    Val all = be_intrinsic(u, name, &type, 1, &at, 1);
    for (unsigned n = 0; n < PTX_MATRICES; n++)
        x[n] = LLVMBuildExtractValue(u->builder, all, n, "");
}

/* ---- vectors ------------------------------------------------------------ */

void
be_ptx_store_lanes(const PtxTile *t, const Val *x, int num, Val to)
{
    BeUnit *u = t->p->e.u;
    Type type = LLVMTypeOf(x[0]);
    Val all = num > 1 ? LLVMGetUndef(be_vector(type, num)) : x[0];
    for (int i = 0; num > 1 && i < num; i++)
        all = LLVMBuildInsertElement(u->builder, all, x[i],
                                     LLVMConstInt(u->i32, (unsigned)i, 0), "");
    int bytes = type == u->i16 ? t->t->element_bytes : t->t->bytes;
    be_store(u, all, to, (unsigned)(num * bytes));
}
