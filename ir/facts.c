/*
 * facts.c - sizes, bounds and words of types, and what a kernel may overwrite
 */
#include "ir/build.h"

static const IrSymbol *
symbol_of(const IrModule *m, Dim d)
{
    return dim_is_const(d) ? NULL : &m->symbols.data[d.sym];
}

/* The greatest value of d; false if it overflows or the least is negative.
 * Linear: both are at no rows or at the bound. */
static bool
greatest(const IrModule *m, Dim d, int64_t *out)
{
    const IrSymbol *s = symbol_of(m, d);
    int64_t full = d.c;
    if (s && (__builtin_mul_overflow(d.k, s->bound, &full) ||
              __builtin_add_overflow(d.c, full, &full)))
        return false;
    *out = full > d.c ? full : d.c;
    return full >= 0 && d.c >= 0;
}

bool
ir_type_bytes(const IrModule *m, const IrType *t, int64_t *bytes)
{
    int64_t n = (int64_t)dtype_info[t->dtype].bytes, size;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (!greatest(m, t->dims[i], &size))
            return false;
        empty |= size == 0;
        /* Even of nothing, strides are computed. */
        if (size && (__builtin_mul_overflow(n, size, &n) || n > IR_MAX_BYTES))
            return false;
    }
    *bytes = empty ? 0 : n;
    return true;
}

Dim
ir_dim_full(const IrModule *m, Dim d)
{
    const IrSymbol *s = symbol_of(m, d);
    return s ? dim_const(dim_value(d, s->bound)) : d;
}

IrType
ir_type_full(const IrModule *m, const IrType *t)
{
    IrType full = *t;
    for (int i = 0; i < t->rank; i++)
        full.dims[i] = ir_dim_full(m, t->dims[i]);
    return full;
}

bool
ir_type_is_local(const IrModule *m, const IrType *t)
{
    for (int i = 0; i < t->rank; i++) {
        const IrSymbol *s = symbol_of(m, t->dims[i]);
        if (s && !s->global && s->partner >= 0)
            return true;
    }
    return false;
}

const char *
ir_type_text(const IrModule *m, const IrType *t)
{
    Str s = str_new(m->arena);
    ir_print_type(&s, m, t);
    return str_text(&s);
}

const char *
ir_dims_text(const IrModule *m, int rank, const Dim *dims)
{
    Str s = str_new(m->arena);
    ir_print_dims(&s, m, rank, dims);
    return str_text(&s);
}

/* ---- kernels that work in place ----------------------------------------- */

/* Whether every operation of the kernel that sees x makes element i of its
 * result from element i of x; those results are marked like x. */
static bool
is_followed_elementwise(const IrOp *op, const IrType *shape)
{
    bool sees = false;
    for (int i = 0; i < op->num_operands; i++)
        sees |= op->operands[i]->mark != NULL;
    if (!sees)
        return true;
    bool moves =
        !(ir_op_info[op->kind].traits & ELEMENTWISE) && op->kind != OP_copy;
    if (moves || !type_same_shape(&op->results[0]->type, shape))
        return false;
    op->results[0]->mark = op->results[0];
    return true;
}

static void
clear_marks(const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        b->args.data[i]->mark = NULL;
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            op->results[i]->mark = NULL;
    }
}

/* Whether nothing in the kernel uses its parameter o but the scatter, to change
 * its rows. */
static bool
is_scattered_into(const IrOp *scatter, int o)
{
    int uses = 0;
    const IrBlock *b = scatter->block;
    const IrValue *arg = b->args.data[o];
    for (const IrOp *op = b->first; op; op = op->next)
        for (int i = 0; i < op->num_operands; i++)
            uses += op->operands[i] == arg;
    return uses == 1 && scatter->operands[0] == arg;
}

/* Whether a parameter and a result are of the same part. */
static bool
are_of_one_part(const IrOp *kernel, int o, int r)
{
    int parts = ir_kernel_parts(kernel);
    return o * parts / kernel->num_operands == r * parts / kernel->num_results;
}

/* Whether all results are made in the same loops, having one shape; a part's
 * are. */
static bool
has_one_shape(const IrOp *kernel)
{
    if (ir_kernel_parts(kernel) > 1)
        return true;
    for (int i = 1; i < kernel->num_results; i++) {
        if (!type_same_shape(&kernel->results[0]->type,
                             &kernel->results[i]->type))
            return false;
    }
    return true;
}

bool
ir_kernel_may_overwrite(const IrOp *kernel, int o, int r)
{
    const IrBlock *b = kernel->regions[0];
    const IrOp *yield = ir_block_yield(b);
    const IrType *from = &kernel->operands[o]->type;
    const IrType *to = &kernel->results[r]->type;
    bool may = type_same_shape(from, to) &&
               dtype_info[from->dtype].bytes == dtype_info[to->dtype].bytes &&
               are_of_one_part(kernel, o, r);
    const IrOp *made = yield->operands[r]->def;
    if (made && made->kind == OP_scatter && is_scattered_into(made, o))
        return true;
    clear_marks(b);
    b->args.data[o]->mark = b->args.data[o];
    for (const IrOp *op = b->first; may && op != yield; op = op->next)
        may = is_followed_elementwise(op, from);
    /* Another result made from o may be made in later loops. */
    for (int i = 0; may && i < yield->num_operands; i++)
        may = i == r || !yield->operands[i]->mark || has_one_shape(kernel);
    clear_marks(b);
    return may;
}

bool
ir_var_is_own(const IrVar *v)
{
    return v->sync == SYNC_ON_READ || v->type.locality == LOCAL_ON;
}
