/*
 * nodes.h - what processes send of their replicas: nodes of D2's tree
 *
 * Replicas are the leaves of D2's tree.  A process has some of them in a row;
 * the largest subtrees that lie in its range are its nodes.  It combines the
 * leaves of each by itself, and whoever has the nodes of all processes combines
 * those, in the order of the tree: with the bits that one process would get.
 *
 * Nodes of f16 and bf16 are f32 until the end.  Where that would be more bytes
 * than the leaves are, and of REDUCE_FIRST, the leaves themselves are sent.
 */
#ifndef TFD_RUNTIME_COLL_MESSAGES_NODES_H
#define TFD_RUNTIME_COLL_MESSAGES_NODES_H

#include "ir/base/arena.h"
#include "runtime/coll/algorithm/reduce.h"

typedef struct RtNodes {
    int num;         /* of all processes */
    int *first;      /* of each process, and num */
    int *begin;      /* the first replica of each node, and the number of all */
    int most;        /* nodes of a process */
    bool even;       /* all nodes have as many leaves, except maybe the last */
    int (*pairs)[2]; /* unless even: num - 1 steps; step k makes value num + k
                        of two earlier values */
} RtNodes;

/* Each of `size` processes has as many of the replicas. */
RtNodes *rt_nodes_new(Arena *a, int num_replicas, int size);
/* Every replica is a node. */
RtNodes *rt_nodes_of_leaves(Arena *a, int num_replicas, int size);
/* The node is that replica, of that process. */
RtNodes *rt_nodes_of_one(Arena *a, int size, int process, int replica);

static inline int
rt_nodes_of(const RtNodes *n, int process)
{
    return n->first[process + 1] - n->first[process];
}

/* How elements are combined, in parts. */
typedef struct RtNodeKernel {
    RtReduceKernel *all;    /* leaves to a result, as in one process */
    RtReduceKernel *values; /* nodes to nodes */
    DType stored, value;    /* of leaves and results, and of nodes */
} RtNodeKernel;

/* Memory for what follows, of one thread at a time. */
typedef struct RtNodeScratch RtNodeScratch;
RtNodeScratch *rt_node_scratch_new(Arena *a, int num_replicas);

/* The leaves in[0 .. n), which are a node's, of count elements, to a node. */
void rt_node_make(const RtNodeKernel *k, RtNodeScratch *s, int n,
                  const void *const *in, void *out, int64_t count);
/* All nodes in[0 .. num) to a result.  out may be one of in where nodes have
 * the type of results. */
void rt_nodes_combine(const RtNodeKernel *k, RtNodeScratch *s,
                      const RtNodes *nodes, const void *const *in, void *out,
                      int64_t count);
/* A node that is all of the tree to a result. */
void rt_node_store(const RtNodeKernel *k, const void *in, void *out,
                   int64_t count);

#endif
