/*
 * reason.c - why passes inserted operations
 */
#include "ir/ir.h"

/* The line of a reason whose source line is missing.  IR text may leave out
 * source lines; then it is the first line of the text itself. */
static Loc
line_of_text(IrModule *m)
{
    for (int i = 0; i < m->sources.len; i++)
        if (m->sources.data[i] == m->text.file)
            return m->text;
    if (m->text.line)
        VEC_PUSH(m->arena, m->sources, m->text.file);
    return m->text;
}

static IrReason *
make_reason(IrModule *m, const char *rule, Loc loc, const char *cause,
            va_list args)
{
    IrReason *r = NEW(m->arena, IrReason);
    r->rule = intern(m->names, rule);
    r->cause = arena_vprintf(m->arena, cause, args);
    r->loc = loc.line ? loc : line_of_text(m);
    return r;
}

const IrReason *
ir_reason(IrModule *m, const char *rule, Loc loc, const char *cause, ...)
{
    va_list args;
    va_start(args, cause);
    const IrReason *r = make_reason(m, rule, loc, cause, args);
    va_end(args);
    return r;
}

const IrReason *
ir_reason_for(const IrOp *op, const char *rule, const char *cause, ...)
{
    va_list args;
    va_start(args, cause);
    IrReason *r = make_reason(op->module, rule, ir_op_loc(op), cause, args);
    va_end(args);
    r->calls = op->calls;
    return r;
}

Loc
ir_op_loc(const IrOp *op)
{
    const IrFunc *fn = op->block->func;
    for (; op; op = op->block->op)
        if (op->loc.line)
            return op->loc;
    return fn->loc;
}

void
ir_set_reason(IrOp *op, const IrReason *reason)
{
    op->reason = reason;
    if (!op->calls)
        op->calls = reason->calls;
}

static void
stamp(IrOp *op, void *data)
{
    if (!op->reason)
        ir_set_reason(op, data);
}

void
ir_stamp(IrBlock *b, const IrReason *reason)
{
    ir_walk(b, stamp, (void *)reason);
}

static void
inherit_calls(IrOp *op, void *data)
{
    if (!op->calls)
        op->calls = data;
}

void
ir_inherit_calls(IrBlock *b, const IrOp *from)
{
    if (from->calls)
        ir_walk(b, inherit_calls, (void *)from->calls);
}
