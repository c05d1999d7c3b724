/*
 * coalesce_handles.c - device values that main carries
 *
 * Main has handles of values on the devices; only launches access their bytes.
 * Where a loop or branch of main carries one, its bytes are moved by launching
 * a program that copies its parameters to its results:
 *
 *   before a loop    the initial values, into the carried bytes
 *   at a yield       first those that are carried values already (a swap), to
 *                    bytes of their own; then all, into the carried bytes
 *
 * So every value at such an edge is a copy made for it, in the bytes of its
 * loop or branch (pass_coalesce_handles), and no further copy is needed.
 */
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "passes/memory/allocate.h"

typedef struct Edge {
    PassCx *cx;
    IrOp *op;     /* whose operands are carried: a loop or a yield */
    int *indices; /* of the operands that are handles */
    int n;
} Edge;

static bool
is_handle(const IrValue *v)
{
    return v->type.locality != LOCAL_HOST;
}

/* A program that copies values of these types. */
static IrFunc *
copy_program(PassCx *cx, int n, IrValue *const *values, const IrType *types,
             Loc loc)
{
    IrModule *m = cx->m;
    const char *name = NULL;
    for (int i = 1; !name || ir_func_find(m, name); i++)
        name = intern(m->names, arena_printf(cx->arena, "main.copy%d", i));
    IrFunc *fn = ir_func_new(m, name, FUNC_PROGRAM, loc);
    IrValue **args = NEW_ARRAY(cx->arena, IrValue *, (size_t)n);
    for (int i = 0; i < n; i++)
        args[i] = ir_block_arg(fn->body, types[i], values[i]->name);
    ir_build_return(fn->body, n, args, loc);
    return fn;
}

/* Copies the edge's operands before its op by one launch. */
static void
copy_at_edge(const Edge *e, const char *what)
{
    if (e->n == 0)
        return;
    Arena *a = e->cx->arena;
    IrValue **from = NEW_ARRAY(a, IrValue *, (size_t)e->n);
    IrType *types = NEW_ARRAY(a, IrType, (size_t)e->n);
    for (int i = 0; i < e->n; i++) {
        from[i] = e->op->operands[e->indices[i]];
        types[i] = from[i]->type;
        if (!is_handle(from[i]))
            types[i].locality = LOCAL_MIRRORED;
    }
    Loc loc = ir_op_loc(e->op);
    IrFunc *program = copy_program(e->cx, e->n, from, types, loc);
    IrBlock *b = ir_block_scratch(e->op);
    IrOp *launch = ir_build_op(b, OP_launch, e->n, from, loc);
    ir_set_text(launch, A_program, program->name);
    ir_op_results(launch, e->n, types);
    ir_stamp(b, ir_reason_for(e->op, "allocate.carry", "%s", what));
    ir_splice_before(e->op, b);
    for (int i = 0; i < e->n; i++)
        e->op->operands[e->indices[i]] = launch->results[i];
}

/* Operands skip .. of op; operand skip + i becomes carried[i].  A host value
 * may become a device value there. */
static Edge
edge_of(PassCx *cx, IrOp *op, int skip, IrValue *const *carried)
{
    Edge e = {.cx = cx, .op = op};
    e.indices = NEW_ARRAY(cx->arena, int, (size_t)op->num_operands);
    for (int i = skip; i < op->num_operands; i++)
        if (is_handle(carried[i - skip]))
            e.indices[e.n++] = i;
    return e;
}

/* The operands of the edge that are arguments of the block, or from outside. */
static Edge
not_made_here(const Edge *e)
{
    Edge r = {.cx = e->cx, .op = e->op};
    r.indices = NEW_ARRAY(e->cx->arena, int, (size_t)e->n);
    for (int i = 0; i < e->n; i++) {
        const IrValue *v = e->op->operands[e->indices[i]];
        if (!v->def || v->def->block != e->op->block)
            r.indices[r.n++] = e->indices[i];
    }
    return r;
}

static void
copy_carried(PassCx *cx, IrOp *op)
{
    if (ir_is_loop(op)) {
        Edge e = edge_of(cx, op, ir_loop(op).first_init, op->results);
        copy_at_edge(&e, "the initial value of what goes round");
    } else if (op->kind == OP_yield && !ir_is_loop_test(op->block)) {
        Edge e = edge_of(cx, op, 0, op->block->op->results);
        Edge held = not_made_here(&e);
        copy_at_edge(&held, "what goes round is needed once more");
        copy_at_edge(&e, "the next value of what goes round");
    }
}

void
pass_insert_handle_copies(PassCx *cx, IrBlock *b)
{
    for (IrOp *op = b->first; op; op = op->next) {
        copy_carried(cx, op);
        if (op->kind != OP_kernel)
            for (int i = 0; i < op->num_regions; i++)
                pass_insert_handle_copies(cx, op->regions[i]);
    }
}

/* The handles among the results of op share the buffers of their sources. */
static void
merge_handles(const IrLifetimes *l, const IrOp *op, IrValue *const *from)
{
    for (int i = 0; i < op->num_results; i++)
        if (is_handle(op->results[i]))
            ir_buffers_merge(ir_buffer_of(l, op->results[i]),
                             ir_buffer_of(l, from[i]));
}

void
pass_coalesce_handles(const IrLifetimes *l, const IrBlock *b)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_kernel)
            continue;
        if (ir_is_loop(op))
            merge_handles(l, op, ir_loop(op).init);
        for (int i = 0; i < op->num_regions; i++) {
            pass_coalesce_handles(l, op->regions[i]);
            if (!ir_is_loop_test(op->regions[i]))
                merge_handles(l, op, ir_block_yield(op->regions[i])->operands);
        }
    }
}
