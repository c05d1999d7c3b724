/*
 * stage.h - the stages of input pipelines as a table, from stages.def
 */
#ifndef TFD_IR_STAGE_H
#define TFD_IR_STAGE_H

#include <stdbool.h>

typedef enum StageKind {
#define STAGE(name, source, ints, text, func, other, doc) STAGE_##name,
#include "ir/stages.def"
#undef STAGE
    NUM_STAGES
} StageKind;

enum { STAGE_MAX_INTS = 4 };

typedef struct IrStageInfo {
    const char *name;
    bool is_source;
    const char *int_names; /* "size drop_remainder", as IrStage.ints */
    bool has_text, has_func, has_other;
    const char *doc;
} IrStageInfo;

extern const IrStageInfo ir_stage_info[NUM_STAGES];

bool ir_stage_by_name(const char *name, StageKind *out);

#endif
