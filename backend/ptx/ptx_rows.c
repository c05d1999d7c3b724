/*
 * ptx_rows.c - rows that stay in registers
 *
 * An item that consists of reductions and loops over the same elements (a
 * softmax, a norm) is a row.  A team of threads of one warp does it, each a
 * group of neighbours in every slot of the row:
 *
 *   element = (slot * team + lane) * width + number in the group
 *
 * Reductions and loops are the stages of the row.  What a stage loads, or
 * computes in many instructions, stays in registers for those after it.
 *
 * A slot has at most 64 elements, so that a thread folds the stripes of D2 that
 * it has in registers.  Of the tree over stripes the levels between slots
 * are a thread's own, those between threads are shuffles, and the last are
 * those in a group.  While a thread has several partial results, it gives away
 * half of them at each shuffle and gets its partner's share of the other half;
 * later levels, within the group, are shuffles between the same partners.  In
 * the end all threads have the total, without a barrier or shared memory.
 *
 * In the last slot some threads may have no elements: they load another
 * thread's, and neither fold nor store them.
 */
#include <math.h>
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_EACH = 64,   /* elements of a row that a thread has */
    MAX_KEPT = 160,  /* registers for values that stages share */
    MAX_NODES = 512, /* of all stages, where shared values are looked for */
    KEPT_COST = 4,   /* instructions of a value that is worth a register */
    MAX_CODE = 2048, /* operations of a thread */
    FULL_THREADS = 32768, /* that keep a machine's memory busy */
    FULL_BLOCKS = 264,    /* that keep its processors busy */
    MAX_THREADS = 256,    /* of a block */
    SECTOR = 32           /* bytes of memory that are read at once */
};

/* ---- stages ------------------------------------------------------------- */

static const KBlock *
stage_body(const KNode *n)
{
    return n->kind == K_REDUCE ? &n->reduce.body
           : n->kind == K_LOOP ? &n->loop.body
                               : NULL;
}

static KVar *
stage_var(const KNode *n)
{
    return n->kind == K_REDUCE ? n->reduce.ranges.vars[0]
                               : n->loop.ranges.vars[0];
}

static bool
is_plain(const KBlock *b)
{
    KRanges *ranges;
    for (KNode *n = b->first; n; n = n->next)
        if (be_kernel_body(n, &ranges) || n->kind == K_RUNNING)
            return false;
    return true;
}

/* The length of a row if n may be one of its stages, else 0. */
static int64_t
stage_length(const KNode *n)
{
    bool fits = n->kind == K_REDUCE ? n->reduce.vector : !n->loop.ordered;
    const KRanges *r =
        n->kind == K_REDUCE ? &n->reduce.ranges : &n->loop.ranges;
    if (!fits || r->count != 1 || !ir_dim_is_const(r->vars[0]->extent) ||
        !is_plain(stage_body(n)))
        return 0;
    return r->vars[0]->extent.c;
}

/* The elements of each row, or 0 where items are no rows. */
static int64_t
row_length(const BeKernel *k)
{
    int64_t length = 0;
    bool reduces = false;
    KRanges *ranges;
    for (KNode *n = k->body.first; n; n = n->next) {
        if (n->kind == K_REDUCE || n->kind == K_LOOP) {
            int64_t own = stage_length(n);
            if (!own || (length && own != length))
                return 0;
            length = own;
            reduces = reduces || n->kind == K_REDUCE;
        } else if (be_kernel_body(n, &ranges)) {
            return 0;
        }
    }
    return reduces && !k->grid_vector && !k->segments.len ? length : 0;
}

/* ---- values that stages share ------------------------------------------- */

/* The first value or index that is the same at the same element, by id. */
struct PtxShared {
    const KNode **values; /* NULL: the value itself */
    int *vars;
    bool *kept; /* values that a later stage takes */
    int num_kept;
};

static const KNode *
first_of(const PtxShared *s, const KNode *n)
{
    return n && s->values[n->id] ? s->values[n->id] : n;
}

static bool
same_index(const PtxShared *s, const KIndex *x, const KIndex *y)
{
    if (!ir_dim_equal(x->base, y->base) || x->num_terms != y->num_terms)
        return false;
    for (int i = 0; i < x->num_terms; i++)
        if (!ir_dim_equal(x->terms[i].coef, y->terms[i].coef) ||
            s->vars[x->terms[i].var->id] != s->vars[y->terms[i].var->id])
            return false;
    return true;
}

static bool
same_details(const KNode *x, const KNode *y)
{
    switch (x->kind) {
    case K_LOAD:
        return x->load.array == y->load.array && x->load.array->role != K_OUT;
    case K_MAP:
        return x->map.op == y->map.op && x->map.to == y->map.to;
    case K_CONST:
        return x->constant.i == y->constant.i;
    case K_INSIDE:
        return ir_dim_equal(x->inside.size, y->inside.size);
    case K_DIV:
    case K_MOD:
        return ir_dim_equal(x->divide.by, y->divide.by);
    case K_PICK:
        return ir_dim_equal(x->pick.var->extent, y->pick.var->extent);
    case K_INDEX:
        return true;
    default:
        return false;
    }
}

static bool
is_same(const PtxShared *s, KNode *x, KNode *y)
{
    KNode *xs[K_MAX_ARGS], *ys[K_MAX_ARGS];
    if (x->kind != y->kind || x->dtype != y->dtype || !same_details(x, y))
        return false;
    int num = be_kernel_args(x, xs);
    if (num != be_kernel_args(y, ys))
        return false;
    for (int i = 0; i < num; i++)
        if (first_of(s, xs[i]) != first_of(s, ys[i]))
            return false;
    const KIndex *at = be_kernel_index(x);
    return !at || same_index(s, at, be_kernel_index(y));
}

/* The same node of an earlier reduction, or NULL. */
static KNode *
find_same(const PtxShared *s, const BeKernel *k, const KNode *before, KNode *n)
{
    for (KNode *stage = k->body.first; stage != before; stage = stage->next) {
        if (stage->kind != K_REDUCE)
            continue;
        for (KNode *x = stage->reduce.body.first; x; x = x->next)
            if (is_same(s, x, n))
                return x;
    }
    return NULL;
}

static void
note_var(PtxShared *s, const KVar *var, const KVar *same)
{
    s->vars[var->id] = s->vars[same->id];
}

static bool
is_worth_keeping(const KNode *n)
{
    return n->kind == K_LOAD ||
           (n->kind == K_MAP && ir_op_code(n->map.op)->cost >= KEPT_COST);
}

static void
share_stage(PtxShared *s, const BeKernel *k, const KNode *stage)
{
    for (KNode *n = stage_body(stage)->first; n; n = n->next) {
        KNode *same = find_same(s, k, stage, n);
        if (same && (n->kind == K_DIV || n->kind == K_MOD))
            note_var(s, n->divide.var, same->divide.var);
        else if (same && n->kind == K_PICK)
            note_var(s, n->pick.var, same->pick.var);
        else if (same)
            s->values[n->id] = first_of(s, same);
    }
}

/* ---- what a stage computes ---------------------------------------------- */

/* The nodes of a stage that have to be emitted, and those that an earlier stage
 * has kept. */
typedef struct Needs {
    bool *values, *vars; /* by id */
} Needs;

static void
need_operands(Needs *needs, KNode *n)
{
    KNode *args[K_MAX_ARGS];
    int num = be_kernel_args(n, args);
    for (int i = 0; i < num; i++)
        needs->values[args[i]->id] = true;
    const KIndex *x = be_kernel_index(n);
    for (int i = 0; x && i < x->num_terms; i++)
        needs->vars[x->terms[i].var->id] = true;
}

static bool
is_needed(const Needs *needs, const KNode *n)
{
    return n->kind == K_STORE ? true
           : n->kind == K_DIV || n->kind == K_MOD
               ? needs->vars[n->divide.var->id]
           : n->kind == K_PICK ? needs->vars[n->pick.var->id]
                               : needs->values[n->id];
}

static bool
is_taken(const PtxShared *s, const KNode *n)
{
    return n->id >= 0 && s->values[n->id] && is_worth_keeping(n);
}

static Needs
find_needs(const Emit *e, const PtxShared *s, const KNode *stage)
{
    const BeKernel *k = e->k;
    Needs needs = {NEW_ARRAY(e->arena, bool, (size_t)k->num_values + 1),
                   NEW_ARRAY(e->arena, bool, (size_t)k->num_vars + 1)};
    if (stage->kind == K_REDUCE)
        needs.values[stage->reduce.element->id] = true;
    for (KNode *n = stage_body(stage)->last; n; n = n->prev)
        if (is_needed(&needs, n) && !is_taken(s, n))
            need_operands(&needs, n);
    return needs;
}

/* Counts the values that the stage takes from earlier ones. */
static void
note_kept(const Emit *e, PtxShared *s, const KNode *stage)
{
    Needs needs = find_needs(e, s, stage);
    for (KNode *n = stage_body(stage)->first; n; n = n->next) {
        if (n->id < 0 || !needs.values[n->id] || !is_taken(s, n))
            continue;
        const KNode *first = first_of(s, n);
        if (!s->kept[first->id])
            s->num_kept += dtype_info[first->dtype].bytes > 4 ? 2 : 1;
        s->kept[first->id] = true;
    }
}

static int
count_nodes(const BeKernel *k)
{
    int num = 0;
    for (const KNode *n = k->body.first; n; n = n->next) {
        const KBlock *body = stage_body(n);
        for (const KNode *x = body ? body->first : NULL; x; x = x->next)
            num++;
    }
    return num;
}

static PtxShared *
share_values(const Emit *e)
{
    const BeKernel *k = e->k;
    PtxShared *s = NEW(e->arena, PtxShared);
    const KVar *first = NULL;
    s->values = NEW_ARRAY(e->arena, const KNode *, (size_t)k->num_values + 1);
    s->kept = NEW_ARRAY(e->arena, bool, (size_t)k->num_values + 1);
    s->vars = NEW_ARRAY(e->arena, int, (size_t)k->num_vars + 1);
    for (int i = 0; i < k->num_vars; i++)
        s->vars[i] = i;
    if (count_nodes(k) > MAX_NODES)
        return s;
    for (const KNode *n = k->body.first; n; n = n->next) {
        if (!stage_body(n))
            continue;
        first = first ? first : stage_var(n);
        note_var(s, stage_var(n), first);
        share_stage(s, k, n);
        note_kept(e, s, n);
    }
    return s;
}

/* ---- the choice --------------------------------------------------------- */

/* The neighbours that 16 bytes of the narrowest elements are, of which a row is
 * a multiple. */
static int
choose_group(Emit *e, int64_t length)
{
    int width = 1;
    for (const KNode *n = e->k->body.first; n; n = n->next) {
        if (!stage_body(n))
            continue;
        int own = PTX_ALIGN / be_ptx_bytes_along(e, stage_var(n)).least;
        width = own > width ? own : width;
    }
    while (length % width)
        width /= 2;
    return width;
}

/* Operations of an element in all stages. */
static double
stages_cost(const BeKernel *k)
{
    double sum = 0;
    for (const KNode *n = k->body.first; n; n = n->next)
        sum += stage_body(n) ? be_kernel_cost(k, stage_body(n)) : 0;
    return sum;
}

static int
slots_of(int64_t length, int team, int width)
{
    int64_t slot = (int64_t)team * width;
    return (int)((length + slot - 1) / slot);
}

/* How good a team is: threads that have elements in the last slot, too; as many
 * threads as the machine wants (few of them wait for memory most of the time,
 * so twice as many are less than twice as fast); whole sectors of memory. */
static double
rate_team(const BeKernel *k, const PtxRows *r, int team)
{
    int each = slots_of(r->length, team, r->width) * r->width;
    if (each > MAX_EACH || each * r->shared->num_kept > MAX_KEPT ||
        each * stages_cost(k) > MAX_CODE)
        return 0;
    double used = (double)r->length / ((double)each * team);
    double full = (double)be_items_bound(k) * team / FULL_THREADS;
    double sectors = (double)team * r->width * 4 / SECTOR;
    return used * used * sqrt(full < 1 ? full : 1) *
           (sectors < 1 ? sectors : 1);
}

static int
choose_team(const BeKernel *k, const PtxRows *r)
{
    int best = 0;
    double most = 0;
    for (int team = 1; team <= PTX_WARP; team *= 2) {
        int64_t slot = (int64_t)team * r->width;
        double rate = rate_team(k, r, team);
        if (slot <= BE_STRIPES && slot < 2 * r->length && rate >= most &&
            rate > 0) {
            best = team;
            most = rate;
        }
    }
    return best;
}

/* As many threads as leave a block for each processor. */
static int
choose_threads(int64_t items, int team)
{
    int threads = MAX_THREADS;
    while (threads > PTX_WARP &&
           (double)items * team / threads < (double)FULL_BLOCKS)
        threads /= 2;
    return threads;
}

bool
be_ptx_rows_find(Ptx *p, PtxShape *s)
{
    Emit *e = &p->e;
    PtxRows r = {.length = row_length(e->k)};
    int64_t items = be_items_bound(e->k);
    if (!r.length)
        return false;
    r.shared = share_values(e);
    r.width = choose_group(e, r.length);
    s->team = choose_team(e->k, &r);
    if (!s->team) {
        s->team = 1;
        return false;
    }
    r.slots = slots_of(r.length, s->team, r.width);
    s->rows = r;
    s->threads = choose_threads(items, s->team);
    s->items = s->threads / s->team;
    return true;
}

/* ---- a slot ------------------------------------------------------------- */

/* A row while it is emitted: values that were kept, by slot and id. */
struct PtxRow {
    EmitValue ***kept;
};

static bool
is_last_partial(const Ptx *p)
{
    const PtxRows *r = &p->shape.rows;
    return r->length % ((int64_t)p->shape.team * r->width) != 0;
}

/* Sets the stage's index for a slot; returns whether this thread has elements
 * there, or NULL: all have. */
static Val
begin_slot(Ptx *p, const KVar *var, int slot)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const PtxRows *r = &p->shape.rows;
    int64_t before = (int64_t)slot * p->shape.team * r->width;
    Val at = be_mul(u, p->lane, be_emit_word(e, r->width));
    at = be_add(u, at, be_emit_word(e, before));
    Val valid = NULL;
    if (slot == r->slots - 1 && is_last_partial(p)) {
        valid = be_icmp(u, LLVMIntSLT, at, be_emit_word(e, r->length));
        at = be_min(u, at, be_emit_word(e, r->length - r->width));
    }
    e->indices[var->id] = (EmitIndex){.base = at};
    return valid;
}

static void
emit_stage_nodes(Ptx *p, const Needs *needs, const KNode *stage, int slot)
{
    Emit *e = &p->e;
    const PtxShared *s = p->shape.rows.shared;
    EmitValue **kept = p->row->kept[slot];
    for (const KNode *n = stage_body(stage)->first; n; n = n->next) {
        if (!is_needed(needs, n))
            continue;
        if (is_taken(s, n)) {
            e->values[n->id] = *kept[first_of(s, n)->id];
            continue;
        }
        be_emit_node(e, n);
        if (n->id >= 0 && s->kept[n->id]) {
            kept[n->id] = NEW(e->arena, EmitValue);
            *kept[n->id] = e->values[n->id];
        }
    }
}

/* Begins to emit groups along the stage's index instead of the item's nodes. */
static void
begin_stage(Ptx *p, const KNode *stage)
{
    Emit *e = &p->e;
    p->groups = be_ptx_groups(e, stage_var(stage), p->shape.rows.width);
    e->tile.row = stage_var(stage);
    e->tile.rows = p->shape.rows.width;
    p->together = false;
}

static void
end_stage(Ptx *p)
{
    p->e.tile.row = NULL;
    p->e.tile.rows = 1;
    p->together = true;
}

/* ---- reductions --------------------------------------------------------- */

/* The partial results of a thread: of each slot of 64 elements a group's. */
typedef struct Parts {
    Ptx *p;
    EmitFold fold;
    int rounds, width;
    EmitPartial v[BE_STRIPES];
} Parts;

static void
take(Parts *parts, int slot, int row, Val valid)
{
    Ptx *p = parts->p;
    Emit *e = &p->e;
    const KNode *n = parts->fold.node;
    EmitPartial x = {be_emit_get(e, n->reduce.element, row, 0), NULL};
    if (parts->fold.info->arg) {
        Val at = e->indices[stage_var(n)->id].base;
        at = be_add(e->u, at, be_emit_word(e, row));
        x.number = LLVMBuildIntCast2(e->u->builder, at, e->u->i64, 1, "");
    }
    EmitPartial *to = &parts->v[slot % parts->rounds * parts->width + row];
    bool first = slot < parts->rounds;
    EmitPartial old = first ? be_fold_neutral(&parts->fold, 0) : *to;
    EmitPartial sum = first ? x : be_fold_combine(&parts->fold, old, x);
    *to = valid ? be_fold_select(&parts->fold, valid, sum, old) : sum;
}

static void
take_elements(Parts *parts)
{
    Ptx *p = parts->p;
    const KNode *n = parts->fold.node;
    Needs needs = find_needs(&p->e, p->shape.rows.shared, n);
    begin_stage(p, n);
    for (int slot = 0; slot < p->shape.rows.slots; slot++) {
        Val valid = begin_slot(p, stage_var(n), slot);
        emit_stage_nodes(p, &needs, n, slot);
        for (int row = 0; row < parts->width; row++)
            take(parts, slot, row, valid);
    }
    end_stage(p);
}

static int
least(int x, int y)
{
    return x < y ? x : y;
}

static EmitPartial
shuffle(const Parts *parts, EmitPartial x, int distance)
{
    EmitPartial y = {be_ptx_shuffle(parts->p, x.value, distance), NULL};
    if (x.number)
        y.number = be_ptx_shuffle(parts->p, x.number, distance);
    return y;
}

/* The levels between slots: to the group of the first. */
static void
fold_rounds(Parts *parts)
{
    int have = least(parts->p->shape.rows.slots, parts->rounds);
    for (int half = parts->rounds / 2; half; half /= 2) {
        for (int i = 0; i < half && i + half < have; i++)
            for (int row = 0; row < parts->width; row++) {
                EmitPartial *x = &parts->v[i * parts->width + row];
                *x = be_fold_combine(&parts->fold, *x, x[half * parts->width]);
            }
        have = least(have, half);
    }
}

/* A level between threads at this distance, of num partial results; returns how
 * many are left. */
static int
fold_threads(Parts *parts, int num, int distance)
{
    Emit *e = &parts->p->e;
    BeUnit *u = e->u;
    if (num == 1) {
        EmitPartial y = shuffle(parts, parts->v[0], distance);
        parts->v[0] = be_fold_combine(&parts->fold, parts->v[0], y);
        return 1;
    }
    Val bit = be_and(u, parts->p->lane, be_emit_word(e, distance));
    Val upper = be_icmp(u, LLVMIntNE, bit, be_emit_word(e, 0));
    for (int i = 0; i < num / 2; i++) {
        EmitPartial low = parts->v[i], high = parts->v[i + num / 2];
        EmitPartial own = be_fold_select(&parts->fold, upper, high, low);
        EmitPartial given = be_fold_select(&parts->fold, upper, low, high);
        EmitPartial got = shuffle(parts, given, distance);
        parts->v[i] = be_fold_combine(&parts->fold, own, got);
    }
    return num / 2;
}

/* The tree: each thread of the team has the total in the end. */
static EmitPartial
fold_parts(Parts *parts)
{
    int num = parts->width, given[BE_STRIPES], levels = 0;
    fold_rounds(parts);
    for (int distance = parts->p->shape.team / 2; distance; distance /= 2) {
        if (num > 1)
            given[levels++] = distance;
        num = fold_threads(parts, num, distance);
    }
    for (int level = 0; level < levels; level++)
        for (int i = 0; i < num; i++) {
            EmitPartial y = shuffle(parts, parts->v[i], given[level]);
            parts->v[i] = be_fold_combine(&parts->fold, parts->v[i], y);
        }
    for (int half = num / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            parts->v[i] =
                be_fold_combine(&parts->fold, parts->v[i], parts->v[i + half]);
    return parts->v[0];
}

void
be_ptx_row_reduce(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    Parts parts = {.p = p, .fold = be_fold_of(e, n)};
    parts.width = p->shape.rows.width;
    parts.rounds = parts.fold.stripes / (p->shape.team * parts.width);
    take_elements(&parts);
    be_emit_set(e, n, 0, 0, be_fold_result(&parts.fold, fold_parts(&parts)));
}

/* ---- loops -------------------------------------------------------------- */

void
be_ptx_row_loop(Ptx *p, const KNode *n)
{
    Needs needs = find_needs(&p->e, p->shape.rows.shared, n);
    PtxIf active = be_ptx_if(p, p->active);
    begin_stage(p, n);
    for (int slot = 0; slot < p->shape.rows.slots; slot++) {
        Val valid = begin_slot(p, stage_var(n), slot);
        PtxIf i;
        if (valid)
            i = be_ptx_if(p, valid);
        emit_stage_nodes(p, &needs, n, slot);
        if (valid)
            be_ptx_end_if(p, &i, NULL, NULL);
    }
    end_stage(p);
    be_ptx_end_if(p, &active, NULL, NULL);
}

/* ---- the grid ----------------------------------------------------------- */

static void
begin_row(Ptx *p)
{
    Emit *e = &p->e;
    p->row = NEW(e->arena, PtxRow);
    p->row->kept =
        NEW_ARRAY(e->arena, EmitValue **, (size_t)p->shape.rows.slots);
    for (int i = 0; i < p->shape.rows.slots; i++)
        p->row->kept[i] =
            NEW_ARRAY(e->arena, EmitValue *, (size_t)e->k->num_values + 1);
}

/* Warps take rows in turn, each as many as it has teams; a team without one
 * repeats the last row and stores nothing. */
void
be_ptx_emit_rows(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    Val team = be_emit_word(e, p->shape.team);
    Val items = be_emit_word(e, p->shape.items);
    Val warp_items = be_emit_word(e, PTX_WARP / p->shape.team);
    be_emit_find_varying(e, NULL);
    begin_row(p);
    p->together = true;
    p->lane = LLVMBuildURem(b, p->thread, team, "");
    Val own = LLVMBuildUDiv(b, p->thread, team, "");
    Val work = be_space_size(e, &p->shape.work);
    Val in_warp = LLVMBuildURem(b, own, warp_items, "");
    Val first = be_sub(u, own, in_warp);
    first = be_add(u, first, be_mul(u, p->block, items));
    BeLoop l;
    be_loop_begin(u, &l, first, work, be_mul(u, p->num_blocks, items), "row");
    be_loop_body(u, &l);
    Val item = be_add(u, l.index, in_warp);
    p->active = be_icmp(u, LLVMIntSLT, item, work);
    Val last = be_sub(u, work, be_emit_word(e, 1));
    be_space_delinearize(e, &p->shape.work, be_min(u, item, last));
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
}
