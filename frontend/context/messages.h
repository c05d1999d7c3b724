/*
 * messages.h - errors with the chain of calls; values and types in words
 */
#ifndef TFD_FRONTEND_CONTEXT_MESSAGES_H
#define TFD_FRONTEND_CONTEXT_MESSAGES_H

#include "frontend/context/lower.h"

/* An error at loc with the chain of calls as notes; gives POISON. */
FeValue *fe_error(Lower *cx, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error whose note (the repair) comes before the chain of calls. */
FeValue *fe_error_note(Lower *cx, Loc loc, const char *note, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
/* A limit is exceeded: says so, with the option that raises it. */
FeValue *fe_report_limit(Lower *cx, Loc loc, LimitId id);
/* The same, and nothing more is evaluated. */
FeValue *fe_stop(Lower *cx, Loc loc, LimitId id);
/* Whether more suggestions would be shown; making one costs a walk over all
 * names. */
bool fe_may_suggest(const Lower *cx);
/* Whether a value may have that rank; an error if not. */
bool fe_check_rank(Lower *cx, int rank, Loc loc);
/* A warning with a note (the repair) at its place, and the chain of calls. */
void fe_warning(Lower *cx, Loc loc, Loc place, const char *note,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A formatted string in cx->arena, for notes. */
const char *fe_format(Lower *cx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The left (0) or right (1) operand of the operator that is applied at loc, as
 * its author wrote it; NULL if none is, or the library applies it. */
const char *fe_side_text(Lower *cx, int side, Loc loc);
/* base, or base.2, base.3, ...: the first name that is not in taken, where it
 * is from now on. */
const char *fe_unique_name(Lower *cx, Map *taken, const char *base);
/* fe_value_describe, and a type as in the source: "f32[n, 3]". */
const char *fe_describe(Lower *cx, const FeValue *v);
const char *fe_type_text(Lower *cx, const IrType *t);

#endif
