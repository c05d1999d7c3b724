/*
 * ptx_stage.c - stages a tile's operands in shared memory
 *
 * An operand that is no more than a load is copied by cp.async, which brings
 * zeros where its guard is false; others are computed in registers, by the
 * slice of the kernel that makes them, while the products of the step before
 * are added.  What lies beyond the matrix is zero: its sums are not used.
 *
 * No two lanes of eight that access 16 bytes each meet in a bank.  Elements
 * that are stored product by product need nothing for that.  The others lie in
 * rows of step + 16 bytes, an odd multiple of 16, and neighbouring rows are
 * those of neighbouring threads: a thread's rows are `places` apart, though it
 * has neighbouring elements of the matrix.
 */
#include "backend/ptx/ptx_stage.h"

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

Val
be_ptx_element_of(const PtxTile *t, PtxSide side, Val number, Val place)
{
    BeUnit *u = t->p->e.u;
    int places = t->panels[side].places;
    Val piece =
        times(t, divided(t, number, t->vector), (int64_t)places * t->vector);
    Val first = times(t, place, t->vector);
    Val rest = remainder_of(t, number, t->vector);
    return be_add(u, piece, be_add(u, first, rest));
}

/* Elements of shared memory from a row of neighbours along the products to the
 * next. */
static int
padded(const PtxTile *t)
{
    return t->step + t->vector;
}

static Val
at_element(const PtxTile *t, Val memory, Val element)
{
    return be_offset(t->p->e.u, memory, times(t, element, t->t->bytes));
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
    o->memory = be_ptx_shared_at(t->p, before, t->k_slice, 2 * t->step_bytes);
    int between = o->operand->along_k ? padded(t) : t->vector;
    o->own = at_element(t, o->memory, times(t, place, between));
}

/* A warp is eight columns wide if it can, so that its loads of both operands
 * are short. */
void
be_ptx_panels_open(PtxTile *t)
{
    Emit *e = &t->p->e;
    int down = be_ptx_tile_places(t->shape, PTX_ROWS);
    int across = be_ptx_tile_places(t->shape, PTX_COLUMNS);
    int columns = across < 8 ? across : 8;
    if (columns * down < PTX_WARP)
        columns = PTX_WARP / down;
    int rows = PTX_WARP / columns;
    Val lane = remainder_of(t, t->thread, PTX_WARP);
    Val warp = divided(t, t->thread, PTX_WARP);
    Val warp_row = divided(t, warp, across / columns);
    Val warp_column = remainder_of(t, warp, across / columns);
    Val row = divided(t, lane, columns),
        column = remainder_of(t, lane, columns);
    row = be_add(e->u, row, times(t, warp_row, rows));
    column = be_add(e->u, column, times(t, warp_column, columns));
    open_panel(t, PTX_ROWS, row);
    open_panel(t, PTX_COLUMNS, column);
}

/* ---- parts -------------------------------------------------------------- */

/* Where part number `number` of a panel is from and goes to. */
static void
locate_part(const PtxTile *t, PtxSide side, PtxPart *part, Val number)
{
    const PtxPanel *o = &t->panels[side];
    BeUnit *u = t->p->e.u;
    int together = o->operand->neighbours;
    int run = (o->operand->along_k ? t->step : o->side) / together;
    Val outer = divided(t, number, run);
    Val inner = times(t, remainder_of(t, number, run), together);
    if (o->operand->along_k) {
        Val i = divided(t, outer, o->places);
        Val place = remainder_of(t, outer, o->places);
        Val element = be_ptx_element_of(t, side, i, place);
        part->element = be_add(u, o->first, element);
        part->product = inner;
        outer = times(t, outer, padded(t));
    } else {
        part->element = be_add(u, o->first, inner);
        part->product = outer;
        outer = times(t, outer, o->side);
    }
    part->to = at_element(t, o->memory, be_add(u, outer, inner));
}

static void
find_part(const PtxTile *t, PtxSide side, int i)
{
    PtxPanel *o = (PtxPanel *)&t->panels[side];
    Emit *e = &t->p->e;
    PtxPart *part = &o->parts[i];
    int threads = be_ptx_tile_threads(t->shape);
    int num = o->side * t->step / o->operand->neighbours;
    const EmitSpace *s = &o->operand->space;
    int64_t all;
    *part = (PtxPart){NULL};
    Val number = be_add(e->u, t->thread, be_emit_word(e, (int64_t)i * threads));
    locate_part(t, side, part, number);
    if (num < threads)
        part->used = be_icmp(e->u, LLVMIntSLT, number, be_emit_word(e, num));
    if (!be_is_const(o->limit, &all) || all % o->side)
        part->exists = be_icmp(e->u, LLVMIntSLT, part->element, o->limit);
    be_space_delinearize(e, s, part->element);
    for (int v = 0; v < s->count; v++)
        part->indices[v] = e->indices[s->vars[v]->id].base;
}

void
be_ptx_parts_find(PtxTile *t)
{
    int threads = be_ptx_tile_threads(t->shape);
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        PtxPanel *o = &t->panels[side];
        int num = o->side * t->step / o->operand->neighbours;
        o->num_parts = num < threads ? 1 : num / threads;
        for (int i = 0; i < o->num_parts; i++)
            find_part(t, (PtxSide)side, i);
    }
}

/* ---- the slice of an operand -------------------------------------------- */

static void
set_indices(const PtxTile *t, const PtxPanel *o, const PtxPart *part,
            Val product)
{
    Emit *e = &t->p->e;
    const EmitSpace *s = &o->operand->space;
    for (int v = 0; v < s->count; v++)
        e->indices[s->vars[v]->id] = (EmitIndex){.base = part->indices[v]};
    be_space_delinearize(e, &t->t->products, product);
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

/* Whether the part is of the matrix and of the products; NULL: yes. */
static Val
is_inside(const PtxTile *t, const PtxPart *part, Val product)
{
    BeUnit *u = t->p->e.u;
    if (!t->t->ends_ragged)
        return part->exists;
    Val inside = be_icmp(u, LLVMIntSLT, product, t->size);
    return part->exists ? be_and(u, inside, part->exists) : inside;
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

static void
copy_part(const PtxTile *t, const PtxPanel *o, const PtxPart *part, Val product,
          Val buffer)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    const KNode *n = o->operand->copied;
    const KArray *array = n->load.array;
    Val condition = is_inside(t, part, product);
    set_indices(t, o, part, product);
    emit_slice(t, o->operand);
    EmitAddress a = be_address_of(e, &n->load.at);
    Val index = be_address_scalar(e, &a, 0, 0);
    Val from =
        LLVMBuildGEP2(u->builder, be_emit_memory_type(e, array->dtype),
                      e->arrays[array->role][array->index], &index, 1, "");
    if (n->load.guard) {
        Val guard = be_emit_get(e, n->load.guard, 0, 0);
        condition = condition ? be_and(u, condition, guard) : guard;
    }
    emit_copy(t, be_offset(u, part->to, buffer), from,
              o->operand->neighbours * t->t->bytes, condition);
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

static void
fetch_part(const PtxTile *t, const PtxPanel *o, const PtxPart *part,
           Val product, PtxFetched *fetched)
{
    Ptx *p = t->p;
    Emit *e = &p->e;
    Val *x = &fetched->x[fetched->count], none[BE_MAX_ROWS];
    int num = o->operand->neighbours;
    Val inside = is_inside(t, part, product);
    PtxIf i;
    if (part->used)
        inside = inside ? be_and(e->u, inside, part->used) : part->used;
    if (inside)
        i = be_ptx_if(p, inside);
    set_indices(t, o, part, product);
    emit_slice(t, o->operand);
    for (int row = 0; row < num; row++) {
        x[row] = widened(t, be_emit_get(e, o->operand->value, row, 0));
        none[row] = be_zero(t->type);
    }
    if (inside)
        be_ptx_end_if_all(p, &i, x, none, num);
    fetched->count += num;
}

static void
store_part(const PtxTile *t, const PtxPanel *o, const PtxPart *part, Val buffer,
           const Val *x)
{
    BeUnit *u = t->p->e.u;
    int num = o->operand->neighbours;
    int together = num < t->vector ? num : t->vector;
    Val to = be_offset(u, part->to, buffer);
    for (int i = 0; i < num; i += together)
        be_ptx_store_lanes(t, &x[i], together,
                           be_offset_const(u, to, (int64_t)i * t->t->bytes));
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
begin_part(PtxTile *t, const PtxPanel *o, const PtxPart *part, Val product,
           Val buffer, PtxFetched *fetched)
{
    Ptx *p = t->p;
    bool branches = part->used && o->operand->copied;
    PtxIf i;
    if (branches)
        i = be_ptx_if(p, part->used);
    product = be_add(p->e.u, product, part->product);
    if (o->operand->copied)
        copy_part(t, o, part, product, buffer);
    else
        fetch_part(t, o, part, product, fetched);
    if (branches)
        be_ptx_end_if(p, &i, NULL, NULL);
}

static void
begin_panels(PtxTile *t, Val product, Val buffer, PtxFetched *fetched)
{
    Emit *e = &t->p->e;
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        const PtxPanel *o = &t->panels[side];
        be_ptx_tile_neighbours(t, be_ptx_along(t->t, o->operand),
                               o->operand->neighbours);
        for (int i = 0; i < o->num_parts; i++)
            begin_part(t, o, &o->parts[i], product, buffer, fetched);
    }
    e->tile.rows = 1;
}

void
be_ptx_stage_begin(PtxTile *t, Val condition, Val product, Val buffer,
                   PtxFetched *fetched)
{
    Val none[PTX_MAX_FETCHED];
    PtxIf i;
    fetched->count = 0;
    if (condition)
        i = be_ptx_if(t->p, condition);
    begin_panels(t, product, buffer, fetched);
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
        o->operand->along_k
            ? (int64_t)i * o->places * padded(t)
            : (int64_t)(i / t->vector) * t->vector * o->places + i % t->vector;
    return elements * t->t->bytes;
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
    int64_t bytes = t->t->bytes;
    if (!o->operand->along_k) {
        for (int j = 0; j < t->vector; j++)
            load_for_product(
                t, o, be_offset_const(u, own, (product + j) * o->side * bytes),
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
    if (!o->operand->along_k) {
        load_for_product(t, o, at_element(t, own, times(t, product, o->side)),
                         out);
        return;
    }
    own = at_element(t, own, product);
    for (int i = 0; i < o->each; i++)
        out[i] = be_load(u, t->type, be_offset_const(u, own, between(t, o, i)),
                         (unsigned)t->t->bytes);
}

/* ---- vectors ------------------------------------------------------------ */

void
be_ptx_store_lanes(const PtxTile *t, const Val *x, int num, Val to)
{
    BeUnit *u = t->p->e.u;
    Val all = num > 1 ? LLVMGetUndef(be_vector(t->type, num)) : x[0];
    for (int i = 0; num > 1 && i < num; i++)
        all = LLVMBuildInsertElement(u->builder, all, x[i],
                                     LLVMConstInt(u->i32, (unsigned)i, 0), "");
    be_store(u, all, to, (unsigned)(num * t->t->bytes));
}
