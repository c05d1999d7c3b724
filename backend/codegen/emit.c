/*
 * emit.c - values of a kernel, and what is done for each node
 *
 * A node is emitted by what is common to all machines or, where they differ, by
 * the machine that e is for.  README.md lists the files of this folder.
 */
#include "backend/codegen/emit.h"

#include <string.h>

/* ---- values ------------------------------------------------------------- */

EmitDepends
emit_depends(const Emit *e, const KNode *n)
{
    EmitDepends d = e->value_depends[n->id];
    d.lane = d.lane && e->tile.lanes;
    return d;
}

int
emit_rows(const Emit *e, EmitDepends d)
{
    return d.row ? e->tile.rows : 1;
}

int
emit_vectors(const Emit *e, EmitDepends d)
{
    return d.lane ? e->tile.vectors : 1;
}

int
emit_slot(const Emit *e, EmitDepends d, int row, int vector)
{
    return (d.row ? row : 0) * emit_vectors(e, d) + (d.lane ? vector : 0);
}

Val
emit_get(const Emit *e, const KNode *n, int row, int vector)
{
    int slot = emit_slot(e, emit_depends(e, n), row, vector);
    return e->values[n->id].v[slot];
}

Val
emit_get_as(Emit *e, const KNode *n, int row, int vector, bool lanes)
{
    Val x = emit_get(e, n, row, vector);
    return lanes && !emit_depends(e, n).lane ? be_splat(e->u, x, e->tile.lanes)
                                             : x;
}

void
emit_set(Emit *e, const KNode *n, int row, int vector, Val value)
{
    int slot = emit_slot(e, emit_depends(e, n), row, vector);
    e->values[n->id].v[slot] = value;
    be_name(e->u, value, "v%d.", n->id); /* %N of the kernel's text */
}

Type
emit_type(const Emit *e, DType t)
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
        return emit_memory_type(e, t);
    }
}

Type
emit_memory_type(const Emit *e, DType t)
{
    const BeUnit *u = e->u;
    if (t == DT_f64 || t == DT_f32)
        return t == DT_f64 ? u->f64 : u->f32;
    return LLVMIntTypeInContext(u->context, (unsigned)dtype_info[t].bytes * 8);
}

Val
emit_word(const Emit *e, int64_t x)
{
    return LLVMConstInt(e->word, (uint64_t)x, 1);
}

/* ---- nodes that are a few instructions ---------------------------------- */

static void
emit_map_node(Emit *e, const KNode *n)
{
    EmitDepends d = emit_depends(e, n);
    IrOpKind op = n->map.op;
    DType t = n->map.args[op == OP_where ? 1 : 0]->dtype;
    for (int row = 0; row < emit_rows(e, d); row++) {
        for (int v = 0; v < emit_vectors(e, d); v++) {
            Val x[3];
            for (int i = 0; i < n->map.num_args; i++)
                x[i] = emit_get_as(e, n->map.args[i], row, v, d.lane);
            emit_set(e, n, row, v,
                     op == OP_cast ? emit_cast(e->u, t, n->map.to, x[0])
                                   : emit_map(e->u, op, t, x));
        }
    }
}

static void
emit_constant(Emit *e, const KNode *n)
{
    emit_set(e, n, 0, 0, emit_scalar(emit_type(e, n->dtype), n->constant));
}

static void
emit_replica_id(Emit *e, const KNode *n)
{
    Val word = e->machine->call_word(e, 3 * (int64_t)e->k->pairs.len);
    emit_set(e, n, 0, 0, LLVMBuildTrunc(e->u->builder, word, e->u->i32, ""));
}

static void
emit_row_start(Emit *e, const KNode *n)
{
    emit_set(e, n, 0, 0, e->machine->call_word(e, 3 * (int64_t)n->pair + 2));
}

/* Of every machine. */
static EmitNode *const common[K_NUM_KINDS] = {
    [K_CONST] = emit_constant,
    [K_INDEX] = emit_index_value,
    [K_REPLICA_ID] = emit_replica_id,
    [K_ROW_START] = emit_row_start,
    [K_INSIDE] = emit_inside,
    [K_MAP] = emit_map_node,
    [K_DIV] = emit_divide,
    [K_MOD] = emit_divide,
    [K_PICK] = emit_pick,
    [K_RUNNING] = emit_running,
};

void
emit_node(Emit *e, const KNode *n)
{
    EmitNode *emit = common[n->kind];
    (emit ? emit : e->machine->nodes[n->kind])(e, n);
}

void
emit_block(Emit *e, const KBlock *b)
{
    for (const KNode *n = b->first; n; n = n->next)
        emit_node(e, n);
}

void
emit_open(Emit *e)
{
    const BeKernel *k = e->k;
    Arena *a = e->arena;
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    e->values = NEW_ARRAY(a, EmitValue, (size_t)k->num_values);
    e->indices = NEW_ARRAY(a, EmitIndex, (size_t)k->num_vars);
    e->value_depends = NEW_ARRAY(a, EmitDepends, (size_t)k->num_values);
    e->index_depends = NEW_ARRAY(a, EmitDepends, (size_t)k->num_vars);
    e->lane_int = emit_indices_are_wide(k) ? e->u->i64 : e->u->i32;
}

/* LLVM would use half of v4's registers out of care for old cores. */
void
emit_use_registers(Emit *e)
{
    be_func_text_attr(e->u, "prefer-vector-width",
                      e->target->register_bytes == 64 ? "512" : "256");
}
