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

const IrReason *
ir_reason(IrModule *m, const char *rule, Loc loc, const char *cause, ...)
{
    va_list args;
    va_start(args, cause);
    IrReason *r = NEW(m->arena, IrReason);
    r->rule = intern(m->names, rule);
    r->cause = arena_vprintf(m->arena, cause, args);
    r->loc = loc.line ? loc : line_of_text(m);
    va_end(args);
    return r;
}

static void
stamp(IrOp *op, void *data)
{
    if (!op->reason)
        op->reason = data;
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
