/*
 * kernel_tiles.c - which part of an array a part of the grid works on
 *
 * Tile t of T is the t'th of T equal parts of the items, in their order, or of
 * the elements of an array.  Kernels that make the tiles of their results of
 * nothing but the same tiles of each other's may be executed tile by tile: what
 * one hands over to the next is still in a cache.
 *
 * Addresses are linear in indices.  So the first element that a tile of items
 * reaches is a multiple of its number if the coefficients of the indices that
 * number tiles are those of such a number, and the others reach less than a
 * tile's elements.
 */
#include "backend/kernel/kernel_tiles.h"

#include "backend/kernel/kernel_impl.h"

/* The grid in tiles.  The indices before number `split` and the pieces of that
 * one number the tiles. */
typedef struct Tiling {
    const BeKernel *k;
    int64_t tiles;
    int split;
    int64_t piece;  /* values of the split index that a tile has */
    int64_t pieces; /* of the split index */
} Tiling;

static int64_t
grid_extent(const Tiling *t, int i)
{
    return t->k->grid.vars[i]->extent.c;
}

static bool
has_const_grid(const BeKernel *k)
{
    for (int i = 0; i < k->grid.count; i++)
        if (!ir_dim_is_const(k->grid.vars[i]->extent))
            return false;
    return !k->segments.len && be_kernel_items(k).c > 0;
}

/* False where tiles are no range of one index for each value of those before
 * it. */
static bool
find_split(Tiling *t)
{
    int64_t after = be_kernel_items(t->k).c; /* items of a value of index i */
    if (!has_const_grid(t->k) || after % t->tiles)
        return false;
    int64_t items = after / t->tiles; /* of a tile */
    for (int i = 0; i < t->k->grid.count; i++) {
        after /= grid_extent(t, i);
        if (items < after)
            continue;
        t->split = i;
        t->piece = items / after;
        t->pieces = grid_extent(t, i) / t->piece;
        return items % after == 0 && grid_extent(t, i) % t->piece == 0;
    }
    return false;
}

/* The number of grid index var, or -1. */
static int
grid_index(const Tiling *t, const KVar *var)
{
    for (int i = 0; i < t->k->grid.count; i++)
        if (t->k->grid.vars[i] == var)
            return i;
    return -1;
}

/* Whether the address grows by `size` elements from a tile to the next. */
static bool
follows_tiles(const Tiling *t, const KIndex *at, int64_t size)
{
    int64_t step = size;
    for (int i = t->split; i >= 0; i--) {
        bool is_split = i == t->split;
        int64_t count = is_split ? t->pieces : grid_extent(t, i), by;
        Dim coef = be_index_coef(at, t->k->grid.vars[i]);
        if (!ir_dim_is_const(coef) ||
            __builtin_mul_overflow(coef.c, is_split ? t->piece : 1, &by) ||
            (count > 1 && by != step) ||
            __builtin_mul_overflow(step, count, &step))
            return false;
    }
    return true;
}

/* Values of an index within a tile. */
static int64_t
count_in_tile(const Tiling *t, const KVar *var)
{
    int i = grid_index(t, var);
    if (i >= 0 && i <= t->split)
        return i == t->split ? t->piece : 1;
    return ir_dim_is_const(var->extent) ? var->extent.c : -1;
}

/* Whether the addresses of the first tile are below `size`. */
static bool
stays_in_first(const Tiling *t, const KIndex *at, int64_t size)
{
    if (!ir_dim_is_const(at->base))
        return false;
    int64_t low = at->base.c, high = at->base.c;
    for (int i = 0; i < at->num_terms; i++) {
        int64_t count = count_in_tile(t, at->terms[i].var), reach;
        if (count < 1 || !ir_dim_is_const(at->terms[i].coef) ||
            __builtin_mul_overflow(at->terms[i].coef.c, count - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach,
                                   reach < 0 ? &low : &high))
            return false;
    }
    return low >= 0 && high < size;
}

/* ---- all accesses -------------------------------------------------------- */

typedef struct Accesses {
    const Tiling *tiling;
    const KArray *array;
    bool ok;
} Accesses;

static void
check_access(KNode *n, void *data)
{
    Accesses *x = data;
    const KArray *array = NULL;
    const KIndex *at = NULL;
    if (n->kind == K_LOAD) {
        array = n->load.array;
        at = &n->load.at;
    } else if (n->kind == K_STORE) {
        array = n->store.array;
        at = &n->store.at;
    } else if (n->kind == K_SORT) {
        x->ok &= n->sort.array != x->array;
    }
    if (!array || array != x->array)
        return;
    int64_t size = array->size.c / x->tiling->tiles;
    x->ok &= follows_tiles(x->tiling, at, size) &&
             stays_in_first(x->tiling, at, size);
}

bool
be_kernel_has_tiles(const BeKernel *k, int64_t tiles)
{
    return find_split(&(Tiling){.k = k, .tiles = tiles});
}

bool
be_kernel_keeps_tiles(const BeKernel *k, const KArray *array, int64_t tiles)
{
    Tiling t = {.k = k, .tiles = tiles};
    if (!find_split(&t) || !ir_dim_is_const(array->size) ||
        array->size.c % tiles)
        return false;
    Accesses x = {&t, array, true};
    KBlock body = k->body;
    be_kernel_walk(&body, check_access, &x);
    return x.ok;
}
