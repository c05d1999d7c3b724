/*
 * depthwise_weights.c - the gradient of the weights of a depthwise convolution
 *
 * Products are added in the order of D2: in blocks of 512 along others, rows
 * and windows.  For a band of an image and a register of channels the sums of
 * some products are in registers; between bands they are in memory, with the
 * sums of earlier blocks beside them.  All that are in registers with an item
 * are computed, and the items stored.
 */
#include "backend/depthwise/depthwise.h"

enum {
    SCRATCH = 4,  /* registers for other values */
    FEW_SUMS = 12 /* that hide the latency of their additions */
};

typedef struct Sums {
    DepthwiseCode *c;
    int64_t begin, end; /* the products of a window that are in registers */
    Val block[DEPTHWISE_MAX_PRODUCTS];
    Val memory; /* [channels][products][block, total] of vectors */
    Val at;     /* of the present channels */
} Sums;

/* ---- sums in memory ------------------------------------------------------ */

static Val
address_of(const Sums *s, int64_t place, bool total)
{
    int64_t at = 2 * place + total;
    return be_offset_const(s->c->e->u, s->at, at * s->c->bytes);
}

static Val
load_sum(const Sums *s, int64_t place, bool total)
{
    return be_load(s->c->e->u, s->c->vector, address_of(s, place, total),
                   (unsigned)s->c->bytes);
}

static void
store_sum(const Sums *s, int64_t place, bool total, Val x)
{
    be_store(s->c->e->u, x, address_of(s, place, total), (unsigned)s->c->bytes);
}

/* The memory of the channels from number `first` on. */
static void
set_channels(Sums *s, Val first)
{
    BeUnit *u = s->c->e->u;
    int64_t bytes = 2 * be_depthwise_products(s->c->d) * s->c->bytes;
    Val vector =
        LLVMBuildUDiv(u->builder, first, be_word(u, s->c->e->tile.lanes), "");
    s->at = be_offset(u, s->memory, be_mul(u, vector, be_word(u, bytes)));
}

/* -0 is neutral, and the first block is added to it. */
static void
clear_sums(Sums *s)
{
    BeLoop l;
    be_depthwise_channels(s->c, &l);
    set_channels(s, l.index);
    for (int64_t p = 0; p < be_depthwise_products(s->c->d); p++) {
        store_sum(s, p, false, be_zero(s->c->vector));
        store_sum(s, p, true, be_float(s->c->vector, -0.0));
    }
    be_loop_end(s->c->e->u, &l);
}

/* ---- sums in registers --------------------------------------------------- */

static void
carry(Sums *s, BeLoop *l)
{
    for (int64_t p = s->begin; p < s->end; p++)
        s->block[p] = be_loop_carry(s->c->e->u, l, s->block[p]);
}

static void
end_loop(Sums *s, BeLoop *l)
{
    for (int64_t p = s->begin; p < s->end; p++)
        be_loop_next(l, (int)(p - s->begin), s->block[p]);
    be_loop_end(s->c->e->u, l);
    for (int64_t p = s->begin; p < s->end; p++)
        s->block[p] = be_loop_result(l, (int)(p - s->begin));
}

/* Adds the products of y and the window whose places are packed there. */
static void
add_window(Sums *s, Val y, Val window)
{
    DepthwiseCode *c = s->c;
    for (int64_t p = s->begin; p < s->end; p++) {
        Val x = be_depthwise_x(c, window, 0, p);
        s->block[p] = be_intrinsic3(c->e->u, "llvm.fma", x, y, s->block[p]);
    }
}

/* Windows begin .. end of a row of the band, whose places are packed at `line`:
 * no block ends before the last. */
static void
add_windows(Sums *s, Val line, Val begin, Val end)
{
    DepthwiseCode *c = s->c;
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = &c->d->axes[1];
    int at = (int)(s->end - s->begin);
    DepthwiseWalk walk;
    BeLoop l;
    be_depthwise_walk(c, &c->d->of_y, a->window, begin, &walk);
    Val window = be_depthwise_window(c, line, begin);
    be_loop_begin(u, &l, begin, end, be_word(u, 1), "window");
    carry(s, &l);
    window = be_loop_carry(u, &l, window);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    be_depthwise_set_window(c, 1, l.index);
    Val y = be_depthwise_y(c);
    add_window(s, y, window);
    be_loop_next(&l, at, be_offset_const(u, window, a->step * c->place_bytes));
    be_depthwise_walk_next(c, &walk, &l);
    end_loop(s, &l);
}

/* Adds a block to the total if it is full, and begins a new one. */
static void
end_block(Sums *s, Val full)
{
    BeUnit *u = s->c->e->u;
    Block before = be_insert_block(u), yes = be_block(u, "full"),
          after = be_block(u, "after");
    be_cond_br(u, full, yes, after);
    be_position_at_end(u, yes);
    for (int64_t p = s->begin; p < s->end; p++) {
        Val total = load_sum(s, p, true);
        store_sum(s, p, true,
                  LLVMBuildFAdd(u->builder, total, s->block[p], ""));
    }
    be_br(u, after);
    be_position_at_end(u, after);
    for (int64_t p = s->begin; p < s->end; p++) {
        Val phi = LLVMBuildPhi(u->builder, s->c->vector, "");
        Val values[] = {s->block[p], be_zero(s->c->vector)};
        Block from[] = {before, yes};
        LLVMAddIncoming(phi, values, from, 2);
        s->block[p] = phi;
    }
}

/* Row i of windows, whose places are packed at `line`, in pieces that end where
 * a block does. */
static void
add_row(Sums *s, Val line, Val i)
{
    DepthwiseCode *c = s->c;
    BeUnit *u = c->e->u;
    const DepthwiseAxis *a = c->d->axes;
    Val k = be_word(u, IR_K_BLOCK), all = be_word(u, a[1].windows);
    be_depthwise_set_window(c, 0, i);
    Val before = be_mul(u, c->number, be_word(u, a[0].windows));
    before = be_mul(u, be_add(u, before, i), all);
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), all, NULL, "piece");
    carry(s, &l);
    be_loop_body(u, &l);
    Val filled = LLVMBuildURem(u->builder, be_add(u, before, l.index), k, "");
    Val left = be_sub(u, k, filled);
    l.step = be_min(u, be_sub(u, all, l.index), left);
    add_windows(s, line, l.index, be_add(u, l.index, l.step));
    end_block(s, be_icmp(u, LLVMIntEQ, l.step, left));
    end_loop(s, &l);
}

/* Rows of windows whose x is packed. */
static void
add_rows(Sums *s, Val rows)
{
    DepthwiseCode *c = s->c;
    BeUnit *u = c->e->u;
    Val end = be_add(u, c->i, rows), line = c->packed;
    int at = (int)(s->end - s->begin);
    DepthwiseWalk walk;
    BeLoop l;
    for (int64_t p = s->begin; p < s->end; p++)
        s->block[p] = load_sum(s, p, false);
    be_depthwise_set_window(c, 1, be_word(u, 0));
    be_depthwise_walk(c, &c->d->of_y, c->d->axes[0].window, c->i, &walk);
    be_loop_begin(u, &l, c->i, end, be_word(u, 1), "row");
    carry(s, &l);
    line = be_loop_carry(u, &l, line);
    be_depthwise_walk_carry(c, &walk, &l);
    be_loop_body(u, &l);
    add_row(s, line, l.index);
    be_loop_next(&l, at, be_depthwise_next_row(c, line));
    be_depthwise_walk_next(c, &walk, &l);
    end_loop(s, &l);
    for (int64_t p = s->begin; p < s->end; p++)
        store_sum(s, p, false, s->block[p]);
}

/* Whole rows of places, as many as have registers, at least one; of groups
 * fewer products, so that threads can divide them. */
static int64_t
products_at_once(const DepthwiseCode *c)
{
    int64_t all = c->e->target->num_registers - SCRATCH;
    int64_t row = c->d->axes[1].places, rows = all / row;
    if (c->d->group)
        return all < FEW_SUMS ? all : FEW_SUMS;
    return (rows > 1 ? rows : 1) * row;
}

/* The rows' products that are in registers, if one of them is an item. */
static void
add_if_wanted(Sums *s, Val rows)
{
    Emit *e = s->c->e;
    BeUnit *u = e->u;
    Block yes = be_block(u, "wanted"), after = be_block(u, "after");
    Val begins = be_icmp(u, LLVMIntSLT, be_word(u, s->begin), e->end);
    Val ends = be_icmp(u, LLVMIntSGT, be_word(u, s->end), e->begin);
    be_cond_br(u, be_and(u, begins, ends), yes, after);
    be_position_at_end(u, yes);
    add_rows(s, rows);
    be_br(u, after);
    be_position_at_end(u, after);
}

/* A band of rows for all channels. */
static void
add_band(Sums *s)
{
    DepthwiseCode *c = s->c;
    BeUnit *u = c->e->u;
    Val height = be_word(u, c->d->axes[0].windows);
    Val rows = be_min(u, be_word(u, c->band), be_sub(u, height, c->i));
    int64_t all = be_depthwise_products(c->d), some = products_at_once(c);
    BeLoop l;
    be_depthwise_channels(c, &l);
    set_channels(s, l.index);
    be_depthwise_pack(c, rows);
    for (s->begin = 0; s->begin < all; s->begin += some) {
        s->end = s->begin + some < all ? s->begin + some : all;
        add_if_wanted(s, rows);
    }
    be_loop_end(u, &l);
}

static void
add_all(Sums *s, Val count)
{
    DepthwiseCode *c = s->c;
    BeUnit *u = c->e->u;
    BeLoop others, bands;
    be_loop_begin(u, &others, be_word(u, 0), count, be_word(u, 1), "other");
    be_loop_body(u, &others);
    c->number = others.index;
    be_space_delinearize(c->e, &c->d->others, c->number);
    be_loop_begin(u, &bands, be_word(u, 0), be_word(u, c->d->axes[0].windows),
                  be_word(u, c->band), "band");
    be_loop_body(u, &bands);
    c->i = bands.index;
    add_band(s);
    be_loop_end(u, &bands);
    be_loop_end(u, &others);
}

/* ---- results ------------------------------------------------------------- */

/* The sum of a place: the last block is added unless it has no product while
 * others have some. */
static Val
end_sum(const Sums *s, Val at, Val done)
{
    BeUnit *u = s->c->e->u;
    unsigned align = (unsigned)s->c->bytes;
    Val block = be_load(u, s->c->vector, at, align);
    Val total =
        be_load(u, s->c->vector, be_offset_const(u, at, s->c->bytes), align);
    Val sum = LLVMBuildFAdd(u->builder, total, block, "");
    return be_select(u, done, total, sum);
}

/* The items, from the number of products. */
static void
store_items(Sums *s, Val products)
{
    DepthwiseCode *c = s->c;
    Emit *e = c->e;
    BeUnit *u = e->u;
    Val rest = LLVMBuildURem(u->builder, products, be_word(u, IR_K_BLOCK), "");
    Val empty = be_icmp(u, LLVMIntEQ, rest, be_word(u, 0));
    Val some = be_icmp(u, LLVMIntNE, products, be_word(u, 0));
    Val done = be_and(u, empty, some);
    EmitSpace places = be_space_of(&e->k->grid);
    BeLoop channels, l;
    be_depthwise_channels(c, &channels);
    set_channels(s, channels.index);
    be_loop_begin(u, &l, e->begin, e->end, be_word(u, 1), "place");
    be_loop_body(u, &l);
    be_space_delinearize(e, &places, l.index);
    Val at = be_offset(u, s->at, be_mul(u, l.index, be_word(u, 2 * c->bytes)));
    Val sum = end_sum(s, at, done);
    be_depthwise_epilogue(c, &sum);
    be_loop_end(u, &l);
    be_loop_end(u, &channels);
}

void
be_depthwise_emit_weights(DepthwiseCode *c)
{
    Emit *e = c->e;
    BeUnit *u = e->u;
    const DepthwiseAxis *a = c->d->axes;
    int64_t lanes = e->tile.lanes;
    int64_t vectors =
        (be_dim_bound(e->k, c->d->channel->extent) + lanes - 1) / lanes;
    int64_t products = be_depthwise_products(c->d);
    Sums s = {.c = c};
    s.memory = be_alloca(u, c->vector, (uint64_t)(vectors * products * 2),
                         (unsigned)c->bytes, "sums");
    Val count = be_space_size(e, &c->d->others);
    clear_sums(&s);
    add_all(&s, count);
    store_items(&s, be_mul(u, count, be_word(u, a[0].windows * a[1].windows)));
}
