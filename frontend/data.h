/*
 * data.h - datasets while compiling
 */
#ifndef TFD_FRONTEND_DATA_H
#define TFD_FRONTEND_DATA_H

#include "frontend/builtins.h"
#include "ir/stage.h"

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

/* A dataset divided among the replicas. */
struct FeDist {
    FeDataset *dataset;
    ShardPolicy shard;
};

/* What an iterator gives: a nest of types. */
typedef struct FeIterInfo {
    const IrIter *iter;
    FeValue *element;
} FeIterInfo;

typedef struct FeData {
    const char *declaring; /* the dataset being declared, or NULL */
    Map *names;            /* of datasets so far */
    VEC(FeIterInfo) iters;
} FeData;

FeData *fe_data(Lower *cx);
/* What may be said of a dataset's elements: a component of type t; POISON with
 * a message when it is too large. */
FeValue *fe_data_type(Lower *cx, IrType t, Loc loc);
/* The dataset that begins with stage; element is a nest of its types. */
FeValue *fe_data_source(Lower *cx, FeValue *element, IrStage stage);
/* A name for a dataset that none has: base, base.2, ... */
const char *fe_data_name(Lower *cx, const char *base);

#endif
