/*
 * stmt.h - names bound and assigned
 */
#ifndef TFD_FRONTEND_LOWER_STMT_H
#define TFD_FRONTEND_LOWER_STMT_H

#include "frontend/context/scope.h"

/* Whether value is a nest of as many as a tuple has names; an error if not. */
bool fe_check_names(Lower *cx, const AstNode *pattern, const FeValue *value);
/* value, of the type that a let or mut states behind its name; NULL: none. */
FeValue *fe_as_stated(Lower *cx, const AstNode *pattern, const AstNode *type,
                      FeValue *value, Loc loc);
/* Binds the names of a pattern to value; muts become typed values. */
void fe_bind_pattern(Lower *cx, const AstNode *pattern, FeValue *value,
                     bool is_mut);
/* Gives a mut another value of its dtype. */
void fe_assign_mut(Lower *cx, FeBinding *b, FeValue *value, Loc loc);

/* Hints the name of a binding to the IR values it is bound to. */
void fe_name_value(FeValue *v, const char *name);

#endif
