/*
 * emit.c - values of a kernel, and what is done for each node
 *
 * A node is emitted by what is common to all machines or, where they differ, by
 * the machine that e is for.  README.md lists the files of this folder.
 */
#include "backend/codegen/emit.h"

#include <string.h>

/* ---- values ------------------------------------------------------------- */

EmitVarying
be_emit_varying(const Emit *e, const KNode *n)
{
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
    default:
        return be_emit_memory_type(e, t);
    }
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

/* ---- nodes that are a few instructions ---------------------------------- */

static void
emit_map_node(Emit *e, const KNode *n)
{
    EmitVarying d = be_emit_varying(e, n);
    IrOpKind op = n->map.op;
    DType t = n->map.args[op == OP_where ? 1 : 0]->dtype;
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val x[3];
            for (int i = 0; i < n->map.num_args; i++)
                x[i] = be_emit_get_as(e, n->map.args[i], row, v, d.lane);
            be_emit_set(e, n, row, v,
                        op == OP_cast ? be_emit_cast(e->u, t, n->map.to, x[0])
                                      : be_emit_map(e->u, op, t, x));
        }
    }
}

static void
emit_constant(Emit *e, const KNode *n)
{
    be_emit_set(e, n, 0, 0,
                be_emit_scalar(be_emit_type(e, n->dtype), n->constant));
}

static void
emit_replica_id(Emit *e, const KNode *n)
{
    Val word = e->lowering->call_word(e, 3 * (int64_t)e->k->pairs.len);
    be_emit_set(e, n, 0, 0, LLVMBuildTrunc(e->u->builder, word, e->u->i32, ""));
}

static void
emit_row_start(Emit *e, const KNode *n)
{
    be_emit_set(e, n, 0, 0,
                e->lowering->call_word(e, 3 * (int64_t)n->pair + 2));
}

/* Of every machine. */
static EmitNode *const common[K_NUM_KINDS] = {
    [K_CONST] = emit_constant,        [K_INDEX] = be_emit_index_value,
    [K_REPLICA_ID] = emit_replica_id, [K_ROW_START] = emit_row_start,
    [K_INSIDE] = be_emit_inside,      [K_MAP] = emit_map_node,
    [K_DIV] = be_emit_divide,         [K_MOD] = be_emit_divide,
    [K_PICK] = be_emit_pick,          [K_RUNNING] = be_emit_running,
};

void
be_emit_node(Emit *e, const KNode *n)
{
    EmitNode *emit = common[n->kind];
    (emit ? emit : e->lowering->nodes[n->kind])(e, n);
}

void
be_emit_block(Emit *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        be_emit_node(e, n);
}

void
be_emit_open(Emit *e)
{
    const BeKernel *k = e->k;
    Arena *a = e->arena;
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    e->values = NEW_ARRAY(a, EmitValue, (size_t)k->num_values);
    e->indices = NEW_ARRAY(a, EmitIndex, (size_t)k->num_vars);
    e->value_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_values);
    e->index_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_vars);
    e->lane_int = be_indices_are_wide(k) ? e->u->i64 : e->u->i32;
}

/* LLVM would use half of v4's registers out of care for old cores. */
void
be_emit_use_registers(Emit *e)
{
    be_func_text_attr(e->u, "prefer-vector-width",
                      e->target->register_bytes == 64 ? "512" : "256");
}
