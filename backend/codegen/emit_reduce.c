/*
 * emit_reduce.c - reductions
 *
 * D2 folds element i of a chunk into stripe i mod 64, then the stripes in a
 * tree, then the chunks. The stripes are on the stack.
 *
 * A vector reduction has neighbouring stripes in the lanes of a register. It
 * takes as many elements at a time as there are in a register, in the row and
 * before stripe 63. The stripes of a short body stay in registers, and a round
 * takes an element of each. Any other reduction takes one element at a time;
 * inside a vector construct each lane is then a reduction of its own, and a
 * stripe is a vector.
 *
 * If a kernel consists of long reductions of the same length that do not depend
 * on each other, threads fold their chunks, and one of them folds the chunks'
 * partial results.
 */
#include "backend/codegen/emit.h"
#include "backend/kernel/kernel_impl.h"

typedef EmitPartial Part;

/* A reduction while it is emitted. */
typedef struct Fold {
    Emit *e;
    EmitFold by;
    const KRanges *ranges;
    int stripes; /* as many as are used, a power of two */
    int lanes;   /* of a partial result: 0 is a scalar */
    int vectors; /* of the tile, side by side in a stripe */
    int vector;  /* the current one */
    int64_t stripe_bytes, number_bytes;
    Val values, numbers; /* stripes in memory; then the total of the chunks */
} Fold;

/* ---- stripes in memory -------------------------------------------------- */

/* A bool is a byte in memory. */
static Type
stripe_type(const Fold *f)
{
    const BeUnit *u = f->e->u;
    return f->by.dtype == DT_bool ? u->i8 : be_emit_type(f->e, f->by.dtype);
}

static Val
stripe_at(const Fold *f, Val base, Val stripe, int64_t bytes)
{
    BeUnit *u = f->e->u;
    return be_offset(u, base, be_mul(u, stripe, be_word(u, bytes)));
}

/* The partial results of f->lanes stripes, from `stripe` on. */
static Part
load_part(const Fold *f, Val stripe)
{
    BeUnit *u = f->e->u;
    Type type = be_vector(stripe_type(f), f->lanes);
    Part p = {
        be_load(u, type, stripe_at(f, f->values, stripe, f->stripe_bytes), 1),
        NULL};
    if (f->by.dtype == DT_bool)
        p.value = be_icmp(u, LLVMIntNE, p.value, be_zero(type));
    if (f->by.info->arg)
        p.number =
            be_load(u, be_vector(u->i64, f->lanes),
                    stripe_at(f, f->numbers, stripe, f->number_bytes), 1);
    return p;
}

static void
store_part(const Fold *f, Val stripe, Part p)
{
    BeUnit *u = f->e->u;
    if (f->by.dtype == DT_bool)
        p.value =
            LLVMBuildZExt(u->builder, p.value, be_vector(u->i8, f->lanes), "");
    be_store(u, p.value, stripe_at(f, f->values, stripe, f->stripe_bytes), 1);
    if (f->by.info->arg)
        be_store(u, p.number, stripe_at(f, f->numbers, stripe, f->number_bytes),
                 1);
}

/* Memory for num stripes, with partial results of `lanes` for each vector. */
static void
make_stripes(Fold *f, int num, int lanes)
{
    BeUnit *u = f->e->u;
    int64_t width = (lanes ? lanes : 1) * f->vectors;
    int64_t bytes =
        f->by.dtype == DT_bool ? 1 : (int64_t)dtype_info[f->by.dtype].bytes;
    f->stripe_bytes = width * bytes;
    f->number_bytes = width * 8;
    f->values =
        be_alloca(u, u->i8, (uint64_t)(num * f->stripe_bytes), 64, "stripes");
    if (f->by.info->arg)
        f->numbers = be_alloca(u, u->i8, (uint64_t)(num * f->number_bytes), 64,
                               "numbers");
}

/* f for one of its vectors. */
static Fold
fold_of_vector(const Fold *f, int vector)
{
    BeUnit *u = f->e->u;
    Fold own = *f;
    own.vector = vector;
    own.values =
        be_offset_const(u, f->values, vector * (f->stripe_bytes / f->vectors));
    if (f->by.info->arg)
        own.numbers = be_offset_const(u, f->numbers,
                                      vector * (f->number_bytes / f->vectors));
    return own;
}

static void
clear_stripe(const Fold *f, Val stripe)
{
    for (int v = 0; v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        store_part(&own, stripe, be_fold_neutral(&f->by, f->lanes));
    }
}

/* Sets stripes 0, step, ... below end to the neutral value. */
static void
clear_stripes(const Fold *f, int end, int step)
{
    BeUnit *u = f->e->u;
    enum { FEW = 8 };
    if (end / step * f->vectors <= FEW) {
        for (int i = 0; i < end; i += step)
            clear_stripe(f, be_word(u, i));
        return;
    }
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, end), be_word(u, step),
                  "stripe");
    be_loop_body(u, &l);
    clear_stripe(f, l.index);
    be_loop_end(u, &l);
}

/* ---- one element at a time ---------------------------------------------- */

/* stripe += the stripe `half` further on, in all vectors. */
static void
fold_stripes(const Fold *f, Val stripe, Val half)
{
    Val other = be_add(f->e->u, stripe, half);
    for (int v = 0; v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        Part x = load_part(&own, stripe), y = load_part(&own, other);
        store_part(&own, stripe, be_fold_combine(&f->by, x, y));
    }
}

static int
log2_of(int x)
{
    return 31 - __builtin_clz((unsigned)x);
}

/* The tree over stripes, which leaves the result in the first one; of a single
 * vector the last steps without loops. */
static void
fold_tree(const Fold *f)
{
    BeUnit *u = f->e->u;
    int few = f->vectors == 1 ? 4 : 0, half = f->stripes / 2;
    if (half > few) {
        int levels = log2_of(half) - (few ? log2_of(few) : -1);
        BeLoop level, l;
        be_loop_begin(u, &level, be_word(u, 0), be_word(u, levels),
                      be_word(u, 1), "level");
        be_loop_body(u, &level);
        Val step = LLVMBuildLShr(u->builder, be_word(u, half), level.index, "");
        be_loop_begin(u, &l, be_word(u, 0), step, be_word(u, 1), "stripe");
        be_loop_body(u, &l);
        fold_stripes(f, l.index, step);
        be_loop_end(u, &l);
        be_loop_end(u, &level);
        half = few;
    }
    for (; half; half /= 2) {
        for (int i = 0; i < half; i++)
            fold_stripes(f, be_word(u, i), be_word(u, half));
    }
}

static bool
has_chunks(const Fold *f)
{
    return f->by.bound > IR_CHUNK;
}

/* The total of the chunks is stored after the stripes. */
static Val
total_stripe(const Fold *f)
{
    return be_word(f->e->u, IR_STRIPES);
}

static void
end_chunk(const Fold *f)
{
    fold_tree(f);
    for (int v = 0; v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        Part chunk = load_part(&own, be_word(f->e->u, 0));
        Part before = load_part(&own, total_stripe(f));
        store_part(&own, total_stripe(f),
                   be_fold_combine(&f->by, before, chunk));
    }
}

static void
clear_all(const Fold *f)
{
    clear_stripes(f, f->stripes, 1);
}

/* If the number of folded elements is that of full chunks, calls end. */
static void
at_chunk_end(const Fold *f, Val taken, void (*end)(const Fold *f))
{
    BeUnit *u = f->e->u;
    Val rest = be_and(u, taken, be_word(u, IR_CHUNK - 1));
    Block yes = be_block(u, "chunk"), no = be_block(u, "same");
    be_cond_br(u, be_icmp(u, LLVMIntEQ, rest, be_word(u, 0)), yes, no);
    be_position_at_end(u, yes);
    end(f);
    be_br(u, no);
    be_position_at_end(u, no);
}

static void
end_and_clear(const Fold *f)
{
    end_chunk(f);
    clear_all(f);
}

static Part
element(const Fold *f, Val number, bool lanes)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    const KNode *n = f->by.node->reduce.element;
    Val x = be_emit_get_as(e, n, 0, f->vector, lanes);
    Part p = {be_fold_element(&f->by, x), NULL};
    if (f->by.info->arg)
        p.number = be_splat(u, number, lanes ? e->tile.lanes : 0);
    return p;
}

/* Folds element `number`. */
static void
take_element(const Fold *f, Val number)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    be_emit_block(e, &f->by.node->reduce.body);
    bool alone = f->by.bound <= IR_STRIPES; /* in its stripe */
    Val stripe = alone ? number : be_and(u, number, be_word(u, IR_STRIPES - 1));
    for (int v = 0; v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        Part p = element(&own, number, f->lanes != 0);
        if (!alone)
            p = be_fold_combine(&f->by, load_part(&own, stripe), p);
        store_part(&own, stripe, p);
    }
}

/* Elements begin .. end of range number `depth`; returns the number of the
 * next one. */
static Val
take_range(const Fold *f, int depth, Val begin, Val end, Val number)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    const KVar *var = f->ranges->vars[depth];
    bool innermost = depth == f->ranges->count - 1;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, 1), "r");
    Val inner = be_loop_carry(u, &l, number);
    be_loop_body(u, &l);
    e->indices[var->id] = (EmitIndex){.base = l.index};
    if (innermost) {
        take_element(f, inner);
        inner = be_add(u, inner, be_word(u, 1));
        if (has_chunks(f) && f->ranges->count > 1)
            at_chunk_end(f, inner, end_and_clear);
    } else {
        Val extent = be_emit_dim(e, f->ranges->vars[depth + 1]->extent);
        inner = take_range(f, depth + 1, be_emit_word(e, 0), extent, inner);
    }
    be_loop_next(&l, 0, inner);
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* A single range, a chunk at a time. */
static void
take_chunks(const Fold *f, Val extent)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), extent, be_emit_word(e, IR_CHUNK),
                  "chunk");
    be_loop_body(u, &l);
    clear_all(f);
    Val end = be_add(u, l.index, be_emit_word(e, IR_CHUNK));
    Val number = LLVMBuildIntCast2(u->builder, l.index, u->i64, 1, "");
    take_range(f, 0, l.index, be_min(u, end, extent), number);
    end_chunk(f);
    be_loop_end(u, &l);
}

/* Several ranges, whose chunks may end in any of them. */
static void
take_ranges(const Fold *f, Val extent)
{
    Emit *e = f->e;
    clear_all(f);
    take_range(f, 0, be_emit_word(e, 0), extent, be_word(e->u, 0));
    if (has_chunks(f))
        end_chunk(f);
    else
        fold_tree(f);
}

static void
reduce_singly(Fold *f)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    EmitVarying d = be_emit_varying(e, f->by.node);
    f->lanes = d.lane ? e->tile.lanes : 0;
    f->vectors = be_emit_vectors(e, d);
    make_stripes(f, IR_STRIPES + 1, f->lanes);
    for (int v = 0; has_chunks(f) && v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        store_part(&own, total_stripe(f), be_fold_neutral(&f->by, f->lanes));
    }
    Val extent = be_emit_dim(e, f->ranges->vars[0]->extent);
    if (has_chunks(f) && f->ranges->count == 1)
        take_chunks(f, extent);
    else
        take_ranges(f, extent);
    Val result = has_chunks(f) ? total_stripe(f) : be_word(u, 0);
    for (int v = 0; v < f->vectors; v++) {
        Fold own = fold_of_vector(f, v);
        be_emit_set(e, f->by.node, 0, v,
                    be_fold_result(&f->by, load_part(&own, result)));
    }
}

/* ---- neighbours in lanes ------------------------------------------------ */

static Part
part_of_lanes(const Fold *f, Part p, int first, int count)
{
    BeUnit *u = f->e->u;
    Part half = {be_extract(u, p.value, first, count), NULL};
    if (f->by.info->arg)
        half.number = be_extract(u, p.number, first, count);
    return half;
}

/* The tree over the lanes of a partial result. */
static Part
fold_lanes(const Fold *f, Part p)
{
    for (int half = f->lanes / 2; half; half /= 2) {
        int count = half > 1 ? half : 0; /* the last are scalars */
        Part low = part_of_lanes(f, p, 0, count);
        p = be_fold_combine(&f->by, low, part_of_lanes(f, p, half, count));
    }
    return p;
}

/* The tree over the stripes of num registers, then over lanes. */
static Part
fold_all_lanes(const Fold *f, Part *parts, int num)
{
    for (int half = num / 2; half; half /= 2) {
        for (int i = 0; i < half; i++)
            parts[i] = be_fold_combine(&f->by, parts[i], parts[i + half]);
    }
    return fold_lanes(f, parts[0]);
}

/* The tree over all stripes in memory. */
static Part
fold_registers(const Fold *f)
{
    Part parts[IR_STRIPES];
    int num = f->stripes / f->lanes;
    for (int i = 0; i < num; i++)
        parts[i] = load_part(f, be_word(f->e->u, (int64_t)i * f->lanes));
    return fold_all_lanes(f, parts, num);
}

/* A copy of f with scalar partial results: for the total. */
static Fold
scalar_fold(const Fold *f)
{
    Fold scalar = *f;
    scalar.lanes = 0;
    return scalar;
}

enum {
    TOTAL_STRIPE = 2 * IR_STRIPES,
    LONG_ELEMENT = 100, /* code size */
    LONG_ROUND = 64,    /* of the elements of all stripes */
    MAX_REGISTERS = 8   /* for the stripes */
};

static void
end_chunk_of_lanes(const Fold *f)
{
    BeUnit *u = f->e->u;
    Fold s = scalar_fold(f);
    Val total = be_word(u, TOTAL_STRIPE);
    Part chunk = fold_registers(f);
    store_part(&s, total, be_fold_combine(&s.by, load_part(&s, total), chunk));
}

static void
end_and_clear_lanes(const Fold *f)
{
    end_chunk_of_lanes(f);
    clear_stripes(f, f->stripes, f->lanes);
}

static bool
rows_are_aligned(const Fold *f)
{
    Dim last = f->ranges->vars[f->ranges->count - 1]->extent;
    return f->ranges->count == 1 ||
           (ir_dim_is_const(last) && last.c % IR_STRIPES == 0);
}

/* old and count elements, at most a register, from index on. */
static Part
plus_lanes(const Fold *f, Val index, Val count, Val number, Part old)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    const KVar *var = f->ranges->vars[f->ranges->count - 1];
    e->indices[var->id] = (EmitIndex){.base = index};
    e->tile.mask[0] = be_emit_first_lanes(e, count, f->lanes);
    be_emit_block(e, &f->by.node->reduce.body);
    Part p = element(f, number, true);
    if (f->by.info->arg)
        p.number = be_add(u, p.number, be_lane_numbers(LLVMTypeOf(p.number)));
    Part sum = be_fold_combine(&f->by, old, p);
    Val mask = e->tile.mask[0];
    return mask ? be_fold_select(&f->by, mask, sum, old) : sum;
}

/* The same to stripes in memory. */
static void
take_lanes(const Fold *f, Val index, Val count, Val number)
{
    BeUnit *u = f->e->u;
    Val stripe = be_and(u, number, be_word(u, IR_STRIPES - 1));
    Part old = load_part(f, stripe);
    store_part(f, stripe, plus_lanes(f, index, count, number, old));
}

/* How many elements can be folded at once from index on: to the end of the
 * register, of the row and of the stripes. */
static Val
lanes_from(const Fold *f, Val index, Val extent, Val number)
{
    BeUnit *u = f->e->u;
    int64_t known;
    Val most = be_word(u, f->lanes);
    if (be_is_const(extent, &known) && known % f->lanes == 0 &&
        rows_are_aligned(f))
        return most;
    Val count = be_min(u, be_sub(u, extent, index), most);
    if (rows_are_aligned(f))
        return count;
    Val stripe = be_and(u, number, be_word(u, IR_STRIPES - 1));
    return be_min(u, count, be_sub(u, be_word(u, IR_STRIPES), stripe));
}

/* Folds the elements from index on; returns the number of the next. */
static Val
take_register(const Fold *f, Val index, Val count, Val number)
{
    take_lanes(f, index, count, number);
    Val next = be_add(f->e->u, number, count);
    if (has_chunks(f))
        at_chunk_end(f, next, end_and_clear_lanes);
    return next;
}

/* Elements from .. to of the last range, a register at a time. */
static Val
take_row(const Fold *f, Val from, Val to, Val number)
{
    BeUnit *u = f->e->u;
    BeLoop l;
    be_loop_begin(u, &l, from, to, be_word(u, 1), "r");
    Val inner = be_loop_carry(u, &l, number);
    be_loop_body(u, &l);
    l.step = lanes_from(f, l.index, to, inner);
    be_loop_next(&l, 0, take_register(f, l.index, l.step, inner));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* Whether the last elements of a row, less than a register, have code of their
 * own: then the others need no mask. */
static bool
ends_apart(const Fold *f, Val extent, int64_t *known)
{
    return f->ranges->count == 1 && be_is_const(extent, known) &&
           *known % f->lanes &&
           be_kernel_code_size(&f->by.node->reduce.body) <= LONG_ELEMENT;
}

static Val
take_whole_row(const Fold *f, Val extent, Val number)
{
    BeUnit *u = f->e->u;
    int64_t known;
    if (!ends_apart(f, extent, &known))
        return take_row(f, be_word(u, 0), extent, number);
    Val whole = be_word(u, known - known % f->lanes);
    take_row(f, be_word(u, 0), whole, number);
    return take_register(f, whole, be_word(u, known % f->lanes), whole);
}

/* The last range in lanes, the others around it. */
static Val
take_rows(const Fold *f, int depth, Val number)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    const KVar *var = f->ranges->vars[depth];
    Val extent = be_emit_dim(e, var->extent);
    if (depth == f->ranges->count - 1)
        return take_whole_row(f, extent, number);
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), extent, be_word(u, 1), "r");
    Val inner = be_loop_carry(u, &l, number);
    be_loop_body(u, &l);
    e->indices[var->id] = (EmitIndex){.base = l.index};
    be_loop_next(&l, 0, take_rows(f, depth + 1, inner));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* All elements fit in one register. */
static Part
reduce_register(const Fold *f)
{
    Emit *e = f->e;
    BeUnit *u = e->u;
    const KVar *var = f->ranges->vars[0];
    e->indices[var->id] = (EmitIndex){.base = be_word(u, 0)};
    Val mask = be_emit_first_lanes(e, be_emit_dim(e, var->extent), f->lanes);
    e->tile.mask[0] = mask;
    be_emit_block(e, &f->by.node->reduce.body);
    Part p = element(f, be_word(u, 0), true);
    if (f->by.info->arg)
        p.number = be_lane_numbers(LLVMTypeOf(p.number));
    return fold_lanes(f, mask
                             ? be_fold_select(&f->by, mask, p,
                                              be_fold_neutral(&f->by, f->lanes))
                             : p);
}

static Part
reduce_rows(Fold *f)
{
    /* Twice the stripes, since a register may extend beyond the last one. */
    make_stripes(f, TOTAL_STRIPE + 1, 0);
    clear_stripes(f, f->stripes + f->lanes, f->lanes);
    Fold s = scalar_fold(f);
    Val total = be_word(f->e->u, TOTAL_STRIPE);
    if (has_chunks(f))
        store_part(&s, total, be_fold_neutral(&s.by, 0));
    take_rows(f, 0, be_word(f->e->u, 0));
    if (!has_chunks(f))
        return fold_registers(f);
    end_chunk_of_lanes(f);
    return load_part(&s, total);
}

/* Whether the stripes stay in registers: those of a row of known length. */
static bool
has_registers(const Fold *f, int64_t *known)
{
    int num = IR_STRIPES / f->lanes;
    const KBlock *body = &f->by.node->reduce.body;
    Dim extent = f->ranges->vars[0]->extent;
    *known = extent.c;
    return f->ranges->count == 1 && ir_dim_is_const(extent) &&
           extent.c >= IR_STRIPES && !has_chunks(f) && num <= MAX_REGISTERS &&
           !f->by.info->arg && f->by.dtype != DT_bool &&
           num * be_kernel_code_size(body) <= LONG_ROUND;
}

/* parts and count elements from begin on, one of each stripe at most; they need
 * no numbers, since this is no argmax. */
static void
take_round(const Fold *f, Val begin, int64_t count, Part *parts)
{
    BeUnit *u = f->e->u;
    for (int i = 0; i * f->lanes < count; i++) {
        int64_t rest = count - (int64_t)i * f->lanes;
        Val index = be_add(u, begin, be_word(u, (int64_t)i * f->lanes));
        Val some = be_word(u, rest < f->lanes ? rest : f->lanes);
        parts[i] = plus_lanes(f, index, some, NULL, parts[i]);
    }
}

static Part
reduce_in_registers(const Fold *f, int64_t extent)
{
    BeUnit *u = f->e->u;
    Part parts[MAX_REGISTERS];
    int num = IR_STRIPES / f->lanes;
    int64_t rest = extent % IR_STRIPES;
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, extent - rest),
                  be_word(u, IR_STRIPES), "round");
    for (int i = 0; i < num; i++)
        parts[i].value =
            be_loop_carry(u, &l, be_fold_neutral(&f->by, f->lanes).value);
    be_loop_body(u, &l);
    take_round(f, l.index, IR_STRIPES, parts);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, parts[i].value);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        parts[i].value = be_loop_result(&l, i);
    take_round(f, be_word(u, extent - rest), rest, parts);
    return fold_all_lanes(f, parts, num);
}

static Part
reduce_in_lanes(Fold *f)
{
    int64_t extent;
    if (f->ranges->count == 1 && f->by.bound <= f->lanes)
        return reduce_register(f);
    return has_registers(f, &extent) ? reduce_in_registers(f, extent)
                                     : reduce_rows(f);
}

static Part
reduce_lanes(Fold *f, int lanes)
{
    Emit *e = f->e;
    EmitTile outer = e->tile;
    f->lanes = lanes;
    if (f->stripes < lanes)
        f->stripes = lanes;
    e->tile = (EmitTile){.rows = 1, .vectors = 1, .lanes = lanes};
    e->tile.lane = f->ranges->vars[f->ranges->count - 1];
    Part p = reduce_in_lanes(f);
    e->tile = outer;
    return p;
}

/* ---- chunks by themselves ------------------------------------------------ */

/* The partial results of chunks, stored like stripes: those of all reductions
 * are side by side. */
static Fold
parts_of(const Fold *f)
{
    Fold parts = scalar_fold(f);
    const Emit *e = f->e;
    EmitLongReduces l = be_emit_long_reduces(e->k);
    int number = 0;
    while (l.reduces[number] != f->by.node)
        number++;
    int64_t offset = EMIT_PARTIAL_BYTES * (int64_t)number;
    parts.values = be_offset_const(e->u, e->partials, offset);
    parts.numbers = be_offset_const(e->u, e->partials, offset + 8);
    parts.stripe_bytes = parts.number_bytes =
        EMIT_PARTIAL_BYTES * (int64_t)l.count;
    return parts;
}

/* Elements begin to end of one chunk: whole registers, then the remainder. */
static void
take_chunk(const Fold *f, Val begin, Val end)
{
    BeUnit *u = f->e->u;
    Val lanes = be_word(u, f->lanes);
    Val count = be_and(u, be_sub(u, end, begin), be_word(u, -f->lanes));
    Val middle = be_add(u, begin, count);
    BeLoop l;
    be_loop_begin(u, &l, begin, middle, lanes, "e");
    be_loop_body(u, &l);
    take_lanes(f, l.index, lanes, l.index);
    be_loop_end(u, &l);
    be_loop_begin(u, &l, middle, end, lanes, "rest");
    be_loop_body(u, &l);
    take_lanes(f, l.index, be_sub(u, end, l.index), l.index);
    be_loop_end(u, &l);
}

static Fold
fold_of_chunks(Emit *e, const KNode *reduce)
{
    const KRanges *r = &reduce->reduce.ranges;
    Fold f = {
        .e = e, .by = be_fold_by_keys(e, reduce), .ranges = r, .vectors = 1};
    f.stripes = f.by.stripes;
    f.lanes = be_emit_choose_lanes(e, &reduce->reduce.body,
                                   be_dim_bound(e->k, r->vars[0]->extent));
    make_stripes(&f, TOTAL_STRIPE, 0);
    return f;
}

static void
fold_chunk(const Fold *f, Val chunk, Val begin, Val end)
{
    Emit *e = f->e;
    Fold parts = parts_of(f);
    e->tile = (EmitTile){.rows = 1, .vectors = 1, .lanes = f->lanes};
    e->tile.lane = f->ranges->vars[0];
    clear_stripes(f, f->stripes + f->lanes, f->lanes);
    take_chunk(f, begin, end);
    store_part(&parts, chunk, fold_registers(f));
}

/* Each chunk is folded by all reductions in turn while it is in the cache. */
void
be_emit_partial(Emit *e)
{
    BeUnit *u = e->u;
    EmitLongReduces l = be_emit_long_reduces(e->k);
    Fold folds[EMIT_MAX_LONG];
    be_emit_find_varying(e, NULL);
    be_emit_before_long(e, &l);
    for (int i = 0; i < l.count; i++)
        folds[i] = fold_of_chunks(e, l.reduces[i]);
    Val size = be_emit_ranges_size(e, folds[0].ranges);
    BeLoop loop;
    be_loop_begin(u, &loop, e->begin, e->end, be_word(u, 1), "chunk");
    be_loop_body(u, &loop);
    Val begin = be_mul(u, loop.index, be_word(u, IR_CHUNK));
    Val end = be_min(u, be_add(u, begin, be_word(u, IR_CHUNK)), size);
    for (int i = 0; i < l.count; i++)
        fold_chunk(&folds[i], loop.index, begin, end);
    be_loop_end(u, &loop);
}

/* All chunks, which PARTIAL has folded, in order. */
static Part
fold_parts(const Fold *f)
{
    BeUnit *u = f->e->u;
    Fold parts = parts_of(f);
    Val size = be_emit_ranges_size(f->e, f->ranges),
        last = be_word(u, IR_CHUNK - 1);
    Val count = LLVMBuildSDiv(u->builder, be_add(u, size, last),
                              be_word(u, IR_CHUNK), "");
    Part none = be_fold_neutral(&f->by, 0);
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), count, be_word(u, 1), "chunk");
    Part total = {be_loop_carry(u, &l, none.value), NULL};
    if (none.number)
        total.number = be_loop_carry(u, &l, none.number);
    be_loop_body(u, &l);
    Part next = be_fold_combine(&f->by, total, load_part(&parts, l.index));
    be_loop_next(&l, 0, next.value);
    if (none.number)
        be_loop_next(&l, 1, next.number);
    be_loop_end(u, &l);
    return total;
}

/* ---- the node ----------------------------------------------------------- */

void
be_emit_reduce(Emit *e, const KNode *n)
{
    const KRanges *r = &n->reduce.ranges;
    Fold f = {.e = e, .by = be_fold_by_keys(e, n), .ranges = r, .vectors = 1};
    f.stripes = f.by.stripes;
    int lanes = 0;
    if (e->partials) {
        be_emit_set(e, n, 0, 0, be_fold_result(&f.by, fold_parts(&f)));
        return;
    }
    if (n->reduce.vector) {
        Dim last = r->vars[r->count - 1]->extent;
        lanes =
            be_emit_choose_lanes(e, &n->reduce.body, be_dim_bound(e->k, last));
    }
    if (lanes)
        be_emit_set(e, n, 0, 0, be_fold_result(&f.by, reduce_lanes(&f, lanes)));
    else
        reduce_singly(&f);
}
