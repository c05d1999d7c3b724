/*
 * emit_index.c - dimensions, indices and addresses
 *
 * An index expression is linear, so its value for another row, vector or lane
 * is that of the first one plus a step; only the quotient of an index that
 * varies along the tile has arbitrary numbers there.  Addresses are computed
 * from these parts, so that code for neighbours differs by constants.
 *
 * In lanes indices are i32 where the kernel is small enough for that, since
 * gathers are faster with them.
 */
#include "backend/codegen/emit.h"

#include <assert.h>
#include "backend/kernel/kernel_impl.h"

/* ---- dimensions --------------------------------------------------------- */

static int64_t
symbol_bound(const BeKernel *k, int32_t sym)
{
    const KPair *p = &k->pairs.data[sym / 2];
    return sym % 2 ? p->total : p->bound;
}

static int64_t
saturating_mul(int64_t x, int64_t y)
{
    int64_t r;
    return __builtin_mul_overflow(x, y, &r) ? INT64_MAX : r;
}

static int64_t
saturating_add(int64_t x, int64_t y)
{
    int64_t r;
    return __builtin_add_overflow(x, y, &r) ? INT64_MAX : r;
}

int64_t
be_dim_bound(const BeKernel *k, Dim d)
{
    if (ir_dim_is_const(d) || d.k < 0)
        return d.c;
    return saturating_add(saturating_mul(d.k, symbol_bound(k, d.sym)), d.c);
}

int64_t
be_ranges_bound(const BeKernel *k, const KRanges *r)
{
    int64_t points = 1;
    for (int i = 0; i < r->count; i++)
        points = saturating_mul(points, be_dim_bound(k, r->vars[i]->extent));
    return points;
}

int64_t
be_var_bound(const BeKernel *k, const KVar *var)
{
    int64_t most = be_dim_bound(k, var->extent);
    for (int i = 0; i < k->segments.len; i++)
        most = k->segments.data[i] > most ? k->segments.data[i] : most;
    return most;
}

int64_t
be_items_bound(const BeKernel *k)
{
    return k->segments.len ? be_kernel_items(k).c
                           : be_ranges_bound(k, &k->grid);
}

/* Arithmetic in the entry block, once for every dimension. */
static Val
new_dim(Emit *e, Dim d)
{
    BeUnit *u = e->u;
    Block here = be_insert_block(u);
    be_position_at_end(u, u->entry);
    Val rows = e->lowering->call_word(e, be_kernel_symbol_word(d.sym));
    if (d.k != 1)
        rows = be_mul(u, rows, be_word(u, d.k));
    if (d.c != 0)
        rows = be_add(u, rows, be_word(u, d.c));
    rows = LLVMBuildIntCast2(u->builder, rows, e->word, 1, "");
    be_position_at_end(u, here);
    return rows;
}

Val
be_emit_dim(Emit *e, Dim d)
{
    if (ir_dim_is_const(d))
        return be_emit_word(e, d.c);
    for (int i = 0; i < e->dim_values.len; i++) {
        if (ir_dim_equal(e->dim_values.data[i].dim, d))
            return e->dim_values.data[i].value;
    }
    Val value = new_dim(e, d);
    VEC_PUSH(e->arena, e->dim_values, ((EmitDim){d, value}));
    return value;
}

Val
be_emit_ranges_size(Emit *e, const KRanges *r)
{
    Val points = be_emit_word(e, 1);
    for (int i = 0; i < r->count; i++)
        points = be_mul(e->u, points, be_emit_dim(e, r->vars[i]->extent));
    return points;
}

/* ---- spaces ------------------------------------------------------------- */

EmitSpace
be_space_of(const KRanges *r)
{
    EmitSpace s = {.count = r->count};
    for (int i = 0; i < r->count; i++)
        s.vars[i] = r->vars[i];
    return s;
}

bool
be_space_is_const(const EmitSpace *s)
{
    for (int i = 0; i < s->count; i++) {
        if (!ir_dim_is_const(s->vars[i]->extent))
            return false;
    }
    return true;
}

Val
be_emit_extent(Emit *e, Dim extent)
{
    Val size = be_emit_dim(e, extent), zero = be_emit_word(e, 0);
    if (ir_dim_is_const(extent) || extent.c >= 0)
        return size;
    return be_select(e->u, be_icmp(e->u, LLVMIntSLT, size, zero), zero, size);
}

Val
be_space_size(Emit *e, const EmitSpace *s)
{
    Val points = be_emit_word(e, 1);
    for (int i = 0; i < s->count; i++)
        points = be_mul(e->u, points, be_emit_extent(e, s->vars[i]->extent));
    return points;
}

int64_t
be_space_bound(const BeKernel *k, const EmitSpace *s)
{
    int64_t points = 1;
    for (int i = 0; i < s->count; i++)
        points = saturating_mul(points, be_dim_bound(k, s->vars[i]->extent));
    return points;
}

Val
be_emit_divmod(Emit *e, Val *number, Val extent)
{
    LLVMBuilderRef b = e->u->builder;
    Val rest = LLVMBuildURem(b, *number, extent, "");
    *number = LLVMBuildUDiv(b, *number, extent, "");
    return rest;
}

void
be_space_delinearize(Emit *e, const EmitSpace *s, Val number)
{
    assert(s->count >= 0 && s->count <= 2 * IR_MAX_RANK);
    for (int i = s->count - 1; i > 0; i--) {
        Val extent = be_emit_extent(e, s->vars[i]->extent);
        Val at = be_emit_divmod(e, &number, extent);
        e->indices[s->vars[i]->id] = (EmitIndex){.base = at};
    }
    if (s->count)
        e->indices[s->vars[0]->id] = (EmitIndex){.base = number};
}

/* ---- 32 or 64 bits ------------------------------------------------------ */

static int64_t
magnitude(const BeKernel *k, Dim d)
{
    int64_t c = d.c < 0 ? saturating_mul(d.c, -1) : d.c;
    if (ir_dim_is_const(d))
        return c;
    int64_t step = d.k < 0 ? saturating_mul(d.k, -1) : d.k;
    return saturating_add(saturating_mul(step, symbol_bound(k, d.sym)), c);
}

/* No partial sum of x is larger. */
static int64_t
index_magnitude(const BeKernel *k, const KIndex *x)
{
    int64_t sum = magnitude(k, x->base);
    for (int i = 0; i < x->num_terms; i++) {
        int64_t coef = magnitude(k, x->terms[i].coef);
        int64_t extent = magnitude(k, x->terms[i].var->extent);
        sum = saturating_add(sum, saturating_mul(coef, extent));
    }
    return sum;
}

typedef struct Width {
    const BeKernel *k;
    bool wide;
} Width;

static void
note_width(KNode *n, void *data)
{
    Width *w = data;
    KRanges *ranges;
    const KIndex *x = be_kernel_index(n);
    if (x && index_magnitude(w->k, x) > INT32_MAX)
        w->wide = true;
    if (be_kernel_body(n, &ranges) && be_ranges_bound(w->k, ranges) > INT32_MAX)
        w->wide = true;
}

bool
be_indices_are_wide(const BeKernel *k)
{
    Width w = {k, be_items_bound(k) > INT32_MAX};
    KBlock body = k->body;
    be_kernel_walk(&body, note_width, &w);
    return w.wide;
}

/* ---- expressions -------------------------------------------------------- */

static bool
is_zero(Dim d)
{
    return ir_dim_is_const(d) && d.c == 0;
}

/* Whether x has the two indices that lanes run through as one number. */
static bool
is_collapsed(const Emit *e, const KIndex *x)
{
    Dim whole, own;
    if (!e->tile.collapsed)
        return false;
    own = be_index_coef(x, e->tile.lane);
    return !is_zero(own) && ir_dim_mul(own, e->tile.lane->extent, &whole) &&
           ir_dim_equal(be_index_coef(x, e->tile.collapsed), whole);
}

static bool
is_of_collapsed(const Emit *e, const EmitAddress *a, const KVar *var)
{
    return a->collapsed && (var == e->tile.collapsed || var == e->tile.lane);
}

static Val
carried_word(const Emit *e, const KIndex *x)
{
    for (int i = e->carried.len - 1; i >= 0; i--)
        if (e->carried.data[i].of == x)
            return e->carried.data[i].word;
    return NULL;
}

EmitAddress
be_address_of(Emit *e, const KIndex *x)
{
    BeUnit *u = e->u;
    Val word = carried_word(e, x);
    EmitAddress a = {.of = x, .base = word ? word : be_emit_dim(e, x->base)};
    a.row_step = a.lane_step = ir_dim_const(0);
    a.collapsed = is_collapsed(e, x);
    if (a.collapsed) {
        a.lane_step = be_index_coef(x, e->tile.lane);
        Val part =
            be_mul(u, be_emit_dim(e, a.lane_step), e->tile.collapsed_begin);
        a.base = be_add(u, a.base, part);
    }
    for (int i = 0; i < x->num_terms; i++) {
        const KTerm *t = &x->terms[i];
        const EmitIndex *index = &e->indices[t->var->id];
        if (is_of_collapsed(e, &a, t->var))
            continue;
        if (index->each) {
            EmitVarying d = e->index_varying[t->var->id];
            a.any.row = a.any.row || d.row;
            a.any.lane = a.any.lane || d.lane;
            continue;
        }
        if (t->var == e->tile.row)
            a.row_step = t->coef;
        if (t->var == e->tile.lane)
            a.lane_step = t->coef;
        if (word)
            continue;
        Val part = be_mul(u, be_emit_dim(e, t->coef), index->base);
        a.base = be_add(u, a.base, part);
    }
    return a;
}

EmitVarying
be_address_varying(const Emit *e, const EmitAddress *a)
{
    return (EmitVarying){
        .row = a->any.row || !is_zero(a->row_step),
        .lane = e->tile.lanes && (a->any.lane || !is_zero(a->lane_step)),
    };
}

static Val
add_steps(Emit *e, Val x, Dim step, int64_t count)
{
    if (count == 0 || is_zero(step))
        return x;
    BeUnit *u = e->u;
    return be_add(u, x,
                  be_mul(u, be_emit_dim(e, step), be_emit_word(e, count)));
}

/* Calls for each term with arbitrary numbers, in lanes or elsewhere. */
static Val
add_any(Emit *e, const EmitAddress *a, Val sum, bool lanes, int row, int vector)
{
    BeUnit *u = e->u;
    for (int i = 0; i < a->of->num_terms; i++) {
        const KTerm *t = &a->of->terms[i];
        const EmitIndex *index = &e->indices[t->var->id];
        EmitVarying d = e->index_varying[t->var->id];
        d.lane = d.lane && e->tile.lanes;
        if (!index->each || d.lane != lanes || is_of_collapsed(e, a, t->var))
            continue;
        Val coef = be_emit_dim(e, t->coef);
        if (lanes)
            coef = be_splat(
                u, LLVMBuildIntCast2(u->builder, coef, e->lane_int, 1, ""),
                e->tile.lanes);
        Val x = index->each->v[be_emit_slot(e, d, row, vector)];
        sum = be_add(u, sum, be_mul(u, coef, x));
    }
    return sum;
}

int64_t
be_emit_vector_step(const Emit *e)
{
    int lanes = e->tile.lanes ? e->tile.lanes : 1;
    return e->tile.vector_step ? e->tile.vector_step : lanes;
}

Val
be_address_scalar(Emit *e, const EmitAddress *a, int row, int vector)
{
    Val x = add_steps(e, a->base, a->row_step, row);
    x = add_steps(e, x, a->lane_step, vector * be_emit_vector_step(e));
    return add_any(e, a, x, false, row, vector);
}

Val
be_address_lanes(Emit *e, const EmitAddress *a, int row, int vector)
{
    BeUnit *u = e->u;
    Type type = be_vector(e->lane_int, e->tile.lanes);
    Val step = LLVMBuildIntCast2(u->builder, be_emit_dim(e, a->lane_step),
                                 e->lane_int, 1, "");
    Val lanes =
        be_mul(u, be_splat(u, step, e->tile.lanes), be_lane_numbers(type));
    return add_any(e, a, lanes, true, row, vector);
}

/* The whole expression: a word, or a vector of lane_int. */
static Val
valid_index(Emit *e, const EmitAddress *a, bool lanes, int row, int vector)
{
    BeUnit *u = e->u;
    Val x = be_address_scalar(e, a, row, vector);
    if (!lanes)
        return x;
    x = LLVMBuildIntCast2(u->builder, x, e->lane_int, 1, "");
    x = be_splat(u, x, e->tile.lanes);
    return be_add(u, x, be_address_lanes(e, a, row, vector));
}

/* ---- nodes -------------------------------------------------------------- */

/* x / by for vectors; the result is arbitrary where x is negative. An i32
 * divided by a value that is no constant is divided as f64, which is exact
 * then. */
static Val
divide_lanes(Emit *e, Val x, Val by)
{
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    if (LLVMIsConstant(by) || e->lane_int == u->i64)
        return LLVMBuildUDiv(b, x, by, "");
    Type floats = be_retype(type, u->f64);
    Val zero = be_zero(type);
    x = be_select(u, be_icmp(u, LLVMIntSLT, x, zero), zero, x);
    x = LLVMBuildSIToFP(b, x, floats, "");
    by = LLVMBuildSIToFP(b, by, floats, "");
    return LLVMBuildFPToSI(b, LLVMBuildFDiv(b, x, by, ""), type, "");
}

static Val
divided(Emit *e, const KNode *n, Val x, Val by, bool lanes)
{
    BeUnit *u = e->u;
    Val q =
        lanes ? divide_lanes(e, x, by) : LLVMBuildUDiv(u->builder, x, by, "");
    return n->kind == K_DIV ? q : be_sub(u, x, be_mul(u, q, by));
}

void
be_emit_set_collapsed(Emit *e, Val number)
{
    BeUnit *u = e->u;
    Type type = be_vector(e->lane_int, e->tile.lanes);
    Val first = LLVMBuildIntCast2(u->builder, number, e->lane_int, 1, "");
    Val all =
        be_add(u, be_splat(u, first, e->tile.lanes), be_lane_numbers(type));
    Val extent = be_int(type, e->tile.lane->extent.c);
    EmitValue *slow = NEW(e->arena, EmitValue);
    EmitValue *lane = NEW(e->arena, EmitValue);
    slow->v[0] = divide_lanes(e, all, extent);
    lane->v[0] = be_sub(u, all, be_mul(u, slow->v[0], extent));
    e->indices[e->tile.collapsed->id] = (EmitIndex){.each = slow};
    e->indices[e->tile.lane->id] = (EmitIndex){.each = lane};
    e->tile.collapsed_begin = number;
}

/* The divisor.  It may be 0 when a batch is empty, under a guard that is then
 * false, but a division by 0 would trap. */
static Val
divisor(Emit *e, Dim by)
{
    BeUnit *u = e->u;
    Val x = be_emit_dim(e, by);
    if (ir_dim_is_const(by))
        return x;
    Val none = be_icmp(u, LLVMIntEQ, x, be_emit_word(e, 0));
    return be_select(u, none, be_emit_word(e, 1), x);
}

void
be_emit_divide(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    EmitIndex *index = &e->indices[n->divide.var->id];
    EmitVarying d = e->index_varying[n->divide.var->id];
    d.lane = d.lane && e->tile.lanes;
    EmitAddress a = be_address_of(e, &n->divide.of);
    Val by = divisor(e, n->divide.by);
    if (!d.row && !d.lane) {
        *index = (EmitIndex){
            .base = divided(e, n, be_address_scalar(e, &a, 0, 0), by, false)};
        return;
    }
    if (d.lane)
        by = be_splat(u, LLVMBuildIntCast2(u->builder, by, e->lane_int, 1, ""),
                      e->tile.lanes);
    EmitValue *each = NEW(e->arena, EmitValue);
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val x = valid_index(e, &a, d.lane, row, v);
            each->v[be_emit_slot(e, d, row, v)] = divided(e, n, x, by, d.lane);
        }
    }
    *index = (EmitIndex){.each = each};
}

/* x, an i64 or a vector of them, clamped to 0 .. last, as an index. */
static Val
picked(Emit *e, Val x, Val last)
{
    BeUnit *u = e->u;
    Type type = LLVMTypeOf(x);
    int lanes = be_lanes(type);
    Val most = lanes ? be_splat(u, last, lanes) : last, zero = be_zero(type);
    x = be_select(u, be_icmp(u, LLVMIntSGT, x, most), most, x);
    x = be_select(u, be_icmp(u, LLVMIntSLT, x, zero), zero, x);
    Type index = lanes ? be_vector(e->lane_int, lanes) : e->word;
    return LLVMBuildIntCast2(u->builder, x, index, 1, "");
}

void
be_emit_pick(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const KVar *var = n->pick.var;
    EmitVarying d = e->index_varying[var->id];
    d.lane = d.lane && e->tile.lanes;
    Val size = LLVMBuildIntCast2(u->builder, be_emit_dim(e, var->extent),
                                 u->i64, 1, "");
    Val last = be_sub(u, size, be_word(u, 1));
    if (!d.row && !d.lane) {
        Val x = be_emit_get(e, n->pick.value, 0, 0);
        e->indices[var->id] = (EmitIndex){.base = picked(e, x, last)};
        return;
    }
    EmitValue *each = NEW(e->arena, EmitValue);
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val x = be_emit_get_as(e, n->pick.value, row, v, d.lane);
            each->v[be_emit_slot(e, d, row, v)] = picked(e, x, last);
        }
    }
    e->indices[var->id] = (EmitIndex){.each = each};
}

/* The same for all rows and lanes of the tile. */
static void
emit_known(Emit *e, const KNode *n, bool holds)
{
    BeUnit *u = e->u;
    EmitVarying d = be_emit_varying(e, n);
    Type type = d.lane ? be_vector(u->i1, e->tile.lanes) : u->i1;
    for (int row = 0; row < be_emit_rows(e, d); row++)
        for (int v = 0; v < be_emit_vectors(e, d); v++)
            be_emit_set(e, n, row, v, be_int(type, holds));
}

void
be_emit_inside(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    if (e->known[n->id] != EMIT_UNKNOWN) {
        emit_known(e, n, e->known[n->id] == EMIT_HOLDS);
        return;
    }
    EmitVarying d = be_emit_varying(e, n);
    EmitAddress a = be_address_of(e, &n->inside.index);
    Val size = be_emit_dim(e, n->inside.size);
    Val none = be_icmp(u, LLVMIntSLT, size, be_emit_word(e, 0));
    size =
        be_select(u, none, be_emit_word(e, 0), size); /* 2 * n - 1 for no rows
                                                       */
    if (d.lane)
        size =
            be_splat(u, LLVMBuildIntCast2(u->builder, size, e->lane_int, 1, ""),
                     e->tile.lanes);
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val x = valid_index(e, &a, d.lane, row, v);
            be_emit_set(e, n, row, v, be_icmp(u, LLVMIntULT, x, size));
        }
    }
}

void
be_emit_index_value(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    EmitVarying d = be_emit_varying(e, n);
    EmitAddress a = be_address_of(e, &n->index);
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val x = valid_index(e, &a, d.lane, row, v);
            Type type = be_retype(LLVMTypeOf(x), u->i64);
            x = LLVMBuildIntCast2(u->builder, x, type, 1, "");
            be_emit_set(e, n, row, v, x);
        }
    }
}
