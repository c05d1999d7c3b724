/*
 * toplevel.h - declarations of other files and of the command line
 */
#ifndef TFD_FRONTEND_TOPLEVEL_TOPLEVEL_H
#define TFD_FRONTEND_TOPLEVEL_TOPLEVEL_H

#include "frontend/context/scope.h"

/* Makes the names of the modules of a USE visible in scope (use.c). */
void fe_use_modules(Lower *cx, FeScope *scope, const AstNode *use);

/* The value that -D gives a const whose value in the file is original, or NULL
 * (define.c). */
FeValue *fe_define_value(Lower *cx, const char *name, const AstNode *original);
/* Asks that all -D are of some const. */
void fe_check_defines(Lower *cx);

#endif
