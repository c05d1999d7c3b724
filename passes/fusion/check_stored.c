/*
 * check_stored.c - values that cannot be stored
 *
 * The address of an element is linear in the batch symbols (D1), so an array
 * has one length of a batch at most.  A kernel may compute with a value of
 * shape [n, n] that it keeps to itself, as the differences of all pairs that it
 * sums; what it reads or stores may not be one.
 *
 * Such a value is reported where it comes from: at an operation none of whose
 * operands is one.  There is one report, since others have the same repair.
 */
#include <stdarg.h>
#include "ir/base/message.h"
#include "ir/type_text.h"
#include "passes/fusion/fuse.h"

static bool
can_be_stored(const IrValue *v)
{
    int lengths = 0;
    for (int i = 0; i < v->type.rank; i++)
        lengths += !ir_dim_is_const(v->type.dims[i]);
    return lengths < 2;
}

static const IrValue *
first_wide_operand(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (!can_be_stored(op->operands[i]))
            return op->operands[i];
    return NULL;
}

/* What v, an argument or a result of a kernel, is on the other side; else
 * NULL. */
static const IrValue *
across_kernel(const IrValue *v)
{
    const IrOp *kernel = v->def ? v->def : v->block->op;
    if (!kernel || kernel->kind != OP_kernel)
        return NULL;
    return v->def ? ir_block_yield(kernel->regions[0])->operands[v->index]
                  : kernel->operands[v->index];
}

static const IrValue *
origin_of(const IrValue *v)
{
    const IrValue *before = v;
    while (before) {
        v = before;
        before = across_kernel(v);
        if (!before && v->def)
            before = first_wide_operand(v->def);
    }
    return v;
}

/* An error at what makes v. */
static void __attribute__((format(printf, 4, 5)))
report(PassCx *cx, const IrValue *v, const char *repair, const char *format,
       ...)
{
    va_list args;
    const IrOp *op = v->def ? v->def : v->block->op;
    va_start(args, format);
    ir_report(cx->diag, op ? op->loc : v->block->func->loc,
              op ? op->calls : NULL, repair,
              message_vprintf(cx->arena, format, args));
    va_end(args);
}

static void
refuse(PassCx *cx, const IrValue *v)
{
    const IrValue *origin = origin_of(v);
    report(cx, origin,
           "give all batches one length, with distribute_from(fn(ctx) = "
           "data.batch(ctx.per_replica_batch_size(n), drop_remainder = true))",
           "a value of shape %s cannot be stored: two of its lengths are those "
           "of batches, which may have fewer rows than others",
           ir_dims_text(cx->m, origin->type.rank, origin->type.dims));
}

/* Fills *wrong, unless it is filled, with the first of values that cannot be
 * stored. */
static void
check_values(const IrValue **wrong, IrValue *const *values, int count)
{
    for (int i = 0; i < count && !*wrong; i++)
        if (!can_be_stored(values[i]))
            *wrong = values[i];
}

static void
check_kernel(IrOp *op, void *data)
{
    if (op->kind != OP_kernel)
        return;
    check_values(data, op->operands, op->num_operands);
    check_values(data, op->results, op->num_results);
}

bool
pass_fuse_check_stored(PassCx *cx)
{
    const IrValue *wrong = NULL;
    for (const IrFunc *fn = cx->m->first; fn; fn = fn->next)
        ir_walk(fn->body, check_kernel, &wrong);
    if (wrong)
        refuse(cx, wrong);
    return !wrong;
}
