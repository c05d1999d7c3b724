/*
 * grad.c - grad(loss, wrt)
 *
 * The gradient is an operation until the passes differentiate; here its results
 * get their types.  It is that of the sum of all replicas' losses, so through
 * collectives it depends on all of them, with respect to the values of this
 * replica: it differs among the replicas even of a loss that does not.
 *
 * A variable of which the loss takes rows and nothing else has slices as its
 * gradient (D12).  The passes need not know: the operation asks for the
 * gradient with respect to the rows taken, and slices are made of that and
 * their indices.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/elsewhere.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/type_of.h"
#include "frontend/emit/slices.h"
#include "ir/rules/build.h"
#include "ir/table.h"

#include <stdlib.h>
#include <string.h>

/* ---- operations that a loss depends on ---------------------------------- */

/* A walk over the operations that a value needs. */
typedef struct Walk {
    Arena *arena;
    IR_TABLE(bool) met; /* operations that are in todo, or were */
    VEC(IrOp *) todo;
    VEC(IrOp *) used;    /* operations that were in todo */
    VEC(IrOp *) reads;   /* operations that use a read of a variable */
    bool has_collective; /* one that a gradient flows through, or a per-replica
                            value beside it */
} Walk;

static void
note_op(Walk *w, IrOp *op)
{
    bool *met = IR_TABLE_SLOT(w->arena, w->met, op->number);
    if (*met)
        return;
    *met = true;
    VEC_PUSH(w->arena, w->todo, op);
    VEC_PUSH(w->arena, w->used, op);
}

static void
note_value(Walk *w, const IrValue *v)
{
    IrOp *op = v->def;
    if (op)
        note_op(w, op);
}

/* The operands of op from the first on.  No gradient flows through integers. */
static void
note_operands(Walk *w, const IrOp *op, int first)
{
    for (int i = first; i < op->num_operands; i++)
        if (dtype_is_float(op->operands[i]->type.dtype))
            note_value(w, op->operands[i]);
}

/* In a region everything counts. */
static void
visit_nested(IrOp *op, void *data)
{
    note_op(data, op);
}

/* The region of a custom_gradient computes the gradient: a replica's own part
 * if it uses a per-replica value. */
static void
visit_own(IrOp *op, void *data)
{
    Walk *w = data;
    bool joins = false, is_own = false;
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        joins |= v->type.locality == LOCAL_PER_REPLICA;
        is_own |= v->type.locality == LOCAL_PER_REPLICA &&
                  ir_value_block(v) != op->block;
    }
    for (int i = 0; i < op->num_results; i++)
        is_own |= !joins && op->results[i]->type.locality == LOCAL_PER_REPLICA;
    w->has_collective |= is_own || ir_op_info[op->kind].effect == COLLECTIVE;
}

/* Its results may be mirrored though its operands are not. */
static void
visit_custom_gradient(Walk *w, IrOp *op)
{
    for (int i = op->num_results; i < op->num_operands; i++) {
        const IrValue *x = op->operands[i];
        w->has_collective |= x->type.locality == LOCAL_PER_REPLICA;
        note_value(w, x);
    }
    ir_walk(op->regions[0], visit_own, w);
}

/* Operations that use a read of a variable. */
static void
note_reads(Walk *w, IrOp *op)
{
    bool reads = false;
    for (int i = 0; i < op->num_operands; i++)
        reads |= op->operands[i]->def && op->operands[i]->def->kind == OP_read;
    if (reads)
        VEC_PUSH(w->arena, w->reads, op);
}

static void
visit(Walk *w, IrOp *op)
{
    note_reads(w, op);
    if (op->kind == OP_custom_gradient) {
        visit_custom_gradient(w, op);
        return;
    }
    w->has_collective |= ir_op_info[op->kind].effect == COLLECTIVE;
    note_operands(w, op, 0);
    for (int r = 0; r < op->num_regions; r++)
        ir_walk(op->regions[r], visit_nested, w);
}

static const Walk *
walk_loss(Arena *a, const IrValue *loss)
{
    Walk *w = NEW(a, Walk);
    w->arena = a;
    note_value(w, loss);
    while (w->todo.len)
        visit(w, VEC_POP(w->todo));
    return w;
}

/* ---- losses that are the same on all replicas ---------------------------- */

/* Collectives whose results a loss is computed from, with nothing that differs
 * among the replicas in between. */
typedef struct Outermost {
    const IrOp *sum; /* all_reduce(sum), or all_gather: each replica computes
                        the gradient of all parts */
    bool has_mean;   /* of the global batch */
} Outermost;

/* Gradients of values in the regions of op flow on to its operands. */
static void
note_regions(Walk *w, const IrOp *op)
{
    for (int r = 0; r < op->num_regions; r++) {
        const IrOp *yield = ir_block_yield(op->regions[r]);
        if (yield)
            note_operands(w, yield, 0);
    }
}

/* Whether op gives the part of its first operand that each of n replicas has:
 * x / n, or x * (1 / n). */
static bool
is_part_of_n(const IrOp *op, int n)
{
    Scalar by;
    if ((op->kind != OP_div && op->kind != OP_mul) ||
        !ir_const_known(op->operands[1], &by))
        return false;
    double factor = scalar_cast(by, DT_f64).f;
    return op->kind == OP_div ? factor == n : (float)factor == 1.0F / (float)n;
}

/* What is divided by the number of replicas, if that is given, may be summed
 * again. */
static Outermost
outermost_of(Arena *a, const IrValue *loss, int num_replicas)
{
    Outermost found = {0};
    Walk *w = NEW(a, Walk);
    w->arena = a;
    note_value(w, loss);
    while (w->todo.len) {
        const IrOp *op = VEC_POP(w->todo);
        if (num_replicas && is_part_of_n(op, num_replicas))
            continue;
        bool is_sum = op->kind == OP_all_reduce && ir_enum(op, A_op) == AGG_sum;
        if (!found.sum && (is_sum || op->kind == OP_all_gather))
            found.sum = op;
        found.has_mean |= op->kind == OP_global_mean;
        if (ir_op_info[op->kind].effect == COLLECTIVE ||
            strcmp(ir_op_info[op->kind].grad, "zero") == 0)
            continue;
        note_operands(w, op,
                      op->kind == OP_custom_gradient ? op->num_results : 0);
        if (op->kind != OP_custom_gradient)
            note_regions(w, op);
    }
    return found;
}

/* ---- rows --------------------------------------------------------------- */

static bool
is_read_of(const IrValue *x, const IrVar *v)
{
    return x->def && x->def->kind == OP_read &&
           strcmp(ir_text(x->def, A_var), v->name) == 0;
}

/* Whether op takes rows of v where the grad is, and they can be counted. */
static bool
takes_rows(Lower *cx, const IrOp *op, const IrVar *v)
{
    Dim count = ir_dim_const(1);
    if (op->kind != OP_take || ir_int(op, A_axis) != 0 ||
        !is_read_of(op->operands[0], v) || is_read_of(op->operands[1], v))
        return false;
    const IrType *rows = &op->operands[1]->type;
    for (int i = 0; i < rows->rank; i++)
        if (!ir_dim_mul(count, rows->dims[i], &count))
            return false;
    const IrBlock *b = cx->block;
    while (b && b != op->block)
        b = b->op ? b->op->block : NULL;
    return b != NULL;
}

/* Numbers the operations around the grad in the order of the text. */
static void
number_ops(IrBlock *b)
{
    int i = 0;
    VEC(IrBlock *) blocks = {0};
    for (IrBlock *at = b; at; at = at->op ? at->op->block : NULL)
        VEC_PUSH(b->func->module->arena, blocks, at);
    while (blocks.len)
        for (IrOp *op = VEC_POP(blocks)->first; op; op = op->next)
            op->id = i++;
}

static int
in_text_order(const void *x, const void *y)
{
    const IrOp *a = *(IrOp *const *)x, *b = *(IrOp *const *)y;
    return (a->id > b->id) - (a->id < b->id);
}

typedef VEC(IrOp *) Takes;

/* All that the loss has of v, when that is rows: the takes, in the order of the
 * text.  False when it uses v in another way, or not at all. */
static bool
collect_takes(Lower *cx, const Walk *w, const IrVar *v, Takes *takes)
{
    Dim count = ir_dim_const(0);
    for (int i = 0; i < w->reads.len; i++) {
        IrOp *op = w->reads.data[i];
        bool uses = false;
        for (int k = 0; k < op->num_operands; k++)
            uses |= is_read_of(op->operands[k], v);
        if (!uses)
            continue;
        if (!takes_rows(cx, op, v))
            return false;
        VEC_PUSH(cx->arena, *takes, op);
    }
    for (int i = 0; i < takes->len; i++) {
        const IrType *rows = &takes->data[i]->operands[1]->type;
        Dim own = ir_dim_const(1);
        for (int k = 0; k < rows->rank; k++)
            ir_dim_mul(own, rows->dims[k], &own);
        if (!ir_dim_add(count, own, &count))
            return false;
    }
    if (takes->len)
        qsort(takes->data, (size_t)takes->len, sizeof *takes->data,
              in_text_order);
    return takes->len > 0;
}

/* x with the axes of the indices as one. */
static IrValue *
rows_in_line(Lower *cx, IrValue *x, int num, Loc loc)
{
    Dim dims[IR_MAX_RANK] = {ir_dim_const(1)};
    int rank = 1;
    for (int i = 0; i < num; i++)
        ir_dim_mul(dims[0], x->type.dims[i], &dims[0]);
    for (int i = num; i < x->type.rank; i++)
        dims[rank++] = x->type.dims[i];
    return ir_build_reshape(cx->block, x, rank, dims, loc);
}

/* The slices of v whose takes have the gradients d. */
static FeValue *
slices_of(Lower *cx, const IrVar *v, const Takes *takes, IrValue *const *d,
          Loc loc)
{
    int n = takes->len;
    IrValue **values = NEW_ARRAY(cx->arena, IrValue *, (size_t)n);
    IrValue **indices = NEW_ARRAY(cx->arena, IrValue *, (size_t)n);
    if (!fe_check_can_emit(cx, loc))
        return &fe_poison;
    for (int i = 0; i < n; i++) {
        IrValue *rows = takes->data[i]->operands[1];
        values[i] = rows_in_line(cx, d[i], rows->type.rank, loc);
        rows = ir_build_cast(cx->block, rows, DT_i64, loc);
        indices[i] = rows_in_line(cx, rows, rows->type.rank, loc);
    }
    if (n > 1) {
        values[0] = ir_build_concat(cx->block, n, values, 0, loc);
        indices[0] = ir_build_concat(cx->block, n, indices, 0, loc);
    }
    return fe_slices(cx, values[0], indices[0], v->type.dims[0].c);
}

/* ---- operands of the gradient ------------------------------------------- */

/* The value for a leaf of wrt: results number first, ... of the grad. */
typedef struct Want {
    bool is_var; /* first counts among the variables */
    int first;
    Takes takes; /* not empty: those of the rows of a variable */
} Want;

typedef struct Wrt {
    IrValues operands; /* the loss, then values */
    VEC(const char *) vars;
    VEC(IrType) types[2]; /* of the gradients: of values, of variables */
    VEC(Want) wants;      /* for each leaf */
    Loc written;          /* the argument */
} Wrt;

static bool
check_float(Lower *cx, const IrType *t, const char *what, Loc loc)
{
    if (dtype_is_float(t->dtype))
        return true;
    fe_error(cx, loc, "there is no gradient with respect to %s of %s", what,
             dtype_info[t->dtype].name);
    return false;
}

static void
add_value(Lower *cx, IrValue *x, Wrt *wrt)
{
    VEC_PUSH(cx->arena, wrt->operands, x);
    VEC_PUSH(cx->arena, wrt->types[0], x->type);
}

static bool
add_var(Lower *cx, const Walk *walk, IrVar *v, Loc loc, Wrt *wrt)
{
    IrType t = fe_var_type(cx, v);
    Want want = {.first = wrt->types[0].len};
    if (!check_float(cx, &t, "a variable", loc))
        return false;
    if (collect_takes(cx, walk, v, &want.takes)) {
        for (int i = 0; i < want.takes.len; i++)
            add_value(cx, want.takes.data[i]->results[0], wrt);
    } else {
        want = (Want){.is_var = true, .first = wrt->types[1].len};
        VEC_PUSH(cx->arena, wrt->vars, v->name);
        VEC_PUSH(cx->arena, wrt->types[1], t);
    }
    VEC_PUSH(cx->arena, wrt->wants, want);
    return true;
}

/* Whether a walk has used what x is, which may be a variable. */
static bool
has_used(const Walk *w, const IrValue *x)
{
    const IrOp *def = x->def;
    for (int i = 0; i < w->used.len; i++) {
        const IrOp *used = w->used.data[i];
        if (used == def ||
            (def && def->kind == OP_read && used->kind == OP_read &&
             strcmp(ir_text(used, A_var), ir_text(def, A_var)) == 0))
            return true;
    }
    return false;
}

/* Refuses grad(w, loss). */
static bool
check_order(Lower *cx, const Walk *walk, const IrValue *x, Loc loc,
            const IrValue *loss)
{
    if (!x->def || has_used(walk, x) ||
        !has_used(walk_loss(cx->arena, x), loss))
        return true;
    fe_error_note(cx, loc, "the loss comes first: grad(loss, w)",
                  "the first argument does not depend on this, but this "
                  "depends on the first");
    return false;
}

/* Refuses grad(loss, x[0]): that x[0] is another value than one of which the
 * loss is made. */
static bool
check_is_earlier(Lower *cx, const Walk *walk, const IrValue *x, Loc loc,
                 Loc written)
{
    const IrOp *def = x->def;
    const bool *met = def ? IR_TABLE_FIND(walk->met, def->number) : NULL;
    if (!def || (met && *met) || !loc_is_within(def->loc, written))
        return true;
    const char *text = fe_source(cx, def->loc);
    const char *call = fe_edit(cx, loc, def->loc, "part");
    fe_error_note(cx, def->loc,
                  fe_format(cx,
                            "write let part = %s, a loss made of part, and "
                            "%s",
                            text ? text : "...",
                            call ? call : "grad(loss, part)"),
                  "this is computed here, so that no loss depends on it");
    return false;
}

static bool
add_tensor(Lower *cx, const Walk *walk, FeValue *leaf, Loc loc, Wrt *wrt)
{
    Want want = {.first = wrt->types[0].len};
    IrValue *x = fe_operand(cx, leaf, loc);
    if (!x || !check_float(cx, &x->type, "a value", loc) ||
        !check_order(cx, walk, x, loc, wrt->operands.data[0]) ||
        !check_is_earlier(cx, walk, x, loc, wrt->written))
        return false;
    add_value(cx, x, wrt);
    VEC_PUSH(cx->arena, wrt->wants, want);
    return true;
}

static bool
add_leaf(Lower *cx, const Walk *walk, FeValue *leaf, Loc loc, Wrt *wrt)
{
    switch (leaf->kind) {
    case FE_POISON:
        return false;
    case FE_VAR:
        return add_var(cx, walk, leaf->var, loc, wrt);
    case FE_TENSOR:
        return add_tensor(cx, walk, leaf, loc, wrt);
    case FE_INSTANCE:
        fe_error_note(cx, loc,
                      fe_format(cx, "trainable(%s) is the list of them",
                                leaf->instance->path),
                      "a gradient is with respect to variables or values");
        return false;
    default:
        fe_error(cx, loc, "there is no gradient with respect to %s",
                 fe_describe(cx, leaf));
        return false;
    }
}

/* Each gradient has the shape of its leaf; where the loss lives, or each
 * replica its own. */
static void
set_localities(Wrt *wrt, const IrType *loss, bool own_parts)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < wrt->types[k].len; i++) {
            IrType *t = &wrt->types[k].data[i];
            Locality l = own_parts ? LOCAL_PER_REPLICA : loss->locality;
            t->on = l > t->locality ? loss->on : t->on;
            t->locality = l > t->locality ? l : t->locality;
        }
    }
}

/* ---- grad --------------------------------------------------------------- */

/* The variable of integers, of a program, that x is computed of; or NULL. */
static const char *
integer_var(Lower *cx, const IrValue *x, int *budget, Loc *place)
{
    const IrOp *op = x->def;
    const char *found = NULL;
    if (!op || !dtype_is_int(x->type.dtype) || --*budget < 0)
        return NULL;
    if (op->kind == OP_read) {
        *place = fe_var_type_loc(cx, ir_text(op, A_var));
        return place->line ? ir_text(op, A_var) : NULL;
    }
    for (int i = 0; i < op->num_operands && !found; i++)
        found = integer_var(cx, op->operands[i], budget, place);
    return found;
}

/* The call with another loss: grad(sum(l), w). */
static const char *
grad_with(Lower *cx, Loc loc, Loc written, const char *format)
{
    const char *text = fe_source(cx, written);
    const char *edited =
        text ? fe_edit(cx, loc, written, fe_format(cx, "%s(%s)", format, text))
             : NULL;
    return edited ? edited : fe_format(cx, "%s(...)", format);
}

/* Whether it may be a loss that was given as what is derived by. */
static bool
may_be_loss(Lower *cx, FeValue *wrt)
{
    IrType t;
    return wrt->kind == FE_TENSOR && fe_type_of(cx, wrt, &t) && t.rank == 0 &&
           dtype_is_float(t.dtype);
}

static void
refuse_loss(Lower *cx, const IrValue *x, FeValue *wrt, Loc loc, Loc written)
{
    Loc place = NO_LOC;
    int budget = 64;
    const char *note = NULL;
    if (x->type.rank && may_be_loss(cx, wrt))
        note = "the loss comes first: grad(loss, wrt)";
    else if (x->type.rank)
        note = fe_format(cx, "sum makes one number of it: write %s",
                         grad_with(cx, loc, written, "sum"));
    else if (integer_var(cx, x, &budget, &place))
        note = "only floats have gradients: write f32 here";
    else
        note = "only floats have gradients: declare the variables as f32";
    fe_error_show(cx, loc, place, note, "a loss is one float, and this is %s",
                  fe_type_text(cx, &x->type));
}

static IrValue *
loss_operand(Lower *cx, FeValue *loss, FeValue *wrt, Loc loc, Loc written)
{
    if (loss->kind == FE_FUNC || loss->kind == FE_BUILTIN)
        return fe_no_tensor(cx, loss,
                            "the loss is a value, not a function that gives "
                            "one: grad(f(x), x)",
                            loc);
    IrValue *x = fe_operand(cx, loss, loc);
    if (!x)
        return NULL;
    if (x->type.rank == 0 && dtype_is_float(x->type.dtype))
        return x;
    refuse_loss(cx, x, wrt, loc, written);
    return NULL;
}

/* The x of all_reduce(sum, x), as it is written at loc; NULL if it is not. */
static const char *
summed_text(Lower *cx, Loc loc)
{
    static const char begin[] = "all_reduce(sum, ";
    size_t skipped = strlen(begin);
    const char *text = fe_source(cx, loc);
    size_t len = text ? strlen(text) : 0;
    if (len <= skipped + 1 || strncmp(text, begin, skipped) != 0 ||
        text[len - 1] != ')')
        return NULL;
    return fe_format(cx, "%.*s", (int)(len - skipped - 1), text + skipped);
}

/* The loss divided, which is right whatever it is made of; or the x of a
 * written all_reduce(sum, x). */
static const char *
own_part_note(Lower *cx, const FeSummedLoss *s)
{
    Loc loc = s->grad->loc;
    const char *dtype = dtype_info[s->grad->operands[0]->type.dtype].name;
    const char *text = fe_source(cx, s->written);
    const char *part = loc_is_same(s->sum->loc, s->written)
                           ? summed_text(cx, s->written)
                           : NULL;
    if (!part && text)
        part = fe_format(cx, "%s / %s(num_replicas)", fe_operand_text(cx, text),
                         dtype);
    const char *call = part ? fe_edit(cx, loc, s->written, part) : NULL;
    return fe_format(
        cx, "write %s, of each replica's own part",
        call ? call
             : fe_format(cx, "grad(loss / %s(num_replicas), ...)", dtype));
}

static void
warn_of_sum(Lower *cx, const FeSummedLoss *s)
{
    const IrCall *calls = cx->module->calls;
    cx->module->calls = s->calls;
    fe_warning(cx, s->grad->loc, s->sum->loc, own_part_note(cx, s),
               "the loss is already summed over the replicas, so that the "
               "sum of its gradients counts each part %d times",
               cx->module->num_replicas);
    cx->module->calls = calls;
}

/* A walk over what is made of a gradient. */
typedef struct Flow {
    Lower *cx;
    const IrOp *grad;
    IR_TABLE(bool) made; /* values: of the gradient, and not yet divided */
    bool any, summed;
} Flow;

static bool
takes_gradient(const Flow *f, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (IR_TABLE_FIND(f->made, op->operands[i]->number) &&
            *IR_TABLE_FIND(f->made, op->operands[i]->number))
            return true;
    return false;
}

static void
follow_gradient(IrOp *op, void *data)
{
    Flow *f = data;
    bool takes = takes_gradient(f, op);
    bool is_mean = (op->kind == OP_all_reduce || op->kind == OP_reduce_to) &&
                   ir_enum(op, A_op) == AGG_mean;
    f->any |= takes;
    if ((!takes && op != f->grad) || is_mean ||
        is_part_of_n(op, f->cx->module->num_replicas))
        return;
    f->summed |= takes && ir_op_info[op->kind].effect != PURE;
    for (int i = 0; i < op->num_results; i++)
        *IR_TABLE_SLOT(f->cx->arena, f->made, op->results[i]->number) = true;
}

/* Whether any gradient leaves the step, or is added to those of other replicas,
 * and is not divided before. */
static bool
is_summed_again(Lower *cx, IrBlock *main, const IrOp *grad)
{
    Flow f = {.cx = cx, .grad = grad};
    ir_walk(main, follow_gradient, &f);
    return f.summed || !f.any;
}

void
fe_grad_warn_of_sums(Lower *cx, IrBlock *main)
{
    for (int i = 0; i < cx->summed.len; i++)
        if (is_summed_again(cx, main, cx->summed.data[i].grad))
            warn_of_sum(cx, &cx->summed.data[i]);
}

/* Whether all replicas have the loss x of a step. */
static bool
is_shared(const Lower *cx, const IrValue *x)
{
    return x->type.locality < LOCAL_PER_REPLICA && cx->context == FE_REPLICA &&
           cx->module->num_replicas > 1;
}

static void
note_sum(Lower *cx, const IrValue *x, const IrOp *grad, Loc written)
{
    if (!is_shared(cx, x))
        return;
    int n = cx->module->num_replicas;
    const IrOp *sum = outermost_of(cx->arena, x, n).sum;
    FeSummedLoss s = {grad, sum, written, cx->module->calls};
    if (sum)
        VEC_PUSH(cx->arena, cx->summed, s);
}

/* The part of the loss x that is this replica's, of which the gradient is
 * taken: all of it, but of a mean of the global batch, which all replicas have,
 * an equal part.  So the gradients of all replicas add up to that of the mean,
 * and of what else is in the loss. */
static IrValue *
own_part_of_loss(Lower *cx, IrValue *x, Loc loc)
{
    if (!is_shared(cx, x))
        return x;
    Outermost found = outermost_of(cx->arena, x, 0);
    if (found.sum || !found.has_mean)
        return x;
    IrValue *replicas =
        ir_const_float(cx->block, x->type.dtype, cx->module->num_replicas, loc);
    IrValue *part = ir_build2(cx->block, OP_div, x, replicas, loc);
    part->name = x->name;
    return part;
}

static IrOp *
emit_grad(Lower *cx, Wrt *wrt, Loc loc)
{
    VEC(IrType) types = {0};
    IrOp *op = fe_op(cx, OP_grad, wrt->operands.len, wrt->operands.data, loc);
    if (!fe_check_can_emit(cx, loc))
        return NULL;
    if (wrt->vars.len)
        ir_set_names(op, A_vars, wrt->vars.data, wrt->vars.len);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < wrt->types[k].len; i++)
            VEC_PUSH(cx->arena, types, wrt->types[k].data[i]);
    ir_op_results(op, types.len, types.data);
    ir_append(cx->block, op);
    return op;
}

/* The results in the order of the leaves. */
static FeValue *
result_nest(Lower *cx, const Wrt *w, FeValue *wrt, FeValues *leaves,
            const IrOp *op)
{
    Loc loc = op->loc;
    for (int i = 0; i < leaves->len; i++) {
        const Want *want = &w->wants.data[i];
        int first = want->first + (want->is_var ? w->types[0].len : 0);
        IrValue *const *d = &op->results[first];
        leaves->data[i] = want->takes.len ? slices_of(cx, leaves->data[i]->var,
                                                      &want->takes, d, loc)
                                          : fe_value_tensor(cx->arena, *d);
    }
    FeValue *const *rest = leaves->data;
    return fe_value_rebuild(cx->arena, wrt, &rest);
}

FeValue *
fe_grad(Lower *cx, FeValue *loss, FeValue *wrt, Loc loc, Loc written,
        Loc wrt_written)
{
    Wrt w = {.written = wrt_written};
    FeValues leaves = {0};
    IrValue *x = loss_operand(cx, loss, wrt, loc, written);
    if (!x)
        return &fe_poison;
    bool ok = true;
    VEC_PUSH(cx->arena, w.operands, x);
    fe_value_leaves(cx->arena, wrt, &leaves);
    const Walk *walk = walk_loss(cx->arena, x);
    number_ops(cx->block);
    for (int i = 0; i < leaves.len; i++)
        ok = add_leaf(cx, walk, leaves.data[i], loc, &w) && ok;
    if (!ok || !leaves.len)
        return ok ? wrt : &fe_poison;
    set_localities(&w, &x->type, walk->has_collective);
    w.operands.data[0] = own_part_of_loss(cx, x, loc);
    IrOp *op = emit_grad(cx, &w, loc);
    if (op)
        note_sum(cx, x, op, written);
    return op ? result_nest(cx, &w, wrt, &leaves, op) : &fe_poison;
}
