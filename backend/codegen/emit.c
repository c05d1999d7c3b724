/*
 * emit.c - values of a kernel, and the dispatch by node
 *
 * Bodies hold nodes whose emitters emit bodies.  This recursion passes through
 * one place: be_emit_node() calls through the table of the machine's lowering,
 * and the emitters call be_emit_node() and be_emit_block() here.
 */
#include "backend/codegen/emit.h"

#include "ir/base/status.h"

#include <assert.h>

/* ---- values ------------------------------------------------------------- */

EmitVarying
be_emit_varying(const Emit *e, const KNode *n)
{
    assert(n->id >= 0 && n->id < e->k->num_values);
    EmitVarying d = e->value_varying[n->id];
    d.lane = d.lane && e->tile.lanes;
    return d;
}

int
be_emit_rows(const Emit *e, EmitVarying d)
{
    return d.row ? e->tile.rows : 1;
}

int
be_emit_vectors(const Emit *e, EmitVarying d)
{
    return d.lane ? e->tile.vectors : 1;
}

int
be_emit_slot(const Emit *e, EmitVarying d, int row, int vector)
{
    assert(row >= 0 && row < e->tile.rows);
    assert(vector >= 0 && vector < e->tile.vectors);
    return (d.row ? row : 0) * be_emit_vectors(e, d) + (d.lane ? vector : 0);
}

Val
be_emit_get(const Emit *e, const KNode *n, int row, int vector)
{
    int slot = be_emit_slot(e, be_emit_varying(e, n), row, vector);
    return e->values[n->id].v[slot];
}

Val
be_emit_get_as(Emit *e, const KNode *n, int row, int vector, bool lanes)
{
    Val x = be_emit_get(e, n, row, vector);
    return lanes && !be_emit_varying(e, n).lane
               ? be_splat(e->u, x, e->tile.lanes)
               : x;
}

void
be_emit_set(Emit *e, const KNode *n, int row, int vector, Val value)
{
    int slot = be_emit_slot(e, be_emit_varying(e, n), row, vector);
    e->values[n->id].v[slot] = value;
    be_name(e->u, value, "v%d.", n->id); /* %N of the kernel's text */
}

Type
be_emit_type(const Emit *e, DType t)
{
    const BeUnit *u = e->u;
    switch (dtype_compute(t)) {
    case DT_f64:
        return u->f64;
    case DT_f32:
        return u->f32;
    case DT_bool:
        return u->i1;
    case DT_bf16:
    case DT_f16:
    case DT_i64:
    case DT_i32:
    case DT_i16:
    case DT_i8:
    case DT_u8:
        return be_emit_memory_type(e, t);
    case NUM_DTYPES:
        break;
    }
    UNREACHABLE("a dtype that is none");
}

Type
be_emit_memory_type(const Emit *e, DType t)
{
    const BeUnit *u = e->u;
    if (t == DT_f64 || t == DT_f32)
        return t == DT_f64 ? u->f64 : u->f32;
    return LLVMIntTypeInContext(u->context, (unsigned)dtype_info[t].bytes * 8);
}

Val
be_emit_word(const Emit *e, int64_t x)
{
    return LLVMConstInt(e->word, (uint64_t)x, 1);
}

/* ---- nodes --------------------------------------------------------------- */

void
be_emit_node(Emit *e, const KNode *n)
{
    EmitNode *emit = e->lowering->nodes[n->kind];
    assert(emit);
    emit(e, n);
}

void
be_emit_block(Emit *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        be_emit_node(e, n);
}

/* By default LLVM uses only half of v4's registers, because of old cores. */
void
be_emit_use_registers(Emit *e)
{
    be_func_text_attr(e->u, "prefer-vector-width",
                      e->target->register_bytes == 64 ? "512" : "256");
}
