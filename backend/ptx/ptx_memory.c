/*
 * ptx_memory.c - loads and stores of a thread
 *
 * Neighbours that a thread does at once come in loads as wide as there are;
 * what a guard forbids is jumped over.
 */
#include "backend/ptx/ptx_emit.h"

/* ---- conditions --------------------------------------------------------- */

PtxIf
ptx_if(Ptx *p, Val condition)
{
    BeUnit *u = p->e.u;
    PtxIf i = {.before = be_here(u)};
    Block then = be_block(u, "then");
    i.after = be_block(u, "after");
    be_branch(u, condition, then, i.after);
    be_at(u, then);
    return i;
}

Val
ptx_end_if(Ptx *p, const PtxIf *i, Val x, Val otherwise)
{
    BeUnit *u = p->e.u;
    Block then = be_here(u);
    be_goto(u, i->after);
    be_at(u, i->after);
    if (!x)
        return NULL;
    Val v = LLVMBuildPhi(u->builder, LLVMTypeOf(x), "");
    Val values[] = {x, otherwise};
    Block from[] = {then, i->before};
    LLVMAddIncoming(v, values, from, 2);
    return v;
}

/* ---- addresses ---------------------------------------------------------- */

Val
ptx_shared_at(Ptx *p, int64_t offset, Val index, int64_t bytes)
{
    Emit *e = &p->e;
    Val at = be_mul(e->u, index, emit_word(e, bytes));
    at = be_add(e->u, at, emit_word(e, offset));
    return be_offset(e->u, p->shared, at);
}

static Val
element_pointer(Emit *e, const KArray *array, Val index)
{
    Val base = e->arrays[array->role][array->index];
    return LLVMBuildGEP2(e->u->builder, emit_memory_type(e, array->dtype), base,
                         &index, 1, "");
}

/* Rows that one access has, when all are neighbours; else 1. */
static int
rows_at_once(const Emit *e, const KArray *array, const KIndex *at)
{
    int rows = e->tile.rows;
    if (rows == 1 || !ptx_is_wide(e, at, e->tile.row, rows))
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
    Type type = emit_memory_type(e, array->dtype);
    PtxIf i;
    if (n->load.guard)
        i = ptx_if(ptx_of(e), emit_get(e, n->load.guard, row, 0));
    Val x = be_load(u, type, p, aligned_to(array, 1));
    if (n->load.guard)
        x = ptx_end_if(ptx_of(e), &i, x, be_zero(type));
    return emit_from_memory(u, array->dtype, x);
}

static void
load_neighbours(Emit *e, const KNode *n, Val p, int first, int rows)
{
    BeUnit *u = e->u;
    const KArray *array = n->load.array;
    Type type = be_vector(emit_memory_type(e, array->dtype), rows);
    Val all = be_load(u, type, p, aligned_to(array, rows));
    for (int row = 0; row < rows; row++) {
        Val x = be_extract(u, all, row, 0);
        emit_set(e, n, first + row, 0, emit_from_memory(u, array->dtype, x));
    }
}

void
ptx_load(Emit *e, const KNode *n)
{
    const KArray *array = n->load.array;
    EmitAddress a = emit_address(e, &n->load.at);
    int at_once = n->load.guard ? 1 : rows_at_once(e, array, &n->load.at);
    int num = emit_rows(e, emit_depends(e, n));
    for (int row = 0; row < num; row += at_once) {
        Val p = element_pointer(e, array, emit_address_scalar(e, &a, row, 0));
        if (at_once > 1)
            load_neighbours(e, n, p, row, at_once);
        else
            emit_set(e, n, row, 0, load_element(e, n, p, row));
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
    EmitAddress a = emit_address(e, &n->store.at);
    int at_once = n->store.guard ? 1 : rows_at_once(e, array, &n->store.at);
    int num = emit_rows(e, emit_address_depends(e, &a));
    for (int row = 0; row < num; row += at_once) {
        Val parts[BE_MAX_ROWS];
        PtxIf guarded;
        for (int i = 0; i < at_once; i++)
            parts[i] = emit_to_memory(u, array->dtype,
                                      emit_get(e, n->store.value, row + i, 0));
        Val p = element_pointer(e, array, emit_address_scalar(e, &a, row, 0));
        if (n->store.guard)
            guarded = ptx_if(ptx_of(e), emit_get(e, n->store.guard, row, 0));
        be_store(u, at_once > 1 ? vector_of(u, parts, at_once) : parts[0], p,
                 aligned_to(array, at_once));
        if (n->store.guard)
            ptx_end_if(ptx_of(e), &guarded, NULL, NULL);
    }
}

/* Stores of a team are its first thread's, when all have loaded. */
void
ptx_store(Emit *e, const KNode *n)
{
    Ptx *p = ptx_of(e);
    BeUnit *u = e->u;
    if (!p->together) {
        store_elements(e, n);
        return;
    }
    if (!n->prev || n->prev->kind != K_STORE)
        ptx_barrier(p);
    Val first = be_icmp(u, LLVMIntEQ, p->lane, emit_word(e, 0));
    PtxIf i = ptx_if(p, be_and(u, first, p->active));
    store_elements(e, n);
    ptx_end_if(p, &i, NULL, NULL);
}
