/*
 * messages.c - errors and warnings with the chain of calls; names and types in
 * words
 */
#include "frontend/context/messages.h"

#include "frontend/context/dispatch.h"
#include "ir/base/message.h"
#include "ir/type_text.h"

static FeValue *
report(Lower *cx, Loc loc, const char *note, const char *format, va_list args)
{
    cx->num_errors++;
    ir_report(cx->diag, loc, cx->module->calls, note,
              message_vprintf(cx->arena, format, args));
    return &fe_poison;
}

FeValue *
fe_error(Lower *cx, Loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FeValue *v = report(cx, loc, NULL, format, args);
    va_end(args);
    return v;
}

FeValue *
fe_error_note(Lower *cx, Loc loc, const char *note, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FeValue *v = report(cx, loc, note, format, args);
    va_end(args);
    return v;
}

FeValue *
fe_report_limit(Lower *cx, Loc loc, LimitId id)
{
    return fe_error_note(cx, loc, limit_note(cx->arena, id), "%s",
                         limit_message(cx->arena, id));
}

FeValue *
fe_stop(Lower *cx, Loc loc, LimitId id)
{
    cx->stopped = true;
    return fe_report_limit(cx, loc, id);
}

bool
fe_may_suggest(const Lower *cx)
{
    return diag_num_errors(cx->diag) < DIAG_MAX_SHOWN;
}

bool
fe_check_rank(Lower *cx, int rank, Loc loc)
{
    if (rank > IR_MAX_RANK)
        fe_error(cx, loc, "more than %d dimensions", IR_MAX_RANK);
    return rank <= IR_MAX_RANK;
}

void
fe_warning(Lower *cx, Loc loc, Loc place, const char *note, const char *format,
           ...)
{
    va_list args;
    va_start(args, format);
    diag_warning(cx->diag, loc, "%s", message_vprintf(cx->arena, format, args));
    va_end(args);
    diag_note(cx->diag, place, "%s", note);
    ir_note_calls(cx->diag, cx->module->calls, NO_LOC);
}

const char *
fe_format(Lower *cx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(cx->arena, format, args);
    va_end(args);
    return text;
}

const char *
fe_side_text(Lower *cx, int side, Loc loc)
{
    const AstNode *n = cx->applied;
    if (!n || !loc_is_same(n->loc, loc) ||
        !loc_is_same(fe_user_loc(cx, loc), loc))
        return NULL;
    return fe_ast_text(cx->arena, side ? n->binary.right : n->binary.left);
}

const char *
fe_unique_name(Lower *cx, Map *taken, const char *base)
{
    const char *name = base;
    int *number = NEW(cx->arena, int), *tried = map_get(taken, base);
    while (tried && map_get(taken, name))
        name = fe_format(cx, "%s.%d", base, ++*tried);
    *number = 1;
    map_set(taken, name, number);
    return intern(cx->names, name);
}

const char *
fe_describe(Lower *cx, const FeValue *v)
{
    return fe_value_describe(cx->arena, cx->module, v);
}

const char *
fe_type_text(Lower *cx, const IrType *t)
{
    return fe_format(cx, "%s%s", dtype_info[t->dtype].name,
                     t->rank ? ir_dims_text(cx->module, t->rank, t->dims) : "");
}

const char *
fe_context_name(FeContext c)
{
    static const char *const names[] = {
        [FE_TOP] = "a declaration",
        [FE_CROSS] = "main",
        [FE_REPLICA] = "replica context",
        [FE_MERGE] = "a merge",
        [FE_CLOSURE] = "a closure",
        [FE_UPDATE] = "an update",
        [FE_DATA] = "a function of a dataset",
        [FE_INIT] = "an initial value",
    };
    return names[c];
}
