/*
 * host_tiles.c - kernels that run together, tile by tile
 *
 * Neighbours that hand large arrays to each other are executed for one tile
 * after another: a thread computes a tile of all their results, which is still
 * in its cache when the next kernel reads it (passes/fusion/tile.c).
 *
 *   kernel by kernel        p = a(x) 0 .. 32; q = b(p) 0 .. 32
 *   tile by tile            for t: p[t] = a(x) t .. t + 1; q[t] = b(p) t .. t+1
 *
 * A kernel is a function of a range of its items, so nothing else changes: a
 * function made here calls those of all of them for each tile, and the threads
 * of the device divide its tiles as they do the items of a kernel.  Both forms
 * are in the code: the other one is for devices of more threads than half of
 * the tiles, and for runs that look at what each kernel has made.  Threads note
 * the time that each kernel takes, for profiles.
 *
 * An array that no one else reads need not be there as a whole: all tiles of a
 * strip, a range of them that one thread executes, are in the place of one.
 *
 * It is right in any order of the tiles if kernels write only the tile's part
 * of an array, and only that part of what they write is accessed by any of
 * them.  This is read off the kernels' addresses and the values' places; where
 * it does not hold, the kernels are executed one by one.
 */
#include "backend/host/host_impl.h"

#include <stddef.h>
#include "backend/cpu/cpu_kernel.h"
#include "backend/kernel/kernel_tiles.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/cache_line.h"
#include "ir/plan/abi.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"

/* Words of a call: the number of strips, and the ticks of each kernel. */
enum { WORD_strips, WORD_ticks };

enum {
    MAX_KERNELS = 32,
    STRIPS_OF_THREAD = 4 /* because threads are not equally fast */
};

/* An array of one of the kernels. */
typedef struct Access {
    const IrValue *value;
    int64_t from, bytes; /* its place in the arena */
    bool in_arena;
    bool written;
    bool keeps;    /* is accessed only at the same tile */
    bool in_strip; /* whose tiles are in the place of one */
} Access;

struct BeTiles {
    const IrOp *first, *last;
    int64_t tiles;
    Val function;
    VEC(const IrOp *) kernels;
    VEC(Access) accesses; /* of all kernels: operands, then results */
};

/* ---- whether they may ---------------------------------------------------- */

static bool
may_have_tiles(const BeKernel *k, int64_t tiles)
{
    for (int i = 0; i < k->arrays[K_OUT].len; i++)
        if (k->arrays[K_OUT].data[i]->from)
            return false;
    return !k->pairs.len && !k->uses_replica && be_cpu_kernel_has_ranges(k) &&
           be_kernel_has_tiles(k, tiles);
}

static void
add_access(const BeHost *h, BeTiles *g, const BeKernel *k, KRole role,
           const IrValue *v, int number)
{
    Access a = {.value = v,
                .from = v->place.offset,
                .in_arena = v->place.space == SPACE_ARENA,
                .written = role == K_OUT};
    bool has_bytes = ir_type_bytes(h->module, &v->type, &a.bytes);
    const KArray *array = k->arrays[role].data[number];
    a.keeps = has_bytes && be_kernel_keeps_tiles(k, array, g->tiles);
    VEC_PUSH(h->arena, g->accesses, a);
}

static bool
add_kernel(const BeHost *h, BeTiles *g, const IrOp *op)
{
    const BeKernel *k = be_kernel_of(h->kernels, op);
    if (!may_have_tiles(k, g->tiles) || g->kernels.len == MAX_KERNELS ||
        ir_op_is_per_replica(op) != ir_op_is_per_replica(g->first))
        return false;
    VEC_PUSH(h->arena, g->kernels, op);
    for (int i = 0; i < op->num_operands; i++)
        add_access(h, g, k, K_IN, op->operands[i], i);
    for (int i = 0; i < op->num_results; i++)
        add_access(h, g, k, K_OUT, op->results[i], i);
    return true;
}

static bool
overlap(const Access *x, const Access *y)
{
    return x->in_arena && y->in_arena && x->from < y->from + y->bytes &&
           y->from < x->from + x->bytes;
}

/* Whether a tile of written array x is nothing that another tile accesses. */
static bool
is_apart(const BeTiles *g, const Access *x)
{
    for (int i = 0; i < g->accesses.len; i++) {
        const Access *y = &g->accesses.data[i];
        if (overlap(x, y) &&
            !(y->keeps && y->from == x->from && y->bytes == x->bytes))
            return false;
    }
    return x->keeps && x->in_arena;
}

static bool
are_apart(const BeTiles *g)
{
    for (int i = 0; i < g->accesses.len; i++)
        if (g->accesses.data[i].written && !is_apart(g, &g->accesses.data[i]))
            return false;
    return true;
}

/* ---- arrays of a strip -------------------------------------------------- */

static int
uses_by(const BeTiles *g, const IrValue *v)
{
    int uses = 0;
    for (int i = 0; i < g->accesses.len; i++)
        uses += !g->accesses.data[i].written && g->accesses.data[i].value == v;
    return uses;
}

static bool
is_made_by(const BeTiles *g, const IrValue *v)
{
    for (int i = 0; i < g->kernels.len; i++)
        if (v->def == g->kernels.data[i])
            return true;
    return false;
}

/* Whether all values at x's place are made and used by these kernels alone, and
 * each tile begins with a line of the cache, as arrays do. */
static bool
is_of_strips(const BeTiles *g, const Access *x)
{
    for (int i = 0; i < g->accesses.len; i++) {
        const Access *y = &g->accesses.data[i];
        if (overlap(x, y) && (!is_made_by(g, y->value) ||
                              uses_by(g, y->value) != y->value->num_uses))
            return false;
    }
    return x->in_arena && x->keeps && x->bytes / g->tiles % CACHE_LINE == 0;
}

static void
find_strips(BeTiles *g)
{
    for (int i = 0; i < g->accesses.len; i++)
        g->accesses.data[i].in_strip = is_of_strips(g, &g->accesses.data[i]);
}

/* ---- the function of all of them ----------------------------------------- */

/* Pointers of the kernels for a tile that is `ahead` of the one whose place it
 * takes where arrays are those of a strip. */
static void
emit_pointers(BeUnit *u, const BeTiles *g, Val from, Val to, Val ahead)
{
    for (int i = 0; i < g->accesses.len; i++) {
        const Access *a = &g->accesses.data[i];
        Val p = be_load(u, u->ptr, be_offset_const(u, from, 8 * i), 8);
        if (a->in_strip) {
            Val bytes = be_word(u, -(a->bytes / g->tiles));
            Val by = be_mul(u, ahead, bytes);
            p = LLVMBuildGEP2(u->builder, u->i8, p, &by, 1, "");
        }
        be_store(u, p, be_offset_const(u, to, 8 * i), 8);
    }
}

/* The processor's time stamp. */
static Val
read_ticks(BeUnit *u)
{
    return be_intrinsic(u, "llvm.readcyclecounter", NULL, 0, NULL, 0);
}

/* Adds the time since `begin` to kernel i's. */
static void
count_ticks(BeUnit *u, Val ticks, int i, Val begin)
{
    Val end = read_ticks(u);
    Val spent = be_sub(u, end, begin);
    LLVMBuildAtomicRMW(u->builder, LLVMAtomicRMWBinOpAdd,
                       be_offset_const(u, ticks, 8 * i), spent,
                       LLVMAtomicOrderingMonotonic, 0);
}

static void
emit_tile(BeHost *h, const BeTiles *g, Val ptrs, Val words, Val tile)
{
    BeUnit *u = h->u;
    Val ticks = be_offset_const(u, words, 8 * WORD_ticks);
    int at = 0;
    for (int i = 0; i < g->kernels.len; i++) {
        const IrOp *op = g->kernels.data[i];
        const BeKernel *k = be_kernel_of(h->kernels, op);
        Val items = be_word(u, be_kernel_items(k).c / g->tiles);
        Val begin = be_mul(u, tile, items), end = be_add(u, begin, items);
        Val args[] = {be_offset_const(u, ptrs, 8 * at), words, begin, end};
        Val from = read_ticks(u);
        be_host_call_kernel(h, k, "", args);
        count_ticks(u, ticks, i, from);
        at += op->num_operands + op->num_results;
    }
}

/* The first tile of a strip. */
static Val
strip_begin(BeUnit *u, const BeTiles *g, Val strip, Val strips)
{
    Val before = be_mul(u, strip, be_word(u, g->tiles));
    return LLVMBuildUDiv(u->builder, before, strips, "");
}

/* A function like a kernel's: its items are strips, ptrs has the pointers of
 * all kernels, and dims the words of the call. */
static void
emit_function(BeHost *h, BeTiles *g, const char *name)
{
    BeUnit *u = h->u;
    Type params[] = {u->ptr, u->ptr, u->i64, u->i64};
    g->function = be_func_begin(u, name, u->nothing, params, 4, false);
    Val from = LLVMGetParam(u->func, 0), words = LLVMGetParam(u->func, 1);
    Val ptrs =
        be_alloca(u, u->ptr, (uint64_t)g->accesses.len, 8, "ptrs_of_tile");
    Val strips = be_load(u, u->i64, words, 8), one = be_word(u, 1);
    BeLoop strip, tile;
    be_loop_begin(u, &strip, LLVMGetParam(u->func, 2), LLVMGetParam(u->func, 3),
                  one, "strip");
    be_loop_body(u, &strip);
    Val begin = strip_begin(u, g, strip.index, strips);
    Val next = be_add(u, strip.index, one);
    Val end = strip_begin(u, g, next, strips);
    be_loop_begin(u, &tile, begin, end, one, "tile");
    be_loop_body(u, &tile);
    Val ahead = be_sub(u, tile.index, strip.index);
    emit_pointers(u, g, from, ptrs, ahead);
    emit_tile(h, g, ptrs, words, tile.index);
    be_loop_end(u, &tile);
    be_loop_end(u, &strip);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
}

/* ---- all of a function --------------------------------------------------- */

static BeTiles *
find_group(BeHost *h, const IrOp *first)
{
    BeTiles *g = NEW(h->arena, BeTiles);
    bool ok = true;
    g->first = first;
    g->tiles = ir_int(first, A_tiles);
    g->last = ir_tiles_last(first);
    for (const IrOp *op = first; ok && op != g->last->next; op = op->next)
        ok = add_kernel(h, g, op);
    if (!ok || g->first == g->last || !are_apart(g))
        g->kernels.len = 0;
    return g;
}

static void
find_in(BeHost *h, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; op->kind != OP_kernel && i < op->num_regions; i++)
            find_in(h, op->regions[i]);
        if (!ir_op_tiles(op))
            continue;
        BeTiles *g = find_group(h, op);
        op = g->last;
        if (!g->kernels.len)
            continue;
        find_strips(g);
        emit_function(
            h, g,
            arena_printf(h->arena, "t_%s_%d", h->fn->name, h->groups.len));
        VEC_PUSH(h->arena, h->groups, g);
    }
}

void
be_host_find_tiles(BeHost *h)
{
    ir_count_uses(h->fn);
    find_in(h, h->fn->body);
}

const BeTiles *
be_host_tiles_from(const BeHost *h, const IrOp *op, const IrOp **last)
{
    for (int i = 0; i < h->groups.len; i++)
        if (h->groups.data[i]->first == op) {
            *last = h->groups.data[i]->last;
            return h->groups.data[i];
        }
    return NULL;
}

/* ---- calls --------------------------------------------------------------- */

static Val
threads_of(BeHost *h)
{
    Val threads = be_host_call_field(h, h->cur.call, h->u->i32,
                                     offsetof(TfdCall, threads));
    return LLVMBuildSExt(h->u->builder, threads, h->u->i64, "threads");
}

/* Runs that look at each kernel's results want them one by one. */
static Val
may_share(BeHost *h)
{
    BeUnit *u = h->u;
    Val share = be_host_load_hook(h, offsetof(TfdHooks, share));
    Val is_unmarked = LLVMBuildIsNull(u->builder, h->mark, "unmarked");
    Val shares = LLVMBuildIsNotNull(u->builder, share, "shares");
    return LLVMBuildOr(u->builder, is_unmarked, shares, "");
}

Val
be_host_runs_tiles(BeHost *h, const BeTiles *g)
{
    BeUnit *u = h->u;
    Val threads = threads_of(h), may = may_share(h);
    Val is_known = be_icmp(u, LLVMIntSGT, threads, be_word(u, 0));
    Val is_small = be_icmp(u, LLVMIntSLE, threads, be_word(u, g->tiles / 2));
    Val both = LLVMBuildAnd(u->builder, is_known, is_small, "");
    return LLVMBuildAnd(u->builder, both, may, "");
}

/* One for a single thread, which needs no more. */
static Val
num_strips(BeHost *h, const BeTiles *g)
{
    BeUnit *u = h->u;
    Val threads = threads_of(h), one = be_word(u, 1);
    Val many = be_mul(u, threads, be_word(u, STRIPS_OF_THREAD));
    Val most = be_min(u, many, be_word(u, g->tiles));
    Val is_one = be_icmp(u, LLVMIntEQ, threads, one);
    return be_select(u, is_one, one, most);
}

/* Tells the run how much of the time since the mark each kernel took. */
static void
emit_share(BeHost *h, const BeTiles *g, Val ticks, int position)
{
    BeUnit *u = h->u;
    Val args[] = {h->cur.call, LLVMConstInt(u->i32, (unsigned)position, 0),
                  LLVMConstInt(u->i32, (unsigned)g->kernels.len, 0), ticks};
    Val share = be_host_load_hook(h, offsetof(TfdHooks, share));
    be_host_call_if_any(h, share, args, 4);
}

void
be_host_emit_tiles(BeHost *h, const BeTiles *g, int position)
{
    BeUnit *u = h->u;
    uint64_t num_words = (uint64_t)(WORD_ticks + g->kernels.len);
    Val ptrs = be_alloca(u, u->ptr, (uint64_t)g->accesses.len, 8, "ptrs");
    Val words = be_alloca(u, u->i64, num_words, 8, "words");
    for (int i = 0; i < g->accesses.len; i++) {
        Val address = be_host_address(h, g->accesses.data[i].value);
        be_store(u, address, be_offset_const(u, ptrs, 8 * i), 8);
    }
    for (int i = 0; i < g->kernels.len; i++)
        be_store(u, be_word(u, 0),
                 be_offset_const(u, words, 8 * (WORD_ticks + i)), 8);
    Val strips = num_strips(h, g);
    be_store(u, strips, be_offset_const(u, words, 8 * WORD_strips), 8);
    Val args[] = {g->function, ptrs, words, strips, be_word(u, 1)};
    be_host_call_hook(h, offsetof(TfdHooks, parallel), args, 5, "parallel");
    emit_share(h, g, be_offset_const(u, words, 8 * WORD_ticks), position);
}
