/*
 * ptx_stage.h - the operands of a tile in shared memory
 *
 * A panel is the part of an operand that a step of products needs.  Elements
 * that are neighbours along the products are stored row by row (or column by
 * column), each padded by 16 bytes, the others, and turned ones, product by
 * product.  There are
 * two panels of each operand: one is read while the other one is written.
 */
#ifndef TFD_BACKEND_PTX_PTX_STAGE_H
#define TFD_BACKEND_PTX_PTX_STAGE_H

#include "backend/ptx/ptx_emit.h"

/* The blocks around the products, from the outside. */
enum { PTX_NUM_BLOCKS = 3 };
void be_ptx_list_blocks(const BeKernel *k, const PtxTiles *t,
                        const KBlock **blocks);
/* Whether n is in the slice of the operand. */
bool be_ptx_is_of_operand(const PtxOperand *o, const KNode *n);
/* The index whose neighbours are loaded together. */
const KVar *be_ptx_along(const PtxTiles *t, const PtxOperand *o);

enum { PTX_MAX_PARTS = 32, PTX_MAX_FETCHED = 64 };

/* Some neighbours that a thread stages in each step. */
typedef struct PtxPart {
    Val used;    /* whether the thread has it; NULL: yes */
    Val element; /* the number of the first row or column in the matrix */
    Val exists;  /* whether that is in the matrix; NULL: yes */
    Val product; /* the number of the first product in a step */
    int64_t to;  /* bytes from the thread's first part in shared memory */
    Val indices[2 * IR_MAX_RANK]; /* of the rows or columns */
} PtxPart;

typedef struct PtxPanel {
    const PtxOperand *operand;
    int side, each, places; /* elements of a tile, of a thread; threads */
    int line;               /* be_ptx_panel_line */
    Val first, limit;       /* rows or columns: of the tile, of the matrix */
    Val place;              /* the thread's along this side */
    Val memory;             /* address of the k slice's first panel */
    Val own;                /* ... of the thread's elements in it */
    Val to;                 /* ... where the thread's first part goes to */
    Val from;               /* where it was copied from for the present step */
    int num_parts;
    PtxPart parts[PTX_MAX_PARTS];
} PtxPanel;

/* Elements that were loaded for the next step and are not stored yet. */
typedef struct PtxFetched {
    int count;
    Val x[PTX_MAX_FETCHED];
} PtxFetched;

typedef struct PtxTile {
    Ptx *p;
    const PtxTiles *t;
    const PtxTileShape *shape;
    Type type;           /* of an element in shared memory */
    int step;            /* products */
    int vector;          /* elements of 16 bytes */
    Val size;            /* products in all */
    int64_t step_bytes;  /* from the first panels to the second */
    Val k_slice, thread; /* the thread's k slice, its number in it */
    Val outer;           /* of split products: which matrix it is a tile of, */
    Val part;            /* and the number of their block of 512 */
    const KVar *along;   /* the last index of the columns */
    PtxPanel panels[PTX_NUM_SIDES];
} PtxTile;

/* Nodes that are emitted from now on are for num neighbours along an index. */
void be_ptx_tile_neighbours(PtxTile *t, const KVar *along, int num);

/* Fills what does not depend on the tile: memory and places. */
void be_ptx_panels_open(PtxTile *t);
/* The parts of a panel, once `first` is known. */
void be_ptx_parts_find(PtxTile *t);

/* Begins to stage the step from product number `first` on, a multiple of the
 * step, into the panels at `buffer` (a word, in bytes), if condition holds
 * (NULL: it does); be_ptx_stage_end stores what was loaded to registers
 * meanwhile. */
void be_ptx_stage_begin(PtxTile *t, Val condition, Val first, Val buffer,
                        PtxFetched *fetched);
void be_ptx_stage_end(PtxTile *t, Val buffer, const PtxFetched *fetched);
/* All panels whose staging has ended are visible to all threads. */
void be_ptx_stage_wait(PtxTile *t);

/* The thread's elements of both operands for the products of a step from
 * number `product` on, t->vector of them: x[product][element]. */
typedef struct PtxFragment {
    Val x[4][PTX_MAX_EACH];
} PtxFragment;
void be_ptx_fragment_load(PtxTile *t, PtxSide side, Val buffer, int product,
                          PtxFragment *out);
/* For one product, whose number is a word. */
void be_ptx_fragment_load_one(PtxTile *t, PtxSide side, Val buffer, Val product,
                              Val *out);

/* Adds the products of a step to the thread's sums, or the first `count` of
 * them, in the order of ir/rules/pairs.h (ptx_pairs.c). */
void be_ptx_pairs_add_step(PtxTile *t, Val buffer, Val *sums);
void be_ptx_pairs_add_part(PtxTile *t, Val buffer, Val count, Val *sums);

/* What a lane has for an instruction of tensor cores, as words: of TF32 the
 * element of fragment number i of the warp's rows or columns, 8 of them, and of
 * four products from number `product` of the step on; of halves, two products
 * each, of the fragments i and i + 1 and sixteen products: x[PTX_MATRICES], in
 * the order of the instruction's operands. */
Val be_ptx_lane_load(const PtxTile *t, PtxSide side, Val buffer, int i,
                     int product);
enum { PTX_MATRICES = 4 };
void be_ptx_matrices_load(const PtxTile *t, PtxSide side, Val buffer, int i,
                          int product, Val *x);
/* num fetched values as they are stored and multiplied, in out: rounded to
 * TF32, ties away from zero; two halves a word, one as i16; or as they are.
 * Returns how many there are. */
int be_ptx_narrow(const PtxTile *t, const PtxOperand *o, const Val *x, int num,
                  Val *out);
/* Adds the products of a step to the thread's sums by tensor cores (ptx_mma.c);
 * the second where there are count, if that is more than 0: what is beyond them
 * must be zeros. */
void be_ptx_mma_add_step(PtxTile *t, Val buffer, Val *sums);
void be_ptx_mma_add_part(PtxTile *t, Val buffer, Val count, Val *sums);

/* How many of a thread's columns are neighbours. */
int be_ptx_tile_run(const PtxTile *t);
/* The row or column of a tile that is element `number` (a constant below
 * `each`) of the thread at this place. */
Val be_ptx_element_of(const PtxTile *t, PtxSide side, Val number, Val place);

/* ---- sums of blocks of products (ptx_tile_parts.c) ----------------------- */

/* Carries num sums of blocks through a loop; what they are after it. */
void be_ptx_totals_begin(const PtxTile *t, BeLoop *l, int num, Val *totals);
void be_ptx_totals_end(const PtxTile *t, const BeLoop *l, int num, Val *totals);

/* Memory of the thread for num totals, which are -0. */
Val be_ptx_totals_aside(const PtxTile *t, int num);
/* Adds a block's sums to those in it; what they are in the end. */
void be_ptx_totals_add(const PtxTile *t, Val aside, int num, const Val *sums);
void be_ptx_totals_get(const PtxTile *t, Val aside, int num, Val *totals);

Val be_ptx_num_tiles(const PtxTile *t, PtxSide side);
/* Blocks of products. */
Val be_ptx_num_parts(const PtxTile *t);
/* The number of an element of the matrix t->outer in each part. */
Val be_ptx_number_in_part(const PtxTile *t, Val row, Val column);
/* The thread's sums of the block t->part, to scratch memory. */
void be_ptx_put_part(const PtxTile *t, const Val *sums);
/* From there the totals of count neighbouring elements, at most 16 bytes. */
void be_ptx_add_parts(const PtxTile *t, Val number, int count, Val *totals);

/* Stores num scalars, sums, words or one half, by one access. */
void be_ptx_store_lanes(const PtxTile *t, const Val *x, int num, Val to);

#endif
