/*
 * ptx_panels.c - long rows, a block each
 *
 * An item consists of reductions and loops over the same elements, and has more
 * than the registers of a team hold, or there are too few items for the
 * machine. All threads of the block compute its elements, a panel at a time: a
 * group of neighbours by each.  The elements of a reduction are left in shared
 * memory, and the first warp folds them in D2's order, two stripes a lane,
 * while the other warps go on to the next panel in another buffer: a barrier
 * for each panel, and one for the total.  Elements beyond the end are neutral.
 *
 * A row whose elements fit the block's registers has a few panels, one for each
 * slot of its threads: values that a stage loads or computes in many
 * instructions stay there for later ones.  Longer rows are loops; reductions
 * that do not need each other's results go through them together.  What a
 * reduction has computed in many instructions (the exponentials of a softmax)
 * and a loop needs again, waits in the loop's output, if its elements are f32,
 * too: the thread that stores an element there is the one that reads it.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx.h"
#include "backend/ptx/ptx_emit.h"

enum {
    LONG_ROW = 512,         /* fewer elements are not worth a block */
    FEW_ITEMS = 264,        /* that leave processors without work */
    MOST_THREADS = 1024,    /* of a block that is alone */
    SOME_THREADS = 256,     /* of one of many */
    KEPT_REGISTERS = 24576, /* of a block */
    MAX_EACH = 32,          /* elements of a row that a thread has */
    MOST_SLOTS = 4,         /* of a thread; the code is as many times as long */
    SAVED_COST = 8,         /* operations of a value that is worth memory */
    MAX_CODE = 2048,        /* operations of a thread in all slots */
    LOOP_CODE = 512,        /* and in a round of a loop */
    MAX_TOGETHER = PTX_MAX_TOGETHER, /* reductions in one loop */
    UNROLLED = 8, /* rounds of 64 elements that are folded at once */
    SHARED_BYTES = 48 << 10
};

typedef struct Members {
    int num;
    const KNode *nodes[MAX_TOGETHER];
    EmitFold folds[MAX_TOGETHER];
    PtxParts panels[MAX_TOGETHER]; /* two, one after the other */
    PtxParts totals[MAX_TOGETHER];
    const PtxReuse *stages;
} Members;

/* Of each lane of the first warp: stripes lane and lane + 32. */
typedef struct Sums {
    EmitPartial v[MAX_TOGETHER][2];
} Sums;

/* ---- the form ----------------------------------------------------------- */

static bool
is_stage(const KNode *n)
{
    const KRanges *r = be_ptx_ranges_of(n);
    bool fits = n->kind == K_REDUCE ? n->reduce.vector : !n->loop.ordered;
    return fits && r->count == 1 && be_ptx_is_plain(be_ptx_body_of(n));
}

static bool
find_length(const BeKernel *k, Dim *length)
{
    const KNode *first = NULL;
    bool reduces = false;
    KRanges *ranges;
    for (KNode *n = k->body.first; n; n = n->next) {
        if (!be_kernel_body(n, &ranges))
            continue;
        if (!be_ptx_body_of(n) || !is_stage(n))
            return false;
        first = first ? first : n;
        reduces = reduces || n->kind == K_REDUCE;
        *length = be_ptx_stage_var(first)->extent;
        if (!ir_dim_equal(be_ptx_stage_var(n)->extent, *length))
            return false;
    }
    return reduces && !k->grid_vector && !k->segments.len;
}

/* ---- the choice --------------------------------------------------------- */

static int64_t
panel_of(const PtxShape *s)
{
    return (int64_t)s->threads * s->panels.width;
}

static int64_t
slots_of(const PtxShape *s, int64_t length)
{
    return (length + panel_of(s) - 1) / panel_of(s);
}

static int
most_part_bytes(Emit *e)
{
    int most = 0;
    for (const KNode *n = e->k->body.first; n; n = n->next) {
        if (n->kind != K_REDUCE)
            continue;
        EmitFold f = be_fold_of(e, n);
        int bytes = (int)be_ptx_part_bytes(&f);
        bytes -= f.info->arg ? 8 : 0; /* numbers follow from places */
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Totals, then two panels for each reduction of a loop. */
static int64_t
shared_bytes(Emit *e, const PtxShape *s)
{
    int num = 0;
    for (const KNode *n = e->k->body.first; n && num < MAX_TOGETHER;
         n = n->next)
        num += n->kind == K_REDUCE;
    return MAX_TOGETHER * PTX_ALIGN +
           2 * num * panel_of(s) * most_part_bytes(e);
}

/* Whether a thread of the block can keep the values of its slots. */
static bool
fits_registers(const BeKernel *k, const PtxShape *s, int slots)
{
    int each = slots * s->panels.width;
    int64_t kept = (int64_t)each * be_ptx_reuse_kept(s->panels.stages);
    return each <= MAX_EACH && kept * s->threads <= KEPT_REGISTERS &&
           each * be_ptx_stage_cost(k) <= MAX_CODE;
}

static void
choose_threads(Emit *e, PtxShape *s)
{
    int64_t length = be_dim_bound(e->k, s->panels.length);
    bool few = be_items_bound(e->k) < FEW_ITEMS;
    int most = few ? MOST_THREADS : SOME_THREADS;
    s->threads = 2 * PTX_WARP;
    while (s->threads < most && panel_of(s) < length)
        s->threads *= 2;
    int64_t in_slots = (int64_t)MOST_THREADS * s->panels.width * MOST_SLOTS;
    while (length <= in_slots && slots_of(s, length) > MOST_SLOTS)
        s->threads *= 2;
    while (s->threads > 2 * PTX_WARP && shared_bytes(e, s) > SHARED_BYTES)
        s->threads /= 2;
}

static void
choose_slots(Emit *e, PtxShape *s)
{
    PtxPanels *x = &s->panels;
    if (!ir_dim_is_const(x->length))
        return;
    int64_t slots = slots_of(s, x->length.c);
    bool keeps = slots == 1 || be_ptx_reuse_kept(x->stages);
    if (slots > MOST_SLOTS || !keeps || !fits_registers(e->k, s, (int)slots))
        return;
    x->slots = (int)slots;
    x->kept = NEW_ARRAY(e->arena, PtxKept *, (size_t)slots);
    for (int i = 0; i < slots; i++)
        x->kept[i] = be_ptx_kept_new(e);
}

/* ---- values that wait in an output --------------------------------------- */

typedef struct Accesses {
    const Emit *e;
    const KArray *out;
    const PtxReuse *stages; /* whose equal values do not count; NULL: all do */
    int stores;
    bool loads; /* what may have the same memory */
} Accesses;

static void
note_access(KNode *n, void *data)
{
    Accesses *a = data;
    if (n->kind == K_STORE)
        a->stores += n->store.array == a->out;
    else if (n->kind == K_LOAD && n->load.array->role == K_IN &&
             (!a->stages || be_ptx_reuse_is_new(a->stages, n)))
        a->loads |= be_ptx_may_share(a->e->k, n->load.array, a->out);
}

/* Whether out can hold a value from the reduction on: it is stored once, and
 * nobody needs what may have its memory any more.  What the loop and the
 * reduction load alike the loop does not need: it takes that value alone. */
static bool
is_free(const Emit *e, const PtxSaved *s, const KArray *out)
{
    Accesses all = {.e = e, .out = out}, later = all;
    KBlock body = e->k->body;
    be_kernel_walk(&body, note_access, &all);
    for (const KNode *n = s->reduce->next; n; n = n->next) {
        if (!be_ptx_body_of(n))
            continue;
        body = *be_ptx_body_of(n);
        later.stages = n == s->loop ? s->stages : NULL;
        be_kernel_walk(&body, note_access, &later);
    }
    return all.stores == 1 && !later.loads && !out->from;
}

/* The place of an element is known in the reduction, too: it follows from the
 * item's indices and the loop's own. */
static bool
is_simple(const Emit *e, const KIndex *at, const KVar *own)
{
    bool simple = true;
    for (int i = 0; i < at->num_terms; i++) {
        bool outer = false;
        for (int k = 0; k < e->k->grid.count; k++)
            outer |= at->terms[i].var == e->k->grid.vars[k];
        simple = simple && (outer || at->terms[i].var == own);
    }
    return simple;
}

static const KNode *
find_place(const Emit *e, const PtxSaved *s)
{
    for (const KNode *n = s->loop->loop.body.first; n; n = n->next)
        if (n->kind == K_STORE && !n->store.guard &&
            n->store.array->dtype == s->value->dtype &&
            is_simple(e, &n->store.at, be_ptx_stage_var(s->loop)) &&
            is_free(e, s, n->store.array))
            return n;
    return NULL;
}

static PtxSaved
try_saving(const Emit *e, const KNode *reduce, const KNode *loop)
{
    PtxSaved none = {0}, s = {.reduce = reduce, .loop = loop};
    const KNode **nodes = NEW_ARRAY(e->arena, const KNode *, 2);
    nodes[0] = reduce;
    nodes[1] = loop;
    s.stages = be_ptx_reuse(e, nodes, 2);
    s.value = be_ptx_reuse_only(s.stages);
    if (!s.value || s.value->kind != K_MAP || s.value->dtype != DT_f32 ||
        ir_op_code(s.value->map.op)->cost < SAVED_COST)
        return none;
    s.again = be_ptx_reuse_taken(s.stages, loop, s.value);
    s.store = find_place(e, &s);
    return s.again && s.store ? s : none;
}

static PtxSaved
find_saved(const Emit *e)
{
    PtxSaved s = {0};
    for (const KNode *r = e->k->body.first; r; r = r->next)
        for (const KNode *l = r->next; l && r->kind == K_REDUCE && !s.reduce;
             l = l->next)
            if (l->kind == K_LOOP)
                s = try_saving(e, r, l);
    return s;
}

/* Leaves the value of a group's elements where the loop will store others. */
static void
save_group(Ptx *p, Val inside)
{
    Emit *e = &p->e;
    const PtxSaved *s = &p->shape.panels.saved;
    KNode store = *s->store;
    int num = store.store.at.num_terms;
    KTerm *terms = NEW_ARRAY(e->arena, KTerm, (size_t)num);
    for (int i = 0; i < num; i++) {
        terms[i] = s->store->store.at.terms[i];
        if (terms[i].var == be_ptx_stage_var(s->loop))
            terms[i].var = be_ptx_stage_var(s->reduce);
    }
    store.store.at.terms = terms;
    store.store.value = (KNode *)s->value;
    PtxIf i = be_ptx_if(p, inside);
    be_ptx_store(e, &store);
    be_ptx_end_if(p, &i, NULL, NULL);
}

/* Takes it back. */
static void
load_saved(Ptx *p, PtxKept *kept)
{
    Emit *e = &p->e;
    const PtxSaved *s = &p->shape.panels.saved;
    KNode load = {.kind = K_LOAD, .dtype = s->again->dtype, .id = s->again->id};
    load.load.array = s->store->store.array;
    load.load.at = s->store->store.at;
    be_ptx_load(e, &load);
    kept[s->value->id].value = NEW(e->arena, EmitValue);
    *kept[s->value->id].value = e->values[s->again->id];
}

bool
be_ptx_panels_find(Ptx *p, PtxShape *s)
{
    Emit *e = &p->e;
    const BeKernel *k = e->k;
    PtxShape t = *s;
    if (!find_length(k, &t.panels.length) ||
        be_dim_bound(k, t.panels.length) < LONG_ROW)
        return false;
    t.panels.is_used = true;
    t.panels.stages = be_ptx_reuse_all(e);
    t.panels.width = be_ptx_stage_width(e, t.panels.length);
    while (t.panels.width > 1 &&
           t.panels.width * be_ptx_stage_cost(k) > LOOP_CODE)
        t.panels.width /= 2;
    choose_threads(e, &t);
    t.shared = shared_bytes(e, &t);
    if (t.shared > SHARED_BYTES)
        return false;
    choose_slots(e, &t);
    if (!t.panels.slots)
        t.panels.saved = find_saved(e);
    t.team = t.threads;
    t.items = 1;
    *s = t;
    return true;
}

/* ---- elements ----------------------------------------------------------- */

static Members
find_members(Ptx *p, const KNode *first)
{
    Emit *e = &p->e;
    Members m = {0};
    const KNode **nodes = NEW_ARRAY(e->arena, const KNode *, MAX_TOGETHER);
    int64_t panel = panel_of(&p->shape);
    int64_t at = (int64_t)MAX_TOGETHER * PTX_ALIGN;
    m.num = be_ptx_together(first, nodes, MAX_TOGETHER);
    m.stages = p->shape.panels.slots ? p->shape.panels.stages
                                     : be_ptx_reuse(e, nodes, m.num);
    for (int i = 0; i < m.num; i++) {
        m.nodes[i] = nodes[i];
        m.folds[i] = be_fold_of(e, nodes[i]);
        m.totals[i] = be_ptx_parts_at(&m.folds[i], i * PTX_ALIGN, 1);
        m.panels[i] = (PtxParts){.values = at};
        at += 2 * panel * most_part_bytes(e);
    }
    return m;
}

/* The first element of this thread's group in the panel from `begin` on. */
static Val
group_at(Ptx *p, Val begin)
{
    Emit *e = &p->e;
    Val own = be_mul(e->u, p->thread, be_emit_word(e, p->shape.panels.width));
    return be_add(e->u, begin, own);
}

/* Sets a stage's index, within the row; there is at least one group. */
static void
set_index(Ptx *p, const KNode *stage, Val at, Val size)
{
    Emit *e = &p->e;
    Val width = be_emit_word(e, p->shape.panels.width);
    at = be_min(e->u, at, be_sub(e->u, size, width));
    e->indices[be_ptx_stage_var(stage)->id] = (EmitIndex){.base = at};
}

/* Leaves a group's elements, or neutral values, in a panel. */
static void
put_group(Ptx *p, const Members *m, int i, Val place, Val inside)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const EmitFold *f = &m->folds[i];
    EmitPartial none = be_fold_neutral(f, 0);
    for (int row = 0; row < p->shape.panels.width; row++) {
        Val x = be_emit_get(e, f->node->reduce.element, row, 0);
        EmitPartial part = {be_select(u, inside, x, none.value), NULL};
        be_ptx_part_put(p, f, &m->panels[i],
                        be_add(u, place, be_emit_word(e, row)), part);
    }
}

/* The elements of the panel from `begin` on, of all members; `slot` is that of
 * values that are kept, or -1. */
static void
put_panel(Ptx *p, const Members *m, Val begin, Val size, int slot)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    int64_t panel = panel_of(&p->shape);
    PtxKept *kept = slot < 0 ? be_ptx_kept_new(e) : p->shape.panels.kept[slot];
    Val at = group_at(p, begin);
    Val inside = be_icmp(u, LLVMIntSLT, at, size);
    /* panels alternate between two places */
    Val place = LLVMBuildURem(b, at, be_emit_word(e, 2 * panel), "");
    for (int i = 0; i < m->num; i++) {
        be_ptx_begin_stage(p, m->nodes[i], p->shape.panels.width);
        set_index(p, m->nodes[i], at, size);
        be_ptx_reuse_emit(e, m->stages, m->nodes[i], kept);
        put_group(p, m, i, place, inside);
        if (m->nodes[i] == p->shape.panels.saved.reduce)
            save_group(p, inside);
        be_ptx_end_stage(p);
    }
}

/* ---- folding ------------------------------------------------------------ */

/* One element of a panel at `number` of the row. */
static EmitPartial
get_element(Ptx *p, const Members *m, int i, Val number, Val size)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const EmitFold *f = &m->folds[i];
    EmitFold plain = *f;
    KReduceInfo info = *f->info;
    info.arg = false;
    plain.info = &info;
    int64_t panel = panel_of(&p->shape);
    Val place =
        LLVMBuildURem(u->builder, number, be_emit_word(e, 2 * panel), "");
    EmitPartial x = be_ptx_part_get(p, &plain, &m->panels[i], place);
    if (f->info->arg) {
        Val inside = be_icmp(u, LLVMIntSLT, number, size);
        Val own = LLVMBuildIntCast2(u->builder, number, u->i64, 1, "");
        x.number = be_select(u, inside, own, be_fold_neutral(f, 0).number);
    }
    return x;
}

static void
carry(BeUnit *u, BeLoop *l, const Members *m, Sums *sums)
{
    for (int i = 0; i < m->num; i++)
        for (int j = 0; j < 2; j++) {
            EmitPartial *x = &sums->v[i][j];
            x->value = be_loop_carry(u, l, x->value);
            if (x->number)
                x->number = be_loop_carry(u, l, x->number);
        }
}

static void
carry_on(BeLoop *l, const Members *m, const Sums *next)
{
    int at = 0;
    for (int i = 0; i < m->num; i++)
        for (int j = 0; j < 2; j++) {
            be_loop_next(l, at++, next->v[i][j].value);
            if (next->v[i][j].number)
                be_loop_next(l, at++, next->v[i][j].number);
        }
}

/* The first warp folds the panel from `begin` on; the others have no rounds. */
static void
fold_panel(Ptx *p, const Members *m, Val begin, Val size, Sums *sums)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    int64_t panel = panel_of(&p->shape), rounds = panel / IR_STRIPES;
    int unrolled = rounds < UNROLLED ? (int)rounds : UNROLLED;
    Val warp = be_emit_word(e, PTX_WARP);
    Val is_first = be_icmp(u, LLVMIntSLT, p->thread, warp);
    Val end = be_add(u, begin, be_emit_word(e, panel));
    end = be_select(u, is_first, end, begin);
    BeLoop l;
    be_loop_begin(u, &l, begin, end,
                  be_emit_word(e, (int64_t)unrolled * IR_STRIPES), "round");
    carry(u, &l, m, sums);
    be_loop_body(u, &l);
    Sums next = *sums;
    for (int r = 0; r < unrolled; r++)
        for (int i = 0; i < m->num; i++)
            for (int j = 0; j < 2; j++) {
                int64_t before = (int64_t)r * IR_STRIPES + j * PTX_WARP;
                Val at = be_add(u, l.index, be_emit_word(e, before));
                at = be_add(u, at, p->thread);
                EmitPartial x = get_element(p, m, i, at, size);
                next.v[i][j] = be_fold_combine(&m->folds[i], next.v[i][j], x);
            }
    carry_on(&l, m, &next);
    be_loop_end(u, &l);
}

/* Panels begin to end of a row of `size` elements, within a chunk. */
static Sums
fold_panels(Ptx *p, const Members *m, Val begin, Val end, Val size)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Sums sums;
    for (int i = 0; i < m->num; i++)
        sums.v[i][0] = sums.v[i][1] = be_fold_neutral(&m->folds[i], 0);
    for (int slot = 0; slot < p->shape.panels.slots; slot++) {
        Val at = be_emit_word(e, slot * panel_of(&p->shape));
        put_panel(p, m, at, size, slot);
        be_ptx_barrier(p);
        fold_panel(p, m, at, size, &sums);
    }
    if (p->shape.panels.slots)
        return sums;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_emit_word(e, panel_of(&p->shape)),
                  "panel");
    carry(u, &l, m, &sums);
    Sums before = sums;
    be_loop_body(u, &l);
    put_panel(p, m, l.index, size, -1);
    be_ptx_barrier(p);
    fold_panel(p, m, l.index, size, &sums);
    carry_on(&l, m, &sums);
    be_loop_end(u, &l);
    return before;
}

/* The tree over the first warp's stripes. */
static EmitPartial
fold_stripes(Ptx *p, const EmitFold *f, const EmitPartial *sums)
{
    PtxTree t = {p, f, .lane = p->thread, .team = PTX_WARP, .width = 1};
    t.rounds = t.have = 2;
    t.v[0] = sums[0];
    t.v[1] = sums[1];
    return be_ptx_tree_fold(&t);
}

/* ---- chunks ------------------------------------------------------------- */

static void
fold_chunks(Ptx *p, const Members *m, Val size, EmitPartial *totals)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val chunk = be_emit_word(e, IR_CHUNK);
    Sums all;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), size, chunk, "chunk");
    for (int i = 0; i < m->num; i++)
        all.v[i][0] = all.v[i][1] = be_fold_neutral(&m->folds[i], 0);
    carry(u, &l, m, &all);
    be_loop_body(u, &l);
    Val end = be_min(u, be_add(u, l.index, chunk), size);
    Sums sums = fold_panels(p, m, l.index, end, size), next = all;
    for (int i = 0; i < m->num; i++) {
        EmitPartial own = fold_stripes(p, &m->folds[i], sums.v[i]);
        next.v[i][0] = be_fold_combine(&m->folds[i], all.v[i][0], own);
    }
    carry_on(&l, m, &next);
    be_loop_end(u, &l);
    for (int i = 0; i < m->num; i++)
        totals[i] = all.v[i][0];
}

/* The first thread has the totals; all read them. */
static void
share_totals(Ptx *p, const Members *m, const EmitPartial *totals)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    Val zero = be_emit_word(e, 0);
    if (!ir_dim_is_const(p->shape.panels.length))
        be_ptx_barrier(p); /* an empty row has no panels */
    PtxIf first = be_ptx_if(p, be_icmp(u, LLVMIntEQ, p->thread, zero));
    for (int i = 0; i < m->num; i++)
        be_ptx_part_put(p, &m->folds[i], &m->totals[i], zero, totals[i]);
    be_ptx_end_if(p, &first, NULL, NULL);
    be_ptx_barrier(p);
    for (int i = 0; i < m->num; i++) {
        EmitPartial x = be_ptx_part_get(p, &m->folds[i], &m->totals[i], zero);
        be_emit_set(e, m->nodes[i], 0, 0, be_fold_result(&m->folds[i], x));
    }
}

/* With the reductions that go together with n. */
void
be_ptx_panel_reduce(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    EmitPartial totals[MAX_TOGETHER];
    if (n->id <= p->reduced)
        return;
    Members m = find_members(p, n);
    Val size = be_emit_extent(e, p->shape.panels.length);
    if (m.folds[0].bound > IR_CHUNK) {
        fold_chunks(p, &m, size, totals);
    } else {
        Sums sums = fold_panels(p, &m, be_emit_word(e, 0), size, size);
        for (int i = 0; i < m.num; i++)
            totals[i] = fold_stripes(p, &m.folds[i], sums.v[i]);
    }
    share_totals(p, &m, totals);
    p->reduced = m.nodes[m.num - 1]->id;
}

int
be_ptx_panel_fold(Ptx *p, const KNode *n, Val begin, Val end,
                  const KNode **nodes, EmitPartial *parts)
{
    Members m = find_members(p, n);
    Val size = be_emit_extent(&p->e, p->shape.panels.length);
    Sums sums = fold_panels(p, &m, begin, end, size);
    for (int i = 0; i < m.num; i++) {
        nodes[i] = m.nodes[i];
        parts[i] = fold_stripes(p, &m.folds[i], sums.v[i]);
    }
    return m.num;
}

/* ---- loops -------------------------------------------------------------- */

static void
emit_group(Ptx *p, const PtxReuse *stages, const KNode *n, Val begin,
           PtxKept *kept)
{
    Emit *e = &p->e;
    Val size = be_emit_extent(e, p->shape.panels.length);
    Val at = group_at(p, begin);
    PtxIf inside = be_ptx_if(p, be_icmp(e->u, LLVMIntSLT, at, size));
    be_ptx_begin_stage(p, n, p->shape.panels.width);
    e->indices[be_ptx_stage_var(n)->id] = (EmitIndex){.base = at};
    if (n == p->shape.panels.saved.loop)
        load_saved(p, kept);
    be_ptx_reuse_emit(e, stages, n, kept);
    be_ptx_end_stage(p);
    be_ptx_end_if(p, &inside, NULL, NULL);
}

void
be_ptx_panel_loop(Ptx *p, const KNode *n)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const PtxPanels *x = &p->shape.panels;
    Val panel = be_emit_word(e, panel_of(&p->shape));
    for (int slot = 0; slot < x->slots; slot++)
        emit_group(p, x->stages, n, be_emit_word(e, slot * panel_of(&p->shape)),
                   x->kept[slot]);
    if (x->slots)
        return;
    const KNode **nodes = NEW_ARRAY(e->arena, const KNode *, 1);
    nodes[0] = n;
    const PtxReuse *alone =
        n == x->saved.loop ? x->saved.stages : be_ptx_reuse(e, nodes, 1);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), be_emit_extent(e, x->length),
                  panel, "panel");
    be_loop_body(u, &l);
    emit_group(p, alone, n, l.index, be_ptx_kept_new(e));
    be_loop_end(u, &l);
}

/* ---- the grid ----------------------------------------------------------- */

void
be_ptx_panels_begin(Ptx *p)
{
    be_emit_find_varying(&p->e, NULL);
    p->together = true;
    p->lane = p->thread;
    p->active = be_int(p->e.u->i1, 1);
    p->reduced = -1;
}

/* Blocks take rows in turn. */
void
be_ptx_emit_panels(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    be_ptx_panels_begin(p);
    Val work = be_space_size(e, &p->shape.work);
    BeLoop l;
    be_loop_begin(u, &l, p->block, work, p->num_blocks, "row");
    be_loop_body(u, &l);
    be_space_delinearize(e, &p->shape.work, l.index);
    be_emit_block(e, &e->k->body);
    be_loop_end(u, &l);
}
