/*
 * parse.h - from text to tree
 */
#ifndef TFD_FRONTEND_SYNTAX_PARSE_H
#define TFD_FRONTEND_SYNTAX_PARSE_H

#include <stddef.h>
#include <stdint.h>
#include "frontend/syntax/ast.h"
#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"

/*
 * The tree (a PROGRAM) of the source that is number file of d, or NULL when
 * there were syntax errors, all of which are in d then.
 *
 * text is len bytes of anything; the tree refers to copies of it in a, its
 * names are in names, and nothing is kept elsewhere.
 */
AstNode *fe_parse(Arena *a, Intern *names, Diag *d, uint16_t file,
                  const char *text, size_t len);
/* The same, but the tree also where all errors are of lines that do nothing, so
 * that who goes on finds the errors in the rest. */
AstNode *fe_parse_on(Arena *a, Intern *names, Diag *d, uint16_t file,
                     const char *text, size_t len);

#endif
