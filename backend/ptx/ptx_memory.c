/*
 * ptx_memory.c - loads and stores of a thread
 *
 * Neighbours that a thread handles at once are accessed by 16 bytes at a time
 * where they are adjacent and share their guard (ptx_groups.c); accesses whose
 * guard is false are skipped by branches.
 */
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx.h"
#include "backend/ptx/ptx_emit.h"

/* ---- addresses ---------------------------------------------------------- */

/* Rows of one access: as many as it can bring when they are neighbours and all
 * or none of them are accessed; else 1. */
static int
rows_at_once(Emit *e, const KArray *array, const KIndex *at, const KNode *guard)
{
    const PtxGroups *g = ptx_of(e)->groups;
    int rows = e->tile.rows;
    if (rows == 1 || !be_ptx_is_contiguous(g, at) || !be_ptx_is_same(g, guard))
        return 1;
    int fit = PTX_ALIGN / (int)dtype_info[array->dtype].bytes;
    return rows < fit ? rows : fit;
}

static unsigned
aligned_to(const KArray *array, int rows)
{
    return (unsigned)dtype_info[array->dtype].bytes * (unsigned)rows;
}

/* ---- words -------------------------------------------------------------- */

/* Neighbours of less than 32 bits are accessed as words, for NVPTX has no
 * vectors of 16 bytes for them. */
enum { WORD_BYTES = 4 };

static bool
are_packed(const KArray *array, int rows)
{
    int bytes = (int)dtype_info[array->dtype].bytes;
    return bytes < WORD_BYTES && rows * bytes >= WORD_BYTES;
}

/* The type of one access of `rows` elements. */
static Type
access_type(const Emit *e, const KArray *array, int rows)
{
    int words = rows * (int)dtype_info[array->dtype].bytes / WORD_BYTES;
    if (are_packed(array, rows))
        return be_vector(e->u->i32, words > 1 ? words : 0);
    Type element = be_emit_memory_type(e, array->dtype);
    return be_vector(element, rows > 1 ? rows : 0);
}

static Val
part_of(BeUnit *u, Val all, int i)
{
    return be_lanes(LLVMTypeOf(all)) ? be_extract(u, all, i, 0) : all;
}

/* The element of a row, out of one access. */
static Val
unpack(Emit *e, const KArray *array, Val all, int rows, int row)
{
    BeUnit *u = e->u;
    int bytes = (int)dtype_info[array->dtype].bytes;
    if (!are_packed(array, rows))
        return part_of(u, all, row);
    int before = row * bytes;
    Val word = part_of(u, all, before / WORD_BYTES);
    Val shift = be_int(u->i32, 8 * (before % WORD_BYTES));
    word = LLVMBuildLShr(u->builder, word, shift, "");
    return LLVMBuildTrunc(u->builder, word,
                          be_emit_memory_type(e, array->dtype), "");
}

static Val
vector_of(BeUnit *u, const Val *parts, int num)
{
    if (num == 1)
        return parts[0];
    Val v = LLVMGetUndef(be_vector(LLVMTypeOf(parts[0]), num));
    for (int i = 0; i < num; i++)
        v = LLVMBuildInsertElement(u->builder, v, parts[i],
                                   LLVMConstInt(u->i32, (unsigned)i, 0), "");
    return v;
}

/* The operand of one access, from the elements of its rows. */
static Val
pack(Emit *e, const KArray *array, const Val *x, int rows)
{
    BeUnit *u = e->u;
    Val words[WORD_BYTES];
    int bytes = (int)dtype_info[array->dtype].bytes;
    if (!are_packed(array, rows))
        return vector_of(u, x, rows);
    for (int i = 0; i < rows; i++) {
        int before = i * bytes, word = before / WORD_BYTES;
        Val shift = be_int(u->i32, 8 * (before % WORD_BYTES));
        Val part = LLVMBuildZExt(u->builder, x[i], u->i32, "");
        part = LLVMBuildShl(u->builder, part, shift, "");
        words[word] = before % WORD_BYTES
                          ? LLVMBuildOr(u->builder, words[word], part, "")
                          : part;
    }
    return vector_of(u, words, rows * bytes / WORD_BYTES);
}

/* ---- loads -------------------------------------------------------------- */

/* Some neighbours; 0 where the guard is false. */
static void
load_rows(Emit *e, const KNode *n, Val p, int first, int rows)
{
    BeUnit *u = e->u;
    const KArray *array = n->load.array;
    Type type = access_type(e, array, rows);
    PtxIf i;
    if (n->load.guard)
        i = be_ptx_if(ptx_of(e), be_emit_get(e, n->load.guard, first, 0));
    Val all = be_load(u, type, p, aligned_to(array, rows));
    if (n->load.guard)
        all = be_ptx_end_if(ptx_of(e), &i, all, be_zero(type));
    for (int row = 0; row < rows; row++) {
        Val x = unpack(e, array, all, rows, row);
        be_emit_set(e, n, first + row, 0,
                    be_emit_from_memory(u, array->dtype, x));
    }
}

void
be_ptx_load(Emit *e, const KNode *n)
{
    const KArray *array = n->load.array;
    EmitAddress a = be_address_of(e, &n->load.at);
    int num = be_emit_rows(e, be_emit_varying(e, n));
    int at_once =
        num > 1 ? rows_at_once(e, array, &n->load.at, n->load.guard) : 1;
    for (int row = 0; row < num; row += at_once) {
        Val p =
            be_emit_element_pointer(e, array, be_address_scalar(e, &a, row, 0));
        load_rows(e, n, p, row, at_once);
    }
}

/* ---- stores ------------------------------------------------------------- */

static void
store_elements(Emit *e, const KNode *n)
{
    BeUnit *u = e->u;
    const KArray *array = n->store.array;
    EmitAddress a = be_address_of(e, &n->store.at);
    int num = be_emit_rows(e, be_address_varying(e, &a));
    int at_once =
        num > 1 ? rows_at_once(e, array, &n->store.at, n->store.guard) : 1;
    for (int row = 0; row < num; row += at_once) {
        Val parts[PTX_ALIGN];
        PtxIf guarded;
        for (int i = 0; i < at_once; i++)
            parts[i] = be_emit_to_memory(
                u, array->dtype, be_emit_get(e, n->store.value, row + i, 0));
        Val p =
            be_emit_element_pointer(e, array, be_address_scalar(e, &a, row, 0));
        if (n->store.guard)
            guarded =
                be_ptx_if(ptx_of(e), be_emit_get(e, n->store.guard, row, 0));
        be_store(u, pack(e, array, parts, at_once), p,
                 aligned_to(array, at_once));
        if (n->store.guard)
            be_ptx_end_if(ptx_of(e), &guarded, NULL, NULL);
    }
}

static bool
is_within_warp(const Ptx *p)
{
    const PtxShape *s = &p->shape;
    return s->rows.length || (!s->strided && s->team <= PTX_WARP);
}

/* Whether n is the first store after something that its team has loaded since
 * its threads have met.  They meet in reductions, except within a warp, where
 * these are shuffles, which order no accesses to memory; and except in one that
 * an earlier one of a long row has made together with itself. */
static bool
follows_load(const Ptx *p, const KNode *n)
{
    for (n = n->prev; n; n = n->prev) {
        if (n->kind == K_STORE)
            return false;
        if (n->kind == K_REDUCE && !p->shape.panels.is_used)
            return is_within_warp(p);
        if (n->kind == K_LOAD || n->kind == K_LOOP || n->kind == K_CONTRACT ||
            n->kind == K_SCAN || n->kind == K_SORT)
            return true;
    }
    return false;
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
    bool waits = follows_load(p, n);
    if (waits && is_within_warp(p))
        be_ptx_warp_barrier(p);
    else if (waits)
        be_ptx_barrier(p);
    Val first = be_icmp(u, LLVMIntEQ, p->lane, be_emit_word(e, 0));
    PtxIf i = be_ptx_if(p, be_and(u, first, p->active));
    store_elements(e, n);
    be_ptx_end_if(p, &i, NULL, NULL);
}

/* ---- aliasing ------------------------------------------------------------ */

/* Kernels may write the elements of a read-only input where the output's
 * element with the same number is written (docs/kernels.md). */
typedef struct Sharing {
    const BeKernel *k;
    const KArray *in, *out;
    const KIndex *load, *store;
    bool apart; /* it is also read elsewhere */
} Sharing;

static void
note_shared_store(KNode *n, void *data)
{
    Sharing *s = data;
    if (n->kind == K_STORE && n->store.array == s->out &&
        !be_index_equal(&n->store.at, s->load))
        s->apart = true;
}

static void
note_shared_load(KNode *n, void *data)
{
    Sharing *s = data;
    if (n->kind != K_LOAD || n->load.array != s->in)
        return;
    s->load = &n->load.at;
    KBlock body = s->k->body;
    be_kernel_walk(&body, note_shared_store, s);
}

bool
be_ptx_may_share(const BeKernel *k, const KArray *in, const KArray *out)
{
    Sharing s = {.k = k, .in = in, .out = out};
    KBlock body = k->body;
    be_kernel_walk(&body, note_shared_load, &s);
    return !s.apart;
}
