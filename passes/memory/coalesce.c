/*
 * coalesce.c - values that share bytes
 *
 * Some values are the same by definition: a view and its operand; a loop's
 * argument, its value in the test and its result; a branch's result.  Others
 * may share bytes so that a copy disappears:
 *
 *   a read shares its variable's bytes    unless it outlives a write of it
 *   the result of a kernel is made        at its destination: in the variable
 *                                         it is written to, the loop's argument
 *                                         it becomes, the output it is returned
 *                                         as, the operand that dies there
 *
 * A kernel may overwrite an operand while it reads it only when element i of
 * the operand is read before element i of its results is made, and never again,
 * as in maps, and in chains over rows (softmax), which reduce a row before they
 * store it; or when it is a scatter, over the operand whose rows it changes,
 * which would have to be copied otherwise.
 *
 * Host code copies at the edges of loops and branches where places differ, one
 * value after the other.  So that no copy reads the result of an earlier one, a
 * yielded value that was not computed in the region for that purpose is first
 * copied (pass_insert_copies): a loop's own argument, a value from outside, one
 * yielded twice.
 */
#include "ir/segments.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/memory/allocate.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/hooks.h"
#include "ir/base/cache_line.h"
#include "ir/ir.h"
#include "ir/loop.h"

/* ---- copy insertion ----------------------------------------------------- */

static bool
is_handle_of_main(const IrFunc *fn, const IrValue *v)
{
    return fn->kind == FUNC_MAIN && v->type.locality != LOCAL_HOST;
}

/* A copy of operand i of op, made by a kernel just before op. */
static void
copy_operand(IrOp *op, int i, const char *rule, const char *what)
{
    IrValue *v = op->operands[i];
    IrBlock *b = ir_block_scratch(op);
    IrOp *kernel = ir_build_op(b, OP_kernel, 1, &v, op->loc);
    IrBlock *body = kernel->regions[0];
    IrValue *arg = ir_block_arg(body, v->type, v->name);
    IrValue *result = ir_build1(body, OP_copy, arg, op->loc);
    ir_build_yield(body, 1, &result, op->loc);
    ir_op_close(kernel);
    ir_stamp(b, ir_reason_for(op, rule, "%s", what));
    ir_splice_before(op, b);
    op->operands[i] = kernel->results[0];
}

static bool
is_made_in(const IrValue *v, const IrBlock *b)
{
    return v->def && v->def->block == b &&
           !(ir_op_info[v->def->kind].traits & VIEW) && v->def->kind != OP_read;
}

static bool
stands_before(const IrOp *op, int i)
{
    for (int j = 0; j < i; j++)
        if (op->operands[j] == op->operands[i])
            return true;
    return false;
}

static void
copy_yielded(IrOp *yield)
{
    if (ir_is_loop_test(yield->block))
        return;
    for (int i = 0; i < yield->num_operands; i++)
        if (!is_handle_of_main(yield->block->func, yield->operands[i]) &&
            (!is_made_in(yield->operands[i], yield->block) ||
             stands_before(yield, i)))
            copy_operand(yield, i, "allocate.carry",
                         "the value goes round in bytes of its own");
}

static void
copy_sent(IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        if (!v->def || v->def->kind != OP_kernel || stands_before(op, i))
            copy_operand(op, i, "allocate.buffer",
                         "a collective works on buffers of the arena");
    }
}

static void
insert_copies_in_block(IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_yield)
            copy_yielded(op);
        else if (ir_op_is_start(op->kind))
            copy_sent(op);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                insert_copies_in_block(op->regions[i]);
    }
}

void
pass_insert_copies(PassCx *cx, IrFunc *fn)
{
    assert(ir_func_return(fn));
    insert_copies_in_block(fn->body);
    if (fn->kind == FUNC_MAIN)
        pass_insert_handle_copies(cx, fn->body);
}

/* ---- values that are the same -------------------------------------------- */

typedef struct Coalescing {
    PassCx *cx;
    const IrLifetimes *l; /* of the function */
    IrOverwrites overwrites;
    Map *vars; /* name -> VarUses */
} Coalescing;

static Buffer *
value_buffer(const Coalescing *s, const IrValue *v)
{
    return ir_buffer_of(s->l, v);
}

static void
merge_values(const Coalescing *s, const IrValue *a, const IrValue *b)
{
    ir_buffers_merge(value_buffer(s, a), value_buffer(s, b));
}

static void
extend(const Coalescing *s, const IrValue *v, const IrOp *over)
{
    Buffer *b = value_buffer(s, v);
    const OpSpan *span = ir_span_of(s->l, over);
    if (span->begin < b->begin)
        b->begin = span->begin;
    if (span->end + 1 > b->end)
        b->end = span->end + 1;
}

static void
merge_loop(const Coalescing *s, const IrOp *op)
{
    IrLoop loop = ir_loop(op);
    for (int i = 0; i < loop.num_carried; i++) {
        merge_values(s, loop.result[i], loop.entry_arg[i]);
        merge_values(s, loop.result[i], loop.body_arg[i]);
        extend(s, loop.result[i], op);
    }
    if (loop.index)
        extend(s, loop.index, op);
}

static void
merge_views(const Coalescing *s, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        merge_values(s, op->operands[i], op->results[i]);
}

static void
mark_sent(const Coalescing *s, const IrValue *v)
{
    Buffer *b = value_buffer(s, v);
    b->sent = true;
    b->align = ir_collective_align(b->bytes);
}

static void
mark_collective(const Coalescing *s, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        mark_sent(s, op->operands[i]);
    for (int i = 0; i < op->num_results; i++)
        mark_sent(s, op->results[i]);
}

static void
merge_by_meaning(const Coalescing *s, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        if (ir_is_loop(op))
            merge_loop(s, op);
        else if (op->kind == OP_if)
            for (int i = 0; i < op->num_results; i++)
                extend(s, op->results[i], op);
        else if (ir_op_info[op->kind].traits & VIEW)
            merge_views(s, op);
        else if (ir_op_is_start(op->kind))
            mark_collective(s, op);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                merge_by_meaning(s, op->regions[i]);
    }
}

/* ---- operands that a kernel may overwrite -------------------------------- */

/* Whether a value whose lifetime ends at `end` in buffer b is dead when result
 * r of kernel is made, or dies in the kernel in a way that allows overwriting
 * it. */
static bool
is_dead_at(Coalescing *s, const Buffer *b, int end, const IrOp *kernel, int r)
{
    int at = ir_span_of(s->l, kernel)->begin;
    if (end != at)
        return end < at;
    for (int i = 0; i < kernel->num_operands; i++)
        if (value_buffer(s, kernel->operands[i]) == b &&
            !ir_kernel_may_overwrite(&s->overwrites, kernel, i, r))
            return false;
    return true;
}

/* A kernel's result whose bytes are not yet shared with others, nor the buffer
 * of a collective. */
static bool
is_free_to_move(const Coalescing *s, const IrValue *v)
{
    const Buffer *b = value_buffer(s, v);
    return v->def && v->def->kind == OP_kernel && b->num_values == 1 &&
           !b->fixed && !b->sent;
}

/* ---- variables ---------------------------------------------------------- */

/* A value that was read from a variable, or is made in its bytes: by which
 * operation, and the end of its lifetime, views included. */
typedef struct Holder {
    const IrOp *op;
    int end;
    bool shares; /* the variable's bytes */
} Holder;

typedef struct VarUses {
    const IrVar *var;
    Buffer *buffer; /* the variable's bytes */
    VEC(Holder) holders;
    VEC(IrOp *) writes;
} VarUses;

static VarUses *
uses_of(Coalescing *s, const char *name)
{
    VarUses *u = map_get(s->vars, name);
    if (u)
        return u;
    u = NEW(s->cx->arena, VarUses);
    u->var = ir_var_find(s->cx->m, name);
    u->buffer = NEW(s->cx->arena, Buffer);
    *u->buffer =
        (Buffer){.fixed = true, .place = u->var->place, .align = CACHE_LINE};
    map_set(s->vars, name, u);
    return u;
}

static void
note_var_use(IrOp *op, void *data)
{
    Coalescing *s = data;
    if (op->kind == OP_read) {
        VarUses *u = uses_of(s, ir_text(op, A_var));
        Holder read = {op, value_buffer(s, op->results[0])->end, false};
        VEC_PUSH(s->cx->arena, u->holders, read);
    } else if (op->kind == OP_write) {
        VEC_PUSH(s->cx->arena, uses_of(s, ir_text(op, A_var))->writes, op);
    }
}

/* Whether a write of the variable other than `but` stands in (from, to). */
static bool
is_written_between(const Coalescing *s, const VarUses *u, int from, int to,
                   const IrOp *but)
{
    for (int i = 0; i < u->writes.len; i++) {
        int at = ir_span_of(s->l, u->writes.data[i])->begin;
        if (u->writes.data[i] != but && at > from && at < to)
            return true;
    }
    return false;
}

static void
coalesce_reads(const Coalescing *s, VarUses *u)
{
    for (int i = 0; i < u->holders.len; i++) {
        Holder *h = &u->holders.data[i];
        h->shares = !is_written_between(s, u, ir_span_of(s->l, h->op)->begin,
                                        h->end, NULL);
        if (h->shares)
            ir_buffers_merge(u->buffer, value_buffer(s, h->op->results[0]));
    }
}

/* Whether the old value in the bytes is needed when kernel has made the new
 * one, v: by a value that shares them, or by a read before the write. */
static bool
old_value_is_needed(Coalescing *s, const VarUses *u, const IrValue *v,
                    const IrOp *write)
{
    const IrOp *kernel = v->def;
    int from = ir_span_of(s->l, kernel)->begin,
        to = ir_span_of(s->l, write)->begin;
    for (int i = 0; i < u->holders.len; i++) {
        const Holder *h = &u->holders.data[i];
        int at = ir_span_of(s->l, h->op)->begin;
        if ((at > from && at < to) || h->op == kernel)
            return true;
        if (at < from && h->shares &&
            !is_dead_at(s, u->buffer, h->end, kernel, v->index))
            return true;
    }
    return false;
}

/* The kernel that computes the written value makes it in the variable. */
static void
coalesce_writes(Coalescing *s, VarUses *u)
{
    for (int i = 0; i < u->writes.len; i++) {
        const IrOp *write = u->writes.data[i];
        const IrValue *v = write->operands[0];
        if (!is_free_to_move(s, v) || v->def->block != write->block ||
            old_value_is_needed(s, u, v, write) ||
            is_written_between(s, u, ir_span_of(s->l, v->def)->begin,
                               value_buffer(s, v)->end, write))
            continue;
        Holder made = {v->def, value_buffer(s, v)->end, true};
        VEC_PUSH(s->cx->arena, u->holders, made);
        ir_buffers_merge(u->buffer, value_buffer(s, v));
    }
}

/* ---- carried, returned and overwritten values ---------------------------- */

/* Whether `held`, a value that a loop carries, is dead when kernel makes its
 * result r, or dies in the kernel. */
static bool
carried_is_dead_at(Coalescing *s, const IrValue *held, const IrValue *v)
{
    return is_dead_at(s, value_buffer(s, held),
                      ir_lifetime_of(s->l, held)->last_use, v->def, v->index);
}

/* An operand of the kernel that makes v, which that kernel may overwrite, and
 * which could be in the bytes of `held` itself; or NULL. */
static const IrValue *
find_overwritten(Coalescing *s, const IrValue *held, const IrValue *v)
{
    const IrOp *kernel = v->def;
    for (int i = 0; i < kernel->num_operands; i++) {
        const IrValue *x = kernel->operands[i];
        if (is_free_to_move(s, x) && x->def->block == kernel->block &&
            value_buffer(s, x)->bytes == value_buffer(s, held)->bytes &&
            value_buffer(s, x)->end == ir_span_of(s->l, kernel)->begin &&
            is_dead_at(s, value_buffer(s, x), value_buffer(s, x)->end, kernel,
                       v->index) &&
            carried_is_dead_at(s, held, x))
            return x;
    }
    return NULL;
}

/* v is made in the bytes of `held`; and so is what it overwrites there, and
 * what that overwrites. */
static void
coalesce_chain(Coalescing *s, const IrValue *held, const IrValue *v)
{
    while (v) {
        const IrValue *before = find_overwritten(s, held, v);
        merge_values(s, held, v);
        v = before;
    }
}

/* A value that a branch or loop yields is made in the bytes of the carried
 * value, if their old value is dead by then. */
static void
coalesce_yield(Coalescing *s, const IrOp *yield)
{
    const IrOp *outer = yield->block->op;
    bool is_loop = ir_is_loop(outer);
    IrValue **into = is_loop ? ir_loop(outer).body_arg : outer->results;
    for (int i = 0; i < yield->num_operands; i++) {
        const IrValue *v = yield->operands[i];
        if (!is_free_to_move(s, v) || v->def->block != yield->block)
            continue;
        const IrValue *held = into[i];
        if ((is_loop && !carried_is_dead_at(s, held, v)) ||
            value_buffer(s, held)->bytes != value_buffer(s, v)->bytes)
            continue;
        if (is_loop)
            coalesce_chain(s, held, v);
        else
            merge_values(s, held, v);
    }
}

static void
coalesce_yields(Coalescing *s, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_yield && !ir_is_loop_test(b))
            coalesce_yield(s, op);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                coalesce_yields(s, op->regions[i]);
    }
}

static void
fix(Coalescing *s, const IrValue *v, IrSpace space, int index)
{
    Buffer *b = NEW(s->cx->arena, Buffer);
    *b = (Buffer){.fixed = true, .place = {space, index}};
    ir_buffers_merge(b, value_buffer(s, v));
}

/* The caller determines the places of parameters and results; a kernel's result
 * that is only returned is made in the caller's place. */
static void
coalesce_with_caller(Coalescing *s, const IrFunc *fn)
{
    for (int i = 0; i < fn->body->args.len; i++)
        fix(s, fn->body->args.data[i], SPACE_IN, i);
    const IrOp *end = ir_func_return(fn);
    for (int i = 0; i < end->num_operands; i++) {
        const IrValue *v = end->operands[i];
        if (is_free_to_move(s, v) && v->def->block == fn->body)
            fix(s, v, SPACE_OUT, i);
    }
}

/* A kernel's result takes the bytes of an operand that dies in it. */
static void
coalesce_operand(Coalescing *s, const IrOp *kernel, const IrValue *result)
{
    for (int i = 0; i < kernel->num_operands; i++) {
        Buffer *held = value_buffer(s, kernel->operands[i]);
        if (is_free_to_move(s, result) && !held->fixed &&
            held->end == ir_span_of(s->l, kernel)->begin &&
            is_dead_at(s, held, held->end, kernel, result->index))
            ir_buffers_merge(held, value_buffer(s, result));
    }
}

static void
coalesce_in_place(Coalescing *s, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_kernel)
            for (int i = 0; i < op->num_results; i++)
                coalesce_operand(s, op, op->results[i]);
        else
            for (int i = 0; i < op->num_regions; i++)
                coalesce_in_place(s, op->regions[i]);
    }
}

void
pass_coalesce_buffers(PassCx *cx, const IrLifetimes *l, IrFunc *fn)
{
    assert(ir_func_return(fn));
    Coalescing s = {cx, l, ir_overwrites(cx->arena, cx->m), map_new(cx->arena)};
    merge_by_meaning(&s, fn->body);
    if (fn->kind == FUNC_MAIN)
        pass_coalesce_handles(l, fn->body);
    ir_walk(fn->body, note_var_use, &s);
    if (fn->kind != FUNC_MAIN)
        coalesce_with_caller(&s, fn);
    for (int i = 0; i < map_count(s.vars); i++)
        coalesce_reads(&s, map_value(s.vars, i));
    for (int i = 0; i < map_count(s.vars); i++)
        coalesce_writes(&s, map_value(s.vars, i));
    coalesce_yields(&s, fn->body);
    coalesce_in_place(&s, fn->body);
}
