/*
 * messages.c - errors and warnings with the chain of calls; names and types in
 * words
 */
#include "frontend/context/messages.h"

#include "frontend/context/dispatch.h"
#include "frontend/context/scope.h"

#include <string.h>
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

/* The repair is shown at its place, which may be NO_LOC. */
static FeValue *
report_own(Lower *cx, const FeOwn *own, Loc place, const char *note,
           const char *text)
{
    Loc loc = ir_own_loc(cx->diag, own->loc, own->calls);
    cx->num_errors++;
    diag_error(cx->diag, loc, "%s", text);
    ir_note_library(cx->diag, own->loc, own->calls, loc);
    if (note && place.line)
        diag_show(cx->diag, place, "%s", note);
    else if (note)
        diag_note(cx->diag, loc, "%s", note);
    ir_note_calls(cx->diag, own->calls, loc);
    return &fe_poison;
}

FeValue *
fe_error_show(Lower *cx, Loc loc, Loc place, const char *note,
              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FeOwn own = fe_own_at(cx, loc);
    FeValue *v = report_own(cx, &own, place, note,
                            message_vprintf(cx->arena, format, args));
    va_end(args);
    return v;
}

/* Those around the program's own call of the library. */
static const IrCall *
own_calls(Lower *cx)
{
    const IrCall *call = cx->module->calls;
    while (call && diag_is_library(cx->diag, call->loc.file))
        call = call->caller;
    return call ? call->caller : NULL;
}

FeOwn
fe_own(Lower *cx, const AstNode *node)
{
    const AstNode *own = fe_written(cx, node);
    return (FeOwn){own ? own->loc : node->loc,
                   own && own != node ? own_calls(cx) : cx->module->calls, own};
}

FeOwn
fe_own_at(Lower *cx, Loc loc)
{
    return (FeOwn){.loc = loc, .calls = cx->module->calls};
}

const char *
fe_own_text(Lower *cx, const FeOwn *own)
{
    return own->node ? fe_ast_text(cx->arena, own->node) : NULL;
}

/* The line of a place from its column on; NULL if there is none. */
static const char *
source_at(const Diag *d, Loc loc)
{
    size_t len;
    const char *text = diag_source_text(d, loc.file, &len);
    const char *at = text, *end = text ? text + len : NULL;
    for (uint32_t line = 1; at && line < loc.line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return at && at + loc.col - 1 + loc.len <= end ? at + loc.col - 1 : NULL;
}

const char *
fe_edit(Lower *cx, Loc loc, Loc part, const char *text)
{
    uint32_t end = loc.col + loc.len, part_end = part.col + part.len;
    const char *from = loc.line ? source_at(cx->diag, loc) : NULL;
    if (!from || !loc_is_within(part, loc))
        return NULL;
    return fe_format(cx, "%.*s%s%.*s", (int)(part.col - loc.col), from, text,
                     (int)(end - part_end), from + (part_end - loc.col));
}

const char *
fe_source(Lower *cx, Loc loc)
{
    Loc none = {loc.line, loc.col, 0, loc.file};
    return fe_edit(cx, loc, none, "");
}

const char *
fe_line_from(Lower *cx, Loc loc)
{
    Loc at = {loc.line, loc.col, 0, loc.file};
    const char *text = loc.line ? source_at(cx->diag, at) : NULL;
    size_t len;
    const char *all = diag_source_text(cx->diag, loc.file, &len);
    size_t n = 0;
    while (text && text + n < all + len && text[n] != '\n')
        n++;
    return text ? fe_format(cx, "%.*s", (int)n, text) : NULL;
}

void
fe_add_hole(Str *s, const char *format, int len, const char *text)
{
    bool is_plain = len == 2 && format[1] != 'f' && format[1] != 'e';
    if (is_plain || strchr("sdi", format[len - 1]))
        str_addf(s, "{%s}", text);
    else
        str_addf(s, "{%s:%.*s}", text, len - 1, format + 1);
}

FeOwn
fe_own_call(Lower *cx)
{
    const IrCall *call = cx->module->calls;
    while (call && diag_is_library(cx->diag, call->loc.file))
        call = call->caller;
    return (FeOwn){.loc = call ? call->loc : NO_LOC,
                   .calls = call ? call->caller : NULL};
}

const AstNode *
fe_written_name(Lower *cx, const char *name)
{
    FeFoundBinding found = fe_find_binding(cx, intern(cx->names, name));
    const FeBinding *b = found.binding;
    if (!b || !b->argument)
        return NULL;
    FeScope *saved = cx->scope;
    cx->scope = b->caller;
    const AstNode *own = fe_written(cx, b->argument);
    cx->scope = saved;
    return own;
}

FeValue *
fe_error_own(Lower *cx, const FeOwn *own, Loc place, const char *note,
             const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FeValue *v = report_own(cx, own, place, note,
                            message_vprintf(cx->arena, format, args));
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
