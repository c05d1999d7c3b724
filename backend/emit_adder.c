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
#include "backend/emit_product.h"

/* Bytes of packed columns and of sums that are kept; tiles whose rows are
 * packed at once when they lie side by side, so that whole lines are read. */
enum {
    COLUMN_BYTES = 512 << 10,
    SUM_BYTES = 256 << 10,
    TILES_TOGETHER = BE_MAX_VECTORS,
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
        if (!dim_is_const(s->vars[i]->extent))
            return false;
    }
    return true;
}

/* As many as registers allow, or fewer when the last tile is fuller then. */
static int
choose_height(const Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    int64_t rows = emit_space_bound(e->k, &p->rows);
    int most = (e->target->num_registers - 2) / plan->vectors - 1, best;
    if (most > EMIT_MAX_HEIGHT)
        most = EMIT_MAX_HEIGHT;
    if (!p->of_rows.along_products && most > plan->lanes)
        most = plan->lanes;
    if (rows <= most)
        return (int)rows;
    best = most;
    double least = -1;
    for (int height = most; is_known(&p->rows) && height > most / 2; height--) {
        double tiles = (double)((rows + height - 1) / height);
        double cost = tiles * (height + 0.5);
        if (least < 0 || cost < least) {
            least = cost;
            best = height;
        }
    }
    return best;
}

/* Elements between packed rows: not a multiple of what makes them fight for
 * the same places of a cache. */
static int64_t
choose_step(const EmitPlan *plan, const EmitProduct *p, int64_t bytes)
{
    if (!p->of_rows.along_products)
        return plan->lanes;
    int64_t step = round_up(plan->depth, plan->lanes) + plan->lanes;
    return step * bytes % PAGE ? step : step + plan->lanes;
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
    int64_t width = (int64_t)plan.lanes * plan.vectors;
    int64_t fit = COLUMN_BYTES / (plan.depth * bytes) / width * width;
    plan.columns = round_up(columns, width);
    if (plan.columns > fit)
        plan.columns = fit > width ? fit : width;
    plan.tiles = p->of_rows.along_products ? 1 : TILES_TOGETHER;
    plan.rows = (int64_t)plan.tiles * plan.height;
    int64_t kept = SUM_BYTES / (plan.columns * bytes);
    if (plan.in_parts && !p->direct && kept > plan.rows)
        plan.rows = kept / plan.rows * plan.rows;
    plan.step = choose_step(&plan, p, bytes);
    return plan;
}

/* ---- the adder ----------------------------------------------------------- */

typedef struct Adder {
    Emit *e;
    const EmitProduct *product;
    const EmitPlan *plan;
    Type type, vector;
    int64_t bytes;
    Val params[EMIT_NUM_PARAMS];
} Adder;

static Val
element_at(const Adder *a, Val base, Val index, int64_t more)
{
    BeUnit *u = a->e->u;
    Val p = LLVMBuildGEP2(u->builder, a->type, base, &index, 1, "");
    return be_offset_const(u, p, more * a->bytes);
}

/* The number of a row that belongs to product k. */
static Val
row_element(const Adder *a, int row, Val k)
{
    Emit *e = a->e;
    bool along = a->product->of_rows.along_products;
    Val step = emit_word(e, along ? 1 : a->plan->step);
    int64_t more = along ? row * a->plan->step : row;
    Val p = element_at(a, a->params[EMIT_ROWS], be_mul(e->u, k, step), more);
    return be_splat(e->u, be_load(e->u, a->type, p, (unsigned)a->bytes),
                    a->plan->lanes);
}

static void
add_product(const Adder *a, Val k, Val *sums)
{
    Emit *e = a->e;
    BeUnit *u = e->u;
    const EmitPlan *plan = a->plan;
    Val columns[BE_MAX_VECTORS];
    int vectors = plan->vectors, lanes = plan->lanes;
    Val at = be_mul(u, k, emit_word(e, (int64_t)vectors * lanes));
    for (int v = 0; v < vectors; v++)
        columns[v] = be_load(
            u, a->vector, element_at(a, a->params[EMIT_COLUMNS], at, v * lanes),
            (unsigned)a->bytes);
    for (int row = 0; row < plan->height; row++) {
        Val x = row_element(a, row, k);
        for (int v = 0; v < vectors; v++) {
            Val *sum = &sums[row * vectors + v];
            *sum = be_intrinsic3(u, "llvm.fma", x, columns[v], *sum);
        }
    }
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

/* sums, or those of the blocks before and sums. */
static void
store_sums(const Adder *a, const Val *sums, int num)
{
    BeUnit *u = a->e->u;
    Block more = be_block(u, "more"), first = be_block(u, "first");
    Block end = be_block(u, "end");
    be_branch(u, a->params[EMIT_MORE], more, first);
    be_at(u, more);
    for (int i = 0; i < num; i++) {
        Val p = sum_at(a, i);
        Val old = be_load(u, a->vector, p, (unsigned)a->bytes);
        be_store(u, LLVMBuildFAdd(u->builder, old, sums[i], ""), p,
                 (unsigned)a->bytes);
    }
    be_goto(u, end);
    be_at(u, first);
    for (int i = 0; i < num; i++)
        be_store(u, sums[i], sum_at(a, i), (unsigned)a->bytes);
    be_goto(u, end);
    be_at(u, end);
}

Val
emit_adder(Emit *e, const EmitProduct *p, const EmitPlan *plan)
{
    BeUnit *u = e->u;
    Type params[] = {u->ptr, u->ptr, u->ptr, u->i64, u->i64, u->i1};
    Adder a = {.e = e, .product = p, .plan = plan};
    a.type = emit_type(e, p->contract->dtype);
    a.vector = be_vector(a.type, plan->lanes);
    a.bytes = (int64_t)dtype_info[p->contract->dtype].bytes;
    Val fn =
        be_func_begin(u, "adder", u->nothing, params, EMIT_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    emit_use_registers(e);
    for (int i = 0; i < EMIT_NUM_PARAMS; i++)
        a.params[i] = LLVMGetParam(fn, (unsigned)i);
    Val sums[BE_MAX_CARRIED];
    int num = plan->height * plan->vectors;
    BeLoop l;
    be_loop_begin(u, &l, emit_word(e, 0), a.params[EMIT_COUNT], emit_word(e, 1),
                  "k");
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_carry(u, &l, be_zero(a.vector));
    be_loop_body(u, &l);
    add_product(&a, l.index, sums);
    for (int i = 0; i < num; i++)
        be_loop_next(&l, i, sums[i]);
    be_loop_end(u, &l);
    for (int i = 0; i < num; i++)
        sums[i] = be_loop_result(&l, i);
    store_sums(&a, sums, num);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}
