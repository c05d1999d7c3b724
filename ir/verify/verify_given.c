/*
 * verify_given.c - results that the table does not infer
 *
 * The types of control flow, launches, kernels, batches and gradients follow
 * from their regions, functions, datasets and operands.
 */
#include <string.h>
#include "ir/analysis/parts.h"
#include "ir/base/message.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"
#include "ir/verify/verify_impl.h"

static bool
alike(const IrType *a, const IrType *b)
{
    return a->dtype == b->dtype && ir_type_same_shape(a, b);
}

static bool
is_scalar(const IrValue *x, DType t)
{
    return x->type.rank == 0 && x->type.dtype == t;
}

static bool
is_count(const IrValue *x)
{
    return x->type.rank == 0 && dtype_is_int(x->type.dtype);
}

/* Whether a and b, n values each, have the same dtypes and shapes one by one.
 */
static bool
lists_alike(IrValue *const *a, int num_a, IrValue *const *b, int num_b)
{
    if (num_a != num_b)
        return false;
    for (int i = 0; i < num_a; i++) {
        if (!alike(&a[i]->type, &b[i]->type))
            return false;
    }
    return true;
}

static bool
yields(const IrOp *op, int r, IrValue *const *values, int n)
{
    const IrOp *yield = ir_block_yield(op->regions[r]);
    return lists_alike(yield->operands, yield->num_operands, values, n);
}

static bool
takes(const IrOp *op, int r, IrValue *const *values, int n)
{
    const IrValues *args = &op->regions[r]->args;
    return lists_alike(args->data, args->len, values, n);
}

/* ---- regions ----------------------------------------------------------- */

/* Each returns a message, or NULL. */
typedef const char *CheckGiven(Verify *v, const IrOp *op);

static const char *
check_yielded(const IrOp *op)
{
    if (op->regions[0]->args.len)
        return MESSAGE("its region takes no arguments");
    if (!yields(op, 0, op->results, op->num_results))
        return MESSAGE("the results are not what the region yields");
    return NULL;
}

static const char *
check_run(Verify *v, const IrOp *op)
{
    (void)v;
    return check_yielded(op);
}

static const char *
check_update(Verify *v, const IrOp *op)
{
    const char *var = ir_text(op, A_var);
    if (var && !ir_var_find(v->module, var))
        return MESSAGE("there is no such variable");
    return check_yielded(op);
}

static const char *
check_if(Verify *v, const IrOp *op)
{
    (void)v;
    if (!is_scalar(op->operands[0], DT_bool))
        return MESSAGE("a condition is one bool");
    for (int r = 0; r < 2; r++) {
        if (op->regions[r]->args.len)
            return MESSAGE("its regions take no arguments");
        if (!yields(op, r, op->results, op->num_results))
            return MESSAGE("the results are not what both regions yield");
    }
    return NULL;
}

static const char *
check_for(Verify *v, const IrOp *op)
{
    (void)v;
    IrValue *const *init = op->operands + 1, **args;
    int n = op->num_operands - 1;
    if (n < 0 || !is_count(op->operands[0]))
        return MESSAGE("a count is one integer");
    args = op->regions[0]->args.data;
    if (op->regions[0]->args.len != n + 1 ||
        !alike(&args[0]->type, &op->operands[0]->type))
        return MESSAGE(
            "the region takes an index of the count's type and what is "
            "carried");
    if (!lists_alike(args + 1, n, init, n) || !yields(op, 0, init, n) ||
        !lists_alike(op->results, op->num_results, init, n))
        return MESSAGE("carried values keep their types");
    return NULL;
}

static const char *
check_while(Verify *v, const IrOp *op)
{
    (void)v;
    int n = op->num_operands;
    const IrOp *test = ir_block_yield(op->regions[0]);
    if (test->num_operands != 1 || !is_scalar(test->operands[0], DT_bool))
        return MESSAGE("the first region yields one bool");
    if (!takes(op, 0, op->operands, n) || !takes(op, 1, op->operands, n) ||
        !yields(op, 1, op->operands, n) ||
        !lists_alike(op->results, op->num_results, op->operands, n))
        return MESSAGE("what a while carries keeps its type");
    if (ir_int(op, A_max) < 0)
        return MESSAGE("max is not negative");
    return NULL;
}

static const char *
check_segments(const IrOp *op)
{
    int64_t num = ir_int(op, A_segments), num_ops = 0;
    for (const IrOp *in = op->regions[0]->first; in; in = in->next)
        num_ops += in->kind != OP_yield;
    if (num < 2 || num > op->num_results || op->num_results % num ||
        op->num_operands % num || num_ops % num)
        return MESSAGE("its operands, results and operations are no segments");
    IrSegment first = ir_kernel_segment(op, 0);
    for (int i = 0; i < num; i++) {
        IrSegment part = ir_kernel_segment(op, i);
        if (ir_segment_length(&part) < 0)
            return MESSAGE("a part computes more than elements from "
                           "elements");
        if (!ir_segments_match(&first, &part))
            return MESSAGE("its segments are not alike");
    }
    return NULL;
}

static const char *
check_kernel(Verify *v, const IrOp *op)
{
    (void)v;
    if (!takes(op, 0, op->operands, op->num_operands))
        return MESSAGE("the region's arguments are not the operands");
    if (!yields(op, 0, op->results, op->num_results))
        return MESSAGE("the results are not what the kernel yields");
    for (const IrOp *in = op->regions[0]->first; in; in = in->next) {
        if (in->kind != OP_yield && !ir_op_code(in->kind)->in_kernels)
            return MESSAGE("it contains what no kernel computes");
    }
    return ir_has(op, A_segments) ? check_segments(op) : NULL;
}

/* ---- gradients --------------------------------------------------------- */

static const char *
check_grad(Verify *v, const IrOp *op)
{
    int num_vars, num_values = op->num_operands - 1;
    const char *const *vars = ir_names(op, A_vars, &num_vars);
    if (num_values < 0 || op->operands[0]->type.rank ||
        !dtype_is_float(op->operands[0]->type.dtype))
        return MESSAGE("a loss is one float");
    if (op->num_results != num_values + num_vars)
        return MESSAGE("there is a gradient for each value and variable");
    if (!lists_alike(op->operands + 1, num_values, op->results, num_values))
        return MESSAGE("a gradient has the type of its value");
    for (int i = 0; i < num_vars; i++) {
        const IrVar *var = ir_var_find(v->module, vars[i]);
        if (!var || !alike(&var->type, &op->results[num_values + i]->type))
            return MESSAGE("a gradient has the type of its variable");
    }
    return NULL;
}

static const char *
check_recompute(Verify *v, const IrOp *op)
{
    (void)v;
    int n = op->num_results;
    bool alike =
        n <= op->num_operands && lists_alike(op->operands, n, op->results, n);
    return alike ? NULL : MESSAGE("the results are not the first operands");
}

static const char *
check_custom_gradient(Verify *v, const IrOp *op)
{
    int n = op->num_results, num_inputs = op->num_operands - n;
    const char *wrong = check_recompute(v, op);
    if (wrong)
        return wrong;
    if (!takes(op, 0, op->results, n))
        return MESSAGE(
            "the region's arguments are not gradients of the results");
    if (!yields(op, 0, op->operands + n, num_inputs))
        return MESSAGE(
            "the region does not yield the gradients of the operands after "
            "the results'");
    return NULL;
}

/* ---- batches ----------------------------------------------------------- */

/* Whether `rows`, of an iter_next, may replace the iterator's symbol: a pair
 * with the same bounds, or none if the iterator has none. */
static bool
is_rows_of(const IrModule *m, const IrIter *it, int32_t rows)
{
    if (it->rows < 0 || rows < 0)
        return it->rows < 0 && rows < 0;
    const IrSymbol *a = &m->symbols.data[it->rows], *b = &m->symbols.data[rows];
    return ir_symbol_is_share(b) && a->bound == b->bound &&
           m->symbols.data[a->partner].bound ==
               m->symbols.data[b->partner].bound;
}

/* Whether `share` is a dimension of one replica's share of `rows`, where the
 * dataset has `whole`: its batch becomes the replica's rows, or is divided
 * among the replicas. */
static bool
is_share(const IrModule *m, const IrIter *it, int32_t rows, int axis, Dim whole,
         Dim share)
{
    Dim back;
    if (!ir_dim_is_const(whole))
        return rows >= 0 && share.sym == rows && share.k == whole.k &&
               share.c == whole.c;
    if (axis != 0 || it->whole)
        return ir_dim_equal(whole, share);
    if (rows >= 0) /* full batches that cannot be divided evenly */
        return ir_dim_equal(share, ir_dim_linear(0, 1, rows));
    return ir_dim_is_const(share) &&
           ir_dim_mul(share, ir_dim_const(m->num_replicas), &back) &&
           ir_dim_equal(back, whole);
}

static bool
is_share_type(const IrModule *m, const IrIter *it, int32_t rows,
              const IrType *whole, const IrType *share)
{
    if (whole->dtype != share->dtype || whole->rank != share->rank)
        return false;
    for (int i = 0; i < whole->rank; i++) {
        if (!is_share(m, it, rows, i, whole->dims[i], share->dims[i]))
            return false;
    }
    return true;
}

static const char *
check_shares(const IrModule *m, const IrOp *op, const IrIter *it,
             const IrDataset *d)
{
    const IrStage *last = &VEC_LAST(d->stages);
    int32_t rows = ir_next_rows(op);
    if (op->num_results != last->types.len)
        return MESSAGE("the results are not the components of an element");
    if (!is_rows_of(m, it, rows))
        return MESSAGE("the results have rows that are not the iterator's");
    for (int i = 0; i < op->num_results; i++) {
        const IrType *t = &op->results[i]->type;
        if (!is_share_type(m, it, rows, &last->types.data[i], t))
            return MESSAGE(
                "the results are not a share of the dataset's element");
        if (t->locality != LOCAL_PER_REPLICA)
            return MESSAGE("a replica's share of a batch is per_replica");
    }
    return NULL;
}

static const char *
check_iter_next(Verify *v, const IrOp *op)
{
    const IrModule *m = v->module;
    const IrIter *it = ir_iter_find(m, ir_text(op, A_iter));
    const char *wrong = it ? NULL : MESSAGE("there is no such iterator");
    for (int i = 0; it && i < it->datasets.len && !wrong; i++)
        wrong =
            check_shares(m, op, it, ir_dataset_find(m, it->datasets.data[i]));
    return wrong;
}

/* ---- launches ---------------------------------------------------------- */

/* Inside a program a host value is mirrored. */
static Locality
at_devices(Locality l)
{
    return l == LOCAL_HOST || l == LOCAL_ON ? LOCAL_MIRRORED : l;
}

/* Whether outer, a value of main, may be passed as inner, one of a program; the
 * program for full batches has the bounds instead of symbols. */
static bool
passes_as(const IrModule *m, const IrType *from, const IrType *to, bool full)
{
    IrType a = full ? ir_type_full(m, from) : *from;
    IrType b = full ? ir_type_full(m, to) : *to;
    /* with one replica, its own value is everybody's */
    return alike(&a, &b) &&
           (m->num_replicas == 1 ||
            at_devices(from->locality) <= at_devices(to->locality));
}

static const char *
check_call(Verify *v, const IrOp *op, const char *name, bool full)
{
    const IrFunc *fn = ir_func_find(v->module, name);
    if (!fn || fn->kind != FUNC_PROGRAM)
        return MESSAGE("there is no such program");
    const IrOp *ret = ir_func_return(fn);
    const IrValues *args = &fn->body->args;
    if (args->len != op->num_operands || ret->num_operands != op->num_results)
        return MESSAGE("the program has other parameters and results");
    for (int i = 0; i < args->len; i++) {
        if (!passes_as(v->module, &op->operands[i]->type, &args->data[i]->type,
                       full))
            return MESSAGE("an operand is not what the program's parameter is");
    }
    for (int i = 0; i < op->num_results; i++) {
        if (!passes_as(v->module, &ret->operands[i]->type,
                       &op->results[i]->type, full) ||
            op->results[i]->type.locality == LOCAL_HOST)
            return MESSAGE("a result is not what the program returns");
    }
    return NULL;
}

static const char *
check_full(Verify *v, const IrOp *op)
{
    const char *full = ir_text(op, A_full);
    const char *wrong = check_call(v, op, full, true);
    if (wrong)
        return wrong;
    const char *of = ir_func_find(v->module, full)->variant_of;
    if (!of || strcmp(of, ir_text(op, A_program)) != 0)
        return MESSAGE("full is a variant of another program");
    return NULL;
}

static const char *
check_worker(Verify *v, const IrOp *op)
{
    const char *worker = ir_text(op, A_worker);
    const char *wrong = check_call(v, op, worker, false);
    if (wrong)
        return wrong;
    const char *of = ir_func_find(v->module, worker)->worker_of;
    if (!of || strcmp(of, ir_text(op, A_program)) != 0)
        return MESSAGE("worker is a variant of another program");
    return NULL;
}

static const char *
check_launch(Verify *v, const IrOp *op)
{
    const char *wrong = check_call(v, op, ir_text(op, A_program), false);
    if (!wrong && ir_has(op, A_full))
        wrong = check_full(v, op);
    if (!wrong && ir_has(op, A_worker))
        wrong = check_worker(v, op);
    if (!wrong && (ir_int(op, A_scheduled) || ir_has(op, A_worker)) &&
        !ir_strategy_info[v->module->strategy].servers)
        wrong = MESSAGE("the strategy has no servers and workers");
    return wrong;
}

/* Whether what op pushes as parameter i is, all or the part that a server gets,
 * what the update takes. */
static bool
is_taken(const IrModule *m, const IrFunc *update, const IrOp *op, int i)
{
    const IrType *t = &update->body->args.data[i]->type;
    IrType given = op->operands[i]->type;
    if (ir_push_cut(update, op, i) != CUT_NOTHING)
        given.dims[0] = t->dims[0];
    return op->kind == OP_write ? alike(&given, t)
                                : passes_as(m, &given, t, false);
}

/* Whether op names an update that takes its operands.  A worker has one value
 * for its replicas, of which a server has none; what a write combines becomes
 * one. */
static const char *
check_pushed(Verify *v, const IrOp *op)
{
    const IrFunc *update = ir_func_find(v->module, ir_text(op, A_update));
    if (!op->block->func->worker_of)
        return MESSAGE("programs for workers push, and no others");
    if (!update || update->kind != FUNC_PROGRAM || update->worker_of ||
        update->variant_of)
        return MESSAGE("the update is no program for servers");
    const IrValues *args = &update->body->args;
    if (ir_func_return(update)->num_operands || args->len != op->num_operands)
        return MESSAGE("the update has other parameters, or results");
    for (int i = 0; i < args->len; i++) {
        const IrType *t = &args->data[i]->type;
        if (!is_taken(v->module, update, op, i))
            return MESSAGE("what is pushed is not what the update takes");
        if (at_devices(t->locality) != LOCAL_MIRRORED)
            return MESSAGE("servers take what is equal on all replicas");
    }
    return NULL;
}

static const char *
check_write(Verify *v, const IrOp *op)
{
    if (!ir_has(op, A_update))
        return NULL;
    if (v->module->phase != PHASE_IR || ir_context(op->block) != CX_REPLICA)
        return MESSAGE("only a write that combines the replicas' values is "
                       "pushed with it");
    return check_pushed(v, op);
}

/* ---- other names and texts --------------------------------------------- */

static const char *
check_iter_use(Verify *v, const IrOp *op)
{
    return ir_iter_find(v->module, ir_text(op, A_iter))
               ? NULL
               : "there is no such iterator";
}

/* The number of {} in a format, or -1 where its braces do not match. */
static int
count_holes(const char *p)
{
    int n = 0;
    for (; *p; p++) {
        if ((*p == '{' && p[1] == '{') || (*p == '}' && p[1] == '}')) {
            p++;
        } else if (*p == '{') {
            bool is_word = p[1] == '$'; /* format_fill */
            p += 1 + strcspn(p + 1, "{}");
            if (*p != '}')
                return -1;
            n += !is_word;
        } else if (*p == '}') {
            return -1;
        }
    }
    return n;
}

static const char *
check_format(const IrOp *op, int num_values)
{
    if (count_holes(ir_text(op, A_format)) != num_values)
        return MESSAGE("the format has not one {} for each operand");
    return NULL;
}

static const char *
check_print(Verify *v, const IrOp *op)
{
    (void)v;
    return check_format(op, op->num_operands);
}

static const char *
check_assert(Verify *v, const IrOp *op)
{
    (void)v;
    return check_format(op, op->num_operands - 1);
}

/* ---- collectives --------------------------------------------------------- */

/* Whether op has the attribute with a value that is not in the range. */
static bool
is_outside(const IrOp *op, IrAttrName a, int64_t min, int64_t max)
{
    if (ir_attr_index(op->kind, a) < 0 || !ir_has(op, a))
        return false;
    return ir_int(op, a) < min || ir_int(op, a) > max;
}

static const char *
check_collective(Verify *v, const IrOp *op)
{
    if (is_outside(op, A_root, 0, v->module->num_replicas - 1))
        return MESSAGE("no replica has the number of the root");
    if (is_outside(op, A_packs, 0, IR_MAX_PACKS))
        return MESSAGE("there are not so many packs");
    if (is_outside(op, A_bytes_per_pack, 0, IR_MAX_BYTES))
        return MESSAGE("no pack is so large");
    if (is_outside(op, A_timeout_ms, 1, IR_MAX_TIMEOUT_MS))
        return MESSAGE("no replica waits so long");
    return NULL;
}

/* ---- checkpoints and summaries ------------------------------------------ */

static const char *
check_summary(Verify *v, const IrOp *op)
{
    (void)v;
    if (op->num_operands < 2 || op->operands[0]->type.dtype == DT_bool)
        return MESSAGE("a summary is of numbers");
    if (!is_scalar(op->operands[1], DT_i64))
        return MESSAGE("a step is one i64");
    return check_format(op, op->num_operands - 2);
}

/* No name of a is among those of b, nor, where they are the same list, at
 * another place of it. */
static const char *
check_once(const char *const *a, int num_a, const char *const *b, int num_b)
{
    for (int i = 0; i < num_a; i++)
        for (int k = 0; k < (a == b ? i : num_b); k++)
            if (strcmp(a[i], b[k]) == 0)
                return MESSAGE("a variable is named twice");
    return NULL;
}

/* Whether values have the types of the variables of op, one by one. */
static const char *
check_values(Verify *v, const IrOp *op, IrValue *const *values, int num)
{
    int num_vars;
    const char *const *vars = ir_names(op, A_vars, &num_vars);
    if (num < num_vars || (num_vars == 0 && !ir_has(op, A_in_place)))
        return MESSAGE("there is a value for each variable");
    for (int i = 0; i < num_vars; i++) {
        const IrVar *var = ir_var_find(v->module, vars[i]);
        if (!var || !alike(&var->type, &values[i]->type))
            return MESSAGE("a value has the type of its variable");
    }
    return check_once(vars, num_vars, vars, num_vars);
}

static const char *
check_save(Verify *v, const IrOp *op)
{
    int num_vars;
    ir_names(op, A_vars, &num_vars);
    const char *wrong = check_values(v, op, op->operands, op->num_operands);
    return wrong ? wrong : check_format(op, op->num_operands - num_vars);
}

/* Variables that all replicas have, and that have no result. */
static const char *
check_in_place(Verify *v, const IrOp *op)
{
    int num, num_vars;
    const char *const *vars = ir_names(op, A_vars, &num_vars);
    const char *const *names = ir_names(op, A_in_place, &num);
    for (int i = 0; i < num; i++) {
        const IrVar *var = ir_var_find(v->module, names[i]);
        if (!var || var->type.locality != LOCAL_MIRRORED)
            return MESSAGE("a variable that is restored in place is mirrored");
    }
    const char *wrong = check_once(names, num, vars, num_vars);
    return wrong ? wrong : check_once(names, num, names, num);
}

/* Names in the file, of all variables or of none. */
static const char *
check_saved_names(const IrOp *op)
{
    int num_vars, num_placed, num;
    ir_names(op, A_vars, &num_vars);
    ir_names(op, A_in_place, &num_placed);
    const char *const *names = ir_names(op, A_names, &num);
    if (names && num != num_vars + num_placed)
        return MESSAGE("there is a name in the file for each variable");
    return names ? check_once(names, num, names, num) : NULL;
}

static const char *
check_restore(Verify *v, const IrOp *op)
{
    int num_vars;
    ir_names(op, A_vars, &num_vars);
    if (op->num_results != num_vars)
        return MESSAGE("there is a result for each variable");
    for (int i = 0; i < op->num_results; i++) {
        if (op->results[i]->type.locality != LOCAL_HOST)
            return MESSAGE("what is restored is on the host");
    }
    const char *wrong = check_values(v, op, op->results, op->num_results);
    if (!wrong)
        wrong = check_in_place(v, op);
    if (!wrong)
        wrong = check_saved_names(op);
    return wrong ? wrong : check_format(op, op->num_operands);
}

static const struct {
    IrOpKind kind;
    CheckGiven *check;
} checks[] = {
    {OP_run, check_run},
    {OP_schedule, check_run},
    {OP_merge, check_run},
    {OP_update, check_update},
    {OP_if, check_if},
    {OP_for, check_for},
    {OP_while, check_while},
    {OP_kernel, check_kernel},
    {OP_grad, check_grad},
    {OP_custom_gradient, check_custom_gradient},
    {OP_recompute, check_recompute},
    {OP_launch, check_launch},
    {OP_push, check_pushed},
    {OP_write, check_write},
    {OP_iter_next, check_iter_next},
    {OP_iter_open, check_iter_use},
    {OP_iter_has_next, check_iter_use},
    {OP_print, check_print},
    {OP_assert, check_assert},
    {OP_summary, check_summary},
    {OP_save, check_save},
    {OP_restore, check_restore},
    {OP_all_reduce, check_collective},
    {OP_all_gather, check_collective},
    {OP_reduce, check_collective},
    {OP_reduce_to, check_collective},
    {OP_gather, check_collective},
    {OP_all_reduce_start, check_collective},
    {OP_all_gather_start, check_collective},
};

static void
check_op(Verify *v, IrOp *op)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].kind != op->kind)
            continue;
        const char *wrong = checks[i].check(v, op);
        if (wrong)
            ir_verify_error(v, op, "%s", wrong);
    }
}

void
ir_verify_given(Verify *v)
{
    ir_verify_walk(v, check_op);
}
