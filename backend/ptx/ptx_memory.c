/*
 * ptx_memory.c - loads and stores of a thread
 *
 * Neighbours that a thread handles at once are loaded by the widest loads
 * possible; accesses whose guard is false are skipped by branches.
 */
#include "backend/ptx/ptx_emit.h"

/* ---- addresses ---------------------------------------------------------- */

static bool
divides(int width, Dim d)
{
    return d.c % width == 0 && (ir_dim_is_const(d) || d.k % width == 0);
}

/* Whether a term other than row's keeps neighbours contiguous and aligned. */
static bool
keeps_groups(const Emit *e, const KTerm *t, int width)
{
    return divides(width, t->coef) && !e->index_varying[t->var->id].row;
}

bool
be_ptx_is_contiguous(const Emit *e, const KIndex *x, const KVar *row, int width)
{
    if (!divides(width, x->base))
        return false;
    bool found = false;
    for (int i = 0; i < x->num_terms; i++) {
        const KTerm *t = &x->terms[i];
        if (t->var != row && !keeps_groups(e, t, width))
            return false;
        if (t->var == row)
            found = ir_dim_equal(t->coef, ir_dim_const(1));
    }
    return found;
}

static Val
element_pointer(Emit *e, const KArray *array, Val index)
{
    Val base = e->arrays[array->role][array->index];
    return LLVMBuildGEP2(e->u->builder, be_emit_memory_type(e, array->dtype),
                         base, &index, 1, "");
}

/* Rows of one access, when all are neighbours; else 1. */
static int
rows_at_once(const Emit *e, const KArray *array, const KIndex *at)
{
    int rows = e->tile.rows;
    if (rows == 1 || !be_ptx_is_contiguous(e, at, e->tile.row, rows))
        return 1;
    int fit = PTX_ALIGN / (int)dtype_info[array->dtype].bytes;
    return rows < fit ? rows : fit;
}

static unsigned
aligned_to(const KArray *array, int rows)
{
    return (unsigned)dtype_info[array->dtype].bytes * (unsigned)rows;
}

/* ---- loads -------------------------------------------------------------- */

static Val
load_element(Emit *e, const KNode *n, Val p, int row)
{
    BeUnit *u = e->u;
    const KArray *array = n->load.array;
    Type type = be_emit_memory_type(e, array->dtype);
    PtxIf i;
    if (n->load.guard)
        i = be_ptx_if(ptx_of(e), be_emit_get(e, n->load.guard, row, 0));
    Val x = be_load(u, type, p, aligned_to(array, 1));
    if (n->load.guard)
        x = be_ptx_end_if(ptx_of(e), &i, x, be_zero(type));
    return be_emit_from_memory(u, array->dtype, x);
}

static void
load_neighbours(Emit *e, const KNode *n, Val p, int first, int rows)
{
    BeUnit *u = e->u;
    const KArray *array = n->load.array;
    Type type = be_vector(be_emit_memory_type(e, array->dtype), rows);
    Val all = be_load(u, type, p, aligned_to(array, rows));
    for (int row = 0; row < rows; row++) {
        Val x = be_extract(u, all, row, 0);
        be_emit_set(e, n, first + row, 0,
                    be_emit_from_memory(u, array->dtype, x));
    }
}

void
be_ptx_load(Emit *e, const KNode *n)
{
    const KArray *array = n->load.array;
    EmitAddress a = be_address_of(e, &n->load.at);
    int at_once = n->load.guard ? 1 : rows_at_once(e, array, &n->load.at);
    int num = be_emit_rows(e, be_emit_varying(e, n));
    for (int row = 0; row < num; row += at_once) {
        Val p = element_pointer(e, array, be_address_scalar(e, &a, row, 0));
        if (at_once > 1)
            load_neighbours(e, n, p, row, at_once);
        else
            be_emit_set(e, n, row, 0, load_element(e, n, p, row));
    }
}

/* ---- stores ------------------------------------------------------------- */

static Val
vector_of(BeUnit *u, const Val *parts, int num)
{
    Val v = LLVMGetUndef(be_vector(LLVMTypeOf(parts[0]), num));
    for (int i = 0; i < num; i++)
        v = LLVMBuildInsertElement(u->builder, v, parts[i],
                                   LLVMConstInt(u->i32, (unsigned)i, 0), "");
    return v;
}

static void
store_elements(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const KArray *array = n->store.array;
    EmitAddress a = be_address_of(e, &n->store.at);
    int at_once = n->store.guard ? 1 : rows_at_once(e, array, &n->store.at);
    int num = be_emit_rows(e, be_address_varying(e, &a));
    for (int row = 0; row < num; row += at_once) {
        Val parts[BE_MAX_ROWS];
        PtxIf guarded;
        for (int i = 0; i < at_once; i++)
            parts[i] = be_emit_to_memory(
                u, array->dtype, be_emit_get(e, n->store.value, row + i, 0));
        Val p = element_pointer(e, array, be_address_scalar(e, &a, row, 0));
        if (n->store.guard)
            guarded =
                be_ptx_if(ptx_of(e), be_emit_get(e, n->store.guard, row, 0));
        be_store(u, at_once > 1 ? vector_of(u, parts, at_once) : parts[0], p,
                 aligned_to(array, at_once));
        if (n->store.guard)
            be_ptx_end_if(ptx_of(e), &guarded, NULL, NULL);
    }
}

/* A team's stores are done by its first thread, when all have loaded. */
void
be_ptx_store(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    BeUnit *u = e->u;
    if (!p->together) {
        store_elements(e, n);
        return;
    }
    if (!n->prev || n->prev->kind != K_STORE)
        be_ptx_barrier(p);
    Val first = be_icmp(u, LLVMIntEQ, p->lane, be_emit_word(e, 0));
    PtxIf i = be_ptx_if(p, be_and(u, first, p->active));
    store_elements(e, n);
    be_ptx_end_if(p, &i, NULL, NULL);
}
