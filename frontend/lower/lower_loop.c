/*
 * lower_loop.c - for and while as loops of the IR
 *
 * The body is lowered with arguments in the place of the muts that it assigns
 * to.  Where an iteration makes one differ among the replicas that agreed
 * before, the body is lowered again with that known: the compiler must see
 * drift wherever it begins.
 *
 * A break clears a flag that the loop carries too (FeLoop), and the condition
 * is not evaluated again; a `for` that may be left early is a `while` with a
 * counter.
 */
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/region.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/loop.h"
#include "frontend/lower/lower_impl.h"
#include "frontend/lower/stmt.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"

typedef struct Loop Loop;

/* The functions of a kind of loop; each is called in its region. */
typedef struct LoopKind {
    IrOpKind op;
    const char *what; /* "for", "while" */
    /* Whether there is a next iteration: a bool.  (Of a while.) */
    FeValue *(*condition)(Lower *cx, const Loop *l);
    /* The value that the pattern is bound to; NULL without a pattern. */
    FeValue *(*element)(Lower *cx, Loop *l);
} LoopKind;

struct Loop {
    const LoopKind *kind;
    const AstNode *node, *body, *pattern;
    FeLoop state;
    FeValue *from, *count; /* counted: the range */
    DType element;         /* of its numbers, where the count has another */
    bool is_widened;       /* that is so */
    FeBinding *index;      /* counted while: a mut */
    IrValue *index_arg;    /* counted for */
    FeValue *iter;         /* over a dataset */
    const AstNode *cond;   /* while */
    int64_t max;           /* iterations at most; 0: no limit */
    bool diverges; /* the number of iterations may differ among replicas */
    Loc loc;       /* the condition */
    FeCarried carry;
};

/* ---- kinds -------------------------------------------------------------- */

static FeValue *
counted_element(Lower *cx, Loop *l)
{
    FeValue *i =
        l->index ? l->index->value : fe_value_tensor(cx->arena, l->index_arg);
    int64_t from;
    if (fe_value_is_int(l->from, &from) && from == 0)
        return i;
    if (l->is_widened)
        i = fe_cast(cx, i, l->element, l->loc);
    return fe_binary(cx, AST_OP_ADD, l->from, i, l->loc);
}

static FeValue *
counted_condition(Lower *cx, const Loop *l)
{
    return fe_binary(cx, AST_OP_LT, l->index->value, l->count, l->loc);
}

static FeValue *
while_condition(Lower *cx, const Loop *l)
{
    return fe_eval(cx, l->cond);
}

static FeValue *
dataset_condition(Lower *cx, const Loop *l)
{
    return fe_iter_has_next(cx, l->iter, l->loc);
}

static FeValue *
dataset_element(Lower *cx, Loop *l)
{
    return fe_iter_next(cx, l->iter, l->loc);
}

static const LoopKind counted_for = {OP_for, "for", NULL, counted_element};
static const LoopKind counted_while = {OP_while, "for", counted_condition,
                                       counted_element};
static const LoopKind plain_while = {OP_while, "while", while_condition, NULL};
static const LoopKind dataset_while = {OP_while, "for", dataset_condition,
                                       dataset_element};

/* ---- the body ----------------------------------------------------------- */

/* One iteration: the pattern bound, the statements executed. */
void
fe_loop_iteration(Lower *cx, FeLoop *loop, const AstNode *pattern,
                  FeValue *element, const AstNode *body)
{
    FeScope *around = cx->scope;
    FeLoop *outer = cx->loop;
    cx->scope = fe_scope_new(cx, around, SCOPE_BLOCK);
    cx->loop = loop;
    if (pattern)
        fe_bind_pattern(cx, pattern, element, false);
    fe_exec(cx, &body->block.stmts);
    cx->scope = around;
    cx->loop = outer;
}

static void
advance_index(Lower *cx, Loop *l)
{
    FeValue *one = fe_value_int(cx->arena, 1);
    FeValue *next = fe_binary(cx, AST_OP_ADD, l->index->value, one, l->loc);
    fe_assign_mut(cx, l->index, next, l->loc);
}

static void
lower_iteration(Lower *cx, Loop *l)
{
    FeValue *element = l->kind->element ? l->kind->element(cx, l) : NULL;
    fe_loop_iteration(cx, &l->state, l->pattern, element, l->body);
    if (l->index)
        advance_index(cx, l);
}

/* ---- one try_lower ------------------------------------------------------- */

/* Whether the loop in the making came out, must be made again with what was
 * learnt, or is never entered. */
typedef enum Outcome { LOOP_DONE, LOOP_AGAIN, LOOP_FAILED, LOOP_NEVER } Outcome;

static FeValue *
eval_condition(Lower *cx, const void *data)
{
    const Loop *l = data;
    return l->kind->condition(cx, l);
}

static FeValue *
no_iteration(Lower *cx, const void *data)
{
    (void)data;
    return fe_value_bool(cx->arena, false);
}

/* Whether there is a next iteration, v, and no break has left the loop.  After
 * a break a condition that does more than give a value is not evaluated; what
 * was lowered of it since `before` is forgotten then. */
static FeValue *
unless_left(Lower *cx, Loop *l, FeValue *v, const FeMark *before)
{
    FeValue *running = l->state.running->value;
    if (l->kind != &plain_while || !ir_has_effects(cx->block))
        return fe_binary(cx, AST_OP_AND, running, v, l->loc);
    fe_rewind(cx, before);
    cx->condition = l->cond;
    IrValue *x = fe_operand(cx, running, l->loc);
    return x ? fe_branch(cx, x, l->loc, eval_condition, no_iteration, l) : NULL;
}

/* Evaluates the condition and yields it. */
static Outcome
yield_condition(Lower *cx, Loop *l, IrBlock *region)
{
    FeMark before = fe_mark(cx);
    FeCond cond = fe_cond(cx, l->kind->condition(cx, l), l->loc);
    if (cond.known && !cond.truth)
        return LOOP_NEVER;
    if (!cond.known && !cond.value)
        return LOOP_FAILED;
    FeValue *v = cond.known ? fe_value_bool(cx->arena, true)
                            : fe_value_tensor(cx->arena, cond.value);
    if (l->state.running)
        v = unless_left(cx, l, v, &before);
    IrValue *x = v ? fe_operand(cx, v, l->loc) : NULL;
    if (!x)
        return LOOP_FAILED;
    ir_build_yield(region, 1, &x, l->loc);
    return LOOP_DONE;
}

/* The first region of a while. */
static Outcome
lower_condition(Lower *cx, Loop *l, FeDivergence *divergence, IrBlock *region)
{
    FeRegion saved = fe_region_enter(cx, region, cx->context);
    int mark = cx->writes.len;
    if (l->diverges)
        cx->divergence = divergence;
    fe_carried_bind(cx, &l->carry, region);
    Outcome outcome = yield_condition(cx, l, region);
    fe_undo_writes(cx, mark);
    fe_region_leave(cx, &saved);
    bool differs =
        outcome == LOOP_DONE &&
        region->last->operands[0]->type.locality == LOCAL_PER_REPLICA;
    if (!differs || l->diverges)
        return outcome;
    l->diverges = true;
    return LOOP_AGAIN;
}

static Outcome
lower_body(Lower *cx, Loop *l, FeDivergence *divergence, IrBlock *region)
{
    FeRegion saved = fe_region_enter(cx, region, cx->context);
    int mark = cx->writes.len;
    int64_t errors = cx->num_errors;
    IrValues yields = {0};
    bool grew;
    if (l->diverges)
        cx->divergence = divergence;
    fe_carried_bind(cx, &l->carry, region);
    lower_iteration(cx, l);
    bool ok = fe_carried_end(cx, &l->carry, l->node, &yields, &grew);
    if (ok)
        ir_build_yield(region, yields.len, yields.data, l->loc);
    fe_undo_writes(cx, mark);
    fe_region_leave(cx, &saved);
    if (ok && grew)
        return LOOP_AGAIN;
    return ok && cx->num_errors == errors ? LOOP_DONE : LOOP_FAILED;
}

/* The operation without its regions; NULL with a message. */
static IrOp *
loop_op(Lower *cx, Loop *l)
{
    IrValues operands = {0};
    if (l->kind->op == OP_for)
        VEC_PUSH(cx->arena, operands, fe_operand(cx, l->count, l->loc));
    if (operands.len && !operands.data[0])
        return NULL;
    for (int i = 0; i < l->carry.operands.len; i++)
        VEC_PUSH(cx->arena, operands, l->carry.operands.data[i]);
    IrOp *op = fe_nested_op(cx, l->kind->op, operands.len, operands.data,
                            l->node->loc);
    if (op && l->max && l->kind->op == OP_while)
        ir_set_int(op, A_max, l->max);
    return op;
}

static void
add_index_arg(const Lower *cx, Loop *l, IrOp *op)
{
    IrType t = op->operands[0]->type;
    if (t.locality < fe_least_locality(cx))
        t.locality = fe_least_locality(cx);
    l->index_arg = ir_block_arg(op->regions[0], t, NULL);
}

static void
raise_localities(FeCarried *c)
{
    for (int i = 0; i < c->types.len; i++)
        c->types.data[i].locality = LOCAL_PER_REPLICA;
}

static Outcome
try_lower(Lower *cx, Loop *l, IrOp **op)
{
    Outcome outcome = LOOP_DONE;
    *op = loop_op(cx, l);
    if (!*op)
        return LOOP_FAILED;
    if (l->kind->op == OP_for) {
        l->diverges = (*op)->operands[0]->type.locality == LOCAL_PER_REPLICA;
        add_index_arg(cx, l, *op);
    }
    if (l->diverges)
        raise_localities(&l->carry);
    FeDivergence divergence = {.outer = cx->divergence,
                               .what = l->kind->what,
                               .loc = l->loc,
                               .cond = l->cond,
                               .scope = cx->scope,
                               .op = *op};
    if (l->kind->op == OP_while)
        outcome = lower_condition(cx, l, &divergence, (*op)->regions[0]);
    if (outcome == LOOP_DONE)
        outcome = lower_body(cx, l, &divergence,
                             (*op)->regions[(*op)->num_regions - 1]);
    return outcome;
}

/* Makes the loop, as often as it takes. */
static void
lower_loop(Lower *cx, Loop *l)
{
    Outcome outcome;
    IrOp *op;
    if (!fe_carried_begin(cx, &l->carry, l->node->loc))
        return;
    FeMark mark = fe_mark(cx);
    while ((outcome = try_lower(cx, l, &op)) == LOOP_AGAIN)
        fe_rewind(cx, &mark);
    if (outcome == LOOP_NEVER)
        fe_rewind(cx, &mark);
    if (outcome != LOOP_DONE)
        return;
    ir_op_close(op);
    fe_carried_leave(cx, &l->carry, op);
}

/* ---- statements --------------------------------------------------------- */

static Loop
new_loop(Lower *cx, const LoopKind *kind, const AstNode *node,
         const AstNode *body, Loc loc)
{
    Loop l = {.kind = kind, .node = node, .body = body, .loc = loc};
    fe_assigned(cx, body, &l.carry.muts);
    if (fe_has_break(body)) {
        l.state.running =
            fe_hidden_mut(cx, "running", fe_value_bool(cx->arena, true), loc);
        VEC_PUSH(cx->arena, l.carry.muts, l.state.running);
    }
    return l;
}

/* Whether to - from may be another number in its dtype. */
static bool
may_wrap(Lower *cx, FeValue *from, FeValue *to, FeValue *size, DType *dtype)
{
    int64_t a, b, n;
    IrType t;
    if (fe_is_poison(size) || !fe_type_of(cx, size, &t))
        return false;
    *dtype = t.dtype;
    if (!dtype_is_int(t.dtype) || t.dtype == DT_i64)
        return false;
    bool is_known = fe_value_is_int(from, &a) && fe_value_is_int(to, &b) &&
                    fe_value_is_int(size, &n);
    return !is_known || b - a != n;
}

/* The number of iterations of from..to: as i64 where the numbers' dtype may not
 * have it, which is then in l. */
static FeValue *
range_size(Lower *cx, Loop *l, FeValue *from, FeValue *to)
{
    int64_t a;
    if (fe_value_is_int(from, &a) && a == 0)
        return to;
    FeMark mark = fe_mark(cx);
    FeValue *size = fe_binary(cx, AST_OP_SUB, to, from, l->loc);
    if (!may_wrap(cx, from, to, size, &l->element))
        return size;
    fe_rewind(cx, &mark);
    l->is_widened = true;
    to = fe_cast(cx, to, DT_i64, l->loc);
    from = fe_cast(cx, from, DT_i64, l->loc);
    return fe_binary(cx, AST_OP_SUB, to, from, l->loc);
}

static FeValue *
zero_like(Lower *cx, FeValue *v)
{
    IrType t;
    if (!fe_type_of(cx, v, &t))
        return &fe_poison;
    return fe_value_scalar(cx->arena, scalar_int(t.dtype, 0));
}

void
fe_loop_counted(Lower *cx, const AstNode *n, FeValue *from, FeValue *to)
{
    const AstNode *body = n->for_.body;
    Loc loc = n->for_.iter->loc;
    bool leaves = fe_has_break(body);
    Loop l = new_loop(cx, leaves ? &counted_while : &counted_for, n, body, loc);
    l.pattern = n->for_.pattern;
    l.from = from;
    l.count = range_size(cx, &l, from, to);
    if (leaves) {
        l.index = fe_hidden_mut(cx, "index", zero_like(cx, l.count), loc);
        VEC_PUSH(cx->arena, l.carry.muts, l.index);
        if (fe_value_is_int(l.count, &l.max) && l.max < 1)
            l.max =
                1; /* a limit is a number of iterations; the count is none */
    }
    if (!fe_is_poison(l.count))
        lower_loop(cx, &l);
}

void
fe_loop_dataset(Lower *cx, const AstNode *n, FeValue *dist)
{
    Loc loc = n->for_.iter->loc;
    FeValue *iter = fe_iter_open(cx, dist, loc);
    if (fe_is_poison(iter))
        return;
    Loop l = new_loop(cx, &dataset_while, n, n->for_.body, loc);
    l.pattern = n->for_.pattern;
    l.iter = iter;
    lower_loop(cx, &l);
}

/* A let of the body with the name of a mut in the condition: such a loop often
 * has no end. */
static void
warn_of_hidden_muts(Lower *cx, const AstNode *n)
{
    const AstList *stmts = &n->while_.body->block.stmts;
    for (int i = 0; i < stmts->len; i++) {
        const AstNode *let = stmts->data[i];
        if (let->kind != AST_LET || let->let.pattern->kind != AST_NAME)
            continue;
        const char *name = let->let.pattern->name.text;
        const FeBinding *b =
            fe_find_binding(cx, intern(cx->names, name)).binding;
        if (b && b->is_mut && fe_ast_mentions(n->while_.cond, name))
            fe_warning(cx, let->loc, let->loc,
                       fe_format(cx, "write %s = ..., without let", name),
                       "this let makes another \"%s\", and the mut in the "
                       "condition of the loop stays as it is",
                       name);
    }
}

static AstNode *
new_node(Lower *cx, AstKind kind, const AstNode *like)
{
    AstNode *n = NEW(cx->arena, AstNode);
    *n = (AstNode){.kind = kind, .depth = like->depth, .loc = like->loc};
    return n;
}

/* while true { if condition { body } else { break } }: then the loop carries
 * what the condition assigns to. */
static const AstNode *
with_condition_inside(Lower *cx, const AstNode *n)
{
    const AstNode *cond = n->while_.cond;
    AstNode *loop = new_node(cx, AST_WHILE, n);
    AstNode *body = new_node(cx, AST_BLOCK, n->while_.body);
    AstNode *leave = new_node(cx, AST_BLOCK, cond);
    AstNode *choice = new_node(cx, AST_IF, cond);
    choice->if_.cond = n->while_.cond;
    choice->if_.then = n->while_.body;
    choice->if_.else_ = leave;
    VEC_PUSH(cx->arena, leave->block.stmts, new_node(cx, AST_BREAK, cond));
    VEC_PUSH(cx->arena, body->block.stmts, choice);
    loop->while_.body = body;
    loop->while_.cond = new_node(cx, AST_BOOL, cond);
    loop->while_.cond->boolean.value = true;
    return loop;
}

void
fe_loop_while(Lower *cx, const AstNode *n, int64_t max)
{
    FeBindings assigned = {0};
    warn_of_hidden_muts(cx, n);
    fe_assigned(cx, n->while_.cond, &assigned);
    if (assigned.len)
        n = with_condition_inside(cx, n);
    Loop l = new_loop(cx, &plain_while, n, n->while_.body, n->while_.cond->loc);
    l.cond = n->while_.cond;
    l.max = max;
    lower_loop(cx, &l);
}
