/*
 * host_memory.c - locations of values, copies between places, calls of hooks
 *
 * A device may have several replicas.  Each has an arena of the same layout;
 * that of the first has the shared values.  A location tells which arena a
 * place is in, and a replica loop is a loop over the replicas' calls.
 */
#include "backend/host/host_impl.h"

#include <assert.h>
#include <stddef.h>
#include "ir/analysis/batch.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/message.h"
#include "ir/plan/abi.h"

/* ---- addresses and sizes ------------------------------------------------ */

Val
be_host_call_field(BeHost *h, Val call, Type type, size_t offset)
{
    unsigned bytes = type == h->u->i32 ? 4 : 8;
    return be_load(h->u, type, be_offset_const(h->u, call, (int64_t)offset),
                   bytes);
}

BeCallFields
be_host_load_call(BeHost *h, Val call)
{
    Type ptr = h->u->ptr;
    BeCallFields c = {.call = call};
    c.base = be_host_call_field(h, call, ptr, offsetof(TfdCall, base));
    c.in = be_host_call_field(h, call, ptr, offsetof(TfdCall, in));
    c.out = be_host_call_field(h, call, ptr, offsetof(TfdCall, out));
    c.dims = be_host_call_field(h, call, ptr, offsetof(TfdCall, dims));
    return c;
}

static Val
table_entry(BeHost *h, Val table, int64_t index)
{
    int64_t offset = index * (int64_t)sizeof(void *);
    return be_load(h->u, h->u->ptr, be_offset_const(h->u, table, offset), 8);
}

static void
fail(BeHost *h, const char *what)
{
    if (!h->status)
        h->status = status_new(STATUS_INPUT, "cannot compile @%s: %s",
                               h->fn->name, message_part(what));
}

BeLocation
be_host_location(const BeHost *h, const IrValue *v)
{
    bool shared = h->fn->kind == FUNC_PROGRAM && ir_value_is_shared(v);
    return (BeLocation){v->place, shared};
}

static Val
address_of(BeHost *h, BeLocation l)
{
    const BeCallFields *c = l.shared ? &h->first : &h->cur;
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

Val
be_host_address(BeHost *h, const IrValue *v)
{
    Val p = address_of(h, be_host_location(h, v));
    if (v->name && p != h->cur.base && p != h->first.base)
        be_name(h->u, p, "%s", v->name);
    return p;
}

Val
be_host_dim_word(BeHost *h, int word)
{
    return be_load(h->u, h->u->i64,
                   be_offset_const(h->u, h->cur.dims, (int64_t)word * 8), 8);
}

static Val
dim_size(BeHost *h, Dim d)
{
    if (ir_dim_is_const(d))
        return be_word(h->u, d.c);
    Val rows = be_host_dim_word(h, ir_symbol_word(h->module, d.sym));
    return be_add(h->u, be_mul(h->u, rows, be_word(h->u, d.k)),
                  be_word(h->u, d.c));
}

static Val
value_bytes(BeHost *h, const IrType *t)
{
    Val bytes = be_word(h->u, (int64_t)dtype_info[t->dtype].bytes);
    for (int i = 0; i < t->rank; i++)
        bytes = be_mul(h->u, bytes, dim_size(h, t->dims[i]));
    return bytes;
}

/* ---- replicas of a device ------------------------------------------------ */

/* Code after this is executed by each replica, until be_host_end_replicas. */
BeReplicaLoop
be_host_begin_replicas(BeHost *h)
{
    BeUnit *u = h->u;
    Block before = be_insert_block(u);
    BeReplicaLoop loop;
    loop.head = be_block(u, "replica");
    loop.end = be_block(u, "replicas.end");
    assert(!h->in_replica);
    be_br(u, loop.head);
    be_position_at_end(u, loop.head);
    loop.call = LLVMBuildPhi(u->builder, u->ptr, "call");
    LLVMAddIncoming(loop.call, &h->cur.call, &before, 1);
    h->cur = be_host_load_call(h, loop.call);
    h->in_replica = true;
    return loop;
}

void
be_host_end_replicas(BeHost *h, const BeReplicaLoop *loop)
{
    BeUnit *u = h->u;
    Val next =
        be_host_call_field(h, loop->call, u->ptr, offsetof(TfdCall, next));
    Block here = be_insert_block(u);
    LLVMAddIncoming(loop->call, &next, &here, 1);
    be_cond_br(u, be_icmp(u, LLVMIntNE, next, LLVMConstNull(u->ptr)),
               loop->head, loop->end);
    be_position_at_end(u, loop->end);
    h->cur = h->first;
    h->in_replica = false;
}

/* ---- copies -------------------------------------------------------------- */

/* The bytes that this replica copies: none if its arena is the shared one and
 * both places are the same. */
static Val
bytes_to_copy(BeHost *h, BeLocation from, BeLocation to, const IrType *type)
{
    Val bytes = value_bytes(h, type);
    if (!ir_place_equal(from.place, to.place))
        return bytes;
    Val first = be_icmp(h->u, LLVMIntEQ, h->cur.base, h->first.base);
    return LLVMBuildSelect(h->u->builder, first, be_word(h->u, 0), bytes, "");
}

static void
copy_once(BeHost *h, BeLocation from, BeLocation to, const IrType *type)
{
    Val dst = address_of(h, to), src = address_of(h, from);
    Val bytes = bytes_to_copy(h, from, to, type);
    Val args[] = {dst, src, bytes};
    if (h->enqueues)
        be_host_call_hook(h, offsetof(TfdHooks, copy), args, 3, "copied");
    else
        LLVMBuildMemCpy(h->u->builder, dst, 1, src, 1, bytes);
}

bool
be_host_is_copied(BeLocation from, BeLocation to)
{
    return !ir_place_equal(from.place, to.place) || from.shared != to.shared;
}

/* Each replica copies its own value, unless it is shared. */
void
be_host_copy_location(BeHost *h, BeLocation from, BeLocation to,
                      const IrType *type)
{
    if (!be_host_is_copied(from, to))
        return;
    if (h->fn->kind != FUNC_PROGRAM || to.shared || h->in_replica) {
        copy_once(h, from, to, type);
        return;
    }
    BeReplicaLoop loop = be_host_begin_replicas(h);
    copy_once(h, from, to, type);
    be_host_end_replicas(h, &loop);
}

void
be_host_copy_value(BeHost *h, const IrValue *from, const IrValue *to)
{
    be_host_copy_location(h, be_host_location(h, from), be_host_location(h, to),
                          &to->type);
}

/* ---- single words -------------------------------------------------------- */

static unsigned
bytes_of(const IrValue *v)
{
    return (unsigned)dtype_info[v->type.dtype].bytes;
}

static Type
integer_of(const BeHost *h, const IrValue *v)
{
    return LLVMIntTypeInContext(h->u->context, bytes_of(v) * 8);
}

Val
be_host_load_integer(BeHost *h, const IrValue *v)
{
    BeUnit *u = h->u;
    Val address = be_host_address(h, v);
    if (h->enqueues) {
        Val args[] = {h->word, address, LLVMConstInt(u->i32, bytes_of(v), 0)};
        be_host_call_hook(h, offsetof(TfdHooks, load), args, 3, "loaded");
        address = h->word; /* whose first bytes are the lower ones */
    }
    return be_load(u, integer_of(h, v), address, bytes_of(v));
}

void
be_host_store_integer(BeHost *h, const IrValue *v, Val x)
{
    BeUnit *u = h->u;
    Val address = be_host_address(h, v);
    Val args[] = {address, x, LLVMConstInt(u->i32, bytes_of(v), 0)};
    if (h->enqueues) {
        be_host_call_hook(h, offsetof(TfdHooks, store), args, 3, "stored");
        return;
    }
    x = LLVMBuildIntCast2(u->builder, x, integer_of(h, v), 1, "");
    be_store(u, x, address, bytes_of(v));
}

Val
be_host_condition(BeHost *h, const IrValue *v)
{
    Val byte = be_host_load_integer(h, v);
    return be_icmp(h->u, LLVMIntNE, byte, be_zero(h->u->i8));
}

/* ---- statuses and hooks -------------------------------------------------- */

void
be_host_check_status(BeHost *h, Val status)
{
    Block here = be_insert_block(h->u), next = be_block(h->u, "next");
    be_cond_br(h->u, be_icmp(h->u, LLVMIntNE, status, be_zero(h->u->i32)),
               h->failed, next);
    LLVMAddIncoming(h->failure, &status, &here, 1);
    be_position_at_end(h->u, next);
}

Val
be_host_load_hook(BeHost *h, size_t hook)
{
    Val hooks =
        be_host_call_field(h, h->cur.call, h->u->ptr, offsetof(TfdCall, hooks));
    return be_load(h->u, h->u->ptr, be_offset_const(h->u, hooks, (int64_t)hook),
                   8);
}

/* Calls the hook at that offset of the table with the call and further
 * arguments, and checks the status that it returns, a value of that name. */
void
be_host_call_hook(BeHost *h, size_t hook, const Val *args, int num_args,
                  const char *name)
{
    BeUnit *u = h->u;
    Val fn = be_host_load_hook(h, hook);
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
    be_host_check_status(h, status);
}

void
be_host_call_numbered(BeHost *h, size_t hook, int index, const char *name)
{
    Val number = LLVMConstInt(h->u->i32, (unsigned)index, 0);
    be_host_call_hook(h, hook, &number, 1, name);
}

/* Records that the function has reached that position. */
void
be_host_emit_position(BeHost *h, int position)
{
    Val number = LLVMConstInt(h->u->i32, (unsigned)position, 0);
    Val at = be_offset_const(h->u, h->cur.call, offsetof(TfdCall, at));
    Val store = LLVMBuildStore(h->u->builder, number, at);
    LLVMSetAlignment(store, 4);
    LLVMSetOrdering(store, LLVMAtomicOrderingMonotonic);
}

void
be_host_call_if_any(BeHost *h, Val hook, const Val *args, int num_args)
{
    enum { MOST = 4 };
    BeUnit *u = h->u;
    Type types[MOST];
    assert(num_args <= MOST);
    for (int i = 0; i < num_args; i++)
        types[i] = LLVMTypeOf(args[i]);
    Type type = LLVMFunctionType(u->nothing, types, (unsigned)num_args, 0);
    Block any = be_block(u, "any"), next = be_block(u, "next");
    be_cond_br_likely(u, LLVMBuildIsNull(u->builder, hook, ""), next, any);
    be_position_at_end(u, any);
    LLVMBuildCall2(u->builder, type, hook, (Val *)(uintptr_t)args,
                   (unsigned)num_args, "");
    be_br(u, next);
    be_position_at_end(u, next);
}

/* The end of a position is the begin of the next, so one call each does. */
void
be_host_emit_mark(BeHost *h, int position)
{
    Val number = LLVMConstInt(h->u->i32, (unsigned)position, 0);
    Val args[] = {h->cur.call, number};
    if (h->mark)
        be_host_call_if_any(h, h->mark, args, 2);
}
