/*
 * host_code.c - placed functions as machine code
 *
 * A function becomes a sequence of calls: kernels by name, operations of the
 * runtime through the table of hooks.  Loops and branches are compiled; they
 * read their conditions and counters from memory.  Every value is at its place,
 * an address made of the base of arena or frame and an offset, or a pointer of
 * the call's tables; only those bases stay in registers from one operation to
 * the next.  So main can be entered inside any loop: it begins with a jump to
 * the safepoint at which it resumes (D11).
 *
 * A device may have several replicas.  Shared values are computed once, with
 * the call of the first one; replica loops go over all calls (per_replica.h).
 * Each call has an arena with the same layout, and that of the first has the
 * shared values.
 *
 * Every round of a loop loads the stop word, so that an endless loop can be
 * stopped; and each operation that may take long records that it is being
 * executed.  Kernels do neither: their loops are bounded.
 *
 * Where a loop's argument, its initial value, its yield and its result have
 * different places, the value is copied at the edge; allocate gives most of
 * them the same place.
 *
 * A device that executes other code than this gets its work from a second form
 * of each device program: the same sequence, in which kernels, copies, and
 * loads and stores of values go through hooks that enqueue them.
 */
#include "backend/host/host_code.h"

#include <stddef.h>
#include "backend/codegen/emit.h"
#include "backend/host/host_impl.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/hash/hash.h"
#include "ir/base/str.h"
#include "ir/plan/abi.h"
#include "ir/rules/overwrites.h"
#include "ir/ir.h"
#include "ir/text/text.h"

/* ---- control ------------------------------------------------------------ */

static void emit_ops(BeHost *h, const IrBlock *b);

/* Copies the values that b yields to their destinations. */
static void
copy_yields(BeHost *h, const IrBlock *b, IrValue *const *to, int num)
{
    const IrOp *yield = ir_block_yield(b);
    for (int i = 0; i < num; i++)
        be_host_copy_value(h, yield->operands[i], to[i]);
}

static void
copy_values(BeHost *h, IrValue *const *from, IrValue *const *to, int num)
{
    for (int i = 0; i < num; i++)
        be_host_copy_value(h, from[i], to[i]);
}

static void
emit_if(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    Block yes = be_block(u, "then"), no = be_block(u, "else");
    Block end = be_block(u, "end");
    be_cond_br(u, be_host_condition(h, op->operands[0]), yes, no);
    for (int i = 0; i < 2; i++) {
        be_position_at_end(u, i ? no : yes);
        emit_ops(h, op->regions[i]);
        copy_yields(h, op->regions[i], op->results, op->num_results);
        be_br(u, end);
    }
    be_position_at_end(u, end);
}

/* A loop's two words, rounds done and rounds to do: in main at their place
 * after the frame, elsewhere on the stack. */
typedef struct Counter {
    Val stack;      /* NULL: in the frame */
    int64_t offset; /* there */
} Counter;

static Counter
loop_counter(BeHost *h)
{
    BeUnit *u = h->u;
    if (h->fn->kind != FUNC_MAIN)
        return (Counter){be_alloca(u, u->i64, 2, 8, "rounds"), 0};
    return (Counter){NULL, ir_counter_offset(h->fn, h->num_counters++)};
}

/* The address of one of the words, computed where it is used: main may be
 * entered anywhere. */
static Val
counter_word(BeHost *h, Counter c, int word)
{
    Val start = c.stack ? c.stack : h->cur.base;
    return be_offset_const(h->u, start, c.offset + 8 * word);
}

static void
start_counter(BeHost *h, Counter c, Val rounds)
{
    be_store(h->u, be_word(h->u, 0), counter_word(h, c, 0), 8);
    be_store(h->u, rounds, counter_word(h, c, 1), 8);
}

static Val
rounds_done(BeHost *h, Counter c)
{
    return be_load(h->u, h->u->i64, counter_word(h, c, 0), 8);
}

/* Goes to body while rounds are left, else to end. */
static void
test_counter(BeHost *h, Counter c, Block body, Block end)
{
    BeUnit *u = h->u;
    Val done = rounds_done(h, c);
    Val rounds = be_load(u, u->i64, counter_word(h, c, 1), 8);
    be_cond_br(u, be_icmp(u, LLVMIntSLT, done, rounds), body, end);
}

static void
count_round(BeHost *h, Counter c)
{
    BeUnit *u = h->u;
    Val next = be_add(u, rounds_done(h, c), be_word(u, 1));
    be_store(u, next, counter_word(h, c, 0), 8);
}

/* A number of rounds, as an i64. */
static Val
load_rounds(BeHost *h, const IrValue *v)
{
    bool is_signed = dtype_info[v->type.dtype].kind == DTYPE_SIGNED;
    Val x = be_host_load_integer(h, v);
    return LLVMBuildIntCast2(h->u->builder, x, h->u->i64, is_signed, "");
}

/* The end of a round: returns the stop word if it is not 0.  A dataset loop of
 * main has hooks that check it. */
static void
emit_poll(BeHost *h)
{
    Val word = be_load(h->u, h->u->i32, h->stop, 4);
    LLVMSetOrdering(word, LLVMAtomicOrderingMonotonic);
    be_host_check_status(h, word);
}

/* The end of a round of a loop, which is at position `loop`: a safepoint, where
 * main may stop and continue. */
static void
emit_safepoint(BeHost *h, int index, int loop)
{
    BeUnit *u = h->u;
    be_host_emit_position(h, loop);
    be_host_emit_mark(h, loop);
    be_host_call_numbered(h, offsetof(TfdHooks, safepoint), index, "safepoint");
    Block resume = be_block(u, "resume");
    be_br(u, resume);
    be_position_at_end(u, resume);
    LLVMAddCase(h->entry_switch, be_word(u, index), resume);
}

/* The number of the loop's safepoint; -1: it has none. */
static int
safepoint_of(BeHost *h, const IrOp *loop)
{
    return ir_has_safepoints(loop) ? h->num_safepoints++ : -1;
}

/* Initial values become the loop's arguments, but those that it overwrites. */
static void
copy_initial(BeHost *h, const IrOp *loop, IrValue *const *args)
{
    for (int i = 0; i < loop->num_results; i++)
        if (!ir_for_overwrites(loop, i))
            be_host_copy_value(h, loop->operands[1 + i], args[i]);
}

static void
emit_for(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    IrBlock *region = op->regions[0];
    IrValue *index = region->args.data[0], **args = region->args.data + 1;
    int num = op->num_results, position = h->num_positions - 1;
    int safepoint = safepoint_of(h, op);
    Block head = be_block(u, "for"), body = be_block(u, "round");
    Block end = be_block(u, "end");
    Counter counter = loop_counter(h);
    start_counter(h, counter, load_rounds(h, op->operands[0]));
    copy_initial(h, op, args);
    be_br(u, head);
    be_position_at_end(u, head);
    test_counter(h, counter, body, end);
    be_position_at_end(u, body);
    be_host_store_integer(h, index, rounds_done(h, counter));
    emit_ops(h, region);
    copy_yields(h, region, args, num);
    count_round(h, counter);
    if (safepoint >= 0)
        emit_safepoint(h, safepoint, position);
    emit_poll(h);
    be_br(u, head);
    be_position_at_end(u, end);
    copy_values(h, args, op->results, num);
}

static void
emit_while_body(BeHost *h, const IrOp *op, Counter counter, int safepoint,
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
    if (!ir_is_dataset_loop(op) || safepoint < 0)
        emit_poll(h);
}

static void
emit_while(BeHost *h, const IrOp *op)
{
    BeUnit *u = h->u;
    IrBlock *test = op->regions[0];
    int num = op->num_results, position = h->num_positions - 1;
    Block head = be_block(u, "while"), body = be_block(u, "round");
    Block end = be_block(u, "end");
    Counter counter = {NULL, 0};
    int safepoint = safepoint_of(h, op);
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
    be_cond_br(u, be_host_condition(h, ir_block_yield(test)->operands[0]), body,
               end);
    be_position_at_end(u, body);
    emit_while_body(h, op, counter, safepoint, position);
    be_br(u, head);
    be_position_at_end(u, end);
    copy_values(h, test->args.data, op->results, num);
}

/* ---- operations --------------------------------------------------------- */

/* The places between which an operation moves a value. */
static void
move_locations(const BeHost *h, const IrOp *op, BeLocation *from,
               BeLocation *to)
{
    bool reads = op->kind == OP_read, writes = op->kind == OP_write;
    BeLocation at = {0};
    if (reads || writes) {
        const IrVar *var = ir_var_find(h->module, ir_text(op, A_var));
        at = (BeLocation){var->place, ir_var_is_shared(var)};
    }
    *from = reads ? at : be_host_location(h, op->operands[0]);
    *to = writes ? at : be_host_location(h, op->results[0]);
}

static void
emit_variable(BeHost *h, const IrOp *op)
{
    const IrVar *var = ir_var_find(h->module, ir_text(op, A_var));
    BeLocation from, to;
    IrType type = ir_var_type_in(op->block->func, var);
    move_locations(h, op, &from, &to);
    be_host_copy_location(h, from, to, &type);
}

/* Each replica has its own table of results: main may use a shared value as a
 * per-replica one. */
static void
emit_return(BeHost *h, const IrOp *op)
{
    for (int i = 0; h->fn->kind != FUNC_MAIN && i < op->num_operands; i++) {
        BeLocation out = {{SPACE_OUT, i}, false};
        be_host_copy_location(h, be_host_location(h, op->operands[i]), out,
                              &op->operands[i]->type);
    }
}

/* Executed by the runtime, which also defines the results that are not views of
 * their operands. */
static void
emit_hooked(BeHost *h, const IrOp *op)
{
    be_host_call_numbered(h, offsetof(TfdHooks, op), h->num_ops++,
                          ir_op_info[op->kind].name);
    if (ir_op_info[op->kind].traits & VIEW)
        copy_values(h, op->operands, op->results, op->num_results);
}

/* Moves to where the value is already are numbered, but never reached. */
static void
reach_position(BeHost *h, const IrOp *op)
{
    int number = h->num_positions++;
    if (ir_is_move(op)) {
        BeLocation from, to;
        move_locations(h, op, &from, &to);
        if (!be_host_is_copied(from, to))
            return;
    }
    be_host_emit_position(h, number);
    be_host_emit_mark(h, number);
}

static void
emit_op(BeHost *h, const IrOp *op)
{
    if (ir_is_position(op))
        reach_position(h, op);
    switch (op->kind) {
    case OP_kernel:
        be_host_emit_kernel(h, op);
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
    case OP_copy:
        be_host_copy_value(h, op->operands[0], op->results[0]);
        break;
    case OP_return:
        emit_return(h, op);
        break;
    case OP_yield: /* the operation of the region copies */
        break;
    default:
        if (ir_op_info[op->kind].code == CODE_reshape)
            be_host_copy_value(h, op->operands[0], op->results[0]);
        else if (ir_is_hooked(op))
            emit_hooked(h, op);
        else
            UNREACHABLE("%s outside of any kernel", ir_op_info[op->kind].name);
    }
}

/* Kernels that may run together, in the form that the call asks for. */
static void
emit_group(BeHost *h, const BeTiles *g, const IrOp *first, const IrOp *last)
{
    BeUnit *u = h->u;
    Block together = be_block(u, "together"), apart = be_block(u, "apart");
    Block end = be_block(u, "end");
    be_cond_br(u, be_host_runs_tiles(h, g), together, apart);
    be_position_at_end(u, together);
    be_host_emit_position(h, h->num_positions);
    be_host_emit_mark(h, h->num_positions);
    be_host_emit_tiles(h, g, h->num_positions);
    be_br(u, end);
    be_position_at_end(u, apart);
    for (const IrOp *op = first; op != last->next; op = op->next)
        emit_op(h, op);
    be_br(u, end);
    be_position_at_end(u, end);
}

/* op, and what runs together with it; returns the last operation of that. */
static const IrOp *
emit_next(BeHost *h, const IrOp *op)
{
    const IrOp *last = op;
    const BeTiles *g = be_host_tiles_from(h, op, &last);
    if (g)
        emit_group(h, g, op, last);
    else
        emit_op(h, op);
    return last;
}

/* A loop over the replicas of the device; returns its last operation. */
static const IrOp *
emit_replica_loop(BeHost *h, const IrOp *op)
{
    const IrOp *last = ir_replica_loop_last(op);
    BeReplicaLoop loop = be_host_begin_replicas(h);
    for (; op != last->next; op = op->next)
        op = emit_next(h, op);
    be_host_emit_position(h, -1);
    be_host_end_replicas(h, &loop);
    return last;
}

static void
emit_ops(BeHost *h, const IrBlock *b)
{
    bool may_begin_loop = h->fn->kind == FUNC_PROGRAM && !h->in_replica;
    for (const IrOp *op = b->first; op; op = op->next)
        if (may_begin_loop && ir_op_is_per_replica(op))
            op = emit_replica_loop(h, op);
        else
            op = emit_next(h, op);
}

/* ---- functions ---------------------------------------------------------- */

typedef struct Most {
    const BeKernels *kernels;
    int ptrs, words;
    int64_t part_bytes;
} Most;

static void
note_kernel(IrOp *op, void *data)
{
    Most *most = data;
    if (op->kind != OP_kernel)
        return;
    const BeKernel *k = be_kernel_of(most->kernels, op);
    int ptrs = op->num_operands + op->num_results + 1;
    int64_t bytes = be_emit_partial_bytes(k);
    most->part_bytes = bytes > most->part_bytes ? bytes : most->part_bytes;
    int words = be_kernel_replica_word(k) + 1;
    most->ptrs = ptrs > most->ptrs ? ptrs : most->ptrs;
    most->words = words > most->words ? words : most->words;
}

/* Loads the members of the call that do not change during it. */
static void
load_call(BeHost *h)
{
    BeUnit *u = h->u;
    Most most = {.kernels = h->kernels};
    ir_walk(h->fn->body, note_kernel, &most);
    h->cur = be_host_load_call(h, LLVMGetParam(u->func, 0));
    be_name(u, h->cur.base, h->fn->kind == FUNC_MAIN ? "frame" : "arena");
    h->first = h->cur;
    h->stop =
        be_host_call_field(h, h->cur.call, u->ptr, offsetof(TfdCall, stop));
    bool is_timed = h->fn->kind == FUNC_MAIN ||
                    (h->fn->kind == FUNC_PROGRAM && !h->enqueues);
    h->mark = is_timed ? be_host_load_hook(h, offsetof(TfdHooks, mark)) : NULL;
    h->word = h->enqueues ? be_alloca(u, u->i64, 1, 8, "word") : NULL;
    h->ptrs = be_alloca(u, u->ptr, (uint64_t)most.ptrs, 8, "ptrs");
    h->words = be_alloca(u, u->i64, (uint64_t)most.words, 8, "words");
    h->partials = be_alloca(u, u->i8, (uint64_t)most.part_bytes, 16, "parts");
}

static void
begin_failure(BeHost *h)
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
emit_function(BeHost *h)
{
    BeUnit *u = h->u;
    bool is_main = h->fn->kind == FUNC_MAIN;
    const char *symbol =
        is_main ? "tfd_main"
                : arena_printf(h->arena, "%c_%s", h->enqueues ? 'q' : 'p',
                               h->fn->name);
    if (h->fn->kind == FUNC_PROGRAM && !h->enqueues)
        be_host_find_tiles(h);
    be_func_begin(u, symbol, u->i32, &u->ptr, 1, true);
    load_call(h);
    begin_failure(h);
    Block start = be_block(u, "start");
    if (is_main)
        h->entry_switch =
            LLVMBuildSwitch(u->builder,
                            be_host_call_field(h, h->cur.call, u->i64,
                                               offsetof(TfdCall, resume)),
                            start, 4);
    else
        be_br(u, start);
    be_position_at_end(u, start);
    emit_ops(h, h->fn->body);
    be_host_emit_mark(h, -1);
    LLVMBuildRet(u->builder, be_zero(u->i32));
    if (!LLVMCountIncoming(h->failure))
        LLVMDeleteBasicBlock(h->failed);
    be_func_end(u);
}

/* A function that does nothing, named by the hash of the module's text: by it
 * the runner checks that this code belongs to the plan's module. */
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
be_host_emit(BeUnit *u, const void *what, const BeTarget *t)
{
    (void)t; /* nothing here depends on it */
    const BeHostModule *host = what;
    IrModule *m = host->module;
    Arena *a = arena_new(NULL, "host code");
    Status st = OK;
    emit_seal(a, u, m);
    for (IrFunc *fn = m->first; fn && !st; fn = fn->next) {
        BeHost h = {.u = u,
                    .module = m,
                    .kernels = host->kernels,
                    .fn = fn,
                    .arena = a};
        BeHost enqueuing = h;
        enqueuing.enqueues = true;
        emit_function(&h);
        if (host->enqueues && fn->kind == FUNC_PROGRAM && !h.status)
            emit_function(&enqueuing);
        st = h.status ? h.status : enqueuing.status;
    }
    arena_release(a);
    return st;
}
