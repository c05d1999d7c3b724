/*
 * memory.c - the start and end of an interpreter, and its memory
 *
 * In a placed module values share memory as allocate says, else each has its
 * own.
 */
#include "ir/type_bounds.h"
#include "tests/ref/interp_impl.h"

#include <string.h>
#include "ir/ir.h"

/* The bytes that places of a space reach to. */
typedef struct Extent {
    const IrModule *m;
    int64_t arena, frame, scratch;
} Extent;

static void
reach(int64_t *extent, const IrModule *m, const IrType *t, int64_t offset)
{
    int64_t bytes = 0;
    ir_type_bytes(m, t, &bytes);
    if (offset + bytes > *extent)
        *extent = offset + bytes;
}

static void
extend_to_value(Extent *e, const IrValue *v, IrFuncKind kind)
{
    bool of_device = kind == FUNC_PROGRAM || v->place.space == SPACE_ROW;
    if (v->place.space == SPACE_FRAME)
        reach(&e->frame, e->m, &v->type, v->place.offset);
    else if (v->place.space == SPACE_ARENA || v->place.space == SPACE_ROW)
        reach(of_device ? &e->arena : &e->scratch, e->m, &v->type,
              v->place.offset);
}

static void
extend_to_op(IrOp *op, void *data)
{
    IrFuncKind kind = op->block->func->kind;
    for (int i = 0; i < op->num_results; i++)
        extend_to_value(data, op->results[i], kind);
    for (int i = 0; i < op->num_regions; i++)
        for (int j = 0; j < op->regions[i]->args.len; j++)
            extend_to_value(data, op->regions[i]->args.data[j], kind);
}

/* Memory with values that nothing has written. */
static char *
spoiled_bytes(Arena *a, int64_t n)
{
    char *bytes = arena_alloc(a, (size_t)n);
    memset(bytes, 0xa5, (size_t)n);
    return bytes;
}

static char **
memories(Interp *in, int64_t bytes)
{
    char **of = NEW_ARRAY(in->arena, char *, (size_t)in->num_replicas);
    for (int r = 0; r < in->num_replicas; r++)
        of[r] = spoiled_bytes(in->arena, bytes);
    return of;
}

/* As many pointers as any function has parameters or results. */
static char ***
pointer_tables(Interp *in)
{
    char ***tables = NEW_ARRAY(in->arena, char **, (size_t)in->num_replicas);
    int most = 0;
    for (IrFunc *fn = in->m->first; fn; fn = fn->next) {
        int num_in = fn->body->args.len;
        int num_out = ir_func_return(fn)->num_operands;
        most = num_in > most ? num_in : most;
        most = num_out > most ? num_out : most;
    }
    for (int r = 0; r < in->num_replicas; r++)
        tables[r] = NEW_ARRAY(in->arena, char *, (size_t)most);
    return tables;
}

static void
make_places(Interp *in)
{
    Extent e = {.m = in->m};
    for (int i = 0; i < in->m->vars.len; i++)
        reach(&e.arena, in->m, &in->m->vars.data[i]->type,
              in->m->vars.data[i]->place.offset);
    for (IrFunc *fn = in->m->first; fn; fn = fn->next)
        ir_walk(fn->body, extend_to_op, &e);
    in->arenas = memories(in, e.arena);
    in->frames = memories(in, e.frame);
    in->scratch = memories(in, e.scratch);
    in->inputs = pointer_tables(in);
    in->outputs = pointer_tables(in);
}

static void
make_var(Interp *in, const IrVar *v, RefTensor *copies)
{
    int64_t dims[IR_MAX_RANK];
    for (int i = 0; i < v->type.rank; i++)
        dims[i] = v->type.dims[i].c;
    for (int r = 0; r < in->num_replicas; r++) {
        if (v->place.space != SPACE_NONE) {
            copies[r].data = in->arenas[r] + v->place.offset;
            copies[r].room = INT64_MAX;
        }
        ref_shape(in->arena, &copies[r], v->type.dtype, v->type.rank, dims);
        memset(copies[r].data, 0,
               (size_t)copies[r].count * dtype_info[v->type.dtype].bytes);
    }
}

Interp *
interp_new(IrModule *m, const InterpOptions *options)
{
    Arena *a = arena_new(NULL, "reference interpreter");
    Interp *in = NEW(a, Interp);
    size_t n = (size_t)m->num_replicas;
    *in = (Interp){.arena = a,
                   .m = m,
                   .options = options,
                   .num_replicas = m->num_replicas};
    in->vars = NEW_ARRAY(a, RefTensor, n * (size_t)m->vars.len);
    in->rows = NEW_ARRAY(a, int64_t, n * (size_t)m->symbols.len);
    in->starts = NEW_ARRAY(a, int64_t, n * (size_t)m->symbols.len);
    in->feeds = NEW_ARRAY(a, Feed, (size_t)m->iters.len);
    in->num_printed = NEW_ARRAY(a, int, n);
    in->saved = map_new(a);
    make_places(in);
    for (int i = 0; i < m->vars.len; i++)
        make_var(in, m->vars.data[i], &in->vars[i * m->num_replicas]);
    return in;
}

void
interp_release(Interp *in)
{
    for (int i = 0; i < in->m->iters.len; i++)
        rt_iter_close(in->feeds[i].it);
    arena_release(in->arena);
}
