/*
 * grad_control.c - gradients through control flow
 *
 * An iteration of a while is an if, in a for of as many iterations as the while
 * has at most.  A short for is unrolled first, so that only branches are left;
 * others stay loops (grad_loop.c).
 *
 * The gradient of an if is an if on the same condition, whose branches sweep
 * the branches of the first in reverse and yield the gradients of the values
 * from outside.  The forward if gets further results for the values of its
 * branches that the reverse branches need (zeros if the other branch was
 * taken).
 *
 * The gradient of custom_gradient is a copy of its region.
 */
#include "ir/base/io/limit.h"
#include "ir/base/status.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/autodiff/grad.h"

/* ---- unrolling ---------------------------------------------------------- */

/* A copy of region b with args as its arguments; returns its yield, which the
 * caller removes. */
static IrOp *
copy_region(PassCx *cx, const IrBlock *b, IrValue *const *args, IrBlock *to)
{
    IrCloneMap *map = ir_clone_map(cx->arena);
    for (int i = 0; i < b->args.len; i++)
        ir_clone_set(map, b->args.data[i], args[i]);
    ir_clone_body(map, b, to);
    return ir_block_yield(to);
}

static void
take_results(IrValue **carried, IrOp *yield)
{
    for (int i = 0; i < yield->num_operands; i++)
        carried[i] = yield->operands[i];
    ir_remove(yield);
}

static void
unroll_for(PassCx *cx, IrOp *op, IrBlock *to, IrValue **args, int64_t count)
{
    DType t = op->operands[0]->type.dtype;
    for (int64_t k = 0; k < count; k++) {
        args[0] = ir_const_int(to, t, k, op->loc);
        take_results(args + 1, copy_region(cx, op->regions[0], args, to));
    }
}

/* Whether the test of a while must not be made again after it has failed. */
static bool
test_has_effects(const IrOp *op)
{
    return ir_has_effects(op->regions[0]);
}

/* The test, copied to `to`. */
static IrValue *
copy_test(PassCx *cx, const IrOp *op, IrBlock *to, IrValue *const *carried)
{
    IrOp *yield = copy_region(cx, op->regions[0], carried, to);
    IrValue *holds = yield->operands[0];
    ir_remove(yield);
    return holds;
}

/* The test where the one before, `earlier`, held; else false. */
static IrValue *
copy_test_if(PassCx *cx, const IrOp *op, IrBlock *to, IrValue *const *carried,
             IrValue *earlier)
{
    IrOp *branch = ir_build_op(to, OP_if, 1, &earlier, op->loc);
    copy_region(cx, op->regions[0], carried, branch->regions[0]);
    IrValue *ended = ir_const_int(branch->regions[1], DT_bool, false, op->loc);
    ir_build_yield(branch->regions[1], 1, &ended, op->loc);
    ir_op_close(branch);
    return branch->results[0];
}

/* One iteration: if the test holds, the values of the body, else the old ones.
 * `earlier` is that of the iteration before, or NULL; returns this one's. */
static IrValue *
unroll_while_once(PassCx *cx, IrOp *op, IrBlock *to, IrValue **carried,
                  IrValue *earlier)
{
    IrValue *holds = earlier && test_has_effects(op)
                         ? copy_test_if(cx, op, to, carried, earlier)
                         : copy_test(cx, op, to, carried);
    IrOp *branch = ir_build_op(to, OP_if, 1, &holds, op->loc);
    copy_region(cx, op->regions[1], carried, branch->regions[0]);
    ir_build_yield(branch->regions[1], op->num_results, carried, op->loc);
    ir_op_close(branch);
    for (int i = 0; i < op->num_results; i++)
        carried[i] = branch->results[i];
    return holds;
}

static int64_t
iterations(PassCx *cx, const IrOp *op)
{
    Scalar count;
    if (op->kind == OP_while && ir_has(op, A_max))
        return ir_int(op, A_max);
    if (op->kind == OP_for && ir_const_known(op->operands[0], &count))
        return count.i;
    bool is_for = op->kind == OP_for;
    pass_grad_error(
        cx, op,
        is_for ? NULL
               : "write while condition max N, or, where no gradient is meant "
                 "to go through it, stop_gradient(x) of what it makes",
        "gradients go through a %s only when its count is known when "
        "compiling",
        is_for ? "for" : "while");
    return -1;
}

/* Counts the operations that count iterations of op are; loops within loops add
 * up.  False, with an error, if they are too many. */
static bool
count_unrolled(PassCx *cx, const IrOp *op, int64_t count)
{
    int64_t most = limit_value(LIMIT_unroll), made;
    if (count > most)
        pass_grad_error(cx, op, limit_note(cx->arena, LIMIT_unroll),
                        "gradients through %lld iterations: at most %lld are "
                        "unrolled",
                        (long long)count, (long long)most);
    if (count < 0 || count > most)
        return false;
    if (!__builtin_mul_overflow(pass_num_ops(op), count, &made))
        cx->num_unrolled += made;
    if (cx->num_unrolled <= limit_value(LIMIT_placed))
        return true;
    pass_grad_error(cx, op, limit_note(cx->arena, LIMIT_placed), "%s",
                    limit_message(cx->arena, LIMIT_placed));
    return false;
}

/* The most operations that a for may become. */
enum { MAX_UNROLLED = 256 };

typedef struct Ranks {
    int most;
} Ranks;

static void
note_rank(IrOp *op, void *data)
{
    Ranks *ranks = data;
    for (int i = 0; i < op->num_results; i++)
        if (op->results[i]->type.rank > ranks->most)
            ranks->most = op->results[i]->type.rank;
}

/* Whether values of all steps of a loop have room for an axis more, and one for
 * each loop around. */
static bool
has_room(const IrOp *loop)
{
    int depth = 1;
    Ranks ranks = {0};
    ir_walk_op((IrOp *)loop, note_rank, &ranks);
    for (const IrOp *op = loop->block->op; op; op = op->block->op)
        depth += op->kind == OP_for;
    return ranks.most + depth <= IR_MAX_RANK;
}

/* Whether the gradient of so many iterations is to be a loop: they would be
 * many operations, unrolled. */
static bool
is_long(const IrOp *loop, int64_t count)
{
    int64_t made;
    return count >= 0 && count <= limit_value(LIMIT_unroll) && has_room(loop) &&
           !__builtin_mul_overflow(pass_num_ops(loop), count, &made) &&
           made > MAX_UNROLLED;
}

bool
pass_grad_stays_loop(const IrOp *op)
{
    Scalar count;
    return op->kind == OP_for && ir_const_known(op->operands[0], &count) &&
           is_long(op, count.i);
}

/* ---- a while as a for ---------------------------------------------------- */

/* After the last iteration of the while those of the for change nothing.  It
 * also carries whether the test held. */
static IrOp *
build_for(PassCx *cx, IrOp *op, IrBlock *to, int64_t count)
{
    int num = op->num_operands;
    IrValue **init = NEW_ARRAY(cx->arena, IrValue *, (size_t)num + 2);
    IrValue **carried = NEW_ARRAY(cx->arena, IrValue *, (size_t)num + 1);
    IrType holds = ir_block_yield(op->regions[0])->operands[0]->type;
    init[0] = ir_const_int(to, DT_i64, count, op->loc);
    for (int i = 0; i < num; i++)
        init[i + 1] = op->operands[i];
    init[num + 1] = ir_const_int(to, DT_bool, true, op->loc);
    IrOp *loop = ir_build_op(to, OP_for, num + 2, init, op->loc);
    IrBlock *body = loop->regions[0];
    ir_block_arg(body, init[0]->type, NULL);
    for (int i = 0; i < num; i++)
        carried[i] = ir_block_arg(body, op->operands[i]->type, NULL);
    carried[num] = ir_block_arg(body, holds, NULL);
    carried[num] = unroll_while_once(cx, op, body, carried, carried[num]);
    ir_build_yield(body, num + 1, carried, op->loc);
    ir_op_close(loop);
    return loop;
}

static void
replace_while(PassCx *cx, IrOp *op, int64_t count)
{
    IrBlock *to = ir_block_scratch(op);
    IrOp *loop = build_for(cx, op, to, count);
    for (int i = 0; i < op->num_results; i++)
        ir_forward(op->results[i], loop->results[i]);
    ir_stamp(to, ir_reason_for(op, "differentiate.count",
                               "at most %lld iterations that a gradient goes "
                               "through",
                               (long long)count));
    ir_splice_before(op, to);
    ir_remove(op);
}

bool
pass_grad_replace_loop(PassCx *cx, IrOp *op)
{
    int64_t count = iterations(cx, op);
    if (op->kind == OP_while && is_long(op, count)) {
        replace_while(cx, op, count);
        return true;
    }
    if (!count_unrolled(cx, op, count))
        return false;
    IrBlock *to = ir_block_scratch(op);
    int skip = ir_loop(op).first_init;
    IrValue **carried =
        NEW_ARRAY(cx->arena, IrValue *, (size_t)op->num_operands + 1);
    for (int i = 0; i < op->num_operands; i++)
        carried[i] = op->operands[i];
    IrValue *holds = NULL;
    if (skip)
        unroll_for(cx, op, to, carried, count);
    else
        for (int64_t k = 0; k < count; k++)
            holds = unroll_while_once(cx, op, to, carried, holds);
    for (int i = 0; i < op->num_results; i++)
        ir_forward(op->results[i], carried[i + skip]);
    ir_stamp(to, ir_reason_for(op, "differentiate.unroll",
                               "%lld iterations that a gradient goes through",
                               (long long)count));
    ir_splice_before(op, to);
    ir_remove(op);
    return true;
}

/* ---- the gradient of a branch ------------------------------------------- */

typedef struct BranchGrad {
    Grad *g;
    const IrOp *forward;
    IrValues wanted; /* that get gradients: from outside, or reads inside */
    IrValues stash;  /* of the forward branches, needed by the reverse ones */
    IrOp *reverse;
} BranchGrad;

bool
pass_values_have(const IrValues *list, const IrValue *v)
{
    for (int i = 0; i < list->len; i++)
        if (list->data[i] == v)
            return true;
    return false;
}

void
pass_grad_replace_results(Grad *g, IrOp *old, IrOp *op)
{
    for (int i = 0; i < old->num_results; i++) {
        op->results[i]->name = old->results[i]->name;
        *pass_adjoint_add(g, op->results[i]) =
            *pass_adjoint_add(g, old->results[i]);
        ir_forward(old->results[i], op->results[i]);
    }
}

static void
add_wanted(BranchGrad *bg, IrValue *v)
{
    if (pass_grad_wanted(bg->g, v) && !pass_values_have(&bg->wanted, v))
        VEC_PUSH(bg->g->cx->arena, bg->wanted, v);
}

static void
find_wanted(IrOp *op, void *data)
{
    BranchGrad *bg = data;
    for (int i = 0; i < op->num_operands; i++)
        if (!ir_is_inside(op->operands[i], bg->forward))
            add_wanted(bg, op->operands[i]);
    if (op->kind == OP_read)
        add_wanted(bg, op->results[0]);
}

/* Sweeps one forward branch in reverse into one of the reverse if. */
static void
sweep_branch(BranchGrad *bg, int r)
{
    Grad *g = bg->g;
    IrBlock *outer = g->b;
    g->b = bg->reverse->regions[r];
    IrOp *yield = ir_block_yield(bg->forward->regions[r]);
    for (int i = 0; i < bg->forward->num_results; i++) {
        IrValue *d = pass_grad_of(g, bg->forward->results[i]);
        if (d)
            pass_grad_add(g, yield->operands[i], d);
    }
    pass_grad_sweep(g, yield->prev);
    IrValue **found =
        NEW_ARRAY(g->cx->arena, IrValue *, (size_t)bg->wanted.len);
    for (int i = 0; i < bg->wanted.len; i++) {
        IrValue *v = bg->wanted.data[i], *d = pass_grad_of(g, v);
        found[i] = d ? d : ir_const_zeros(g->b, &v->type, g->loc);
        pass_adjoint_of(g, v)->gradient = NULL;
    }
    ir_build_yield(g->b, bg->wanted.len, found, g->loc);
    g->b = outer;
}

/* An if that was differentiated has been replaced; this finds the result in its
 * replacement. */
static void
find_stash(IrOp *op, void *data)
{
    BranchGrad *bg = data;
    ir_follow_forwards(op);
    for (int i = 0; i < op->num_operands; i++)
        if (ir_is_inside(op->operands[i], bg->forward) &&
            !pass_values_have(&bg->stash, op->operands[i]))
            VEC_PUSH(bg->g->cx->arena, bg->stash, op->operands[i]);
}

/* The values of the stash that branch r yields: its own, and zeros for the
 * rest. */
static void
add_stash(BranchGrad *bg, IrOp *yield, IrValues *all)
{
    Arena *a = bg->g->cx->arena;
    IrBlock *zeros = ir_block_scratch(yield);
    for (int i = 0; i < bg->stash.len; i++) {
        IrValue *v = bg->stash.data[i];
        const IrBlock *home = ir_value_block(v);
        if (home != yield->block)
            v = ir_const_zeros(zeros, &v->type, bg->g->loc);
        VEC_PUSH(a, *all, v);
    }
    ir_stamp(zeros,
             ir_reason_for(yield, "differentiate.stash",
                           "in place of values of the other branch that its "
                           "gradient needs"));
    ir_splice_before(yield, zeros);
}

static void
widen_yield(BranchGrad *bg, IrBlock *b)
{
    IrOp *old = ir_block_yield(b);
    IrValues all = {0};
    for (int i = 0; i < old->num_operands; i++)
        VEC_PUSH(bg->g->cx->arena, all, old->operands[i]);
    add_stash(bg, old, &all);
    ir_remove(old);
    ir_build_yield(b, all.len, all.data, old->loc);
}

typedef struct Rename {
    const IrValues *from;
    IrValue *const *to;
} Rename;

static void
rename_operands(IrOp *op, void *data)
{
    const Rename *r = data;
    for (int i = 0; i < op->num_operands; i++)
        for (int j = 0; j < r->from->len; j++)
            if (op->operands[i] == r->from->data[j])
                op->operands[i] = r->to[j];
}

/* Builds the forward if again, with the stash as further results; the reverse
 * branches use those. */
static void
hand_out_stash(BranchGrad *bg, IrOp *old)
{
    for (int r = 0; r < 2; r++)
        ir_walk(bg->reverse->regions[r], find_stash, bg);
    if (bg->stash.len == 0)
        return;
    IrBlock *b = ir_block_scratch(old);
    IrOp *op = ir_build_op(b, OP_if, 1, old->operands, old->loc);
    op->reason = old->reason;
    for (int r = 0; r < 2; r++) {
        ir_set_region(op, r, old->regions[r]);
        widen_yield(bg, op->regions[r]);
    }
    ir_op_close(op);
    ir_splice_before(old, b);
    pass_grad_replace_results(bg->g, old, op);
    Rename rename = {&bg->stash, op->results + old->num_results};
    for (int r = 0; r < 2; r++)
        ir_walk(bg->reverse->regions[r], rename_operands, &rename);
    ir_remove(old);
}

void
pass_grad_rule_if(Grad *g, const IrOp *op)
{
    BranchGrad bg = {.g = g, .forward = op};
    for (int r = 0; r < 2; r++)
        ir_walk(op->regions[r], find_wanted, &bg);
    for (int r = 0; r < 2; r++) {
        const IrOp *yield = ir_block_yield(op->regions[r]);
        for (int i = 0; i < yield->num_operands; i++)
            if (!ir_is_inside(yield->operands[i], op))
                add_wanted(&bg, yield->operands[i]);
    }
    /* gradients from elsewhere are set aside meanwhile */
    IrValue **before =
        NEW_ARRAY(g->cx->arena, IrValue *, (size_t)bg.wanted.len);
    for (int i = 0; i < bg.wanted.len; i++) {
        before[i] = pass_grad_of(g, bg.wanted.data[i]);
        pass_adjoint_of(g, bg.wanted.data[i])->gradient = NULL;
    }
    IrValue *condition = op->operands[0];
    bg.reverse = ir_build_op(g->b, OP_if, 1, &condition, g->loc);
    sweep_branch(&bg, 0);
    sweep_branch(&bg, 1);
    ir_op_close(bg.reverse);
    hand_out_stash(&bg, (IrOp *)op);
    for (int i = 0; i < bg.wanted.len; i++) {
        pass_adjoint_of(g, bg.wanted.data[i])->gradient = before[i];
        pass_grad_add(g, bg.wanted.data[i], bg.reverse->results[i]);
    }
}

/* One that a gradient goes through was unrolled before the sweep: what is left
 * makes a value that the gradient is asked of, and nothing before it is. */
void
pass_grad_rule_while(Grad *g, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (pass_grad_wanted(g, op->operands[i]))
            UNREACHABLE("a gradient reached a while that was not unrolled");
}

/* ---- custom gradients ------------------------------- */

void
pass_grad_rule_custom_gradient(Grad *g, const IrOp *op)
{
    int n = op->num_results;
    IrValue **arrived = NEW_ARRAY(g->cx->arena, IrValue *, (size_t)n);
    for (int i = 0; i < n; i++) {
        IrValue *y = op->results[i], *dy = pass_grad_of(g, y);
        arrived[i] = dy ? dy : ir_const_zeros(g->b, &y->type, g->loc);
    }
    IrOp *yield = copy_region(g->cx, op->regions[0], arrived, g->b);
    for (int i = 0; i < yield->num_operands; i++)
        pass_grad_add(g, op->operands[n + i], yield->operands[i]);
    ir_remove(yield);
}
