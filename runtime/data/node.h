/*
 * node.h - the stages of a running pipeline
 *
 * A node gives elements one after the other: the consumer passes an element
 * with memory, and the node fills it.  A pipeline is a chain of nodes, the
 * source first; each calls the one before it.
 *
 * The position of a node is a function of the number of its pass and of how
 * many elements it gave in it, never of earlier passes.  So a thread that works
 * in advance, or a loop that ends early, changes nothing.
 */
#ifndef TFD_RUNTIME_DATA_NODE_H
#define TFD_RUNTIME_DATA_NODE_H

#include "ir/base/arena.h"
#include "ir/dataset/stage.h"
#include "runtime/checkpoint/archive.h"
#include "runtime/data/data.h"

/* One element: its components, row-major; rows is the value of the batch
 * symbol that their types name, anything if none does. */
typedef struct RtElement {
    char **data;
    int64_t rows;
    /* The memory that data began with, of an element that borrows: a node may
     * set data to memory that it does not change before another pass begins,
     * rather than copy.  NULL: it does not. */
    char **own;
} RtElement;

typedef struct RtNode RtNode;

typedef struct RtNodeOps {
    /* The next element into e; *end instead when there is none.  Not called
     * again in a pass that has ended. */
    Status (*next)(RtNode *n, RtElement *e, bool *end);
    /* Moves to the beginning of pass n->pass, its input first. */
    Status (*rewind)(RtNode *n);
    /* Archives all state that rewind sets and next changes (archive.h); not of
     * n->input, but of other nodes that n asks.  One that reads was in no pass
     * yet: next goes on as it would have. */
    void (*archive)(RtNode *n, RtArchive *ar);
    /* Moves to where *num calls of next would, without making each of the
     * elements; *end when there are fewer.  Takes those that there were off
     * *num.  e is room for one.  NULL: next is called for each. */
    Status (*skip)(RtNode *n, int64_t *num, RtElement *e, bool *end);
} RtNodeOps;

struct RtNode {
    const RtNodeOps *ops;
    RtNode *input; /* the node before; NULL for a source */
    RtNode *other; /* zip, concat: the last node of the other; else NULL */
    const IrModule *module;
    const IrDataset *dataset; /* that it is a stage of */
    const IrStage *stage;
    Arena *arena;
    const int64_t *bytes; /* of each component, batches at their bounds */
    uint64_t seed;        /* --seed */
    RtDataClient *client; /* RtDataOptions' */
    _Atomic int64_t *kept_bytes; /* RtDataOptions'; may be NULL */
    int worker, num_workers;     /* RtDataOptions' */
    uint32_t call_site; /* from 1: no two stages of all pipelines share one */
    uint64_t pass;      /* the number of its current pass */
    bool ended;         /* that pass has no more elements */
    void *state;
};

/* The pipeline of a dataset, before its first pass: rt_node_rewind it first.
 * Returns the last node; everything is in arena. */
Status rt_pipeline_new(Arena *arena, const IrModule *m, const IrDataset *d,
                       const RtDataOptions *options, RtNode **out) MUST_USE;
Status rt_node_next(RtNode *n, RtElement *e, bool *end) MUST_USE;
/* Leaves *num elements out; *end when there are fewer, and *num is how many
 * were missing.  e is room for one, whose content is lost. */
Status rt_node_skip(RtNode *n, int64_t *num, RtElement *e, bool *end) MUST_USE;
/* The same, where each of them is made: for a skip that cannot do better. */
Status rt_node_drop(RtNode *n, int64_t *num, RtElement *e, bool *end) MUST_USE;
Status rt_node_rewind(RtNode *n, uint64_t pass) MUST_USE;
/* Whether n gives elements of a cache as they are: to one that borrows without
 * a copy. */
bool rt_node_lends(const RtNode *n);
/* Archives the positions of n and all nodes before it. */
void rt_node_archive(RtNode *n, RtArchive *ar);

/* ---- files of a pipeline, for sharding ----------------------------------- */

/* How many files each source before `last` reads at least; 0: one reads none.
 */
int64_t rt_pipeline_num_files(const RtNode *last);
/* The files of each source before `last`, all that it had before it was left
 * some. */
void rt_pipeline_files(const RtNode *last, RtTakeFile *take, void *data);
/* Leaves every source its files index, index + num, ... (in the order of paths
 * and, within a wildcard, of names): before the first pass, and there must be
 * as many as num, or index is beyond it and there is none. */
void rt_pipeline_shard_files(RtNode *last, int num, int index);
/* The same of elements: a node behind each source leaves those with other
 * numbers out. */
void rt_pipeline_shard_rows(RtNode **last, int num, int index);
/* The source's files are those that are dealt to this worker. */
void rt_pipeline_deal_files(RtNode *last, RtFileDealer *dealer);

/* ---- making nodes -------------------------------------------------------- */

/* Memory for one element of n, batches at their bounds. */
RtElement rt_element_new(const RtNode *n);
/* An element of n, in memory of rt_element_new. */
void rt_element_archive(const RtNode *n, RtElement *e, RtArchive *ar);
/* The rows of one, which are arbitrary if its types name no batch. */
void rt_rows_archive(const RtNode *n, int64_t *rows, RtArchive *ar);

/* Makers of nodes: n is filled in but for ops and state. */
Status rt_source_new(RtNode *n, const RtDataOptions *options) MUST_USE;
Status rt_files_new(RtNode *n, const RtDataOptions *options) MUST_USE;
Status rt_stage_new(RtNode *n, const RtDataOptions *options) MUST_USE;
void rt_shuffle_new(RtNode *n);
void rt_lanes_new(RtNode *n);
void rt_cache_new(RtNode *n);
void rt_zip_new(RtNode *n);
void rt_concat_new(RtNode *n);

/* "file:line:col" of a stage, for messages. */
const char *rt_stage_location(const RtNode *n);
/* A failure that is about the stage, with its line below it. */
Status rt_stage_show(const RtNode *n, Status st) MUST_USE;

#endif
