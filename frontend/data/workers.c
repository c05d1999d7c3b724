/*
 * workers.c - datasets that a coordinator's workers have, and how they share
 *             them
 *
 * How many workers there are is known only when a job starts.  So the context
 * of a function that makes a worker's dataset has params for its number, which
 * no program declares: functions of elements compute with them, and shard()
 * takes them.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/messages.h"
#include "frontend/data/data.h"
#include "frontend/lower/call.h"

#include <string.h>
#include "ir/dataset/sharding.h"
#include "ir/words.h"

/* ---- the context -------------------------------------------------------- */

/* As it is where one process is all workers, unless it is told otherwise. */
static FeValue *
worker_param(Lower *cx, const char *name, int64_t alone, Loc loc)
{
    IrModule *m = cx->module;
    IrParam *p = ir_param_find(m, name);
    if (!p) {
        p = NEW(cx->arena, IrParam);
        p->name = intern(cx->names, name);
        p->dtype = DT_i64;
        p->value = scalar_int(DT_i64, alone);
        p->loc = loc;
        VEC_PUSH(cx->arena, m->params, p);
    }
    return fe_value_param(cx->arena, p);
}

static bool
is_param(const FeValue *v, const char *name)
{
    return v && v->kind == FE_PARAM && strcmp(v->param->name, name) == 0;
}

bool
fe_is_workers_shard(const FeValue *num, const FeValue *index)
{
    return is_param(num, IR_NUM_PIPELINES) && is_param(index, IR_PIPELINE_ID);
}

/* ---- what is given ------------------------------------------------------ */

/* A dataset, a distributed one, or a function that makes one, with the context
 * or without. */
static FeValue *
worker_dataset(Lower *cx, const FeArgs *in)
{
    FeValue *v = fe_arg(in, 0);
    Loc loc = fe_arg_loc(in, 0);
    if (v->kind != FE_FUNC)
        return v;
    if (v->func.fn->fn.params.len == 0)
        return fe_call_with(cx, v, 0, NULL, false, "called", loc);
    FeValue *id = worker_param(cx, IR_PIPELINE_ID, 0, loc);
    FeValue *num = worker_param(cx, IR_NUM_PIPELINES, 1, loc);
    FeValue *context = fe_input_context(cx, id, num, loc);
    return fe_call_with(cx, v, 1, &context, false, "called", loc);
}

/* ---- sharing ------------------------------------------------------------ */

static int
word_index(const char *word)
{
    return word ? ir_word_index(ir_worker_shard_words, word, strlen(word)) : -1;
}

/* A word; or a constant that is one, unless its name is one, too. */
static bool
read_worker_shard(Lower *cx, const FeArgs *in, WorkerShard *out)
{
    const FeValue *v = fe_arg(in, 1);
    *out = WORKER_SHARD_OFF;
    if (!in->args[1])
        return true;
    int i = word_index(fe_arg_enum_name(in, 1));
    if (i < 0 && v && v->kind == FE_STRING && !fe_text_is_late(&v->text))
        i = word_index(v->text.text);
    if (i < 0)
        fe_error(cx, fe_arg_loc(in, 1),
                 "shard of per_worker is off, data, file or dynamic");
    else
        *out = (WorkerShard)i;
    return i >= 0;
}

static bool
reads_several(const FeDistDataset *dist)
{
    const FeDataset *ds = dist->datasets.data[0];
    bool several = dist->datasets.len > 1;
    for (int i = 0; i < ds->others.len; i++)
        several |= ds->others.data[i] != NULL;
    return several;
}

/* Files that belong together (zip) would go to different workers. */
static bool
check_worker_shard(Lower *cx, const FeDistDataset *dist, Loc loc)
{
    const IrStageInfo *source = &ir_stage_info[dist->datasets.data[0]->source];
    bool by_file = dist->workers == WORKER_SHARD_FILE ||
                   dist->workers == WORKER_SHARD_DYNAMIC;
    if (by_file && !source->reads)
        fe_error_note(cx, loc,
                      "shard = data gives each worker its part of them",
                      "workers cannot share the elements of %s by file: it "
                      "reads no file",
                      source->name);
    else if (dist->workers == WORKER_SHARD_DYNAMIC && reads_several(dist))
        fe_error_note(cx, loc,
                      "shard = file gives each worker the same files of each",
                      "only the files of one dataset are dealt to workers, and "
                      "this one is made of several");
    else
        return true;
    return false;
}

FeValue *
fe_builtin_per_worker(Lower *cx, const FeArgs *in)
{
    FeDistDataset *dist = NEW(cx->arena, FeDistDataset);
    dist->buffer = 1;
    if (!fe_check_coordinator(cx, "per_worker", in->loc))
        return &fe_poison;
    FeValue *v = worker_dataset(cx, in);
    if (fe_is_poison(v))
        return v;
    if (v->kind == FE_DIST) {
        *dist = *v->dist;
    } else if (v->kind == FE_DATASET) {
        dist->per_pipeline = true;
        if (!fe_add_pipeline(cx, dist, v->dataset, fe_arg_loc(in, 0)))
            return &fe_poison;
    } else {
        return fe_error(cx, fe_arg_loc(in, 0),
                        "per_worker takes a dataset, or a function that makes "
                        "one, not %s",
                        fe_describe(cx, v));
    }
    dist->per_worker = true;
    if (!read_worker_shard(cx, in, &dist->workers) ||
        !check_worker_shard(cx, dist, fe_arg_loc(in, 1)))
        return &fe_poison;
    return fe_value_dist_dataset(cx, dist);
}
