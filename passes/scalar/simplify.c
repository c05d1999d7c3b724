/*
 * simplify.c - fold constants, share common subexpressions, remove the unused
 *
 * Every rewrite here keeps the bits: no x + 0 (it would turn -0 into +0), no
 * reassociation.  Rules make the program smaller, so repeating them ends.
 *
 *   fold    an elementwise operation of known splats is a constant (ir_eval);
 *           moves that move nothing are their operand (rules[]); moves that
 *           meet are one (simplify_moves.c); rows that a loop combines with
 *           others, each once, are set (simplify_rows.c)
 *   share   an operation equal to one that dominates it is that one's value;
 *           so is a read of a variable not written in between
 *   remove  pure operations without uses, last to first, so that a chain dies
 *           in one sweep
 *
 * Sharing stops at the border of a context: a constant that main and a step
 * both use stays two, or else the step would get it as a parameter.
 */
#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/eval.h"
#include "ir/rules/locality.h"
#include "passes/scalar/available.h"
#include "passes/scalar/simplify.h"
#include "passes/support/pass.h"

typedef struct Simplify {
    PassCx *cx;
    bool first; /* round: equal products are not merged yet */
    bool changed;
} Simplify;

static void
replace(Simplify *s, IrOp *op, IrValue *by)
{
    ir_forward(op->results[0], by);
    ir_remove(op);
    s->changed = true;
}

/* ---- folding ------------------------------------------------------------ */

/* Whether each operand is known to have the same element everywhere; x gets
 * them. */
static bool
known_operands(const IrOp *op, Scalar *x)
{
    for (int i = 0; i < op->num_operands; i++)
        if (!ir_const_known(op->operands[i], &x[i]))
            return false;
    return op->num_operands > 0;
}

static IrValue *
fold_elementwise(IrOp *op)
{
    Scalar x[3];
    if (!ir_can_eval(op->kind) || op->num_operands > 3 ||
        !known_operands(op, x))
        return NULL;
    DType t = op->results[0]->type.dtype;
    const IrReason *why = op->reason;
    if (!why)
        why = ir_reason_for(op, "simplify.fold", "%s of known values",
                            ir_op_info[op->kind].name);
    return pass_simplify_fill(op, ir_eval(op->kind, t, x), why);
}

static bool
same_type_but_place(const IrValue *a, const IrValue *b)
{
    return a->type.dtype == b->type.dtype &&
           ir_type_same_shape(&a->type, &b->type);
}

/* Casts, reshapes, broadcasts and slices to the operand's own type. */
static IrValue *
rule_moves_nothing(const IrOp *op)
{
    if (!same_type_but_place(op->operands[0], op->results[0]))
        return NULL;
    int n;
    if (op->kind == OP_slice) {
        const int64_t *step = ir_ints(op, A_step, &n);
        for (int i = 0; i < n; i++)
            if (step[i] != 1)
                return NULL;
    }
    return op->operands[0];
}

static IrValue *
rule_transpose_identity(const IrOp *op)
{
    int n;
    const int64_t *perm = ir_ints(op, A_perm, &n);
    for (int i = 0; i < n; i++)
        if (perm[i] != i)
            return NULL;
    return op->operands[0];
}

/* neg of neg, not of not. */
static IrValue *
rule_twice(const IrOp *op)
{
    const IrOp *inner = op->operands[0]->def;
    return inner && inner->kind == op->kind ? ir_forwarded(inner->operands[0])
                                            : NULL;
}

static bool
is_known(const IrValue *v, double x)
{
    Scalar s;
    return ir_const_known(v, &s) &&
           (dtype_is_float(s.dtype) ? s.f == x : (double)s.i == x);
}

static IrValue *
if_of_result_type(const IrOp *op, IrValue *v)
{
    return same_type_but_place(v, op->results[0]) ? v : NULL;
}

static IrValue *
rule_mul_one(const IrOp *op)
{
    if (is_known(op->operands[1], 1))
        return if_of_result_type(op, op->operands[0]);
    if (is_known(op->operands[0], 1))
        return if_of_result_type(op, op->operands[1]);
    return NULL;
}

static IrValue *
rule_div_one(const IrOp *op)
{
    return is_known(op->operands[1], 1) ? if_of_result_type(op, op->operands[0])
                                        : NULL;
}

/* x - 0 is x to the bit where the 0 has no sign; an integer 0 has none. */
static IrValue *
rule_add_integer_zero(const IrOp *op)
{
    if (dtype_is_float(op->results[0]->type.dtype))
        return NULL;
    if (is_known(op->operands[1], 0))
        return if_of_result_type(op, op->operands[0]);
    return NULL;
}

static IrValue *
rule_where_known(const IrOp *op)
{
    Scalar c;
    if (!ir_const_known(op->operands[0], &c))
        return NULL;
    return if_of_result_type(op, op->operands[c.i ? 1 : 2]);
}

static IrValue *
rule_concat_one(const IrOp *op)
{
    return op->num_operands == 1 ? op->operands[0] : NULL;
}

typedef IrValue *(*Rule)(const IrOp *op);

static const struct {
    IrOpKind kind;
    Rule rule;
} rules[] = {
    {OP_cast, rule_moves_nothing},
    {OP_reshape, rule_moves_nothing},
    {OP_broadcast, rule_moves_nothing},
    {OP_slice, rule_moves_nothing},
    {OP_transpose, rule_transpose_identity},
    {OP_neg, rule_twice},
    {OP_not, rule_twice},
    {OP_mul, rule_mul_one},
    {OP_div, rule_div_one},
    {OP_add, rule_add_integer_zero},
    {OP_sub, rule_add_integer_zero},
    {OP_where, rule_where_known},
    {OP_concat, rule_concat_one},
};

static IrValue *
apply_rules(const IrOp *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        IrValue *v = rules[i].kind == op->kind ? rules[i].rule(op) : NULL;
        if (v)
            return v;
    }
    return NULL;
}

static IrValue *
fold(const Simplify *s, IrOp *op)
{
    if (op->num_results != 1 || ir_op_info[op->kind].effect != PURE)
        return NULL;
    IrValue *v = fold_elementwise(op);
    if (!v)
        v = apply_rules(op);
    if (!v)
        v = pass_simplify_range(op);
    if (!v)
        v = pass_simplify_splat(op);
    return v || s->first ? v : pass_simplify_transposed_product(op);
}

/* Whether op is an assert that holds. */
static bool
always_holds(const IrOp *op)
{
    return op->kind == OP_assert && is_known(op->operands[0], 1);
}

static void
fold_block(Simplify *s, IrBlock *b)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        ir_follow_forwards(op);
        if (always_holds(op)) {
            ir_remove(op);
            s->changed = true;
            continue;
        }
        if (op->kind == OP_kernel)
            continue;
        for (int i = 0; i < op->num_regions; i++)
            fold_block(s, op->regions[i]);
        s->changed |= pass_simplify_skip_inner_move(op);
        s->changed |= pass_simplify_collected_rows(op);
        IrValue *v = fold(s, op);
        if (v)
            replace(s, op, ir_forwarded(v));
    }
}

/* ---- sharing ------------------------------------------------------------ */

enum { FIRST_SLOTS = 64 };

typedef struct Entry Entry;
struct Entry {
    IrOp *op;
    uint64_t hash;
    Entry *next;
};

/* The operations that dominate the current place, in one context: a table of
 * chains, in each of which the newest is first, so that those of a block can be
 * removed at its end. */
typedef struct Scope {
    VEC(Entry *) entries; /* oldest first */
    Entry **slots;
    uint64_t num_slots; /* 0 or a power of 2 */
} Scope;

static uint64_t
hash_op(const IrOp *op)
{
    uint64_t h = ir_attrs_hash(op) * 31 + (uint64_t)op->kind;
    for (int i = 0; i < op->num_operands; i++)
        h = h * 1099511628211u + (uintptr_t)op->operands[i] / 16;
    return h ^ h >> 29;
}

static bool
equal_ops(const IrOp *a, const IrOp *b)
{
    if (a->kind != b->kind || a->num_operands != b->num_operands ||
        !ir_attrs_equal(a, b))
        return false;
    for (int i = 0; i < a->num_operands; i++)
        if (a->operands[i] != b->operands[i])
            return false;
    return a->num_results == 1 &&
           ir_type_equal(&a->results[0]->type, &b->results[0]->type);
}

static bool
is_shareable(const IrOp *op)
{
    return ir_op_info[op->kind].effect == PURE && op->num_results == 1 &&
           op->num_regions == 0 && op->kind != OP_grad;
}

static Entry **
slot_of(const Scope *scope, uint64_t hash)
{
    return &scope->slots[hash & (scope->num_slots - 1)];
}

static void
link_entry(const Scope *scope, Entry *e)
{
    Entry **slot = slot_of(scope, e->hash);
    e->next = *slot;
    *slot = e;
}

static void
make_room(Arena *a, Scope *scope)
{
    if ((uint64_t)scope->entries.len < scope->num_slots)
        return;
    scope->num_slots = scope->num_slots ? scope->num_slots * 4 : FIRST_SLOTS;
    scope->slots = NEW_ARRAY(a, Entry *, scope->num_slots);
    for (int i = 0; i < scope->entries.len; i++)
        link_entry(scope, scope->entries.data[i]);
}

/* An earlier equal operation, or NULL; op is remembered then. */
static IrOp *
find_or_add(Simplify *s, Scope *scope, IrOp *op)
{
    Arena *a = s->cx->arena;
    uint64_t h = hash_op(op);
    make_room(a, scope);
    for (Entry *e = *slot_of(scope, h); e; e = e->next)
        if (e->hash == h && equal_ops(e->op, op))
            return e->op;
    Entry *e = NEW(a, Entry);
    *e = (Entry){.op = op, .hash = h};
    VEC_PUSH(a, scope->entries, e);
    link_entry(scope, e);
    return NULL;
}

/* Removes all but the n oldest. */
static void
forget_newest(Scope *scope, int n)
{
    while (scope->entries.len > n) {
        Entry *e = VEC_POP(scope->entries);
        *slot_of(scope, e->hash) = e->next;
    }
}

static void
share_read(Simplify *s, AvailableAccesses *reads, IrOp *op)
{
    const IrOp *earlier = pass_available_access(reads, op);
    if (earlier &&
        ir_type_equal(&earlier->results[0]->type, &op->results[0]->type))
        replace(s, op, earlier->results[0]);
    else
        pass_available_note(reads, op);
}

static bool
begins_context(const IrOp *op)
{
    return op->kind == OP_run || op->kind == OP_schedule ||
           op->kind == OP_merge || op->kind == OP_update;
}

static void share_block(Simplify *s, Scope *scope, IrBlock *b);

static void
share_regions(Simplify *s, Scope *scope, IrOp *op)
{
    Scope own = {0}, *inside = begins_context(op) ? &own : scope;
    for (int i = 0; i < op->num_regions; i++)
        share_block(s, inside, op->regions[i]);
}

static void
share_op(Simplify *s, Scope *scope, AvailableAccesses *reads, IrOp *op)
{
    ir_follow_forwards(op);
    if (op->kind == OP_kernel)
        return;
    if (op->kind == OP_read) {
        share_read(s, reads, op);
        return;
    }
    share_regions(s, scope, op);
    pass_available_kill_written(reads, op);
    if (is_shareable(op)) {
        IrOp *earlier = find_or_add(s, scope, op);
        if (earlier)
            replace(s, op, earlier->results[0]);
    }
}

static void
share_block(Simplify *s, Scope *scope, IrBlock *b)
{
    int num_around = scope->entries.len;
    AvailableAccesses reads = pass_available_new(s->cx->arena);
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        share_op(s, scope, &reads, op);
    }
    forget_newest(scope, num_around);
}

/* ---- removing ----------------------------------------------------------- */

/* Whether op has no effect but its results.  (A while may not end, which is an
 * effect; a for always does.) */
static bool
is_for_results(const IrOp *op)
{
    IrEffect e = ir_op_info[op->kind].effect;
    if (e == PURE || e == READS)
        return true;
    if (op->kind != OP_if && op->kind != OP_for && op->kind != OP_run)
        return false;
    for (int i = 0; i < op->num_regions; i++)
        if (ir_has_effects(op->regions[i]))
            return false;
    return true;
}

static bool
is_used(const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        if (op->results[i]->num_uses)
            return true;
    return false;
}

static void
drop_uses(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        op->operands[i]->num_uses--;
    for (int i = 0; i < op->num_regions; i++)
        for (const IrOp *in = op->regions[i]->first; in; in = in->next)
            drop_uses(in);
}

static void
remove_dead(Simplify *s, IrBlock *b)
{
    for (IrOp *op = b->last, *prev; op; op = prev) {
        prev = op->prev;
        if (!is_used(op) && is_for_results(op)) {
            drop_uses(op);
            ir_remove(op);
            s->changed = true;
        } else if (op->kind != OP_kernel) {
            for (int i = op->num_regions - 1; i >= 0; i--)
                remove_dead(s, op->regions[i]);
        }
    }
}

/* ---- the pass ----------------------------------------------------------- */

enum { MAX_ROUNDS = 8 };

static void
simplify_func(PassCx *cx, IrFunc *fn)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        Simplify s = {.cx = cx, .first = round == 0};
        if (cx->options->level > 0) {
            ir_count_uses(fn);
            fold_block(&s, fn->body);
            ir_apply_forwards(fn);
            Scope scope = {0};
            share_block(&s, &scope, fn->body);
            ir_apply_forwards(fn);
        }
        ir_count_uses(fn);
        remove_dead(&s, fn->body);
        if (!s.changed && !s.first)
            break;
    }
    ir_infer_localities(fn);
}

bool
pass_simplify(PassCx *cx)
{
    assert(pass_stage(cx->m) <= STAGE_replicated);
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next)
        simplify_func(cx, fn);
    return true;
}

bool
pass_cleanup(PassCx *cx)
{
    return pass_simplify(cx);
}
