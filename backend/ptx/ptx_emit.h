/*
 * ptx_emit.h - shared by the files that turn kernels into PTX
 *
 * The work of a kernel is a sequence of items: the points of its grid and,
 * where an item is nothing but one loop, of that loop.  There are eight
 * mappings:
 *
 *   threads   an item, or some that are neighbours in memory, is done by a
 *             thread (elementwise kernels, and all without a better mapping)
 *   teams     an item with reductions is done by a team of threads.  A thread
 *             is one of the 64 stripes of D2; stripes meet in shared memory.
 *             Loops besides reductions are divided among the team; all
 *             else is executed by each of its threads.
 *   rows      an item with reductions of a row that fits registers is done by a
 *             team of a warp's threads, which exchange by shuffles
 *   panels    a longer row is done by a block, whose threads leave elements in
 *             shared memory, from which one warp folds them
 *   columns   reductions of neighbouring columns are done by a block, a group
 * of columns and a stripe by each thread scatter   updates of rows that values
 * choose: columns by threads, rows by blocks squares   a transpose is done in
 * squares of 4 x 4 items by threads tiles     a contraction is done for a
 * rectangle of items by a block, which stages both operands in shared memory
 *
 * The parts that are the same on every machine are emitted by emit_*.c, with
 * tile.rows of an Emit for the neighbours.
 */
#ifndef TFD_BACKEND_PTX_PTX_EMIT_H
#define TFD_BACKEND_PTX_PTX_EMIT_H

#include "backend/ptx/ptx_tiles.h"

enum {
    PTX_GLOBAL = 1, /* address spaces */
    PTX_SHARED = 3,
    PTX_WARP = 32,
    PTX_TURNED = 8,   /* elements of 32 bits in a sector of memory */
    PTX_THREADS = 256 /* of a block; 1,024 at most for teams of many slices */
};

typedef struct PtxGroups PtxGroups;
typedef struct PtxReuse PtxReuse;

/* A value of an earlier stage. */
typedef struct PtxKept {
    EmitValue *value;
} PtxKept;

/* Rows in registers (ptx_rows.c). */
typedef struct PtxRows {
    int64_t length;   /* elements of a row; 0: not this mapping */
    int width, slots; /* neighbours of a group; groups of a thread */
    PtxReuse *stages;
    PtxKept **kept; /* values of each slot */
} PtxRows;

/* A value of a reduction's elements that the output of a later loop holds until
 * the loop needs it. */
typedef struct PtxSaved {
    const KNode *reduce; /* NULL: there is none */
    const KNode *loop, *store;
    const KNode *value, *again; /* in the reduction, and in the loop */
    PtxReuse *stages;           /* these two */
} PtxSaved;

/* Long rows, a block each (ptx_panels.c). */
typedef struct PtxPanels {
    Dim length;       /* elements of a row */
    bool is_used;     /* else not this mapping */
    int width, slots; /* neighbours of a group; groups of a thread, 0: a loop */
    PtxReuse *stages; /* of all the row, if there are slots */
    PtxKept **kept;
    PtxSaved saved; /* of a row that is a loop */
} PtxPanels;

/* Updates of rows that values choose (ptx_scatter.c). */
typedef struct PtxScatter {
    const KNode *loop; /* over the updates; NULL: not this mapping */
    const KNode *pick; /* the row of an update */
    PtxSlice slice;    /* that follows from this */
} PtxScatter;

/* Squares of elements (ptx_squares.c). */
enum { PTX_SQUARE = 4, PTX_MAX_TURNED = 4 };
typedef struct PtxSquares {
    int num;                            /* 0: not this mapping */
    const KNode *loads[PTX_MAX_TURNED]; /* along the index before the last */
    PtxSlice slice;                     /* that their addresses follow from */
} PtxSquares;

typedef struct PtxShape {
    EmitSpace work;    /* the items, in teams and threads */
    const KNode *flat; /* the loop whose indices are among them, or NULL */
    int threads;       /* of a block */
    int team;          /* threads that execute an item together */
    int slices;        /* chunks of a reduction that a team takes at once */
    int items;         /* that a block does at once */
    bool strided;      /* neighbouring threads have neighbouring items */
    int width;         /* items that a thread executes at once */
    bool turned; /* PTX_TURNED threads go along the index before the last one */
    int64_t shared; /* bytes */
    PtxTiles tiles;
    PtxRows rows;
    PtxPanels panels;
    PtxScatter scatter;
    PtxSquares squares;
    bool columns; /* team: stripes; items: groups of `width` columns */
    PtxSplit split;
} PtxShape;

typedef struct Ptx {
    Emit e; /* first: emitters of nodes get a pointer to it */
    PtxShape shape;
    Val thread, block, num_blocks; /* words */
    Val lane;                      /* the thread's number in its team */
    Val team;                      /* its team's number in the block */
    Val column; /* of columns: the number of its group in the block */
    Val active; /* whether the team has an item; an i1 */
    Val shared;
    Val scratch;  /* where parts are; NULL: the work is not split */
    bool is_rest; /* this is the second launch, which adds them */
    Val item;     /* of split rows: its number */
    PtxGroups *groups; /* of the tile's rows, if there are several */
    int reduced;       /* of panels: the last reduction whose result is known */
    bool together;     /* nodes are emitted for a team, not for a thread */
    Val products[BE_MAX_ROWS]; /* of tiles: the contraction's values for the
                                  items that are executed at once */
} Ptx;

static inline Ptx *
ptx_of(Emit *e)
{
    return (Ptx *)e;
}

/* ---- a block's threads (ptx_block.c) ------------------------------------ */

/* All threads of the block wait for each other. */
void be_ptx_barrier(Ptx *p);
/* The threads of a warp wait for each other. */
void be_ptx_warp_barrier(Ptx *p);
/* x of the thread whose number in the warp differs by the bits of `distance`;
 * all threads of the warp take part. */
Val be_ptx_shuffle(Ptx *p, Val x, int distance);
/* `bytes` times index from the beginning of shared memory, plus offset. */
Val be_ptx_shared_at(Ptx *p, int64_t offset, Val index, int64_t bytes);

/* A value that is made where condition holds, else `otherwise`:
 *
 *   PtxIf i = be_ptx_if(p, condition);
 *   Val x = ...;
 *   x = be_ptx_end_if(p, &i, x, otherwise);        (NULL, NULL: no value)
 */
typedef struct PtxIf {
    Block before, after;
} PtxIf;
PtxIf be_ptx_if(Ptx *p, Val condition);
Val be_ptx_end_if(Ptx *p, const PtxIf *i, Val x, Val otherwise);
/* The same for num values; x becomes those after the condition. */
void be_ptx_end_if_all(Ptx *p, const PtxIf *i, Val *x, const Val *otherwise,
                       int num);

/* ---- choices (ptx_shape.c) ---------------------------------------------- */

/* Chooses how p's kernel is mapped; p->e is open. */
PtxShape be_ptx_shape_choose(Ptx *p);
/* The most blocks that have work; where it is split, of the first launch. */
int64_t be_ptx_shape_blocks(const BeKernel *k, const PtxShape *s);

/* ---- two launches (ptx_split.c) ------------------------------------------ */

enum { PTX_REST_THREADS = 128 }; /* of its blocks */

/* Divides the chunks of s's long rows among blocks, if that is faster. */
void be_ptx_split_rows(Ptx *p, PtxShape *s);
/* The blocks of the second launch that have work. */
int64_t be_ptx_rest_blocks(const BeKernel *k, const PtxShape *s);
/* The first launch of split rows: each block folds a chunk. */
void be_ptx_emit_chunks(Ptx *p);
/* The second launch, of any form. */
void be_ptx_emit_rest(Ptx *p);
/* A reduction in it. */
void be_ptx_rest_reduce(Ptx *p, const KNode *n);

/* ---- threads and teams (ptx_grid.c) ------------------------------------- */

void be_ptx_emit_grid(Ptx *p);
void be_ptx_emit_loop(Emit *e, const KNode *n);

/* Whether d is a multiple of the width, whatever the batch is. */
bool be_ptx_is_whole(Dim d, int width);

/* ---- shared values (ptx_reuse.c) ----------------------------------------- */

/* The body of a reduction or loop, and its indices; NULL of other nodes. */
const KBlock *be_ptx_body_of(const KNode *n);
const KRanges *be_ptx_ranges_of(const KNode *n);
/* Whether a body has neither reductions nor loops. */
bool be_ptx_is_plain(const KBlock *b);
/* Reductions from first on that have its ranges and do not need its result, nor
 * each other's; returns how many there are, at most `most`. */
int be_ptx_together(const KNode *first, const KNode **out, int most);
/* What stages with equal ranges share, in e's arena; nodes remain the caller's.
 */
PtxReuse *be_ptx_reuse(const Emit *e, const KNode *const *nodes, int num);
/* Registers for an element's values that later stages take. */
int be_ptx_reuse_kept(const PtxReuse *s);
/* The only value that later stages take; NULL: there are none, or several. */
const KNode *be_ptx_reuse_only(const PtxReuse *s);
/* Whether a value is the same as none of an earlier stage. */
bool be_ptx_reuse_is_new(const PtxReuse *s, const KNode *n);
/* The node of a later stage that is this value of an earlier one, or NULL. */
const KNode *be_ptx_reuse_taken(const PtxReuse *s, const KNode *stage,
                                const KNode *value);
/* Room for the values of the elements that are emitted together. */
PtxKept *be_ptx_kept_new(const Emit *e);
/* The body of a stage at the current indices, after that of all stages before
 * it. */
void be_ptx_reuse_emit(Emit *e, const PtxReuse *s, const KNode *stage,
                       PtxKept *kept);

/* ---- slices (ptx_slice.c) ----------------------------------------------- */

PtxSlice be_ptx_slice_new(const Emit *e); /* empty */
bool be_ptx_slice_has(const PtxSlice *s, const KNode *n);
/* Adds what n uses. */
void be_ptx_slice_add_uses(PtxSlice *s, KNode *n);
/* Adds what nodes of a block that s has use. */
void be_ptx_slice_close(PtxSlice *s, const KBlock *b);
/* What the elements of a block's reductions follow from, within it; an element
 * may be a value that does not change along its reduction. */
PtxSlice be_ptx_slice_of_elements(const Emit *e, const KBlock *b);
/* The nodes of a block that s has. */
void be_ptx_slice_emit(Emit *e, const PtxSlice *s, const KBlock *b);

/* ---- memory (ptx_memory.c) ---------------------------------------------- */

void be_ptx_load(Emit *e, const KNode *n);
void be_ptx_store(Emit *e, const KNode *n);

/* ---- neighbours (ptx_groups.c) ------------------------------------------ */

/* What is known of groups of `width` neighbours along row, the first of which
 * has a multiple of the width; in e's arena.  Finds the varying values, too. */
PtxGroups *be_ptx_groups(Emit *e, const KVar *row, int width);
/* Whether a group's x are adjacent, and the first a multiple of the width. */
bool be_ptx_is_contiguous(const PtxGroups *g, const KIndex *x);
/* Whether the value is the same for all of a group; NULL is. */
bool be_ptx_is_same(const PtxGroups *g, const KNode *value);
/* Bytes of the elements that are contiguous along row, the least and the most;
 * 16 and 1 where none are. */
typedef struct PtxBytes {
    int least, most;
} PtxBytes;
PtxBytes be_ptx_bytes_along(Emit *e, const KVar *row);

/* ---- reductions, scans, contractions ------------------------------------ */

void be_ptx_reduce(Emit *e, const KNode *n);
/* Shared memory that the reduction n needs. */
int64_t be_ptx_reduce_bytes(Emit *e, const KNode *n, const PtxShape *s);

/* ---- trees (ptx_tree.c) ------------------------------------------------- */

/* The partial results of a team's thread: v[round * width + i] is that of
 * stripe (round * team + lane) * width + i. */
typedef struct PtxTree {
    Ptx *p;
    const EmitFold *fold;
    Val lane;
    int team, width;  /* powers of two; at most a warp */
    int rounds, have; /* a power of two; those with elements */
    EmitPartial v[IR_STRIPES];
} PtxTree;
/* The total, in all threads of the team; all of the warp take part. */
EmitPartial be_ptx_tree_fold(PtxTree *t);

/* Partial results in shared memory: offsets of their values and numbers. */
typedef struct PtxParts {
    int64_t values, numbers;
} PtxParts;
int64_t be_ptx_part_bytes(const EmitFold *f); /* of each */
PtxParts be_ptx_parts_at(const EmitFold *f, int64_t offset, int64_t num);
void be_ptx_part_put(Ptx *p, const EmitFold *f, const PtxParts *at, Val slot,
                     EmitPartial x);
EmitPartial be_ptx_part_get(Ptx *p, const EmitFold *f, const PtxParts *at,
                            Val slot);

/* ---- rows, panels, columns (ptx_rows.c, ptx_panels.c, ptx_columns.c) ----- */

/* Chooses rows for s if p's kernel consists of some that fit registers. */
bool be_ptx_rows_find(Ptx *p, PtxShape *s);
void be_ptx_emit_rows(Ptx *p);
void be_ptx_row_reduce(Ptx *p, const KNode *n);
void be_ptx_row_loop(Ptx *p, const KNode *n);
/* The neighbours that 16 bytes of the narrowest elements are, of which a length
 * is a multiple, along the indices of all stages of the item. */
int be_ptx_stage_width(Emit *e, Dim length);
/* The index of a stage. */
KVar *be_ptx_stage_var(const KNode *stage);
/* Emits groups of `width` neighbours along the stage's index instead of the
 * item's nodes, until the end. */
void be_ptx_begin_stage(Ptx *p, const KNode *stage, int width);
void be_ptx_end_stage(Ptx *p);
/* Operations of an element in all stages of an item. */
double be_ptx_stage_cost(const BeKernel *k);
/* What all stages of an item share. */
PtxReuse *be_ptx_reuse_all(const Emit *e);
/* Chooses panels for s if p's kernel consists of long rows; s has the work. */
bool be_ptx_panels_find(Ptx *p, PtxShape *s);
/* What is the same for all rows. */
void be_ptx_panels_begin(Ptx *p);
void be_ptx_emit_panels(Ptx *p);
void be_ptx_panel_reduce(Ptx *p, const KNode *n);
/* Folds a chunk of n and of the reductions that go together with it: elements
 * begin to end of the row; the partial results are in the first thread.
 * Returns how many there are. */
enum { PTX_MAX_TOGETHER = 4 };
int be_ptx_panel_fold(Ptx *p, const KNode *n, Val begin, Val end,
                      const KNode **nodes, EmitPartial *parts);
void be_ptx_panel_loop(Ptx *p, const KNode *n);
/* Chooses columns for s if that is what p's kernel reduces; s has the work. */
bool be_ptx_columns_find(Ptx *p, PtxShape *s);
void be_ptx_emit_columns(Ptx *p);

/* Chooses squares for s, which has its width, if p's kernel transposes. */
bool be_ptx_squares_find(Ptx *p, PtxShape *s);
void be_ptx_emit_squares(Ptx *p);

/* Chooses parts of rows for s if p's kernel is a scatter; s has the work. */
bool be_ptx_scatter_find(Ptx *p, PtxShape *s);
void be_ptx_emit_scatter(Ptx *p);

void be_ptx_scan(Emit *e, const KNode *n);
void be_ptx_sort(Emit *e, const KNode *n);
/* Shared memory that a scan needs for that many threads. */
int64_t be_ptx_scan_bytes(const KNode *n, int threads);

void be_ptx_contract(Emit *e, const KNode *n);
void be_ptx_emit_tiles(Ptx *p);
/* The second launch of tiles. */
void be_ptx_emit_tiles_rest(Ptx *p);
/* Fills t if the kernel is a contraction worth tiling; flat is the loop over
 * its items, or NULL. */
void be_ptx_tiles_find(Ptx *p, const KNode *flat, PtxTiles *t);

#endif
