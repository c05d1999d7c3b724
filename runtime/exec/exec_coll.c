/*
 * exec_coll.c - collectives of device programs
 *
 * Every start of a program is a site of the communicator.  A program and its
 * variant for full batches meet at the same sites, since some replicas may run
 * the one while others run the other: their collectives must be alike.
 */
#include <assert.h>
#include <string.h>
#include "runtime/exec/exec_impl.h"

static const char *const combine_names[NUM_COMBINES] = {
    [COMBINE_SUM] = "sum",
    [COMBINE_MAX] = "max",
    [COMBINE_MIN] = "min",
    [COMBINE_FIRST] = "first",
};

static const char *const via_names[NUM_VIAS] = {
    [VIA_ONE] = "reduction_to_one",
    [VIA_HALVES] = "hierarchical_copy",
};

/* ---- sites ------------------------------------------------------------- */

static bool
is_alike(const RtHostOp *a, const RtHostOp *b)
{
    const IrOp *x = a->op, *y = b->op;
    if (x->kind != y->kind || x->num_operands != y->num_operands)
        return false;
    for (int i = 0; i < x->num_operands; i++) {
        if (a->in[i].dtype != b->in[i].dtype)
            return false;
    }
    if (ir_has(x, A_via) != ir_has(y, A_via))
        return false;
    if (x->kind == OP_all_reduce_start)
        return strcmp(ir_text(x, A_op), ir_text(y, A_op)) == 0;
    return ir_int(x, A_axis) == ir_int(y, A_axis);
}

/* The site of the same collective in the program that fn is a variant of. */
static Status
share_site(RtRun *run, RtFn *fn, RtHostOp *h)
{
    RtFn *program;
    int index = fn->starts.len;
    TRY(rt_load_fn(run, fn->ir->variant_of, FUNC_PROGRAM, &program));
    if (index >= program->starts.len ||
        !is_alike(h, program->starts.data[index]))
        return plan_refuse(run->plan, "@%s and @%s differ in their collectives",
                           fn->ir->name, program->ir->name);
    h->site = program->starts.data[index]->site;
    return OK;
}

static void
read_via(const IrOp *op, RtVia *out)
{
    const char *via = ir_text(op, A_via);
    *out = VIA_ALL;
    for (int i = 0; via && i < NUM_VIAS; i++)
        if (via_names[i] && !strcmp(via_names[i], via))
            *out = (RtVia)i;
    assert(!via || *out != VIA_ALL); /* one of the table's words */
}

static Status
read_way(const RtRun *run, const IrOp *op, RtWay *way)
{
    int64_t packs = ir_int(op, A_packs);
    read_via(op, &way->via);
    if (packs < 0 || packs > IR_MAX_PACKS)
        return plan_refuse(run->plan, "it has an all_reduce in %lld packs",
                           (long long)packs);
    way->packs = (int)packs;
    return OK;
}

static Status
reduce_site(RtRun *run, RtHostOp *h)
{
    RtWay way;
    int n = h->op->num_operands;
    TRY(read_way(run, h->op, &way));
    DType *dtypes = NEW_ARRAY(run->arena, DType, (size_t)n);
    for (int i = 0; i < n; i++)
        dtypes[i] = h->in[i].dtype;
    for (int how = 0; how < NUM_COMBINES; how++) {
        if (strcmp(combine_names[how], ir_text(h->op, A_op)) == 0)
            return run->coll->ops->reduce_site(run->coll, (RtCombine)how, way,
                                               n, dtypes, &h->site);
    }
    UNREACHABLE("an all_reduce by no word of the table");
}

static Status
gather_site(RtRun *run, RtHostOp *h)
{
    RtVia via;
    read_via(h->op, &via);
    assert(via != VIA_HALVES); /* the table has no such word */
    return run->coll->ops->gather_site(run->coll, via, &h->site);
}

static Status
prepare_start(RtRun *run, RtFn *fn, RtHostOp *h)
{
    if (fn->ir->variant_of)
        TRY(share_site(run, fn, h));
    else if (h->op->kind == OP_all_reduce_start)
        TRY(reduce_site(run, h));
    else
        TRY(gather_site(run, h));
    VEC_PUSH(run->arena, fn->starts, h);
    return OK;
}

Status
rt_prepare_reduce(RtRun *run, RtFn *fn, RtHostOp *h)
{
    assert(h->op->num_operands == h->op->num_results);
    return prepare_start(run, fn, h);
}

Status
rt_prepare_gather(RtRun *run, RtFn *fn, RtHostOp *h)
{
    return prepare_start(run, fn, h);
}

/* A done has the site of the start whose result it waits for. */
Status
rt_prepare_done(RtRun *run, RtFn *fn, RtHostOp *h)
{
    const IrOp *start = h->op->num_operands ? h->op->operands[0]->def : NULL;
    for (int i = 0; i < fn->starts.len; i++) {
        if (fn->starts.data[i]->op == start) {
            h->site = fn->starts.data[i]->site;
            return OK;
        }
    }
    return plan_refuse(run->plan,
                       "@%s waits for a collective that it did not start",
                       fn->ir->name);
}

/* ---- execution --------------------------------------------------------- */

int32_t
rt_op_all_reduce_start(RtInvocation *inv, const RtHostOp *h)
{
    RtActor *actor = inv->actor;
    RtColl *coll = actor->run->coll;
    for (int i = 0; i < h->op->num_operands; i++) {
        int64_t count = rt_value_count(&h->in[i], actor->dims);
        actor->reduces[i] = (RtReduce){rt_value_at(inv, &h->in[i]),
                                       rt_value_at(inv, &h->out[i]), count};
        actor->bytes_sent += count * (int64_t)dtype_info[h->in[i].dtype].bytes;
    }
    coll->ops->reduce_start(h->site, actor->replica, actor->reduces);
    return END_NOT;
}

int32_t
rt_op_all_gather_start(RtInvocation *inv, const RtHostOp *h)
{
    RtActor *actor = inv->actor;
    RtColl *coll = actor->run->coll;
    const RtValue *v = &h->in[0];
    RtGather part = {rt_value_at(inv, v), rt_value_at(inv, &h->out[0]), 1,
                     (int64_t)dtype_info[v->dtype].bytes};
    for (int i = 0; i < v->rank; i++) {
        int64_t size = rt_dim(&v->dims[i], actor->dims);
        if (i < ir_int(h->op, A_axis))
            part.outer *= size;
        else
            part.own_bytes *= size;
    }
    actor->bytes_sent += part.outer * part.own_bytes;
    coll->ops->gather_start(h->site, actor->replica, &part);
    return END_NOT;
}

/* "replicas 0, 2 have" of those that have arrived, or have not. */
static const char *
list_replicas(const RtRun *run, Arena *a, RtSite *site, bool arrived)
{
    Str s = str_new(a);
    int n = 0;
    for (int i = 0; i < run->num_replicas; i++) {
        if (run->coll->ops->arrived(site, i) == arrived)
            str_addf(&s, "%s%d", n++ ? ", " : "", i);
    }
    if (!n)
        return "none has";
    return arena_printf(a, n > 1 ? "replicas %s have" : "replica %s has",
                        str_text(&s));
}

static int32_t
fault_late(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->actor->run;
    RtFault *fault = &inv->actor->fault;
    Arena *a = inv->actor->arena;
    bool reduces = h->op->kind == OP_all_reduce_done;
    fault->late = true;
    rt_add_slow(run, a, &fault->slow);
    const char *arrived = list_replicas(run, a, h->site, true);
    const char *missing = list_replicas(run, a, h->site, false);
    int32_t end =
        rt_fault(inv, h, STATUS_INPUT,
                 "the replicas do not meet in this %s: after %g seconds %s "
                 "arrived, %s not (--timeout allows more)",
                 reduces ? "all_reduce" : "all_gather", run->timeout, arrived,
                 missing);
    rt_stop(run);
    return end;
}

static int32_t
wait_for_site(RtInvocation *inv, const RtHostOp *h)
{
    RtColl *coll = inv->actor->run->coll;
    switch (coll->ops->done(h->site, inv->actor->replica)) {
    case COLL_OK:
        return END_NOT;
    case COLL_LATE:
        return fault_late(inv, h);
    case COLL_STOPPED:
        break;
    }
    return END_STOPPED;
}

int32_t
rt_op_all_reduce_done(RtInvocation *inv, const RtHostOp *h)
{
    return wait_for_site(inv, h);
}

int32_t
rt_op_all_gather_done(RtInvocation *inv, const RtHostOp *h)
{
    return wait_for_site(inv, h);
}
