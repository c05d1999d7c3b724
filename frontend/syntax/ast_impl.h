/*
 * ast_impl.h - the rows of ast.def as tables
 */
#ifndef TFD_FRONTEND_SYNTAX_AST_IMPL_H
#define TFD_FRONTEND_SYNTAX_AST_IMPL_H

#include <stddef.h>
#include "frontend/syntax/ast.h"

typedef enum AstFieldType {
    AST_FIELD_NODE,
    AST_FIELD_LIST,
    AST_FIELD_NAME,
    AST_FIELD_TEXT,
    AST_FIELD_NUMBER,
    AST_FIELD_OP,
    AST_FIELD_FLAG
} AstFieldType;

typedef struct AstFieldInfo {
    const char *name; /* NULL after the last one */
    AstFieldType type;
    size_t offset; /* in AstNode */
} AstFieldInfo;

/* How tightly a kind of node binds; the levels of operators (1 the loosest)
 * lie between WHOLE and PRIMARY. */
enum {
    AST_LEVEL_PART = -2,
    AST_LEVEL_STMT = -1,
    AST_LEVEL_WHOLE = 0,
    AST_LEVEL_OPERATOR = 1,
    AST_LEVEL_NUMBER = 9, /* 5.x would be a number */
    AST_LEVEL_PRIMARY = 10
};

typedef struct AstKindInfo {
    const char *what, *text;
    int level;
    const AstFieldInfo *fields;
} AstKindInfo;

typedef struct AstOpInfo {
    const char *text;
    int level;
} AstOpInfo;

extern const AstKindInfo fe_ast_kind_info[NUM_AST_KINDS];
extern const AstOpInfo fe_ast_op_info[NUM_AST_OPS];

/* The address of a field of n. */
const void *fe_ast_field(const AstNode *n, const AstFieldInfo *f);

#endif
