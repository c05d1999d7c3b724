/*
 * gemm.h - contractions that are products of matrices
 *
 * A kernel with a contraction in a vector loop is a gemm, C = A * B, with any
 * prologue and epilogue: A does not depend on the columns (the loop), B not on
 * the rows (the last indices of the grid).  So both can be packed: computed
 * once, with casts and the guards of a convolution, and stored in the order in
 * which the micro-kernel reads them.
 *
 *   m      last indices of the grid     A, m x k
 *   k      those of the contraction     B, k x n
 *   n      that of the vector loop      C, m x n
 *   batch  the other indices of the grid: another gemm for each point
 */
#ifndef TFD_BACKEND_GEMM_GEMM_H
#define TFD_BACKEND_GEMM_GEMM_H

#include "backend/codegen/emit.h"

/* The values and indices that a value depends on: a backward slice of the
 * kernel, by id. */
typedef struct KernelSlice {
    bool *values, *vars;
    bool stores;
} KernelSlice;

/* A or B: its value, and the slice that computes it. */
typedef struct GemmOperand {
    const KNode *value;
    KernelSlice slice;
    bool along_k;       /* neighbours in memory are neighbours in k */
    const KNode *plain; /* a load from a matrix in memory, or NULL: */
    int64_t stride;     /* elements from an m or n to the next, */
    int64_t k_stride;   /* and from a k */
} GemmOperand;

/* The im2col lines of A, where its elements overlap: an element's place is
 * `stride` times the last index of one side, m or k, plus an index of the
 * other, the last or the last but one, and all operands of A depend on that sum
 * alone.  So the elements for all values of that index are one line of places,
 * for each point of the earlier indices of the other side. */
typedef struct GemmLines {
    const KVar *index; /* of the other side; NULL: nothing overlaps */
    int64_t length;    /* values of the index that has the stride */
    int64_t stride;    /* places from one of these to the next */
    int64_t elements;  /* of a place */
    int64_t run;       /* points of the other side along a line */
    int64_t lines;
} GemmLines;

/* Elements of a line for that many values of the index that has the stride. */
static inline int64_t
be_gemm_line_size(const GemmLines *o, int64_t values)
{
    return ((values - 1) * o->stride + o->index->extent.c) * o->elements;
}

/* The elements of C that the epilogue looks at: those where a condition holds,
 * or does not. */
typedef struct GemmShown {
    const KNode *condition; /* NULL: all */
    KernelSlice slice;
    bool inverted;
} GemmShown;

typedef struct Gemm {
    const KNode *contract, *loop;
    EmitSpace batch, m, k;
    const KVar *n;
    GemmOperand a, b;
    bool in_runs;      /* memory runs along the last of several indices of m: so
                          rows of A are packed by runs of it */
    GemmLines m_lines; /* the last index of m has the stride, as in a
                          convolution along a row of an image */
    GemmLines k_lines; /* the last index of k has it, as in the gradient of a
                          convolution's weights: a line is what all rows of a
                          run need for the k along that index */
    KernelSlice epilogue; /* what is computed from the result */
    GemmShown shown;
    const KNode *direct; /* the store of the result, where that is all; else
                            NULL */
} Gemm;

/* Fewer rows than this leave a tile mostly empty. */
enum { GEMM_FEW_ROWS = 4 };

/* Whether the kernel of e is a product of matrices of any size, of which *out
 * then has the operands' values and the indices. */
bool be_gemm_find(Emit *e, Gemm *out);
/* Whether the kernel of e is a gemm, which is then returned in *out. */
bool be_gemm_match(Emit *e, Gemm *out);

/* The parts of a kernel whose items are a vector loop around a contraction of
 * floats, with values before and stores after it; false: it is another. */
bool be_find_contraction(const BeKernel *k, const KNode **contract,
                         const KNode **loop);

/* What computes an operand of that contraction, and what it is used for. */
KernelSlice be_slice_of(Emit *e, const KNode *value, const KNode *contract,
                        const KNode *loop);
KernelSlice be_slice_of_stores(Emit *e, const KNode *contract,
                               const KNode *loop);
/* The s > 0 such that all of the slice depends on row and product through s *
 * row + product alone; 0: there is none. */
int64_t be_slice_stride(const Emit *e, const KernelSlice *slice,
                        const KNode *contract, const KNode *loop,
                        const KVar *row, const KVar *product);
bool be_slice_contains(const KernelSlice *slice, const KNode *n);
/* Emits the nodes of b that are in the slice. */
void be_emit_slice(Emit *e, const KernelSlice *slice, const KBlock *b);

/* ---- CPUs ---------------------------------------------------------------- */

enum { GEMM_MAX_MR = 14 };

/* Where the micro-kernel reads A or B. */
typedef enum GemmLayoutKind {
    GEMM_IN_PLACE, /* A or B in place, in the kernel's input */
    GEMM_K_LINES,  /* A as im2col lines along k [segments][lines][line_size] */
    GEMM_M_LINES,  /* A as im2col lines along m [lines][line_size] */
    GEMM_ALONG_K,  /* A row by row [mr][stride] */
    GEMM_GROUPS,   /* A, a group of rows of a run at once [kc][group] */
    GEMM_TILES,    /* A, some tiles at once [m_tiles][kc][mr] */
    GEMM_PANELS    /* B [nc / nr][kc][nr] */
} GemmLayoutKind;

/* Sizes and strides in elements. */
typedef struct GemmLayout {
    GemmLayoutKind kind;
    int64_t stride;    /* from an m or n to the next */
    int64_t k_stride;  /* from a k to the next */
    int64_t group;     /* rows of a run that are packed together, or 0 */
    int64_t line_size; /* from line to line, or 0 */
    int64_t segments;  /* lines along k that a block of k meets, or 0 */
    int64_t size; /* of A, for a tile or a group and what a tile has beyond it;
                     0 in place */
} GemmLayout;

/* What multiplies and adds. */
typedef enum GemmUnit {
    GEMM_FMA,
    GEMM_AMX,      /* packed operands are bf16 (bf16.h), as those of */
    GEMM_VDPBF16PS /* AVX512-BF16 */
} GemmUnit;

/* The blocking on a CPU: a tile of C, mr x nr with nr = lanes * vectors, is
 * accumulated in registers; A and B are packed for kc of k, B for nc columns
 * and A for the rows of some tiles at a time. */
typedef struct GemmPlan {
    GemmUnit unit;
    int lanes, vectors, mr;
    int m_tiles;  /* whose rows of A are packed at once */
    int n_panels; /* of B, likewise */
    int64_t kc, nc;
    bool k_blocked;   /* kc is smaller than k */
    bool skips_zeros; /* of A, at the first and last k of a tile's rows */
    int64_t mc; /* rows whose accumulators are kept in memory, unless they are
                   the result */
    int64_t a_rows; /* of A that are packed once for all blocks of columns; 0:
                       some tiles at a time, again for each block */
    int64_t cell_rows, cell_columns; /* what threads divide among them
                                        (gemm_items.c); 0: single rows, and all
                                        columns */
    GemmLayout a, b;
    double cost; /* of packing and of reading in place; packing once is 1 */
} GemmPlan;

/* The state while the loops around the micro-kernel are emitted. */
typedef struct GemmCode {
    Emit *e;
    const Gemm *gemm;
    GemmPlan plan;
    Type type; /* of an accumulator */
    int64_t bytes;
    Type packed_type; /* of a packed element */
    int64_t packed_bytes;
    Val micro_kernel; /* a function that is made before the kernel's own */
    Val packed_a, packed_b; /* as the plan's layouts say; NULL: in place */
    Val c;      /* accumulators: [mc][nc], or of one tile; before them there is
                   room for a tile's */
    Val c_tile; /* of a tile of which only a part is wanted */
    Val products; /* the TfdProducts of gemm_zeros.c */
    Val m, n, k;
} GemmCode;

/* Bytes that a loop may pass over again and still find in L2: about 1 MB where
 * registers have 64 bytes. */
static inline int64_t
be_gemm_l2_bytes(const BeTarget *t)
{
    return (INT64_C(16) << 10) * t->register_bytes;
}

static inline int64_t
be_gemm_round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* The length of pieces of x, a multiple of unit: about equal, and as few as
 * there are if each has at most `most`; all of x where that is 0. */
static inline int64_t
be_gemm_even_piece(int64_t x, int64_t most, int64_t unit)
{
    int64_t pieces = most ? (x + most - 1) / most : 1;
    return be_gemm_round_up((x + pieces - 1) / pieces, unit);
}

/* Whether accumulators are kept for further blocks of k, other than in the
 * result. */
static inline bool
be_gemm_keeps_c(const Gemm *g, const GemmPlan *plan)
{
    return plan->k_blocked && !g->direct;
}

enum { GEMM_C_BYTES = 2 << 20 }; /* of accumulators that are kept */

/* Parts of a plan whose other parts are set, in elements of that many bytes:
 * columns of a block of B, with all blocks about equally large; */
int64_t be_gemm_block_columns(const GemmPlan *plan, int64_t n,
                              int64_t block_bytes, int64_t bytes);
/* fewer of these where the accumulators of the rows that are packed at once
 * would not fit a thread's stack; */
void be_gemm_limit_columns(const Gemm *g, GemmPlan *plan, int64_t n);
/* rows whose accumulators are kept: those that are packed at once or, if they
 * are kept for further blocks of k, as many as fit; */
int64_t be_gemm_kept_rows(const Gemm *g, const GemmPlan *plan,
                          int64_t most_bytes);
/* rows of A that are packed at once for all blocks of columns, in pieces of
 * about equal length. */
int64_t be_gemm_a_rows(const GemmPlan *plan, int64_t m, int64_t bytes);

/* The cheapest plan for g on e's machine. */
GemmPlan be_gemm_plan_choose(const Emit *e, const Gemm *g);

/* Columns of a tile. */
static inline int
be_gemm_plan_nr(const GemmPlan *plan)
{
    return plan->lanes * plan->vectors;
}

static inline int
be_gemm_nr(const GemmCode *t)
{
    return be_gemm_plan_nr(&t->plan);
}

enum { GEMM_L1_BYTES = 32 << 10 };

/* Whether a panel of B is larger than L1: the micro-kernel then prefetches it.
 */
static inline bool
be_gemm_streams_b(const GemmPlan *plan, int64_t bytes)
{
    return plan->kc * be_gemm_plan_nr(plan) * bytes > GEMM_L1_BYTES;
}

/* How many rows of A each call of the micro-kernel prefetches, so that those
 * for all columns of a block prefetch the next tile's. */
static inline int
be_gemm_rows_ahead(const GemmPlan *plan)
{
    int64_t panels = plan->nc / ((int64_t)plan->lanes * plan->vectors);
    return panels ? (int)((plan->mr + panels - 1) / panels) : plan->mr;
}

/* The address of a plain operand's element for the current indices. */
Val be_gemm_plain_here(const GemmCode *t, const GemmOperand *o);

/* Packs rows first .. end as tiles, or the group that begins with first in a
 * run that ends with end, for k begin .. stop. */
void be_gemm_pack_a(GemmCode *t, Val first, Val end, Val begin, Val stop);
/* Packs the lines of all rows for k begin .. stop. */
void be_gemm_pack_k_lines(GemmCode *t, Val begin, Val stop);
/* Packs columns first .. end of B. */
void be_gemm_pack_b(GemmCode *t, Val first, Val end, Val begin, Val stop);

/* Finds g->shown, of a match (gemm_hidden.c). */
void be_gemm_find_shown(Emit *e, Gemm *g);
/* Whether the epilogue looks at one of count rows from first on of the tile
 * that begins with this column; columns from end on do not exist. */
Val be_gemm_is_shown(GemmCode *t, Val first, Val count, Val column, Val end);

/* The function that adds a block of kc products to each accumulator of a tile,
 * 512 at most, but for operands of bf16, where it goes through the blocks of D2
 * itself; made before the kernel's own.  Its parameters: packed A and B,
 * accumulators and the bytes from one row of them to the next, the extent of k,
 * whether to add to the sums of earlier blocks of k, how many columns have
 * accumulators, the first k's number along a line, rows of A to prefetch
 * (be_gemm_rows_ahead), where they are read in place, and the first k that
 * counts and the end of those (GemmProducts). */
enum {
    UKERNEL_A,
    UKERNEL_B,
    UKERNEL_C,
    UKERNEL_C_STRIDE,
    UKERNEL_K,
    UKERNEL_ACCUMULATE,
    UKERNEL_N,
    UKERNEL_LINE_K,
    UKERNEL_AHEAD,
    UKERNEL_FIRST,
    UKERNEL_END,
    UKERNEL_NUM_PARAMS
};
Val be_gemm_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan);
/* Begins that function, whose parameters are then in params; the caller ends
 * it. */
Val be_gemm_micro_kernel_begin(Emit *e, Val *params);

/* Zeros of A (gemm_zeros.c): whether a plan, whose layouts are set, can skip
 * them. */
bool be_gemm_can_skip_zeros(const Gemm *g, const GemmPlan *plan);
/* Memory to find them, if the plan does, and that nothing is known of the block
 * of B that follows. */
void be_gemm_begin_zeros(GemmCode *t);
void be_gemm_forget_b(const GemmCode *t);
/* The k of a block that count: those before `first` and from `end` on, a
 * multiple of 4 each, are +0 in all rows of a tile, and B is finite. */
typedef struct GemmProducts {
    Val first, end;
} GemmProducts;
/* A block of B, as the micro-kernel reads it: its first element, and how many k
 * and columns it has. */
typedef struct GemmBlock {
    Val b, k, n;
} GemmBlock;
/* Those of a block for a tile's rows of A, which are at `rows`; the plan skips
 * zeros. */
GemmProducts be_gemm_find_products(const GemmCode *t, Val rows,
                                   const GemmBlock *block);

/* Whether every block of k has a multiple of n, a power of two. */
bool be_gemm_k_is_multiple(const Gemm *g, int n);
/* Ends a call: stores the sums of a tile, [mr][vectors], by those parameters.
 */
void be_gemm_store_tile(Emit *e, const Gemm *g, const GemmPlan *plan,
                        const Val *params, const Val *sums);

/* Chooses the cells of plan, whose other parts are set. */
void be_gemm_choose_cells(const BeKernel *k, const Gemm *g, GemmPlan *plan);
/* Whether k is a product whose rows are not divided as those of other kernels
 * are; *grain is then the fewest items that are worth a second thread, or 0. */
bool be_gemm_divides(const BeKernel *k, int64_t *grain);

/* The address of an element of memory for accumulators. */
static inline Val
be_gemm_scratch_at(const GemmCode *t, Val base, Val index)
{
    return LLVMBuildGEP2(t->e->u->builder, t->type, base, &index, 1, "");
}
/* What is computed from the accumulators of rows from .. to, columns first ..
 * end (gemm_epilogue.c). */
void be_gemm_epilogue_rows(GemmCode *t, Val from, Val to, Val first, Val end);

/* Begins the code of a gemm: its memory and extents. */
GemmCode be_gemm_begin(Emit *e, const Gemm *g, const GemmPlan *plan,
                       Val micro_kernel);
/* Rows m .. m_end of one matrix, columns n .. n_end. */
void be_gemm_multiply(GemmCode *t, Val m, Val m_end, Val n, Val n_end);

/* Executes all items from e->begin to e->end. */
void be_gemm_emit(Emit *e, const Gemm *g, const GemmPlan *plan,
                  Val micro_kernel);

#endif
