/*
 * batches.c - the sizes of batches, as bytes
 */
#include "runtime/ps/parts/batches.h"

#include "ir/analysis/batch.h"

/* Of a word of dims. */
static int64_t
bound_of(const IrModule *m, int word)
{
    for (int32_t i = 0; i < m->symbols.len; i++)
        if (ir_symbol_word(m, i) == word)
            return m->symbols.data[i].bound;
    return INT64_MAX;
}

void
rt_ps_batches(const RtRun *run, RtExecutor *executor, RtArchive *ar)
{
    int num = ir_num_pairs(run->module) * BATCH_WORDS;
    for (int i = 0; i < num; i++)
        rt_archive_i64(ar, &executor->dims[i], 0,
                       ar->reads ? bound_of(run->module, i) : INT64_MAX);
}
