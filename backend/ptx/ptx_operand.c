/*
 * ptx_operand.c - which kernels are contractions in tiles, and their operands
 *
 * The operations of an operand do not matter: its slice of the kernel is
 * executed when it is staged, so prologues and the guards of a convolution need
 * no extra code.  What matters is the direction in which its memory is
 * contiguous, since threads load 16 bytes along it where all of them are
 * aligned.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"
#include "backend/ptx/ptx_stage.h"

enum {
    FEW = 4, /* rows or columns for which a tile would be mostly empty */
    FEW_PRODUCTS = 8,
    MAX_CODE = 256 /* operations of the rest of the kernel */
};

/* ---- the contraction ---------------------------------------------------- */

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
    t->operands[PTX_ROWS].value = x_moves ? y : x;
    t->operands[PTX_COLUMNS].value = x_moves ? x : y;
    return true;
}

/* ---- the slice of an operand -------------------------------------------- */

void
be_ptx_list_blocks(const BeKernel *k, const PtxTiles *t, const KBlock **blocks)
{
    blocks[0] = &k->body;
    blocks[1] = &t->loop->loop.body;
    blocks[2] = &t->contract->contract.body;
}

bool
be_ptx_is_of_operand(const PtxOperand *o, const KNode *n)
{
    return be_ptx_slice_has(&o->slice, n);
}

/* Users of a value come after it or further inside. */
static void
find_slice(Emit *e, const PtxTiles *t, PtxOperand *o)
{
    const KBlock *blocks[PTX_NUM_BLOCKS];
    o->slice = be_ptx_slice_new(e);
    o->slice.values[o->value->id] = true;
    be_ptx_list_blocks(e->k, t, blocks);
    for (int i = PTX_NUM_BLOCKS - 1; i >= 0; i--)
        be_ptx_slice_close(&o->slice, blocks[i]);
}

/* ---- contiguous memory -------------------------------------------------- */

/* What the loads of a slice say about a direction. */
typedef struct Direction {
    Emit *e;
    const KVar *along;
    int neighbours; /* the most that a load of 16 bytes brings, or 1 */
    bool dense;     /* a load has neighbours in memory, aligned or not */
} Direction;

static void
note_load(Direction *d, const KNode *n)
{
    int num = PTX_ALIGN / (int)dtype_info[n->load.array->dtype].bytes;
    num = num > BE_MAX_ROWS ? BE_MAX_ROWS : num;
    const PtxGroups *g = be_ptx_groups(d->e, d->along, num);
    d->dense |=
        ir_dim_equal(be_index_coef(&n->load.at, d->along), ir_dim_const(1));
    if (num > d->neighbours && d->along->extent.c % num == 0 &&
        be_ptx_is_contiguous(g, &n->load.at) &&
        be_ptx_is_same(g, n->load.guard))
        d->neighbours = num;
}

static Direction
look_along(Emit *e, const PtxTiles *t, const PtxOperand *o, const KVar *along)
{
    const KBlock *blocks[PTX_NUM_BLOCKS];
    Direction d = {.e = e, .along = along, .neighbours = 1};
    be_ptx_list_blocks(e->k, t, blocks);
    for (int i = 0; i < PTX_NUM_BLOCKS; i++) {
        for (const KNode *n = blocks[i]->first; n; n = n->next) {
            if (n->kind == K_LOAD && be_ptx_is_of_operand(o, n))
                note_load(&d, n);
        }
    }
    if (!ir_dim_is_const(along->extent))
        d.neighbours = 1;
    return d;
}

const KVar *
be_ptx_along(const PtxTiles *t, const PtxOperand *o)
{
    const EmitSpace *s = o->along_k ? &t->products : &o->space;
    return s->vars[s->count - 1];
}

static void
find_direction(Emit *e, const PtxTiles *t, PtxOperand *o)
{
    o->along_k = true;
    Direction k = look_along(e, t, o, be_ptx_along(t, o));
    o->along_k = false;
    Direction own = look_along(e, t, o, be_ptx_along(t, o));
    o->along_k = k.neighbours > own.neighbours ||
                 (own.neighbours == 1 && k.dense && !own.dense);
    o->neighbours = o->along_k ? k.neighbours : own.neighbours;
}

/* ---- copies ------------------------------------------------------------- */

/* Whether the address of the operand's load needs no other load, so that it can
 * be computed beyond the end as well. */
static bool
has_one_load(Emit *e, const PtxTiles *t, const PtxOperand *o)
{
    const KBlock *blocks[PTX_NUM_BLOCKS];
    int loads = 0;
    be_ptx_list_blocks(e->k, t, blocks);
    for (int i = 0; i < PTX_NUM_BLOCKS; i++) {
        for (const KNode *n = blocks[i]->first; n; n = n->next)
            loads += n->kind == K_LOAD && be_ptx_is_of_operand(o, n);
    }
    return loads == 1;
}

/* The type of elements in shared memory. */
static DType
staged_dtype(const PtxTiles *t)
{
    if (t->mma == PTX_MMA_BF16)
        return DT_bf16;
    return t->mma == PTX_MMA_F16 ? DT_f16 : t->contract->dtype;
}

enum { LEAST_COPY = 4 }; /* bytes that cp.async copies */

/* What is rounded to TF32 passes through registers. */
static void
find_copy(Emit *e, const PtxTiles *t, PtxOperand *o)
{
    const KNode *n = o->value;
    if (n->kind == K_LOAD && t->mma != PTX_MMA_TF32 &&
        n->load.array->dtype == staged_dtype(t) &&
        (int)dtype_info[n->load.array->dtype].bytes == t->element_bytes &&
        o->neighbours * t->element_bytes >= LEAST_COPY && has_one_load(e, t, o))
        o->copied = n;
}

/* ---- tensor cores ------------------------------------------------------- */

static bool
operands_fit(const PtxTiles *t, DType dtype)
{
    return be_kernel_fits(t->operands[PTX_ROWS].value, dtype) &&
           be_kernel_fits(t->operands[PTX_COLUMNS].value, dtype);
}

static PtxMma
mma_of(const PtxTiles *t)
{
    if (!t->contract->contract.tf32)
        return PTX_NO_MMA;
    if (operands_fit(t, DT_bf16))
        return PTX_MMA_BF16;
    return operands_fit(t, DT_f16) ? PTX_MMA_F16 : PTX_MMA_TF32;
}

/* ---- the rest of the kernel --------------------------------------------- */

typedef struct Stores {
    const PtxGroups *groups;
    int bytes; /* of the narrowest element */
    bool wide;
} Stores;

static void
note_store(KNode *n, void *data)
{
    Stores *s = data;
    if (n->kind != K_STORE)
        return;
    int bytes = (int)dtype_info[n->store.array->dtype].bytes;
    s->bytes = bytes < s->bytes ? bytes : s->bytes;
    s->wide = s->wide && be_ptx_is_contiguous(s->groups, &n->store.at) &&
              be_ptx_is_same(s->groups, n->store.guard);
}

static Stores
find_stores(Emit *e, const KVar *along, int num)
{
    Stores s = {be_ptx_groups(e, along, num), PTX_ALIGN, true};
    KBlock body = e->k->body;
    be_kernel_walk(&body, note_store, &s);
    return s;
}

/* As many columns as 16 bytes of the narrowest output have, if they are stored
 * together and the code is not too long. */
static int
choose_together(Emit *e, const PtxTiles *t)
{
    const EmitSpace *columns = &t->operands[PTX_COLUMNS].space;
    const KVar *along = columns->vars[columns->count - 1];
    double size = be_kernel_code_size(&t->loop->loop.body);
    int num = PTX_ALIGN / find_stores(e, along, 1).bytes;
    num = num > BE_MAX_ROWS ? BE_MAX_ROWS : num;
    bool divided = columns->count > 1 && !ir_dim_is_const(along->extent);
    while (num > 1 && (divided || size * num > MAX_CODE ||
                       (columns->count > 1 && along->extent.c % num) ||
                       !find_stores(e, along, num).wide))
        num /= 2;
    return num;
}

/* ---- the match ---------------------------------------------------------- */

static bool
is_worth_it(const BeKernel *k, const PtxTiles *t)
{
    const EmitSpace *rows = &t->operands[PTX_ROWS].space;
    const EmitSpace *columns = &t->operands[PTX_COLUMNS].space;
    return rows->count && be_space_bound(k, rows) >= FEW &&
           be_space_bound(k, columns) >= FEW &&
           be_space_bound(k, &t->products) >= FEW_PRODUCTS;
}

/* Whether the number of products may not be a multiple of a step. */
static bool
may_end_ragged(const EmitSpace *products, int step)
{
    for (int i = 0; i < products->count; i++) {
        Dim d = products->vars[i]->extent;
        if (d.c % step == 0 && (ir_dim_is_const(d) || d.k % step == 0))
            return false;
    }
    return true;
}

/* Turns the columns, if a multiprocessor can then have more blocks. */
static void
turn_columns(const BeKernel *k, PtxTiles *t)
{
    PtxTiles turned = *t;
    turned.operands[PTX_COLUMNS].turned = true;
    turned.operands[PTX_COLUMNS].copied = NULL;
    be_ptx_tile_shape_choose(k, &turned);
    if (be_ptx_tile_resident(&turned) > be_ptx_tile_resident(t))
        *t = turned;
}

void
be_ptx_tiles_find(Ptx *p, const KNode *flat, PtxTiles *out)
{
    Emit *e = &p->e;
    PtxTiles t = {.loop = flat};
    PtxOperand *rows = &t.operands[PTX_ROWS];
    PtxOperand *columns = &t.operands[PTX_COLUMNS];
    if (!flat || !flat->loop.vector)
        return;
    t.contract = only_contraction(&flat->loop.body);
    if (!t.contract || t.contract->dtype == DT_bool || !find_operands(e, &t))
        return;
    t.products = be_space_of(&t.contract->contract.ranges);
    columns->space = be_space_of(&flat->loop.ranges);
    be_emit_split_grid(e, columns->value, &t.outer, &rows->space);
    if (!is_worth_it(e->k, &t))
        return;
    t.is_float = dtype_is_float(t.contract->dtype);
    t.mma = mma_of(&t);
    t.bytes = dtype_info[dtype_compute(t.contract->dtype)].bytes == 8 ? 8 : 4;
    t.element_bytes = be_ptx_has_halves(&t) ? 2 : t.bytes;
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        find_slice(e, &t, &t.operands[side]);
        find_direction(e, &t, &t.operands[side]);
        find_copy(e, &t, &t.operands[side]);
    }
    be_ptx_tile_shape_choose(e->k, &t);
    if (be_ptx_tiles_may_turn(&t))
        turn_columns(e->k, &t);
    t.ends_ragged = may_end_ragged(&t.products, t.shape.step);
    t.together = choose_together(e, &t);
    *out = t;
}
