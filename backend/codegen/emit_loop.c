/*
 * emit_loop.c - the grid and loops: tiles, lanes, remainders
 *
 * A vector construct of a known extent is cut where conditions on its index
 * change, as the bounds of what is concatenated do (index-set splitting):
 * within a piece they are known, so what another piece needs is neither loaded
 * nor computed there.
 *
 * A piece is executed in blocks of some vectors, then the remainder:
 * for known extents one smaller block, for unknown ones a loop over single
 * vectors, or lines of them, the last with a mask.  Code is emitted for each of
 * these, so bodies that are long or seldom executed have only the loop over
 * single vectors.
 *
 * Kernels with contractions execute several items of the grid at once, since
 * their products share operands; the remainder is executed one by one.
 */
#include "backend/codegen/emit.h"

#include <string.h>

enum {
    FEW_OPERATIONS = 6,
    SOME_OPERATIONS = 14,
    MANY_OPERATIONS = 120,
    LONG_TILE = 128,
    LONG_COLUMN = 32, /* rows */
    LESS_OF_ROW = 4,  /* times fewer vectors for the rest of a row */
    MAX_PIECES = 8,
    LONG_PIECES = 512 /* code size of all of them */
};

/* ---- choices ------------------------------------------------------------ */

static bool
has_narrow_values(const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        const KBlock *body = n->kind == K_REDUCE     ? &n->reduce.body
                             : n->kind == K_CONTRACT ? &n->contract.body
                             : n->kind == K_SCAN     ? &n->scan.body
                                                     : NULL;
        bool counts = be_kernel_kinds[n->kind].has_value &&
                      n->kind != K_CONST && n->dtype != DT_bool;
        if ((counts && dtype_info[n->dtype].bytes <= 4) ||
            (body && has_narrow_values(body)))
            return true;
    }
    return false;
}

int
be_emit_choose_lanes(const Emit *e, const KBlock *b, int64_t bound)
{
    int most = e->target->register_bytes / (has_narrow_values(b) ? 4 : 8);
    int lanes = 1;
    while (lanes < most && lanes < bound)
        lanes *= 2;
    return lanes > 1 ? lanes : 0;
}

/* Whether b goes through so many rows that it should go through each only once
 * for several vectors of its columns: a vector's part of a row is one line of
 * the cache, and the next row is on another page. */
static bool
has_long_columns(const Emit *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        if (n->kind == K_REDUCE &&
            (be_kernel_contains(&n->reduce.body, K_REDUCE) ||
             be_ranges_bound(e->k, &n->reduce.ranges) < LONG_COLUMN))
            return false;
    return be_kernel_code_size(b) <= MANY_OPERATIONS / 2;
}

/* Whether products read rows that are in the same set of the first cache: they
 * displace each other where there are many. */
static bool
has_conflicts(const Emit *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_CONTRACT || n->contract.pairs)
            continue;
        for (const KNode *x = n->contract.body.first; x; x = x->next)
            if (x->kind == K_LOAD && be_emit_lanes_conflict(e, x))
                return true;
    }
    return false;
}

/* Whether b changes rows one after the other, each at a place of its own: a
 * pass over all of them for as many columns as there are registers for. */
static bool
changes_rows(const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        if (n->kind == K_LOOP && n->loop.ordered)
            return be_kernel_code_size(b) <= 2 * SOME_OPERATIONS;
    return false;
}

static int
choose_vectors(const Emit *e, const KBlock *b, int64_t bound, int lanes)
{
    int vectors = 1;
    double cost = be_kernel_cost(e->k, b);
    if (be_kernel_contains(b, K_SCAN))
        return 1;
    if (changes_rows(b))
        vectors = BE_MAX_VECTORS;
    else if (be_kernel_contains(b, K_REDUCE))
        vectors = has_long_columns(e, b) ? 4 : 1;
    else if (be_kernel_contains(b, K_CONTRACT))
        vectors = has_conflicts(e, b) ? 1 : 2;
    else if (e->tile.rows == lanes) /* a square */
        vectors = 1;
    else
        vectors = cost <= FEW_OPERATIONS ? 4 : cost <= SOME_OPERATIONS ? 2 : 1;
    while (vectors > 1 && (int64_t)vectors * lanes > bound)
        vectors /= 2;
    return vectors;
}

/* Items of the grid that are executed together: the accumulators of a tile and
 * the operands of a step must fit the registers, and the code after the
 * accumulators is emitted for each of them. */
static int
most_rows(const Emit *e)
{
    int rows = e->target->num_registers == 32 ? BE_MAX_ROWS : 4;
    while (rows > 2 && rows * be_kernel_code_size(&e->k->body) > LONG_TILE)
        rows /= 2;
    return rows;
}

/* The vector loop at the end of the kernel; NULL: there is none. */
static const KNode *
last_vector_loop(const Emit *e)
{
    const KNode *loop = e->k->body.last;
    bool is_vector = loop && loop->kind == K_LOOP && loop->loop.vector;
    return is_vector ? loop : NULL;
}

/* A contraction in that loop, and the loop's index; NULL: there is none. */
static const KNode *
contraction_in_lanes(const Emit *e, const KVar **lane)
{
    const KNode *loop = last_vector_loop(e);
    if (!loop)
        return NULL;
    *lane = loop->loop.ranges.vars[0];
    for (const KNode *n = loop->loop.body.first; n; n = n->next)
        if (n->kind == K_CONTRACT && n->contract.ranges.count)
            return n;
    return NULL;
}

/* Whether lanes read a matrix with a stride, and each row one of its own, as in
 * a batch of matrices times vectors: rows then share nothing, and a row alone
 * reads along the products and transposes. */
static bool
has_matrix_of_row(const Emit *e)
{
    const Dim none = ir_dim_const(0), one = ir_dim_const(1);
    const KRanges *grid = &e->k->grid;
    const KVar *lane, *row = grid->vars[grid->count - 1];
    const KNode *contract = contraction_in_lanes(e, &lane);
    bool has_matrix = false;
    if (!contract)
        return false;
    const KRanges *r = &contract->contract.ranges;
    for (const KNode *n = contract->contract.body.first; n; n = n->next) {
        if (n->kind != K_LOAD)
            continue;
        Dim along = be_index_coef(&n->load.at, lane);
        if (ir_dim_equal(along, none))
            continue;
        if (ir_dim_equal(be_index_coef(&n->load.at, row), none))
            return false;
        Dim product = be_index_coef(&n->load.at, r->vars[r->count - 1]);
        has_matrix |= !ir_dim_equal(along, one) && ir_dim_equal(product, one);
    }
    return has_matrix;
}

/* Prefers a number that divides the extent. */
static int
choose_rows(const Emit *e)
{
    const KRanges *grid = &e->k->grid;
    int most = has_matrix_of_row(e) ? 1 : most_rows(e);
    Dim extent = grid->vars[grid->count - 1]->extent;
    if (!ir_dim_is_const(extent))
        return most;
    if (extent.c < most)
        return extent.c > 1 ? (int)extent.c : 1;
    for (int rows = most; rows > most / 2; rows--) {
        if (extent.c % rows == 0)
            return rows;
    }
    return most;
}

/* ---- one index ---------------------------------------------------------- */

static void
emit_body_at(Emit *e, const KVar *var, Val at, const KBlock *body)
{
    e->indices[var->id] = (EmitIndex){.base = at};
    be_emit_block(e, body);
}

/* body for var from begin to end, in steps. */
static void
emit_steps(Emit *e, const KVar *var, Val begin, Val end, int64_t step,
           const KBlock *body)
{
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_word(u, step), "i");
    be_loop_body(u, &l);
    emit_body_at(e, var, l.index, body);
    be_loop_end(u, &l);
}

static Val
round_down(Emit *e, Val count, int64_t step)
{
    BeUnit *u = e->u;
    Val rest = LLVMBuildURem(u->builder, count, be_word(u, step), "");
    return be_sub(u, count, rest);
}

/* ---- lanes -------------------------------------------------------------- */

Val
be_emit_first_lanes(Emit *e, Val count, int lanes)
{
    BeUnit *u = e->u;
    int64_t known;
    Type type = be_vector(u->i32, lanes);
    if (be_is_const(count, &known) && known >= lanes)
        return NULL;
    Val few = be_min(u, count, be_word(u, lanes));
    few = LLVMBuildTrunc(u->builder, few, u->i32, "");
    return be_icmp(u, LLVMIntSLT, be_lane_numbers(type),
                   be_splat(u, few, lanes));
}

/* ---- pieces ------------------------------------------------------------- */

/* Where a vector construct begins, is cut and ends. */
typedef struct Cuts {
    int pieces;
    int64_t at[MAX_PIECES + 1];
} Cuts;

static int64_t
clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Whether n is a condition that holds for begin <= var < end alone, of the
 * values 0 .. count, and both are at whole vectors. */
static bool
holds_between(const Emit *e, const KNode *n, const KVar *var, int64_t count,
              int64_t *begin, int64_t *end)
{
    const Dim one = ir_dim_const(1);
    const KIndex *x = &n->inside.index;
    int64_t stop;
    if (n->kind != K_INSIDE || x->num_terms != 1 || x->terms[0].var != var ||
        !ir_dim_equal(x->terms[0].coef, one) || !ir_dim_is_const(x->base) ||
        !ir_dim_is_const(n->inside.size) || x->base.c == INT64_MIN ||
        __builtin_sub_overflow(n->inside.size.c, x->base.c, &stop))
        return false;
    *begin = clamp(-x->base.c, count);
    *end = clamp(stop, count);
    return *begin % e->tile.lanes == 0 &&
           (*end % e->tile.lanes == 0 || *end == count);
}

/* False: there are too many. */
static bool
add_cut(Cuts *c, int64_t at)
{
    int i = 0;
    while (c->at[i] < at)
        i++;
    if (c->at[i] == at)
        return true;
    if (c->pieces == MAX_PIECES)
        return false;
    memmove(&c->at[i + 1], &c->at[i],
            (size_t)(c->pieces + 1 - i) * sizeof c->at[0]);
    c->at[i] = at;
    c->pieces++;
    return true;
}

static Cuts
find_cuts(const Emit *e, const KVar *var, int64_t count, const KBlock *body)
{
    const Cuts none = {1, {0, count}};
    Cuts c = none;
    int64_t begin, end;
    for (const KNode *n = body->first; n; n = n->next)
        if (holds_between(e, n, var, count, &begin, &end) &&
            !(add_cut(&c, begin) && add_cut(&c, end)))
            return none;
    return c.pieces * be_kernel_code_size(body) <= LONG_PIECES ? c : none;
}

/* Notes which conditions of body hold from `from` to `to`, which is a piece. */
static void
set_known(Emit *e, const KVar *var, int64_t count, int64_t from, int64_t to,
          const KBlock *body)
{
    int64_t begin, end;
    for (const KNode *n = body->first; n; n = n->next)
        if (holds_between(e, n, var, count, &begin, &end))
            e->known[n->id] = begin <= from && to <= end   ? EMIT_HOLDS
                              : to <= begin || end <= from ? EMIT_FAILS
                                                           : EMIT_UNKNOWN;
}

/* From .. to: full blocks, and a smaller one. */
static void
emit_piece(Emit *e, const KVar *var, int64_t from, int64_t to,
           const KBlock *body)
{
    BeUnit *u = e->u;
    int lanes = e->tile.lanes;
    int64_t block = (int64_t)lanes * e->tile.vectors;
    int64_t whole = (to - from) / block;
    int64_t middle = from + whole * block;
    if (whole == 1)
        emit_body_at(e, var, be_word(u, from), body);
    else if (whole > 1)
        emit_steps(e, var, be_word(u, from), be_word(u, middle), block, body);
    int rest = (int)(to - middle);
    if (!rest)
        return;
    e->tile.vectors = (rest + lanes - 1) / lanes;
    int last = e->tile.vectors - 1;
    e->tile.mask[last] =
        be_emit_first_lanes(e, be_word(u, rest - last * lanes), lanes);
    emit_body_at(e, var, be_word(u, middle), body);
}

/* A known number of rounds. */
static void
emit_known_lanes(Emit *e, const KVar *var, int64_t count, const KBlock *body)
{
    const EmitTile tile = e->tile;
    Cuts cuts = find_cuts(e, var, count, body);
    for (int i = 0; i < cuts.pieces; i++) {
        set_known(e, var, count, cuts.at[i], cuts.at[i + 1], body);
        emit_piece(e, var, cuts.at[i], cuts.at[i + 1], body);
        e->tile = tile;
    }
    for (const KNode *n = body->first; n; n = n->next)
        if (n->kind == K_INSIDE)
            e->known[n->id] = EMIT_UNKNOWN;
}

/* Vectors that read a line of the cache together. */
static int
vectors_of_line(const Emit *e)
{
    return CACHE_LINE / e->target->register_bytes;
}

/* Whether a body for that many vectors goes through long columns, by whole
 * lines.  A vector of a line may have no active lane, but strips of a
 * contraction need one. */
static bool
goes_by_lines(const KBlock *body, int vectors)
{
    return vectors > 1 && be_kernel_contains(body, K_REDUCE) &&
           !be_kernel_contains(body, K_CONTRACT);
}

/* Single vectors with masks, or those of a line. */
static void
emit_masked_lanes(Emit *e, const KVar *var, Val begin, Val end,
                  const KBlock *body)
{
    BeUnit *u = e->u;
    BeLoop l;
    int lanes = e->tile.lanes;
    int vectors = goes_by_lines(body, e->tile.vectors) ? vectors_of_line(e) : 1;
    be_loop_begin(u, &l, begin, end, be_word(u, vectors * lanes), "i");
    be_loop_body(u, &l);
    e->tile.vectors = vectors;
    Val left = be_sub(u, end, l.index);
    for (int v = 0; v < vectors; v++)
        e->tile.mask[v] = be_emit_first_lanes(
            e, be_sub(u, left, be_word(u, v * lanes)), lanes);
    emit_body_at(e, var, l.index, body);
    be_loop_end(u, &l);
}

/* Whether single vectors without a mask have code of their own, beside that for
 * vectors with one: not if that is long.  Where masks have registers they
 * cost little. */
static bool
has_whole_vectors(const Emit *e, const KBlock *body)
{
    int most =
        be_emit_has_mask_registers(e) ? MANY_OPERATIONS / 2 : MANY_OPERATIONS;
    return !be_kernel_contains(body, K_REDUCE) &&
           be_kernel_cost(e->k, body) <= most;
}

/* As many whole blocks of vectors as there are; where the rest begins. */
static Val
emit_blocks(Emit *e, const KVar *var, Val begin, Val end, const KBlock *body)
{
    BeUnit *u = e->u;
    int64_t block = (int64_t)e->tile.lanes * e->tile.vectors;
    Val whole = round_down(e, be_sub(u, end, begin), block);
    Val middle = be_add(u, begin, whole);
    emit_steps(e, var, begin, middle, block, body);
    return middle;
}

static void
emit_unknown_lanes(Emit *e, const KVar *var, Val begin, Val end,
                   const KBlock *body)
{
    if (e->tile.vectors > 1 || has_whole_vectors(e, body))
        begin = emit_blocks(e, var, begin, end, body);
    if (e->tile.vectors > LESS_OF_ROW && changes_rows(body)) {
        e->tile.vectors /= LESS_OF_ROW;
        begin = emit_blocks(e, var, begin, end, body);
    }
    emit_masked_lanes(e, var, begin, end, body);
}

/* body for var from begin to end, in lanes if that is worthwhile. */
static void
emit_lanes(Emit *e, const KVar *var, Val begin, Val end, const KBlock *body)
{
    EmitTile outer = e->tile;
    int64_t bound = be_var_bound(e->k, var), from, to;
    int lanes = be_emit_choose_lanes(e, body, bound);
    if (!lanes) {
        emit_steps(e, var, begin, end, 1, body);
        return;
    }
    e->tile.lanes = lanes;
    e->tile.lane = var;
    e->tile.vectors = choose_vectors(e, body, bound, lanes);
    if (be_is_const(begin, &from) && be_is_const(end, &to))
        emit_known_lanes(e, var, to - from, body);
    else
        emit_unknown_lanes(e, var, begin, end, body);
    e->tile = outer;
}

/* ---- loops -------------------------------------------------------------- */

static void
emit_nest(Emit *e, const KRanges *r, int depth, const KBlock *body)
{
    if (depth == r->count) {
        be_emit_block(e, body);
        return;
    }
    BeUnit *u = e->u;
    BeLoop l;
    const KVar *var = r->vars[depth];
    be_loop_begin(u, &l, be_word(u, 0), be_emit_dim(e, var->extent),
                  be_word(u, 1), "i");
    be_loop_body(u, &l);
    e->indices[var->id] = (EmitIndex){.base = l.index};
    emit_nest(e, r, depth + 1, body);
    be_loop_end(u, &l);
}

void
be_emit_loop(Emit *e, const KNode *n)
{
    const KRanges *r = &n->loop.ranges;
    if (n->loop.vector)
        emit_lanes(e, r->vars[0], be_word(e->u, 0),
                   be_emit_dim(e, r->vars[0]->extent), &n->loop.body);
    else
        emit_nest(e, r, 0, &n->loop.body);
}

/* ---- the grid ----------------------------------------------------------- */

/* Items whose last index is begin to end and whose others are known. */
static void
emit_grid_rows(Emit *e, const KVar *var, Val begin, Val end, int rows)
{
    BeUnit *u = e->u;
    if (rows > 1) {
        Val whole = round_down(e, be_sub(u, end, begin), rows);
        Val middle = be_add(u, begin, whole);
        e->tile.rows = rows;
        emit_steps(e, var, begin, middle, rows, &e->k->body);
        e->tile.rows = 1;
        begin = middle;
    }
    emit_steps(e, var, begin, end, 1, &e->k->body);
}

/* The indices of all ranges but the last, from an item's number without the
 * last. */
static void
split_item(Emit *e, Val item)
{
    const KRanges *grid = &e->k->grid;
    LLVMBuilderRef b = e->u->builder;
    for (int i = grid->count - 2; i >= 0; i--) {
        Val extent = be_emit_dim(e, grid->vars[i]->extent);
        Val at = i ? LLVMBuildURem(b, item, extent, "") : item;
        e->indices[grid->vars[i]->id] = (EmitIndex){.base = at};
        if (i)
            item = LLVMBuildUDiv(b, item, extent, "");
    }
}

/* Rounds that each execute the requested part of one run of the last index. */
static void
emit_grid_runs(Emit *e, int rows)
{
    BeUnit *u = e->u;
    const KRanges *grid = &e->k->grid;
    const KVar *last = grid->vars[grid->count - 1];
    Val extent = be_emit_dim(e, last->extent);
    BeLoop l;
    be_loop_begin(u, &l, e->begin, e->end, NULL, "item");
    be_loop_body(u, &l);
    split_item(e, LLVMBuildUDiv(u->builder, l.index, extent, ""));
    Val from = LLVMBuildURem(u->builder, l.index, extent, "");
    Val left = be_sub(u, e->end, l.index);
    l.step = be_min(u, left, be_sub(u, extent, from));
    emit_grid_rows(e, last, from, be_add(u, from, l.step), rows);
    be_loop_end(u, &l);
}

/* Loads of b that are contiguous along row instead of lane. */
static int
count_turned(const KBlock *b, const KVar *row, const KVar *lane)
{
    const Dim none = ir_dim_const(0), one = ir_dim_const(1);
    int count = 0;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_LOAD || n->load.guard)
            continue;
        Dim along = be_index_coef(&n->load.at, lane);
        count += ir_dim_equal(be_index_coef(&n->load.at, row), one) &&
                 !ir_dim_equal(along, one) && !ir_dim_equal(along, none);
    }
    return count;
}

/* How many rows to execute at once so that loads across them are done along
 * them, as a square; 1 if there are none. */
static int
choose_square(const Emit *e, const KVar *row)
{
    const KNode *loop = last_vector_loop(e);
    if (!loop || be_kernel_contains(&e->k->body, K_REDUCE) ||
        be_kernel_contains(&e->k->body, K_SCAN) ||
        be_kernel_contains(&e->k->body, K_CONTRACT))
        return 1;
    const KVar *lane = loop->loop.ranges.vars[0];
    const KBlock *body = &loop->loop.body;
    int lanes = be_emit_choose_lanes(e, body, be_dim_bound(e->k, lane->extent));
    bool good = lanes > 2 && lanes <= be_dim_bound(e->k, row->extent) &&
                lanes * be_kernel_code_size(body) <= LONG_TILE &&
                count_turned(body, row, lane);
    return good ? lanes : 1;
}

/* The item that stands for `item` where ranges end: the first one of a line. */
static Val
line_of(Emit *e, const KVar *var, Val item, int64_t line)
{
    BeUnit *u = e->u;
    Val next = be_add(u, item, be_word(u, line - 1));
    next = round_down(e, next, line);
    return be_min(u, next, be_emit_dim(e, var->extent));
}

/* Items of which neighbours are in the lanes.  Ranges of items that go through
 * long columns are of whole lines, whatever a thread was asked for. */
static void
emit_grid_lanes(Emit *e, const KVar *var)
{
    const KBlock *body = &e->k->body;
    Val begin = e->begin, end = e->end;
    int64_t bound = be_var_bound(e->k, var);
    int lanes = be_emit_choose_lanes(e, body, bound);
    if (lanes && goes_by_lines(body, choose_vectors(e, body, bound, lanes))) {
        int64_t line = (int64_t)lanes * vectors_of_line(e);
        begin = line_of(e, var, begin, line);
        end = line_of(e, var, end, line);
    }
    emit_lanes(e, var, begin, end, body);
}

/* Where each segment's items begin, and the end of the last one's. */
static Val
emit_starts(Emit *e)
{
    int num = e->k->segments.len;
    int64_t *starts = NEW_ARRAY(e->arena, int64_t, (size_t)num + 1);
    for (int i = 0; i < num; i++)
        starts[i + 1] = starts[i] + e->k->segments.data[i];
    return be_emit_numbers(e, "starts", starts, num + 1, 0);
}

/* The requested items of each segment. */
static void
emit_parts(Emit *e, const KVar *var)
{
    BeUnit *u = e->u;
    Val starts = emit_starts(e);
    Block some = be_block(u, "some"), none = be_block(u, "none");
    BeLoop l;
    be_loop_begin(u, &l, be_word(u, 0), be_word(u, e->k->segments.len),
                  be_word(u, 1), "part");
    be_loop_body(u, &l);
    Val start = be_emit_number(e, starts, l.index);
    Val stop = be_emit_number(e, starts, be_add(u, l.index, be_word(u, 1)));
    Val begin = be_max(u, e->begin, start), end = be_min(u, e->end, stop);
    be_cond_br(u, be_icmp(u, LLVMIntSLT, begin, end), some, none);
    be_position_at_end(u, some);
    be_emit_segment_arrays(e, LLVMGetParam(u->func, 0), u->ptr, l.index);
    begin = be_sub(u, begin, start);
    emit_lanes(e, var, begin, be_sub(u, end, start), &e->k->body);
    be_br(u, none);
    be_position_at_end(u, none);
    be_loop_end(u, &l);
}

void
be_emit_grid(Emit *e)
{
    const BeKernel *k = e->k;
    const KRanges *grid = &k->grid;
    bool tiles = grid->count && !k->grid_vector &&
                 be_kernel_contains(&k->body, K_CONTRACT) &&
                 !be_kernel_contains(&k->body, K_REDUCE) &&
                 !be_kernel_contains(&k->body, K_SCAN);
    const KVar *last = grid->count ? grid->vars[grid->count - 1] : NULL;
    int rows = tiles                     ? choose_rows(e)
               : last && !k->grid_vector ? choose_square(e, last)
                                         : 1;
    e->tile.row = rows > 1 ? last : NULL;
    be_emit_find_varying(e, e->tile.row);
    if (rows == 1 && !k->grid_vector && !e->partials)
        be_emit_find_kept(e);
    if (!last)
        be_emit_block(e, &k->body);
    else if (k->segments.len)
        emit_parts(e, last);
    else if (k->grid_vector)
        emit_grid_lanes(e, last);
    else if (grid->count == 1)
        emit_grid_rows(e, last, e->begin, e->end, rows);
    else
        emit_grid_runs(e, rows);
}
