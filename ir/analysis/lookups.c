/*
 * lookups.c - which rows of a variable a program reads
 *
 * All uses of what the program reads of the variable have to be takes along the
 * first axis, in kernels or outside, whose row numbers are a parameter, under
 * any shape and in any integers.
 */
#include "ir/analysis/lookups.h"

#include <string.h>
#include "ir/type_bounds.h"

typedef struct Find {
    Arena *arena;
    const IrFunc *fn;
    const char *var;
    IrLookups *found;
    const IrValue *value; /* a read's, or what it is in a kernel */
} Find;

/* ---- row numbers --------------------------------------------------------- */

/* Whether a cast has the same numbers: u8 is the only dtype without a sign. */
static bool
is_widening(DType from, DType to)
{
    if (from == to)
        return true;
    return dtype_is_int(from) && dtype_is_int(to) &&
           dtype_info[to].bytes > dtype_info[from].bytes;
}

static bool
keeps_numbers(const IrOp *op)
{
    if (op->kind == OP_cast)
        return is_widening(op->operands[0]->type.dtype,
                           op->results[0]->type.dtype);
    return op->kind == OP_reshape || op->kind == OP_copy ||
           op->kind == OP_stop_gradient;
}

/* The value outside that an argument of a kernel's region is. */
static const IrValue *
outside_of(const IrValue *arg)
{
    const IrOp *kernel = arg->block->op;
    if (!kernel || kernel->kind != OP_kernel)
        return NULL;
    for (int i = 0; i < arg->block->args.len; i++)
        if (arg->block->args.data[i] == arg)
            return kernel->operands[i];
    return NULL;
}

/* The parameter of fn that v is; -1: it is none. */
static int
parameter_of(const IrFunc *fn, const IrValue *v)
{
    while (v && (v->def || v->block != fn->body)) {
        if (!v->def)
            v = outside_of(v);
        else if (keeps_numbers(v->def))
            v = v->def->operands[0];
        else
            return -1;
    }
    for (int i = 0; v && i < fn->body->args.len; i++)
        if (fn->body->args.data[i] == v)
            return i;
    return -1;
}

/* ---- uses ---------------------------------------------------------------- */

static void
add_param(const Find *f, int param)
{
    for (int i = 0; i < f->found->params.len; i++)
        if (f->found->params.data[i] == param)
            return;
    VEC_PUSH(f->arena, f->found->params, param);
}

static void
note_take(const Find *f, const IrOp *op)
{
    int param =
        op->operands[1] == f->value ? -1 : parameter_of(f->fn, op->operands[1]);
    if (ir_int(op, A_axis) != 0 || param < 0)
        f->found->whole = op;
    else
        add_param(f, param);
}

static void note_uses(IrOp *op, void *data);

static void
look_into_kernel(const Find *f, const IrOp *kernel, int operand)
{
    Find in = *f;
    IrBlock *region = kernel->regions[0];
    in.value = region->args.data[operand];
    ir_walk(region, note_uses, &in);
}

static void
note_uses(IrOp *op, void *data)
{
    const Find *f = data;
    for (int i = 0; i < op->num_operands && !f->found->whole; i++) {
        if (op->operands[i] != f->value)
            continue;
        if (op->kind == OP_kernel)
            look_into_kernel(f, op, i);
        else if (op->kind == OP_take)
            note_take(f, op);
        else
            f->found->whole = op;
    }
}

static void
note_read(IrOp *op, void *data)
{
    Find *f = data;
    if (op->kind != OP_read || strcmp(ir_text(op, A_var), f->var) != 0)
        return;
    f->found->reads = true;
    f->value = op->results[0];
    ir_walk(f->fn->body, note_uses, f);
}

/* ---- bytes --------------------------------------------------------------- */

int64_t
ir_var_row_bytes(const IrModule *m, const IrVar *var)
{
    int64_t bytes = 0;
    if (!var->type.rank || !var->type.dims[0].c ||
        !ir_type_bytes(m, &var->type, &bytes))
        return 0;
    return bytes / var->type.dims[0].c;
}

/* The most elements of a parameter, on all replicas that have their own. */
static int64_t
most_elements(const IrModule *m, const IrType *t)
{
    int64_t bytes = 0;
    if (!ir_type_bytes(m, t, &bytes))
        return IR_MAX_BYTES;
    bytes /= (int64_t)dtype_info[t->dtype].bytes;
    return t->locality == LOCAL_PER_REPLICA ? bytes * m->num_replicas : bytes;
}

static bool
pays(const IrModule *m, const IrVar *var, int64_t rows)
{
    int64_t each = ir_var_row_bytes(m, var) + IR_ROW_NUMBER_BYTES, bytes, all;
    return var->type.rank && ir_type_bytes(m, &var->type, &all) &&
           !__builtin_mul_overflow(each, rows, &bytes) && bytes < all;
}

IrLookups
ir_lookups_find(Arena *a, const IrFunc *fn, const IrVar *var)
{
    IrLookups found = {0};
    Find f = {.arena = a, .fn = fn, .var = var->name, .found = &found};
    ir_walk(fn->body, note_read, &f);
    for (int i = 0; i < found.params.len; i++)
        found.most += most_elements(
            fn->module, &fn->body->args.data[found.params.data[i]]->type);
    found.pays = pays(fn->module, var, found.most);
    return found;
}
