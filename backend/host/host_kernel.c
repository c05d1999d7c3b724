/*
 * host_kernel.c - calls of kernels
 *
 * A kernel gets a table of pointers, the sizes of its batches and a range of
 * its grid.  In a device program, one whose grid is long enough goes through
 * the hook that divides the range among the threads of the device.  A device
 * with code of its own is asked to launch the kernel by its number.
 */
#include "backend/host/host_impl.h"

#include <stddef.h>
#include "backend/codegen/emit.h"
#include "backend/cpu/cpu_kernel.h"
#include "ir/analysis/batch.h"
#include "ir/analysis/hooks.h"
#include "ir/plan/abi.h"

/* The batch of the call's dims that is the kernel's pair i. */
static int
batch_of(BeHost *h, const BeKernel *k, int i)
{
    return ir_symbol_batch(h->module, k->pairs.data[i].symbol);
}

static bool
pairs_are_in_order(BeHost *h, const BeKernel *k)
{
    for (int i = 1; i < k->pairs.len; i++) {
        if (batch_of(h, k, i) != batch_of(h, k, 0) + i)
            return false;
    }
    return true;
}

/* The dims for a kernel: the call's own words if they are in the kernel's
 * order, else copies. */
static Val
kernel_words(BeHost *h, const BeKernel *k)
{
    BeUnit *u = h->u;
    int num = k->pairs.len;
    if (!k->uses_replica && pairs_are_in_order(h, k)) {
        int first = num ? ir_batch_word(batch_of(h, k, 0), BATCH_n) : 0;
        return be_offset_const(u, h->cur.dims, 8 * first);
    }
    for (int i = 0; i < num; i++) {
        for (int field = 0; field < BATCH_WORDS; field++) {
            int from = ir_batch_word(batch_of(h, k, i), field);
            Val word = be_host_dim_word(h, from);
            Val to = be_offset_const(u, h->words, 8 * ir_batch_word(i, field));
            be_store(u, word, to, 8);
        }
    }
    Val replica =
        be_host_call_field(h, h->cur.call, u->i32, offsetof(TfdCall, replica));
    replica = LLVMBuildSExt(u->builder, replica, u->i64, "");
    be_store(u, replica,
             be_offset_const(u, h->words, 8 * be_kernel_replica_word(k)), 8);
    return h->words;
}

static Val
kernel_ptrs(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    int num = op->num_operands + op->num_results;
    for (int i = 0; i < num; i++) {
        const IrValue *v = i < op->num_operands
                               ? op->operands[i]
                               : op->results[i - op->num_operands];
        Val address = be_host_address(h, v);
        be_store(u, address, be_offset_const(u, h->ptrs, 8 * i), 8);
    }
    return h->ptrs;
}

/* d, of the kernel's own pairs. */
static Val
kernel_extent(BeHost *h, const BeKernel *k, Dim d)
{
    BeUnit *u = h->u;
    if (ir_dim_is_const(d))
        return be_word(u, d.c);
    const KPair *pair = &k->pairs.data[d.sym / 2];
    int batch = ir_symbol_batch(h->module, pair->symbol);
    Val rows = be_host_dim_word(
        h, ir_batch_word(batch, d.sym % 2 ? BATCH_N : BATCH_n));
    return be_add(u, be_word(u, d.c), be_mul(u, rows, be_word(u, d.k)));
}

/* Items of the grid: its dimensions name the kernel's own pairs. */
static Val
kernel_items(BeHost *h, const BeKernel *k)
{
    BeUnit *u = h->u;
    Val items = be_word(u, 1);
    if (k->segments.len)
        return be_word(u, be_kernel_items(k).c);
    for (int i = 0; i < k->grid.count; i++) {
        Val size = kernel_extent(h, k, k->grid.vars[i]->extent);
        items = be_mul(u, items, size);
    }
    return items;
}

/* The fewest items to give to a thread, or 0 when one thread executes them all.
 */
static int64_t
kernel_grain(const BeHost *h, const BeKernel *k)
{
    return h->fn->kind == FUNC_PROGRAM ? be_cpu_kernel_grain(k) : 0;
}

static Type
kernel_type(const BeUnit *u)
{
    Type params[] = {u->ptr, u->ptr, u->i64, u->i64};
    return LLVMFunctionType(u->nothing, params, 4, 0);
}

static Val
kernel_function(const BeHost *h, const BeKernel *k, const char *suffix)
{
    const char *name = arena_printf(h->arena, "%s%s", k->name, suffix);
    Val fn = LLVMGetNamedFunction(h->u->module, name);
    if (fn)
        return fn;
    return LLVMAddFunction(h->u->module, name, kernel_type(h->u));
}

void
be_host_call_kernel(const BeHost *h, const BeKernel *k, const char *suffix,
                    const Val *args)
{
    Val fn = kernel_function(h, k, suffix);
    LLVMBuildCall2(h->u->builder, kernel_type(h->u), fn, (Val *)(uintptr_t)args,
                   4, "");
}

static bool
is_long(const BeHost *h, const BeKernel *k)
{
    return h->fn->kind == FUNC_PROGRAM && be_emit_num_chunks(k) > 0;
}

/* Outputs that begin as inputs. */
static void
copy_initial_values(BeHost *h, const IrOp *op)
{
    const BeKernel *k = be_kernel_of(h->kernels, op);
    for (int i = 0; i < k->arrays[K_OUT].len; i++) {
        const KArray *from = k->arrays[K_OUT].data[i]->from;
        if (from)
            be_host_copy_value(h, op->operands[from->index], op->results[i]);
    }
}

/* Chunks by all threads, then the rest. */
static void
emit_long_kernel(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    const BeKernel *k = be_kernel_of(h->kernels, op);
    copy_initial_values(h, op);
    Val part = kernel_function(h, k, EMIT_PARTIAL), ptrs = kernel_ptrs(h, op);
    Val words = kernel_words(h, k);
    int arrays = op->num_operands + op->num_results;
    be_store(u, h->partials, be_offset_const(u, ptrs, 8 * arrays), 8);
    const KNode *first = be_emit_long_reduces(k).reduces[0];
    Dim extent = first->reduce.ranges.vars[0]->extent;
    Val last = be_add(u, kernel_extent(h, k, extent), be_word(u, IR_CHUNK - 1));
    Val chunks = LLVMBuildSDiv(u->builder, last, be_word(u, IR_CHUNK), "");
    Val args[] = {part, ptrs, words, chunks, be_word(u, 1)};
    be_host_call_hook(h, offsetof(TfdHooks, parallel), args, 5, "parallel");
    Val whole[] = {ptrs, words, be_word(u, 0), be_word(u, 1)};
    be_host_call_kernel(h, k, EMIT_FINAL, whole);
}

/* The device's own code, by its number in the plan. */
static void
emit_launch(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    const BeKernel *k = be_kernel_of(h->kernels, op);
    int number = be_kernel_number(h->kernels, k);
    copy_initial_values(h, op);
    Val ptrs = kernel_ptrs(h, op);
    Val words = kernel_words(h, k), items = kernel_items(h, k);
    unsigned num_ptrs = (unsigned)(op->num_operands + op->num_results);
    Val args[] = {LLVMConstInt(u->i32, (unsigned)number, 0),
                  ptrs,
                  LLVMConstInt(u->i32, num_ptrs, 0),
                  words,
                  items,
                  be_word(u, be_cpu_kernel_grain(k))};
    be_host_call_hook(h, offsetof(TfdHooks, launch), args, 6, "launched");
}

void
be_host_emit_kernel(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    const BeKernel *k = be_kernel_of(h->kernels, op);
    if (h->enqueues) {
        emit_launch(h, op);
        return;
    }
    if (is_long(h, k)) {
        emit_long_kernel(h, op);
        return;
    }
    Val ptrs = kernel_ptrs(h, op);
    copy_initial_values(h, op);
    Val words = kernel_words(h, k), items = kernel_items(h, k);
    int64_t grain = kernel_grain(h, k);
    if (grain) {
        Val fn = kernel_function(h, k, "");
        Val args[] = {fn, ptrs, words, items, be_word(u, grain)};
        be_host_call_hook(h, offsetof(TfdHooks, parallel), args, 5, "parallel");
    } else {
        Val args[] = {ptrs, words, be_word(u, 0), items};
        be_host_call_kernel(h, k, "", args);
    }
}
