/*
 * fuse.c - clusters of operations become kernels
 *
 * Every pure operation with code (other than host) ends up in a kernel.  At
 * first each is a cluster of its own.  Clusters are merged where one kernel for
 * both is good (fuse_legal.c) and wanted (fuse_grow.c), and then become kernels
 * (fuse_extract.c).  The kind of an operation plays no role, only its form:
 * whether it is elementwise, reduces or moves elements.
 *
 * Bits do not depend on fusion (D3, D4), which only affects speed.
 *
 * Constants, iota and the like go into every kernel that needs them.  A reshape
 * costs nothing outside kernels, where it is a view; it goes into one only if
 * it would otherwise separate operations of one kernel.
 */
#include <assert.h>
#include "ir/ir.h"
#include "passes/fusion/fuse.h"

bool
pass_fuse_is_computed(const IrOp *op)
{
    return ir_op_info[op->kind].effect == PURE &&
           ir_op_code(op->kind)->in_kernels;
}

bool
pass_fuse_is_free(const IrOp *op)
{
    const IrOp *def;
    switch (op->kind) {
    case OP_constant:
    case OP_iota:
    case OP_dim_size:
    case OP_replica_id:
    case OP_row_start:
        return true;
    default:
        break;
    }
    if (op->kind != OP_broadcast && ir_op_info[op->kind].code != CODE_reshape)
        return false;
    def = op->operands[0]->def;
    return def && pass_fuse_is_free(def);
}

bool
pass_fuse_is_part(const IrOp *op)
{
    return op->kind == OP_take && pass_fuse_is_scalar(&op->operands[1]->type);
}

bool
pass_fuse_is_contraction(const IrOp *op)
{
    return op->kind == OP_dot || op->kind == OP_conv ||
           op->kind == OP_conv_weights;
}

bool
pass_fuse_is_reduction(const IrOp *op)
{
    return (ir_op_info[op->kind].traits & REDUCES) != 0;
}

bool
pass_fuse_is_fusible(const IrOp *op)
{
    unsigned alone = ~(unsigned)(ELEMENTWISE | REDUCES | MOVES | VIEW);
    unsigned traits = ir_op_info[op->kind].traits & ~(unsigned)COMMUTES;
    return pass_fuse_is_computed(op) && op->num_results == 1 &&
           (pass_fuse_is_contraction(op) || op->kind == OP_copy ||
            op->kind == OP_scatter || (traits && !(traits & alone)));
}

bool
pass_fuse_is_scalar(const IrType *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!ir_dim_equal(t->dims[i], ir_dim_const(1)))
            return false;
    return true;
}

/* Inner blocks first: their reads of b's values are then known. */
static void
fuse_block(Fuse *f, IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next)
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                fuse_block(f, op->regions[i]);
    pass_fuse_graph_build(f, b);
    if (f->level > 0)
        pass_fuse_grow(f, b);
    pass_fuse_extract(f, b);
}

bool
pass_fuse(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_replicated);
    Fuse f = {.arena = cx->arena,
              .m = cx->m,
              .level = cx->options->keep_apart ? 0 : cx->options->level,
              .axes = pass_axes_new(cx->arena)};
    for (IrFunc *fn = cx->m->first; fn; fn = fn->next) {
        f.fn = fn;
        fuse_block(&f, fn->body);
        ir_apply_forwards(fn);
    }
    return pass_fuse_check_stored(cx);
}
