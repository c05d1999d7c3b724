/*
 * ptx_squares.c - transposes, a square of elements by each thread
 *
 * Where a kernel stores along its last index and loads along the one before, a
 * thread has 4 x 4 elements: it loads 16 bytes four times along the one index
 * and stores 16 bytes four times along the other.  Neighbouring threads go
 * along the index before the last one as far as a sector of memory.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_CODE = 2048,                   /* operations of a thread */
    SQUARES = PTX_TURNED / PTX_SQUARE, /* of a sector */
};

static const KBlock *
body_of(const PtxShape *s, const BeKernel *k)
{
    return s->flat ? &s->flat->loop.body : &k->body;
}

/* ---- the form ----------------------------------------------------------- */

/* Whether a load is wide along the index before the last one. */
static bool
is_turned(const KNode *n, const PtxGroups *row, const PtxGroups *outer)
{
    return n->kind == K_LOAD && dtype_info[n->load.array->dtype].bytes == 4 &&
           !be_ptx_is_contiguous(row, &n->load.at) &&
           be_ptx_is_contiguous(outer, &n->load.at) &&
           be_ptx_is_same(outer, n->load.guard);
}

/* Fills s with the slice of the turned loads; false without any, or where they
 * need other loads. */
static bool
find_turned(const KBlock *b, const PtxGroups *row, const PtxGroups *outer,
            PtxSquares *s)
{
    for (KNode *n = b->first; n; n = n->next) {
        if (s->num == PTX_MAX_TURNED || !is_turned(n, row, outer))
            continue;
        s->loads[s->num++] = n;
        be_ptx_slice_add_uses(&s->slice, n);
    }
    be_ptx_slice_close(&s->slice, b);
    for (const KNode *n = b->first; n; n = n->next)
        if (n->kind == K_LOAD && be_ptx_slice_has(&s->slice, n))
            return false;
    return s->num > 0;
}

bool
be_ptx_squares_find(Ptx *p, PtxShape *out)
{
    Emit *e = &p->e;
    const KBlock *b = body_of(out, e->k);
    if (out->work.count < 2 || out->width != PTX_SQUARE || e->k->segments.len)
        return false;
    const KVar *row = out->work.vars[out->work.count - 1];
    const KVar *outer = out->work.vars[out->work.count - 2];
    double cost = be_kernel_cost(e->k, b);
    if (!be_ptx_is_whole(row->extent, PTX_SQUARE) ||
        !be_ptx_is_whole(outer->extent, PTX_TURNED) ||
        cost * PTX_SQUARE * PTX_SQUARE > MAX_CODE)
        return false;
    PtxSquares s = {.slice = be_ptx_slice_new(e)};
    const PtxGroups *along_outer = be_ptx_groups(e, outer, PTX_SQUARE);
    const PtxGroups *along_row = be_ptx_groups(e, row, PTX_SQUARE);
    if (!find_turned(b, along_row, along_outer, &s))
        return false;
    out->squares = s;
    return true;
}

/* ---- code --------------------------------------------------------------- */

/* The values of the turned loads: [load][row][outer]. */
typedef struct Turned {
    Val x[PTX_MAX_TURNED][PTX_SQUARE][PTX_SQUARE];
} Turned;

static void
set_neighbours(Ptx *p, const KVar *along)
{
    p->e.tile.row = along;
    p->e.tile.rows = PTX_SQUARE;
    p->groups = be_ptx_groups(&p->e, along, PTX_SQUARE);
}

static void
set_index(Ptx *p, const KVar *var, Val first, int more)
{
    Emit *e = &p->e;
    Val base = be_add(e->u, first, be_emit_word(e, more));
    e->indices[var->id] = (EmitIndex){.base = base};
}

static void
load_turned(Ptx *p, const KVar *row, Val first, Turned *t)
{
    Emit *e = &p->e;
    const PtxSquares *s = &p->shape.squares;
    const KBlock *b = body_of(&p->shape, e->k);
    for (int j = 0; j < PTX_SQUARE; j++) {
        set_index(p, row, first, j);
        be_ptx_slice_emit(e, &s->slice, b);
        for (int l = 0; l < s->num; l++) {
            be_ptx_load(e, s->loads[l]);
            for (int i = 0; i < PTX_SQUARE; i++)
                t->x[l][j][i] = be_emit_get(e, s->loads[l], i, 0);
        }
    }
}

/* Everything else of one row of the square. */
static void
emit_row(Ptx *p, const Turned *t, int i)
{
    Emit *e = &p->e;
    const PtxSquares *s = &p->shape.squares;
    for (const KNode *n = body_of(&p->shape, e->k)->first; n; n = n->next) {
        int l = 0;
        while (l < s->num && s->loads[l] != n)
            l++;
        if (l == s->num)
            be_emit_node(e, n);
        for (int j = 0; l < s->num && j < PTX_SQUARE; j++)
            be_emit_set(e, n, j, 0, t->x[l][j][i]);
    }
}

static void
emit_around(Ptx *p)
{
    Emit *e = &p->e;
    const KNode *flat = p->shape.flat;
    for (const KNode *n = flat ? e->k->body.first : NULL; n; n = n->next)
        if (n != flat)
            be_emit_node(e, n);
}

static void
emit_square(Ptx *p, const KVar *row, Val column, const KVar *outer, Val line)
{
    Turned t;
    set_neighbours(p, outer);
    set_index(p, outer, line, 0);
    set_index(p, row, column, 0);
    emit_around(p);
    load_turned(p, row, column, &t);
    set_neighbours(p, row);
    set_index(p, row, column, 0);
    for (int i = 0; i < PTX_SQUARE; i++) {
        set_index(p, outer, line, i);
        emit_around(p);
        emit_row(p, &t, i);
    }
}

/* How many squares an index has. */
static Val
squares_along(Ptx *p, const KVar *var)
{
    Emit *e = &p->e;
    Val all = be_emit_extent(e, var->extent);
    return LLVMBuildUDiv(e->u->builder, all, be_emit_word(e, PTX_SQUARE), "");
}

void
be_ptx_emit_squares(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitSpace others = p->shape.work;
    const KVar *row = others.vars[--others.count];
    const KVar *outer = others.vars[--others.count];
    Val size = be_emit_word(e, PTX_SQUARE), sector = be_emit_word(e, SQUARES);
    Val across = squares_along(p, row), down = squares_along(p, outer);
    Val sectors = LLVMBuildUDiv(u->builder, down, sector, "");
    Val work = be_space_size(e, &others);
    work = be_mul(u, work, be_mul(u, across, down));
    Val threads = be_emit_word(e, p->shape.threads);
    Val first = be_add(u, be_mul(u, p->block, threads), p->thread);
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, threads),
                  "square");
    be_loop_body(u, &l);
    Val number = l.index;
    Val line = be_emit_divmod(e, &number, sector);
    Val column = be_emit_divmod(e, &number, across);
    Val group = be_emit_divmod(e, &number, sectors);
    line = be_add(u, be_mul(u, group, sector), line);
    be_space_delinearize(e, &others, number);
    column = be_mul(u, column, size);
    line = be_mul(u, line, size);
    emit_square(p, row, column, outer, line);
    be_loop_end(u, &l);
}
