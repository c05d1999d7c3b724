/*
 * ptx_tile_parts.c - products that are split into blocks of 512
 *
 * A first launch leaves the sums of each block of products, a second one adds
 * them in order (ptx_split.c).  In scratch memory the matrix of a block's sums
 * consists of whole tiles.
 */
#include "backend/ptx/ptx_stage.h"

/* ---- totals -------------------------------------------------------------- */

/* -0 is neutral; of no products at all the sum is 0. */
void
be_ptx_totals_begin(const PtxTile *t, BeLoop *l, int num, Val *totals)
{
    for (int i = 0; i < num; i++)
        totals[i] = be_loop_carry(t->p->e.u, l, be_float(t->type, -0.0));
}

void
be_ptx_totals_end(const PtxTile *t, const BeLoop *l, int num, Val *totals)
{
    Emit *e = &t->p->e;
    Val none = be_icmp(e->u, LLVMIntEQ, t->size, be_emit_word(e, 0));
    for (int i = 0; i < num; i++)
        totals[i] =
            be_select(e->u, none, be_zero(t->type), be_loop_result(l, i));
}

/* ---- totals in local memory ---------------------------------------------- */

enum { LOCAL = 5 }; /* its address space */

static Val
total_at(const PtxTile *t, Val aside, int i)
{
    return be_offset_const(t->p->e.u, aside, (int64_t)i * t->t->bytes);
}

/* Volatile, or LLVM would keep them in registers. */
static void
put_totals(const PtxTile *t, Val aside, int i, const Val *x)
{
    BeUnit *u = t->p->e.u;
    Val all = LLVMGetUndef(be_vector(t->type, t->vector));
    for (int j = 0; j < t->vector; j++)
        all = LLVMBuildInsertElement(u->builder, all, x[j],
                                     LLVMConstInt(u->i32, (unsigned)j, 0), "");
    Val store = LLVMBuildStore(u->builder, all, total_at(t, aside, i));
    LLVMSetAlignment(store, PTX_ALIGN);
    LLVMSetVolatile(store, true);
}

static void
get_totals(const PtxTile *t, Val aside, int i, Val *x)
{
    BeUnit *u = t->p->e.u;
    Val all = be_load(u, be_vector(t->type, t->vector), total_at(t, aside, i),
                      PTX_ALIGN);
    LLVMSetVolatile(all, true);
    for (int j = 0; j < t->vector; j++)
        x[j] = be_extract(u, all, j, 0);
}

Val
be_ptx_totals_aside(const PtxTile *t, int num)
{
    BeUnit *u = t->p->e.u;
    Val neutral[4];
    Val memory = be_alloca(u, t->type, (uint64_t)num, PTX_ALIGN, "totals");
    Val aside = LLVMBuildAddrSpaceCast(
        u->builder, memory, LLVMPointerTypeInContext(u->context, LOCAL), "");
    for (int j = 0; j < t->vector; j++)
        neutral[j] = be_float(t->type, -0.0);
    for (int i = 0; i < num; i += t->vector)
        put_totals(t, aside, i, neutral);
    return aside;
}

void
be_ptx_totals_add(const PtxTile *t, Val aside, int num, const Val *sums)
{
    BeUnit *u = t->p->e.u;
    Val x[4];
    for (int i = 0; i < num; i += t->vector) {
        get_totals(t, aside, i, x);
        for (int j = 0; j < t->vector; j++)
            x[j] = LLVMBuildFAdd(u->builder, x[j], sums[i + j], "");
        put_totals(t, aside, i, x);
    }
}

void
be_ptx_totals_get(const PtxTile *t, Val aside, int num, Val *totals)
{
    Emit *e = &t->p->e;
    Val none = be_icmp(e->u, LLVMIntEQ, t->size, be_emit_word(e, 0));
    for (int i = 0; i < num; i += t->vector) {
        get_totals(t, aside, i, &totals[i]);
        for (int j = 0; j < t->vector; j++)
            totals[i + j] =
                be_select(e->u, none, be_zero(t->type), totals[i + j]);
    }
}

/* ---- parts --------------------------------------------------------------- */

Val
be_ptx_num_tiles(const PtxTile *t, PtxSide side)
{
    Emit *e = &t->p->e;
    const PtxPanel *o = &t->panels[side];
    Val rounded = be_add(e->u, o->limit, be_emit_word(e, o->side - 1));
    return LLVMBuildUDiv(e->u->builder, rounded, be_emit_word(e, o->side), "");
}

static Val
side_of_parts(const PtxTile *t, PtxSide side)
{
    Emit *e = &t->p->e;
    return be_mul(e->u, be_ptx_num_tiles(t, side),
                  be_emit_word(e, t->panels[side].side));
}

/* Elements of a part. */
static Val
part_size(const PtxTile *t)
{
    Emit *e = &t->p->e;
    Val rows = side_of_parts(t, PTX_ROWS);
    Val columns = side_of_parts(t, PTX_COLUMNS);
    Val size = be_mul(e->u, rows, columns);
    return be_mul(e->u, size, be_space_size(e, &t->t->outer));
}

/* The number of an element among those of a part. */
Val
be_ptx_number_in_part(const PtxTile *t, Val row, Val column)
{
    BeUnit *u = t->p->e.u;
    Val columns = side_of_parts(t, PTX_COLUMNS);
    Val number = be_mul(u, t->outer, side_of_parts(t, PTX_ROWS));
    number = be_mul(u, be_add(u, number, row), columns);
    return be_add(u, number, column);
}

static Val
part_at(const PtxTile *t, Val part, Val number)
{
    Emit *e = &t->p->e;
    number = be_add(e->u, number, be_mul(e->u, part, part_size(t)));
    return be_offset(e->u, t->p->scratch,
                     be_mul(e->u, number, be_emit_word(e, t->t->bytes)));
}

Val
be_ptx_num_parts(const PtxTile *t)
{
    Emit *e = &t->p->e;
    Val size = be_add(e->u, t->size, be_emit_word(e, IR_K_BLOCK - 1));
    return LLVMBuildUDiv(e->u->builder, size, be_emit_word(e, IR_K_BLOCK), "");
}

void
be_ptx_put_part(const PtxTile *t, const Val *sums)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    const PtxPanel *rows = &t->panels[PTX_ROWS];
    const PtxPanel *columns = &t->panels[PTX_COLUMNS];
    for (int i = 0; i < t->shape->rows; i++) {
        Val row =
            be_ptx_element_of(t, PTX_ROWS, be_emit_word(e, i), rows->place);
        row = be_add(u, rows->first, row);
        for (int j = 0; j < t->shape->columns; j += be_ptx_tile_run(t)) {
            Val column = be_ptx_element_of(t, PTX_COLUMNS, be_emit_word(e, j),
                                           columns->place);
            column = be_add(u, columns->first, column);
            be_ptx_store_lanes(
                t, &sums[i * t->shape->columns + j], be_ptx_tile_run(t),
                part_at(t, t->part, be_ptx_number_in_part(t, row, column)));
        }
    }
}

/* The neighbouring elements of the part that begins with this one. */
static Val
load_part(const PtxTile *t, Val part, Val number, int count)
{
    Type type = be_vector(t->type, count > 1 ? count : 0);
    return be_load(t->p->e.u, type, part_at(t, part, number),
                   (unsigned)(count * t->t->bytes));
}

/* x[i] += element i of all; nothing, if it does not exist. */
static void
add_part(const PtxTile *t, Val exists, Val all, int count, Val *x)
{
    BeUnit *u = t->p->e.u;
    for (int i = 0; i < count; i++) {
        Val own = count > 1 ? be_extract(u, all, i, 0) : all;
        own = be_select(u, exists, own, be_float(t->type, -0.0));
        x[i] = LLVMBuildFAdd(u->builder, x[i], own, "");
    }
}

/* The sums of a few neighbouring elements.  Several parts are loaded before the
 * first of them is added. */
void
be_ptx_add_parts(const PtxTile *t, Val number, int count, Val *totals)
{
    Emit *e = &t->p->e;
    BeUnit *u = e->u;
    Val num = be_ptx_num_parts(t), last = be_sub(u, num, be_emit_word(e, 1));
    Val sums[PTX_MAX_EACH], parts[PTX_PARTS_AT_ONCE];
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), num,
                  be_emit_word(e, PTX_PARTS_AT_ONCE), "parts");
    be_ptx_totals_begin(t, &l, count, sums);
    be_loop_body(u, &l);
    for (int i = 0; i < PTX_PARTS_AT_ONCE; i++) {
        Val part = be_add(u, l.index, be_emit_word(e, i));
        parts[i] = load_part(t, be_min(u, part, last), number, count);
    }
    for (int i = 0; i < PTX_PARTS_AT_ONCE; i++) {
        Val part = be_add(u, l.index, be_emit_word(e, i));
        add_part(t, be_icmp(u, LLVMIntSLE, part, last), parts[i], count, sums);
    }
    for (int i = 0; i < count; i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_end(u, &l);
    be_ptx_totals_end(t, &l, count, totals);
}
