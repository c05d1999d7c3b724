/*
 * node.h - the stages of a pipeline at work
 *
 * A node gives elements one after the other: the consumer hands it an element
 * with room, the node fills it.  A pipeline is a chain of nodes, the source
 * first; each asks the one before it.
 */
#ifndef TFD_RUNTIME_DATA_NODE_H
#define TFD_RUNTIME_DATA_NODE_H

#include "ir/stage.h"
#include "runtime/base/arena.h"
#include "runtime/data/data.h"

/* One element: its components, row-major; rows is the value of the batch
 * symbol that their types name, 0 if none does. */
typedef struct RtElement {
    char **data;
    int64_t rows;
} RtElement;

typedef struct RtNode RtNode;

typedef struct RtNodeOps {
    /* The next element into e; *end instead when there is none. */
    Status (*next)(RtNode *n, RtElement *e, bool *end);
    /* Back to the beginning, after the nodes before it have gone there. */
    Status (*rewind)(RtNode *n);
    void (*close)(RtNode *n); /* NULL: nothing outside its arena */
} RtNodeOps;

struct RtNode {
    const RtNodeOps *ops;
    RtNode *input; /* the node before; NULL for a source */
    const IrModule *module;
    const IrStage *stage;
    Arena *arena;
    uint64_t seed; /* of the pipeline, mixed with the stage's number */
    int64_t pass;  /* how often it was rewound, less one */
    void *state;
};

/* The pipeline of a dataset, at no place yet: rt_node_rewind it first. The
 * last node is given; everything is in arena, except what rt_node_close gives
 * back. */
Status rt_pipeline_new(Arena *arena, const IrModule *m, const IrDataset *d,
                       const RtDataOptions *options, RtNode **out) MUST_USE;
Status rt_node_next(RtNode *n, RtElement *e, bool *end) MUST_USE;
Status rt_node_rewind(RtNode *n) MUST_USE;
void rt_node_close(RtNode *n);

/* Room for one element after the stage, batches at their bounds. */
RtElement rt_element_new(Arena *a, const IrModule *m, const IrStage *stage);

/* Bytes of component i with rows in its batch dimension. */
int64_t rt_component_bytes(const IrStage *stage, int i, int64_t rows);
/* Bytes of one row (of one index of the first dimension). */
int64_t rt_row_bytes(const IrStage *stage, int i);

/* Makers of nodes by stage kind: n is filled in but for ops and state. */
Status rt_source_new(RtNode *n, const RtDataOptions *options) MUST_USE;
Status rt_npy_new(RtNode *n, const RtDataOptions *options) MUST_USE;
Status rt_stage_new(RtNode *n, const RtDataOptions *options) MUST_USE;

/* A source file's path: relative ones start at options->dir. */
const char *rt_data_path(Arena *a, const RtDataOptions *options,
                         const char *path);
/* "file:line:col" of a stage, for messages. */
const char *rt_stage_place(const RtNode *n);

#endif
