/*
 * function.c - loads functions of the placed module
 *
 * The module is verified, but it comes from a file: places are checked again
 * here, against the actual memory, because the runtime dereferences them.
 */
#include "runtime/exec/function.h"

#include <stdlib.h>
#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/message.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/run_state.h"

/* ---- the size of arenas ------------------------------------------------- */

typedef struct Extent {
    const IrModule *module;
    int64_t most; /* bytes of an arena */
    int64_t end;  /* after the last place */
    bool bad;
} Extent;

static void
extend(Extent *e, int64_t offset, int64_t bytes)
{
    int64_t end;
    if (offset < 0 || bytes < 0 ||
        __builtin_add_overflow(offset, bytes, &end) || end > e->most)
        e->bad = true;
    else if (end > e->end)
        e->end = end;
}

static void
extend_by_value(Extent *e, const IrType *type, const IrPlace *place)
{
    int64_t bytes = -1;
    if (place->space != SPACE_ROW && place->space != SPACE_ARENA)
        return;
    if (!ir_type_bytes(e->module, type, &bytes))
        bytes = -1;
    extend(e, place->offset, bytes);
}

static void
extend_by_op(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_results; i++)
        extend_by_value(data, &op->results[i]->type, &op->results[i]->place);
    for (int r = 0; r < op->num_regions; r++) {
        const IrValues *args = &op->regions[r]->args;
        for (int i = 0; i < args->len; i++)
            extend_by_value(data, &args->data[i]->type, &args->data[i]->place);
    }
}

static Status
set_bytes(RtRun *run, const Extent *e)
{
    if (e->bad)
        return plan_refuse(run->plan, "its values have no place in memory");
    run->arena_bytes = e->end;
    return OK;
}

Status
rt_measure_arena(RtRun *run)
{
    Extent e = {.module = run->module,
                .most = (int64_t)run->caps->max_arena_bytes};
    for (int i = 0; i < run->module->vars.len; i++) {
        const IrVar *v = run->module->vars.data[i];
        extend_by_value(&e, &v->type, &v->place);
    }
    for (IrFunc *fn = run->module->first; fn; fn = fn->next) {
        if (fn->kind == FUNC_PROGRAM)
            extend(&e, 0, fn->arena_bytes);
        if (fn->kind == FUNC_PROGRAM || fn->kind == FUNC_MAIN)
            ir_walk(fn->body, extend_by_op, &e);
    }
    return set_bytes(run, &e);
}

Status
rt_reserve_arena(RtRun *run, int64_t end)
{
    Extent e = {.most = (int64_t)run->caps->max_arena_bytes,
                .end = run->arena_bytes};
    extend(&e, 0, end);
    return set_bytes(run, &e);
}

/* ---- values ------------------------------------------------------------ */

/* The limit of offsets of a space in fn, or -1 if fn has no such places. */
static int64_t
space_size(const RtRun *run, const RtFunction *fn, IrSpace space)
{
    bool is_main = fn->ir->kind == FUNC_MAIN;
    switch (space) {
    case SPACE_FRAME:
        return is_main ? ir_frame_bytes(fn->ir) : -1;
    case SPACE_ROW:
        return is_main ? run->arena_bytes : -1;
    case SPACE_ARENA:
        if (is_main)
            return -1;
        return fn->ir->kind == FUNC_PROGRAM ? run->arena_bytes
                                            : fn->ir->arena_bytes;
    case SPACE_IN:
        return fn->num_in;
    case SPACE_OUT:
        return fn->num_out;
    case SPACE_NONE:
        break;
    }
    return -1;
}

static bool
is_placed(const RtRun *run, const RtFunction *fn, const IrValue *v)
{
    IrPlace p = v->place;
    bool is_pointer = p.space == SPACE_IN || p.space == SPACE_OUT;
    int64_t bytes, size = space_size(run, fn, p.space);
    if (!ir_type_bytes(run->module, &v->type, &bytes))
        return false;
    if (is_pointer)
        bytes = 1; /* of the table of pointers, that is */
    return p.offset >= 0 && bytes <= size && p.offset <= size - bytes;
}

/* Main's values are rows, which replicas of one device also share. */
static bool
is_shared(const RtFunction *fn, const IrValue *v)
{
    if (fn->ir->kind == FUNC_MAIN)
        return v->place.space == SPACE_ROW &&
               v->type.locality != LOCAL_PER_REPLICA;
    return fn->ir->kind == FUNC_PROGRAM && ir_value_is_shared(v);
}

Status
rt_load_value(const RtRun *run, const RtFunction *fn, const IrValue *from,
              RtValue *v)
{
    if (!is_placed(run, fn, from))
        return plan_refuse(run->plan, "a value of @%s has no place in memory",
                           fn->ir->name);
    *v = rt_value_of(run->module, from);
    v->shared = is_shared(fn, from);
    return OK;
}

static Status
load_values(RtRun *run, const RtFunction *fn, int n, IrValue *const *from,
            RtValue **out)
{
    *out = NEW_ARRAY(run->arena, RtValue, (size_t)n);
    for (int i = 0; i < n; i++)
        TRY(rt_load_value(run, fn, from[i], &(*out)[i]));
    return OK;
}

/* ---- operations -------------------------------------------------------- */

/* 0 where there is no job. */
static int32_t
site_of(const RtRun *run, const IrOp *op)
{
    for (int i = 0; i < run->sites.len; i++)
        if (run->sites.data[i] == op)
            return i;
    return 0;
}

static Status
load_op(RtRun *run, RtFunction *fn, IrOp *op, RtHostOp *h)
{
    const RtHostOpInfo *info = &run->host_ops[op->kind];
    if (!(info->where & 1U << fn->ir->kind))
        return plan_refuse(run->plan, "@%s has a %s, which it must not",
                           fn->ir->name, ir_op_info[op->kind].name);
    h->op = op;
    h->site = site_of(run, op);
    h->run = info->run;
    h->only_enqueues = info->only_enqueues;
    TRY(load_values(run, fn, op->num_operands, op->operands, &h->in));
    TRY(load_values(run, fn, op->num_results, op->results, &h->out));
    if (op->num_operands > run->max_operands)
        run->max_operands = op->num_operands;
    return info->prepare(run, fn, h);
}

/* ---- functions --------------------------------------------------------- */

static int
num_returned(const IrFunc *fn)
{
    const IrOp *last = fn->body->last;
    return last && last->kind == OP_return ? last->num_operands : 0;
}

static Status
load_ops(RtRun *run, RtFunction *fn)
{
    IrHooks hooks = ir_hooks(run->arena, fn->ir);
    fn->num_ops = hooks.ops.len;
    fn->num_safepoints = hooks.safepoints.len;
    fn->positions = hooks.positions;
    fn->ops = NEW_ARRAY(run->arena, RtHostOp, (size_t)fn->num_ops);
    for (int i = 0; i < fn->num_ops; i++)
        TRY(load_op(run, fn, hooks.ops.data[i], &fn->ops[i]));
    return OK;
}

Status
rt_load_function(RtRun *run, const char *name, IrFuncKind kind,
                 RtFunction **out)
{
    IrFunc *ir = ir_func_find(run->module, name);
    if (!ir || ir->kind != kind)
        return plan_refuse(run->plan, "it has no function @%s of that kind",
                           name);
    *out = map_get(run->fns, name);
    if (*out)
        return OK;
    RtFunction *fn = NEW(run->arena, RtFunction);
    *fn = (RtFunction){.ir = ir,
                       .number = plan_program_number(run->plan, ir),
                       .num_in = ir->body->args.len,
                       .num_out = num_returned(ir)};
    fn->code = rt_code_function(
        run->code, kind == FUNC_MAIN
                       ? "tfd_main"
                       : arena_printf(run->arena, "p_%s", ir->name));
    if (!fn->code)
        return plan_refuse(run->plan, "it has no code for @%s", name);
    map_set(run->fns, name, fn);
    TRY(load_ops(run, fn));
    *out = fn;
    return OK;
}
