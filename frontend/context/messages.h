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
/* An error whose repair is made at another place, of which the line is shown.
 */
FeValue *fe_error_show(Lower *cx, Loc loc, Loc place, const char *note,
                       const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What a message is about: a place and the calls around it. */
typedef struct FeOwn {
    Loc loc;
    const IrCall *calls;
    const AstNode *node; /* that is written there; NULL: the library has it */
} FeOwn;
/* Where the program's author wrote what node has (fe_written): a message about
 * an argument of the library is about that.  Else node itself. */
FeOwn fe_own(Lower *cx, const AstNode *node);
/* That of a place that is known alone. */
FeOwn fe_own_at(Lower *cx, Loc loc);
/* The text of its node; NULL if the library has it. */
const char *fe_own_text(Lower *cx, const FeOwn *own);
/* The source at loc with other text in the place of part: "Dense(4, 2)", for a
 * repair.  NULL where it is of several lines or is not known. */
const char *fe_edit(Lower *cx, Loc loc, Loc part, const char *text);
/* The source at loc, as it is written; NULL as above. */
const char *fe_source(Lower *cx, Loc loc);
/* What C's format of len bytes is in a string: "{x:.2f}" of %.2f and x. */
void fe_add_hole(Str *s, const char *format, int len, const char *text);
/* The rest of its line from loc on; NULL if it is not known. */
const char *fe_line_from(Lower *cx, Loc loc);
/* The program's own call of the library that is being lowered. */
FeOwn fe_own_call(Lower *cx);
/* The innermost parameter of that name, of the library, as the program's author
 * wrote it; NULL if nobody did. */
const AstNode *fe_written_name(Lower *cx, const char *name);
/* fe_error_show there; place may be NO_LOC. */
FeValue *fe_error_own(Lower *cx, const FeOwn *own, Loc place, const char *note,
                      const char *format, ...)
    __attribute__((format(printf, 5, 6)));

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
