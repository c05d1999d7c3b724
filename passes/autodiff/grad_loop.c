/*
 * grad_loop.c - the gradient of a loop of known length is a loop
 *
 *   forward   %r, %all = for %n, %init, %room (%t, %a, %s) {
 *               ... %v ...                        what the reverse loop needs
 *               %s' = scatter %s, %t, %v          is kept, a part a step
 *               yield %next, %s'
 *   reverse   %d, %dx = for %n, %dr, %dx0 (%i, %da, %sum) {
 *               %t = n - 1 - i
 *               ... take %all, %t ...             the sweep of the body
 *               yield the gradient of %a, %sum + what arrives at x
 *
 * The gradients of values from outside are summed on from what arrived there
 * before, the last step first, as the sweep of an unrolled loop does; so parts
 * of them (pass_grad_add_rows) change in place.  What follows from the step's
 * number and from values outside, moving elements only, is computed again.
 *
 * Of what a loop sets row by row, a step looks at the gradient of its own row
 * alone: so that is not set to 0 afterwards.
 *
 * The gradient of a value from outside through a product with a value of the
 * step, such as a weight's, is no sum over the steps: both sides are kept, and
 * one product after the loop sums over the steps, from the first to the last,
 * and in each over what the products of a step sum over.
 */
#include <assert.h>
#include "ir/base/status.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "ir/rules/overwrites.h"
#include "passes/autodiff/grad.h"

/* A value that the reverse loop carries. */
typedef struct Carried {
    IrValue *init, *arg, *next;
    IrValue *of;      /* whose gradient it is; NULL: rows for a product */
    IrValue *arrived; /* there before, or NULL */
} Carried;

struct LoopGrad {
    Grad *g;
    LoopGrad *outer;
    IrOp *forward, *reverse;
    IrLoop loop; /* the forward one */
    int64_t count;
    IrValue *step;     /* in the reverse loop: the number of the forward one */
    IrValues wanted;   /* from outside, that get gradients */
    IrValues needed;   /* of the forward body, by the reverse one */
    IrValues stash;    /* those of them that are kept */
    IrCloneMap *again; /* values of the forward body in the reverse one */
    VEC(Carried) carried;
    VEC(GradProduct) products; /* made after the loop, of all steps */
};

static IrBlock *
forward_body(const LoopGrad *l)
{
    return l->forward->regions[0];
}

static IrBlock *
reverse_body(const LoopGrad *l)
{
    return l->reverse->regions[0];
}

static IrType
of_all_steps(const LoopGrad *l, const IrType *t)
{
    IrType all = *t;
    assert(t->rank < IR_MAX_RANK);
    all.rank = t->rank + 1;
    all.dims[0] = ir_dim_const(l->count);
    for (int i = 0; i < t->rank; i++)
        all.dims[i + 1] = t->dims[i];
    return all;
}

/* ---- the reverse loop --------------------------------------------------- */

static void
add_wanted(LoopGrad *l, IrValue *v)
{
    if (pass_grad_wanted(l->g, v) && !pass_values_have(&l->wanted, v))
        VEC_PUSH(l->g->cx->arena, l->wanted, v);
}

static void
find_wanted(IrOp *op, void *data)
{
    LoopGrad *l = data;
    for (int i = 0; i < op->num_operands; i++)
        if (!ir_is_inside(op->operands[i], l->forward))
            add_wanted(l, op->operands[i]);
    if (op->kind == OP_read)
        add_wanted(l, op->results[0]);
}

/* The argument of the reverse loop that begins as c->init. */
static IrValue *
carry(LoopGrad *l, Carried c)
{
    c.arg = ir_block_arg(reverse_body(l), c.init->type, NULL);
    VEC_PUSH(l->g->cx->arena, l->carried, c);
    return c.arg;
}

/* The argument that begins as what arrived at v, and is the gradient of `of`
 * from then on. */
static IrValue *
carry_gradient(LoopGrad *l, IrBlock *outer, IrValue *v, IrValue *of)
{
    IrValue *arrived = pass_grad_of(l->g, v);
    IrValue *init =
        arrived ? arrived : ir_const_zeros(outer, &v->type, l->g->loc);
    return carry(l, (Carried){.init = init, .of = of, .arrived = arrived});
}

static void
begin_reverse(LoopGrad *l, IrBlock *outer)
{
    Grad *g = l->g;
    const IrLoop *loop = &l->loop;
    DType t = loop->index->type.dtype;
    IrValue *index = ir_block_arg(reverse_body(l), loop->index->type, NULL);
    IrValue *last = ir_const_int(reverse_body(l), t, l->count - 1, g->loc);
    l->step = ir_build2(reverse_body(l), OP_sub, last, index, g->loc);
    for (int i = 0; i < l->wanted.len; i++) {
        IrValue *v = l->wanted.data[i], *sum = carry_gradient(l, outer, v, v);
        pass_adjoint_of(g, v)->gradient = sum;
    }
    for (int i = 0; i < loop->num_carried; i++)
        if (pass_grad_wanted(g, loop->body_arg[i]))
            carry_gradient(l, outer, loop->result[i], loop->body_arg[i]);
}

/* A step's gradients arrive at what the forward loop yields, which may be a
 * value from outside. */
static void
begin_step(LoopGrad *l)
{
    Grad *g = l->g;
    const IrLoop *loop = &l->loop;
    for (int i = 0, k = l->wanted.len; i < loop->num_carried; i++)
        if (pass_grad_wanted(g, loop->body_arg[i]))
            pass_grad_add(g, loop->next[i], l->carried.data[k++].arg);
}

/* What a step hands to the one before it. */
static void
end_reverse(LoopGrad *l)
{
    Grad *g = l->g;
    for (int i = 0; i < l->carried.len; i++) {
        Carried *c = &l->carried.data[i];
        if (!c->of)
            continue;
        Adjoint *adjoint = pass_adjoint_of(g, c->of);
        c->next = adjoint->gradient;
        adjoint->gradient = NULL;
        if (!c->next)
            c->next = ir_const_zeros(g->b, &c->arg->type, g->loc);
    }
}

/* Whether no step changes it. */
static bool
is_idle(const Carried *c)
{
    return c->next == c->arg;
}

/* Arguments that no step changes are what they begin as. */
static void
replace_idle(LoopGrad *l)
{
    for (int i = 0; i < l->carried.len; i++) {
        const Carried *c = &l->carried.data[i];
        if (is_idle(c))
            ir_clone_set(l->again, c->arg, c->init);
    }
}

/* Without the arguments that no step changes. */
static void
remove_idle(LoopGrad *l)
{
    IrBlock *b = reverse_body(l);
    b->args.len = 1;
    for (int i = 0; i < l->carried.len; i++) {
        IrValue *arg = l->carried.data[i].arg;
        if (is_idle(&l->carried.data[i]))
            continue;
        arg->index = b->args.len;
        VEC_PUSH(l->g->cx->m->arena, b->args, arg);
    }
}

/* The loop with what it turned out to carry. */
static void
close_reverse(LoopGrad *l, IrBlock *outer)
{
    Grad *g = l->g;
    IrValues init = {0}, next = {0};
    DType t = l->loop.index->type.dtype;
    VEC_PUSH(g->cx->arena, init, ir_const_int(outer, t, l->count, g->loc));
    for (int i = 0; i < l->carried.len; i++) {
        const Carried *c = &l->carried.data[i];
        if (is_idle(c))
            continue;
        VEC_PUSH(g->cx->arena, init, c->init);
        VEC_PUSH(g->cx->arena, next, ir_clone_get(l->again, c->next));
    }
    remove_idle(l);
    ir_build_yield(reverse_body(l), next.len, next.data, g->loc);
    IrOp *op = ir_build_op(outer, OP_for, init.len, init.data, g->loc);
    ir_set_region(op, 0, reverse_body(l));
    ir_op_close(op);
    ir_remove(l->reverse);
    l->reverse = op;
}

/* ---- products ----------------------------------------------------------- */

static int
find_value(const IrValues *list, const IrValue *v)
{
    for (int i = 0; i < list->len; i++)
        if (list->data[i] == v)
            return i;
    return -1;
}

static void
keep(LoopGrad *l, IrValue *v)
{
    if (!pass_values_have(&l->stash, v))
        VEC_PUSH(l->g->cx->arena, l->stash, v);
}

bool
pass_grad_defer_product(Grad *g, const GradProduct *p)
{
    LoopGrad *l = g->loop;
    if (!l || g->b != reverse_body(l) || ir_is_inside(p->to, l->forward) ||
        ir_value_block(p->other) != forward_body(l) ||
        p->dy->type.rank == IR_MAX_RANK || p->other->type.rank == IR_MAX_RANK)
        return false;
    IrType all = of_all_steps(l, &p->dy->type);
    IrValue *zeros = ir_const_zeros(l->reverse->block, &all, g->loc);
    IrValue *rows = carry(l, (Carried){.init = zeros});
    VEC_LAST(l->carried).next =
        ir_build_scatter(g->b, UPDATE_set, rows, l->step, p->dy, 0, g->loc);
    VEC_PUSH(g->cx->arena, l->products, *p);
    keep(l, p->other);
    return true;
}

bool
pass_grad_sets_own_row(const Grad *g, const IrOp *op)
{
    const LoopGrad *l = g->loop;
    if (!l || op->block != forward_body(l))
        return false;
    for (int i = 0; i < l->loop.num_carried; i++)
        if (l->loop.next[i] == op->results[0])
            return !pass_grad_wanted(g, l->loop.init[i]) &&
                   ir_for_collects(l->forward, i) == op;
    return false;
}

static void
move_axes(int64_t *axes, int n)
{
    for (int i = 0; i < n; i++)
        axes[i]++;
}

/* The sum over the steps comes first. */
static void
prepend_step(int64_t *axes, int n)
{
    for (int i = n; i > 0; i--)
        axes[i] = axes[i - 1] + 1;
    axes[0] = 0;
}

/* Of all steps. */
static void
add_product(LoopGrad *l, GradProduct p, IrValue *dy)
{
    p.dy = dy;
    p.other = l->forward->results[l->loop.num_carried +
                                  find_value(&l->stash, ir_forwarded(p.other))];
    prepend_step(p.contract_x, p.num_contract);
    prepend_step(p.contract_y, p.num_contract);
    p.num_contract++;
    move_axes(p.batch_x, p.num_batch);
    move_axes(p.batch_y, p.num_batch);
    pass_grad_add_product(l->g, &p);
}

/* ---- what the reverse loop needs ---------------------------------------- */

static bool
is_cheap(const IrOp *op)
{
    return ir_op_info[op->kind].effect == PURE && op->num_regions == 0 &&
           op->num_results == 1 && op->kind != OP_grad &&
           ((ir_op_info[op->kind].traits & (MOVES | VIEW)) ||
            !dtype_is_float(op->results[0]->type.dtype));
}

/* Computes v of the forward body again, if that moves elements of values from
 * outside; else NULL.  `again` has what was computed. */
static IrValue *
compute_again(LoopGrad *l, IrBlock *to, IrValue *v)
{
    IrValue *found = ir_clone_get(l->again, v);
    if (found != v || !ir_is_inside(v, l->forward))
        return found;
    if (!v->def || !is_cheap(v->def) || pass_values_have(&l->stash, v))
        return NULL;
    ir_follow_forwards(v->def);
    for (int i = 0; i < v->def->num_operands; i++)
        if (!compute_again(l, to, v->def->operands[i])) {
            keep(l, v);
            return NULL;
        }
    ir_clone_op(l->again, v->def, to);
    return ir_clone_get(l->again, v);
}

static void
find_needed(IrOp *op, void *data)
{
    LoopGrad *l = data;
    ir_follow_forwards(op);
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *v = op->operands[i];
        if (ir_is_inside(v, l->forward) && !pass_values_have(&l->needed, v))
            VEC_PUSH(l->g->cx->arena, l->needed, v);
    }
}

/* Builds the forward loop again; it also keeps the stash. */
static void
hand_out_stash(LoopGrad *l)
{
    Grad *g = l->g;
    Arena *a = g->cx->arena;
    IrOp *old = l->forward;
    IrBlock *b = ir_block_scratch(old), *body = old->regions[0];
    IrOp *end = ir_block_yield(body);
    IrBlock *keeping = ir_block_scratch(end);
    IrValues init = {0}, next = {0};
    for (int i = 0; i < old->num_operands; i++)
        VEC_PUSH(a, init, old->operands[i]);
    for (int i = 0; i < end->num_operands; i++)
        VEC_PUSH(a, next, end->operands[i]);
    for (int i = 0; i < l->stash.len; i++) {
        IrValue *v = l->stash.data[i];
        IrType all = of_all_steps(l, &v->type);
        IrValue *room = ir_const_zeros(b, &all, old->loc);
        VEC_PUSH(a, init, room);
        IrValue *arg = ir_block_arg(body, room->type, NULL);
        VEC_PUSH(a, next,
                 ir_build_scatter(keeping, UPDATE_set, arg, l->loop.index, v, 0,
                                  old->loc));
    }
    const IrReason *reason =
        ir_reason_for(old, "differentiate.stash",
                      "values of all steps that the gradient needs");
    ir_stamp(keeping, reason);
    ir_splice_before(end, keeping);
    ir_remove(end);
    ir_build_yield(body, next.len, next.data, end->loc);
    IrOp *op = ir_build_op(b, OP_for, init.len, init.data, old->loc);
    ir_stamp(b, reason);
    op->reason = old->reason;
    ir_set_region(op, 0, body);
    ir_op_close(op);
    ir_splice_before(old, b);
    pass_grad_replace_results(g, old, op);
    ir_remove(old);
    l->forward = op;
}

static void
rename_operands(IrOp *op, void *data)
{
    LoopGrad *l = data;
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i] = ir_clone_get(l->again, op->operands[i]);
}

/* The values of the forward body that the reverse one uses: computed again, or
 * taken from what was kept. */
static void
replace_needed(LoopGrad *l)
{
    Grad *g = l->g;
    int num = l->loop.num_carried;
    for (int i = 0; i < l->stash.len; i++)
        l->stash.data[i] = ir_forwarded(l->stash.data[i]);
    ir_walk(reverse_body(l), find_needed, l);
    IrBlock *b = ir_block_scratch(l->step->def);
    l->again = ir_clone_map(g->cx->arena);
    ir_clone_set(l->again, l->loop.index, l->step);
    for (int i = 0; i < l->needed.len; i++)
        if (!compute_again(l, b, l->needed.data[i]))
            keep(l, l->needed.data[i]);
    if (l->stash.len)
        hand_out_stash(l);
    for (int i = 0; i < l->stash.len; i++) {
        IrValue *operands[] = {l->forward->results[num + i], l->step};
        IrOp *take = ir_build_op(b, OP_take, 2, operands, g->loc);
        ir_set_int(take, A_axis, 0);
        ir_clone_set(l->again, l->stash.data[i], ir_build_infer(take));
    }
    replace_idle(l);
    ir_walk(reverse_body(l), rename_operands, l);
    ir_splice_after(l->step->def, b);
}

/* ---- the rule ----------------------------------------------------------- */

/* Hands the gradients on to what the loop began with, and to values from
 * outside. */
static void
take_gradients(LoopGrad *l)
{
    Grad *g = l->g;
    int num_args = 0, num_results = 0;
    for (int i = 0; i < l->wanted.len; i++)
        pass_adjoint_of(g, l->wanted.data[i])->gradient =
            l->carried.data[i].arrived;
    for (int i = 0; i < l->wanted.len; i++)
        if (!is_idle(&l->carried.data[i]))
            pass_adjoint_of(g, l->wanted.data[i])->gradient =
                l->reverse->results[num_results++];
    int k = l->wanted.len;
    for (; k < l->carried.len && l->carried.data[k].of; k++) {
        const Carried *c = &l->carried.data[k];
        while (l->loop.body_arg[num_args] != c->of)
            num_args++;
        pass_grad_add(g, l->forward->operands[1 + num_args],
                      is_idle(c) ? c->init
                                 : l->reverse->results[num_results++]);
    }
    for (int i = 0; i < l->products.len; i++)
        add_product(l, l->products.data[i], l->reverse->results[num_results++]);
}

void
pass_grad_rule_for(Grad *g, const IrOp *op)
{
    LoopGrad l = {.g = g, .outer = g->loop, .forward = (IrOp *)op};
    IrBlock *outer = g->b;
    Scalar count;
    if (!ir_const_known(op->operands[0], &count))
        UNREACHABLE("a gradient reached a loop whose count is not known");
    l.loop = ir_loop(op);
    l.count = count.i;
    ir_walk(op->regions[0], find_wanted, &l);
    l.reverse = ir_build_op(outer, OP_for, 0, NULL, g->loc);
    begin_reverse(&l, outer);
    g->loop = &l;
    g->b = reverse_body(&l);
    begin_step(&l);
    pass_grad_sweep(g, l.loop.yield->prev);
    end_reverse(&l);
    g->b = outer;
    g->loop = l.outer;
    replace_needed(&l);
    l.loop = ir_loop(l.forward);
    l.loop.num_carried -= l.stash.len;
    close_reverse(&l, outer);
    take_gradients(&l);
}
