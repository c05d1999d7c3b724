/*
 * ptx_tiles.h - contractions in tiles: operands and shapes
 *
 * A tile is a rectangle of a matrix product's result.  The rows of the matrix
 * are the last indices of the kernel's grid, its columns those of the loop in
 * the grid's body: one operand does not depend on the columns, the other not on
 * the rows.
 */
#ifndef TFD_BACKEND_PTX_PTX_TILES_H
#define TFD_BACKEND_PTX_PTX_TILES_H

#include "backend/codegen/emit.h"

enum {
    PTX_ALIGN = 16,   /* of arrays, and the widest access */
    PTX_MAX_EACH = 8, /* rows and columns of a thread */
    PTX_MAX_SUMS = PTX_MAX_EACH * PTX_MAX_EACH,
    PTX_PAIRS_VALUES = 3, /* of a sum of products of bf16: it, and two chains */
    PTX_MMA_BYTES = 32,   /* of a warp's mma: of a row's products; its */
    PTX_MMA_DOWN = 8,     /* threads are so many along the rows, */
    PTX_MMA_ACROSS = 4,   /* and along the columns, with */
    PTX_MMA_COLUMNS = 2,  /* neighbouring columns each */
    PTX_MAX_SHARED = 48 << 10, /* of a block, without asking the driver */
    PTX_PROCESSORS = 108,      /* of the machine that shapes are chosen for, */
    PTX_LAUNCH_COST = 4230,    /* its clocks for a launch more: 3 us */
    PTX_PARTS_AT_ONCE = 8, /* parts that a thread loads before it adds them */
    PTX_MAX_SCRATCH = 1 << 28 /* bytes; indices are words */
};

typedef enum PtxSide { PTX_ROWS, PTX_COLUMNS, PTX_NUM_SIDES } PtxSide;

/* What some values follow from, by id (ptx_slice.c). */
typedef struct PtxSlice {
    bool *values, *vars;
} PtxSlice;

/* What tensor cores multiply, if they add the products (ptx_mma.c). */
typedef enum PtxMma {
    PTX_NO_MMA,
    PTX_MMA_TF32,
    PTX_MMA_BF16,
    PTX_MMA_F16
} PtxMma;

/* An operand of the contraction. */
typedef struct PtxOperand {
    const KNode *value;
    EmitSpace space;     /* rows or columns */
    PtxSlice slice;      /* of the kernel, that computes it */
    bool along_k;        /* threads load neighbours along the products,
                            otherwise along rows or columns; */
    int neighbours;      /* so many at once */
    bool turned;         /* neighbours along the products, which lie product by
                            product in shared memory all the same */
    const KNode *copied; /* the load by cp.async, if the value is no more than
                            that; else NULL */
} PtxOperand;

/* Whether neighbours along the products lie side by side in shared memory. */
static inline bool
be_ptx_lies_along_k(const PtxOperand *o)
{
    return o->along_k && !o->turned;
}

/* The threads of a block are divided into k slices, each with sums of its own
 * for the whole tile: those of every k_slices-th block of 512 products.  A
 * thread has rows * columns sums. */
typedef struct PtxTileShape {
    int height, width; /* elements of a tile */
    int rows, columns; /* elements of a thread */
    int k_slices;
    int step; /* products that are staged at a time */
} PtxTileShape;

/* Work that is divided further than its results are: a first launch makes
 * parts of sums, a second one adds them in D2's order (ptx_split.c). */
typedef struct PtxSplit {
    int64_t parts; /* of each result, at most; 0: one launch does all */
    int64_t bytes; /* of scratch memory for all parts */
} PtxSplit;

typedef struct PtxTiles {
    const KNode *contract; /* NULL: no tiles */
    const KNode *loop;     /* over the columns */
    EmitSpace outer;       /* a tile has one point of these */
    EmitSpace products;
    PtxOperand operands[PTX_NUM_SIDES];
    bool is_float;
    PtxMma mma;
    int bytes;         /* of a sum, 4 or 8 */
    int element_bytes; /* of an operand in shared memory: the same, or 2 */
    bool ends_ragged;  /* the last step of the products may be a partial one */
    int together;      /* columns that the rest of the kernel is executed for at
                          once */
    PtxTileShape shape;
    PtxSplit split; /* into blocks of 512 products */
} PtxTiles;

/* ---- sizes, which follow from the shape --------------------------------- */

/* Elements along a side: of a tile, and of a thread. */
static inline int
be_ptx_tile_side(const PtxTileShape *s, PtxSide side)
{
    return side == PTX_ROWS ? s->height : s->width;
}

static inline int
be_ptx_tile_each(const PtxTileShape *s, PtxSide side)
{
    return side == PTX_ROWS ? s->rows : s->columns;
}

/* Threads along a side, and of a k slice. */
static inline int
be_ptx_tile_places(const PtxTileShape *s, PtxSide side)
{
    return be_ptx_tile_side(s, side) / be_ptx_tile_each(s, side);
}

static inline int
be_ptx_tile_threads(const PtxTileShape *s)
{
    return be_ptx_tile_places(s, PTX_ROWS) * be_ptx_tile_places(s, PTX_COLUMNS);
}

/* Whether elements in shared memory are bf16 or f16. */
static inline bool
be_ptx_has_halves(const PtxTiles *t)
{
    return t->mma == PTX_MMA_BF16 || t->mma == PTX_MMA_F16;
}

/* Products of an instruction of tensor cores. */
static inline int
be_ptx_mma_products(const PtxTiles *t)
{
    return PTX_MMA_BYTES / t->element_bytes;
}

/* Sums, and elements of an operand, of an access of 16 bytes to shared memory.
 */
static inline int
be_ptx_tile_vector(const PtxTiles *t)
{
    return PTX_ALIGN / t->bytes;
}

static inline int
be_ptx_element_vector(const PtxTiles *t)
{
    return PTX_ALIGN / t->element_bytes;
}

/* Elements of shared memory from the neighbours along the products of a row or
 * column to the next ones, or from the neighbours of a product to the next. */
int be_ptx_panel_line(const PtxTiles *t, const PtxTileShape *s, PtxSide side);
/* Bytes of shared memory for an operand's elements of one step. */
int64_t be_ptx_panel_bytes(const PtxTiles *t, const PtxTileShape *s,
                           PtxSide side);
/* ... of both operands of a step. */
int64_t be_ptx_buffer_bytes(const PtxTiles *t, const PtxTileShape *s);
/* Elements of shared memory from a row of results to the next. */
int be_ptx_result_line(const PtxTiles *t, const PtxTileShape *s);
/* Rows of a thread whose results fit shared memory at a time. */
int be_ptx_result_rows(const PtxTiles *t, const PtxTileShape *s);
/* Bytes of shared memory of a block. */
int64_t be_ptx_tiles_bytes(const PtxTiles *t, const PtxTileShape *s);

/* Whether totals of blocks of products, if there are some, wait in local
 * memory, which a thread looks at once in 512 products: it has registers for
 * its sums alone. */
bool be_ptx_totals_are_aside(const PtxTiles *t, const PtxTileShape *s);
/* Whether elements of both operands are neighbours along the products, so that
 * a thread has four products of both in registers: those of the columns may be
 * turned. */
bool be_ptx_tiles_may_turn(const PtxTiles *t);
/* Blocks that a multiprocessor's registers must be enough for. */
int be_ptx_tile_resident(const PtxTiles *t);

/* Sets the shape with the least estimated time, and whether products are split;
 * the rest of t is known. */
void be_ptx_tile_shape_choose(const BeKernel *k, PtxTiles *t);

#endif
