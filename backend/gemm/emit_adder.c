/*
 * emit_adder.c - a tile of a product in registers
 *
 * The adder is a function of its own: for each product, one vector or some of
 * columns and a number of each row.  It finds both packed and leaves sums in
 * memory.  A call adds a block of products at most (D2).
 *
 * Here, too, is chosen how large tiles are and how much is packed at once: rows
 * of a tile for a block stay in the first cache, columns in the second.
 */
#include "backend/gemm/emit_product.h"

/* Bytes of columns, packed or where they stand, of rows where they stand, and
 * of sums that are kept; tiles whose rows are packed at once when they lie side
 * by side, so that whole lines are read. */
enum {
    COLUMN_BYTES = 16 << 10, /* for each byte of a register: a second cache has
                                some 1 MB where registers have 64 bytes */
    STAND_BYTES = 512 << 10,
    SUM_BYTES = 256 << 10,
    STRIP_BYTES = 256 << 10,
    VERY_FEW_TILES = 2, /* that do not pay for packing columns, */
    FEW_TILES = 8,      /* nor if those of a product are near the next one's */
    FEW_PANELS = 16,    /* likewise, for rows that lie side by side */
    TILES_TOGETHER = BE_MAX_VECTORS,
    SHORT_RUN = 16, /* products that are emitted one by one */
    FIRST_BYTES = 32 << 10,
    AHEAD = 8,      /* products, */
    FAR_AHEAD = 32, /* and where they go by quickly */
    LINE = 64,
    PAGE = 4096,
};

/* ---- choices ------------------------------------------------------------- */

static int64_t
round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int
choose_lanes(const Emit *e, int64_t bytes, int64_t columns)
{
    int most = (int)(e->target->register_bytes / bytes), lanes = 2;
    while (lanes < most && lanes < columns)
        lanes *= 2;
    return lanes;
}

/* Two, unless one or three leave less of the last tile empty. */
static int
choose_vectors(int lanes, int64_t columns)
{
    int64_t vectors = (columns + lanes - 1) / lanes;
    if (vectors == 1)
        return 1;
    return vectors % 2 && vectors % 3 == 0 ? 3 : 2;
}

static bool
is_known(const EmitSpace *s)
{
    for (int i = 0; i < s->count; i++) {
        if (!ir_dim_is_const(s->vars[i]->extent))
            return false;
    }
    return true;
}

static bool
run_is_known(const EmitProduct *p)
{
    return ir_dim_is_const(p->rows.vars[p->rows.count - 1]->extent);
}

/* Rows that tiles can share among them. */
static int64_t
rows_of_run(const Emit *e, const EmitProduct *p)
{
    return p->in_runs
               ? emit_dim_bound(e->k, p->rows.vars[p->rows.count - 1]->extent)
               : emit_space_bound(e->k, &p->rows);
}

/* Up to `most`, or fewer when the last tile is fuller then. */
static int
fullest_height(int64_t rows, int most)
{
    int best = most;
    double least = -1;
    for (int height = most; height > most / 2; height--) {
        double tiles = (double)((rows + height - 1) / height);
        double cost = tiles * (height + 0.5);
        if (least < 0 || cost < least) {
            least = cost;
            best = height;
        }
    }
    return best;
}

/* As many as registers allow. */
static int
choose_height(const Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    int64_t rows = rows_of_run(e, p);
    int most = (e->target->num_registers - 2) / plan->vectors - 1;
    if (most > EMIT_MAX_HEIGHT)
        most = EMIT_MAX_HEIGHT;
    if (!p->of_rows.along_products && !p->window.index && most > plan->lanes)
        most = plan->lanes;
    if (rows <= most)
        return (int)rows;
    bool known = is_known(&p->rows) || (p->in_runs && run_is_known(p));
    return known ? fullest_height(rows, most) : most;
}

/* Whether neighbours so many elements apart fight for the same places of a
 * cache. */
static bool
is_bad_step(int64_t step, int64_t bytes)
{
    return step * bytes % PAGE == 0;
}

/* Whether those of a product are near the next one's, so that it pays to read
 * them where they stand, time and again, if each is asked for before. */
static bool
is_near(const EmitOperand *o, int64_t bytes)
{
    return o->product_step * bytes <= PAGE / 2;
}

/* Whether rows can be read where they stand: there are always as many as a tile
 * has, and a tile's part of them stays in the first cache. */
static bool
rows_may_stand(const Emit *e, const EmitProduct *p, const EmitPlan *plan,
               int64_t bytes)
{
    const EmitOperand *o = &p->of_rows;
    if (!o->plain || !is_known(&p->rows) || (plan->in_parts && !p->direct))
        return false;
    if (o->product_step == 1)
        return !is_bad_step(o->step, bytes);
    int64_t rows = emit_space_bound(e->k, &p->rows);
    int64_t products = emit_space_bound(e->k, &p->products);
    int64_t columns = emit_dim_bound(e->k, p->column->extent);
    bool few = columns <= FEW_PANELS * plan->lanes * plan->vectors;
    return o->step == 1 && (rows * products * bytes <= STAND_BYTES ||
                            (few && is_near(o, bytes)));
}

/* Bytes of columns that stay in the second cache. */
static int64_t
room_for_columns(const Emit *e)
{
    return (int64_t)COLUMN_BYTES * e->target->register_bytes;
}

static bool
columns_may_stand(const Emit *e, const EmitProduct *p, const EmitPlan *plan,
                  int64_t bytes)
{
    const EmitOperand *o = &p->of_columns;
    Dim extent = p->column->extent;
    int64_t rows = emit_space_bound(e->k, &p->rows);
    int64_t products = emit_space_bound(e->k, &p->products);
    return o->plain && o->step == 1 && ir_dim_is_const(extent) &&
           extent.c % (plan->lanes * plan->vectors) == 0 &&
           (extent.c * products * bytes <= room_for_columns(e) ||
            rows <= VERY_FEW_TILES * plan->height ||
            (rows <= FEW_TILES * plan->height && is_near(o, bytes)));
}

static void
choose_steps(const EmitProduct *p, EmitPlan *plan, int64_t bytes)
{
    int64_t along = round_up(plan->depth, plan->lanes) + plan->lanes;
    if (plan->pieces) {
        plan->row_step = 1;
        plan->row_product_step = p->strip.step * p->strip.elements;
    } else if (plan->line) {
        plan->row_step = p->window.step * p->window.elements;
        plan->row_product_step = 1;
    } else if (plan->rows_stand) {
        plan->row_step = p->of_rows.step;
        plan->row_product_step = p->of_rows.product_step;
    } else if (p->of_rows.along_products) {
        plan->row_step = along + is_bad_step(along, bytes) * plan->lanes;
        plan->row_product_step = 1;
    } else {
        plan->row_step = 1;
        plan->row_product_step = plan->group ? plan->group : plan->height;
    }
    plan->column_step = plan->columns_stand ? p->of_columns.product_step
                                            : plan->lanes * plan->vectors;
}

/* Columns of a piece, all pieces being about as large. */
static int64_t
choose_columns(const Emit *e, const EmitPlan *plan, int64_t columns,
               int64_t bytes)
{
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    int64_t fit = room_for_columns(e) / (plan->depth * bytes) / width * width;
    int64_t pieces = fit ? (columns + fit - 1) / fit : 1;
    return round_up((columns + pieces - 1) / pieces, width);
}

static int
choose_panels(const EmitPlan *plan)
{
    int most = BE_MAX_VECTORS / plan->vectors;
    int64_t all = plan->columns / ((int64_t)plan->lanes * plan->vectors);
    return all < most ? (int)all : most;
}

static int64_t
choose_group(const EmitPlan *plan, int64_t rows)
{
    int64_t all = round_up(rows, plan->lanes);
    int64_t most = (int64_t)plan->lanes * BE_MAX_VECTORS;
    return all < most ? all : most;
}

/* Elements of a line of windows of so many rows. */
static int64_t
line_of(const EmitProduct *p, const EmitPlan *plan, int64_t rows)
{
    rows = round_up(rows, plan->height);
    return round_up(emit_line_size(&p->window, rows), plan->lanes);
}

/* Rows whose windows stay in the first cache, of pieces of a run that are
 * about as long. */
static int64_t
choose_windows(const EmitProduct *p, const EmitPlan *plan, int64_t bytes)
{
    int64_t all = p->window.length, rows = all;
    for (int64_t pieces = 2;
         rows > plan->height &&
         p->window.runs * line_of(p, plan, rows) * bytes > FIRST_BYTES / 2;
         pieces++)
        rows = round_up((all + pieces - 1) / pieces, plan->height);
    return rows;
}

static int
choose_tiles(const EmitPlan *plan, int64_t rows)
{
    int64_t all = (rows + plan->height - 1) / plan->height;
    return all < TILES_TOGETHER ? (int)all : TILES_TOGETHER;
}

/* Rows of a tile, of a part of a strip or some whole ones. */
static int
choose_strip_height(const EmitOverlap *s, int most)
{
    int64_t strips = s->runs;
    if (s->run > most)
        return fullest_height(s->run, most);
    while (strips * s->run > most || s->runs % strips)
        strips--;
    return (int)(strips * s->run);
}

/* Strips, if those of a block are not too many. */
static void
choose_strips(const Emit *e, const EmitProduct *p, EmitPlan *plan,
              int64_t bytes)
{
    const EmitOverlap *s = &p->strip;
    int most = (e->target->num_registers - 2) / plan->vectors - 1;
    if (!s->index)
        return;
    int64_t line = round_up(emit_line_size(s, s->length), plan->lanes), all;
    int64_t pieces = (plan->depth + s->length - 2) / s->length + 1;
    if (__builtin_mul_overflow(pieces * s->runs, line, &all) ||
        all > STRIP_BYTES / bytes)
        return;
    plan->line = line;
    plan->pieces = pieces;
    plan->height =
        choose_strip_height(s, most < EMIT_MAX_HEIGHT ? most : EMIT_MAX_HEIGHT);
    plan->group = plan->height > s->run ? plan->height : s->run;
}

EmitPlan
emit_plan_choose(const Emit *e, const EmitProduct *p)
{
    int64_t bytes = (int64_t)dtype_info[p->contract->dtype].bytes;
    int64_t columns = emit_dim_bound(e->k, p->column->extent);
    int64_t products = emit_space_bound(e->k, &p->products);
    EmitPlan plan = {.lanes = choose_lanes(e, bytes, columns)};
    plan.vectors = choose_vectors(plan.lanes, columns);
    plan.height = choose_height(e, p, &plan);
    plan.depth = products > BE_K_BLOCK ? BE_K_BLOCK : products;
    plan.in_parts = products > BE_K_BLOCK;
    choose_strips(e, p, &plan, bytes);
    plan.rows_stand = rows_may_stand(e, p, &plan, bytes);
    plan.columns_stand = columns_may_stand(e, p, &plan, bytes);
    plan.columns =
        plan.columns_stand ? columns : choose_columns(e, &plan, columns, bytes);
    plan.panels = choose_panels(&plan);
    bool singly = plan.rows_stand || plan.pieces || p->of_rows.along_products;
    if (p->window.index) {
        plan.group = choose_windows(p, &plan, bytes);
        plan.line = line_of(p, &plan, plan.group);
    } else if (p->in_runs && !singly) {
        plan.group = choose_group(&plan, rows_of_run(e, p));
    }
    plan.tiles = singly ? 1 : choose_tiles(&plan, rows_of_run(e, p));
    plan.rows = (int64_t)plan.tiles * plan.height;
    if (plan.rows < plan.group)
        plan.rows = round_up(plan.group, plan.height);
    int64_t kept = SUM_BYTES / (plan.columns * bytes);
    if (plan.in_parts && !p->direct && kept > plan.rows)
        plan.rows = kept / plan.rows * plan.rows;
    choose_steps(p, &plan, bytes);
    return plan;
}

/* ---- the adder ----------------------------------------------------------- */

typedef struct Adder {
    Emit *e;
    const EmitPlan *plan;
    const EmitOverlap *window, *strip;
    Type type, vector;
    int64_t bytes;
    bool reads_far; /* rows stand dense, beyond the second cache */
    Val params[EMIT_NUM_PARAMS];
} Adder;

static Val
element_at(const Adder *a, Val base, Val index, int64_t more)
{
    BeUnit *u = a->e->u;
    Val p = LLVMBuildGEP2(u->builder, a->type, base, &index, 1, "");
    return be_offset_const(u, p, more * a->bytes);
}

/* Elements from a tile's first row to another. */
static int64_t
row_offset(const Adder *a, int row)
{
    int64_t run = a->plan->pieces ? a->strip->run : a->plan->height;
    return row / run * a->plan->line + row % run * a->plan->row_step;
}

/* The number of a row for a product that is so many elements behind the first.
 */
static Val
row_element(const Adder *a, int row, Val at)
{
    Emit *e = a->e;
    Val p = element_at(a, a->params[EMIT_ROWS], at, row_offset(a, row));
    return be_splat(e->u, be_load(e->u, a->type, p, (unsigned)a->bytes),
                    a->plan->lanes);
}

/* Whether what the adder goes through is not in the first cache. */
static bool
streams(const EmitPlan *plan, int64_t bytes)
{
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    return plan->depth * width * bytes > FIRST_BYTES;
}

/* Those of some products further on, of the next panel in the end. */
static void
fetch_columns(const Adder *a, Val k)
{
    Emit *e = a->e;
    const EmitPlan *plan = a->plan;
    int ahead = plan->pieces ? FAR_AHEAD : AHEAD;
    Val later = be_add(e->u, k, emit_word(e, ahead));
    Val at = be_mul(e->u, later, emit_word(e, plan->column_step));
    int64_t width = (int64_t)plan->lanes * plan->vectors;
    for (int64_t i = 0; i < width; i += LINE / a->bytes)
        be_prefetch(e->u, element_at(a, a->params[EMIT_COLUMNS], at, i), false);
}

/* Rows side by side of such a product. */
static void
fetch_rows(const Adder *a, Val k)
{
    Emit *e = a->e;
    const EmitPlan *plan = a->plan;
    Val later = be_add(e->u, k, emit_word(e, AHEAD));
    Val at = be_mul(e->u, later, emit_word(e, plan->row_product_step));
    be_prefetch(e->u, element_at(a, a->params[EMIT_ROWS], at, 0), false);
    be_prefetch(e->u, element_at(a, a->params[EMIT_ROWS], at, plan->height - 1),
                false);
}

/* Rows that stand one behind the other: for each product as much of the next
 * tile's as a product has on average. */
static void
fetch_next_rows(const Adder *a, Val k)
{
    Emit *e = a->e;
    const EmitPlan *plan = a->plan;
    Val at = be_mul(e->u, k, emit_word(e, plan->height));
    int64_t more = plan->height * plan->row_step;
    be_prefetch(e->u, element_at(a, a->params[EMIT_ROWS], at, more), false);
}

/* Product k, whose rows are `before` elements behind those of the first. */
static void
add_product(const Adder *a, Val k, Val before, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const EmitPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    int vectors = plan->vectors, lanes = plan->lanes;
    Val at = be_mul(u, k, emit_word(e, plan->column_step));
    for (int v = 0; v < vectors; v++)
        columns[v] = be_load(
            u, a->vector, element_at(a, a->params[EMIT_COLUMNS], at, v * lanes),
            (unsigned)a->bytes);
    if (streams(plan, a->bytes)) {
        fetch_columns(a, k);
        if (plan->rows_stand && plan->row_step == 1)
            fetch_rows(a, k);
    }
    if (a->reads_far)
        fetch_next_rows(a, k);
    for (int row = 0; row < plan->height; row++) {
        Val x = row_element(a, row, before);
        for (int v = 0; v < vectors; v++) {
            Val *sum = &sums[row * vectors + v];
            *sum = be_intrinsic3(u, "llvm.fma", x, columns[v], *sum);
        }
    }
}

/* A loop that carries the tile's sums. */
static void
begin_sums(const Adder *a, BeLoop *l, Val end, Val *sums, const char *name)
{
    Emit *e = a->e;
    be_loop_begin(e->u, l, emit_word(e, 0), end, emit_word(e, 1), name);
    for (int i = 0; i < a->plan->height * a->plan->vectors; i++)
        sums[i] = be_loop_carry(e->u, l, sums[i]);
    be_loop_body(e->u, l);
}

static void
end_sums(const Adder *a, BeLoop *l, Val *sums)
{
    int num = a->plan->height * a->plan->vectors;
    for (int i = 0; i < num; i++)
        be_loop_next(l, i, sums[i]);
    be_loop_end(a->e->u, l);
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_result(l, i);
}

static void
add_products(const Adder *a, Val *sums)
{
    Emit *e = a->e;
    BeLoop l;
    begin_sums(a, &l, a->params[EMIT_COUNT], sums, "k");
    Val step = emit_word(e, a->plan->row_product_step);
    add_product(a, l.index, be_mul(e->u, l.index, step), sums);
    end_sums(a, &l, sums);
}

/* Those of a line; the first has number k and is `before` elements behind. */
static void
add_run(const Adder *a, Val k, Val before, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t run = a->window->run;
    BeLoop l;
    if (run <= SHORT_RUN) {
        for (int64_t i = 0; i < run; i++) {
            Val number = be_add(u, k, emit_word(e, i));
            add_product(a, number, be_add(u, before, emit_word(e, i)), sums);
        }
        return;
    }
    begin_sums(a, &l, emit_word(e, run), sums, "k");
    Val number = be_add(u, k, l.index);
    add_product(a, number, be_add(u, before, l.index), sums);
    end_sums(a, &l, sums);
}

/* All products of windows. */
static void
add_runs(const Adder *a, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    BeLoop l;
    begin_sums(a, &l, emit_word(e, a->window->runs), sums, "run");
    Val k = be_mul(u, l.index, emit_word(e, a->window->run));
    Val before = be_mul(u, l.index, emit_word(e, a->plan->line));
    add_run(a, k, before, sums);
    end_sums(a, &l, sums);
}

/* Products k .. k + count along a strip, the first of them being number
 * `first` there. */
static void
add_along_strip(const Adder *a, Val k, Val count, Val first, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val step = emit_word(e, a->plan->row_product_step);
    BeLoop l;
    begin_sums(a, &l, count, sums, "k");
    Val before = be_mul(u, be_add(u, first, l.index), step);
    add_product(a, be_add(u, k, l.index), before, sums);
    end_sums(a, &l, sums);
}

/* Products of one strip after the other, which begin where the lines do but for
 * the first. */
static void
add_strips(Adder *a, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    Val count = a->params[EMIT_COUNT], begin = a->params[EMIT_ROWS];
    int64_t step = a->strip->runs * a->plan->line * a->bytes;
    int num = a->plan->height * a->plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, emit_word(e, 0), count, NULL, "strip");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, sums[i]);
    Val first = be_loop_carry(u, &l, a->params[EMIT_FIRST]);
    a->params[EMIT_ROWS] = be_loop_carry(u, &l, begin);
    be_loop_body(u, &l);
    Val left = be_sub(u, emit_word(e, a->strip->length), first);
    l.step = be_min(u, left, be_sub(u, count, l.index));
    add_along_strip(a, l.index, l.step, first, sums);
    be_loop_next(&l, num, emit_word(e, 0));
    be_loop_next(&l, num + 1, be_offset_const(u, a->params[EMIT_ROWS], step));
    end_sums(a, &l, sums);
}

/* Where the sum of a row and vector is. */
static Val
sum_at(const Adder *a, int i)
{
    BeUnit *u = a->e->u;
    int row = i / a->plan->vectors, v = i % a->plan->vectors;
    Val before = be_mul(u, a->params[EMIT_SUM_STEP], emit_word(a->e, row));
    Val p = be_offset(u, a->params[EMIT_SUMS], before);
    return be_offset_const(u, p, v * a->plan->lanes * a->bytes);
}

/* What the sums will be added to, or where those of the rows behind will be. */
static void
fetch_sums(const Adder *a, int first_row)
{
    int vectors = a->plan->vectors, num = a->plan->height * vectors;
    for (int i = 0; i < num; i++)
        be_prefetch(a->e->u, sum_at(a, first_row * vectors + i), true);
}

/* Those of the first `across` columns: sums or, if there is more, those of the
 * blocks before and sums. */
static void
store_some(const Adder *a, const Val *sums, Val across, bool more)
{
    BeUnit *u = a->e->u;
    int vectors = a->plan->vectors, lanes = a->plan->lanes;
    unsigned align = (unsigned)a->bytes;
    Val masks[BE_MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        Val left = be_sub(u, across, emit_word(a->e, v * lanes));
        masks[v] = emit_first_lanes(a->e, left, lanes);
    }
    for (int i = 0; i < a->plan->height * vectors; i++) {
        Val p = sum_at(a, i), mask = masks[i % vectors], sum = sums[i];
        if (more) {
            Val old = mask ? be_load_masked(u, a->vector, p, align, mask)
                           : be_load(u, a->vector, p, align);
            sum = LLVMBuildFAdd(u->builder, old, sum, "");
        }
        if (mask)
            be_store_masked(u, sum, p, align, mask);
        else
            be_store(u, sum, p, align);
    }
}

static void
store_columns(const Adder *a, const Val *sums, Val across)
{
    BeUnit *u = a->e->u;
    Block more = be_block(u, "more"), first = be_block(u, "first");
    Block end = be_block(u, "end");
    be_branch(u, a->params[EMIT_MORE], more, first);
    be_at(u, more);
    store_some(a, sums, across, true);
    be_goto(u, end);
    be_at(u, first);
    store_some(a, sums, across, false);
    be_goto(u, end);
    be_at(u, end);
}

/* All columns of a tile, or those of a result that ends within it. */
static void
store_sums(const Adder *a, const EmitProduct *p, const Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    int64_t width = (int64_t)a->plan->lanes * a->plan->vectors;
    Val all = emit_word(e, width), across = a->params[EMIT_ACROSS];
    Dim extent = p->column->extent;
    bool known = ir_dim_is_const(extent);
    if (!p->direct || (known && (extent.c % width == 0 || extent.c < width))) {
        store_columns(a, sums, p->direct ? emit_dim(e, extent) : all);
        return;
    }
    Block whole = be_block(u, "whole"), some = be_block(u, "some");
    Block end = be_block(u, "stored");
    be_branch(u, be_icmp(u, LLVMIntSGE, across, all), whole, some);
    be_at(u, whole);
    store_columns(a, sums, all);
    be_goto(u, end);
    be_at(u, some);
    store_columns(a, sums, across);
    be_goto(u, end);
    be_at(u, end);
}

static bool
is_far(const Emit *e, const KArray *array)
{
    return emit_dim_bound(e->k, array->size) *
               (int64_t)dtype_info[array->dtype].bytes >
           room_for_columns(e);
}

static bool
reads_far(const Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    return plan->rows_stand && plan->row_product_step == 1 &&
           plan->row_step == plan->depth && !plan->in_parts &&
           is_far(e, p->of_rows.plain->load.array);
}

/* Whether few products go into a result that is not in the second cache: then
 * that is what takes time. */
static bool
writes_far(const Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    enum { FEW_PRODUCTS = 16 };
    return p->direct && plan->depth <= FEW_PRODUCTS &&
           is_far(e, p->direct->store.array);
}

Val
emit_adder(Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    BeUnit *u = e->u;
    Type params[] = {u->ptr, u->ptr, u->ptr, u->i64,
                     u->i64, u->i1,  u->i64, u->i64};
    Adder a = {.e = e, .plan = plan};
    a.window = &p->window;
    a.strip = &p->strip;
    a.type = emit_type(e, p->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[p->contract->dtype].bytes;
    a.reads_far = reads_far(e, p, plan);
    Val fn =
        be_func_begin(u, "adder", u->nothing, params, EMIT_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    emit_use_registers(e);
    for (int i = 0; i < EMIT_NUM_PARAMS; i++)
        a.params[i] = LLVMGetParam(fn, (unsigned)i);
    Val sums[BE_MAX_CARRIED];
    int num = plan->height * plan->vectors;
    for (int i = 0; i < num; i++)
        sums[i] = be_zero(a.vector);
    if (plan->in_parts)
        fetch_sums(&a, 0);
    else if (writes_far(e, p, plan))
        fetch_sums(&a, plan->height);
    if (plan->pieces)
        add_strips(&a, sums);
    else if (plan->line)
        add_runs(&a, sums);
    else
        add_products(&a, sums);
    store_sums(&a, p, sums);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
