/*
 * place_variables.c - variables get their copies, and their initial values
 *
 * Under strategies with several replicas a variable whose synchronization is
 * auto is mirrored: one copy a replica, equal on all; on_read gives each
 * replica a component of its own.  Strategies with one replica keep one copy,
 * on which both attributes have no further effect.
 *
 * An initial value is computed at the beginning of main, by each device for its
 * own copy: no value of a variable's size is ever on the host or travels, and
 * all copies start equal, since all devices compute the same bits (D7, D24).
 * Only what a device cannot do, such as reading a parameter, the host does
 * before.  A value is written in update context: each part of a sync-on-read
 * sum starts at the whole initial value, as in TensorFlow.
 */
#include <assert.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/support/pass.h"

static void
resolve_sync(IrVar *v)
{
    if (v->sync == SYNC_AUTO)
        v->sync = SYNC_ON_WRITE;
    v->type.locality =
        v->sync == SYNC_ON_READ ? LOCAL_PER_REPLICA : LOCAL_MIRRORED;
}

/* Whether only the host executes op. */
static bool
needs_host(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    return op->num_regions || info->effect != PURE || info->code == CODE_host;
}

typedef struct HostUses {
    const IrBlock *init;
    bool of_devices; /* of a value that the devices would make */
} HostUses;

static void
note_host_use(IrOp *op, void *data)
{
    HostUses *u = data;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        u->of_devices |= def && def->block == u->init && !needs_host(def);
    }
}

/* Whether the devices can compute the value from what the host has first, such
 * as parameters, also in branches and loops.  Servers get it from the host. */
static bool
is_made_on_devices(const IrModule *m, const IrFunc *init)
{
    HostUses uses = {init->body, false};
    const IrOp *end = init->body->last;
    if (ir_strategy_info[m->strategy].servers)
        return false;
    for (IrOp *op = init->body->first; op != end; op = op->next)
        if (needs_host(op))
            ir_walk_op(op, note_host_use, &uses);
    return !uses.of_devices;
}

typedef struct Initial {
    PassCx *cx;
    IrOp *first; /* of main */
    Map *params; /* name -> the value that main has of it already */
} Initial;

/* All initializers use one value of a parameter, such as the random seed: each
 * would be an argument of its own of the device's program. */
static void
clone_for_host(const Initial *s, IrCloneMap *map, const IrOp *op, IrBlock *b)
{
    if (op->kind != OP_param) {
        ir_clone_op(map, op, b);
        return;
    }
    const char *name = ir_text(op, A_param);
    IrValue *v = map_get(s->params, name);
    if (!v)
        v = ir_clone_op(map, op, b)->results[0];
    map_set(s->params, name, v);
    ir_clone_set(map, op->results[0], v);
}

/* The initializer's operations, in the update or before it; returns the
 * value. */
static IrValue *
clone_init(const Initial *s, const IrFunc *init, IrBlock *before,
           IrBlock *inside)
{
    IrCloneMap *map = ir_clone_map(s->cx->arena);
    bool on_devices = is_made_on_devices(s->cx->m, init);
    const IrOp *end = init->body->last;
    for (const IrOp *op = init->body->first; op != end; op = op->next)
        if (on_devices && !needs_host(op))
            ir_clone_op(map, op, inside);
        else
            clone_for_host(s, map, op, before);
    return ir_clone_get(map, end->operands[0]);
}

/* The write of the initializer's result to every copy, before `first` of main.
 */
static void
write_initial_value(const Initial *s, const IrVar *v)
{
    IrModule *m = s->cx->m;
    IrOp *first = s->first;
    const IrFunc *init = ir_func_find(m, v->init);
    IrBlock *b = ir_block_scratch(first), *update_at = ir_block_scratch(first);
    IrOp *update = ir_build_op(update_at, OP_update, 0, NULL, v->loc);
    IrBlock *inside = update->regions[0];
    IrValue *value = clone_init(s, init, b, inside);
    ir_set_text(update, A_var, v->name);
    ir_build_write(inside, v->name, UPDATE_set, value, v->loc);
    ir_build_yield(inside, 0, NULL, v->loc);
    const IrReason *reason = ir_reason(
        m, "place_variables.initial", v->loc,
        "the initial value of \"%s\", written to every copy", v->name);
    ir_stamp(b, reason);
    ir_stamp(update_at, reason);
    ir_splice_before(first, b);
    ir_splice_before(first, update_at);
}

/* Two variables may share an initializer, and one may belong to no variable:
 * all are removed when all values are written. */
static void
write_initial_values(PassCx *cx, IrOp *first)
{
    IrModule *m = cx->m;
    Initial s = {cx, first, map_new(cx->arena)};
    for (int i = 0; i < m->vars.len; i++) {
        IrVar *v = m->vars.data[i];
        if (v->init)
            write_initial_value(&s, v);
        v->init = NULL;
    }
    for (IrFunc *fn = m->first, *next; fn; fn = next) {
        next = fn->next;
        if (fn->kind == FUNC_INIT)
            ir_func_remove(fn);
    }
}

bool
pass_place_variables(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_step);
    IrModule *m = cx->m;
    IrFunc *main_fn = ir_main(m);
    for (int i = 0; i < m->vars.len; i++)
        resolve_sync(m->vars.data[i]);
    if (main_fn)
        write_initial_values(cx, main_fn->body->first);
    if (main_fn)
        ir_infer_localities(main_fn);
    return true;
}
