/*
 * data.h - datasets while compiling
 */
#ifndef TFD_FRONTEND_DATA_DATA_H
#define TFD_FRONTEND_DATA_DATA_H

#include "frontend/builtins/builtins.h"
#include "ir/dataset/stage.h"

/* A pipeline as far as it was written.  Not changed once it is a value: a
 * method makes a longer copy. */
struct FeDataset {
    const char *name; /* of the IR's dataset; NULL until it needs one */
    FeValue *element; /* a nest of types */
    VEC(IrStage) stages;
    VEC(FeDataset *) others; /* of each stage: a second dataset, or NULL */
    int64_t num_stages;      /* with those of all datasets that are in it */
    bool endless;            /* it repeats without end */
    StageKind source;        /* of its sources, the one that reads least */
    int64_t batch; /* size of its batches; 0: elements are no batches */
    Dim rows;      /* their leading dimension */
    Loc loc;
};

/* A dataset whose batches are split among the replicas, or a pipeline of its
 * own for each worker or replica (distribute_from). */
struct FeDistDataset {
    VEC(FeDataset *) datasets; /* one; or one for each pipeline */
    bool per_pipeline;
    int64_t max_rows; /* per_pipeline: of a batch; 0: elements have one shape */
    ShardPolicy shard; /* not per_pipeline */
    bool per_worker;   /* for closures alone: each worker has one of its own, */
    WorkerShard workers; /* or its share of it */
    int64_t buffer;      /* as IrIter */
    bool on_host;
};

/* The leading dimension of a batch. */
typedef struct FeBatchRows {
    Lower *cx;
    Dim rows;
} FeBatchRows;

/* The elements of an iterator: a nest of types. */
typedef struct FeIterInfo {
    const IrIter *iter;
    FeValue *element;
    bool per_worker; /* closures take its elements, else main */
} FeIterInfo;

struct FeData {
    const char *declaring; /* the dataset being declared, or NULL */
    Map *names;            /* of datasets so far */
    VEC(FeIterInfo) iters;
};

FeData *fe_data(Lower *cx);
/* The arguments of InputOptions, from argument number i on: fetch_to_device,
 * per_replica_buffer_size, place_dataset_on_device; false with a message. */
bool fe_input_options(Lower *cx, const FeArgs *in, int i, FeDistDataset *out);
/* A component of a dataset's elements, of type t; POISON with a message when it
 * is too large. */
FeValue *fe_data_type(Lower *cx, IrType t, Loc loc);
/* The dataset that begins with stage; element is a nest of its types. */
FeValue *fe_data_source(Lower *cx, FeValue *element, IrStage stage);
/* A copy of ds, to be made longer. */
FeDataset *fe_dataset_extend(Lower *cx, const FeDataset *ds, Loc loc);
/* Adds a stage that ends in elements of the types in ds->element. */
void fe_dataset_push(Lower *cx, FeDataset *ds, IrStage stage);
/* ds as a value; POISON with a message when it has become too long. */
FeValue *fe_dataset_value(Lower *cx, FeDataset *ds);
/* A name for a dataset that none has: base, base.2, ... */
const char *fe_data_name(Lower *cx, const char *base);

/* The argument of the function that makes pipeline number `id`. */
FeValue *fe_input_context(Lower *cx, FeValue *id, FeValue *num_pipelines,
                          Loc loc);
/* One more pipeline, of whole elements; ds NULL: false. */
bool fe_add_pipeline(Lower *cx, FeDistDataset *dist, FeDataset *ds, Loc loc);
/* Whether these arguments of shard() are of the context of a worker. */
bool fe_is_workers_shard(const FeValue *num, const FeValue *index);

FeValue *fe_value_dist_dataset(Lower *cx, FeDistDataset *dist);
/* Argument i as an enumerator (auto, file), even if that name is bound; NULL if
 * it is none. */
const char *fe_arg_enum_name(const FeArgs *in, int i);

/* The elements of one replica where each replica has its own pipeline: a nest
 * of types. *rows is the symbol of its batch, or -1. */
FeValue *fe_replica_element(Lower *cx, const FeDistDataset *dist,
                            int32_t *rows);

/* dataset d = ...; the expression evaluates to a DATASET. */
FeValue *fe_dataset_declare(Lower *cx, const AstNode *dataset);

#endif
