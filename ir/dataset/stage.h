/*
 * stage.h - the stages of input pipelines as a table, from stages.def
 */
#ifndef TFD_IR_DATASET_STAGE_H
#define TFD_IR_DATASET_STAGE_H

#include <stdbool.h>
#include "ir/ir.h"

typedef enum StageKind {
#define STAGE(name, source, ints, reads, names, func, other, doc) STAGE_##name,
#include "ir/dataset/stages.def"
#undef STAGE
    NUM_STAGES
} StageKind;

enum {
    IR_MAX_STAGES = 4096, /* of a dataset with all datasets that it reads */
    IR_MAX_PREFETCH = 65536
};

/* csv's first integer: whether the first line has names, and whether columns
 * are looked up by them. */
enum { CSV_NO_HEADER, CSV_HEADER, CSV_NAMES };

typedef enum StageReads { READS_NOTHING, READS_ROWS, READS_STREAM } StageReads;

typedef struct IrStageInfo {
    const char *name;
    bool is_source;
    const char *int_names; /* "size drop_remainder", as IrStage.ints */
    StageReads reads;
    bool has_names, has_func, has_other;
    const char *doc;
} IrStageInfo;

extern const IrStageInfo ir_stage_info[NUM_STAGES];

bool ir_stage_by_name(const char *name, StageKind *out);

/* Of two sources the one that reads less, as StageReads counts. */
StageKind ir_source_reading_less(StageKind a, StageKind b);

/* Of the sources of d, including those of zipped or concatenated datasets, the
 * one that reads least, which is the one that sharding can rely on. */
StageKind ir_dataset_source(const IrModule *m, const IrDataset *d);

/* Whether a pass over stage i of d never ends, given that its sources end. */
bool ir_stage_is_endless(const IrModule *m, const IrDataset *d, int i);

#endif
