/*
 * central.c - variables that live on one device
 *
 *   read v                  %own = replica_id == home
 *                           %x = if %own { read v } { zeros }
 *                           %v = all_reduce %x {op=first root=home}
 *   write v                 if %own { write v }
 *
 * A variable whose locality is on(itself) is final: only its home accesses it,
 * so the verifier does not require the replicas to agree on it.
 */
#include "passes/distribute/central.h"

#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"

static bool
is_central(const IrModule *m)
{
    return m->num_replicas > 1 && ir_strategy_info[m->strategy].central;
}

bool
pass_central_has(const IrModule *m, const IrVar *v)
{
    return is_central(m) && v->sync != SYNC_ON_READ;
}

bool
pass_central_has_any(const IrModule *m)
{
    if (!is_central(m))
        return false;
    for (int i = 0; i < m->vars.len; i++)
        if (pass_central_has(m, m->vars.data[i]))
            return true;
    return false;
}

static IrOp *
build_is_home(IrBlock *b, Loc loc)
{
    IrValue *id = ir_build0(b, OP_replica_id, loc);
    IrValue *home = ir_const_int(b, DT_i32, b->func->module->home, loc);
    IrValue *own = ir_build2(b, OP_eq, id, home, loc);
    return ir_build_op(b, OP_if, 1, &own, loc);
}

IrBlock *
pass_central_begin(IrBlock *b, Loc loc)
{
    return build_is_home(b, loc)->regions[0];
}

static void
yield_zeros(IrBlock *b, int n, IrValue **like, Loc loc)
{
    IrValues zeros = {0};
    for (int i = 0; i < n; i++)
        VEC_PUSH(b->func->module->arena, zeros,
                 ir_const_zeros(b, &like[i]->type, loc));
    ir_build_yield(b, n, zeros.data, loc);
}

void
pass_central_end(IrBlock *home, int n, IrValue **values, Loc loc)
{
    assert(home->op && home->op->kind == OP_if && home == home->op->regions[0]);
    assert(!ir_block_yield(home));
    IrOp *choice = home->op;
    ir_build_yield(home, n, values, loc);
    yield_zeros(choice->regions[1], n, values, loc);
    ir_op_close(choice);
    if (!n)
        return;
    IrOp *all =
        ir_build_all_reduce(choice->block, AGG_first, n, choice->results, loc);
    int at = choice->block->func->module->home;
    if (at)
        ir_set_int(all, A_root, at);
    memcpy(values, all->results, (size_t)n * sizeof *values);
}

IrValue *
pass_central_read(IrBlock *b, const IrVar *v, Loc loc)
{
    assert(pass_central_has(b->func->module, v));
    IrBlock *home = pass_central_begin(b, loc);
    IrValue *own = ir_build_read(home, v->name, loc);
    pass_central_end(home, 1, &own, loc);
    return own;
}

IrOp *
pass_central_convergence_point(IrOp *op)
{
    for (const IrOp *around; (around = ir_divergence(op->block));)
        op = around->regions[0]->op;
    return op;
}

void
pass_central_assign_localities(IrModule *m)
{
    for (int i = 0; i < m->vars.len; i++) {
        IrVar *v = m->vars.data[i];
        if (!pass_central_has(m, v))
            continue;
        v->type.locality = LOCAL_ON;
        v->type.on = v->name;
    }
}
