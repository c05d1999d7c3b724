/*
 * ptx_columns.c - reductions of columns
 *
 * Items are columns, adjacent in memory, and each is reduced over the same
 * rows.  A thread of the block does a group of neighbouring columns for one
 * stripe of D2; threads with adjacent groups are neighbours, too.  Reductions
 * that do not need each other's results go through the rows together, and share
 * what they load.
 *
 * The stripes' partial results meet in shared memory: there each column's are
 * taken by the threads of part of a warp, which fold the rest of the tree by
 * shuffles, and from there all threads get their columns' totals.  This takes
 * two barriers, however many reductions there are.
 *
 * What comes after the last reduction is done by the threads of the first
 * stripe.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    MAX_TOGETHER = 8,     /* reductions in one loop */
    MAX_CARRIED = 32,     /* registers for their partial results */
    COLUMN_THREADS = 256, /* of a block */
    FEW_GROUPS = 4,       /* of a block that has all stripes */
    FEW_BLOCKS = 32,      /* rather more threads than wide accesses */
    LOADED = 32,          /* elements that are loaded before one is folded */
    LESS_LOADED = 8,      /* so many times, of the last rows */
    UNROLLED_CODE = 512,
    PAD = 4, /* values after those of a stripe, for other banks */
    SHARED_BYTES = 48 << 10
};

/* Reductions that go through the rows together. */
typedef struct Members {
    int num;
    const KNode *nodes[MAX_TOGETHER];
    EmitFold folds[MAX_TOGETHER];
    PtxParts parts[MAX_TOGETHER], totals[MAX_TOGETHER];
    const PtxReuse *stages;
} Members;

/* ---- the form ----------------------------------------------------------- */

static const KBlock *
column_body(const BeKernel *k, const KNode *flat)
{
    return flat ? &flat->loop.body : &k->body;
}

static bool
is_reduction(const KNode *n)
{
    return n->kind == K_REDUCE && !n->reduce.vector;
}

static bool
has_only_reductions(const KBlock *b)
{
    bool reduces = false;
    for (KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        const KBlock *body = be_kernel_body(n, &ranges);
        if (body && (!is_reduction(n) || !be_ptx_is_plain(body)))
            return false;
        reduces = reduces || body;
    }
    return reduces;
}

/* Stripes that the longest reduction uses. */
static int
find_stripes(Emit *e, const KBlock *b)
{
    int most = 1;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_REDUCE)
            continue;
        int own = be_fold_of(e, n).stripes;
        most = own > most ? own : most;
    }
    return most;
}

static int
choose_width(Emit *e, const KVar *row)
{
    int width = PTX_ALIGN / be_ptx_bytes_along(e, row).least;
    while (width > 1 && !be_ptx_is_whole(row->extent, width))
        width /= 2;
    return width > BE_MAX_ROWS ? BE_MAX_ROWS : width;
}

/* Columns of a block. */
static int64_t
block_columns(const PtxShape *s)
{
    return (int64_t)s->items * s->width;
}

/* The partial results of all stripes. */
static int64_t
slots_of(const PtxShape *s)
{
    return (block_columns(s) + PAD) * s->team;
}

static int64_t
total_bytes(const PtxShape *s)
{
    return block_columns(s) * PTX_ALIGN;
}

/* Shared memory begins with the totals of reductions, which are read while the
 * partial results of later ones are written. */
static int64_t
all_total_bytes(const PtxShape *s, const KBlock *b)
{
    int num = 0;
    for (const KNode *n = b->first; n && num < MAX_TOGETHER; n = n->next)
        num += n->kind == K_REDUCE;
    return num * total_bytes(s);
}

static int64_t
aligned(int64_t bytes)
{
    return (bytes + PTX_ALIGN - 1) / PTX_ALIGN * PTX_ALIGN;
}

static int64_t
shared_bytes(Emit *e, const PtxShape *s, const KBlock *b)
{
    int64_t sum = all_total_bytes(s, b);
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_REDUCE)
            continue;
        EmitFold f = be_fold_of(e, n);
        sum += aligned(be_ptx_part_bytes(&f) * slots_of(s));
    }
    return sum;
}

/* Threads with a group of columns and a stripe, for groups of s->width. */
static void
choose_threads(const BeKernel *k, PtxShape *s)
{
    int64_t groups = be_space_bound(k, &s->work) / s->width;
    int most = COLUMN_THREADS / s->team;
    most = most < FEW_GROUPS ? FEW_GROUPS : most;
    if (s->width == 1)
        most = most < 2 * FEW_GROUPS ? 2 * FEW_GROUPS : most;
    s->items = 1;
    while (s->items < most &&
           (s->items < groups || s->items * s->team < PTX_WARP))
        s->items *= 2;
    s->threads = s->items * s->team;
}

static int64_t
num_blocks(const BeKernel *k, const PtxShape *s)
{
    return be_space_bound(k, &s->work) / block_columns(s);
}

/* Where there are few blocks a thread has fewer columns: it waits for memory,
 * and loads more rows of them at a time. */
static void
choose_groups(const BeKernel *k, PtxShape *s)
{
    choose_threads(k, s);
    while (s->width > 1 && num_blocks(k, s) < FEW_BLOCKS) {
        s->width /= 2;
        choose_threads(k, s);
    }
}

bool
be_ptx_columns_find(Ptx *p, PtxShape *s)
{
    Emit *e = &p->e;
    const BeKernel *k = e->k;
    const KBlock *b = column_body(k, s->flat);
    bool along = s->flat ? s->flat->loop.vector : k->grid_vector;
    if (!along || k->segments.len || !has_only_reductions(b))
        return false;
    PtxShape t = *s;
    const KVar *row = t.work.vars[t.work.count - 1];
    t.width = choose_width(e, row);
    t.team = find_stripes(e, b);
    choose_groups(k, &t);
    t.shared = shared_bytes(e, &t, b);
    t.columns = true;
    if (t.threads < PTX_WARP || t.shared > SHARED_BYTES)
        return false;
    *s = t;
    return true;
}

/* ---- reductions that go together ---------------------------------------- */

static int
registers_of(const EmitFold *f, int width)
{
    return width * (int)((be_ptx_part_bytes(f) + 3) / 4);
}

static Members
find_members(Ptx *p, const KNode *first)
{
    Emit *e = &p->e;
    Members m = {0};
    const KNode **nodes = NEW_ARRAY(e->arena, const KNode *, MAX_TOGETHER);
    int registers = 0, num = be_ptx_together(first, nodes, MAX_TOGETHER);
    for (; m.num < num; m.num++) {
        EmitFold f = be_fold_of(e, nodes[m.num]);
        registers += registers_of(&f, p->shape.width);
        if (m.num && registers > MAX_CARRIED)
            break;
        m.nodes[m.num] = nodes[m.num];
        m.folds[m.num] = f;
    }
    int64_t at = all_total_bytes(&p->shape, column_body(e->k, p->shape.flat));
    for (int i = 0; i < m.num; i++) {
        const EmitFold *f = &m.folds[i];
        int64_t slots = slots_of(&p->shape);
        m.totals[i] = be_ptx_parts_at(f, i * total_bytes(&p->shape),
                                      block_columns(&p->shape));
        m.parts[i] = be_ptx_parts_at(f, at, slots);
        at += aligned(be_ptx_part_bytes(f) * slots);
    }
    m.stages = be_ptx_reuse(e, nodes, m.num);
    return m;
}

/* ---- rows --------------------------------------------------------------- */

/* The elements of all members at one row, for the columns of a group. */
typedef struct Elements {
    EmitPartial v[MAX_TOGETHER][BE_MAX_ROWS];
} Elements;

static void
set_indices(Ptx *p, const Members *m, Val number)
{
    Emit *e = &p->e;
    const KRanges *first = &m->nodes[0]->reduce.ranges;
    EmitSpace space = be_space_of(first);
    be_space_delinearize(e, &space, number);
    for (int i = 1; i < m->num; i++)
        for (int j = 0; j < first->count; j++)
            e->indices[m->nodes[i]->reduce.ranges.vars[j]->id] =
                e->indices[first->vars[j]->id];
}

static void
emit_elements(Ptx *p, const Members *m, Val number, Elements *x)
{
    Emit *e = &p->e;
    PtxKept *kept = be_ptx_kept_new(e);
    set_indices(p, m, number);
    for (int i = 0; i < m->num; i++) {
        const KNode *n = m->nodes[i];
        be_ptx_reuse_emit(e, m->stages, n, kept);
        for (int row = 0; row < p->shape.width; row++) {
            EmitPartial *to = &x->v[i][row];
            *to =
                (EmitPartial){be_emit_get(e, n->reduce.element, row, 0), NULL};
            if (m->folds[i].info->arg)
                to->number =
                    LLVMBuildIntCast2(e->u->builder, number, e->u->i64, 1, "");
        }
    }
}

/* A loop from row `begin` on, `rows` at a time while all of these are before
 * end.  Returns where it stops. */
static Val
fold_rows(Ptx *p, const Members *m, Val begin, Val end, int rows,
          Elements *parts)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int width = p->shape.width;
    int64_t ahead = (int64_t)(rows - 1) * IR_STRIPES;
    Elements x[LOADED];
    BeLoop l;
    be_loop_begin(u, &l, begin, be_sub(u, end, be_emit_word(e, ahead)),
                  be_emit_word(e, (int64_t)rows * IR_STRIPES), "row");
    Elements sums = *parts;
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < width; c++) {
            EmitPartial *s = &sums.v[i][c];
            s->value = be_loop_carry(u, &l, s->value);
            if (s->number)
                s->number = be_loop_carry(u, &l, s->number);
        }
    *parts = sums;
    be_loop_body(u, &l);
    for (int r = 0; r < rows; r++) {
        Val at = be_emit_word(e, (int64_t)r * IR_STRIPES);
        at = be_add(u, l.index, at);
        emit_elements(p, m, at, &x[r]);
    }
    int next = 0;
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < width; c++) {
            EmitPartial s = sums.v[i][c];
            for (int r = 0; r < rows; r++)
                s = be_fold_combine(&m->folds[i], s, x[r].v[i][c]);
            be_loop_next(&l, next++, s.value);
            if (s.number)
                be_loop_next(&l, next++, s.number);
        }
    be_loop_end(u, &l);
    return l.index;
}

/* Rows in flight: what few threads wait for is the memory. */
static int
choose_rows(const Ptx *p, const Members *m)
{
    double cost = 0;
    int rows = LOADED / p->shape.width;
    for (int i = 0; i < m->num; i++)
        cost += 1 + be_kernel_cost(p->e.k, &m->nodes[i]->reduce.body);
    while (rows > 1 && (m->folds[0].bound < (int64_t)rows * IR_STRIPES ||
                        cost * p->shape.width * rows > UNROLLED_CODE))
        rows /= 2;
    return rows;
}

/* The partial results of this thread's stripe of rows begin to end. */
static void
fold_stripe(Ptx *p, const Members *m, Val begin, Val end, Elements *parts)
{
    BeUnit *u = p->e.u;
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < p->shape.width; c++)
            parts->v[i][c] = be_fold_neutral(&m->folds[i], 0);
    Val at = be_add(u, begin, p->lane);
    int rows = choose_rows(p, m);
    p->together = false;
    for (; rows > 1; rows /= LESS_LOADED)
        at = fold_rows(p, m, at, end, rows, parts);
    fold_rows(p, m, at, end, 1, parts);
    p->together = true;
}

/* ---- the tree ----------------------------------------------------------- */

/* The threads that fold a column, and the columns that each of them folds. */
static int
threads_of_column(const PtxShape *s)
{
    int threads = s->team / s->width;
    return threads > PTX_WARP ? PTX_WARP : threads < 1 ? 1 : threads;
}

/* The slot of a stripe's column. */
static Val
slot_of(Ptx *p, Val stripe, Val column)
{
    Emit *e = &p->e;
    Val pitch = be_emit_word(e, block_columns(&p->shape) + PAD);
    return be_add(e->u, be_mul(e->u, stripe, pitch), column);
}

static void
put_parts(Ptx *p, const Members *m, const Elements *parts)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val first = be_mul(u, p->column, be_emit_word(e, p->shape.width));
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < p->shape.width; c++) {
            Val column = be_add(u, first, be_emit_word(e, c));
            be_ptx_part_put(p, &m->folds[i], &m->parts[i],
                            slot_of(p, p->lane, column), parts->v[i][c]);
        }
}

/* The total of a column, from the partial results of its stripes. */
static void
fold_column(Ptx *p, const Members *m, int i, Val column, Val lane)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int threads = threads_of_column(&p->shape);
    PtxTree t = {p, &m->folds[i], .lane = lane, .team = threads, .width = 1};
    t.rounds = t.have = p->shape.team / threads;
    for (int r = 0; r < t.rounds; r++) {
        Val stripe = be_emit_word(e, (int64_t)r * threads);
        stripe = be_add(u, stripe, lane);
        t.v[r] = be_ptx_part_get(p, &m->folds[i], &m->parts[i],
                                 slot_of(p, stripe, column));
    }
    EmitPartial total = be_ptx_tree_fold(&t);
    Val is_first = be_icmp(u, LLVMIntEQ, lane, be_emit_word(e, 0));
    PtxIf first = be_ptx_if(p, is_first);
    be_ptx_part_put(p, &m->folds[i], &m->totals[i], column, total);
    be_ptx_end_if(p, &first, NULL, NULL);
}

/* Whole warps have columns or none. */
static void
fold_columns(Ptx *p, const Members *m)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    int threads = threads_of_column(&p->shape);
    int64_t columns = block_columns(&p->shape);
    Val by = be_emit_word(e, threads);
    BeLoop l;
    be_loop_begin(u, &l, p->thread, be_emit_word(e, columns * threads),
                  be_emit_word(e, p->shape.threads), "column");
    be_loop_body(u, &l);
    Val column = LLVMBuildUDiv(b, l.index, by, "");
    Val lane = LLVMBuildURem(b, l.index, by, "");
    for (int i = 0; i < m->num; i++)
        fold_column(p, m, i, column, lane);
    be_loop_end(u, &l);
}

/* The tree over all stripes; the results are those of this thread's columns. */
static void
fold_tree(Ptx *p, const Members *m, Elements *parts)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    put_parts(p, m, parts);
    be_ptx_barrier(p);
    fold_columns(p, m);
    be_ptx_barrier(p);
    Val first = be_mul(u, p->column, be_emit_word(e, p->shape.width));
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < p->shape.width; c++)
            parts->v[i][c] =
                be_ptx_part_get(p, &m->folds[i], &m->totals[i],
                                be_add(u, first, be_emit_word(e, c)));
}

/* ---- chunks ------------------------------------------------------------- */

static void
fold_chunks(Ptx *p, const Members *m, Val size, Elements *parts)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Elements totals;
    Val chunk = be_emit_word(e, IR_CHUNK);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), size, chunk, "chunk");
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < p->shape.width; c++) {
            EmitPartial none = be_fold_neutral(&m->folds[i], 0);
            totals.v[i][c].value = be_loop_carry(u, &l, none.value);
            totals.v[i][c].number =
                none.number ? be_loop_carry(u, &l, none.number) : NULL;
        }
    be_loop_body(u, &l);
    Val end = be_min(u, be_add(u, l.index, chunk), size);
    fold_stripe(p, m, l.index, end, parts);
    fold_tree(p, m, parts);
    int next = 0;
    for (int i = 0; i < m->num; i++)
        for (int c = 0; c < p->shape.width; c++) {
            EmitPartial s =
                be_fold_combine(&m->folds[i], totals.v[i][c], parts->v[i][c]);
            be_loop_next(&l, next++, s.value);
            if (s.number)
                be_loop_next(&l, next++, s.number);
        }
    be_loop_end(u, &l);
    *parts = totals;
}

static void
reduce_members(Ptx *p, const Members *m)
{
    Emit *e = &p->e;
    EmitSpace space = be_space_of(&m->nodes[0]->reduce.ranges);
    Val size = be_space_size(e, &space);
    Elements parts;
    if (m->folds[0].bound > IR_CHUNK) {
        fold_chunks(p, m, size, &parts);
    } else {
        fold_stripe(p, m, be_emit_word(e, 0), size, &parts);
        fold_tree(p, m, &parts);
    }
    for (int i = 0; i < m->num; i++) {
        EmitVarying d = be_emit_varying(e, m->nodes[i]);
        for (int c = 0; c < be_emit_rows(e, d); c++)
            be_emit_set(e, m->nodes[i], c, 0,
                        be_fold_result(&m->folds[i], parts.v[i][c]));
    }
}

/* ---- items -------------------------------------------------------------- */

static const KNode *
last_reduction(const KBlock *b)
{
    const KNode *n = b->last;
    while (n->kind != K_REDUCE)
        n = n->prev;
    return n;
}

/* The reductions, and what their elements follow from, by all threads. */
static void
reduce_column(Ptx *p, const KBlock *b, const KNode *last, const PtxSlice *needs)
{
    const KNode *done = NULL;
    for (const KNode *n = b->first; n != last->next; n = n->next) {
        if (n->kind != K_REDUCE) {
            if (be_ptx_slice_has(needs, n))
                be_emit_node(&p->e, n);
        } else if (!done || n->id > done->id) {
            Members m = find_members(p, n);
            reduce_members(p, &m);
            done = m.nodes[m.num - 1];
        }
    }
}

/* The rest by the threads of stripe 0: others may not read what these have
 * overwritten. */
static void
emit_column(Ptx *p, const KBlock *b)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const KNode *last = last_reduction(b);
    PtxSlice needs = be_ptx_slice_of_elements(e, b);
    reduce_column(p, b, last, &needs);
    Val first = be_icmp(u, LLVMIntEQ, p->lane, be_emit_word(e, 0));
    PtxIf i = be_ptx_if(p, be_and(u, first, p->active));
    p->together = false;
    bool is_after = false;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind != K_REDUCE && (is_after || !be_ptx_slice_has(&needs, n)))
            be_emit_node(e, n);
        is_after |= n == last;
    }
    p->together = true;
    be_ptx_end_if(p, &i, NULL, NULL);
}

/* Sets the indices of a group of columns. */
static void
set_column(Ptx *p, Val item, Val groups)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitSpace outer = p->shape.work;
    const KVar *row = outer.vars[--outer.count];
    Val group = outer.count ? be_emit_divmod(e, &item, groups) : item;
    Val first = be_mul(u, group, be_emit_word(e, p->shape.width));
    be_space_delinearize(e, &outer, item);
    e->indices[row->id] = (EmitIndex){.base = first};
}

void
be_ptx_emit_columns(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    const PtxShape *s = &p->shape;
    EmitSpace outer = s->work;
    const KVar *row = outer.vars[--outer.count];
    Val items = be_emit_word(e, s->items), width = be_emit_word(e, s->width);
    e->tile.row = row;
    e->tile.rows = s->width;
    p->groups = be_ptx_groups(e, row, s->width);
    p->together = true;
    p->column = LLVMBuildURem(b, p->thread, items, "");
    p->lane = LLVMBuildUDiv(b, p->thread, items, "");
    Val run = be_emit_extent(e, row->extent);
    Val groups = LLVMBuildUDiv(b, run, width, "");
    Val work = be_mul(u, be_space_size(e, &outer), groups);
    Val begin = be_mul(u, p->block, items);
    BeLoop l;
    be_loop_begin(u, &l, begin, work, be_mul(u, p->num_blocks, items), "item");
    be_loop_body(u, &l);
    Val item = be_add(u, l.index, p->column);
    p->active = be_icmp(u, LLVMIntSLT, item, work);
    Val last = be_sub(u, work, be_emit_word(e, 1));
    set_column(p, be_min(u, item, last), groups);
    for (const KNode *n = s->flat ? e->k->body.first : NULL; n; n = n->next)
        if (n != s->flat)
            be_emit_node(e, n);
    emit_column(p, column_body(e->k, s->flat));
    be_loop_end(u, &l);
}
