/*
 * check_nan_sites.c - what --check-nan looks at
 *
 * A kernel is the unit that memory shows: what it computes in between is never
 * there.  So what a result descends from is found in the kernel's region: the
 * operands, and the constants that are not finite themselves.  A mask of -inf
 * that the program writes is such a constant, and an infinity that descends
 * from one is no finding.
 */
#include <math.h>
#include "ir/table.h"
#include "ir/type_bounds.h"
#include "runtime/exec/run_state.h"
#include "runtime/check/check_nan_impl.h"

enum { LAST_BIT = 63 };

/* A device that has failed gives zeros, and ends the program itself. */
static const char *
copy_of(Arena *a, const RtInvocation *inv, const RtValue *v)
{
    RtDevice *d = inv->executor->device;
    int64_t count = rt_value_count(v, inv->executor->dims);
    size_t n = (size_t)count * dtype_info[v->dtype].bytes;
    char *bytes = arena_alloc_on_lines(a, n);
    if (n)
        d->ops->program->copy_out(d, bytes, rt_device_value(inv, v), n);
    return bytes;
}

const char *
rt_checked_bytes(Arena *a, const RtInvocation *inv, const RtValue *v)
{
    if (inv->fn->ir->kind != FUNC_PROGRAM)
        return rt_host_value(inv, v);
    return inv->executor->run->caps->is_host_visible
               ? rt_ptr_host(rt_device_value(inv, v))
               : copy_of(a, inv, v);
}

/* ---- descents ------------------------------------------------------------ */

typedef IR_TABLE(RtDescent) Descents;

static unsigned
kinds_of_constant(const IrOp *op)
{
    int64_t bytes;
    const void *data = ir_data(op, A_data, &bytes);
    DType t = op->results[0]->type.dtype;
    return rt_not_finite(t, data, bytes / (int64_t)dtype_info[t].bytes);
}

/* Whether elements of the result are elements of operands. */
static bool
only_moves(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    return op->num_operands == 0 || op->kind == OP_where ||
           op->kind == OP_cast || op->kind == OP_copy ||
           op->kind == OP_stop_gradient || (info->traits & (VIEW | MOVES));
}

static void
add_descent(RtDescent *to, const RtDescent *from)
{
    to->operands |= from->operands;
    to->written |= from->written;
    to->computes |= from->computes;
    to->is_extremum |= from->is_extremum;
}

/* What is neither NaN nor infinite can descend from nothing: an integer, a
 * bool. */
static RtDescent
descent_of(const Descents *known, const IrOp *op)
{
    RtDescent d = {.computes = !only_moves(op),
                   .is_extremum =
                       op->kind == OP_reduce_max || op->kind == OP_reduce_min};
    if (op->kind == OP_constant)
        d.written = kinds_of_constant(op);
    for (int i = 0; i < op->num_operands; i++) {
        const RtDescent *from = IR_TABLE_FIND(*known, op->operands[i]->number);
        if (from && dtype_is_float(op->operands[i]->type.dtype))
            add_descent(&d, from);
    }
    return d;
}

static void
find_descents(const IrOp *kernel, RtDescent *out)
{
    Descents known = {0};
    const IrBlock *b = kernel->regions[0];
    Arena *scratch = arena_new(NULL, "descents");
    for (int i = 0; i < b->args.len; i++)
        *IR_TABLE_SLOT(scratch, known, b->args.data[i]->number) =
            (RtDescent){.operands = 1ULL << (i < LAST_BIT ? i : LAST_BIT)};
    for (const IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_results; i++) {
            RtDescent d = descent_of(&known, op);
            *IR_TABLE_SLOT(scratch, known, op->results[i]->number) = d;
        }
    const IrOp *yield = ir_block_yield(b);
    for (int i = 0; i < kernel->num_results; i++) {
        const RtDescent *d = IR_TABLE_FIND(known, yield->operands[i]->number);
        out[i] = d ? *d : (RtDescent){0};
    }
    arena_release(scratch);
}

/* ---- results that the end of a region may overwrite ---------------------- */

static bool
may_overlap(const RtRun *run, const IrValue *a, const IrValue *b)
{
    int64_t n = 0, m = 0;
    if (a == b || a->place.space != b->place.space)
        return false;
    if (!ir_type_bytes(run->module, &a->type, &n) ||
        !ir_type_bytes(run->module, &b->type, &m))
        return true;
    return a->place.offset < b->place.offset + m &&
           b->place.offset < a->place.offset + n;
}

/* Whether what is copied to the last arguments or results overwrites v, which
 * may be one of the values that are copied, to where it is. */
static bool
is_overwritten(const RtRun *run, const IrValue *v, const IrOp *yield, int n,
               IrValue *const *to)
{
    for (int i = 0; i < n; i++) {
        int from = i - (n - yield->num_operands);
        bool stays = from >= 0 && from < yield->num_operands &&
                     yield->operands[from] == v &&
                     ir_place_equal(v->place, to[i]->place);
        if (!stays && may_overlap(run, v, to[i]))
            return true;
    }
    return false;
}

/* The last position of a region is followed by copies of what is yielded. */
static bool
is_lost(const RtRun *run, const IrOp *op, const IrValue *v)
{
    const IrOp *yield = op->next, *around = op->block->op;
    if (!yield || yield->kind != OP_yield || !around)
        return false;
    bool lost =
        is_overwritten(run, v, yield, around->num_results, around->results);
    for (int r = 0; r < around->num_regions; r++) {
        const IrValues *args = &around->regions[r]->args;
        lost |= is_overwritten(run, v, yield, args->len, args->data);
    }
    return lost;
}

/* ---- sites --------------------------------------------------------------- */

static bool
is_checked(const IrOp *op)
{
    return op->kind == OP_kernel || op->kind == OP_all_reduce_start ||
           op->kind == OP_all_reduce_done;
}

static Status
load_all(RtRun *run, const RtFunction *fn, int n, IrValue *const *from,
         RtValue **out)
{
    *out = NEW_ARRAY(run->arena, RtValue, (size_t)n + 1);
    for (int i = 0; i < n; i++)
        TRY(rt_load_value(run, fn, from[i], &(*out)[i]));
    return OK;
}

static void
find_start(RtFunction *fn, RtCheckedSite *done)
{
    const IrOp *start = done->op->operands[0]->def;
    for (int i = 0; i < fn->positions.len; i++)
        if (fn->checked[i].op == start)
            done->started = &fn->checked[i];
}

/* That of the collective of a start. */
static RtGiven *
given_to(RtRun *run, const RtFunction *fn, const IrOp *start, RtGiven *given)
{
    int i = 0;
    size_t local = (size_t)run->num_local;
    size_t num = (size_t)start->num_operands + 1;
    while (fn->starts.data[i]->op != start)
        i++;
    RtGiven *g = &given[fn->starts.data[i]->collective];
    if (!g->calls) {
        g->calls = NEW_ARRAY(run->arena, uint32_t, local);
        g->seen = arena_array(run->arena, 2 * local * num, sizeof *g->seen);
    }
    return g;
}

static Status
prepare(RtRun *run, RtFunction *fn, const IrOp *op, RtGiven *given,
        RtCheckedSite *site)
{
    size_t num = (size_t)op->num_results + 1;
    site->op = op;
    TRY(load_all(run, fn, op->num_operands, op->operands, &site->in));
    TRY(load_all(run, fn, op->num_results, op->results, &site->out));
    site->is_lost = NEW_ARRAY(run->arena, bool, num);
    for (int i = 0; i < op->num_results; i++)
        site->is_lost[i] = !run->enqueues && is_lost(run, op, op->results[i]);
    if (op->kind == OP_kernel) {
        site->descent = NEW_ARRAY(run->arena, RtDescent, num);
        find_descents(op, site->descent);
    } else if (op->kind == OP_all_reduce_start) {
        site->given = given_to(run, fn, op, given);
    } else {
        find_start(fn, site);
    }
    return OK;
}

Status
rt_find_checked_sites(RtRun *run, RtFunction *fn, RtGiven *given)
{
    size_t num = (size_t)fn->positions.len;
    fn->checked = NEW_ARRAY(run->arena, RtCheckedSite, num + 1);
    for (int i = 0; i < fn->positions.len; i++)
        if (is_checked(fn->positions.data[i]))
            TRY(prepare(run, fn, fn->positions.data[i], given,
                        &fn->checked[i]));
    return OK;
}
