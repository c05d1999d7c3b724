/*
 * locality.c - where values are, and whether the replicas agree on them
 *
 * The result of an operation on equal inputs is equal: localities join.  The
 * results of control flow are joined over all paths, and are per_replica
 * wherever the replicas may take different paths.  Loops are solved by
 * iteration from the least locality: localities only grow, so it terminates.
 */

#include "ir/base/status.h"
#include "ir/loop.h"
#include "ir/rules/locality.h"
#include "ir/rules/rules.h"
#include "ir/type_bounds.h"

/* The least locality of values in b. */
static Locality
floor_of(const IrBlock *b)
{
    bool host = b->func->kind != FUNC_PROGRAM && !ir_context_op(b);
    return host ? LOCAL_HOST : LOCAL_MIRRORED;
}

/* ---- joins ------------------------------------------------------------- */

static void
set_locality(IrType *t, Locality l)
{
    t->locality = l;
    t->on = NULL;
}

/* Raises t's locality to that of a value computed from it and `with`. */
static void
join(IrType *t, const IrType *with)
{
    if (t->locality == LOCAL_ON && with->locality == LOCAL_ON &&
        t->on != with->on) {
        set_locality(t, LOCAL_MIRRORED);
    } else if (with->locality > t->locality) {
        t->locality = with->locality;
        t->on = with->on;
    }
}

bool
ir_locality_allows(const IrType *declared, const IrType *least)
{
    if ((declared->locality == LOCAL_HOST) != (least->locality == LOCAL_HOST))
        return false;
    if (declared->locality == LOCAL_ON && least->locality == LOCAL_ON)
        return declared->on == least->on;
    return declared->locality >= least->locality;
}

bool
ir_type_allows(const IrType *declared, const IrType *inferred)
{
    return declared->dtype == inferred->dtype &&
           ir_type_same_shape(declared, inferred) &&
           ir_locality_allows(declared, inferred);
}

/* If operands are on two different variables, the result is on all devices. */
static bool
is_torn(const IrOp *op)
{
    const char *on = NULL;
    for (int i = 0; i < op->num_operands; i++) {
        const IrType *t = &op->operands[i]->type;
        if (t->locality != LOCAL_ON)
            continue;
        if (on && on != t->on)
            return true;
        on = t->on;
    }
    return false;
}

/* A value whose shape has the rows of one replica is per_replica. */
static void
raise_local_shape(const IrModule *m, IrType *t)
{
    if (ir_type_is_local(m, t))
        set_locality(t, LOCAL_PER_REPLICA);
}

/* ---- rules of the table ------------------------------------------------ */

static const char *
set(IrType *out, Locality l)
{
    set_locality(out, l);
    return NULL;
}

const char *
ir_locality_none(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}

const char *
ir_locality_given(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i, (void)out;
    return NULL;
}

const char *
ir_locality_host(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set(out, LOCAL_HOST);
}

const char *
ir_locality_mirrored(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set(out, LOCAL_MIRRORED);
}

const char *
ir_locality_replica(const Infer *in, int i, IrType *out)
{
    (void)in, (void)i;
    return set(out, LOCAL_PER_REPLICA);
}

const char *
ir_locality_context(const Infer *in, int i, IrType *out)
{
    (void)i;
    set_locality(out, floor_of(in->at));
    raise_local_shape(in->module, out);
    return NULL;
}

const char *
ir_locality_join(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrOp *op = in->op;
    set_locality(out, floor_of(in->at));
    for (int k = 0; k < op->num_operands; k++)
        join(out, &op->operands[k]->type);
    if (out->locality == LOCAL_ON && is_torn(op))
        set_locality(out, LOCAL_MIRRORED);
    raise_local_shape(in->module, out);
    return NULL;
}

const char *
ir_locality_first(const Infer *in, int i, IrType *out)
{
    (void)i;
    set_locality(out, floor_of(in->at));
    join(out, &in->op->operands[0]->type);
    raise_local_shape(in->module, out);
    return NULL;
}

const char *
ir_locality_dim(const Infer *in, int i, IrType *out)
{
    (void)i;
    int count;
    const Dim *dims = ir_dims(in->op, A_dims, &count);
    IrType asked = {.rank = 1, .dims = {dims[0]}};
    set_locality(out, ir_type_is_local(in->module, &asked) ? LOCAL_PER_REPLICA
                                                           : floor_of(in->at));
    return NULL;
}

/* main reads one value (that of a sync-on-read variable is aggregated); a
 * replica, and update, read its own copy. */
const char *
ir_locality_var(const Infer *in, int i, IrType *out)
{
    (void)i;
    const IrVar *var = ir_var_find(in->module, ir_text(in->op, A_var));
    IrContext cx = ir_context(in->at);
    bool own = cx == CX_REPLICA || cx == CX_UPDATE;
    if (own && ir_var_is_own(var))
        return set(out, LOCAL_PER_REPLICA);
    return set(out, floor_of(in->at));
}

const char *
ir_locality_on(const Infer *in, int i, IrType *out)
{
    (void)i;
    const char *name = ir_text(in->op, A_var);
    if (!name)
        return set(out, LOCAL_MIRRORED);
    const char *wrong;
    const IrVar *var = ir_rule_var(in, &wrong);
    if (!var)
        return wrong;
    out->locality = LOCAL_ON;
    out->on = intern(in->module->names, var->name);
    return NULL;
}

/* ---- control flow ------------------------------------------------------ */

/* The value that decides which path op takes, or NULL. */
static const IrValue *
decider(const IrOp *op)
{
    if ((op->kind == OP_if || op->kind == OP_for) && op->num_operands)
        return op->operands[0];
    if (op->kind == OP_while && op->regions[0]) {
        const IrOp *yield = ir_block_yield(op->regions[0]);
        if (yield && yield->num_operands)
            return yield->operands[0];
    }
    return NULL;
}

static bool
is_diverging(const IrOp *op)
{
    const IrValue *v = decider(op);
    return v && v->type.locality == LOCAL_PER_REPLICA;
}

const IrOp *
ir_divergence(const IrBlock *b)
{
    const IrOp *end = ir_context_op(b);
    for (const IrOp *op = b->op; op != end; op = op->block->op) {
        if (is_diverging(op))
            return op;
    }
    return NULL;
}

/* Joins operand i of the yield of region r into t; false if there is none. */
static bool
join_yield(IrType *t, const IrOp *op, int r, int i)
{
    const IrBlock *b = r < op->num_regions ? op->regions[r] : NULL;
    const IrOp *yield = b ? ir_block_yield(b) : NULL;
    if (!yield || i >= yield->num_operands)
        return false;
    join(t, &yield->operands[i]->type);
    return true;
}

/* The initial value of carried value i of a loop. */
static const IrValue *
initial_value(const IrOp *op, int i)
{
    int k = i + (op->kind == OP_for);
    return k < op->num_operands ? op->operands[k] : NULL;
}

static int
body_region(const IrOp *op)
{
    return op->kind == OP_while;
}

/* A carried value is never on a variable, but mirrored.  So the localities of a
 * loop's arguments are totally ordered, and solving terminates. */
static void
join_loop(IrType *t, const IrOp *op, int i)
{
    const IrValue *init = initial_value(op, i);
    if (init)
        join(t, &init->type);
    join_yield(t, op, body_region(op), i);
    if (t->locality == LOCAL_ON)
        set_locality(t, LOCAL_MIRRORED);
}

bool
ir_locality_of_result(const IrOp *op, int i, IrType *out)
{
    bool known = true;
    *out = op->results[i]->type;
    set_locality(out, floor_of(op->block));
    if (is_diverging(op)) {
        set_locality(out, LOCAL_PER_REPLICA);
        return true;
    }
    switch (op->kind) {
    case OP_run:
    case OP_schedule:
    case OP_merge:
    case OP_update:
    case OP_kernel:
        known = join_yield(out, op, 0, i);
        break;
    case OP_if:
        known = join_yield(out, op, 0, i) && join_yield(out, op, 1, i);
        break;
    case OP_for:
    case OP_while:
        join_loop(out, op, i);
        break;
    case OP_custom_gradient:
    case OP_recompute:
        join(out, &op->operands[i]->type);
        break;
    default:
        return false;
    }
    raise_local_shape(op->module, out);
    return known;
}

/* A gradient in a replica may be that replica's own part, even of a value that
 * is the same on all. */
static void
join_gradient(IrType *t, const IrOp *op, int i)
{
    if (ir_context(op->block) == CX_REPLICA)
        set_locality(t, LOCAL_PER_REPLICA);
    else if (i < op->num_results)
        join(t, &op->results[i]->type);
}

bool
ir_locality_of_arg(const IrOp *op, int r, int i, IrType *out)
{
    *out = op->regions[r]->args.data[i]->type;
    set_locality(out, floor_of(op->regions[r]));
    if (op->kind == OP_kernel && i < op->num_operands)
        join(out, &op->operands[i]->type);
    else if (op->kind == OP_for && i == 0 && op->num_operands)
        join(out, &op->operands[0]->type);
    else if (ir_is_loop(op))
        join_loop(out, op, i - (op->kind == OP_for));
    else if (op->kind == OP_custom_gradient)
        join_gradient(out, op, i);
    else
        return false;
    raise_local_shape(op->module, out);
    return true;
}

/* ---- solving a function ------------------------------------------------ */

static bool
is_settled(const IrOp *op)
{
    switch (op->kind) {
    case OP_run:
    case OP_schedule:
    case OP_merge:
    case OP_update:
    case OP_kernel:
    case OP_if:
    case OP_for:
    case OP_while:
    case OP_custom_gradient:
    case OP_recompute:
        return true;
    default:
        return ir_is_inferred(op->kind);
    }
}

/* Everything begins with the least locality: a loop's argument must not keep
 * one that an earlier body gave it. */
static void
reset_localities(IrOp *op, void *data)
{
    (void)data;
    for (int i = 0; i < op->num_results && is_settled(op); i++)
        set_locality(&op->results[i]->type, floor_of(op->block));
    for (int r = 0; r < op->num_regions && is_settled(op); r++) {
        const IrValues *args = &op->regions[r]->args;
        for (int i = 0; i < args->len; i++)
            set_locality(&args->data[i]->type, floor_of(op->regions[r]));
    }
}

static bool
raise_arguments(IrOp *op)
{
    bool changed = false;
    for (int r = 0; r < op->num_regions; r++) {
        for (int i = 0; i < op->regions[r]->args.len; i++) {
            IrType *t = &op->regions[r]->args.data[i]->type, least;
            Locality before = t->locality;
            if (ir_locality_of_arg(op, r, i, &least))
                join(t, &least);
            changed |= t->locality != before;
        }
    }
    return changed;
}

static void
infer_localities(IrOp *op)
{
    bool inferred = ir_is_inferred(op->kind);
    for (int i = 0; i < op->num_results; i++) {
        IrType t = op->results[i]->type;
        bool known = inferred ? !ir_infer_result(op, op->block, i, &t)
                              : ir_locality_of_result(op, i, &t);
        if (!known)
            continue;
        op->results[i]->type.locality = t.locality;
        op->results[i]->type.on = t.on;
    }
}

/* One walk in order; returns whether an argument grew, so that another is
 * needed. */
static bool
settle_block(IrBlock *b)
{
    bool changed = false;
    for (IrOp *op = b->first; op; op = op->next) {
        changed |= raise_arguments(op);
        for (int r = 0; r < op->num_regions; r++)
            changed |= settle_block(op->regions[r]);
        /* by the current yields of the body: then it is walked again */
        changed |= raise_arguments(op);
        infer_localities(op);
    }
    return changed;
}

void
ir_infer_localities(IrFunc *fn)
{
    ir_walk(fn->body, reset_localities, NULL);
    while (settle_block(fn->body))
        ;
}

void
ir_op_close(IrOp *op)
{
    const IrOp *yield = ir_block_yield(op->regions[op->num_regions - 1]);
    int n = yield->num_operands;
    IrType *types = NEW_ARRAY(op->module->arena, IrType, (size_t)n);
    for (int i = 0; i < n; i++)
        types[i] = yield->operands[i]->type;
    ir_op_results(op, n, types);
    infer_localities(op);
}
