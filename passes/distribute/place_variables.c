/*
 * place_variables.c - variables get their copies, and their initial values
 *
 * Under strategies with several replicas a variable whose synchronization is
 * auto is mirrored: one copy a replica, equal on all; on_read gives each
 * replica a component of its own.  Strategies with one replica keep one copy,
 * on which both attributes have no further effect.
 *
 * An initial value is computed once, at the beginning of main on the host,
 * and written to every copy, so that all copies start equal.  It is written
 * in update context: each part of a sync-on-read sum starts at the whole
 * initial value, as in TensorFlow.
 */
#include <assert.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "passes/support/pass.h"

static void
resolve_sync(IrVar *v)
{
    if (v->sync == SYNC_AUTO)
        v->sync = SYNC_ON_WRITE;
    v->type.locality =
        v->sync == SYNC_ON_READ ? LOCAL_PER_REPLICA : LOCAL_MIRRORED;
}

/* The initializer's body, then the write of its result to every copy, before
 * `first` of main. */
static void
write_initial_value(PassCx *cx, IrVar *v, IrOp *first)
{
    const IrFunc *init = ir_func_find(cx->m, v->init);
    IrBlock *b = ir_block_scratch(first);
    IrCloneMap *map = ir_clone_map(cx->arena);
    ir_clone_body(map, init->body, b);
    IrOp *result = ir_block_yield(b);
    IrValue *value = result->operands[0];
    ir_remove(result);

    IrOp *update = ir_build_op(b, OP_update, 0, NULL, v->loc);
    ir_set_text(update, A_var, v->name);
    ir_build_write(update->regions[0], v->name, UPDATE_set, value, v->loc);
    ir_build_yield(update->regions[0], 0, NULL, v->loc);
    ir_stamp(b, ir_reason(cx->m, "place_variables.initial", v->loc,
                          "the initial value of \"%s\", computed once and "
                          "written to every copy",
                          v->name));
    ir_splice_before(first, b);
}

/* Two variables may share an initializer, and one may belong to no variable:
 * all are removed when all values are written. */
static void
write_initial_values(PassCx *cx, IrOp *first)
{
    IrModule *m = cx->m;
    for (int i = 0; i < m->vars.len; i++) {
        IrVar *v = m->vars.data[i];
        if (v->init)
            write_initial_value(cx, v, first);
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
    return true;
}
