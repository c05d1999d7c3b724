/*
 * emit_sort.c - the order of the elements of a row
 *
 * Batcher's merge exchange (Knuth 5.2.2 M) puts the numbers of the elements in
 * order, in the output itself: about log(n)^2 / 2 passes over them, each of
 * which compares and exchanges places at one distance, all at once.  The places
 * to compare do not depend on earlier results, so there are no branches to
 * predict, and lanes and threads can divide the work.  Equal elements are
 * ordered by their numbers: so every machine gets the same order, which is
 * stable.
 *
 * If elements have at most 32 bits, a place has an element, as an integer with
 * the same order (its key), in the high bits and its number in the low bits;
 * only the number remains at the end.
 *
 * Keys of 64 bits do not fit beside a number.  One thread sorts by their high
 * half first; then each run of equal ones, of which most are short and one may
 * be all there is, by the low half.  Threads of a GPU that sort together have a
 * barrier after each pass, so runs may not differ among their rows: there a
 * place is a number, and elements are computed when they are compared.  So they
 * are, too, where they are few, or may be more than numbers of 31 bits.
 *
 * Where only the first numbers are wanted, one thread keeps as many as are the
 * first so far.  They are a heap whose root, in the last place, is the last of
 * them: an element of the rest that comes before it takes its place.  So the
 * rest is read once, and most of it is only compared.
 */
#include "backend/codegen/emit.h"

enum {
    NUMBER_BITS = 32,
    FEW = 256 /* elements, which the nearest cache has when they are compared */
};

EmitSort
be_sort_of(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const KVar *var = n->sort.ranges.vars[0];
    const KArray *to = n->sort.array;
    DType t = dtype_compute(n->sort.element->dtype);
    EmitSort s = {.e = e, .node = n};
    int64_t most = be_dim_bound(e->k, var->extent);
    bool has_narrow_numbers = most < INT64_C(1) << 31;
    bool has_narrow_keys = dtype_info[t].bytes <= 4;
    if (has_narrow_numbers && has_narrow_keys)
        s.packs = KEY_WHOLE;
    s.may_halve =
        has_narrow_numbers && !has_narrow_keys && most > FEW && !n->sort.first;
    s.size = n->sort.first ? be_emit_word(e, n->sort.first)
                           : be_emit_dim(e, var->extent);
    EmitAddress a = be_address_of(e, &n->sort.at);
    Val first = be_address_scalar(e, &a, 0, 0);
    s.places = LLVMBuildGEP2(u->builder, u->i64, e->arrays[K_OUT][to->index],
                             &first, 1, "");
    return s;
}

static Val
place_at(const EmitSort *s, Val i)
{
    BeUnit *u = s->e->u;
    return LLVMBuildGEP2(u->builder, u->i64, s->places, &i, 1, "");
}

static Val
load_place(const EmitSort *s, Val i)
{
    return be_load(s->e->u, s->e->u->i64, place_at(s, i), 8);
}

static void
store_place(const EmitSort *s, Val i, Val x)
{
    be_store(s->e->u, x, place_at(s, i), 8);
}

/* ---- elements as integers ----------------------------------------------- */

/* Ordered like floats: 0 has no sign, and every NaN is the greatest. */
static Val
key_of_float(BeUnit *u, Val x, Type type, int64_t most)
{
    LLVMBuilderRef b = u->builder;
    Val none = be_fcmp(u, LLVMRealUNO, x, x);
    Val zero = be_zero(LLVMTypeOf(x));
    Val bits = LLVMBuildBitCast(b, LLVMBuildFAdd(b, x, zero, ""), type, "");
    unsigned width = LLVMGetIntTypeWidth(type);
    Val sign = LLVMBuildAShr(b, bits, be_int(type, width - 1), "");
    Val flip = be_and(u, sign, be_int(type, most));
    Val key = LLVMBuildXor(b, bits, flip, "");
    return be_select(u, none, be_int(type, most), key);
}

/* An i64 with the same order as the element x. */
static Val
key_of(const EmitSort *s, Val x)
{
    BeUnit *u = s->e->u;
    DType t = dtype_compute(s->node->sort.element->dtype);
    if (t == DT_f64)
        x = key_of_float(u, x, u->i64, INT64_MAX);
    else if (t == DT_f32)
        x = key_of_float(u, x, u->i32, INT32_MAX);
    bool is_signed = t != DT_u8 && t != DT_bool;
    x = LLVMBuildIntCast2(u->builder, x, u->i64, is_signed, "");
    return s->node->sort.descending ? LLVMBuildNot(u->builder, x, "") : x;
}

/* The key of the element with that number, a word. */
static Val
key_at(const EmitSort *s, Val number)
{
    Emit *e = s->e;
    const KNode *n = s->node;
    e->indices[n->sort.ranges.vars[0]->id] = (EmitIndex){.base = number};
    be_emit_block(e, &n->sort.body);
    return key_of(s, be_emit_get(e, n->sort.element, 0, 0));
}

/* ---- places ------------------------------------------------------------- */

/* What a place packs of a key, in its high bits.  The low half has no sign: its
 * upper bit is inverted, so that it is ordered as if it had one. */
static Val
packed_key(const EmitSort *s, Val key)
{
    BeUnit *u = s->e->u;
    if (s->packs == KEY_HIGH)
        return be_and(u, key, be_word(u, ~(int64_t)UINT32_MAX));
    key = LLVMBuildShl(u->builder, key, be_word(u, NUMBER_BITS), "");
    if (s->packs == KEY_LOW)
        key = LLVMBuildXor(u->builder, key, be_word(u, INT64_MIN), "");
    return key;
}

/* What a place has of the element with that number, a word. */
static Val
packed(const EmitSort *s, Val number)
{
    BeUnit *u = s->e->u;
    Val x = LLVMBuildIntCast2(u->builder, number, u->i64, 1, "");
    if (s->packs == KEY_NONE)
        return x;
    Val key = packed_key(s, key_at(s, number));
    return be_or(u, key, x);
}

void
be_sort_put(const EmitSort *s, Val i)
{
    Val x = packed(s, i);
    store_place(s, i, x);
}

/* The number of the element that place i packs. */
static Val
number_at(const EmitSort *s, Val i)
{
    BeUnit *u = s->e->u;
    return be_and(u, load_place(s, i), be_word(u, UINT32_MAX));
}

void
be_sort_clean(const EmitSort *s, Val i)
{
    store_place(s, i, number_at(s, i));
}

/* Whether what a place has as y comes before what one has as x. */
static Val
is_before(const EmitSort *s, Val y, Val x)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    if (s->packs != KEY_NONE)
        return be_icmp(u, LLVMIntSLT, y, x);
    Val of_x = key_at(s, LLVMBuildIntCast2(b, x, e->word, 1, ""));
    Val of_y = key_at(s, LLVMBuildIntCast2(b, y, e->word, 1, ""));
    Val less = be_icmp(u, LLVMIntSLT, of_y, of_x);
    Val same = be_icmp(u, LLVMIntEQ, of_y, of_x);
    return be_or(u, less, be_and(u, same, be_icmp(u, LLVMIntSLT, y, x)));
}

void
be_sort_exchange(const EmitSort *s, Val i, Val distance)
{
    BeUnit *u = s->e->u;
    Val j = be_add(u, i, distance);
    Val x = load_place(s, i), y = load_place(s, j);
    Val swap = is_before(s, y, x);
    store_place(s, i, be_select(u, swap, y, x));
    store_place(s, j, be_select(u, swap, x, y));
}

/* The same for `lanes` neighbours at a distance of at least `lanes`. */
static void
exchange_lanes(const EmitSort *s, Val i, Val distance, int lanes)
{
    BeUnit *u = s->e->u;
    Type type = be_vector(u->i64, lanes);
    Val p = place_at(s, i), q = place_at(s, be_add(u, i, distance));
    Val x = be_load(u, type, p, 8), y = be_load(u, type, q, 8);
    be_store(u, be_intrinsic2(u, "llvm.smin", x, y), p, 8);
    be_store(u, be_intrinsic2(u, "llvm.smax", x, y), q, 8);
}

/* ---- passes ------------------------------------------------------------- */

/* The number of bits of x, which is not negative. */
static Val
bits_of(Emit *e, Val x)
{
    BeUnit *u = e->u;
    Val args[] = {x, LLVMConstInt(u->i1, 0, 0)};
    Val zeros = be_intrinsic(u, "llvm.ctlz", &e->word, 1, args, 2);
    return be_sub(u, be_emit_word(e, LLVMGetIntTypeWidth(e->word)), zeros);
}

static Val
power(Emit *e, Val exponent)
{
    return LLVMBuildShl(e->u->builder, be_emit_word(e, 1), exponent, "");
}

/* The passes of level number `level`, whose runs are half as long as those of
 * the level before: first at a run's distance, then from far to near. */
static void
emit_level(const EmitSort *s, Val bits, Val level, EmitSortPass *pass)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    EmitSortStep step;
    Val one = be_emit_word(e, 1), zero = be_emit_word(e, 0);
    step.run = power(e, be_sub(u, be_sub(u, bits, one), level));
    BeLoop l;
    be_loop_begin(u, &l, zero, be_add(u, level, one), one, "pass");
    be_loop_body(u, &l);
    Val first = be_icmp(u, LLVMIntEQ, l.index, zero);
    /* the shift is not used in the first pass, but must be in range */
    Val far = be_sub(u, bits, be_select(u, first, one, l.index));
    Val distance = be_sub(u, power(e, far), step.run);
    step.distance = be_select(u, first, step.run, distance);
    step.first = be_select(u, first, zero, step.run);
    pass(s, &step);
    be_loop_end(u, &l);
}

void
be_sort_passes(const EmitSort *s, EmitSortPass *pass)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val one = be_emit_word(e, 1), zero = be_emit_word(e, 0);
    Val some = be_icmp(u, LLVMIntSGT, s->size, one);
    Val last = be_select(u, some, be_sub(u, s->size, one), zero);
    Val bits = bits_of(e, last);
    BeLoop l;
    be_loop_begin(u, &l, zero, bits, one, "level");
    be_loop_body(u, &l);
    emit_level(s, bits, l.index, pass);
    be_loop_end(u, &l);
}

/* ---- one thread --------------------------------------------------------- */

/* Places begin to end, which are neighbours, with those at the distance. */
static void
exchange_run(const EmitSort *s, Val begin, Val end, Val distance)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    int lanes = e->target->register_bytes / 8;
    BeLoop l;
    if (s->packs != KEY_NONE && lanes > 1) {
        Val count = be_sub(u, end, begin);
        Val whole = be_and(u, count, be_emit_word(e, -lanes));
        Val middle = be_add(u, begin, whole);
        be_loop_begin(u, &l, begin, middle, be_emit_word(e, lanes), "places");
        be_loop_body(u, &l);
        exchange_lanes(s, l.index, distance, lanes);
        be_loop_end(u, &l);
        begin = middle;
    }
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 1), "place");
    be_loop_body(u, &l);
    be_sort_exchange(s, l.index, distance);
    be_loop_end(u, &l);
}

static void
pass_alone(const EmitSort *s, const EmitSortStep *step)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val end = be_sub(u, s->size, step->distance);
    BeLoop l;
    be_loop_begin(u, &l, step->first, end, be_add(u, step->run, step->run),
                  "run");
    be_loop_body(u, &l);
    Val run_end = be_min(u, be_add(u, l.index, step->run), end);
    exchange_run(s, l.index, run_end, step->distance);
    be_loop_end(u, &l);
}

/* Calls `what` for all places. */
static void
each_place(const EmitSort *s, void (*what)(const EmitSort *s, Val i))
{
    Emit *e = s->e;
    BeLoop l;
    be_loop_begin(e->u, &l, be_emit_word(e, 0), s->size, be_emit_word(e, 1),
                  "at");
    be_loop_body(e->u, &l);
    what(s, l.index);
    be_loop_end(e->u, &l);
}

/* ---- keys of 64 bits ---------------------------------------------------- */

static void
put_again(const EmitSort *s, Val i)
{
    Emit *e = s->e;
    Val number = number_at(s, i);
    Val x = packed(s, LLVMBuildIntCast2(e->u->builder, number, e->word, 1, ""));
    store_place(s, i, x);
}

/* Sorts places begin to end, of equal high halves, by the low ones. */
static void
sort_run(const EmitSort *s, Val begin, Val end)
{
    EmitSort run = *s;
    run.packs = KEY_LOW;
    run.places = place_at(s, begin);
    run.size = be_sub(s->e->u, end, begin);
    each_place(&run, put_again);
    be_sort_passes(&run, pass_alone);
}

static Val
high_half(const EmitSort *s, Val i)
{
    BeUnit *u = s->e->u;
    Val bits = be_word(u, NUMBER_BITS);
    return LLVMBuildAShr(u->builder, load_place(s, i), bits, "");
}

/* Whether the run of equal high halves from begin on has ended before end. */
static Val
run_has_ended(const EmitSort *s, Val begin, Val end)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val none = be_icmp(u, LLVMIntEQ, end, s->size);
    Val last = be_sub(u, s->size, be_emit_word(e, 1));
    Val next = high_half(s, be_min(u, end, last));
    Val first = high_half(s, begin);
    return be_or(u, none, be_icmp(u, LLVMIntNE, first, next));
}

static void
sort_runs(const EmitSort *s)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val one = be_emit_word(e, 1);
    BeLoop l;
    be_loop_begin(u, &l, one, be_add(u, s->size, one), one, "end");
    Val begin = be_loop_carry(u, &l, be_emit_word(e, 0));
    be_loop_body(u, &l);
    Block whole = be_block(u, "whole"), more = be_block(u, "more");
    Val ended = run_has_ended(s, begin, l.index);
    Val count = be_sub(u, l.index, begin);
    Val several = be_icmp(u, LLVMIntSGT, count, one);
    be_cond_br(u, be_and(u, ended, several), whole, more);
    be_position_at_end(u, whole);
    sort_run(s, begin, l.index);
    be_br(u, more);
    be_position_at_end(u, more);
    be_loop_next(&l, 0, be_select(u, ended, l.index, begin));
    be_loop_end(u, &l);
}

/* ---- the first alone ---------------------------------------------------- */

/* Node h of the heap, from 1 on; its children are nodes 2h and 2h + 1. */
static Val
node_place(const EmitSort *s, Val h)
{
    return be_sub(s->e->u, s->size, h);
}

/* The later of the children of node h, or a node that is none of them if h has
 * none; *value is what it has. */
static Val
later_child(const EmitSort *s, Val h, Val *value)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val left = be_add(u, h, h);
    Val right = be_add(u, left, be_emit_word(e, 1));
    left = be_min(u, left, s->size);
    right = be_min(u, right, s->size);
    Val x = load_place(s, node_place(s, left));
    Val y = load_place(s, node_place(s, right));
    Val later = is_before(s, x, y);
    *value = be_select(u, later, y, x);
    return be_select(u, later, right, left);
}

/* x takes the place of the root, and sinks to where no child is later.  All
 * rounds are gone through, as none of them has a branch to predict: of a node
 * that x stays at, the children are not later in the next round, too. */
static void
replace_root(const EmitSort *s, Val x)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    int64_t rounds = 0;
    while (s->node->sort.first >> (rounds + 1))
        rounds++;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_word(e, rounds),
                  be_emit_word(e, 1), "round");
    Val h = be_loop_carry(u, &l, be_emit_word(e, 1));
    be_loop_body(u, &l);
    Val value, child = later_child(s, h, &value);
    Val below = be_icmp(u, LLVMIntSLE, be_add(u, h, h), s->size);
    Val sinks = be_and(u, below, is_before(s, x, value));
    Val rises = be_select(u, sinks, value, x);
    store_place(s, node_place(s, h), rises);
    be_loop_next(&l, 0, be_select(u, sinks, child, h));
    be_loop_end(u, &l);
    store_place(s, node_place(s, be_loop_result(&l, 0)), x);
}

/* Compares the elements that have no place with the last one that has. */
static void
choose_among_rest(const EmitSort *s)
{
    Emit *e = s->e;
    BeUnit *u = e->u;
    Val one = be_emit_word(e, 1);
    Val count = be_emit_dim(e, s->node->sort.ranges.vars[0]->extent);
    BeLoop l;
    be_loop_begin(u, &l, s->size, count, one, "rest");
    be_loop_body(u, &l);
    Block better = be_block(u, "better"), more = be_block(u, "more");
    Val x = packed(s, l.index);
    Val last = load_place(s, node_place(s, one));
    be_cond_br(u, is_before(s, x, last), better, more);
    be_position_at_end(u, better);
    replace_root(s, x);
    be_br(u, more);
    be_position_at_end(u, more);
    be_loop_end(u, &l);
}

/* ---- sorts -------------------------------------------------------------- */

void
be_emit_sort(Emit *e, const KNode *n)
{
    EmitSort s = be_sort_of(e, n);
    if (s.may_halve)
        s.packs = KEY_HIGH;
    each_place(&s, be_sort_put);
    be_sort_passes(&s, pass_alone);
    if (s.may_halve)
        sort_runs(&s);
    if (n->sort.first) {
        choose_among_rest(&s);
        be_sort_passes(&s, pass_alone);
    }
    if (s.packs != KEY_NONE)
        each_place(&s, be_sort_clean);
}
