/*
 * ptx_tiles.c - contractions, a rectangle of the result at a time
 *
 * The rows of the matrix are the last indices of the grid, its columns the
 * index of the loop: one operand does not depend on the columns, the other not
 * on the rows.  The operations of an operand do not matter: its slice is
 * executed when it is staged, so prologues and the guards of a convolution need
 * no extra code.
 *
 * A block of 16 x 16 threads stages PTX_K_STEP products' worth of both
 * operands, and each thread adds them, ascending, to its elements, which are
 * neighbours in both directions.  Blocks of 512 products are summed separately
 * (D2).  Beyond the end of the products, -0 and 0 are staged, whose product
 * changes no sum.
 *
 * The sums go through shared memory once more, so that the rest of the kernel
 * is executed for one element at a time by threads with neighbouring addresses.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    PAD = 4, /* elements after a staged row, to spread it over banks */
    FEW = 4, /* rows or columns for which a tile would be mostly empty */
    FEW_PRODUCTS = 8,
    MAX_EACH = PTX_MAX_SIDE / PTX_SIDE /* elements of a thread in a direction */
};

/* One of the operands, and where it is staged. */
typedef struct Operand {
    const KNode *value;
    const EmitSpace *space; /* rows or columns */
    int side;               /* elements of a tile */
    Val first, limit;       /* of the tile, of all */
    int64_t offset;         /* in shared memory */
    bool along_k;           /* memory is contiguous along the products */
    bool *values, *vars;    /* the slice that computes it, by id */
} Operand;

typedef struct Tile {
    Ptx *p;
    const PtxTiles *t;
    EmitSpace columns, products;
    Type type;
    bool is_float;
    int64_t bytes; /* of an element */
    Val size;      /* products */
    Operand of_rows, of_columns;
    Val x, y; /* of the thread in the block, words */
} Tile;

/* ---- whether tiles pay --------------------------------------------- */

static const KNode *
only_contraction(const KBlock *b)
{
    const KNode *found = NULL;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind == K_REDUCE || n->kind == K_LOOP ||
            (n->kind == K_CONTRACT && found))
            return NULL;
        if (n->kind == K_CONTRACT)
            found = n;
    }
    if (!found || be_kernel_contains(&found->contract.body, K_REDUCE) ||
        be_kernel_contains(&found->contract.body, K_CONTRACT))
        return NULL;
    return found;
}

/* Distinguishes rows from columns by the indices that the operands depend on.
 */
static bool
find_operands(Emit *e, PtxTiles *t)
{
    const KNode *x = t->contract->contract.x, *y = t->contract->contract.y;
    be_emit_find_varying(e, NULL);
    bool x_moves = e->value_varying[x->id].lane;
    if (x_moves && e->value_varying[y->id].lane)
        return false;
    t->of_rows = x_moves ? y : x;
    t->of_columns = x_moves ? x : y;
    return true;
}

static int
choose_side(int64_t bound)
{
    int side = PTX_SIDE;
    while (side < PTX_MAX_SIDE && side < bound)
        side *= 2;
    return side;
}

void
be_ptx_tiles_find(Ptx *p, const KNode *flat, PtxTiles *t)
{
    Emit *e = &p->e;
    PtxTiles found = {.loop = flat};
    if (!flat || !flat->loop.vector)
        return;
    found.contract = only_contraction(&flat->loop.body);
    if (!found.contract || found.contract->dtype == DT_bool ||
        !find_operands(e, &found))
        return;
    be_emit_split_grid(e, found.of_columns, &found.outer, &found.rows);
    int64_t rows = be_space_bound(e->k, &found.rows);
    int64_t columns = be_ranges_bound(e->k, &flat->loop.ranges);
    if (!found.rows.count || rows < FEW || columns < FEW ||
        be_ranges_bound(e->k, &found.contract->contract.ranges) < FEW_PRODUCTS)
        return;
    found.height = choose_side(rows);
    found.width = choose_side(columns);
    *t = found;
}

static int64_t
staged_bytes(int side, int64_t element)
{
    return (int64_t)PTX_K_STEP * (side + PAD) * element;
}

static int64_t
element_bytes(const PtxTiles *t)
{
    return (int64_t)dtype_info[t->contract->dtype].bytes;
}

int64_t
be_ptx_tiles_bytes(const PtxTiles *t)
{
    int64_t element = element_bytes(t);
    int64_t operands =
        staged_bytes(t->height, element) + staged_bytes(t->width, element);
    int64_t result = (int64_t)t->height * t->width * element;
    return operands > result ? operands : result;
}

/* ---- the slice of an operand ----------------------------------------- */

static void
mark(Operand *o, KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        o->values[args[i]->id] = true;
    const KIndex *x = be_kernel_index(n);
    for (int i = 0; x && i < x->num_terms; i++)
        o->vars[x->terms[i].var->id] = true;
}

static bool
is_marked(const Operand *o, const KNode *n)
{
    if (n->kind == K_DIV || n->kind == K_MOD)
        return o->vars[n->divide.var->id];
    return n->id >= 0 && o->values[n->id];
}

/* The blocks around the products, from the outside. */
enum { NUM_BLOCKS = 3 };

static void
list_blocks(const Tile *tile, const KBlock **blocks)
{
    blocks[0] = &tile->p->e.k->body;
    blocks[1] = &tile->t->loop->loop.body;
    blocks[2] = &tile->t->contract->contract.body;
}

/* Users of a value come after it or further inside. */
static void
find_needed(const Tile *tile, Operand *o)
{
    const KBlock *blocks[NUM_BLOCKS];
    Emit *e = &tile->p->e;
    o->values = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_values + 1);
    o->vars = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_vars + 1);
    o->values[o->value->id] = true;
    list_blocks(tile, blocks);
    const EmitSpace *k = &tile->products;
    const KVar *last = k->vars[k->count - 1];
    for (int i = NUM_BLOCKS - 1; i >= 0; i--) {
        for (KNode *n = blocks[i]->last; n; n = n->prev) {
            if (!is_marked(o, n))
                continue;
            mark(o, n);
            if (n->kind == K_LOAD &&
                ir_dim_equal(be_index_coef(&n->load.at, last), ir_dim_const(1)))
                o->along_k = true;
        }
    }
}

static Val
emit_operand(const Tile *tile, const Operand *o)
{
    const KBlock *blocks[NUM_BLOCKS];
    Emit *e = &tile->p->e;
    list_blocks(tile, blocks);
    for (int i = 0; i < NUM_BLOCKS; i++) {
        for (const KNode *n = blocks[i]->first; n; n = n->next) {
            if (is_marked(o, n))
                be_emit_node(e, n);
        }
    }
    return be_emit_get(e, o->value, 0, 0);
}

/* ---- staging ------------------------------------------------------------ */

static Val
staged_at(const Tile *tile, const Operand *o, Val product, Val element)
{
    Emit *e = &tile->p->e;
    Val row = be_mul(e->u, product, be_emit_word(e, o->side + PAD));
    return be_ptx_shared_at(tile->p, o->offset, be_add(e->u, row, element),
                            tile->bytes);
}

/* The value beyond the last product: see above. */
static Val
no_product(const Tile *tile, const Operand *o)
{
    bool minus = tile->is_float && o == &tile->of_rows;
    return minus ? be_float(tile->type, -0.0) : be_zero(tile->type);
}

/* The operand for one product and row or column, if they exist. */
static Val
operand_at(const Tile *tile, const Operand *o, Val product, Val element)
{
    Ptx *p = tile->p;
    BeUnit *u = p->e.u;
    Val inside = be_icmp(u, LLVMIntSLT, product, tile->size);
    inside = be_and(u, inside, be_icmp(u, LLVMIntSLT, element, o->limit));
    PtxIf i = be_ptx_if(p, inside);
    be_space_delinearize(&p->e, o->space, element);
    be_space_delinearize(&p->e, &tile->products, product);
    Val x = emit_operand(tile, o);
    return be_ptx_end_if(p, &i, x, no_product(tile, o));
}

/* Products from `product` on; all threads take part. */
static void
stage(const Tile *tile, const Operand *o, Val product)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    int run = o->along_k ? PTX_K_STEP : o->side;
    Val x[MAX_EACH], at[MAX_EACH];
    int num = o->side / PTX_SIDE;
    for (int i = 0; i < num; i++) {
        int64_t before = (int64_t)i * PTX_SIDE * PTX_SIDE;
        Val number = be_add(u, tile->p->thread, be_emit_word(e, before));
        Val inner = LLVMBuildURem(u->builder, number, be_emit_word(e, run), "");
        Val outer = LLVMBuildUDiv(u->builder, number, be_emit_word(e, run), "");
        Val k = o->along_k ? inner : outer;
        Val element = o->along_k ? outer : inner;
        at[i] = staged_at(tile, o, k, element);
        k = be_add(u, product, k);
        x[i] = operand_at(tile, o, k, be_add(u, o->first, element));
    }
    for (int i = 0; i < num; i++)
        be_store(u, x[i], at[i], (unsigned)tile->bytes);
}

/* ---- products ----------------------------------------------------------- */

/* The elements of a thread: rows, and columns in each. */
static int
thread_rows(const Tile *tile)
{
    return tile->t->height / PTX_SIDE;
}

static int
thread_columns(const Tile *tile)
{
    return tile->t->width / PTX_SIDE;
}

static int
num_sums(const Tile *tile)
{
    return thread_rows(tile) * thread_columns(tile);
}

/* The thread's part of an operand that is staged for one product. */
static void
load_staged(const Tile *tile, const Operand *o, int product, Val place,
            Val *out)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    int num = o->side / PTX_SIDE;
    Val first = be_mul(u, place, be_emit_word(e, num));
    Val from = staged_at(tile, o, be_emit_word(e, product), first);
    int64_t bytes = num * tile->bytes;
    Val all = be_load(u, be_vector(tile->type, num > 1 ? num : 0), from,
                      (unsigned)(bytes < PTX_ALIGN ? bytes : PTX_ALIGN));
    for (int i = 0; i < num; i++)
        out[i] = num > 1 ? be_extract(u, all, i, 0) : all;
}

static void
add_staged(const Tile *tile, Val *sums)
{
    BeUnit *u = tile->p->e.u;
    int columns = thread_columns(tile);
    for (int k = 0; k < PTX_K_STEP; k++) {
        Val x[MAX_EACH], y[MAX_EACH];
        load_staged(tile, &tile->of_rows, k, tile->y, x);
        load_staged(tile, &tile->of_columns, k, tile->x, y);
        for (int i = 0; i < num_sums(tile); i++) {
            Val a = x[i / columns], b = y[i % columns];
            sums[i] = tile->is_float
                          ? be_intrinsic3(u, "llvm.fma", a, b, sums[i])
                          : be_add(u, sums[i], be_mul(u, a, b));
        }
    }
}

/* The sums of the products begin to end. */
static void
add_products(const Tile *tile, Val begin, Val end, Val *sums)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, PTX_K_STEP), "k");
    for (int i = 0; i < num_sums(tile); i++)
        sums[i] = be_loop_carry(u, &l, be_zero(tile->type));
    be_loop_body(u, &l);
    Val next[MAX_EACH * MAX_EACH];
    for (int i = 0; i < num_sums(tile); i++)
        next[i] = sums[i];
    stage(tile, &tile->of_rows, l.index);
    stage(tile, &tile->of_columns, l.index);
    be_ptx_barrier(tile->p);
    add_staged(tile, next);
    be_ptx_barrier(tile->p);
    for (int i = 0; i < num_sums(tile); i++)
        be_loop_next(&l, i, next[i]);
    be_loop_end(u, &l);
}

/* With several blocks of products their sums are added. -0 is neutral; of no
 * products at all the sum is 0. */
static void
add_blocks(const Tile *tile, Val *sums)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    int num = num_sums(tile);
    Val total[MAX_EACH * MAX_EACH], zero = be_zero(tile->type);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), tile->size,
                  be_emit_word(e, BE_K_BLOCK), "block");
    for (int i = 0; i < num; i++)
        total[i] = be_loop_carry(u, &l, be_float(tile->type, -0.0));
    be_loop_body(u, &l);
    Val end = be_add(u, l.index, be_emit_word(e, BE_K_BLOCK));
    add_products(tile, l.index, be_min(u, end, tile->size), sums);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, LLVMBuildFAdd(u->builder, total[i], sums[i], ""));
    be_loop_end(u, &l);
    Val none = be_icmp(u, LLVMIntEQ, tile->size, be_emit_word(e, 0));
    for (int i = 0; i < num; i++)
        sums[i] = be_select(u, none, zero, total[i]);
}

/* ---- results ------------------------------------------------------------ */

static Val
result_at(const Tile *tile, Val row, Val column)
{
    Emit *e = &tile->p->e;
    Val before = be_mul(e->u, row, be_emit_word(e, tile->t->width));
    return be_ptx_shared_at(tile->p, 0, be_add(e->u, before, column),
                            tile->bytes);
}

static void
put_sums(const Tile *tile, const Val *sums)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    int rows = thread_rows(tile), columns = thread_columns(tile);
    Val row = be_mul(u, tile->y, be_emit_word(e, rows));
    Val column = be_mul(u, tile->x, be_emit_word(e, columns));
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            Val below = be_add(u, row, be_emit_word(e, i));
            Val at =
                result_at(tile, below, be_add(u, column, be_emit_word(e, j)));
            be_store(u, sums[i * columns + j], at, (unsigned)tile->bytes);
        }
    }
}

/* The rest of the kernel for one element of the tile. */
static void
finish_element(const Tile *tile, Val number)
{
    Ptx *p = tile->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val width = be_emit_word(e, tile->t->width);
    Val row = LLVMBuildUDiv(u->builder, number, width, "");
    Val column = LLVMBuildURem(u->builder, number, width, "");
    Val at = result_at(tile, row, column);
    row = be_add(u, tile->of_rows.first, row);
    column = be_add(u, tile->of_columns.first, column);
    Val inside = be_icmp(u, LLVMIntSLT, row, tile->of_rows.limit);
    inside = be_and(u, inside,
                    be_icmp(u, LLVMIntSLT, column, tile->of_columns.limit));
    PtxIf i = be_ptx_if(p, inside);
    p->product = be_load(u, tile->type, at, (unsigned)tile->bytes);
    be_space_delinearize(&p->e, &tile->t->rows, row);
    be_space_delinearize(&p->e, &tile->columns, column);
    be_emit_block(e, &e->k->body);
    be_ptx_end_if(p, &i, NULL, NULL);
}

static void
finish(const Tile *tile)
{
    Emit *e = &tile->p->e;
    BeUnit *u = e->u;
    int64_t elements = (int64_t)tile->t->height * tile->t->width;
    BeLoop l;
    be_loop_begin(u, &l, tile->p->thread, be_emit_word(e, elements),
                  be_emit_word(e, PTX_SIDE * PTX_SIDE), "element");
    be_loop_body(u, &l);
    finish_element(tile, l.index);
    be_loop_end(u, &l);
}

/* ---- tiles -------------------------------------------------------------- */

static Val
num_tiles(Ptx *p, Val limit, int side)
{
    BeUnit *u = p->e.u;
    Val rounded = be_add(u, limit, be_emit_word(&p->e, side - 1));
    return LLVMBuildUDiv(u->builder, rounded, be_emit_word(&p->e, side), "");
}

static void
emit_tile(Tile *tile)
{
    Emit *e = &tile->p->e;
    Val sums[MAX_EACH * MAX_EACH];
    if (tile->is_float &&
        be_ranges_bound(e->k, &tile->t->contract->contract.ranges) > BE_K_BLOCK)
        add_blocks(tile, sums);
    else
        add_products(tile, be_emit_word(e, 0), tile->size, sums);
    put_sums(tile, sums);
    be_ptx_barrier(tile->p);
    finish(tile);
    be_ptx_barrier(tile->p);
}

/* Tiles in turn, row by row. */
static void
emit_all(Tile *tile)
{
    Ptx *p = tile->p;
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Operand *rows = &tile->of_rows, *columns = &tile->of_columns;
    Val down = num_tiles(p, rows->limit, rows->side);
    Val across = num_tiles(p, columns->limit, columns->side);
    Val work = be_mul(u, down, across);
    work = be_mul(u, work, be_space_size(&p->e, &tile->t->outer));
    BeLoop l;
    be_loop_begin(u, &l, p->block, work, p->num_blocks, "tile");
    be_loop_body(u, &l);
    Val column = LLVMBuildURem(b, l.index, across, "");
    Val number = LLVMBuildUDiv(b, l.index, across, "");
    Val row = LLVMBuildURem(b, number, down, "");
    be_space_delinearize(&p->e, &tile->t->outer,
                         LLVMBuildUDiv(b, number, down, ""));
    rows->first = be_mul(u, row, be_emit_word(e, rows->side));
    columns->first = be_mul(u, column, be_emit_word(e, columns->side));
    emit_tile(tile);
    be_loop_end(u, &l);
}

void
be_ptx_emit_tiles(Ptx *p)
{
    Emit *e = &p->e;
    LLVMBuilderRef b = e->u->builder;
    const PtxTiles *t = &p->shape.tiles;
    const KNode *n = t->contract;
    Tile tile = {.p = p, .t = t, .is_float = dtype_is_float(n->dtype)};
    tile.columns = be_space_of(&t->loop->loop.ranges);
    tile.products = be_space_of(&n->contract.ranges);
    tile.type = be_emit_type(e, n->dtype);
    tile.bytes = element_bytes(t);
    tile.size = be_space_size(&p->e, &tile.products);
    tile.of_rows = (Operand){t->of_rows, &t->rows, .side = t->height};
    tile.of_columns = (Operand){t->of_columns, &tile.columns, .side = t->width};
    tile.of_columns.offset = staged_bytes(t->height, tile.bytes);
    tile.of_rows.limit = be_space_size(&p->e, &t->rows);
    tile.of_columns.limit = be_space_size(&p->e, &tile.columns);
    tile.x = LLVMBuildURem(b, p->thread, be_emit_word(e, PTX_SIDE), "");
    tile.y = LLVMBuildUDiv(b, p->thread, be_emit_word(e, PTX_SIDE), "");
    be_emit_find_varying(e, NULL);
    find_needed(&tile, &tile.of_rows);
    find_needed(&tile, &tile.of_columns);
    emit_all(&tile);
}

void
be_ptx_contract(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    if (n == p->shape.tiles.contract) {
        be_emit_set(e, n, 0, 0, p->product);
        return;
    }
    bool outer = p->together;
    p->together = false;
    be_emit_contract(e, n);
    p->together = outer;
}
