/*
 * host_code.c - placed functions as machine code
 *
 * A function becomes a row of calls: kernels by name, what the runtime does
 * through the table of hooks.  Loops and branches are compiled; they read
 * their conditions and counters from memory.  Every value is at its place, an
 * address made of the base of arena or frame and an offset, or a pointer of
 * the call's tables; nothing but those bases lives in a register from one
 * operation to the next.  So main can be entered in the midst of any loop: its
 * first act is a jump to the safepoint it is told to resume at (D11).
 *
 * A device may hold several replicas.  What they share is computed once, with
 * the call of the first one; runs of per-replica operations are loops over all
 * their calls (per_replica.h).  Each call has an arena with the same layout,
 * and that of the first holds what is shared.
 *
 * In every round of a loop the stop word is loaded, so that a loop that has no
 * end has one for who waits; and each operation that may take long says that
 * it is being executed.  Kernels do neither: they go over bounded indices.
 *
 * Where a loop's argument, its initial value, what it yields and its result
 * have different places, the value is copied at the edge; allocate sees to it
 * that most have the same.
 */
#include "backend/host/host_code.h"

#include <assert.h>
#include <stddef.h>
#include "backend/codegen/emit.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/hash/hash.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "ir/plan/abi.h"
#include "ir/ir.h"
#include "ir/text/text.h"

/* The fields of a replica's call; base: of its arena, or main's frame. */
typedef struct CallFields {
    Val call, base, in, out, dims;
} CallFields;

/* A loop over the calls of a device's replicas. */
typedef struct ReplicaLoop {
    Block head, end;
    Val call; /* phi */
} ReplicaLoop;

typedef struct Host {
    BeUnit *u;
    IrModule *module;
    IrFunc *fn;
    Arena *arena;
    CallFields first; /* of the device's first replica, with what all share */
    CallFields cur;   /* of who executes: the first, or in a replica loop any */
    bool in_replica;  /* in a replica loop */
    Val stop;
    Val ptrs, words; /* tables handed to kernels */
    Val partials;    /* memory for those of long reductions */
    Block failed;    /* returns the status that its phi is given */
    Val failure;
    Val entry_switch; /* main's: to the safepoint to resume at */
    int num_safepoints, num_ops, num_counters, num_positions;
    Status status;
} Host;

/* ---- addresses and sizes ------------------------------------------------ */

static Val
call_field(Host *h, Val call, Type type, size_t offset)
{
    return be_load(h->u, type, be_offset_const(h->u, call, (int64_t)offset), 8);
}

static CallFields
load_fields(Host *h, Val call)
{
    Type ptr = h->u->ptr;
    CallFields c = {.call = call};
    c.base = call_field(h, call, ptr, offsetof(TfdCall, base));
    c.in = call_field(h, call, ptr, offsetof(TfdCall, in));
    c.out = call_field(h, call, ptr, offsetof(TfdCall, out));
    c.dims = call_field(h, call, ptr, offsetof(TfdCall, dims));
    return c;
}

static Val
table_entry(Host *h, Val table, int64_t index)
{
    int64_t offset = index * (int64_t)sizeof(void *);
    return be_load(h->u, h->u->ptr, be_offset_const(h->u, table, offset), 8);
}

static void
fail(Host *h, const char *what)
{
    if (!h->status)
        h->status = status_new(STATUS_INPUT, "cannot compile @%s: %s",
                               h->fn->name, message_part(what));
}

/* Somewhere in memory. */
typedef struct Location {
    IrPlace place;
    bool shared; /* one for all replicas of the device */
} Location;

static Location
value_location(const Host *h, const IrValue *v)
{
    bool shared = h->fn->kind == FUNC_PROGRAM && ir_value_is_shared(v);
    return (Location){v->place, shared};
}

static Val
address_of(Host *h, Location l)
{
    const CallFields *c = l.shared ? &h->first : &h->cur;
    switch (l.place.space) {
    case SPACE_FRAME:
    case SPACE_ARENA:
        return be_offset_const(h->u, c->base, l.place.offset);
    case SPACE_IN:
        return table_entry(h, c->in, l.place.offset);
    case SPACE_OUT:
        return table_entry(h, c->out, l.place.offset);
    case SPACE_ROW:
        fail(h, "the host cannot reach into a device");
        break;
    case SPACE_NONE:
        UNREACHABLE("a value without a place");
    }
    return LLVMConstNull(h->u->ptr);
}

static Val
value_address(Host *h, const IrValue *v)
{
    Val p = address_of(h, value_location(h, v));
    if (v->name && p != h->cur.base && p != h->first.base)
        be_name(h->u, p, "%s", v->name);
    return p;
}

static Val
dim_word(Host *h, int word)
{
    return be_load(h->u, h->u->i64,
                   be_offset_const(h->u, h->cur.dims, (int64_t)word * 8), 8);
}

static Val
dim_size(Host *h, Dim d)
{
    if (ir_dim_is_const(d))
        return be_word(h->u, d.c);
    Val rows = dim_word(h, ir_symbol_word(h->module, d.sym));
    return be_add(h->u, be_mul(h->u, rows, be_word(h->u, d.k)),
                  be_word(h->u, d.c));
}

static Val
value_bytes(Host *h, const IrType *t)
{
    Val bytes = be_word(h->u, (int64_t)dtype_info[t->dtype].bytes);
    for (int i = 0; i < t->rank; i++)
        bytes = be_mul(h->u, bytes, dim_size(h, t->dims[i]));
    return bytes;
}

/* ---- replicas of a device ------------------------------------------------ */

/* What follows is executed by each replica, until end_replicas. */
static ReplicaLoop
begin_replicas(Host *h)
{
    BeUnit *u = h->u;
    Block before = be_insert_block(u);
    ReplicaLoop loop;
    loop.head = be_block(u, "replica");
    loop.end = be_block(u, "replicas.end");
    assert(!h->in_replica);
    be_br(u, loop.head);
    be_position_at_end(u, loop.head);
    loop.call = LLVMBuildPhi(u->builder, u->ptr, "call");
    LLVMAddIncoming(loop.call, &h->cur.call, &before, 1);
    h->cur = load_fields(h, loop.call);
    h->in_replica = true;
    return loop;
}

static void
end_replicas(Host *h, const ReplicaLoop *loop)
{
    BeUnit *u = h->u;
    Val next = call_field(h, loop->call, u->ptr, offsetof(TfdCall, next));
    Block here = be_insert_block(u);
    LLVMAddIncoming(loop->call, &next, &here, 1);
    be_cond_br(u, be_icmp(u, LLVMIntNE, next, LLVMConstNull(u->ptr)),
               loop->head, loop->end);
    be_position_at_end(u, loop->end);
    h->cur = h->first;
    h->in_replica = false;
}

/* ---- copies, conditions, statuses --------------------------------------- */

static bool
same_place(IrPlace x, IrPlace y)
{
    return x.space == y.space && x.offset == y.offset;
}

/* The bytes that this replica copies: none where its arena is the shared one
 * and both places are the same. */
static Val
bytes_to_copy(Host *h, Location from, Location to, const IrType *type)
{
    Val bytes = value_bytes(h, type);
    if (!same_place(from.place, to.place))
        return bytes;
    Val first = be_icmp(h->u, LLVMIntEQ, h->cur.base, h->first.base);
    return LLVMBuildSelect(h->u->builder, first, be_word(h->u, 0), bytes, "");
}

static void
copy_once(Host *h, Location from, Location to, const IrType *type)
{
    Val dst = address_of(h, to), src = address_of(h, from);
    LLVMBuildMemCpy(h->u->builder, dst, 1, src, 1,
                    bytes_to_copy(h, from, to, type));
}

/* What is not shared is copied by each replica. */
static void
copy_location(Host *h, Location from, Location to, const IrType *type)
{
    if (same_place(from.place, to.place) && from.shared == to.shared)
        return;
    if (h->fn->kind != FUNC_PROGRAM || to.shared || h->in_replica) {
        copy_once(h, from, to, type);
        return;
    }
    ReplicaLoop loop = begin_replicas(h);
    copy_once(h, from, to, type);
    end_replicas(h, &loop);
}

static void
copy_value(Host *h, const IrValue *from, const IrValue *to)
{
    copy_location(h, value_location(h, from), value_location(h, to), &to->type);
}

static Val
condition(Host *h, const IrValue *v)
{
    Val byte = be_load(h->u, h->u->i8, value_address(h, v), 1);
    return be_icmp(h->u, LLVMIntNE, byte, be_zero(h->u->i8));
}

static void
check_status(Host *h, Val status)
{
    Block here = be_insert_block(h->u), next = be_block(h->u, "next");
    be_cond_br(h->u, be_icmp(h->u, LLVMIntNE, status, be_zero(h->u->i32)),
               h->failed, next);
    LLVMAddIncoming(h->failure, &status, &here, 1);
    be_position_at_end(h->u, next);
}

/* Calls the hook at that offset of the table with the call and further
 * arguments, and checks the status that it returns, a value of that name. */
static void
call_hook(Host *h, size_t hook, const Val *args, int num_args, const char *name)
{
    BeUnit *u = h->u;
    Val hooks = call_field(h, h->cur.call, u->ptr, offsetof(TfdCall, hooks));
    Val fn = be_load(u, u->ptr, be_offset_const(u, hooks, (int64_t)hook), 8);
    Type types[8] = {u->ptr};
    Val all[8] = {h->cur.call};
    for (int i = 0; i < num_args; i++) {
        types[i + 1] = LLVMTypeOf(args[i]);
        all[i + 1] = args[i];
    }
    Type type = LLVMFunctionType(u->i32, types, (unsigned)num_args + 1, 0);
    Val status =
        LLVMBuildCall2(u->builder, type, fn, all, (unsigned)num_args + 1, "");
    be_name(u, status, "%s", name);
    check_status(h, status);
}

static void
call_numbered(Host *h, size_t hook, int index, const char *name)
{
    Val number = LLVMConstInt(h->u->i32, (unsigned)index, 0);
    call_hook(h, hook, &number, 1, name);
}

/* ---- kernels ------------------------------------------------------------ */

/* Which batch of the call's dims the kernel's pair i is. */
static int
batch_of(Host *h, const BeKernel *k, int i)
{
    return ir_symbol_batch(h->module, k->pairs.data[i].symbol);
}

static bool
pairs_are_in_order(Host *h, const BeKernel *k)
{
    for (int i = 1; i < k->pairs.len; i++) {
        if (batch_of(h, k, i) != batch_of(h, k, 0) + i)
            return false;
    }
    return true;
}

/* The dims a kernel is handed: the call's own words where they stand as the
 * kernel wants them, else copies. */
static Val
kernel_words(Host *h, const BeKernel *k)
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
            Val word = dim_word(h, from);
            Val to = be_offset_const(u, h->words, 8 * ir_batch_word(i, field));
            be_store(u, word, to, 8);
        }
    }
    Val replica =
        call_field(h, h->cur.call, u->i32, offsetof(TfdCall, replica));
    replica = LLVMBuildSExt(u->builder, replica, u->i64, "");
    be_store(u, replica,
             be_offset_const(u, h->words, 8 * be_kernel_replica_word(k)), 8);
    return h->words;
}

static Val
kernel_ptrs(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    int num = op->num_operands + op->num_results;
    for (int i = 0; i < num; i++) {
        const IrValue *v = i < op->num_operands
                               ? op->operands[i]
                               : op->results[i - op->num_operands];
        Val address = value_address(h, v);
        be_store(u, address, be_offset_const(u, h->ptrs, 8 * i), 8);
    }
    return h->ptrs;
}

/* d, of the kernel's own pairs. */
static Val
kernel_extent(Host *h, const BeKernel *k, Dim d)
{
    BeUnit *u = h->u;
    if (ir_dim_is_const(d))
        return be_word(u, d.c);
    const KPair *pair = &k->pairs.data[d.sym / 2];
    int batch = ir_symbol_batch(h->module, pair->symbol);
    Val rows = dim_word(h, ir_batch_word(batch, d.sym % 2 ? BATCH_N : BATCH_n));
    return be_add(u, be_word(u, d.c), be_mul(u, rows, be_word(u, d.k)));
}

/* Items of the grid: its dimensions name the kernel's own pairs. */
static Val
kernel_items(Host *h, const BeKernel *k)
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

/* The least items to give to a thread, or 0 when one thread does them all. */
static int64_t
kernel_grain(const Host *h, const BeKernel *k)
{
    return h->fn->kind == FUNC_PROGRAM ? be_kernel_grain(k) : 0;
}

static Type
kernel_type(const BeUnit *u)
{
    Type params[] = {u->ptr, u->ptr, u->i64, u->i64};
    return LLVMFunctionType(u->nothing, params, 4, 0);
}

static Val
kernel_function(Host *h, const BeKernel *k, const char *suffix)
{
    const char *name = arena_printf(h->arena, "%s%s", k->name, suffix);
    Val fn = LLVMGetNamedFunction(h->u->module, name);
    return fn ? fn : LLVMAddFunction(h->u->module, name, kernel_type(h->u));
}

static bool
is_long(const Host *h, const BeKernel *k)
{
    return h->fn->kind == FUNC_PROGRAM && be_emit_num_chunks(k) > 0;
}

/* Chunks by all threads, then the rest. */
static void
emit_long_kernel(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    const BeKernel *k = op->mark;
    Val part = kernel_function(h, k, EMIT_PARTIAL), ptrs = kernel_ptrs(h, op);
    Val rest = kernel_function(h, k, EMIT_FINAL), words = kernel_words(h, k);
    int arrays = op->num_operands + op->num_results;
    be_store(u, h->partials, be_offset_const(u, ptrs, 8 * arrays), 8);
    const KNode *first = be_emit_long_reduces(k).reduces[0];
    Dim extent = first->reduce.ranges.vars[0]->extent;
    Val last = be_add(u, kernel_extent(h, k, extent), be_word(u, BE_CHUNK - 1));
    Val chunks = LLVMBuildSDiv(u->builder, last, be_word(u, BE_CHUNK), "");
    Val args[] = {part, ptrs, words, chunks, be_word(u, 1)};
    call_hook(h, offsetof(TfdHooks, parallel), args, 5, "parallel");
    Val whole[] = {ptrs, words, be_word(u, 0), be_word(u, 1)};
    LLVMBuildCall2(u->builder, kernel_type(u), rest, whole, 4, "");
}

static void
emit_kernel(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    const BeKernel *k = op->mark;
    if (is_long(h, k)) {
        emit_long_kernel(h, op);
        return;
    }
    Val fn = kernel_function(h, k, ""), ptrs = kernel_ptrs(h, op);
    for (int i = 0; i < k->arrays[K_OUT].len; i++) {
        const KArray *from = k->arrays[K_OUT].data[i]->from;
        if (from)
            copy_value(h, op->operands[from->index], op->results[i]);
    }
    Val words = kernel_words(h, k), items = kernel_items(h, k);
    int64_t grain = kernel_grain(h, k);
    if (grain) {
        Val args[] = {fn, ptrs, words, items, be_word(u, grain)};
        call_hook(h, offsetof(TfdHooks, parallel), args, 5, "parallel");
    } else {
        Val args[] = {ptrs, words, be_word(u, 0), items};
        LLVMBuildCall2(u->builder, kernel_type(u), fn, args, 4, "");
    }
}

/* Says that the function has come to that position. */
static void
emit_position(Host *h, int position)
{
    Val number = LLVMConstInt(h->u->i32, (unsigned)position, 0);
    Val at = be_offset_const(h->u, h->cur.call, offsetof(TfdCall, at));
    Val store = LLVMBuildStore(h->u->builder, number, at);
    LLVMSetAlignment(store, 4);
    LLVMSetOrdering(store, LLVMAtomicOrderingMonotonic);
}

/* ---- control ------------------------------------------------------------ */

static void emit_ops(Host *h, const IrBlock *b);

/* Copies what b yields to where it is expected. */
static void
copy_yields(Host *h, const IrBlock *b, IrValue *const *to, int num)
{
    const IrOp *yield = ir_block_yield(b);
    for (int i = 0; i < num; i++)
        copy_value(h, yield->operands[i], to[i]);
}

static void
copy_values(Host *h, IrValue *const *from, IrValue *const *to, int num)
{
    for (int i = 0; i < num; i++)
        copy_value(h, from[i], to[i]);
}

static void
emit_if(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    Block yes = be_block(u, "then"), no = be_block(u, "else");
    Block end = be_block(u, "end");
    be_cond_br(u, condition(h, op->operands[0]), yes, no);
    for (int i = 0; i < 2; i++) {
        be_position_at_end(u, i ? no : yes);
        emit_ops(h, op->regions[i]);
        copy_yields(h, op->regions[i], op->results, op->num_results);
        be_br(u, end);
    }
    be_position_at_end(u, end);
}

/* A loop's two words, rounds done and rounds to do: in main at their place
 * behind the frame, elsewhere on the stack. */
typedef struct Counter {
    Val stack;      /* NULL: in the frame */
    int64_t offset; /* there */
} Counter;

static Counter
loop_counter(Host *h)
{
    BeUnit *u = h->u;
    if (h->fn->kind != FUNC_MAIN)
        return (Counter){be_alloca(u, u->i64, 2, 8, "rounds"), 0};
    return (Counter){NULL, ir_counter_offset(h->fn, h->num_counters++)};
}

/* The address of one of the words, made where it is used: main may be entered
 * anywhere. */
static Val
counter_word(Host *h, Counter c, int word)
{
    Val start = c.stack ? c.stack : h->cur.base;
    return be_offset_const(h->u, start, c.offset + 8 * word);
}

static void
start_counter(Host *h, Counter c, Val rounds)
{
    be_store(h->u, be_word(h->u, 0), counter_word(h, c, 0), 8);
    be_store(h->u, rounds, counter_word(h, c, 1), 8);
}

static Val
rounds_done(Host *h, Counter c)
{
    return be_load(h->u, h->u->i64, counter_word(h, c, 0), 8);
}

/* Goes to body while rounds are left, else to end. */
static void
test_counter(Host *h, Counter c, Block body, Block end)
{
    BeUnit *u = h->u;
    Val done = rounds_done(h, c);
    Val rounds = be_load(u, u->i64, counter_word(h, c, 1), 8);
    be_cond_br(u, be_icmp(u, LLVMIntSLT, done, rounds), body, end);
}

static void
count_round(Host *h, Counter c)
{
    BeUnit *u = h->u;
    Val next = be_add(u, rounds_done(h, c), be_word(u, 1));
    be_store(u, next, counter_word(h, c, 0), 8);
}

static Type
integer_of(const Host *h, const IrValue *v)
{
    unsigned bits = (unsigned)dtype_info[v->type.dtype].bytes * 8;
    return LLVMIntTypeInContext(h->u->context, bits);
}

static Val
load_integer(Host *h, const IrValue *v)
{
    BeUnit *u = h->u;
    bool is_signed = dtype_info[v->type.dtype].kind == DTYPE_SIGNED;
    Val x = be_load(u, integer_of(h, v), value_address(h, v),
                    (unsigned)dtype_info[v->type.dtype].bytes);
    return LLVMBuildIntCast2(u->builder, x, u->i64, is_signed, "");
}

static void
store_integer(Host *h, const IrValue *v, Val x)
{
    x = LLVMBuildIntCast2(h->u->builder, x, integer_of(h, v), 1, "");
    be_store(h->u, x, value_address(h, v),
             (unsigned)dtype_info[v->type.dtype].bytes);
}

/* The end of a round: returns the stop word if that is not 0.  A dataset loop
 * has hooks that look. */
static void
emit_poll(Host *h)
{
    Val word = be_load(h->u, h->u->i32, h->stop, 4);
    LLVMSetOrdering(word, LLVMAtomicOrderingMonotonic);
    check_status(h, word);
}

static void
emit_for(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    IrBlock *region = op->regions[0];
    IrValue *index = region->args.data[0], **args = region->args.data + 1;
    int num = op->num_results;
    Block head = be_block(u, "for"), body = be_block(u, "round");
    Block end = be_block(u, "end");
    Counter counter = loop_counter(h);
    start_counter(h, counter, load_integer(h, op->operands[0]));
    copy_values(h, op->operands + 1, args, num);
    be_br(u, head);
    be_position_at_end(u, head);
    test_counter(h, counter, body, end);
    be_position_at_end(u, body);
    store_integer(h, index, rounds_done(h, counter));
    emit_ops(h, region);
    copy_yields(h, region, args, num);
    count_round(h, counter);
    emit_poll(h);
    be_br(u, head);
    be_position_at_end(u, end);
    copy_values(h, args, op->results, num);
}

/* The end of an iteration of a dataset loop, which is at position `loop`: main
 * may stop and go on here. */
static void
emit_safepoint(Host *h, int index, int loop)
{
    BeUnit *u = h->u;
    emit_position(h, loop);
    call_numbered(h, offsetof(TfdHooks, safepoint), index, "safepoint");
    Block resume = be_block(u, "resume");
    be_br(u, resume);
    be_position_at_end(u, resume);
    LLVMAddCase(h->entry_switch, be_word(u, index), resume);
}

static void
emit_while_body(Host *h, const IrOp *op, Counter counter, int safepoint,
                int position)
{
    IrBlock *test = op->regions[0], *body = op->regions[1];
    int num = op->num_results;
    copy_values(h, test->args.data, body->args.data, num);
    emit_ops(h, body);
    copy_yields(h, body, test->args.data, num);
    if (ir_has(op, A_max))
        count_round(h, counter);
    if (safepoint >= 0)
        emit_safepoint(h, safepoint, position);
    else
        emit_poll(h);
}

static void
emit_while(Host *h, const IrOp *op)
{
    BeUnit *u = h->u;
    IrBlock *test = op->regions[0];
    int num = op->num_results, position = h->num_positions - 1;
    Block head = be_block(u, "while"), body = be_block(u, "round");
    Block end = be_block(u, "end");
    Counter counter = {NULL, 0};
    bool is_safe = h->fn->kind == FUNC_MAIN && ir_is_dataset_loop(op);
    int safepoint = is_safe ? h->num_safepoints++ : -1;
    if (ir_has(op, A_max)) {
        counter = loop_counter(h);
        start_counter(h, counter, be_word(u, ir_int(op, A_max)));
    }
    copy_values(h, op->operands, test->args.data, num);
    be_br(u, head);
    be_position_at_end(u, head);
    if (ir_has(op, A_max)) {
        Block may = be_block(u, "test");
        test_counter(h, counter, may, end);
        be_position_at_end(u, may);
    }
    emit_ops(h, test);
    be_cond_br(u, condition(h, ir_block_yield(test)->operands[0]), body, end);
    be_position_at_end(u, body);
    emit_while_body(h, op, counter, safepoint, position);
    be_br(u, head);
    be_position_at_end(u, end);
    copy_values(h, test->args.data, op->results, num);
}

/* ---- operations --------------------------------------------------------- */

static void
emit_variable(Host *h, const IrOp *op)
{
    const IrVar *var = ir_var_find(h->module, ir_text(op, A_var));
    Location at = {var->place, ir_var_is_shared(var)};
    if (op->kind == OP_read)
        copy_location(h, at, value_location(h, op->results[0]), &var->type);
    else
        copy_location(h, value_location(h, op->operands[0]), at, &var->type);
}

/* Each replica has its own table of results: main may take a value that all
 * share for one that it has of each. */
static void
emit_return(Host *h, const IrOp *op)
{
    for (int i = 0; h->fn->kind != FUNC_MAIN && i < op->num_operands; i++) {
        Location out = {{SPACE_OUT, i}, false};
        copy_location(h, value_location(h, op->operands[i]), out,
                      &op->operands[i]->type);
    }
}

/* Executed by the runtime; results that are not views of their operands are
 * its business, too. */
static void
emit_hooked(Host *h, const IrOp *op)
{
    call_numbered(h, offsetof(TfdHooks, op), h->num_ops++,
                  ir_op_info[op->kind].name);
    if (ir_op_info[op->kind].traits & VIEW)
        copy_values(h, op->operands, op->results, op->num_results);
}

static void
emit_op(Host *h, const IrOp *op)
{
    if (ir_is_position(op))
        emit_position(h, h->num_positions++);
    switch (op->kind) {
    case OP_kernel:
        emit_kernel(h, op);
        break;
    case OP_if:
        emit_if(h, op);
        break;
    case OP_for:
        emit_for(h, op);
        break;
    case OP_while:
        emit_while(h, op);
        break;
    case OP_read:
    case OP_write:
        emit_variable(h, op);
        break;
    case OP_reshape:
    case OP_copy:
        copy_value(h, op->operands[0], op->results[0]);
        break;
    case OP_return:
        emit_return(h, op);
        break;
    case OP_yield: /* whoever has the region copies */
        break;
    default:
        if (ir_is_hooked(op))
            emit_hooked(h, op);
        else
            UNREACHABLE("%s outside of any kernel", ir_op_info[op->kind].name);
    }
}

/* A run of per-replica operations; gives its last one. */
static const IrOp *
emit_run(Host *h, const IrOp *op)
{
    const IrOp *last = ir_run_last(op);
    ReplicaLoop loop = begin_replicas(h);
    for (; op != last->next; op = op->next)
        emit_op(h, op);
    end_replicas(h, &loop);
    return last;
}

static void
emit_ops(Host *h, const IrBlock *b)
{
    bool may_begin_run = h->fn->kind == FUNC_PROGRAM && !h->in_replica;
    for (const IrOp *op = b->first; op; op = op->next)
        if (may_begin_run && ir_op_is_per_replica(op))
            op = emit_run(h, op);
        else
            emit_op(h, op);
}

/* ---- functions ---------------------------------------------------------- */

typedef struct Most {
    int ptrs, words;
    int64_t part_bytes;
} Most;

static void
note_kernel(IrOp *op, void *data)
{
    Most *most = data;
    if (op->kind != OP_kernel)
        return;
    const BeKernel *k = op->mark;
    int ptrs = op->num_operands + op->num_results + 1;
    int64_t bytes = be_emit_partial_bytes(k);
    most->part_bytes = bytes > most->part_bytes ? bytes : most->part_bytes;
    int words = be_kernel_replica_word(k) + 1;
    most->ptrs = ptrs > most->ptrs ? ptrs : most->ptrs;
    most->words = words > most->words ? words : most->words;
}

/* Loads the members of the call that do not change during it. */
static void
load_call(Host *h)
{
    BeUnit *u = h->u;
    Most most = {0, 0, 0};
    ir_walk(h->fn->body, note_kernel, &most);
    h->cur = load_fields(h, LLVMGetParam(u->func, 0));
    be_name(u, h->cur.base, h->fn->kind == FUNC_MAIN ? "frame" : "arena");
    h->first = h->cur;
    h->stop = call_field(h, h->cur.call, u->ptr, offsetof(TfdCall, stop));
    h->ptrs = be_alloca(u, u->ptr, (uint64_t)most.ptrs, 8, "ptrs");
    h->words = be_alloca(u, u->i64, (uint64_t)most.words, 8, "words");
    h->partials = be_alloca(u, u->i8, (uint64_t)most.part_bytes, 16, "parts");
}

static void
begin_failure(Host *h)
{
    BeUnit *u = h->u;
    Block here = be_insert_block(u);
    h->failed = be_block(u, "failed");
    be_position_at_end(u, h->failed);
    h->failure = LLVMBuildPhi(u->builder, u->i32, "status");
    LLVMBuildRet(u->builder, h->failure);
    be_position_at_end(u, here);
}

static void
emit_function(Host *h)
{
    BeUnit *u = h->u;
    bool is_main = h->fn->kind == FUNC_MAIN;
    const char *symbol =
        is_main ? "tfd_main" : arena_printf(h->arena, "p_%s", h->fn->name);
    be_func_begin(u, symbol, u->i32, &u->ptr, 1, true);
    load_call(h);
    begin_failure(h);
    Block start = be_block(u, "start");
    if (is_main)
        h->entry_switch = LLVMBuildSwitch(
            u->builder,
            call_field(h, h->cur.call, u->i64, offsetof(TfdCall, resume)),
            start, 4);
    else
        be_br(u, start);
    be_position_at_end(u, start);
    emit_ops(h, h->fn->body);
    LLVMBuildRet(u->builder, be_zero(u->i32));
    if (!LLVMCountIncoming(h->failure))
        LLVMDeleteBasicBlock(h->failed);
    be_func_end(u);
}

/* A function that does nothing, called after the text of the module: by it the
 * runner knows that this code and the module of the plan belong together. */
static void
emit_seal(Arena *a, BeUnit *u, const IrModule *m)
{
    Str text = str_new(a);
    ir_print_module(&text, m);
    const char *hash = hash_text(a, str_text(&text), text.len);
    const char *name = arena_printf(a, PLAN_MODULE_SYMBOL "%s", hash);
    be_func_begin(u, name, u->i32, &u->ptr, 1, true);
    LLVMBuildRet(u->builder, be_zero(u->i32));
    be_func_end(u);
}

Status
be_host_emit(BeUnit *u, const void *module, const BeTarget *t)
{
    (void)t; /* nothing here depends on it */
    IrModule *m = (IrModule *)(uintptr_t)module;
    Arena *a = arena_new(NULL, "host code");
    Status st = OK;
    emit_seal(a, u, m);
    for (IrFunc *fn = m->first; fn && !st; fn = fn->next) {
        Host h = {.u = u, .module = m, .fn = fn, .arena = a};
        emit_function(&h);
        st = h.status;
    }
    arena_release(a);
    return st;
}
