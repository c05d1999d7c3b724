/*
 * verify_locality.c - replicas cannot diverge or deadlock
 *
 * They diverge when one of them writes a value that the others do not write;
 * they deadlock when they do not execute the same collectives in the same
 * order.  Localities exclude both: a value that is not per_replica is equal on
 * all replicas, so all take the same path where it is the condition, and
 * collectives that are under no other condition are executed by all in the
 * order of the text.
 *
 * With one replica there is nothing to agree on: once communicate has lowered
 * the program, only the types themselves are checked.
 */
#include <string.h>
#include "ir/rules/locality.h"
#include "ir/rules/rules.h"
#include "ir/type_bounds.h"
#include "ir/verify/verify_impl.h"

static bool
is_per_replica(const IrValue *x)
{
    return x->type.locality == LOCAL_PER_REPLICA;
}

static bool
is_alone(const Verify *v)
{
    return v->module->num_replicas == 1 && v->module->phase >= PHASE_REPLICATED;
}

/* ---- given localities -------------------------------------------------- */

static void
check_results(Verify *v, const IrOp *op)
{
    IrType least;
    for (int i = 0; i < op->num_results; i++) {
        if (ir_locality_of_result(op, i, &least) &&
            !ir_locality_allows(&op->results[i]->type, &least))
            ir_verify_error(v, op, "result %d is %s", i,
                            ir_locality_name(least.locality));
    }
}

static void
check_args(Verify *v, const IrOp *op)
{
    IrType least;
    for (int r = 0; r < op->num_regions; r++) {
        for (int i = 0; i < op->regions[r]->args.len; i++) {
            const IrType *t = &op->regions[r]->args.data[i]->type;
            if (ir_locality_of_arg(op, r, i, &least) &&
                !ir_locality_allows(t, &least))
                ir_verify_error(v, op, "argument %d of a region is %s", i,
                                ir_locality_name(least.locality));
        }
    }
}

/* ---- computing --------------------------------------------------------- */

/* Outside replica and update context per-replica values are passed on, but not
 * computed with. */
static void
check_computing(Verify *v, const IrOp *op)
{
    IrContext cx = ir_context(op->block);
    bool computes = ir_op_info[op->kind].effect == PURE || op->kind == OP_if ||
                    op->kind == OP_for;
    int n = op->kind == OP_for ? 1 : op->num_operands;
    if ((cx != CX_CROSS && cx != CX_MERGE) || !computes || op->kind == OP_copy)
        return;
    for (int i = 0; i < n; i++) {
        if (is_per_replica(op->operands[i]))
            ir_verify_error(v, op,
                            "a per-replica value is computed with in "
                            "cross-replica context");
    }
}

/* ---- writes ------------------------------------------------------------ */

/* The update region around b that makes its context, or NULL. */
static const IrOp *
update_around(const IrBlock *b)
{
    const IrOp *op = ir_context_op(b);
    return op && op->kind == OP_update ? op : NULL;
}

static bool
same_name(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* An update of v may write v and the variables that are where v is. */
static void
check_update_target(Verify *v, const IrOp *op, const IrVar *var)
{
    const IrOp *update = update_around(op->block);
    const char *of = update ? ir_text(update, A_var) : NULL;
    if (!of || same_name(of, var->name) || same_name(of, var->colocate))
        return;
    const IrVar *main_var = ir_var_find(v->module, of);
    if (same_name(main_var->colocate, var->name) ||
        same_name(main_var->colocate, var->colocate))
        return;
    ir_verify_error(v, op, "update of \"%s\" writes it and what is colocated",
                    of);
}

static bool
must_agree(const Verify *v, const IrVar *var, IrContext cx)
{
    if (ir_var_is_own(var))
        return cx == CX_CROSS || cx == CX_MERGE;
    /* In replica context an aggregation combines the values. */
    return cx != CX_REPLICA || var->agg == AGG_none ||
           v->module->phase >= PHASE_REPLICATED;
}

/* Whether a write combines the values of the replicas; after the passes this is
 * explicit. */
static bool
is_aggregated(const Verify *v, const IrVar *var, IrContext cx)
{
    return cx == CX_REPLICA && !ir_var_is_own(var) &&
           v->module->phase < PHASE_REPLICATED;
}

static void
check_write(Verify *v, const IrOp *op)
{
    const IrVar *var = ir_var_find(v->module, ir_text(op, A_var));
    IrContext cx = ir_context(op->block);
    check_update_target(v, op, var);
    if (is_per_replica(op->operands[0]) && must_agree(v, var, cx))
        ir_verify_error(
            v, op,
            "a per-replica value is written to the variable \"%s\", "
            "which is equal on all replicas",
            var->name);
    if (is_per_replica(op->operands[0]) && is_aggregated(v, var, cx) &&
        var->agg == AGG_mean && !dtype_is_float(var->type.dtype))
        ir_verify_error(v, op,
                        "a mean is written to \"%s\", which has integers",
                        var->name);
    if (!ir_var_is_own(var) && ir_divergence(op->block))
        ir_verify_error(v, op,
                        "\"%s\" is written under a per-replica condition",
                        var->name);
}

static void
check_read(Verify *v, const IrOp *op)
{
    const IrVar *var = ir_var_find(v->module, ir_text(op, A_var));
    IrContext cx = ir_context(op->block);
    if (var->sync == SYNC_ON_READ && var->agg == AGG_none &&
        (cx == CX_CROSS || cx == CX_MERGE))
        ir_verify_error(v, op,
                        "\"%s\" has no aggregation to be read by in "
                        "cross-replica context",
                        var->name);
}

/* ---- operations across replicas ----------------------------------------- */

static void
check_collective(Verify *v, const IrOp *op)
{
    if (ir_divergence(op->block))
        ir_verify_error(
            v, op,
            "%s stands under a per-replica condition: some replicas "
            "would wait for the others for ever",
            ir_op_info[op->kind].name);
}

/* Whether a and b are under the same control flow, level by level. */
static bool
same_nesting(const IrBlock *a, const IrBlock *b)
{
    for (; a->op && b->op; a = a->op->block, b = b->op->block) {
        if (a->op->kind != b->op->kind ||
            (a == a->op->regions[0]) != (b == b->op->regions[0]))
            return false;
    }
    return !a->op && !b->op;
}

/* Whether collective a matches collective b, in the variant for full batches.
 */
static bool
same_collective(const IrModule *m, const IrOp *a, const IrOp *b)
{
    if (!ir_attrs_equal(a, b) || a->num_operands != b->num_operands ||
        !same_nesting(a->block, b->block))
        return false;
    for (int i = 0; i < a->num_operands; i++) {
        IrType x = ir_type_full(m, &a->operands[i]->type);
        IrType y = ir_type_full(m, &b->operands[i]->type);
        if (x.dtype != y.dtype || !ir_type_same_shape(&x, &y))
            return false;
    }
    return true;
}

/* The collectives of fn in the order in which devices start them.  When a
 * device waits for one that it has started is its own affair. */
static IrOp **
begun_collectives(Verify *v, const IrFunc *fn, int *num)
{
    int n;
    IrOp **ops = ir_collectives(fn, v->scratch, &n);
    *num = 0;
    for (int i = 0; i < n; i++) {
        if (!ir_op_is_done(ops[i]->kind))
            ops[(*num)++] = ops[i];
    }
    return ops;
}

static void
check_variant(Verify *v, const IrFunc *fn)
{
    int num, num_other;
    const IrFunc *other = ir_func_find(v->module, fn->variant_of);
    IrOp **ops = begun_collectives(v, fn, &num);
    IrOp **others = begun_collectives(v, other, &num_other);
    if (num != num_other)
        ir_verify_error_at(v, fn->loc, "@%s has %d collectives, @%s has %d",
                           fn->name, num, other->name, num_other);
    for (int i = 0; i < num && i < num_other; i++) {
        if (!same_collective(v->module, others[i], ops[i]))
            ir_verify_error(
                v, ops[i],
                "collective %d is not that of @%s: devices that run "
                "one would wait for devices that run the other",
                i, other->name);
    }
}

/* ---- the whole module ---------------------------------------------------- */

static void
check_op(Verify *v, IrOp *op)
{
    check_results(v, op);
    check_args(v, op);
    if (is_alone(v))
        return;
    check_computing(v, op);
    if (op->kind == OP_write)
        check_write(v, op);
    else if (op->kind == OP_read)
        check_read(v, op);
    if (ir_op_info[op->kind].effect == COLLECTIVE)
        check_collective(v, op);
}

void
ir_verify_locality(Verify *v)
{
    ir_verify_walk(v, check_op);
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next) {
        if (fn->variant_of)
            check_variant(v, fn);
    }
}
