/*
 * ptx_shape.c - how a kernel is divided among threads
 *
 * Only the form of the kernel decides, so that its code does not depend on a
 * machine.  Tiles come first, then teams where an item has reductions or
 * several loops, else threads.
 */
#include "backend/kernel/kernel_impl.h"

#include <assert.h>
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_SLICES = 16,
    STRIDED_ITEMS = 8, /* neighbours that fill a sector of memory */
    MUCH_CODE = 2048,  /* operations of a thread that does neighbours */
    MAX_CODE = 3072
};

/* ---- forms -------------------------------------------------------------- */

static bool
has_effect(const KNode *n)
{
    return n->kind == K_REDUCE || n->kind == K_CONTRACT || n->kind == K_STORE ||
           n->kind == K_SCAN || n->kind == K_SORT;
}

/* The loop of an item that has only values besides, which every thread may
 * compute. */
static const KNode *
flat_loop(const BeKernel *k)
{
    const KNode *loop = NULL;
    for (const KNode *n = k->body.first; n; n = n->next) {
        if (has_effect(n) || (n->kind == K_LOOP && (loop || n->loop.ordered)))
            return NULL;
        if (n->kind == K_LOOP)
            loop = n;
    }
    return loop;
}

static EmitSpace
work_of(const BeKernel *k, const KNode *flat)
{
    EmitSpace s = be_space_of(&k->grid);
    for (int i = 0; flat && i < flat->loop.ranges.count; i++)
        s.vars[s.count++] = flat->loop.ranges.vars[i];
    return s;
}

static const KBlock *
item_body(const BeKernel *k, const KNode *flat)
{
    return flat ? &flat->loop.body : &k->body;
}

/* Whether memory is contiguous along the work's last index. */
static bool
is_along_memory(const BeKernel *k, const KNode *flat)
{
    return flat ? flat->loop.vector : k->grid_vector;
}

/* The least power of two >= x, at most `most`. */
static int
power_from(int64_t x, int most)
{
    int power = 1;
    while (power < x && power < most)
        power *= 2;
    return power;
}

/* ---- teams -------------------------------------------------------------- */

/* The requirements of an item's nodes on its team. */
static void
note_wishes(const BeKernel *k, const KBlock *body, PtxShape *s)
{
    for (const KNode *n = body->first; n; n = n->next) {
        int64_t points;
        int most = IR_STRIPES;
        bool is_choice = n->kind == K_SORT && n->sort.first;
        if (is_choice || (n->kind == K_LOOP && n->loop.ordered)) {
            continue; /* executed by one thread */
        } else if (n->kind == K_LOOP) {
            points = be_ranges_bound(k, &n->loop.ranges);
        } else if (n->kind == K_SCAN) {
            points =
                (be_ranges_bound(k, &n->scan.ranges) - 1) / IR_SCAN_BLOCK + 1;
        } else if (n->kind == K_SORT) {
            points = be_ranges_bound(k, &n->sort.ranges) / 2;
            most = PTX_THREADS;
        } else if (n->kind == K_REDUCE) {
            points = be_ranges_bound(k, &n->reduce.ranges);
            int64_t chunks = (points - 1) / IR_CHUNK + 1;
            int slices = power_from(chunks, MAX_SLICES);
            s->slices = slices > s->slices ? slices : s->slices;
        } else {
            continue;
        }
        int team = power_from(points, most);
        s->team = team > s->team ? team : s->team;
    }
}

/* Several slices are used only with all 64 stripes. */
static void
choose_team(Emit *e, PtxShape *s)
{
    const BeKernel *k = e->k;
    const KBlock *body = item_body(k, s->flat);
    note_wishes(k, body, s);
    s->strided = s->team > 1 && is_along_memory(k, s->flat);
    if (s->strided && s->slices > 2)
        s->slices = 2;
    s->team *= s->slices;
    int most = PTX_THREADS / s->team;
    if (s->strided && most < STRIDED_ITEMS)
        most = STRIDED_ITEMS;
    if (most < 1)
        most = 1;
    s->items = power_from(be_space_bound(k, &s->work), most);
    s->threads = s->team * s->items;
    if (s->threads < PTX_WARP) {
        s->items = PTX_WARP / s->team;
        s->threads = PTX_WARP;
    }
    for (const KNode *n = body->first; n; n = n->next) {
        int64_t bytes = n->kind == K_REDUCE ? be_ptx_reduce_bytes(e, n, s)
                        : n->kind == K_SCAN ? be_ptx_scan_bytes(n, s->threads)
                                            : 0;
        s->shared = bytes > s->shared ? bytes : s->shared;
    }
}

/* ---- neighbours --------------------------------------------------------- */

typedef struct Stores {
    const PtxGroups *groups;
    bool wide;
} Stores;

static void
note_store(KNode *n, void *data)
{
    Stores *s = data;
    if (n->kind == K_STORE)
        s->wide = s->wide && be_ptx_is_contiguous(s->groups, &n->store.at) &&
                  be_ptx_is_same(s->groups, n->store.guard);
}

static bool
stores_are_wide(Emit *e, const KVar *row, int width)
{
    Stores s = {be_ptx_groups(e, row, width), true};
    KBlock body = e->k->body;
    be_kernel_walk(&body, note_store, &s);
    return s.wide;
}

static bool
does_neighbours(const BeKernel *k, const PtxShape *s)
{
    const KBlock *body = item_body(k, s->flat);
    return s->team == 1 && s->work.count && is_along_memory(k, s->flat) &&
           !be_kernel_contains(&k->body, K_REDUCE) &&
           !be_kernel_contains(body, K_SCAN) &&
           !be_kernel_contains(body, K_SORT) &&
           !be_kernel_contains(&k->body, K_CONTRACT) &&
           !be_kernel_contains(body, K_LOOP);
}

/* Elementwise work is done for as many neighbours at once as 16 bytes of the
 * narrowest elements are, or, if that would be much code, of the widest. */
static int
choose_width(Emit *e, const PtxShape *s)
{
    const BeKernel *k = e->k;
    if (!does_neighbours(k, s))
        return 1;
    const KVar *row = s->work.vars[s->work.count - 1];
    int64_t extent = be_var_bound(k, row);
    double cost = be_kernel_cost(k, item_body(k, s->flat));
    PtxBytes bytes = be_ptx_bytes_along(e, row);
    int width = PTX_ALIGN / bytes.least, narrow = PTX_ALIGN / bytes.most;
    while (width > 1 &&
           (width > extent || (width > narrow && cost * width > MUCH_CODE) ||
            cost * width > MAX_CODE || !stores_are_wide(e, row, width)))
        width /= 2;
    return width;
}

/* ---- transposes ---------------------------------------------------------- */

typedef struct Turned {
    const Emit *e;
    const PtxGroups *groups;
    const KVar *outer; /* the index before the one that neighbours go along */
    bool found;
} Turned;

static void
note_turned(KNode *n, void *data)
{
    Turned *t = data;
    if (n->kind != K_LOAD || !t->e->value_varying[n->id].row ||
        be_ptx_is_contiguous(t->groups, &n->load.at))
        return;
    Dim along = be_index_coef(&n->load.at, t->outer);
    t->found = t->found || ir_dim_equal(along, ir_dim_const(1));
}

/* Whether some load is contiguous along the index before the last one instead,
 * of which there are whole sectors. */
static bool
is_turned(Emit *e, const PtxShape *s)
{
    if (s->work.count < 2 || !does_neighbours(e->k, s))
        return false;
    const KVar *row = s->work.vars[s->work.count - 1];
    const KVar *outer = s->work.vars[s->work.count - 2];
    if (!be_ptx_is_whole(outer->extent, PTX_TURNED))
        return false;
    Turned t = {e, be_ptx_groups(e, row, s->width), outer, false};
    KBlock body = e->k->body;
    be_kernel_walk(&body, note_turned, &t);
    return t.found;
}

/* ---- the choice --------------------------------------------------------- */

PtxShape
be_ptx_shape_choose(Ptx *p)
{
    const BeKernel *k = p->e.k;
    PtxShape s = {.team = 1, .slices = 1, .width = 1};
    s.flat = flat_loop(k);
    be_ptx_tiles_find(p, s.flat, &s.tiles);
    if (s.tiles.contract) {
        const PtxTileShape *t = &s.tiles.shape;
        s.threads = t->k_slices * be_ptx_tile_threads(t);
        s.shared = be_ptx_tiles_bytes(&s.tiles, t);
        s.split = s.tiles.split;
        return s;
    }
    s.work = work_of(k, s.flat);
    if (be_ptx_rows_find(p, &s))
        return s;
    if (be_ptx_panels_find(p, &s)) {
        be_ptx_split_rows(p, &s);
        return s;
    }
    if (be_ptx_columns_find(p, &s) || be_ptx_scatter_find(p, &s))
        return s;
    choose_team(&p->e, &s);
    s.width = choose_width(&p->e, &s);
    if (!be_ptx_squares_find(p, &s))
        s.turned = is_turned(&p->e, &s);
    assert(s.threads == s.team * s.items && s.threads % PTX_WARP == 0);
    return s;
}

/* ---- blocks ------------------------------------------------------------- */

static int64_t
divided_up(int64_t x, int64_t by)
{
    return x <= 0 ? 0 : (x - 1) / by + 1;
}

static int64_t
num_tiles(const BeKernel *k, const PtxTiles *t)
{
    int64_t tiles = be_space_bound(k, &t->outer);
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        int64_t all = be_space_bound(k, &t->operands[side].space);
        tiles *= divided_up(all, be_ptx_tile_side(&t->shape, (PtxSide)side));
    }
    return tiles;
}

/* Turns of segments, each of which is items of one. */
static int64_t
num_turns(const BeKernel *k, const PtxShape *s)
{
    int64_t turns = 0, by = (int64_t)s->threads * s->width;
    for (int i = 0; i < k->segments.len; i++)
        turns += divided_up(k->segments.data[i], by);
    return turns;
}

int64_t
be_ptx_shape_blocks(const BeKernel *k, const PtxShape *s)
{
    int64_t parts = s->split.parts ? s->split.parts : 1;
    if (s->tiles.contract)
        return parts * num_tiles(k, &s->tiles);
    if (k->segments.len)
        return num_turns(k, s);
    int64_t items = be_space_bound(k, &s->work);
    if (s->scatter.loop)
        return INT64_MAX;
    if (s->panels.is_used)
        return parts * items;
    if (s->squares.num)
        return divided_up(items, (int64_t)s->threads * PTX_SQUARE * PTX_SQUARE);
    if (s->rows.length || (s->team > 1 && !s->columns))
        return divided_up(items, s->items);
    return divided_up(items, (int64_t)s->items * s->width);
}
