/*
 * hooks.c - the numbering shared by compiled code and the runner
 *
 * Everything is numbered in the order of the text, which is the order of
 * ir_walk: an operation comes before those of its regions.
 */
#include "ir/analysis/hooks.h"

#include <assert.h>
#include "ir/base/cache_line.h"
#include "ir/loop.h"

enum { COUNTER_BYTES = 16, PAGE_BYTES = 4096 };

bool
ir_is_hooked(const IrOp *op)
{
    IrEffect effect = ir_op_info[op->kind].effect;
    return effect == HOST || effect == COLLECTIVE || op->kind == OP_param;
}

bool
ir_is_move(const IrOp *op)
{
    if (op->block->op && op->block->op->kind == OP_kernel)
        return false;
    return op->kind == OP_read || op->kind == OP_write || op->kind == OP_copy ||
           ir_op_info[op->kind].code == CODE_reshape;
}

bool
ir_is_position(const IrOp *op)
{
    return op->kind == OP_kernel || op->kind == OP_for ||
           op->kind == OP_while || op->kind == OP_return || ir_is_hooked(op) ||
           ir_is_move(op);
}

bool
ir_is_dataset_loop(const IrOp *op)
{
    if (op->kind != OP_while)
        return false;
    for (const IrOp *c = op->regions[0]->first; c; c = c->next) {
        if (c->kind == OP_iter_has_next)
            return true;
    }
    return false;
}

static bool
joins(const IrOp *loop)
{
    for (const IrOp *op = ir_loop(loop).body->first; op; op = op->next)
        if (op->kind == OP_join && op->num_operands == 0)
            return true;
    return false;
}

bool
ir_has_safepoints(const IrOp *op)
{
    if (op->block->func->kind != FUNC_MAIN || !ir_is_loop(op))
        return false;
    return ir_is_dataset_loop(op) || joins(op);
}

static bool
counts_in_frame(const IrOp *op)
{
    if (op->block->func->kind != FUNC_MAIN)
        return false;
    return op->kind == OP_for || (op->kind == OP_while && ir_has(op, A_max));
}

typedef struct Lists {
    Arena *arena;
    IrHooks hooks;
} Lists;

static void
list_op(IrOp *op, void *data)
{
    Lists *lists = data;
    IrHooks *h = &lists->hooks;
    if (ir_is_hooked(op)) {
        op->id = h->ops.len;
        VEC_PUSH(lists->arena, h->ops, op);
    }
    if (ir_has_safepoints(op)) {
        op->id = h->safepoints.len;
        VEC_PUSH(lists->arena, h->safepoints, op);
    }
    if (counts_in_frame(op))
        VEC_PUSH(lists->arena, h->counters, op);
    if (ir_is_position(op))
        VEC_PUSH(lists->arena, h->positions, op);
}

IrHooks
ir_hooks(Arena *a, IrFunc *fn)
{
    Lists lists = {.arena = a};
    ir_walk(fn->body, list_op, &lists);
    return lists.hooks;
}

static void
count_counter(IrOp *op, void *data)
{
    *(int *)data += counts_in_frame(op);
}

int64_t
ir_counter_offset(const IrFunc *fn, int index)
{
    assert(fn->kind == FUNC_MAIN && index >= 0);
    int64_t end = (fn->arena_bytes + COUNTER_BYTES - 1) & -COUNTER_BYTES;
    return end + (int64_t)index * COUNTER_BYTES;
}

int64_t
ir_frame_bytes(IrFunc *fn)
{
    int num = 0;
    ir_walk(fn->body, count_counter, &num);
    return num ? ir_counter_offset(fn, num) : fn->arena_bytes;
}

int64_t
ir_align_to_line(int64_t bytes)
{
    assert(bytes >= 0);
    return (int64_t)on_lines((size_t)bytes);
}

int64_t
ir_collective_align(int64_t bytes)
{
    return bytes >= PAGE_BYTES ? PAGE_BYTES : CACHE_LINE;
}

int
ir_num_pairs(const IrModule *m)
{
    int num = 0;
    for (int i = 0; i < m->symbols.len; i++)
        num += !m->symbols.data[i].global;
    return num;
}

int
ir_symbol_batch(const IrModule *m, int32_t symbol)
{
    const IrSymbol *s = &m->symbols.data[symbol];
    int32_t of = s->global ? s->partner : symbol;
    int index = 0;
    for (int32_t i = 0; i < of; i++)
        index += !m->symbols.data[i].global;
    return index;
}

int
ir_symbol_word(const IrModule *m, int32_t symbol)
{
    assert(symbol >= 0 && symbol < m->symbols.len);
    bool global = m->symbols.data[symbol].global;
    return ir_batch_word(ir_symbol_batch(m, symbol),
                         global ? BATCH_N : BATCH_n);
}
