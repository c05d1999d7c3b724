/*
 * emit_node.c - nodes that take a few instructions, on every machine
 */
#include "backend/codegen/emit.h"

#include <assert.h>

void
be_emit_open(Emit *e)
{
    const BeKernel *k = e->k;
    assert(k && e->u && e->arena && e->word && e->lowering);
    Arena *a = e->arena;
    e->tile = (EmitTile){.rows = 1, .vectors = 1};
    e->values = NEW_ARRAY(a, EmitValue, (size_t)k->num_values);
    e->indices = NEW_ARRAY(a, EmitIndex, (size_t)k->num_vars);
    e->known = NEW_ARRAY(a, EmitKnown, (size_t)k->num_values);
    e->strips = NEW_ARRAY(a, EmitValue *, (size_t)k->num_values);
    e->kept = NEW_ARRAY(a, EmitKept *, (size_t)k->num_values);
    e->value_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_values);
    e->index_varying = NEW_ARRAY(a, EmitVarying, (size_t)k->num_vars);
    e->lane_int = be_indices_are_wide(k) ? e->u->i64 : e->u->i32;
}

void
be_emit_map_node(Emit *e, const KNode *n)
{
    if (be_emit_load_kept(e, n))
        return;
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
    be_emit_store_kept(e, n);
}

void
be_emit_constant(Emit *e, const KNode *n)
{
    be_emit_set(e, n, 0, 0,
                be_emit_scalar(be_emit_type(e, n->dtype), n->constant));
}

void
be_emit_replica_id(Emit *e, const KNode *n)
{
    Val word = e->lowering->call_word(e, be_kernel_replica_word(e->k));
    be_emit_set(e, n, 0, 0, LLVMBuildTrunc(e->u->builder, word, e->u->i32, ""));
}

void
be_emit_row_start(Emit *e, const KNode *n)
{
    int word = ir_batch_word(n->pair, BATCH_ROW_START);
    be_emit_set(e, n, 0, 0, e->lowering->call_word(e, word));
}
