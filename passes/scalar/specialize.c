/*
 * specialize.c - a variant of each program for full batches (D1)
 *
 * A program whose shapes depend on a batch gets a variant in which n and N are
 * their bounds.  A launch names both; a device whose shares of the batches are
 * full runs the variant, where every extent is a constant.  Both have the same
 * collectives in the same order, so one device may run the program while
 * another runs the variant.
 */
#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "passes/support/pass.h"

static void
fill_type(const IrModule *m, IrType *t)
{
    for (int i = 0; i < t->rank; i++)
        t->dims[i] = ir_dim_full(m, t->dims[i]);
}

static void
fill_dims_attr(IrModule *m, IrOp *op)
{
    int n;
    if (ir_attr_index(op->kind, A_dims) < 0 || !ir_has(op, A_dims))
        return;
    const Dim *dims = ir_dims(op, A_dims, &n);
    Dim full[IR_MAX_RANK];
    for (int i = 0; i < n; i++)
        full[i] = ir_dim_full(m, dims[i]);
    /* row_start depends on the batch, not on its length */
    if (op->kind != OP_row_start)
        ir_set_dims(op, A_dims, full, n);
}

static void
fill_op(IrOp *op, void *data)
{
    IrModule *m = data;
    fill_dims_attr(m, op);
    for (int i = 0; i < op->num_results; i++)
        fill_type(m, &op->results[i]->type);
    for (int i = 0; i < op->num_regions; i++)
        for (int j = 0; j < op->regions[i]->args.len; j++)
            fill_type(m, &op->regions[i]->args.data[j]->type);
}

static bool
type_hangs_on_batch(const IrType *t)
{
    return !ir_type_is_static(t);
}

static void
note_batch(IrOp *op, void *data)
{
    bool *found = data;
    for (int i = 0; i < op->num_results; i++)
        *found |= type_hangs_on_batch(&op->results[i]->type);
    *found |= op->kind == OP_dim_size;
}

static bool
hangs_on_batch(const IrFunc *fn)
{
    bool found = false;
    for (int i = 0; i < fn->body->args.len; i++)
        found |= type_hangs_on_batch(&fn->body->args.data[i]->type);
    ir_walk(fn->body, note_batch, &found);
    return found;
}

/* Whether op gathers full batches whose parts differ in length, as those of
 * five rows over three replicas: then the length of its result is not a sum of
 * constants. */
static void
note_uneven_gather(IrOp *op, void *data)
{
    bool *found = data;
    if (op->kind != OP_all_gather)
        return;
    const IrModule *m = op->module;
    int64_t axis = ir_int(op, A_axis);
    Dim part, of_all = ir_dim_const(m->num_replicas);
    part = ir_dim_full(m, op->operands[0]->type.dims[axis]);
    *found |=
        !ir_dim_mul(part, of_all, &of_all) ||
        !ir_dim_equal(of_all, ir_dim_full(m, op->results[0]->type.dims[axis]));
}

static bool
gathers_unevenly(const IrFunc *fn)
{
    bool found = false;
    ir_walk(fn->body, note_uneven_gather, &found);
    return found;
}

static IrFunc *
full_variant(PassCx *cx, const IrFunc *fn)
{
    IrModule *m = cx->m;
    const char *name =
        intern(m->names, arena_printf(cx->arena, "%s.full", fn->name));
    IrFunc *full = ir_func_new(m, name, FUNC_PROGRAM, fn->loc);
    full->variant_of = fn->name;
    IrCloneMap *map = ir_clone_map(cx->arena);
    for (int i = 0; i < fn->body->args.len; i++) {
        IrValue *arg = fn->body->args.data[i];
        IrType t = arg->type;
        fill_type(m, &t);
        ir_clone_set(map, arg, ir_block_arg(full->body, t, arg->name));
    }
    ir_clone_body(map, fn->body, full->body);
    ir_walk(full->body, fill_op, m);
    return full;
}

typedef struct Variant {
    IrModule *m;
    const char *program, *full;
} Variant;

static void
name_variant(IrOp *op, void *data)
{
    const Variant *v = data;
    if (op->kind == OP_launch && !strcmp(ir_text(op, A_program), v->program))
        ir_set_text(op, A_full, v->full);
}

static void
name_in_launches(IrModule *m, const IrFunc *fn, const IrFunc *full)
{
    Variant v = {m, fn->name, full->name};
    IrFunc *main_fn = ir_main(m);
    if (main_fn)
        ir_walk(main_fn->body, name_variant, &v);
}

static bool
has_variant(const IrFunc *program)
{
    for (const IrFunc *fn = program->module->first; fn; fn = fn->next)
        if (fn->variant_of && !strcmp(fn->variant_of, program->name))
            return true;
    return false;
}

bool
pass_specialize(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        if (fn->kind != FUNC_PROGRAM || fn->variant_of || fn->worker_of ||
            fn->part_of || /* a part gets some of a batch */
            has_variant(fn) || !hangs_on_batch(fn) || gathers_unevenly(fn))
            continue;
        name_in_launches(cx->m, fn, full_variant(cx, fn));
    }
    return true;
}
