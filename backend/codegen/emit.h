/*
 * emit.h - what the files that turn kernels into LLVM IR share
 *
 * Code is emitted for a tile at a time: `rows` items of the grid side by side
 * and, in a vector construct, `vectors` vectors of `lanes` elements.  A value
 * of the kernel is then up to rows * vectors values of LLVM: only as many as it
 * differs along rows and lanes, which is known before (emit_varying.c).  So the
 * elements of a matrix product's operands are loaded once for the tile, though
 * the kernel IR says nothing of tiles.
 *
 * Nothing here chooses an order of additions: bits do not depend on tiles,
 * lanes or targets (D2).
 */
#ifndef TFD_BACKEND_CODEGEN_EMIT_H
#define TFD_BACKEND_CODEGEN_EMIT_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"

enum {
    BE_MAX_ROWS = 8,
    BE_MAX_VECTORS = 8,
    BE_MAX_TILE = 32,   /* rows * vectors */
    BE_STRIPES = 64,    /* lanes of a reduction in D2 */
    BE_CHUNK = 65536,   /* elements that are folded together in D2 */
    BE_SCAN_BLOCK = 64, /* elements of a running sum in a row in D2 */
    BE_K_BLOCK = 512    /* products of a contraction that are added in a row */
};

/* The directions of a tile in which a value or index of the kernel varies. */
typedef struct EmitVarying {
    bool row, lane;
} EmitVarying;

/* A value of the kernel: v[t * vectors + v], where a direction that it does not
 * depend on has one entry; a vector when it depends on the lanes. */
typedef struct EmitValue {
    Val v[BE_MAX_TILE];
} EmitValue;

/* An index: base, plus the number of the row or lane where it is that of the
 * tile; or any numbers (of a DIV or MOD that depends on one). */
typedef struct EmitIndex {
    Val base;        /* a word, of row 0, lane 0 */
    EmitValue *each; /* NULL: linear */
} EmitIndex;

typedef struct EmitTile {
    int rows, vectors;
    int lanes;       /* 0: in no vector construct */
    int vector_step; /* elements from a vector to the next; 0: lanes */
    const KVar *row, *lane;
    const KVar *collapsed; /* moves on when `lane` has gone round, and lanes run
                         through both as one: from number `collapsed_begin` on;
                         NULL: there is none */
    Val collapsed_begin;
    Val mask[BE_MAX_VECTORS]; /* which lanes there are; NULL: all */
} EmitTile;

/* A row of indices that one number stands for, in row-major order. */
typedef struct EmitSpace {
    int count;
    const KVar *vars[2 * IR_MAX_RANK];
} EmitSpace;

typedef struct EmitDim {
    Dim dim;
    Val value; /* in the entry block */
} EmitDim;

typedef struct Emit Emit;
typedef struct EmitScan EmitScan;
typedef void EmitNode(Emit *e, const KNode *n);

/* How one kind of machine lowers nodes. */
typedef struct EmitLowering {
    /* An i64 of the dims that calls hand over: an IrBatchSizes for each pair of
     * batch symbols, then the replica. */
    Val (*call_word)(Emit *e, int64_t word);
    /* One of each kind: BE_EMIT_COMMON_NODES and, of the machine's own, LOAD,
     * STORE, REDUCE, CONTRACT, LOOP, SCAN and SORT. */
    EmitNode *nodes[K_NUM_KINDS];
} EmitLowering;

struct Emit {
    BeUnit *u;
    Arena *arena;
    const BeKernel *k;
    const BeTarget *target;
    const EmitLowering *lowering;
    EmitTile tile;
    Val dims, begin, end; /* parameters */
    Val *arrays[K_NUM_ROLES];
    Val zeros;     /* what a lane loads that has no element */
    Val sink;      /* where a lane stores that has no element */
    Type word;     /* of indices: i64, or i32 where that is enough */
    Type lane_int; /* of indices in lanes */
    VEC(EmitDim) dim_values;
    EmitValue *values;  /* by id */
    EmitIndex *indices; /* by id */
    EmitVarying *value_varying, *index_varying;
    const struct GemmCode *gemm; /* the one being emitted, or NULL */
    Val accumulators; /* in memory, of the columns from e->indices on */
    Val partials;     /* in memory, of a long reduction; NULL: there are none */
    EmitScan *scan;   /* whose body is being emitted, or NULL */
};

/* Emits one node, or the nodes of b, in the present tile. */
void be_emit_node(Emit *e, const KNode *n);
void be_emit_block(Emit *e, const KBlock *b);

/* ---- values (emit.c) ---------------------------------------------------- */

/* The directions in which n varies in the present tile. */
EmitVarying be_emit_varying(const Emit *e, const KNode *n);
/* How many copies there are in each direction. */
int be_emit_rows(const Emit *e, EmitVarying d);
int be_emit_vectors(const Emit *e, EmitVarying d);
int be_emit_slot(const Emit *e, EmitVarying d, int row, int vector);

/* n's value for a row and vector: a scalar if it does not depend on lanes. */
Val be_emit_get(const Emit *e, const KNode *n, int row, int vector);
/* The same, as a vector if that is wanted. */
Val be_emit_get_as(Emit *e, const KNode *n, int row, int vector, bool lanes);
void be_emit_set(Emit *e, const KNode *n, int row, int vector, Val value);

/* Of one value of a computed dtype, and of one element in memory. */
Type be_emit_type(const Emit *e, DType t);
Type be_emit_memory_type(const Emit *e, DType t);
/* Lets LLVM use the full width of vector registers in the present function. */
void be_emit_use_registers(Emit *e);
/* A constant index. */
Val be_emit_word(const Emit *e, int64_t x);

/* ---- what varies (emit_varying.c) --------------------------------
 */

/* Fills value_varying and index_varying for tiles of rows along `row`, which
 * may be NULL. */
void be_emit_find_varying(Emit *e, const KVar *row);
/* The same, where lanes run along `lane` instead of vector loops. */
void be_emit_find_varying_along(Emit *e, const KVar *row, const KVar *lane);
/* The same, where lanes run through slow and lane as one. */
void be_emit_find_varying_collapsed(Emit *e, const KVar *slow,
                                    const KVar *lane);
/* Splits the grid: the last indices in which b does not vary are rows, those
 * before them are outer. */
void be_emit_split_grid(Emit *e, const KNode *b, EmitSpace *outer,
                        EmitSpace *rows);
bool be_kernel_contains(const KBlock *b, KKind kind);
/* Elementary operations in one execution of b. */
double be_kernel_cost(const BeKernel *k, const KBlock *b);
/* The least items that are worth a thread's while, or 0 when one thread is to
 * do all of them. */
int64_t be_kernel_grain(const BeKernel *k);
/* How many of them are emitted for a single item and vector, those of
 * contractions' bodies left out. */
double be_kernel_code_size(const KBlock *b);

/* ---- nodes of every machine (emit_node.c) -------------------------------- */

/* Makes room for e's values and indices; its unit, arena, kernel and word are
 * set. */
void be_emit_open(Emit *e);

EmitNode be_emit_constant, be_emit_map_node, be_emit_replica_id,
    be_emit_row_start;

/* Entries of a lowering's table that are the same for all. */
#define BE_EMIT_COMMON_NODES                                                   \
    [K_CONST] = be_emit_constant, [K_INDEX] = be_emit_index_value,             \
    [K_REPLICA_ID] = be_emit_replica_id, [K_ROW_START] = be_emit_row_start,    \
    [K_INSIDE] = be_emit_inside, [K_MAP] = be_emit_map_node,                   \
    [K_DIV] = be_emit_divide, [K_MOD] = be_emit_divide,                        \
    [K_PICK] = be_emit_pick, [K_RUNNING] = be_emit_running

/* ---- indices (emit_index.c) --------------------------------------------- */

Val be_emit_dim(Emit *e, Dim d);
/* The greatest value, and the number of points of an index space; INT64_MAX
 * when they are greater. */
int64_t be_dim_bound(const BeKernel *k, Dim d);
int64_t be_ranges_bound(const BeKernel *k, const KRanges *r);
/* The most values of an index, in any of the kernel's segments. */
int64_t be_var_bound(const BeKernel *k, const KVar *var);
/* The most items there are. */
int64_t be_items_bound(const BeKernel *k);
Val be_emit_ranges_size(Emit *e, const KRanges *r);
/* The extent of a range, which is never less than 0. */
Val be_emit_extent(Emit *e, Dim extent);
EmitSpace be_space_of(const KRanges *r);
/* Whether all extents are constants. */
bool be_space_is_const(const EmitSpace *s);
/* The number of points, and the most there may be (INT64_MAX if more). */
Val be_space_size(Emit *e, const EmitSpace *s);
int64_t be_space_bound(const BeKernel *k, const EmitSpace *s);
/* Sets the tile's slow index and its lane's to their points of the numbers from
 * this one on. */
void be_emit_set_collapsed(Emit *e, Val number);
/* Sets the indices of s to its point of this number. */
void be_space_delinearize(Emit *e, const EmitSpace *s, Val number);
/* number becomes number / extent, its rest is returned. */
Val be_emit_divmod(Emit *e, Val *number, Val extent);
/* Whether lanes need 64 bits for their indices. */
bool be_indices_are_wide(const BeKernel *k);

/* An index expression, taken apart. */
typedef struct EmitAddress {
    const KIndex *of;
    Val base;                /* a word, of row 0, vector 0, lane 0 */
    Dim row_step, lane_step; /* added for each further row and lane */
    EmitVarying any;         /* some terms have any numbers there */
    bool collapsed; /* those of the tile's slow index and lane are one */
} EmitAddress;

EmitAddress be_address_of(Emit *e, const KIndex *x);
EmitVarying be_address_varying(const Emit *e, const EmitAddress *a);
/* The word for lane 0, but for terms with any number in each lane. */
Val be_address_scalar(Emit *e, const EmitAddress *a, int row, int vector);
/* Elements from a vector of the tile to the next. */
int64_t be_emit_vector_step(const Emit *e);
/* What is added to it in each lane. */
Val be_address_lanes(Emit *e, const EmitAddress *a, int row, int vector);

void be_emit_divide(Emit *e, const KNode *n); /* DIV, MOD */
void be_emit_pick(Emit *e, const KNode *n);
void be_emit_inside(Emit *e, const KNode *n);
void be_emit_index_value(Emit *e, const KNode *n);

/* ---- memory (emit_memory.c) --------------------------------------------- */

void be_emit_arrays(Emit *e); /* pointers and tables; not of segments */
/* Pointers of the part of that number, from the table of pointers of type
 * `pointer` at `from`. */
void be_emit_segment_arrays(Emit *e, Val from, Type pointer, Val part);
/* Numbers in read-only memory, and one of them. */
Val be_emit_numbers(Emit *e, const char *name, const int64_t *x, int count,
                    unsigned space);
Val be_emit_number(Emit *e, Val numbers, Val index);
/* The constants of a table, in an address space of LLVM. */
Val be_emit_table(BeUnit *u, const KArray *table, const char *name,
                  unsigned space);
/* From the type in memory to the type that is computed with, and back; a value
 * that is narrowed has been rounded before. */
Val be_emit_from_memory(BeUnit *u, DType t, Val x);
Val be_emit_to_memory(BeUnit *u, DType t, Val x);
void be_emit_load(Emit *e, const KNode *n);
void be_emit_store(Emit *e, const KNode *n);

/* ---- arithmetic (emit_map.c, emit_maths.c)
 * ------------------------------ */

/* op of values of dtype t (the first operand's that is not a condition), all
 * scalars or all vectors. */
Val be_emit_map(BeUnit *u, IrOpKind op, DType t, const Val *x);
Val be_emit_cast(BeUnit *u, DType from, DType to, Val x);
Val be_emit_maths(BeUnit *u, IrOpKind op, Val x, Val y);
/* A constant of a computed dtype, for every lane of type. */
Val be_emit_scalar(Type type, Scalar s);

/* ---- loops (emit_loop.c) ------------------------------------------------
 */

void be_emit_grid(Emit *e); /* the function's items */
void be_emit_loop(Emit *e, const KNode *n);
/* How many lanes are good for at most bound rounds of b; 0: none. */
int be_emit_choose_lanes(const Emit *e, const KBlock *b, int64_t bound);
/* The mask of the first count (an i64) lanes. */
Val be_emit_first_lanes(Emit *e, Val count, int lanes);

/* ---- sums (emit_fold.c, emit_reduce.c, emit_contract.c)
 * ------------------ */

/* A partial result: a value, and for argmax and argmin its element's number (an
 * i64; else NULL). */
typedef struct EmitPartial {
    Val value, number;
} EmitPartial;

/* How parts of one reduction are combined. */
typedef struct EmitFold {
    Emit *e;
    const KNode *node;
    const KReduceInfo *info;
    DType dtype;   /* of an element */
    int64_t bound; /* elements */
    int stripes;   /* as many as may be used, a power of two */
} EmitFold;

EmitFold be_fold_of(Emit *e, const KNode *n);
/* What changes no part, to the bit; in lanes, or 0: a scalar. */
EmitPartial be_fold_neutral(const EmitFold *f, int lanes);
EmitPartial be_fold_combine(const EmitFold *f, EmitPartial x, EmitPartial y);
/* mask ? x : y */
EmitPartial be_fold_select(const EmitFold *f, Val mask, EmitPartial x,
                           EmitPartial y);
/* The reduction's value, from the part of all its elements. */
Val be_fold_result(const EmitFold *f, EmitPartial all);

void be_emit_reduce(Emit *e, const KNode *n);

/* A kernel that is nothing but long reductions of one length has two more
 * functions, so that several threads can do it: PARTIAL folds chunks, numbered
 * like items, into memory that one more pointer behind the outputs names; FINAL
 * does what follows. */
#define EMIT_PARTIAL "_part"
#define EMIT_FINAL "_rest"
enum {
    EMIT_PARTIAL_BYTES = 16, /* of a chunk of one reduction */
    EMIT_MAX_LONG = 16
};
typedef struct EmitLongReduces {
    int count; /* 0: it is no such kernel, if they are long or not */
    const KNode *reduces[EMIT_MAX_LONG];
} EmitLongReduces;
EmitLongReduces be_emit_long_reduces(const BeKernel *k);
/* The most chunks there are, from 2; 0: it has no such functions. */
int64_t be_emit_num_chunks(const BeKernel *k);
/* Of the memory for all. */
int64_t be_emit_partial_bytes(const BeKernel *k);
/* The body of PARTIAL: chunks e->begin to e->end, into e->partials. */
void be_emit_partial(Emit *e);
void be_emit_contract(Emit *e, const KNode *n);
/* The value of e->tiles' contraction, from its sums. */
void be_gemm_load_result(Emit *e, const KNode *n);
/* Whether n is that. */
bool be_gemm_is_result(const Emit *e, const KNode *n);

/* ---- running sums (emit_scan.c) ------------------------------------------
 */

struct EmitScan {
    const KNode *node, *running;
    Val size;   /* rounds */
    Val none;   /* what a sum begins with */
    Val round;  /* the number of the present one */
    Val before; /* the sum of the blocks before */
    Val part;   /* that of the block so far */
};

EmitScan be_scan_of(Emit *e, const KNode *n);
Val be_scan_add(Emit *e, const EmitScan *s, Val x, Val y);
/* Sets the index to that of a round. */
void be_scan_at(Emit *e, const EmitScan *s, Val round);
/* Rounds begin to end, of one block, with s->before set; the block's sum. */
Val be_scan_block(Emit *e, EmitScan *s, Val begin, Val end);

void be_emit_scan(Emit *e, const KNode *n);
void be_emit_running(Emit *e, const KNode *n);

/* ---- sorts (emit_sort.c) -------------------------------------------------
 */

typedef struct EmitSort {
    Emit *e;
    const KNode *node;
    bool packed; /* a place holds an element's key above its number */
    Val size;
    Val places; /* the address of the first */
} EmitSort;

/* A pass compares places i and i + distance, for the i of every second run of
 * so many places (a power of two), of which the first begins at `first`. */
typedef struct EmitSortStep {
    Val run, first, distance;
} EmitSortStep;
typedef void EmitSortPass(const EmitSort *s, const EmitSortStep *step);

EmitSort be_sort_of(Emit *e, const KNode *n);
/* Place i gets element i; what is packed is cleaned at the end. */
void be_sort_put(const EmitSort *s, Val i);
void be_sort_clean(const EmitSort *s, Val i);
void be_sort_exchange(const EmitSort *s, Val i, Val distance);
/* Calls pass for the code of a pass, which runs for all of them in turn. */
void be_sort_passes(const EmitSort *s, EmitSortPass *pass);

void be_emit_sort(Emit *e, const KNode *n);

#endif
