/*
 * emit.h - shared by the files that turn kernels into LLVM IR
 *
 * Code is emitted for a tile at a time: `rows` items of the grid side by side
 * and, in a vector construct, `vectors` vectors of `lanes` elements.  A value
 * of the kernel is then up to rows * vectors values of LLVM: one for each row
 * and vector along which it varies, which is known before (emit_varying.c).  So
 * the elements of a matrix product's operands are loaded once for the tile,
 * though the kernel IR does not have tiles.
 *
 * Nothing here chooses an order of additions: bits do not depend on tiles,
 * lanes or targets (D2).
 */
#ifndef TFD_BACKEND_CODEGEN_EMIT_H
#define TFD_BACKEND_CODEGEN_EMIT_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "backend/llvm/target.h"
#include "ir/base/cache_line.h"
#include "ir/rules/sums.h"

enum {
    BE_MAX_ROWS = 8,
    BE_MAX_VECTORS = 8,
    BE_MAX_TILE = 32 /* rows * vectors */
};

/* The directions of a tile in which a value or index of the kernel varies. */
typedef struct EmitVarying {
    bool row, lane;
} EmitVarying;

/* A value of the kernel: v[t * vectors + v]; a direction in which it does not
 * vary has one entry.  A vector if it varies along the lanes. */
typedef struct EmitValue {
    Val v[BE_MAX_TILE];
} EmitValue;

/* An index: base, plus the number of the row or lane if it is the tile's; or
 * arbitrary numbers (of a DIV or MOD that depends on one). */
typedef struct EmitIndex {
    Val base;        /* a word, of row 0, lane 0 */
    EmitValue *each; /* NULL: linear */
} EmitIndex;

typedef struct EmitTile {
    int rows, vectors;
    int lanes;       /* 0: outside of vector constructs */
    int vector_step; /* elements between vectors; 0: lanes */
    const KVar *row, *lane;
    const KVar *collapsed; /* moves on when `lane` has gone round, and lanes run
                         through both as one: from number `collapsed_begin` on;
                         NULL: there is none */
    Val collapsed_begin;
    Val mask[BE_MAX_VECTORS]; /* the active lanes; NULL: all */
} EmitTile;

/* Indices that one number replaces, in row-major order. */
typedef struct EmitSpace {
    int count;
    const KVar *vars[2 * IR_MAX_RANK];
} EmitSpace;

/* What is known of a condition while a piece of a vector construct is emitted.
 */
typedef enum EmitKnown { EMIT_UNKNOWN, EMIT_HOLDS, EMIT_FAILS } EmitKnown;

/* A value that a loop of the item stores in a row, for a later loop that would
 * compute it once more. */
typedef struct EmitKept {
    const KNode *stored; /* that value itself */
    const KVar *var;     /* the index of the loop that stores or loads it */
    Val row;             /* the address of its elements */
} EmitKept;

/* The word of an index expression, from which be_address_of takes it instead of
 * adding up terms: a loop carries it from round to round. */
typedef struct EmitCarried {
    const KIndex *of;
    Val word;
} EmitCarried;

typedef struct EmitDim {
    Dim dim;
    Val value; /* in the entry block */
} EmitDim;

typedef struct Emit Emit;
typedef struct EmitScan EmitScan;
typedef void EmitNode(Emit *e, const KNode *n);

/* The lowering of nodes for one kind of machine. */
typedef struct EmitLowering {
    /* An i64 of the dims that calls hand over: an IrBatchSizes for each pair of
     * batch symbols, then the replica. */
    Val (*call_word)(Emit *e, int64_t word);
    /* One emitter for each kind: BE_EMIT_COMMON_NODES and the machine's own
     * LOAD, */
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
    Val zeros;     /* address from which inactive lanes load */
    Val sink;      /* address to which inactive lanes store */
    Type word;     /* of indices: i64, or i32 where that is enough */
    Type lane_int; /* of indices in lanes */
    VEC(EmitDim) dim_values;
    EmitValue *values;        /* by id */
    EmitIndex *indices;       /* by id */
    VEC(EmitCarried) carried; /* by loops, those of inner ones last */
    EmitKnown *known;         /* of INSIDE, by id */
    /* By id: of loads whose elements of several rounds of a contraction are
     * loaded (be_emit_strips), those of vector v from number v * rounds on;
     * else NULL. */
    EmitValue **strips;
    int rounds;      /* how many these are, */
    int round;       /* and which of them is being emitted */
    EmitKept **kept; /* by id: values that are stored or loaded; else NULL */
    EmitVarying *value_varying, *index_varying;
    const struct GemmCode *gemm; /* the one being emitted, or NULL */
    Val accumulators; /* in memory, of the columns from e->indices on */
    Val partials;     /* in memory, of a long reduction; NULL: there are none */
    EmitScan *scan;   /* whose body is being emitted, or NULL */
};

/* Emits one node, or the nodes of b, in the current tile. */
void be_emit_node(Emit *e, const KNode *n);
void be_emit_block(Emit *e, const KBlock *b);

/* ---- values (emit.c) ---------------------------------------------------- */

/* The directions in which n varies in the current tile. */
EmitVarying be_emit_varying(const Emit *e, const KNode *n);
/* The number of copies in each direction. */
int be_emit_rows(const Emit *e, EmitVarying d);
int be_emit_vectors(const Emit *e, EmitVarying d);
int be_emit_slot(const Emit *e, EmitVarying d, int row, int vector);

/* n's value for a row and vector: a scalar if it does not depend on lanes. */
Val be_emit_get(const Emit *e, const KNode *n, int row, int vector);
/* The same; as a vector if `wide` is requested. */
Val be_emit_get_as(Emit *e, const KNode *n, int row, int vector, bool lanes);
void be_emit_set(Emit *e, const KNode *n, int row, int vector, Val value);

/* The type of a value of a computed dtype, and of one element in memory. */
Type be_emit_type(const Emit *e, DType t);
Type be_emit_memory_type(const Emit *e, DType t);
/* Lets LLVM use the full width of vector registers in the current function. */
void be_emit_use_registers(Emit *e);
/* Whether masks have registers of their own, as with AVX-512: elements of all
 * sizes can be loaded and stored with one, at little cost. */
static inline bool
be_emit_has_mask_registers(const Emit *e)
{
    return e->target->register_bytes == 64;
}
/* A constant index. */
Val be_emit_word(const Emit *e, int64_t x);

/* ---- varying values (emit_varying.c) -------------------------------- */

/* Fills value_varying and index_varying for tiles of rows along `row`, which
 * may be NULL. */
void be_emit_find_varying(Emit *e, const KVar *row);
/* The same, where lanes run along `lane` instead of vector loops. */
void be_emit_find_varying_along(Emit *e, const KVar *row, const KVar *lane);
/* The same, where lanes run through slow and lane as one index. */
void be_emit_find_varying_collapsed(Emit *e, const KVar *slow,
                                    const KVar *lane);
/* Splits the grid: the last indices along which b does not vary are rows, those
 * before them are outer. */
void be_emit_split_grid(Emit *e, const KNode *b, EmitSpace *outer,
                        EmitSpace *rows);
/* What these functions need of an Emit: to look at k without emitting it. */
Emit be_emit_for_analysis(Arena *a, const BeKernel *k);
bool be_kernel_contains(const KBlock *b, KKind kind);
/* Elementary operations in one execution of b. */
double be_kernel_cost(const BeKernel *k, const KBlock *b);
/* Less work than EMIT_GRAIN_OPERATIONS is not worth a second thread; fewer rows
 * of a product are not worth packing the other operand. */
enum { EMIT_GRAIN_OPERATIONS = 65536, EMIT_GRAIN_ROWS = 128 };
/* The fewest items that are worth a second thread, or 0 when one thread should
 * do all of them. */
int64_t be_kernel_grain(const BeKernel *k);
/* The number of operations emitted for a single item and vector, without the
 * bodies of contractions. */
double be_kernel_code_size(const KBlock *b);

/* ---- nodes of every machine (emit_node.c) -------------------------------- */

/* Allocates e's values and indices; its unit, arena, kernel and word are set.
 */
void be_emit_open(Emit *e);

EmitNode be_emit_constant, be_emit_map_node, be_emit_replica_id,
    be_emit_row_start;

/* Entries of the table that are the same for all lowerings. */
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
/* The most values of an index, over all segments of the kernel. */
int64_t be_var_bound(const BeKernel *k, const KVar *var);
/* The most items of the grid. */
int64_t be_items_bound(const BeKernel *k);
Val be_emit_ranges_size(Emit *e, const KRanges *r);
/* The extent of a range, which is at least 0. */
Val be_emit_extent(Emit *e, Dim extent);
EmitSpace be_space_of(const KRanges *r);
/* Whether all extents are constants. */
bool be_space_is_const(const EmitSpace *s);
/* The number of points, and its maximum (INT64_MAX if larger). */
Val be_space_size(Emit *e, const EmitSpace *s);
int64_t be_space_bound(const BeKernel *k, const EmitSpace *s);
/* Sets the tile's slow index and its lane's to their values for the numbers
 * from this one on. */
void be_emit_set_collapsed(Emit *e, Val number);
/* Sets the indices of s to its point with this number. */
void be_space_delinearize(Emit *e, const EmitSpace *s, Val number);
/* number becomes number / extent; returns the remainder. */
Val be_emit_divmod(Emit *e, Val *number, Val extent);
/* Whether indices in lanes need 64 bits. */
bool be_indices_are_wide(const BeKernel *k);

/* An index expression, split into parts. */
typedef struct EmitAddress {
    const KIndex *of;
    Val base;                /* a word, of row 0, vector 0, lane 0 */
    Dim row_step, lane_step; /* added for each further row and lane */
    EmitVarying any;         /* some terms have arbitrary numbers there */
    bool collapsed;          /* the tile's slow index and lane are one index */
} EmitAddress;

EmitAddress be_address_of(Emit *e, const KIndex *x);
EmitVarying be_address_varying(const Emit *e, const EmitAddress *a);
/* The word for lane 0, without terms that have arbitrary numbers in each lane.
 */
Val be_address_scalar(Emit *e, const EmitAddress *a, int row, int vector);
/* Elements from a vector of the tile to the next. */
int64_t be_emit_vector_step(const Emit *e);
/* The offset in each lane. */
Val be_address_lanes(Emit *e, const EmitAddress *a, int row, int vector);

void be_emit_divide(Emit *e, const KNode *n); /* DIV, MOD */
void be_emit_pick(Emit *e, const KNode *n);
void be_emit_inside(Emit *e, const KNode *n);
void be_emit_index_value(Emit *e, const KNode *n);

/* ---- values of an earlier loop (emit_keep.c) ----------------------------- */

/* Finds values of the item's loops that earlier reductions compute: after
 * be_emit_find_varying, where items are emitted one by one, outside lanes, with
 * all of their reductions. */
void be_emit_find_kept(Emit *e);
/* Sets n's value if it is such a one; false: it is not. */
bool be_emit_load_kept(Emit *e, const KNode *n);
/* Stores n's value, which is set, if a later loop loads it. */
void be_emit_store_kept(Emit *e, const KNode *n);

/* ---- memory (emit_memory.c) --------------------------------------------- */

/* The address of an array's element. */
Val be_emit_element_pointer(Emit *e, const KArray *array, Val index);
/* Whether n's lanes are strided in memory and successive values of `along`, on
 * which rows do not depend, are contiguous. */
bool be_emit_is_strided(const Emit *e, const KNode *n, const KVar *along);
/* Whether what the lanes of such a load read is in the same set of the first
 * cache. */
bool be_emit_lanes_conflict(const Emit *e, const KNode *n);
/* Elements along memory that are best loaded at once for each lane: 16 bytes,
 * or, where lanes conflict, as many as there are lanes, so that lines are read
 * once. */
int be_emit_strip_length(const Emit *e, const KNode *n);
/* Loads e->rounds successive values, a multiple of that length, the first at
 * the current indices, along memory, and transposes them. */
EmitValue *be_emit_strips(Emit *e, const KNode *n);

void be_emit_arrays(Emit *e); /* pointers and tables; not of segments */
/* Pointers of the segment with that number, from the table of pointers of type
 * `pointer` at `from`. */
void be_emit_segment_arrays(Emit *e, Val from, Type pointer, Val part);
/* An array of numbers in read-only memory, and one of them. */
Val be_emit_numbers(Emit *e, const char *name, const int64_t *x, int count,
                    unsigned space);
Val be_emit_number(Emit *e, Val numbers, Val index);
/* The constants of a table, in an address space of LLVM. */
Val be_emit_table(BeUnit *u, const KArray *table, const char *name,
                  unsigned space);
/* Converts from the type in memory to the type of computations, and back; a
 * value that is narrowed has been rounded before. */
Val be_emit_from_memory(BeUnit *u, DType t, Val x);
Val be_emit_to_memory(BeUnit *u, DType t, Val x);
void be_emit_load(Emit *e, const KNode *n);
void be_emit_store(Emit *e, const KNode *n);

/* ---- arithmetic (emit_map.c, emit_maths.c, emit_remainder.c) ------------- */

/* op on values of dtype t (that of the first operand that is not a condition),
 * all scalars or all vectors. */
Val be_emit_map(BeUnit *u, IrOpKind op, DType t, const Val *x);
Val be_emit_cast(BeUnit *u, DType from, DType to, Val x);
Val be_emit_maths(BeUnit *u, IrOpKind op, Val x, Val y);
/* x // y and x % y of floats. */
Val be_emit_float_floordiv(BeUnit *u, Val x, Val y);
Val be_emit_float_mod(BeUnit *u, Val x, Val y);
/* A constant of a computed dtype, for every lane of type. */
Val be_emit_scalar(Type type, Scalar s);

/* ---- loops (emit_loop.c) ------------------------------------------------- */

void be_emit_grid(Emit *e); /* the function's items */
void be_emit_loop(Emit *e, const KNode *n);
/* How many lanes are worthwhile for at most bound rounds of b; 0: none. */
int be_emit_choose_lanes(const Emit *e, const KBlock *b, int64_t bound);
/* The mask of the first count (an i64) lanes. */
Val be_emit_first_lanes(Emit *e, Val count, int lanes);

/* ---- sums (emit_fold.c, emit_reduce.c, emit_contract.c) ------------------ */

/* A partial result: a value, and for argmax and argmin its element's number (an
 * i64; else NULL). */
typedef struct EmitPartial {
    Val value, number;
} EmitPartial;

/* How partial results of one reduction are combined. */
typedef struct EmitFold {
    Emit *e;
    const KNode *node;
    const KReduceInfo *info;
    DType dtype;   /* of an element's key or value */
    int64_t bound; /* elements */
    int stripes;   /* as many as are used at most, a power of two */
    bool has_keys; /* elements are folded as integers of the same order */
} EmitFold;

EmitFold be_fold_of(Emit *e, const KNode *n);
/* The same; the greatest and the least of f32 are found by keys. */
EmitFold be_fold_by_keys(Emit *e, const KNode *n);
/* What is folded of an element x. */
Val be_fold_element(const EmitFold *f, Val x);
/* The neutral value, exact to the bit; in lanes, or 0: a scalar. */
EmitPartial be_fold_neutral(const EmitFold *f, int lanes);
EmitPartial be_fold_combine(const EmitFold *f, EmitPartial x, EmitPartial y);
/* mask ? x : y */
EmitPartial be_fold_select(const EmitFold *f, Val mask, EmitPartial x,
                           EmitPartial y);
/* The reduction's value, from the partial result of all its elements. */
Val be_fold_result(const EmitFold *f, EmitPartial all);

void be_emit_reduce(Emit *e, const KNode *n);

/* A kernel that consists of long reductions of one length has two more
 * functions, so that several threads can execute it: PARTIAL folds chunks,
 * numbered like items, into the memory of one more pointer after the outputs;
 * FINAL does the rest. */
#define EMIT_PARTIAL "_part"
#define EMIT_FINAL "_rest"
enum {
    EMIT_PARTIAL_BYTES = 16, /* of a chunk of one reduction */
    EMIT_MAX_LONG = 16
};
typedef struct EmitLongReduces {
    int count; /* 0: not such a kernel, or the reductions are short */
    const KNode *reduces[EMIT_MAX_LONG];
} EmitLongReduces;
EmitLongReduces be_emit_long_reduces(const BeKernel *k);
/* The largest number of chunks, from 2; 0: the kernel has no such functions. */
int64_t be_emit_num_chunks(const BeKernel *k);
/* Bytes of the partial results of all. */
int64_t be_emit_partial_bytes(const BeKernel *k);
/* Emits the nodes before the reductions that depend on none of them. */
void be_emit_before_long(Emit *e, const EmitLongReduces *long_ones);
/* The body of PARTIAL: chunks e->begin to e->end, into e->partials. */
void be_emit_partial(Emit *e);
void be_emit_contract(Emit *e, const KNode *n);
/* The value of e->tiles' contraction, from its accumulators. */
void be_gemm_load_result(Emit *e, const KNode *n);
/* Whether n is that contraction. */
bool be_gemm_is_result(const Emit *e, const KNode *n);

/* ---- running sums (emit_scan.c) ------------------------------------------ */

struct EmitScan {
    const KNode *node, *running;
    Val size;   /* rounds */
    Val none;   /* the initial value of a sum */
    Val round;  /* the number of the current one */
    Val before; /* the sum of the earlier blocks */
    Val part;   /* the sum of the current block so far */
};

EmitScan be_scan_of(Emit *e, const KNode *n);
Val be_scan_add(Emit *e, const EmitScan *s, Val x, Val y);
/* Sets the index for a round. */
void be_scan_at(Emit *e, const EmitScan *s, Val round);
/* Rounds begin to end, of one block, with s->before set; returns the block's
 * sum. */
Val be_scan_block(Emit *e, EmitScan *s, Val begin, Val end);

void be_emit_scan(Emit *e, const KNode *n);
void be_emit_running(Emit *e, const KNode *n);

/* ---- sorts (emit_sort.c) ------------------------------------------------- */

/* What a place packs of an element's key, beside its number. */
typedef enum EmitSortKey { KEY_NONE, KEY_WHOLE, KEY_HIGH, KEY_LOW } EmitSortKey;

typedef struct EmitSort {
    Emit *e;
    const KNode *node;
    EmitSortKey packs;
    bool may_halve; /* one thread may sort by halves of the keys */
    Val size;
    Val places; /* the address of the first */
} EmitSort;

/* A pass compares places i and i + distance, for the i of every second run of
 * that many places (a power of two); the first run begins at `first`. */
typedef struct EmitSortStep {
    Val run, first, distance;
} EmitSortStep;
typedef void EmitSortPass(const EmitSort *s, const EmitSortStep *step);

EmitSort be_sort_of(Emit *e, const KNode *n);
/* Place i gets element i; packed places are unpacked at the end. */
void be_sort_put(const EmitSort *s, Val i);
void be_sort_clean(const EmitSort *s, Val i);
void be_sort_exchange(const EmitSort *s, Val i, Val distance);
/* Calls pass to emit the code of a pass, which runs for all of them in turn. */
void be_sort_passes(const EmitSort *s, EmitSortPass *pass);

void be_emit_sort(Emit *e, const KNode *n);

#endif
