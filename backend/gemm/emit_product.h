/*
 * emit_product.h - contractions as products of matrices
 *
 * A kernel that is a contraction in a vector loop is a product of matrices,
 * whatever else is done to its operands and its result: one operand does not
 * depend on the columns (the loop), the other not on the rows (the last indices
 * of the grid).  So both can be staged: computed once, casts, guards of a
 * convolution and all, and put where the products find them side by side.
 *
 *   rows      last indices of the grid     operand of rows      rows x products
 *   products  those of the contraction     operand of columns
 *   columns   that of the vector loop                        products x columns
 *   outer     the other indices of the grid: another matrix for each point
 */
#ifndef TFD_BACKEND_GEMM_EMIT_PRODUCT_H
#define TFD_BACKEND_GEMM_EMIT_PRODUCT_H

#include "backend/codegen/emit.h"

/* What is to be computed for a purpose: values and indices, by id. */
typedef struct EmitNeeds {
    bool *values, *vars;
    bool stores;
} EmitNeeds;

/* An operand: what it is, and what it is made of. */
typedef struct EmitOperand {
    const KNode *value;
    EmitNeeds needs;
    bool along_products;  /* neighbours in memory are so in the products */
    const KNode *plain;   /* a load from a matrix, or NULL: */
    int64_t step;         /* elements from a row or column to the next, */
    int64_t product_step; /* and from a product */
} EmitOperand;

/* What overlaps: the place of a row's product is `step` times the last index of
 * one side, rows or products, plus an index of the other, the last or the last
 * but one; and all that the operand is made of depends on that sum alone.  So
 * what is needed for all values of the former is a line of places for each
 * point of the other side's indices before. */
typedef struct EmitOverlap {
    const KVar *index; /* of the other side; NULL: nothing overlaps */
    int64_t length;    /* values of the index that has a step */
    int64_t step;      /* places from one of these to the next */
    int64_t elements;  /* of a place */
    int64_t run, runs; /* points of the other side along a line; lines */
} EmitOverlap;

/* Elements of a line for so many values of the index that has a step. */
static inline int64_t
emit_line_size(const EmitOverlap *o, int64_t values)
{
    return ((values - 1) * o->step + o->index->extent.c) * o->elements;
}

typedef struct EmitProduct {
    const KNode *contract, *loop;
    EmitSpace outer, rows, products;
    const KVar *column;
    EmitOperand of_rows, of_columns;
    bool in_runs; /* memory runs along the last index of several of rows: so
                     those are packed together, for one value of the others */
    EmitOverlap window; /* the last index of rows has the step, as with the
                           windows of a convolution along a row of an image */
    EmitOverlap strip;  /* that of products has it, as in the sums over all
                           windows of an image: a line is what all rows of a
                           run need for the products along that index */
    EmitNeeds rest;     /* what is done with the sums */
    const KNode
        *direct; /* the store of the sums, when that is all; else NULL */
} EmitProduct;

/* Whether the kernel of e is a product of matrices, which is at *out then. */
bool emit_product_find(Emit *e, EmitProduct *out);

/* Emits the nodes of b that are needed. */
bool emit_is_needed(const EmitNeeds *needs, const KNode *n);
void emit_needed(Emit *e, const EmitNeeds *needs, const KBlock *b);

/* ---- on CPUs (emit_adder.c, emit_pack.c, emit_tiles.c)
 * --------------------------------- */

enum { EMIT_MAX_HEIGHT = 14 };

/* How a CPU does it: the products of a tile of height rows and width columns
 * are added in registers; both operands are packed for `depth` products,
 * `columns` columns and the rows of some tiles at a time. */
typedef struct EmitPlan {
    int lanes, vectors, height;
    int tiles;  /* whose rows are packed at once */
    int panels; /* of columns, likewise */
    int64_t depth, columns;
    bool in_parts; /* depth is not all products */
    int64_t group; /* rows of a run that are packed together, or 0 */
    int64_t rows;  /* whose sums are kept, unless they are the result */
    /* Where plain operands are not packed but read where they stand; elements
     * from a row to the next, and from a product. */
    bool rows_stand, columns_stand;
    int64_t row_step, row_product_step, column_step;
    int64_t line;   /* of windows and strips: elements from line to line, or 0
                     */
    int64_t pieces; /* of strips: lines along which there are products of a
                       block, or 0 */
} EmitPlan;

typedef struct EmitTiles {
    Emit *e;
    const EmitProduct *product;
    EmitPlan plan;
    Type type; /* of an element */
    int64_t bytes;
    Val adder;          /* the function that adds products */
    Val packed_rows;    /* along products [height][row_step], in runs
                           [depth][group], of windows [runs][line], of
                           strips [pieces][runs][line], else
                           [tiles][depth][height] and a vector more */
    Val packed_columns; /* [columns / width][depth][width] */
    Val sums;           /* [rows][columns], or of one tile; before them there
                           is room for a tile's */
    Val alone;          /* of a tile that is only in part what is wanted */
    Val num_rows, num_columns, num_products;
} EmitTiles;

EmitPlan emit_plan_choose(const Emit *e, const EmitProduct *p);

/* Columns of a tile. */
static inline int
emit_width(const EmitTiles *t)
{
    return t->plan.lanes * t->plan.vectors;
}

/* Elements of the packed rows of a tile, or of a group and what a tile has
 * beyond it. */
int64_t emit_rows_size(const EmitTiles *t);
/* Packs rows first .. end of as many tiles, or the group that begins with first
 * in a run that ends with end, products begin .. stop. */
void emit_pack_rows(EmitTiles *t, Val first, Val end, Val begin, Val stop);
/* Packs the strips of all rows for products begin .. stop. */
void emit_pack_strips(EmitTiles *t, Val begin, Val stop);
/* Packs columns first .. end. */
void emit_pack_columns(EmitTiles *t, Val first, Val end, Val begin, Val stop);

/* The function that adds up to 512 products to the sums of a tile; made before
 * the kernel's own.  Its parameters: packed rows and columns, sums and the
 * bytes from one row of them to the next, the number of products, whether sums
 * of earlier blocks are there, of how many columns there are sums, and where
 * the first product is along a strip. */
enum {
    EMIT_ROWS,
    EMIT_COLUMNS,
    EMIT_SUMS,
    EMIT_SUM_STEP,
    EMIT_COUNT,
    EMIT_MORE,
    EMIT_ACROSS,
    EMIT_FIRST,
    EMIT_NUM_PARAMS
};
Val emit_adder(Emit *e, const EmitProduct *p, const EmitPlan *plan);

/* All items from e->begin to e->end. */
void emit_tiles(Emit *e, const EmitProduct *p, const EmitPlan *plan, Val adder);

#endif
