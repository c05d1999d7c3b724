/*
 * expand.c - one copy of each program for each device, to be read
 *
 * Programs are shared by equal devices so that compile time and plans do not
 * grow with their number; they differ only in replica_id, which becomes a
 * constant in each copy.
 */
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "passes/passes.h"

static void
fix_replica(IrOp *op, void *data)
{
    int replica = *(const int *)data;
    if (op->kind != OP_replica_id)
        return;
    IrBlock *b = ir_block_scratch(op);
    IrValue *number = ir_const_int(b, DT_i32, replica, op->loc);
    ir_stamp(b, ir_reason_for(op, "expand.replica", "the program of device %d",
                              replica));
    ir_splice_before(op, b);
    ir_forward(op->results[0], number);
    ir_remove(op);
}

static void
copy_for_replica(IrModule *m, const IrFunc *fn, int replica)
{
    const char *name = intern(
        m->names, arena_printf(m->arena, "%s.device%d", fn->name, replica));
    IrFunc *copy = ir_func_new(m, name, FUNC_PROGRAM, fn->loc);
    copy->arena_bytes = fn->arena_bytes;
    IrCloneMap *map = ir_clone_map(m->arena);
    for (int i = 0; i < fn->body->args.len; i++) {
        const IrValue *arg = fn->body->args.data[i];
        IrValue *own = ir_block_arg(copy->body, arg->type, arg->name);
        own->place = arg->place;
        ir_clone_set(map, arg, own);
    }
    ir_clone_body(map, fn->body, copy->body);
    ir_walk(copy->body, fix_replica, &replica);
    ir_apply_forwards(copy);
}

IrModule *
pass_expand_devices(const IrModule *m, Arena *a)
{
    IrModule *copy = ir_clone_module(m, a);
    IrFunc *last = copy->last;
    for (IrFunc *fn = copy->first, *next; fn; fn = next) {
        next = fn == last ? NULL : fn->next;
        if (fn->kind != FUNC_PROGRAM)
            continue;
        for (int r = 0; r < copy->num_replicas; r++)
            copy_for_replica(copy, fn, r);
        ir_func_remove(fn);
    }
    return copy;
}
