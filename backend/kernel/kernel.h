/*
 * kernel.h - the kernel IR: loops around scalar code
 *
 * A kernel computes outputs from inputs: dense arrays that are addressed by
 * one linear index each.  Its body is executed for each item of a grid.  It is
 * a tree: blocks of scalar SSA nodes, loops over indices whose order is free,
 * reductions and contractions whose order is fixed (D2), and stores.
 *
 * Indices (KVar) and values (KNode) are different things.  An index is an
 * integer with a known range; it comes from a loop, from dividing another
 * one, or from a value that is clamped to the range.  Addresses are linear in
 * indices (KIndex), so strides can be read off. A value is a scalar of a dtype
 * that can be computed with: f64, f32, integers or bool.  An f16 or bf16 is an
 * f32 in a value; the cast that rounds it after each operation (D4) is a node.
 *
 * `vector` says which innermost loop runs along contiguous memory: CPU code
 * puts it in the lanes of registers.  So code generation does not have to
 * search for such a loop.
 *
 * docs/kernels.md has the text form, examples, and which clusters of
 * operations become good kernels.  kernels.def lists nodes and reductions.
 *
 * An output may begin as an input (`from`): then its elements are those of the
 * input before the first item, and it may be loaded too.  The caller of the
 * kernel copies them there, or passes the same memory for both.  Everything
 * belongs to the arena that the kernel was made in.
 */
#ifndef TFD_BACKEND_KERNEL_KERNEL_H
#define TFD_BACKEND_KERNEL_KERNEL_H

#include "ir/analysis/batch.h"
#include "ir/ir.h"
#include "ir/rules/pairs.h"
#include "ir/table.h"

typedef struct BeKernel BeKernel;
typedef struct KNode KNode;

typedef enum KRole { K_IN, K_OUT, K_TABLE, K_NUM_ROLES } KRole;

/* Memory.  Inputs are only loaded; outputs are only stored unless they begin as
 * an input; tables are constants that are part of the kernel's code. */
typedef struct KArray KArray;
struct KArray {
    KRole role;
    int index; /* among those of its role */
    DType dtype;
    Dim size;           /* elements */
    const void *data;   /* K_TABLE: the elements */
    const KArray *from; /* K_OUT: its initial value, or NULL */
};

/* An index: 0 <= value < extent (a DIV or MOD under a guard that is false may
 * have any value). */
typedef struct KVar {
    int id; /* dense: 0 .. num_vars - 1, ascending in the order of the text */
    Dim extent;
} KVar;

typedef struct KTerm {
    Dim coef; /* not the constant 0 */
    KVar *var;
} KTerm;

/* base + the sum of coef * var; by ascending id, each var once. */
typedef struct KIndex {
    Dim base;
    int num_terms;
    KTerm *terms;
} KIndex;

/* An index space in row-major order: the last var is the fastest.  No vars: a
 * space of one point. */
typedef struct KRanges {
    int count;
    KVar *vars[IR_MAX_RANK];
} KRanges;

typedef struct KBlock {
    KNode *first, *last;
} KBlock;

typedef enum KKind {
#define KNODE(name, text, value, doc) K_##name,
#include "backend/kernel/kernels.def"
#undef KNODE
    K_NUM_KINDS
} KKind;

typedef enum KReduce {
#define KREDUCE(name, op, fold, doc) K_REDUCE_##name,
#include "backend/kernel/kernels.def"
#undef KREDUCE
    K_NUM_REDUCES
} KReduce;

struct KNode {
    KKind kind;
    DType dtype; /* of the value: dtype_compute of itself */
    int id;      /* values: dense, 0 .. num_values - 1, in order; else -1 */
    KNode *prev, *next;
    union {
        Scalar constant; /* CONST */
        KIndex index;    /* INDEX */
        int pair;        /* ROW_START: of the kernel's pairs */
        struct {
            KIndex index;
            Dim size;
        } inside; /* INSIDE */
        struct {
            KArray *array; /* an input, a table, an output that has `from` */
            KIndex at;
            KNode *guard; /* a bool, or NULL: always */
        } load;           /* LOAD */
        struct {
            IrOpKind op;
            DType to; /* OP_cast: the dtype to round or convert to */
            int num_args;
            KNode *args[3];
        } map; /* MAP */
        struct {
            KReduce op;
            bool vector; /* the last range runs along the lanes */
            KRanges ranges;
            KBlock body;
            KNode *element; /* in the body or around */
        } reduce;           /* REDUCE */
        struct {
            KRanges ranges;
            KBlock body;
            KNode *x, *y;      /* of one dtype, in the body or around */
            IrPairOrder pairs; /* some: x and y are bf16 (ir/rules/pairs.h) */
            bool tf32;         /* of f32: tensor cores may compute it (D36) */
        } contract;            /* CONTRACT */
        struct {
            KVar *var; /* the new index */
            KIndex of;
            Dim by; /* from 1 */
        } divide;   /* DIV, MOD */
        struct {
            KVar *var;    /* the new index, of at least one value */
            KNode *value; /* an i64 */
        } pick;           /* PICK */
        struct {
            bool vector;  /* exactly one range, which runs along the lanes */
            bool ordered; /* in row-major order, one after the other */
            KRanges ranges;
            KBlock body;
        } loop; /* LOOP */
        struct {
            bool exclusive; /* without the value of the round itself */
            KIndex along;   /* the index of the scan it stands in */
            KNode *value;   /* a number, in the scan or around */
        } running;          /* RUNNING */
        struct {
            bool reverse;   /* from the last value of the index to the first */
            KRanges ranges; /* exactly one */
            KBlock body;
        } scan; /* SCAN */
        struct {
            bool descending;
            int64_t first;  /* how many numbers are stored; 0: all */
            KRanges ranges; /* exactly one */
            KBlock body;
            KNode *element; /* in the body or around */
            KArray *array;  /* an output of i64 */
            KIndex at;      /* where the first number is stored */
        } sort;             /* SORT */
        struct {
            KArray *array; /* an output */
            KIndex at;
            KNode *value; /* of dtype_compute(array->dtype) */
            KNode *guard; /* a bool, or NULL: always */
        } store;          /* STORE */
    };
};

/* A pair of batch symbols.  Dims of a kernel name them by sym: 2 * i is the n
 * of pair i, 2 * i + 1 its N. */
typedef struct KPair {
    int64_t bound, total; /* of n, of N; total is -1 where there is no N */
    int32_t symbol; /* of the module that n is, -1 in a kernel from text */
} KPair;

struct BeKernel {
    Arena *arena;
    const char *name; /* "k_" and the hash of the text */
    const char *text; /* everything in the kernel but its name */
    size_t text_len;
    VEC(KPair) pairs; /* in the order of the words that calls hand over */
    VEC(KArray *) arrays[K_NUM_ROLES]; /* ptrs: those of K_IN, then K_OUT */
    /* Lengths, at least 2, of kernels that are executed as one; none: a single
     * kernel.  The body is the first's, over one index; each has as many arrays
     * of its own as the first. */
    VEC(int64_t) segments;
    KRanges grid; /* items are numbered in its row-major order; none: 1 item */
    bool grid_vector; /* the grid is one range, which runs along the lanes */
    KBlock body;      /* of one item */
    bool uses_replica;
    int num_vars, num_values;
};

typedef struct KKindInfo {
    const char *text;
    bool has_value;
} KKindInfo;
extern const KKindInfo be_kernel_kinds[K_NUM_KINDS];

typedef struct KReduceInfo {
    const char *name;
    IrOpKind op;   /* of the step IR */
    IrOpKind fold; /* combines two elements */
    bool arg;      /* the result is a number of an element */
} KReduceInfo;
extern const KReduceInfo be_kernel_reduces[K_NUM_REDUCES];

/* The kernel that computes a `kernel` operation of the step IR.  NULL after a
 * message to d when it would be too large. */
BeKernel *be_kernel_build(Arena *a, const IrOp *op, Diag *d);

/* The most replicas that one kernel combines: their addresses are parameters of
 * a GPU's kernel, which has room for some 500. */
enum { BE_MAX_COMBINED = 512 };

/* The kernel that combines the elements of `num` arrays, in the order of the
 * replicas, by D2's tree, as an all_reduce does: num inputs, one output, the
 * number of elements as its batch symbol.  NULL: values of this dtype are not
 * combined so, it is a copy, or there are more than BE_MAX_COMBINED. */
BeKernel *be_kernel_combine(Arena *a, IrAgg how, DType dtype, int num);

/* The number of items. */
Dim be_kernel_items(const BeKernel *k);
/* How many arrays of a role each segment has; all of them without segments. */
int be_kernel_segment_arrays(const BeKernel *k, KRole role);

/* The words of a kernel's dims: of a symbol as Dims of a kernel name it, and
 * the replica's number, which is after the pairs. */
static inline int
be_kernel_symbol_word(int32_t sym)
{
    return ir_batch_word(sym / 2, sym % 2 ? BATCH_N : BATCH_n);
}

static inline int
be_kernel_replica_word(const BeKernel *k)
{
    return k->pairs.len * BATCH_WORDS;
}

/* The text of one kernel; be_kernel_parse of it prints the same text again. */
void be_kernel_print(Str *out, const BeKernel *k);

/* A vector (vec.h) of kernels; those that be_kernels_build made of a module,
 * also by the numbers of its operations. */
typedef struct BeKernels {
    BeKernel **data;
    int len, cap;
    IR_TABLE(BeKernel *) by_op;
} BeKernels;

/* The kernel that was made of op. */
static inline const BeKernel *
be_kernel_of(const BeKernels *kernels, const IrOp *op)
{
    BeKernel *const *k = IR_TABLE_FIND(kernels->by_op, op->number);
    assert(k && *k);
    return *k;
}

/* Its number in the plan: its index in the sorted list of their names. */
int be_kernel_number(const BeKernels *kernels, const BeKernel *k);

/* Reads any number of kernels; errors go to d, and the result is false then.
 * `file` is the registered source the text is.  Names are computed again.  The
 * kernels are verified. */
bool be_kernel_parse(BeKernels *out, Arena *a, Diag *d, uint16_t file,
                     const char *text, size_t len);

/* Checks the invariants that code generation relies on.  Errors go to d at loc.
 */
bool be_kernel_verify(const BeKernel *k, Diag *d, Loc loc);

/* ---- indices ------------------------------------------------------------ */

/* The coefficient of var in x; 0 if x does not have it. */
Dim be_index_coef(const KIndex *x, const KVar *var);
bool be_index_equal(const KIndex *x, const KIndex *y);
/* The index that n, a DIV, MOD or PICK, defines; NULL: n is another node. */
KVar *be_kernel_new_index(const KNode *n);
/* Whether a node of b defines an index of x. */
bool be_block_defines_index(const KBlock *b, const KIndex *x);
/* The sum, and x * by, with terms in a; false when they do not fit int64_t or
 * are not linear in one symbol. */
bool be_index_add(Arena *a, const KIndex *x, const KIndex *y, KIndex *out);
bool be_index_scale(Arena *a, const KIndex *x, Dim by, KIndex *out);

#endif
