/*
 * emit_keep.c - values of a reduction that a later loop computes once more
 *
 * A softmax adds the exponentials of a row, and then divides each by the sum.
 * In the kernel IR these are two loops with equal values.  Those that take long
 * are stored by the first loop, in a buffer for one row on the stack, and
 * loaded by the others: the same bits, since no value of a kernel is ever
 * rounded on the way to memory of its own type.
 */
#include "backend/codegen/emit.h"

#include "backend/kernel/kernel_impl.h"

enum {
    LONG_VALUE = 10,        /* instructions that an element takes */
    BUFFER_BYTES = 64 << 10 /* of all rows */
};

/* A loop and an earlier one with as many rounds. */
typedef struct Pair {
    const Emit *e;
    const KBlock *first, *second;
    const KVar *first_var, *second_var;
    const KNode **image; /* by id of a value in the second loop: the equal one
                            in the first, or NULL */
    double *cost;        /* of such a value, with its operands in the loop */
} Pair;

/* ---- loops --------------------------------------------------------------- */

/* The only index of a vector construct; NULL: n is something else. */
static const KVar *
vector_index(const KNode *n, const KBlock **body)
{
    if (n->kind == K_REDUCE && n->reduce.vector &&
        n->reduce.ranges.count == 1) {
        *body = &n->reduce.body;
        return n->reduce.ranges.vars[0];
    }
    if (n->kind == K_LOOP && n->loop.vector) {
        *body = &n->loop.body;
        return n->loop.ranges.vars[0];
    }
    return NULL;
}

/* ---- equal values -------------------------------------------------------- */

/* Whether y in the second loop is x in the first. */
static bool
is_same_index(const Pair *p, const KIndex *x, const KIndex *y)
{
    if (!ir_dim_equal(x->base, y->base) || x->num_terms != y->num_terms)
        return false;
    for (int i = 0; i < x->num_terms; i++) {
        const KVar *var = x->terms[i].var;
        Dim coef = be_index_coef(y, var == p->first_var ? p->second_var : var);
        if (!ir_dim_equal(x->terms[i].coef, coef))
            return false;
    }
    return true;
}

static bool
is_same_load(const Pair *p, const KNode *x, const KNode *y)
{
    return x->load.array == y->load.array && x->load.array->role != K_OUT &&
           !x->load.guard && !y->load.guard &&
           is_same_index(p, &x->load.at, &y->load.at);
}

static bool
is_same_map(const Pair *p, const KNode *x, const KNode *y)
{
    if (x->map.op != y->map.op || x->map.to != y->map.to ||
        x->map.num_args != y->map.num_args)
        return false;
    for (int i = 0; i < x->map.num_args; i++) {
        const KNode *arg = y->map.args[i], *image = p->image[arg->id];
        if (x->map.args[i] != (image ? image : arg))
            return false;
    }
    return true;
}

static bool
is_same(const Pair *p, const KNode *x, const KNode *y)
{
    if (x->kind != y->kind || x->dtype != y->dtype)
        return false;
    return x->kind == K_CONST  ? x->constant.i == y->constant.i
           : x->kind == K_LOAD ? is_same_load(p, x, y)
           : x->kind == K_MAP  ? is_same_map(p, x, y)
                               : false;
}

static const KNode *
find_image(const Pair *p, const KNode *y)
{
    for (const KNode *x = p->first->first; x; x = x->next)
        if (be_kernel_kinds[x->kind].has_value && is_same(p, x, y))
            return x;
    return NULL;
}

/* ---- the choice ---------------------------------------------------------- */

/* Fills in what is known of values of the second loop, operands first. */
static void
compare(Pair *p)
{
    size_t num = (size_t)p->e->k->num_values;
    p->image = NEW_ARRAY(p->e->arena, const KNode *, num);
    p->cost = NEW_ARRAY(p->e->arena, double, num);
    for (const KNode *y = p->second->first; y; y = y->next) {
        if (!be_kernel_kinds[y->kind].has_value)
            continue;
        p->image[y->id] = find_image(p, y);
        if (y->kind != K_MAP)
            continue;
        p->cost[y->id] = ir_op_code(y->map.op)->cost;
        for (int i = 0; i < y->map.num_args; i++)
            p->cost[y->id] += p->cost[y->map.args[i]->id];
    }
}

/* A value that is stored has one row, whoever loads it, and a block of vectors
 * more, which may begin at its last element; NULL: there is no room. */
static EmitKept *
row_for(Emit *e, const KNode *x, const KVar *var, int64_t *room)
{
    EmitKept *kept = e->kept[x->id];
    if (kept)
        return kept;
    int64_t element = (int64_t)dtype_info[x->dtype].bytes;
    int64_t block = (int64_t)BE_MAX_VECTORS * e->target->register_bytes;
    int64_t most = (*room - block) / element;
    int64_t bound = be_dim_bound(e->k, var->extent);
    if (bound > most)
        return NULL;
    int64_t bytes = bound * element + block;
    *room -= bytes;
    kept = NEW(e->arena, EmitKept);
    *kept = (EmitKept){.stored = x, .var = var};
    kept->row = be_alloca(e->u, e->u->i8, (uint64_t)bytes, CACHE_LINE, "row");
    return e->kept[x->id] = kept;
}

/* Whether y, of a map, should be loaded, rather than computed. */
static bool
is_worth_it(const Pair *p, const KNode *y)
{
    const KNode *x = p->image[y->id];
    return x && !p->e->kept[y->id] && dtype_is_float(y->dtype) &&
           p->cost[y->id] >= LONG_VALUE && p->e->value_varying[x->id].lane;
}

/* From the last value on; the operands of one that is loaded are left alone. */
static void
keep_values(Emit *e, Pair *p, int64_t *room)
{
    bool *covered = NEW_ARRAY(e->arena, bool, (size_t)e->k->num_values);
    compare(p);
    for (const KNode *y = p->second->last; y; y = y->prev) {
        if (y->kind != K_MAP)
            continue;
        const KNode *x = p->image[y->id];
        EmitKept *from = !covered[y->id] && is_worth_it(p, y)
                             ? row_for(e, x, p->first_var, room)
                             : NULL;
        if (from) {
            EmitKept *to = e->kept[y->id] = NEW(e->arena, EmitKept);
            *to = (EmitKept){x, p->second_var, from->row};
        }
        for (int i = 0; i < y->map.num_args; i++)
            covered[y->map.args[i]->id] |= from || covered[y->id];
    }
}

void
be_emit_find_kept(Emit *e)
{
    int64_t room = BUFFER_BYTES;
    for (const KNode *second = e->k->body.first; second;
         second = second->next) {
        Pair p = {.e = e};
        p.second_var = vector_index(second, &p.second);
        for (const KNode *first = e->k->body.first;
             p.second_var && first != second; first = first->next) {
            p.first_var = vector_index(first, &p.first);
            if (p.first_var && first->kind == K_REDUCE &&
                ir_dim_equal(p.first_var->extent, p.second_var->extent))
                keep_values(e, &p, &room);
        }
    }
}

/* ---- code ---------------------------------------------------------------- */

/* Where the row has the value for a vector of the tile. */
static Val
place_of(Emit *e, const EmitKept *kept, int v)
{
    BeUnit *u = e->u;
    int64_t bytes = (int64_t)dtype_info[kept->stored->dtype].bytes;
    Val at = be_mul(u, e->indices[kept->var->id].base, be_emit_word(e, bytes));
    return be_offset_const(u, be_offset(u, kept->row, at),
                           v * be_emit_vector_step(e) * bytes);
}

bool
be_emit_load_kept(Emit *e, const KNode *n)
{
    const EmitKept *kept = e->kept[n->id];
    if (!kept || kept->stored == n)
        return false;
    EmitVarying d = be_emit_varying(e, n);
    Type type =
        be_vector(be_emit_type(e, n->dtype), d.lane ? e->tile.lanes : 0);
    for (int v = 0; v < be_emit_vectors(e, d); v++)
        be_emit_set(e, n, 0, v,
                    be_load(e->u, type, place_of(e, kept, v),
                            (unsigned)dtype_info[n->dtype].bytes));
    return true;
}

void
be_emit_store_kept(Emit *e, const KNode *n)
{
    const EmitKept *kept = e->kept[n->id];
    if (!kept)
        return;
    EmitVarying d = be_emit_varying(e, n);
    for (int v = 0; v < be_emit_vectors(e, d); v++)
        be_store(e->u, be_emit_get(e, n, 0, v), place_of(e, kept, v),
                 (unsigned)dtype_info[n->dtype].bytes);
}
