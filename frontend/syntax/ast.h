/*
 * ast.h - the tree of a source file
 *
 * ast.def has one row for each kind of node, with a comment on it, and its
 * fields; from the rows come the structs here, fe_ast_next_child and the
 * printer. A call's arguments are n->call.args, an if's condition n->if_.cond.
 *
 * Nodes live in the arena they were parsed into and are not changed after
 * parsing.  Names are interned: compare pointers.
 */
#ifndef TFD_FRONTEND_SYNTAX_AST_H
#define TFD_FRONTEND_SYNTAX_AST_H

#include <stdbool.h>
#include <stdint.h>
#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"

/* No tree is deeper, so that recursion over one is safe.  (Brackets nest at
 * most 256 deep, D16; a bracket can be several levels of the tree, and a sum of
 * many terms is as deep as it is long.) */
enum { AST_MAX_DEPTH = 1024 };

typedef enum AstKind {
#define AST(KIND, member, level, what, text) AST_##KIND,
#define LEAF(KIND, level, what, text) AST_##KIND,
#include "frontend/syntax/ast.def"
    NUM_AST_KINDS
} AstKind;

typedef enum AstOp {
#define AST_OP(NAME, spelling, level) AST_OP_##NAME,
#include "frontend/syntax/ast.def"
    NUM_AST_OPS
} AstOp;

typedef struct AstNode AstNode;

typedef struct AstList {
    AstNode **data;
    int len, cap;
} AstList;

typedef AstNode *AstFieldNODE;
typedef AstList AstFieldLIST;
typedef const char *AstFieldNAME;
typedef const char *AstFieldTEXT;
typedef int64_t AstFieldNUMBER;
typedef AstOp AstFieldOP;
typedef bool AstFieldFLAG;

struct AstNode {
    AstKind kind;
    uint16_t depth; /* 1 for a node without children */
    bool in_parens; /* was written in parentheses */
    /* Where it was written: the whole of it, up to the end of its first line;
     * for a declaration the declared name. */
    Loc loc;
    /* clang-format off */
    union {
#define AST(KIND, member, level, what, text) struct {
#define HAS(member, type, name) AstField##type name;
#define END(member) } member;
#include "frontend/syntax/ast.def"
    };
    /* clang-format on */
};

/* The children of n in the order of ast.def, those that are there:
 *
 *   AstNode *child;
 *   for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
 */
typedef struct AstIter {
    const AstNode *node;
    int field, item;
} AstIter;
AstIter fe_ast_children(const AstNode *n);
AstNode *fe_ast_next_child(AstIter *it);

/* Whether a name stands in n. */
bool fe_ast_mentions(const AstNode *n, const char *name);

/* "a call", "a name": for messages. */
const char *fe_ast_describe(const AstNode *n);
/* "+", "and". */
const char *fe_ast_op_text(AstOp op);
/* Whether n can stand where an expression does. */
bool fe_ast_is_expr(const AstNode *n);

/* The value of a NUMBER that is an integer; false when it does not fit. */
bool fe_ast_int_value(const AstNode *n, int64_t *value);
/* The same of -n, which is one more at most. */
bool fe_ast_negated_value(const AstNode *n, int64_t *value);
/* The value of a NUMBER, rounded to nearest; infinite when it is too large. */
double fe_ast_float_value(const AstNode *n);
/* The characters of a STRING without holes; NULL if it has some. */
const char *fe_ast_string_text(const AstNode *n);

/* Appends n as program text, canonically spaced, indented and parenthesized,
 * without its comments; a PROGRAM prints as a whole file that parses back to
 * the same tree. */
void fe_ast_print(Str *out, const AstNode *n);

/* An expression on one line, as a user would write it, in a. */
const char *fe_ast_text(Arena *a, const AstNode *expr);

#endif
