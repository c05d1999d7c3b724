/*
 * verify_contexts.c - the contexts and phases in which operations are allowed
 *
 * A table lists them.  Other operations are allowed in every context of main
 * and of programs, and, if they are pure or control flow, in functions of
 * datasets and variables too.
 */
#include <string.h>
#include "ir/loop.h"
#include "ir/segments.h"
#include "ir/verify/verify_impl.h"

/* The contexts of an operation, or-ed. */
enum {
    IN_MAIN = 1,    /* main itself, cross-replica */
    IN_CROSS = 2,   /* other cross-replica context: merges, closures */
    IN_REPLICA = 4, /* run regions, device programs */
    IN_UPDATE = 8,
    IN_HOST = 16, /* functions of datasets */
    IN_INIT = 32,
    ANYWHERE = IN_MAIN | IN_CROSS | IN_REPLICA | IN_UPDATE
};

static const struct {
    IrOpKind kind;
    unsigned where;
    IrPhase until; /* the last phase in which it is allowed */
} places[] = {
    {OP_replica_id, IN_REPLICA, PHASE_PLACED},
    {OP_row_start, IN_REPLICA, PHASE_PLACED},
    {OP_all_reduce, IN_REPLICA, PHASE_REPLICATED},
    {OP_all_gather, IN_REPLICA, PHASE_REPLICATED},
    {OP_all_reduce_start, IN_REPLICA, PHASE_PLACED},
    {OP_all_reduce_done, IN_REPLICA, PHASE_PLACED},
    {OP_all_gather_start, IN_REPLICA, PHASE_PLACED},
    {OP_all_gather_done, IN_REPLICA, PHASE_PLACED},
    {OP_global_mean, IN_REPLICA, PHASE_IR},
    {OP_merge, IN_REPLICA, PHASE_IR},
    {OP_run, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_schedule, IN_MAIN, PHASE_IR},
    {OP_update, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_reduce, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_reduce_to, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_broadcast_to, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_gather, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_local_result, IN_MAIN | IN_CROSS, PHASE_IR},
    {OP_grad, ANYWHERE, PHASE_IR},
    {OP_custom_gradient, ANYWHERE | IN_HOST | IN_INIT, PHASE_IR},
    {OP_recompute, ANYWHERE | IN_HOST | IN_INIT, PHASE_IR},
    {OP_stop_gradient, ANYWHERE | IN_HOST | IN_INIT, PHASE_IR},
    {OP_optimization_barrier, ANYWHERE | IN_HOST | IN_INIT, PHASE_REPLICATED},
    {OP_param, ANYWHERE | IN_HOST | IN_INIT, PHASE_PLACED},
    {OP_read, ANYWHERE | IN_INIT, PHASE_PLACED},
    {OP_now, IN_MAIN, PHASE_PLACED},
    {OP_evaluates, IN_MAIN, PHASE_PLACED},
    {OP_assert, ANYWHERE | IN_HOST | IN_INIT, PHASE_PLACED},
    {OP_summary, IN_MAIN | IN_CROSS | IN_REPLICA, PHASE_PLACED},
    {OP_save, IN_MAIN, PHASE_PLACED},
    {OP_restore, IN_MAIN, PHASE_PLACED},
    {OP_iter_open, IN_MAIN, PHASE_PLACED},
    {OP_iter_has_next, IN_MAIN, PHASE_PLACED},
    {OP_iter_next, IN_MAIN, PHASE_PLACED},
    {OP_join, IN_MAIN, PHASE_PLACED},
    {OP_cancel, IN_MAIN, PHASE_PLACED},
    {OP_done, IN_MAIN, PHASE_PLACED},
    {OP_launch, IN_MAIN, PHASE_PLACED},
    {OP_push, IN_CROSS | IN_REPLICA, PHASE_PLACED},
    {OP_fetch, IN_MAIN, PHASE_PLACED},
    {OP_fetch_var, IN_MAIN, PHASE_PLACED},
};

/* Main schedules it, and another process may execute it. */
static bool
is_in_closure(const IrBlock *b)
{
    const IrOp *op = b->op;
    while (op && op->kind != OP_schedule)
        op = op->block ? op->block->op : NULL;
    return op != NULL;
}

static unsigned
where_is(const IrBlock *b)
{
    switch (ir_context(b)) {
    case CX_REPLICA:
        return IN_REPLICA;
    case CX_UPDATE:
        return IN_UPDATE;
    case CX_MERGE:
        return IN_CROSS;
    case CX_CROSS:
        break;
    }
    switch (b->func->kind) {
    case FUNC_MAIN:
        return is_in_closure(b) ? IN_CROSS : IN_MAIN;
    case FUNC_HOST:
        return IN_HOST;
    case FUNC_INIT:
        return IN_INIT;
    case FUNC_PROGRAM:
        break;
    }
    return IN_CROSS;
}

static const char *
name_of_place(unsigned where)
{
    switch (where) {
    case IN_MAIN:
        return "main";
    case IN_CROSS:
        return "cross-replica context";
    case IN_REPLICA:
        return "replica context";
    case IN_UPDATE:
        return "update context";
    case IN_HOST:
        return "a function of a dataset";
    default:
        return "an initial value";
    }
}

static unsigned
allowed_places(const IrOp *op, IrPhase *until)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    *until = PHASE_PLACED;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].kind == op->kind) {
            *until = places[i].until;
            return places[i].where;
        }
    }
    if (effect == PURE || effect == CONTROL)
        return ANYWHERE | IN_HOST | IN_INIT;
    return ANYWHERE;
}

static void
check_place(Verify *v, const IrOp *op)
{
    IrPhase until;
    unsigned where = where_is(op->block);
    if (!(allowed_places(op, &until) & where))
        ir_verify_error(v, op, "%s does not stand in %s",
                        ir_op_info[op->kind].name, name_of_place(where));
    else if (v->module->phase > (int)until)
        ir_verify_error(v, op, "%s is gone in this phase",
                        ir_op_info[op->kind].name);
}

/* ---- main after replicate ---------------------------------------------- */

/* Whether operand i of op, in main, may be a handle of a device value. */
static bool
may_be_handle(const IrOp *op, int i)
{
    switch (op->kind) {
    case OP_launch:
    case OP_fetch:
    case OP_while:
    case OP_copy:
        return true;
    case OP_for:
        return i > 0; /* not the count */
    case OP_yield:    /* not the test of a while */
        return !ir_is_loop_test(op->block);
    default:
        return false;
    }
}

static void
check_main_op(Verify *v, const IrOp *op)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    if (effect == READS || effect == WRITES)
        ir_verify_error(v, op, "main uses variables in programs only");
    for (int i = 0; i < op->num_operands; i++) {
        if (op->operands[i]->type.locality != LOCAL_HOST &&
            !may_be_handle(op, i))
            ir_verify_error(v, op, "main computes with host values only");
    }
}

/* Whether op may be outside a kernel of a placed program. */
static bool
is_outside_kernels(const IrOp *op)
{
    static const IrOpKind kinds[] = {
        OP_constant,  OP_dim_size, OP_replica_id,
        OP_row_start, OP_copy,     OP_kernel,
    };
    const IrOpInfo *info = &ir_op_info[op->kind];
    if (info->effect != PURE || info->code == CODE_reshape ||
        op->kind == OP_param)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i] == op->kind)
            return true;
    }
    return false;
}

static void
check_phase(Verify *v, const IrOp *op)
{
    if (v->module->phase < PHASE_REPLICATED)
        return;
    if (op->block->func->kind == FUNC_MAIN && !ir_is_in_kernel(op))
        check_main_op(v, op);
    if (op->kind == OP_write && ir_enum(op, A_mode) != UPDATE_set)
        ir_verify_error(v, op, "a write has mode=set in this phase");
    if (v->module->phase == PHASE_PLACED && !ir_is_in_kernel(op) &&
        !is_outside_kernels(op))
        ir_verify_error(v, op, "%s is computed in kernels in this phase",
                        ir_op_info[op->kind].name);
}

/* ---- reasons ----------------------------------------------------------- */

static void
check_reason(Verify *v, const IrOp *op)
{
    const IrReason *r = op->reason;
    if (r &&
        (!r->rule || !*r->rule || !r->cause || !*r->cause || r->loc.line == 0))
        ir_verify_error(v, op,
                        "a reason has a rule, a cause and a source line");
}

/* ---- starts and dones -------------------------------------------------- */

/* The done of start, which takes exactly the results of start. */
static bool
is_done_of(const IrOp *done, const IrOp *start)
{
    if (done->kind != ir_op_split(start->kind)->done ||
        done->num_operands != start->num_results)
        return false;
    for (int i = 0; i < done->num_operands; i++) {
        if (done->operands[i] != start->results[i])
            return false;
    }
    return true;
}

/* Only the done may use a value in flight.  The id of a start counts its dones.
 */
static void
check_flight(Verify *v, IrOp *op)
{
    op->id = 0;
    for (int i = 0; i < op->num_operands; i++) {
        const IrOp *def = op->operands[i]->def;
        if (def && ir_op_is_start(def->kind) && !is_done_of(op, def))
            ir_verify_error(v, op, "a value in flight is for its %s alone",
                            ir_op_info[ir_op_split(def->kind)->done].name);
    }
    if (!ir_op_is_done(op->kind))
        return;
    IrOp *start = op->operands[0]->def;
    if (start && ir_op_is_start(start->kind) && is_done_of(op, start) &&
        start->block == op->block)
        start->id++;
    else
        ir_verify_error(v, op, "%s takes what its start gave",
                        ir_op_info[op->kind].name);
}

static void
check_start(Verify *v, IrOp *op)
{
    if (ir_op_is_start(op->kind) && op->id != 1)
        ir_verify_error(v, op, "%s has one %s, in its block",
                        ir_op_info[op->kind].name,
                        ir_op_info[ir_op_split(op->kind)->done].name);
}

static void
check_op(Verify *v, IrOp *op)
{
    check_place(v, op);
    check_phase(v, op);
    check_reason(v, op);
    check_flight(v, op);
}

void
ir_verify_contexts(Verify *v)
{
    ir_verify_walk(v, check_op);
    ir_verify_walk(v, check_start);
}
