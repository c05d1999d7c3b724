/*
 * differentiate.c - grad operations become the operations of the reverse sweep
 *
 * For each grad, first to last in the text: what the wanted values reach is
 * found (active), then the operations above the grad are visited in reverse,
 * and each active one adds to the gradients of its operands by its rule
 * (grad_rules*.c).  The sweep is built at the place of the grad, which all
 * values that it needs dominate.
 *
 * A variable stands for all its reads: in the blocks around the grad, and
 * inside control flow above it.
 */
#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/status.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/autodiff/grad.h"

/* ---- helpers of rules ---------------------------------------------------- */

IrValue *
pass_grad_of(const Grad *g, const IrValue *v)
{
    const Adjoint *adjoint = pass_adjoint_of(g, v);
    return adjoint ? adjoint->gradient : NULL;
}

bool
pass_grad_wanted(const Grad *g, const IrValue *v)
{
    const Adjoint *adjoint = pass_adjoint_of(g, v);
    return adjoint && adjoint->active;
}

void
pass_grad_error(PassCx *cx, const IrOp *op, const char *repair,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ir_report(cx->diag, op->loc, op->calls, repair,
              message_vprintf(cx->arena, format, args));
    va_end(args);
}

IrValue *
pass_grad_out(Grad *g, const IrOp *op)
{
    return pass_grad_of(g, op->results[0]);
}

IrValue *
pass_grad1(Grad *g, IrOpKind kind, IrValue *x)
{
    return ir_build1(g->b, kind, x, g->loc);
}

IrValue *
pass_grad2(Grad *g, IrOpKind kind, IrValue *x, IrValue *y)
{
    return ir_build2(g->b, kind, x, y, g->loc);
}

IrValue *
pass_grad3(Grad *g, IrOpKind kind, IrValue *x, IrValue *y, IrValue *z)
{
    return ir_build3(g->b, kind, x, y, z, g->loc);
}

IrValue *
pass_grad_constant(Grad *g, const IrValue *like, double x)
{
    return ir_const_float(g->b, like->type.dtype, x, g->loc);
}

/* dx summed over the axes along which x was broadcast. */
static IrValue *
sum_to_shape_of(Grad *g, const IrValue *x, IrValue *dx)
{
    int64_t axes[IR_MAX_RANK];
    int n = 0, extra = dx->type.rank - x->type.rank;
    for (int i = 0; i < dx->type.rank; i++)
        if (i < extra ||
            (ir_dim_equal(x->type.dims[i - extra], ir_dim_const(1)) &&
             !ir_dim_equal(dx->type.dims[i], ir_dim_const(1))))
            axes[n++] = i;
    if (n)
        dx = ir_build_reduce(g->b, OP_sum, dx, axes, n, false, g->loc);
    return ir_build_reshape(g->b, dx, x->type.rank, x->type.dims, g->loc);
}

static bool
is_broadcast_of(const IrValue *x, const IrValue *dx)
{
    return !ir_type_same_shape(&x->type, &dx->type);
}

void
pass_grad_add(Grad *g, IrValue *x, IrValue *dx)
{
    Adjoint *t = pass_adjoint_of(g, x);
    if (!t || !t->active)
        return;
    if (is_broadcast_of(x, dx) && dx->type.rank >= x->type.rank)
        dx = sum_to_shape_of(g, x, dx);
    t->gradient = t->gradient ? pass_grad2(g, OP_add, t->gradient, dx) : dx;
}

void
pass_grad_add_rows(Grad *g, const IrValue *x, IrValue *rows, IrValue *values,
                   int axis)
{
    Adjoint *t = pass_adjoint_of(g, x);
    if (!t || !t->active)
        return;
    IrValue *sum =
        t->gradient ? t->gradient : ir_const_zeros(g->b, &x->type, g->loc);
    t->gradient = ir_build_add_rows(g->b, sum, rows, values, axis, g->loc);
}

/* ---- operations that depend on wanted values ----------------------------- */

typedef struct Wanted {
    Grad g;
    int num_vars;
    const char *const *vars;
    IrOp *loop; /* an active one above the grad, to be unrolled first */
} Wanted;

static bool
is_wanted_read(const Wanted *w, const IrOp *op)
{
    for (int i = 0; op->kind == OP_read && i < w->num_vars; i++)
        if (!strcmp(w->vars[i], ir_text(op, A_var)))
            return true;
    return false;
}

static bool
passes_gradients(const IrOp *op)
{
    return strcmp(ir_op_info[op->kind].grad, "zero") != 0;
}

static bool
has_active_operand(const Wanted *w, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (pass_grad_wanted(&w->g, op->operands[i]))
            return true;
    return false;
}

static void
activate(Wanted *w, const IrValue *v)
{
    if (dtype_is_float(v->type.dtype))
        pass_adjoint_add(&w->g, v)->active = true;
}

/* ---- values that the loss depends on ------------------------------------- */

/* The values through which gradients may flow from the loss. */
typedef struct Needed {
    Grad *g;
    VEC(IrValue *) todo;
} Needed;

static void
need(Needed *n, IrValue *v)
{
    if (!dtype_is_float(v->type.dtype) || pass_adjoint_add(n->g, v)->needed)
        return;
    pass_adjoint_add(n->g, v)->needed = true;
    VEC_PUSH(n->g->cx->arena, n->todo, v);
}

static void
need_operands(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_operands; i++)
        need(data, op->operands[i]);
}

static void
find_needed(Grad *g, IrValue *loss)
{
    Needed n = {.g = g};
    need(&n, loss);
    while (n.todo.len) {
        IrOp *def = VEC_POP(n.todo)->def;
        if (def && passes_gradients(def))
            ir_walk_op(def, need_operands, &n); /* all in a region are */
    }
}

static bool
gives_needed(const Wanted *w, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++) {
        const Adjoint *result = pass_adjoint_of(&w->g, op->results[i]);
        if (result && result->needed)
            return true;
    }
    return false;
}

/* ---- wanted values in regions --------------------------- */

static bool find_active_in(Wanted *w, IrBlock *b, const IrOp *until);

/* The yield of a branch may be active even if no value from outside is: when
 * the branch reads a wanted variable. */
static bool
find_active_if(Wanted *w, IrOp *op)
{
    bool any = false;
    for (int r = 0; r < 2; r++) {
        any |= find_active_in(w, op->regions[r], NULL);
        const IrOp *yield = ir_block_yield(op->regions[r]);
        for (int i = 0; i < op->num_results; i++)
            if (pass_grad_wanted(&w->g, yield->operands[i]))
                activate(w, op->results[i]);
    }
    return any;
}

static bool
activate_from(Wanted *w, const IrValue *v, const IrValue *from)
{
    if (pass_grad_wanted(&w->g, v) || !pass_grad_wanted(&w->g, from))
        return false;
    activate(w, v);
    return true;
}

/* What a loop carries is wanted if what it began as is, or what another step
 * made. */
static bool
find_active_for(Wanted *w, IrOp *op)
{
    IrLoop loop = ir_loop(op);
    bool any = false;
    for (int i = 0; i < loop.num_carried; i++)
        activate_from(w, loop.body_arg[i], loop.init[i]);
    for (bool more = true; more;) {
        more = false;
        any |= find_active_in(w, loop.body, NULL);
        for (int i = 0; i < loop.num_carried; i++)
            more |= activate_from(w, loop.body_arg[i], loop.next[i]);
    }
    for (int i = 0; i < loop.num_carried; i++)
        any |= activate_from(w, loop.result[i], loop.body_arg[i]);
    return any;
}

/* A loop that gradients go through stays one, or is noted for unrolling: then
 * all is found anew. */
static bool
find_active_loop(Wanted *w, IrOp *op)
{
    if (!gives_needed(w, op))
        return false;
    if (pass_grad_stays_loop(op))
        return find_active_for(w, op);
    bool any = has_active_operand(w, op);
    for (int r = 0; r < op->num_regions; r++)
        any |= find_active_in(w, op->regions[r], NULL);
    if (any && !w->loop)
        w->loop = op;
    return any;
}

/* Whether a value in b depends on wanted values. */
static bool
uses_active(const Wanted *w, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        if (is_wanted_read(w, op) || has_active_operand(w, op))
            return true;
        for (int i = 0; i < op->num_regions; i++)
            if (uses_active(w, op->regions[i]))
                return true;
    }
    return false;
}

/* A gradient that arrives at a merge result which depends on wanted values
 * cannot go on: pass_grad_rule_none reports it.  Other results need no
 * gradient. */
static bool
find_active_merge(Wanted *w, IrOp *op)
{
    bool any = uses_active(w, op->regions[0]);
    for (int i = 0; any && i < op->num_results; i++) {
        activate(w, op->results[i]);
        pass_adjoint_add(&w->g, op->results[i])->cut = true;
    }
    return any;
}

typedef struct Taking {
    const Wanted *w;
    bool found;
} Taking;

static void
note_taking(IrOp *op, void *data)
{
    Taking *t = data;
    t->found |= has_active_operand(t->w, op) || is_wanted_read(t->w, op);
}

/* An operation without a rule that depends on wanted values: a gradient that
 * arrives there cannot go on. */
static void
note_cut(Wanted *w, IrOp *op)
{
    Taking t = {w, has_active_operand(w, op)};
    for (int i = 0; i < op->num_regions; i++)
        ir_walk(op->regions[i], note_taking, &t);
    for (int i = 0; i < op->num_results; i++)
        pass_adjoint_add(&w->g, op->results[i])->cut |= t.found;
}

static bool
find_active_op(Wanted *w, IrOp *op)
{
    if (op->kind == OP_if)
        return find_active_if(w, op);
    if (op->kind == OP_merge)
        return find_active_merge(w, op);
    if (ir_is_loop(op))
        return find_active_loop(w, op);
    if (!strcmp(ir_op_info[op->kind].grad, "none"))
        note_cut(w, op);
    if (!is_wanted_read(w, op) &&
        !(passes_gradients(op) && has_active_operand(w, op)))
        return false;
    for (int i = 0; i < op->num_results; i++)
        activate(w, op->results[i]);
    if (op->kind == OP_slice)
        pass_adjoint_of(&w->g, op->operands[0])->num_slices++;
    return true;
}

static bool
find_active_in(Wanted *w, IrBlock *b, const IrOp *until)
{
    bool any = false;
    for (IrOp *op = b->first; op != until; op = op->next)
        any |= find_active_op(w, op);
    return any;
}

static bool
activate_arg(Wanted *w, const IrValue *arg, const IrValue *from)
{
    if (pass_grad_wanted(&w->g, arg) || !pass_grad_wanted(&w->g, from))
        return false;
    activate(w, arg);
    pass_adjoint_add(&w->g, arg)->carried = true;
    return true;
}

/* Carried value i becomes `from` in another iteration; returns whether that
 * made one of its arguments active. */
static bool
activate_carried_value(Wanted *w, const IrLoop *loop, int i,
                       const IrValue *from)
{
    bool entry = activate_arg(w, loop->entry_arg[i], from);
    return activate_arg(w, loop->body_arg[i], from) || entry;
}

/* The arguments of a loop around the grad are active if the initial value or
 * the value carried from an iteration is: a gradient that arrives there would
 * have to go on through the earlier iterations. */
static void
activate_carried(Wanted *w, IrBlock *b)
{
    if (!ir_is_loop(b->op))
        return;
    IrLoop loop = ir_loop(b->op);
    for (int i = 0; i < loop.num_carried; i++)
        activate_carried_value(w, &loop, i, loop.init[i]);
    for (bool more = true; more;) {
        more = false;
        find_active_in(w, loop.body, NULL);
        for (int i = 0; i < loop.num_carried; i++)
            more |= activate_carried_value(w, &loop, i, loop.next[i]);
    }
}

/* Whether values around b reach into it as they are: what is run or scheduled
 * takes them as operands. */
static bool
is_inside(const IrBlock *b)
{
    return b->op && b->op->kind != OP_run && b->op->kind != OP_schedule;
}

/* The operations of b above `until`, and of the blocks around it. */
static void
find_active(Wanted *w, IrBlock *b, const IrOp *until)
{
    if (is_inside(b)) {
        find_active(w, b->op->block, b->op);
        activate_carried(w, b);
    }
    find_active_in(w, b, until);
}

/* ---- the reverse sweep -------------------------------------------------- */

typedef void (*GradRule)(Grad *g, const IrOp *op);

static const GradRule grad_rules[NUM_OPS] = {
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits,     \
           index, grad, code, doc)                                             \
    [OP_##name] = pass_grad_rule_##grad,
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

static bool
gradient_arrived(const Grad *g, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        if (pass_grad_of(g, op->results[i]))
            return true;
    return false;
}

void
pass_grad_sweep(Grad *g, IrOp *op)
{
    const IrCall *around = g->cx->m->calls;
    int num_recomputes = g->recomputes.len;
    for (IrOp *before; op; op = before) {
        before = op->prev; /* the rule of an if replaces it */
        if (!gradient_arrived(g, op) || op->kind == OP_read)
            continue;
        g->loc = op->loc;
        g->cx->m->calls = op->calls; /* its gradient is part of them */
        grad_rules[op->kind](g, op);
        g->cx->m->calls = around;
    }
    pass_grad_compute_again(g, num_recomputes);
}

static void
check_carried(Wanted *w, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++) {
        const IrValue *v = b->args.data[i];
        const Adjoint *adjoint = pass_adjoint_of(&w->g, v);
        if (adjoint && adjoint->carried && adjoint->gradient)
            pass_grad_error(
                w->g.cx, w->g.grad,
                "call grad after the loop, or take what is carried by "
                "stop_gradient",
                "the loss depends on %s, which the loop around this "
                "grad carries from one iteration to the next",
                v->name ? v->name : "a value");
    }
}

static void
sweep(Wanted *w, IrBlock *b, IrOp *from)
{
    pass_grad_sweep(&w->g, from);
    check_carried(w, b);
    if (is_inside(b))
        sweep(w, b->op->block, b->op->prev);
}

/* ---- one grad ----------------------------------------------------------- */

/* The gradients collected from the reads of one variable. */
typedef VEC(IrValue *) Shares;

typedef struct SharesByVar {
    const Grad *g;
    Arena *a;
    Map *map; /* name -> Shares */
} SharesByVar;

static void
note_share(IrOp *op, void *data)
{
    SharesByVar *by_var = data;
    IrValue *d =
        op->kind == OP_read ? pass_grad_of(by_var->g, op->results[0]) : NULL;
    if (!d)
        return;
    const char *var = ir_text(op, A_var);
    Shares *shares = map_get(by_var->map, var);
    if (!shares) {
        shares = NEW(by_var->a, Shares);
        map_set(by_var->map, var, shares);
    }
    VEC_PUSH(by_var->a, *shares, d);
}

static IrValue *
zeros_like(Grad *g, const IrType *t)
{
    return ir_const_zeros(g->b, t, g->loc);
}

static IrValue *
gradient_of_var(Wanted *w, const Map *by_var, const char *var,
                const IrType *type)
{
    const Shares *shares = map_get(by_var, var);
    if (shares) {
        IrValue *sum = shares->data[0];
        for (int i = 1; i < shares->len; i++)
            sum = pass_grad2(&w->g, OP_add, sum, shares->data[i]);
        return sum;
    }
    const IrVar *v = ir_var_find(w->g.cx->m, var);
    if (v && v->trainable && diag_num_errors(w->g.cx->diag) == 0) {
        Diag *d = w->g.cx->diag;
        const IrOp *grad = w->g.grad;
        Loc own = ir_own_loc(d, grad->loc, grad->calls);
        diag_warning(d, own,
                     "the loss does not depend on the variable \"%s\": its "
                     "gradient is zeros",
                     var);
        ir_note_library(d, grad->loc, grad->calls, own);
        diag_note(d, own,
                  "leave it out of the list, or use it in the loss; "
                  "trainable() has none that is declared with "
                  "trainable(false)");
        ir_note_calls(d, grad->calls, own);
    }
    return zeros_like(&w->g, type);
}

static void
forward_gradients(Wanted *w)
{
    const IrOp *op = w->g.grad;
    int num_values = op->num_operands - 1;
    Arena *a = w->g.cx->m->arena;
    SharesByVar by_var = {&w->g, a, map_new(a)};
    ir_walk(op->block->func->body, note_share, &by_var);
    for (int i = 0; i < op->num_results; i++) {
        const IrType *type = &op->results[i]->type;
        IrValue *d;
        if (i < num_values) {
            d = pass_grad_of(&w->g, op->operands[i + 1]);
            d = d ? d : zeros_like(&w->g, type);
        } else {
            d = gradient_of_var(w, by_var.map, w->vars[i - num_values], type);
        }
        if (!d->name)
            d->name = op->results[i]->name;
        ir_forward(op->results[i], d);
    }
}

/* Finds what is active, after replacing the loops that gradients go through and
 * that do not stay as they are. */
static bool
prepare(Wanted *w)
{
    PassCx *cx = w->g.cx;
    do {
        w->loop = NULL;
        w->g.adjoints = (Adjoints){0};
        find_needed(&w->g, w->g.grad->operands[0]);
        for (int i = 1; i < w->g.grad->num_operands; i++)
            pass_adjoint_add(&w->g, w->g.grad->operands[i])->active = true;
        find_active(w, w->g.grad->block, w->g.grad);
        if (w->loop && !pass_grad_replace_loop(cx, w->loop))
            return false;
        ir_apply_forwards(w->g.grad->block->func);
    } while (w->loop);
    return true;
}

static void
expand(PassCx *cx, IrOp *op)
{
    Wanted w = {.g = {.cx = cx, .grad = op, .loc = op->loc}};
    if (ir_has(op, A_vars))
        w.vars = ir_names(op, A_vars, &w.num_vars);
    if (!prepare(&w))
        return;
    w.g.b = ir_block_scratch(op);
    IrValue *loss = op->operands[0];
    pass_grad_add(&w.g, loss, pass_grad_constant(&w.g, loss, 1));
    sweep(&w, op->block, op->prev);
    w.g.loc = op->loc;
    forward_gradients(&w);
    ir_stamp(w.g.b,
             ir_reason_for(op, "differentiate.reverse", "the gradient of %s",
                           loss->name ? loss->name : "the loss"));
    ir_splice_before(op, w.g.b);
    ir_remove(op);
}

/* ---- the pass ----------------------------------------------------------- */

typedef VEC(IrOp *) OpList;

typedef struct Found {
    Arena *arena;
    OpList grads, guards, loops;
} Found;

static void
note_grad(IrOp *op, void *data)
{
    Found *f = data;
    if (op->kind == OP_grad)
        VEC_PUSH(f->arena, f->grads, op);
}

static void
note_loop(IrOp *op, void *data)
{
    Found *f = data;
    if (op->kind == OP_for)
        VEC_PUSH(f->arena, f->loops, op);
}

/* Of all loops, inner ones first: what leaves them may go on. */
static void
hoist(PassCx *cx, IrFunc *fn, void (*from)(IrOp *loop))
{
    Found f = {.arena = cx->arena};
    ir_walk(fn->body, note_loop, &f);
    for (int i = f.loops.len - 1; i >= 0; i--)
        from(f.loops.data[i]);
    ir_apply_forwards(fn);
}

static void
note_guard(IrOp *op, void *data)
{
    Found *f = data;
    if (op->kind == OP_stop_gradient || op->kind == OP_custom_gradient ||
        op->kind == OP_recompute)
        VEC_PUSH(f->arena, f->guards, op);
}

/* Operations that only direct gradients are replaced by their first operands
 * when the gradients exist. */
static void
remove_guards(PassCx *cx, IrFunc *fn)
{
    Found f = {.arena = cx->arena};
    ir_walk(fn->body, note_guard, &f);
    for (int i = f.guards.len - 1; i >= 0; i--) { /* inner ones first */
        IrOp *op = f.guards.data[i];
        for (int k = 0; k < op->num_results; k++)
            ir_forward(op->results[k], op->operands[k]);
        ir_remove(op);
    }
}

static void
differentiate_func(PassCx *cx, IrFunc *fn)
{
    Found f = {.arena = cx->arena};
    hoist(cx, fn, pass_grad_hoist);
    ir_walk(fn->body, note_grad, &f);
    for (int i = 0; i < f.grads.len; i++) {
        expand(cx, f.grads.data[i]);
        ir_apply_forwards(fn); /* a later grad may differentiate this one */
    }
    remove_guards(cx, fn);
    ir_apply_forwards(fn);
    hoist(cx, fn, pass_grad_hoist_transposes);
    ir_infer_localities(fn);
}

bool
pass_differentiate(PassCx *cx)
{
    assert(pass_stage(cx->m) <= STAGE_programs);
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        differentiate_func(cx, fn);
    return diag_num_errors(cx->diag) == 0;
}
