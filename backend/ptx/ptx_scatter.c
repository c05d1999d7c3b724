/*
 * ptx_scatter.c - scatters, whose updates go to rows that values choose
 *
 * An item is a column of the rows that are updated, and its updates are done
 * in order by one thread.  There are few columns, so what would be left of the
 * grid is divided by rows: blocks with the same columns are *parts*, and each
 * does the updates of its rows, those whose number has its remainder.  Updates
 * of one row stay in their order.
 *
 * A warp looks at many updates at once, one in a lane, and then executes those
 * of its part one after the other.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"

enum {
    LOOKED_AT = 4 /* updates that a lane looks at, so that loads overlap */
};

/* ---- the form ----------------------------------------------------------- */

/* The only loop of an item that has nothing but values besides. */
static const KNode *
only_ordered_loop(const KBlock *b)
{
    const KNode *found = NULL;
    for (KNode *n = b->first; n; n = n->next) {
        KRanges *ranges;
        if (n->kind == K_STORE || n->kind == K_RUNNING ||
            (be_kernel_body(n, &ranges) && (found || n->kind != K_LOOP)))
            return NULL;
        if (n->kind == K_LOOP)
            found = n;
    }
    bool is_ordered = found && found->loop.ordered;
    return is_ordered && be_ptx_is_plain(&found->loop.body) ? found : NULL;
}

static const KNode *
only_pick(const KBlock *b)
{
    const KNode *found = NULL;
    for (const KNode *n = b->first; n; n = n->next) {
        if (n->kind == K_PICK && found)
            return NULL;
        if (n->kind == K_PICK)
            found = n;
    }
    return found;
}

/* Whether points that differ in var are different elements. */
static bool
distinguishes(const BeKernel *k, const KIndex *x, const KVar *var)
{
    Dim own = be_index_coef(x, var);
    int64_t within = 0, run;
    if (!ir_dim_is_const(own) || own.c <= 0 ||
        __builtin_mul_overflow(own.c, be_var_bound(k, var), &run))
        return false;
    for (int i = 0; i < x->num_terms; i++) {
        const KTerm *t = &x->terms[i];
        int64_t most;
        if (t->var == var || (ir_dim_is_const(t->coef) && t->coef.c % run == 0))
            continue;
        if (!ir_dim_is_const(t->coef) || t->coef.c < 0 ||
            __builtin_mul_overflow(t->coef.c, be_var_bound(k, t->var) - 1,
                                   &most) ||
            __builtin_add_overflow(within, most, &within))
            return false;
    }
    return within < own.c;
}

/* Whether all that is stored, and loaded from outputs, is the element that the
 * index chooses. */
static bool
updates_in_place(const BeKernel *k, const KBlock *b, const KVar *var)
{
    const KIndex *at = NULL;
    for (const KNode *n = b->first; n; n = n->next) {
        const KIndex *x = n->kind == K_STORE ? &n->store.at
                          : n->kind == K_LOAD && n->load.array->role == K_OUT
                              ? &n->load.at
                              : NULL;
        if (x && at && !be_index_equal(x, at))
            return false;
        at = x ? x : at;
    }
    return at && distinguishes(k, at, var);
}

/* Whether what the row's number follows from, s, has no element of an output.
 */
static bool
loads_inputs(const PtxSlice *s, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        if (n->kind == K_LOAD && n->load.array->role == K_OUT &&
            be_ptx_slice_has(s, n))
            return false;
    return true;
}

bool
be_ptx_scatter_find(Ptx *p, PtxShape *out)
{
    Emit *e = &p->e;
    const BeKernel *k = e->k;
    const KBlock *item = out->flat ? &out->flat->loop.body : &k->body;
    PtxScatter s = {.loop = k->segments.len ? NULL : only_ordered_loop(item)};
    if (!s.loop || !out->work.count)
        return false;
    const KBlock *b = &s.loop->loop.body;
    s.pick = only_pick(b);
    if (!s.pick || !updates_in_place(k, b, s.pick->pick.var))
        return false;
    s.slice = be_ptx_slice_new(e);
    s.slice.vars[s.pick->pick.var->id] = true;
    be_ptx_slice_close(&s.slice, b);
    if (!loads_inputs(&s.slice, b))
        return false;
    out->scatter = s;
    out->items = out->threads = PTX_THREADS;
    while (out->threads > PTX_WARP &&
           out->threads / 2 >= be_space_bound(k, &out->work))
        out->items = out->threads /= 2;
    return true;
}

/* ---- parts -------------------------------------------------------------- */

/* A block's part, and how many there are. */
typedef struct Part {
    Val number, count;
} Part;

/* Whether the update is one of the part's. */
static Val
is_of_part(Ptx *p, const Part *part, Val update, Val end)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const PtxScatter *s = &p->shape.scatter;
    EmitSpace updates = be_space_of(&s->loop->loop.ranges);
    Val last = be_sub(u, end, be_emit_word(e, 1));
    be_space_delinearize(e, &updates, be_min(u, update, last));
    be_ptx_slice_emit(e, &s->slice, &s->loop->loop.body);
    Val row = e->indices[s->pick->pick.var->id].base;
    Val rest = LLVMBuildURem(u->builder, row, part->count, "");
    Val exists = be_icmp(u, LLVMIntSLT, update, end);
    return be_and(u, exists, be_icmp(u, LLVMIntEQ, rest, part->number));
}

/* A bit for each lane of the warp. */
static Val
ballot(Ptx *p, Val condition, Val lane)
{
    LLVMBuilderRef b = p->e.u->builder;
    Val bits = LLVMBuildZExt(b, condition, p->e.u->i32, "");
    bits = LLVMBuildShl(b, bits, lane, "");
    for (int distance = 1; distance < PTX_WARP; distance *= 2)
        bits = LLVMBuildOr(b, bits, be_ptx_shuffle(p, bits, distance), "");
    return bits;
}

static Val
count_bits(BeUnit *u, const char *name, Val bits, int num_args)
{
    Val args[] = {bits, be_int(LLVMInt1TypeInContext(u->context), 1)};
    Type type = LLVMTypeOf(bits);
    return be_intrinsic(u, name, &type, 1, args, num_args);
}

/* The updates from `first` on whose bits are set, in order. */
static void
do_updates(Ptx *p, Val first, Val bits)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    const KNode *n = p->shape.scatter.loop;
    EmitSpace updates = be_space_of(&n->loop.ranges);
    Val count = count_bits(u, "llvm.ctpop", bits, 1);
    count = LLVMBuildIntCast2(b, count, e->word, 0, "");
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), count, be_emit_word(e, 1),
                  "update");
    bits = be_loop_carry(u, &l, bits);
    be_loop_body(u, &l);
    Val lane = count_bits(u, "llvm.cttz", bits, 2);
    lane = LLVMBuildIntCast2(b, lane, e->word, 0, "");
    be_space_delinearize(e, &updates, be_add(u, first, lane));
    PtxIf i = be_ptx_if(p, p->active);
    be_emit_block(e, &n->loop.body);
    be_ptx_end_if(p, &i, NULL, NULL);
    Val less = be_sub(u, bits, be_int(u->i32, 1));
    be_loop_next(&l, 0, LLVMBuildAnd(b, bits, less, ""));
    be_loop_end(u, &l);
}

/* The code of an update is there once: in each round the bits of the next
 * updates move to the front. */
static void
do_all_updates(Ptx *p, Val first, Val *bits)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0),
                  be_emit_word(e, LOOKED_AT * PTX_WARP),
                  be_emit_word(e, PTX_WARP), "updates");
    for (int i = 0; i < LOOKED_AT; i++)
        bits[i] = be_loop_carry(u, &l, bits[i]);
    be_loop_body(u, &l);
    do_updates(p, be_add(u, first, l.index), bits[0]);
    for (int i = 0; i < LOOKED_AT; i++)
        be_loop_next(&l, i, bits[(i + 1) % LOOKED_AT]);
    be_loop_end(u, &l);
}

/* All updates of a thread's column. */
static void
emit_column(Ptx *p, const Part *part)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    EmitSpace updates = be_space_of(&p->shape.scatter.loop->loop.ranges);
    Val end = be_space_size(e, &updates), bits[LOOKED_AT], found[LOOKED_AT];
    Val lane =
        LLVMBuildURem(u->builder, p->thread, be_emit_word(e, PTX_WARP), "");
    Val shift = LLVMBuildIntCast2(u->builder, lane, u->i32, 0, "");
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), end,
                  be_emit_word(e, LOOKED_AT * PTX_WARP), "warp");
    be_loop_body(u, &l);
    for (int i = 0; i < LOOKED_AT; i++) {
        Val update = be_add(u, l.index, be_emit_word(e, i * PTX_WARP));
        found[i] = is_of_part(p, part, be_add(u, update, lane), end);
    }
    for (int i = 0; i < LOOKED_AT; i++)
        bits[i] = ballot(p, found[i], shift);
    do_all_updates(p, l.index, bits);
    be_loop_end(u, &l);
}

/* A turn is as many columns as a block has threads.  All of its threads take
 * part in it, those without a column for the warp's sake. */
void
be_ptx_emit_scatter(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    LLVMBuilderRef b = u->builder;
    const PtxShape *s = &p->shape;
    be_emit_find_varying(e, NULL);
    Val work = be_space_size(e, &s->work), one = be_emit_word(e, 1);
    Val threads = be_emit_word(e, s->threads);
    Val turns = be_add(u, work, be_emit_word(e, s->threads - 1));
    turns = LLVMBuildUDiv(b, turns, threads, "");
    turns = be_max(u, turns, one);
    Part part = {.number = LLVMBuildUDiv(b, p->block, turns, "")};
    part.count = be_max(u, LLVMBuildUDiv(b, p->num_blocks, turns, ""), one);
    Val turn = LLVMBuildURem(b, p->block, turns, "");
    Val idle = be_icmp(u, LLVMIntSGE, part.number, part.count);
    Val begin = be_mul(u, turn, threads);
    Val step = be_mul(u, p->num_blocks, threads);
    BeLoop l;
    be_loop_begin(u, &l, be_select(u, idle, work, begin), work, step, "item");
    be_loop_body(u, &l);
    Val item = be_add(u, l.index, p->thread);
    p->active = be_icmp(u, LLVMIntSLT, item, work);
    item = be_min(u, item, be_sub(u, work, one));
    be_space_delinearize(e, &s->work, item);
    const KBlock *outer = &e->k->body;
    for (const KNode *n = outer->first; n; n = n->next)
        if (n != s->flat && n != s->scatter.loop)
            be_emit_node(e, n);
    for (const KNode *n = s->flat ? s->flat->loop.body.first : NULL; n;
         n = n->next)
        if (n != s->scatter.loop)
            be_emit_node(e, n);
    emit_column(p, &part);
    be_loop_end(u, &l);
}
