/*
 * stage.c - the stages of input pipelines as a table
 */
#include "ir/dataset/stage.h"

#include <string.h>

const IrStageInfo ir_stage_info[NUM_STAGES] = {
#define STAGE(name, source, ints, reads, names, func, other, doc)              \
    {#name, source, ints, READS_##reads, names, func, other, doc},
#include "ir/dataset/stages.def"
#undef STAGE
};

bool
ir_stage_by_name(const char *name, StageKind *out)
{
    for (int k = 0; k < NUM_STAGES; k++) {
        if (strcmp(ir_stage_info[k].name, name) == 0) {
            *out = (StageKind)k;
            return true;
        }
    }
    return false;
}
