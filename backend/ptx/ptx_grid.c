/*
 * ptx_grid.c - divides a kernel's work among threads and teams
 *
 * Blocks take items in turn until none are left, so any number of blocks
 * works.  All threads of a block execute the same number of rounds, and so they
 * reach its barriers together: a team without an item repeats the last one, and
 * stores nothing.
 */
#include "backend/ptx/ptx_emit.h"

/* ---- loops -------------------------------------------------------------- */

/* body for the points first, first + step, ... by this thread alone. */
static void
emit_points(Ptx *p, const KRanges *r, Val first, Val step, const KBlock *body)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitSpace s = be_space_of(r);
    bool outer = p->together;
    p->together = false;
    BeLoop l;
    be_loop_begin(u, &l, first, be_space_size(&p->e, &s), step, "point");
    be_loop_body(u, &l);
    be_space_delinearize(&p->e, &s, l.index);
    be_emit_block(e, body);
    be_loop_end(u, &l);
    p->together = outer;
}

void
be_ptx_emit_loop(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    const KRanges *r = &n->loop.ranges;
    const KBlock *body = &n->loop.body;
    if (n == p->shape.flat) {
        be_emit_block(e, body);
    } else if (p->shape.rows.length) {
        be_ptx_row_loop(p, n);
    } else if (p->shape.panels.is_used) {
        be_ptx_panel_loop(p, n);
    } else if (p->together && n->loop.ordered) {
        Val first = be_icmp(e->u, LLVMIntEQ, p->lane, be_emit_word(e, 0));
        PtxIf i = be_ptx_if(p, be_and(e->u, first, p->active));
        emit_points(p, r, be_emit_word(e, 0), be_emit_word(e, 1), body);
        be_ptx_end_if(p, &i, NULL, NULL);
    } else if (p->together) {
        PtxIf i = be_ptx_if(p, p->active);
        emit_points(p, r, p->lane, be_emit_word(e, p->shape.team), body);
        be_ptx_end_if(p, &i, NULL, NULL);
    } else {
        emit_points(p, r, be_emit_word(e, 0), be_emit_word(e, 1), body);
    }
}

/* ---- threads ------------------------------------------------------------ */

/* The index along which threads do neighbours; NULL: they do not. */
static void
set_neighbours(Ptx *p, const KVar *row)
{
    p->e.tile.row = row;
    if (row)
        p->groups = be_ptx_groups(&p->e, row, p->shape.width);
    else
        be_emit_find_varying(&p->e, NULL);
}

/* Some neighbours out of `extent`; the last ones may not exist. */
static void
emit_neighbours(Ptx *p, const KVar *row, Val extent, Val group)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int width = p->shape.width;
    Val wide = be_emit_word(e, width);
    Val first = be_mul(u, group, wide), next = be_add(u, first, wide);
    bool whole = !e->k->segments.len && be_ptx_is_whole(row->extent, width);
    e->indices[row->id] = (EmitIndex){.base = first};
    e->tile.rows = width;
    if (whole) {
        be_emit_block(e, &e->k->body);
        return;
    }
    Block all = be_block(u, "all"), some = be_block(u, "some");
    Block after = be_block(u, "after");
    be_cond_br(u, be_icmp(u, LLVMIntSLE, next, extent), all, some);
    be_position_at_end(u, all);
    be_emit_block(e, &e->k->body);
    be_br(u, after);
    be_position_at_end(u, some);
    e->tile.rows = 1;
    BeLoop l;
    be_loop_begin(u, &l, first, extent, be_emit_word(e, 1), "rest");
    be_loop_body(u, &l);
    e->indices[row->id] = (EmitIndex){.base = l.index};
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
    be_br(u, after);
    be_position_at_end(u, after);
}

/* The items of one thread, each alone or with some neighbours.  Where some
 * loads are contiguous along the index before the last one, neighbouring
 * threads go along it as far as a sector of memory, so that both sides access
 * whole ones. */
static void
emit_threads(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitSpace outer = p->shape.work;
    int width = p->shape.width;
    const KVar *row = outer.count ? outer.vars[--outer.count] : NULL;
    set_neighbours(p, width > 1 ? row : NULL);
    Val run = row ? be_emit_extent(e, row->extent) : be_emit_word(e, 1);
    Val groups = be_add(u, run, be_emit_word(e, width - 1));
    groups = LLVMBuildUDiv(u->builder, groups, be_emit_word(e, width), "");
    Val work = be_mul(u, be_space_size(&p->e, &outer), groups);
    Val threads = be_emit_word(e, p->shape.threads);
    Val first = be_add(u, be_mul(u, p->block, threads), p->thread);
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, threads),
                  "item");
    be_loop_body(u, &l);
    Val number = l.index, turned = NULL;
    Val sector = be_emit_word(e, PTX_TURNED);
    if (p->shape.turned)
        turned = be_emit_divmod(e, &number, sector);
    Val group = outer.count ? be_emit_divmod(e, &number, groups) : number;
    if (turned)
        number = be_add(u, be_mul(u, number, sector), turned);
    be_space_delinearize(&p->e, &outer, number);
    if (width > 1) {
        emit_neighbours(p, row, run, group);
    } else {
        if (row)
            e->indices[row->id] = (EmitIndex){.base = group};
        be_emit_block(e, &e->k->body);
    }
    be_loop_end(u, &l);
}

/* ---- parts -------------------------------------------------------------- */

/* The numbers by which a block's turn finds its segment: in a turn a block
 * executes as many groups of neighbours as it has threads, all of one segment.
 */
typedef struct Turns {
    const int64_t *lengths; /* of each part */
    int64_t *firsts;        /* the first turn of each, then their number */
    int padded;             /* a power of two, at least the segments */
    int64_t count;
} Turns;

static Turns
count_turns(const Ptx *p)
{
    const BeKernel *k = p->e.k;
    int64_t by = (int64_t)p->shape.threads * p->shape.width;
    Turns t = {.lengths = k->segments.data, .padded = 1};
    while (t.padded < k->segments.len)
        t.padded *= 2;
    t.firsts = NEW_ARRAY(p->e.arena, int64_t, (size_t)t.padded);
    for (int i = 0; i < t.padded; i++) {
        t.firsts[i] = t.count;
        t.count += i < k->segments.len ? (t.lengths[i] + by - 1) / by : 0;
    }
    return t;
}

/* The last segment whose first turn is not after this one. */
static Val
find_part(Emit *e, const Turns *t, Val firsts, Val turn)
{
    BeUnit *u = e->u;
    Val part = be_emit_word(e, 0);
    for (int step = t->padded / 2; step; step /= 2) {
        Val next = be_add(u, part, be_emit_word(e, step));
        Val first = be_emit_number(e, firsts, next);
        part = be_select(u, be_icmp(u, LLVMIntSLE, first, turn), next, part);
    }
    return part;
}

static Val
numbers(Emit *e, const char *what, const int64_t *x, int count)
{
    const char *name = arena_printf(e->arena, "%s_%s", e->k->name, what);
    return be_emit_numbers(e, name, x, count, PTX_GLOBAL);
}

/* Several kernels of one index each: a block's turns go through all. */
static void
emit_parts(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Turns t = count_turns(p);
    const KVar *row = e->k->grid.vars[0];
    Val firsts = numbers(e, "firsts", t.firsts, t.padded);
    Val lengths = numbers(e, "lengths", t.lengths, e->k->segments.len);
    Type pointer = LLVMPointerTypeInContext(u->context, PTX_GLOBAL);
    set_neighbours(p, p->shape.width > 1 ? row : NULL);
    BeLoop l;
    be_loop_begin(u, &l, p->block, be_emit_word(e, t.count), p->num_blocks,
                  "turn");
    be_loop_body(u, &l);
    Val part = find_part(e, &t, firsts, l.index);
    Val turn = be_sub(u, l.index, be_emit_number(e, firsts, part));
    Val length = be_emit_number(e, lengths, part);
    Val group = be_mul(u, turn, be_emit_word(e, p->shape.threads));
    group = be_add(u, group, p->thread);
    Val first = be_mul(u, group, be_emit_word(e, p->shape.width));
    PtxIf i = be_ptx_if(p, be_icmp(u, LLVMIntSLT, first, length));
    be_emit_segment_arrays(e, LLVMGetParam(u->func, 0), pointer, part);
    emit_neighbours(p, row, length, group);
    be_ptx_end_if(p, &i, NULL, NULL);
    be_loop_end(u, &l);
}

/* ---- teams -------------------------------------------------------------- */

/* The thread's position. */
static void
find_lane(Ptx *p)
{
    LLVMBuilderRef b = p->e.u->builder;
    bool strided = p->shape.strided;
    Val by = be_emit_word(&p->e, strided ? p->shape.items : p->shape.team);
    Val rest = LLVMBuildURem(b, p->thread, by, "");
    Val whole = LLVMBuildUDiv(b, p->thread, by, "");
    p->lane = strided ? whole : rest;
    p->team = strided ? rest : whole;
}

static void
emit_teams(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    be_emit_find_varying(e, NULL);
    p->together = true;
    Val work = be_space_size(&p->e, &p->shape.work);
    find_lane(p);
    Val items = be_emit_word(e, p->shape.items);
    BeLoop l;
    Val begin = be_mul(u, p->block, items);
    be_loop_begin(u, &l, begin, work, be_mul(u, p->num_blocks, items), "item");
    be_loop_body(u, &l);
    Val item = be_add(u, l.index, p->team);
    p->active = be_icmp(u, LLVMIntSLT, item, work);
    Val last = be_sub(u, work, be_emit_word(e, 1));
    be_space_delinearize(&p->e, &p->shape.work, be_min(u, item, last));
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
}

void
be_ptx_emit_grid(Ptx *p)
{
    if (p->is_rest)
        be_ptx_emit_rest(p);
    else if (p->shape.tiles.contract)
        be_ptx_emit_tiles(p);
    else if (p->shape.rows.length)
        be_ptx_emit_rows(p);
    else if (p->shape.panels.is_used && p->scratch)
        be_ptx_emit_chunks(p);
    else if (p->shape.panels.is_used)
        be_ptx_emit_panels(p);
    else if (p->shape.columns)
        be_ptx_emit_columns(p);
    else if (p->shape.scatter.loop)
        be_ptx_emit_scatter(p);
    else if (p->shape.squares.num)
        be_ptx_emit_squares(p);
    else if (p->e.k->segments.len)
        emit_parts(p);
    else if (p->shape.team > 1)
        emit_teams(p);
    else
        emit_threads(p);
}
