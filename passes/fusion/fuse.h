/*
 * fuse.h - shared by the files of fusion
 *
 *   fuse.c          the pass, and the classes of operations
 *   fuse_graph.c    dependences in a block; clusters, merging, order
 *   fuse_cycles.c   which clusters may be merged: the graph has no cycles
 *   fuse_legal.c    which operations make a good kernel together
 *   fuse_grow.c     which of the legal clusters are wanted
 *   fuse_extract.c  clusters become kernels, and the block gets a new order
 *   check_stored.c  what kernels read and store has one batch length at most
 */
#ifndef TFD_PASSES_FUSION_FUSE_H
#define TFD_PASSES_FUSION_FUSE_H

#include <assert.h>
#include "ir/type_bounds.h"
#include "ir/analysis/users.h"
#include "passes/fusion/axes.h"
#include "passes/support/pass.h"

enum {
    FUSE_MAX_OPS = 64,   /* of a kernel */
    FUSE_MAX_ARRAYS = 48 /* its operands and results */
};

/* Operations of one block that become one kernel; or a single operation that
 * stays unchanged. */
typedef struct Cluster {
    struct Cluster *into; /* that this one was merged into, or NULL */
    IrOpList ops;         /* by position */
    bool computed;        /* becomes a kernel */
    bool contracts;
    int visited; /* the last search that visited it */
    /* of fuse_cycles.c: an order in which each comes after its dependences */
    struct Cluster *before, *after;
    int64_t place; /* grows along the order */
    /* of pass_fuse_order */
    bool placed;
    int next_op, next_need; /* how far its dependences were visited */
    VEC(struct Cluster *) waiting;  /* for this one's place */
    VEC(struct Cluster *) blockers; /* of an update: they come before it */
    int next_blocker;               /* all before it are placed */
    /* of fuse_extract.c */
    IrOpList rematerialized; /* of other clusters, computed here too */
} Cluster;

typedef VEC(Cluster *) ClusterList;

typedef struct FuseNode {
    Cluster *cluster;
    IrOpList users; /* of its results, in its block: each once, by position */
    int num_uses;   /* operands of operations of its block: its results */
    IrOpList needs; /* of its block, that must come before it */
    IrOpList later; /* that must come after it: users, and by effects */
    int epoch;      /* only ops of one epoch may share a kernel */
    int visited, evaluated; /* of fuse_legal.c */
    bool needed;            /* a result, when used outside of its cluster */
} FuseNode;

typedef struct Fuse {
    Arena *arena;
    IrModule *m;
    IrFunc *fn;
    int level;
    Axes *axes;
    IR_TABLE(FuseNode *) nodes; /* of the operations of blocks looked at */
    int search;                 /* number of the last one */
    /* by position: the last one of all clusters that begin there or before, and
     * the first one of all that end there or behind */
    int *reach, *back;
    IrOpList work; /* scratch of searches and checks */
    /* of fuse_cycles.c */
    Cluster *ends; /* the order is a ring through this one */
    ClusterList ahead, behind;
} Fuse;

/* ---- fuse.c ------------------------------------------------------------- */

bool pass_fuse_is_computed(const IrOp *op); /* by a kernel */
/* Costs nothing to compute again wherever it is used. */
bool pass_fuse_is_free(const IrOp *op);
/* Whether op takes a part of a value, at a place that is one number: code that
 * needs elements of the part loads them from the whole. */
bool pass_fuse_is_part(const IrOp *op);
bool pass_fuse_is_contraction(const IrOp *op);
bool pass_fuse_is_reduction(const IrOp *op);
/* Whether a kernel may contain it together with others. */
bool pass_fuse_is_fusible(const IrOp *op);
/* Whether op changes rows of operand i in place: that is one of the kernel's
 * first operands, and it has no other use in the kernel. */
static inline bool
pass_fuse_updates_in_place(const IrOp *op, int i)
{
    return op->kind == OP_scatter && i == 0;
}
/* Whether a value has one element. */
bool pass_fuse_is_scalar(const IrType *t);
/* The bytes of v, at most; IR_MAX_BYTES if nothing is known of them. */
static inline int64_t
pass_fuse_bytes(const Fuse *f, const IrValue *v)
{
    int64_t n;
    return ir_type_bytes(f->m, &v->type, &n) ? n : IR_MAX_BYTES;
}

/* ---- fuse_graph.c ------------------------------------------------------- */

/* Nodes and clusters of one operation for all of b. */
void pass_fuse_graph_build(Fuse *f, IrBlock *b);
static inline FuseNode *
pass_fuse_node(const Fuse *f, const IrOp *op)
{
    FuseNode *const *n = IR_TABLE_FIND(f->nodes, op->number);
    assert(n && *n);
    return *n;
}
Cluster *pass_fuse_cluster(const Fuse *f, const IrOp *op);
/* The transitive closure of a growing set of clusters, none of which depends on
 * another: all clusters that depend on one of them, and all that one of them
 * depends on. */
typedef struct TransitiveClosure {
    Fuse *f;
    int search;
    int first, last; /* no query is outside of these positions */
} TransitiveClosure;
/* The closure of an empty set; queries will be for clusters of operations from
 * first to last. */
TransitiveClosure pass_fuse_closure(Fuse *f, const IrOp *first,
                                    const IrOp *last);
/* No other search may begin between calls of these. */
void pass_fuse_closure_add(TransitiveClosure *r, Cluster *c);
bool pass_fuse_closure_has(const TransitiveClosure *r, const Cluster *c);
/* Moves b's operations to a; they are known not to depend on each other through
 * other clusters. */
void pass_fuse_merge(Fuse *f, Cluster *a, Cluster *b);
/* Splits c into clusters of one operation again, as if none had been merged
 * (but closures are searched for further). */
void pass_fuse_split(Fuse *f, Cluster *c);
/* An order of b's clusters in which each comes after its dependences, close to
 * the current one: at the position of its last operation, or where its first
 * result is needed.  Updates of variables that take wide values come as soon as
 * others have read the variables. */
void pass_fuse_order(Fuse *f, IrBlock *b, ClusterList *order);

/* ---- fuse_cycles.c ------------------------------------------------------ */

/* The order of b's clusters of one operation. */
void pass_fuse_order_begin(Fuse *f, const IrBlock *b);
/* Moves b's operations to a, unless an operation outside of both would have to
 * stand both before and after a kernel of both; returns whether it did.  All
 * clusters of the block so far were merged by this function. */
bool pass_fuse_merge_acyclic(Fuse *f, Cluster *a, Cluster *b);

/* ---- fuse_legal.c ------------------------------------------------------- */

/* Whether the operations of both make one good kernel. f->axes then has their
 * axes; *space the widest axes of the kernel. */
bool pass_fuse_is_legal(Fuse *f, const Cluster *a, const Cluster *b,
                        AxisSet *space);
/* Whether c would be a good kernel, too, if the value of op, one of its
 * operations, were among its results.  Uses f->axes. */
bool pass_fuse_may_store(Fuse *f, const Cluster *c, const IrOp *op);

/* ---- fuse_grow.c, fuse_extract.c ---------------------------------------- */

void pass_fuse_grow(Fuse *f, IrBlock *b);
void pass_fuse_extract(Fuse *f, IrBlock *b);

/* ---- check_stored.c ----------------------------------------------------- */

/* Reports values that kernels read or store and that cannot be stored; false if
 * there is one. */
bool pass_fuse_check_stored(PassCx *cx);

#endif
